package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlan$;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;

// Plans the relation of a table as the frame of its scan, with the filters and projections directly above it; and the
// statements that change rows of a table.
public class LakeReads extends SparkStrategy {
    private final SparkSession session;

    LakeReads(SparkSession session) { this.session = session; }

    // Adds the strategy to a session.
    static void install(SparkSession session) {
        synchronized (LakeReads.class) {
            ExperimentalMethods methods = session.experimental();
            ArrayList strategies = new ArrayList();
            for (Iterator each = methods.extraStrategies().iterator(); each.hasNext();) {
                Object strategy = each.next();
                // A copy of a session has the strategy of the original.
                if (strategy instanceof LakeReads && ((LakeReads) strategy).session == session) return;
                if (!(strategy instanceof LakeReads)) strategies.add(strategy);
            }
            strategies.add(new LakeReads(session));
            methods.extraStrategies_$eq(seq(strategies.toArray()));
        }
    }

    static Seq seq(Object[] values) { return (Seq) ArraySeq.unsafeWrapArray(values); }

    public Seq apply(LogicalPlan plan) {
        SparkPlan command = LakeChanges.command(plan, session);
        if (command != null) return seq(new Object[] {command});
        LogicalPlan rows = replaced(plan);
        if (rows == null) return isAboveTable(plan) ? seq(new Object[] {above(plan)}) : seq(new Object[0]);
        LogicalPlan optimized = (LogicalPlan) session.sessionState().optimizer().execute(rows);
        LogicalPlan named = named(optimized, plan.output());
        SparkPlan physical = (SparkPlan) session.sessionState().planner().plan(named).next();
        unlink(physical);
        return seq(new Object[] {physical});
    }

    // True for filters and projections directly above a table: Spark would plan them together with its relation.
    private static boolean isAboveTable(LogicalPlan plan) {
        LogicalPlan below = plan;
        while (below instanceof Filter || below instanceof Project) below = (LogicalPlan) below.children().apply(0);
        return below instanceof DataSourceV2ScanRelation
            && ((DataSourceV2ScanRelation) below).scan() instanceof LakeTable.Rows;
    }

    // A filter or projection whose subqueries and random numbers stay above the frame.
    private SparkPlan above(LogicalPlan plan) {
        if (plan instanceof Project) {
            return new ProjectExec(((Project) plan).projectList(), planLater((LogicalPlan) ((Project) plan).child()));
        }
        LogicalPlan child = (LogicalPlan) ((Filter) plan).child();
        boolean isBelow = replaced(child) != null;
        Expression others = null;
        List parts = parts(((Filter) plan).condition());
        for (int at = 0; at < parts.size(); at++) {
            Expression part = (Expression) parts.get(at);
            if (isBelow && isPlain(part) && others == null) child = new Filter(part, child);
            else others = others == null ? part : new And(others, part);
        }
        return new FilterExec(others, planLater(child));
    }

    private static List parts(Expression condition) {
        ArrayList parts = new ArrayList();
        if (condition instanceof And) {
            parts.addAll(parts(((And) condition).left()));
            parts.addAll(parts(((And) condition).right()));
        } else {
            parts.add(condition);
        }
        return parts;
    }

    // The plan with the frame in the place of the relation; null if there is another plan in between.
    private static LogicalPlan replaced(LogicalPlan plan) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
            if (!(relation.scan() instanceof LakeTable.Rows)) return null;
            return named(((LakeTable.Rows) relation.scan()).plan(), relation.output());
        }
        if (plan instanceof Filter) {
            Filter filter = (Filter) plan;
            LogicalPlan child = isPlain(filter.condition()) ? replaced((LogicalPlan) filter.child()) : null;
            return child == null ? null : new Filter(filter.condition(), child);
        }
        if (plan instanceof Project) {
            Project project = (Project) plan;
            for (Iterator each = project.projectList().iterator(); each.hasNext();) {
                if (!isPlain((Expression) each.next())) return null;
            }
            LogicalPlan child = replaced((LogicalPlan) project.child());
            return child == null ? null : new Project(project.projectList(), child);
        }
        return null;
    }

    private static boolean isPlain(Expression expression) {
        return expression.deterministic() && !SubqueryExpression$.MODULE$.hasSubquery(expression);
    }

    // A plan under the names and ids of other attributes.
    static LogicalPlan named(LogicalPlan plan, Seq attributes) {
        Object[] columns = new Object[attributes.size()];
        if (plan.output().size() < columns.length) throw new IllegalStateException("lakeconf: a scan lacks columns");
        boolean same = plan.output().size() == columns.length;
        for (int at = 0; at < columns.length; at++) {
            Attribute wanted = (Attribute) attributes.apply(at), read = (Attribute) plan.output().apply(at);
            if (!DataType.equalsIgnoreNullability(wanted.dataType(), read.dataType())) {
                throw new IllegalStateException("lakeconf: the scan reads " + read + " as " + read.dataType().sql()
                    + ", and not as " + wanted.dataType().sql());
            }
            same = same && wanted.exprId().equals(read.exprId());
            columns[at] = wanted.exprId().equals(read.exprId()) ? read
                : new Alias(read, wanted.name(), wanted.exprId(), wanted.qualifier(), Option.apply(wanted.metadata()),
                    seq(new Object[0]));
        }
        return same ? plan : new Project(seq(columns), plan);
    }

    // For adaptive execution, all nodes belong to the relation.
    private static void unlink(SparkPlan plan) {
        TreeNodeTag own = SparkPlan$.MODULE$.LOGICAL_PLAN_TAG(), inherited = SparkPlan$.MODULE$.LOGICAL_PLAN_INHERITED_TAG();
        plan.unsetTagValue(own);
        plan.unsetTagValue(inherited);
        for (Iterator each = plan.children().iterator(); each.hasNext();) unlink((SparkPlan) each.next());
    }
}
