# How the launcher talks: plain lines on stderr, and a log file for whatever takes long.

say() { printf 'howdah: %s\n' "$*" >&2; }

die() {
    printf 'howdah: %s\n' "$*" >&2
    exit 1
}

# The columns of the terminal that stderr is; 80 where it does not tell.
terminal_columns() {
    local columns
    columns=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2) || true
    ((columns > 0)) || columns=80
    printf '%s\n' "$columns"
}

# Shows that a logged step is alive: the seconds and its last line of output on a terminal,
# a plain line a minute elsewhere.
watch_log() {
    local title=$1 log=$2 started=$SECONDS next=60 line
    # If the launcher is killed, nothing else ends this.
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        if [[ -t 2 ]]; then
            # A line that wraps could not be overwritten.
            line="  $((SECONDS - started))s  $title  $(tail -n 1 -- "$log" 2>/dev/null | tr -d '\r')"
            printf '\r\033[K%s' "${line:0:$(terminal_columns)-1}" >&2
        elif ((SECONDS - started >= next)); then
            say "$title: still at it after $((SECONDS - started)) s"
            ((next += 60))
        fi
    done
}

# logged NAME TITLE COMMAND...: runs a command with its output in NAME's log; on failure
# prints the end of the log and where the whole of it is.
logged() {
    local name=$1 title=$2 log watcher status=0 started=$SECONDS
    shift 2
    log="$HOWDAH_CACHE/logs/$name.log"
    mkdir -p -- "$HOWDAH_CACHE/logs"
    : >"$log"
    watch_log "$title" "$log" &
    watcher=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
    if ((status != 0)); then
        tail -n 25 -- "$log" >&2
        die "$title failed (exit $status); the whole log is $log"
    fi
    if ((SECONDS - started >= 2)); then say "$title: done in $((SECONDS - started)) s"; fi
}

# need_disk DIRECTORY GIGABYTES PURPOSE: stops early where a later step would stop half-way.
need_disk() {
    local free_kilobytes
    free_kilobytes=$(df -Pk -- "$1" | awk 'NR == 2 { print $4 }')
    if ((free_kilobytes < $2 * 1024 * 1024)); then
        die "$3 needs $2 GB free under $1, and $((free_kilobytes / 1024)) MB are: free some space, or point ${4:-HOWDAH_HOME} elsewhere"
    fi
}
