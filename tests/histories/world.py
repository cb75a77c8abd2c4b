"""A cluster, its clients, and what is done to it, for some seconds; then everything heals, is read, and is looked at."""
import random
import time
from pathlib import Path

import checkers
import kills
import nemeses
import verdict
from clients import Keys, Worker, command_of, ways_of
from cluster import Cluster, slot
from hosts import Hosts
from history import now
from wire import Closed, ErrorReply

HEAL_S = 60
SILENT = {"pause", "upgrade", "finalize", "grow", "partition", "one_way", "link", "links", "delay", "loss", "half_open", "kill", "kill_all", "steps", "fsync"}
OF_TWO = {"upgrade", "finalize", "grow"}  # need two binaries
HANGS_AFTER_S = 30  # clients see the end of a silence later
LAST_AT_ONCE = 8  # keys read by one of the last transactions


def faketime():
    return next((path for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


class World:
    def __init__(self, options, folder, network, name):
        self.options, self.folder, self.network, self.name = options, Path(folder), network, name
        self.rng = random.Random(f"{options.seed} {name}")
        if options.copies:
            self.cluster = Hosts(options, self.folder, network, self.rng, "grow" in name.split("+"))
        else:
            self.cluster = Cluster(options.server, self.folder, network, self.rng, options.group, bool(set(name.split("+")) & {"wipe_all", "wipe_all_busy"}))
        self.nodes = self.cluster.nodes
        self.keys, self.problems, self.counts, self.story = Keys(), [], {}, []
        self.transactions, self.registers = [], []
        self.is_over, self.is_quiet, self.ways, self.lost = False, False, [], []
        self.end = None
        self.workers, self.slowest_heal, self.spent = [], 0.0, 0.0
        self.has_clocks = False  # they can be set
        self.acts, self.level, self.is_raised = [], 0, False  # the level is the cluster's
        self.silences = []  # seconds of the monotonic clock at which something was silent, so that nobody could know that it had ended

    # What nemeses use.

    def any_node(self):
        return self.rng.choice(self.nodes)

    def some_nodes(self, count):
        return self.rng.sample(self.nodes, count)

    def sleep(self, least, most):
        """Whether the time was not up before."""
        until = time.monotonic() + self.rng.uniform(least, most)
        time.sleep(max(min(until, self.end) - time.monotonic(), 0))
        return until <= self.end

    def until(self, condition, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        return None

    def problem(self, text):
        self.problems.append(text)

    def count(self, what, happened=True):
        self.counts[what] = self.counts.get(what, 0) + bool(happened)

    def try_ask(self, node, *command):
        try:
            return self.cluster.ask(node, *command)
        except Closed:
            return None

    def owning(self):
        return sorted({owner for _, _, owner in self.owned})

    def key_of(self, node):
        """Of a slot of this node, which must own some; never used by clients."""
        ranges = [(first, last) for first, last, owner in self.owned if owner == node]
        return next(key for key in map("probe:{}".format, range(100_000)) if any(first <= slot(key) <= last for first, last in ranges))

    def is_silent(self):
        self.silences.append(time.monotonic())

    def must_refuse(self, node):
        if self.options.copies:
            # With a key of any shard: it may have owned that.
            asked = [(one, owner) for one in self.cluster.of(node) for owner in self.owning()]
        else:
            asked = [(node, node)] if node in self.owning() else []
        for one, owner in asked:
            reply = self.try_ask(one, "GET", self.key_of(owner))
            if reply is not None and not (isinstance(reply, ErrorReply) and reply.startswith("CLUSTERDOWN")):
                self.problem(f"node {one} is alone, has no lease, and answers {reply!r}")

    def must_serve(self, node, seconds=10):
        if self.options.copies or node not in self.owning():
            # A shard may have been taken over without proof, and gets no other owner for a minute.
            return
        reply = self.until(lambda: self.try_ask(node, "SET", self.key_of(node), "1") == b"OK", seconds)
        if not reply:
            self.problem(f"node {node} is with a majority and does not serve: {self.try_ask(node, 'SET', self.key_of(node), '1')!r}")

    def set_clock(self, node, seconds):
        (self.folder / f"clock-{node}").write_text(f"{seconds:+f}")

    def clock(self, node):
        """Seconds by which its clock is wrong."""
        return float((self.folder / f"clock-{node}").read_text())

    def be_quiet(self):
        """No client does anything any more when this returns, and what was done is settled."""
        self.is_quiet = True
        self.all_turn()
        time.sleep(1)

    def all_turn(self):
        """All clients have ended what they were at."""
        before = [worker.turns for worker in self.workers]
        self.until(lambda: all(worker.turns > turns + 1 for worker, turns in zip(self.workers, before)), self.options.timeout * 3)

    def lose(self, node):
        """What is on this node, which is down, will be lost: nobody uses the keys of now any more when this returns."""
        self.lost += [(range_, self.keys.epoch) for range_ in self.owned if range_[2] == node]
        self.keys.renew()
        self.all_turn()

    def is_lost(self, key):
        epoch = int(key.split(":")[1])
        return any(first <= slot(key) <= last and epoch <= until for (first, last, _), until in self.lost)

    # The run.

    def run(self, names):
        """Problems."""
        self.acts = [nemeses.ALL[name] for name in names]
        if "clock" in names or "kill_amid" in names and faketime():
            self.fake_clocks()
        if "full_disk" in names:
            kills.small_disks(self)
        if OF_TWO & set(names):
            for server in self.cluster.servers.values():
                server.binary = self.options.other or server.binary
        try:
            self.cluster.start_all()
            if not self.options.copies and self.cluster.until_ok() is None:
                return [f"no cluster within {HEAL_S} s: {self.status()}"]
            if (self.options.group or self.options.copies) and not self.cluster.has_copies():
                return [f"no copies of logs within {HEAL_S} s: {self.cluster.status()}"]
            self.owned = self.cluster.owners()  # [(first slot, last slot, node)]
            self.ways = ways_of(self.cluster, 1)
            self.level = nemeses.level_of(self, 1)
            if self.options.ways:
                self.ways = [way for way in self.ways if way in self.options.ways]
            self.end = time.monotonic() + self.options.seconds
            self.workers = [Worker(self, i, random.Random(f"{self.options.seed} {self.name} {i}")) for i in range(self.options.clients)]
            for worker in self.workers:
                worker.start()
            self.sleep(0.5, 1)
            if "grow" in names:
                self.round(nemeses.grow)
            while time.monotonic() < self.end and not self.problems and not 0 < self.options.kills <= self.cluster.kills:
                self.round(self.rng.choice(self.acts))
            self.is_over = True
            self.network.heal()
            for worker in self.workers:
                worker.join(self.options.timeout * 4)
                if worker.is_alive():
                    self.problem("a client is neither answered nor given up")
            if not self.problems:
                self.must_heal()
            transactions = [op for worker in self.workers for op in worker.transactions if "type" in op]
            if not self.problems:
                transactions += self.last_reads()
            registers = [op for worker in self.workers for op in worker.registers if "type" in op]
            self.hung(transactions + registers)
            self.problems += self.cluster.crashed()
            return self.problems + [problem for worker in self.workers for problem in worker.problems] + self.judge(transactions, registers)
        finally:
            self.is_over = True
            self.network.heal()
            for node in list(self.cluster.stopped):
                self.cluster.resume(node)
            self.cluster.end()

    def round(self, act):
        began = time.monotonic()
        what = self.done(act)
        self.count("rounds")
        self.tell(f"{began - self.end + self.options.seconds:7.2f} s: {what}")
        if self.rng.random() < 0.6 and time.monotonic() < self.end:
            self.must_heal()
        self.sleep(0.0, self.options.rest)

    def done(self, act):
        if act.__name__ in SILENT:
            self.is_silent()
        what = act(self)
        if act.__name__ in SILENT:
            self.is_silent()
        return what

    def meanwhile(self):
        """In the midst of a nemesis, which is silent: sometimes another one of this run."""
        self.is_silent()
        self.sleep(0.5, 3)
        others = [act for act in self.acts if act.__name__ not in OF_TWO]
        if others and self.rng.random() < 0.5:
            self.tell(f"{'':8}   meanwhile: {self.done(self.rng.choice(others))}")

    def tell(self, line):
        self.story.append(line)
        if self.options.verbose:
            print("   " + line, flush=True)

    def must_heal(self, times=1):
        """Everything is whole again: so all nodes say so soon, and keys of all nodes can be written at all nodes. `times` as long may pass."""
        began = time.monotonic()
        if ended := self.cluster.ended():
            return self.problem("; ".join(ended))
        if self.cluster.until_ok(HEAL_S * times) is None:
            return self.problem(f"not well {HEAL_S * times} s after everything was whole again: {self.status()}")
        self.owned = self.cluster.owners()
        for node in self.cluster.data:
            for owner in self.owning():
                if self.until(lambda: self.try_ask(node, "SET", self.key_of(owner), "1") == b"OK", HEAL_S / 2) is None:
                    return self.problem(f"keys of node {owner} cannot be written at node {node} {HEAL_S / 2} s after all was well: "
                                        f"{self.try_ask(node, 'SET', self.key_of(owner), '1')!r}")
        self.spent += time.monotonic() - began
        self.slowest_heal = max(self.slowest_heal, time.monotonic() - began)

    def status(self):
        return {node: self.try_ask(node, "CLUSTER", "STATUS") for node in self.nodes}

    def last_reads(self):
        keys = sorted(key for key in self.keys.lists if not self.is_lost(key))
        found = []
        for at in range(0, len(keys), LAST_AT_ONCE):
            value = [["r", key, None] for key in keys[at:at + LAST_AT_ONCE]]
            op = {"began": now(), "way": "multi", "node": self.rng.choice(self.cluster.data), "value": value, "type": "ok", "is_final": True}

            def read():
                try:
                    client = self.cluster[op["node"]].client(10)
                    op["began"] = now()
                    replies = client.calls([("MULTI",), *map(command_of, value), ("EXEC",)])[-1]
                    client.close()
                except Closed as closed:
                    replies = str(closed)
                if isinstance(replies, list):
                    return replies
                op["error"] = replies
                return self.count("last reads tried again")

            replies = self.until(read, HEAL_S / 2)
            if replies is None:
                self.problem(f"{[key for _, key, _ in value]} cannot be read in the end at node {op['node']}: {op['error']}; {self.stuck(value)}")
                return found
            op["ended"] = now()
            for micro, reply in zip(value, replies):
                micro[2] = [int(item) for item in reply]
            op.pop("error", None)
            found.append(op)
        return found

    def stuck(self, value):
        """Which of these keys are not answered for at which nodes, each by itself."""
        found = [f"{key} (slot {slot(key)}) at node {node}: {reply}" for _, key, _ in value for node in self.cluster.data
                 for reply in [self.try_ask(node, "LRANGE", key, 0, 0)] if not isinstance(reply, list)]
        return f"owners {self.owned}; " + "; ".join(found)

    def hung(self, ops):
        """With copies nobody waits in vain, but for what was silent."""
        waited = [op for op in ops if self.options.copies and op["type"] == "info" and "timed out" in op["error"]]
        for op in waited:
            began, ended = op["began"] / 1e9, op["gave_up"] / 1e9
            if not any(began - HANGS_AFTER_S < moment < ended for moment in self.silences):
                self.problem(f"not answered within {ended - began:.1f} s, and nothing was silent: {verdict.described({'value': None, **op})} {op.get('key', '')}")
        self.count("not answered in time", 0)
        self.counts["not answered in time"] = len(waited)

    def judge(self, transactions, registers):
        self.transactions, self.registers = transactions, registers
        checkers.write_transactions(transactions, self.folder / "transactions.jsonl")
        checkers.write_registers(registers, self.folder / "registers.jsonl")
        (self.folder / "story.txt").write_text("\n".join(self.story) + "\n")
        found = verdict.problems(transactions, registers)
        if self.options.checkers:
            found += checkers.adya(self.options.checkers["adya"], self.folder / "transactions.jsonl")
            found += checkers.porcupine(self.options.checkers["porcupine"], self.folder / "registers.jsonl")
        return found

    def summary(self):
        def numbers(ops):
            return "{ok} answered, {fail} refused, {info} unknown".format(**{kind: sum(op["type"] == kind for op in ops) for kind in ("ok", "fail", "info")})
        moments = sorted(op["ended"] for op in self.transactions + self.registers if op["type"] == "ok")
        silence = max((after - before for before, after in zip(moments, moments[1:])), default=0) / 1e9
        counts = ", ".join(f"{count} {what}" for what, count in {**self.counts, **self.cluster.counts(), "kills": self.cluster.kills}.items())
        return (f"{counts}; transactions ({', '.join(sorted(set(self.ways)))}): {numbers(self.transactions)}; registers: {numbers(self.registers)}; "
                f"longest without an answer {silence:.1f} s, slowest to heal {self.slowest_heal:.1f} s")

    def errors(self):
        found = {}
        for worker in self.workers:
            for word, count in worker.errors.items():
                found[word] = found.get(word, 0) + count
        return [f"{count:6} {word}" for word, count in sorted(found.items(), key=lambda item: -item[1])]

    def fake_clocks(self):
        library = faketime()
        if not library:
            raise nemeses.Missing("needs libfaketime")
        self.has_clocks = True
        for node, server in self.cluster.servers.items():
            self.set_clock(node, 0)
            server.before = [*server.before, "env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={self.folder / f'clock-{node}'}",
                             "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]
