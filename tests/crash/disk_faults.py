"""Faults of disks and file systems: the power is cut, system calls fail or are the last, there is no room."""
import contextlib
import fcntl
import os
import re
import shutil
import time

from history import now
from injection import fault, mounted, need, settings, sh, shown, until
from ledger import Ledger
from wire import Closed, ErrorReply, Refused, Server

EXT4_IOC_SHUTDOWN, WITHOUT_FLUSHING = 0x8004587D, 2


@fault
def power(options, folder, rng):
    """Row 4: power is cut: a file system forgets what was not synced."""
    need("mkfs.ext4", "mount", root=True)
    problems, forgot = [], 0
    for promise, streams in (("always", 1), ("always", 3), ("everysec", 2), ("no", 1)):
        image, mount = folder / f"{promise}-{streams}.img", folder / f"{promise}-{streams}"
        with open(image, "wb") as file:
            file.truncate(192 << 20)
        sh("mkfs.ext4", "-q", "-F", str(image))
        ledger = Ledger()
        for cut in range(3):
            with mounted(mount, "-o", "loop", str(image)):
                server = Server(options.server, mount / "data", settings(streams, promise))
                server.log = folder / f"{promise}-{streams}.log"
                server.start()
                ledger.begin(server)
                time.sleep(3.5 if promise == "everysec" else 0.3 + rng.random())
                descriptor = os.open(mount, os.O_RDONLY)
                at = now()
                fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, WITHOUT_FLUSHING.to_bytes(4, "little"))
                os.close(descriptor)
                time.sleep(0.2)
                server.kill()
                ledger.end()
            with mounted(mount, "-o", "loop", str(image)):
                server.start()
                # `everysec` promises what is older than a second; its sync, begun then, may take another on a busy machine.
                limit = {"always": None, "everysec": at - 2_500_000_000, "no": 0}[promise]
                before = len(ledger.acknowledged)
                problems += shown(ledger.check(server, limit), f"appendfsync {promise}, {streams} streams, cut {cut}")
                forgot += max(before - len(ledger.acknowledged), 0)
                problems += shown(ledger.begin(server).end().check(server, None if promise == "always" else 0), f"{promise}, after the cut")
                if promise != "always":
                    ledger = Ledger()
                server.kill()
            if problems:
                return problems
    if not forgot:
        problems.append("the injection is void: nothing was forgotten, even without syncs")
    return problems


@fault
def steps(options, folder, rng):
    """Row 1: killed at a chosen system call of the log: at a write, a sync, a rename, also while it starts."""
    need("strace")
    problems = []
    for call, most in (("pwrite64", 60), ("fdatasync", 4), ("fsync", 8), ("rename", 6), ("openat", 40), ("unlink", 3), ("pread64", 12)):
        # With `always` a synced write is one call where the file system can do that.
        promise = "everysec" if call == "fdatasync" else "always"
        server, ledger = Server(options.server, folder / call, settings(2, promise)), Ledger()
        server.start()
        ledger.begin(server)
        time.sleep(0.2)
        server.kill()
        ledger.end()
        hits = 0
        for _ in range(4):
            # Counted by thread. Some of these are reached while it starts, others never.
            when = rng.randrange(1, most + 1)
            server.before = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                             "-e", f"inject={call}:signal=SIGKILL:when={when}"]
            try:
                server.start()
                ledger.begin(server)
                hits += until(lambda: server.process.poll() is not None, 2)
            except Refused:
                hits += 1
            server.kill()
            ledger.end()
            server.before = []
            server.start()
            problems += shown(ledger.check(server), f"killed at {call} {when}")
            server.kill()
            if problems:
                return problems
        if not hits and call in ("pwrite64", "fdatasync"):
            problems.append(f"the injection is void: {call} was never reached")
        server.remove()
    return problems


@fault
def fsync(options, folder, rng):
    """Row 6: a sync fails once: what waits is cut off, writes are refused, reads live on, nothing is tried again."""
    need("strace")
    problems = []
    # With `always` a synced write is one call where the file system can do that.
    for call, error, streams, promise in (("pwrite64", "EIO", 1, "always"), ("pwrite64", "EIO", 2, "always"), ("fdatasync", "EIO", 1, "everysec"),
                                          ("pwrite64", "EIO", 1, "everysec"), ("fdatasync", "ENOSPC", 2, "everysec")):
        name = f"{call} {error}, {streams} streams, {promise}"
        server, ledger = Server(options.server, folder / name.replace(" ", "-"), settings(streams, promise, "1mb")), Ledger()
        server.start()
        client = server.client()
        client.call("SET", "early", "1")
        client.close()
        server.kill()
        trace, when = server.folder / "trace", rng.randrange(20, 60) if call == "pwrite64" else 2 * streams + 1
        server.before = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync,fsync,pwrite64",
                         "-e", f"inject={call}:error={error}:when={when}"]
        server.start()
        ledger.begin(server, on_refusal="stop")
        if not until(lambda: "INJECTED" in trace.read_text(errors="replace"), 30):
            problems.append(f"the injection is void: {name} was not reached")
        ledger.end(20)
        try:
            client = server.client(10)
            refusal = client.call("SET", "late", "1")
            if not isinstance(refusal, ErrorReply) or not refusal.startswith("MISCONF"):
                problems.append(f"{name}: a write after it was answered {refusal!r}")
            if client.call("GET", "early") != b"1":
                problems.append(f"{name}: what is committed cannot be read")
            if not isinstance(client.call("EVAL", "return redis.call('set', KEYS[1], 1)", 1, "late"), ErrorReply):
                problems.append(f"{name}: a script may write")
            client.close()
            # Whoever sees what was never committed is not answered.
            seen = {}
            for pending in list(ledger.unknown)[:5]:
                reader = server.client(3)
                try:
                    seen[pending] = reader.call("GET", f"a:{pending}")
                except Closed:
                    pass
                reader.close()
        except Closed as closed:
            problems.append(f"{name}: {closed}: a connection behind it is not served")
            seen = {}
        lines = trace.read_text(errors="replace").splitlines()
        at = next((i for i, line in enumerate(lines) if "INJECTED" in line), len(lines))
        again = [line for line in lines[at + 1:] if line.split()[0] == lines[at].split()[0] and re.search("fdatasync|pwrite64", line)]
        if again:
            problems.append(f"{name}: the stream goes on: {again[:3]}")
        if server.process.poll() is not None:
            problems.append(f"{name}: it has ended by itself\n{server.words()}")
        server.kill()
        server.before = []
        server.start()
        problems += shown(ledger.check(server), name)
        client = server.client()
        for pending, found in seen.items():
            if found is not None and client.call("GET", f"a:{pending}") != found:
                problems.append(f"{name}: {pending} was shown, and is gone")
        if client.call("SET", "late", "2") != b"OK":
            problems.append(f"{name}: after a new start it does not write")
        server.kill()
    return problems


def fill(server, ledger):
    """Writes until they are refused; with what is wrong with that."""
    ledger.begin(server, length=4000)
    refused = until(lambda: ledger.refused, 60)
    time.sleep(0.5)
    ledger.end(20)
    return [] if refused else [f"never refused, {len(ledger.acknowledged)} acknowledged, {len(ledger.unknown)} unanswered\n{server.words(5)}"]


@fault
def full(options, folder, rng):
    """Row 7: the disk is full: writes are refused, reads live; with room it goes on."""
    need("mount", root=True)
    problems = []
    for streams in (1, 2):
        mount = folder / f"small-{streams}"
        with mounted(mount, "-t", "tmpfs", "-o", "size=6m", "none"):
            server, ledger = Server(options.server, mount / "data", settings(streams, "always", "512kb")), Ledger()
            server.log = folder / "full.log"
            server.start()
            problems += shown(fill(server, ledger), f"{streams} streams")
            kinds = {re.sub(r"\d+", "N", text) for text in ledger.refused.values()}
            if not all(re.search("(?i)space|full", text) for text in kinds):
                problems.append(f"{streams} streams: not a clear refusal: {kinds}")
            if ledger.unknown:
                problems.append(f"{streams} streams: {len(ledger.unknown)} writes were cut off, not refused")
            try:
                problems += shown(ledger.check(server), "while it is full")
                sh("mount", "-o", "remount,size=64m", str(mount))
                client = server.client(10)
                if not until(lambda: client.call("SET", "again", "1") == b"OK", 20):
                    problems.append(f"{streams} streams: with room it still says {client.call('SET', 'again', '1')}")
                ledger.begin(server, length=400)
                time.sleep(0.5)
                ledger.end(20)
            except Closed as closed:
                problems.append(f"{streams} streams: {closed}")
            server.kill()
            sh("mount", "-o", "remount,size=64m", str(mount))
            try:
                server.start()
                problems += shown(ledger.check(server), f"{streams} streams, after a new start")
            except Refused as refused:
                problems.append(f"{streams} streams: {refused}")
            server.kill()
    return problems


@fault
def cramped(options, folder, rng):
    """Row 7: the disk is full while appendfsync and appendonly are switched and a backup is made: each is done or refused, nothing is lost."""
    need("mount", root=True)
    problems = []
    mount = folder / "small"
    with mounted(mount, "-t", "tmpfs", "-o", "size=8m", "none"):
        server, ledger = Server(options.server, mount / "data", settings(2, "always", "256kb")), Ledger()
        server.log = folder / "cramped.log"
        server.start()

        def call(*words):
            """What is answered: nothing may hang."""
            reply = server.client(20).call(*words)
            return str(reply) if isinstance(reply, ErrorReply) else reply

        def expect(words, *wanted):
            reply = call(*words.split())
            if not any(reply == want or isinstance(reply, str) and want in reply for want in map(coded, wanted)):
                problems.append(f"{words}: {reply}, not {wanted}")

        def coded(want):
            return want.encode() if want == "OK" else want

        def room(size):
            sh("mount", "-o", f"remount,size={size}", str(mount))

        def fill_up():
            problems.extend(fill(server, ledger))
            ledger.refused.clear()
            with contextlib.suppress(OSError), open(mount / "ballast", "ab", buffering=0) as ballast:
                while ballast.write(bytes(4096)):
                    pass

        def again(what):
            (mount / "ballast").unlink(missing_ok=True)
            if not until(lambda: call("SET", "again", "1") == b"OK", 20):
                problems.append(f"{what}: with room it still says {call('SET', 'again', '1')}")
            problems.extend(shown(ledger.check(server), what))

        try:
            fill_up()
            expect("CONFIG SET appendfsync everysec", "OK")
            expect("CONFIG SET appendfsync always", "OK")
            expect("HOLDFAST BACKUP backup", "No space", "full")
            if (mount / "data/backup").exists():
                problems.append("a backup that failed has left something")
            room("64m")
            again("after a switch of appendfsync on a full disk")
            expect("HOLDFAST BACKUP backup", "OK")
            shutil.rmtree(mount / "data/backup", ignore_errors=True)
            room("12m")
            fill_up()
            expect("CONFIG SET appendonly no", "OK", "Unable to turn off AOF")
            expect("CONFIG SET appendonly yes", "Unable to turn on AOF", "OK")
            room("64m")
            (mount / "ballast").unlink(missing_ok=True)
            expect("CONFIG SET appendonly yes", "OK")
            again("after appendonly was switched on a full disk")
            said = server.log.read_text(errors="replace")
            for words in ("The log's next segment cannot be had: No space left on device", "There is a next segment of the log again"):
                if words not in said:
                    problems.append(f"its log does not say: {words}")
            server.kill()
            server.start()
            problems += shown(ledger.check(server), "after a new start")
        except (Closed, Refused) as error:
            problems.append(f"{error}\n{server.words(5)}")
        server.kill()
    return problems
