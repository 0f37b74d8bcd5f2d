# shellcheck shell=bash disable=SC2154
# The members of the lab, one function each. Sourced by scripts/lab, which sets name, state and bin.

vips=(192.0.2.10 192.0.2.20 198.51.100.10)

in_ns() { ip netns exec "$name-$1" "${@:2}"; }
# set_sysctl MEMBER KEY=VALUE...
set_sysctl() { in_ns "$1" sysctl -qw "${@:2}"; }

# One namespace with eth0 on the bridge: member MAC
join() {
    ip netns add "$name-$1"
    set_sysctl "$1" net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.ip_forward=0
    ip -n "$name-$1" link set lo up
    ip link add eth0 netns "$name-$1" address "$2" type veth \
        peer name "port-$1" netns "$name-sw"
    # Partial checksums and super-frames must not reach the director: no offloads on either end.
    in_ns "$1" ethtool -K eth0 tx off tso off gso off gro off >/dev/null 2>&1
    in_ns sw ethtool -K "port-$1" tx off tso off gso off gro off >/dev/null 2>&1
    ip -n "$name-sw" link set "port-$1" master br0 up
    ip -n "$name-$1" link set eth0 up
}

client() {
    join "c$1" "02:00:00:00:0c:0$1"
    ip -n "$name-c$1" addr add "192.0.2.10$1/24" dev eth0
    ip -n "$name-c$1" route add 198.51.100.0/24 via 192.0.2.2
    set_sysctl "c$1" net.ipv4.ip_local_port_range='10000 65000'
}

server() {
    join "s$1" "02:00:00:00:05:0$1"
    set_sysctl "s$1" net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
        net.core.somaxconn=4096
    ip -n "$name-s$1" addr add "192.0.2.1$1/24" dev eth0
    # Clients send segments that still fit the link inside an IPIP header.
    ip -n "$name-s$1" route replace 192.0.2.0/24 dev eth0 src "192.0.2.1$1" advmss 1440
    for vip in "${vips[@]}"; do ip -n "$name-s$1" addr add "$vip/32" dev lo; done
    if ip -n "$name-s$1" link add ipip0 type ipip local "192.0.2.1$1" 2>/dev/null; then
        ip -n "$name-s$1" link set ipip0 up
    else
        # A plain command: a function in the background would be a shell with the ERR trap of `up`.
        ip netns exec "$name-s$1" "$bin/lab-decap" </dev/null >"$state/decap-$1.log" 2>&1 &
        disown
    fi
    start_nginx "$1"
}

start_nginx() {
    local dir=$state/web-$1
    mkdir "$dir"
    head -c 102400 /dev/zero | tr '\0' "$1" >"$dir/100k"
    sed -e "s|@DIR@|$dir|g" -e "s|@NAME@|web-$1|g" "$root/scripts/lib/nginx.conf" >"$dir/nginx.conf"
    in_ns "s$1" nginx -e "$dir/error.log" -c "$dir/nginx.conf"
}
