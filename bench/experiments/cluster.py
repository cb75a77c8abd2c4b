"""Clusters of real processes on this machine."""
import random
import socket
import time

from servers import Client, Server, fail

PATIENCE = 60  # seconds until a cluster has formed
BUS = 10_000  # from the port for clients to that for nodes, as in Redis
SMART = 1_000  # from the port for clients to that for smart clients
SECRET = "experiment"


def free_ports(count):
    """Ports that nobody listens at, for clients, nor SMART or BUS above; below those that the kernel gives to whoever connects."""
    found = []
    while len(found) < count:
        port = random.randrange(11_000, 22_000)
        try:
            for number in (port, port + SMART, port + BUS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        if port not in found:
            found.append(port)
    return found


class Nodes:
    """Servers that form a cluster; it answers as `Server` does where the load generator asks."""

    def __init__(self, options, nodes):
        self.nodes = nodes
        self.name = "cluster"
        self.ports = [node.port for node in nodes]
        self.port = self.ports[0]

    @property
    def pid(self):
        return ",".join(str(node.pid) for node in self.nodes)

    def target(self, smart):
        """What the load generator is told: `--cluster` for clients that know who has which key."""
        if smart:
            return ["--port", str(self.port), "--cluster"]
        return ["--nodes", ",".join(f"127.0.0.1:{port}" for port in self.ports)]

    def stop(self):
        for node in self.nodes:
            node.process.terminate()
        for node in self.nodes:
            node.stop()

    def formed(self):
        for node in self.nodes:
            if node.process.poll() is not None:
                node.wait_ready()  # says why it has ended
            info = node.client("CLUSTER", "INFO").decode()
            if "cluster_state:ok" not in info or f"cluster_known_nodes:{len(self.nodes)}\r" not in info:
                return False
        return True

    def wait_formed(self):
        until = time.monotonic() + PATIENCE
        for node in self.nodes:
            node.wait_ready()
            node.client = Client(node.port)
        while not self.formed():
            if time.monotonic() > until:
                self.stop()
                fail("the nodes have not formed a cluster")
            time.sleep(0.1)


class Cluster(Nodes):
    """Ours. `settings(number)` are those of one node more, and `host(number)` is where others reach it."""

    def __init__(self, options, command, count, host=lambda number: "127.0.0.1"):
        ports = free_ports(count)
        seeds = ",".join(f"{host(number)}:{port}" for number, port in enumerate(ports))
        nodes = []
        for number, port in enumerate(ports):
            line = (f"{command} --bind 127.0.0.1 --port {port} --dir {{dir}} --cluster-secret {SECRET} --cluster-seeds {seeds} "
                    f"--cluster-announce-ip {host(number)}")
            nodes.append(Server(options, f"node {number + 1}", line, port))
        super().__init__(options, nodes)

    def wait_ready(self):
        self.wait_formed()

    def transactions(self):
        """Transactions over nodes that are over, and the attempts beyond the first that they took."""
        infos = [node.client.info("stats") for node in self.nodes]
        return tuple(sum(int(info[field]) for info in infos) for field in ("transactions_over_nodes", "transactions_over_nodes_retries"))

    def owner(self, key):
        """Which node has a key."""
        first = self.nodes[0].client
        slot = first("CLUSTER", "KEYSLOT", key)
        for low, high, (_, port, *_), *_ in first("CLUSTER", "SLOTS"):
            if low <= slot <= high:
                return self.ports.index(port - SMART)
        return fail(f"nobody has slot {slot}")


class RedisCluster(Nodes):
    """Of Redis, or of Valkey: its nodes answer only for what they have."""

    def __init__(self, options, command, count):
        line = lambda port: f"{command} --cluster-enabled yes --bind 127.0.0.1 --port {port} --dir {{dir}}"
        super().__init__(options, [Server(options, f"node {number + 1}", line(port), port) for number, port in enumerate(free_ports(count))])

    def wait_ready(self):
        step = -(-16384 // len(self.nodes))
        for number, node in enumerate(self.nodes):
            node.wait_ready()
            client = Client(node.port)
            client("CLUSTER", "ADDSLOTSRANGE", number * step, min((number + 1) * step, 16384) - 1)
            client("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            for other in self.ports[:number]:
                client("CLUSTER", "MEET", "127.0.0.1", other)
        self.wait_formed()
