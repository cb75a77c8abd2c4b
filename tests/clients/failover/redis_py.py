"""Writes without end by redis-py. Usage and output: ride.py beside it."""
import os
import sys
import threading
import time

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

KIND, SETTINGS, RATE, KEYS, ADDRESSES = sys.argv[1:6]


def connect():
    places = [(host, int(port)) for host, port in (address.rsplit(":", 1) for address in ADDRESSES.split(","))]
    (host, port), tuned = places[0], {}
    if SETTINGS == "tuned":
        # A node holds commands for a lost owner for three seconds. A client of a cluster speaks to owners themselves.
        silent = 1 if KIND == "cluster" else 5
        tuned = {"retry": Retry(ExponentialBackoff(cap=0.5, base=0.01), 12), "socket_timeout": silent, "socket_connect_timeout": 1}
    if KIND == "sentinel":
        # Without a bound a client waits for ever for a Sentinel whose machine is silent.
        return Sentinel(places, sentinel_kwargs={"socket_timeout": 0.5}).master_for("mymaster", **tuned)
    if KIND == "cluster" and SETTINGS == "tuned":
        # It would know those nodes alone that the last answer has named: after a kill the new owner, which may be killed next.
        return RedisCluster(startup_nodes=[ClusterNode(*place) for place in places], dynamic_startup_nodes=False, **tuned)
    return (RedisCluster if KIND == "cluster" else redis.Redis)(host=host, port=port, **tuned)


def write(client, key, say):
    due = time.time()
    for number in range(1 << 60):
        time.sleep(max(0, due - time.time()))
        began = time.time()
        due = max(due + 1 / float(RATE), began)
        try:
            client.rpush(key, number)
            outcome = "ok"
        except Exception as error:  # noqa: BLE001: whatever an application would see
            outcome = f"{type(error).__name__}: {error}".replace("\n", " ")
        say(f"{key} {number} {began * 1000:.3f} {time.time() * 1000:.3f} {outcome}\n")


def main():
    client = connect()
    for key in KEYS.split(","):
        threading.Thread(target=write, args=(client, key, sys.stdout.write), daemon=True).start()
    sys.stdin.read()
    sys.stdout.flush()
    os._exit(0)


main()
