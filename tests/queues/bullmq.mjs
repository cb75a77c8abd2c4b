// BullMQ under load. Usage: node bullmq.mjs HOST PORT SCENARIO; the last line is what it found, as JSON.
// The same file is the worker process: node bullmq.mjs HOST PORT worker OPTIONS.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

// The packages lie in the folder the script is run from, not beside it.
const require = createRequire(process.cwd() + "/");
const { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } = require("bullmq");
const { Redis } = require("ioredis");

const [, , host, port, scenario, workerOptions] = process.argv;
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
// What ran, beside BullMQ's own books: `ran` counts runs by job, `order` lists them.
const ledger = new Redis(connection);

// What a job does is said in its data: ms of work, how many runs fail, the value returned.
async function perform(job) {
  const { ms = 0, fails = 0, fatal = false, logs = 0 } = job.data;
  const at = Date.now();
  const runs = await ledger.hincrby("ran", job.id, 1);
  await ledger.rpush("order", job.id);
  if (job.data.gauge) {
    const now = await ledger.incr("running");
    await ledger.zadd("peaks", "GT", now, "peak");
    await ledger.zadd("starts", at, `${job.id}:${runs}`);
  }
  if (ms) await sleep(ms);
  if (job.data.gauge) await ledger.decr("running");
  for (let number = 0; number < logs; number++) await job.log(`line ${number}`);
  if (logs) await job.updateProgress({ part: logs });
  if (fatal) throw new UnrecoverableError("fatal");
  if (runs <= fails) throw new Error(`run ${runs} fails`);
  const children = Object.values(await (job.data.parent ? job.getChildrenValues() : {}));
  return { value: (job.data.value ?? 0) + children.reduce((sum, child) => sum + child.value, 0), at };
}

function startWorker({ queue, ...options }) {
  const worker = new Worker(queue, perform, { connection, ...options });
  worker.on("error", (error) => console.log(`worker: ${error.stack}`));
  return worker;
}

// Worker processes; each says when it is ready.
async function workers(count, options) {
  const forked = Array.from({ length: count }, () =>
    fork(fileURLToPath(import.meta.url), [host, port, "worker", JSON.stringify(options)]));
  await Promise.all(forked.map((one) => new Promise((ready) => one.once("message", ready))));
  return forked;
}

const open = (name, options) => new Queue(name, { connection, ...options });

async function eventually(what, holds, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const last = await holds();
    if (last === true) return;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}: ${JSON.stringify(last)}`);
    await sleep(100);
  }
}

// Until the queue has these many finished jobs and nothing else.
async function finished(queue, completed, failed = 0, seconds = 40) {
  await eventually(`${completed} completed, ${failed} failed`, async () => {
    const counts = await queue.getJobCounts();
    const others = Object.keys(counts).some((state) => !["completed", "failed"].includes(state) && counts[state] > 0);
    return (!others && counts.completed === completed && counts.failed === failed) || counts;
  }, seconds);
}

async function runsByJob() {
  return Object.values(await ledger.hgetall("ran")).map(Number);
}

const digest = (list) => createHash("sha256").update(JSON.stringify(list)).digest("hex").slice(0, 16);
const numbers = (count) => Array.from({ length: count }, (_, number) => number);
// A fixed sequence that looks random, the same for every server.
const scattered = (number, below) => (number * 7919 + 13) % below;

async function results(queue) {
  const jobs = await queue.getJobs(["completed"], 0, -1);
  return jobs.map((job) => [job.data.number, job.returnvalue?.value, job.attemptsMade]).sort((a, b) => a[0] - b[0]);
}

const scenarios = {
  // Four processes take jobs while they are added, one by one and in bulk.
  async load() {
    const count = 4000;
    const queue = open("load");
    await workers(4, { queue: "load", concurrency: 25 });
    for (let from = 0; from < count; from += 500) {
      const some = numbers(500).map((number) => ({ name: "work", data: { number: from + number, value: from + number } }));
      await queue.addBulk(some.slice(0, 400));
      await Promise.all(some.slice(400).map(({ name, data }) => queue.add(name, data)));
    }
    await finished(queue, count);
    const ran = await runsByJob();
    assert.deepEqual([ran.length, Math.max(...ran)], [count, 1], "each job ran once");
    const found = await results(queue);
    assert.deepEqual(found, numbers(count).map((number) => [number, number, 1]));
    return { jobs: count, facts: { results: digest(found), counts: await queue.getJobCounts() } };
  },

  // No job runs before its time, and none long after it.
  async delayed() {
    const count = 1000;
    const queue = open("delayed");
    await workers(2, { queue: "delayed", concurrency: 25 });
    await queue.addBulk(numbers(count).map((number) =>
      ({ name: "later", data: { number, value: 1 }, opts: { delay: 200 + scattered(number, 3000) } })));
    const far = await queue.add("far", { number: -1 }, { delay: 3_600_000 });
    await eventually("the far one is alone", async () => (await queue.getDelayedCount()) === 1);
    await far.changeDelay(100);
    await finished(queue, count + 1);
    // By the worker's clock: BullMQ's processedOn is when a worker asked, which may be before another promoted the job.
    const jobs = (await queue.getJobs(["completed"], 0, -1)).filter((job) => job.id !== far.id);
    const late = jobs.map((job) => job.returnvalue.at - job.timestamp - job.opts.delay).sort((a, b) => a - b);
    assert.ok(late[0] >= 0, `a job ran ${-late[0]} ms early`);
    assert.ok(late.at(-1) < 2000, `a job ran ${late.at(-1)} ms late`);
    assert.equal(Math.max(...await runsByJob()), 1);
    return { jobs: count + 1, late: late[late.length >> 1], facts: { results: digest(await results(queue)) } };
  },

  // One worker, all jobs there before it: the order is exact.
  async priorities() {
    const count = 600;
    const queue = open("priorities");
    await queue.addBulk(numbers(count).map((number) =>
      ({ name: "first", data: { number }, opts: { jobId: `n-${number}`, priority: scattered(number, 11) } })));
    await queue.add("changed", {}, { jobId: "changed", priority: 10 }).then((job) => job.changePriority({ priority: 1 }));
    await queue.add("last in", {}, { jobId: "lifo", lifo: true });
    const expected = ["lifo"];
    for (let priority = 0; priority < 11; priority++) {
      expected.push(...numbers(count).filter((number) => scattered(number, 11) === priority).map((number) => `n-${number}`));
      if (priority === 1) expected.push("changed");
    }
    const perPriority = await queue.getCountsPerPriority(numbers(11));
    const worker = startWorker({ queue: "priorities", concurrency: 1 });
    await finished(queue, count + 2);
    await worker.close();
    const order = await ledger.lrange("order", 0, -1);
    assert.deepEqual(order, expected);
    return { jobs: count + 2, facts: { order: digest(order), perPriority } };
  },

  // Attempts and backoff; those that fail for good are retried by hand.
  async retries() {
    const count = 300;
    const queue = open("retries");
    await workers(2, { queue: "retries", concurrency: 20 });
    await queue.addBulk(numbers(count).map((number) => ({
      name: "shaky",
      data: { number, value: number, fails: number % 4, fatal: number % 50 === 49 },
      opts: { attempts: 3, backoff: { type: number % 2 ? "exponential" : "fixed", delay: 20 } },
    })));
    const fatal = numbers(count).filter((number) => number % 50 === 49).length;
    const hopeless = numbers(count).filter((number) => number % 4 === 3 && number % 50 !== 49).length;
    await finished(queue, count - hopeless - fatal, hopeless + fatal);
    const reasons = (await queue.getFailed(0, -1)).map((job) => [job.data.number, job.failedReason, job.attemptsMade]);
    await queue.retryJobs({ state: "failed" });
    await finished(queue, count - fatal, fatal);
    const found = await results(queue);
    return { jobs: count, facts: { reasons: digest(reasons.sort((a, b) => a[0] - b[0])), results: digest(found) } };
  },

  // Job schedulers by interval and by pattern, with limits, changed and removed.
  async schedulers() {
    const queue = open("schedulers");
    await workers(2, { queue: "schedulers", concurrency: 5 });
    await queue.upsertJobScheduler("quick", { every: 100, limit: 20 }, { name: "quick", data: { value: 1 } });
    await queue.upsertJobScheduler("seconds", { pattern: "* * * * * *", limit: 3 }, { name: "seconds" });
    await queue.upsertJobScheduler("changed", { every: 3_600_000 }, { name: "changed" });
    await queue.upsertJobScheduler("changed", { every: 150, limit: 5 }, { name: "changed" });
    await queue.upsertJobScheduler("removed", { pattern: "0 0 1 1 *" }, { name: "removed" });
    const ids = (await queue.getJobSchedulers()).map((one) => one.key).sort();
    assert.ok(await queue.removeJobScheduler("removed"));
    const count = async (name) => (await queue.getJobs(["completed"], 0, -1)).filter((job) => job.name === name).length;
    const all = async () => ({ quick: await count("quick"), seconds: await count("seconds"), changed: await count("changed") });
    await eventually("schedulers end at their limits", async () => {
      const now = await all();
      return (now.quick >= 20 && now.seconds >= 3 && now.changed >= 5) || now;
    });
    await sleep(1500);
    const ran = await all();
    assert.equal(ran.quick, 20);
    assert.equal(ran.seconds, 3);
    assert.equal(Math.max(...await runsByJob()), 1);
    // Its first run may have come before it was changed.
    assert.ok(ran.changed === 5 || ran.changed === 6, `${ran.changed} of the changed one`);
    return { jobs: ran.quick + ran.seconds + ran.changed, facts: { quick: ran.quick, seconds: ran.seconds, ids } };
  },

  // At most so many in a time (limiter), and at once (global concurrency).
  async limits() {
    const queue = open("rated");
    await queue.addBulk(numbers(200).map((number) => ({ name: "rated", data: { number, gauge: true } })));
    const limiter = { max: 40, duration: 500 };
    const rated = await workers(2, { queue: "rated", concurrency: 10, limiter });
    const began = Date.now();
    await finished(queue, 200);
    const took = Date.now() - began;
    rated.forEach((one) => one.kill("SIGKILL"));
    assert.ok(took >= 1900, `200 jobs at 40 in 500 ms took ${took} ms`);
    const starts = (await ledger.zrange("starts", 0, -1, "WITHSCORES")).filter((_, at) => at % 2).map(Number);
    for (let first = 0; first + 2 * 40 < starts.length; first++) {
      // A window of the server's may begin anywhere: two of them are the bound for any 450 ms.
      assert.ok(starts[first + 80] - starts[first] > 450, "no more than two windows' jobs in one");
    }

    const narrow = open("narrow");
    await ledger.del("peaks", "running", "starts");
    await narrow.setGlobalConcurrency(3);
    await narrow.addBulk(numbers(200).map((number) => ({ name: "narrow", data: { number, ms: 5, gauge: true } })));
    await workers(2, { queue: "narrow", concurrency: 10 });
    await finished(narrow, 200);
    const peak = Number(await ledger.zscore("peaks", "peak"));
    assert.equal(peak, 3);
    return { jobs: 400, facts: { peak } };
  },

  // Trees of jobs over two queues: parents wait for their children and add up their values.
  async flows() {
    const flows = new FlowProducer({ connection });
    const [top, leaf] = [open("top"), open("leaf")];
    await workers(2, { queue: "top", concurrency: 10 });
    await workers(2, { queue: "leaf", concurrency: 20 });
    const leaves = (count, extra = {}) => numbers(count).map((value) => ({ name: "leaf", queueName: "leaf", data: { value, number: value }, ...extra }));
    const trees = 40;
    const added = await flows.addBulk(numbers(trees).map((number) => ({
      name: "root", queueName: "top", data: { number, parent: true },
      children: numbers(3).map(() => ({ name: "middle", queueName: "top", data: { number: -1, parent: true }, children: leaves(8) })),
    })));
    await finished(top, trees * 4);
    await finished(leaf, trees * 24);
    for (const { job } of added) {
      const root = await top.getJob(job.id);
      assert.equal(root.returnvalue.value, 3 * 28);
      assert.deepEqual(await root.getDependenciesCount({ processed: true, unprocessed: true }), { processed: 3, unprocessed: 0 });
    }
    assert.equal(Math.max(...await runsByJob()), 1);

    // A child that fails: with its parent, or without touching it.
    const failing = { name: "leaf", queueName: "leaf", data: { fatal: true } };
    const strict = await flows.add({ name: "root", queueName: "top", data: { parent: true, number: 0 },
      children: [...leaves(2), { ...failing, opts: { failParentOnFailure: true } }] });
    const lax = await flows.add({ name: "root", queueName: "top", data: { parent: true, number: 0 },
      children: [...leaves(3), { ...failing, opts: { ignoreDependencyOnFailure: true } }] });
    await finished(top, trees * 4 + 1, 1);
    assert.equal(await strict.job.getState(), "failed");
    const laxRoot = await top.getJob(lax.job.id);
    assert.equal(laxRoot.returnvalue.value, 3);
    return { jobs: trees * 28 + 9, facts: { top: digest(await results(top)), leaf: await leaf.getJobCounts() } };
  },

  // What applications do besides: pause, drain, clean, remove, deduplicate, progress, logs, events, obliterate.
  async upkeep() {
    const queue = open("upkeep");
    const events = new QueueEvents("upkeep", { connection, lastEventId: "0" });
    const seen = {};
    for (const name of ["added", "waiting", "active", "completed", "failed", "progress", "deduplicated", "delayed", "removed", "drained"]) {
      events.on(name, () => (seen[name] = (seen[name] ?? 0) + 1));
    }
    await events.waitUntilReady();
    await queue.pause();
    const jobs = await queue.addBulk(numbers(100).map((number) => ({ name: "job", data: { number, logs: number % 3 } })));
    const same = await Promise.all(numbers(50).map(() => queue.add("once", { number: 1000 }, { deduplication: { id: "same" } })));
    assert.equal(new Set(same.map((job) => job.id)).size, 1);
    const later = await queue.add("later", {}, { delay: 3_600_000 });
    const paused = await queue.getJobCounts();
    await Promise.all(jobs.slice(0, 20).map((job) => job.remove()));
    const worker = startWorker({ queue: "upkeep", concurrency: 10 });
    await sleep(200);
    assert.equal(await ledger.hlen("ran"), 0, "nothing runs while paused");
    await queue.resume();
    await eventually("81 are done", async () => (await queue.getCompletedCount()) === 81);
    const waited = await queue.add("waited", { value: 5 });
    assert.equal((await waited.waitUntilFinished(events, 10_000)).value, 5);
    const logs = await queue.getJobLogs(jobs[50].id);
    assert.deepEqual(logs.logs, ["line 0", "line 1"]);
    await later.promote();
    await eventually("the promoted one is done", async () => (await later.getState()) === "completed");
    await worker.close();
    const cleaned = (await queue.clean(0, 50, "completed")).length;
    await queue.addBulk(numbers(30).map(() => ({ name: "left" })));
    await queue.drain();
    const drained = await queue.getJobCounts();
    const expected = { added: 103, active: 83, completed: 83, progress: 53 };
    await eventually("events", async () => Object.entries(expected).every(([name, count]) => (seen[name] ?? 0) >= count) || seen);
    await events.close();
    await queue.obliterate({ force: true });
    assert.deepEqual(await ledger.keys("bull:upkeep:*"), []);
    delete seen.drained;
    return { jobs: 133, facts: { paused, drained, cleaned, seen } };
  },

  // Two thousand jobs that are listed, cleaned, drained and obliterated: each in few scripts that use keys they do not declare.
  async many() {
    const count = 2000;
    const queue = open("many");
    await queue.pause();
    await queue.addBulk(numbers(count).map((number) => ({ name: "work", data: { number } })));
    await queue.addBulk(numbers(200).map((number) => ({ name: "later", data: { number }, opts: { delay: 3_600_000 } })));
    const listed = await queue.getJobs(["waiting", "delayed"], 0, -1);
    assert.equal(listed.length, count + 200);
    assert.equal(new Set(listed.map((job) => job.id)).size, count + 200);
    await queue.resume();
    await workers(2, { queue: "many", concurrency: 25 });
    await eventually("all but the later ones are done", async () => (await queue.getCompletedCount()) === count, 150);
    const cleaned = (await queue.clean(0, 1500, "completed")).length;
    await queue.pause();
    await queue.addBulk(numbers(count).map((number) => ({ name: "left", data: { number } })));
    await queue.drain(true);
    const left = await queue.getJobCounts();
    assert.deepEqual([left.waiting, left.delayed, left.completed], [0, 0, count - cleaned]);
    await queue.obliterate({ force: true });
    assert.deepEqual(await ledger.keys("bull:many:*"), []);
    return { jobs: 2 * count + 200, facts: { cleaned, left } };
  },

  // One of four processes is killed at work: its jobs stall and run again, nobody else's do.
  async killed() {
    const count = 2000;
    const queue = open("killed");
    const events = new QueueEvents("killed", { connection, lastEventId: "0" });
    const stalled = [];
    events.on("stalled", ({ jobId }) => stalled.push(jobId));
    await events.waitUntilReady();
    const forked = await workers(4, { queue: "killed", concurrency: 10, lockDuration: 1500, stalledInterval: 500, maxStalledCount: 2 });
    await queue.addBulk(numbers(count).map((number) => ({ name: "work", data: { number, value: number, ms: 10 } })));
    await eventually("a third is done", async () => (await queue.getCompletedCount()) > count / 3);
    forked[0].kill("SIGKILL");
    await finished(queue, count);
    const ran = await ledger.hgetall("ran");
    assert.equal(Object.keys(ran).length, count, "no job is lost");
    const again = Object.keys(ran).filter((id) => ran[id] !== "1");
    assert.ok(again.length <= 10 && again.every((id) => ran[id] === "2"), `ran again: ${JSON.stringify(again)}`);
    await eventually("events of stalls", async () => again.every((id) => stalled.includes(id)) || { again, stalled });
    assert.ok(stalled.length > 0 && stalled.length <= 10, `${stalled.length} stalled`);
    assert.equal(await ledger.llen("bull:killed:active"), 0);
    await events.close();
    return { jobs: count, facts: { results: digest((await results(queue)).map(([number, value]) => [number, value])) } };
  },
};

if (scenario === "worker") {
  // A worker whose parent is gone has nothing to live for.
  process.on("disconnect", () => process.exit(0));
  const options = JSON.parse(workerOptions);
  await startWorker(options).waitUntilReady();
  process.send("ready");
} else {
  try {
    console.log(JSON.stringify(await scenarios[scenario]()));
    process.exit(0);
  } catch (error) {
    console.log(error.stack);
    process.exit(1);
  }
}
