// What ioredis's Cluster needs of a cluster. Usage: node ioredis.mjs PORT, of any node; prints a line per failure, then totals.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The packages lie in the folder the script is run from, not beside it.
const { Cluster } = createRequire(process.cwd() + "/")("ioredis");
const port = Number(process.argv[2]);
const connect = (options = {}) => new Cluster([{ host: "127.0.0.1", port }], options);
const keys = Array.from({ length: 200 }, (_, number) => `key:${number}`);

const fill = (r) => Promise.all(keys.map((key) => r.set(key, key)));

const tests = {
  async keysOfAllNodes(r) {
    await fill(r);
    assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys);
    assert.equal(r.nodes("master").length, 3);
    assert.deepEqual(await r.mget("{a}1", "{a}2"), [null, null]);
  },

  async oneCommandWithKeysOfAllNodes(r) {
    for (const node of r.nodes("master")) {
      assert.equal(await node.mset(keys.flatMap((key) => [key, key])), "OK");
      assert.deepEqual(await node.mget(keys), keys);
    }
  },

  async pipelines(r) {
    const replies = await r.pipeline().set("{a}1", "x").incr("{a}1").get("{a}1").exec();
    assert.equal(replies[0][1], "OK");
    assert.match(replies[1][0].message, /not an integer/);
    assert.equal(replies[2][1], "x");
  },

  async automaticPipelines() {
    const r = connect({ enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 1000 }, (_, number) => r.incr(`n:${number % 10}`)));
    assert.equal(Math.max(...replies), 100);
    r.disconnect();
  },

  async transactions(r) {
    assert.deepEqual(await r.multi().set("{a}1", 1).incr("{a}1").exec(), [[null, "OK"], [null, 2]]);
  },

  async scripts(r) {
    r.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
    assert.deepEqual(await Promise.all(keys.map((key) => r.add(key, 2))), keys.map(() => 2));
  },

  async messages(r) {
    const subscriber = connect();
    const seen = new Promise((done) => subscriber.on("message", (channel, text) => done([channel, text])));
    await subscriber.subscribe("news");
    assert.ok((await r.publish("news", "text")) >= 1);
    assert.deepEqual(await seen, ["news", "text"]);
    subscriber.disconnect();
    const sharded = connect({ shardedSubscribers: true });
    const text = new Promise((done) => sharded.on("smessage", (channel, message) => done([channel, message])));
    await sharded.ssubscribe("shard");
    await r.spublish("shard", "text");
    assert.deepEqual(await text, ["shard", "text"]);
    sharded.disconnect();
  },

  // As socket.io's adapter counts whom to wait for.
  async subscribersOfAllNodes(r) {
    const subscribers = [connect(), connect()];
    for (const subscriber of subscribers) await subscriber.subscribe("requests");
    const counts = await Promise.all(r.nodes("master").map((node) => node.pubsub("NUMSUB", "requests")));
    assert.equal(counts.reduce((sum, [, count]) => sum + Number(count), 0), subscribers.length);
    subscribers.forEach((subscriber) => subscriber.disconnect());
  },

  async blockingPops(r) {
    const other = connect();
    const popped = other.blpop("list", 20);
    const isBlocked = (info) => !info.includes("blocked_clients:0");
    while (!(await Promise.all(r.nodes("master").map((node) => node.info("clients")))).some(isBlocked)) await sleep(5);
    await r.rpush("list", 1);
    assert.deepEqual(await popped, ["list", "1"]);
    other.disconnect();
  },

  // At the port for smart clients each node has its own keys.
  async nodesOfTheirOwn(r) {
    await fill(r);
    const counts = await Promise.all(r.nodes("master").map((node) => node.dbsize()));
    assert.equal(counts.reduce((sum, count) => sum + count), keys.length);
    assert.ok(counts.every((count) => count > 0));
    const found = [];
    for (const node of r.nodes("master")) for await (const some of node.scanStream({ count: 7 })) found.push(...some);
    assert.deepEqual(found.sort(), keys.toSorted());
    const replies = await Promise.allSettled(r.nodes("master").map((node) => node.get("key:1")));
    const refused = replies.filter((reply) => reply.status === "rejected");
    assert.equal(refused.length, 2);
    assert.ok(refused.every((reply) => /^MOVED /.test(reply.reason.message)));
  },
};

let passed = 0;
let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  const r = connect();
  try {
    await new Promise((done, fail) => r.once("ready", done).once("error", fail));
    for (const node of r.nodes("master")) await node.flushall();
    const limit = sleep(30_000, null, { ref: false }).then(() => assert.fail("no end after 30 s"));
    await Promise.race([run(r), limit]);
    passed++;
  } catch (error) {
    failed++;
    console.log(`Cluster of ioredis: ${name}\n${error.stack}`);
  }
  r.disconnect();
}
console.log(`Cluster of ioredis: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
