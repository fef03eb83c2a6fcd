import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

/** What is in a generated message, as JSON. */
final class Values {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    /** Kafka's own JSON; for the messages that Kafka publishes without a converter, one in the same form. */
    static JsonNode json(Message message, short version, Schema schema) throws ReflectiveOperationException {
        Class<?> converter;
        try {
            converter = Class.forName(message.getClass().getName() + "JsonConverter");
        } catch (ClassNotFoundException none) {
            return struct(message, schema);
        }
        // "false": the size of record sets, not an empty stand-in for them.
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class, boolean.class)
            .invoke(null, message, version, false);
    }

    /** The unknown tagged fields of each struct that has any, outer structs first. */
    static ArrayNode unknownTags(Message message) throws ReflectiveOperationException {
        ArrayNode found = NODES.arrayNode();
        collectUnknownTags(message, found);
        return found;
    }

    /** Known tagged fields by tag. The older release has no accessor for them. */
    @SuppressWarnings("unchecked")
    static Map<Integer, org.apache.kafka.common.protocol.types.Field> known(TaggedFields tagged)
            throws ReflectiveOperationException {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return new TreeMap<>((Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(tagged));
    }

    /** The field of a generated class which its schema calls {@code name}, in snake_case. */
    static Field field(Class<?> type, String name) {
        String wanted = name.replace("_", "");
        for (Field field : type.getDeclaredFields()) {
            if (field.getName().equalsIgnoreCase(wanted) && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                return field;
            }
        }
        throw new IllegalStateException(type + " has no field " + name);
    }

    private static ObjectNode struct(Message message, Schema schema) throws ReflectiveOperationException {
        ObjectNode node = NODES.objectNode();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                throw new IllegalStateException(message.getClass() + " has tagged fields, and no converter to JSON");
            }
            Field field = field(message.getClass(), bound.def.name);
            node.set(field.getName(), value(field.get(message), bound.def.type));
        }
        return node;
    }

    private static JsonNode value(Object value, org.apache.kafka.common.protocol.types.Type type)
            throws ReflectiveOperationException {
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Message message) {
            return struct(message, (Schema) type);
        } else if (value instanceof Collection<?> list) {
            ArrayNode array = NODES.arrayNode();
            for (Object element : list) {
                array.add(value(element, type.arrayElementType().orElseThrow()));
            }
            return array;
        } else if (value instanceof byte[] bytes) {
            return NODES.binaryNode(bytes);
        } else if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return NODES.binaryNode(bytes);
        } else if (value instanceof String || value instanceof Uuid) {
            return NODES.textNode(value.toString());
        } else if (value instanceof Boolean bool) {
            return NODES.booleanNode(bool);
        } else if (value instanceof Double number) {
            return NODES.numberNode(number);
        }
        return NODES.numberNode(((Number) value).longValue());
    }

    private static void collectUnknownTags(Message message, ArrayNode found) throws ReflectiveOperationException {
        if (!message.unknownTaggedFields().isEmpty()) {
            ObjectNode tags = found.addObject();
            for (RawTaggedField field : message.unknownTaggedFields()) {
                tags.put(Integer.toString(field.tag()), HexFormat.of().formatHex(field.data()));
            }
        }
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(message);
            if (value instanceof Message inner) {
                collectUnknownTags(inner, found);
            } else if (value instanceof Collection<?> list) {
                for (Object element : list) {
                    if (element instanceof Message inner) {
                        collectUnknownTags(inner, found);
                    }
                }
            }
        }
    }
}
