package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

// Spark creates it when an application starts, if its settings name it: so the first statement of a session can be the
// table function, before any query names a lake.
public class LakeExtensions extends AbstractFunction1 {
    public Object apply(Object extensions) {
        LakeFunction.installForNewSessions();
        ((SparkSessionExtensions) extensions).injectParser(new LakeParser.Injected());
        return BoxedUnit.UNIT;
    }
}
