"""What the experiments share: options, what is measured beside what, rounds, and the page that is written."""
import argparse
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parent.parent))

from cluster import SECRET, Cluster, Nodes, RedisCluster, Relay, free_ports  # noqa: E402
from plot import svg  # noqa: E402
import servers  # noqa: E402
from servers import REPOSITORY, Client, Server, bench, cpus, default_holdfast, fail, machine, pin, table  # noqa: E402,F401

NODES = 3


def options_of(about, seconds, rounds, more=None, pinned=False):
    """Reads the command line. Servers and load generator share all CPUs unless `pinned`: then servers have the first one, the load generator the others."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = sorted(os.sched_getaffinity(0))
    names = lambda numbers: ",".join(map(str, numbers))
    parser.add_argument("--holdfast", metavar="PATH", default=default_holdfast(), help="the build that is measured (default: target/dist or target/release)")
    for peer in ("redis-server", "valkey-server", "dragonfly"):
        parser.add_argument(f"--{peer}", metavar="PATH", help="measured beside it, if given")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND",
                        help="any other server, as durable as the experiment asks for; {port} and {dir} in it are replaced")
    parser.add_argument("--keys", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--value-size", default="128", metavar="BYTES")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"of each run (default: {seconds:g})")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"in which all take turns (default: {rounds})")
    parser.add_argument("--server-cpu", metavar="CPUS", default=names(every[:1] if pinned and every[1:] else every))
    parser.add_argument("--client-cpu", metavar="CPUS", default=names(every[1:] if pinned and every[1:] else every))
    parser.add_argument("--threads", type=int, default=1, help="of the load generator")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="priority of all of them, -20 to 19; below 0 needs root")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the page and its plot go (default: docs/benchmarks; with --quick a temporary folder)")
    parser.add_argument("--quick", action="store_true", help="only to see that it works: few keys, one short round")
    if more:
        more(parser)
    options = parser.parse_args()
    if not options.holdfast or not os.access(options.holdfast, os.X_OK):
        fail("no release build of holdfast: run `cargo build --release`, or give --holdfast PATH")
    if options.quick:
        options.keys, options.seconds, options.rounds = min(options.keys, 10_000), min(options.seconds, 0.1), 1
    options.output = options.output or (Path(tempfile.mkdtemp(prefix="holdfast-experiment-")) if options.quick else REPOSITORY / "docs" / "benchmarks")
    for name in ("holdfast", "redis_server", "valkey_server", "dragonfly"):
        given = getattr(options, name)
        if given:
            found = shutil.which(given)
            setattr(options, name, os.path.abspath(found) if found else fail(f"there is no {given}"))
    cpus(options.server_cpu)
    cpus(options.client_cpu)
    options.load_average = os.getloadavg()[0]
    options.began = time.monotonic()
    return options


def ours(options, settings):
    return f"{shlex.quote(options.holdfast)} server {settings}"


def peers(options, durable=False):
    """(name, command) of the peers that were given. What cannot be as durable as asked for is left out."""
    keeping = "--appendonly yes --appendfsync always" if durable else "--appendonly no"
    found = [(name, f"{shlex.quote(path)} --save '' {keeping}")
             for name, path in (("redis", options.redis_server), ("valkey", options.valkey_server)) if path]
    if options.dragonfly and not durable:
        found.append(("dragonfly", f"{shlex.quote(options.dragonfly)} --bind 127.0.0.1 --dbfilename '' --port {{port}} --dir {{dir}}"))
    for peer in options.peer:
        name, equals, command = peer.partition("=")
        found.append((name, command) if equals and name and command else fail(f"--peer takes NAME=COMMAND, not `{peer}`"))
    return found


class Subject:
    """Something that is measured: a server, or a cluster as clients of some kind see it."""

    def __init__(self, name, server, target=None):
        self.name, self.server, self.target = name, server, target


class Subjects:
    """All that take turns; they end with the `with` block."""

    def __init__(self, options):
        self.options, self.servers, self.all = options, [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()

    def one(self, name, command):
        server = Server(self.options, name, command)
        self.servers.append(server)
        server.wait_ready()
        self.all.append(Subject(name, server))

    def cluster(self, settings, names):
        """Our cluster, once for each of `names`: (name, whether clients know who has which key)."""
        cluster = Cluster(self.options, ours(self.options, settings), NODES)
        self.servers.append(cluster)
        cluster.wait_ready()
        self.all += [Subject(name, cluster, cluster.target(smart)) for name, smart in names]

    def shards(self, name, settings):
        """As many servers as the cluster has nodes, that know nothing of one another; clients share the keys out over them."""
        ports = free_ports(NODES)
        shards = Nodes(self.options, [Server(self.options, name, ours(self.options, settings) + " --port {port} --dir {dir}", port) for port in ports])
        self.servers.append(shards)
        for server in shards.nodes:
            server.wait_ready()
        self.all.append(Subject(name, shards, [*shards.target(False), "--shard"]))

    def redis_cluster(self, name, command):
        cluster = RedisCluster(self.options, command, NODES)
        self.servers.append(cluster)
        cluster.wait_ready()
        self.all.append(Subject(name, cluster, cluster.target(True)))

    def fill(self):
        filled = set()
        for subject in self.all:
            if id(subject.server) not in filled:
                filled.add(id(subject.server))
                self.run(subject, ["--load-only"])

    def run(self, subject, arguments):
        common = ["--keys", str(self.options.keys), "--value-size", self.options.value_size]
        return bench(self.options, subject.server, common + arguments, self.options.seconds + 300, target=subject.target)

    def rounds(self, rows):
        """The reports of `rows`, (name, arguments, and for whom, or None for all), by name and subject, round by round."""
        reports = {}
        options = self.options
        threads = ["--threads", str(options.threads)]
        for number in range(options.rounds):
            for row, arguments, whom in rows:
                for subject in self.all:
                    if whom is None or subject.name in whom:
                        before = retries(subject.server)
                        report = self.run(subject, [*arguments, *threads, "--duration", str(options.seconds), "--warmup",
                                                    str(min(0.2, options.seconds / 4)), "--seed", str(number + 1)])
                        after = retries(subject.server)
                        report["retries"] = (after[1] - before[1]) / max(1, after[0] - before[0])
                        reports.setdefault((row, subject.name), []).append(report)
                label = row if isinstance(row, str) else ", ".join(map(str, row))
                print(f"  {label}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        return reports


def retries(server):
    """Transactions over nodes that are over, and the attempts beyond the first that they took."""
    count = getattr(server, "transactions", None)
    return count() if count else (0, 0)


def middle(reports, field):
    return statistics.median(report[field] for report in reports)


def figures(reports, field):
    return [report[field] for report in reports]


def spread(values, digits):
    """Median (smallest to largest), if there are several."""
    return servers.spread(values, digits) if len(values) > 1 else f"{values[0]:,.{digits}f}"


SPEED = ["commands/s", "P50 ms", "P99 ms", "P99.9 ms", "CPU us a command", "server cores", "client cores", "errors"]


def speed(options, reports):
    """The cells of SPEED for the rounds of one row."""
    busy = middle(reports, "client_cores") > 0.97 * options.threads
    return [spread(figures(reports, "commands_per_second"), 0), *(f"{middle(reports, f'latency_ms_{p}'):.2f}" for p in ("p50", "p99", "p999")),
            spread(figures(reports, "server_cpu_us_per_command"), 2), f"{middle(reports, 'server_cores'):.2f}",
            f"{middle(reports, 'client_cores'):.2f}" + (" *" if busy else ""), f"{sum(figures(reports, 'errors')):.0f}"]


SATURATED = "\\* The load generator was saturated: the server may be faster."


def version(binary):
    said = subprocess.run([binary, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found = re.search(r"v?=?(\d+\.\d[\w.\-]*)", said)
    return "of an unstable branch" if found and found[1].startswith("255.") else found[1] if found else "of unknown version"


def commit():
    said = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    return f", tree {said}" if said else ""


def without_paths(words):
    """A command line as it may be shown: of a path only the last part."""
    return shlex.join(Path(word).name if word.startswith(("/", "~", ".")) and "/" in word else
                      re.sub(r"(?<![\w{])/[^\s'\"]*/", "", word) for word in words)


def publish(options, name, title, about, parts, plots=None, axis=""):
    """Writes NAME.md, and NAME.svg if there are `plots` (of plot.svg), and says where."""
    options.output.mkdir(parents=True, exist_ok=True)
    beside = [f"{peer} {version(path)}" for peer, path in (("Redis", options.redis_server), ("Valkey", options.valkey_server), ("DragonflyDB", options.dragonfly)) if path]
    ran = [f"bench/experiments/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    said = [
        f"# {title}", about.strip(), f"```console\n$ {without_paths(ran)}\n```",
        f"{machine()}; servers on CPU {options.server_cpu}, load generator on CPU {options.client_cpu}; {options.keys:,} keys, values of {options.value_size} bytes; "
        f"{options.rounds} round{'s' if options.rounds > 1 else ''} of {options.seconds:g} s, in turns; {time.strftime('%Y-%m-%d')}, load average before the run "
        f"{options.load_average:.1f}; it took {time.monotonic() - options.began:.0f} s. Holdfast {version(options.holdfast)} "
        f"(build `{Path(options.holdfast).parent.name}`{commit()}){''.join(f', {other}' for other in beside)}. Figures are medians of the rounds, with the lowest and the highest."]
    if plots:
        (options.output / f"{name}.svg").write_text(svg(plots, axis))
        said.append(f"![{title}]({name}.svg)")
    page = "\n\n".join([*said, *parts]) + "\n"
    (options.output / f"{name}.md").write_text(page)
    print(page)
    inside = options.output.is_relative_to(REPOSITORY)
    print(f"written: {(options.output.relative_to(REPOSITORY) if inside else options.output) / name}.md", file=sys.stderr)
