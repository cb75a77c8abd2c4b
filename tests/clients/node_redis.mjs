// What node-redis's helpers need, of version 4 and of today's. Usage: node node_redis.mjs VERSION [smart] PORT [cluster]; VERSION names the
// package; prints a line per failure, then totals. `smart`: its client of clusters.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const [version, ...rest] = process.argv.slice(2);
const smart = rest[0] === "smart";
const port = Number(rest[smart ? 1 : 0]);
// The packages lie in the folder the script is run from, not beside it.
const redis = createRequire(process.cwd() + "/")(version);
const url = `redis://127.0.0.1:${port}`;
const make = (options = {}) => (smart ? redis.createCluster({ rootNodes: [{ url }], defaults: options }) : redis.createClient({ url, ...options }));
const keys = Array.from({ length: 500 }, (_, number) => `key:${number}`);

async function connect(options) {
  const client = make(options);
  client.on("error", (error) => console.log(`error: ${error.message}`));
  await client.connect();
  return client;
}

/** All keys by the library's own loop, which version 4 gives one by one and later ones in arrays. */
async function scanned(node) {
  const found = [];
  for await (const some of node.scanIterator({ COUNT: 7 })) found.push(...[some].flat());
  return found;
}

const nodesOf = async (r) => (smart ? Promise.all(r.masters.map((master) => r.nodeClient(master))) : [r]);

const tests = {
  async strings(r) {
    assert.equal(await r.set("a", "1", { EX: 100, NX: true }), "OK");
    assert.equal(await r.set("a", "2", { NX: true }), null);
    assert.equal(await r.incrBy("a", 4), 5);
    assert.equal(await r.get("a"), "5");
  },

  async collections(r) {
    await r.hSet("h", { a: "1", b: "2" });
    assert.deepEqual({ ...(await r.hGetAll("h")) }, { a: "1", b: "2" });
    await r.zAdd("z", [{ score: 1.5, value: "a" }, { score: 2, value: "b" }]);
    assert.deepEqual((await r.zRangeWithScores("z", 0, -1)).map(({ score }) => score), [1.5, 2]);
    await r.rPush("l", ["1", "2", "3"]);
    assert.deepEqual(await r.lRange("l", 0, -1), ["1", "2", "3"]);
    const id = await r.xAdd("x", "*", { f: "v" });
    assert.equal((await r.xRange("x", "-", "+"))[0].id, id);
  },

  async manyAtOnce(r) {
    await Promise.all(keys.map((key) => r.set(key, key)));
    assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys);
  },

  async transactions(r) {
    assert.deepEqual(await r.multi().set("{t}a", "1").incr("{t}a").get("{t}a").exec(), ["OK", 2, "2"]);
  },

  async scripts(r) {
    assert.equal(await r.eval("return redis.call('incrby', KEYS[1], ARGV[1])", { keys: ["n"], arguments: ["3"] }), 3);
  },

  async messages(r) {
    const subscriber = await connect();
    const seen = new Promise((done) => subscriber.subscribe("news", done));
    let waiting = true;
    seen.then(() => (waiting = false));
    while (waiting) {
      await r.publish("news", "text");
      await sleep(10);
    }
    assert.equal(await seen, "text");
    await subscriber.destroy?.() ?? (await subscriber.disconnect());
  },

  async blockingPops(r) {
    const other = await connect();
    const popped = other.blPop("list", 20);
    await r.rPush("list", "1");
    assert.equal((await popped).element, "1");
    await other.destroy?.() ?? (await other.disconnect());
  },

  async scans(r) {
    await Promise.all(keys.map((key) => r.set(key, key)));
    const found = [];
    for (const node of await nodesOf(r)) found.push(...(await scanned(node)));
    assert.deepEqual(found.sort(), keys.toSorted());
    const fields = Object.fromEntries(keys.map((key) => [key, key]));
    await r.hSet("h", fields);
    const seen = [];
    for await (const some of r.hScanIterator?.("h", { COUNT: 7 }) ?? []) seen.push(...[some].flat());
    if (r.hScanIterator) assert.equal(new Set(seen.map(({ field }) => field)).size, keys.length);
  },
};

let passed = 0;
let failed = 0;
const title = `${version}${smart ? ", cluster" : ""}`;
for (const [name, run] of Object.entries(tests)) {
  const r = await connect();
  try {
    for (const node of await nodesOf(r)) await node.flushAll();
    await Promise.race([run(r), sleep(30_000, null, { ref: false }).then(() => assert.fail("no end after 30 s"))]);
    passed++;
  } catch (error) {
    failed++;
    console.log(`${title}: ${name}\n${error.stack}`);
  }
  await r.destroy?.() ?? (await r.disconnect());
}
console.log(`${title}: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
