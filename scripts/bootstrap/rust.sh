# Rust: the one at hand if it is new enough, else a toolchain by rustup.

rust_needed=1.95.0

rust_is_new_enough() {
    local version
    version=$(rustc --version 2>/dev/null | awk '{ print $2 }') || return 1
    [[ -n $version ]] && command -v cargo >/dev/null || return 1
    [[ $(printf '%s\n%s\n' "$rust_needed" "${version%%-*}" | sort -V | head -n 1) == "$rust_needed" ]]
}

# Leaves a good enough cargo first on PATH, or fails.
find_rust() {
    rust_is_new_enough && return 0
    if [[ -x ${HOME:-/root}/.cargo/bin/cargo ]]; then
        PATH=${HOME:-/root}/.cargo/bin:$PATH
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
    if ! command -v rustup >/dev/null && command -v apt-cache >/dev/null; then
        may_install && refresh_lists
        if [[ -n $(apt-cache search --names-only '^rustup$') ]]; then install_packages rustup; fi
    fi
    command -v rustup >/dev/null ||
        die "Rust $rust_needed or newer is needed, and this distribution has neither it nor rustup: install rustup as its home page says, then run this again"
    logged rustup "installing Rust $rust_needed" \
        rustup toolchain install "$rust_needed" --profile minimal --component rustfmt --component clippy
    find_rust || die "rustup installed Rust $rust_needed, but rustc still is not it; see '$(command -v rustup) show'"
}
