"""Machines with copies (`--copies`): on each an agent and its nodes, and perhaps one with a log-server alone. Nobody places anything.
A further child of each agent is a log-server, which has the machine's vote.

A *machine* is a number, as a node is elsewhere. A *node* of it is that number, and 10 more for each further one: 1 and 11 are those of
machine 1. Clients use all nodes; processes are started and networks cut machine by machine.
"""
import os
import re
import signal
import threading
import time
from collections import namedtuple
from pathlib import Path

from cluster import LOG_DIRS, PORT, Cluster
from network import address
from wire import Client, Closed, Server

NEXT = 10  # between the numbers of a machine's nodes
VOTE = 2000  # the place of the log-server among the children of an agent: its port is so far above that of the first node
FORMS_S = 120  # until everything has its place
ENDS_S = 30  # until nodes end whose agent has
MACHINES = 3

Roles = namedtuple("Roles", "owners standbys leader")  # nodes, those two by shard; `standbys` may take over


class Machine(Server):
    """`process` is what has started the agent, or the agent; others are its children. `space` is its network's name."""

    space = None

    def agent(self):
        """Its process id; None if it does not run."""
        pid = self.process.pid if self.process and self.process.poll() is None else None
        while pid and not self._is_ours(pid):
            children = _children(pid)
            pid = children[0] if children else None
        return pid

    def _is_ours(self, pid):
        try:
            return Path(f"/proc/{pid}/exe").resolve() == Path(self.binary).resolve()
        except OSError:
            return False

    def pid(self):
        pid = self.agent()
        if pid is None:
            raise ProcessLookupError
        return pid

    def nodes(self):
        """{number of a node on this machine: its process}."""
        return {number: pid for number, pid in self.children().items() if number < VOTE}

    def children(self):
        """{number of a node on this machine, or of the log-server with its vote: its process}."""
        found, agent = {}, self.agent()
        for pid in _children(agent) if agent else []:
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ")
            except OSError:
                continue
            # Its title has its address; before that come its settings, the last of which hold.
            ports = re.findall(rb":(\d+)$", words) or re.findall(rb"--port\0(\d+)", words)
            if ports and self._is_ours(pid):
                found[int(ports[-1]) - PORT + 1] = pid
        return found

    def processes(self):
        """All that are in its network."""
        network, found = Path(f"/run/netns/{self.space}").stat().st_ino, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if Path(f"/proc/{pid}/ns/net").stat().st_ino == network:
                    found.append(int(pid))
            except OSError:
                pass  # It has ended.
        return found

    def kill(self):
        """The machine burns: its agent, which is first, and all nodes at once."""
        for pid in self.agent(), self.process.pid if self.process and self.process.poll() is None else None:
            send(pid, signal.SIGKILL)
        end = time.monotonic() + ENDS_S
        while (left := self.processes()) and time.monotonic() < end:
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(0.01)
        if self.process:
            self.process.wait(ENDS_S)

    def end(self, pids):
        """Waits until these processes have ended. Those that have not."""
        end = time.monotonic() + ENDS_S
        while (left := set(pids) & set(self.processes())) and time.monotonic() < end:
            time.sleep(0.02)
        return left


def _children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def send(pid, number):
    """Whether there was such a process."""
    try:
        if pid:
            os.kill(pid, number)
        return bool(pid)
    except ProcessLookupError:
        return False


class Node:
    """Where clients connect."""

    def __init__(self, machine, above):
        self.machine, self.host, self.fixed = machine, machine.host, PORT + above

    def client(self, timeout=60):
        return Client(self.fixed, timeout, self.host)


class Hosts(Cluster):
    """If it `grows`, each machine begins with one node, which has a shard without copies, until it `gets_copies`."""

    def __init__(self, options, folder, network, rng, grows=False):
        self.network, self.binary, self.folder, self.group, self.rng = network, options.server, folder, "of each shard", rng
        with_data = network.nodes[:-1] if options.witness else network.nodes
        self.log_servers = network.nodes[len(with_data):]
        self.copies, self.shards = options.copies, not grows and options.shards or len(with_data)
        seeds = ",".join(f"{address(machine)}:{PORT}" for machine in with_data)
        self.streams = rng.choice((1, 2))
        shared = ["--protected-mode", "no", "--cluster-secret", "histories", "--cluster-seeds", seeds, "--log-segment-size", "1mb"]
        settings = [*shared, "--workers", rng.choice((1, 2)), "--checkpoint-log-size", rng.choice(("1mb", "8mb")),
                    "--log-dirs", *(f"stream-{i}" for i in range(self.streams))]
        # At most one copy of a shard is on a machine.
        of_machine = min(-(-self.shards * self.copies // len(with_data)), self.shards)
        self.servers, self.of_clients, self.stopped, self.halted, self.kills = {}, {}, set(), {}, 0
        self.of_copies = ["--cluster-copies", self.copies, "--cluster-shards", self.shards]
        self.has_grown, self.machines = not grows, with_data
        self.lock = threading.Lock()
        self.deaths_of_agents = {machine: threading.Lock() for machine in network.nodes}
        for machine in network.nodes:
            if machine in self.log_servers:
                make, kind, own = Server, "log-server", [*shared, "--dirs", *LOG_DIRS]
            else:
                make, kind, own = Machine, "server", settings
            self.servers[machine] = make(options.server, folder / f"node-{machine}", [*own, "--cluster-host", f"machine-{machine}"],
                                         network.inside(machine), host=address(machine), port=PORT, kind=kind)
            self.servers[machine].space = f"node{machine}"
            # Its directory may be a disk that becomes full.
            self.servers[machine].log = folder / f"machine-{machine}.log"
            for above in range(0 if machine in self.log_servers else of_machine):
                self.of_clients[machine + NEXT * above] = Node(self.servers[machine], above)
        self.nodes, self.data = list(self.servers), list(with_data)
        for machine in [] if grows else self.nodes:
            self.gets_copies(machine)

    def gets_copies(self, machine):
        """From its next start on."""
        self.servers[machine].settings += self.of_copies if machine in self.machines else self.of_copies[:2]
        self.data += [node for node in self.of_clients if node % NEXT == machine and node not in self.data]

    def __getitem__(self, node):
        return self.of_clients.get(node) or self.servers[node]

    def of(self, machine):
        """Its nodes."""
        return [node for node in self.data if node % NEXT == machine]

    def is_up(self, node):
        return super().is_up(node % NEXT)

    def machine_of(self, node):
        return node % NEXT

    def deaths(self, node):
        log = self.servers[node].log
        return int(not self.is_up(node)) + log.read_text(errors="replace").count("was ended by signal") if log.exists() else 0

    def ask(self, node, *command, timeout=5):
        client = self[node].client(timeout)
        try:
            return client.call(*command)
        finally:
            client.close()

    # Processes.

    def start(self, node):
        """If it does not run."""
        with self.lock:
            if not self.is_up(node):
                super().start(node)

    def process_of(self, node):
        """Its id; None if it does not run now. It may be a machine's vote."""
        if node in self.log_servers:
            return self.servers[node].pid() if self.is_up(node) else None
        return self.servers[node % NEXT].children().get(node // NEXT + 1)

    def vote_of(self, machine):
        """The log-server with the vote of a machine."""
        return machine + NEXT * VOTE

    def kill(self, node):
        """All processes of a machine."""
        self.resume(node)
        with self.deaths_of_agents[node]:
            super().kill(node)

    def kill_one(self, node):
        """The process of one node, which its agent starts again. Whether there was one."""
        was_there = send(self.process_of(node), signal.SIGKILL)
        self.kills += was_there
        return was_there

    def kill_agent(self, machine, at_once):
        """Its nodes end in order by themselves. It starts again when they have, or at once. Those that have not ended."""
        with self.deaths_of_agents[machine]:  # a pair may have the same one: the second is the one that starts after the first
            server = self.servers[machine]
            self.resume(machine)
            self.kills += send(server.agent(), signal.SIGKILL)
            server.wait()
            former = server.processes()
            if at_once:
                self.start(machine)
            left = server.end(former)
            self.start(machine)
            return left

    def pause(self, machine):
        """All of its processes, or one."""
        server = self.servers[machine]
        self.stopped.add(machine)
        if machine in self.log_servers:
            pids = [server.pid()]
        else:
            children = list(server.children().values())
            pids = self.rng.choice(([server.agent(), *children], [self.rng.choice(children)])) if children else []
        self.halted[machine] = [pid for pid in pids if send(pid, signal.SIGSTOP)]

    def resume(self, machine):
        self.stopped.discard(machine)
        for pid in self.halted.pop(machine, []):
            send(pid, signal.SIGCONT)

    # What the cluster says.

    def asked(self, *command):
        running = [node for node in self.data if self.is_up(node) and node % NEXT not in self.stopped]
        for node in running:
            try:
                return self.ask(node, *command, timeout=3)
            except Closed:
                pass
        return self.ask((running or self.data)[-1], *command, timeout=10)

    def is_ok(self, node):
        return all(super(Hosts, self).is_ok(one) for one in self.of(node))

    def owners(self):
        found = []
        for first, last, (host, port, *_), *_ in self.asked("CLUSTER", "SLOTS"):
            # Clients of a cluster have ports of their own.
            found.append((first, last, int(host.decode().split(".")[2]) + NEXT * ((port - PORT) % 1000)))
        return found

    def _node(self, word):
        host, port = re.match(r"10\.77\.(\d+)\.2:(\d+)", word).groups()
        return int(host) + NEXT * (int(port) - PORT)

    def roles(self):
        """As some node that runs says; None if none does."""
        status = self.status()
        led = re.search(r"^metadata led by (10\S+),", status, re.MULTILINE)
        parts = re.split(r"^SHARD +(OWNER|STANDBY) .*$", status, flags=re.MULTILINE)
        owners, standbys = {}, {}
        for kind, part in zip(parts[1::2], parts[2::2]):
            for shard, word, rest in re.findall(r"^(\d+) +(10\.77\S+) +(.*)$", part, re.MULTILINE):
                if kind == "OWNER":
                    owners[int(shard)] = self._node(word)
                elif re.match(r"electable(?!,)", rest):
                    standbys.setdefault(int(shard), []).append(self._node(word))
        return Roles(owners, standbys, self._node(led[1]) if led else None) if owners else None

    def is_healthy(self):
        """Each shard has its owner, all copies of its log, and standbys that may take over."""
        if not self.has_grown:
            return True
        status, roles = self.status(), self.roles()
        return (bool(roles) and "health: ok" in status and not any(word in status for word in ("(no folder yet", "(catches up", "(waits"))
                and len(roles.owners) == self.shards and len(re.findall(r" 3 of 3 ", status)) == self.shards
                and all(len(roles.standbys.get(shard, ())) == self.copies - 1 for shard in roles.owners))

    def has_copies(self):
        return self.until_ok(FORMS_S) is not None

    def ended(self):
        return [f"machine {machine} has ended with {server.process.poll()}: {server.words(3)}" for machine, server in self.servers.items()
                if server.process and server.process.poll() is not None]

    def _lines(self, pattern):
        return [f"{path.stem}: {line}" for path in sorted(Path(self.folder).glob("machine-*.log"))
                for line in path.read_text(errors="replace").splitlines() if re.search(pattern, line)]

    def crashed(self):
        return self._lines("panicked at|signal (6|11|4|7)$")[:3]

    def counts(self):
        return {"takeovers": len(self._lines(r"node \S+ takes over shard")), "ended with a status": len(self._lines("has ended with status"))}
