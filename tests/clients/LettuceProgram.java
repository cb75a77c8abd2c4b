import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;

/** What Lettuce needs, alone and as a client of clusters. Usage: LettuceProgram [smart] PORT [cluster]. */
public final class LettuceProgram {
    private static final int KEYS = 500;

    public static void main(String[] words) {
        boolean smart = words[0].equals("smart");
        String url = "redis://127.0.0.1:" + words[smart ? 1 : 0];
        if (smart) cluster(url);
        else alone(url);
    }

    private static TreeSet<String> keys() {
        var keys = new TreeSet<String>();
        for (int number = 0; number < KEYS; number++) keys.add("key:" + number);
        return keys;
    }

    private static void alone(String url) {
        var steps = new Steps("Lettuce");
        var client = RedisClient.create(url);
        RedisCommands<String, String> r = client.connect().sync();
        r.flushall();
        steps.step("strings", () -> {
            Steps.same(r.set("a", "1", SetArgs.Builder.ex(100).nx()), "OK");
            Steps.same(r.incrby("a", 4), 5L);
            Steps.same(r.mget("a", "none").get(0), KeyValue.just("a", "5"));
        });
        steps.step("collections", () -> {
            r.hset("h", Map.of("a", "1", "b", "2"));
            Steps.same(r.hgetall("h"), Map.of("a", "1", "b", "2"));
            r.zadd("z", 1.5, "a");
            Steps.same(r.zscore("z", "a"), 1.5);
        });
        steps.step("many at once", () -> {
            var async = client.connect().async();
            var replies = keys().stream().map(key -> async.set(key, key)).toList();
            for (var reply : replies) Steps.same(reply.get(), "OK");
        });
        steps.step("transactions", () -> {
            r.multi();
            r.set("{t}n", "1");
            r.incr("{t}n");
            Steps.same(r.exec().get(1), (Object) 2L);
        });
        steps.step("scripts", () -> {
            Long sum = r.eval("return redis.call('incrby', KEYS[1], ARGV[1])", ScriptOutputType.INTEGER, new String[] {"n"}, "3");
            Steps.same(sum, 3L);
        });
        steps.step("messages", () -> {
            var heard = new AtomicReference<String>();
            var subscriber = client.connectPubSub();
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    heard.set(text);
                }
            });
            subscriber.sync().subscribe("news");
            Steps.same(r.publish("news", "text"), 1L);
            Steps.until(() -> "text".equals(heard.get()));
            subscriber.close();
        });
        steps.step("client-side caching", () -> {
            var cached = new ConcurrentHashMap<String, String>();
            var caching = client.connect();
            var front = ClientSideCaching.enable(CacheAccessor.forMap(cached), caching, TrackingArgs.Builder.enabled());
            for (String key : keys().headSet("key:2")) {
                r.set(key, "old");
                Steps.same(front.get(key), "old");
                r.set(key, "new");
            }
            for (String key : keys().headSet("key:2")) Steps.until(() -> "new".equals(front.get(key)));
            caching.close();
        });
        steps.step("scans", () -> {
            r.flushall();
            for (String key : keys()) r.set(key, key);
            var found = new TreeSet<String>();
            ScanIterator.scan(r, ScanArgs.Builder.limit(7)).forEachRemaining(found::add);
            Steps.same(found, keys());
            for (String key : keys()) r.hset("h", key, key);
            int fields = 0;
            for (var all = ScanIterator.hscan(r, "h", ScanArgs.Builder.limit(7)); all.hasNext(); all.next()) fields++;
            Steps.same(fields, KEYS);
        });
        steps.end();
    }

    private static void cluster(String url) {
        var steps = new Steps("Lettuce, cluster");
        RedisAdvancedClusterCommands<String, String> r = RedisClusterClient.create(url).connect().sync();
        r.flushall();
        steps.step("keys of all nodes", () -> {
            for (String key : keys()) Steps.same(r.set(key, key), "OK");
            for (String key : keys()) Steps.same(r.get(key), key);
        });
        steps.step("commands with keys of several nodes", () -> {
            var pairs = new HashMap<String, String>();
            for (String key : keys()) pairs.put(key, "new");
            Steps.same(r.mset(pairs), "OK");
            Steps.same((int) r.exists(keys().toArray(new String[0])).longValue(), KEYS);
        });
        steps.step("scripts", () -> {
            Long sum = r.eval("return redis.call('incrby', KEYS[1], ARGV[1])", ScriptOutputType.INTEGER, new String[] {"n"}, "3");
            Steps.same(sum, 3L);
            r.del("n");
        });
        steps.step("sums over nodes", () -> Steps.same(r.dbsize(), (long) KEYS));
        steps.step("scans", () -> {
            var found = new TreeSet<String>();
            KeyScanCursor<String> cursor = r.scan(ScanArgs.Builder.limit(7));
            int count = cursor.getKeys().size();
            found.addAll(cursor.getKeys());
            while (!cursor.isFinished()) {
                cursor = r.scan((ScanCursor) cursor, ScanArgs.Builder.limit(7));
                found.addAll(cursor.getKeys());
                count += cursor.getKeys().size();
            }
            Steps.same(found, keys());
            Steps.same(count, KEYS);
        });
        steps.end();
    }
}
