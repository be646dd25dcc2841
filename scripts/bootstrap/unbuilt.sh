# What `down`, `status`, `psql` and `doctor` answer where the howdah command has not been built yet:
# they look, and change nothing.

# Returns where there is an instance: its server is the command's, which must be built then.
answer_unbuilt() {
    if [[ $1 == doctor ]]; then doctor_unbuilt; fi
    if [[ -e $HOWDAH_HOME/data/PG_VERSION ]]; then return 0; fi
    case $1 in
        down)
            echo "not running"
            exit 0
            ;;
        status)
            echo "server      not made yet; ./howdah up sets up what is missing, and starts it"
            exit 3
            ;;
        psql) die "the server is not running; ./howdah up sets up what is missing, and starts it" ;;
    esac
}

finding() {
    printf '%-4s  %-16s %s\n' "$1" "$2" "$3"
    if [[ $1 != ok ]]; then printf '      %-16s cure: %s\n' '' "$4"; fi
}

doctor_unbuilt() {
    local -a missing=()
    if command -v dpkg-query >/dev/null; then mapfile -t missing < <(missing_packages "${build_packages[@]}"); fi
    if ((${#missing[@]} > 0)); then
        finding FAIL packages "missing: ${missing[*]}" "./howdah up, or: sudo apt-get install ${missing[*]}"
    else
        finding ok packages "those of the build are there"
    fi
    if find_rust; then
        finding ok rust "$(rustc --version)"
    else
        finding FAIL rust "no Rust $rust_needed or newer was found" "./howdah up installs it"
    fi
    if find_postgres; then
        finding ok postgres "$("$HOWDAH_PG_CONFIG" --version) in $("$HOWDAH_PG_CONFIG" --bindir)"
    else
        finding FAIL postgres "no PostgreSQL 18 with its server headers was found" "./howdah up installs or builds it"
    fi
    finding FAIL howdah "is not built yet, so that no more can be checked" "./howdah up builds it"
    exit 1
}
