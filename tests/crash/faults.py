"""The faults: each is a function that injects one and says what did not hold. Those of the system are here."""
import contextlib
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import crowd
import damage_faults  # noqa: F401: they are known by being there
import disk_faults  # noqa: F401
from injection import ALL, Missing, fault, need, settings, shown, until
from ledger import Ledger
from wire import Client, Closed, Refused, Server, dump


@fault
def stall(options, folder, rng):
    """Row 10: a sync takes seconds: no acknowledgement before it, committed data is read meanwhile."""
    need("strace")
    problems = []
    server, ledger = Server(options.server, folder / "stall", settings(1, "always", "1mb")), Ledger()
    server.before = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(folder / "trace"), "-e", "trace=fdatasync,pwrite64",
                     "-e", "inject=fdatasync,pwrite64:delay_enter=4000000:when=30"]
    server.start()
    client = server.client()
    # Of the thread of the stream this is the 30th at the latest.
    began, slowest = time.monotonic(), 0
    for n in range(60):
        writer = server.client(20)
        writer.send([("SET", "slow", n)])
        writer.socket.settimeout(1.5)
        try:
            writer.read()
            continue
        except Closed:
            slowest = n
        reader, began = server.client(3), time.monotonic()
        try:
            if reader.call("GET", "other") is not None or time.monotonic() - began > 1:
                problems.append("what is committed was not read during the stall")
        except Closed:
            problems.append("a read of what nobody has written was not answered during the stall")
        waiting = server.client(20)
        began = time.monotonic()
        found = waiting.call("GET", "slow")
        if found == b"%d" % n and time.monotonic() - began < 0.5:
            problems.append("what was not committed was read during the stall")
        break
    if not slowest:
        problems.append("the injection is void: no write was slow")
    client.close()
    # And killed in the middle of one.
    server.kill()
    server.start()
    ledger.begin(server)
    until(lambda: "INJECTED" in (folder / "trace").read_text(errors="replace") or "DELAYED" in (folder / "trace").read_text(errors="replace"), 10)
    time.sleep(1)
    server.kill()
    ledger.end()
    server.before = []
    server.start()
    problems += ledger.check(server)
    server.kill()
    return problems


@fault
def clock(options, folder, rng):
    """Row 16: the clock jumps by minutes and years in both directions, also between lives: commits stay what they were."""
    library = next((path for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if not library:
        raise Missing("needs libfaketime")
    problems = []
    file = folder / "offset"
    file.write_text("+0")
    server, ledger = Server(options.server, folder / "clock", settings(2)), Ledger()
    server.before = ["env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_NO_CACHE=1",
                     "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]
    seen = set()
    for life, jumps in enumerate((("+0", "+3600", "-60"), ("-3600", "+2", "-864000"), ("+315360000", "+0"), ("-315360000", "+5"), ("+0",))):
        file.write_text(jumps[0])
        server.start()
        problems += shown(ledger.check(server), f"life {life}") if life else []
        ledger.begin(server)
        for jump in jumps:
            file.write_text(jump)
            time.sleep(0.3)
            client = server.client()
            seen.add(client.call("TIME")[0][:6])
            client.call("SET", "kept", life, "EX", 10**9)
            client.close()
        server.kill()
        ledger.end()
    if len(seen) < 3:
        problems.append(f"the injection is void: the server's clock did not jump: {seen}")
    file.write_text("+0")
    server.start()
    problems += shown(ledger.check(server), "at the end")
    server.kill()
    return problems


@fault
def limits(options, folder, rng):
    """Row 19: few descriptors, small maxmemory: errors, no crash, the log goes on."""
    problems = []

    def limited(number, value):
        return lambda: resource.setrlimit(number, (value, value))

    server, ledger = Server(options.server, folder / "descriptors", settings(2), limits=limited(resource.RLIMIT_NOFILE, 100)), Ledger()
    server.start()
    ledger.begin(server, connections=4, length=2000)
    crowd = []
    for _ in range(200):
        try:
            crowd.append(Client(server.port, timeout=5))
        except Closed:
            break
    before = len(ledger.acknowledged)
    time.sleep(3)
    if len(ledger.acknowledged) - before < 20:
        problems.append(f"with no descriptors left the log does not go on: {list(ledger.refused.values())[:1]} {server.words(5)}")
    for client in crowd:
        client.close()
    ledger.end()
    # Who comes before the server has seen the others leave is told that there are too many, and closed.
    server.ready()
    problems += shown(ledger.check(server), "few descriptors")
    if server.process.poll() is not None:
        problems.append(f"few descriptors: it ended: {server.words()}")
    server.kill()
    server.start()
    problems += shown(ledger.check(server), "few descriptors, after a kill")
    server.kill()

    for policy in ("noeviction", "allkeys-lru"):
        server = Server(options.server, folder / policy, settings(2, "always", "1mb", "--maxmemory", "30mb", "--maxmemory-policy", policy))
        server.start()
        ledger = Ledger().begin(server, connections=8, length=20000)
        until(lambda: ledger.refused or len(ledger.acknowledged) > 3000, 60)
        time.sleep(0.5)
        ledger.end()
        if policy == "noeviction":
            # What does not fit goes to the store.
            if ledger.refused:
                problems.append(f"{policy}: {list(ledger.refused.values())[:2]}")
            problems += shown(ledger.check(server), policy)
        found = dump(server)
        server.kill()
        server.start()
        again = dump(server)
        differing = [key for key in found[0].keys() | again[0].keys() if found[0].get(key) != again[0].get(key)]
        # It may evict again while it is read.
        if differing and (policy == "noeviction" or any(key not in found[0] for key in differing)):
            problems.append(f"{policy}: {len(differing)} keys differ after a kill: {differing[:3]}")
        if policy == "noeviction":
            problems += shown(ledger.check(server), f"{policy}, after a kill")
        server.kill()
    return problems


@contextlib.contextmanager
def group(most):
    """A control group that may have so many bytes of memory: what a child calls to be in it."""
    need(root=True)
    first = Path("/sys/fs/cgroup/memory")
    place, name = (first, "memory.limit_in_bytes") if first.exists() else (Path("/sys/fs/cgroup"), "memory.max")
    place = place / f"holdfast-{os.getpid()}"
    try:
        place.mkdir()
        (place / name).write_text(str(most))
    except OSError as error:
        raise Missing(f"cannot make a control group: {error}") from error
    try:
        yield lambda: (place / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        until(lambda: not (place / "cgroup.procs").read_text(), 10)
        place.rmdir()


@contextlib.contextmanager
def address_space(most):
    """At most so many bytes of address space for a child that calls this."""
    yield lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))


def crowded(options, folder, limit, kind, seed, seconds=6):
    """A server with little memory, and clients that want more of it in one way."""
    server, problems = Server(options.server, folder, settings(2, "always", "1mb"), limits=limit), []
    server.start()
    ledger = Ledger().begin(server, connections=2, length=500)
    attack = crowd.Attack(server, crowd.KINDS[kind], 9 if kind == "everything" else 4, seed)
    until(lambda: server.process.poll() is not None, seconds)
    if not attack.end():
        problems.append("a connection was neither answered nor closed for 60 s")
    if server.process.poll() is None:
        # What the ledger has was written while there was no memory, and must stay.
        client = server.client()
        # A script goes on when its client has gone, and who needs what it holds is told -BUSY.
        until(lambda: str(client.call("SCRIPT", "KILL")).startswith("NOTBUSY"), 60)
        client.calls([("SELECT", crowd.DATABASE), ("FLUSHDB",)])
        ledger.end()
        before = len(ledger.acknowledged)
        ledger.begin(server, connections=2, length=500)
        if not until(lambda: len(ledger.acknowledged) > before + 20, 30):
            problems.append(f"it takes no writes any more: {list(ledger.refused.values())[:1]} {server.words(3)}")
    ledger.end()
    if server.process.poll() is None:
        problems += ledger.check(server)
    else:
        problems.append(f"it ended ({server.process.returncode}): {server.words(3)}")
    server.kill()
    server.start()
    problems += shown(ledger.check(server), "after a kill")
    server.kill()
    told = f"{attack.answers} answers, {attack.out_of_memory()} of them -OOM, {attack.closed} connections closed, {len(ledger.acknowledged)} writes acknowledged"
    others = [error for error in attack.errors if not error.startswith(("OOM", "EXECABORT", "ERR"))]
    print(f"   {folder.name:28} {told} {others[:3] or ''}", flush=True)
    return problems


def crowded_in_every_way(options, folder, limited, name, rng):
    problems = []
    for kind in crowd.KINDS:
        with limited() as limit:
            problems += shown(crowded(options, folder / f"{name}-{kind}", limit, kind, rng.randrange(1000)), kind)
    return problems


@fault
def space(options, folder, rng):
    """Row 19: the system limits the address space, and clients ask for more in every way: errors, no end, nothing lost."""
    return crowded_in_every_way(options, folder, lambda: address_space(640 << 20), "space", rng)


@fault
def confined(options, folder, rng):
    """Row 19: the same in a control group."""
    return crowded_in_every_way(options, folder, lambda: group(400 << 20), "group", rng)


@fault
def pause(options, folder, rng):
    """Row 3: the process stands still for seconds, in the middle of everything, and goes on."""
    server, ledger = Server(options.server, folder / "pause", settings(2)), Ledger()
    server.start()
    ledger.begin(server)
    for _ in range(4):
        time.sleep(rng.random() * 0.3)
        server.signal(signal.SIGSTOP)
        time.sleep(rng.random() * 2)
        server.signal(signal.SIGCONT)
    ledger.end()
    problems = ledger.check(server)
    server.kill()
    server.start()
    problems += shown(ledger.check(server), "after a kill")
    server.kill()
    return problems


# Those of the short form: seconds each.
SHORT = ("steps", "fsync", "stall", "pause", "files", "tail")


def run(options, folder):
    """Whether all faults that can be injected here were survived."""
    names = options.faults or (SHORT if options.what == "short" else ALL)
    held = True
    for name in names:
        if name not in ALL:
            print(f"no fault {name!r}: there are {', '.join(ALL)}")
            return False
        rng, directory, began = random.Random(f"{options.seed} {name}"), folder / f"fault-{name}", time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        title = ALL[name].__doc__.splitlines()[0]
        try:
            problems = ALL[name](options, directory, rng)
        except Missing as missing:
            print(f"{name:8} left out: {missing}", flush=True)
            continue
        except (Refused, Closed) as error:
            problems = [f"{type(error).__name__}: {error}"]
        print(f"{name:8} {'FAILED' if problems else 'held':6} {time.monotonic() - began:5.1f} s  {title}", flush=True)
        if problems:
            held = False
            print("\n".join(f"   {problem}" for problem in problems[:12]) + (f"\n   ... {len(problems)} problems" if len(problems) > 12 else ""))
            print(f"   again: tests/crash/run faults {name} --server {options.server} --seed {options.seed}", flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return held
