import java.time.Duration;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.ScanOptions;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

/** What Spring Data Redis needs, with its default driver. Usage: SpringProgram [smart] PORT [cluster]; `smart`: as a client of clusters. */
public final class SpringProgram {
    private static final int KEYS = 500;

    public static void main(String[] words) {
        boolean smart = words[0].equals("smart");
        int port = Integer.parseInt(words[smart ? 1 : 0]);
        var steps = new Steps(smart ? "Spring Data Redis, cluster" : "Spring Data Redis");
        var factory = smart
            ? new LettuceConnectionFactory(new RedisClusterConfiguration(List.of("127.0.0.1:" + port)))
            : new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port));
        factory.afterPropertiesSet();
        factory.start();
        var r = new StringRedisTemplate(factory);
        r.afterPropertiesSet();
        Runnable flush = () -> {
            try (var connection = factory.getConnection()) {
                connection.serverCommands().flushAll();
            }
        };
        flush.run();
        steps.step("strings", () -> {
            Steps.same(r.opsForValue().setIfAbsent("a", "1", Duration.ofSeconds(100)), true);
            Steps.same(r.opsForValue().increment("a", 4), 5L);
            Steps.same(r.getExpire("a") > 90, true);
        });
        steps.step("collections", () -> {
            r.opsForHash().put("h", "a", "1");
            Steps.same(r.opsForHash().entries("h").size(), 1);
            r.opsForZSet().add("z", "m", 1.5);
            Steps.same(r.opsForZSet().score("z", "m"), 1.5);
            r.opsForList().rightPushAll("l", "1", "2");
            Steps.same(r.opsForList().range("l", 0, -1), List.of("1", "2"));
        });
        steps.step("scripts", () -> {
            var script = RedisScript.of("return redis.call('incrby', KEYS[1], ARGV[1])", Long.class);
            Steps.same(r.execute(script, List.of("n"), "3"), 3L);
        });
        if (!smart) {
            steps.step("transactions", () -> {
                List<Object> replies = r.execute(new SessionCallback<>() {
                    @Override
                    @SuppressWarnings({"unchecked", "rawtypes"})
                    public List<Object> execute(RedisOperations operations) {
                        operations.multi();
                        operations.opsForValue().increment("t");
                        operations.opsForValue().increment("t");
                        return operations.exec();
                    }
                });
                Steps.same(replies, List.<Object>of(1L, 2L));
            });
        }
        steps.step("scans", () -> {
            flush.run();
            var expected = new TreeSet<String>();
            for (int number = 0; number < KEYS; number++) {
                expected.add("key:" + number);
                r.opsForValue().set("key:" + number, "v");
            }
            var found = new TreeSet<String>();
            int count = 0;
            try (var cursor = r.scan(ScanOptions.scanOptions().count(7).build())) {
                for (; cursor.hasNext(); count++) found.add(cursor.next());
            }
            Steps.same(found, expected);
            Steps.same(count, KEYS);
        });
        steps.end();
    }
}
