"""The storage of a lake for writes on Spark: executors write files, the driver lists and removes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeconf.connection.connection import Connection
from lakeconf.connection.errors import refused_value
from lakeconf.engines.base import StagingRequest
from lakeconf.engines.schema_check import not_null_violation
from lakeconf.engines.spark.hadoop import catalog_uri, spark_uri
from lakeconf.engines.spark.internals import remove_file, row_width
from lakeconf.engines.spark.jobs import run_job
from lakeconf.engines.spark.read.codecs import missing_codec
from lakeconf.engines.spark.write.parquet_options import parquet_options
from lakeconf.engines.spark.write.reported_files import write_reported
from lakeconf.engines.staging import staging_folder
from lakeconf.errors import SchemaError, SparkError, StorageError

# Prefix of the error message that a job raises for a NULL in a NOT NULL column.
NULL_FOUND = "LAKECONF_NOT_NULL"


@dataclass(frozen=True)
class LakeStorage:
    """The location of the files of a lake, and the session and connection with access to them.

    Attributes:
        spark: The user's session.
        writer: The connection that commits; it reads footers and the lake's options.
        location: The lake's data path, as stored in the catalog.
    """

    spark: SparkSession
    writer: Connection
    location: str

    def write(
        self, frame: DataFrame, request: StagingRequest, by: Sequence[str] = (), *, temporary: bool = False
    ) -> list[str]:
        """Writes a frame to the staging folder of a request.

        Args:
            frame: A frame of a session with the settings of the writer.
            request: The table and the token, which name the folder.
            by: Columns that no file contains; each file has rows with the same values of them.
            temporary: True if the files are read once and then removed, so that writing fast is worth more than space.

        Returns:
            The Parquet files, as the catalog writes their paths.

        Raises:
            UnsupportedError: The lake's files are encrypted, or Spark does not support their compression.
        """
        folder = staging_folder(request.table, request.token)
        options = parquet_options(self.writer, request.table, row_width(frame))
        if temporary:
            options |= {"compression": "snappy", "maxRecordsPerFile": "0"}
        written: list[str] = []
        job = partial(write_reported, frame, spark_uri(folder), options, by)
        run_job(self.spark, lambda: written.extend(job()), request.token)
        return [catalog_uri(path, self.location) for path in written]

    @contextlib.contextmanager
    def removed_after_errors(self, request: StagingRequest) -> Iterator[None]:
        """Removes the staging folder of a request if the block raises.

        Raises:
            SchemaError: A NOT NULL column has a NULL, or a type would change a value.
            SparkError: The job failed.
            StorageError: The job could not write the files.
            UnsupportedError: Spark lacks the codec of a file.
        """
        try:
            yield
        except BaseException as error:
            remove_folder(self.spark, staging_folder(request.table, request.token))
            raise translated(error) from error


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Removes a folder of staged files or a manifest, if it exists."""
    remove_file(spark, spark_uri(folder))


def translated(error: BaseException) -> BaseException:
    """Converts Spark's error in a write to an error of lakeconf; other errors are returned unchanged."""
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return error
    unread = missing_codec(error)
    if unread is not None:
        return unread
    text = str(error)
    if NULL_FOUND in text:
        found = text.partition(NULL_FOUND)[2].splitlines()[0].strip()
        return SchemaError(found, hint=not_null_violation("", "").hint)
    refused = refused_value(text)
    if refused is not None:
        return refused
    if "No space left" in text or "AccessDenied" in text or "Permission denied" in text or "Mkdirs failed" in text:
        return StorageError(f"Spark cannot write the files: {text.splitlines()[0]}")
    return SparkError(f"the Spark job that writes the rows failed: {_reason(text)}")


def _reason(text: str) -> str:
    """The relevant line of Spark's message: for Python code of the user, the end of its traceback."""
    first, _, traceback = text.partition("Traceback (most recent call last):\n")
    ends = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return (ends or first.splitlines())[0]
