import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What is to be written or read; the fields mean what they mean in benchmarks/work.py. */
final class Work {
    final String bootstrap;
    final String topic;
    final int messages;
    final int size;
    final String compression;
    final JsonNode settings;
    final Meter meter = new Meter();
    final List<Double> latencies = new ArrayList<>();
    int settled;
    int connecting;

    private final byte[][] values;
    private int next;

    Work(JsonNode given) throws IOException {
        bootstrap = given.get("bootstrap").asText();
        topic = given.get("topic").asText();
        messages = given.get("messages").asInt();
        size = given.get("size").asInt();
        compression = given.get("compression").asText();
        settings = given.get("settings");
        byte[] data = Files.readAllBytes(Path.of(given.get("values_path").asText()));
        values = new byte[data.length / size][];
        for (int index = 0; index < values.length; index++) {
            values[index] = Arrays.copyOfRange(data, index * size, (index + 1) * size);
        }
    }

    private Work(Work whole, int messages) {
        bootstrap = whole.bootstrap;
        topic = whole.topic;
        this.messages = messages;
        size = whole.size;
        compression = whole.compression;
        settings = whole.settings;
        values = whole.values;
    }

    /** The same for fewer messages, with a meter of its own. */
    Work warmUp(int most) {
        return new Work(this, Math.min(most, messages));
    }

    byte[] value() {
        byte[] value = values[next];
        next = (next + 1) % values.length;
        return value;
    }
}
