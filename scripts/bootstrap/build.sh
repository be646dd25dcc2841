# Builds Howdah, and puts the extension's files where the instance's server finds them.

# The whole workspace: any smaller selection of packages would choose other features of the
# dependencies, and `howdah test` would build those all over again. Of its programs only one test
# is built, the smallest: without a test among the targets cargo leaves the features out that only
# tests ask for (docs/decisions/0005-one-cargo-selection.md).
selection=(--workspace --test arrows)

build_howdah() {
    if [[ ! -x $cli_binary ]]; then
        need_disk "$CARGO_TARGET_DIR" 6 "building Howdah" CARGO_TARGET_DIR
    fi
    export PGRX_PG_CONFIG_PATH=$HOWDAH_PG_CONFIG
    run_cargo "building Howdah" --lib --bins
}

# The command alone, where the library is another build's: no PostgreSQL is needed for it.
build_command() { run_cargo "building the howdah command" --bins; }

run_cargo() {
    local title=$1
    shift
    export CARGO_TARGET_DIR
    logged cargo-build "$title" \
        cargo build --locked --manifest-path "$root/Cargo.toml" "${selection[@]}" "$@"
}

# Replaces a file in one step, and only when it differs: a running server keeps the old one
# mapped, and `howdah up` sees by its age that it must restart. Two commands at once, each with a
# copy of its own, leave one of them whole.
place_file() {
    local source=$1 target=$2
    local copy=$target.new.$$
    cmp -s -- "$source" "$target" && return 0
    install -m 644 -- "$source" "$copy"
    mv -f -- "$copy" "$target"
}

install_extension_files() {
    local extension=$root/crates/extension file
    local library=$HOWDAH_HOME/ext/lib share=$HOWDAH_HOME/ext/share/extension
    mkdir -p -- "$library" "$share"
    chmod 755 -- "$HOWDAH_HOME/ext" "$library" "$HOWDAH_HOME/ext/share" "$share"
    place_file "$CARGO_TARGET_DIR/debug/libhowdah.so" "$library/howdah.so"
    for file in "$extension/howdah.control" "$extension"/sql/*.sql; do
        [[ -e $file ]] || die "the extension's file $file is missing from this checkout"
        place_file "$file" "$share/${file##*/}"
    done
}
