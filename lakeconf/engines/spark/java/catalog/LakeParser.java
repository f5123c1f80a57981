package org.apache.spark.sql.connector.catalog;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.internal.VariableSubstitution;
import org.apache.spark.unsafe.Platform;
import scala.runtime.AbstractFunction2;

// Sees the text of a statement before Spark parses it, where Spark replaces variables such as `${name}`: Spark has no
// other way to reach the parser of a session that has started.
public class LakeParser extends VariableSubstitution {
    private static final String FIELD = "substitutor";
    private final SparkSession session;
    private final VariableSubstitution other;

    private LakeParser(SparkSession session, VariableSubstitution other) {
        this.session = session;
        this.other = other;
    }

    public String substitute(String text) {
        return LakeStatements.translated(other.substitute(text), session);
    }

    // The parser of another extension stays as it is, with the errors of Spark.
    static ParserInterface install(SparkSession session, ParserInterface parser) {
        if (!(parser instanceof SparkSqlParser)) return parser;
        try {
            Field field = SparkSqlParser.class.getDeclaredField(FIELD);
            field.setAccessible(true);
            VariableSubstitution other = (VariableSubstitution) field.get(parser);
            if (!(other instanceof LakeParser)) field.set(parser, new LakeParser(session, other));
        } catch (Exception error) {
            Platform.throwException(error);
        }
        return parser;
    }

    // For the sessions of an application whose settings name `LakeExtensions`.
    static class Injected extends AbstractFunction2 {
        public Object apply(Object session, Object parser) {
            return install((SparkSession) session, (ParserInterface) parser);
        }
    }
}
