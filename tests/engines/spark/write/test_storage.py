"""Errors of Spark in a write become errors of lakeconf; refused texts; files of positions and staged rows."""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

import ended_session
import narwhals as nw
import pytest
from jvm_calls import jvm_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from spark_rows import access_to

from lakeconf.catalog.tables import load_table
from lakeconf.connection.duckdb_errors import REFUSED_VALUE
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, StagingRequest
from lakeconf.engines.lossless import placeholder_message
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.engines.spark.write.storage import LakeStorage, remove_folder, run_job
from lakeconf.engines.spark.write.written_values import NULL_FOUND, without_placeholders
from lakeconf.errors import LakeconfError, SchemaError, SparkError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def storage(spark: SparkSession, inlining_lake: AttachedLake) -> Iterator[LakeStorage]:
    inlining_lake.run('CREATE SCHEMA lake."s%20 x"', 'CREATE TABLE lake."s%20 x".t (id BIGINT)')
    with inlining_lake.connection.cursor() as writer:
        writer.execute("USE lake")
        yield LakeStorage(spark, writer, inlining_lake.reader.data_path)


@pytest.fixture
def request_(inlining_lake: AttachedLake, storage: LakeStorage) -> StagingRequest:
    return StagingRequest(
        load_table(inlining_lake.reader, '"s%20 x".t', inlining_lake.newest), {"id": "BIGINT"}, "0a1b"
    )


def folder_of(request: StagingRequest) -> str:
    return f"{request.table.path}lakeconf-0a1b/"


def test_files_are_written_to_the_staging_folder(
    spark: SparkSession, storage: LakeStorage, request_: StagingRequest
) -> None:
    files = list(storage.write(spark.range(0, 10, 1, 2), request_))
    assert len(files) == 2
    assert all(file.startswith(folder_of(request_)) and file.endswith(".zstd.parquet") for file in files)
    assert storage.writer.rows("SELECT count(*), sum(id) FROM read_parquet(?)", [files]) == [(10, 45)]
    # No cleanup would find the other files after a kill.
    assert sorted(map(str, Path(folder_of(request_)).rglob("*.*"))) == sorted(files)
    with pytest.raises(Py4JJavaError, match="the staging folder exists"):
        storage.write(spark.range(1), request_)
    remove_folder(spark, folder_of(request_))
    with pytest.raises(Exception, match="No files found"):
        storage.writer.rows("SELECT count(*) FROM read_parquet(?)", [files])
    remove_folder(spark, folder_of(request_))


def raised(storage: LakeStorage, request: StagingRequest, error: BaseException) -> Any:
    """The error that the caller sees."""
    with pytest.raises(Exception) as found, storage.removed_after_errors(request):  # noqa: PT011
        raise error
    return found.value


FAILED = "the Spark job that writes the rows failed: "
TRACEBACK = "Traceback (most recent call last):\n  File x\n    raise\n\nValueError: of the user\n"
TRANSLATED: list[tuple[str, type[LakeconfError], str]] = [
    (f"[X] {NULL_FOUND} the column 'a' is NOT NULL \nat x.y", SchemaError, "the column 'a' is NOT NULL"),
    (f"[X] {REFUSED_VALUE} the column 'a' has y\nat x.y", SchemaError, "the column 'a' has y"),
    ("Class org.apache.hadoop.io.compress.BrotliCodec was not found", UnsupportedError, "Spark cannot read a file"),
    ("[BROKEN] the reason\nat x.y", SparkError, f"{FAILED}[BROKEN] the reason"),
    (f"[BROKEN] job aborted\n{TRACEBACK}", SparkError, f"{FAILED}ValueError: of the user"),
    *(
        (f"[X] {reason} to create /x\nat x.y", StorageError, f"Spark cannot write the files: [X] {reason} to create /x")
        for reason in ("No space left on device", "AccessDenied", "Permission denied", "Mkdirs failed")
    ),
]


def test_errors_of_spark_are_translated(storage: LakeStorage, request_: StagingRequest) -> None:
    for text, kind, message in TRANSLATED:
        found = raised(storage, request_, PySparkException(text))
        assert (type(found), found.message.partition(", such")[0][: len(message)]) == (kind, message)
        assert "at x.y" not in found.message
    error = ValueError("No space left")
    assert raised(storage, request_, error) is error


def test_errors_of_java_name_their_reason(spark: SparkSession, storage: LakeStorage, request_: StagingRequest) -> None:
    jvm: Any = jvm_of(spark)
    with pytest.raises(SparkError) as found, storage.removed_after_errors(request_):
        jvm.java.lang.Class.forName("no.Such")
    reason = "java.lang.ClassNotFoundException: no.Such"
    assert found.value.message == f"the Spark job that writes the rows failed: {reason}"
    with pytest.raises(StorageError) as of_storage, storage.removed_after_errors(request_):
        jvm.java.lang.Class.forName("AccessDenied")
    reason = "java.lang.ClassNotFoundException: AccessDenied"
    assert of_storage.value.message == f"Spark cannot write the files: {reason}"


def test_another_interrupt_does_not_leave_a_job_that_writes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, ended = threading.Event(), threading.Event()
    calls: list[str] = []

    def action() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert cancelled.wait(60)
        ended.set()

    def cancel(tag: str) -> None:
        calls.append(tag)
        if len(calls) == 1:
            raise KeyboardInterrupt
        cancelled.set()

    monkeypatch.setattr(spark.sparkContext, "cancelJobsWithTag", cancel)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_job(spark, action, "tag")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()
    assert len(calls) >= 2


def ended(when: str, folder: Path) -> list[str]:
    """What the operations of a lake print if its session ends."""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, ended_session.__file__, when, str(folder)]
    return run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


ENDED = "SparkError|the Spark session has ended|start another one, and open the lake with it: store.open(spark)"


@pytest.mark.slow
def test_a_session_that_ends_during_a_write_is_named(tmp_path: Path) -> None:
    assert ended("during-a-write", tmp_path) == [f"merge|{ENDED}"]
    left = [path.name[-8:] for path in tmp_path.rglob("lakeconf-*") if path.is_file()]
    assert left == [".parquet"], "a manifest"


@pytest.mark.slow
@pytest.mark.prove("killed")
@pytest.mark.parametrize("when", ["stopped", "killed"])
def test_each_operation_names_a_session_that_has_ended(tmp_path: Path, when: str) -> None:
    *shown, rows = ended(when, tmp_path)
    assert len(shown) == 14
    assert [line for line in shown if not line.endswith(f"|{ENDED}")] == []
    assert rows == "rows|returned [(1,)]", "DuckDB reads and nothing was written"


# Spark SQL of values; the text is in the place of {}.
VALUES = [
    *("'{}'", "CAST('{}' AS BINARY)", "array(NULL, '{}')", "array(array('{}'), NULL)"),
    *("named_struct('n', 1, 'b', '{}')", "named_struct('b', '{}', 'c', CAST(NULL AS STRING))"),
    *("named_struct('a', CAST(NULL AS STRING), 'c', array('{}'))", "map('{}', 1)", "map(1, '{}')"),
    "map('k', named_struct('b', array('{}')))",
]
HARMLESS = ["{b}", "{SNAPSHOT_ID", "SNAPSHOT_ID}", "{snapshot_id}", ""]


def checked(frame: DataFrame) -> DataFrame:
    (field,) = frame.schema.fields
    return frame.select(without_placeholders(F.col("x"), field.dataType, "it's").alias("x"))


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_only_text_that_ducklake_would_replace_fails_the_job(spark: SparkSession, value: str) -> None:
    with pytest.raises(Exception, match="LAKECONF_REFUSED") as failed:
        checked(spark.range(1).selectExpr(f"{value.format('a{SNAPSHOT_ID}')} AS x")).collect()
    assert placeholder_message("it's") in str(failed.value)
    kept = " UNION ALL ".join(f"SELECT {value.format(text)} AS x" for text in HARMLESS)
    given = spark.sql(f"SELECT {value.format('')} AS x WHERE false UNION ALL {kept} UNION ALL SELECT NULL")
    found = checked(given)
    assert found.schema["x"].dataType == given.schema["x"].dataType
    assert found.collect() == given.collect()


SETTINGS = {
    "spark.sql.files.maxRecordsPerFile": "2",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.caseSensitive": "false",
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["default", "other settings"])
def test_positions_are_sorted_in_one_file_for_each_data_file(
    spark: SparkSession, inlining_lake: AttachedLake, settings: dict[str, str]
) -> None:
    inlining_lake.run("CREATE TABLE lake.t (a BIGINT)")
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    with inlining_lake.connection.cursor() as writer:
        writer.execute("USE lake")
        engine = SparkEngine(session, inlining_lake.reader, writer, {}, access_to(inlining_lake))
        info = load_table(inlining_lake.reader, "t", inlining_lake.newest)
        rows = session.range(0, 3000, 1, 4).selectExpr(
            f"CASE WHEN id % 10 < 9 THEN id % 10 END AS {FILE_ID}",
            f"(id * 7919) % 3000 AS {FILE_ROW_NUMBER}",
            "id % 10 = 8 AS kept",
        )
        rows = rows.where(f"{FILE_ID} IS NOT NULL AND NOT kept").drop("kept")
        found = engine.sort_positions(nw.from_native(rows), StagingRequest(info, {}, "a2"))
        assert sorted(found.paths) == list(range(8))
        for number, path in found.paths.items():
            expected = sorted((id_ * 7919) % 3000 for id_ in range(number, 3000, 10))
            assert inlining_lake.rows(f"FROM read_parquet('{path}', hive_partitioning = false)") == [
                (one,) for one in expected
            ]
        assert set(found.paths.values()) == set(found.staged.files)
        engine.release(found.staged)
    assert [path.name for path in (inlining_lake.folder / "data").rglob("*.parquet")] == []


TYPES = {"action": "INTEGER", "a.b": "VARCHAR", "n": "VARCHAR"}


def request_of(lake: AttachedLake, token: str = "0a1b") -> StagingRequest:
    return StagingRequest(load_table(lake.reader, "t", lake.newest), TYPES, token)


@pytest.mark.slow
@pytest.mark.parametrize("is_late", [False, True])
def test_a_lost_staged_file_fails_the_write(spark: SparkSession, file_lake: AttachedLake, *, is_late: bool) -> None:
    """Spark would list the files itself, and leave out those that are missing."""
    file_lake.run("CREATE TABLE lake.t (action INTEGER)")
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    frame = session.range(0, 8, 1, 4).selectExpr("CAST(id AS INT) AS action", "'x' AS `a.b`", "'y' AS n")
    request = StagingRequest(load_table(file_lake.reader, "t", file_lake.newest), {"action": "INTEGER"}, "0c")
    with file_lake.connection.cursor() as writer:
        writer.execute("USE lake")
        engine = SparkEngine(session, file_lake.reader, writer, {}, access_to(file_lake))
        staged = engine.stage_rows(frame, request_of(file_lake))
        rows = engine.staged_rows(staged, ["action"])
        if is_late:
            assert rows.count() == 8
        Path(staged.files[1]).unlink()
        with pytest.raises(StorageError, match=r"a file that the write needs: .*(is missing|does not exist)\n") as lost:
            engine.stage_rows(rows, request)
        assert lost.value.hint == "write again; if this fails again, find out what removed the file"
        with pytest.raises(StorageError, match="a file that the write needs"):
            engine.stage_part(staged, "action > 1", replace(request, token="0d"))
    assert [path.name for path in file_lake.folder.rglob("lakeconf-0[cd]*")] == []
