"""The faults: each is a function that injects one and says what did not hold."""
import contextlib
import fcntl
import hashlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import crowd
from history import now
from ledger import Ledger
from wire import Client, Closed, ErrorReply, Refused, Server, dump

ALL, LONG = {}, set()
EXT4_IOC_SHUTDOWN, WITHOUT_FLUSHING = 0x8004587D, 2


class Missing(Exception):
    """The system lacks what the injection needs."""


def fault(function):
    ALL[function.__name__] = function
    return function


def need(*programs, root=False):
    for program in programs:
        if not shutil.which(program):
            raise Missing(f"needs {program}")
    if root and os.geteuid() != 0:
        raise Missing("needs root")


def settings(streams=1, promise="always", segment="64kb", *more):
    return ["--appendonly", "yes", "--appendfsync", promise, "--log-segment-size", segment, "--workers", 2,
            "--log-dirs", *(f"stream-{i}" for i in range(streams)), *more]


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def shown(problems, what):
    return [f"{what}: {problem}" for problem in problems]


@contextlib.contextmanager
def mounted(folder, *command):
    folder.mkdir(parents=True, exist_ok=True)
    try:
        sh("mount", *command, str(folder))
    except subprocess.CalledProcessError as error:
        raise Missing(f"cannot mount: {error.stderr.decode().strip()}") from error
    try:
        yield folder
    finally:
        for _ in range(50):
            if subprocess.run(["umount", str(folder)], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


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
            ledger.begin(server, length=4000)
            if not until(lambda: ledger.refused, 60):
                problems.append(f"{streams} streams: never refused, {len(ledger.acknowledged)} acknowledged, {len(ledger.unknown)} unanswered\n{server.words(5)}")
            time.sleep(0.5)
            ledger.end(20)
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

        def fill():
            ledger.begin(server, length=4000)
            if not until(lambda: ledger.refused, 60):
                problems.append(f"never refused\n{server.words(5)}")
            ledger.end(20)
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
            fill()
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
            fill()
            expect("CONFIG SET appendonly no", "OK", "Unable to turn off AOF")
            expect("CONFIG SET appendonly yes", "Unable to turn on AOF", "OK")
            room("64m")
            (mount / "ballast").unlink(missing_ok=True)
            expect("CONFIG SET appendonly yes", "OK")
            again("after appendonly was switched on a full disk")
            said = server.log.read_text(errors="replace")
            for words in ("No space is left on the device of the log", "There is space on the device of the log again"):
                if words not in said:
                    problems.append(f"its log does not say: {words}")
            server.kill()
            server.start()
            problems += shown(ledger.check(server), "after a new start")
        except (Closed, Refused) as error:
            problems.append(f"{error}\n{server.words(5)}")
        server.kill()
    return problems


def hashes(folder):
    names = [path for path in sorted(folder.glob("stream-*/*")) if path.suffix == ".log" and not path.name.startswith("spare")]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


def used(path):
    """Bytes of a file up to the last that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


def damage(rng, paths):
    """Damages one of these files. What was done, and to which."""
    path = rng.choice(paths)
    size, kind = max(used(path), 1), rng.choice(("flip", "flip", "flip", "sector", "cut", "empty", "remove", "other"))
    with open(path, "r+b") as file:
        at = rng.randrange(size)
        if kind == "flip":
            file.seek(at)
            byte = file.read(1)[0] ^ 1 << rng.randrange(8)
            file.seek(at)
            file.write(bytes([byte]))
        elif kind == "sector":
            at = at // 512 * 512
            file.seek(at)
            file.write(bytes(512))
        elif kind == "cut":
            file.truncate(at)
        elif kind == "empty":
            file.truncate(0)
            at = 0
    if kind == "remove":
        path.unlink()
    elif kind == "other" and len(paths) > 1:
        source = rng.choice([other for other in paths if other != path])
        shutil.copyfile(source, path)
        return f"{path.parent.name}/{path.name} has become a copy of {source.parent.name}/{source.name}", path
    return f"{path.parent.name}/{path.name}: {kind} at byte {at}", path


@fault
def rot(options, folder, rng):
    """Rows 8 and 9: bits, sectors, ends and whole files of a stopped log go bad: noticed, or nothing is lost; nothing is deleted."""
    problems = []
    for streams in (1, 3):
        whole = folder / f"whole-{streams}"
        server, ledger = Server(options.server, whole, settings(streams)), Ledger()
        for _ in range(3):
            server.start()
            ledger.begin(server)
            time.sleep(0.5)
            server.kill()
            ledger.end()
        # Every start says what was durable before it: nothing older than this may be lost silently.
        server.start()
        ledger.check(server)
        newest = Ledger("newest").begin(server)
        time.sleep(0.5)
        server.kill()
        newest.end()
        server.start()
        newest.check(server)
        content = [(name, True) for name in ledger.acknowledged] + [(name, False) for name in newest.acknowledged]
        server.kill()
        paths = list(hashes(whole))
        last = [max(path for path in paths if path.parent == parent) for parent in {path.parent for path in paths}]
        for trial in range(options.damages):
            copy = folder / "damaged"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(whole, copy)
            targets = [copy / path.relative_to(whole) for path in paths if path not in last]
            if trial % 10 == 9:
                # A whole stream, or its first or last files that hold something.
                parent = copy / f"stream-{rng.randrange(streams)}"
                mine = sorted(target for target in targets if target.parent == parent)
                # All of the only stream: that is a new server (row 11).
                newest = [*parent.glob("end-*"), max(path for path in parent.glob("*.log"))]
                gone = rng.choice((mine[:1], mine[:3], [*parent.iterdir()] if streams > 1 else mine[:2], newest))
                what = f"removed {', '.join(f'{path.parent.name}/{path.name}' for path in gone[:4])}"
                for path in gone:
                    path.unlink()
            else:
                what, _ = damage(rng, targets)
            before = hashes(copy)
            server = Server(options.server, copy, settings(streams))
            server.log = folder / "damaged.log"
            server.log.unlink(missing_ok=True)
            try:
                server.start()
                client = server.client()
                values = client.calls([("MGET", f"a:{name}", f"b:{name}") for name, _ in content])
                lost = sum(None in pair for pair in values)
                if lost:
                    problems.append(f"{streams} streams, {what}: it starts, and {lost} of {len(content)} acknowledged writes are lost")
            except Refused as refused:
                words = str(refused)
                if "panicked" in words or server.process.returncode not in (1, 2):
                    problems.append(f"{streams} streams, {what}: not a refusal: {server.process.returncode}\n{words}")
                elif not re.search(r"\w+\.log|end-\*|streams? |the log goes on|directories of the log", words):
                    problems.append(f"{streams} streams, {what}: names no file: {words}")
                if hashes(copy) != before:
                    problems.append(f"{streams} streams, {what}: refused, and has changed files")
            except Closed as closed:
                problems.append(f"{streams} streams, {what}: {closed}: {server.words()}")
            server.kill()
    return problems


@fault
def checkpoint(options, folder, rng):
    """Row 23: bits, ends and whole files of a stopped server's checkpoints go bad: noticed, or nothing is lost; nothing is deleted."""
    problems, refusals = [], 0
    whole = folder / "whole"
    server, ledger = Server(options.server, whole, settings(2)), Ledger()
    for _ in range(3):
        server.start()
        ledger.begin(server)
        time.sleep(0.4)
        ledger.end()
        server.client().call("SAVE")
        server.kill()
    names = list(ledger.acknowledged)

    def contents(of):
        return {path: path.read_bytes() for path in sorted((of / "holdfast/store").rglob("*")) if path.is_file() and path.name != "lock"}

    paths = [path for path, content in contents(whole).items() if content]
    for _ in range(options.damages):
        copy = folder / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        what, _ = damage(rng, [copy / path.relative_to(whole) for path in paths])
        before = contents(copy)
        server = Server(options.server, copy, settings(2))
        server.log = folder / "damaged.log"
        server.log.unlink(missing_ok=True)
        try:
            server.start()
            values = server.client().calls([("MGET", f"a:{name}", f"b:{name}") for name in names])
            lost = sum(not isinstance(pair, ErrorReply) and None in pair for pair in values)
            # A start reads little of a checkpoint. What cannot be read later is answered with an error.
            refusals += any(isinstance(pair, ErrorReply) for pair in values)
            if lost:
                problems.append(f"{what}: it starts, and {lost} of {len(names)} acknowledged writes are lost")
        except Refused as refused:
            refusals += 1
            if "panicked" in str(refused) or server.process.returncode not in (1, 2):
                problems.append(f"{what}: not a refusal: {server.process.returncode}\n{refused}")
            after = contents(copy)
            changed = [path.name for path in before if after.get(path) != before[path]]
            if changed:
                problems.append(f"{what}: refused, and has changed {changed}")
        except Closed as closed:
            problems.append(f"{what}: {closed}: {server.words()}")
        server.kill()
    if not refusals and not problems:
        problems.append("the injection is void: nothing was ever noticed")
    return problems


@fault
def tail(options, folder, rng):
    """Row 8: damage in what was written last: refused, or cut with a line that says so; blocks stay whole, what is older stays."""
    problems = []
    whole = folder / "whole"
    server, ledger = Server(options.server, whole, settings(1, "always", "1mb")), Ledger()
    server.start()
    ledger.begin(server)
    time.sleep(0.4)
    server.kill()
    ledger.end()
    server.start()
    ledger.check(server)
    newest = Ledger("newest").begin(server)
    time.sleep(0.4)
    server.kill()
    newest.end()
    segment = max(hashes(whole))
    for trial in range(options.damages // 2):
        copy = folder / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        target = copy / segment.relative_to(whole)
        size = used(target)
        at = max(512, size - rng.randrange(1, 2000)) if trial % 2 else rng.randrange(512, size)
        with open(target, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0] ^ 1 << rng.randrange(8)
            file.seek(at)
            file.write(bytes([byte]))
        server = Server(options.server, copy, settings(1, "always", "1mb"))
        server.log = folder / "damaged.log"
        server.log.unlink(missing_ok=True)
        what = f"a bit at {at} of {size} in the last segment"
        try:
            server.start()
            problems += shown(ledger.check(server), what)
            client = server.client()
            names = sorted(newest.acknowledged, key=newest.acknowledged.get)
            pairs = client.calls([("MGET", f"a:{name}", f"b:{name}") for name in names])
            if any((a is None) != (b is None) for a, b in pairs):
                problems.append(f"{what}: a block is torn")
            if any(None in pair for pair in pairs) and "cut at byte" not in server.words():
                problems.append(f"{what}: {sum(None in pair for pair in pairs)} writes are cut, and no line says so")
        except Refused as refused:
            if not re.search(r"\.log at byte \d+", str(refused)):
                problems.append(f"{what}: names no file and place: {refused}")
        server.kill()
    return problems


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


@fault
def files(options, folder, rng):
    """Rows 8 and 11: streams in another order, too few, too many, of another node, removed: refused, and nothing is changed."""
    problems = []
    for name in ("one", "two"):
        server, ledger = Server(options.server, folder / name, settings(3)), Ledger()
        server.start()
        ledger.begin(server)
        time.sleep(0.4)
        server.kill()
        ledger.end()
    kept = folder / "two"
    cases = {
        "two streams of three": ["stream-0", "stream-1"], "four of three": [f"stream-{i}" for i in range(4)],
        "another order": ["stream-1", "stream-0", "stream-2"], "the same twice": ["stream-0", "stream-0", "stream-2"],
        "one of another node": ["stream-0", "../one/stream-1", "stream-2"], "one that is empty": ["stream-0", "nothing", "stream-2"],
    }
    for what, dirs in cases.items():
        before = hashes(kept)
        server = Server(options.server, kept, ["--appendonly", "yes", "--log-dirs", *dirs])
        try:
            server.start()
            problems.append(f"{what}: it starts")
        except Refused as refused:
            if "panicked" in str(refused):
                problems.append(f"{what}: {refused}")
        server.kill()
        if hashes(kept) != before:
            problems.append(f"{what}: files were changed")
    server = Server(options.server, kept, settings(3))
    server.start()
    problems += ledger.check(server)
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
