"""Three machines with copies: an owner is killed, and gives its shard away, while programs of client libraries write.

The programs are in failover/. Each is told `KIND SETTINGS RATE KEYS ADDRESSES`: `server`, `cluster` or `sentinel`;
`default` or `tuned`; writes a second for each key; and, with commas between, keys and addresses. For each key it has a
loop of its own, which appends 0, 1, 2 ... to a list. Whatever happens, it goes on with the next number. A line for each
says `KEY NUMBER BEGAN ENDED OUTCOME`, with times in milliseconds of unix time, and the outcome `ok` or the error. It
ends when its standard input does. Numbers in the lists that are not in order show what a library has sent again.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "support"))

from libraries import FAILOVER, RIDERS, stop  # noqa: E402
from wire import Client, Closed  # noqa: E402

MACHINES, APART = 3, 10  # how far apart the first ports of two machines are
RATE = 50  # writes a second for each key; there is a key for each shard
PATIENCE = 60  # seconds
RECOVERS = 30  # seconds within which every library has to work again
CALM = 1.0  # seconds between two faults in which all work
SMART, SENTINEL = 1000, 500  # from the first port to those of smart clients, and of Sentinels

# (kind, settings, whether the node that it is given is the one that is lost), and words for the table
CASES = [
    ("server", "default", False), ("server", "tuned", False), ("server", "default", True), ("server", "tuned", True),
    ("cluster", "default", False), ("cluster", "tuned", False)]
SENTINEL_CASES = [("sentinel", "default", False), ("sentinel", "tuned", False)]
AT = {("server", False): "server, at another node", ("server", True): "server, at the node",
      ("cluster", False): "cluster", ("sentinel", False): "Sentinel"}
NAMES = {"redis_py": "redis-py", "go_redis": "go-redis", "ioredis": "ioredis", "jedis": "Jedis", "lettuce": "Lettuce"}


def split(place):
    host, _, port = place.rpartition(":")
    return host, int(port)


def connect(place):
    host, port = split(place)
    return Client(port, host=host)


def shards_of(status):
    """From `cluster status`, by the shards' numbers: its owner, and a standby that may take over, as HOST:PORT. Shards without one are left out."""
    owners, standbys, part = {}, {}, None
    for row in map(str.split, status.splitlines()):
        if row[:1] == ["SHARD"]:
            part = {"OWNER": owners, "STANDBY": standbys}.get(row[1])
        elif part is not None and len(row) > 2 and row[0].isdigit():
            if part is owners or row[2] == "electable":
                part[row[0]] = row[1]
    return {number: (owner, standbys[number]) for number, owner in owners.items() if number in standbys}


def keys(place, shards, name):
    """A key in each of the shards, by a tag, as slots stay with their shards."""
    client = connect(place)
    owner, number_of = {}, {owner: number for number, (owner, _) in shards.items()}
    for first, last, (host, port, *_), *_ in client.call("CLUSTER", "SLOTS"):
        owner.update(dict.fromkeys(range(first, last + 1), f"{host.decode()}:{port - SMART}"))
    found = {}
    for tag in range(10_000):
        key = f"{{{tag}}}{name}"
        found.setdefault(number_of[owner[client.call("CLUSTER", "KEYSLOT", key)]], key)
        if len(found) == len(shards):
            return [found[number] for number in sorted(found)]


class Machines:
    """An agent each, with two nodes: owners of three shards, and their standbys."""

    def __init__(self, command, folder, port):
        self.command, self.ports = command, [port + APART * number for number in range(MACHINES)]
        self.sentinels = [port + SENTINEL + number for number in range(MACHINES)]
        self.places = [f"127.0.0.1:{port}" for port in self.ports]
        seeds = ",".join(self.places)
        self.agents = []
        for number, (port, sentinel) in enumerate(zip(self.ports, self.sentinels)):
            (folder / f"machine-{number}").mkdir()
            line = [*command, "server", "--port", port, "--bind", "127.0.0.1", "--dir", folder / f"machine-{number}", "--cluster-secret", "word",
                    "--cluster-seeds", seeds, "--cluster-copies", 2, "--cluster-host", f"machine-{number}", "--sentinel-port", sentinel,
                    "--appendfsync", "always"]
            with open(folder / f"machine-{number}.log", "w") as log:
                self.agents.append(subprocess.Popen(list(map(str, line)), stdout=log, stderr=log))

    def until(self, holds, else_, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"{else_}:\n{self.status()}")
            time.sleep(0.1)

    def status(self):
        for port in self.ports:
            done = subprocess.run([*self.command, "cluster", "status", "--port", str(port)], capture_output=True, text=True)
            if done.returncode == 0:
                return done.stdout
        return done.stderr

    def shards(self):
        return shards_of(self.status())

    def whole(self):
        return len(self.shards()) == MACHINES

    def keys(self, name):
        return keys(self.places[0], self.shards(), name)

    def mymaster(self):
        """The node that the Sentinels' clients use."""
        host, port = Client(self.sentinels[0]).call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
        return f"{host.decode()}:{port.decode()}"

    def kill(self, node):
        info = connect(node).call("INFO", "server").decode()
        os.kill(int(re.search(r"process_id:(\d+)", info)[1]), signal.SIGKILL)

    def switch(self, shard):
        """Asks for it until it has begun: a node that has just started may have an old map."""
        def begins():
            nodes = self.shards().get(shard)
            try:
                return nodes and connect(nodes[1]).call("CLUSTER", "FAILOVER") == b"OK"
            except Closed:
                return False
        self.until(begins, "CLUSTER FAILOVER is refused")

    def stop(self):
        for agent in self.agents:
            agent.terminate()
        for agent in self.agents:
            try:
                agent.wait(30)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()


class Program:
    """A program that runs, and what it has said: (key, number, began, ended, outcome), in seconds."""

    def __init__(self, library, case, command, keys, places, folder, rate=RATE):
        self.library, self.case, self.keys, self.said = library, case, keys, []
        kind, settings, _ = case
        words = [*command, kind, settings, rate, ",".join(keys), ",".join(places)]
        self.log = open(folder / f"{'-'.join(map(str, (library, *case)))}.log", "w")
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd=folder, text=True, bufsize=1)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            key, number, began, ended, outcome = line.rstrip("\n").split(" ", 4)
            self.said.append((key, int(number), float(began) / 1000, float(ended) / 1000, outcome))

    def works_since(self, moment):
        """Whether a write of every key that was begun since then was confirmed."""
        return {key for key, _, began, _, outcome in self.said[-2000:] if began > moment and outcome == "ok"} == set(self.keys)

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.log.close()

    def errors(self, first, last):
        return Counter(shown(outcome) for *_, ended, outcome in self.said if first <= ended < last and outcome != "ok")

    def outage(self, fault, last):
        """Seconds from the fault to the end of the longest time without a confirmed write of a key, for the key that had to wait longest."""
        worst = 0
        for key in self.keys:
            confirmed = [ended for of, _, _, ended, outcome in self.said if of == key and outcome == "ok" and ended < last]
            gaps = [(after - before, after - fault) for before, after in zip(confirmed, confirmed[1:]) if after > fault]
            worst = max(worst, max(gaps, default=(0, float("inf")))[1])
        return worst

    def wait(self, first, last):
        """The longest time that a confirmed write has taken, in seconds."""
        return max((ended - began for _, _, began, ended, outcome in self.said if first <= ended < last and outcome == "ok"), default=float("inf"))


def shown(outcome):
    """An error without what differs from one to the next."""
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+(:\d+)?", "ADDRESS", outcome)
    text = re.sub(r"\b\d+(\.\d+)?\b", "N", text)
    return text if len(text) <= 90 else text[:87] + "..."


def has_place(shards, shard, node, which):
    """Whether all is whole, and a node owns a shard that is to be killed, or stands by for one that is to be given away."""
    return shard in shards and shards[shard][which == "switchover"] == node


def faults(machines, programs, shard, lost, rounds):
    """Causes them one after the other. Returns (which, when), and what is wrong."""
    caused, wrong = [], []
    for _ in range(rounds):
        for which in ("kill", "switchover"):
            machines.until(machines.whole, "a standby has not come back")
            if not has_place(machines.shards(), shard, lost, which):
                # A machine that starves takes shards over without a fault.
                machines.switch(shard)
                machines.until(lambda: has_place(machines.shards(), shard, lost, which), "a standby has not come back")
            time.sleep(CALM)
            moment = time.time()
            machines.kill(lost) if which == "kill" else machines.switch(shard)
            caused.append((which, moment))
            end = moment + RECOVERS
            waiting = programs
            while waiting and time.time() < end:
                time.sleep(0.05)
                waiting = [program for program in waiting if not program.works_since(moment)]
            wrong += [f"{NAMES[program.library]}, {' '.join(map(str, program.case))}: does not work {RECOVERS} s after a {which}" for program in waiting]
    machines.until(machines.whole, "a standby has not come back")
    time.sleep(CALM)
    return caused, wrong


def kept(machines, program):
    """Confirmed numbers that are not in their lists, and how many are there more than once."""
    lost = twice = 0
    for key in program.keys:
        found = []
        machines.until(lambda: isinstance(found.append(connect(machines.places[0]).call("LRANGE", key, 0, -1)) or found[-1], list), f"{key} is not read")
        there = Counter(map(int, found[-1]))
        lost += sum(number not in there for of, number, *_, outcome in program.said if of == key and outcome == "ok")
        twice += sum(count > 1 for count in there.values())
    return lost, twice


def spread(seconds):
    low, high = min(seconds), max(seconds)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}-{high:.2f}"


def words(errors):
    return "; ".join(f"{text} ({count})" for text, count in errors.most_common()) or "nothing"


def row(machines, program, caused, wrong):
    """Of the table, with what is wrong added."""
    ends = [moment for _, moment in caused[1:]] + [float("inf")]
    of = {"kill": [], "switchover": []}
    for (which, moment), end in zip(caused, ends):
        of[which].append((moment, end))
    name = f"{NAMES[program.library]}, {' '.join(map(str, program.case))}"
    seen = {which: sum((program.errors(*span) for span in spans), Counter()) for which, spans in of.items()}
    lost, twice = kept(machines, program)
    if lost:
        wrong.append(f"{name}: {lost} confirmed writes are lost")
    if seen["switchover"]:
        wrong.append(f"{name}: errors at a switchover: {words(seen['switchover'])}")
    return [NAMES[program.library], AT[program.case[0], program.case[2]], program.case[1], words(seen["kill"]),
            spread([program.outage(*span) for span in of["kill"]]), words(seen["switchover"]), spread([program.wait(*span) for span in of["switchover"]]), str(twice)]


HEADER = ["library", "its client", "settings", "errors after kill -9", "s until it writes", "errors at a switchover", "s, longest wait", "written twice"]


def run(command, libraries, port, rounds):
    """Prints a table of all libraries. Returns whether something is wrong."""
    passed, wrong = 0, []
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    with tempfile.TemporaryDirectory(prefix="holdfast-ride-") as folder:
        folder = Path(folder)
        programs = {library: RIDERS[library](folder, [FAILOVER])[0] for library in libraries}
        machines = Machines(command, folder, port or 24_000)
        try:
            machines.until(machines.whole, "the cluster has no standbys", 2 * PATIENCE)
            for library in libraries:
                machines.until(machines.whole, "a standby has not come back")
                owners, lost = {owner: number for number, (owner, _) in machines.shards().items()}, machines.mymaster()
                if lost not in owners:
                    lost = min(owners)
                running = []
                for case in CASES + (SENTINEL_CASES if library == "redis_py" else []):
                    kind, _, at_lost = case
                    first = lost if at_lost or kind == "cluster" else next(place for place in machines.places if place != lost)
                    places = [first, *(place for place in machines.places if place != first)]
                    places = [f"127.0.0.1:{port}" for port in machines.sentinels] if kind == "sentinel" else places
                    running.append(Program(library, case, programs[library], machines.keys("-".join(map(str, (library, *case)))), places, folder))
                try:
                    machines.until(lambda: all(program.works_since(0) for program in running), f"{library} does not write")
                    caused, bad = faults(machines, running, owners[lost], lost, rounds)
                    wrong += bad
                finally:
                    for program in running:
                        program.end()
                for program in running:
                    print("| " + " | ".join(row(machines, program, caused, wrong)) + " |", flush=True)
                passed += len(running)
        except (TimeoutError, RuntimeError, Closed) as why:
            print("".join((folder / f"machine-{number}.log").read_text()[-3000:] for number in range(MACHINES)))
            stop(str(why))
        finally:
            machines.stop()
    print("\n".join(wrong))
    print(f"{passed} passed, {len(wrong)} failed")
    return len(wrong) != 0
