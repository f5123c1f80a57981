"""Partitioned tables that Spark writes are those that DuckDB writes; footers prove the folder of a file."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_parts import data_path_of, session_of
from local_stores import config_of
from plain_sql import plain_rows, run_plain
from pyspark import TaskContext
from strength import PROVE, in_prove

import lakeconf
from lakeconf.catalog.data_file import FolderKey
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.internals import written_files
from lakeconf.engines.spark.write.files import writing_session
from lakeconf.engines.spark.write.partition_folders import folders
from lakeconf.errors import LakeconfError
from lakeconf.inspection.verify import verify
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake

CHANCE = random.Random(0)  # noqa: S311 - the same values every time
COUNT = 3000 if PROVE else 60
NOW = dt.timedelta(0)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with lakeconf.init(config_of(tmp_path)).get_store("dev").open(spark) as lake:
        yield lake


def text(sql: str) -> str:
    return "'" + sql.replace("'", "''") + "'"


def days() -> list[str]:
    """Days before and after the epoch and the change of the calendar, as SQL."""
    first, last = dt.date.min.toordinal(), dt.date.max.toordinal()
    found = [dt.date.fromordinal(CHANCE.randint(first, last)).isoformat() for _ in range(COUNT)]
    edges = ["1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "2024-02-29", "0044-03-15 (BC)", "290000-01-01"]
    return [f"DATE '{day}'" for day in (*found, *edges)]


def moments() -> list[str]:
    found = [f"make_timestamp({CHANCE.randint(-(2**55), 2**55)})" for _ in range(COUNT)]
    edges = ["1969-12-31 23:59:59.999999", "1970-01-01", "0044-03-15 (BC) 01:02:03.000004", "2024-03-10 02:30:00"]
    return [*found, *(f"TIMESTAMP '{moment}'" for moment in edges)]


def zoned() -> list[str]:
    return [f"({moment})::TIMESTAMPTZ" for moment in moments()]


def words() -> list[str]:
    alphabet = "aA0 %/\\=+?&#*[]{}'\"ü\u0301😀\n\t._-~:;,<>|^`$!()@"
    found = ["".join(CHANCE.choices(alphabet, k=CHANCE.randint(1, 12))) for _ in range(COUNT)]
    edges = ["", "NULL", "null", "Null", "nullx", "__HIVE_DEFAULT_PARTITION__", ".", "..", " ", "%20", "a b", "a%20b"]
    return [text(word) for word in (*found, *edges, "é", "e\u0301", "\\xFF", "A", "a", "x" * 252, "1", "true")]


def numbers(bits: int) -> list[str]:
    edges = [0, -1, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    return [str(CHANCE.randint(edges[-1], edges[-2])) for _ in range(COUNT)] + [f"({edge})" for edge in edges]


def decimals() -> list[str]:
    return [f"{Decimal(CHANCE.randint(-(10**7), 10**7)) / 100}" for _ in range(COUNT)] + ["0", "-0.05", "99999999.99"]


# For each case: its type, the keys on columns that all have the same values, the values, and those that only DuckDB can
# insert.
TWINS: list[tuple[str, list[str], list[str], set[str]]] = [
    ("DATE", ["k0", "year(k1)", "month(k2)", "day(k3)"], days(), set()),
    ("TIMESTAMP", ["k0", "year(k1)", "month(k2)", "day(k3)", "hour(k4)"], moments(), set()),
    ("TIMESTAMP", ["month(k0)", "hour(k1)"], moments(), set()),
    ("TIMESTAMPTZ", ["k0"], zoned(), set()),
    ("VARCHAR", ["k0"], words(), {"NULL", "null", "Null", "__HIVE_DEFAULT_PARTITION__", "\\xFF"}),
    ("BOOLEAN", ["k0"], ["true", "false"], set()),
    ("TINYINT", ["k0"], numbers(8), set()),
    ("BIGINT", ["k0"], numbers(64), set()),
    ("DECIMAL(38, 10)", ["k0"], decimals(), set()),
    ("DECIMAL(9, 2)", ["k0"], ["-0.05", "0", "7.1", "9999999.99"], set()),
]


def partitions(lake: Lake, table: str) -> dict[tuple[str, tuple[str | None, ...]], list[int]]:
    """The ids of the rows in each folder, with the partition values that DuckLake records for it."""
    catalog, writer = "__ducklake_metadata_dev.ducklake", session_of(lake).writer
    values = dict(
        writer.rows(
            f"SELECT path, list(partition_value ORDER BY partition_key_index) FROM {catalog}_data_file AS f "
            f"LEFT JOIN {catalog}_file_partition_value AS v USING (data_file_id) "
            f"WHERE f.table_id = (SELECT table_id FROM {catalog}_table WHERE table_name = '{table}' "
            "AND end_snapshot IS NULL) AND f.end_snapshot IS NULL GROUP BY path"
        )
    )
    folder = str(Path(data_path_of(lake), "main", table)) + "/"
    found: dict[tuple[str, tuple[str | None, ...]], list[int]] = {}
    for name, ids in writer.rows(f"SELECT filename, list(id) FROM dev.{table} GROUP BY filename"):
        path = name.removeprefix(folder)
        found.setdefault((path.rpartition("/")[0], tuple(values[path])), []).extend(ids)
    return {partition: sorted(ids) for partition, ids in found.items()}


def files(lake: Lake, table: str, writer: str) -> list[str]:
    """The files of a table that Spark (`lakeconf`) or DuckDB (`ducklake`) wrote."""
    return [file.path for file in lake.table(table).files() if Path(file.path).name.startswith(f"{writer}-")]


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return sorted(plain_rows(lake, query), key=repr)


def twins(lake: Lake, columns: dict[str, str], keys: Sequence[str], query: str) -> None:
    """The same rows in two tables: Spark writes `ours`, and DuckDB `theirs`."""
    for table in ("ours", "theirs"):
        lake.create_table(table, columns, partitioned_by=keys)
    add(lake, query)


def add(lake: Lake, query: str) -> None:
    run_plain(lake, f"INSERT INTO dev.theirs {query}")
    lake.refresh()
    lake.table("ours").append(frame(lake, query))


def frame(lake: Lake, query: str) -> Any:
    """The rows as a frame of Spark, from files: Arrow has no infinity, and Python fewer years."""
    folder = Path(data_path_of(lake)).parent / f"source{len(lake.snapshots())}"
    folder.mkdir()
    run_plain(lake, f"COPY ({query}) TO '{folder}/rows.parquet' (FORMAT parquet)")
    spark: Any = session_of(lake).engine._spark  # type: ignore[attr-defined]
    return spark.read.option("inferTimestampNTZ", "true").parquet(str(folder)).repartition(3)


def maintain(lake: Lake) -> None:
    lake.maintenance.compact()
    lake.maintenance.expire_snapshots(older_than=NOW, force=True)
    lake.maintenance.cleanup(older_than=NOW, force=True)


def columns_for(type_name: str, keys: Sequence[str], values: Sequence[str]) -> tuple[dict[str, str], str]:
    """The columns of a table, and a query for rows with each value and NULL, some of them twice."""
    columns = {f"k{number}": type_name for number in range(len(keys))}
    listed = ", ".join(f"({number}, {value})" for number, value in enumerate([*values, "NULL", *values[::3]]))
    made = ", ".join(f"v::{type_name} AS {name}" for name in columns)
    return {"id": "BIGINT", **columns}, f"SELECT id::BIGINT AS id, {made} FROM (VALUES {listed}) AS v(id, v)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [*TWINS[:1], *in_prove((case,) for case in TWINS[1:])], ids=lambda case: f"{case[0]} {len(case[1])}"
)
def test_partitions_equal_those_of_duckdb(lake: Lake, case: tuple[str, list[str], list[str], set[str]]) -> None:
    type_name, keys, values, inserted = case
    # A zone whose early offsets have seconds, which DuckDB does not show.
    session_of(lake).writer.execute("SET TimeZone = 'Africa/Monrovia'")
    columns, query = columns_for(type_name, keys, values)
    twins(lake, columns, keys, query)
    assert partitions(lake, "ours") == partitions(lake, "theirs")
    by_duckdb = ", ".join(f"'{name}'" for name in files(lake, "ours", "ducklake")) or "''"
    found = rows(lake, f"SELECT DISTINCT k0::VARCHAR FROM dev.ours WHERE filename IN ({by_duckdb})")
    assert {value for (value,) in found} == inserted
    for name, value in zip(columns, CHANCE.sample(values, min(len(values), len(columns))), strict=False):
        where = f"WHERE {name} = {value}::{type_name} OR {name} IS NULL" if name != "id" else "WHERE k0 IS NULL"
        assert rows(lake, f"FROM dev.ours {where}") == rows(lake, f"FROM dev.theirs {where}") != [], where
    assert verify(lake, "ours").equal


@pytest.mark.slow
@pytest.mark.parametrize("type_name", ["DATE", "TIMESTAMP"])
def test_infinity_is_in_the_partition_of_duckdb(lake: Lake, type_name: str) -> None:
    """Spark takes it for a moment in a month, DuckDB does not."""
    days = ("2024-01-10", "2024-06-01", "2024-07-01", "infinity", "-infinity")
    for keys in (["k0"], ["month(k0)"], ["year(k0)"], ["day(k0)"]):
        columns, query = columns_for(type_name, keys, [f"{type_name} '{day}'" for day in days])
        twins(lake, columns, keys, query)
        assert partitions(lake, "ours") == partitions(lake, "theirs")
        assert bool(files(lake, "ours", "ducklake")) is (keys != ["k0"])
        run_plain(lake, "DROP TABLE dev.ours")
        run_plain(lake, "DROP TABLE dev.theirs")
        lake.refresh()


MANY = """
    SELECT i AS id, DATE '2024-01-01' + (i % 3)::INTEGER AS day, ['a b', 'ü/', '', NULL, 'NULL'][1 + i % 5] AS kind,
        TIMESTAMP '2023-12-30' + INTERVAL (i * 7 % 60) HOUR AS moment, (i % 2)::SMALLINT AS small FROM range(60) AS r(i)
"""
COLUMNS = {"id": "BIGINT", "day": "DATE", "kind": "VARCHAR", "moment": "TIMESTAMP", "small": "SMALLINT"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        ["year(day)", "year(moment)", "small"],
        *in_prove([["kind", "year(day)"], ["small", "hour(moment)", "day"]]),
    ],
)
def test_tables_with_several_keys_live_as_those_of_duckdb(lake: Lake, keys: list[str]) -> None:
    twins(lake, COLUMNS, keys, MANY)
    assert partitions(lake, "ours") == partitions(lake, "theirs")
    assert len(files(lake, "ours", "lakeconf")) == len(
        [folder for folder, _ in partitions(lake, "ours") if "kind=NULL" not in folder]
    )
    first = lake.snapshot_id
    later = MANY.replace("i AS id", "i + 1000 AS id").replace("'a b'", "'new'")
    add(lake, later)
    run_plain(lake, f"INSERT INTO dev.ours {MANY.replace('i AS id', 'i + 2000 AS id')}")
    run_plain(lake, f"INSERT INTO dev.theirs {MANY.replace('i AS id', 'i + 2000 AS id')}")
    lake.refresh()
    assert partitions(lake, "ours") == partitions(lake, "theirs")
    assert rows(lake, f"FROM dev.ours AT (VERSION => {first})") == rows(lake, MANY)
    inserted = lake.table("ours").changes(first, first).collect("pyarrow").to_native()
    assert sorted(inserted["id"].to_pylist()) == list(range(60))
    for condition in ("day = '2024-01-03'", "kind IS NULL", "kind = ''", "moment < '2023-12-31'", "small = 1"):
        expected = rows(lake, f"SELECT id FROM dev.theirs WHERE {condition}")
        assert rows(lake, f"SELECT id FROM dev.ours WHERE {condition}") == expected
        scanned = lake.table("ours").scan(columns=["id"], where=condition).collect("pyarrow").rows()
        assert sorted(scanned, key=repr) == expected
        pruned = [lake.table(name).explain(where=condition).files_skipped for name in ("ours", "theirs")]
        assert pruned[0] > 0 or pruned[1] == 0
    for table in ("ours", "theirs"):
        lake.table(table).delete("id IN (0, 7, 14, 1007, 2014)")
        lake.table(table).update({"small": 9}, where="id IN (11, 22, 1033)")
    before = len(lake.table("ours").files())
    maintain(lake)
    assert len(lake.table("ours").files()) < before
    assert rows(lake, "FROM dev.ours") == rows(lake, "FROM dev.theirs")
    assert verify(lake, "ours").equal
    stored = {str(path) for path in Path(data_path_of(lake), "main", "ours").rglob("*.parquet")}
    assert {file.path for file in lake.table("ours").files()} <= stored
    lake.table("ours").append(lake.sql(MANY).collect("pyarrow"))
    maintain(lake)
    assert len(rows(lake, "FROM dev.ours")) == len(rows(lake, "FROM dev.theirs")) + 60
    assert {folder for folder, _ in partitions(lake, "ours")} == {folder for folder, _ in partitions(lake, "theirs")}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.b", "rowid", *in_prove(["SELECT", "Day", "file_row_number", "x-1"])])
def test_columns_with_odd_names_are_keys(lake: Lake, name: str) -> None:
    listed = pa.table({"id": pa.array([1, 2, 3], pa.int64()), name: ["x", "y/z", None]})
    for table in ("ours", "theirs"):
        lake.create_table(table, listed, partitioned_by=[name])
    run_plain(
        lake, "INSERT INTO dev.theirs SELECT id::BIGINT, k FROM (VALUES (1, 'x'), (2, 'y/z'), (3, NULL)) AS v(id, k)"
    )
    lake.refresh()
    lake.table("ours").append(listed)
    assert partitions(lake, "ours") == partitions(lake, "theirs")
    assert len(files(lake, "ours", "lakeconf")) == 3
    assert rows(lake, f"SELECT id FROM dev.ours WHERE {identifier(name)} = 'y/z'") == [(2,)]
    lake.table("ours").append(listed)
    maintain(lake)
    assert verify(lake, "ours").equal
    assert rows(lake, f"SELECT {identifier(name)} FROM dev.ours WHERE id = 2") == [("y/z",), ("y/z",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ({"k": "TIMESTAMP"}, ["year(k)", "month(k)"]),
        ({"k": "DATE"}, ["k", "month(k)"]),
        ({"k": "DATE"}, ["hour(k)"]),
        ({"k": "BIGINT"}, ["bucket(4, k)"]),
        ({"k": "TIMESTAMPTZ"}, ["day(k)"]),
        ({"k": "DOUBLE"}, ["k"]),
        ({"k": "FLOAT"}, ["k"]),
        ({"k": "UUID"}, ["k"]),
        ({"k": "DATE", "year": "INTEGER"}, ["year(k)"]),
        ({"k": "DATE", "YEAR": "INTEGER"}, ["YEAR", "year(k)"]),
        ({"k": "DATE", "l": "DATE", "year_l": "INTEGER"}, ["year(k)", "year(l)"]),
        ({"k": "DATE", "other": "UUID"}, ["k"]),
        ({"a b": "BIGINT"}, ["a b"]),
        ({"a=b": "BIGINT"}, ["a=b"]),
        ({"ü%2F": "BIGINT"}, ["ü%2F"]),
    ],
)
def test_partitions_without_equal_folders_are_inserted_by_duckdb(
    lake: Lake, columns: dict[str, str], keys: list[str]
) -> None:
    for table in ("ours", "theirs"):
        lake.create_table(table, {"id": "BIGINT", **columns}, partitioned_by=keys)
    values = {
        "UUID": "uuid()",
        "DATE": "DATE '2023-12-31' + i::INTEGER",
        "TIMESTAMP": "TIMESTAMP '2023-12-31 23:00:00' + INTERVAL (i) HOUR",
        "TIMESTAMPTZ": "TIMESTAMPTZ '2023-12-31 23:00:00+00' + INTERVAL (i) HOUR",
    }
    made = ", ".join(f"({values.get(type_, 'i')})::{type_} AS {identifier(name)}" for name, type_ in columns.items())
    run_plain(lake, f"CREATE TABLE memory.main.made AS SELECT i AS id, {made} FROM range(4) AS r(i)")
    run_plain(lake, "INSERT INTO dev.theirs FROM memory.main.made")
    lake.refresh()
    lake.table("ours").append(lake.sql("FROM memory.main.made").collect("pyarrow"))
    assert partitions(lake, "ours") == partitions(lake, "theirs")
    assert files(lake, "ours", "lakeconf") == []
    assert not list(Path(data_path_of(lake)).rglob("lakeconf-*"))


DAY = FolderKey("day", Column(1, "day", "date", nullable=True, initial_default=None), "identity")
KIND = FolderKey("kind", Column(2, "kind", "varchar", nullable=True, initial_default=None), "identity")


@pytest.mark.parametrize(
    ("others", "folder"),
    [("false", "day=2024-01-01/"), ("i >= 4096", None), ("i = 3000", None), ("nullif(i = 3000, true)", None)],
)
def test_footer_proves_the_folder_of_several_row_groups(tmp_path: Path, others: str, folder: str | None) -> None:
    path = f"{tmp_path}/file.parquet"
    query = f"SELECT DATE '2024-01-01' + ({others})::INTEGER AS day FROM range(5000) AS r(i)"
    with connect() as writer:
        writer.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
        assert writer.rows(f"SELECT count(DISTINCT row_group_id) > 1 FROM parquet_metadata('{path}')") == [(True,)]
        assert folders(writer, [path], [DAY]).get(path) == folder


@pytest.mark.parametrize(("length", "found"), [(250, 1), (251, 0)])
def test_folder_has_a_name_that_file_systems_allow(tmp_path: Path, length: int, found: int) -> None:
    path = f"{tmp_path}/file.parquet"
    with connect() as writer:
        writer.execute(f"COPY (SELECT '{'x' * length}' AS kind) TO '{path}' (FORMAT parquet)")
        assert len(folders(writer, [path], [KIND])) == found


def test_collation_of_the_connection_does_not_merge_values(tmp_path: Path) -> None:
    path = f"{tmp_path}/file.parquet"
    with connect() as writer:
        writer.execute("SET default_collation = 'NOCASE'")
        writer.execute(f"COPY (SELECT unnest(['A', 'a']) AS kind) TO '{path}' (FORMAT parquet)")
        assert folders(writer, [path], [KIND]) == {}


@pytest.mark.slow
def test_number_of_files_follows_the_partitions(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", {"id": "BIGINT", "day": "DATE"}, partitioned_by=["day"])
    table.append(spark.range(0, 2400, 1, 8).selectExpr("id", "date_add(DATE'2024-01-01', int(id % 30)) AS day"))
    assert [file.rows for file in table.files()] == [80] * 30


@pytest.mark.slow
def test_large_partition_is_split(lake: Lake, spark: SparkSession) -> None:
    """With any session settings for adaptive execution."""
    table = lake.create_table("t", {"id": "BIGINT", "day": "DATE", "text": "VARCHAR"}, partitioned_by=["day"])
    large = spark.range(0, 20_000, 1, 8).selectExpr("id", "DATE'2024-01-01' AS day", "sha2(string(id), 512) AS text")
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200KB"}
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        table.append(large)
    finally:
        for key, text in before.items():
            spark.conf.set(key, str(text))
            spark.conf.unset(key)
    files = table.files()
    assert 4 <= len(files) <= 16
    assert sum(file.rows for file in files) == 20_000
    assert {file.path.rpartition("/")[0].rpartition("/")[2] for file in files} == {"day=2024-01-01"}


@pytest.mark.parametrize("content", ["61FF62", "EDA080"])
def test_text_that_is_not_utf8_is_refused(lake: Lake, spark: SparkSession, content: str) -> None:
    """DuckDB shows it as `\\xFF` in the statistics of a file."""
    table = lake.create_table("ours", {"id": "BIGINT", "kind": "VARCHAR"}, partitioned_by=["kind"])
    with pytest.raises(LakeconfError):
        table.append(spark.sql(f"SELECT 1L AS id, CAST(X'{content}' AS STRING) AS kind"))
    assert table.files() == []
    assert not list(Path(data_path_of(lake)).rglob("*.parquet"))


OPTIONS = {"compression": "zstd"}


def write(frame: DataFrame, folder: Path, *by: str) -> list[Path]:
    files = written_files(frame, f"file://{folder}/", OPTIONS, by)
    assert all(file.startswith("file:/") for file in files)
    return [Path(file.removeprefix("file:")) for file in files]


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_files_without_a_report_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    """An attempt whose executor is killed leaves its files: complete, incomplete, and temporary ones."""
    folder, foreign = tmp_path / "new", tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"id": [100]}), foreign)

    def left_by_another_attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()  # type: ignore[union-attr]
        for name in (f"part-0000{number}-0a1b-c000.zstd.parquet", "_temporary/0/part.parquet", "_SUCCESS"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(foreign, folder / name)
        yield from batches

    files = write(spark.range(0, 10, 1, 2).mapInArrow(left_by_another_attempt, "id BIGINT"), folder)
    assert sorted(id_ for file in files for id_ in pq.read_table(file)["id"].to_pylist()) == list(range(10))
    assert left_in(folder) == files


def test_each_file_has_rows_with_the_same_values_of_the_separating_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 30, 1, 2).selectExpr("id", "id % 3 AS part", "id % 2 AS side")
    files = write(frame, tmp_path / "new", "part", "side")
    found = [pq.read_table(file, partitioning=None) for file in files]
    assert [table.column_names for table in found] == [["id"]] * 12
    assert [len({(id_ % 3, id_ % 2) for id_ in table["id"].to_pylist()}) for table in found] == [1] * 12
    assert sorted(id_ for table in found for id_ in table["id"].to_pylist()) == list(range(30))


def test_job_runs_with_the_settings_of_the_frames_session(spark: SparkSession, tmp_path: Path) -> None:
    private = writing_session(spark)
    for name, value in {"shuffle.partitions": "5", "adaptive.enabled": "false"}.items():
        private.conf.set(f"spark.sql.{name}", value)
    assert len(write(private.range(100).repartition("id"), tmp_path / "new")) == 5
    assert spark.conf.get("spark.sql.shuffle.partitions") != "5"
