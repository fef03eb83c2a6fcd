import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a share group: prints what it accepts, and releases the first delivery of every seventh record. */
public final class Worker {
    private Worker() {}

    /** Arguments: the broker's address, the group, the topic. Ends with the first byte of its standard input. */
    public static void main(String[] args) throws IOException {
        Properties options = new Properties();
        options.put("bootstrap.servers", args[0]);
        options.put("group.id", args[1]);
        options.put("key.deserializer", StringDeserializer.class.getName());
        options.put("value.deserializer", StringDeserializer.class.getName());
        options.put("share.acknowledgement.mode", "explicit");
        options.put("max.poll.records", "5");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(options)) {
            consumer.subscribe(List.of(args[2]));
            while (System.in.available() == 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    boolean again = record.offset() % 7 == 0 && record.deliveryCount().orElse((short) 0) == 1;
                    consumer.acknowledge(record, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    if (!again) {
                        System.out.println(record.partition() + " " + record.offset());
                    }
                }
                consumer.commitSync().forEach((partition, error) -> error.ifPresent(System.err::println));
                System.out.flush();
            }
        }
    }
}
