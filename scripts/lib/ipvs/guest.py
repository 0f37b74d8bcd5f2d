"""Plays histories against the guest kernel's IPVS and writes down its picks.

Namespaces: cl (clients 192.168.1.10-200, fd00:1::a-c8), lb (the director; virtual addresses
192.168.1.100, 192.168.2.0/24, fd00:1::100), rs (servers 10.0.0.11-200, fd00:2::b-c8). NAT."""
import errno, json, os, resource, selectors, socket, struct, subprocess, sys

VIP = "192.168.1.100"
CLIENTS, SERVERS = range(10, 200), range(11, 200)


def sh(script):
    subprocess.run(["sh", "-ec", script], check=True)


def topology():
    for module in ("veth", "ip_vs", "sch_ingress", "cls_u32", "act_skbedit"):
        sh(f"modprobe {module}")
    sh("for n in cl lb rs; do ip netns add $n; ip -n $n link set lo up; done\n"
       "for n in cl rs; do ip link add $n netns lb type veth peer name eth0 netns $n\n"
       "ip -n lb link set $n up; ip -n $n link set eth0 up; done\n"
       "ip -n lb addr add 192.168.1.1/24 dev cl; ip -n lb addr add 10.0.0.1/24 dev rs\n"
       "ip -n lb -6 addr add fd00:1::1/64 dev cl nodad; ip -n lb -6 addr add fd00:2::1/64 dev rs nodad\n"
       "ip -n lb addr add 192.168.1.100/32 dev lo; ip -n lb -6 addr add fd00:1::100/128 dev lo nodad\n"
       "ip -n lb route add local 192.168.2.0/24 dev lo\n"
       "ip netns exec lb sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'\n"
       "ip netns exec lb tc qdisc add dev cl clsact")
    batch = {"cl": [], "rs": []}
    for ns, v4, v6, hosts in (("cl", "192.168.1", "fd00:1::", CLIENTS), ("rs", "10.0.0", "fd00:2::", SERVERS)):
        for host in hosts:
            if (ns, host) != ("cl", 100):
                batch[ns] += [f"addr add {v4}.{host}/24 dev eth0", f"addr add {v6}{host:x}/64 dev eth0 nodad"]
    batch["cl"] += ["route add 192.168.2.0/24 via 192.168.1.1", "route add fd00:1::100/128 via fd00:1::1"]
    batch["cl"] += ["route add 192.168.1.100/32 via 192.168.1.1"]
    batch["rs"] += ["route add default via 10.0.0.1", "route add default via fd00:2::1"]
    for ns, lines in batch.items():
        subprocess.run(["ip", "-n", ns, "-batch", "-"], input="\n".join(lines), text=True, check=True)


def serve(ports):
    """Runs in rs: tells each client which address and port it reached."""
    poll = selectors.DefaultSelector()
    for port in ports:
        s = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
        s.setblocking(False)
        poll.register(s, selectors.EVENT_READ, "door")
    open("/tmp/ready", "w").close()
    while True:
        for key, _ in poll.select():
            if key.data == "door":
                try:
                    c, _ = key.fileobj.accept()
                    name = c.getsockname()
                    c.sendall(("%s %d\n" % (name[0].removeprefix("::ffff:"), name[1])).encode())
                except OSError:
                    continue
                c.setblocking(False)
                poll.register(c, selectors.EVENT_READ, "guest")
            else:
                try:
                    more = key.fileobj.recv(4096)
                except OSError:
                    more = b""
                if not more:
                    poll.unregister(key.fileobj)
                    key.fileobj.close()


def address(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def text(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Director:
    """A shell in lb that runs one command after another."""

    def __init__(self):
        self.shell = subprocess.Popen(["ip", "netns", "exec", "lb", "sh"], text=True, bufsize=1,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, command):
        self.shell.stdin.write(f"{command} </dev/null; echo $?\n")
        status = self.shell.stdout.readline().strip()
        if status != "0":
            raise SystemExit(f"{command}: {status}")


def connect(client, vip):
    s = socket.socket(socket.AF_INET6 if ":" in client[0] else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(5)
    try:
        s.bind(client)
        s.connect(vip)
        name = s.recv(100).decode().split()
        return s, text(name[0], int(name[1]))
    except socket.timeout:
        s.close()
        return None, "timeout"
    except OSError as e:
        s.close()
        return None, "refused" if e.errno == errno.ECONNREFUSED else errno.errorcode[e.errno]


def close(s):
    s.shutdown(socket.SHUT_WR)
    while s.recv(100):
        pass
    s.close()


def vip(words):
    return words[3] if len(words) > 3 else VIP


def play(history, director):
    port, flags = history["port"], history.get("flags")
    vips = [vip(step.split()) for step in history["steps"] if step.startswith("open")]
    any_destination = history.get("any-destination")
    service = f"-f {port}" if any_destination else f"-t {text((vips or [VIP])[0], port)}"
    if any_destination:
        director.run(f"tc filter add dev cl ingress protocol ip u32 match ip dport {port} 0xffff action skbedit mark {port}")
    director.run(f"ipvsadm -A {service} -s {history['scheduler']}" + (f" -b {flags}" if flags else "")
                 + (f" -p {history['persistent']}" if "persistent" in history else ""))
    held, steps, present = [], [], set()
    for step in history["steps"]:
        words = step.split()
        if words[0] == "open":
            s, words[2] = connect(address(words[1]), (vip(words), port))
            held.append((s, words[2]))
        elif words[0] == "close":
            s, server = held[int(words[1])]
            # What comes for a server that is gone is dropped: such a connection cannot close.
            if not s or server not in present:
                continue
            close(s)
            held[int(words[1])] = None, server
        elif words[0] == "-d":
            director.run(f"ipvsadm -d {service} {' '.join(words[1:])}")
            present.remove(words[2])
        elif words[0] == "-E":
            director.run(f"ipvsadm -E {service} {' '.join(words[1:])}")
        else:
            director.run(f"ipvsadm {words[0]} {service} -m {' '.join(words[1:])}")
            present.add(words[2])
        steps.append(" ".join(words))
    for s in filter(None, (s for s, _ in held)):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    director.run(f"ipvsadm -D {service}")
    return history | {"steps": steps}


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 16, 1 << 16))
    histories = json.load(open("histories.json"))
    ports = sorted({h["port"] for h in histories})
    if sys.argv[1:] == ["serve"]:
        return serve(ports)
    topology()
    server = subprocess.Popen(["ip", "netns", "exec", "rs", sys.executable, __file__, "serve"])
    while not os.path.exists("/tmp/ready"):
        if server.poll() is not None:
            raise SystemExit("the servers did not start")
    director = Director()
    descriptor = os.open("/run/netns/cl", os.O_RDONLY)
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")
    answers = [play(history, director) for history in histories]
    json.dump(answers, open("answers.json", "w"))
    server.kill()


main()
