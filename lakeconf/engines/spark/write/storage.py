"""Writes a frame to files that are named by the tasks that wrote them.

Spark's usual protocols write to a temporary folder and rename each file once or twice. In a bucket, a rename is a copy.
The protocol of Spark's streaming sink renames nothing: each attempt of a task creates files with names of its own in
their final place, and reports them when it ends. The driver takes the report of one attempt for each task. Files of
failed and of speculative attempts are in no report, whenever they appear.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeconf.connection.connection import Connection
from lakeconf.connection.duckdb_errors import has_expired, refused_value
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.file_names import staging_folder
from lakeconf.engines.schema_check import not_null_violation
from lakeconf.engines.spark.hadoop import catalog_uri, spark_uri
from lakeconf.engines.spark.internals import (
    error_texts,
    lost_file,
    remove_file,
    row_width,
    setting_names,
    written_files,
)
from lakeconf.engines.spark.read.file_index import WITHOUT_CHECKSUMS
from lakeconf.engines.spark.spark_types import first_line
from lakeconf.engines.spark.write.parquet_options import bounds_options, parquet_options
from lakeconf.engines.spark.write.written_values import NULL_FOUND
from lakeconf.errors import SchemaError, SparkError, StorageError, UnsupportedError
from lakeconf.logs import event_logger

_log = event_logger("stage")
_EVERY_SECONDS = 0.1
# Parquet names the missing class of a codec. Spark has no class for Brotli.
_MISSING = re.compile(r"org\.apache\.hadoop\.io\.compress\.(\w+)Codec (was )?not found")
# S3's answer to HEAD, the first request of a read, has no code that tells why.
_BAD_REQUEST = "AWSBadRequestException"
# Spark names the file that a task was reading.
_FILE = re.compile(r"error while reading file (\S+\.parquet)")


def run_job(spark: SparkSession, action: Callable[[], object], tag: str) -> None:
    """Runs an action of Spark and waits for it. If the wait is interrupted, cancels its jobs before it raises.

    The action runs in its own thread. Otherwise, an exception that a signal raises (Ctrl-C, a timeout) would interrupt
    py4j during a call, and the job would continue.
    """
    context = spark.sparkContext
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            context.addJobTag(tag)
            action()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failures.append(error)
        finally:
            ended.set()

    InheritableThread(target=run, name=f"lakeconf-{tag}", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        _log.warning("interrupted: cancelling the Spark jobs of the write %s", tag)
        _cancel(spark, tag, ended)
        raise
    if failures:
        raise failures[0]


def _cancel(spark: SparkSession, tag: str, ended: threading.Event) -> None:
    """Cancels jobs, also after another Ctrl-C, until the action has ended: else jobs would outlive their folder."""
    while not ended.is_set():
        with contextlib.suppress(PySparkException, Py4JError, KeyboardInterrupt):
            ended.wait(_EVERY_SECONDS)
            spark.sparkContext.cancelJobsWithTag(tag)


def missing_codec(error: BaseException) -> UnsupportedError | None:
    """Finds out whether a job failed because Spark lacks the codec of a file."""
    texts = error_texts(error)
    codec = next(filter(None, map(_MISSING.search, texts)), None)
    if codec is None:
        return None
    file = next(filter(None, map(_FILE.search, texts)), None)
    name = "a file" if file is None else f"the file {file[1]}"
    return UnsupportedError(
        f"Spark cannot read {name}: it is compressed with {codec[1].upper()}, and Spark has no such codec",
        hint="read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and "
        "write the table again",
    )


@dataclass(frozen=True)
class LakeStorage:
    """The location of the files of a lake, and the session and connection with access to them."""

    spark: SparkSession  # the user's session
    writer: Connection  # the connection that commits; it reads footers and the lake's options
    location: str  # the lake's data path, as stored in the catalog

    def write(
        self, frame: DataFrame, request: StagingRequest, by: Sequence[str] = (), *, temporary: bool = False
    ) -> dict[str, int]:
        """Writes a frame to the staging folder of a request; returns its files and their sizes."""
        folder = staging_folder(request.table, request.token)
        options = parquet_options(self.writer, request.table, row_width(frame))
        options |= bounds_options(setting_names(frame.sparkSession))
        if "://" not in folder:
            options |= WITHOUT_CHECKSUMS
        if temporary:
            options |= {"compression": "snappy", "maxRecordsPerFile": "0"}
        written: dict[str, int] = {}
        job = partial(written_files, frame, spark_uri(folder), options, by)
        run_job(self.spark, lambda: written.update(job()), request.token)
        return {catalog_uri(path, self.location): size for path, size in written.items()}

    @contextlib.contextmanager
    def removed_after_errors(self, request: StagingRequest) -> Iterator[None]:
        """Removes the staging folder of a request if the block raises."""
        try:
            yield
        except BaseException as error:
            # The files are also those of a manifest, with which maintenance finds them.
            with contextlib.suppress(Exception):
                remove_folder(self.spark, staging_folder(request.table, request.token))
            raise translated(error) from error


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Removes a folder of staged files or a manifest, if it exists."""
    remove_file(spark, spark_uri(folder))


def ended_session() -> SparkError:
    """The error for a session that was stopped, or whose JVM has ended."""
    hint = "start another one, and open the lake with it: store.open(spark)"
    return SparkError("the Spark session has ended", hint=hint)


def translated(error: BaseException) -> BaseException:
    """Converts Spark's error in a write to an error of lakeconf; other errors are returned unchanged."""
    is_of_python = isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    if isinstance(error, ConnectionError) or (is_of_python and "Trace:" not in str(error)):
        return ended_session()
    if not isinstance(error, (PySparkException, Py4JError)):
        return error
    unread = missing_codec(error)
    if unread is not None:
        return unread
    text = str(error)
    if NULL_FOUND in text:
        message = text.partition(NULL_FOUND)[2].splitlines()[0].strip()
        return SchemaError(message, hint=not_null_violation("", "").hint)
    refused = refused_value(text)
    if refused is not None:
        return refused
    if has_expired(text):
        return _expired("write", error)
    if "No space left" in text or "AccessDenied" in text or "Permission denied" in text or "Mkdirs failed" in text:
        return StorageError(f"Spark cannot write the files: {first_line(error)}")
    lost = lost_file(error)
    if lost is not None:
        lost = lost.splitlines()[0].removeprefix("lakeconf: ").removesuffix(", but the catalog lists it")
        hint = "write again; if this fails again, find out what removed the file"
        return StorageError(f"Spark cannot read a file that the write needs: {lost}", hint=hint)
    return SparkError(f"the Spark job that writes the rows failed: {_reason(error)}")


@contextlib.contextmanager
def expired_credentials_named() -> Iterator[None]:
    """Names the error of a read whose credentials have expired."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if not (has_expired(str(error)) or _BAD_REQUEST in str(error)):
            raise
        raise _expired("read", error) from error


def _expired(verb: str, error: Exception) -> StorageError:
    hint = "renew the credentials, which have expired, and open the lake again"
    return StorageError(f"Spark cannot {verb} the files: {first_line(error)}", hint=hint)


def _reason(error: Exception) -> str:
    """The relevant line of Spark's message: for Python code of the user, the end of its traceback."""
    traceback = str(error).partition("Traceback (most recent call last):\n")[2]
    ends = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return ends[0] if ends else first_line(error)
