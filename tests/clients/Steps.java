import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** The small frame that the programs of Java's libraries share: a line per failure, then totals. */
final class Steps {
    interface Step {
        void run() throws Exception;
    }

    private final String title;
    private int passed;
    private int failed;

    Steps(String title) {
        this.title = title;
    }

    void step(String name, Step step) {
        var running = CompletableFuture.runAsync(() -> {
            try {
                step.run();
            } catch (Throwable error) {
                throw new IllegalStateException(error);
            }
        });
        try {
            running.get(60, TimeUnit.SECONDS);
            passed++;
        } catch (ExecutionException error) {
            failed++;
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            System.out.println(title + ": " + name + ": " + cause);
        } catch (Exception error) {
            failed++;
            System.out.println(title + ": " + name + ": no end after 60 s");
        }
    }

    static <T> void same(T got, T expected) {
        if (!expected.equals(got)) throw new AssertionError(got + ", expected " + expected);
    }

    static void until(Callable<Boolean> holds) throws Exception {
        for (int turn = 0; turn < 3000; turn++) {
            if (holds.call()) return;
            Thread.sleep(10);
        }
        throw new AssertionError("not within 30 s");
    }

    void end() {
        System.out.println(title + ": " + passed + " passed, " + failed + " failed");
        System.out.flush();
        Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
    }
}
