package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.collection.Iterator;

// The tables of a lake by name. Python answers; see `LakeServer`.
public class LakeCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
    private String name;
    private SparkSession session;

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        this.session = SparkSession.active();
        install(session);
    }

    // Spark loads a catalog when a query names it; its other parts may be asked before.
    public static void install(SparkSession session) {
        LakeReads.install(session);
        LakeFunction.install(session);
        LakeFormats.install(session);
        LakeParser.install(session, session.sessionState().sqlParser());
        LakeExtensions.extend(session.extensions());
    }

    public UnboundProcedure loadProcedure(Identifier ident) {
        boolean system = ident.namespace().length == 1 && ident.namespace()[0].equalsIgnoreCase("system");
        return new LakeProcedure(this, server(), system ? ident.name().toLowerCase(Locale.ROOT) : ident.toString());
    }

    // Spark 4.0 does not ask for them.
    public Identifier[] listProcedures(String[] namespace) {
        if (namespace.length != 1 || !namespace[0].equalsIgnoreCase("system")) return new Identifier[0];
        Object[] names = new TreeSet(ask("procedures", new HashMap()).keySet()).toArray();
        Identifier[] all = new Identifier[names.length];
        for (int at = 0; at < all.length; at++) all[at] = new IdentifierImpl(namespace, (String) names[at]);
        return all;
    }

    // A lake has no functions of its own: Spark looks for them in the current catalog.
    public Identifier[] listFunctions(String[] namespace) {
        loadNamespaceMetadata(namespace);
        return new Identifier[0];
    }
    public UnboundFunction loadFunction(Identifier ident) {
        Platform.throwException(new NoSuchFunctionException(ident));
        return null;
    }

    // A frame, at the snapshot that this analysis reads.
    Object answer(String method, HashMap values) {
        values.put("version", pinned());
        return LakeServer.answer(server(), method, values, null);
    }

    public String name() { return name; }
    public Set capabilities() { return EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE); }
    public String[] defaultNamespace() { return new String[] {"main"}; }

    private Map ask(String method, Map values) { return LakeServer.ask(server(), method, values, null); }
    // The id of the lake that was attached last: Spark keeps this object when another lake gets its name.
    private String server() { return LakeServer.attached(name, session); }

    private static Map of(String key, Object value) {
        HashMap values = new HashMap();
        values.put(key, value);
        return values;
    }

    public String[][] listNamespaces() {
        List schemas = (List) ask("schemas", of("version", pinned())).get("schemas");
        String[][] names = new String[schemas.size()][];
        for (int at = 0; at < names.length; at++) names[at] = new String[] {(String) schemas.get(at)};
        return names;
    }

    public String[][] listNamespaces(String[] namespace) {
        if (namespace.length == 0) return listNamespaces();
        loadNamespaceMetadata(namespace);
        return new String[0][];
    }

    public boolean namespaceExists(String[] namespace) {
        if (namespace.length != 1) return namespace.length == 0;
        HashMap values = new HashMap();
        values.put("schema", namespace[0]);
        return ((Boolean) ask("has_schema", values).get("exists")).booleanValue();
    }

    public Map loadNamespaceMetadata(String[] namespace) {
        if (!namespaceExists(namespace)) Platform.throwException(new NoSuchNamespaceException(namespace));
        return new HashMap();
    }

    public Identifier[] listTables(String[] namespace) {
        loadNamespaceMetadata(namespace);
        List tables = (List) ask("tables", of("schema", schema(namespace))).get("tables");
        Identifier[] names = new Identifier[tables.size()];
        for (int at = 0; at < names.length; at++) names[at] = new IdentifierImpl(namespace, (String) tables.get(at));
        return names;
    }

    private static String schema(String[] namespace) { return namespace.length == 0 ? "main" : namespace[0]; }

    public Table loadTable(Identifier ident) { return load(ident, of("version", pinned())); }
    public Table loadTable(Identifier ident, String version) { return load(ident, of("version_text", version)); }
    public Table loadTable(Identifier ident, long timestamp) { return load(ident, of("micros", Long.valueOf(timestamp))); }

    private Table load(Identifier ident, Map values) {
        checkStreams(ident);
        if (ident.namespace().length > 2) Platform.throwException(new NoSuchTableException(ident));
        boolean isPart = ident.namespace().length == 2;
        values.put("schema", schema(ident.namespace()));
        values.put("name", isPart ? ident.namespace()[1] : ident.name());
        if (isPart) values.put("part", ident.name());
        String server = server();
        Map facts = LakeServer.ask(server, "load", values, null);
        if (facts.get("table") == null) Platform.throwException(new NoSuchTableException(ident));
        return new LakeTable(server, name, facts, !values.containsKey("version"));
    }

    // `toTable` asks for a table before it creates one. Spark's errors would not say what to do.
    private static void checkStreams(Identifier ident) {
        boolean writes = LakeStatements.isWithin("DataStreamWriter", "toTable");
        if (!writes && !LakeStatements.isWithin("DataStreamReader", "table")) return;
        String table = "('" + schema(ident.namespace()) + '.' + ident.name() + "')";
        throw LakeServer.raised("UnsupportedError: a stream cannot " + (writes ? "write to" : "read") + " a table of a lake by its "
            + "name\n  hint: use " + (writes ? "frame.writeStream.foreachBatch(lake.stream_sink" + table + ").option("
            + "'checkpointLocation', …).start()" : "lake.stream" + table));
    }

    // The snapshot at which this analysis has read the lake already, or null: a query reads one snapshot.
    private Object pinned() {
        for (Iterator each = AnalysisContext.get().relationCache().valuesIterator(); each.hasNext();) {
            Object version = version((LogicalPlan) each.next());
            if (version != null) return version;
        }
        return null;
    }

    private Object version(LogicalPlan plan) {
        if (plan instanceof DataSourceV2Relation) {
            Table table = ((DataSourceV2Relation) plan).table();
            if (table instanceof LakeTable && ((LakeTable) table).server.equals(server()) && !((LakeTable) table).travels) {
                return Long.valueOf(((LakeTable) table).version);
            }
        }
        for (Iterator each = plan.children().iterator(); each.hasNext();) {
            Object version = version((LogicalPlan) each.next());
            if (version != null) return version;
        }
        return null;
    }

    public Table createTable(Identifier ident, StructType schema, Transform[] partitions, Map properties) {
        staged(ident, schema, partitions, properties, "create").commitStagedChanges();
        return loadTable(ident);
    }
    public StagedTable stageCreate(Identifier ident, StructType schema, Transform[] partitions, Map properties) {
        return staged(ident, schema, partitions, properties, "create");
    }
    public StagedTable stageReplace(Identifier ident, StructType schema, Transform[] partitions, Map properties) {
        return staged(ident, schema, partitions, properties, "replace");
    }
    public StagedTable stageCreateOrReplace(Identifier ident, StructType schema, Transform[] partitions, Map properties) {
        return staged(ident, schema, partitions, properties, "create or replace");
    }

    void createLike(Identifier ident, Table source, HashMap properties) {
        LakeTable table = source instanceof LakeTable ? (LakeTable) source : null;
        if (table == null || !table.server.equals(server()) || table.isView || table.part != null) {
            Object comment = source.properties().get("comment");
            if (comment != null) properties.put("comment", comment);
            staged(ident, source.schema(), source.partitioning(), properties, "create").commitStagedChanges();
            return;
        }
        HashMap values = named(ident);
        values.put("properties", properties);
        values.put("table", table.table);
        values.put("version", Long.valueOf(table.version));
        ask("create_like", values);
    }

    private StagedTable staged(Identifier ident, StructType schema, Transform[] partitions, Map properties, String how) {
        HashMap values = named(ident);
        values.put("how", how);
        values.put("schema_json", schema.json());
        ArrayList keys = new ArrayList();
        for (int at = 0; at < partitions.length; at++) {
            NamedReference[] references = partitions[at].references();
            Expression[] arguments = partitions[at].arguments();
            boolean counted = arguments.length > 1 && arguments[0] instanceof Literal;
            if (references.length != 1 || references[0].fieldNames().length != 1) {
                throw LakeServer.raised("UnsupportedError: the partition key " + partitions[at] + " is not one column"
                    + "\n  hint: use columns, years, months, days, hours or bucket(n, column)");
            }
            keys.add(Arrays.asList(new Object[] {partitions[at].name(), references[0].fieldNames()[0],
                counted ? ((Literal) arguments[0]).value() : null}));
        }
        values.put("partitions", keys);
        values.put("properties", new HashMap(properties));
        // A query that runs before the table is replaced may read it.
        values.putAll(ask("check_definition", values));
        HashMap facts = new HashMap();
        facts.put("table", values.remove("table"));
        facts.put("version", Long.valueOf(-1));
        facts.put("schema", schema.json());
        facts.put("partitioning", new ArrayList());
        facts.put("properties", new HashMap());
        return new Staged(server(), name, facts, values, schema, session);
    }

    // A table that is created at the end of a statement, together with its rows.
    static class Staged extends LakeTable implements StagedTable {
        private final HashMap definition;
        private final StructType columns;
        private final SparkSession session;
        private Dataset rows;

        Staged(String server, String catalog, Map facts, HashMap definition, StructType columns, SparkSession session) {
            super(server, catalog, facts, false);
            this.definition = definition;
            this.columns = columns;
            this.session = session;
        }

        void store(String method, Map values, Dataset rows) {
            this.rows = rows;
            definition.put("read_at", values.get("read_at"));
        }
        public void commitStagedChanges() {
            // The columns of a query may have the defaults of the tables that it reads.
            if (rows == null) definition.put("defaults", LakeDefault.described(columns, session));
            ask("create", definition, rows);
        }
        public void abortStagedChanges() { rows = null; }
    }

    private HashMap named(Identifier ident) {
        if (ident.namespace().length > 1) {
            throw LakeServer.raised("SchemaError: the name of a table has one schema, and not " + ident);
        }
        HashMap values = new HashMap();
        values.put("schema", schema(ident.namespace()));
        values.put("name", ident.name());
        return values;
    }

    public Table alterTable(Identifier ident, TableChange[] changes) {
        HashMap values = named(ident);
        ArrayList all = new ArrayList();
        for (int at = 0; at < changes.length; at++) all.add(described(changes[at], ident));
        values.put("changes", all);
        ask("alter", values);
        return loadTable(ident);
    }

    private List described(TableChange change, Identifier ident) {
        if (change instanceof TableChange.SetProperty) {
            TableChange.SetProperty set = (TableChange.SetProperty) change;
            return Arrays.asList(new Object[] {"set", set.property(), set.value()});
        }
        if (change instanceof TableChange.RemoveProperty) {
            return Arrays.asList(new Object[] {"set", ((TableChange.RemoveProperty) change).property(), null});
        }
        if (!(change instanceof TableChange.ColumnChange)) return Arrays.asList(new Object[] {change.getClass().getSimpleName()});
        List path = Arrays.asList(((TableChange.ColumnChange) change).fieldNames());
        if (change instanceof TableChange.AddColumn) {
            TableChange.AddColumn add = (TableChange.AddColumn) change;
            boolean plain = add.isNullable() && add.position() == null;
            if (!plain) return Arrays.asList(new Object[] {"ADD COLUMN with NOT NULL or a position"});
            List value = add.defaultValue() == null ? null
                : LakeDefault.described(column(path), add.dataType(), add.defaultValue().getSql(), session);
            return Arrays.asList(new Object[] {"add", path, add.dataType().json(), add.comment(), value});
        }
        if (change instanceof TableChange.DeleteColumn) return Arrays.asList(new Object[] {"drop", path});
        if (change instanceof TableChange.RenameColumn) {
            return Arrays.asList(new Object[] {"rename", path, ((TableChange.RenameColumn) change).newName()});
        }
        if (change instanceof TableChange.UpdateColumnType) {
            return Arrays.asList(new Object[] {"type", path, ((TableChange.UpdateColumnType) change).newDataType().json()});
        }
        if (change instanceof TableChange.UpdateColumnComment) {
            return Arrays.asList(new Object[] {"comment", path, ((TableChange.UpdateColumnComment) change).newComment()});
        }
        if (change instanceof TableChange.UpdateColumnDefaultValue) {
            String column = column(path);
            String sql = ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue();
            DataType type = ((LakeTable) loadTable(ident)).schema().apply(column).dataType();
            return Arrays.asList(new Object[] {"default", path, LakeDefault.described(column, type, sql, session)});
        }
        return Arrays.asList(new Object[] {change.getClass().getSimpleName()});
    }

    private static String column(List path) {
        if (path.size() == 1) return (String) path.get(0);
        throw LakeServer.raised("UnsupportedError: a nested field of a lake has no default\n  hint: omit DEFAULT");
    }

    public boolean purgeTable(Identifier ident) {
        throw LakeServer.raised("UnsupportedError: a lake has no PURGE\n  hint: DROP TABLE; its files go when its snapshots "
            + "have expired: CALL " + name + ".system.expire_snapshots(…) and CALL " + name + ".system.cleanup(…)");
    }

    public boolean dropTable(Identifier ident) {
        return ((Boolean) ask("drop", named(ident)).get("done")).booleanValue();
    }

    public void renameTable(Identifier from, Identifier to) {
        HashMap values = named(from);
        // Spark leaves the catalog in the new name.
        String[] schemas = to.namespace();
        if (schemas.length == 2 && schemas[0].equals(name)) schemas = new String[] {schemas[1]};
        values.put("new_schema", schemas.length == 0 ? values.get("schema") : String.join(".", schemas));
        values.put("new_name", to.name());
        ask("rename", values);
    }

    private static RuntimeException schemas() {
        return LakeServer.raised("UnsupportedError: Spark's SQL cannot change or drop a schema of a lake"
            + "\n  hint: drop its tables: a schema without tables does no harm");
    }

    public void createNamespace(String[] namespace, Map properties) {
        if (namespace.length != 1) throw LakeServer.raised("SchemaError: the schemas of a lake have names of one part");
        if (namespaceExists(namespace)) Platform.throwException(new NamespaceAlreadyExistsException(namespace));
        HashMap values = new HashMap();
        values.put("schema", namespace[0]);
        values.put("properties", properties);
        ask("create_schema", values);
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) { throw schemas(); }
    public boolean dropNamespace(String[] namespace, boolean cascade) { throw schemas(); }
}
