import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * CPU seconds of this process, all its threads (those that compile and collect garbage too), and wall seconds, between
 * start and stop. Java tells CPU time in steps of the system's clock tick, which is 10 ms on Linux.
 */
final class Meter {
    private static final double NANOS = 1e9;
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    double cpu;
    double wall;
    private long cpuStart;
    private long started;

    void start() {
        // What the warm-up left behind is not collected at the cost of what is measured.
        System.gc();
        cpuStart = SYSTEM.getProcessCpuTime();
        started = System.nanoTime();
    }

    void stop() {
        wall += (System.nanoTime() - started) / NANOS;
        cpu += (SYSTEM.getProcessCpuTime() - cpuStart) / NANOS;
    }

    /** The most memory that this process has had, or null where the system does not tell. */
    static Long peakBytes() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
                }
            }
        } catch (IOException noSuchFile) {
            return null;
        }
        return null;
    }
}
