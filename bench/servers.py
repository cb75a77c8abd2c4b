"""What the commands here share: servers to start, the load generator, medians."""
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CEILING = "ceiling"


def fail(message):
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(1)


def default_holdfast():
    for profile in ("dist", "release"):
        build = REPOSITORY / "target" / profile / "holdfast"
        if build.exists():
            return str(build)
    return None


def add_arguments(parser):
    parser.add_argument(
        "--server", action="append", metavar="NAME=COMMAND", default=[],
        help="a server to measure, any number of times; `--port PORT --dir FOLDER` is appended to its command, or "
        "{port} and {dir} in it are replaced (default: holdfast with epoll, with io_uring, and redis-server)")
    parser.add_argument("--holdfast", metavar="PATH", default=default_holdfast(),
                        help="the binary whose `bench` makes the load (default: target/dist or target/release)")
    parser.add_argument("--durable", action="store_true",
                        help="instead: holdfast without a log, with `appendfsync always`, and Redis with `appendfsync always`")
    parser.add_argument("--ceiling", action="store_true", help="also a server that answers a constant (crates/net/examples)")
    parser.add_argument("--redis-server", metavar="PATH", default="redis-server", help="Redis for the default servers")
    parser.add_argument("--server-cpu", metavar="CPUS", default="0", help="CPUs of the servers, such as 0 or 0,1")
    parser.add_argument("--client-cpu", metavar="CPUS", default="1", help="CPUs of the load generator")
    parser.add_argument("--nice", type=int, default=0, metavar="N",
                        help="priority of servers and load generator, -20 to 19; below 0 needs root")
    parser.add_argument("--output", metavar="FILE", help="also append the tables to this file")


class Server:
    """One server process, pinned, in a temporary folder."""

    def __init__(self, options, name, command, port=None):
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="holdfast-bench-")
        self.port = port
        if port is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        line = command if port or "{port}" in command else f"{command} --port {{port}} --dir {{dir}}"
        self.command = shlex.split(line.replace("{port}", str(self.port)).replace("{dir}", self.folder))
        self.log = open(os.path.join(self.folder, "log"), "wb")
        try:
            self.process = subprocess.Popen(
                self.command, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self.folder,
                preexec_fn=pin(cpus(options.server_cpu), options.nice))
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            fail(f"{name}: cannot start {self.command[0]}: {error}")

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self):
        for _ in range(300):
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(64).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.1)
        log = Path(self.log.name).read_text(errors="replace")[-2000:]
        self.stop()
        fail(f"{self.name} did not start: {shlex.join(self.command)}\n{log}")

    def command_reply(self, *arguments):
        """The reply's bytes to one command, as far as they come within a moment."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            request = f"*{len(arguments)}\r\n" + "".join(f"${len(a)}\r\n{a}\r\n" for a in arguments)
            connection.sendall(request.encode())
            connection.settimeout(0.5)
            reply = b""
            try:
                while part := connection.recv(1 << 16):
                    reply += part
            except TimeoutError:
                pass
            return reply.decode(errors="replace")

    def resident(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        fail(f"{self.name} has gone")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    """A connection that knows as much of the protocol as is needed here."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 16)

    def __call__(self, *words):
        return self.pipeline([words])[0]

    def pipeline(self, lines):
        out = []
        for words in lines:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            out.append(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        self.socket.sendall(b"".join(out))
        return [self.reply() for _ in lines]

    def reply(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            fail("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-":
            return line[:-2].decode()
        if kind == b":":
            return int(rest)
        if kind in b"$=":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        fail(f"unexpected reply {line!r}")

    def info(self, *sections):
        return dict(line.split(":", 1) for line in self("INFO", *sections).decode().split("\r\n") if ":" in line)


def pin(cpus, nice):
    """What a child does before it becomes a server or the load generator."""
    def prepare():
        os.sched_setaffinity(0, cpus)
        if nice:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            os.setsid()
            # With autogroups the kernel shares a CPU among sessions first, and then by priority within one.
            try:
                Path("/proc/self/autogroup").write_text(str(nice))
            except OSError:
                pass
    return prepare


def cpus(text):
    try:
        chosen = {int(part) for part in text.split(",")}
    except ValueError:
        fail(f"CPUs are given as 0 or 0,1, not `{text}`")
    missing = chosen - os.sched_getaffinity(0)
    if missing:
        fail(f"this machine has no CPU {sorted(missing)}; see --server-cpu and --client-cpu")
    return chosen


def chosen_servers(options):
    """(name, command) of every server asked for."""
    if not options.holdfast or not os.access(options.holdfast, os.X_OK):
        fail("no release build of holdfast: run `cargo build --release`, or give --holdfast PATH")
    options.holdfast = os.path.abspath(options.holdfast)
    if options.durable:
        ours = shlex.quote(options.holdfast) + " server --appendonly"
        redis = shlex.quote(options.redis_server) + " --save '' --appendonly yes --appendfsync always"
        options.server += [f"cache={ours} no", f"always={ours} yes --appendfsync always", f"redis={redis}"]
    if not options.server:
        ours = shlex.quote(options.holdfast) + " server --workers 1 --appendonly no --io-driver"
        redis = shlex.quote(options.redis_server) + " --save '' --appendonly no"
        options.server = [f"epoll={ours} epoll", f"io_uring={ours} io_uring", f"redis={redis}"]
    pairs = []
    for server in options.server:
        name, equals, command = server.partition("=")
        if not equals or not name or not command:
            fail(f"--server takes NAME=COMMAND, not `{server}`")
        pairs.append((name, command))
    if options.ceiling:
        pairs.append((CEILING, shlex.quote(example("ceiling"))))
    return pairs


def example(name):
    """The path of an example in crates/net; built if it is not there."""
    build = REPOSITORY / "target" / "release" / "examples" / name
    if not build.exists():
        subprocess.run(["cargo", "build", "--release", "-p", "net", "--example", name], cwd=REPOSITORY, check=True)
    return str(build)


def bench(options, server, arguments, limit_s, counting=False, target=None):
    """Runs `holdfast bench` against a server, or against what `target` says instead of its port, and returns its report.

    With --instructions the report gains the server's instructions and cycles per command, from perf stat."""
    target = ["--port", str(server.port)] if target is None else target
    command = [options.holdfast, "bench", *target, "--server-pid", str(server.pid), "--json", "--quiet", *arguments]
    counters = None
    if counting:
        counters = tempfile.NamedTemporaryFile("r", prefix="perf-")
        command = ["perf", "stat", "-x", ",", "-e", "instructions,cycles", "-p", str(server.pid), "-o", counters.name,
                   "--", *command]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit_s,
                            preexec_fn=pin(cpus(options.client_cpu), options.nice))
    if result.returncode != 0:
        fail(f"{server.name}: {shlex.join(command)}\n{result.stderr}")
    report = json.loads(result.stdout)
    if counters:
        for line in counters:
            fields = line.split(",")
            if len(fields) > 2 and fields[0].isdigit():
                name = fields[2].split(":")[0]
                report[f"{name}_per_command"] = int(fields[0]) / max(1, report["commands"])
                report[f"{name}_per_batch"] = int(fields[0]) / max(1, report["batches"])
    return report


def spread(values, digits):
    """Median (smallest to largest)."""
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), os.uname().machine)
    return f"{model}, {os.cpu_count()} CPUs, Linux {os.uname().release}"


def publish(options, text):
    print(text)
    if options.output:
        with open(options.output, "a") as file:
            file.write(text + "\n")
