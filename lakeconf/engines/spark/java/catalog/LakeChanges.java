package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.FullOuter$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTables;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RecoverPartitions;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

// Statements that change rows: Spark computes what becomes of each row, and Python commits that.
abstract class LakeChanges extends V2CommandExec {
    static final String ACTION = "__lakeconf_action";
    // The columns that identify a row, before those of the table.
    static final String[] PLACES = {"__lakeconf_row_id", "__lakeconf_file_id", "__lakeconf_file_row_number"};
    final SparkSession spark;
    private final DataSourceV2Relation target;

    LakeChanges(SparkSession spark, DataSourceV2Relation target) {
        this.spark = spark;
        this.target = target;
    }

    // Lets Spark read a cached table again, as it does after its own writes.
    Seq refreshed() {
        refresh(spark, ((CatalogPlugin) target.catalog().get()).name(), (Identifier) target.identifier().get());
        return LakeReads.seq(new Object[0]);
    }

    static void refresh(SparkSession spark, String catalog, Identifier ident) {
        StringBuilder name = new StringBuilder(quoted(catalog));
        for (int at = 0; at < ident.namespace().length; at++) name.append('.').append(quoted(ident.namespace()[at]));
        spark.sql("REFRESH TABLE " + name + '.' + quoted(ident.name()));
    }

    static String quoted(String name) { return '`' + name.replace("`", "``") + '`'; }

    // What carries out a statement; null for another plan.
    static SparkPlan command(LogicalPlan plan, SparkSession spark) {
        if (plan instanceof OverwritePartitionsDynamic) {
            OverwritePartitionsDynamic overwrite = (OverwritePartitionsDynamic) plan;
            boolean ours = !overwrite.write().isEmpty() && overwrite.write().get() instanceof LakeWrite;
            if (!ours) return null;
            // The compiler cannot call `table`, which has two return types.
            return new Overwriting(spark, relation((LogicalPlan) overwrite.productElement(0)),
                (LakeWrite) overwrite.write().get(), overwrite.query());
        }
        SparkPlan like = LakeLike.planned(plan, spark);
        if (like != null) return like;
        refuseView(plan);
        refuseOthers(plan);
        LogicalPlan table = null;
        if (plan instanceof DeleteFromTable) table = ((DeleteFromTable) plan).table();
        if (plan instanceof UpdateTable) table = ((UpdateTable) plan).table();
        if (plan instanceof MergeIntoTable) table = ((MergeIntoTable) plan).targetTable();
        DataSourceV2Relation relation = relation(table);
        if (relation == null || !(relation.table() instanceof LakeTable)) return null;
        ((LakeTable) relation.table()).checkChangeable();
        return new Changing(spark, relation, plan, (LakeTable) relation.table(), table.output());
    }

    // Of `spark.catalog`, and within other statements; see `LakeStatements`.
    private static void refuseOthers(LogicalPlan plan) {
        LogicalPlan child = plan instanceof AnalyzeTables ? ((AnalyzeTables) plan).child()
            : plan instanceof RecoverPartitions ? ((RecoverPartitions) plan).child() : null;
        Object catalog = child instanceof ResolvedNamespace ? ((ResolvedNamespace) child).catalog()
            : child instanceof ResolvedTable ? ((ResolvedTable) child).catalog() : null;
        if (catalog instanceof LakeCatalog) {
            throw LakeServer.raised("UnsupportedError: a lake has no ANALYZE TABLES and no RECOVER PARTITIONS\n  hint: omit it: "
                + "the catalog of a lake has the files of each table and their statistics");
        }
    }

    // Spark would take the catalog for one that has views; other statements about views are errors of its analysis.
    private static void refuseView(LogicalPlan plan) {
        LogicalPlan view = plan instanceof CreateView ? ((CreateView) plan).child() : null;
        if (view instanceof ResolvedIdentifier && ((ResolvedIdentifier) view).catalog() instanceof LakeCatalog) {
            throw LakeServer.raised("UnsupportedError: Spark's SQL cannot create a view in a lake, whose views are in "
                + "DuckDB's SQL\n  hint: use a table, a temporary view, or lake.create_view");
        }
    }

    private static DataSourceV2Relation relation(LogicalPlan plan) {
        if (plan instanceof DataSourceV2ScanRelation) return ((DataSourceV2ScanRelation) plan).relation();
        if (plan instanceof DataSourceV2Relation) return (DataSourceV2Relation) plan;
        if (plan instanceof InMemoryRelation) return relation(((InMemoryRelation) plan).cacheBuilder().logicalPlan());
        return plan == null || plan.children().size() != 1 ? null : relation((LogicalPlan) plan.children().apply(0));
    }

    public Seq children() { return LakeReads.seq(new Object[0]); }
    public org.apache.spark.sql.catalyst.trees.TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq none) { return this; }
    public Seq output() { return LakeReads.seq(new Object[0]); }
    public int productArity() { return 0; }
    public Object productElement(int at) { throw new IndexOutOfBoundsException(); }
    public boolean canEqual(Object other) { return other == this; }
    public boolean equals(Object other) { return other == this; }
    public int hashCode() { return System.identityHashCode(this); }

    static class Overwriting extends LakeChanges {
        private final LakeWrite write;
        private final LogicalPlan query;

        Overwriting(SparkSession spark, DataSourceV2Relation target, LakeWrite write, LogicalPlan query) {
            super(spark, target);
            this.write = write;
            this.query = query;
        }

        public Seq run() {
            write.insert(Dataset$.MODULE$.ofRows(spark, query), true);
            return refreshed();
        }
    }

    static class Changing extends LakeChanges {
        private LogicalPlan statement;
        private final LakeTable table;
        private Seq columns;
        // The columns of `PLACES`, once the rows of the table have been read.
        private final Attribute[] places = new Attribute[PLACES.length];

        Changing(SparkSession spark, DataSourceV2Relation target, LogicalPlan statement, LakeTable table, Seq columns) {
            super(spark, target);
            this.statement = statement;
            this.table = table;
            this.columns = columns;
        }

        public Seq run() {
            // The optimizer leaves values, without what the statement says of them.
            LogicalPlan analyzed = analyzed();
            checkFields(analyzed);
            boolean isPython = analyzed.containsPattern(TreePattern$.MODULE$.PYTHON_UDF());
            if (isPython) useAnalyzed(analyzed);
            HashMap values = table.request();
            values.put("read_at", table.readAt(statement));
            LogicalPlan changes;
            if (statement instanceof DeleteFromTable) {
                Expression condition = ((DeleteFromTable) statement).condition();
                List where = described(condition);
                values.put("where", where);
                if (where != null && Boolean.TRUE.equals(table.ask("delete", values, null).get("done"))) {
                    return refreshed();
                }
                changes = deleted(condition);
            } else if (statement instanceof UpdateTable) {
                changes = updated((UpdateTable) statement);
            } else {
                changes = merged((MergeIntoTable) statement);
            }
            if (isPython && analyzed instanceof WithCTE) changes = new WithCTE(changes, ((WithCTE) analyzed).cteDefs());
            table.ask("change", values, Dataset$.MODULE$.ofRows(spark, changes));
            return refreshed();
        }

        private LogicalPlan analyzed() {
            String execution = spark.sparkContext().getLocalProperty("spark.sql.execution.id");
            QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
            if (query == null) throw new IllegalStateException("lakeconf: the statement is not a query of this session");
            return query.analyzed();
        }

        // The optimizer puts functions in Python between the statement and its table.
        private void useAnalyzed(LogicalPlan plan) {
            if (plan.getClass() == statement.getClass()) {
                statement = plan;
                columns = ((LogicalPlan) plan.children().apply(0)).output();
                return;
            }
            for (Iterator each = plan.children().iterator(); each.hasNext();) useAnalyzed((LogicalPlan) each.next());
        }

        // Spark casts a struct by the positions of its fields.
        private void checkFields(LogicalPlan plan) {
            if (plan instanceof UpdateTable) checkFields(((UpdateTable) plan).assignments());
            if (plan instanceof MergeIntoTable) {
                MergeIntoTable merge = (MergeIntoTable) plan;
                if (merge.withSchemaEvolution()) checkColumns(merge.sourceTable().output(), merge.targetTable().output());
                Seq[] all = {merge.matchedActions(), merge.notMatchedActions(), merge.notMatchedBySourceActions()};
                for (int at = 0; at < all.length; at++) {
                    for (Iterator each = all[at].iterator(); each.hasNext();) {
                        Object clause = each.next();
                        if (clause instanceof UpdateAction) checkFields(((UpdateAction) clause).assignments());
                        if (clause instanceof InsertAction) checkFields(((InsertAction) clause).assignments());
                    }
                }
            }
            for (Iterator each = plan.children().iterator(); each.hasNext();) checkFields((LogicalPlan) each.next());
        }

        private void checkFields(Seq assignments) {
            for (Iterator each = assignments.iterator(); each.hasNext();) {
                Assignment assignment = (Assignment) each.next();
                Expression key = assignment.key(), value = assignment.value();
                if (value instanceof AssertNotNull) value = ((AssertNotNull) value).child();
                if (value instanceof Cast && !sameFields(((Cast) value).child().dataType(), key.dataType())) {
                    throw LakeServer.raised("SchemaError: " + ((Cast) value).child().sql() + " has other fields than "
                        + key.sql() + ", or in another order\n  hint: name them as in " + key.dataType().sql());
                }
            }
        }

        // Spark would leave out a column that the table lacks.
        private static void checkColumns(Seq given, Seq known) {
            for (Iterator each = given.iterator(); each.hasNext();) {
                String name = ((Attribute) each.next()).name();
                boolean isKnown = false;
                for (Iterator other = known.iterator(); other.hasNext();) {
                    isKnown = ((Attribute) other.next()).name().equalsIgnoreCase(name) || isKnown;
                }
                if (!isKnown) {
                    throw LakeServer.raised("UnsupportedError: a MERGE into a lake cannot add the column " + name
                        + "\n  hint: ALTER TABLE … ADD COLUMN");
                }
            }
        }

        private static boolean sameFields(DataType from, DataType to) {
            if (from instanceof ArrayType && to instanceof ArrayType) {
                return sameFields(((ArrayType) from).elementType(), ((ArrayType) to).elementType());
            }
            if (from instanceof MapType && to instanceof MapType) {
                return sameFields(((MapType) from).keyType(), ((MapType) to).keyType())
                    && sameFields(((MapType) from).valueType(), ((MapType) to).valueType());
            }
            if (!(from instanceof StructType) || !(to instanceof StructType)) return true;
            StructField[] left = ((StructType) from).fields(), right = ((StructType) to).fields();
            boolean same = left.length == right.length;
            for (int at = 0; same && at < left.length; at++) {
                same = left[at].name().equalsIgnoreCase(right[at].name())
                    && sameFields(left[at].dataType(), right[at].dataType());
            }
            return same;
        }

        // All parts of a condition as predicates, or null.
        private List described(Expression condition) {
            if (condition instanceof Literal && Boolean.TRUE.equals(((Literal) condition).value())) return new ArrayList();
            if (org.apache.spark.sql.catalyst.expressions.SubqueryExpression$.MODULE$.hasSubquery(condition)) return null;
            Option predicate = DataSourceV2Strategy$.MODULE$.translateFilterV2(condition);
            return predicate.isEmpty() ? null : LakeWrite.described(new Predicate[] {(Predicate) predicate.get()});
        }

        // The parts of a condition that planning can use to skip files: those on columns of the table alone.
        private ArrayList pushed(Expression condition) {
            ArrayList parts = new ArrayList();
            if (condition instanceof And) {
                parts.addAll(pushed(((And) condition).left()));
                parts.addAll(pushed(((And) condition).right()));
                return parts;
            }
            for (Iterator each = condition.references().iterator(); each.hasNext();) {
                if (place((Attribute) each.next()) < 0) return parts;
            }
            List where = described(condition);
            if (where != null) parts.addAll(where);
            return parts;
        }

        // The rows of the files that may have rows for conditions, under the ids of the relation's columns, with the
        // columns of `PLACES`.
        private LogicalPlan rows(ArrayList where) {
            HashMap values = table.request();
            values.put("where", where);
            Dataset read = (Dataset) LakeServer.answer(table.server, "rows", values, null);
            LogicalPlan plan = read.queryExecution().analyzed();
            Object[] named = new Object[PLACES.length + columns.size()];
            for (int at = 0; at < PLACES.length; at++) {
                places[at] = column(plan, PLACES[at]);
                named[at] = places[at];
            }
            for (int at = 0; at < columns.size(); at++) {
                Attribute wanted = (Attribute) columns.apply(at), own = column(plan, wanted.name());
                if (!DataType.equalsIgnoreNullability(wanted.dataType(), own.dataType())) {
                    throw new IllegalStateException("lakeconf: the scan reads other types: " + own);
                }
                named[PLACES.length + at] = alias(own, wanted.name(), wanted);
            }
            return new Project(LakeReads.seq(named), plan);
        }

        private static Attribute column(LogicalPlan plan, String name) {
            for (Iterator each = plan.output().iterator(); each.hasNext();) {
                Attribute column = (Attribute) each.next();
                if (column.name().equals(name)) return column;
            }
            throw new IllegalStateException("lakeconf: a scan lacks the column " + name);
        }

        private static Alias alias(Expression value, String name, Attribute as) {
            return new Alias(value, name, as == null ? NamedExpression$.MODULE$.newExprId() : as.exprId(),
                LakeReads.seq(new Object[0]), Option.apply(Metadata.empty()), LakeReads.seq(new Object[0]));
        }

        private static Literal text(String value) { return Literal$.MODULE$.apply(value); }

        private LogicalPlan deleted(Expression condition) {
            LogicalPlan found = new Filter(condition, rows(pushed(condition)));
            return new Project(LakeReads.seq(change(text("delete"), new Expression[0][])), found);
        }

        private LogicalPlan updated(UpdateTable update) {
            boolean all = update.condition().isEmpty();
            Expression condition = all ? null : (Expression) update.condition().get();
            LogicalPlan rows = all ? rows(new ArrayList()) : new Filter(condition, rows(pushed(condition)));
            Expression[] values = values(update.assignments(), true);
            return new Project(LakeReads.seq(change(text("update"), new Expression[][] {values})), rows);
        }

        // The columns of a changed row: where it is, its action, and its values; without values, those that it has.
        private Object[] change(Expression action, Expression[][] values) {
            Object[] named = new Object[PLACES.length + 1 + columns.size()];
            for (int at = 0; at < PLACES.length; at++) named[at] = places[at];
            named[PLACES.length] = alias(action, ACTION, null);
            for (int at = 0; at < columns.size(); at++) {
                Attribute column = (Attribute) columns.apply(at);
                Expression value = values.length == 0 ? column : values[0][at];
                named[PLACES.length + 1 + at] = alias(value, column.name(), null);
            }
            return named;
        }

        // The position of a column of the table; -1 for another expression.
        private int place(Expression column) {
            for (int at = 0; at < columns.size(); at++) {
                if (column.semanticEquals((Attribute) columns.apply(at))) return at;
            }
            return -1;
        }

        // The new value of each column; columns without an assignment keep theirs, or have their default in a new row.
        private Expression[] values(Seq assignments, boolean keep) {
            Expression[] values = new Expression[columns.size()];
            boolean[] isSet = new boolean[values.length];
            for (Iterator each = assignments.iterator(); each.hasNext();) {
                Assignment assignment = (Assignment) each.next();
                int place = place(assignment.key());
                if (place < 0) throw LakeServer.raised("UnsupportedError: " + assignment.key().sql()
                    + " is not a column of " + table.name() + "\n  hint: set the whole column, as in SET s = named_struct('a', 1, 'b', s.b)");
                DataType wanted = ((Attribute) columns.apply(place)).dataType();
                if (!DataType.equalsIgnoreNullability(wanted, assignment.value().dataType())) {
                    throw LakeServer.raised("SchemaError: " + assignment.value().sql() + " is not " + wanted.sql()
                        + "\n  hint: cast it");
                }
                if (isSet[place]) throw LakeServer.raised("SchemaError: the statement sets "
                    + assignment.key().sql() + " twice\n  hint: set it once");
                isSet[place] = true;
                values[place] = assignment.value();
            }
            for (int at = 0; at < values.length; at++) {
                Attribute column = (Attribute) columns.apply(at);
                if (!isSet[at]) values[at] = keep ? (Expression) column : initial(column);
            }
            return values;
        }

        // The value of a column that a clause does not name: its default, or NULL.
        private static Expression initial(Attribute column) {
            if (!column.metadata().contains("CURRENT_DEFAULT")) return Literal$.MODULE$.create(null, column.dataType());
            return ResolveDefaultColumns$.MODULE$.getDefaultValueExprOrNullLit(column);
        }

        private LogicalPlan merged(MergeIntoTable merge) {
            // All rows of the table may be without a match.
            boolean all = !merge.notMatchedBySourceActions().isEmpty();
            LogicalPlan target = rows(all ? new ArrayList() : pushed(merge.mergeCondition()));
            Alias marked = alias(Literal$.MODULE$.apply(Boolean.TRUE), "__lakeconf_in_source", null);
            Object[] given = new Object[merge.sourceTable().output().size() + 1];
            for (int at = 0; at < given.length - 1; at++) given[at] = merge.sourceTable().output().apply(at);
            given[given.length - 1] = marked;
            LogicalPlan source = new Project(LakeReads.seq(given), merge.sourceTable());
            JoinType how = all ? (JoinType) FullOuter$.MODULE$
                : !merge.notMatchedActions().isEmpty() ? (JoinType) LeftOuter$.MODULE$ : (JoinType) Inner$.MODULE$;
            LogicalPlan joined = new Join(source, target, how, Option.apply(merge.mergeCondition()), JoinHint.NONE());
            // An outer join makes columns NULL that are not NULL below it.
            Attribute mark = marked.toAttribute().withNullability(true), place = places[0].withNullability(true);
            Expression inSource = new IsNotNull(mark), inTarget = new IsNotNull(place);
            ArrayList conditions = new ArrayList(), actions = new ArrayList(), values = new ArrayList();
            add(merge.matchedActions(), new And(inSource, inTarget), conditions, actions, values);
            add(merge.notMatchedActions(), new IsNull(place), conditions, actions, values);
            add(merge.notMatchedBySourceActions(), new IsNull(mark), conditions, actions, values);
            // First the number of the clause that applies, then what it does.
            Alias clause = alias(cases(conditions, numbers(conditions.size())), "__lakeconf_clause", null);
            Object[] kept = new Object[joined.output().size() + 1];
            for (int at = 0; at < kept.length - 1; at++) kept[at] = joined.output().apply(at);
            kept[kept.length - 1] = clause;
            LogicalPlan changing = new Filter(new IsNotNull(clause.toAttribute()), new Project(LakeReads.seq(kept), joined));
            ArrayList chosen = new ArrayList();
            for (int at = 0; at < conditions.size(); at++) {
                chosen.add(new EqualTo(clause.toAttribute(), Literal$.MODULE$.apply(Integer.valueOf(at))));
            }
            Expression[] results = new Expression[columns.size()];
            for (int at = 0; at < results.length; at++) {
                ArrayList each = new ArrayList();
                for (int number = 0; number < values.size(); number++) each.add(((Expression[]) values.get(number))[at]);
                results[at] = cases(chosen, each);
            }
            return new Project(LakeReads.seq(change(cases(chosen, actions), new Expression[][] {results})), changing);
        }

        private static ArrayList numbers(int count) {
            ArrayList numbers = new ArrayList();
            for (int at = 0; at < count; at++) numbers.add(Literal$.MODULE$.apply(Integer.valueOf(at)));
            return numbers;
        }

        private static Expression cases(ArrayList conditions, ArrayList values) {
            Object[] branches = new Object[conditions.size()];
            for (int at = 0; at < branches.length; at++) branches[at] = new Tuple2(conditions.get(at), values.get(at));
            return new CaseWhen(LakeReads.seq(branches), Option.empty());
        }

        // The clauses of one kind: when they apply, what they do, and the values of their rows.
        private void add(Seq clauses, Expression base, ArrayList conditions, ArrayList actions, ArrayList values) {
            for (Iterator each = clauses.iterator(); each.hasNext();) {
                MergeAction clause = (MergeAction) each.next();
                Option condition = clause.condition();
                conditions.add(condition.isEmpty() ? base : new And(base, (Expression) condition.get()));
                if (clause instanceof UpdateAction) {
                    actions.add(text("update"));
                    values.add(values(((UpdateAction) clause).assignments(), true));
                } else if (clause instanceof InsertAction) {
                    actions.add(text("insert"));
                    values.add(values(((InsertAction) clause).assignments(), false));
                } else if (clause instanceof DeleteAction) {
                    actions.add(text("delete"));
                    values.add(columns());
                } else {
                    throw LakeServer.raised("UnsupportedError: a MERGE cannot do this: " + clause.sql());
                }
            }
        }

        private Expression[] columns() { return values(LakeReads.seq(new Object[0]), true); }
    }
}
