import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs the Java clients against the embedded broker: transactions and a consumer group, or the admin client.
 *
 * <p>{@code KafkaClients clients|admin ADDRESS TOPIC GROUP COUNT PROTOCOL}
 */
public final class KafkaClients {
    private final String address;
    private final String topic;
    private final String group;
    private final int count;
    private final String protocol;

    private KafkaClients(String[] arguments) {
        address = arguments[1];
        topic = arguments[2];
        group = arguments[3];
        count = Integer.parseInt(arguments[4]);
        protocol = arguments[5];
    }

    public static void main(String[] arguments) throws Exception {
        KafkaClients clients = new KafkaClients(arguments);
        if (arguments[0].equals("admin")) {
            clients.administer();
        } else {
            clients.transact();
            System.out.println(clients.consume());
        }
        System.out.println("done");
    }

    private Properties options(String... more) {
        Properties options = new Properties();
        options.put("bootstrap.servers", address);
        for (int at = 0; at < more.length; at += 2) {
            options.put(more[at], more[at + 1]);
        }
        return options;
    }

    /** Aborts as many records as it commits. */
    private void transact() throws Exception {
        Properties options = options("transactional.id", "transactions", "compression.type", "lz4");
        try (var producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (boolean commit : new boolean[] {false, true}) {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int number = 0; number < count; number++) {
                    String key = Integer.toString(number);
                    sent.add(producer.send(new ProducerRecord<>(topic, key, (commit ? "good " : "bad ") + number)));
                }
                producer.flush();
                for (Future<RecordMetadata> each : sent) {
                    each.get(60, TimeUnit.SECONDS);
                }
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    /** Reads in several goes, each from where the one before has committed. */
    private int consume() {
        Properties options = options(
            "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "isolation.level", "read_committed", "max.poll.records", "70");
        Set<String> seen = new HashSet<>();
        while (seen.size() < count) {
            try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                for (int had = seen.size(); had == seen.size(); ) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(20))) {
                        if (!record.value().startsWith("good ") || !seen.add(record.value())) {
                            throw new IllegalStateException("not to be seen, or not again: " + record);
                        }
                    }
                }
                consumer.commitSync();
            }
        }
        return seen.size();
    }

    private void administer() throws Exception {
        try (Admin admin = Admin.create(options())) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 2))).all().get();
            TopicPartition first = new TopicPartition(topic, 0);
            TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            check(described.partitions().size() == 2, described);
            var logs = admin.describeLogDirs(List.of(0)).allDescriptions().get().get(0);
            check(logs.values().iterator().next().replicaInfos().containsKey(first), logs);
            check(admin.electLeaders(ElectionType.PREFERRED, null).all() != null, "elections");
            var move = new NewPartitionReassignment(Collections.singletonList(1));
            admin.alterPartitionReassignments(Map.of(first, Optional.of(move))).all().get();
            check(admin.listPartitionReassignments().reassignments().get().isEmpty(), "reassignments");
            described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            check(described.partitions().get(0).leader().id() == 1, described);
            var features = admin.describeFeatures().featureMetadata().get();
            check(features.finalizedFeatures().containsKey("transaction.version"), features);
            check(admin.describeMetadataQuorum().quorumInfo().get().voters().size() == 2, "quorum");
            check(!admin.listConfigResources().all().get().isEmpty(), "resources");
        }
    }

    private static void check(boolean right, Object what) {
        if (!right) {
            throw new IllegalStateException(String.valueOf(what));
        }
    }
}
