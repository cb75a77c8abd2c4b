"""Faults of what lies on the disk: logs and checkpoints go bad, or are not those that they should be, while the server is stopped."""
import hashlib
import re
import shutil
import time

from injection import fault, settings, shown
from ledger import Ledger
from wire import Closed, ErrorReply, Refused, Server


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
                # All of the only stream: that is a new server.
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
