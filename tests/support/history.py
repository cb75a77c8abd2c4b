"""What clients have done and seen, and what of that a history may be. Times are nanoseconds of one clock.

A checker here is sound: what it reports cannot have happened in a strictly serializable store that loses nothing it has
acknowledged, whatever became of the operations that were not answered. It need not find everything.
"""
import bisect
import itertools
import time

NEVER = float("inf")
now = time.monotonic_ns
tokens = itertools.count(1)


def token():
    """Unique, always of the same length."""
    return f"{next(tokens):012d}"


class Op:
    """An operation: when it was sent, when answered (`NEVER`: not known whether it happened), and how."""

    __slots__ = ("commands", "note", "began", "ended", "reply")

    def __init__(self, commands, note):
        self.commands, self.note = commands, note
        # Not sent: it has not happened before this.
        self.began, self.ended, self.reply = now(), NEVER, None

    def known(self):
        return self.ended != NEVER

    def __repr__(self):
        text = "; ".join(" ".join(map(str, command)) for command in self.commands)[:160]
        ended = "unanswered" if not self.known() else f"{self.ended / 1e6:.3f}: {str(self.reply)[:80]}"
        return f"[{self.began / 1e6:.3f} {text} -> {ended}]"


def pipeline(client, ops):
    """Sends operations at once, and notes when each is answered: with the reply to its last command."""
    for op in ops:
        op.began = now()
    client.send([command for op in ops for command in op.commands])
    for op in ops:
        for _ in op.commands:
            op.reply = client.read()
        op.ended = now()


class Register:
    """A register whose writes have unique values (Gibbons and Korach, Testing shared memories, 1997): linearizable if and only
    if no value is read before it is written, and the times in which values must have been there do not overlap. Deletions are
    writes that all look alike, so of them less is demanded."""

    def __init__(self, name):
        self.name = name
        self.writes, self.reads, self.absent, self.deletes = {}, [], [], []

    def write(self, value, began, ended):
        self.writes[value] = (began, ended)

    def read(self, value, began, ended):
        if value is None:
            self.absent.append((began, ended))
        else:
            self.reads.append((value, began, ended))

    def delete(self, began, ended):
        self.deletes.append((began, ended))

    def problems(self):
        clusters, found = {}, []
        for value, (began, ended) in self.writes.items():
            if ended != NEVER:
                clusters[value] = [ended, began]
        for value, began, ended in self.reads:
            if value not in self.writes:
                return [f"{self.name}: {value} was read, and nobody wrote it"]
            if ended < self.writes[value][0]:
                return [f"{self.name}: {value} was read before it was written"]
            zone = clusters.setdefault(value, [NEVER, self.writes[value][0]])
            zone[0], zone[1] = min(zone[0], ended), max(zone[1], began)
        forward = sorted((first, last, value) for value, (first, last) in clusters.items() if first < last)
        points = [(last, first, f"value {value}") for value, (first, last) in clusters.items() if first >= last]
        points += [(began, ended, "a deletion") for began, ended in self.deletes if ended != NEVER]
        points += [(began, ended, "its absence") for began, ended in self.absent]
        for (_, last, value), (first, _, other) in zip(forward, forward[1:]):
            if first < last:
                found.append(f"{self.name}: {value} was there, and {other} at the same time")
        starts = [first for first, _, _ in forward]
        for began, ended, what in points:
            at = bisect.bisect_left(starts, began) - 1
            if at >= 0 and ended < forward[at][1]:
                found.append(f"{self.name}: {forward[at][2]} was there before and after {what}, acknowledged or seen "
                             f"at {began / 1e6:.3f}-{ended / 1e6:.3f}")
        for began, ended in self.absent:
            last = max((end for start, end in self.deletes if start < ended), default=None)
            if last is None:
                found.append(f"{self.name}: absent at {began / 1e6:.3f}, and nobody has deleted it")
            else:
                lost = [v for v, (start, end) in self.writes.items() if last < start and end < began]
                if lost:
                    found.append(f"{self.name}: absent at {began / 1e6:.3f}, though {lost[-1]} was acknowledged and not deleted since")
        return found


def ordered(name, items, times):
    """Items of something that is only appended to stand in an order that the times allow."""
    earliest = NEVER
    for item in reversed(items):
        began, ended = times.get(item, (-1, -1))
        if earliest < began:
            return [f"{name}: {item} stands before what was acknowledged before it was sent"]
        earliest = min(earliest, ended)
    return []


def collected(name, before, after, adds):
    """Something that is only added to: what was there and what was acknowledged is there, once, and nothing else. `adds`:
    [(items, began, ended)], each of them whole or absent. Sequences keep their order; other collections are given as sets."""
    found, present = [], set(after)
    if len(present) != len(after):
        found.append(f"{name}: something is there twice")
    is_sequence = isinstance(after, list)
    if is_sequence and after[:len(before)] != list(before):
        found.append(f"{name}: what was there before the crash has changed")
    lost = set(before) - present
    known, times = set(before), {}
    for items, began, ended in adds:
        there = sum(item in present for item in items)
        known.update(items)
        times.update((item, (began, ended)) for item in items)
        if ended != NEVER and there < len(items):
            lost.update(set(items) - present)
        elif there not in (0, len(items)):
            found.append(f"{name}: torn: of {items} only {there} are there")
    if lost:
        found.append(f"{name}: lost, though acknowledged: {sorted(lost)[:5]} ({len(lost)})")
    if present - known:
        found.append(f"{name}: nobody has added {sorted(present - known)[:5]}")
    return found + (ordered(name, after, times) if is_sequence else [])
