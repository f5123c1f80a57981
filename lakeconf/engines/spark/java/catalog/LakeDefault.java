package org.apache.spark.sql.connector.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.expressions.UnaryPositive;
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

// The default that a statement gives a column: DuckLake has constants.
class LakeDefault {
    // The name of a column, and the constant as its type and text. An empty SQL text and NULL are no default: a null type.
    static List described(String column, DataType type, String sql, SparkSession session) {
        Object value = null;
        if (!sql.isEmpty()) {
            if (!isConstant(parsed(sql, session))) throw refused(column, sql);
            value = ResolveDefaultColumns.analyze(column, type, sql, "ALTER TABLE").eval((InternalRow) null);
        }
        if (value == null) return Arrays.asList(new Object[] {column, null, null});
        if (value instanceof UTF8String && !UTF8String.fromString(value.toString()).equals(value)) {
            throw LakeServer.raised("UnsupportedError: the default of the column `" + column + "` is not UTF-8\n  hint: write a text");
        }
        String text = value instanceof byte[] ? HexFormat.of().formatHex((byte[]) value) : value.toString();
        return Arrays.asList(new Object[] {column, type.catalogString(), text});
    }

    private static Expression parsed(String sql, SparkSession session) {
        try {
            return session.sessionState().sqlParser().parseExpression(sql);
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    // An expression means something else at another time, or in DuckDB.
    private static boolean isConstant(Expression expression) {
        if (expression instanceof Literal) return true;
        boolean isPlain = expression instanceof Cast || expression instanceof UnaryMinus || expression instanceof UnaryPositive;
        return isPlain && isConstant((Expression) expression.children().apply(0));
    }

    private static RuntimeException refused(String column, String sql) {
        return LakeServer.raised("UnsupportedError: the default of the column `" + column + "` is an expression: " + sql
            + "\n  hint: write a constant, such as 5, 'text' or DATE '2026-01-31'");
    }

    // The defaults of the columns of a new table.
    static List described(StructType schema, SparkSession session) {
        ArrayList all = new ArrayList();
        for (int at = 0; at < schema.fields().length; at++) {
            StructField field = schema.fields()[at];
            if (field.getCurrentDefaultValue().isEmpty()) continue;
            all.add(described(field.name(), field.dataType(), (String) field.getCurrentDefaultValue().get(), session));
        }
        return all;
    }
}
