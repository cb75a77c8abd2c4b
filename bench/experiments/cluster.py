"""Clusters of real processes on this machine."""
import random
import socket
import subprocess
import time
from pathlib import Path

from servers import Client, Server, cpus, example, fail, pin

PATIENCE = 60  # seconds until a cluster has formed
BUS = 10_000  # from the port for clients to that for nodes, as in Redis
SMART = 1_000  # from the port for clients to that for smart clients
SECRET = "experiment"


class Relay:
    """A slow network: bytes for the first address of a pair come to the second one after half of `round_trip_ms`, and so do those that come back."""

    def __init__(self, options, round_trip_ms, pairs):
        command = [example("relay"), str(round_trip_ms / 2000), *(f"{here}={there}" for here, there in pairs)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pin(cpus(options.server_cpu), options.nice))
        self.process.stdout.readline()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def free_ports(count, each=1):
    """Ports that nobody listens at, for clients, nor SMART or BUS above; below those that the kernel gives to whoever connects. `each`: with as many above."""
    found = []
    while len(found) < count:
        port = random.randrange(11_000, 22_000)
        try:
            for number in (port + above + more for more in range(each) for above in (0, SMART, BUS)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        if all(abs(port - other) >= each for other in found):
            found.append(port)
    return found


def answers(server):
    try:
        with socket.create_connection(("127.0.0.1", server.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


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


class Copied(Nodes):
    """Nodes, and log-servers behind them, which hold copies of their logs. Clients see the nodes alone."""

    def __init__(self, options, members, count):
        """`members`: nodes first, `count` of them."""
        super().__init__(options, members)
        self.options, self.data = options, members[:count]

    @property
    def pid(self):
        return ",".join(str(node.pid) for node in self.data)

    def all_cpu_us(self):
        """CPU that all processes have used so far, in microseconds."""
        ticks = 0
        for node in self.nodes:
            fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks * 10_000

    def wait_formed(self):
        for node in self.data:
            node.wait_ready()
            node.client = Client(node.port)
        self.until(lambda: all("cluster_state:ok" in node.client("CLUSTER", "INFO").decode() for node in self.data), "the cluster has not formed")

    def restart(self):
        """A shard gets its first copies when its node starts."""
        for node in self.data:
            node.process.terminate()
            node.process.wait()
            node.process = subprocess.Popen(node.command, stdout=node.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=node.folder,
                                            preexec_fn=pin(cpus(self.options.server_cpu), self.options.nice))
            # Its log is taken over first, in a term of the metadata.
            self.until(lambda: answers(node), f"{node.name} does not start again")
        self.wait_formed()

    def until(self, holds, else_):
        end = time.monotonic() + 2 * PATIENCE
        while not holds():
            for node in self.nodes:
                if node.process.poll() is not None:
                    else_ += "; " + node.name + " has ended: " + Path(node.log.name).read_text(errors="replace")[-500:]
                    end = 0
            if time.monotonic() > end:
                self.stop()
                fail(else_)
            time.sleep(0.1)

    def status(self):
        return subprocess.run([self.options.holdfast, "cluster", "status", "--port", str(self.port)], capture_output=True, text=True).stdout

    def say(self, *words):
        command = [self.options.holdfast, "cluster", *map(str, words), "--port", str(self.port)]
        self.until(lambda: subprocess.run(command, capture_output=True).returncode == 0, f"refused: {' '.join(map(str, words))}")

    def shards(self):
        """The numbers of the shards of the nodes, in their order."""
        rows = [line.split() for line in self.status().partition("SHARD ")[2].splitlines()[1:]]
        found = {row[1].rpartition(":")[2]: row[0] for row in rows if len(row) > 1 and row[0].isdigit()}
        return [found.get(str(node.port)) for node in self.data]

    def wait_copies(self, count):
        """Until the folders are there, and, behind a restart of the nodes, all copies count."""
        self.until(lambda: "SHARD" in self.status() and "no folder yet" not in self.status(), "there are no folders for copies")
        self.restart()
        whole = f"{count} of {count}"
        self.until(lambda: self.status().count(whole) >= len(self.data) and "catches up" not in self.status(), "the copies are not in step")


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
