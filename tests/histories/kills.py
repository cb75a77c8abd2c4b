"""What is done to machines with copies (`--copies`): processes of every role are killed, alone and in pairs, and beside other faults. Agents,
or whoever starts those, start them again."""
import shutil
import subprocess
import threading
import time
from pathlib import Path

import faults
from nemeses import LEASE_S, Missing, need, nemesis, told_to_end
from wire import Closed

DISK_MB = 512  # of a machine whose disk becomes full


def need_copies(world):
    if not world.options.copies:
        raise Missing("needs --copies")


def chosen(world, role):
    """A node, or a machine, of this role; None if there is none now."""
    cluster = world.cluster
    if role in ("agent", "host"):
        return world.rng.choice(cluster.machines)
    if role == "vote":
        return cluster.vote_of(world.rng.choice(cluster.machines))
    if role == "log_server":
        return world.rng.choice(cluster.log_servers) if cluster.log_servers else None
    roles = world.until(cluster.roles, 5)
    if not roles:
        return None
    if role == "leader":
        return roles.leader
    nodes = sorted(set(roles.owners.values()) if role == "owner" else {node for nodes in roles.standbys.values() for node in nodes})
    return world.rng.choice(nodes) if nodes else None


def strike(world, role, target):
    """Kills it. What is to be done later so that it runs again, or None."""
    cluster = world.cluster
    world.count(f"{role} killed")
    if role == "agent":
        at_once = world.rng.random() < 0.5

        def again():
            if left := cluster.kill_agent(target, at_once):
                world.problem(f"the agent of machine {target} was killed, and its processes {left} go on")
        # Its nodes need their time to end.
        thread = threading.Thread(target=again)
        thread.start()
        return thread.join
    if role == "host" or target in cluster.log_servers:
        world.is_silent()
        cluster.kill(target)
        return lambda: cluster.start(target)
    cluster.kill_one(target)
    return None


def killed(world, *roles):
    """Kills one of each role, nearly at once, and starts again what nobody else does."""
    need_copies(world)
    targets = [(role, target) for role in roles for target in [chosen(world, role)] if target]
    words, revive = [], []
    for role, target in targets:
        words.append(f"{role} {target}")
        revive.append(strike(world, role, target))
        world.sleep(0.0, world.rng.choice((0.0, 0.0, 0.3)))
    revive = [again for again in revive if again]
    if revive:
        world.sleep(0.0, 1.5 if world.rng.random() < 0.5 else LEASE_S + 2)
    world.rng.shuffle(revive)
    for again in revive:
        again()
    return ", ".join(words) + " killed"


def of_role(role, words):
    def act(world):
        if role == "log_server" and world.options.copies and not world.cluster.log_servers:
            raise Missing("needs --witness")
        return killed(world, role)
    act.__name__, act.__doc__ = f"kill_{role}", f"Copies: {words}"
    return nemesis(act)


ROLES = {
    "owner": "a node that owns a shard is killed; its agent says so and starts it again.",
    "standby": "a node that may take a shard over is killed.",
    "agent": "an agent is killed: its nodes end by themselves.",
    "host": "a machine is lost, its agent and all nodes at once: nobody says so, and it comes back.",
    "leader": "the process that leads the metadata is killed.",
    "vote": "the log-server with the vote of a machine is killed; its agent starts it again.",
    "log_server": "the log-server of a third machine is killed.",
}
for each in ROLES.items():
    of_role(*each)


def some_role(world):
    return world.rng.choice([role for role in ROLES if role != "log_server" or world.cluster.log_servers])


@nemesis
def kill_pair(world):
    """Copies: two processes of any roles are killed nearly at once."""
    need_copies(world)
    return killed(world, some_role(world), some_role(world))


@nemesis
def kill_again(world):
    """Copies: an owner is killed, and soon the one that has the shard then, and so on: while they take over and come back."""
    need_copies(world)
    words = []
    for _ in range(world.rng.randint(2, 4)):
        words.append(killed(world, "owner"))
        world.sleep(0.0, 1.0)
    return "; ".join(words)


@nemesis
def kill_amid(world):
    """Copies: one or two are killed while a machine is alone, unheard, stands still, has a slow disk or a wrong clock, or packets are late."""
    need_copies(world)
    may_be = [faults.alone, faults.unheard, faults.still, faults.late]
    may_be += [faults.slow] * bool(shutil.which("strace")) + [faults.wrong] * world.has_clocks
    world.is_silent()
    words, end = world.rng.choice(may_be)(world)
    world.sleep(0.0, world.rng.choice((0.3, LEASE_S + 2)))
    roles = [some_role(world) for _ in range(world.rng.choice((1, 1, 2)))]
    said = killed(world, *roles)
    world.sleep(0.0, world.rng.choice((0.5, 2, LEASE_S + 2)))
    end()
    world.is_silent()
    return f"{words}: {said}"


def hand_over(world, shard, node, counted=True):
    """The standby is told to take the shard in order. What it says."""
    try:
        said = world.cluster.ask(node, "CLUSTER", "FAILOVER", timeout=10)
    except Closed as closed:
        said = f"closed: {closed}"
    world.count("switchovers", counted and said == b"OK")
    return said if isinstance(said, str) else said.decode()


def some_standby(world):
    """(shard, its owner, a standby of it)."""
    roles = world.until(world.cluster.roles, 5)
    found = [(shard, roles.owners[shard], node) for shard, nodes in sorted(roles.standbys.items()) for node in nodes if shard in roles.owners] if roles else []
    return world.rng.choice(found) if found else None


@nemesis
def switchover(world):
    """Copies: a shard is given to its standby in order, once or more."""
    need_copies(world)
    words = []
    for _ in range(world.rng.randint(1, 3)):
        if found := some_standby(world):
            shard, owner, node = found
            words.append(f"shard {shard} from {owner} to {node}: {hand_over(world, shard, node)}")
        world.sleep(0.0, 1.0)
    return "; ".join(words) or "no standby"


@nemesis
def kill_switchover(world):
    """Copies: the owner, the standby or somebody else is killed in the middle of a switchover."""
    need_copies(world)
    found = some_standby(world)
    if not found:
        return "no standby"
    shard, owner, node = found
    thread = threading.Thread(target=hand_over, args=(world, shard, node))
    thread.start()
    time.sleep(world.rng.random() ** 2 * 0.6)
    role = world.rng.choice(("owner", "standby", "owner", "standby", "leader"))
    target = {"owner": owner, "standby": node}.get(role) or chosen(world, role)
    again = strike(world, role, target) if target else None
    thread.join()
    if again:
        again()
    return f"shard {shard} from {owner} to {node}: {role} {target} killed"


@nemesis
def stop(world):
    """Copies: a machine is told to end in order (SIGTERM), and starts again."""
    need_copies(world)
    machine = world.rng.choice(world.cluster.machines)
    told_to_end(world, machine)
    world.sleep(0.0, 2.0)
    world.cluster.start(machine)
    return f"machine {machine} stopped in order"


@nemesis
def full_disk(world):
    """Copies: the disk of a machine is full for a while, and a process is killed meanwhile."""
    need_copies(world)
    machine = world.any_node()
    filler = Path(world.cluster.servers[machine].folder) / "filler"
    world.is_silent()
    with open(filler, "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        except OSError:
            pass
    world.sleep(0.5, 6)
    said = killed(world, some_role(world)) if world.rng.random() < 0.5 else "nothing killed"
    world.sleep(0.0, 2.0)
    filler.unlink()
    world.is_silent()
    return f"the disk of machine {machine} was full: {said}"


def small_disks(world):
    """Before the servers start: each machine gets a disk of its own."""
    need("mount")
    for server in world.cluster.servers.values():
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(server.folder)], check=True)
