"""Celery over the redis broker and result backend. Usage: celery_jobs.py HOST PORT SCENARIO; the last line is what it found.

The same file is the workers' application, which finds the server in QUEUES_SERVER.
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import redis
from celery import Celery, chain, chord, group

HOST, PORT = sys.argv[1:3] if __name__ == "__main__" else os.environ["QUEUES_SERVER"].split(":")
URL = f"redis://{HOST}:{PORT}/0"

app = Celery("celery_jobs", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    # What a killed worker had is given to others after this long.
    # kombu looks at every tenth of its intervals, of ten seconds each unless told otherwise.
    broker_transport_options={"visibility_timeout": 8, "unacked_restore_interval": 0.2, "socket_timeout": 20},
    broker_connection_retry_on_startup=True,
    result_expires=600,
    task_track_started=True,
)
ledger = redis.Redis(HOST, int(PORT), decode_responses=True)


def ran(number):
    """Beside Celery's own books: how often a job ran."""
    return ledger.hincrby("ran", number, 1)


@app.task
def work(number, seconds=0.0):
    ran(number)
    if seconds:
        time.sleep(seconds)
    return number * 2


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def shaky(self, number, fails):
    if ran(number) <= fails:
        raise self.retry(countdown=0.05, exc=ValueError(f"{number} fails"))
    return number


@app.task
def stamp(number):
    ran(number)
    return time.time()


@app.task
def deadly(number):
    if ran(number) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def eventually(what, holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def workers(count, concurrency=2):
    """Worker processes, each with children of its own; they are there when this returns."""
    command = [sys.executable, "-m", "celery", "-A", "celery_jobs", "worker", "--pool", "prefork", "--loglevel", "warning"]
    environment = {**os.environ, "QUEUES_SERVER": f"{HOST}:{PORT}", "PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    started = [
        subprocess.Popen([*command, "--concurrency", str(concurrency), "--hostname", f"w{number}@here"], env=environment)
        for number in range(count)
    ]
    eventually("workers answer", lambda: len(app.control.ping(timeout=1) or []) == count, 30)
    return started


def runs():
    return sorted(map(int, ledger.hgetall("ran").values()))


def load():
    count = 500
    workers(2)
    result = group(work.s(number) for number in range(count)).apply_async()
    found = result.get(timeout=40)
    equal(found, [number * 2 for number in range(count)])
    equal(runs(), [1] * count)
    equal((ledger.llen("celery"), ledger.hlen("unacked")), (0, 0))
    return count, {"results": digest(found)}


def canvas():
    """Chains, groups, chords of chords, chunks, links."""
    workers(2)
    found = {
        "chain": chain(add.s(1, 2), add.s(10), add.s(100)).apply_async().get(timeout=20),
        "group": group(add.s(n, n) for n in range(50)).apply_async().get(timeout=20),
        "chord": chord((add.s(n, n) for n in range(100)), total.s()).apply_async().get(timeout=20),
        "of chords": chord([chord([add.s(n, m) for n in range(5)], total.s()) for m in range(4)], total.s()).apply_async().get(timeout=20),
        "after": chain(add.s(1, 1), group(add.s(n) for n in range(5)), total.s()).apply_async().get(timeout=20),
        "chunks": add.chunks(zip(range(40), range(40)), 10).apply_async().get(timeout=20),
        "starmap": add.starmap([(1, 2), (3, 4)]).apply_async().get(timeout=20),
    }
    equal(found["chain"], 113)
    equal(found["chord"], 9900)
    equal(found["after"], 20)
    ids = [shaky.apply_async((number, 9), {}, link=None) for number in range(3)]
    for one in ids:
        try:
            one.get(timeout=20)
            raise AssertionError("it cannot succeed")
        except ValueError as error:
            assert "fails" in str(error)
    return 250, found


def countdown():
    """None before its time, none long after."""
    workers(2)
    due = {}
    for number in range(150):
        delay = 0.2 + number * 7919 % 2000 / 1000
        due[number] = time.time() + delay, stamp.apply_async((number,), countdown=delay)
    late = [result.get(timeout=20) - when for when, result in due.values()]
    assert min(late) > -0.05, f"one ran {-min(late):.3f} s early"
    assert max(late) < 5, f"one ran {max(late):.3f} s late"
    equal(runs(), [1] * 150)
    return 150, {}


def retries():
    workers(2)
    results = [shaky.delay(number, number % 4) for number in range(100)]
    equal([result.get(timeout=20) for result in results], list(range(100)))
    equal(runs(), sorted(1 + number % 4 for number in range(100)))
    states = sorted({result.state for result in results})
    return 100, {"states": states}


def control():
    """What goes over publish and subscribe: inspect, revoke, rate limits; priorities and routes over their own lists."""
    workers(2)
    equal(len(app.control.inspect(timeout=2).active()), 2)
    equal(len(app.control.rate_limit("celery_jobs.work", "1000/s", reply=True, timeout=2)), 2)
    late = work.apply_async((1,), countdown=3600)
    eventually("a worker has it", lambda: any(app.control.inspect(timeout=1).scheduled().values()))
    app.control.revoke(late.id, reply=True, timeout=2)
    equal(app.control.inspect(timeout=2).revoked().__len__(), 2)
    result = work.delay(7)
    equal(result.get(timeout=20), 14)
    result.forget()
    equal(ledger.exists(f"celery-task-meta-{result.id}"), 0)
    return 2, {}


def child_killed():
    """A child that dies takes one task with it, which runs again at once."""
    workers(2)
    results = [deadly.delay(number) for number in range(4)]
    others = [work.delay(100 + number) for number in range(100)]
    equal(sorted(result.get(timeout=25) for result in results), [0, 1, 2, 3])
    equal([result.get(timeout=25) for result in others], [2 * (100 + number) for number in range(100)])
    found = ledger.hgetall("ran")
    equal([found[str(number)] for number in range(4)], ["2"] * 4)
    return 104, {}


def killed():
    """A worker and its children are killed at work: what it had not finished runs again elsewhere, after the visibility timeout."""
    first, *_ = workers(3)
    slow = [work.delay(number, 1.0) for number in range(24)]
    eventually("all are at work", lambda: ledger.hlen("ran") >= 6)
    # While nobody fetches: a message between BRPOP and the list of what is unacknowledged is lost, with Redis as well.
    time.sleep(0.3)
    children = subprocess.run(["ps", "--ppid", str(first.pid), "-o", "pid="], text=True, stdout=subprocess.PIPE).stdout.split()
    for pid in [first.pid, *map(int, children)]:
        os.kill(pid, signal.SIGKILL)
    count = 400
    results = slow + [work.delay(number, 0.01) for number in range(24, count)]
    equal([result.get(timeout=45) for result in results], [number * 2 for number in range(count)])
    found = runs()
    equal(len(found), count)
    again = sum(1 for one in found if one > 1)
    # What was only fetched had not run yet.
    assert 1 <= again <= 4 and found[-1] == 2, f"{again} ran again, up to {found[-1]} times"
    eventually("nothing is left unacknowledged", lambda: ledger.hlen("unacked") == 0)
    return count, {}


if __name__ == "__main__":
    try:
        jobs, facts = globals()[sys.argv[3]]()
        print(json.dumps({"jobs": jobs, "facts": facts}), flush=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        # What Celery does at exit needs its workers, and hides what failed.
        os._exit(1)
