"""redis-py with certificates and users of few rights. Usage: redis_py.py PORT [cluster] [tls=FOLDER] [acl]; prints a line
per failure, then totals."""
import sys
import time
import traceback

import redis
from redis.cluster import RedisCluster
from redis.exceptions import AuthenticationError, ConnectionError, NoPermissionError, RedisClusterException, RedisError, ResponseError

PORT, WORDS = int(sys.argv[1]), sys.argv[2:]
CLUSTER, ACL = "cluster" in WORDS, "acl" in WORDS
CERTIFICATES = next((word[4:] for word in WORDS if word.startswith("tls=")), None)
KEYS = [f"app:{number}" for number in range(100)]
TESTS = []


def test(needs):
    def note(function):
        if needs:
            TESTS.append(function)
        return function

    return note


def tls(name, authority="ca"):
    if not CERTIFICATES:
        return {}
    shown = {"ssl_certfile": f"{CERTIFICATES}/{name}.crt", "ssl_keyfile": f"{CERTIFICATES}/{name}.key"} if name else {}
    return {"ssl": True, "ssl_ca_certs": f"{CERTIFICATES}/{authority}.crt", **shown}


def client(name="app", protocol=3, authority="ca", **login):
    if not login and ACL and not CERTIFICATES:
        login = {"username": "app", "password": "secret"}
    kind = RedisCluster if CLUSTER else redis.Redis
    return kind(host="127.0.0.1", port=PORT, protocol=protocol, decode_responses=True, **tls(name, authority), **login)


def reader(protocol=3, password="glasses"):
    """Another user, whose name is in no certificate."""
    return client("guest", protocol, username="reader", password=password)


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


def raises(errors, text, call, *args, **kwargs):
    try:
        got = call(*args, **kwargs)
    except errors as caught:
        assert text in str(caught), f"{text!r} is not in {str(caught)!r}"
    else:
        raise AssertionError(f"no error, but {got!r}")


def whoami(r):
    return r.execute_command("ACL WHOAMI", **({"target_nodes": RedisCluster.RANDOM} if CLUSTER else {}))


@test(ACL)
def a_user_is_known(protocol):
    equal(whoami(client(protocol=protocol)), "app")
    raises(NoPermissionError, "acl|whoami", whoami, reader(protocol))


@test(True)
def commands_and_pipelines(protocol):
    r = client(protocol=protocol)
    for key in KEYS:
        assert r.set(key, key)
    with r.pipeline(transaction=False) as pipe:
        for key in KEYS:
            pipe.append(key, "!").strlen(key)
        equal(pipe.execute(), [len(key) + 1 for key in KEYS for _ in range(2)])
    with r.pipeline(transaction=True) as pipe:
        equal(pipe.set("app:{t}", 1).incr("app:{t}").execute()[-1], 2)
    large = "x" * (4 << 20)
    assert r.set("app:large", large)
    equal(r.get("app:large"), large)
    equal(r.blpop("app:none", timeout=0.1), None)


@test(True)
def messages(protocol):
    r = client(protocol=protocol)
    listener = r.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("app:news")
    end, message = time.monotonic() + 10, None
    while message is None and time.monotonic() < end:
        r.publish("app:news", "text")
        message = listener.get_message(timeout=0.1)
    equal((message["channel"], message["data"]), ("app:news", "text"))
    listener.close()


@test(ACL)
def what_the_user_may_not(protocol):
    r = client(protocol=protocol)
    raises(NoPermissionError, "No permissions to access a key", r.set, "other", 1)
    raises(NoPermissionError, "'config|get' command", r.config_get, "port")
    raises(NoPermissionError, "'eval' command", r.eval, "return 1", 1, "app:1")
    raises(NoPermissionError, "channel", r.publish, "other", "text")
    with r.pipeline(transaction=True) as pipe:
        pipe.set("app:{b}", 1).set("{b}other", 1)
        raises(RedisError, "No permissions to access a key" if not CLUSTER else "", pipe.execute)
    equal(r.get("app:{b}"), None)


@test(ACL)
def one_that_only_reads(protocol):
    client(protocol=protocol).set("app:{r}", "text")
    r = reader(protocol)
    equal(r.get("app:{r}"), "text")
    raises(NoPermissionError, "'set' command", r.set, "app:{r}", 1)
    raises(NoPermissionError, "access a key", r.get, "other")
    raises((AuthenticationError, RedisClusterException), "invalid username-password" if not CLUSTER else "", lambda: reader(protocol, "wrong").get("app:{r}"))


@test(CERTIFICATES)
def who_is_let_in(protocol):
    for name, authority in [(None, "ca"), ("stranger", "ca"), ("app", "other")]:
        raises((ConnectionError, RedisClusterException), "", lambda: client(name, protocol, authority).get("app:1"))
    assert client("guest", protocol, **({"username": "reader", "password": "glasses"} if ACL else {})).get("app:1")


def main():
    passed = failed = 0
    for protocol in (2, 3):
        for function in TESTS:
            try:
                function(protocol)
                passed += 1
            except Exception:
                failed += 1
                print(f"redis-py, RESP{protocol}, {' '.join(WORDS)}: {function.__name__}\n{traceback.format_exc()}")
    print(f"redis-py {redis.__version__}: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
