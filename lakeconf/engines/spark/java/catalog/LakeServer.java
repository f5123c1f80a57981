package org.apache.spark.sql.connector.catalog;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.unsafe.Platform;
import py4j.Py4JException;
import scala.Option;

// The Python objects that answer for catalogs, by id. A request is a password, the name of a method and JSON, and perhaps
// a frame; an answer is JSON, or a frame.
public class LakeServer {
    private static final ConcurrentHashMap SERVERS = new ConcurrentHashMap();
    private static final ObjectMapper JSON = new ObjectMapper();

    // A frame asks the lake that had the name of its catalog when the frame was made.
    public static void register(String id, Object server, String password) {
        SERVERS.put(id, new Object[] {server, password});
    }

    // The id of the lake of a catalog; empty if there is none.
    static String attached(String catalog, SparkSession session) {
        String id = session.sessionState().conf().getConfString("spark.sql.catalog." + catalog + ".lake", "");
        try {
            return id.isEmpty() ? LakeProcess.lake(catalog, session) : id;
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    static Map ask(String id, String method, Map values, Object frame) {
        return (Map) answer(id, method, values, frame);
    }

    // A frame, or a map of the values of JSON.
    static Object answer(String id, String method, Map values, Object frame) {
        Object[] server = (Object[]) SERVERS.get(id);
        if (server == null) throw raised("lakeconf: the lake was not attached to this Spark application; call "
            + "store.attach(spark)");
        try {
            Object answer = ((BiFunction) server[0]).apply(server[1] + "\0" + method + "\0" + JSON.writeValueAsString(values), frame);
            if (!(answer instanceof String)) return answer;
            Map read = (Map) JSON.readValue((String) answer, Map.class);
            if (read.get("error") != null) throw raised((String) read.get("error"));
            return read;
        } catch (Py4JException error) {
            if (String.valueOf(error.getMessage()).startsWith("An exception was raised by")) throw error;
            throw raised("SparkError: the Python process of the lake has ended; what the statement writes may be committed"
                + "\n  hint: look at the snapshots, and repeat the statement if it is not");
        } catch (Exception error) {
            Platform.throwException(error);
            return null;
        }
    }

    // Raises an error of analysis, which PySpark shows without a stack trace.
    static RuntimeException raised(String message) {
        scala.collection.immutable.Map none = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        Option empty = Option.empty();
        Platform.throwException(new Failure(message, empty, none));
        return null;
    }

    static class Failure extends AnalysisException {
        Failure(String message, Option empty, scala.collection.immutable.Map none) {
            super(message, empty, empty, empty, empty, none, new QueryContext[0]);
        }

        // PySpark cannot show an error that has a position and no class.
        public AnalysisException withPosition(Origin origin) { return this; }
    }
}
