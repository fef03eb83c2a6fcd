import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Moves records from one topic to another, in transactions of which every other is aborted and begun anew. */
public final class Mover {
    private Mover() {}

    /** Arguments: the broker's address, both topics, how many records there are, the most for a transaction. */
    public static void main(String[] args) {
        String from = args[1];
        String to = args[2];
        int count = Integer.parseInt(args[3]);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading(args[0], args[4]));
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing(args[0]))) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            int moved = 0;
            for (int round = 0; moved < count; ) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                records.forEach(record -> producer.send(new ProducerRecord<>(to, record.partition(), null, record.value())));
                producer.sendOffsetsToTransaction(after(records), consumer.groupMetadata());
                if (round++ % 2 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((partition, offset) ->
                            consumer.seek(partition, offset == null ? 0 : offset.offset()));
                } else {
                    producer.commitTransaction();
                    moved += records.size();
                }
            }
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> after(List<ConsumerRecord<String, String>> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return offsets;
    }

    private static Properties reading(String servers, String most) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", "mover");
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", most);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        return properties;
    }

    private static Properties writing(String servers) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("transactional.id", "mover");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        return properties;
    }
}
