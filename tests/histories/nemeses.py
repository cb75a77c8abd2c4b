"""What is done to a cluster: each function is one round, which breaks something for a while and leaves it whole.

`world` has the cluster, the network, a seeded `rng`, `sleep`, and `problem` for what must not be. A round returns what it did, in a few words.
"""
import os
import shutil
import time
from pathlib import Path

from faults import alone, disturbed, late, named, still, unheard, wrong
from wire import Closed, ErrorReply, Refused

ALL = {}
LEASE_S = 2
# System calls of a node and of how many of a kind one is chosen; each thread counts its own. Messages to clients and nodes are sendto.
CALLS = {"sendto": 1000, "recvfrom": 1000, "pwrite64": 300, "openat": 40, "fsync": 8, "rename": 4}


class Missing(Exception):
    """The system lacks what it needs."""


def nemesis(function):
    ALL[function.__name__] = function
    return function


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(f"needs {program}")


def need_lone(world):
    """A place of a group keeps its node in the cluster."""
    if world.options.group or world.options.copies:
        raise Missing("not with --group, where `wipe_log`, `wipe_copy` and `wipe_all` are")


def lasting(world, fault, least, most):
    """It lasts for so many seconds."""
    said, end = fault
    world.sleep(least, most)
    end()
    return said


def told_to_end(world, node):
    """It is told to end in order, and has."""
    server = world.cluster.servers[node]
    world.cluster.resume(node)
    server.term()
    if world.cluster.is_up(node):
        world.problem(f"{named(world, node)} was told to end, and has not within a minute")
        world.cluster.kill(node)
    return server


@nemesis
def none(world):
    """Nothing is done."""
    world.sleep(2, 4)
    return "nothing"


@nemesis
def kill(world):
    """Rows 1, 17: a node is killed and started again, sometimes killed again while it starts."""
    node = world.any_node()
    world.cluster.kill(node)
    world.sleep(0.0, 2.5)
    world.cluster.start(node)
    times = 1
    while world.rng.random() < 0.3:
        world.sleep(0.0, 0.5)
        world.cluster.kill(node)
        world.cluster.start(node)
        times += 1
    return f"node {node} killed {times} times"


@nemesis
def kill_all(world):
    """Row 2: all nodes are killed at once, and started in any order."""
    nodes = world.some_nodes(len(world.nodes))
    for node in nodes:
        world.cluster.kill(node)
    world.rng.shuffle(nodes)
    for node in nodes:
        world.sleep(0.0, 0.7)
        world.cluster.start(node)
    return "all nodes killed"


@nemesis
def steps(world):
    """Rows 1, 17: a node is killed at its n-th system call of a kind: between the writes and messages of a transaction."""
    need("strace")
    node, call = world.any_node(), world.rng.choices(list(CALLS), (6, 4, 4, 1, 1, 1))[0]
    server = world.cluster.servers[node]
    when = int(CALLS[call] ** world.rng.random())
    ordinary, settings = server.before, server.settings
    world.cluster.kill(node)
    # With --seccomp-bpf no signal is sent.
    server.before = [*ordinary, "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                     "-e", f"inject={call}:signal=SIGKILL:when={when}"]
    if node in world.cluster.data:
        # Messages are system calls of its own with epoll only.
        server.settings = [*settings, "--io-driver", "epoll"]
    world.cluster.start(node)
    end, before = min(time.monotonic() + 10, world.end), world.cluster.deaths(node)
    while world.cluster.deaths(node) == before and time.monotonic() < end:
        time.sleep(0.05)
    was_hit = world.cluster.deaths(node) != before
    world.cluster.kill(node)
    server.before, server.settings = ordinary, settings
    world.cluster.start(node)
    world.count("killed at a call", was_hit)
    return f"node {node} killed at its {call} {when}" + ("" if was_hit else " (not reached)")


@nemesis
def pause(world):
    """Row 3: one or two nodes stand still for a while."""
    nodes = world.some_nodes(world.rng.choice((1, 1, 1, 2)))
    seconds = min(10 ** world.rng.uniform(0, 1.8), world.options.pause_max)
    said, end = still(world, nodes)
    world.sleep(seconds, seconds)
    end()
    return f"{said} for {seconds:.1f} s"


@nemesis
def partition(world):
    """Row 12: one node and the others do not reach each other; clients reach all. The minority refuses, the majority serves its keys."""
    node = world.any_node()
    said, end = alone(world, node)
    world.sleep(1, 4)
    if world.rng.random() < 0.7 and world.sleep(LEASE_S + 4, LEASE_S + 4):
        world.must_refuse(node)
        for other in world.nodes:
            if other != node:
                world.must_serve(other)
    end()
    return said


@nemesis
def one_way(world):
    """Row 13: what one node sends to others does not arrive: dropped on the way, or the node has no route."""
    return lasting(world, unheard(world), 1, 10)


@nemesis
def link(world):
    """Row 12: a node's link is down, for clients, too."""
    node = world.any_node()
    world.network.unplug(node)
    world.sleep(0.2, 8)
    world.network.plug(node)
    world.count("partitions")
    return f"node {node} had no link"


@nemesis
def links(world):
    """Row 15: the ways between nodes stop one by one and heal in another order."""
    nodes = world.nodes
    pairs = [(source, target) for source in nodes for target in nodes if source != target]
    world.rng.shuffle(pairs)
    pairs = pairs[:world.rng.randint(2, len(pairs))]
    for pair in pairs:
        world.network.cut(*pair)
        world.sleep(0.0, 1.5)
    world.rng.shuffle(pairs)
    for pair in pairs:
        world.network.mend(*pair)
        world.sleep(0.0, 1.5)
    world.count("partitions")
    return f"{len(pairs)} ways stopped and healed"


@nemesis
def delay(world):
    """Row 14: packets between nodes are late, and overtake each other."""
    return lasting(world, late(world), 4, 8)


@nemesis
def loss(world):
    """Row 14: packets between nodes are lost."""
    return lasting(world, disturbed(world, loss=world.rng.choice((0.01, 0.1, 0.3)), delay=0.001), 5, 10)


@nemesis
def half_open(world):
    """Row 14: connections between nodes are dead, and nobody is told; new ones work."""
    return lasting(world, disturbed(world, half_open=True), 6, 12)


@nemesis
def reset(world):
    """Row 14: connections between nodes are reset, again and again."""
    need("ss")
    times = world.rng.randint(1, 6)
    for _ in range(times):
        node, target = world.some_nodes(2)
        world.network.reset(node, target)
        world.sleep(0.0, 1.0)
    return f"{times} resets"


@nemesis
def fsync(world):
    """Row 6: a node's disk fails once: it refuses writes and says so, until it is started again."""
    need("strace")
    node = world.cluster.machine_of(world.rng.choice(world.owning()))
    server = world.cluster.servers[node]
    ordinary = server.before
    trace = Path(server.folder) / "trace"
    trace.unlink(missing_ok=True)
    world.cluster.kill(node)
    # With -y a line names the file.
    server.before = [*ordinary, "strace", "-f", "-y", "-qq", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync,pwrite64",
                     "-e", f"inject=pwrite64:error=EIO:when={world.rng.randrange(20, 200)}"]
    world.cluster.start(node)

    def hit():
        text = trace.read_text(errors="replace") if trace.exists() else ""
        return [line for line in text.splitlines() if "INJECTED" in line]
    end = min(time.monotonic() + 15, world.end)
    while time.monotonic() < end and not hit():
        time.sleep(0.1)
    was_hit = bool(hit())
    if was_hit:
        world.sleep(1, 4)
        if world.options.copies:
            pass  # It may have lost its shards for that.
        elif world.options.group:
            # The others' copies are a majority (rule G10). Files of the metadata are another matter.
            if world.cluster.is_up(node) and all("/stream-" in line or "/copies/" in line for line in hit()):
                world.must_serve(node)
        else:
            try:
                reply = world.cluster.ask(node, "SET", world.key_of(node), "1") if world.cluster.is_up(node) else None
                if reply is not None and not isinstance(reply, ErrorReply):
                    world.problem(f"node {node} accepts writes after a failed sync: {reply!r}")
            except Closed:
                pass
    world.cluster.kill(node)
    server.before = ordinary
    world.cluster.start(node)
    world.count("failed syncs", was_hit)
    return f"node {node}: a sync failed" if was_hit else f"node {node}: no sync failed"


@nemesis
def clock(world):
    """Row 16: a node's clock jumps by milliseconds to years, forth and back; sometimes it stays wrong for some rounds."""
    node = world.any_node()
    said, end = wrong(world, node)
    jump = world.clock(node)
    world.sleep(0.5, 4)
    if world.rng.random() < 0.3:
        told = world.try_ask(node, "TIME")
        if isinstance(told, list) and abs(int(told[0]) - time.time() - jump) > 60:
            world.problem(f"the injection is void: node {node} does not see the clock that it was given: {told}, {jump}")
    end()
    if world.rng.random() < 0.3:
        world.cluster.kill(node)
        world.cluster.start(node)
    return said


def need_other(world):
    if not world.options.other:
        raise Missing("needs --other BINARY")


@nemesis
def upgrade(world):
    """Row 22: some nodes are stopped one after another and started with the other binary; with --copies machines, each with all of its nodes."""
    need_other(world)
    if world.is_raised:
        return "the level has risen: no way back"
    for node in world.some_nodes(world.rng.randint(1, len(world.nodes))):
        changed(world, node)
        if not world.sleep(0.5, 5):
            break
    levels = {level_of(world, node) for node in world.cluster.data} - {0, world.level}
    if levels:
        world.problem(f"nobody has raised the level, which was {world.level}, and is {levels}")
    return "binaries: " + ", ".join(f"{node} {world.cluster.servers[node].binary.name}" for node in world.nodes)


def changed(world, node):
    """It has the other binary, or the first one again."""
    server = world.cluster.servers[node]
    if world.rng.random() < 0.5:
        told_to_end(world, node)
    else:
        world.cluster.kill(node)
    server.binary = world.options.other if server.binary == world.options.server else world.options.server
    world.cluster.start(node)


def level_of(world, node, command=("CLUSTER", "INFO"), field=b"cluster_level:"):
    said = world.try_ask(node, *command)
    found = [] if not isinstance(said, bytes) else [line for line in said.split(b"\r\n") if line.startswith(field)]
    return int(found[0].split(b":")[1]) if found else 0


def writes_at(world, node):
    """Whether it writes keys that it has owned: with --copies any node of this machine any key."""
    if world.options.copies:
        asked = [(one, owner) for one in world.cluster.of(node) for owner in world.owning()]
    else:
        asked = [(node, node)] if node in world.owning() else []
    return any(world.try_ask(one, "SET", world.key_of(owner), "1") == b"OK" for one, owner in asked)


def all_newer(world):
    """All nodes get the newer binary."""
    for node in world.some_nodes(len(world.nodes)):
        if world.cluster.servers[node].binary != world.options.server:
            changed(world, node)
            world.sleep(0.5, 3)


def raised(world):
    """The level rises to what the newer binary speaks, which is returned; None if it does not."""
    said, data = [], world.cluster.data

    def is_raised():
        said.append(world.try_ask(world.rng.choice(data), "CLUSTER", "FINALIZE"))
        return said[-1] == b"OK"
    if not world.until(is_raised, 30):
        return world.problem(f"all nodes have the newer binary, and the level is not raised: {said[-1]!r}")
    highest = world.until(lambda: level_of(world, data[0], ("INFO", "server"), b"holdfast_level:"), 10)
    if not world.until(lambda: {level_of(world, node) for node in data} == {highest}, 30):
        return world.problem(f"the newer binary speaks level {highest}, and nodes are at {[level_of(world, node) for node in data]}")
    if not world.is_raised and highest <= world.level:
        return world.problem(f"the newer binary speaks level {highest}, and the cluster began at {world.level}")
    world.is_raised, world.level = True, highest
    return highest


@nemesis
def finalize(world):
    """Row 22: all nodes get the newer binary, the cluster's level rises, and from then on the other binary is refused."""
    need_other(world)
    all_newer(world)
    level = raised(world)
    if not level:
        return "not raised"
    if world.options.copies:
        # Without one of its machines it must not be short of anything.
        world.must_heal()
    node = world.any_node()
    server = told_to_end(world, node)
    server.binary = world.options.other
    world.cluster.start(node)
    end = time.monotonic() + LEASE_S + 3
    while server.wait(0.2) is None and time.monotonic() < end:
        if writes_at(world, node):
            world.problem(f"node {node} serves with the other binary, and the cluster is at level {level}")
            break
    ended = server.wait(0.1)
    world.count("refused starts", ended is not None)
    world.cluster.kill(node)
    server.binary = world.options.server
    world.cluster.start(node)
    return f"level {level}; node {node} with the other binary: " + ("refused" if ended is None else f"ended with {ended}")


@nemesis
def grow(world):
    """Row 22: machines without copies get the newer binary, some go back and forth, the level rises, and their settings give them copies. Once."""
    need_other(world)
    if not world.options.copies:
        raise Missing("needs --copies")
    cluster = world.cluster
    if cluster.has_grown:
        return "has grown"
    for node in [*world.some_nodes(len(world.nodes)), *(world.any_node() for _ in range(2))]:
        changed(world, node)
        world.meanwhile()
    if any(level_of(world, node) not in (0, world.level) for node in cluster.data):
        world.problem(f"nobody has raised the level, which was {world.level}")
    all_newer(world)
    world.must_heal()
    if world.problems or not raised(world):
        return "not raised"
    for node in world.some_nodes(len(world.nodes)):
        if world.rng.random() < 0.5:
            told_to_end(world, node)
        else:
            cluster.kill(node)
        cluster.gets_copies(node)
        cluster.start(node)
        world.meanwhile()
    cluster.has_grown = True
    world.must_heal(2)
    return f"level {world.level}, and copies"


@nemesis
def wipe(world):
    """Row 11: the data of an idle node are gone: it comes back as another one, and is never taken for the old one."""
    need_lone(world)
    return wiped(world, quietly=True)


@nemesis
def wipe_busy(world):
    """Row 11: the same in the middle of transactions: what others have of them is decided without it."""
    need_lone(world)
    return wiped(world, quietly=False)


def wiped(world, quietly):
    node = world.rng.choice(world.owning())
    others = [other for other in world.nodes if other != node]
    world.rng.shuffle(others)
    old = world.cluster.ask(node, "CLUSTER", "MYID").decode()
    if quietly:
        world.be_quiet()
    world.cluster.kill(node)
    world.lose(node)
    shutil.rmtree(world.cluster[node].folder)
    os.makedirs(world.cluster[node].folder)
    # One of the other two is gone as well: what is left and the empty node are no majority.
    witness = next(other for other in others if other in world.owning())
    others.sort(key=lambda other: other != witness)
    world.cluster.pause(others[1])
    world.cluster.start(node)
    time.sleep(LEASE_S + 5)
    for reply in (world.try_ask(witness, "SET", world.key_of(witness), "1"), world.try_ask(node, "SET", world.key_of(node), "1")):
        if reply is not None and not (isinstance(reply, ErrorReply) and reply.startswith(("CLUSTERDOWN", "LOADING"))):
            world.problem(f"a wiped node votes: with it, node {witness} serves without a majority: {reply!r}")
    world.cluster.resume(others[1])
    new = world.until(lambda: world.try_ask(node, "CLUSTER", "MYID"), 10)
    if new and new.decode() == old:
        world.problem(f"node {node} was wiped and has its old name")
    # Its slots stay with the lost one until somebody says that they are lost.
    refused = world.until(lambda: isinstance(world.try_ask(witness, "GET", world.key_of(node)), ErrorReply), 30)
    if not refused:
        world.problem(f"a slot of the wiped node {node} is served by somebody")
    if not world.until(lambda: (new or b"?") in (world.try_ask(witness, "CLUSTER", "NODES") or b""), 60):
        world.problem(f"the wiped node {node} does not join again: {world.try_ask(node, 'CLUSTER', 'STATUS')}")
    done = world.until(lambda: world.try_ask(witness, "CLUSTER", "FORGET", old, "LOSE-DATA") == b"OK", 60)
    if not done:
        world.problem(f"the wiped node is not forgotten: {world.try_ask(witness, 'CLUSTER', 'FORGET', old, 'LOSE-DATA')}")
    world.must_heal()
    world.is_quiet = False
    return f"node {node} wiped"


@nemesis
def revenant(world):
    """Rows 3, 13: a node stands still, is taken for lost, its slots go to others, and it goes on as if nothing had happened."""
    need_lone(world)
    node = world.rng.choice(world.owning())
    witness = world.rng.choice([other for other in world.nodes if other != node])
    old, key = world.cluster.ask(node, "CLUSTER", "MYID").decode(), world.key_of(node)
    world.be_quiet()
    world.cluster.pause(node)
    world.lose(node)
    if not world.until(lambda: world.try_ask(witness, "CLUSTER", "FORGET", old, "LOSE-DATA") == b"OK", 60):
        world.problem(f"the node that stands still is not forgotten: {world.try_ask(witness, 'CLUSTER', 'FORGET', old, 'LOSE-DATA')}")
    # The heirs' clients write; some come to the one that was forgotten, as it wakes up.
    world.is_quiet = False
    world.sleep(1, 3)
    world.cluster.resume(node)
    world.sleep(0.5, 4)
    reply = world.try_ask(node, "GET", key)
    if reply is not None and not isinstance(reply, ErrorReply) and world.try_ask(witness, "SET", key, old) == b"OK" and world.try_ask(node, "GET", key) != old.encode():
        world.problem(f"the forgotten node {node} serves what was its own: {reply!r}")
    world.cluster.kill(node)
    shutil.rmtree(world.cluster[node].folder)
    os.makedirs(world.cluster[node].folder)
    world.cluster.start(node)
    world.must_heal()
    return f"node {node} was forgotten while it stood still"


def words():
    return "\n".join(f"{name:10} {function.__doc__.splitlines()[0]}" for name, function in ALL.items())


__all__ = ["ALL", "Missing", "Refused", "words"]
