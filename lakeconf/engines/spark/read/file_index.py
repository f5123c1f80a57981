"""A list of files that does not change after a scan is planned.

`REFRESH TABLE`, `spark.catalog.refreshByPath` and writes by others make Spark list the files of a relation again. It
then drops missing files without an error, and takes over new times and sizes. A scan reads the files of one snapshot,
which never change. So its relations get a list that ignores such requests: a missing file fails the job.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

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
# The constructor of the compiled class, for the JVM that the process last used.
_compiled: list[tuple[Any, Any]] = []


def with_fixed_files(private: SparkSession, frame: DataFrame) -> DataFrame:
    """The same relation over a list of files that is never refreshed.

    Args:
        private: The session of the scan.
        frame: A frame that is nothing but a relation over files.
    """
    relation: Any = frame._jdf.queryExecution().analyzed().relation()  # noqa: SLF001
    arguments = private.sparkContext._gateway.new_array(private._jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    arguments[0] = relation.location()
    fixed = relation.copy(
        _constructor(private).newInstance(arguments),
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        relation.sparkSession(),
    )
    return DataFrame(private._jsparkSession.baseRelationToDataFrame(fixed), private)  # noqa: SLF001


def _constructor(private: SparkSession) -> Any:
    jvm: Any = private._jvm  # noqa: SLF001
    for known, constructor in _compiled:
        if known is jvm:
            return constructor
    # Spark ships this compiler for the code that it generates.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(private._jsparkSession.getClass().getClassLoader())  # noqa: SLF001
    compiler.cook(_SOURCE)
    constructor = compiler.getClassLoader().loadClass(_NAME).getConstructors()[0]
    _compiled[:] = [(jvm, constructor)]
    return constructor
