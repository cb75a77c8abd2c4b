// ioredis with certificates and users of few rights. Usage: node ioredis.mjs PORT [cluster] [tls=FOLDER] [acl]; prints a
// line per failure, then totals.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The packages lie in the folder the script is run from, not beside it.
const { Cluster, Redis } = createRequire(process.cwd() + "/")("ioredis");
const [, , port, ...words] = process.argv;
const cluster = words.includes("cluster"), acl = words.includes("acl");
const certificates = words.find((word) => word.startsWith("tls="))?.slice(4);
const keys = Array.from({ length: 100 }, (_, number) => `app:${number}`);
const read = (file) => readFileSync(`${certificates}/${file}`);

const tls = (name, authority = "ca") =>
  certificates
    ? { tls: { ca: read(`${authority}.crt`), ...(name && { cert: read(`${name}.crt`), key: read(`${name}.key`) }) } }
    : {};
const open = [];

function connect(options) {
  const once = { maxRetriesPerRequest: 1, retryStrategy: null, ...options };
  const r = cluster
    ? new Cluster([{ host: "127.0.0.1", port: Number(port) }], { redisOptions: once, clusterRetryStrategy: null, slotsRefreshTimeout: 5000 })
    : new Redis({ host: "127.0.0.1", port: Number(port), ...once });
  r.on("error", () => {});
  open.push(r);
  return r;
}

const app = (more = {}) =>
  connect({ ...tls("app"), ...(acl && !certificates && { username: "app", password: "secret" }), ...more });
const reader = (password = "glasses") => connect({ ...tls("guest"), username: "reader", password });

const tests = {
  async commandsAndPipelines() {
    const r = app();
    await Promise.all(keys.map((key) => r.set(key, key)));
    assert.deepEqual(await Promise.all(keys.map((key) => r.get(key))), keys);
    const replies = await r.pipeline().set("app:{a}1", "x").append("app:{a}1", "y").get("app:{a}1").exec();
    assert.deepEqual(replies.map(([, reply]) => reply), ["OK", 2, "xy"]);
    assert.deepEqual(await r.multi().set("app:{t}", 1).incr("app:{t}").exec(), [[null, "OK"], [null, 2]]);
    const large = "x".repeat(4 << 20);
    await r.set("app:large", large);
    assert.equal(await r.get("app:large"), large);
    assert.equal(await r.blpop("app:none", 0.1), null);
  },

  async messages() {
    const [r, listener] = [app(), app()];
    const heard = new Promise((resolve) => listener.on("message", (channel, text) => resolve([channel, text])));
    await listener.subscribe("app:news");
    while ((await r.publish("app:news", "text")) === 0) await sleep(20);
    assert.deepEqual(await heard, ["app:news", "text"]);
  },
};

if (acl) {
  tests.whatTheUserMayNot = async () => {
    const r = app();
    await assert.rejects(r.set("other", 1), /NOPERM No permissions to access a key/);
    assert.equal(await r.acl("WHOAMI"), "app");
    await assert.rejects(r.eval("return 1", 1, "app:1"), /NOPERM/);
    await assert.rejects(r.publish("other", "text"), /NOPERM/);
    await assert.rejects(r.multi().set("app:{b}", 1).set("{b}other", 1).exec(), /EXECABORT/);
    assert.equal(await r.get("app:{b}"), null);
  };
  tests.oneThatOnlyReads = async () => {
    await app().set("app:{r}", "text");
    const r = reader();
    assert.equal(await r.get("app:{r}"), "text");
    await assert.rejects(r.set("app:{r}", 1), /NOPERM User reader has no permissions to run the 'set' command/);
    await assert.rejects(r.get("other"), /NOPERM/);
    await assert.rejects(reader("wrong").get("app:{r}"));
  };
}

if (certificates) {
  tests.whoIsLetIn = async () => {
    for (const options of [tls(null), tls("stranger"), tls("app", "other")]) {
      await assert.rejects(connect(options).get("app:1"));
    }
    assert.equal(await (acl ? reader() : connect(tls("guest"))).strlen("app:large"), 4 << 20);
  };
}

let passed = 0, failed = 0;
for (const [name, run] of Object.entries(tests)) {
  try {
    await run();
    passed++;
  } catch (error) {
    failed++;
    console.log(`ioredis, ${words.join(" ")}: ${name}: ${error.stack}`);
  }
  for (const r of open.splice(0)) r.disconnect();
}
console.log(`ioredis: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
