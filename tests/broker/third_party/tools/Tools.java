import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after another in this process: a new one would take each a second to start.
 *
 * <p>{@code Tools JAR} reads calls from standard input, one JSON object a line, {@code {"tool": class, "arguments":
 * [...], "input": text}}, and answers each with a line, {@code {"code": exit code, "output": text, "errors": text}}.
 * JAR, which is not to be on the class path, is loaded anew for each call: tools keep counts in static fields.
 */
public final class Tools {
    /** What a tool's exit becomes. It ends at the first: what it does after that is not its own doing. */
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    private final ByteArrayOutputStream output = new ByteArrayOutputStream();
    private final ByteArrayOutputStream errors = new ByteArrayOutputStream();
    private final List<Runnable> hooks = new ArrayList<>();
    private Integer code;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        var calls = new BufferedReader(new InputStreamReader(System.in));
        URL[] jar = {Path.of(arguments[0]).toUri().toURL()};
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            answers.println(JSON.writeValueAsString(new Tools().run(JSON.readTree(line), jar)));
        }
        // Not exit: the threads that a tool has left behind have nothing more to do.
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> run(JsonNode call, URL[] jar) throws Exception {
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        System.setIn(new ByteArrayInputStream(call.get("input").asText().getBytes()));
        System.setOut(new PrintStream(output, true));
        System.setErr(new PrintStream(errors, true));
        String[] arguments = JSON.treeToValue(call.get("arguments"), String[].class);
        try (var loader = new URLClassLoader(jar)) {
            Thread.currentThread().setContextClassLoader(loader);
            loader.loadClass(call.get("tool").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (code == null) {
                thrown.getCause().printStackTrace();
                end(1);
            }
        }
        if (code == null) {
            end(0);
        }
        return Map.of("code", code, "output", output.toString(), "errors", errors.toString());
    }

    private void exit(int status) {
        if (code == null) {
            end(status);
        }
        throw new Exited();
    }

    /** The end of the tool's process, if it had one: hooks run, and nothing is written any more. */
    private void end(int status) {
        code = status;
        hooks.forEach(Runnable::run);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        System.setErr(System.out);
    }
}
