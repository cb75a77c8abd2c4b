// What ioredis's own helpers need of a server. Usage: node ioredis.mjs PORT; prints a line per failure, then totals.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The packages lie in the folder the script is run from, not beside it.
const { Redis } = createRequire(process.cwd() + "/")("ioredis");
const port = Number(process.argv[2]);
const connect = (options = {}) => new Redis({ port, ...options });

const tests = {
  async strings(r) {
    assert.equal(await r.set("a", "1", "EX", 100, "NX"), "OK");
    assert.equal(await r.set("a", "2", "NX"), null);
    assert.equal(await r.incrby("a", 4), 5);
    assert.deepEqual(await r.mget("a", "none"), ["5", null]);
    const bytes = Buffer.from([0, 13, 10, 255]);
    await r.set(bytes, bytes);
    assert.deepEqual(await r.getBuffer(bytes), bytes);
  },

  async collections(r) {
    await r.hset("h", { a: 1, b: 2 });
    assert.deepEqual(await r.hgetall("h"), { a: "1", b: "2" });
    assert.deepEqual(await r.hexpire("h", 100, "FIELDS", 2, "a", "none"), [1, -2]);
    assert.deepEqual(await r.httl("h", "FIELDS", 2, "a", "b"), [100, -1]);
    await r.zadd("z", 1.5, "a", 2, "b");
    assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["a", "1.5", "b", "2"]);
    assert.deepEqual(await r.zpopmax("z"), ["b", "2"]);
    await r.sadd("s", "x", "y");
    assert.deepEqual((await r.smembers("s")).sort(), ["x", "y"]);
    await r.rpush("l", 1, 2, 3);
    assert.deepEqual(await r.lrange("l", 0, -1), ["1", "2", "3"]);
  },

  async pipeline(r) {
    const results = await r.pipeline().set("text", "x").incr("text").get("text").exec();
    assert.equal(results[0][1], "OK");
    assert.match(results[1][0].message, /not an integer/);
    assert.equal(results[2][1], "x");
  },

  async automaticPipelines() {
    const r = connect({ enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 1000 }, () => r.incr("n")));
    assert.equal(Math.max(...replies), 1000);
    r.disconnect();
  },

  async transactions(r) {
    assert.deepEqual(await r.multi().set("a", 1).incr("a").exec(), [[null, "OK"], [null, 2]]);
    await r.multi({ pipeline: false });
    assert.equal(await r.get("a"), "QUEUED");
    assert.deepEqual(await r.exec(), [[null, "2"]]);
    await r.watch("a");
    const other = connect();
    await other.set("a", 9);
    other.disconnect();
    assert.equal(await r.multi().get("a").exec(), null);
  },

  async scanStreams(r) {
    const fill = r.pipeline();
    for (let number = 0; number < 1000; number++) fill.set(`key:${number}`, number).hset("big", number, number);
    await fill.exec();
    const seen = new Set();
    for await (const keys of r.scanStream({ match: "key:*", count: 100 })) keys.forEach((key) => seen.add(key));
    assert.equal(seen.size, 1000);
    const fields = new Set();
    for await (const pairs of r.hscanStream("big")) pairs.forEach((text) => fields.add(text));
    assert.equal(fields.size, 1000);
  },

  async blocking(r) {
    assert.equal(await r.blpop("none", 0.05), null);
    const waiter = connect();
    const taken = waiter.blpop("first", "second", 10);
    await sleep(50);
    await r.rpush("second", "value");
    assert.deepEqual(await taken, ["second", "value"]);
    waiter.disconnect();
  },

  async prefixesAndDatabases(r) {
    const prefixed = connect({ keyPrefix: "app:", db: 2, connectionName: "tester" });
    await prefixed.mset("a", 1, "b", 2);
    assert.equal(await prefixed.sort("none", "BY", "nosort").then((found) => found.length), 0);
    await r.select(2);
    assert.deepEqual((await r.keys("*")).sort(), ["app:a", "app:b"]);
    await r.select(0);
    assert.match(await r.client("LIST"), /name=tester/);
    prefixed.disconnect();
  },

  async readyCheckAndMonitor(r) {
    assert.match(await r.info("server"), /redis_version:/);
    const monitor = await connect().monitor();
    const seen = new Promise((done) => monitor.on("monitor", (_, args) => args[0] === "echo" && done(args)));
    await r.echo("hello");
    assert.deepEqual(await seen, ["echo", "hello"]);
    monitor.disconnect();
  },

  async scriptsStreamsAndMessages(r) {
    r.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    assert.equal(await r.add("n", 5), 5);
    assert.deepEqual(await r.multi().add("n", 1).get("n").exec(), [[null, 6], [null, "6"]]);
    const id = await r.xadd("stream", "*", "a", 1);
    assert.deepEqual(await r.xread("STREAMS", "stream", "0"), [["stream", [[id, ["a", "1"]]]]]);
    const subscriber = connect();
    const seen = new Promise((done) => subscriber.on("message", (channel, text) => done([channel, text])));
    await subscriber.subscribe("news");
    assert.equal(await r.publish("news", "text"), 1);
    assert.deepEqual(await seen, ["news", "text"]);
    subscriber.disconnect();
  },

  async whatIsNotThereSaysSo(r) {
    await assert.rejects(r.call("NONSENSE"), /unknown command/);
  },

  async manyConnections() {
    const clients = Array.from({ length: 100 }, () => connect());
    await Promise.all(clients.map((one) => one.incr("connections")));
    assert.equal(await clients[0].get("connections"), "100");
    clients.forEach((one) => one.disconnect());
  },
};

let passed = 0;
let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  const r = connect();
  try {
    await r.flushall();
    const limit = sleep(20_000, null, { ref: false }).then(() => assert.fail("no end after 20 s"));
    await Promise.race([run(r), limit]);
    passed++;
  } catch (error) {
    failed++;
    console.log(`ioredis: ${name}\n${error.stack}`);
  }
  r.disconnect();
}
console.log(`ioredis: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
