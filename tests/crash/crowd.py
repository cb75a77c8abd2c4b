"""What clients do to a server that may have only so much memory: each function asks for more of it in one way, until it is told to stop.

The limits are small, so that it takes seconds. What clients may meet is an error or the end of their connection; the server must go on.
"""
import random
import threading
import time

from wire import Client, Closed, ErrorReply

KINDS = {}
# Databases of the attackers: 0 is the ledger's.
DATABASE = 1


def kind(function):
    KINDS[function.__name__] = function
    return function


class Attack:
    """Some connections that do the same; what they were told."""

    def __init__(self, server, what, threads, seed):
        self.server, self.what, self.stop = server, what, threading.Event()
        self.errors, self.closed, self.answers, self.lock = {}, 0, 0, threading.Lock()
        self.open = []
        self.threads = [threading.Thread(target=self._run, args=(random.Random(seed * 100 + i), i), daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, rng, index):
        while not self.stop.is_set():
            try:
                self.what(self, rng, index)
            except Closed:
                self.closed += 1
                time.sleep(0.05)

    def client(self, timeout=60):
        client = Client(self.server.port, timeout)
        with self.lock:
            self.open.append(client)
        self.note(client.call("SELECT", DATABASE))
        return client

    def note(self, reply):
        """Counts a reply, and what is inside it."""
        self.answers += 1
        if isinstance(reply, ErrorReply):
            code = reply[:60]
            self.errors[code] = self.errors.get(code, 0) + 1
        return reply

    def call(self, client, *command):
        return self.note(client.call(*command))

    def calls(self, client, commands):
        return [self.note(reply) for reply in client.calls(commands)]

    def end(self):
        """Whether all of them have ended."""
        self.stop.set()
        with self.lock:
            for client in self.open:
                client.close()
        for thread in self.threads:
            thread.join(60)
        ended = not any(thread.is_alive() for thread in self.threads)
        if ended:
            for client in self.open:
                leave(client)
        return ended

    def out_of_memory(self):
        return sum(count for error, count in self.errors.items() if error.startswith("OOM"))


def leave(client):
    """Closes the socket for good: the server may have much for it."""
    client.close()
    client.file.close()


def repeat(attack):
    n = 0
    while not attack.stop.is_set():
        yield n
        n += 1


@kind
def values(attack, rng, index):
    """Strings of every size, by every command that makes one."""
    client = attack.client()
    for n in repeat(attack):
        size = rng.choice([100, 1000, 20_000, 100_000, 250_000, 300_000, 1 << 20, 6 << 20, 15 << 20])
        key, text = f"v:{index}:{n}", b"v" * size
        command = rng.choice([("SET", key, text), ("APPEND", f"v:{index}:{n % 20}", text), ("SETRANGE", key, size, "x"), ("MSET", key, text, key + "b", text),
                              ("SETBIT", key, size * 80, 1), ("EVAL", "return redis.call('set',KEYS[1],ARGV[1])", 1, key, text), ("GETSET", f"v:{index}:{n % 20}", text),
                              ("BITOP", "NOT", key, f"v:{index}:{n % 20}"), ("COPY", f"v:{index}:{n % 20}", key), ("GET", f"v:{index}:{n % 20}")])
        attack.call(client, *command)


@kind
def collections(attack, rng, index):
    """Collections that grow by small elements, and are read and copied."""
    client, item = attack.client(), b"i" * 200
    for n in repeat(attack):
        name = f"{index}:{n // 200}"
        batch = [[("RPUSH", f"list:{name}", item + b"%d" % n), ("SADD", f"set:{name}", item + b"%d:%d" % (n, i)), ("ZADD", f"zset:{name}", n, item + b"%d:%d" % (n, i)),
                  ("HSET", f"hash:{name}", f"{n}:{i}", item), ("XADD", f"stream:{name}", "*", "f", item)] for i in range(30)]
        attack.calls(client, sum(batch, []))
        if n % 20 == 0:
            for command in [("LRANGE", f"list:{name}", 0, -1), ("SMEMBERS", f"set:{name}"), ("HGETALL", f"hash:{name}"), ("DUMP", f"zset:{name}"),
                            ("COPY", f"zset:{name}", f"copy:{name}:{n}"), ("XRANGE", f"stream:{name}", "-", "+")]:
                attack.call(client, *command)


@kind
def pipelines(attack, rng, index):
    """Long pipelines that are sent before anything is read."""
    client = attack.client()
    for n in repeat(attack):
        batch = []
        for i in range(2000):
            key = f"p:{index}:{n}:{i}"
            batch += [("SET", key, b"p" * rng.choice([20, 2000, 20_000])), ("GET", key)]
        sender = threading.Thread(target=lambda: _send(client, batch), daemon=True)
        sender.start()
        for _ in batch:
            attack.note(client.read())
        sender.join()


def _send(client, commands, timeout=None):
    """Sends as much as it takes: in so many seconds, if it takes no more."""
    if timeout:
        client.socket.settimeout(timeout)
    try:
        client.send(commands)
    except Closed:
        pass


@kind
def connections(attack, rng, index):
    """Many connections that each send a part of a command, and wait."""
    crowd = []
    for n in repeat(attack):
        client = attack.client(timeout=5)
        crowd.append(client)
        announced = rng.choice([1000, 60_000, 1 << 20, 15 << 20])
        _send_raw(client, b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n" % announced + b"c" * (announced - 1))
        if len(crowd) > 400:
            for client in crowd:
                leave(client)
            crowd = []


def _send_raw(client, data):
    try:
        client.socket.sendall(data)
    except OSError as error:
        raise Closed(str(error)) from error


@kind
def scripts(attack, rng, index):
    """Scripts that fill tables and strings."""
    client = attack.client()
    sources = ["local t = {} for i = 1, 5000000 do t[i] = string.rep('x', 100) .. i end return #t",
               "local s = 'x' for i = 1, 40 do s = s .. s end return #s",
               "local t = {} for i = 1, 100 do t[i] = string.rep('y', 10000000) .. i end return #t",
               "for i = 1, 100000 do redis.call('set', KEYS[1] .. i, string.rep('z', 10000)) end return 1",
               "for i = 1, 2000 do redis.call('rpush', KEYS[1] .. 'list', string.rep('l', 10000)) end return #redis.call('lrange', KEYS[1] .. 'list', 0, -1)",
               "local t = {} for i = 1, 100 do t[i] = redis.call('lrange', KEYS[1] .. 'list', 0, -1) end return #t",
               "local t = {} for i = 1, 3000 do t[i] = string.rep('r', 100000) end return t"]
    for n in repeat(attack):
        attack.call(client, "EVAL", rng.choice(sources), 1, f"s:{index}:{n % 7}")


@kind
def outputs(attack, rng, index):
    """Clients that ask for much and read nothing; subscribers, too."""
    feeder = attack.client()
    attack.calls(feeder, [("RPUSH", f"o:{index}", *[b"o" * 1000] * 500) for _ in range(10)])
    attack.calls(feeder, [("SET", f"o:{index}:{i}", b"o" * 15_000) for i in range(100)])
    silent = []
    for n in repeat(attack):
        client = attack.client(timeout=5)
        silent.append(client)
        what = rng.randrange(4)
        if what == 0:
            _send(client, [("LRANGE", f"o:{index}", 0, -1)] * 50, timeout=1)
        elif what == 1:
            _send(client, [("MGET", *[f"o:{index}:{i}" for i in range(100)])] * 50, timeout=1)
        elif what == 2:
            _send(client, [("MULTI",), *[("LRANGE", f"o:{index}", 0, -1)] * 50, ("EXEC",)], timeout=1)
        else:
            _send(client, [("SUBSCRIBE", "channel")], timeout=1)
        attack.call(feeder, "PUBLISH", "channel", b"m" * 500_000)
        if len(silent) > 300:
            for client in silent:
                leave(client)
            silent = []


@kind
def blocks(attack, rng, index):
    """MULTI with much in it."""
    client = attack.client()
    for n in repeat(attack):
        what = rng.randrange(4)
        if what == 0:
            commands = [("SET", f"b:{index}:{n}:{i}", b"b" * 10_000) for i in range(3000)]
        elif what == 1:
            commands = [("GET", b"g" * 10_000)] * 5000
        elif what == 2:
            commands = [("SETRANGE", f"b:{index}:{n}:{i}", 200_000, "x") for i in range(3000)]
        else:
            commands = [("APPEND", f"b:{index}:grows", b"b" * 100_000)] * 100 + [("GET", f"b:{index}:grows")] * 50
        attack.calls(client, [("MULTI",), *commands])
        reply = attack.call(client, "EXEC")
        for inner in reply if isinstance(reply, list) else []:
            attack.note(inner)


@kind
def unions(attack, rng, index):
    """Commands that make something as large as what they read, or several times that."""
    client = attack.client()
    for i in range(200):
        members = [f"{index}:{i}:{j}".ljust(60, "u") for j in range(100)]
        attack.calls(client, [("SADD", f"u:{index}:{i % 3}", *members), ("RPUSH", f"u:{index}:list", *members), ("SADD", f"u:{index}:numbers", *range(100 * i, 100 * i + 100)),
                              ("ZADD", f"u:{index}:zset", *sum(([j, member] for j, member in enumerate(members)), []))])
    sets = [f"u:{index}:{i}" for i in range(3)]
    for n in repeat(attack):
        to = f"u:{index}:to:{n}"
        attack.call(client, *rng.choice([
            ("SUNIONSTORE", to, *sets), ("SDIFFSTORE", to, sets[0], "none"), ("ZUNIONSTORE", to, 3, *sets), ("SORT", f"u:{index}:list", "ALPHA", "STORE", to),
            ("SORT", f"u:{index}:numbers"), ("COPY", f"u:{index}:zset", to), ("DUMP", f"u:{index}:zset"), ("ZRANGESTORE", to, f"u:{index}:zset", 0, -1), ("SUNION", *sets),
            ("SRANDMEMBER", sets[0], -1_000_000), ("ZRANDMEMBER", f"u:{index}:zset", -1_000_000), ("RENAME", f"u:{index}:to:{n - 1}", to), ("LPOP", f"u:{index}:to:{n - 2}", 100_000),
            ("SPOP", f"u:{index}:to:{n - 3}", 100_000), ("KEYS", "*"), ("GEOSEARCHSTORE", to, f"u:{index}:zset", "FROMLONLAT", 0, 0, "BYRADIUS", 30_000, "km")]))


@kind
def everything(attack, rng, index):
    """All of it in turns of each connection."""
    names = [name for name in KINDS if name != "everything"]
    KINDS[names[index % len(names)]](attack, rng, index)
