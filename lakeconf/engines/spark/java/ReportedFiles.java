package lakeconf;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.FileFormatWriter;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.*;

// Writes a frame. The class exists on the driver only: executors receive Spark's own. It keeps the reports instead of
// logging them in a file beside the data, and removes files without a report. Spark's dataset writer would only run a
// protocol that it constructs itself.
public class ReportedFiles extends ManifestFileCommitProtocol implements scala.Function0 {
    private final Dataset frame;
    private final String folder;
    private final Map options;
    private final Seq by;
    private final TreeMap reported = new TreeMap();

    public ReportedFiles(Dataset frame, String folder, Map options, Seq by) {
        super("lakeconf", folder);
        this.frame = frame;
        this.folder = folder;
        this.options = options;
        this.by = by;
    }

    public Object writeReplace() { return new ManifestFileCommitProtocol("lakeconf", folder); }
    public void setupJob(JobContext job) { }
    public void abortJob(JobContext job) { }
    public void onTaskCommit(FileCommitProtocol.TaskCommitMessage report) { }
    public void commitJob(JobContext job, Seq reports) {
        for (Iterator each = reports.iterator(); each.hasNext();) {
            Seq files = (Seq) ((FileCommitProtocol.TaskCommitMessage) each.next()).obj();
            for (Iterator file = files.iterator(); file.hasNext();) {
                FileStatus status = status(file.next());
                reported.put(status.getPath().toString(), Long.valueOf(status.getLen()));
            }
        }
    }

    // Spark 4.0 has the class of reports in another package.
    private static FileStatus status(Object report) {
        try {
            return (FileStatus) report.getClass().getMethod("toFileStatus", new Class[0]).invoke(report, new Object[0]);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    // The path and the size of each file, each followed by NUL.
    public String write() throws java.io.IOException {
        Configuration settings = settings();
        Path path = new Path(folder);
        FileSystem system = path.getFileSystem(settings);
        if (system.exists(path)) throw new FileAlreadyExistsException("the staging folder exists: " + folder);
        SQLExecution.withNewExecutionId(frame.queryExecution(), Option.apply("lakeconf"), this);
        if (!reported.isEmpty()) {
            // The default file system of local files hides their checksums.
            if (system instanceof LocalFileSystem) system = ((LocalFileSystem) system).getRaw();
            if (system instanceof RawLocalFileSystem) removeLocalOthers(system, path);
            else removeOthers(system, path);
        }
        StringBuilder files = new StringBuilder();
        for (java.util.Iterator each = reported.entrySet().iterator(); each.hasNext();) {
            java.util.Map.Entry file = (java.util.Map.Entry) each.next();
            files.append(file.getKey()).append('\0').append(file.getValue()).append('\0');
        }
        return files.toString();
    }

    public Object apply() throws Exception {
        QueryExecution query = frame.queryExecution();
        Seq columns = query.analyzed().output();
        Map nowhereElse = (Map) Map$.MODULE$.empty();
        FileFormatWriter.OutputSpec output = new FileFormatWriter.OutputSpec(folder, nowhereElse, columns);
        return carriedOut(new Object[] {
            (SparkSession) frame.sparkSession(), query.executedPlan(), new ParquetFileFormat(), this, output,
            settings(), partitions(columns), Option.empty(), (Seq) Seq$.MODULE$.empty(), options, Integer.valueOf(0)});
    }

    // Spark 4.0.0 does not have the last parameter.
    private static Object carriedOut(Object[] arguments) throws Exception {
        for (Method method : FileFormatWriter.class.getMethods()) {
            if (!method.getName().equals("write")) continue;
            Object[] all = java.util.Arrays.copyOf(arguments, method.getParameterCount());
            if (all.length == 12)
                all[11] = FileFormatWriter.class.getMethod("write$default$12", new Class[0]).invoke(null, new Object[0]);
            try {
                return method.invoke(null, all);
            } catch (InvocationTargetException error) {
                if (error.getCause() instanceof Error) throw (Error) error.getCause();
                throw (Exception) error.getCause();
            }
        }
        throw new NoSuchMethodException("FileFormatWriter.write");
    }

    private Configuration settings() {
        return ((SparkSession) frame.sparkSession()).sessionState().newHadoopConfWithOptions(options);
    }

    private Seq partitions(Seq columns) {
        java.util.ArrayList found = new java.util.ArrayList();
        for (Iterator each = columns.iterator(); each.hasNext();) {
            Attribute column = (Attribute) each.next();
            if (by.contains(column.name())) found.add(column);
        }
        return org.apache.spark.api.python.PythonUtils.toSeq(found);
    }

    private void removeOthers(FileSystem system, Path path) throws java.io.IOException {
        for (RemoteIterator each = system.listFiles(path, true); each.hasNext();) {
            Path file = ((FileStatus) each.next()).getPath();
            if (!reported.containsKey(file.toString())) system.delete(file, false);
        }
    }

    // `listFiles` starts the program `ls` for each local file.
    private void removeLocalOthers(FileSystem system, Path path) throws java.io.IOException {
        FileStatus[] found = system.listStatus(path);
        for (int i = 0; i < found.length; i++) {
            Path file = found[i].getPath();
            if (found[i].isDirectory()) removeLocalOthers(system, file);
            else if (!reported.containsKey(file.toString())) system.delete(file, false);
        }
    }
}
