"""Keys of one connection alone: everything it did is known, so that after a crash exactly one of a few states must be found.
A model of the commands says which."""
import copy

from history import NEVER, Op, pipeline, token
from wire import ErrorReply

FAR = 4_000_000_000_000


def number(text):
    return int(text or b"0")


class Model:
    """What one connection has in its databases: {db: {key: [type, value, expiry]}}."""

    def __init__(self, databases):
        self.data = {db: {} for db in databases}
        self.db = databases[0]

    def matches(self, dump, prefix=""):
        """Whether the dump holds just this."""
        for db, content in self.data.items():
            found = {key: entry for key, entry in dump[db].items() if key.startswith(prefix)}
            if {key: tuple(entry) for key, entry in content.items()} != found:
                return False
        return True

    def difference(self, dump, prefix=""):
        lines = []
        for db, content in self.data.items():
            found = {key: entry for key, entry in dump[db].items() if key.startswith(prefix)}
            for key in sorted(content.keys() | found.keys()):
                expected, there = content.get(key), found.get(key)
                if (expected and tuple(expected)) != there:
                    lines.append(f"      db {db} {key}: {str(there)[:150]}\n         and not {str(expected)[:150]}")
        return "\n".join(lines)

    def value(self, key, kind, empty):
        """The value to change, made if it is not there."""
        entry = self.data[self.db].setdefault(key, [kind, empty, -1])
        return entry[1]

    def put(self, key, kind, value, expiry=None):
        old = self.data[self.db].get(key)
        self.data[self.db][key] = [kind, value, expiry if expiry is not None else old[2] if old else -1]

    def tidy(self, key):
        entry = self.data[self.db].get(key)
        if entry and entry[0] != "stream" and entry[0] != "string" and not entry[1]:
            del self.data[self.db][key]

    def apply(self, command):
        name, *words = command
        getattr(self, f"do_{name.lower()}")(*words)

    def do_set(self, key, value, *more):
        self.put(key, "string", str(value).encode(), more[1] if more else -1)

    def do_mset(self, *words):
        for key, value in zip(words[::2], words[1::2]):
            self.do_set(key, value)

    def do_del(self, *keys):
        for key in keys:
            self.data[self.db].pop(key, None)

    do_unlink = do_getdel = do_del

    def do_incrby(self, key, by):
        self.put(key, "string", b"%d" % (number(self.value(key, "string", b"0")) + by))

    def do_append(self, key, text):
        self.put(key, "string", self.value(key, "string", b"") + text.encode())

    def do_setrange(self, key, at, text):
        old = self.value(key, "string", b"").ljust(at, b"\0")
        self.put(key, "string", old[:at] + text.encode() + old[at + len(text):])

    def do_pexpireat(self, key, at):
        if key in self.data[self.db]:
            self.data[self.db][key][2] = at

    def do_persist(self, key):
        self.do_pexpireat(key, -1)

    def do_rpush(self, key, *items):
        self.value(key, "list", []).extend(item.encode() for item in items)

    def do_lpush(self, key, *items):
        self.value(key, "list", [])[:0] = [item.encode() for item in reversed(items)]

    def do_lpop(self, key):
        if key in self.data[self.db]:
            self.data[self.db][key][1].pop(0)
            self.tidy(key)

    def do_ltrim(self, key, first, last):
        if key in self.data[self.db]:
            self.data[self.db][key][1] = self.data[self.db][key][1][first:last + 1]
            self.tidy(key)

    def do_lmove(self, source, target, *_):
        """LEFT RIGHT."""
        if source in self.data[self.db]:
            item = self.data[self.db][source][1].pop(0)
            self.tidy(source)
            self.do_rpush(target, item.decode())

    def do_hset(self, key, *words):
        self.value(key, "hash", {}).update((f.encode(), v.encode()) for f, v in zip(words[::2], words[1::2]))

    def do_hdel(self, key, field):
        if key in self.data[self.db]:
            self.data[self.db][key][1].pop(field.encode(), None)
            self.tidy(key)

    def do_hincrby(self, key, field, by):
        value = self.value(key, "hash", {})
        value[field.encode()] = b"%d" % (number(value.get(field.encode())) + by)

    def do_sadd(self, key, *members):
        self.put(key, "set", frozenset(self.value(key, "set", frozenset())) | {member.encode() for member in members})

    def do_srem(self, key, member):
        if key in self.data[self.db]:
            self.put(key, "set", self.data[self.db][key][1] - {member.encode()})
            self.tidy(key)

    def do_sunionstore(self, target, *keys):
        union = frozenset().union(*(self.data[self.db][key][1] for key in keys if key in self.data[self.db]))
        self.put(target, "set", union, -1)
        self.tidy(target)

    def do_zadd(self, key, score, member):
        self.value(key, "zset", {})[member.encode()] = b"%d" % score

    def do_zincrby(self, key, by, member):
        value = self.value(key, "zset", {})
        value[member.encode()] = b"%d" % (number(value.get(member.encode())) + by)

    def do_zrem(self, key, member):
        if key in self.data[self.db]:
            self.data[self.db][key][1].pop(member.encode(), None)
            self.tidy(key)

    def do_xadd(self, key, ident, field, value):
        self.value(key, "stream", []).append((ident.encode(), (field.encode(), value.encode())))

    def do_xdel(self, key, ident):
        if key in self.data[self.db]:
            entry = self.data[self.db][key]
            entry[1] = [item for item in entry[1] if item[0] != ident.encode()]

    def do_rename(self, source, target):
        if source in self.data[self.db]:
            self.data[self.db][target] = self.data[self.db].pop(source)

    def do_copy(self, source, target, *_):
        if source in self.data[self.db]:
            self.data[self.db][target] = copy.deepcopy(self.data[self.db][source])

    def do_flushdb(self, *_):
        self.data[self.db] = {}

    def do_swapdb(self, a, b):
        self.data[a], self.data[b] = self.data[b], self.data[a]

    def do_move(self, key, db):
        if key in self.data[self.db] and key not in self.data[db]:
            self.data[db][key] = self.data[self.db].pop(key)


class Private:
    """One connection's own keys. With `tag` they are all in one slot, in one database with everybody's, and operations are sent
    in pipelines: a prefix of those that were not answered must be found. Without, keys lie in many slots of two databases, and
    operations are sent one by one: the last one has happened or not."""

    def __init__(self, name, databases, tag):
        self.name, self.model, self.tag = name, Model(databases), tag
        self.prefix = f"{{{name}}}" if tag else ""
        self.databases, self.ops, self.expected = databases, [], []

    def begin(self):
        self.ops = []

    def key(self, kind, rng):
        return f"{self.prefix}{kind}{rng.randrange(4)}"

    def simple(self, rng):
        """A command, as a tuple."""
        key = lambda kind: self.key(kind, rng)  # noqa: E731
        new, small = token(), f"m{rng.randrange(6)}"
        kind = rng.choice("slhzxt")
        choices = {
            "s": [("SET", key("s"), new), ("SET", key("s"), new, "PXAT", FAR + rng.randrange(1000)), ("APPEND", key("s"), new),
                  ("INCRBY", key("i"), rng.randrange(100)), ("SETRANGE", key("big"), rng.randrange(20000), new),
                  ("GETDEL", key("s")), ("PEXPIREAT", key("s"), FAR + rng.randrange(1000)), ("PERSIST", key("s"))],
            "l": [("RPUSH", key("l"), new, new), ("LPUSH", key("l"), new), ("LPOP", key("l")), ("LTRIM", key("l"), 0, 30),
                  ("LMOVE", key("l"), key("l"), "LEFT", "RIGHT")],
            "h": [("HSET", key("h"), small, new), ("HDEL", key("h"), small), ("HINCRBY", key("hc"), small, 3),
                  ("PEXPIREAT", key("h"), FAR + rng.randrange(1000))],
            "z": [("ZADD", key("z"), int(new), small), ("ZINCRBY", key("z"), 5, small), ("ZREM", key("z"), small)],
            "x": [("XADD", key("x"), f"{int(new)}-1", "f", new), ("XADD", key("x"), f"{int(new)}-1", "f", new)],
            "t": [("SADD", key("t"), small, new), ("SREM", key("t"), small), ("SUNIONSTORE", key("t"), key("t"), key("t"))],
        }
        return rng.choice(choices[kind])

    def commands(self, rng):
        """(what is sent, what the model does) of one operation."""
        kind = rng.randrange(20)
        if kind < 12:
            command = self.simple(rng)
            return [command], [command]
        if kind < 14:
            block = [self.simple(rng) for _ in range(rng.randrange(2, 6))]
            return [("MULTI",), *block, ("EXEC",)], block
        if kind == 14:
            of = rng.choice("slhzt")
            command = rng.choice((("RENAME", self.key(of, rng), self.key(of, rng)), ("COPY", self.key(of, rng), self.key(of, rng), "REPLACE")))
            return ([command], [command]) if command[1] != command[2] else self.commands(rng)
        if kind == 15:
            words = [word for _ in range(3) for word in (self.key("s", rng), token())]
            return [("MSET", *words)], [("MSET", *words)]
        if kind == 16:
            a, b, new = self.key("s", rng), self.key("l", rng), token()
            script = "redis.call('set', KEYS[1], ARGV[1]) return redis.call('rpush', KEYS[2], ARGV[1])"
            return [("EVAL", script, 2, a, b, new)], [("SET", a, new), ("RPUSH", b, new)]
        if kind == 17:
            command = (rng.choice(("DEL", "UNLINK")), *(self.key(rng.choice("slhzxti"), rng) for _ in range(2)))
            return [command], [command]
        if self.tag or rng.random() < 0.8:
            command = self.simple(rng)
        elif rng.random() < 0.2:
            command = ("FLUSHDB",)
        elif rng.random() < 0.5:
            command = ("SWAPDB", *self.databases)
        else:
            command = ("MOVE", self.key("s", rng), self.databases[1])
        return [command], [command]

    def run(self, client, rng):
        """One pipeline, or one operation. Errors that mean nothing happened: no such key, an ID that is too small."""
        count = rng.choice((1, 4, 16, 48)) if self.tag else 1
        ops = []
        for _ in range(count):
            sent, done = self.commands(rng)
            ops.append(Op(sent, done))
        self.ops += ops
        pipeline(client, ops)

    def apply(self, model, op):
        for command in op.note:
            # The server refuses an ID that is not above the last: IDs are unique and grow, so only a copy could have a higher one.
            model.apply(command)

    def check(self, after):
        """The model becomes what was found."""
        model, problems = self.model, []
        known = [op for op in self.ops if op.known()]
        for op in known:
            if isinstance(op.reply, ErrorReply) and "no such key" not in op.reply:
                problems.append(f"{self.name}: {op}")
            self.apply(model, op)
        doubtful = [op for op in self.ops if op.ended == NEVER]
        for op in [None, *doubtful]:
            if op:
                self.apply(model, op)
            if model.matches(after, self.prefix):
                return problems
        best = f"after all {len(known)} acknowledged operations and any number of the {len(doubtful)} others"
        last = "\n".join(f"      {op}" for op in self.ops[-(len(doubtful) + 3):][:8])
        return problems + [f"{self.name}: not a state that was, {best}; compared with all of them:\n"
                           f"{model.difference(after, self.prefix)}\n   last:\n{last}"]
