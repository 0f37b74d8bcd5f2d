# shellcheck shell=bash disable=SC2154
# Loads of scripts/demo and what came of them. Sourced; the caller sets name, state and bin.

held=() # file descriptors: closing one ends a lab-hold

in_ns() { ip netns exec "$name-$1" "${@:2}"; }
ctl() { "$bin/sluicectl" --socket "$state/control.sock" "$@"; }

# Open connections of real server $1 in nginx's own words, without the one that asks.
open_at() {
    in_ns c1 curl -s -m 5 "http://192.0.2.1$1/status" | awk 'NR == 1 { print $3 - 1 }'
}

# tally "REQUESTS FAILED": adds a line to the mode's account; loads run in subshells.
tally() { say "$1" >>"$state/tally"; }

# new_connections VIP COUNT: a connection for each request, half of them from each client.
new_connections() {
    local half=$(($2 / 2)) client good
    for client in c1 c2; do
        good=$(in_ns $client curl -s -m 5 -o /dev/null -w '%{http_code}\n' \
            -H 'Connection: close' "http://$1/?[1-$half]" | grep -c '^200$' || true)
        tally "$good $((half - good))"
    done
}

# requests_for VIP SECONDS: kept-alive connections of both clients at once.
requests_for() {
    local client
    for client in c1 c2; do
        in_ns $client wrk -t1 -c20 "-d${2}s" "http://$1/" >"$state/wrk-$client.log" 2>&1 &
    done
    wait
    for client in c1 c2; do wrk_tally "$state/wrk-$client.log"; done
}

# hold VIP COUNT: opens connections, half of them from each client, and keeps them.
hold() {
    local client fd
    for client in c1 c2; do
        log=$state/held-${#held[@]}.log
        # The pipe's end is the order to stop: see lab-hold.
        exec {fd}> >(in_ns $client "$bin/lab-hold" "$1:80" $(($2 / 2)) >"$log" 2>&1)
        held+=("$fd")
        await held "$log"
    done
}

# release: asks once more on each held connection, then closes all.
release() {
    local fd log
    for fd in "${held[@]}"; do exec {fd}>&-; done
    for log in "$state"/held-*.log; do
        await alive "$log"
        tally "$(awk '/^held/ { h = $2; f = $4 } /^alive/ { print h + $2, f + h - $2 }' "$log")"
        rm "$log"
    done
    held=()
}

# await WORD FILE: until a line of the file begins with the word.
await() {
    for _ in {1..600}; do
        grep -q "^$1" "$2" 2>/dev/null && return
        sleep 0.1
    done
    die "no '$1' in $2: $(tail -3 "$2")"
}

# Socket errors and answers other than 2xx and 3xx of a wrk report are failures; no report is one.
wrk_tally() {
    tally "$(awk '
        / requests in / { requests = $1; seen = 1 }
        /Socket errors/ { gsub(",", ""); failed += $4 + $6 + $8 + $10 }
        /Non-2xx/ { failed += $NF }
        END { print requests + 0, failed + !seen }' "$1")"
}

# table TITLE WEIGHT...: each server's share of the connections that are open now.
table() {
    local title=$1 sum=0 weights=0 i open=()
    shift
    for i in 1 2 3; do
        open[i]=$(open_at $i)
        sum=$((sum + open[i]))
    done
    for i; do weights=$((weights + i)); done
    say "$title"
    printf '  %-8s %8s %6s %10s %10s\n' server weight open share want
    for i in 1 2 3; do
        awk -v n="${open[i]}" -v sum="$sum" -v w="${!i}" -v all="$weights" -v s="web-$i" 'BEGIN {
            printf "  %-8s %8d %6d %8.1f %% %8.1f %%\n", s, w, n, 100 * n / (sum ? sum : 1), 100 * w / all }'
    done
}

# totals MODE: closes the account of a mode.
totals() { mv "$state/tally" "$state/tally-$1"; }

# summary MODE: its one line, and the sum of failures over all modes.
summary() {
    local requests failed
    read -r requests failed < <(awk '{ r += $1; f += $2 } END { print r, f }' "$state/tally-$1")
    say "$1: $requests requests, $failed failed"
    failed_in_all=$((failed_in_all + failed))
}

look_around() {
    cat <<TEXT

The lab stays up. Look around:
  $bin/sluicectl --socket $state/control.sock service list
  $bin/sluicectl --socket $state/control.sock stats --rate
  ip netns exec $name-c1 curl http://192.0.2.10/
  ip netns exec $name-d tcpdump -eni eth0 port 80 or proto 4
  $root/scripts/lab status --name $name       (logs: $state)
Remove it:
  $root/scripts/lab down --name $name
TEXT
}
