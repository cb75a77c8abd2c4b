import java.time.Duration;
import java.util.Arrays;
import java.util.stream.Collectors;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;

/** Writes without end by Jedis. Usage and output: ride.py beside it. */
public final class JedisRide {
    public static void main(String[] words) throws Exception {
        var ride = new Ride(words);
        UnifiedJedis client = ride.kind.equals("cluster") ? cluster(ride) : server(ride);
        ride.run(client::rpush);
    }

    private static UnifiedJedis server(Ride ride) {
        var builder = RedisClient.builder().hostAndPort(ride.host(0), ride.port(0));
        if (!ride.tuned) return builder.build();
        var pool = new ConnectionPoolConfig();
        pool.setTestOnBorrow(true);
        // A node holds commands for a lost owner for three seconds.
        var client = DefaultJedisClientConfig.builder().connectionTimeoutMillis(1000).socketTimeoutMillis(5000).build();
        return builder.poolConfig(pool).clientConfig(client).build();
    }

    private static UnifiedJedis cluster(Ride ride) {
        var places = Arrays.stream(ride.places).map(HostAndPort::from).collect(Collectors.toSet());
        var builder = RedisClusterClient.builder().nodes(places);
        if (!ride.tuned) return builder.build();
        var client = DefaultJedisClientConfig.builder().connectionTimeoutMillis(1000).socketTimeoutMillis(1000).build();
        return builder.clientConfig(client).maxAttempts(30).maxTotalRetriesDuration(Duration.ofSeconds(10)).build();
    }
}
