# shellcheck shell=bash disable=SC2154
# `scripts/bench traffic`. Sourced; the caller sets root and bin.

# A director of its own on the first core, the tester on the last; both go in the end.
traffic() {
    local dir director words=("$@")
    [ "${1:-}" != --help ] || help
    [ $# -gt 0 ] || words=(run --life cycle)
    build_programs >&2
    dir=$(mktemp -d)
    # shellcheck disable=SC2064  # the directory as it is now
    trap "rm -rf '$dir'" EXIT
    cat >"$dir/sluice.toml" <<END
[director]
lcores      = [$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')]
connections = "256k"
socket      = "$dir/control.sock"

[[port]]
name      = "p0"
device    = "net_memif0,role=server,socket=$dir/memif.sock,socket-abstract=no"
addresses = ["192.0.2.2/24"]

[[service]]
name      = "web"
listen    = "tcp 192.0.2.10:80"
scheduler = "wlc"
forward   = "dr"
servers   = [{ address = "192.0.2.11" }, { address = "192.0.2.12" }, { address = "192.0.2.13" }]
END
    "$bin/sluiced" --config "$dir/sluice.toml" --no-huge >"$dir/log" 2>&1 &
    director=$!
    # shellcheck disable=SC2064  # the process as it is now
    trap "kill $director 2>/dev/null && wait $director; rm -rf '$dir'" EXIT
    trap 'exit 130' INT TERM
    for _ in $(seq 300); do
        ! grep -q ready "$dir/log" || break
        kill -0 "$director" 2>/dev/null || { cat "$dir/log" >&2 && die "sluiced did not start"; }
        sleep 0.1
    done
    "$bin/sluice-traffic" "${words[@]}" --no-huge \
        --server 192.0.2.11 --server 192.0.2.12 --server 192.0.2.13 \
        --tx "net_memif0,role=client,socket=$dir/memif.sock,socket-abstract=no"
}
