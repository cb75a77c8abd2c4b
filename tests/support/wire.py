"""A server that can be killed, and a client that speaks RESP2. Python's standard library only."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DATABASES = 16


def our_build():
    builds = [REPOSITORY / "target" / profile / "holdfast" for profile in ("dist", "release", "debug")]
    builds = [build for build in builds if build.exists()]
    if not builds:
        print("no build of holdfast in target/: run `cargo build --release`, or give --server", file=sys.stderr)
        sys.exit(2)
    return max(builds, key=lambda build: build.stat().st_mtime)


class ErrorReply(str):
    """A reply that begins with `-`."""


class Closed(Exception):
    """The connection has ended: what was not answered may have happened or not."""


def encode(command):
    parts = [b"*%d\r\n" % len(command)]
    for word in command:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    """One connection. Replies: bytes, int, None, list, `ErrorReply`; simple strings are bytes, too."""

    def __init__(self, port, timeout=60, host="127.0.0.1"):
        try:
            self.socket = socket.create_connection((host, port), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Closed(str(error)) from error
        self.file = self.socket.makefile("rb", buffering=1 << 16)

    def send(self, commands):
        try:
            self.socket.sendall(b"".join(map(encode, commands)))
        except OSError as error:
            raise Closed(str(error)) from error

    def read(self):
        try:
            return self._reply()
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error

    def _line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("closed")
        return line[:-2]

    def _reply(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        length = int(rest)
        if kind == b"$":
            if length < 0:
                return None
            body = self.file.read(length + 2)
            if len(body) != length + 2:
                raise OSError("closed")
            return body[:-2]
        if kind in b"*>~":
            return None if length < 0 else [self._reply() for _ in range(length)]
        if kind == b"%":
            return [self._reply() for _ in range(2 * length)]
        raise OSError(f"not a reply: {line!r}")

    def call(self, *command):
        self.send([command])
        return self.read()

    def calls(self, commands):
        """The replies of a pipeline."""
        found = []
        for at in range(0, len(commands), 500):
            part = commands[at:at + 500]
            self.send(part)
            found += [self.read() for _ in part]
        return found

    def close(self):
        # The thread that reads may be another: it sees the end.
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Refused(Exception):
    """The server did not start, and what it said."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Lives of a server on one directory. `before` is a command to start it with (strace, faketime). Without a `port`, each
    life has another one. `kind` is the program's word for it."""

    def __init__(self, binary, folder, settings=(), before=(), limits=None, host="127.0.0.1", port=None, kind="server"):
        self.host, self.fixed, self.kind = host, port, kind
        self.binary, self.folder, self.settings, self.before = binary, Path(folder), list(settings), list(before)
        self.limits = limits
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = self.port = None
        self.log = self.folder / "server.log"

    def launch(self):
        """Starts the process and does not wait for anything."""
        self.port = self.fixed or free_port()
        command = [*self.before, str(self.binary), self.kind, "--port", str(self.port), "--bind", self.host,
                   "--dir", str(self.folder), *map(str, self.settings)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, preexec_fn=self.limits,
                                            env={**os.environ, "RUST_BACKTRACE": "1"})

    def ready(self, seconds=120):
        """Waits until it answers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Refused(self.words())
            try:
                client = Client(self.port, timeout=seconds, host=self.host)
                try:
                    if not isinstance(client.call("PING"), ErrorReply):
                        return self
                finally:
                    client.close()
            except Closed:
                pass
            time.sleep(0.01)
        self.kill()
        raise Refused(f"not ready within {seconds} s\n" + self.words())

    def start(self):
        self.launch()
        return self.ready()

    def client(self, timeout=60):
        return Client(self.port, timeout, self.host)

    def words(self, lines=30):
        """The end of what it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def pid(self):
        """Of the server itself, which may be a child of what started it."""
        if not self.before:
            return self.process.pid
        pid = self.process.pid
        for _ in range(200):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in children:
                if Path(f"/proc/{child}/exe").resolve() == Path(self.binary).resolve():
                    return int(child)
            if Path(f"/proc/{pid}/exe").resolve() == Path(self.binary).resolve():
                return pid
            time.sleep(0.02)
        raise Refused("no process of the server")

    def signal(self, number):
        try:
            os.kill(self.pid(), number)
        except (ProcessLookupError, FileNotFoundError):
            pass

    def wait(self, seconds=60):
        """Its exit status; None if it goes on."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        """SIGKILL; what is killed is gone when this returns."""
        if self.process and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            if self.wait(20) is None:
                self.process.kill()
                self.process.wait()

    def term(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def value(kind, reply):
    """What a key holds, so that it can be compared."""
    def pairs(flat):
        return dict(zip(flat[::2], flat[1::2]))
    if kind == b"string":
        return reply
    if kind == b"list":
        return list(reply)
    if kind == b"set":
        return frozenset(reply)
    if kind in (b"hash", b"zset"):
        return pairs(reply)
    return [(ident, tuple(fields)) for ident, fields in reply]


READS = {
    b"string": lambda key: ("GET", key), b"list": lambda key: ("LRANGE", key, 0, -1),
    b"set": lambda key: ("SMEMBERS", key), b"hash": lambda key: ("HGETALL", key),
    b"zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"), b"stream": lambda key: ("XRANGE", key, "-", "+"),
}


def dump(server):
    """Everything: for each database {key: (type, value, absolute expiry in ms or -1)}."""
    client, found = server.client(), []
    for db in range(DATABASES):
        client.call("SELECT", db)
        keys = client.call("KEYS", "*")
        kinds = client.calls([("TYPE", key) for key in keys])
        commands = [READS[kind](key) if kind in READS else ("TYPE", key) for key, kind in zip(keys, kinds)]
        values = client.calls(commands)
        expiries = client.calls([("PEXPIRETIME", key) for key in keys])
        content = {}
        for key, kind, reply, expiry in zip(keys, kinds, values, expiries):
            # A key may expire while it is read.
            if kind != b"none" and expiry != -2 and reply is not None:
                content[key.decode()] = (kind.decode(), value(kind, reply), expiry)
        size = client.call("DBSIZE")
        if size != len(keys) and not any(expiry != -1 for _, _, expiry in content.values()) and len(content) == len(keys):
            raise AssertionError(f"database {db}: DBSIZE says {size}, KEYS {len(keys)}")
        found.append(content)
    client.close()
    return found
