"""The history checkers of others: `adya` (list-append transactions) and `porcupine` (registers), installed at pinned versions
with cargo and go into target/histories, where they stay."""
import json
import shutil
import subprocess
from pathlib import Path

from wire import REPOSITORY

ADYA = "0.1.0"
HERE = Path(__file__).resolve().parent
TOOLS = REPOSITORY / "target" / "histories"
SECONDS = 300


class Missing(Exception):
    """A checker cannot be had here."""


def _programs():
    return TOOLS / "bin" / "adya", TOOLS / "porcupine"


def are_installed():
    return all(program.exists() for program in _programs())


def install():
    """Their programs; raises `Missing`."""
    adya, porcupine = _programs()
    TOOLS.mkdir(parents=True, exist_ok=True)
    sources = HERE / "porcupine"
    if not adya.exists():
        _install("cargo", "install", f"adya@{ADYA}", "--locked", "--no-default-features", "--root", TOOLS)
    if not porcupine.exists() or porcupine.stat().st_mtime < max(path.stat().st_mtime for path in sources.iterdir()):
        _install("go", "build", "-o", porcupine, ".", folder=sources)
    return {"adya": adya, "porcupine": porcupine}


def _install(*command, folder=HERE):
    if not shutil.which(command[0]):
        raise Missing(f"needs {command[0]}")
    done = subprocess.run([str(word) for word in command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")


def write_transactions(ops, path):
    """In adya's format, which is Jepsen's: what began and ended, in the order of time. Whoever got no answer is never heard of again."""
    lines, processes, free = [], 0, {}
    for op in sorted(ops, key=lambda op: op["began"]):
        # Any client that has nothing under way may be thought to have done it.
        process = next((process for process, until in free.items() if until < op["began"]), None)
        if process is None:
            processes += 1
            process = processes
        asked = [[what, key, value if what == "append" else None] for what, key, value in op["value"]]
        lines.append((op["began"], 0, {"type": "invoke", "process": process, "time": op["began"], "value": asked}))
        if op["type"] == "info":
            free.pop(process, None)
            ended = op.get("gave_up") or op["began"]
        else:
            ended = free[process] = op["ended"]
        rest = {name: op[name] for name in ("node", "way", "error", "lengths", "is_final") if op.get(name) is not None}
        value = op["value"] if op["type"] == "ok" else asked
        lines.append((ended, 1, {"type": op["type"], "process": process, "time": ended, "value": value, **rest}))
    lines.sort(key=lambda line: line[:2])
    with open(path, "w") as file:
        for index, (_, _, line) in enumerate(lines):
            file.write(json.dumps({"index": index, **line}) + "\n")


def read_transactions(path):
    ops, under_way = [], {}
    for line in map(json.loads, Path(path).read_text().splitlines()):
        if line["type"] == "invoke":
            under_way[line["process"]] = line["time"]
        else:
            began = under_way.pop(line["process"])
            ops.append({**line, "began": began, "ended": None if line["type"] == "info" else line["time"], "gave_up": line["time"]})
    return ops


def write_registers(ops, path):
    with open(path, "w") as file:
        for op in sorted(ops, key=lambda op: op["began"]):
            file.write(json.dumps(op) + "\n")


def read_registers(path):
    return list(map(json.loads, Path(path).read_text().splitlines()))


def adya(program, path):
    """Problems."""
    done = subprocess.run([program, "check", "-m", "list-append", "-c", "strict-serializable", "--cycle-search-timeout", "20000", path],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    return [] if done.returncode == 0 else [f"adya (exit status {done.returncode}):\n{done.stdout[:4000]}"]


def porcupine(program, path):
    done = subprocess.run([program, path], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    return [] if done.returncode == 0 else [f"porcupine (exit status {done.returncode}):\n{done.stdout[:4000]}"]
