import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of groups, as many as they are told to be.
 *
 * <p>They read commands, one a line: "start NAME SERVERS GROUP ASSIGNORS TOPICS" with commas in the last two, "stop NAME".
 * For each change they write "NAME" and the partitions of that member; "NAME stopped" once it has left the group.
 */
public final class Members {
    private static final Map<String, Class<?>> ASSIGNORS = Map.of(
        "range", RangeAssignor.class,
        "roundrobin", RoundRobinAssignor.class,
        "sticky", StickyAssignor.class,
        "cooperative-sticky", CooperativeStickyAssignor.class);

    private Members() {}

    public static void main(String[] args) throws IOException {
        Map<String, Member> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(words);
                members.put(words[1], member);
                member.start();
            } else {
                members.remove(words[1]).stopping = true;
            }
        }
        members.values().forEach(member -> member.stopping = true);
    }

    private static final class Member extends Thread {
        private final String[] words;
        private volatile boolean stopping;

        Member(String[] words) {
            this.words = words;
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options())) {
                consumer.subscribe(List.of(words[5].split(",")));
                Set<String> before = Set.of("nothing yet");
                while (!stopping) {
                    consumer.poll(Duration.ofMillis(50));
                    Set<String> now = new TreeSet<>();
                    consumer.assignment().forEach(partition -> now.add(partition.toString()));
                    if (!now.equals(before)) {
                        say(words[1] + " " + String.join(" ", now));
                        before = now;
                    }
                }
            } catch (RuntimeException failure) {
                failure.printStackTrace();
                say(words[1] + " failed " + failure);
                return;
            }
            say(words[1] + " stopped");
        }

        private static void say(String line) {
            synchronized (System.out) {
                System.out.println(line);
            }
        }

        private Properties options() {
            Properties options = new Properties();
            options.put("bootstrap.servers", words[2]);
            options.put("group.id", words[3]);
            options.put("group.protocol", "classic");
            options.put("heartbeat.interval.ms", "100");
            options.put("partition.assignment.strategy",
                Arrays.stream(words[4].split(",")).<Class<?>>map(ASSIGNORS::get).toList());
            options.put("key.deserializer", ByteArrayDeserializer.class);
            options.put("value.deserializer", ByteArrayDeserializer.class);
            return options;
        }
    }
}
