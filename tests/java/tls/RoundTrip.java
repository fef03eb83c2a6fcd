import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes the name of each properties file to the topic `t` of its cluster, reads it, and prints it. */
public final class RoundTrip {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties options = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                options.load(reader);
            }
            options.put("enable.metrics.push", "false");
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
                producer.send(new ProducerRecord<>("t", file.getBytes())).get();
            }
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.assign(List.of(new TopicPartition("t", 0)));
                consumer.seekToBeginning(consumer.assignment());
                String last = "";
                while (!last.equals(file)) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                        last = new String(record.value());
                    }
                }
                System.out.println(last);
            }
        }
    }
}
