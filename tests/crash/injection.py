"""What the faults have in common: how they are known, and what they need."""
import contextlib
import os
import shutil
import subprocess
import time

# By name.
ALL = {}


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
