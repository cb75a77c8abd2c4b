// Writes without end by ioredis. Usage and output: ride.py beside it.
import { writeSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The packages lie in the folder the script is run from, not beside it.
const { Cluster, Redis } = createRequire(process.cwd() + "/")("ioredis");
const [kind, settings, rate, keys, addresses] = process.argv.slice(2);
const places = addresses.split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});

function connect() {
  const retryStrategy = (times) => Math.min(times * 10, 200);
  const server = settings === "tuned" ? { retryStrategy, maxRetriesPerRequest: 50, connectTimeout: 1000 } : {};
  if (kind === "sentinel") return new Redis({ sentinels: places, name: "mymaster", ...server });
  if (kind === "server") return new Redis({ ...places[0], ...server });
  const cluster = { clusterRetryStrategy: retryStrategy, maxRedirections: 50, redisOptions: { connectTimeout: 1000, socketTimeout: 1000 } };
  return new Cluster(places, settings === "tuned" ? cluster : {});
}

const now = () => performance.timeOrigin + performance.now();

async function write(client, key) {
  let due = now();
  for (let number = 0; ; number++) {
    const ahead = due - now();
    if (ahead > 0) await sleep(ahead);
    const began = now();
    due = Math.max(due + 1000 / Number(rate), began);
    let outcome = "ok";
    try {
      await client.rpush(key, number);
    } catch (error) {
      outcome = `${error.name}: ${error.message}`.replaceAll("\n", " ");
    }
    writeSync(1, `${key} ${number} ${began.toFixed(3)} ${now().toFixed(3)} ${outcome}\n`);
  }
}

const client = connect();
// Without it the library prints each lost connection.
client.on("error", () => {});
for (const key of keys.split(",")) write(client, key);
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
