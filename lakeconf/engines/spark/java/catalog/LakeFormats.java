package org.apache.spark.sql.connector.catalog;

import java.lang.reflect.Field;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSourceManager;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.unsafe.Platform;
import scala.Option;

// Is asked for a format that no JAR file has: `saveAsTable` looks for it before it asks the catalog, and its error is none
// that PySpark translates.
public class LakeFormats extends DataSourceManager {
    private static final String FIELD = "dataSourceManager";
    private final DataSourceManager other;

    private LakeFormats(DataSourceManager other) { this.other = other; }

    // Spark asks the active session, which can be another one than that of the frame.
    static void install(SparkSession session) {
        installIn(session);
        Option active = SparkSession.getActiveSession();
        if (!active.isEmpty()) installIn((SparkSession) active.get());
    }

    private static void installIn(SparkSession session) {
        DataSourceManager formats = session.sessionState().dataSourceManager();
        if (formats instanceof LakeFormats) return;
        try {
            Field field = SessionState.class.getDeclaredField(FIELD);
            field.setAccessible(true);
            field.set(session.sessionState(), new LakeFormats(formats));
        } catch (Exception error) {
            Platform.throwException(error);
        }
    }

    public boolean dataSourceExists(String name) {
        if (other.dataSourceExists(name)) return true;
        if (LakeStatements.isWithin("DataFrameWriter", "saveAsTable")) {
            throw LakeServer.raised("UnsupportedError: Spark has no format '" + name + "'\n  hint: omit .format('" + name
                + "') for a table of a lake: its files are Parquet");
        }
        return false;
    }

    public void registerDataSource(String name, UserDefinedPythonDataSource source) { other.registerDataSource(name, source); }
    public UserDefinedPythonDataSource lookupDataSource(String name) { return other.lookupDataSource(name); }
    public DataSourceManager clone() { return other.clone(); }
}
