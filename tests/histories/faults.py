"""Faults that last: each begins something, and returns what it is, in words, and what ends it. A nemesis lets one last for a while, or kills
processes meanwhile.

With `--copies` a node is a machine, with all of its processes.
"""
import subprocess

DISK_CALLS = "pwrite64,fdatasync,fsync"  # the log writes what is on the disk when the call returns


def named(world, *nodes):
    return ("machine " if world.options.copies else "node ") + " and ".join(map(str, nodes))


def alone(world, node=None):
    """One node and the others do not reach each other; clients reach all."""
    node = node or world.any_node()
    world.network.isolate(node)
    world.count("partitions")
    return f"{named(world, node)} alone", world.network.heal


def unheard(world):
    """What one node sends to others does not arrive: dropped on the way, or the node has no route."""
    source, target = world.some_nodes(2)
    act = world.rng.choice((world.network.cut, world.network.hole))
    act(source, target)
    if world.rng.random() < 0.3:
        act(source, next(node for node in world.nodes if node not in (source, target)))
    world.count("partitions")
    return f"{named(world, source)} not heard by {target}", world.network.heal


def still(world, nodes=None):
    """Nodes stand still."""
    nodes = nodes or [world.any_node()]
    for node in nodes:
        world.cluster.pause(node)

    def end():
        for node in nodes:
            world.cluster.resume(node)
    return f"{named(world, *nodes)} still", end


def disturbed(world, **how):
    """Packets between nodes, or between two pairs of them, are treated so."""
    pairs = [(source, target) for source in world.nodes for target in world.nodes if source != target]
    if world.rng.random() < 0.5:
        pairs = world.rng.sample(pairs, 2)
    world.network.disturb(pairs, seed=world.rng.randrange(1 << 30), **how)
    return f"{how} between {len(pairs)} pairs", world.network.calm


def late(world):
    """Packets between nodes are late, overtake each other, and come twice."""
    return disturbed(world, delay=10 ** world.rng.uniform(-3, -0.7), jitter=10 ** world.rng.uniform(-3, -1), twice=0.02)


def wrong(world, node=None):
    """A node's clock jumps by milliseconds to years, in either direction; sometimes it stays wrong."""
    node = node or world.any_node()
    jump = world.rng.choice((-1, 1)) * 10 ** world.rng.uniform(-2, 8.3)
    world.set_clock(node, jump)

    def end():
        if world.rng.random() < 0.5:
            world.set_clock(node, 0)
    return f"the clock of {named(world, node)} jumped by {jump:.2f} s", end


def slow(world):
    """Writes of a machine's nodes to the disk take longer."""
    machine = world.rng.choice(world.cluster.machines)
    delay, tracers = int(10 ** world.rng.uniform(3, 5)), []
    for pid in world.cluster.servers[machine].children().values():
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", f"trace={DISK_CALLS}",
                 "-e", f"inject={DISK_CALLS}:delay_enter={delay}"]
        tracers.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end():
        for tracer in tracers:
            tracer.terminate()
        for tracer in tracers:
            tracer.wait()
    return f"writes of machine {machine} take {delay / 1000:.0f} ms more", end
