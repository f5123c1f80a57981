"""Spark writes the files of appends and overwrites, and this process registers them; several and killed clients."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from killed_client import COMMITTED, KEY, POINTS, ROWS, WRITTEN, run
from lake_parts import data_path_of, session_of
from local_stores import config_of, in_bucket
from plain_sql import plain_rows
from pyspark.sql import SparkSession
from strength import PROVE, in_prove

import lakeconf
from lakeconf.engines.spark.connect import connect_engine as module
from lakeconf.engines.spark.connect.connect_engine import remove_staged
from lakeconf.errors import CommitConflictError, SchemaError, SparkError, UnsupportedError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from servers import S3Server

# Types with their values in Spark's and in DuckDB's SQL.
VALUES = {
    "BOOLEAN": ("true", "true"),
    "TINYINT": ("-5Y", "-5"),
    "DECIMAL(30,3)": ("1.500BD", "1.5"),
    "DOUBLE": ("double('nan')", "'nan'"),
    "VARCHAR": ("'ü'", "'ü'"),
    "BLOB": ("X'00FF'", "'\\x00\\xFF'::BLOB"),
    "DATE": ("DATE '0001-01-01'", "'0001-01-01'"),
    "TIMESTAMP": ("TIMESTAMP_NTZ '2024-03-10 02:30:00.5'", "'2024-03-10 02:30:00.5'"),
    "TIMESTAMPTZ": ("TIMESTAMP '2024-07-01 12:00:00+02:00'", "'2024-07-01 12:00:00+02'"),
    "STRUCT(x INTEGER, y VARCHAR)": ("named_struct('x', 1, 'y', 'a')", "{'x': 1, 'y': 'a'}"),
    "INTEGER[]": ("array(1, NULL)", "[1, NULL]"),
    "MAP(VARCHAR, INTEGER)": ("map('k', 1)", "MAP {'k': 1}"),
    "UUID": ("'550e8400-e29b-41d4-a716-446655440000'", "'550e8400-e29b-41d4-a716-446655440000'"),
}


@pytest.fixture
def lake(connect: SparkSession, store: lakeconf.Store) -> Iterator[lakeconf.Lake]:
    with store.open(connect) as lake:
        yield lake


def left(folder: Path) -> list[str]:
    """What is below the data path besides the lake's marker and data files."""
    found = (path for path in (folder / "data").rglob("*") if not path.name.startswith("_lakeconf"))
    return sorted(path.name for path in found if path.is_file() and not path.name.startswith("part-"))


@pytest.mark.slow
@pytest.mark.parametrize("micros", [True, False])
@pytest.mark.parametrize("kinds", [sorted(VALUES), sorted(VALUES.keys() - {"UUID"})])
def test_written_values_are_those_of_the_frame(
    lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path, kinds: list[str], *, micros: bool
) -> None:
    """DuckDB inserts what cannot be registered: a UUID, and a TIMESTAMPTZ with Spark's default settings."""
    if micros:
        connect.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    table = lake.create_table("t", {f"c{at}": kind for at, kind in enumerate(kinds)})
    table.append(connect.sql(f"SELECT {', '.join(f'{VALUES[kind][0]} AS C{at}' for at, kind in enumerate(kinds))}"))
    expected = ", ".join(f"CAST({VALUES[kind][1]} AS {kind}) AS c{at}" for at, kind in enumerate(kinds))
    rows = lake.sql(f"SELECT t::VARCHAR AS row FROM t UNION ALL SELECT t::VARCHAR FROM (SELECT {expected}) AS t")
    written, other = rows.collect("pyarrow")["row"].to_list()
    assert written == other
    assert len(table.files()) == 1
    assert [name.startswith("ducklake") for name in left(tmp_path)] == [True] * ("UUID" in kinds or not micros)


def test_frame_without_rows_creates_no_snapshot(lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path) -> None:
    table = lake.create_table("t", {"id": "BIGINT"})
    before = lake.snapshot_id
    table.append(connect.range(0))
    assert lake.refresh() == before
    assert left(tmp_path) == []
    assert list((tmp_path / "data").rglob("part-*")) == []


@pytest.mark.slow
def test_buckets_are_those_of_duckdb(lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path) -> None:
    for name in ("spark", "duckdb"):
        lake.create_table(name, {"id": "BIGINT"}, partitioned_by=["bucket(4, id)"])
    lake.table("spark").append(connect.range(-20, 20))
    lake.table("duckdb").append(pa.table({"id": range(-20, 20)}))
    folders = {}
    for name in ("spark", "duckdb"):
        pattern = tmp_path / "data/main" / name / "*/*.parquet"
        query = f"SELECT split_part(filename, '/', -2), id FROM read_parquet('{pattern}', filename = true)"
        folders[name] = sorted(plain_rows(lake, query))
    assert folders["spark"] == folders["duckdb"]
    assert len({folder for folder, _ in folders["spark"]}) == 4
    assert lake.table("spark").scan().to_native().count() == 40


def test_null_in_a_required_column(lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path) -> None:
    table = lake.create_table("t", {"id": "BIGINT NOT NULL"})
    with pytest.raises(SchemaError, match="NULL"):
        table.append(connect.sql("SELECT IF(id = 7, NULL, id) AS id FROM range(9)"))
    assert left(tmp_path) == []
    assert list((tmp_path / "data").rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.parquet.writeLegacyFormat", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),
    ],
)
def test_setting_that_changes_files_is_refused(
    lake: lakeconf.Lake, connect: SparkSession, setting: str, value: str
) -> None:
    table = lake.create_table("t", {"id": "BIGINT"})
    connect.conf.set(setting, value)
    with pytest.raises(UnsupportedError, match=f"{setting} = {value}"):
        table.append(connect.range(3))


def test_file_that_is_not_found_commits_nothing(
    lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the server had another folder of this name, or a listing were incomplete."""
    table = lake.create_table("t", {"id": "BIGINT"})
    before, found = lake.snapshot_id, module._files_in
    monkeypatch.setattr(module, "_files_in", lambda *given: found(*given)[1:])
    with pytest.raises(SparkError, match=r"wrote 10 rows to .*, but this process finds 5 there"):
        table.append(connect.range(0, 10, 1, 2))
    assert lake.refresh() == before
    assert left(tmp_path) == []


def test_interruption_keeps_the_manifest_for_a_cleanup(
    lake: lakeconf.Lake, connect: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    table = lake.create_table("t", {"id": "BIGINT"})
    monkeypatch.setattr(module, "_files_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append(connect.range(10))
    assert [name.endswith(".parquet") for name in left(tmp_path)] == [True]


@pytest.mark.slow
@pytest.mark.hadoop_aws
def test_the_server_writes_and_reads_files_in_a_bucket(
    connect: SparkSession, s3_server: S3Server, tmp_path: Path
) -> None:
    tables = config_of(tmp_path, storage=in_bucket(s3_server))["stores"]["dev"]
    lines = [
        f"stores.dev.{section}.{key} = {json.dumps(value)}"
        for section, table in tables.items()
        for key, value in table.items()
    ]
    (tmp_path / "lakeconf.toml").write_text("\n".join(lines))  # the server does not get the secret, but reads the file
    store = lakeconf.init(tmp_path).get_store("dev")
    assert store.storage_backend is not None
    for key, value in store.storage_backend.hadoop_settings().items():
        connect.conf.set(key, value.reveal() if isinstance(value, Secret) else value)
    with store.open(connect) as lake:
        table = lake.create_table("t", {"id": "BIGINT", "day": "DATE"}, partitioned_by=["day"])
        rows = connect.range(9).selectExpr("id", "date_add(DATE '2024-01-01', int(id % 2)) AS day")
        table.append(rows)
        assert len(table.files()) == 2
        table.overwrite_partitions(rows.where("id = 1"))
        table.delete("id = 0")
        table.merge(rows.where("id > 5"), on="id")
        read = [sorted(rows.collect("pyarrow").rows()) for rows in (table.scan(["id"]), lake.sql("SELECT id FROM t"))]
        assert read == 2 * [[(number,) for number in (1, 2, 4, 6, 7, 8)]]


def test_folder_in_a_bucket_is_removed(s3_server: S3Server, tmp_path: Path) -> None:
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server))).get_store("dev")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        writer = session_of(lake).writer
        folder = f"{data_path_of(lake)}main/t/lakeconf-1/"
        for name in ("a.parquet", "_temporary/0/b.parquet"):
            writer.execute(f"COPY (SELECT 1 AS a) TO '{folder}{name}'")
        remove_staged(writer, folder)
        remove_staged(writer, folder)
        assert writer.rows(f"SELECT file FROM glob('{folder}**')") == []


ROUNDS = 10 if PROVE else 2


def repeated(lake: lakeconf.Lake, write: Callable[[], Any]) -> None:
    """Writes, again if another client was faster."""
    for _ in range(100):
        lake.refresh()
        try:
            write()
        except CommitConflictError:
            continue
        return
    raise AssertionError("the other client was always faster")


def client(connect_url: str, store: lakeconf.Store, number: int, together: Barrier) -> None:
    """Appends rows of its own and then updates them, at the same time as the other client."""
    spark = SparkSession.builder.remote(connect_url).create()
    with store.open(spark) as lake:
        table = lake.table("t")
        for at in range(ROUNDS):
            own = number * ROUNDS + at
            together.wait(300)
            table.append(spark.sql(f"SELECT {own}L AS id, 1L AS n"))
            rows = spark.sql(f"SELECT {own}L AS id, 2L AS n")
            repeated(lake, partial(table.merge, rows, on="id"))


@pytest.mark.slow
@pytest.mark.usefixtures("connect")
def test_two_clients_write_to_one_table(connect_url: str, store: lakeconf.Store) -> None:
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT", "n": "BIGINT"})
    together = Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(client, connect_url, store, number, together) for number in range(2)]:
            done.result()
    with store.open() as lake:
        found = lake.table("t").scan().collect("pyarrow").rows()
    assert sorted(found) == [(own, 2) for own in range(2 * ROUNDS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", [WRITTEN, COMMITTED, *in_prove(point for point in POINTS if point not in {WRITTEN, COMMITTED})]
)
def test_killed_client_loses_nothing_and_writes_nothing_twice(
    connect: SparkSession, connect_url: str, project: Path, point: str
) -> None:
    config = project / "lakeconf.toml"
    store = lakeconf.init(config).get_store("dev")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        before = lake.snapshot_id
    assert run(config, connect_url, point) == -signal.SIGKILL
    with store.open(connect) as lake:
        assert (lake.snapshot_id > before) == (point == COMMITTED)
        table = lake.table("t")
        table.append(connect.range(0, ROWS, 1, 2), idempotency_key=KEY)
        assert sorted(row.id for row in table.scan().to_native().collect()) == list(range(ROWS))
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
        listed = {file.path for name in ("t", "lakeconf.commits") for file in lake.table(name).files()}
    assert {str(path) for path in (project / "data").rglob("*.parquet")} == listed
