"""The nodes' network: a namespace for each node, and this one, where clients and the router are, between them.

    node i: 10.77.i.2 --veth-- 10.77.i.1 (here)

It ends with the namespaces that `run` has put itself into; nothing of it is seen outside of them.
"""
import json
import subprocess
import sys
from pathlib import Path

TUNNEL_TABLE, TUNNEL_PREFERENCE, CUT_PREFERENCE = 100, 200, 100


def ip(*words, may_fail=False):
    done = subprocess.run(["ip", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode and not may_fail:
        raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.decode().strip()}")


def address(node):
    return f"10.77.{node}.2"


class Network:
    """Nodes are numbered from 1."""

    def __init__(self, nodes):
        self.nodes = list(range(1, nodes + 1))
        self.tunnel, self.cuts, self.holes, self.down = None, set(), set(), set()
        for name in ("net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"):
            key, value = name.split("=")
            Path("/proc/sys", *key.split(".")).write_text(value)
        ip("link", "set", "lo", "up")
        for node in self.nodes:
            space, link = f"node{node}", f"veth{node}"
            ip("netns", "add", space)
            ip("link", "add", link, "type", "veth", "peer", "name", "inside", "netns", space)
            ip("address", "add", f"10.77.{node}.1/24", "dev", link)
            ip("link", "set", link, "up")
            for words in (("link", "set", "lo", "up"), ("address", "add", f"{address(node)}/24", "dev", "inside"),
                          ("link", "set", "inside", "up"), ("route", "add", "default", "via", f"10.77.{node}.1")):
                ip("-n", space, *words)

    def inside(self, node):
        """What a command must begin with to run in the node's namespace."""
        return ["ip", "netns", "exec", f"node{node}"]

    def cut(self, source, target):
        """The router drops what `source` sends to `target`: neither of them is told."""
        if (source, target) not in self.cuts:
            self.cuts.add((source, target))
            ip("rule", "add", "pref", CUT_PREFERENCE, "iif", f"veth{source}", "to", f"10.77.{target}.0/24", "blackhole")

    def isolate(self, node):
        """It and all others do not reach each other: neither side is told."""
        for other in self.nodes:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def mend(self, source, target):
        if (source, target) in self.cuts:
            self.cuts.remove((source, target))
            ip("rule", "del", "pref", CUT_PREFERENCE, "iif", f"veth{source}", "to", f"10.77.{target}.0/24", "blackhole")

    def hole(self, source, target):
        """`source` itself has no way to `target`: it is told at once."""
        if (source, target) not in self.holes:
            self.holes.add((source, target))
            ip("-n", f"node{source}", "route", "add", "blackhole", f"{address(target)}/32")

    def fill(self, source, target):
        if (source, target) in self.holes:
            self.holes.remove((source, target))
            ip("-n", f"node{source}", "route", "del", "blackhole", f"{address(target)}/32")

    def unplug(self, node):
        """The node's link is down: nobody reaches it, clients neither."""
        self.down.add(node)
        ip("link", "set", f"veth{node}", "down")

    def plug(self, node):
        self.down.discard(node)
        ip("link", "set", f"veth{node}", "up")

    def reset(self, node, target):
        """Ends all connections between two nodes with a reset."""
        subprocess.run([*self.inside(node), "ss", "-4", "-t", "-K", "dst", address(target)], stdout=subprocess.DEVNULL, check=True)

    def disturb(self, pairs, **how):
        """What these nodes send to those goes through a program, which treats it as told: `tunnel.py`."""
        if not self.tunnel:
            self.tunnel = subprocess.Popen([sys.executable, str(Path(__file__).parent / "tunnel.py")], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True)
            if self.tunnel.stdout.readline() != "ready\n":
                raise OSError("no tunnel")
            ip("link", "set", "tunnel", "up")
            ip("route", "add", "table", TUNNEL_TABLE, "default", "dev", "tunnel")
        for source in {source for source, _ in pairs}:
            ip("rule", "add", "pref", TUNNEL_PREFERENCE, "iif", f"veth{source}", "lookup", TUNNEL_TABLE, may_fail=True)
        self.tunnel.stdin.write(json.dumps({"pairs": pairs, **how}) + "\n")
        self.tunnel.stdin.flush()
        if self.tunnel.stdout.readline() != "done\n":
            raise OSError("the tunnel has ended")

    def calm(self):
        """Nothing goes through the program any more."""
        if self.tunnel:
            self.tunnel.stdin.close()
            self.tunnel.wait(10)
            self.tunnel = None
            for node in self.nodes:
                ip("rule", "del", "pref", TUNNEL_PREFERENCE, "iif", f"veth{node}", "lookup", TUNNEL_TABLE, may_fail=True)

    def heal(self):
        """Everything reaches everything."""
        for pair in list(self.cuts):
            self.mend(*pair)
        for pair in list(self.holes):
            self.fill(*pair)
        for node in list(self.down):
            self.plug(node)
        self.calm()
