package org.apache.spark.sql.connector.catalog;

import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

// Spark creates it when an application starts, if its settings name it: so the first statement of a session can be the
// table function, or one that Spark does not parse, before any query names a lake.
public class LakeExtensions extends AbstractFunction1 {
    private static final Map EXTENDED = new WeakHashMap();

    public Object apply(Object extensions) {
        LakeFunction.installForNewSessions();
        extend((SparkSessionExtensions) extensions);
        return BoxedUnit.UNIT;
    }

    // For the sessions that will be made from another, which may define a function with the name of ours.
    static void extend(SparkSessionExtensions extensions) {
        synchronized (EXTENDED) {
            if (EXTENDED.put(extensions, Boolean.TRUE) != null) return;
        }
        extensions.injectParser(new LakeParser.Injected());
    }
}
