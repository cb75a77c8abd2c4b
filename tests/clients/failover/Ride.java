import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** What the programs of Java libraries share: they write without end. Usage and output: ride.py beside it. */
final class Ride {
    final String kind;
    final boolean tuned;
    final String[] places;
    private final double rate;
    private final String[] keys;

    interface Write {
        void write(String key, String number) throws Exception;
    }

    Ride(String[] words) {
        kind = words[0];
        tuned = words[1].equals("tuned");
        rate = Double.parseDouble(words[2]);
        keys = words[3].split(",");
        places = words[4].split(",");
    }

    String host(int number) {
        return places[number].split(":")[0];
    }

    int port(int number) {
        return Integer.parseInt(places[number].split(":")[1]);
    }

    void run(Write write) throws IOException {
        for (String key : keys) {
            var thread = new Thread(() -> loop(write, key));
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) {}
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void loop(Write write, String key) {
        double due = now();
        for (int number = 0; ; number++) {
            try {
                TimeUnit.MICROSECONDS.sleep((long) Math.max(0, (due - now()) * 1000));
            } catch (InterruptedException end) {
                return;
            }
            double began = now();
            due = Math.max(due + 1000 / rate, began);
            String outcome = "ok";
            try {
                write.write(key, String.valueOf(number));
            } catch (Exception error) {
                outcome = (error.getClass().getSimpleName() + ": " + error.getMessage()).replace("\n", " ");
            }
            System.out.println(String.format(java.util.Locale.ROOT, "%s %d %.3f %.3f %s", key, number, began, now(), outcome));
        }
    }

    private static double now() {
        var now = java.time.Instant.now();
        return now.getEpochSecond() * 1e3 + now.getNano() / 1e6;
    }
}
