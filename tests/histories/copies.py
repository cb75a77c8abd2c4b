"""What is done to a cluster whose logs have copies (`--group`): folders and machines are lost, and nothing that was acknowledged is."""
import shutil
from pathlib import Path

from cluster import LOG_DIRS
from nemeses import Missing, nemesis

SAYS_S = 30  # until the status names what is wrong
OTHER_FOLDER = "another folder was at"


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
    said = world.until(lambda: OTHER_FOLDER in world.cluster.status(), SAYS_S)
    if not said:
        return world.problem(f"a folder of node {node} was wiped, and the status does not say so: {world.cluster.status()}")
    world.sleep(0.0, 2.0)
    stir(world, node)
    replaced = world.until(lambda: world.try_text("CLUSTER", "GROUP", "REPLACE", place, place) == "OK", SAYS_S)
    if not replaced:
        return world.problem(f"a wiped folder is not replaced: {world.try_text('CLUSTER', 'GROUP', 'REPLACE', place, place)}")
    stir(world, node)
    return world.must_heal()


@nemesis
def wipe_log(world):
    """Copies: a node loses the disk of its log and keeps its store. It starts from the others' copies, and serves at once."""
    if not whole(world):
        return "nothing"
    node, cluster = world.rng.choice(world.owning()), world.cluster
    cluster.kill(node)
    for stream in range(cluster.streams):
        shutil.rmtree(Path(cluster[node].folder) / f"stream-{stream}")
    world.sleep(0.0, 1.5)
    cluster.start(node)
    world.must_serve(node, 30)
    begin_anew(world, node, cluster.place(node))
    return f"node {node} has lost its log"


@nemesis
def wipe_copy(world):
    """Copies: a node or a log-server loses the copies of others' logs. The others serve meanwhile; the new folder counts when it is replaced."""
    if not whole(world):
        return "nothing"
    cluster = world.cluster
    node = world.rng.choice([node for node in cluster.nodes if node not in cluster.spares])
    folder = Path(cluster[node].folder)
    folder = folder / LOG_DIRS[0] if node in cluster.log_servers else folder / "holdfast" / "copies"
    cluster.kill(node)
    for copy in folder.glob("shard-*"):
        shutil.rmtree(copy)
    world.sleep(0.0, 1.5)
    cluster.start(node)
    for owner in world.owning():
        if owner != node:
            world.must_serve(owner)
    begin_anew(world, node, cluster.place(node))
    return f"node {node} has lost its copies"
