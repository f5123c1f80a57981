package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;

// Stores the frame of a statement by an operation of `Table`.
public class LakeWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, V1Write, InsertableRelation {
    private final LakeTable table;
    private final HashMap values;
    private String method = "append";

    LakeWrite(LakeTable table) {
        this.table = table;
        this.values = table.request();
    }

    public WriteBuilder truncate() {
        method = "overwrite";
        return this;
    }

    public boolean canOverwrite(Predicate[] predicates) {
        if (described(predicates) == null) {
            throw LakeServer.raised("UnsupportedError: lakeconf cannot overwrite by this condition"
                + "\n  hint: compare columns with constants, or use Table.overwrite(frame, where=…)");
        }
        return true;
    }

    public WriteBuilder overwrite(Predicate[] predicates) {
        method = "overwrite";
        values.put("where", described(predicates));
        return this;
    }

    public WriteBuilder overwriteDynamicPartitions() {
        method = "overwrite_partitions";
        return this;
    }

    // All predicates, or null if there is one that cannot be described.
    static List described(Predicate[] predicates) {
        ArrayList conditions = new ArrayList();
        for (int at = 0; at < predicates.length; at++) {
            Object condition = LakeTable.Reading.described(predicates[at]);
            if (condition == null) return null;
            conditions.add(condition);
        }
        return conditions;
    }

    public Write build() { return this; }
    public InsertableRelation toInsertableRelation() { return this; }
    public String description() { return method + " " + table; }

    public void insert(Dataset rows, boolean overwrite) {
        org.apache.spark.sql.classic.Dataset frame = (org.apache.spark.sql.classic.Dataset) rows;
        values.put("read_at", table.readAt(frame.queryExecution().analyzed()));
        table.store(method, values, frame);
    }
}
