package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.Iterator;

// A table of a lake at a snapshot. Two of them are equal if all their rows are.
public class LakeTable implements SupportsRead, SupportsWrite, TruncatableTable, SupportsPartitionManagement {
    private static final List TRAVELLING = Arrays.asList(new Object[] {"versionasof", "timestampasof"});
    final String server, catalog, table;
    // The name of a table of facts about the table, such as `history`, or null.
    final String part;
    // True for a view, whose rows DuckDB computes.
    final boolean isView;
    final long version;
    // True if the query names the snapshot.
    final boolean travels;
    private final StructType schema;
    private final Map facts;

    LakeTable(String server, String catalog, Map facts, boolean travels) {
        this.server = server;
        this.catalog = catalog;
        this.facts = facts;
        this.travels = travels;
        this.table = (String) facts.get("table");
        this.part = (String) facts.get("part");
        this.isView = Boolean.TRUE.equals(facts.get("view"));
        this.version = ((Number) facts.get("version")).longValue();
        this.schema = (StructType) DataType.fromJson((String) facts.get("schema"));
    }

    public String name() { return catalog + "." + table + (part == null ? "" : "." + part); }
    public StructType schema() { return schema; }
    public Set capabilities() {
        EnumSet all = EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.V1_BATCH_WRITE);
        all.addAll(EnumSet.of(TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC));
        return all;
    }
    public Map properties() { return (Map) facts.get("properties"); }

    public Transform[] partitioning() {
        List keys = (List) facts.get("partitioning");
        Transform[] transforms = new Transform[keys.size()];
        for (int at = 0; at < transforms.length; at++) {
            List key = (List) keys.get(at);
            // Spark parses a text as the path of a field.
            String column = '`' + ((String) key.get(1)).replace("`", "``") + '`';
            String kind = (String) key.get(0);
            if (kind.equals("identity")) transforms[at] = Expressions.identity(column);
            else if (kind.equals("bucket")) transforms[at] =
                Expressions.bucket(((Number) key.get(2)).intValue(), new String[] {column});
            else transforms[at] = Expressions.apply(kind, new Expression[] {Expressions.column(column)});
        }
        return transforms;
    }

    // Its columns, and other keys by what they are.
    public StructType partitionSchema() {
        Transform[] keys = partitioning();
        StructType columns = new StructType();
        for (int at = 0; at < keys.length; at++) {
            columns = keys[at].name().equals("identity") ? columns.add(schema.apply(keys[at].references()[0].fieldNames()[0]))
                : columns.add(keys[at].toString(), DataTypes.IntegerType);
        }
        return columns;
    }

    // Rows in the catalog have partitions, too.
    public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow wanted) {
        Transform[] transforms = partitioning();
        for (int at = 0; at < transforms.length; at++) {
            if (!transforms[at].name().equals("identity")) {
                throw LakeServer.raised("UnsupportedError: " + name() + " is partitioned by " + transforms[at]
                    + ", and not by columns alone\n  hint: SELECT DISTINCT partition FROM " + name() + ".files");
            }
        }
        StructType keys = partitionSchema();
        HashMap values = request();
        values.put("columns", Arrays.asList(keys.fieldNames()));
        values.put("where", new ArrayList());
        Dataset rows = (Dataset) LakeServer.answer(server, "scan", values, null);
        InternalRow[] all = rows.distinct().queryExecution().executedPlan().executeCollect();
        ArrayList kept = new ArrayList();
        for (int at = 0; at < all.length; at++) {
            boolean same = true;
            for (int each = 0; each < names.length; each++) {
                int key = keys.fieldIndex(names[each]);
                DataType type = keys.fields()[key].dataType();
                same = same && Objects.equals(all[at].get(key, type), wanted.get(each, type));
            }
            if (same) kept.add(all[at]);
        }
        return (InternalRow[]) kept.toArray(new InternalRow[0]);
    }

    private static RuntimeException partitions() {
        return LakeServer.raised("UnsupportedError: a partition of a lake is its rows\n  hint: "
            + "INSERT INTO …, or DELETE FROM … WHERE the columns of its key have these values");
    }
    public Map loadPartitionMetadata(InternalRow partition) { return new HashMap(); }
    public void createPartition(InternalRow partition, Map properties) { throw partitions(); }
    public void replacePartitionMetadata(InternalRow partition, Map properties) { throw partitions(); }
    public boolean dropPartition(InternalRow partition) { throw partitions(); }
    public boolean renamePartition(InternalRow from, InternalRow to) { throw partitions(); }
    public boolean truncatePartition(InternalRow partition) { throw partitions(); }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        checkOptions(options, TRAVELLING, "read", "use versionAsOf or timestampAsOf, or table_changes in SQL");
        return new Reading(this);
    }
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        checkChangeable();
        checkOptions(info.options(), new ArrayList(), "write", "use writeTo(…).overwrite(condition), .overwritePartitions() or "
            + ".createOrReplace()");
        LakeReads.install(SparkSession.active());
        return new LakeWrite(this);
    }

    // Other tables have options that change which rows are read or replaced.
    private void checkOptions(CaseInsensitiveStringMap options, List known, String use, String hint) {
        for (java.util.Iterator each = options.keySet().iterator(); each.hasNext();) {
            String option = (String) each.next();
            if (known.contains(option)) continue;
            throw LakeServer.raised("UnsupportedError: a " + use + " of " + name() + " has no option '" + option
                + "'\n  hint: omit it, or " + hint);
        }
    }

    void checkChangeable() {
        String error = "UnsupportedError: " + name() + " cannot be changed";
        if (isView) throw LakeServer.raised(error + ": it is a view\n  hint: change the tables that it reads");
        if (part != null) throw LakeServer.raised(error);
    }

    public boolean truncateTable() {
        checkChangeable();
        HashMap values = request();
        values.put("where", new ArrayList());
        ask("delete", values, null);
        return true;
    }

    // Spark has two defaults of these.
    public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }
    public CustomMetric[] supportedCustomMetrics() { return new CustomMetric[0]; }

    // What each request about the table says of it.
    HashMap request() {
        HashMap values = new HashMap();
        values.put("table", table);
        values.put("version", Long.valueOf(version));
        values.put("part", part);
        values.put("view", Boolean.valueOf(isView));
        return values;
    }

    Map ask(String method, Map values, Dataset rows) { return LakeServer.ask(server, method, values, rows); }

    // The rows of the frame of a statement; a table that is not committed yet keeps them.
    void store(String method, Map values, Dataset rows) { ask(method, values, rows); }

    // The oldest snapshot at which a plan reads this table without naming it, or null: a frame can be older than a statement.
    // A view may read any table.
    Object readAt(LogicalPlan plan) {
        Object oldest = null;
        if (plan instanceof DataSourceV2ScanRelation) return readAt(((DataSourceV2ScanRelation) plan).relation());
        if (plan instanceof InMemoryRelation) return readAt(((InMemoryRelation) plan).cacheBuilder().logicalPlan());
        if (plan instanceof DataSourceV2Relation && ((DataSourceV2Relation) plan).table() instanceof LakeTable) {
            LakeTable read = (LakeTable) ((DataSourceV2Relation) plan).table();
            boolean isThis = !read.travels && read.part == null && read.server.equals(server)
                && (read.isView || read.table.equalsIgnoreCase(table));
            if (isThis) oldest = Long.valueOf(read.version);
        }
        for (Iterator each = plan.children().iterator(); each.hasNext();) {
            oldest = older(oldest, readAt((LogicalPlan) each.next()));
        }
        for (Iterator each = plan.subqueries().iterator(); each.hasNext();) {
            oldest = older(oldest, readAt((LogicalPlan) each.next()));
        }
        return oldest;
    }

    private static Object older(Object one, Object other) {
        if (one == null || other == null) return one == null ? other : one;
        return ((Long) one).longValue() < ((Long) other).longValue() ? one : other;
    }

    public int hashCode() { return Objects.hash(new Object[] {server, table, part, Long.valueOf(version)}); }
    public boolean equals(Object other) {
        if (!(other instanceof LakeTable)) return false;
        LakeTable that = (LakeTable) other;
        return request().equals(that.request()) && server.equals(that.server);
    }
    public String toString() { return name() + " at snapshot " + version; }

    static class Reading implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
        private final LakeTable table;
        private StructType columns;
        private Predicate[] predicates = new Predicate[0];

        Reading(LakeTable table) {
            this.table = table;
            this.columns = table.schema();
        }

        // Spark also evaluates all of them after the scan.
        public Predicate[] pushPredicates(Predicate[] predicates) {
            this.predicates = predicates;
            return predicates;
        }
        public Predicate[] pushedPredicates() { return new Predicate[0]; }
        public boolean supportsIterativePushdown() { return false; }

        // Whole columns: Spark prunes their fields when it optimizes the plan of the scan.
        public void pruneColumns(StructType required) {
            StructType kept = new StructType();
            for (int at = 0; at < table.schema().fields().length; at++) {
                String name = table.schema().fields()[at].name();
                for (int each = 0; each < required.fields().length; each++) {
                    if (required.fields()[each].name().equals(name)) kept = kept.add(table.schema().fields()[at]);
                }
            }
            this.columns = kept;
        }

        public Scan build() {
            LakeReads.install(SparkSession.active());
            HashMap values = table.request();
            values.put("columns", Arrays.asList(columns.fieldNames()));
            ArrayList conditions = new ArrayList();
            for (int at = 0; at < predicates.length; at++) {
                Object condition = described(predicates[at]);
                if (condition != null) conditions.add(condition);
            }
            values.put("where", conditions);
            Dataset rows = (Dataset) LakeServer.answer(table.server, "scan", values, null);
            return new Rows(table, columns, conditions, rows);
        }

        // A predicate as lists that begin with its name, or null.
        static Object described(Expression expression) {
            if (expression instanceof NamedReference) {
                String[] names = ((NamedReference) expression).fieldNames();
                return names.length == 1 ? Arrays.asList(new Object[] {"column", names[0]}) : null;
            }
            if (expression instanceof Literal) {
                Literal literal = (Literal) expression;
                if (literal.value() == null) return null;
                return Arrays.asList(new Object[] {"literal", literal.dataType().catalogString(), literal.value().toString()});
            }
            if (!(expression instanceof Predicate)) return null;
            ArrayList parts = new ArrayList();
            parts.add(((Predicate) expression).name());
            Expression[] children = expression.children();
            for (int at = 0; at < children.length; at++) {
                Object child = described(children[at]);
                if (child == null) return null;
                parts.add(child);
            }
            return parts;
        }
    }

    // The plan of a frame, which `LakeReads` puts in the place of the relation.
    static class Rows implements Scan, SupportsReportStatistics {
        final LakeTable table;
        private final StructType columns;
        private final List conditions;
        private final Dataset rows;

        Rows(LakeTable table, StructType columns, List conditions, Dataset rows) {
            this.table = table;
            this.columns = columns;
            this.conditions = conditions;
            this.rows = rows;
        }

        LogicalPlan plan() { return rows.queryExecution().analyzed(); }
        public StructType readSchema() { return columns; }
        public String description() { return table.toString(); }
        public Batch toBatch() { throw LakeServer.raised("lakeconf: this Spark session does not plan reads of " + table); }

        public Statistics estimateStatistics() {
            final long size = rows.queryExecution().optimizedPlan().stats().sizeInBytes().toLong();
            return new Size(size);
        }

        public int hashCode() { return 31 * table.hashCode() + columns.hashCode(); }
        public boolean equals(Object other) {
            if (!(other instanceof Rows)) return false;
            Rows that = (Rows) other;
            return table.equals(that.table) && columns.equals(that.columns) && conditions.equals(that.conditions);
        }
    }

    static class Size implements Statistics {
        private final long size;
        Size(long size) { this.size = size; }
        public OptionalLong sizeInBytes() { return OptionalLong.of(size); }
        public OptionalLong numRows() { return OptionalLong.empty(); }
    }
}
