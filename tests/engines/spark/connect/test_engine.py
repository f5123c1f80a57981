"""A lake that is opened with a session of Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from doc_pages import blocks
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import lakeconf
from lakeconf.errors import SparkError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def lake(connect: SparkSession, store: lakeconf.Store) -> Iterator[lakeconf.Lake]:
    with store.open(connect) as lake:
        lake.create_table("t", {"id": "BIGINT", "name": "VARCHAR", "at": "TIMESTAMP"})
        yield lake


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in frame.collect("pyarrow").to_native().to_pylist())


def ids(frame: Any) -> list[int]:
    return [row[0] for row in rows(frame)]


def test_scan_is_a_frame_of_the_session(lake: lakeconf.Lake, connect: SparkSession) -> None:
    table = lake.table("t")
    table.append(pl.DataFrame({"id": range(20), "name": ["a", "b"] * 10, "at": [None] * 20}))
    native = table.scan().to_native()
    assert isinstance(native, DataFrame)
    assert native.sparkSession is connect
    joined = native.join(connect.range(5, 9), "id").where(F.col("name") == "a")
    assert sorted(row.id for row in joined.collect()) == [6, 8]
    assert ids(table.scan(columns=["ID"], where="name = 'b' and id > 10")) == [11, 13, 15, 17, 19]
    assert "spark-connect" in repr(lake)


@pytest.mark.slow
def test_frames_of_the_session_are_written(lake: lakeconf.Lake, connect: SparkSession) -> None:
    table = lake.table("t")
    first = lake.snapshot_id
    table.append(connect.sql("SELECT id, 'x' AS name, TIMESTAMP_NTZ '2024-03-10 02:30:00' AS at FROM range(20)"))
    assert str(rows(table.scan(where="id = 3"))) == "[(3, 'x', datetime.datetime(2024, 3, 10, 2, 30))]"
    table.merge(connect.sql("SELECT id, 'y' AS name, NULL AS at FROM range(19, 22)"), on="id")
    table.delete("id < 18")
    table.update({"name": "z"}, where="id = 21")
    assert rows(table.scan(columns=["id", "name"])) == [(18, "x"), (19, "y"), (20, "y"), (21, "z")]
    assert ids(lake.at(version=first + 1).table("t").scan()) == list(range(20))
    table.overwrite(connect.sql("SELECT 70L AS id, 'o' AS name, NULL AS at"), where="id > 19")
    assert ids(table.scan(columns=["id"])) == [18, 19, 70]
    changed = [row["change_type"] for row in table.changes(lake.snapshot_id).to_native().collect()]
    assert sorted(changed) == ["delete", "delete", "insert"]


@pytest.fixture
def other(connect_url: str, connect: SparkSession) -> SparkSession:
    """Another session of the server."""
    from pyspark.sql import SparkSession  # slow; only for tests that need Spark

    return SparkSession.builder.remote(connect_url).create()


def test_frame_of_another_session_is_rejected(lake: lakeconf.Lake, other: SparkSession) -> None:
    with pytest.raises(SparkError, match="another session of Spark Connect"):
        lake.table("t").append(other.sql("SELECT 1L AS id"))


def test_failing_frame_commits_nothing(lake: lakeconf.Lake, connect: SparkSession) -> None:
    before = lake.snapshot_id
    with pytest.raises(SparkError, match="wrong value"):
        lake.table("t").append(
            connect.sql("SELECT id, CAST(raise_error('wrong value') AS STRING) AS name, NULL AS at FROM range(3)")
        )
    assert lake.refresh() == before


def test_changes_that_spark_cannot_read_name_the_query(lake: lakeconf.Lake) -> None:
    table = lake.create_table("u", {"v": "VARIANT"})
    with pytest.raises(UnsupportedError, match="Spark cannot read the changes of u") as raised:
        table.changes(1)
    assert "lake.sql(" in str(raised.value)


@pytest.mark.slow
def test_settings_matter_only_where_spark_reads_the_files(lake: lakeconf.Lake, connect: SparkSession) -> None:
    table = lake.table("t")
    table.append(pl.DataFrame({"id": range(20), "name": [None] * 20, "at": [None] * 20}))
    connect.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    with pytest.raises(UnsupportedError, match=r"spark\.sql\.parquet\.enableVectorizedReader = false"):
        table.scan()
    assert table.changes(1).to_native().count() == 20
    table.delete("id = 3")
    assert table.scan().to_native().count() == 19


def test_operations_that_need_a_classic_session_are_refused(lake: lakeconf.Lake) -> None:
    with pytest.raises(UnsupportedError, match="with one of Spark Connect") as refused:
        lake.stream("t")
    assert "createOrReplaceTempView" in str(refused.value.hint)
    with pytest.raises(UnsupportedError, match="with one of Spark Connect"):
        lake.stream_sink("t")


def test_mode_of_classic_sessions_is_refused(
    connect: SparkSession, store: lakeconf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    with pytest.raises(SparkError, match="in the mode for classic sessions"):
        store.open(connect)


def test_engine_that_replaces_the_reader_is_refused(
    connect: SparkSession, store: lakeconf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect.conf.set("spark.databricks.photon.enabled", "true")
    with pytest.raises(UnsupportedError, match="Photon"):
        store.open(connect)


def test_spark_writes_the_files_of_an_append(
    lake: lakeconf.Lake, connect: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row passes through this process."""
    table = lake.table("t")
    monkeypatch.setattr(DataFrame, "toArrow", None)
    table.append(connect.range(0, 1000, 1, 3).selectExpr("id", "CAST(id AS STRING) AS name", "NULL AS at"))
    found = [file.path for file in table.files()]
    assert len(found) == 3
    assert all(Path(path).exists() for path in found)


def test_errors_of_a_frame_and_of_its_session_are_named(other: SparkSession, store: lakeconf.Store) -> None:
    with store.open(other) as lake:
        table = lake.create_table("t", {"id": "BIGINT"})
        version = lake.snapshot_id
        with pytest.raises(SparkError, match=r"cannot describe the frame: .*UNRESOLVED_COLUMN.*`nope`"):
            table.append(other.range(3).selectExpr("nope AS id"))
        frame = other.range(3)
        other.stop()
        for write in (table.append, table.overwrite):
            with pytest.raises(SparkError, match="the server cannot describe the frame: "):
                write(frame)
        assert lake.snapshot_id == version


@pytest.mark.slow
def test_program_of_the_page_runs(
    connect: SparkSession,
    connect_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lakeconf.toml").write_text(
        '[stores.prod]\nmetadata_backend = { type = "sqlite", uri = "catalog.sqlite" }\n'
        'storage_backend = { type = "local", path = "data" }\n'
    )
    with lakeconf.init().get_store("prod").open() as lake:
        lake.create_table("raw.events", {"kind": "VARCHAR", "day": "DATE"})
        lake.execute("INSERT INTO raw.events VALUES ('view', '2026-11-02'), ('buy', '2026-10-31')")
    (program,) = blocks("spark-connect.md", "python")
    # A process that has a classic session, as that of other tests, can only create another one.
    program = program.replace("sc://spark.example.com", connect_url).replace("getOrCreate", "create")
    exec(program, {})  # noqa: S102 - that is the test
    assert re.findall(r"\|\s*(\w+)\|\s*1\|", capsys.readouterr().out) == ["view"]
    assert connect.range(1).count() == 1
