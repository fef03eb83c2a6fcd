import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * Matches texts with RE2J, the library for regular expressions that Kafka uses.
 *
 * <p>{@code Patterns FILE}: each line of the file has a pattern and some texts, in hex. Prints a line for each of them:
 * a digit for each text, 1 if the pattern matches it, or {@code invalid}.
 */
public final class Patterns {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            List<String> fields = new ArrayList<>();
            for (String field : line.split(" ", -1)) {
                fields.add(new String(HexFormat.of().parseHex(field), StandardCharsets.UTF_8));
            }
            System.out.println(matches(fields.get(0), fields.subList(1, fields.size())));
        }
    }

    private static String matches(String text, List<String> names) {
        try {
            Pattern pattern = Pattern.compile(text);
            StringBuilder found = new StringBuilder();
            for (String name : names) {
                found.append(pattern.matches(name) ? '1' : '0');
            }
            return found.toString();
        } catch (PatternSyntaxException error) {
            return "invalid";
        }
    }
}
