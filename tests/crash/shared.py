"""What many connections do to the same keys, and what must be true of it after a crash. A family makes operations, gets them
back with their replies, and compares them with everything that was there before this life and after it."""
import zlib

from history import NEVER, Register, collected, ordered, token
from wire import ErrorReply

FAR = 4_000_000_000_000  # an expiry far away, in unix milliseconds


class Family:
    """`before`: the dump that this life began with; `db`: where its keys are."""

    db = 0

    def __init__(self):
        self.ops, self.life = [], 0

    def begin(self, life, before):
        self.life, self.before, self.ops = life, before[self.db], []

    def batch(self, rng):
        """One operation: (commands, note)."""
        raise NotImplementedError

    def check(self, after, began, ended):
        """Problems, given the dump after the crash, which was read between these times."""
        raise NotImplementedError

    def value(self, content, key, empty=None):
        return content[key][1] if key in content else empty


class Registers(Family):
    """Single keys with unique values, written, read, deleted by everybody."""

    COUNT = 24

    def batch(self, rng):
        key, new = f"reg:{rng.randrange(self.COUNT)}", token()
        kind = rng.randrange(10)
        if kind < 3:
            return [("SET", key, new)], ("write", key, new)
        if kind == 3:
            until = FAR + rng.randrange(10**6)
            new = f"{new}@{until}"
            return [("SET", key, new, "PXAT", until)], ("write", key, new)
        if kind == 4:
            return [("SET", key, new, "GET")], ("swap", key, new)
        if kind == 5:
            return [("GETDEL", key)], ("take", key, None)
        if kind == 6:
            return [(rng.choice(("DEL", "UNLINK")), key)], ("delete", key, None)
        if kind == 7:
            script = "local old = redis.call('get', KEYS[1]) redis.call('set', KEYS[1], ARGV[1]) return old"
            return [("EVAL", script, 1, key, new)], ("swap", key, new)
        return [("GET", key)], ("read", key, None)

    def registers(self):
        """The registers with all that was done and read in this life."""
        found = {}
        for i in range(self.COUNT):
            key = f"reg:{i}"
            register = found[key] = Register(key)
            self.initial(register, self.value(self.before, key))
        for op in self.ops:
            kind, key, new = op.note
            register = found[key]
            if kind in ("write", "swap"):
                register.write(new, op.began, op.ended)
            if kind in ("delete", "take"):
                register.delete(op.began, op.ended)
            if kind in ("read", "swap", "take") and op.known():
                register.read(op.reply and op.reply.decode(), op.began, op.ended)
        return found

    @staticmethod
    def initial(register, content):
        if content is None:
            register.delete(-1, -1)
        else:
            register.write(content.decode(), -1, -1)

    def check(self, after, began, ended):
        problems = []
        for key, register in self.registers().items():
            kind, content, expiry = after[0].get(key, (None, None, -1))
            register.read(content and content.decode(), began, ended)
            problems += register.problems()
            if content is not None:
                _, _, until = content.decode().partition("@")
                if expiry != int(until or -1):
                    problems.append(f"{key}: {content.decode()} with the expiry of another value: {expiry}")
        return problems


class Groups(Registers):
    """Four keys in as many slots that are only written together, by MSET, blocks and scripts: one register."""

    COUNT = 8

    def batch(self, rng):
        group, new = f"group:{rng.randrange(self.COUNT)}", token()
        keys = [f"{group}:{part}" for part in "abcd"]
        both = [word for key in keys for word in (key, new)]
        kind = rng.randrange(9)
        if kind < 2:
            return [("MSET", *both)], ("write", group, new)
        if kind < 4:
            rng.shuffle(keys)
            return [("MULTI",), ("GET", keys[0]), *(("SET", key, new) for key in keys), ("EXEC",)], ("exec", group, new)
        if kind == 4:
            watched = [("WATCH", keys[1])]
            return watched + [("MULTI",), ("GET", keys[0]), *(("SET", key, new) for key in keys), ("EXEC",)], ("exec", group, new)
        if kind == 5:
            script = "for i = 1, 4 do redis.call('set', KEYS[i], ARGV[1]) end return 1"
            return [("EVAL", script, 4, *keys, new)], ("write", group, new)
        if kind == 6:
            # Keys that the script has not declared.
            script = "for _, part in ipairs({'a', 'b', 'c', 'd'}) do redis.call('set', ARGV[1] .. ':' .. part, ARGV[2]) end return 1"
            return [("EVAL", script, 0, group, new)], ("write", group, new)
        if kind == 7 and rng.random() < 0.5:
            return [("DEL", *keys)], ("delete", group, None)
        return [("MGET", *keys)], ("read", group, None)

    def whole(self, name, values, problems):
        """What the register holds. Torn is what holds two values."""
        if len(set(values)) > 1:
            problems.append(f"{name}: torn: {values}")
        return values[0] and values[0].decode()

    def check(self, after, began, ended):
        problems, found = [], {}
        for i in range(self.COUNT):
            name = f"group:{i}"
            register = found[name] = Register(name)
            self.initial(register, self.value(self.before, f"{name}:a"))
            values = [self.value(after[0], f"{name}:{part}") for part in "abcd"]
            register.read(self.whole(name, values, problems), began, ended)
        for op in self.ops:
            kind, name, new = op.note
            register = found[name]
            if kind == "exec" and op.known():
                if op.reply is None:
                    continue  # what was watched has changed
                register.read(op.reply[0] and op.reply[0].decode(), op.began, op.ended)
            if kind in ("write", "exec"):
                register.write(new, op.began, op.ended)
            elif kind == "delete":
                register.delete(op.began, op.ended)
            elif op.known():
                register.read(self.whole(name, op.reply, problems), op.began, op.ended)
        return problems + [problem for register in found.values() for problem in register.problems()]


class Counters(Family):
    """Counters that go up by one: every reply has its bounds, and is there only once."""

    COUNT = 6

    def batch(self, rng):
        name = f"count:{rng.randrange(self.COUNT)}"
        commands = {0: ("INCR", name), 1: ("INCRBY", name, 1), 2: ("GET", name), 3: ("HINCRBY", "counts", name, 1), 4: ("HGET", "counts", name)}
        kind = rng.randrange(5)
        return [commands[kind]], (kind in (2, 4), name if kind < 3 else f"counts.{name}")

    def content(self, dump):
        counts = self.value(dump, "counts", {})
        found = {f"count:{i}": int(self.value(dump, f"count:{i}", 0)) for i in range(self.COUNT)}
        return found | {f"counts.count:{i}": int(counts.get(b"count:%d" % i, 0)) for i in range(self.COUNT)}

    def check(self, after, began, ended):
        problems, before, after = [], self.content(self.before), self.content(after[0])
        for name, last in after.items():
            ops = [op for op in self.ops if op.note[1] == name]
            adds = [op for op in ops if not op.note[0]]
            starts, ends = sorted(op.began for op in adds), sorted(op.ended for op in adds)
            seen = [(int(op.reply or 0), op) for op in ops if op.known()] + [(last, None)]
            for count, op in seen:
                first, final = (op.began, op.ended) if op else (began, ended)
                own = 1 if op and not op.note[0] else 0
                least = before[name] + sum(end < first for end in ends) + own
                most = before[name] + sum(start < final for start in starts)
                if not least <= count <= most:
                    problems.append(f"{name}: {count}, and must be {least} to {most}: {op or 'after the crash'}")
                if count > last:
                    problems.append(f"{name}: {count} was seen, and {last} is left: {op}")
            replies = [int(op.reply) for op in adds if op.known()]
            if len(set(replies)) != len(replies):
                problems.append(f"{name}: two were answered the same")
        return problems


class Collections(Family):
    """Strings, lists, hashes, sets, sorted sets and streams of this life that are only added to."""

    KINDS = ("str", "lst", "hsh", "set", "zst", "stm")

    def batch(self, rng):
        kind = rng.choice(self.KINDS)
        key = f"add:{self.life}:{kind}:{rng.randrange(3)}"
        items = tuple(token() for _ in range(rng.choice((1, 1, 1, 3))))
        if rng.random() < 0.15:
            size = {"str": "STRLEN", "lst": "LLEN", "hsh": "HLEN", "set": "SCARD", "zst": "ZCARD", "stm": "XLEN"}[kind]
            return [(size, key)], ("size", key, ())
        if kind == "str":
            return [("APPEND", key, "".join(items))], ("add", key, items)
        if kind == "lst":
            return [("RPUSH", key, *items)], ("add", key, items)
        if kind == "set":
            return [("SADD", key, *items)], ("add", key, items)
        if kind == "hsh":
            return [("HSET", key, *(word for item in items for word in (item, item)))], ("add", key, items)
        if kind == "zst":
            return [("ZADD", key, *(word for item in items for word in (int(item), item)))], ("add", key, items)
        return [("XADD", key, "*", "item", items[0])], ("add", key, items[:1])

    def items(self, key, content):
        """The items, a list where there is an order; problems of theirs."""
        if key not in content:
            return [], 0
        kind, value, _ = content[key]
        if kind == "string":
            text = value.decode()
            return [text[at:at + 12] for at in range(0, len(text), 12)], len(text)
        if kind == "list":
            found = [item.decode() for item in value]
        elif kind == "stream":
            found = [fields[1].decode() for _, fields in value]
        elif kind == "hash":
            found = {field.decode() for field, item in value.items() if field == item}
        elif kind == "zset":
            found = {member.decode() for member, score in value.items() if int(member) == int(score)}
        else:
            found = {member.decode() for member in value}
        return found, len(value)

    def check(self, after, began, ended):
        problems, adds, seen = [], {}, {}
        for op in self.ops:
            kind, key, items = op.note
            if kind == "add":
                adds.setdefault(key, []).append((items, op.began, op.ended))
            if op.known() and isinstance(op.reply, int) and (kind == "size" or key.split(":")[2] in ("str", "lst")):
                seen[key] = max(seen.get(key, 0), op.reply)
        for key in adds.keys() | seen.keys():
            items, size = self.items(key, after[0])
            if len(items) != size and not key.split(":")[2] == "str":
                problems.append(f"{key}: a part has the value of another")
            problems += collected(key, [], items, adds.get(key, []))
            if size < seen.get(key, 0):
                problems.append(f"{key}: its size was {seen[key]}, and is {size} now")
        return problems


class Relics(Family):
    """Collections of earlier lives: each is deleted or renamed by somebody, once. Until then they stay what they were."""

    def begin(self, life, before):
        super().begin(life, before)
        self.old = {key: content for key, content in self.before.items() if key.startswith(("add:", "kept:"))}
        self.names = sorted(self.old)

    def batch(self, rng):
        if not self.names:
            return None
        key = rng.choice(self.names)
        if rng.random() < 0.3:
            return [("EXISTS", key)], ("exists", key)
        if key.startswith("add:") and zlib.crc32(key.encode()) % 2:
            return [("RENAME", key, "kept" + key[3:])], ("rename", key)
        return [(rng.choice(("DEL", "UNLINK")), key)], ("delete", key)

    def check(self, after, began, ended):
        problems = []
        for key, content in self.old.items():
            ops = [op for op in self.ops if op.note[1] == key]
            moved = "kept" + key[3:] if any(op.note[0] == "rename" for op in ops) else None
            now, there = after[0].get(key), after[0].get(moved) if moved else None
            if now not in (None, content) or there not in (None, content):
                problems.append(f"{key}: is not what it was")
            if now and there:
                problems.append(f"{key}: is there under both its names, {moved} too")
            if not now and not there and not any(op.note[0] == "delete" for op in ops):
                problems.append(f"{key}: lost, and nobody has deleted it")
            done = [op for op in ops if op.known() and (
                op.reply == 0 if op.note[0] == "exists" else not isinstance(op.reply, ErrorReply) and op.note[0] != "exists")]
            if now and done:
                problems.append(f"{key}: there again, though gone: {done[0]}")
        return problems


class Accounts(Family):
    """Amounts that are moved between keys by scripts and blocks, and a ledger of the moves."""

    COUNT, AMOUNT = 8, 1000

    def begin(self, life, before):
        super().begin(life, before)
        self.balances = [int(self.value(self.before, f"account:{i}", 0)) for i in range(self.COUNT)]

    def first(self):
        return [("SET", f"account:{i}", self.AMOUNT) for i in range(self.COUNT)]

    def batch(self, rng):
        source, target = rng.sample(range(self.COUNT), 2)
        amount, ledger = rng.randrange(1, 50), f"ledger:{self.life}"
        entry = f"{token()} {source} {target} {amount}"
        keys = [f"account:{source}", f"account:{target}", ledger]
        kind = rng.randrange(5)
        move = "redis.call('decrby', {0}, {3}) redis.call('incrby', {1}, {3}) return redis.call('rpush', {2}, {4})"
        if kind < 2:
            script = move.format("KEYS[1]", "KEYS[2]", "KEYS[3]", "ARGV[1]", "ARGV[2]")
            return [("EVAL", script, 3, *keys, amount, entry)], ("move", entry)
        if kind == 2:
            script = move.format("ARGV[1]", "ARGV[2]", "ARGV[3]", "ARGV[4]", "ARGV[5]")
            return [("EVAL", script, 0, *keys, amount, entry)], ("move", entry)
        if kind == 3:
            block = [("DECRBY", keys[0], amount), ("INCRBY", keys[1], amount), ("RPUSH", ledger, entry)]
            return [("MULTI",), *block, ("EXEC",)], ("move", entry)
        return [("MGET", *(f"account:{i}" for i in range(self.COUNT)))], ("read", None)

    def check(self, after, began, ended):
        problems = []
        for op in self.ops:
            if op.note[0] == "read" and op.known() and sum(map(int, op.reply)) != self.COUNT * self.AMOUNT:
                problems.append(f"accounts: a sum that never was: {op}")
        balances = [int(self.value(after[0], f"account:{i}", 0)) for i in range(self.COUNT)]
        if sum(balances) != self.COUNT * self.AMOUNT:
            problems.append(f"accounts: {balances} are {sum(balances)} together, not {self.COUNT * self.AMOUNT}")
        entries = [entry.decode() for entry in self.value(after[0], f"ledger:{self.life}", [])]
        expected = list(self.balances)
        for entry in entries:
            _, source, target, amount = map(int, entry.split())
            expected[source] -= amount
            expected[target] += amount
        if expected != balances:
            problems.append(f"accounts: {balances}, and their ledger says {expected}")
        moves = [((op.note[1],), op.began, op.ended) for op in self.ops if op.note[0] == "move"]
        return problems + collected("ledger", [], entries, moves)


class Queues(Family):
    """Lists whose elements are taken by blocked clients (`lives.py` has those); here is who pushes."""

    COUNT = 3

    def __init__(self):
        super().__init__()
        self.delivered, self.pops, self.moves = set(), [], []

    def begin(self, life, before):
        super().begin(life, before)
        self.pops, self.moves = [], []

    def batch(self, rng):
        key = rng.choice([f"queue:{i}" for i in range(self.COUNT)] + ["belt:from"])
        items = tuple(token() for _ in range(rng.choice((1, 1, 2))))
        return [("RPUSH", key, *items)], (key, items)

    def content(self, dump, key):
        return [item.decode() for item in self.value(dump, key, [])]

    def check(self, after, began, ended):
        problems = []
        for key in [f"queue:{i}" for i in range(self.COUNT)]:
            before, left = self.content(self.before, key), self.content(after[0], key)
            pushes = [op for op in self.ops if op.note[0] == key]
            taken = [op.reply[1].decode() for op in self.pops if op.known() and op.reply and op.reply[0].decode() == key]
            again = self.delivered.intersection(taken)
            if again or len(set(taken)) != len(taken):
                problems.append(f"{key}: delivered twice: {sorted(again)[:3]}")
            self.delivered.update(taken)
            back = self.delivered.intersection(left)
            if back:
                problems.append(f"{key}: delivered, and there again: {sorted(back)[:3]}")
            promised = set(before).union(*(op.note[1] for op in pushes if op.known()))
            missing = promised.difference(left, taken)
            doubts = sum(not op.known() for op in self.pops)
            if len(missing) > doubts:
                problems.append(f"{key}: {len(missing)} elements are gone, and only {doubts} connections may have been given one: {sorted(missing)[:3]}")
            strange = set(left) - promised.union(*(op.note[1] for op in pushes))
            if strange:
                problems.append(f"{key}: nobody has pushed {sorted(strange)[:3]}")
            times = {item: (op.began, op.ended) for op in pushes for item in op.note[1]}
            problems += ordered(key, left, times)
        return problems + self.check_belt(after)

    def check_belt(self, after):
        before = self.content(self.before, "belt:from") + self.content(self.before, "belt:to")
        left, arrived = self.content(after[0], "belt:from"), self.content(after[0], "belt:to")
        adds = [(op.note[1], op.began, op.ended) for op in self.ops if op.note[0] == "belt:from"]
        problems = collected("belt", set(before), set(left + arrived), [(items, b, e) for items, b, e in adds])
        if len(set(left + arrived)) != len(left + arrived):
            problems.append("belt: an element is on both ends of a BLMOVE")
        moved = {op.reply.decode() for op in self.moves if op.known() and op.reply}
        if moved.difference(arrived):
            problems.append(f"belt: moved, and not there: {sorted(moved.difference(arrived))[:3]}")
        return problems


class Growing(Family):
    """A database that only grows: what DBSIZE or EXISTS has said is never taken back."""

    db = 7

    def batch(self, rng):
        kind = rng.randrange(4)
        if kind < 2:
            key = f"new:{token()}"
            return [("SET", key, "1")], ("set", key)
        if kind == 2 and self.ops:
            key = rng.choice(self.ops[-50:]).note[1]
            if key:
                return [("EXISTS", key)], ("exists", key)
        return [("DBSIZE",)], ("size", None)

    def check(self, after, began, ended):
        there, problems = after[self.db].keys(), []
        acknowledged = {op.note[1] for op in self.ops if op.known() and (
            op.note[0] == "set" or op.note[0] == "exists" and op.reply == 1)} | self.before.keys()
        if acknowledged - there:
            problems.append(f"growing: lost: {sorted(acknowledged - there)[:3]}")
        most = max((op.reply for op in self.ops if op.note[0] == "size" and op.known()), default=0)
        if most > len(there):
            problems.append(f"growing: DBSIZE was {most}, and is {len(there)} now")
        sets = [op for op in self.ops if op.note[0] == "set"]
        if there - self.before.keys() - {op.note[1] for op in sets}:
            problems.append("growing: a key that nobody has set")
        return problems


class Flushed(Family):
    """A database of keys that are set once, and flushed now and then."""

    db = 6

    def batch(self, rng):
        if rng.random() < 0.03:
            return [("FLUSHDB", rng.choice(("SYNC", "ASYNC")))], ("flush", None)
        keys = [f"once:{token()}" for _ in range(rng.choice((1, 1, 3)))]
        if len(keys) > 1:
            return [("MSET", *(word for key in keys for word in (key, "1")))], ("set", keys)
        return [("SET", keys[0], "1")], ("set", keys)

    def check(self, after, began, ended):
        there, problems = after[self.db].keys(), []
        sets = [op for op in self.ops if op.note[0] == "set"]
        flushes = [op for op in self.ops if op.note[0] == "flush"]
        last = max((op.began for op in flushes if op.known()), default=-1)
        possible = max((op.ended for op in flushes), default=-1)
        history = [(list(self.before), -1, -1)] + [(op.note[1], op.began, op.ended) for op in sets]
        happened = -1  # some flush that began before this must have happened
        for keys, start, end in history:
            present = sum(key in there for key in keys)
            if present not in (0, len(keys)):
                problems.append(f"flushed: torn: {present} of {len(keys)} keys")
            if present and end < last:
                problems.append(f"flushed: {keys[0]} is there, though a FLUSHDB behind it was acknowledged")
            if not present and keys and end != NEVER and possible <= start:
                problems.append(f"flushed: {keys[0]} is lost: no FLUSHDB can have taken it")
            if not present and keys and end != NEVER:
                happened = max(happened, min((op.began for op in flushes if op.ended > start), default=-1))
        for keys, start, end in history:
            if end < happened and any(key in there for key in keys):
                problems.append(f"flushed: a FLUSHDB has taken some keys, and left {keys[0]}, which was older")
        strange = there - {key for keys, _, _ in history for key in keys}
        return problems + ([f"flushed: nobody has set {sorted(strange)[:3]}"] if strange else [])


class Expiring(Family):
    """Keys with a short life, each set once: there until their time, and never after it."""

    SLACK = 200_000_000  # the server's clock may be read a turn earlier

    def batch(self, rng):
        if rng.random() < 0.3 and self.ops:
            known = [op.note[1] for op in self.ops[-200:] if op.note[0] == "set"]
            if known:
                return [("GET", rng.choice(known))], ("read", None, 0)
        key, ms = f"short:{token()}", rng.choice((20, 100, 400, 2000, 20000))
        return [("SET", key, key, "PX", ms)], ("set", key, ms)

    def check(self, after, began, ended):
        problems = []
        reads = [op for op in self.ops if op.note[0] == "read" and op.known()]
        gone = {op.commands[0][1] for op in reads if op.reply is None}
        for op in self.ops:
            kind, key, ms = op.note
            if kind != "set":
                continue
            there, ttl = key in after[0], ms * 1_000_000
            if there and op.known() and key in gone and any(read.commands[0][1] == key and read.reply is None and read.began > op.ended for read in reads):
                problems.append(f"{key}: there, though it was seen to be gone")
            if there and op.known() and began > op.ended + ttl + self.SLACK:
                problems.append(f"{key}: there, though its time was over: {op}")
            if not there and op.known() and ended < op.began + ttl - self.SLACK:
                problems.append(f"{key}: lost before its time: {op}")
        for key in after[0]:
            if key.startswith("short:") and after[0][key][2] == -1:
                problems.append(f"{key}: has lost its expiry")
        return problems


FAMILIES = (Registers, Groups, Counters, Collections, Relics, Accounts, Queues, Growing, Flushed, Expiring)
