"""What of a history cannot have happened in a strictly serializable store that loses nothing it has acknowledged.

Own checks, which need nothing but Python: whatever the others (checkers.py) find as to order, these find too, and besides what only
shows when everything is read in the end: what was acknowledged and is lost, refused and there, or there by half.
"""
from collections import defaultdict

from history import NEVER, Register

FEW = 5


def described(op):
    ended = "unanswered" if op["ended"] is None else f"{op['ended'] / 1e6:.3f}"
    return f"[{op['began'] / 1e6:.3f}-{ended} {op['type']} {op.get('way', '')} at node {op.get('node', '?')}: {op['value']}]"


class Lists:
    """Transactions over lists that are only appended to. `op["is_final"]`: a read after everything else."""

    def __init__(self, ops):
        self.ops, self.found = ops, []
        self.writer, self.longest, self.final = {}, {}, {}
        self.length = {}

    def problems(self):
        for op in self.ops:
            for at, (what, key, value) in enumerate(op["value"]):
                if what == "append":
                    self.writer[key, value] = op
                    if op["type"] == "ok" and str(at) in op.get("lengths", {}) or at in op.get("lengths", {}):
                        self.length[key, value] = op["lengths"].get(at, op["lengths"].get(str(at)))
        for op in self.ops:
            if op["type"] == "ok":
                self.read(op)
        for op in self.ops:
            self.whole(op)
        for (key, value), length in self.length.items():
            items = self.longest.get(key, [])
            if value in items and items.index(value) != length - 1:
                self.found.append(f"{value} was appended to {key} as number {length}, and is number {items.index(value) + 1}")
        self.order()
        return self.found

    def read(self, op):
        own = defaultdict(list)
        seen = {}
        for what, key, value in op["value"]:
            if what == "append":
                own[key].append(value)
                continue
            expected = seen.get(key, []) + own[key] if key in seen else own[key]
            if (key in seen and value != expected) or value[len(value) - len(expected):] != expected:
                self.found.append(f"a transaction does not see itself: {described(op)}")
            seen[key], own[key] = value, []
            if len(set(value)) != len(value):
                self.found.append(f"something is twice in {key}: {described(op)}")
            for item in value:
                by = self.writer.get((key, item))
                if by is None:
                    self.found.append(f"{item} in {key} was never appended: {described(op)}")
                elif by["type"] == "fail":
                    self.found.append(f"{item} in {key} is there, though refused: {described(by)}, {by.get('error')}")
            longest = self.longest.get(key, [])
            if value[:len(longest)] != longest[:len(value)]:
                self.found.append(f"{key} was read as {longest} and as {value}")
            if len(value) > len(longest) or key not in self.longest:
                self.longest[key] = value
            if op.get("is_final"):
                self.final[key] = set(value)

    def whole(self, op):
        appends = [(key, value) for what, key, value in op["value"] if what == "append" and key in self.final]
        there = sum(value in self.final[key] for key, value in appends)
        if op["type"] == "ok" and there < len(appends):
            self.found.append(f"lost, though acknowledged ({there} of {len(appends)} are there): {described(op)}")
        elif op["type"] == "info" and there not in (0, len(appends)):
            self.found.append(f"torn ({there} of {len(appends)} are there): {described(op)}")

    def edges(self):
        """Who must come before whom: by what was read, and by time."""
        after = defaultdict(set)
        last = {}
        unread = defaultdict(list)
        for (key, value), op in self.writer.items():
            if op["type"] == "ok" and value not in self.longest.get(key, ()):
                unread[key].append(id(op))
        for key, items in self.longest.items():
            chain = [id(self.writer[key, item]) for item in items if (key, item) in self.writer]
            for one, other in zip(chain, chain[1:]):
                after[one].add(other)
            last[key] = chain
            for other in unread[key] if chain else ():
                after[chain[-1]].add(other)
        for op in self.ops:
            if op["type"] != "ok":
                continue
            for what, key, value in op["value"]:
                if what != "r":
                    continue
                chain = last.get(key, [])
                if value and len(value) <= len(chain):
                    after[chain[len(value) - 1]].add(id(op))
                if len(value) < len(chain):
                    after[id(op)].add(chain[len(value)])
                else:
                    after[id(op)].update(unread[key])
        # A chain of moments: what ended before one comes before what began after it.
        moments = sorted([(op["began"], 0, op) for op in self.ops] + [(op["ended"], 1, op) for op in self.ops if op["type"] == "ok"],
                         key=lambda moment: moment[:2])
        before = None
        for number, (_, is_end, op) in enumerate(moments):
            if is_end:
                after[id(op)].add(number)
                if before is not None:
                    after[before].add(number)
                before = number
            elif before is not None:
                after[before].add(id(op))
        return after

    def order(self):
        # An operation whose own edge leads to itself reads or appends twice to one key.
        after = self.edges()
        by_id = {id(op): op for op in self.ops}
        cycle = a_cycle({node: others - {node} for node, others in after.items()})
        if cycle:
            ops = [by_id[node] for node in cycle if node in by_id]
            self.found.append("no order explains these, each before the next, the last before the first:\n      " + "\n      ".join(map(described, ops[:12])))


def a_cycle(after):
    """Some nodes in a circle, or None."""
    state = {}
    for start in after:
        if start in state:
            continue
        path, state[start] = [(start, iter(after[start]))], 1
        while path:
            node, others = path[-1]
            for other in others:
                if state.get(other) == 1:
                    nodes = [node for node, _ in path]
                    return nodes[nodes.index(other):]
                if other not in state and other in after:
                    state[other] = 1
                    path.append((other, iter(after[other])))
                    break
            else:
                state[node] = 2
                path.pop()
    return None


def registers(ops):
    """Each is linearizable, as far as can be seen without a search."""
    by_key, found = {}, []
    for op in ops:
        register = by_key.setdefault(op["key"], Register(op["key"]))
        began, ended = op["began"], op["ended"] if op["type"] == "ok" else NEVER
        if op["kind"] == "read" and op["type"] == "ok":
            register.read(op["value"], began, ended)
        elif op["kind"] == "write" and op["type"] != "fail":
            register.write(op["value"], began, ended)
        elif op["kind"] == "cas" and op["type"] != "fail" and op.get("is_swapped", True):
            register.write(op["value"], began, ended)
            if op["type"] == "ok":
                register.read(op["old"], began, ended)
    for register in by_key.values():
        # Absent until the first write, and nobody deletes.
        starts = [ended for _, ended in register.writes.values() if ended != NEVER]
        for began, ended in register.absent:
            if starts and min(starts) < began:
                found.append(f"{register.name}: absent at {began / 1e6:.3f}, though a write was acknowledged before")
                break
        register.absent = []
        found += register.problems()
    return found


def problems(transactions, register_ops):
    found = Lists(transactions).problems() + registers(register_ops)
    return found[:FEW] + ([f"... {len(found)} problems"] if len(found) > FEW else [])
