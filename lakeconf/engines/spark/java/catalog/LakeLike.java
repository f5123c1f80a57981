package org.apache.spark.sql.connector.catalog;

import java.util.HashMap;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

// CREATE TABLE … LIKE: a table of the same lake is declared again in DuckLake's types, and others in Spark's.
class LakeLike extends LakeChanges {
    private final LakeCatalog catalog;
    private final Identifier name;
    private final Table source;
    private final HashMap properties;
    private final boolean ifNotExists;

    LakeLike(SparkSession spark, LakeCatalog catalog, Identifier name, Table source, HashMap properties, boolean ifNotExists) {
        super(spark, null);
        this.catalog = catalog;
        this.name = name;
        this.source = source;
        this.properties = properties;
        this.ifNotExists = ifNotExists;
    }

    // What carries out the statement; null for another plan. Spark 4.0 to 4.2 have a command for its own tables only.
    static SparkPlan planned(LogicalPlan plan, SparkSession spark) {
        if (plan instanceof CreateTableLikeCommand) return planned((CreateTableLikeCommand) plan, spark);
        if (!plan.productPrefix().equals("CreateTableLike") || !(plan.productElement(0) instanceof ResolvedIdentifier)) return null;
        ResolvedIdentifier target = (ResolvedIdentifier) plan.productElement(0);
        if (!(target.catalog() instanceof LakeCatalog) || !(plan.productElement(1) instanceof ResolvedTable)) return null;
        HashMap properties = properties(plan.productElement(5), plan.productElement(3), plan.productElement(2));
        if (!((Option) plan.productElement(4)).isEmpty()) properties.put("provider", "hive");
        Table source = ((ResolvedTable) plan.productElement(1)).table();
        boolean ifNotExists = ((Boolean) plan.productElement(6)).booleanValue();
        return new LakeLike(spark, (LakeCatalog) target.catalog(), target.identifier(), source, properties, ifNotExists);
    }

    private static SparkPlan planned(CreateTableLikeCommand command, SparkSession spark) {
        LakeName target = named(command.targetTable(), spark);
        if (!(target.catalog instanceof LakeCatalog)) return null;
        LakeCatalog lake = (LakeCatalog) target.catalog;
        LakeName from = named(command.sourceTable(), spark);
        Table source = null;
        try {
            source = ((TableCatalog) from.catalog).loadTable(from.identifier(from.catalog));
        } catch (Exception error) {
            org.apache.spark.unsafe.Platform.throwException(error);
        }
        CatalogStorageFormat format = command.fileFormat();
        HashMap properties = properties(command.properties(), command.provider(), format.locationUri());
        if (!format.serde().isEmpty() || !format.inputFormat().isEmpty()) properties.put("provider", "hive");
        return new LakeLike(spark, lake, target.identifier(lake), source, properties, command.ifNotExists());
    }

    private static LakeName named(TableIdentifier name, SparkSession spark) {
        return new LakeName(spark, name.quotedString(), null);
    }

    private static HashMap properties(Object given, Object provider, Object location) {
        HashMap properties = new HashMap();
        for (Iterator each = ((scala.collection.immutable.Map) given).iterator(); each.hasNext();) {
            Tuple2 property = (Tuple2) each.next();
            properties.put(property._1(), property._2());
        }
        if (!((Option) provider).isEmpty()) properties.put("provider", ((Option) provider).get());
        if (!((Option) location).isEmpty()) properties.put("location", String.valueOf(((Option) location).get()));
        return properties;
    }

    public Seq run() {
        if (!ifNotExists || !catalog.tableExists(name)) catalog.createLike(name, source, properties);
        return LakeReads.seq(new Object[0]);
    }
}
