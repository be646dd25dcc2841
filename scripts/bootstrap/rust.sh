# Rust: the one at hand if it is new enough, else a toolchain by rustup.

rust_needed=1.95.0
rustup_version=1.28.2

rust_is_new_enough() {
    local version
    version=$(rustc --version 2>/dev/null | awk '{ print $2 }') || return 1
    [[ -n $version ]] && command -v cargo >/dev/null || return 1
    [[ $(printf '%s\n%s\n' "$rust_needed" "${version%%-*}" | sort -V | head -n 1) == "$rust_needed" ]]
}

# Leaves a good enough cargo first on PATH, or fails.
find_rust() {
    rust_is_new_enough && return 0
    if [[ -x ${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo ]]; then
        PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
        export PATH
        rust_is_new_enough && return 0
    fi
    if command -v rustup >/dev/null; then
        RUSTUP_TOOLCHAIN=$rust_needed rustc --version >/dev/null 2>&1 || return 1
        export RUSTUP_TOOLCHAIN=$rust_needed
        rust_is_new_enough && return 0
    fi
    return 1
}

ensure_rust() {
    find_rust && return 0
    if ! command -v rustup >/dev/null; then ensure_rustup; fi
    logged rust-toolchain "installing Rust $rust_needed" \
        rustup toolchain install "$rust_needed" --profile minimal --component rustfmt --component clippy
    find_rust || die "rustup installed Rust $rust_needed, but rustc still is not it; see '$(command -v rustup) show'"
}

# rustup from the distribution where it has one, else (Debian 12) the Rust project's own installer.
ensure_rustup() {
    if command -v apt-cache >/dev/null; then
        may_install && refresh_lists
        if [[ -n $(apt-cache search --names-only '^rustup$') ]]; then
            install_packages rustup
            return
        fi
    fi
    command -v curl >/dev/null || install_packages curl ca-certificates
    logged rustup "installing rustup $rustup_version" install_rustup
    PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
    export PATH
    command -v rustup >/dev/null ||
        die "rustup could not be installed: install it as its home page says, then run this again"
}

# The installer of a fixed version, run only if it is the one known here. It leaves the shell's
# start-up files alone. RUSTUP_UPDATE_ROOT names a mirror, as it does for rustup itself.
install_rustup() {
    local machine sum installer
    machine=$(uname -m)
    case $machine in
        x86_64) sum=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c ;;
        aarch64) sum=e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c ;;
        *)
            echo "no rustup is known for $machine"
            return 1
            ;;
    esac
    installer=$HOWDAH_CACHE/rustup-init
    curl --proto '=https' --tlsv1.2 --silent --show-error --fail --location --output "$installer" \
        "${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}/archive/$rustup_version/$machine-unknown-linux-gnu/rustup-init" &&
        printf '%s  %s\n' "$sum" "$installer" | sha256sum --check --status || return
    chmod 755 -- "$installer" &&
        "$installer" -y --no-modify-path --profile minimal --default-toolchain none &&
        rm -f -- "$installer"
}
