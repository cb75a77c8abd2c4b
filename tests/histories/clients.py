"""Clients: they append to lists and read them, in transactions over keys of several nodes, write and read registers, and note what
they were told.

An operation is a dictionary. Of both kinds: `began` and `ended` (nanoseconds; `ended` is None without an answer), `node`, `way`, `error`.
A transaction has `type` (ok, fail: refused, it has not happened, info: not known) and `value`, a list of ["append", key, number]
and ["r", key, numbers or None]; `lengths` are RPUSH's replies. An operation on a register has `key`, `kind` (write, read, cas), `value`,
`old`, and `is_swapped` for an answered cas; refused ones have `type` fail.
"""
import itertools
import threading
import time
import traceback

from history import now
from wire import Client, Closed, ErrorReply

LISTS, REGISTERS, PAIRS = 10, 5, 3
USES = 60  # operations on a key, after which another takes its place: lists stay short, and registers can be checked

SCRIPT = """
local found = {}
for i, key in ipairs(KEYS) do
  if ARGV[i] == '' then found[i] = redis.call('lrange', key, 0, -1)
  else found[i] = redis.call('rpush', key, ARGV[i]) end
end
return found
"""
SWAP = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 else return 0 end"
CONNECT_S = 2


class Refused(Exception):
    """It has not happened, and the server said so."""


class Keys:
    """Which keys are in use."""

    def __init__(self):
        self.lock, self.uses, self.epoch, self.numbers = threading.Lock(), {}, 0, itertools.count(1)
        self.lists = set()

    def _name(self, kind, index):
        uses = self.uses[kind, index] = self.uses.get((kind, index), 0) + 1
        return f"{kind}:{self.epoch}:{index}:{uses // USES}"

    def some_lists(self, rng, count):
        with self.lock:
            found = [self._name("list", index) for index in rng.sample(range(LISTS), count)]
            self.lists.update(found)
            return found

    def one(self, rng, kind, of):
        with self.lock:
            return self._name(kind, rng.randrange(of))

    def renew(self):
        """From now on, others are used."""
        with self.lock:
            self.epoch += 1

    def number(self):
        return next(self.numbers)


class Worker(threading.Thread):
    """One client after another, of nodes by chance."""

    def __init__(self, world, index, rng):
        super().__init__(daemon=True)
        self.world, self.index, self.rng = world, index, rng
        self.transactions, self.registers, self.errors, self.problems = [], [], {}, []
        self.turns = self.connected = 0

    def run(self):
        try:
            self.work()
        except Exception:
            self.problems.append("a client has ended: " + traceback.format_exc())

    def work(self):
        while not self.world.is_over:
            node = self.rng.choice(self.world.cluster.data)
            self.turns += 1
            try:
                client = Client(self.world.cluster[node].fixed, CONNECT_S, self.world.cluster[node].host)
            except Closed:
                time.sleep(0.05)
                continue
            client.socket.settimeout(self.world.options.timeout)
            self.connected = len(self.transactions)
            try:
                for _ in range(self.rng.randint(5, 100)):
                    if self.world.is_over:
                        break
                    self.turns += 1
                    if self.world.is_quiet:
                        time.sleep(0.05)
                        continue
                    if self.rng.random() < 0.7:
                        self.transaction(client, node)
                    else:
                        self.register(client, node)
                    time.sleep(self.rng.random() * 2 * self.world.options.think)
            except Closed:
                pass
            client.close()

    def done(self, op, act):
        """Carries out and notes how it ended. Raises `Closed` where that is not known."""
        op["began"], op["ended"] = now(), None
        try:
            act()
            op["type"], op["ended"] = "ok", now()
        except Refused as refused:
            op["type"], op["ended"], op["error"] = "fail", now(), str(refused)
            word = f"{op['way']}: {str(refused)[:100]}"
            self.errors[word] = self.errors.get(word, 0) + 1
            time.sleep(0.02)
        except Closed as closed:
            op["type"], op["error"], op["gave_up"] = "info", str(closed), now()
            raise

    def transaction(self, client, node):
        rng = self.rng
        keys = self.world.keys.some_lists(rng, rng.choice((1, 2, 2, 3, 3, 4)))
        if rng.random() < 0.15:
            keys.append(rng.choice(keys))
        does_write = rng.random() < 0.7
        value = [["append", key, self.world.keys.number()] if does_write and rng.random() < 0.6 else ["r", key, None] for key in keys]
        way = rng.choice(self.world.ways)
        if len(keys) == 1 and rng.random() < 0.5:
            way = "plain"
        op = {"way": way, "node": node, "value": value, "lengths": {}}
        self.transactions.append(op)
        self.done(op, lambda: WAYS[way](self, client, op))

    def take(self, op, replies):
        """What the commands of a transaction answered."""
        errors = [reply for reply in replies if isinstance(reply, ErrorReply)]
        if op["way"] == "block" and errors and all(str(error).startswith(("MISCONF", "CLUSTERDOWN another process leads")) for error in errors):
            # The log has failed, or another node has the shard: as in Redis, each script of a block is refused its writes by itself. What one of them had written before would not be answered.
            raise Refused(errors[0])
        if len(replies) != len(op["value"]) or errors:
            self.problems.append(f"{op['way']} at node {op['node']}: a transaction was answered {replies}: {op['value']}")
            raise Closed("not what was asked for")
        for at, (micro, reply) in enumerate(zip(op["value"], replies)):
            if micro[0] == "r":
                micro[2] = [int(item) for item in reply]
            else:
                op["lengths"][at] = reply

    def register(self, client, node):
        rng, keys = self.rng, self.world.keys
        kind = rng.choice(("write", "read", "read", "cas"))
        is_pair = kind != "cas" and rng.random() < 0.4
        key = keys.one(rng, "pair", PAIRS) if is_pair else keys.one(rng, "register", REGISTERS)
        op = {"way": "pair" if is_pair else "register", "node": node, "key": key, "kind": kind}
        if kind != "read":
            op["value"] = str(keys.number())
        if kind == "cas":
            seen = [other for other in self.registers[-40:] if other["key"] == key and other.get("value")]
            op["old"] = seen[-1]["value"] if seen else "0"
        self.registers.append(op)
        self.done(op, lambda: self.on_register(client, op))

    def on_register(self, client, op):
        key, other, kind = op["key"], op["key"] + "'", op["kind"]
        if kind == "write":
            command = ("MSET", key, op["value"], other, op["value"]) if op["way"] == "pair" else ("SET", key, op["value"])
        elif kind == "cas":
            command = ("EVAL", SWAP, 1, key, op["old"], op["value"])
        else:
            command = ("MGET", key, other) if op["way"] == "pair" else ("GET", key)
        reply = accepted(client.call(*command))
        if kind == "cas":
            op["is_swapped"] = reply == 1
        elif kind == "read":
            values = [part and part.decode() for part in (reply if op["way"] == "pair" else [reply, reply])]
            op["value"] = values[0] if values[0] == values[1] else f"torn: {values}"


def accepted(reply):
    if isinstance(reply, ErrorReply):
        raise Refused(reply)
    return reply


def command_of(micro):
    return ("RPUSH", micro[1], micro[2]) if micro[0] == "append" else ("LRANGE", micro[1], 0, -1)


def plain(worker, client, op):
    worker.take(op, [accepted(client.call(*command_of(op["value"][0])))])


def multi(worker, client, op):
    replies = client.calls([("MULTI",), *map(command_of, op["value"]), ("EXEC",)])
    if isinstance(replies[0], ErrorReply):
        worker.problems.append(f"MULTI at node {op['node']} was answered {replies[0]}")
        raise Closed("commands without their MULTI")
    if replies[-1] is None:
        before = worker.transactions[worker.connected:-1][-3:]
        worker.problems.append(f"EXEC at node {op['node']} says that a watched key has changed, and none is watched: {before}")
        raise Refused("watched keys have changed that nobody watches")
    worker.take(op, accepted(replies[-1]))


def watch(worker, client, op):
    """The first key is watched and read before."""
    key = op["value"][0][1]
    accepted(client.call("WATCH", key))
    before = client.call("LRANGE", key, 0, -1)
    replies = client.calls([("MULTI",), *map(command_of, op["value"]), ("EXEC",)])
    if isinstance(replies[0], ErrorReply):
        raise Closed("commands without their MULTI")
    if replies[-1] is None:
        raise Refused("a watched key has changed")
    found = accepted(replies[-1])
    worker.take(op, found)
    if not isinstance(before, ErrorReply):
        op["value"].insert(0, ["r", key, [int(item) for item in before]])
        op["lengths"] = {at + 1: length for at, length in op["lengths"].items()}


def script_of(value):
    return ("EVAL", SCRIPT, len(value), *(micro[1] for micro in value), *(micro[2] if micro[0] == "append" else "" for micro in value))


def lua(worker, client, op):
    worker.take(op, accepted(client.call(*script_of(op["value"]))))


def block(worker, client, op):
    """Half in a script, half beside it."""
    half = len(op["value"]) // 2
    replies = client.calls([("MULTI",), script_of(op["value"][:half]), *map(command_of, op["value"][half:]), ("EXEC",)])
    if isinstance(replies[0], ErrorReply):
        raise Closed("commands without their MULTI")
    found = accepted(replies[-1])
    worker.take(op, [*found[0], *found[1:]] if isinstance(found[0], list) else found)


def begin(worker, client, op):
    """One command after the other."""
    accepted(client.call("BEGIN"))
    replies = []
    for micro in op["value"]:
        reply = client.call(*command_of(micro))
        if isinstance(reply, ErrorReply):
            client.call("ROLLBACK")
            raise Refused(reply)
        replies.append(reply)
    reply = client.call("COMMIT")
    if isinstance(reply, ErrorReply):
        # But for a conflict, it has not ended: what follows must not become a part of it.
        client.call("ROLLBACK")
        raise Refused(f"COMMIT: {reply}")
    worker.take(op, replies)


WAYS = {"multi": multi, "watch": watch, "lua": lua, "block": block, "begin": begin, "plain": plain}


def ways_of(cluster, node):
    """What this server can do over keys of several nodes."""
    found, client = ["multi", "multi", "watch"], cluster[node].client(10)
    keys = [f"way:{i}" for i in range(12)]
    if not isinstance(client.call(*script_of([["r", key, None] for key in keys])), ErrorReply):
        found.append("lua")
    reply = client.calls([("MULTI",), script_of([["r", key, None] for key in keys]), ("EXEC",)])[-1]
    if isinstance(reply, list) and not isinstance(reply[0], ErrorReply):
        found.append("block")
    if not isinstance(client.call("BEGIN"), ErrorReply):
        client.call("ROLLBACK")
        found.append("begin")
    client.close()
    return found
