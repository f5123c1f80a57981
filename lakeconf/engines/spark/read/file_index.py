"""A list of files that does not change after a scan is planned.

`REFRESH TABLE`, `spark.catalog.refreshByPath` and writes by other programs make Spark list the files of a relation
again. It then drops missing files without an error, and uses new times and sizes. A scan reads the files of one
snapshot, which never change. Its relations therefore have a list that ignores such requests: a missing file fails the
job.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakeconf.engines.spark.internals import with_file_index

_NAME = "lakeconf.FixedFileIndex"
# Spark's own classes that implement this interface either refresh themselves or belong to another file format.
_SOURCE = """
package lakeconf;

import org.apache.spark.sql.execution.datasources.FileIndex;
import scala.collection.immutable.Seq;

public class FixedFileIndex implements FileIndex {
    private final FileIndex listed;
    public FixedFileIndex(FileIndex listed) { this.listed = listed; }
    public void refresh() { }
    public Seq rootPaths() { return listed.rootPaths(); }
    public Seq listFiles(Seq partitions, Seq filters) { return listed.listFiles(partitions, filters); }
    public String[] inputFiles() { return listed.inputFiles(); }
    public long sizeInBytes() { return listed.sizeInBytes(); }
    public org.apache.spark.sql.types.StructType partitionSchema() { return listed.partitionSchema(); }
    public scala.Option metadataOpsTimeNs() { return listed.metadataOpsTimeNs(); }
    public int hashCode() { return listed.hashCode(); }
    public String toString() { return listed.toString(); }
    public boolean equals(Object other) {
        return other instanceof FixedFileIndex && listed.equals(((FixedFileIndex) other).listed);
    }
}
"""


def with_fixed_files(frame: DataFrame) -> DataFrame:
    """The same relation over a list of files that is never refreshed.

    Args:
        frame: A frame that consists only of a relation over files.
    """
    return with_file_index(frame, _NAME, _SOURCE)
