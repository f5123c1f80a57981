package lakeconf;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;

// The files of a relation. The class exists on the driver only. The modification time of a file, in units of 1024
// microseconds and rounded down, is its number in the list: `_metadata` shows it.
public class PlannedFiles implements FileIndex {
    private static final int AT_ONCE = 32, WORTH_A_LISTING = 16, OTHERS = 10;
    private final HadoopFsRelation relation;
    private final ArrayList names = new ArrayList();
    private long[] sizes = new long[16];
    private long total = 0;
    private boolean compared = false;

    public PlannedFiles(HadoopFsRelation relation) { this.relation = relation; }

    // Adds files: the size and the path of each, each followed by NUL.
    public void add(String text) {
        for (int start = 0; start < text.length();) {
            int middle = text.indexOf(0, start), end = text.indexOf(0, middle + 1), count = names.size();
            if (count == sizes.length) sizes = Arrays.copyOf(sizes, 2 * count);
            sizes[count] = Long.parseLong(text.substring(start, middle));
            total += sizes[count];
            names.add(text.substring(middle + 1, end));
            start = end + 1;
        }
    }

    public synchronized Seq listFiles(Seq partitions, Seq filters) {
        if (!compared) compare();
        compared = true;
        FileStatus[] files = new FileStatus[names.size()];
        for (int at = 0; at < files.length; at++) {
            files[at] = new FileStatus(sizes[at], false, 1, 0L, (1024L * at + 999) / 1000, path(at));
        }
        return seq(new Object[] {PartitionDirectory.apply(InternalRow.empty(), files)});
    }

    private Path path(int at) { return new Path((String) names.get(at)); }
    private static Seq seq(Object[] values) { return (Seq) ArraySeq.unsafeWrapArray(values); }

    private void compare() {
        HashMap remote = new HashMap();
        for (int at = 0; at < names.size(); at++) {
            URI uri = path(at).toUri();
            if ("file".equals(uri.getScheme())) {
                File file = new File(uri.getPath());
                long size = file.length();
                check(at, size == 0 && !file.exists() ? -1 : size);
                continue;
            }
            String bucket = uri.getScheme() + "://" + uri.getAuthority();
            if (!remote.containsKey(bucket)) remote.put(bucket, new ArrayList());
            ((ArrayList) remote.get(bucket)).add(Integer.valueOf(at));
        }
        if (remote.isEmpty()) return;
        SparkSession session = (SparkSession) relation.sparkSession();
        Configuration settings = session.sessionState().newHadoopConfWithOptions(relation.options());
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        try {
            ArrayList looks = new ArrayList();
            for (Iterator bucket = remote.values().iterator(); bucket.hasNext();) {
                ArrayList wanted = (ArrayList) bucket.next();
                HashMap listed = wanted.size() < WORTH_A_LISTING ? new HashMap() : listed(wanted, settings);
                for (int each = 0; each < wanted.size(); each++) {
                    int at = ((Integer) wanted.get(each)).intValue();
                    Long size = (Long) listed.get(path(at));
                    if (size == null) looks.add(pool.submit(new Look(this, at, settings)));
                    else check(at, size.longValue());
                }
            }
            for (int each = 0; each < looks.size(); each++) ((Future) looks.get(each)).get();
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof RuntimeException) throw (RuntimeException) error.getCause();
            throw new RuntimeException(error.getCause());
        } finally {
            pool.shutdownNow();
        }
    }

    // The sizes of files below the folder that all wanted ones have in common, or of a part of them: there may be many
    // other files.
    private HashMap listed(ArrayList wanted, Configuration settings) {
        HashMap sizes = new HashMap();
        String common = null;
        for (int each = 0; each < wanted.size(); each++) {
            String name = (String) names.get(((Integer) wanted.get(each)).intValue());
            if (common == null) common = name;
            while (!name.startsWith(common) || !common.endsWith("/")) {
                common = common.substring(0, common.lastIndexOf('/', common.length() - 2) + 1);
            }
        }
        try {
            Path folder = new Path(common);
            RemoteIterator found = folder.getFileSystem(settings).listFiles(folder, true);
            for (int left = OTHERS * wanted.size(); left > 0 && found.hasNext(); left--) {
                FileStatus file = (FileStatus) found.next();
                sizes.put(file.getPath(), Long.valueOf(file.getLen()));
            }
        } catch (IOException error) {
            // Some users may read files, but not list them.
        }
        return sizes;
    }

    long size(int at, Configuration settings) throws IOException {
        try {
            FileStatus found = path(at).getFileSystem(settings).getFileStatus(path(at));
            return found.isFile() ? found.getLen() : -1;
        } catch (FileNotFoundException error) {
            return -1;
        }
    }

    void check(int at, long size) {
        if (size == sizes[at]) return;
        String problem = size < 0 ? " is missing, but the catalog lists it"
            : " has " + size + " bytes, but the catalog says " + sizes[at] + ": it was truncated or replaced";
        throw new UncheckedIOException(new FileNotFoundException("lakeconf: " + names.get(at) + problem));
    }

    public void refresh() { }
    public long sizeInBytes() { return total; }
    public StructType partitionSchema() { return new StructType(); }
    public Option metadataOpsTimeNs() { return Option.empty(); }
    public Seq rootPaths() {
        Object[] paths = new Object[names.size()];
        for (int at = 0; at < paths.length; at++) paths[at] = path(at);
        return seq(paths);
    }
    public String[] inputFiles() {
        String[] uris = new String[names.size()];
        for (int at = 0; at < uris.length; at++) uris[at] = path(at).toUri().toString();
        return uris;
    }
    public int hashCode() { return 31 * names.size() + (int) total; }
    public String toString() { return "PlannedFiles(" + names.size() + " files)"; }
    public boolean equals(Object other) {
        if (!(other instanceof PlannedFiles)) return false;
        PlannedFiles that = (PlannedFiles) other;
        return total == that.total && names.equals(that.names)
            && Arrays.equals(Arrays.copyOf(sizes, names.size()), Arrays.copyOf(that.sizes, names.size()));
    }

    static class Look implements Callable {
        private final PlannedFiles files;
        private final int at;
        private final Configuration settings;
        Look(PlannedFiles files, int at, Configuration settings) {
            this.files = files;
            this.at = at;
            this.settings = settings;
        }
        public Object call() throws Exception {
            files.check(at, files.size(at, settings));
            return null;
        }
    }
}
