import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application: counts the words of the topic "lines" into the topic "counts" until
 * its standard input ends, with two threads in one group of the streams protocol.
 *
 * <p>{@code WordCount ADDRESS APPLICATION at_least_once|exactly_once_v2 STATE_FOLDER [LINES COUNTS]}:
 * the last two are other names for the topics.
 */
public final class WordCount {
    private static final Duration LONG_TIMEOUT = Duration.ofSeconds(60);

    private WordCount() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        options.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        options.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        options.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        options.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        options.put("group.protocol", "streams");
        options.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        options.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        options.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        options.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        options.put("consumer.auto.offset.reset", "earliest");
        try (KafkaStreams streams = new KafkaStreams(counting(arguments).build(), options)) {
            streams.start();
            // Standard input also ends when the process that started this one ends.
            while (System.in.read() >= 0) {
                continue;
            }
            System.out.println(streams.close(LONG_TIMEOUT) ? "closed" : "not closed");
        }
    }

    private static StreamsBuilder counting(String[] arguments) {
        boolean named = arguments.length > 4;
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(named ? arguments[4] : "lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("store")))
            .toStream()
            .mapValues(count -> count.toString())
            .to(named ? arguments[5] : "counts");
        return builder;
    }
}
