import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.KeysScanOptions;
import org.redisson.config.Config;

/** What Redisson needs: locks, maps, semaphores, its scripts. Usage: RedissonProgram [smart] PORT [cluster]; `smart`: as a client of clusters. */
public final class RedissonProgram {
    private static final int KEYS = 500;

    public static void main(String[] words) {
        boolean smart = words[0].equals("smart");
        String url = "redis://127.0.0.1:" + words[smart ? 1 : 0];
        var steps = new Steps(smart ? "Redisson, cluster" : "Redisson");
        var config = new Config();
        if (smart) config.useClusterServers().addNodeAddress(url);
        else config.useSingleServer().setAddress(url);
        RedissonClient r = Redisson.create(config);
        r.getKeys().flushall();
        steps.step("buckets and counters", () -> {
            r.getBucket("a").set("1");
            Steps.same(r.getBucket("a").get(), (Object) "1");
            Steps.same(r.getAtomicLong("n").addAndGet(3), 3L);
        });
        steps.step("maps", () -> {
            var map = r.<String, String>getMap("map");
            map.put("a", "1");
            Steps.same(map.putIfAbsent("a", "2"), "1");
            Steps.same(map.fastRemove("a"), 1L);
            var aging = r.<String, String>getMapCache("aging");
            aging.put("a", "1", 1, TimeUnit.HOURS);
            Steps.same(aging.get("a"), "1");
        });
        steps.step("locks", () -> {
            var lock = r.getLock("lock");
            lock.lock();
            lock.lock();
            Steps.same(lock.getHoldCount(), 2);
            lock.unlock();
            lock.unlock();
            Steps.same(lock.isLocked(), false);
            Steps.same(r.getFairLock("fair").tryLock(1, 10, TimeUnit.SECONDS), true);
        });
        steps.step("a lock that is waited for", () -> {
            var lock = r.getLock("waited");
            lock.lock();
            var other = new Thread(() -> {
                lock.lock();
                r.getBucket("other").set("had it");
                lock.unlock();
            });
            other.start();
            Thread.sleep(50);
            lock.unlock();
            other.join(30_000);
            Steps.same(r.getBucket("other").get(), (Object) "had it");
        });
        steps.step("queues", () -> {
            var queue = r.<String>getBlockingQueue("queue");
            queue.add("job");
            Steps.same(queue.poll(20, TimeUnit.SECONDS), "job");
            var semaphore = r.getSemaphore("semaphore");
            Steps.same(semaphore.trySetPermits(2), true);
            semaphore.acquire(2);
            Steps.same(semaphore.tryAcquire(), false);
        });
        steps.step("topics", () -> {
            var heard = new AtomicReference<String>();
            r.getTopic("news").addListener(String.class, (channel, text) -> heard.set(text));
            Steps.same(r.getTopic("news").publish("text"), 1L);
            Steps.until(() -> "text".equals(heard.get()));
        });
        steps.step("scans", () -> {
            r.getKeys().flushall();
            var expected = new TreeSet<String>();
            for (int number = 0; number < KEYS; number++) {
                expected.add("key:" + number);
                r.getBucket("key:" + number).set("v");
            }
            var found = new TreeSet<String>();
            int count = 0;
            for (String key : r.getKeys().getKeys(KeysScanOptions.defaults().chunkSize(7))) {
                found.add(key);
                count++;
            }
            Steps.same(found, expected);
            Steps.same(count, KEYS);
            Steps.same(r.getKeys().count(), (long) KEYS);
        });
        steps.end();
    }
}
