"""The nodes: real servers, each in a network namespace of its own."""
import binascii
import signal
import time

from network import address
from wire import Closed, ErrorReply, Server

PORT = 6379
SLOTS = 16384


def slot(key):
    """Of a key without a {tag}."""
    return binascii.crc_hqx(key.encode(), 0) % SLOTS


class Cluster:
    def __init__(self, binary, folder, network, rng):
        self.network, self.binary = network, binary
        seeds = ",".join(f"{address(node)}:{PORT}" for node in network.nodes)
        streams, workers = rng.choice((1, 2)), rng.choice((1, 2, 3))
        self.settings = ["--protected-mode", "no", "--cluster-secret", "histories", "--cluster-seeds", seeds,
                         "--workers", workers, "--log-segment-size", "1mb", "--checkpoint-log-size", rng.choice(("1mb", "8mb")),
                         "--log-dirs", *(f"stream-{i}" for i in range(streams))]
        self.servers = {node: Server(binary, folder / f"node-{node}", self.settings, network.inside(node),
                                     host=address(node), port=PORT) for node in network.nodes}
        self.stopped = set()

    def __getitem__(self, node):
        return self.servers[node]

    def start(self, node):
        self.servers[node].launch()

    def start_all(self):
        for node in self.servers:
            self.start(node)

    def kill(self, node):
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

    def is_ok(self, node):
        try:
            said = self.ask(node, "CLUSTER", "INFO")
        except Closed:
            return False
        return not isinstance(said, ErrorReply) and b"cluster_state:ok" in said

    def until_ok(self, seconds=60):
        """Seconds until all nodes say that all is well; None if they do not."""
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            if all(self.is_ok(node) for node in self.servers):
                return time.monotonic() - began
            time.sleep(0.1)
        return None

    def owners(self):
        """[(first slot, last slot, node)]."""
        found = []
        for first, last, (host, *_), *_ in self.ask(next(iter(self.servers)), "CLUSTER", "SLOTS"):
            found.append((first, last, int(host.decode().split(".")[2])))
        return found

    def end(self):
        for server in self.servers.values():
            server.kill()
