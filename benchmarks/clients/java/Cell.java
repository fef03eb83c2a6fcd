import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Measures Kafka's own client as the other clients are measured: a job is read from stdin, and what was found is written
 * to stdout, both as JSON.
 */
final class Cell {
    /** More than for others: the compiler has to see code run some ten thousand times before it does its best. */
    private static final int WARM_UP = 50_000;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Map<String, Way>> WAYS = Map.of(
        "produce", Map.of("send(), flush()", Producing::sendAndFlush),
        "latency", Map.of("send().get()", Producing::sendAndGet),
        "transact", Map.of("send(), commitTransaction()", Producing::transact),
        "consume", Map.of("poll()", Consuming::poll),
        "start", Map.of("send().get()", Producing::start)
    );

    /** Connects, does the work under its meter, counts what was settled, and closes. */
    private interface Way {
        void run(Work work) throws Exception;
    }

    private Cell() {
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode job = JSON.readTree(System.in);
        boolean describes = job.get("command").asText().equals("describe");
        System.out.println(JSON.writeValueAsString(describes ? describe() : run(job)));
    }

    private static Map<String, Object> describe() throws IOException {
        Map<String, Object> ways = new LinkedHashMap<>();
        WAYS.forEach((kind, calls) -> ways.put(kind, calls.keySet()));
        Map<String, Object> stated = Map.of(
            "works_in", "a thread of its own",
            "differs", Map.of(),
            "notes", List.of(
                "Java " + Runtime.version().feature() + ", default heap",
                "warm-up of " + WARM_UP + " messages",
                "CPU time in steps of 10 ms"
            )
        );
        return Map.of("version", version(), "ways", ways, "asyncio", false, "stated", stated);
    }

    private static String version() throws IOException {
        Properties named = new Properties();
        try (InputStream inJar = Cell.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            named.load(inJar);
        }
        return named.getProperty("version");
    }

    private static Map<String, Object> run(JsonNode job) throws Exception {
        String kind = job.get("kind").asText();
        Way way = WAYS.get(kind).get(job.get("way").asText());
        Work all = new Work(job.get("work"));
        int sent = 0;
        if (!kind.equals("start")) {
            Work few = all.warmUp(WARM_UP);
            way.run(few);
            sent += few.settled + few.connecting;
        }
        way.run(all);
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("cpu", all.meter.cpu);
        found.put("wall", all.meter.wall);
        found.put("settled", all.settled);
        found.put("sent", sent + all.settled + all.connecting);
        found.put("latencies", all.latencies);
        found.put("figures", Map.of());
        found.put("peak_bytes", Meter.peakBytes());
        return found;
    }
}
