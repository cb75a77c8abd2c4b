import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SslOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Lettuce with certificates and users of few rights. Usage: java LettuceSecure PORT [cluster] [tls=FOLDER] [acl]. */
public final class LettuceSecure {
    private static int port;
    private static boolean cluster;
    private static boolean acl;
    private static Path certificates;

    /** The commands of a server and of a cluster, and a connection for messages. */
    private record Connection(RedisClusterCommands<String, String> sync, Callable<StatefulRedisPubSubConnection<String, String>> messages) {}

    public static void main(String[] words) {
        port = Integer.parseInt(words[0]);
        var rest = List.of(words).subList(1, words.length);
        cluster = rest.contains("cluster");
        acl = rest.contains("acl");
        rest.stream().filter(word -> word.startsWith("tls=")).forEach(word -> certificates = Path.of(word.substring(4)));
        var steps = new Steps("Lettuce");
        steps.step("commands", LettuceSecure::commands);
        steps.step("messages", LettuceSecure::messages);
        if (acl) steps.step("what the user may not", LettuceSecure::denied);
        if (acl) steps.step("one that only reads", LettuceSecure::reads);
        if (certificates != null) steps.step("who is let in", LettuceSecure::letIn);
        steps.end();
    }

    private static SslOptions tls(String name, String authority) {
        var options = SslOptions.builder().jdkSslProvider().trustManager(certificates.resolve(authority + ".crt").toFile());
        if (name != null) options.keyManager(certificates.resolve(name + ".crt").toFile(), certificates.resolve(name + ".key").toFile(), null);
        return options.build();
    }

    private static Connection connect(String name, String authority, String user, String password) {
        var uri = RedisURI.builder().withHost("127.0.0.1").withPort(port).withTimeout(Duration.ofSeconds(20));
        if (certificates != null) uri.withSsl(true).withVerifyPeer(true);
        if (user != null) uri.withAuthentication(user, password.toCharArray());
        if (cluster) {
            var client = RedisClusterClient.create(uri.build());
            if (certificates != null) client.setOptions(ClusterClientOptions.builder().sslOptions(tls(name, authority)).build());
            return new Connection(client.connect().sync(), client::connectPubSub);
        }
        var client = RedisClient.create(uri.build());
        if (certificates != null) client.setOptions(ClientOptions.builder().sslOptions(tls(name, authority)).build());
        return new Connection(client.connect().sync(), client::connectPubSub);
    }

    private static Connection app() {
        return acl && certificates == null ? connect("app", "ca", "app", "secret") : connect("app", "ca", null, null);
    }

    private static Connection reader(String password) {
        return connect("guest", "ca", "reader", password);
    }

    private static void fails(String text, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Exception error) {
            if (error instanceof RedisException && String.valueOf(error.getMessage()).contains(text)) return;
            throw new AssertionError("another error than " + text, error);
        }
        throw new AssertionError(got + " instead of: " + text);
    }

    private static void commands() {
        var r = app().sync();
        for (int number = 0; number < 100; number++) Steps.same(r.set("app:" + number, "" + number), "OK");
        Steps.same(r.mget("app:1", "app:50").get(1), KeyValue.just("app:50", "50"));
        String large = "x".repeat(4 << 20);
        r.set("app:large", large);
        Steps.same(r.get("app:large"), large);
    }

    private static void messages() throws Exception {
        var connection = app();
        var heard = new CompletableFuture<String>();
        var listener = connection.messages().call();
        listener.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String text) {
                heard.complete(text);
            }
        });
        listener.sync().subscribe("app:news");
        Steps.until(() -> connection.sync().publish("app:news", "text") > 0);
        Steps.same(heard.get(10, TimeUnit.SECONDS), "text");
    }

    private static void denied() {
        var r = app().sync();
        fails("NOPERM No permissions to access a key", () -> r.set("other", "1"));
        fails("NOPERM", () -> r.eval("return 1", ScriptOutputType.INTEGER, new String[] {"app:1"}));
        fails("NOPERM", () -> r.publish("other", "text"));
    }

    private static void reads() {
        app().sync().set("app:{r}", "text");
        var r = reader("glasses").sync();
        Steps.same(r.get("app:{r}"), "text");
        fails("NOPERM User reader has no permissions to run the 'set' command", () -> r.set("app:{r}", "1"));
        fails("NOPERM", () -> r.get("other"));
        fails("", () -> reader("wrong").sync().get("app:{r}"));
    }

    private static void letIn() {
        fails("", () -> connect(null, "ca", null, null).sync().get("app:1"));
        fails("", () -> connect("stranger", "ca", null, null).sync().get("app:1"));
        fails("", () -> connect("app", "other", null, null).sync().get("app:1"));
        var r = (acl ? reader("glasses") : connect("guest", "ca", null, null)).sync();
        Steps.same(r.get("app:1"), "1");
    }
}
