"""The DuckDB engine scans tables, stages rows and writes sorted files; manifests of staging folders."""

from __future__ import annotations

import datetime as dt
import os
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from staged_changes import file_groups

from lakeconf.catalog.data_file import DataFile, FileGroup
from lakeconf.catalog.file_footers import Footer
from lakeconf.catalog.sort_keys import sort_keys
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.connection.connection import connect
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import Staged, StagingRequest
from lakeconf.engines.file_names import announce, is_announced, is_manifest_of, is_staged, placed_path, staging_folder
from lakeconf.engines.sorted_files import SortRequest, write_sorted
from lakeconf.errors import LakeconfError, SchemaError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake

    from lakeconf import Store
    from lakeconf.connection.connection import Connection

TYPES = {"a": "INTEGER", 'b "q"': "VARCHAR"}
ROWS = [(1, "x"), (2, None), (3, "z")]


def test_relation_with_two_columns_of_the_same_name_is_refused(engine: DuckDBEngine) -> None:
    with pytest.raises(SchemaError, match="the frame has two columns 'id'"):
        engine.schema(engine.adopt(engine.query("SELECT 1 AS id, 2 AS id", {})))


@pytest.fixture
def lake(inlining_lake: AttachedLake) -> AttachedLake:
    """The table `s.t` with a file, an inlined row and a deleted row."""
    inlining_lake.run(
        "CREATE SCHEMA lake.s",
        'CREATE TABLE lake.s.t (a INTEGER NOT NULL, "b ""q""" VARCHAR)',
        "INSERT INTO lake.s.t SELECT i, 'x' || i FROM range(20) r(i)",
        "INSERT INTO lake.s.t VALUES (100, NULL)",
        "DELETE FROM lake.s.t WHERE a BETWEEN 2 AND 18",
    )
    return inlining_lake


@pytest.fixture
def writer(lake: AttachedLake) -> Iterator[Connection]:
    with lake.connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def engine(lake: AttachedLake, writer: Connection) -> DuckDBEngine:
    return DuckDBEngine(lake.reader, writer)


def rows(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    return sorted(frame.to_native().fetchall(), key=repr)


def request_of(lake: AttachedLake, types: dict[str, str] | None = None) -> StagingRequest:
    return StagingRequest(load_table(lake.reader, "s.t", lake.newest), types or TYPES, "0a1b")


def staged_tables(connection: Connection) -> list[str]:
    query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory' ORDER BY ALL"
    return [name for (name,) in connection.rows(query)]


def test_staging_leaves_no_view_behind(lake: AttachedLake, engine: DuckDBEngine) -> None:
    with duckdb.connect() as other:
        for frame in (pa.table({"a": [1], 'b "q"': ["x"]}), other.sql("""SELECT 1 AS a, 'x' AS "b ""q""\"""")):
            engine.release(engine.stage(engine.adopt(frame), request_of(lake)))
    with pytest.raises(SchemaError):
        engine.stage_rows(engine.adopt(pa.table({"a": ["no number"], 'b "q"': ["x"]})), request_of(lake))
    assert lake.rows("SELECT view_name FROM duckdb_views() WHERE view_name LIKE 'lakeconf%'") == []


def test_staged_rows_are_a_table_in_memory(lake: AttachedLake, engine: DuckDBEngine, writer: Connection) -> None:
    frame = engine.adopt(pa.table({'b "q"': ["x", None, "z"], "A": pa.array([1, 2, 3], pa.int8())}))
    staged = engine.stage(frame, request_of(lake))
    assert (staged.row_count, staged.files, staged.folder) == (3, (), None)
    assert writer.rows(staged.source) == ROWS
    described = writer.rows(f"DESCRIBE ({staged.source})")
    assert [row[:2] for row in described] == list(TYPES.items())
    assert staged_tables(writer) == ["lakeconf_0a1b"]
    engine.release(staged)
    engine.release(staged)
    assert staged_tables(writer) == []


def test_release_ignores_an_error_of_duckdb(engine: DuckDBEngine, lake: AttachedLake, writer: Connection) -> None:
    staged = engine.stage_rows(engine.adopt(pa.table({"a": [1]})), request_of(lake, {"a": "INTEGER"}))
    broken = replace(staged, discard=("DROP TABLE missing", *staged.discard))
    with pytest.raises(LakeconfError):
        writer.execute("DROP TABLE missing")
    engine.release(broken)
    assert staged_tables(writer) == []


@pytest.mark.slow
def test_ctrl_c_ends_a_write(store: Store) -> None:
    """DuckDB looks for signals while it runs a statement, but not in `relation.query`."""
    slow = "SELECT range % 1000 AS id, sum(sin(range)) AS v FROM range(3_000_000_000) GROUP BY ALL"
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "v": "DOUBLE"})
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                table.append(lake.sql(slow))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
        assert table.count() == 0
        assert table.append([{"id": 1, "v": 1.0}]) == lake.snapshot_id


LAKE = "it's a lake"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as connection:
        yield connection


def test_staged_files_have_names_of_their_own() -> None:
    table = TableInfo(1, "s", "t", (), "/lake/a=b/t/")
    folder = staging_folder(table, "0a1b")
    placed = placed_path(table, "day=2024-01-01/kind=/", "0a1b", 7)
    assert all(is_staged(table, path) for path in (placed, f"{folder}part-0.parquet", f"{folder}k=1/part-0.parquet"))
    others = ["part-0.parquet", "x/lakeconf-0a1b/a.parquet", "lakeconf-0a1b.parquet", "lakeconf-xyz/a.parquet"]
    others += ["lakeconf-0a1b-7.parquet", "p=1/x/lakeconf-0a1b-7.parquet", "lakeconf-0a1b/a.parquet.crc"]
    assert not any(is_staged(table, f"{table.path}{other}") for other in others)
    assert not is_staged(table, placed.replace("/t/", "/u/"))


def test_manifest_announces_the_files_of_its_write() -> None:
    table, manifests = (
        TableInfo(1, "s", "t", (), "s3://bucket/lake/s/t/"),
        ["s3://bucket/lake/s/t/lakeconf-0a1b.parquet"],
    )
    placed = placed_path(table, "day=2024-01-01/kind=/", "0a1b", 7)
    assert placed == "s3://bucket/lake/s/t/day=2024-01-01/kind=/lakeconf-0a1b-7.parquet"
    folder = staging_folder(table, "0a1b")
    announced = [placed, *manifests, f"{folder}part-0.parquet", f"{folder}__lakeconf_group_0=1/part-0.parquet"]
    assert all(is_announced(path, manifests) for path in announced)
    assert not any(is_announced(path, []) for path in announced)
    assert not any(is_announced(path, ["s3://bucket/lake/s/other/lakeconf-0a1b.parquet"]) for path in announced)
    for path in (
        *("day=1/lakeconf-0a1-7.parquet", "day=1/lakeconf-0a1bc-7.parquet", "day=1/lakeconf-0a1b-x.parquet"),
        *("day=1/lakeconf-0a1b.parquet", "day=1/x/lakeconf-0a1b-7.parquet", "lakeconf-0a1b-7.parquet"),
        *("lakeconf-0a1bc/part-0.parquet", "day=1/ducklake-0a1b-7.parquet"),
    ):
        assert not is_announced(f"{table.path}{path}", manifests), path


def test_manifest_names_the_process_and_the_lake(connection: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "o'ne" / "t" / "lakeconf-0a1b"
    announce(connection, f"{folder}/", LAKE)
    assert list(tmp_path.rglob("*.*")) == [folder.with_suffix(".parquet")]
    connection.execute("SET TimeZone = 'UTC'")
    query = "SELECT host, pid, CAST(CAST(started_at AS TIMESTAMP) AS VARCHAR), lake FROM read_parquet(?)"
    ((host, pid, started, lake),) = connection.rows(query, [f"{folder}.parquet"])
    assert (host, pid, lake) == (socket.gethostname(), os.getpid(), LAKE)
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(started).replace(tzinfo=dt.UTC)
    assert abs(age) < dt.timedelta(minutes=5)


def test_folder_that_cannot_be_created_is_named(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as refused:
        announce(connection, f"{tmp_path}/file/t/lakeconf-0a1b/", LAKE)
    assert refused.value.message == f"the folder {tmp_path}/file/t cannot be created: Not a directory"


def test_object_storage_has_no_folders_to_create(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError):
        announce(connection, "unknown://bucket/t/lakeconf-0a1b/", LAKE)
    assert list(tmp_path.iterdir()) == []


def test_manifest_belongs_to_one_lake(connection: Connection, tmp_path: Path) -> None:
    announce(connection, f"{tmp_path}/lakeconf-0a1b/", LAKE)
    path = f"{tmp_path}/lakeconf-0a1b.parquet"
    assert is_manifest_of(connection, path, LAKE)
    assert not is_manifest_of(connection, path, LAKE.upper())
    assert not is_manifest_of(connection, path, "")


def test_other_files_are_no_manifests(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "damaged.parquet").write_text("damaged")
    connection.execute(f"COPY (SELECT 1 AS id) TO '{tmp_path}/data.parquet'")
    connection.execute(f"COPY (FROM (VALUES ('x'), ('x')) AS v (lake)) TO '{tmp_path}/two.parquet'")
    connection.execute(f"COPY (SELECT 'x' AS lake LIMIT 0) TO '{tmp_path}/empty.parquet'")
    for name in ("missing", "damaged", "data", "two", "empty"):
        assert not is_manifest_of(connection, f"{tmp_path}/{name}.parquet", "x"), name


@pytest.fixture
def output(inlining_lake: AttachedLake) -> Iterator[Connection]:
    """Writes to a lake with the table `t`, whose rows are not in order; one is deleted."""
    inlining_lake.run(
        'CREATE TABLE lake.t (a BIGINT, "b ""q" DOUBLE, s STRUCT("x, y" BIGINT, z VARCHAR[]), m MAP(VARCHAR, INTEGER))',
        "INSERT INTO lake.t SELECT (i * 7) % 30, CASE WHEN i < 15 THEN i / 2 WHEN i < 16 THEN 'nan' END, "
        "{'x, y': i, 'z': ['e' || i, NULL]}, MAP {'k': i} FROM range(30) AS r(i)",
        "DELETE FROM lake.t WHERE a = 7",
    )
    inlining_lake.run("CALL ducklake_flush_inlined_data('lake')")
    with inlining_lake.connection.cursor() as cursor:
        cursor.prefer_builtins("lake")
        yield cursor


def sort_request(lake: AttachedLake, key: str) -> SortRequest:
    info = load_table(lake.reader, "t", lake.newest)
    (group,) = file_groups(lake.reader, info, lake.newest)
    return SortRequest(info, lake.newest, group, sort_keys([key], info.columns), "0a")


def written(lake: AttachedLake, output: Connection, folder: Path, key: str = "a desc") -> Footer:
    return write_sorted(output, "lake", sort_request(lake, key), str(folder / "new" / "0.parquet"))


def test_rows_have_the_order_and_their_ids(inlining_lake: AttachedLake, output: Connection, tmp_path: Path) -> None:
    footer = written(inlining_lake, output, tmp_path)
    columns = f'a, {INTERNAL_ROW_ID.name}, "b ""q"::VARCHAR, s::VARCHAR, m::VARCHAR'
    found = output.rows(f"SELECT {columns} FROM read_parquet('{footer.path}')")
    assert found == output.rows(f"SELECT {columns.replace(INTERNAL_ROW_ID.name, 'rowid')} FROM lake.t ORDER BY a DESC")
    assert (footer.row_count, len(found)) == (29, 29)
    schema = dict(output.rows(f"SELECT name, field_id FROM parquet_schema('{footer.path}') WHERE field_id IS NOT NULL"))
    ids = {column.name: column.field_id for column in sort_request(inlining_lake, "a").table.columns}
    assert ids.items() <= schema.items()
    assert schema[INTERNAL_ROW_ID.name] == INTERNAL_ROW_ID.field_id
    assert len(schema) == 10, "also the fields of nested columns"


def test_statistics_are_those_of_the_rows(inlining_lake: AttachedLake, output: Connection, tmp_path: Path) -> None:
    footer = written(inlining_lake, output, tmp_path)
    size = output.rows(f"SELECT file_size_bytes, footer_size FROM parquet_file_metadata('{footer.path}')")
    assert [(footer.file_size_bytes, footer.footer_size)] == size
    found = [(one.value_count, one.null_count, one.low, one.high, one.contains_nan) for one in footer.statistics]
    assert found == [
        (29, 0, "0", "29", None),
        (29, 14, "0.0", "7.0", True),
        (29, 0, "0", "29", None),
        (58, 29, "e0", "e9", None),
        (29, 0, "k", "k", None),
        (29, 0, "0", "29", None),
    ]
    assert len({one.field_id for one in footer.statistics}) == 6


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_negative_zeros_of_a_sort_key_stay(
    inlining_lake: AttachedLake, output: Connection, tmp_path: Path, kind: str
) -> None:
    inlining_lake.run(
        f"CREATE OR REPLACE TABLE lake.t (a {kind}, b BIGINT)",
        "INSERT INTO lake.t VALUES (1, 5), ('-0.0', 4), (NULL, 3), ('nan', 2), ('-inf', 1), ('-0.0', 0)",
    )
    inlining_lake.run("CALL ducklake_flush_inlined_data('lake')")
    footer = written(inlining_lake, output, tmp_path, "a desc nulls first")
    found = output.rows(f"SELECT a::VARCHAR FROM read_parquet('{footer.path}')")
    assert [value for (value,) in found] == [None, "nan", "1.0", "-0.0", "-0.0", "-inf"]


def test_options_of_the_lake_hold(inlining_lake: AttachedLake, output: Connection, tmp_path: Path) -> None:
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 9, "version": 2, "row_group_size": 2048}
    for name, value in options.items():
        inlining_lake.run(f"CALL lake.set_option('parquet_{name}', '{value}')")
    footer = written(inlining_lake, output, tmp_path)
    assert output.rows(f"SELECT DISTINCT compression FROM parquet_metadata('{footer.path}')") == [("ZSTD",)]


def test_group_is_all_that_is_read(inlining_lake: AttachedLake, output: Connection, tmp_path: Path) -> None:
    request = sort_request(inlining_lake, "a")
    inlining_lake.run("INSERT INTO lake.t SELECT 1000 + i, NULL, NULL, NULL FROM range(50) AS r(i)")
    newer = SortRequest(request.table, inlining_lake.newest, request.group, request.keys, "0a")
    footer = write_sorted(output, "lake", newer, str(tmp_path / "x.parquet"))
    assert footer.row_count == 29


@pytest.mark.parametrize(("kind", "field"), [("VARIANT", "w"), ("INTEGER", "__DuckDB_field_id")])
def test_columns_that_duckdb_would_change_are_refused(
    inlining_lake: AttachedLake, output: Connection, tmp_path: Path, kind: str, field: str
) -> None:
    inlining_lake.run(f"ALTER TABLE lake.t ADD COLUMN v STRUCT({field} {kind})")
    with pytest.raises(UnsupportedError, match=rf"the column 'v\.{field}' of type \w+ cannot be written again exactly"):
        written(inlining_lake, output, tmp_path)
    assert not (tmp_path / "new").exists()


def test_statistics_that_are_missing_are_an_error(
    inlining_lake: AttachedLake, output: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column without bounds would hide its rows."""
    monkeypatch.setattr("lakeconf.engines.sorted_files._leaves", lambda columns: [("gone", columns[0])])
    with pytest.raises(StorageError, match="DuckDB reported no statistics of gone in"):
        write_sorted(output, "lake", sort_request(inlining_lake, "a"), str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("option", ["parquet_row_group_size", "parquet_compression_level"])
def test_options_that_are_no_numbers_are_refused(
    inlining_lake: AttachedLake, output: Connection, tmp_path: Path, option: str
) -> None:
    """Another tool can write them to the catalog."""
    metadata = f"{inlining_lake.reader.metadata_database}.ducklake_metadata"
    inlining_lake.run(f"INSERT INTO {metadata} (key, value) VALUES ('{option}', '1, FILENAME_PATTERN x')")
    with pytest.raises(UnsupportedError, match=f"the lake's option {option} is '1, FILENAME_PATTERN x'"):
        written(inlining_lake, output, tmp_path)


def test_files_outside_the_staging_folder_are_placed() -> None:
    files = ("/d/main/t/lakeconf-1/a.parquet", "/d/main/t/k=1/a.parquet")
    assert Staged("", files, folder="/d/main/t/lakeconf-1/").placed_files == files[1:]
    assert Staged("", files).placed_files == ()


TABLE = TableInfo(1, "main", "t", (), "/d/main/t/")


def request_for(*paths: str, partition_id: int | None = 3) -> SortRequest:
    files = tuple(DataFile(number, path, 1, 1, None, 1) for number, path in enumerate(paths))
    return SortRequest(TABLE, 1, FileGroup(files, partition_id), keys=(), token="0a1b")


@pytest.mark.parametrize(
    "paths",
    [
        ("/d/main/t/k=1/x.parquet", "/d/main/t/k=2/x.parquet"),
        ("/d/main/t/x.parquet",),
        ("/elsewhere/k=1/x.parquet",),
        ("/d/main/t/k=1/lakeconf-0a/x.parquet",),
    ],
)
def test_partitions_without_a_folder_of_their_own_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"the files of a partition of main.t are not in a folder of their own"):
        request_for(*paths).path  # noqa: B018 - raises
