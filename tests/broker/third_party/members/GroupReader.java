import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group that reads a topic until its standard input ends. It prints "record PARTITION OFFSET" for each
 * record, which it then commits, and "assigned COUNT" or "lost COUNT" when that happens.
 *
 * <p>{@code GroupReader ADDRESS GROUP TOPIC classic|consumer}
 */
public final class GroupReader {
    private GroupReader() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties options = new Properties();
        options.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        options.put(ConsumerConfig.GROUP_ID_CONFIG, arguments[1]);
        options.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, arguments[3]);
        options.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        options.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        if (arguments[3].equals("classic")) {
            options.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 100);
        }
        AtomicBoolean ended = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                // Ended as well.
            }
            ended.set(true);
        });
        input.setDaemon(true);
        input.start();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[2]), new Reporter());
            while (!ended.get()) {
                boolean some = false;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("record " + record.partition() + " " + record.offset());
                    some = true;
                }
                if (some) {
                    consumer.commitSync();
                }
            }
        }
        System.out.println("closed 0");
    }

    private static final class Reporter implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("assigned " + partitions.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            System.out.println("revoked " + partitions.size());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            System.out.println("lost " + partitions.size());
        }
    }
}
