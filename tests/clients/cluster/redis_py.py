"""What redis-py's RedisCluster needs of a cluster. Usage: redis_py.py PORT, of any node; prints a line per failure, then totals."""
import sys
import threading
import time
import traceback

import redis
from redis.cluster import RedisCluster
from redis.crc import key_slot

PORT = int(sys.argv[1])
KEYS = [f"key:{number}" for number in range(200)]
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def fill(r):
    with r.pipeline() as pipe:
        for key in KEYS:
            pipe.set(key, key)
        equal(pipe.execute(), [True] * len(KEYS))


def owners(r):
    """The nodes in the order of their ports."""
    nodes = sorted(r.get_primaries(), key=lambda node: node.port)
    equal(len(nodes), 3)
    return nodes


@test
def keys_of_all_nodes(r):
    nodes = {r.get_node_from_key(key).name for key in KEYS}
    equal(len(nodes), 3)
    for key in KEYS:
        assert r.set(key, key, ex=100)
    for key in KEYS:
        equal(r.get(key), key)
    equal(r.mget_nonatomic(KEYS), KEYS)
    r.mset_nonatomic({key: "new" for key in KEYS})
    equal(set(r.mget_nonatomic(KEYS)), {"new"})
    equal(r.delete(*KEYS), len(KEYS))


@test
def one_command_with_keys_of_all_nodes(r):
    node = owners(r)[1]
    words = [word for key in KEYS for word in (key, key)]
    assert r.execute_command("MSET", *words, target_nodes=node)
    equal(r.execute_command("MGET", *KEYS, target_nodes=node), KEYS)
    r.sadd("one", 1, 2)
    r.sadd("two", 2, 3)
    equal(r.execute_command("SUNIONSTORE", "three", "one", "two", target_nodes=node), 3)
    equal(r.smembers("three"), {"1", "2", "3"})


@test
def pipelines(r):
    fill(r)
    with r.pipeline() as pipe:
        for key in KEYS:
            pipe.append(key, "!").strlen(key)
        equal(pipe.execute(), [len(key) + 1 for key in KEYS for _ in range(2)])
        pipe.lpush("key:1", 1).get("key:2")
        replies = pipe.execute(raise_on_error=False)
    assert "WRONGTYPE" in str(replies[0]), replies
    equal(replies[1], "key:2!")


@test
def transactions(r):
    with r.pipeline(transaction=True) as pipe:
        pipe.set("{user}:name", "Ann").incr("{user}:visits").get("{user}:name")
        equal(pipe.execute()[1:], [1, "Ann"])
    with r.pipeline(transaction=True) as pipe:
        pipe.watch("{user}:visits")
        r.incr("{user}:visits")
        pipe.multi()
        pipe.incr("{user}:visits")
        try:
            pipe.execute()
            raise AssertionError("the watched key had changed")
        except redis.WatchError:
            pass
    equal(r.get("{user}:visits"), "2")


@test
def scripts(r):
    add = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    for key in KEYS[:30]:
        equal(add(keys=[key], args=[2]), 2)
    equal(r.eval("return redis.call('mget', KEYS[1], KEYS[2])", 2, "{a}1", "{a}2"), [None, None])


@test
def functions(r):
    """Such a client loads a library at every node."""
    fill(r)
    r.function_load("#!lua name=mine\nredis.register_function('mine', function(keys) return redis.call('strlen', keys[1]) end)")
    equal([r.fcall("mine", 1, key) for key in KEYS], [len(key) for key in KEYS])
    r.function_delete("mine")


@test
def messages(r):
    listener = r.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*s")
    for _ in range(2):
        assert listener.get_message(timeout=5)["type"].endswith("subscribe")
    for node in owners(r):
        assert r.execute_command("PUBLISH", "news", node.name, target_nodes=node) >= 1
    seen = [listener.get_message(timeout=5) for _ in range(6)]
    equal(sorted({message["data"] for message in seen}), sorted(node.name for node in owners(r)))
    sharded = r.pubsub()
    sharded.ssubscribe("shard")
    assert sharded.get_sharded_message(timeout=5)["type"] == "ssubscribe"
    equal(r.spublish("shard", "text"), 1)
    end, message = time.monotonic() + 5, None
    while message is None and time.monotonic() < end:
        message = sharded.get_sharded_message(timeout=0.1)
    equal((message["type"], message["data"]), ("smessage", "text"))
    listener.close()
    sharded.close()


@test
def blocking_pops(r):
    equal(r.blpop("none", timeout=0.1), None)
    popped = []
    waiter = threading.Thread(target=lambda: popped.append(r.blpop("list", timeout=20)))
    waiter.start()
    end = time.monotonic() + 10
    while not any(redis.Redis(port=node.port).info("clients")["blocked_clients"] for node in owners(r)):
        assert time.monotonic() < end, "nobody is blocked"
    r.rpush("list", 1)
    waiter.join()
    equal(tuple(popped[0]), ("list", "1"))
    equal(r.blmove("{l}a", "{l}b", 0.1), None)


@test
def the_map(r):
    nodes = owners(r)
    for node in nodes:
        info = r.cluster_info(target_nodes=node)
        equal((info["cluster_state"], info["cluster_slots_ok"], info["cluster_size"]), ("ok", "16384", "3"))
        equal(len(r.cluster_shards(target_nodes=node)), 3)
        assert len(r.cluster_myid(node)) == 40
    equal(len(r.cluster_nodes()), 3)
    ranges = r.cluster_slots(target_nodes=nodes[0])
    equal(sum(end - start + 1 for start, end in ranges), 16384)
    fill(r)
    for key in KEYS[:20]:
        slot = r.cluster_keyslot(key)
        equal(slot, key_slot(key.encode()))
        assert r.cluster_countkeysinslot(slot) >= 1
        assert key in r.cluster_get_keys_in_slot(slot, 100)


@test
def redirections(r):
    """At the port for smart clients each node has its own keys."""
    fill(r)
    equal(sum(redis.Redis(port=node.port).dbsize() for node in owners(r)), len(KEYS))
    equal(sorted(r.scan_iter(count=7)), sorted(KEYS))
    equal(sorted(r.keys("key:*", target_nodes=RedisCluster.PRIMARIES)), sorted(KEYS))
    for key in KEYS[:30]:
        other = next(node for node in owners(r) if node != r.get_node_from_key(key))
        try:
            redis.Redis(port=other.port).get(key)
            raise AssertionError("no MOVED")
        except redis.exceptions.MovedError as moved:
            equal((moved.slot_id, moved.node_addr[1]), (key_slot(key.encode()), r.get_node_from_key(key).port))
    # A client whose map is wrong is told.
    first = owners(r)[0]
    for slot in range(16384):
        r.nodes_manager.slots_cache[slot] = [first]
    equal([r.get(key) for key in KEYS], KEYS)


def main():
    passed = failed = 0
    for protocol in (2, 3):
        for function in TESTS:
            r = RedisCluster(host="127.0.0.1", port=PORT, decode_responses=True, protocol=protocol)
            try:
                r.flushall(target_nodes=RedisCluster.ALL_NODES)
                function(r)
                passed += 1
            except Exception:
                failed += 1
                print(f"RedisCluster of redis-py, RESP{protocol}: {function.__name__}\n{traceback.format_exc()}")
            r.close()
    print(f"RedisCluster of redis-py {redis.__version__}: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
