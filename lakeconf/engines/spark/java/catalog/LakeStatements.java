package org.apache.spark.sql.connector.catalog;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;

// Statements of Delta Lake, Iceberg and Hive that a lake does not have, and what to use instead. Spark parses some of them
// and others not, and its errors would not say what to do.
class LakeStatements {
    private static final String PART = "(?:`[^`]*(?:``[^`]*)*`|\\w+)";
    private static final String NAME = "(" + PART + "(?:\\s*\\.\\s*" + PART + ")*)";
    private static final String COLUMNS = "replace the table: CREATE OR REPLACE TABLE {table} PARTITIONED BY (…) AS SELECT * FROM {table}";
    private static final String PROCEDURE = "CALL {catalog}.system.";
    private static final String CLEANUP = PROCEDURE + "expire_snapshots(older_than => current_timestamp() - INTERVAL 30 DAYS, dry_run => "
        + "false), and then " + PROCEDURE + "cleanup(dry_run => false)";
    private static final String RESTORE = PROCEDURE + "restore('{name}', version => …)";
    private static final String COMPACT = PROCEDURE + "compact('{name}')";
    private static final String PARTITIONS = "omit it: the catalog of a lake knows the partitions and files of its tables";
    private static final String STATISTICS = "omit it: the catalog of a lake has statistics of each file";
    private static final String FILES = "INSERT INTO {table} SELECT * FROM parquet.`…`, or in Python lake.adopt('…', '{name}')";
    private static final String VIEWS = "CREATE TABLE, CREATE TEMPORARY VIEW, or in Python lake.create_view('{name}', 'SELECT …')";
    private static final String QUERY = "CREATE OR REPLACE TABLE {table} AS SELECT … in a job, or a pipeline: lakeconf run";
    private static final String SORTED = "add ORDER BY to the query, or in DuckDB: ALTER TABLE {name} SET SORTED BY (…)";
    private static final String BRANCH = "make a branch of the whole lake: lakeconf branch STORE BRANCH";
    // What the statement begins with, what it is, and what to do. Names of namespaces have `*` in their place.
    private static final String[][] REFUSED = {
        {"OPTIMIZE NAME", "OPTIMIZE", COMPACT},
        {"REORG TABLE NAME", "REORG TABLE", COMPACT},
        {"VACUUM (?:TABLE )?NAME", "VACUUM", CLEANUP},
        {"RESTORE (?:TABLE )?NAME", "RESTORE", RESTORE},
        {"UNDROP TABLE NAME", "UNDROP", RESTORE},
        {"(?:DESCRIBE|DESC) DETAIL NAME", "DESCRIBE DETAIL", "DESCRIBE EXTENDED {table}, or SELECT * FROM {table}.files"},
        {"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?NAME (?:SHALLOW |DEEP )?CLONE\\b", "CLONE",
            "copy the rows: CREATE TABLE {table} AS SELECT * FROM …; or " + BRANCH},
        {"CONVERT TO DELTA NAME", "CONVERT TO DELTA", "INSERT INTO … SELECT * FROM parquet.`…`, or in Python lake.adopt('…', 'schema.table')"},
        {"GENERATE \\w+ FOR TABLE NAME", "GENERATE", "omit it"},
        {"FSCK (?:REPAIR )?TABLE NAME", "FSCK", "lakeconf verify {name}"},
        {"(?:MSCK )?REPAIR TABLE NAME", "REPAIR TABLE", PARTITIONS},
        {"ALTER TABLE NAME RECOVER PARTITIONS", "RECOVER PARTITIONS", PARTITIONS},
        {"ANALYZE TABLE NAME", "ANALYZE TABLE", STATISTICS},
        {"ANALYZE TABLES (?:IN|FROM) SPACE", "ANALYZE TABLES", STATISTICS},
        {"LOAD DATA (?:LOCAL )?INPATH .+ INTO TABLE NAME", "LOAD DATA", FILES},
        {"COPY INTO NAME", "COPY INTO", FILES},
        {"CREATE (?:OR REPLACE )?VIEW (?:IF NOT EXISTS )?NAME", "CREATE VIEW in Spark's SQL: its views are in DuckDB's", VIEWS},
        {"ALTER VIEW NAME", "ALTER VIEW in Spark's SQL", VIEWS},
        {"DROP VIEW (?:IF EXISTS )?NAME", "DROP VIEW in Spark's SQL", "in Python, lake.drop_view('{name}')"},
        {"SHOW VIEWS(?: (?:IN|FROM) SPACE)?", "SHOW VIEWS in Spark's SQL", "in Python, lake.views()"},
        {"CREATE (?:OR REPLACE )?MATERIALIZED VIEW (?:IF NOT EXISTS )?NAME", "materialized views", QUERY},
        {"REFRESH MATERIALIZED VIEW NAME", "materialized views", QUERY},
        {"CREATE (?:OR REFRESH )?STREAMING TABLE (?:IF NOT EXISTS )?NAME", "STREAMING TABLE", QUERY},
        {"ALTER TABLE NAME (?:ADD|DROP|REPLACE) PARTITION FIELD\\b", "PARTITION FIELD", COLUMNS},
        {"ALTER TABLE NAME WRITE\\b", "WRITE ORDERED BY", SORTED},
        {"ALTER TABLE NAME CLUSTER BY\\b", "CLUSTER BY", SORTED},
        {"ALTER TABLE NAME (?:SET|DROP) IDENTIFIER FIELDS\\b", "IDENTIFIER FIELDS", "MERGE INTO {table} t USING … s ON t.… = s.…"},
        {"ALTER TABLE NAME (?:CREATE|REPLACE|CREATE OR REPLACE|DROP) (?:BRANCH|TAG)\\b", "branches and tags of a table",
            BRANCH + "; or keep the number of a snapshot"},
        {"ALTER TABLE NAME (?:ADD|DROP) CONSTRAINT\\b", "CONSTRAINT", "check the rows in the query: INSERT INTO {table} SELECT … WHERE assert_true(…) IS NULL"},
        {"ALTER TABLE NAME REPLACE COLUMNS\\b", "REPLACE COLUMNS", "ALTER TABLE {table} with ADD COLUMN, DROP COLUMN and RENAME COLUMN"},
        {"ALTER TABLE NAME (?:PARTITION .+ )?SET (?:SERDE|SERDEPROPERTIES)\\b", "SERDE", "omit it: files are Parquet"},
        {"ALTER TABLE NAME (?:SET|UNSET) TAGS\\b", "TAGS", "COMMENT ON TABLE {table} IS '…'"},
        {"ALTER TABLE NAME (?:SET )?OWNER TO\\b", "OWNER", "omit it: the rights are those of the catalog"},
        {"ALTER TABLE NAME DROP FEATURE\\b", "DROP FEATURE", "omit it"},
        {"(?:CREATE|DROP) INDEX (?:IF (?:NOT )?EXISTS )?\\w+ ON (?:TABLE )?NAME", "INDEX", COLUMNS},
    };
    private static final Pattern[] PATTERNS = patterns();
    private static final Pattern HISTORY = pattern("(?:DESCRIBE|DESC) HISTORY NAME( LIMIT \\d+)?(?:\\s*;)?\\z");

    private static Pattern[] patterns() {
        Pattern[] all = new Pattern[REFUSED.length];
        for (int at = 0; at < all.length; at++) all[at] = pattern(REFUSED[at][0]);
        return all;
    }

    private static Pattern pattern(String begin) {
        String text = begin.replace(" ", "\\s+").replace("NAME", NAME).replace("SPACE", NAME);
        return Pattern.compile("\\A" + text, Pattern.CASE_INSENSITIVE | Pattern.DOTALL | Pattern.UNICODE_CHARACTER_CLASS);
    }

    // The text that Spark parses in the place of a statement: that of a query for DESCRIBE HISTORY of a table.
    static String translated(String text, SparkSession session) {
        String statement = withoutComments(text);
        Matcher history = HISTORY.matcher(statement);
        if (history.find()) {
            LakeName name = named(history.group(1), session);
            String limit = history.group(2) == null ? "" : history.group(2);
            return name == null || !isStatement() ? text : "SELECT * FROM " + table(name) + ".history ORDER BY snapshot_id DESC" + limit;
        }
        for (int at = 0; at < PATTERNS.length; at++) {
            Matcher match = PATTERNS[at].matcher(statement);
            if (match.find() && isStatement()) refuse(REFUSED[at], match.group(1), session);
        }
        return text;
    }

    // Spark parses expressions and types, too, in which these words may be names.
    private static boolean isStatement() { return isWithin("", "parsePlan"); }

    // True if this thread carries out a method of a class, by the end of its name and the start of the method's.
    static boolean isWithin(String type, String method) {
        StackTraceElement[] calls = Thread.currentThread().getStackTrace();
        for (int at = 0; at < calls.length; at++) {
            if (calls[at].getClassName().endsWith(type) && calls[at].getMethodName().startsWith(method)) return true;
        }
        return false;
    }

    // With a space in the place of each comment, which can hold others. A comment in a text or a name is none.
    private static String withoutComments(String text) {
        StringBuilder kept = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            char sign = text.charAt(at);
            int end = at;
            if (text.startsWith("--", at)) end = endOfLine(text, at);
            else if (text.startsWith("/*", at)) end = endOfComment(text, at);
            else if (sign == '\'' || sign == '"' || sign == '`') end = endOfQuoted(text, at);
            if (end == at) kept.append(sign);
            else if (sign == '-' || sign == '/') kept.append(' ');
            else kept.append(text, at, end + 1);
            at = end;
        }
        return kept.toString().trim();
    }

    // The places where what begins at a place ends; the end of the text if nothing ends it.
    private static int endOfLine(String text, int from) {
        int end = text.indexOf('\n', from);
        while (end > 0 && text.charAt(end - 1) == '\\') end = text.indexOf('\n', end + 1);
        return end < 0 ? text.length() - 1 : end;
    }

    private static int endOfComment(String text, int from) {
        int depth = 0;
        for (int at = from; at < text.length() - 1; at++) {
            boolean begins = text.startsWith("/*", at), ends = text.startsWith("*/", at);
            if (begins || ends) depth += begins ? 1 : -1;
            if (begins || ends) at++;
            if (depth == 0) return at;
        }
        return text.length() - 1;
    }

    private static int endOfQuoted(String text, int from) {
        char quote = text.charAt(from);
        for (int at = from + 1; at < text.length(); at++) {
            if (text.charAt(at) == quote) return at;
            if (text.charAt(at) == '\\' && quote != '`') at++;
        }
        return text.length() - 1;
    }

    private static void refuse(String[] refused, String text, SparkSession session) {
        boolean isSpace = refused[0].contains("SPACE");
        LakeName name = named(!isSpace ? text : text == null ? "`any`" : text + ".`any`", session);
        if (name == null) return;
        String hint = refused[2].replace("{catalog}", LakeChanges.quoted(name.catalog.name()));
        if (!isSpace) {
            Identifier table = name.identifier(name.catalog);
            hint = hint.replace("{name}", path(table).replace("'", "\\'")).replace("{table}", table(name));
        }
        throw LakeServer.raised("UnsupportedError: a lake has no " + refused[1] + "\n  hint: "
            + hint.replaceAll("`([A-Za-z_]\\w*)`", "$1"));
    }

    // The name of a table of a lake; null for another, which may be a temporary view.
    private static LakeName named(String text, SparkSession session) {
        try {
            Seq parts = session.sessionState().sqlParser().parseMultipartIdentifier(text);
            boolean isGlobal = ((String) parts.apply(0)).equalsIgnoreCase("global_temp");
            if (isGlobal || session.sessionState().catalog().isTempView(parts)) return null;
        } catch (ParseException error) {
            return null;
        }
        LakeName name = new LakeName(session, text, null);
        return name.catalog instanceof LakeCatalog ? name : null;
    }

    private static String table(LakeName name) {
        return LakeChanges.quoted(name.catalog.name()) + '.' + path(name.identifier(name.catalog));
    }

    private static String path(Identifier table) {
        return LakeChanges.quoted(table.namespace()[0]) + '.' + LakeChanges.quoted(table.name());
    }
}
