"""The loop of lives: clients work, the server is killed, started again, and what is there is compared with what they know."""
import random
import signal
import threading
import time

import shared
from history import NEVER, Op, now, pipeline, token
from private import Private
from wire import Client, Closed, ErrorReply, Refused, Server, dump

ALLOWED = ("no such key",)


class Clients:
    """All clients of one life. They end when their connections do."""

    def __init__(self, server, world, rng, workers):
        self.server, self.world, self.threads, self.stop, self.problems = server, world, [], False, []
        for i in range(workers):
            self.spawn(self.worker, random.Random(rng.random()), i)
        for private in world.private:
            self.spawn(self.alone, random.Random(rng.random()), private)
        for i in range(3):
            self.spawn(self.consumer, random.Random(rng.random()), i)
        self.spawn(self.belt, random.Random(rng.random()))
        for i in range(2):
            self.spawn(self.publisher, random.Random(rng.random()), i)
        if world.saves:
            self.spawn(self.saver, random.Random(rng.random()))
        self.spawn(self.listener)
        self.spawn(self.invalidated)

    def spawn(self, what, *arguments):
        def guarded():
            try:
                what(*arguments)
            except Closed:
                pass
            except Exception as error:  # noqa: BLE001  (a thread's end must be seen)
                self.problems.append(f"{what.__name__}: {error!r}")
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self.threads.append(thread)

    def join(self):
        self.stop = True
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                self.problems.append("a client was neither answered nor cut off within 60 s of the server's end")

    def worker(self, rng, index):
        """Operations on shared keys, alone or in pipelines, each pipeline in one database."""
        clients, depth = {}, (1, 1, 8, 40)[index % 4]
        families = [family for family in self.world.families for _ in range(4 if family.db == 0 else 1)]
        while not self.stop:
            db = rng.choice(families).db
            if db not in clients:
                clients[db] = self.server.client()
                clients[db].call("SELECT", db)
            ops = []
            for _ in range(rng.randrange(1, depth + 1)):
                family = rng.choice([family for family in families if family.db == db])
                made = family.batch(rng)
                if made:
                    ops.append(Op(*made))
                    family.ops.append(ops[-1])
            pipeline(clients[db], ops)

    def alone(self, rng, private):
        client = self.server.client()
        client.call("SELECT", private.databases[0])
        while not self.stop:
            private.run(client, rng)

    def consumer(self, rng, index):
        client, queues = self.server.client(), self.world.queues
        while not self.stop:
            keys = [f"queue:{i}" for i in range(queues.COUNT)]
            rng.shuffle(keys)
            op = Op([rng.choice((("BLPOP", *keys, 5), ("BRPOP", *keys, 5)))], None)
            queues.pops.append(op)
            pipeline(client, [op])

    def belt(self, rng):
        client, queues = self.server.client(), self.world.queues
        while not self.stop:
            op = Op([("BLMOVE", "belt:from", "belt:to", "LEFT", "RIGHT", 5)], None)
            queues.moves.append(op)
            pipeline(client, [op])

    def saver(self, rng):
        """Checkpoints, one after the other, some of which fall into the end."""
        client = self.server.client()
        while not self.stop:
            time.sleep(rng.random() * 0.3)
            reply = client.call(rng.choice(("BGSAVE", "BGSAVE", "SAVE")))
            if isinstance(reply, ErrorReply) and "in progress" not in reply:
                self.problems.append(f"a checkpoint failed: {reply}")
            self.world.saved += 1

    def publisher(self, rng, index):
        """Says in one block what it has written in that block."""
        client, news = self.server.client(), self.world.news
        while not self.stop:
            ops = []
            for _ in range(rng.choice((1, 1, 5))):
                n = news.next(index)
                key, channel = f"news:{index}", f"channel:{index}"
                if rng.random() < 0.7:
                    ops.append(Op([("MULTI",), ("SET", key, n), ("PUBLISH", channel, n), ("EXEC",)], (index, n)))
                else:
                    script = "redis.call('set', KEYS[1], ARGV[1]) redis.call('publish', ARGV[2], ARGV[1]) return 1"
                    ops.append(Op([("EVAL", script, 1, key, n, channel)], (index, n)))
                ops.append(Op([("INCR", f"noted:{index}")], None))
                ops.append(Op([("SET", f"marked:{token()}", "1")], None))
            news.ops += ops
            pipeline(client, ops)

    def listener(self):
        client, news = self.server.client(), self.world.news
        client.send([("PSUBSCRIBE", "channel:*", "__keyspace@0__:noted:*")])
        while not self.stop:
            message = client.read()
            if message[0] == b"pmessage":
                name, _, index = message[2].rpartition(b":")
                news.hear(name, int(index), message[3])

    def invalidated(self):
        """A cache: told of keys that have been set, it knows that they are there."""
        client, news = self.server.client(), self.world.news
        client.send([("HELLO", 3), ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "marked:")])
        while not self.stop:
            message = client.read()
            if isinstance(message, list) and message and message[0] == b"invalidate":
                news.marked.update(key.decode() for key in message[1] or [])


class News:
    """What subscribers have heard of writes: it never un-happens."""

    def __init__(self):
        self.sent, self.ops, self.heard, self.noted, self.marked = {}, [], {}, {}, set()

    def next(self, index):
        self.sent[index] = self.sent.get(index, 0) + 1
        return self.sent[index]

    def begin(self, before):
        self.heard, self.noted, self.marked, self.ops, self.before = {}, {}, set(), [], before[0]

    def hear(self, name, index, text):
        if name == b"channel":
            self.heard[index] = int(text)
        elif text == b"incrby":
            self.noted[index] = self.noted.get(index, 0) + 1

    def number(self, dump, key):
        return int(dump[key][1]) if key in dump else 0

    def check(self, after):
        problems = []
        for index in self.sent:
            there = self.number(after[0], f"news:{index}")
            acknowledged = max((op.note[1] for op in self.ops if op.known() and op.note and op.note[0] == index), default=0)
            for what, least in (("acknowledged", acknowledged), ("published", self.heard.get(index, 0))):
                if there < least:
                    problems.append(f"news:{index}: {least} was {what}, and {there} is there")
            if there > self.sent[index]:
                problems.append(f"news:{index}: from the future")
            noted = self.number(after[0], f"noted:{index}")
            least = self.number(self.before, f"noted:{index}") + self.noted.get(index, 0)
            if noted < least:
                problems.append(f"noted:{index}: {least} were notified, and {noted} is there")
        marked = {op.commands[0][1] for op in self.ops if op.known() and op.commands[0][1:2] and op.commands[0][1].startswith("marked:")}
        lost = (self.marked | marked) - after[0].keys()
        if lost:
            problems.append(f"marked: invalidated or acknowledged, and not there: {sorted(lost)[:3]} ({len(lost)})")
        return problems


class World:
    """All that clients know over the lives of one server."""

    def __init__(self, saves):
        self.saves, self.saved = saves, 0
        self.families = [family() for family in shared.FAMILIES]
        self.queues = next(family for family in self.families if isinstance(family, shared.Queues))
        self.news = News()
        self.private = [Private(f"alone{i}", [8 + 2 * i, 9 + 2 * i], False) for i in range(2)]
        self.private += [Private(f"piped{i}", [0], True) for i in range(2)]

    def begin(self, life, before):
        for family in self.families:
            family.begin(life, before)
        self.news.begin(before)
        for private in self.private:
            private.begin()

    def all_ops(self):
        """Of this life."""
        lists = [family.ops for family in self.families] + [private.ops for private in self.private]
        return [op for ops in lists + [self.queues.pops, self.queues.moves, self.news.ops] for op in ops]

    def check(self, after, began, ended):
        problems = []
        for family in self.families:
            refused = [op for op in family.ops if isinstance(op.reply, ErrorReply) and op.known() and not any(a in op.reply for a in ALLOWED)]
            problems += [f"{type(family).__name__}: an error that should not be: {op}" for op in refused[:3]]
            # What was refused has not happened.
            family.ops = [op for op in family.ops if op not in set(refused)] if refused else family.ops
            problems += family.check(after, began, ended)
        problems += self.news.check(after)
        for private in self.private:
            problems += private.check(after)
        return problems


class Lives:
    """One server's lives, from an empty directory to the last kill."""

    def __init__(self, binary, folder, seed, streams, promise, workers, segment, say, clients=8):
        self.rng, self.say, self.clients = random.Random(seed), say, clients
        dirs = [f"stream-{i}" for i in range(streams)]
        settings = ["--appendonly", "yes", "--appendfsync", promise, "--log-segment-size", segment, "--workers", workers,
                    "--notify-keyspace-events", "K$", "--log-dirs", *dirs]
        # Most servers make checkpoints all the time, so that the log is cut and files are used again.
        saves = seed % 4 > 0
        settings += ["--checkpoint-log-size", "1mb", "--checkpoint-log-max", "2mb", "--checkpoint-interval", 1, "--checkpoint-cpu", 50] if saves else []
        self.server = Server(binary, folder, settings)
        self.world, self.life, self.kills = World(saves), 0, 0
        self.acknowledged = self.doubtful = 0

    def start(self):
        """Starts the server; sometimes it is killed while it does."""
        while self.rng.random() < 0.25:
            self.server.launch()
            time.sleep(self.rng.random() * 0.3)
            self.server.kill()
            self.kills += 1
        self.server.start()

    def end(self):
        """The server's end, in one of several ways. What it was."""
        kind = self.rng.random()
        if kind < 0.12:
            self.server.signal(signal.SIGTERM)
            if self.rng.random() < 0.5:
                time.sleep(self.rng.random() * 0.05)
                self.server.kill()
                return "SIGTERM, SIGKILL"
            status = self.server.wait()
            return f"SIGTERM, {status}"
        if kind < 0.2:
            self.server.signal(signal.SIGSTOP)
            time.sleep(self.rng.random())
            if self.rng.random() < 0.5:
                self.server.signal(signal.SIGCONT)
                time.sleep(self.rng.random() * 0.2)
        self.server.kill()
        return "SIGKILL"

    def stable(self):
        """The dump, and when it was read; sometimes the server is killed at once, and must come to the same again."""
        began = now()
        found = dump(self.server)
        ended = now()
        if self.rng.random() < 0.2:
            self.server.kill()
            self.kills += 1
            self.start()
            again = dump(self.server)
            for db, (one, other) in enumerate(zip(found, again)):
                lasting = [{k: v for k, v in content.items() if not k.startswith("short:")} for content in (one, other)]
                if lasting[0] != lasting[1]:
                    keys = [k for k in lasting[0].keys() | lasting[1].keys() if lasting[0].get(k) != lasting[1].get(k)]
                    return found, began, ended, [f"a second crash has changed what was recovered: db {db}: {sorted(keys)[:5]}"]
        return found, began, ended, []

    def run(self, kills):
        """Lives until so many kills have been; problems of the last, none if all is well."""
        self.start()
        client = self.server.client()
        client.calls(next(f for f in self.world.families if isinstance(f, shared.Accounts)).first())
        client.close()
        before = dump(self.server)
        while self.kills < kills:
            self.life += 1
            self.world.begin(self.life, before)
            clients = Clients(self.server, self.world, self.rng, self.clients)
            end = time.monotonic() + min(self.rng.expovariate(1 / 0.6), 3) + 0.05
            while time.monotonic() < end and self.server.process.poll() is None:
                time.sleep(0.005)
            if self.server.process.poll() is not None:
                return [f"the server ended by itself: {self.server.process.returncode}\n{self.server.words()}"]
            how = self.end()
            clients.stop = True
            self.kills += 1
            clients.join()
            problems = list(clients.problems)
            if how == "SIGTERM, None":
                return [f"SIGTERM did not end the server within 60 s\n{self.server.words()}"]
            try:
                self.start()
                before, began, ended, more = self.stable()
            except (Refused, Closed) as error:
                return problems + [f"it did not come back: {error}"]
            ops = self.world.all_ops()
            self.acknowledged += sum(op.known() for op in ops)
            self.doubtful += sum(not op.known() for op in ops)
            problems += more + self.world.check(before, began, ended)
            if problems:
                with open(self.server.folder / "operations.txt", "w") as file:
                    for op in sorted(ops, key=lambda op: op.began):
                        print(op, file=file)
                return [f"life {self.life}, ended by {how} (its operations: operations.txt):", *problems]
            self.say(f"  life {self.life}: {how}; {sum(op.known() for op in ops)} acknowledged, "
                     f"{sum(not op.known() for op in ops)} in doubt; {sum(map(len, before))} keys")
        return []
