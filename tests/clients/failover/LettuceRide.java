import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Delay;
import io.lettuce.core.resource.DefaultClientResources;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.TimeUnit;

/** Writes without end by Lettuce. Usage and output: ride.py beside it. */
public final class LettuceRide {
    public static void main(String[] words) throws Exception {
        var ride = new Ride(words);
        if (ride.kind.equals("cluster")) {
            var commands = cluster(ride).connect().sync();
            ride.run(commands::rpush);
        } else {
            var place = RedisURI.create(ride.host(0), ride.port(0));
            var client = ride.tuned ? RedisClient.create(resources(), place) : RedisClient.create(place);
            var commands = client.connect().sync();
            ride.run(commands::rpush);
        }
    }

    private static ClientResources resources() {
        return DefaultClientResources.builder().reconnectDelay(Delay.exponential(10, 200, TimeUnit.MILLISECONDS, 2)).build();
    }

    private static RedisClusterClient cluster(Ride ride) {
        var places = new ArrayList<RedisURI>();
        for (int number = 0; number < ride.places.length; number++) places.add(RedisURI.create(ride.host(number), ride.port(number)));
        if (!ride.tuned) return RedisClusterClient.create(places);
        var refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers()
            .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200)).refreshTriggersReconnectAttempts(0)
            .enablePeriodicRefresh(Duration.ofSeconds(5)).build();
        var client = RedisClusterClient.create(resources(), places);
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).build());
        return client;
    }
}
