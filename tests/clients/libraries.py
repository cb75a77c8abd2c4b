"""The client libraries at pinned versions, and how the programs for them are made, with pip, npm, go, mvn and cargo."""
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Where programs are: for a server, for a cluster, for either with TLS or users, and for one that loses an owner.
ALONE, CLUSTER, SECURE, FAILOVER = HERE, HERE / "cluster", HERE / "secure", HERE / "failover"

REDIS_PY = "redis==8.1.0"
IOREDIS = "ioredis@6.0.0"
NODE_REDIS = {"node-redis-4": "4.7.1", "node-redis-6": "6.3.1"}
GO_REDIS = "github.com/redis/go-redis/v9@v9.23.0"
RUEIDIS = "github.com/redis/rueidis@v1.0.79"
ASYNQ = "github.com/hibiken/asynq@v0.26.0"
REDIS_RS = "=1.8.0"

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>clients</groupId><artifactId>clients</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

# library: the artifacts it is, each with its group and version.
LETTUCE = ("io.lettuce", "lettuce-core", "7.7.0.RELEASE")
JARS = {
    "Jedis": [("redis.clients", "jedis", "8.0.2")],
    "Lettuce": [LETTUCE],
    "Spring Data Redis": [("org.springframework.data", "spring-data-redis", "4.1.2"), LETTUCE],
    "Redisson": [("org.redisson", "redisson", "4.1.0")],
}

CARGO = f"""[package]
name = "redis_rs"
version = "0.0.0"
edition = "2024"
[dependencies]
redis = {{ version = "{REDIS_RS}", features = ["cluster"] }}
[[bin]]
name = "redis_rs"
path = "{HERE / "redis_rs/main.rs"}"
[workspace]
"""


def stop(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def install(command, folder):
    """Runs an installer; its words are shown only where it fails."""
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if done.returncode != 0:
        stop(f"{shlex.join(map(str, command))} failed:\n{done.stdout}")


def redis_py(folder, programs):
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    install([python, "-m", "pip", "install", "--quiet", REDIS_PY], folder)
    return [[python, program / "redis_py.py"] for program in programs]


def ioredis(folder, programs):
    if not shutil.which("npm"):
        stop("ioredis needs node and npm")
    install(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, IOREDIS], folder)
    return [["node", program / "ioredis.mjs"] for program in programs]


def node_redis(folder, programs):
    """One program for both versions, and for a server and a cluster."""
    if not shutil.which("npm"):
        stop("node-redis needs node and npm")
    aliases = [f"{name}@npm:redis@{version}" for name, version in NODE_REDIS.items()]
    install(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *aliases], folder)
    return [["node", HERE / "node_redis.mjs", name, *mode(program)] for name in NODE_REDIS for program in programs]


def mode(program):
    """What tells a program that is for servers and clusters alike which of them it is at."""
    return ["smart"] if program == CLUSTER else []


def go_program(folder, name, file, packages):
    if not shutil.which("go"):
        stop(f"{name} needs go")
    module = folder / name
    module.mkdir()
    shutil.copy(file, module / "main.go")
    install(["go", "mod", "init", "clients"], module)
    install(["go", "get", *packages], module)
    install(["go", "build", "-o", "program", "."], module)
    return module / "program"


def go_redis(folder, programs):
    return [[go_program(folder, f"go_redis-{program.name}", program / "go_redis.go", [GO_REDIS])] for program in programs]


def rueidis(folder, programs):
    program = go_program(folder, "rueidis", HERE / "rueidis.go", [RUEIDIS])
    return [[program, *mode(one)] for one in programs]


def asynq(folder, programs):
    program = go_program(folder, "asynq", HERE / "asynq.go", [ASYNQ, GO_REDIS])
    return [[program, *mode(one)] for one in programs]


def redis_rs(folder, programs):
    if not shutil.which("cargo"):
        stop("redis-rs needs cargo")
    package = folder / "redis_rs"
    package.mkdir()
    (package / "Cargo.toml").write_text(CARGO)
    install(["cargo", "build", "--quiet"], package)
    return [[package / "target/debug/redis_rs", *mode(one)] for one in programs]


def java(folder, library, *files):
    """The class path of a library and our programs for it."""
    if not shutil.which("mvn") or not shutil.which("javac"):
        stop(f"{library} needs mvn and a JDK")
    place = folder / library.replace(" ", "-")
    place.mkdir()
    dependencies = "".join(DEPENDENCY.format(*artifact) for artifact in JARS[library])
    (place / "pom.xml").write_text(POM.format(dependencies=dependencies))
    install(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"], place)
    install(["javac", "-nowarn", "-cp", f"{place}/jars/*", "-d", place / "classes", *files], place)
    return f"{place}/jars/*:{place}/classes"


def jedis(folder, programs):
    classes = {ALONE: "JedisProgram", CLUSTER: "JedisCluster"}
    path = java(folder, "Jedis", *[program / f"{classes[program]}.java" for program in programs])
    return [["java", "-cp", path, classes[program]] for program in programs]


def java_secure(library):
    def commands(folder, programs):
        name = f"{library}Secure"
        path = java(folder, library, SECURE / f"{name}.java", HERE / "Steps.java")
        return [["java", "-cp", path, name] for _ in programs]

    return commands


def java_program(library, name):
    def commands(folder, programs):
        path = java(folder, library, HERE / f"{name}.java", HERE / "Steps.java")
        return [["java", "-cp", path, name, *mode(program)] for program in programs]

    return commands


CLIENTS = {
    "redis_py": redis_py,
    "ioredis": ioredis,
    "node_redis": node_redis,
    "go_redis": go_redis,
    "rueidis": rueidis,
    "asynq": asynq,
    "jedis": jedis,
    "lettuce": java_program("Lettuce", "LettuceProgram"),
    "spring": java_program("Spring Data Redis", "SpringProgram"),
    "redisson": java_program("Redisson", "RedissonProgram"),
    "redis_rs": redis_rs,
}

# Of --tls and --acl.
SECURE_CLIENTS = {
    "redis_py": redis_py,
    "ioredis": ioredis,
    "go_redis": go_redis,
    "jedis": java_secure("Jedis"),
    "lettuce": java_secure("Lettuce"),
}


def java_ride(library, name):
    def commands(folder, programs):
        path = java(folder, library, FAILOVER / f"{name}.java", FAILOVER / "Ride.java")
        return [["java", "-XX:+UseSerialGC", "-cp", path, name] for _ in programs]

    return commands


# Of --failover.
RIDERS = {
    "redis_py": redis_py,
    "go_redis": go_redis,
    "ioredis": ioredis,
    "jedis": java_ride("Jedis", "JedisRide"),
    "lettuce": java_ride("Lettuce", "LettuceRide"),
}
