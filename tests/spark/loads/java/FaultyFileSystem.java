import java.io.IOException;
import java.net.URI;
import java.util.Arrays;
import java.util.Comparator;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files with the faults of object stores that are used as file systems: {@code faulty:///path}. */
public class FaultyFileSystem extends RawLocalFileSystem {
    private String fault() {
        return getConf().get("fs.faulty.fault", "");
    }

    @Override
    public URI getUri() {
        return URI.create("faulty:///");
    }

    @Override
    public String getScheme() {
        return "faulty";
    }

    /** {@code copies}: what is moved is still where it was; {@code fails}: and the move has failed, too. */
    @Override
    public boolean rename(Path from, Path to) throws IOException {
        if (!fault().equals("copies") && !fault().equals("fails")) {
            return super.rename(from, to);
        }
        FileUtil.copy(this, from, this, to, false, getConf());
        if (fault().equals("fails")) {
            throw new IOException("copied, and could not delete " + from);
        }
        return true;
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        return fault().isEmpty() ? super.delete(path, recursive) : false;
    }

    /** {@code late}: of several files or directories with data the newest is not in the list yet. */
    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus[] found = super.listStatus(path);
        FileStatus[] data = Arrays.stream(found)
            .filter(file -> !file.getPath().getName().startsWith("_"))
            .toArray(FileStatus[]::new);
        if (!fault().equals("late") || data.length < 2) {
            return found;
        }
        FileStatus newest = Arrays.stream(data).max(Comparator.comparingLong(FileStatus::getModificationTime)).get();
        return Arrays.stream(found).filter(file -> file != newest).toArray(FileStatus[]::new);
    }
}
