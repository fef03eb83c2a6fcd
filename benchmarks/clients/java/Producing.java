import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The ways to write. */
final class Producing {
    private static final int IN_TRANSACTION = 100;

    private Producing() {
    }

    static void sendAndFlush(Work work) throws ExecutionException, InterruptedException {
        try (KafkaProducer<byte[], byte[]> producer = connected(work, work.settings.get("linger_ms").asInt())) {
            AtomicReference<Exception> failure = new AtomicReference<>();
            // Called by the producer's one thread; flush() returns after the last call.
            Callback delivered = (where, error) -> {
                if (error == null) {
                    work.settled++;
                } else {
                    failure.set(error);
                }
            };
            work.meter.start();
            for (int left = work.messages; left > 0; left--) {
                producer.send(record(work), delivered);
            }
            producer.flush();
            work.meter.stop();
            if (failure.get() != null) {
                throw new ExecutionException(failure.get());
            }
        }
    }

    static void sendAndGet(Work work) throws ExecutionException, InterruptedException {
        try (KafkaProducer<byte[], byte[]> producer = connected(work, 0)) {
            work.meter.start();
            for (int left = work.messages; left > 0; left--) {
                long started = System.nanoTime();
                producer.send(record(work)).get();
                work.latencies.add((System.nanoTime() - started) / 1e9);
                work.settled++;
            }
            work.meter.stop();
        }
    }

    static void start(Work work) throws ExecutionException, InterruptedException {
        work.meter.start();
        try (KafkaProducer<byte[], byte[]> producer = producer(work, 0)) {
            producer.send(record(work)).get();
            work.meter.stop();
            work.settled++;
        }
    }

    static void transact(Work work) {
        Properties options = options(work, work.settings.get("linger_ms").asInt());
        options.put("transactional.id", work.topic + "-transactions");
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            transaction(producer, work, 1);
            work.connecting++;
            work.meter.start();
            for (int left = work.messages; left > 0; left -= IN_TRANSACTION) {
                long started = System.nanoTime();
                int count = Math.min(left, IN_TRANSACTION);
                transaction(producer, work, count);
                work.latencies.add((System.nanoTime() - started) / 1e9);
                work.settled += count;
            }
            work.meter.stop();
        }
    }

    private static void transaction(KafkaProducer<byte[], byte[]> producer, Work work, int count) {
        producer.beginTransaction();
        for (int left = count; left > 0; left--) {
            producer.send(record(work));
        }
        // Raises what any of them failed with.
        producer.commitTransaction();
    }

    private static KafkaProducer<byte[], byte[]> connected(Work work, int lingerMs)
        throws ExecutionException, InterruptedException {
        KafkaProducer<byte[], byte[]> producer = producer(work, lingerMs);
        producer.send(record(work)).get();
        work.connecting++;
        return producer;
    }

    private static KafkaProducer<byte[], byte[]> producer(Work work, int lingerMs) {
        return new KafkaProducer<>(options(work, lingerMs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static Properties options(Work work, int lingerMs) {
        Properties options = work.clientOptions();
        options.put("acks", "all");
        options.put("enable.idempotence", work.settings.get("idempotence").asBoolean());
        options.put("linger.ms", lingerMs);
        options.put("batch.size", work.settings.get("batch_bytes").asInt());
        options.put("compression.type", work.compression);
        options.put("max.in.flight.requests.per.connection", work.settings.get("in_flight").asInt());
        return options;
    }

    private static ProducerRecord<byte[], byte[]> record(Work work) {
        return new ProducerRecord<>(work.topic, work.value());
    }
}
