import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisException;

/** Jedis with certificates and users of few rights. Usage: java JedisSecure PORT [cluster] [tls=FOLDER] [acl]. */
public final class JedisSecure {
    private static HostAndPort address;
    private static boolean cluster;
    private static boolean acl;
    private static Path certificates;

    public static void main(String[] words) {
        address = new HostAndPort("127.0.0.1", Integer.parseInt(words[0]));
        var rest = List.of(words).subList(1, words.length);
        cluster = rest.contains("cluster");
        acl = rest.contains("acl");
        rest.stream().filter(word -> word.startsWith("tls=")).forEach(word -> certificates = Path.of(word.substring(4)));
        var steps = new Steps("Jedis");
        steps.step("commands and pipelines", JedisSecure::commands);
        steps.step("messages", JedisSecure::messages);
        if (acl) steps.step("what the user may not", JedisSecure::denied);
        if (acl) steps.step("one that only reads", JedisSecure::reads);
        if (certificates != null) steps.step("who is let in", JedisSecure::letIn);
        steps.end();
    }

    private static SSLContext context(String name, String authority) throws Exception {
        var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream file = Files.newInputStream(certificates.resolve(authority + ".crt"))) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManager[] own = null;
        if (name != null) {
            var keys = KeyStore.getInstance("PKCS12");
            try (InputStream file = Files.newInputStream(certificates.resolve(name + ".p12"))) {
                keys.load(file, "secret".toCharArray());
            }
            var managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            managers.init(keys, "secret".toCharArray());
            own = managers.getKeyManagers();
        }
        var context = SSLContext.getInstance("TLS");
        context.init(own, trust.getTrustManagers(), null);
        return context;
    }

    private static UnifiedJedis connect(String name, String authority, String user, String password) throws Exception {
        var config = DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3);
        if (certificates != null) {
            var names = new SSLParameters();
            names.setEndpointIdentificationAlgorithm("HTTPS");
            config.ssl(true).sslSocketFactory(context(name, authority).getSocketFactory()).sslParameters(names);
        }
        if (user != null) config.user(user).password(password);
        if (cluster) return RedisClusterClient.builder().nodes(Set.of(address)).clientConfig(config.build()).build();
        return RedisClient.builder().hostAndPort(address).clientConfig(config.build()).build();
    }

    private static UnifiedJedis app() throws Exception {
        return acl && certificates == null ? connect("app", "ca", "app", "secret") : connect("app", "ca", null, null);
    }

    private static UnifiedJedis reader(String password) throws Exception {
        return connect("guest", "ca", "reader", password);
    }

    private static void fails(String text, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Exception error) {
            if (error instanceof JedisException && String.valueOf(error.getMessage()).contains(text)) return;
            throw new AssertionError("another error than " + text, error);
        }
        throw new AssertionError(got + " instead of: " + text);
    }

    private static void commands() throws Exception {
        try (var r = app()) {
            for (int number = 0; number < 100; number++) Steps.same(r.set("app:" + number, "" + number), "OK");
            try (var pipeline = r.pipelined()) {
                var replies = java.util.stream.IntStream.range(0, 100).mapToObj(number -> pipeline.get("app:" + number)).toList();
                pipeline.sync();
                for (int number = 0; number < 100; number++) Steps.same(replies.get(number).get(), "" + number);
            }
            String large = "x".repeat(4 << 20);
            r.set("app:large", large);
            Steps.same(r.get("app:large"), large);
            Steps.same(r.mget("app:{t}none", "app:{t}none").size(), 2);
            if (r.blpop(0.1, "app:none") != null) throw new AssertionError("a value from nowhere");
        }
    }

    private static void messages() throws Exception {
        var heard = new CompletableFuture<String>();
        var listener = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String text) {
                heard.complete(text);
            }
        };
        try (var r = app(); var other = app()) {
            var hearing = new Thread(() -> other.subscribe(listener, "app:news"));
            hearing.setDaemon(true);
            hearing.start();
            Steps.until(() -> r.publish("app:news", "text") > 0);
            Steps.same(heard.get(10, TimeUnit.SECONDS), "text");
            listener.unsubscribe();
        }
    }

    private static void denied() throws Exception {
        try (var r = app()) {
            fails("NOPERM No permissions to access a key", () -> r.set("other", "1"));
            fails("NOPERM", () -> r.eval("return 1", 1, "app:1"));
            fails("NOPERM", () -> r.publish("other", "text"));
        }
    }

    private static void reads() throws Exception {
        try (var writer = app(); var r = reader("glasses")) {
            writer.set("app:{r}", "text");
            Steps.same(r.get("app:{r}"), "text");
            fails("NOPERM User reader has no permissions to run the 'set' command", () -> r.set("app:{r}", "1"));
            fails("NOPERM", () -> r.get("other"));
        }
        fails(cluster ? "" : "WRONGPASS", () -> reader("wrong").get("app:{r}"));
    }

    private static void letIn() throws Exception {
        fails("", () -> connect(null, "ca", null, null).get("app:1"));
        fails("", () -> connect("stranger", "ca", null, null).get("app:1"));
        fails("", () -> connect("app", "other", null, null).get("app:1"));
        try (var r = acl ? reader("glasses") : connect("guest", "ca", null, null)) {
            Steps.same(r.get("app:1"), "1");
        }
    }
}
