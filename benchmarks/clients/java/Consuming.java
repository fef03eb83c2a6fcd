import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The way to read. */
final class Consuming {
    private static final int AT_ONCE = 10_000;

    private Consuming() {
    }

    static void poll(Work work) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(work)) {
            consumer.partitionsFor(work.topic);
            List<TopicPartition> partitions = new ArrayList<>();
            for (int index = 0; index < work.settings.get("partitions").asInt(); index++) {
                partitions.add(new TopicPartition(work.topic, index));
            }
            int count = 0;
            long size = 0;
            work.meter.start();
            consumer.assign(partitions);
            while (count < work.messages) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    count++;
                    size += record.value().length;
                }
            }
            work.meter.stop();
            if (size != (long) count * work.size) {
                throw new IllegalStateException(count + " values have " + size + " bytes in all");
            }
            work.settled += count;
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Work work) {
        Properties options = work.clientOptions();
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", false);
        options.put("fetch.max.bytes", work.settings.get("fetch_max_bytes").asInt());
        options.put("max.partition.fetch.bytes", work.settings.get("partition_fetch_bytes").asInt());
        options.put("max.poll.records", Math.min(AT_ONCE, work.messages));
        return new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
