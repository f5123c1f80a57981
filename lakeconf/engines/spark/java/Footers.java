package lakeconf;

import java.net.URLEncoder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.Footer;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.Type;

// Reads the schemas of Parquet files.
public class Footers {
    private final Configuration settings;
    private final HashMap numbers = new HashMap();
    private final ArrayList schemas = new ArrayList();

    public Footers(Configuration settings) { this.settings = settings; }
    public int count() { return schemas.size(); }
    public String schema(int number) { return (String) schemas.get(number); }

    // Sizes and paths, each followed by NUL, to numbers of schemas.
    public String read(String text) throws Exception {
        ArrayList files = new ArrayList();
        for (int start = 0; start < text.length();) {
            int middle = text.indexOf(0, start), end = text.indexOf(0, middle + 1);
            long size = Long.parseLong(text.substring(start, middle));
            files.add(new FileStatus(size, false, 1, 0L, 0L, new Path(text.substring(middle + 1, end))));
            start = end + 1;
        }
        List footers = ParquetFileReader.readAllFootersInParallel(settings, files, true);
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < footers.size(); at++) {
            FileMetaData content = ((Footer) footers.get(at)).getParquetMetadata().getFileMetaData();
            String writer = (rebases(content.getKeyValueMetaData()) ? "legacy calendar, " : "") + content.getCreatedBy();
            StringBuilder schema = new StringBuilder(encoded(writer));
            fields(content.getSchema(), 0, schema);
            String shown = schema.toString();
            if (!numbers.containsKey(shown)) {
                numbers.put(shown, Integer.valueOf(schemas.size()));
                schemas.add(shown);
            }
            found.append(at == 0 ? "" : ",").append(numbers.get(shown));
        }
        return found.toString();
    }

    // True if Spark converts dates and times of the file from a former calendar, whatever the option says.
    private static boolean rebases(Map content) {
        String version = (String) content.get("org.apache.spark.version");
        return content.containsKey("org.apache.spark.legacyDateTime") || content.containsKey("org.apache.spark.legacyINT96")
            || (version != null && version.compareTo("3.1.0") < 0);
    }

    // A line for each field: depth, field id, repetition, physical type of a leaf, logical type, name.
    private static void fields(GroupType group, int depth, StringBuilder text) throws Exception {
        for (int at = 0; at < group.getFieldCount(); at++) {
            Type field = group.getType(at);
            text.append('\n').append(depth).append('\t');
            text.append(field.getId() == null ? "" : String.valueOf(field.getId().intValue())).append('\t');
            text.append(field.getRepetition()).append('\t');
            text.append(field.isPrimitive() ? field.asPrimitiveType().getPrimitiveTypeName().toString() : "");
            text.append('\t');
            Object logical = field.getLogicalTypeAnnotation();
            text.append(logical == null ? "" : logical.toString()).append('\t').append(encoded(field.getName()));
            if (!field.isPrimitive()) fields(field.asGroupType(), depth + 1, text);
        }
    }

    private static String encoded(String name) throws Exception { return URLEncoder.encode(name, "UTF-8"); }
}
