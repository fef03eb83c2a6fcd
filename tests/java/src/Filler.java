import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/** Gives a generated message values, in those fields which the schema of one version has. */
final class Filler {
    enum Style {
        /** As the constructor left it. */
        DEFAULTS,
        /** Every field has a value, and not its default. */
        SET,
        /** Every field that can be null is. */
        NULLS,
        /** The same, but for lists and structs in which something can be null. */
        INNER_NULLS,
        /** Fields are null, left as they are, or set; structs carry unknown tagged fields. */
        SPARSE
    }

    private static final String[] STRINGS = {
        "", "a", "topic-1", "gr\u00fc\u00dfe", "\ud83d\ude80 \u6771\u4eac", "x".repeat(127), "y".repeat(300)
    };
    private static final int[] SIZES = {0, 1, 5, 127, 128, 200};
    private static final int[] TAGS = {100, 127, 128, 20_000, 0x0fff_ffff};

    private final Style style;
    private final Random random;
    private final boolean nullRecords;

    /** {@code nullRecords}: whether record sets may be null. Every schema says so, some generated code knows better. */
    Filler(Style style, Random random, boolean nullRecords) {
        this.style = style;
        this.random = random;
        this.nullRecords = nullRecords;
    }

    void fill(Message target, Schema schema) throws ReflectiveOperationException {
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (var known : Values.known(tagged).values()) {
                    set(target, known.name, known.type);
                }
                if (style == Style.SPARSE && random.nextBoolean()) {
                    addUnknownTags(target.unknownTaggedFields());
                }
            } else {
                set(target, field.def.name, field.def.type);
            }
        }
    }

    private void set(Message target, String name, Type type) throws ReflectiveOperationException {
        Field field = Values.field(target.getClass(), name);
        boolean isNull = field.get(target) == null;
        // The schemas of the older release do not say of a struct that it can be null; a new message has it so.
        boolean nullable = type.isNullable()
            ? nullRecords || !isRecords(field.getType())
            : isNull && type instanceof Schema;
        boolean mustBeSet = isNull && !nullable;
        switch (style) {
            case DEFAULTS -> {
                if (mustBeSet) {
                    field.set(target, value(field.getType(), field.getGenericType(), type));
                }
            }
            case SET -> {
                Object unset = field.get(target);
                Object made;
                do {
                    made = value(field.getType(), field.getGenericType(), type);
                } while (Objects.equals(made, unset) || isEmpty(made));
                field.set(target, made);
            }
            case NULLS, INNER_NULLS -> {
                if (nullable && (style == Style.NULLS || !holdsNullable(type))) {
                    field.set(target, null);
                } else {
                    field.set(target, value(field.getType(), field.getGenericType(), type));
                }
            }
            case SPARSE -> {
                if (nullable && random.nextInt(3) > 0) {
                    field.set(target, null);
                } else if (mustBeSet || random.nextInt(3) > 0) {
                    field.set(target, value(field.getType(), field.getGenericType(), type));
                }
            }
        }
    }

    private static boolean holdsNullable(Type type) throws ReflectiveOperationException {
        if (type.isArray()) {
            return holdsNullable(type.arrayElementType().orElseThrow());
        }
        if (type instanceof Schema schema) {
            for (BoundField field : schema.fields()) {
                if (field.def.type instanceof TaggedFields tagged) {
                    for (var known : Values.known(tagged).values()) {
                        if (known.type.isNullable() || holdsNullable(known.type)) {
                            return true;
                        }
                    }
                } else if (field.def.type.isNullable() || holdsNullable(field.def.type)) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Whether Java sees a difference that bytes do not show: nothing in a buffer or record set is a default too. */
    private static boolean isEmpty(Object value) {
        return value instanceof ByteBuffer buffer && !buffer.hasRemaining()
            || value instanceof byte[] bytes && bytes.length == 0;
    }

    private static boolean isRecords(Class<?> java) {
        return java.getSimpleName().equals("BaseRecords");
    }

    private void addUnknownTags(List<RawTaggedField> unknown) {
        for (int tag : TAGS) {
            if (random.nextInt(3) == 0) {
                unknown.add(new RawTaggedField(tag, bytes()));
            }
        }
    }

    private Object value(Class<?> java, java.lang.reflect.Type generic, Type type) throws ReflectiveOperationException {
        if (Collection.class.isAssignableFrom(java) && !java.isInterface()) {
            var parent = (ParameterizedType) java.getGenericSuperclass();
            return fillList(newCollection(java), parent.getActualTypeArguments()[0], type);
        }
        if (List.class.isAssignableFrom(java)) {
            return fillList(new ArrayList<>(), ((ParameterizedType) generic).getActualTypeArguments()[0], type);
        }
        if (Message.class.isAssignableFrom(java)) {
            Message struct = (Message) java.getConstructor().newInstance();
            fill(struct, (Schema) type);
            return struct;
        }
        return primitive(java, type);
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> newCollection(Class<?> java) throws ReflectiveOperationException {
        return (Collection<Object>) java.getConstructor().newInstance();
    }

    private Object fillList(Collection<Object> list, java.lang.reflect.Type element, Type type)
            throws ReflectiveOperationException {
        Class<?> java = (Class<?>) element;
        Type elementType = type.arrayElementType().orElseThrow();
        int size = switch (style) {
            case SET -> 1 + random.nextInt(2);
            case NULLS, INNER_NULLS -> 1;
            default -> random.nextInt(3);
        };
        if (!Message.class.isAssignableFrom(java) && random.nextInt(8) == 0) {
            size = 130;  // More than one byte of an unsigned varint can tell.
        }
        for (int i = 0; i < size; i++) {
            list.add(value(java, element, elementType));
        }
        return list;
    }

    private Object primitive(Class<?> java, Type type) throws ReflectiveOperationException {
        if (java == boolean.class || java == Boolean.class) {
            return random.nextBoolean();
        } else if (java == byte.class || java == Byte.class) {
            return (byte) number(8);
        } else if (java == short.class || java == Short.class) {
            return (short) number(16);
        } else if (java == int.class || java == Integer.class) {
            return type == Type.UINT16 ? (int) number(16) & 0xffff : (int) number(32);
        } else if (java == long.class || java == Long.class) {
            return type == Type.UNSIGNED_INT32 ? number(32) & 0xffff_ffffL : number(64);
        } else if (java == double.class || java == Double.class) {
            return random.nextGaussian() * Math.pow(10, random.nextInt(40) - 20);
        } else if (java == String.class) {
            return STRINGS[random.nextInt(STRINGS.length)];
        } else if (java == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (java == byte[].class) {
            return bytes();
        } else if (java == ByteBuffer.class) {
            return ByteBuffer.wrap(bytes());
        } else if (isRecords(java)) {
            // Its package is another in each release.
            return Class.forName(java.getPackageName() + ".MemoryRecords")
                .getMethod("readableRecords", ByteBuffer.class).invoke(null, ByteBuffer.wrap(bytes()));
        }
        throw new IllegalStateException("no values for " + java + " as " + type);
    }

    /** The ends of the range of a number of so many bits, its sign, and anything between. */
    private long number(int bits) {
        return switch (random.nextInt(6)) {
            case 0 -> (1L << (bits - 1)) - 1;
            case 1 -> -(1L << (bits - 1));
            case 2 -> -1;
            default -> random.nextLong() >> (64 - bits);
        };
    }

    private byte[] bytes() {
        byte[] made = new byte[SIZES[random.nextInt(SIZES.length)]];
        random.nextBytes(made);
        return made;
    }
}
