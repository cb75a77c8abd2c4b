"""RQ. Usage: rq_jobs.py HOST PORT SCENARIO; the last line is what it found. Workers import the jobs from this file."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import redis
from rq import Queue, Repeat, Retry
from rq.command import send_stop_job_command
from rq.group import Group
from rq.job import Job
from rq.rate_limit import RateLimit
from rq.registry import StartedJobRegistry
from rq.worker import Worker

HOST, PORT = sys.argv[1:3] if __name__ == "__main__" else os.environ["QUEUES_SERVER"].split(":")
connection = redis.Redis(HOST, int(PORT))
HERE = "rq_jobs."


def ran(number):
    """Beside RQ's own books: how often a job ran, and in which order."""
    with connection.pipeline() as pipe:
        return pipe.hincrby("ran", number, 1).rpush("order", number).execute()[0]


def work(number, seconds=0.0):
    ran(number)
    if seconds:
        time.sleep(seconds)
    return number * 2


def shaky(number, fails):
    if ran(number) <= fails:
        raise ValueError(f"{number} fails")
    return number


def gauge(number):
    connection.zadd("peak", {"peak": connection.incr("running")}, gt=True)
    time.sleep(0.02)
    connection.decr("running")
    return work(number)


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def eventually(what, holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def workers(count, *options):
    """Worker processes; SimpleWorkers run their jobs themselves, others in a child for each."""
    rq = str(Path(sys.executable).parent / "rq")
    environment = {**os.environ, "QUEUES_SERVER": f"{HOST}:{PORT}", "PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [rq, "worker", "--url", f"redis://{HOST}:{PORT}", "--quiet", *options]
    started = [subprocess.Popen([*command, "--name", f"w{number}", "high", "default", "low"], env=environment) for number in range(count)]
    eventually("workers are registered", lambda: Worker.count(connection) == count)
    return started


SIMPLE = ["--worker-class", "rq.worker.SimpleWorker"]


def runs():
    return sorted(map(int, connection.hgetall("ran").values()))


def finished(queue, count, failed=0, seconds=30):
    def counts():
        return queue.finished_job_registry.count, queue.failed_job_registry.count, queue.count, queue.started_job_registry.count

    try:
        eventually("", lambda: counts() == (count, failed, 0, 0), seconds)
    except AssertionError:
        raise AssertionError(f"finished, failed, queued, started: {counts()}, not {(count, failed, 0, 0)}") from None


def results(jobs):
    return [job.return_value(refresh=True) for job in jobs]


def load():
    """Added one by one and in bulk, taken in the order of their queues."""
    queue, count = Queue("default", connection=connection), 300
    started = workers(3, *SIMPLE)
    jobs = [queue.enqueue(HERE + "work", number) for number in range(count // 2)]
    jobs += queue.enqueue_many([Queue.prepare_data(HERE + "work", (number,)) for number in range(count // 2, count)])
    finished(queue, count)
    equal(results(jobs), [number * 2 for number in range(count)])
    equal(runs(), [1] * count)
    for one in started:
        one.send_signal(signal.SIGTERM)
    eventually("workers have said goodbye", lambda: Worker.count(connection) == 0)

    connection.delete("order")
    for number in range(30):
        name = ("low", "default", "high")[number % 3]
        Queue(name, connection=connection).enqueue(HERE + "work", number, at_front=number >= 27)
    workers(1, *SIMPLE, "--burst")
    eventually("30 more", lambda: connection.llen("order") == 30)
    order = [int(number) for number in connection.lrange("order", 0, -1)]
    equal(order, [n for first in (2, 1, 0) for n in [27 + first, *range(first, 27, 3)]])
    return count + 30, {"order": order}


def graph():
    """Jobs that wait for others, and groups. With two workers RQ loses jobs whose last two dependencies end at once."""
    queue = Queue("default", connection=connection)
    workers(1, *SIMPLE)
    firsts = [queue.enqueue(HERE + "work", number) for number in range(50)]
    lasts = [queue.enqueue(HERE + "work", 1000 + number, depends_on=[first, firsts[0]]) for number, first in enumerate(firsts)]
    all_of_them = queue.enqueue(HERE + "work", 9999, depends_on=lasts)
    bad = queue.enqueue(HERE + "shaky", 10000, 9)
    never = queue.enqueue(HERE + "work", 10001, depends_on=bad)
    group = Group.create(connection=connection)
    group.enqueue_many(queue, [Queue.prepare_data(HERE + "work", (20000 + number,)) for number in range(50)])
    finished(queue, 151, 1)
    order = [int(number) for number in connection.lrange("order", 0, -1)]
    at = {number: place for place, number in enumerate(order)}
    assert all(at[1000 + number] > at[number] for number in range(50)) and at[9999] > max(at[1000 + n] for n in range(50))
    equal((never.get_status(), queue.deferred_job_registry.count, all_of_them.return_value()), ("deferred", 1, 19998))
    equal(len(group.get_jobs()), 50)
    return 153, {}


def scheduled():
    """enqueue_in, enqueue_at and repeats, by the worker that got to be the scheduler."""
    queue = Queue("default", connection=connection)
    workers(2, *SIMPLE, "--with-scheduler")
    began = time.time()
    jobs = [queue.enqueue_in(timedelta(seconds=1 + number % 2), HERE + "work", number) for number in range(50)]
    jobs += [queue.enqueue_at(datetime.now(timezone.utc) + timedelta(seconds=1), HERE + "work", 100 + number) for number in range(50)]
    queue.enqueue(HERE + "work", 1000, repeat=Repeat(times=2, interval=1))
    eventually("all ran", lambda: sum(runs()) == 103)
    equal(runs(), [1] * 100 + [3])
    for job in jobs:
        job.refresh()
    early = [job.id for job in jobs if job.started_at.timestamp() < began + 0.9]
    equal(early, [])
    equal(queue.scheduled_job_registry.count, 0)
    return 103, {}


def retries():
    queue = Queue("default", connection=connection)
    workers(2, *SIMPLE)
    jobs = [queue.enqueue(HERE + "shaky", number, number % 4, retry=Retry(max=2)) for number in range(100)]
    finished(queue, 75, 25)
    for job_id in queue.failed_job_registry.get_job_ids():
        queue.failed_job_registry.requeue(job_id)
    finished(queue, 100)
    equal(runs(), sorted(1 + number % 4 for number in range(100)))
    return 100, {"results": digest(results(jobs))}


def limits():
    """At most so many of a key at once; scripts of RQ's that use the keys of the jobs they pop."""
    queue = Queue("default", connection=connection)
    workers(4, *SIMPLE)
    jobs = [queue.enqueue(HERE + "gauge", number, rate_limit=RateLimit(key="narrow", concurrency=2)) for number in range(100)]
    finished(queue, 100)
    equal(runs(), [1] * 100)
    peak = int(connection.zscore("peak", "peak"))
    assert peak <= 2, f"{peak} at once"
    return 100, {"results": digest(results(jobs))}


def control():
    """A job at work is stopped over publish and subscribe."""
    queue = Queue("default", connection=connection)
    workers(1)
    job = queue.enqueue(HERE + "work", 1, 60)
    eventually("it has begun", lambda: connection.hlen("ran") == 1)
    send_stop_job_command(connection, job.id)
    eventually("it is stopped", lambda: job.get_status() == "stopped")
    after = queue.enqueue(HERE + "work", 2)
    eventually("the next one is done", lambda: after.get_status() == "finished")
    return 2, {}


def killed():
    """Two of four workers are killed at work with their children; their jobs are found abandoned and run again."""
    queue, count = Queue("default", connection=connection), 300
    started = workers(4, *SIMPLE)

    def add(numbers):
        return [queue.enqueue(HERE + "work", n, 1 if n < 8 else 0.01, retry=Retry(max=1)) for n in numbers]

    # The long ones alone: to add all may take longer than the first of them.
    jobs = add(range(8))
    # While nobody fetches: a job between two queues is found only after a minute.
    eventually("all are at work", lambda: connection.hlen("ran") == 4)
    time.sleep(0.2)
    for one in started[:2]:
        os.kill(one.pid, signal.SIGKILL)
    jobs += add(range(8, count))
    eventually("the others do the rest", lambda: queue.count == 0, 40)
    registry = StartedJobRegistry("default", connection=connection)
    eventually("only the dead ones' are left", lambda: connection.zcard(registry.key) == 2)
    # RQ gives a job's worker a minute and more to say that it lives: the sweep is told that this has passed.
    registry.cleanup(timestamp=time.time() + 3600)
    finished(queue, count)
    found = runs()
    equal(len(found), count)
    again = sum(1 for one in found if one > 1)
    equal((again, found[-1]), (2, 2))
    equal(results(jobs), [number * 2 for number in range(count)])

    # Without a retry left it fails, as abandoned.
    workers_left = started[2:]
    doomed = queue.enqueue(HERE + "work", 5000, 60)
    eventually("it has begun", lambda: connection.hexists("ran", 5000))
    for one in workers_left:
        os.kill(one.pid, signal.SIGKILL)
    registry.cleanup(timestamp=time.time() + 3600)
    equal(Job.fetch(doomed.id, connection=connection).get_status(), "failed")
    equal(queue.failed_job_registry.get_job_ids(), [doomed.id])
    return count + 1, {}


if __name__ == "__main__":
    jobs, facts = globals()[sys.argv[3]]()
    print(json.dumps({"jobs": jobs, "facts": facts}))
