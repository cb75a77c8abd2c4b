import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisMovedDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;

/** What Jedis's RedisClusterClient needs of a cluster. Usage: java JedisCluster PORT, of any node; prints a line per failure, then totals. */
public class JedisCluster {
    static final String[] KEYS = IntStream.range(0, 200).mapToObj(number -> "key:" + number).toArray(String[]::new);
    static HostAndPort address;
    static RedisProtocol protocol;

    interface Test {
        void run(RedisClusterClient r) throws Exception;
    }

    static final Map<String, Test> TESTS = new LinkedHashMap<>();

    static {
        TESTS.put("keys of all nodes", JedisCluster::keysOfAllNodes);
        TESTS.put("one command with keys of all nodes", JedisCluster::oneCommand);
        TESTS.put("pipelines", JedisCluster::pipelines);
        TESTS.put("scripts", JedisCluster::scripts);
        TESTS.put("messages", JedisCluster::messages);
        TESTS.put("blocking pops", JedisCluster::blockingPops);
        TESTS.put("nodes of their own", JedisCluster::nodesOfTheirOwn);
    }

    static RedisClusterClient connect() {
        return RedisClusterClient.builder().nodes(java.util.Set.of(address))
            .clientConfig(DefaultJedisClientConfig.builder().protocol(protocol).build()).build();
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void equal(Object got, Object expected) {
        check(Objects.equals(got, expected), "got " + got + ", expected " + expected);
    }

    /** A connection to each node. */
    static List<Jedis> nodes(RedisClusterClient r) {
        return r.getClusterNodes().keySet().stream().map(name -> new Jedis(HostAndPort.from(name))).toList();
    }

    static void fill(RedisClusterClient r) {
        for (String key : KEYS) equal(r.set(key, key), "OK");
    }

    static void keysOfAllNodes(RedisClusterClient r) {
        fill(r);
        for (String key : KEYS) equal(r.get(key), key);
        equal(r.getClusterNodes().size(), 3);
        equal(r.mget(KEYS), List.of(KEYS));
        equal(r.del(KEYS), 200L);
    }

    static void oneCommand(RedisClusterClient r) {
        String[] pairs = Arrays.stream(KEYS).flatMap(key -> List.of(key, key).stream()).toArray(String[]::new);
        for (Jedis node : nodes(r)) {
            equal(node.mset(pairs), "OK");
            equal(node.mget(KEYS), List.of(KEYS));
            node.close();
        }
    }

    static void pipelines(RedisClusterClient r) {
        fill(r);
        List<Response<Long>> replies = new ArrayList<>();
        try (ClusterPipeline pipeline = r.pipelined()) {
            for (String key : KEYS) replies.add(pipeline.append(key, "!"));
            pipeline.sync();
        }
        for (int i = 0; i < KEYS.length; i++) equal(replies.get(i).get(), KEYS[i].length() + 1L);
    }

    static void scripts(RedisClusterClient r) {
        for (String key : KEYS) equal(r.eval("return redis.call('incrby', KEYS[1], ARGV[1])", List.of(key), List.of("2")), 2L);
        String digest = r.scriptLoad("return redis.call('get', KEYS[1])", KEYS[0]);
        equal(r.evalsha(digest, List.of(KEYS[0]), List.of()), "2");
    }

    static void messages(RedisClusterClient r) throws Exception {
        CountDownLatch subscribed = new CountDownLatch(1);
        List<String> seen = new ArrayList<>();
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                subscribed.countDown();
            }

            @Override
            public void onMessage(String channel, String text) {
                seen.add(text);
                if (seen.size() == 3) unsubscribe();
            }
        };
        CompletableFuture<Void> listening = CompletableFuture.runAsync(() -> r.subscribe(listener, "news"));
        check(subscribed.await(10, TimeUnit.SECONDS), "no subscription");
        for (Jedis node : nodes(r)) {
            node.publish("news", "text");
            node.close();
        }
        listening.get(10, TimeUnit.SECONDS);
        equal(seen, List.of("text", "text", "text"));
    }

    static void blockingPops(RedisClusterClient r) throws Exception {
        CompletableFuture<List<String>> popped = CompletableFuture.supplyAsync(() -> r.blpop(20, "list"));
        List<Jedis> nodes = nodes(r);
        while (nodes.stream().allMatch(node -> node.info("clients").contains("blocked_clients:0"))) Thread.sleep(5);
        nodes.forEach(Jedis::close);
        r.rpush("list", "1");
        equal(popped.get(10, TimeUnit.SECONDS), List.of("list", "1"));
    }

    /** At the port for smart clients each node has its own keys. */
    static void nodesOfTheirOwn(RedisClusterClient r) {
        fill(r);
        long sum = 0, refused = 0;
        List<String> found = new ArrayList<>();
        for (Jedis node : nodes(r)) {
            sum += node.dbSize();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = node.scan(cursor, new ScanParams().count(7));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            try {
                node.get(KEYS[1]);
            } catch (JedisMovedDataException moved) {
                refused++;
            }
            node.close();
        }
        equal(List.of(sum, refused), List.of(200L, 2L));
        equal(found.stream().sorted().toList(), Arrays.stream(KEYS).sorted().toList());
    }

    public static void main(String[] arguments) {
        address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        int passed = 0;
        List<String> failures = new ArrayList<>();
        for (RedisProtocol each : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            protocol = each;
            for (var test : TESTS.entrySet()) {
                try (RedisClusterClient r = connect()) {
                    List<Jedis> nodes = nodes(r);
                    nodes.forEach(Jedis::flushAll);
                    nodes.forEach(Jedis::close);
                    CompletableFuture.runAsync(() -> {
                        try {
                            test.getValue().run(r);
                        } catch (Exception error) {
                            throw new RuntimeException(error);
                        }
                    }).get(30, TimeUnit.SECONDS);
                    passed++;
                } catch (Throwable error) {
                    Throwable cause = error;
                    while (cause.getCause() != null) cause = cause.getCause();
                    failures.add("Jedis' RedisClusterClient: " + test.getKey() + ", " + each + ": " + cause
                        + Arrays.stream(cause.getStackTrace()).filter(frame -> frame.getClassName().startsWith("JedisCluster"))
                            .map(frame -> "\n  " + frame).toList());
                }
            }
        }
        failures.forEach(System.out::println);
        System.out.println("Jedis' RedisClusterClient: " + passed + " passed, " + failures.size() + " failed");
        System.exit(failures.isEmpty() ? 0 : 1);
    }
}
