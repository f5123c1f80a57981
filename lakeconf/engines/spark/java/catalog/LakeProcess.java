package org.apache.spark.sql.connector.catalog;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.unsafe.Platform;

// The Python process that answers for a catalog, in an application that has the JAR file of lakeconf and its settings.
public class LakeProcess {
    private static final HashMap STARTED = new HashMap();
    private static SparkSession starting;
    private final SparkContext context;
    private final Process process;
    private String lake;

    private LakeProcess(SparkContext context, Process process) {
        this.context = context;
        this.process = process;
    }

    // The session of the process that is starting.
    public static SparkSession session() { return starting; }

    // The id of the lake of a catalog, whose process is started unless it is running.
    static String lake(String catalog, SparkSession session) throws Exception {
        SparkContext context = session.sparkContext();
        String prefix = "spark.sql.catalog." + catalog + ".";
        // No client of a server can set those of the application.
        SparkConf settings = context.conf();
        if (!settings.contains(prefix + "store")) return "";
        synchronized (STARTED) {
            String key = context.applicationId() + "\0" + catalog;
            LakeProcess running = (LakeProcess) STARTED.get(key);
            if (running != null && running.process.isAlive()) return running.lake;
            for (Iterator each = STARTED.values().iterator(); each.hasNext();) {
                LakeProcess other = (LakeProcess) each.next();
                if (!other.context.isStopped() && other.process.isAlive()) continue;
                other.process.destroy();
                each.remove();
            }
            starting = session.newSession();
            try {
                LakeProcess started = new LakeProcess(context, start(settings, new String[] {
                    settings.get(prefix + "python", python(settings)), "-m", "pyspark_lakeconf.named_process", catalog,
                    settings.get(prefix + "store"), settings.get(prefix + "config", ""), digest()}));
                started.lake = started.answered();
                STARTED.put(key, started);
                return started.lake;
            } finally {
                starting = null;
            }
        }
    }

    private static Process start(SparkConf settings, String[] command) throws Exception {
        Py4JServer gateway = new Py4JServer(settings);
        gateway.start();
        ProcessBuilder builder = new ProcessBuilder(command);
        Map environment = builder.environment();
        environment.put("PYSPARK_GATEWAY_PORT", String.valueOf(gateway.getListeningPort()));
        environment.put("PYSPARK_GATEWAY_SECRET", gateway.secret());
        String more = (String) environment.get("PYTHONPATH");
        environment.put("PYTHONPATH", PythonUtils.sparkPythonPath() + (more == null ? "" : java.io.File.pathSeparator + more));
        if (settings.contains("spark.pyspark.python")) environment.put("PYSPARK_PYTHON", settings.get("spark.pyspark.python"));
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        return builder.start();
    }

    // As spark-submit chooses it.
    private static String python(SparkConf settings) {
        String[] names = {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"};
        String python = settings.get("spark.pyspark.driver.python", settings.get("spark.pyspark.python", null));
        for (int at = 0; python == null && at < names.length; at++) python = System.getenv(names[at]);
        return python == null ? "python3" : python;
    }

    // The first line that the process writes: an id, or an error.
    private String answered() throws Exception {
        String line = new BufferedReader(new InputStreamReader(process.getInputStream(), "UTF-8")).readLine();
        if (line != null && line.startsWith("lake ")) return line.substring("lake ".length());
        process.destroy();
        throw LakeServer.raised(line == null ? "SparkError: the Python process of lakeconf did not start"
            + "\n  hint: the log of the driver has its error" : line.replace('\0', '\n'));
    }

    // What the JAR file was made from; empty if these classes are not from one.
    public static String digest() throws Exception {
        InputStream stream = LakeProcess.class.getResourceAsStream("/lakeconf-digest");
        return stream == null ? "" : new String(stream.readAllBytes(), "UTF-8");
    }
}
