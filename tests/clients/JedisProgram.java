import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.GeoCoordinate;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisMonitor;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ClientPauseMode;
import redis.clients.jedis.args.GeoUnit;
import redis.clients.jedis.args.UnblockType;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.GeoSearchParam;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XClaimParams;
import redis.clients.jedis.params.XPendingParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.resps.StreamGroupInfo;
import redis.clients.jedis.resps.StreamInfo;
import redis.clients.jedis.resps.StreamPendingSummary;

/** What Jedis's own helpers need of a server, in RESP2 and RESP3. Usage: java JedisProgram.java PORT [cluster]; prints a line per failure, then totals. */
public class JedisProgram {
    static HostAndPort address;
    static RedisProtocol protocol;
    /** Whether it is a node of a cluster. */
    static boolean cluster;

    static JedisClientConfig config() {
        return DefaultJedisClientConfig.builder().protocol(protocol).build();
    }

    static Jedis connect() {
        return new Jedis(address, config());
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void equal(Object got, Object expected) {
        check(Objects.equals(got, expected), "got " + got + ", expected " + expected);
    }

    static void fails(String text, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Exception error) {
            check(String.valueOf(error.getMessage()).contains(text), text + " is not in " + error);
            return;
        }
        check(false, "no error but " + got);
    }

    static void eventually(String what, Callable<Boolean> holds) throws Exception {
        for (long end = System.nanoTime() + 10_000_000_000L; !holds.call(); Thread.sleep(5)) {
            check(System.nanoTime() < end, "not within 10 s: " + what);
        }
    }

    static StreamEntryID id(long ms) {
        return new StreamEntryID(ms, 1);
    }

    static List<String> ids(List<StreamEntry> entries) {
        return entries.stream().map(entry -> entry.getID().toString()).toList();
    }

    interface Test {
        void run(Jedis r) throws Exception;
    }

    static final Map<String, Test> TESTS = new LinkedHashMap<>();

    static {
        TESTS.put("strings and transactions", JedisProgram::strings);
        TESTS.put("scripts", JedisProgram::scripts);
        TESTS.put("functions", JedisProgram::functions);
        TESTS.put("messages", JedisProgram::messages);
        TESTS.put("streams", JedisProgram::streams);
        TESTS.put("geo", JedisProgram::geo);
        TESTS.put("HyperLogLogs", JedisProgram::sketches);
        TESTS.put("clients", JedisProgram::clients);
        TESTS.put("caching", JedisProgram::caching);
    }

    static void strings(Jedis r) {
        equal(r.set("a", "1"), "OK");
        equal(r.incrBy("a", 4), 5L);
        equal(r.mget("a", "none"), Arrays.asList("5", null));
        r.hset("h", Map.of("f", "1.5"));
        equal(r.hgetAll("h"), Map.of("f", "1.5"));
        try (Transaction transaction = r.multi()) {
            transaction.incr("a");
            transaction.zadd("z", 2.5, "m");
            transaction.zscore("z", "m");
            equal(transaction.exec(), List.of(6L, 1L, 2.5));
        }
        r.watch("a");
        try (Jedis other = connect()) {
            other.set("a", "other");
        }
        try (Transaction transaction = r.multi()) {
            transaction.get("a");
            equal(transaction.exec(), null);
        }
    }

    static void scripts(Jedis r) {
        String sha = r.scriptLoad("return redis.call('incrby', KEYS[1], ARGV[1])");
        equal(r.scriptExists(sha, "none"), List.of(true, false));
        equal(r.evalsha(sha, 1, "n", "5"), 5L);
        equal(r.evalsha(sha, List.of("n"), List.of("1")), 6L);
        fails("NOSCRIPT", () -> r.evalsha("f".repeat(40)));
        equal(r.evalReadonly("return redis.call('get', KEYS[1])", List.of("n"), List.of()), "6");
        fails("Write commands are not allowed", () -> r.evalReadonly("return redis.call('del', KEYS[1])", List.of("n"), List.of()));
        equal(r.eval("return {1, 'two', {3.9}, redis.status_reply('fine')}"), List.of(1L, "two", List.of(3L), "fine"));
        equal(r.eval("return nil"), null);
        fails("MY own", () -> r.eval("return redis.error_reply('MY own')"));
        equal(r.scriptFlush(), "OK");
        equal(r.scriptExists(sha), false);
        fails("NOTBUSY", r::scriptKill);
    }

    static void functions(Jedis r) {
        String code = "#!lua name=mine\n"
            + "redis.register_function('put', function(keys, args) return redis.call('set', keys[1], args[1]) end)\n"
            + "redis.register_function{function_name='look', flags={'no-writes'}, callback=function(keys) return redis.call('get', keys[1]) end}";
        equal(r.functionLoad(code), "mine");
        fails("already exists", () -> r.functionLoad(code));
        equal(r.functionLoadReplace(code), "mine");
        equal(r.fcall("put", List.of("k"), List.of("v")), "OK");
        equal(r.fcallReadonly("look", List.of("k"), List.of()), "v");
        fails("write flag", () -> r.fcallReadonly("put", List.of("k"), List.of("v")));
        var found = r.functionListWithCode("mi*");
        equal(List.of(found.size(), found.get(0).getLibraryName(), found.get(0).getEngine(), found.get(0).getLibraryCode()),
            List.of(1, "mine", "LUA", code));
        equal(found.get(0).getFunctions().stream().map(one -> (String) one.get("name")).sorted().toList(), List.of("look", "put"));
        equal(r.functionStats().getEngines().get("LUA").get("libraries_count"), 1L);
        byte[] dump = r.functionDump();
        equal(r.functionDelete("mine"), "OK");
        fails("Function not found", () -> r.fcall("put", List.of("k"), List.of("v")));
        equal(r.functionRestore(dump), "OK");
        equal(r.fcall("look", List.of("k"), List.of()), "v");
        equal(r.functionFlush(), "OK");
        fails("NOTBUSY", r::functionKill);
    }

    static String next(BlockingQueue<String> heard) throws Exception {
        return heard.poll(10, TimeUnit.SECONDS);
    }

    static void messages(Jedis r) throws Exception {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override public void onMessage(String channel, String text) { heard.add(channel + " " + text); }
            @Override public void onPMessage(String pattern, String channel, String text) { heard.add(pattern + " " + channel + " " + text); }
            @Override public void onSubscribe(String channel, int count) { heard.add("+" + channel + " " + count); }
            @Override public void onPSubscribe(String pattern, int count) { heard.add("+" + pattern + " " + count); }
            @Override public void onUnsubscribe(String channel, int count) { heard.add("-" + channel + " " + count); }
        };
        var ended = CompletableFuture.runAsync(() -> {
            try (Jedis one = connect()) {
                one.subscribe(subscriber, "news", "other");
            }
        });
        equal(next(heard), "+news 1");
        equal(next(heard), "+other 2");
        subscriber.psubscribe("n?w*");
        equal(next(heard), "+n?w* 3");
        equal(r.publish("news", "text"), 2L);
        equal(next(heard), "news text");
        equal(next(heard), "n?w* news text");
        equal(r.pubsubChannels("*").stream().sorted().toList(), List.of("news", "other"));
        equal(r.pubsubNumSub("news", "none"), Map.of("news", 1L, "none", 0L));
        equal(r.pubsubNumPat(), 1L);
        subscriber.unsubscribe("other");
        equal(next(heard), "-other 2");
        for (int number = 0; number < 1000; number++) r.publish("many", "nobody");
        for (int number = 0; number < 1000; number++) r.publish("news", "" + number);
        for (int number = 0; number < 1000; number++) {
            equal(next(heard), "news " + number);
            equal(next(heard), "n?w* news " + number);
        }
        subscriber.unsubscribe();
        subscriber.punsubscribe();
        ended.get(10, TimeUnit.SECONDS);

        JedisShardedPubSub sharded = new JedisShardedPubSub() {
            @Override public void onSMessage(String channel, String text) { heard.add("shard " + channel + " " + text); }
            @Override public void onSSubscribe(String channel, int count) { heard.add("+" + channel + " " + count); }
        };
        heard.clear();
        var over = CompletableFuture.runAsync(() -> {
            try (Connection one = new Connection(address, config())) {
                sharded.proceed(one, "shard");
            }
        });
        equal(next(heard), "+shard 1");
        equal(r.pubsubShardChannels(), List.of("shard"));
        equal(r.pubsubShardNumSub("shard"), Map.of("shard", 1L));
        equal(r.sendCommand(Protocol.Command.SPUBLISH, "shard", "there"), 1L);
        equal(next(heard), "shard shard there");
        sharded.sunsubscribe();
        over.get(10, TimeUnit.SECONDS);
    }

    static void streams(Jedis r) throws Exception {
        for (int number = 1; number <= 5; number++) equal(r.xadd("s", id(number), Map.of("n", "" + number)), id(number));
        fails("equal or smaller", () -> r.xadd("s", id(5), Map.of("a", "b")));
        equal(r.xadd("none", XAddParams.xAddParams().noMkStream(), Map.of("a", "b")), null);
        equal(ids(r.xrange("s", "(1-1", "+", 2)), List.of("2-1", "3-1"));
        equal(ids(r.xrevrange("s", "+", "4")), List.of("5-1", "4-1"));
        var read = r.xread(XReadParams.xReadParams().count(10), Map.of("s", new StreamEntryID(4, 0)));
        equal(List.of(read.get(0).getKey(), ids(read.get(0).getValue())), List.of("s", List.of("4-1", "5-1")));
        equal(read.get(0).getValue().get(1).getFields(), Map.of("n", "5"));
        equal(r.xread(XReadParams.xReadParams().block(10), Map.of("s", StreamEntryID.XREAD_NEW_ENTRY)), null);

        equal(r.xgroupCreate("s", "g", new StreamEntryID("0-0"), true), "OK");
        fails("BUSYGROUP", () -> r.xgroupCreate("s", "g", new StreamEntryID("0-0"), false));
        equal(r.xgroupCreateConsumer("s", "g", "idle"), true);
        var unseen = Map.of("s", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY);
        equal(ids(r.xreadGroup("g", "one", XReadGroupParams.xReadGroupParams().count(3), unseen).get(0).getValue()),
            List.of("1-1", "2-1", "3-1"));
        equal(ids(r.xreadGroup("g", "two", XReadGroupParams.xReadGroupParams().count(1), unseen).get(0).getValue()), List.of("4-1"));
        fails("NOGROUP", () -> r.xreadGroup("none", "c", XReadGroupParams.xReadGroupParams(), unseen));
        equal(r.xack("s", "g", id(1), id(9)), 1L);
        StreamPendingSummary summary = r.xpending("s", "g");
        equal(List.of(summary.getTotal(), summary.getMinId(), summary.getMaxId(), summary.getConsumerMessageCount()),
            List.of(3L, id(2), id(4), Map.of("one", 2L, "two", 1L)));
        var pending = r.xpending("s", "g", XPendingParams.xPendingParams("-", "+", 10).consumer("two"));
        equal(List.of(pending.size(), pending.get(0).getID(), pending.get(0).getConsumerName(), pending.get(0).getDeliveredTimes()),
            List.of(1, id(4), "two", 1L));
        equal(ids(r.xclaim("s", "g", "two", 0, XClaimParams.xClaimParams(), id(2))), List.of("2-1"));
        equal(r.xclaimJustId("s", "g", "two", 0, XClaimParams.xClaimParams(), id(2)), List.of(id(2)));
        equal(r.xdel("s", id(3)), 1L);
        var claimed = r.xautoclaim("s", "g", "three", 0, new StreamEntryID("0-0"), XAutoClaimParams.xAutoClaimParams().count(10));
        equal(List.of(claimed.getKey().toString(), ids(claimed.getValue())), List.of("0-0", List.of("2-1", "4-1")));

        StreamInfo info = r.xinfoStream("s");
        equal(List.of(info.getLength(), info.getGroups(), info.getLastGeneratedId(), info.getFirstEntry().getID(), info.getLastEntry().getID()),
            List.of(4L, 1L, id(5), id(1), id(5)));
        equal(List.of(info.getStreamInfo().get("max-deleted-entry-id").toString(), info.getStreamInfo().get("entries-added")), List.of("3-1", 5L));
        StreamGroupInfo group = r.xinfoGroups("s").get(0);
        equal(List.of(group.getName(), group.getConsumers(), group.getPending(), group.getLastDeliveredId(), group.getGroupInfo().get("lag")),
            List.of("g", 4L, 2L, id(4), 1L));
        equal(r.xinfoConsumers2("s", "g").size(), 4);
        var full = r.xinfoStreamFull("s");
        equal(List.of(full.getEntries().size(), full.getGroups().get(0).getPelCount(), full.getGroups().get(0).getConsumers().size()),
            List.of(4, 2L, 4));
        equal(r.xtrim("s", 2, false), 2L);
        equal(r.xgroupDelConsumer("s", "g", "three"), 2L);
        equal(r.xgroupDestroy("s", "g"), 1L);

        // A reader that waits gets what comes.
        var waiting = CompletableFuture.supplyAsync(() -> {
            try (Jedis one = connect()) {
                return one.xread(XReadParams.xReadParams().block(10_000), Map.of("later", StreamEntryID.XREAD_NEW_ENTRY));
            }
        });
        eventually("a blocked client", () -> r.info("clients").contains("blocked_clients:1"));
        StreamEntryID added = r.xadd("later", StreamEntryID.NEW_ENTRY, Map.of("a", "b"));
        equal(ids(waiting.get(10, TimeUnit.SECONDS).get(0).getValue()), List.of(added.toString()));
    }

    static void geo(Jedis r) {
        equal(r.geoadd("sicily", Map.of("Palermo", new GeoCoordinate(13.361389, 38.115556),
            "Catania", new GeoCoordinate(15.087269, 37.502669))), 2L);
        fails("invalid longitude,latitude pair", () -> r.geoadd("sicily", 200, 0, "off"));
        equal(r.geodist("sicily", "Palermo", "Catania", GeoUnit.KM), 166.2742);
        equal(r.geodist("sicily", "Palermo", "none"), null);
        equal(r.geohash("sicily", "Palermo", "none"), Arrays.asList("sqc8b49rny0", null));
        var places = r.geopos("sicily", "Palermo", "none");
        equal(List.of("%.6f".formatted(places.get(0).getLongitude()), places.get(1) == null), List.of("13.361389", true));
        var found = r.geosearch("sicily", GeoSearchParam.geoSearchParam().fromLonLat(15, 37).byRadius(200, GeoUnit.KM)
            .asc().withCoord().withDist().withHash());
        var near = found.get(0);
        equal("%s %.4f %d %.4f".formatted(near.getMemberByString(), near.getDistance(), near.getRawScore(), near.getCoordinate().getLongitude()),
            "Catania 56.4413 3479447370796909 15.0873");
        equal(r.geosearchStoreStoreDist("near", "sicily",
            GeoSearchParam.geoSearchParam().fromMember("Palermo").byBox(400, 400, GeoUnit.KM)), 2L);
        equal("%.4f".formatted(r.zscore("near", "Catania")), "166.2742");
        equal(r.georadius("sicily", 15, 37, 200, GeoUnit.KM).size(), 2);
    }

    static void sketches(Jedis r) {
        equal(r.pfadd("one", "a", "b", "c"), 1L);
        equal(r.pfadd("one", "a"), 0L);
        r.pfadd("two", "c", "d");
        equal(List.of(r.pfcount("one"), r.pfcount("one", "two", "none")), List.of(3L, 4L));
        equal(r.pfmerge("all", "one", "two"), "OK");
        equal(r.pfcount("all"), 4L);
        r.set("text", "x");
        fails("WRONGTYPE", () -> r.pfadd("text", "a"));
    }

    static void clients(Jedis r) throws Exception {
        long id = r.clientId();
        r.clientSetname("tester");
        equal(r.clientGetname(), "tester");
        check(r.clientList(id).contains("name=tester"), r.clientList(id));
        check(r.clientInfo().contains("lib-name=jedis"), r.clientInfo());
        equal(List.of(r.clientNoEvictOn(), r.clientNoEvictOff(), r.clientNoTouchOn(), r.clientNoTouchOff()), List.of("OK", "OK", "OK", "OK"));
        equal(List.of(r.clientPause(1, ClientPauseMode.WRITE), r.clientUnpause()), List.of("OK", "OK"));
        equal(r.clientTrackingInfo().getRedirect(), -1L);
        try (Jedis other = connect()) {
            long theirs = other.clientId();
            var waiting = CompletableFuture.supplyAsync(() -> {
                try {
                    return "" + other.blpop(10, "none");
                } catch (Exception error) {
                    return error.getMessage();
                }
            });
            eventually("unblocking", () -> r.clientUnblock(theirs, UnblockType.ERROR) == 1);
            check(waiting.get(10, TimeUnit.SECONDS).contains("UNBLOCKED"), waiting.get());
            equal(r.clientKill(ClientKillParams.clientKillParams().id("" + theirs)), 1L);
        }
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        Jedis watched = connect();
        var monitoring = CompletableFuture.runAsync(() -> {
            try {
                watched.monitor(new JedisMonitor() {
                    @Override public void onCommand(String command) { seen.add(command); }
                });
            } catch (Exception error) {
                // It ends with its connection.
            }
        });
        eventually("MONITOR", () -> {
            r.echo("hello");
            String line = seen.poll(50, TimeUnit.MILLISECONDS);
            return line != null && line.endsWith("\"ECHO\" \"hello\"");
        });
        watched.close();
        monitoring.get(10, TimeUnit.SECONDS);
        r.set("k", "value");
        check(r.memoryUsage("k") > 5, "no memory");
        check(r.memoryStats().containsKey("peak.allocated"), "MEMORY STATS");
        equal(r.objectIdletime("k"), 0L);
        equal(r.latencyLatest(), Map.of());
        check(r.latencyDoctor().length() > 20, "LATENCY DOCTOR");
    }

    static void caching(Jedis r) throws Exception {
        if (protocol != RedisProtocol.RESP3 || cluster) return; // It needs pushes, and nodes of a cluster do not have CLIENT TRACKING.
        try (RedisClient cached = RedisClient.builder().hostAndPort(address).clientConfig(config())
                .cacheConfig(CacheConfig.builder().maxSize(100).build()).build()) {
            r.mset("a", "1", "b", "2");
            for (int number = 0; number < 3; number++) equal(List.of(cached.get("a"), cached.get("b")), List.of("1", "2"));
            equal(List.of(cached.getCache().getSize(), cached.getCache().getStats().getHitCount()), List.of(2, 4L));
            r.set("a", "9");
            eventually("the new value", () -> cached.get("a").equals("9"));
            r.flushAll();
            eventually("nothing", () -> cached.get("b") == null);
        }
    }

    public static void main(String[] arguments) {
        address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        cluster = arguments.length > 1 && arguments[1].equals("cluster");
        int passed = 0;
        List<String> failures = new ArrayList<>();
        for (RedisProtocol each : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            protocol = each;
            for (var test : TESTS.entrySet()) {
                try (Jedis r = connect()) {
                    r.flushAll();
                    r.scriptFlush();
                    CompletableFuture.runAsync(() -> {
                        try {
                            test.getValue().run(r);
                        } catch (Exception error) {
                            throw new RuntimeException(error);
                        }
                    }).get(20, TimeUnit.SECONDS);
                    passed++;
                } catch (Throwable error) {
                    Throwable cause = error;
                    while (cause.getCause() != null) cause = cause.getCause();
                    failures.add("Jedis: " + test.getKey() + ", " + each + ": " + cause + Arrays.stream(cause.getStackTrace())
                        .filter(frame -> frame.getClassName().startsWith("JedisProgram")).map(frame -> "\n  " + frame).toList());
                }
            }
        }
        failures.forEach(System.out::println);
        System.out.println("Jedis: " + passed + " passed, " + failures.size() + " failed");
        System.exit(failures.isEmpty() ? 0 : 1);
    }
}
