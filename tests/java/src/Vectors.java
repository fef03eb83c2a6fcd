import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.jar.JarFile;
import java.util.regex.Pattern;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.Schema;

/**
 * Writes test vectors: every generated message of a Kafka release, in every version that the release has.
 *
 * Usage: Vectors OUTPUT SEEDS JAR... with the jars on the class path too. One line a vector, tab-separated: "message",
 * name, version, style, bytes in hex, Kafka's JSON of them, the unknown tagged fields of each struct that has any.
 * And one line an ApiKey and version: "api", key, version, request header's version, response header's version.
 */
public final class Vectors {
    private static final Pattern GENERATED =
        Pattern.compile("org/apache/kafka/(common/message|common/metadata|.*/generated)/[A-Za-z0-9]+\\.class");

    public static void main(String[] arguments) throws Exception {
        int seeds = Integer.parseInt(arguments[1]);
        try (PrintStream out = new PrintStream(
                new BufferedOutputStream(new FileOutputStream(arguments[0])), false, StandardCharsets.UTF_8)) {
            for (int i = 2; i < arguments.length; i++) {
                for (Class<? extends Message> message : messages(new File(arguments[i]))) {
                    writeMessage(out, message, seeds);
                }
            }
            writeHeaderVersions(out);
        }
    }

    private static List<Class<? extends Message>> messages(File jar) throws Exception {
        List<Class<? extends Message>> found = new ArrayList<>();
        try (JarFile file = new JarFile(jar)) {
            for (var entry : Collections.list(file.entries())) {
                if (GENERATED.matcher(entry.getName()).matches()) {
                    String name = entry.getName().replace('/', '.').replaceFirst("\\.class$", "");
                    Class<?> type = Class.forName(name, false, Vectors.class.getClassLoader());
                    if (Message.class.isAssignableFrom(type) && !Modifier.isAbstract(type.getModifiers())) {
                        found.add(type.asSubclass(Message.class));
                    }
                }
            }
        }
        return found;
    }

    private static void writeMessage(PrintStream out, Class<? extends Message> type, int seeds) throws Exception {
        short lowest = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
        short highest = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        for (short version = lowest; version <= highest; version++) {
            for (Filler.Style style : Filler.Style.values()) {
                int rounds = style == Filler.Style.SET || style == Filler.Style.SPARSE ? seeds : 1;
                for (int seed = 0; seed < rounds; seed++) {
                    String label = style.name().toLowerCase() + seed;
                    try {
                        Message message = filled(type, version, schemas[version], style, seed, true);
                        writeVector(out, message, version, schemas[version], label);
                    } catch (NullPointerException refused) {
                        Message message = filled(type, version, schemas[version], style, seed, false);
                        writeVector(out, message, version, schemas[version], label);
                    }
                }
            }
        }
    }

    private static Message filled(Class<? extends Message> type, short version, Schema schema, Filler.Style style,
            int seed, boolean nullRecords) throws Exception {
        Random random = new Random(Objects.hash(type.getSimpleName(), version, style.name(), seed));
        Message message = type.getConstructor().newInstance();
        new Filler(style, random, nullRecords).fill(message, schema);
        return message;
    }

    private static void writeVector(PrintStream out, Message message, short version, Schema schema, String label)
            throws Exception {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(message.getClass() + " v" + version + " is shorter than Java reckoned");
        }
        buffer.flip();
        Message back = message.getClass().getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer.duplicate()), version);
        if (!back.equals(message)) {
            throw new IllegalStateException(
                message.getClass() + " v" + version + " reads back as\n" + back + "\nnot\n" + message);
        }
        String name = message.getClass().getSimpleName();
        out.println(String.join("\t", "message",
            name.replaceFirst("(?<=Request|Response|Header)Data$", ""), Short.toString(version), label,
            HexFormat.of().formatHex(buffer.array()),
            Values.json(message, version, schema).toString(), Values.unknownTags(message).toString()));
    }

    private static void writeHeaderVersions(PrintStream out) {
        TreeMap<Short, ApiMessageType> types = new TreeMap<>();
        for (ApiMessageType type : ApiMessageType.values()) {
            types.put(type.apiKey(), type);
        }
        for (ApiMessageType type : types.values()) {
            short highest = type.highestSupportedVersion(true);
            for (short version = type.lowestSupportedVersion(); version <= highest; version++) {
                out.println(String.join("\t", "api", "" + type.apiKey(), "" + version,
                    "" + type.requestHeaderVersion(version), "" + type.responseHeaderVersion(version)));
            }
        }
    }
}
