# shellcheck shell=bash
# What the scripts share. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Where the lab's programs are: built with profile `lab`, or said by SLUICE_BIN.
# shellcheck disable=SC2034  # the scripts that source this use it
bin=${SLUICE_BIN:-${CARGO_TARGET_DIR:-$root/target}/lab}

say() { printf '%s\n' "$*"; }
step() { printf '== %s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# The comment block at the top of the calling script is its help.
help() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
    exit 0
}

need_root() {
    [ "$(id -u)" = 0 ] || die "needs root: it makes network namespaces. Try: sudo -E $0"
}

# Builds the daemon, the client and the lab's helpers, unless the caller brought them.
build_programs() {
    [ -z "${SLUICE_BIN:-}" ] || return 0
    (cd "$root" && cargo build --profile lab -p dataplane -p controlplane -p traffic -p tests --bins)
}
