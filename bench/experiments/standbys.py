"""Clusters whose shard has a standby."""
import re
import time
from pathlib import Path

from cluster import Copied
from common import SECRET, Client, Server, free_ports, ours

APPLIES = "copy-follow"  # the name of the thread that applies records


class WithStandby(Copied):
    """A node that owns all keys, another node, and a log-server: each has a copy of the log. The second node may stand by."""

    def __init__(self, options, stands_by, settings=""):
        ports = free_ports(3)
        self.stands_by = stands_by
        members = []
        for number, port in enumerate(ports):
            here = (f"--bind 127.0.0.1 --cluster-secret {SECRET} --cluster-seeds 127.0.0.1:{ports[0]} --port {port} --dir {{dir}} "
                    f"--cluster-announce-ip 127.0.0.1 --cluster-host machine-{number + 1}")
            line = ours(options, f"{here} --appendfsync always {settings}") if number < 2 else f"{options.holdfast} log-server --dirs {{dir}}/copies {here}"
            members.append(Server(options, f"process {number + 1}", line, port))
            members[-1].wait_ready()
            if number == 0:
                # It forms the cluster alone, and has all keys.
                self.until_owns(members[0])
        super().__init__(options, members, 1)
        self.hosts = [f"127.0.0.1:{port}" for port in ports]

    @staticmethod
    def until_owns(node):
        end = time.monotonic() + 60
        while "cluster_state:ok" not in Client(node.port)("CLUSTER", "INFO").decode() and time.monotonic() < end:
            time.sleep(0.1)

    def wait_ready(self):
        self.wait_formed()
        self.say("group", "add", "three", *(f"{host}/-" for host in self.hosts))
        self.say("group", "use", "three")
        self.until(lambda: self.status().count("(catches up)") >= 2, "there are no folders for copies")
        self.restart()
        self.until(lambda: "3 of 3" in self.status(), "the copies are not in step")
        if self.stands_by:
            self.add_standby()
            self.until(self.is_counted, "the standby is not counted")

    def add_standby(self):
        self.say("standby", "add", self.shards()[0], "--on", self.hosts[1])

    def is_counted(self):
        return "electable" in self.status()

    def behind(self):
        """Milliseconds by which the standby is behind, as it has said last; None: it is not counted."""
        found = re.search(r"electable\s+\S+, (\d+) ms", self.status())
        return int(found[1]) if found else None

    def standby_us(self):
        """CPU that the standby's process has used so far, and the thread of it that applies records, in microseconds."""
        pid = self.nodes[1].pid
        threads = [path for path in Path(f"/proc/{pid}/task").iterdir() if (path / "comm").read_text().strip() == APPLIES]
        return cpu_us(Path(f"/proc/{pid}")), sum(map(run_us, threads))


def cpu_us(process):
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10_000


def run_us(thread):
    return int((thread / "schedstat").read_text().split()[0]) / 1000
