import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's own assignors compute: one case for each line of the input, as JSON, and one result for each line of the
 * output.
 *
 * <p>A case with "members" is an assignment: subscriptions as bytes, and for each partition the racks of its replicas. One
 * with "assigned" is what a member tells the leader after it was assigned these partitions.
 */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Assignors() {}

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode example = JSON.readTree(line);
            out.println(example.has("members") ? assignment(example) : userData(example));
        }
        out.flush();
    }

    private static ConsumerPartitionAssignor assignor(JsonNode example) {
        switch (example.get("assignor").asText()) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static ObjectNode assignment(JsonNode example) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : example.get("members")) {
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(member.get(2).asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(Optional.ofNullable(member.get(1).textValue()));
            subscriptions.put(member.get(0).asText(), subscription);
        }
        ObjectNode result = JSON.createObjectNode();
        try {
            assignor(example).assign(cluster(example.get("topics")), new GroupSubscription(subscriptions))
                .groupAssignment()
                .forEach((member, assigned) -> result.set(member, partitions(assigned.partitions())));
        } catch (RuntimeException failure) {
            result.removeAll();
            result.put("error", failure.toString());
        }
        return result;
    }

    /** A broker for each rack that is named, and one without. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> brokers = new HashMap<>();
        brokers.put(null, new Node(0, "localhost", 9092));
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(brokers.computeIfAbsent(rack.textValue(), name ->
                        new Node(brokers.size(), "localhost", 9092, name)));
                }
                int number = partitionCount(partitions, topic.getKey());
                Node[] nodes = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number, brokers.get(null), nodes, nodes));
            }
        });
        return new Cluster("cluster", new HashSet<>(brokers.values()), partitions, Set.of(), Set.of());
    }

    private static int partitionCount(List<PartitionInfo> partitions, String topic) {
        PartitionInfo last = partitions.isEmpty() ? null : partitions.get(partitions.size() - 1);
        return last == null || !last.topic().equals(topic) ? 0 : last.partition() + 1;
    }

    private static ArrayNode partitions(List<TopicPartition> assigned) {
        ArrayNode result = JSON.createArrayNode();
        assigned.forEach(partition -> result.addArray().add(partition.topic()).add(partition.partition()));
        return result;
    }

    private static ObjectNode userData(JsonNode example) {
        ConsumerPartitionAssignor assignor = assignor(example);
        List<TopicPartition> assigned = new ArrayList<>();
        example.get("assigned").forEach(pair -> assigned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        int generation = example.get("generation").asInt();
        assignor.onAssignment(new Assignment(assigned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        ByteBuffer data = assignor.subscriptionUserData(Set.of());
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        byte[] encoded = ConsumerProtocol.serializeAssignment(new Assignment(assigned)).array();
        return JSON.createObjectNode()
            .put("user_data", HexFormat.of().formatHex(bytes))
            .put("assignment", HexFormat.of().formatHex(encoded));
    }
}
