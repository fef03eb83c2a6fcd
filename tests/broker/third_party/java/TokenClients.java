import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Creates a delegation token (KIP-48), lets the Java clients log in with it, and expires it.
 *
 * <p>{@code TokenClients ADDRESS TOPIC USER PASSWORD MECHANISM}
 */
public final class TokenClients {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final long LONG_TIMEOUT = 60;

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        String topic = arguments[1];
        String user = arguments[2];
        Properties own =
                login(address, "PLAIN", "plain.PlainLoginModule", user, arguments[3], "");
        try (Admin admin = Admin.create(own)) {
            KafkaPrincipal renewer = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "renewer");
            var wanted = new CreateDelegationTokenOptions().renewers(List.of(renewer));
            DelegationToken token = admin.createDelegationToken(wanted).delegationToken().get(LONG_TIMEOUT, TimeUnit.SECONDS);
            long expires =
                    admin.renewDelegationToken(token.hmac()).expiryTimestamp().get(LONG_TIMEOUT, TimeUnit.SECONDS);
            if (expires < token.tokenInfo().expiryTimestamp()) {
                throw new AssertionError("renewed until " + expires + ", before it expired anyhow");
            }
            var mine = new DescribeDelegationTokenOptions().owners(List.of(token.tokenInfo().owner()));
            System.out.println(
                    admin.describeDelegationToken(mine).delegationTokens().get(LONG_TIMEOUT, TimeUnit.SECONDS).equals(List.of(token)));
            Properties delegated =
                    login(
                            address,
                            arguments[4],
                            "scram.ScramLoginModule",
                            token.tokenInfo().tokenId(),
                            token.hmacAsBase64String(),
                            " tokenauth=\"true\"");
            System.out.println(work(delegated, topic));
            admin.expireDelegationToken(token.hmac(), new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1))
                    .expiryTimestamp()
                    .get(LONG_TIMEOUT, TimeUnit.SECONDS);
            System.out.println(
                    admin.describeDelegationToken().delegationTokens().get(LONG_TIMEOUT, TimeUnit.SECONDS).size());
        }
    }

    private static String work(Properties options, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, "key", "value")).get(LONG_TIMEOUT, TimeUnit.SECONDS);
        }
        try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LONG_TIMEOUT);
            while (System.nanoTime() < end) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value();
                }
            }
            throw new AssertionError("nothing was read in " + LONG_TIMEOUT + " s");
        }
    }

    private static Properties login(
            String address, String mechanism, String module, String name, String password, String more) {
        Properties options = new Properties();
        options.put("bootstrap.servers", address);
        options.put("security.protocol", "SASL_PLAINTEXT");
        options.put("sasl.mechanism", mechanism);
        options.put(
                "sasl.jaas.config",
                String.format("%s%s required username=\"%s\" password=\"%s\"%s;", MODULES, module, name, password, more));
        return options;
    }
}
