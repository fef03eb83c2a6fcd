import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Two members of a share group consume a topic until every record is accepted or rejected (KIP-932).
 *
 * <p>{@code ShareConsumers ADDRESS TOPIC GROUP COUNT implicit|explicit|record_limit}
 */
public final class ShareConsumers {
    private static final Duration SOON = Duration.ofMillis(200);

    private final String address;
    private final String topic;
    private final String group;
    private final String mode;
    private final Map<String, Integer> deliveries = new HashMap<>();
    private final Map<String, String> done = new HashMap<>();

    private ShareConsumers(String[] arguments) {
        address = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        mode = arguments[4];
    }

    public static void main(String[] arguments) {
        ShareConsumers consumers = new ShareConsumers(arguments);
        int count = Integer.parseInt(arguments[3]);
        consumers.produce(0, count);
        consumers.consumeAll(count);
        System.out.println(consumers.summary());
        // A later consumer gets the new record alone: all others are accepted or rejected.
        consumers.deliveries.clear();
        consumers.produce(count, 1);
        consumers.consumeAll(count + 1);
        System.out.println(consumers.deliveries);
    }

    private void produce(int from, int count) {
        Properties options = new Properties();
        options.put("bootstrap.servers", address);
        try (var producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            for (int number = from; number < from + count; number++) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(number), Integer.toString(number)));
            }
        }
    }

    private KafkaShareConsumer<String, String> consumer() {
        Properties options = new Properties();
        options.put("bootstrap.servers", address);
        options.put("group.id", group);
        options.put("max.poll.records", "20");
        options.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
        options.put("share.acquire.mode", mode.equals("record_limit") ? "record_limit" : "batch_optimized");
        var consumer = new KafkaShareConsumer<>(options, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private void consumeAll(int count) {
        try (var first = consumer();
                var second = consumer()) {
            while (done.size() < count) {
                consume(first);
                consume(second);
            }
        }
    }

    private void consume(KafkaShareConsumer<String, String> consumer) {
        List<ConsumerRecord<String, String>> renewed = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(SOON)) {
            int times = deliveries.merge(record.value(), 1, Integer::sum);
            if (record.deliveryCount().orElseThrow() != times || done.containsKey(record.value())) {
                throw new IllegalStateException("delivered " + times + " times: " + record);
            }
            if (mode.equals("implicit")) {
                done.put(record.value(), "accepted");
            } else {
                acknowledge(consumer, record, times, renewed);
            }
        }
        check(consumer.commitSync());
        // One commit for each record: if a commit goes to several brokers, the Java client loses its renewals unless the broker
        // that answers last has some of them.
        for (ConsumerRecord<String, String> record : renewed) {
            consumer.acknowledge(record, AcknowledgeType.RENEW);
            check(consumer.commitSync());
        }
        if (!renewed.isEmpty()) {
            // This poll returns the renewed records again, and no new ones.
            for (ConsumerRecord<String, String> record : consumer.poll(SOON)) {
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                done.put(record.value(), "accepted");
            }
            check(consumer.commitSync());
        }
    }

    private void acknowledge(
            KafkaShareConsumer<String, String> consumer,
            ConsumerRecord<String, String> record,
            int times,
            List<ConsumerRecord<String, String>> renewed) {
        int number = Integer.parseInt(record.value());
        if (number % 7 == 0 && times == 1) {
            consumer.acknowledge(record, AcknowledgeType.RELEASE);
        } else if (number % 11 == 0) {
            consumer.acknowledge(record, AcknowledgeType.REJECT);
            done.put(record.value(), "rejected");
        } else if (number % 13 == 0) {
            renewed.add(record);
        } else {
            consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            done.put(record.value(), "accepted");
        }
    }

    private static void check(Map<?, ? extends java.util.Optional<? extends Exception>> results) {
        results.forEach((partition, error) -> error.ifPresent(each -> {
            throw new IllegalStateException(String.valueOf(partition), each);
        }));
    }

    private String summary() {
        long rejected = done.values().stream().filter("rejected"::equals).count();
        long again = deliveries.values().stream().filter(times -> times > 1).count();
        return (done.size() - rejected) + " accepted, " + rejected + " rejected, " + again + " delivered again";
    }
}
