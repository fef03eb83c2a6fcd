import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/** What is to be written or read; the fields mean what they mean in benchmarks/work.py. */
final class Work {
    final String bootstrap;
    final String topic;
    final int messages;
    final int size;
    final String compression;
    final JsonNode settings;
    final JsonNode security;
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
        security = given.get("security");
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
        security = whole.security;
        values = whole.values;
    }

    /** The same for fewer messages, with a meter of its own. */
    Work warmUp(int most) {
        return new Work(this, Math.min(most, messages));
    }

    /** The options of every client. */
    Properties clientOptions() {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("security.protocol", security.get("protocol").asText());
        if (!security.get("cafile").asText().isEmpty()) {
            options.put("ssl.truststore.type", "PEM");
            options.put("ssl.truststore.location", security.get("cafile").asText());
        }
        if (!security.get("username").asText().isEmpty()) {
            options.put("sasl.mechanism", "SCRAM-SHA-256");
            options.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";",
                security.get("username").asText(), security.get("password").asText()
            ));
        }
        return options;
    }

    byte[] value() {
        byte[] value = values[next];
        next = (next + 1) % values.length;
        return value;
    }
}
