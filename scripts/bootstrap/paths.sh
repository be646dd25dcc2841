# Where everything lives. PostgreSQL refuses to run as root, so root's instance lives where an
# unprivileged system user can reach it; everybody else's lives in their own data directory.

choose_paths() {
    local user_home=${HOME:-/root}
    if [[ $(id -u) -eq 0 ]]; then
        # `su` leaves root its caller's PATH, which may have neither useradd nor what dpkg needs.
        PATH=$PATH:/usr/sbin:/sbin
        base_home=/var/lib/howdah
    else
        base_home=${XDG_DATA_HOME:-$user_home/.local/share}/howdah
    fi
    HOWDAH_HOME=${HOWDAH_HOME:-$base_home}
    HOWDAH_CACHE=${XDG_CACHE_HOME:-$user_home/.cache}/howdah
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$HOWDAH_CACHE/target}
    cli_binary=$CARGO_TARGET_DIR/debug/howdah-cli
}

make_directories() {
    local directory
    for directory in "$@"; do
        mkdir -p -- "$directory" 2>/dev/null ||
            die "cannot create $directory: no right to write there; set HOWDAH_HOME (or XDG_CACHE_HOME) to a directory of yours"
    done
}

# What a build needs, without a server.
make_build_homes() { make_directories "$HOWDAH_CACHE/logs" "$CARGO_TARGET_DIR"; }

make_homes() {
    make_directories "$base_home" "$HOWDAH_HOME"
    make_build_homes
    if [[ $(id -u) -eq 0 ]]; then
        # The server runs as this user, which must be able to walk to the homes.
        chmod 755 -- "$base_home" "$HOWDAH_HOME"
        if ! id -u howdah >/dev/null 2>&1; then
            useradd --system --no-create-home --home-dir "$base_home" --shell /usr/sbin/nologin howdah ||
                die "cannot create the system user 'howdah' that the server runs as"
            say "created the system user 'howdah'; servers run as it"
        fi
    fi
}
