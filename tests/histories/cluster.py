"""The nodes: real servers, each in a network namespace of its own."""
import binascii
import re
import signal
import time

from network import address
from wire import Closed, ErrorReply, Server

PORT = 6379
SLOTS = 16384


def slot(key):
    """Of a key without a {tag}."""
    return binascii.crc_hqx(key.encode(), 0) % SLOTS


LOG_DIRS = ("one", "two")  # of a log-server
GROUPS = ("nodes", "log-server")
SPARES = 2  # nodes that own no slots
JOIN_S = 60  # until a log-server has joined


class Cluster:
    """With a `group`, logs have copies: at three nodes (`nodes`), or at two and a log-server. Its last two nodes are spares, which own no
    slots, and which are there if `keeps_logs`: then the logs are never cut."""

    def __init__(self, binary, folder, network, rng, group=None, keeps_logs=False):
        self.network, self.binary, self.folder, self.group = network, binary, folder, group
        forming = network.nodes[:-SPARES] if group else network.nodes
        self.log_servers = forming[2:] if group == "log-server" else []
        seeds = ",".join(f"{address(node)}:{PORT}" for node in forming if node not in self.log_servers)
        self.streams, workers, size = rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice(("1mb", "8mb"))
        shared = ["--protected-mode", "no", "--cluster-secret", "histories", "--cluster-seeds", seeds, "--log-segment-size", "1mb"]
        settings = [*shared, "--workers", workers, "--log-dirs", *(f"stream-{i}" for i in range(self.streams)),
                    *(("--checkpoint-log-size", "1gb", "--checkpoint-log-max", 0, "--checkpoint-interval", 0) if keeps_logs else
                      ("--checkpoint-log-size", size))]
        self.places = forming[:3]  # of the group
        self.spares = network.nodes[len(forming):] if keeps_logs else []
        self.servers, self.stopped, self.kills = {}, set(), 0
        for node in forming + self.spares:
            kind, own = ("log-server", [*shared, "--dirs", *LOG_DIRS]) if node in self.log_servers else ("server", settings)
            own = [*own, "--cluster-host", f"machine-{node}"] if group else own
            self.servers[node] = Server(binary, folder / f"node-{node}", own, network.inside(node), host=address(node), port=PORT, kind=kind)
        self.nodes = list(self.servers)
        self.data = [node for node in self.nodes if node not in self.log_servers]  # what clients use

    def __getitem__(self, node):
        return self.servers[node]

    def start(self, node):
        self.servers[node].launch()

    def start_all(self):
        for node in self.servers:
            self.start(node)

    def kill(self, node):
        self.kills += self.is_up(node)
        self.servers[node].kill()
        self.stopped.discard(node)

    def pause(self, node):
        self.stopped.add(node)
        self.servers[node].signal(signal.SIGSTOP)

    def resume(self, node):
        self.stopped.discard(node)
        self.servers[node].signal(signal.SIGCONT)

    def is_up(self, node):
        process = self.servers[node].process
        return process is not None and process.poll() is None

    def ask(self, node, *command, timeout=5):
        """One reply; raises `Closed`."""
        client = self.servers[node].client(timeout)
        try:
            return client.call(*command)
        finally:
            client.close()

    def asked(self, *command):
        """The reply of some node that runs; raises `Closed`."""
        running = [node for node in self.data if self.is_up(node) and node not in self.stopped]
        for node in running[:-1]:
            try:
                return self.ask(node, *command, timeout=10)
            except Closed:
                pass
        return self.ask((running or self.data)[-1], *command, timeout=10)

    def is_ok(self, node):
        if node in self.log_servers:
            return True  # the others' status says how it is
        try:
            said = self.ask(node, "CLUSTER", "INFO")
        except Closed:
            return False
        return not isinstance(said, ErrorReply) and b"cluster_state:ok" in said

    def until_ok(self, seconds=60):
        """Seconds until all nodes say that all is well; None if they do not."""
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            if all(self.is_ok(node) for node in self.servers) and (not self.group or self.is_healthy()):
                return time.monotonic() - began
            time.sleep(0.1)
        return None

    def owners(self):
        """[(first slot, last slot, node)]."""
        found = []
        for first, last, (host, *_), *_ in self.asked("CLUSTER", "SLOTS"):
            found.append((first, last, int(host.decode().split(".")[2])))
        return found

    def machine_of(self, node):
        """Where it runs."""
        return node

    def deaths(self, node):
        """Rises with an end that nobody here has asked for."""
        return int(not self.is_up(node))

    def ended(self):
        """What should run and does not, each in words."""
        return []

    def crashed(self):
        """Servers that have ended by a defect, each in words."""
        return []

    def counts(self):
        """{what servers have done: how often}."""
        return {}

    # Copies of logs.

    def text(self, *command):
        """The text that a node answers, or its error."""
        try:
            said = self.asked(*command)
        except Closed as closed:
            return str(closed)
        return said if isinstance(said, ErrorReply) else said.decode()

    def status(self):
        return self.text("CLUSTER", "STATUS")

    def shard_of(self, node):
        """The number of its shard."""
        found = re.findall(rf"^(\d+) +{re.escape(address(node))}:{PORT} ", self.status(), re.MULTILINE)
        return int(found[0]) if found else None

    def idle(self):
        """Nodes that clients use, and that own no slots."""
        owning = {owner for *_, owner in self.owners()}
        return [node for node in self.data if node not in owning]

    def is_healthy(self):
        """With all copies that should be, once there are some."""
        status = self.status()
        return "health: ok" in status and not any(word in status for word in ("(no folder yet", "(catches up", "(waits"))

    def place(self, node, directory="-"):
        return f"{address(node)}:{PORT}/{directory}"

    def has_copies(self):
        """Gives all logs copies. True if that has worked."""
        # A log-server may join later than the nodes form the cluster.
        end = time.monotonic() + JOIN_S
        while (said := self.text("CLUSTER", "GROUP", "ADD", "default", *map(self.place, self.places))) != "OK" and time.monotonic() < end:
            time.sleep(0.1)
        if said != "OK":
            return False
        while "(no folder yet)" in self.status():
            time.sleep(0.1)
        # A log has copies from its node's next start on.
        for act in self.kill, self.start:
            for node in self.data:
                act(node)
        return self.until_ok() is not None

    def end(self):
        for server in self.servers.values():
            server.kill()
