package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

// The table function `table_changes`, under the name and with the arguments that it has in Delta Lake.
public class LakeFunction extends AbstractFunction1 {
    private static final String NAME = "table_changes";
    private static final String USAGE = "\n  hint: write table_changes('schema.table', first snapshot[, last snapshot])";
    // What other tables have under this name, or null.
    private final Function1 other;

    LakeFunction(Function1 other) { this.other = other; }

    static void install(SparkSession session) {
        install(session.sessionState().tableFunctionRegistry());
    }

    // A session begins with a copy of the built-in functions.
    static void installForNewSessions() { install((TableFunctionRegistry) TableFunctionRegistry$.MODULE$.builtin()); }

    private static synchronized void install(TableFunctionRegistry functions) {
        if (find(functions, true) == null) {
            functions.createOrReplaceTempFunction(NAME, new LakeFunction(find(functions, false)), "built-in");
        }
    }

    // The function of a lake, or another one, that has the name; or null.
    private static Function1 find(TableFunctionRegistry functions, boolean ofLake) {
        for (Iterator each = functions.listFunction().iterator(); each.hasNext();) {
            FunctionIdentifier name = (FunctionIdentifier) each.next();
            if (!name.funcName().equals(NAME)) continue;
            Function1 function = (Function1) functions.lookupFunctionBuilder(name).get();
            if (function instanceof LakeFunction == ofLake) return function;
        }
        return null;
    }

    public Object apply(Object arguments) {
        Seq all = (Seq) arguments;
        ArrayList values = new ArrayList();
        for (int at = 0; at < all.size(); at++) values.add(value((Expression) all.apply(at)));
        boolean named = values.size() > 0 && values.get(0) instanceof String;
        SparkSession session = SparkSession.active();
        LakeName name = named ? new LakeName(session, (String) values.get(0), null) : null;
        if (name == null || !(name.catalog instanceof LakeCatalog)) {
            // One that the session has defined later.
            Function1 later = find(session.sessionState().tableFunctionRegistry(), false);
            if (later != null || other != null) return (later != null ? later : other).apply(arguments);
        }
        if (values.size() < 2 || values.size() > 3) {
            throw LakeServer.raised("LakeconfError: table_changes has two or three arguments" + USAGE);
        }
        if (name == null) throw LakeServer.raised("LakeconfError: the name of the table is not a string" + USAGE);
        if (!(name.catalog instanceof LakeCatalog)) {
            throw LakeServer.raised("LakeconfError: " + values.get(0) + " is not a table of a lake" + USAGE);
        }
        LakeCatalog lake = (LakeCatalog) name.catalog;
        Identifier table = name.identifier(lake);
        HashMap request = new HashMap();
        request.put("schema", table.namespace()[0]);
        request.put("name", table.name());
        request.put("range", values.subList(1, values.size()));
        return ((Dataset) lake.answer("changes", request)).queryExecution().analyzed();
    }

    // A constant: a text, a number, or the microseconds of a time in a map.
    private static Object value(Expression expression) {
        if (!expression.resolved() || !expression.foldable()) {
            throw LakeServer.raised("LakeconfError: " + expression.sql() + " is not a constant" + USAGE);
        }
        Object value = expression.eval(null);
        if (value == null || expression.dataType() instanceof IntegralType) return value;
        if (value instanceof UTF8String) return value.toString();
        if (!(expression.dataType() instanceof TimestampType)) {
            throw LakeServer.raised("LakeconfError: " + expression.sql() + " is not a snapshot or a time" + USAGE);
        }
        HashMap moment = new HashMap();
        moment.put("micros", value);
        return moment;
    }
}
