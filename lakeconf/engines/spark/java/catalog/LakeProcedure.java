package org.apache.spark.sql.connector.catalog;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.internal.connector.ProcedureParameterImpl;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

// A procedure of a lake. Python says which parameters it has, and carries it out.
public class LakeProcedure implements UnboundProcedure {
    private final LakeCatalog catalog;
    private final String name, server;
    // The name, the type and the default of each; null if there is no such procedure.
    private final List parameters;

    LakeProcedure(LakeCatalog catalog, String server, String name) {
        this.catalog = catalog;
        this.server = server;
        this.name = name;
        this.parameters = (List) LakeServer.ask(server, "procedures", new HashMap(), null).get(name);
    }

    public String name() { return name; }
    public String description() { return name; }

    // An error that is raised when the procedure is loaded would lose its message.
    public BoundProcedure bind(StructType arguments) {
        if (parameters == null) LakeServer.ask(server, "call", called(new HashMap()), null);
        return new Bound(this);
    }

    private HashMap called(HashMap arguments) {
        HashMap values = new HashMap();
        values.put("procedure", name);
        values.put("arguments", arguments);
        return values;
    }

    private static DataType type(List parameter) { return DataType.fromDDL((String) parameter.get(1)); }

    // Spark takes a procedure for a bound one by its class.
    static class Bound implements BoundProcedure {
        private final LakeProcedure procedure;

        Bound(LakeProcedure procedure) { this.procedure = procedure; }

        public String name() { return procedure.name; }
        public String description() { return procedure.name; }
        public boolean isDeterministic() { return false; }

        public ProcedureParameter[] parameters() {
            ProcedureParameter[] all = new ProcedureParameter[procedure.parameters.size()];
            for (int at = 0; at < all.length; at++) {
                List facts = (List) procedure.parameters.get(at);
                DefaultValue value = facts.get(2) == null ? null : new DefaultValue((String) facts.get(2));
                all[at] = new ProcedureParameterImpl(ProcedureParameter.Mode.IN, (String) facts.get(0), type(facts), value, null);
            }
            return all;
        }

        public Iterator call(InternalRow row) {
            SparkSession session = SparkSession.active();
            LakeCatalog catalog = procedure.catalog;
            HashMap arguments = new HashMap();
            Identifier table = null;
            for (int at = 0; at < procedure.parameters.size(); at++) {
                List facts = (List) procedure.parameters.get(at);
                Object value = row.isNullAt(at) ? null : row.get(at, type(facts));
                if (value instanceof UTF8String) value = value.toString();
                if (value != null && facts.get(0).equals("table")) {
                    table = new LakeName(session, (String) value, catalog).identifier(catalog);
                    value = Arrays.asList(new Object[] {table.namespace()[0], table.name()});
                }
                arguments.put(facts.get(0), value);
            }
            Dataset rows = (Dataset) LakeServer.answer(procedure.server, "call", procedure.called(arguments), null);
            InternalRow[] all = rows.queryExecution().executedPlan().executeCollect();
            if (table != null) LakeChanges.refresh(session, catalog.name(), table);
            return Collections.singletonList(new Result(rows.schema(), all)).iterator();
        }
    }

    static class Result implements LocalScan {
        private final StructType columns;
        private final InternalRow[] rows;

        Result(StructType columns, InternalRow[] rows) {
            this.columns = columns;
            this.rows = rows;
        }

        public StructType readSchema() { return columns; }
        public InternalRow[] rows() { return rows; }
    }
}
