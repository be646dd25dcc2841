# PostgreSQL 18 with its server headers: one that is there, else the distribution's packages,
# else a build from Debian's own source package. A build also leaves the sources, whose test
# suites `howdah test` runs; packages do not carry them.

is_postgres_18() {
    local headers
    [[ -x $1 && $("$1" --version 2>/dev/null) == "PostgreSQL 18"* ]] || return 1
    headers=$("$1" --includedir-server) || return 1
    [[ -e $headers/postgres.h && -x $("$1" --bindir)/postgres ]]
}

# Sets HOWDAH_PG_CONFIG and, where sources lie beside it, HOWDAH_PG_SOURCE; or fails.
find_postgres() {
    local candidate built=$base_home/pg18
    HOWDAH_PG_SOURCE=${HOWDAH_PG_SOURCE:-}
    if [[ -n ${HOWDAH_PG_CONFIG:-} ]]; then
        is_postgres_18 "$HOWDAH_PG_CONFIG" ||
            die "HOWDAH_PG_CONFIG=$HOWDAH_PG_CONFIG is not the pg_config of a PostgreSQL 18 with its server headers"
    elif [[ ! -e $built.building ]] && is_postgres_18 "$built/bin/pg_config"; then
        HOWDAH_PG_CONFIG=$built/bin/pg_config
    else
        HOWDAH_PG_CONFIG=
        for candidate in /usr/lib/postgresql/18/bin/pg_config "$(command -v pg_config || true)"; do
            if is_postgres_18 "$candidate"; then
                HOWDAH_PG_CONFIG=$candidate
                break
            fi
        done
        [[ -n $HOWDAH_PG_CONFIG ]] || return 1
    fi
    candidate=$(dirname -- "$(dirname -- "$HOWDAH_PG_CONFIG")")/src
    if [[ -z $HOWDAH_PG_SOURCE && -d $candidate/src/test/regress ]]; then HOWDAH_PG_SOURCE=$candidate; fi
    return 0
}

ensure_postgres() {
    find_postgres && return 0
    # One builder at a time; whoever waited finds the work done.
    exec 9>"$base_home/.postgres.lock"
    flock 9
    if ! find_postgres; then
        command -v apt-get >/dev/null ||
            die "PostgreSQL 18 is needed: install it with its server headers and set HOWDAH_PG_CONFIG"
        if may_install; then refresh_lists; fi
        if apt_has postgresql-18 && apt_has postgresql-server-dev-18; then
            install_postgres_packages
        elif grep -qs '^ID=debian' /etc/os-release; then
            build_postgres
        else
            die "this distribution has no PostgreSQL 18: add the PostgreSQL project's own apt repository, run 'apt-get install postgresql-18 postgresql-server-dev-18', then run this again (or set HOWDAH_PG_CONFIG)"
        fi
        find_postgres || die "PostgreSQL 18 was set up but cannot be found; run './howdah doctor'"
    fi
    exec 9>&-
}

apt_has() {
    local candidate
    candidate=$(apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
    [[ -n $candidate && $candidate != "(none)" ]]
}

# Debian's package would create and start a cluster of the system's; we want the programs only.
install_postgres_packages() {
    local switch=/etc/postgresql-common/createcluster.d/howdah.conf
    local -a as_root=()
    if [[ $(id -u) -ne 0 ]]; then as_root=(sudo); fi
    install_packages postgresql-common
    "${as_root[@]}" mkdir -p "${switch%/*}"
    printf 'create_main_cluster = false\n' | "${as_root[@]}" tee "$switch" >/dev/null
    install_packages postgresql-18 postgresql-server-dev-18
    "${as_root[@]}" rm -f "$switch"
}

build_postgres() {
    local prefix=$base_home/pg18 archive
    need_disk "$base_home" 3 "building PostgreSQL"
    install_packages "${postgres_build_packages[@]}"
    logged postgres-source "fetching PostgreSQL's source package" fetch_postgres_source
    archive=$(newest_source_archive)
    [[ -n $archive ]] || die "the source package of PostgreSQL 18 did not arrive; see $HOWDAH_CACHE/logs/postgres-source.log"
    : >"$prefix.building"
    rm -rf -- "$prefix"
    mkdir -p -- "$prefix/src"
    logged postgres-unpack "unpacking ${archive##*/}" tar -xf "$archive" -C "$prefix/src" --strip-components=1
    logged postgres-configure "configuring PostgreSQL" configure_postgres "$prefix"
    logged postgres-make "building PostgreSQL (about five minutes on two cores)" make -s -j"$(nproc)" -C "$prefix/src"
    logged postgres-install "installing PostgreSQL under $prefix" install_postgres "$prefix/src"
    rm -f -- "$prefix.building"
}

# apt with lists, cache and sources of our own: the system's are not touched, and the
# archive's signature is checked as always.
private_apt() {
    local place=$HOWDAH_CACHE/apt
    apt-get -o Dir::Etc::sourcelist="$place/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$place/lists" -o Dir::Cache="$place/cache" "$@"
}

# The steps below run under `logged`, where `set -e` is off: each says itself what follows what.

fetch_postgres_source() {
    local place=$HOWDAH_CACHE/apt mirror
    # shellcheck disable=SC2016  # apt's own variable
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -v security | grep -E '/debian/?$' | head -n 1)
    if [[ -z $mirror ]]; then
        echo "apt is configured with no Debian mirror to fetch a source package from"
        return 1
    fi
    mkdir -p -- "$place/lists/partial" "$place/cache/archives/partial" "$place/source" || return
    printf 'deb-src [signed-by=%s] %s forky main\n' \
        /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" >"$place/sources.list"
    private_apt update && cd -- "$place/source" && private_apt source --download-only postgresql-18
}

newest_source_archive() {
    find "$HOWDAH_CACHE/apt/source" -name 'postgresql-18_*.orig.tar.*' ! -name '*.asc' 2>/dev/null | sort -V | tail -n 1
}

configure_postgres() {
    cd -- "$1/src" && ./configure --prefix="$1" --with-lz4 --with-zstd --with-icu --with-ssl=openssl --enable-debug CFLAGS='-O2 -g'
}

install_postgres() {
    make -s -C "$1" install &&
        make -s -C "$1/contrib" install &&
        make -s -C "$1/src/test/regress" &&
        make -s -C "$1/src/test/isolation" &&
        make -s -C "$1/src/test/isolation" install
}
