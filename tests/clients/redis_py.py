"""What redis-py's own helpers need of a server. Usage: redis_py.py PORT [cluster]; prints a line per failure, then totals."""
import sys
import threading
import time
import traceback

import redis
from redis.exceptions import ResponseError, WatchError

PORT = int(sys.argv[1])
# Whether it is a node of a cluster.
CLUSTER = sys.argv[2:] == ["cluster"]
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def client(**options):
    return redis.Redis(port=PORT, decode_responses=True, **options)


def raises(error, text, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except error as caught:
        assert text in str(caught), f"{text!r} is not in {str(caught)!r}"
    else:
        raise AssertionError(f"no {error.__name__}, but {got!r}")


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def eventually(holds, seconds=10):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


@test
def strings(r):
    assert r.set("a", 1, ex=100)
    assert r.set("a", 2, nx=True) is None
    equal(r.set("a", 3, get=True, keepttl=True), "1")
    equal((r.incr("a"), r.incrbyfloat("a", 0.5), r.getdel("a"), r.get("a")), (4, 4.5, "4.5", None))
    r.mset({"x": "ohmytext", "y": "mynewtext"})
    equal(r.lcs("x", "y"), "mytext")
    equal(r.getex("x", px=5000), "ohmytext")
    assert 0 < r.pttl("x") <= 5000
    r.set("bits", b"\xff\x00")
    equal((r.bitcount("bits"), r.bitpos("bits", 0)), (8, 8))
    equal(r.bitfield("bits").incrby("u8", 0, 1).get("u8", 8).execute(), [0, 0])


@test
def binary_is_kept(r):
    raw = redis.Redis(port=PORT)
    value = bytes(range(256)) * 100
    raw.set(b"\x00\r\nkey", value)
    equal(raw.get(b"\x00\r\nkey"), value)


@test
def lists(r):
    r.rpush("l", *range(5))
    equal(r.lrange("l", 0, -1), ["0", "1", "2", "3", "4"])
    equal((r.lpos("l", "3"), r.lmove("l", "m"), r.lmpop(1, "l", direction="RIGHT", count=2)), (3, "0", ["l", ["4", "3"]]))


@test
def hashes(r):
    equal(r.hset("h", mapping={"a": 1, "b": 2, "c": 3}), 3)
    equal(r.hgetall("h"), {"a": "1", "b": "2", "c": "3"})
    equal((r.hincrby("h", "a"), r.hincrbyfloat("h", "b", 0.5), r.hmget("h", "a", "none")), (2, 2.5, ["2", None]))
    equal(dict(r.hscan_iter("h")), {"a": "2", "b": "2.5", "c": "3"})
    equal(set(r.hscan_iter("h", no_values=True)), {"a", "b", "c"})


@test
def fields_expire(r):
    r.hset("h", mapping={"a": 1, "b": 2})
    equal(r.hexpire("h", 100, "a", "none"), [1, -2])
    equal(r.httl("h", "a", "b", "none"), [100, -1, -2])
    equal(r.hpersist("h", "a"), [1])
    equal(r.hpexpireat("h", int(time.time() * 1000) + 50_000, "b", nx=True), [1])
    equal(len(r.hpexpiretime("h", "b")), 1)
    equal(r.hsetex("h", mapping={"c": 3}, ex=20), 1)
    equal(r.hgetex("h", "c", persist=True), ["3"])
    equal(r.hgetdel("h", "c"), ["3"])
    equal(r.hpexpire("h", 1, "a", "b"), [1, 1])
    time.sleep(0.01)
    equal(r.hmget("h", "a", "b"), [None, None])
    # They are counted until they are swept, as in Redis.
    eventually(lambda: r.exists("h") == 0)


@test
def sets_and_sorted_sets(r):
    r.sadd("s", 1, 2, 3)
    r.sadd("t", 2, 3, 4)
    equal((r.sinter("s", "t"), r.sintercard(2, ["s", "t"]), r.smismember("s", [1, 9])), ({"2", "3"}, 2, [1, 0]))
    equal(r.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}), 3)
    equal((r.zscore("z", "c"), r.zincrby("z", 1, "a"), r.zmscore("z", ["b", "none"])), (float("inf"), 2.0, [2.5, None]))
    equal(r.zrange("z", 0, -1, desc=True), ["c", "b", "a"])
    equal([tuple(pair) for pair in r.zrange("z", 0, 1, withscores=True)], [("a", 2.0), ("b", 2.5)])
    equal((r.zrank("z", "b"), r.zcount("z", "(2", "+inf"), r.zadd("z", {"a": 1}, gt=True, ch=True)), (1, 2, 0))
    equal(sorted(member for member, _ in r.zscan_iter("z")), ["a", "b", "c"])
    equal(r.zmpop(1, ["z"], min=True)[0], "z")


@test
def expiry_and_keys(r):
    r.set("a", 1)
    assert r.expire("a", 100) and not r.expire("a", 50, gt=True)
    equal((r.ttl("a"), r.persist("a"), r.ttl("a"), r.ttl("none")), (100, True, -1, -2))
    assert r.copy("a", "b") and r.rename("b", "c")
    equal((r.type("c"), r.object("encoding", "c"), r.unlink("a", "c")), ("string", "int", 2))
    for number in range(1000):
        r.set(f"key:{number}", number)
    equal(len(set(r.scan_iter(match="key:*", count=50))), 1000)
    equal(len(set(r.scan_iter(_type="list"))), 0)
    r.rpush("l", 3, 1, 2)
    patterns = {"desc": True, "by": "none:*", "get": ["key:*"]}
    if CLUSTER:
        raises(ResponseError, "denied in a cluster of several nodes", r.sort, "l", **patterns)
    else:
        equal(r.sort("l", **patterns)[0], "3")
    raw = redis.Redis(port=PORT)
    raw.restore("again", 0, raw.dump("l"))
    equal(r.lrange("again", 0, -1), ["3", "1", "2"])


@test
def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.incr("n")
        equal(pipe.execute(), list(range(1, 1001)))
        pipe.set("text", "x").incr("text").get("text")
        results = pipe.execute(raise_on_error=False)
        assert isinstance(results[1], ResponseError) and results[2] == "x", results


@test
def transactions(r):
    with r.pipeline() as pipe:
        equal(pipe.set("a", 1).incr("a").execute(), [True, 2])
        raises(ResponseError, "WRONGTYPE", pipe.set("s", "x").lpush("s", 1).execute)
        raises(ResponseError, "wrong number of arguments", pipe.execute_command("GET").get("a").execute)
    with r.pipeline() as pipe:
        pipe.watch("a")
        equal(pipe.get("a"), "2")
        r.set("a", 5)
        pipe.multi()
        pipe.set("a", 6)
        raises(WatchError, "", pipe.execute)
    equal(r.get("a"), "5")


@test
def the_transaction_helper_retries(r):
    r.set("counter", 0)

    def add_one(pipe):
        value = int(pipe.get("counter"))
        pipe.multi()
        pipe.set("counter", value + 1)

    def work():
        mine = client()
        for _ in range(20):
            mine.transaction(add_one, "counter")

    in_threads(5, work)
    equal(r.get("counter"), "100")


def in_threads(count, work):
    errors = []

    def guarded():
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
    assert not errors, errors[0]


@test
def a_pool_of_fifty_threads(r):
    pool = redis.Redis(connection_pool=redis.BlockingConnectionPool(port=PORT, max_connections=20, timeout=20))
    in_threads(50, lambda: [pool.incr("shared") for _ in range(40)])
    equal(r.get("shared"), "2000")
    pool.connection_pool.disconnect()


@test
def blocking_pops(r):
    equal(r.blpop("none", timeout=0.05), None)
    taken = []
    waiter = threading.Thread(target=lambda: taken.extend(client().blpop(["first", "second"], timeout=10)))
    waiter.start()
    time.sleep(0.1)
    r.rpush("second", "value")
    waiter.join(10)
    equal(taken, ["second", "value"])
    r.zadd("z", {"a": 1})
    equal(tuple(r.bzpopmin("z", timeout=1)), ("z", "a", 1.0))
    equal(r.bzmpop(0.05, 1, ["z"], min=True), None)
    r.rpush("from", "x")
    equal(r.blmove("from", "to", timeout=1), "x")


@test
def scripts(r):
    add = r.register_script("return {redis.call('incrby', KEYS[1], ARGV[1]), {ok='fine'}}")
    equal(add(keys=["n"], args=[5]), [5, "fine"])
    r.script_flush()
    equal(add(keys=["n"], args=[5]), [10, "fine"])
    with r.pipeline() as pipe:
        add(keys=["n"], args=[1], client=pipe)
        pipe.get("n")
        equal(pipe.execute(), [[11, "fine"], "11"])
    equal(r.transaction(lambda pipe: (pipe.multi(), add(keys=["n"], args=[1], client=pipe)), "n"), [[12, "fine"]])
    r.function_load("#!lua name=lib\nredis.register_function('hi', function(keys, args) return 'hi ' .. args[1] end)")
    equal(r.fcall("hi", 0, "bob"), "hi bob")
    r.function_flush()


@test
def streams(r):
    first = r.xadd("s", {"a": 1})
    r.xgroup_create("s", "g", "0")
    assert r.xreadgroup("g", "me", {"s": ">"})
    equal(r.xpending("s", "g")["pending"], 1)
    equal(r.xautoclaim("s", "g", "you", 0)[1], [(first, {"a": "1"})])
    equal((r.xack("s", "g", first), r.xlen("s")), (1, 1))


@test
def messages(r):
    with r.pubsub(ignore_subscribe_messages=True) as subscriber:
        subscriber.subscribe("news")
        subscriber.psubscribe("n*")
        while r.pubsub_numpat() == 0:
            subscriber.get_message(timeout=0.01)
        equal(r.publish("news", "text"), 2)
        seen = []
        while len(seen) < 2:
            message = subscriber.get_message(timeout=1)
            if message:
                seen.append((message["type"], message["channel"], message["data"]))
        equal(seen, [("message", "news", "text"), ("pmessage", "news", "text")])


@test
def errors(r):
    raises(ResponseError, "unknown command", r.execute_command, "NONSENSE")
    raises(ResponseError, "out of range", client(db=99).ping)


@test
def sessions(r):
    named = client(client_name="tester", db=3)
    equal((named.client_getname(), str(named.client_info()["db"])), ("tester", "3"))
    assert any(one["name"] == "tester" and one["lib-name"].startswith("redis-py") for one in r.client_list())
    identity = named.client_id()
    equal(r.client_kill_filter(_id=identity), 1)
    assert named.ping(), "the client connects again"
    assert named.client_id() != identity


@test
def introspection(r):
    info = r.info()
    assert info["redis_version"] and info["used_memory"] > 0 and "db0" not in info
    equal(r.config_get("maxmemory-*")["maxmemory-policy"], "noeviction")
    assert r.config_set("slowlog-max-len", 64)
    equal(r.config_get("slowlog-max-len"), {"slowlog-max-len": "64"})
    assert r.slowlog_get(5) is not None
    assert r.command_count() > 150 and "get" in r.command()
    assert abs(r.time()[0] - time.time()) < 60
    r.set("a", "x" * 1000)
    assert r.memory_usage("a") >= 1000
    # Of a cluster, those of the node.
    assert r.memory_stats()["keys.count"] <= 1 if CLUSTER else r.memory_stats()["keys.count"] == 1
    equal((r.dbsize(), r.role()[0], r.wait(0, 10)), (1, "master", 0))
    seen = []
    with r.monitor() as monitor:
        client().get("a")
        while not any("GET a" in line for line in seen):
            seen.append(monitor.next_command()["command"])


def main():
    passed = failed = 0
    for protocol in (2, 3):
        for function in TESTS:
            r = client(protocol=protocol)
            r.flushall()
            try:
                function(r)
                passed += 1
            except Exception:
                failed += 1
                print(f"redis-py, RESP{protocol}: {function.__name__}\n{traceback.format_exc()}")
            r.close()
    print(f"redis-py {redis.__version__}: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
