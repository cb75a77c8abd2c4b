"""A plain oracle for injected faults: writers who remember what was acknowledged, refused, or neither."""
import threading
import time

from history import now, token
from wire import Closed, ErrorReply


class Ledger:
    """Some connections write, each a pair of keys at once and a value over an older one. Over all of a server's lives."""

    def __init__(self, name="over"):
        self.name = name
        self.acknowledged, self.refused, self.unknown = {}, {}, {}
        self.last, self.doubt = {}, {}
        self.threads, self.stop, self.problems, self.lock = [], False, [], threading.Lock()

    def begin(self, server, connections=6, length=40, on_refusal=None, pause=0.0):
        self.stop, self.threads = False, []
        for i in range(connections):
            thread = threading.Thread(target=self._write, args=(server, i, length, on_refusal, pause), daemon=True)
            thread.start()
            self.threads.append(thread)
        return self

    def _write(self, server, index, length, on_refusal, pause):
        try:
            client = server.client()
        except Closed:
            return
        while not self.stop:
            name = token()
            text = name.ljust(length, ".")
            over = f"{self.name}:{index}"
            batch = [("MSET", f"a:{name}", text, f"b:{name}", text), ("SET", over, name)]
            with self.lock:
                self.unknown[name] = now()
                self.doubt.setdefault(over, []).append(name)
            try:
                client.send(batch)
                for of, key in ((self._pair, name), (self._over, (over, name))):
                    of(key, client.read())
            except Closed:
                return
            except AssertionError as error:
                self.problems.append(str(error))
                return
            if name in self.refused and on_refusal == "stop":
                return
            if name in self.refused or pause:
                time.sleep(pause or 0.02)

    def _pair(self, name, reply):
        with self.lock:
            del self.unknown[name]
            if isinstance(reply, ErrorReply):
                self.refused[name] = reply
            else:
                self.acknowledged[name] = now()

    def _over(self, key, reply):
        over, name = key
        with self.lock:
            if isinstance(reply, ErrorReply):
                self.doubt[over].remove(name)
            else:
                self.last[over], self.doubt[over] = name, []

    def end(self, seconds=60):
        """Waits for the writers; those that hang are told of."""
        self.stop = True
        for thread in self.threads:
            thread.join(seconds)
            if thread.is_alive():
                self.problems.append(f"a connection was neither answered nor closed for {seconds} s")
        return self

    def check(self, server, until=None):
        """Problems. `until`: only what was acknowledged before is promised."""
        client, problems = server.client(), list(self.problems)

        def pairs(names):
            names = list(names)
            values = client.calls([("MGET", f"a:{name}", f"b:{name}") for name in names])
            return zip(names, values)

        promised = [name for name, at in self.acknowledged.items() if until is None or at < until]
        lost = [name for name, pair in pairs(promised) if None in pair or pair[0] != pair[1]]
        if lost:
            problems.append(f"{len(lost)} of {len(promised)} acknowledged writes are lost or torn: {lost[:3]} ... {lost[-1]}")
        there = [name for name, pair in pairs(self.refused) if pair != [None, None]]
        if there:
            problems.append(f"{len(there)} refused writes are there: {there[:3]}, refused with {self.refused[there[0]]}")
        others = [name for name, at in self.acknowledged.items() if until is not None and at >= until]
        torn = [name for name, pair in pairs([*self.unknown, *others]) if (pair[0] is None) != (pair[1] is None)]
        if torn:
            problems.append(f"{len(torn)} writes are torn: {torn[:3]}")
        if until is None:
            for over, name in self.last.items():
                found = client.call("GET", over)
                if found is None or found.decode() not in [name, *self.doubt[over]]:
                    problems.append(f"{over} is {found}, and must be {name} or one of {self.doubt[over][:3]}")
                elif found.decode() != name:
                    self.last[over], self.doubt[over] = found.decode(), []
        # What was in doubt is decided by now, and must stay so.
        for name, pair in pairs(list(self.unknown)):
            del self.unknown[name]
            if None not in pair:
                self.acknowledged[name] = 0
            elif pair == [None, None]:
                self.refused[name] = "unanswered, and absent after the start"
        if until is not None:
            for name, pair in pairs(others):
                if None in pair:
                    del self.acknowledged[name]
            self.last, self.doubt = {}, {}
        client.close()
        return problems
