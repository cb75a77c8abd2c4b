"""What is done to a cluster whose logs have copies (`--group`): folders and machines are lost, and nothing that was acknowledged is."""
import os
import shutil
import time
from pathlib import Path

from cluster import LOG_DIRS
from nemeses import LEASE_S, Missing, need, nemesis
from wire import Closed

SAYS_S = 30  # until the status names what is wrong
# A folder, or a part of one that is spread over several disks.
LOST = ("another folder was at", " are gone", "has the blocks of another acceptor")


def need_group(world):
    if not world.options.group:
        raise Missing("needs --group")


def whole(world):
    """All copies count: one of three may be lost. True if the round may go on."""
    need_group(world)
    return world.must_heal() is None and not world.problems


def stir(world, node):
    """Sometimes another process is killed meanwhile, and comes back with all that it had."""
    if world.rng.random() < 0.4:
        other = world.rng.choice([other for other in world.nodes if other != node])
        world.cluster.kill(other)
        world.sleep(0.0, 2.0)
        world.cluster.start(other)


def begin_anew(world, node, place):
    """A folder was wiped: it does not vote, the status says so, and it is given its place again by hand."""
    said = world.until(lambda: any(lost in world.cluster.status() for lost in LOST), SAYS_S)
    if not said:
        return world.problem(f"a folder of node {node} was wiped, and the status does not say so: {world.cluster.status()}")
    world.sleep(0.0, 2.0)
    stir(world, node)
    replaced = world.until(lambda: world.cluster.text("CLUSTER", "GROUP", "REPLACE", place, place) == "OK", SAYS_S)
    if not replaced:
        return world.problem(f"a wiped folder is not replaced: {world.cluster.text('CLUSTER', 'GROUP', 'REPLACE', place, place)}")
    stir(world, node)
    return world.must_heal()


def was_told(world, node, key, mark):
    try:
        return world.cluster.ask(node, "SET", key, mark, timeout=0.2) == b"OK"
    except Closed:
        return False


@nemesis
def wipe_log(world):
    """Copies: a node loses the disk of its log and keeps its store. It starts from the others' copies, and serves at once."""
    need("ss")
    if not whole(world):
        return "nothing"
    node, cluster = world.rng.choice(world.owning()), world.cluster
    key, told = f"{{{world.key_of(node)}}}:alone", []
    if world.rng.random() < 0.5:
        # Alone with clients, for less than a lease: what it has then is nowhere else.
        world.network.isolate(node)
        world.sleep(0.0, 0.7)
        told = [mark for mark in map(str, range(4)) if was_told(world, node, key, mark)]
    cluster.kill(node)
    # A machine's end takes what its sockets still had to send with it.
    for other in cluster.nodes:
        if other != node:
            world.network.reset(node, other)
    world.network.heal()
    for stream in range(cluster.streams):
        shutil.rmtree(Path(cluster[node].folder) / f"stream-{stream}")
    world.sleep(0.0, 1.5)
    cluster.start(node)
    world.must_serve(node, 30)
    if told and world.try_ask(node, "GET", key) != told[-1].encode():
        world.problem(f"node {node} was alone and acknowledged {told}, and has {world.try_ask(node, 'GET', key)!r} when it has lost its log")
    begin_anew(world, node, cluster.place(node))
    return f"node {node} has lost its log"


@nemesis
def wipe_copy(world):
    """Copies: a node or a log-server loses the copies of others' logs. The others serve meanwhile; the new folder counts when it is replaced."""
    if not whole(world):
        return "nothing"
    cluster = world.cluster
    node = world.rng.choice(cluster.places)
    folder = Path(cluster[node].folder)
    if node in cluster.log_servers:
        # All of its disks, or one of them.
        folders = [folder / name for name in world.rng.sample(LOG_DIRS, world.rng.choice((1, 2)))]
    else:
        folders = [folder / "holdfast" / "copies", *(folder / f"stream-{stream}" / "copies" for stream in range(cluster.streams))]
    lost = [copy for folder in folders for copy in folder.glob("shard-*") if ".aside-" not in copy.name]
    cluster.kill(node)
    for copy in lost:
        shutil.rmtree(copy)
    if not lost:
        cluster.start(node)
        return f"node {node} had no copies there"
    world.sleep(0.0, 1.5)
    cluster.start(node)
    for owner in world.owning():
        if owner != node:
            world.must_serve(owner)
    begin_anew(world, node, cluster.place(node))
    return f"node {node} has lost its copies"


def must_refuse(world, words, why, *names):
    """A recovery now is refused, and says why, once the metadata have a leader who knows."""
    said = []

    def is_said():
        said.append(world.cluster.text(*words))
        return said[-1] == "OK" or all(name in said[-1] for name in (why, *names))
    if not world.until(is_said, SAYS_S) or said[-1] == "OK":
        world.problem(f"{' '.join(map(str, words))} should be refused ({why}), and is answered {said[-1]!r}")


@nemesis
def wipe_all(world):
    """Copies: an idle node loses everything. `cluster recover` has another node, or a new one at its address, bring all back from the copies."""
    return all_wiped(world, quietly=True)


@nemesis
def wipe_all_busy(world):
    """Copies: the same in the middle of transactions."""
    return all_wiped(world, quietly=False)


def all_wiped(world, quietly):
    if not whole(world):
        return "nothing"
    cluster, rng = world.cluster, world.rng
    if not cluster.spares:
        raise Missing("is chosen alone, or with a + between: the logs must not be cut")
    node, spare = rng.choice(world.owning()), rng.choice(cluster.idle())
    to = rng.choice((node, spare))
    shard, old = cluster.shard_of(node), cluster.ask(node, "CLUSTER", "MYID").decode()

    def recover(target):
        return ["CLUSTER", "RECOVER", shard, "ON", cluster.place(target, "").rstrip("/")]
    must_refuse(world, recover(spare), "may be alive", old)
    if quietly:
        world.be_quiet()
    cluster.kill(node)
    world.is_quiet = False
    shutil.rmtree(cluster[node].folder)
    os.makedirs(cluster[node].folder)
    if rng.random() < 0.5:
        # With one more away a majority of the copies is missing. Five vote: the metadata go on.
        other = rng.choice([other for other in cluster.places if other != node])
        cluster.kill(other)
        time.sleep(LEASE_S + 2)
        must_refuse(world, recover(spare), "copies of the log", cluster.place(other, "").rstrip("/"))
        cluster.start(other)
        world.until(lambda: cluster.is_ok(other), SAYS_S)
    if to == node:
        cluster.start(node)
    if not world.until(lambda: cluster.text(*recover(to)) == "OK", SAYS_S):
        return world.problem(f"shard {shard} of node {node}, which is lost, is not recovered on node {to}: {cluster.text(*recover(to))}")
    if rng.random() < 0.4:
        # While it starts again for this.
        world.sleep(0.0, 1.5)
        cluster.kill(to)
        cluster.start(to)
    if not world.until(lambda: to in [owner for *_, owner in cluster.owners()], SAYS_S):
        return world.problem(f"the slots of node {node} are not those of node {to}")
    world.owned = cluster.owners()
    world.must_serve(to, 30)
    place, new = cluster.place(node), cluster.place(to)
    if not world.until(lambda: cluster.text("CLUSTER", "GROUP", "REPLACE", place, new) == "OK", SAYS_S):
        return world.problem(f"the place of lost node {node} is not given to node {to}: {cluster.text('CLUSTER', 'GROUP', 'REPLACE', place, new)}")
    cluster.places[cluster.places.index(node)] = to
    if to != node:
        cluster.start(node)
    if not world.until(lambda: cluster.text("CLUSTER", "FORGET", old) == "OK", SAYS_S):
        return world.problem(f"lost node {node} is not forgotten: {cluster.text('CLUSTER', 'FORGET', old)}")
    world.count("recoveries")
    world.must_heal()
    return f"node {node} has lost everything, and node {to} has its shard {shard}"
