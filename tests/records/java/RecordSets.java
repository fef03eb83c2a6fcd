import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Consumer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/**
 * Record sets, written and read by Kafka's own code.
 *
 * "write" prints record sets of every kind, "read" takes such sets from its input; both print, after each
 * "set NAME HEX", what Kafka reads in it. The packages are those of Kafka 4.4; for older ones the test changes them.
 */
public class RecordSets {
    private static final long TIME = 1_700_000_000_000L;
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write"))
            writeAll();
        else
            readAll();
    }

    private static void writeAll() {
        for (byte magic = 0; magic <= 2; magic++)
            for (CompressionType type : CompressionType.values())
                if (magic == 2 || type != CompressionType.ZSTD)
                    for (TimestampType time : List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))
                        if (magic > 0 || time == TimestampType.CREATE_TIME)
                            writePlain(magic, Compression.of(type).build(), type.name + "-" + time);
        for (CompressionType type : CompressionType.values())
            writeProducers(Compression.of(type).build(), type.name);
        writeControl();
    }

    private static void writePlain(byte magic, Compression codec, String kind) {
        String name = "magic-" + magic + "-" + kind;
        TimestampType time = kind.endsWith("LogAppendTime") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        long appended = time == TimestampType.LOG_APPEND_TIME ? TIME + 5555 : RecordBatch.NO_TIMESTAMP;
        MemoryRecordsBuilder few = builder(magic, codec, time, 1000, appended, -1, -1, -1, false, false, -1);
        few.append(TIME, "key".getBytes(), "value".getBytes(), headers(magic));
        few.append(TIME - 7, (byte[]) null, "no key".getBytes());
        few.append(TIME + 100_000, "no value".getBytes(), null);
        few.append(TIME, (byte[]) null, null);
        few.append(TIME, new byte[0], new byte[0]);
        print(name + "-few", few.build());

        MemoryRecordsBuilder many = builder(magic, codec, time, 0, appended, -1, -1, -1, false, false, 7);
        for (int i = 0; i < 300; i++)
            many.append(TIME + i, ("key" + i).getBytes(), content(i));
        print(name + "-many", many.build());

        MemoryRecordsBuilder gaps = builder(magic, codec, time, 50, appended, -1, -1, -1, false, false, 0);
        for (int i = 0; i < 10; i++)
            gaps.appendWithOffset(50 + 3 * i, TIME + i, ("key" + i).getBytes(), content(i));
        print(name + "-compacted", gaps.build());
    }

    private static void writeProducers(Compression codec, String name) {
        for (boolean transactional : new boolean[] {false, true}) {
            MemoryRecordsBuilder builder = builder(
                RecordBatch.MAGIC_VALUE_V2, codec, TimestampType.CREATE_TIME, 77, -1, 1L << 40, 9, Integer.MAX_VALUE - 1,
                transactional, false, 3);
            for (int i = 0; i < 5; i++)
                builder.append(TIME + i, null, ("value" + i).getBytes());
            print((transactional ? "transactional-" : "idempotent-") + name, builder.build());
        }
        MemoryRecordsBuilder horizon = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 16), RecordBatch.MAGIC_VALUE_V2, codec, TimestampType.CREATE_TIME, 5, -1, -1,
            (short) -1, -1, false, false, 2, 1 << 16, TIME + 86_400_000);
        horizon.appendWithOffset(6, TIME, "gone".getBytes(), null);
        horizon.appendWithOffset(9, TIME + 1, "gone too".getBytes(), null);
        print("delete-horizon-" + name, horizon.build());
        MemoryRecordsBuilder together = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 16), RecordBatch.MAGIC_VALUE_V2, codec, TimestampType.CREATE_TIME, 5, -1, 77,
            (short) 3, 10, true, false, 2, 1 << 16, TIME + 86_400_000);
        together.append(TIME + 86_400_000, "at the horizon".getBytes(), null);
        together.append(TIME, "before".getBytes(), null);
        together.append(TIME + 90_000_000, "after".getBytes(), "value".getBytes());
        print("delete-horizon-together-" + name, together.build());
    }

    private static void writeControl() {
        for (ControlRecordType type : List.of(ControlRecordType.COMMIT, ControlRecordType.ABORT)) {
            MemoryRecordsBuilder builder = control(true, 123);
            builder.appendEndTxnMarker(TIME, new EndTransactionMarker(type, 42));
            print("control-" + type, builder.build());
        }
        writeKraft("LEADER_CHANGE", batch -> batch.appendLeaderChangeMessage(TIME,
            new LeaderChangeMessage().setVersion((short) 0).setLeaderId(2)
                .setVoters(List.of(voter(1), voter(2), voter(3))).setGrantingVoters(List.of(voter(2), voter(3)))));
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("controller.example").setPort(65535));
        VotersRecord voters = new VotersRecord().setVersion((short) 0).setVoters(List.of(
            new VotersRecord.Voter().setVoterId(3).setVoterDirectoryId(new Uuid(1, 2)).setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature().setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1))));
        SnapshotHeaderRecord header = new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(TIME - 1);
        SnapshotFooterRecord footer = new SnapshotFooterRecord().setVersion((short) 0);
        KRaftVersionRecord version = new KRaftVersionRecord().setVersion((short) 0).setKRaftVersion((short) 1);
        writeKraft("SNAPSHOT_HEADER", batch -> batch.appendSnapshotHeaderMessage(TIME, header));
        writeKraft("SNAPSHOT_FOOTER", batch -> batch.appendSnapshotFooterMessage(TIME, footer));
        writeKraft("KRAFT_VERSION", batch -> batch.appendKRaftVersionMessage(TIME, version));
        writeKraft("KRAFT_VOTERS", batch -> batch.appendVotersMessage(TIME, voters));
        writeKraft("SNAPSHOT", batch -> {
            batch.appendSnapshotHeaderMessage(TIME, header);
            batch.appendKRaftVersionMessage(TIME, version);
            batch.appendVotersMessage(TIME, voters);
        });
    }

    private static void writeKraft(String name, Consumer<MemoryRecordsBuilder> content) {
        MemoryRecordsBuilder batch = control(false, -1);
        content.accept(batch);
        print("control-" + name, batch.build());
    }

    private static LeaderChangeMessage.Voter voter(int id) {
        return new LeaderChangeMessage.Voter().setVoterId(id);
    }

    private static MemoryRecordsBuilder control(boolean transactional, long producerId) {
        return builder(
            RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME, 900, -1, producerId,
            producerId < 0 ? -1 : 4, -1, transactional, true, 6);
    }

    private static MemoryRecordsBuilder builder(
        byte magic, Compression codec, TimestampType time, long offset, long appended, long producerId, int epoch,
        int sequence, boolean transactional, boolean control, int leaderEpoch
    ) {
        return MemoryRecords.builder(
            ByteBuffer.allocate(1 << 16), magic, codec, time, offset, appended, producerId, (short) epoch, sequence,
            transactional, control, leaderEpoch);
    }

    private static Header[] headers(byte magic) {
        if (magic < 2)
            return new Header[0];
        return new Header[] {
            new RecordHeader("name", "content".getBytes()), new RecordHeader("name", null),
            new RecordHeader("h\u00e9\ud83d\ude00", new byte[0])};
    }

    /** Some of it compresses well, some not at all, and together it takes several blocks of any codec. */
    private static byte[] content(int index) {
        byte[] bytes = new byte[index * 3];
        if (index % 2 == 0)
            new java.util.Random(index).nextBytes(bytes);
        return bytes;
    }

    private static void readAll() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            print(words[0], MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[1]))));
        }
    }

    private static void print(String name, MemoryRecords records) {
        StringBuilder out = new StringBuilder("set " + name + " " + hex(records.buffer().duplicate()) + "\n");
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            int count = 0;
            for (Record record : batch) {
                record.ensureValid();
                count++;
            }
            OptionalLong horizon = batch.deleteHorizonMs();
            out.append(String.format(
                "batch %d %d %d magic=%d codec=%s time=%s max=%d producer=%d/%d/%d/%d txn=%b control=%b epoch=%d horizon=%s size=%d count=%d\n",
                batch.baseOffset(), batch.lastOffset(), batch.nextOffset(), batch.magic(), batch.compressionType().name,
                batch.timestampType(), batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
                batch.lastSequence(), batch.isTransactional(), batch.isControlBatch(), batch.partitionLeaderEpoch(),
                horizon.isPresent() ? horizon.getAsLong() : "none", batch.sizeInBytes(), count));
            for (Record record : batch) {
                out.append(String.format("record %d %d %s %s", record.offset(), record.timestamp(), hex(record.key()), hex(record.value())));
                for (Header header : record.headers())
                    out.append(" " + hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))) + "="
                        + hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                out.append("\n");
                if (batch.isControlBatch())
                    out.append("control ").append(controlRecord(record)).append("\n");
            }
        }
        System.out.print(out);
    }

    private static String controlRecord(Record record) {
        ControlRecordType type = ControlRecordType.parse(record.key());
        Object value = switch (type) {
            case ABORT, COMMIT -> "{\"coordinatorEpoch\":" + EndTransactionMarker.deserialize(record).coordinatorEpoch() + "}";
            case LEADER_CHANGE -> LeaderChangeMessageJsonConverter.write(
                ControlRecordUtils.deserializeLeaderChangeMessage(record), ControlRecordUtils.LEADER_CHANGE_CURRENT_VERSION);
            case SNAPSHOT_HEADER -> SnapshotHeaderRecordJsonConverter.write(
                ControlRecordUtils.deserializeSnapshotHeaderRecord(record), ControlRecordUtils.SNAPSHOT_HEADER_CURRENT_VERSION);
            case SNAPSHOT_FOOTER -> SnapshotFooterRecordJsonConverter.write(
                ControlRecordUtils.deserializeSnapshotFooterRecord(record), ControlRecordUtils.SNAPSHOT_FOOTER_CURRENT_VERSION);
            case KRAFT_VERSION -> KRaftVersionRecordJsonConverter.write(
                ControlRecordUtils.deserializeKRaftVersionRecord(record), ControlRecordUtils.KRAFT_VERSION_CURRENT_VERSION);
            case KRAFT_VOTERS -> VotersRecordJsonConverter.write(
                ControlRecordUtils.deserializeVotersRecord(record), ControlRecordUtils.KRAFT_VOTERS_CURRENT_VERSION);
            default -> "";
        };
        return type + " " + value;
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return ":" + HEX.formatHex(bytes);
    }
}
