"""Footers as fields with DuckLake's types, and files that are read without them; groups of files; codecs."""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jvm_calls import counted_calls, jvm_of
from lake_parts import catalog_of

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.engines.spark.read import file_schemas
from lakeconf.engines.spark.read import groups as groups_module
from lakeconf.engines.spark.read.file_schemas import MILLISECONDS, Stored, footers
from lakeconf.engines.spark.read.groups import Group, groups, known_contents, path_text
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.engines.spark.write.storage import missing_codec
from lakeconf.errors import StorageError
from lakeconf.inspection.verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession

    import lakeconf

VALUES = """
    SELECT id, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS whole,
        CAST(id AS FLOAT) AS single, CAST(id AS DOUBLE) AS double, CAST(id AS DECIMAL(5, 2)) AS few,
        CAST(id AS DECIMAL(38, 3)) AS many, DATE'2024-01-01' AS day, TIMESTAMP_NTZ'2024-01-01 00:00:00' AS naive,
        TIMESTAMP'2024-01-01 00:00:00' AS zoned, 'x' AS `Te xt`, CAST('y' AS BINARY) AS bytes,
        named_struct('A', id, 'l', array(named_struct('d', DATE'2024-01-01'))) AS `Struct`,
        map('k', named_struct('v', array(id))) AS pairs, array(array(id)) AS `list`
    FROM range(3)"""
CHANGES = (
    "ALTER TABLE t RENAME COLUMN whole TO total",
    "ALTER TABLE t ADD COLUMN added INTEGER DEFAULT 7",
    'ALTER TABLE t ADD COLUMN "Struct".more INTEGER',
    'ALTER TABLE t RENAME COLUMN "Struct".A TO b',
    "ALTER TABLE t DROP COLUMN small",
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(VALUES)


def plan_of(lake: lakeconf.Lake, table: str = "t", columns: list[str] | None = None) -> ScanPlan:
    return plan_scan(catalog_of(lake), table, lake.snapshots()[-1].snapshot_id, columns)


def registered(plan: ScanPlan) -> list[tuple[str, int]]:
    """The path and the size of each file that is read by name."""
    return [(file.path, file.file_size_bytes) for file in plan.files if file.mapping_id is not None]


def normal(stored: Stored) -> tuple[object, ...]:
    """A field without the names of elements, keys and values, which are found by position."""
    by_position = stored.type in ("list", "map")
    return stored.name, stored.type, tuple(normal(child)[by_position:] for child in stored.children)


@pytest.mark.slow
def test_schema_from_the_catalog_is_that_of_the_footers(
    spark: SparkSession, store: lakeconf.Store, rows: DataFrame
) -> None:
    with store.open(spark) as lake:
        lake.create_table("t", rows)
        lake.table("t").append(rows)
        plan = plan_of(lake)
    found = known_contents(plan)
    assert [path for path, _ in registered(plan)] == list(found) != []
    for stored, expected in zip(found.values(), footers(private_session(spark), registered(plan)), strict=True):
        assert normal(stored)[2] == normal(expected)[2]


@pytest.mark.slow
def test_scan_opens_no_footer_of_the_files_of_lakeconf(
    spark: SparkSession, store: lakeconf.Store, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(spark) as lake:
        lake.create_table("t", rows)
        lake.create_table("p", rows, partitioned_by=["flag", "day"])
        for name in ("t", "p"):
            lake.table(name).append(rows)
    with store.connect() as con:
        for change in CHANGES:
            con.execute(change)
    monkeypatch.setattr(groups_module, "footers", None)
    with store.open(spark) as lake:
        lake.table("t").append(lake.table("t").scan().to_native())
        for name in ("t", "p"):
            plan = plan_of(lake, name)
            assert len(registered(plan)) == len(plan.files) > 1
            assert verify(lake, name).sound


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["ALTER a TYPE BIGINT", "ADD COLUMN c HUGEINT", "ADD COLUMN c JSON", "ADD COLUMN s.e INTEGER"]
)
def test_footers_are_opened_if_the_catalog_is_not_sufficient(
    spark: SparkSession, store: lakeconf.Store, change: str
) -> None:
    with store.open(spark) as lake:
        rows = spark.range(3).selectExpr("CAST(id AS INT) AS a", "id AS b", "named_struct('d', id) AS s")
        lake.create_table("t", rows)
        lake.table("t").append(rows)
        assert len(known_contents(plan_of(lake))) == len(plan_of(lake).files) > 0
    with store.connect() as con:
        con.execute(f"ALTER TABLE t {change}")
        if "s.e" in change:
            con.execute("ALTER TABLE t DROP COLUMN s.d")
    with store.open(spark) as lake:
        assert known_contents(plan_of(lake)) == {}
        assert len(known_contents(plan_of(lake, columns=["b"]))) == len(plan_of(lake).files)


@pytest.mark.slow
def test_footers_of_other_files_are_opened(spark: SparkSession, store: lakeconf.Store) -> None:
    """A file in the folder of the table has any types."""
    with store.open(spark) as lake:
        lake.create_table("t", {"a": "BIGINT"})
        lake.table("t").append(spark.range(3, 6).selectExpr("id AS a"))
        folder = plan_of(lake).table.path
    with store.connect() as con:
        con.execute(f"COPY (SELECT 1::INTEGER AS a) TO '{folder}other.parquet'")
        con.execute(f"CALL ducklake_add_data_files('{store.alias}', 't', '{folder}other.parquet')")
    with store.open(spark) as lake:
        paths = {path for path, _ in registered(plan_of(lake))}
        assert paths - set(known_contents(plan_of(lake))) == {f"{folder}other.parquet"}
        assert sorted(lake.table("t").scan().to_native().collect()) == [(1,), (3,), (4,), (5,)]


def of_table(private: SparkSession, lake: AttachedLake, columns: list[str] | None = None) -> list[Group]:
    return groups(private, plan_scan(lake.reader, "t", lake.newest, columns))


def test_files_of_ducklake_need_no_footers(
    private: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(3)))
    file_lake.run("DELETE FROM lake.t WHERE a = 7", "INSERT INTO lake.t SELECT * FROM range(9)")
    file_lake.run("DELETE FROM lake.t WHERE a = 8")
    monkeypatch.setattr(groups_module, "footers", None)
    found = of_table(private, file_lake)
    assert sorted((len(group.files), group.has_deletes) for group in found) == [(1, True), (3, False)]
    for group in found:
        assert (group.is_assumed, group.is_mapped, group.by_duckdb, group.can_filter) == (True, False, False, True)
        assert group.snapshot_filter is None


# Messages of Spark 4.0 and of Spark 4.2.
MISSING = "Class org.apache.hadoop.io.compress.{}Codec was not found"
OTHER_WORDS = "java.lang.ClassNotFoundException: org.apache.hadoop.io.compress.{}Codec not found"
FILE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://b/a%20b/x.parquet. SQLSTATE: KD001\n"


def test_missing_codec_and_its_file_are_named() -> None:
    for text in (MISSING, OTHER_WORDS):
        error = missing_codec(RuntimeError(FILE + text.format("Brotli")))
        assert error is not None
        named = "the file s3a://b/a%20b/x.parquet: it is compressed with BROTLI, and Spark has no such codec"
        assert error.message == f"Spark cannot read {named}"
        assert error.hint == (
            "read the table with DuckDB: store.open(); or set the lake's option parquet_compression to 'zstd' and "
            "write the table again"
        )
    error = missing_codec(RuntimeError(MISSING.format("Lzo")))
    assert error is not None
    assert error.message.startswith("Spark cannot read a file: it is compressed with LZO,")
    for text in ("", FILE, "org.apache.hadoop.io.compress.BrotliCodec failed", "Codec was not found"):
        assert missing_codec(RuntimeError(text)) is None


def column(type_name: str = "varchar", field_id: int = 4) -> Column:
    return Column(field_id, "P", type_name, nullable=True, initial_default=None)


def plan_with(*columns: Column, source_name: str = "p") -> ScanPlan:
    mappings = tuple(NameMapping(source_name, each.field_id, in_path=True) for each in columns)
    other = NameMapping("other", 1)
    table = TableInfo(1, "main", "t", columns, "/t/")
    return ScanPlan(5, table, columns, (), {3: (other, *mappings)}, ())


def file_of(path: str) -> DataFile:
    return DataFile(1, path, 10, 100, row_id_start=7, begin_snapshot=2, mapping_id=3)


@pytest.mark.parametrize(
    "path", ["/t/f.parquet", "/t/q=7/f.parquet", "/t/p=1=2/f.parquet", "/t/a/p=7", "/t/p/f.parquet"]
)
def test_path_without_the_value_is_rejected(path: str) -> None:
    with pytest.raises(StorageError) as refused:
        path_text(plan_with(column()), file_of(path), column())
    assert refused.value.message == f"the path of {path} has no value for 'P': no folder P=…"


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(StorageError, match=r"^the value of 'P' in the path of /t/p=%FF/f\.parquet is not UTF-8$"):
        path_text(plan_with(column()), file_of("/t/p=%FF/f.parquet"), column())


TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT"),
    *("FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "VARCHAR", "JSON", "BLOB", "UUID", "DATE", "TIME", "TIMETZ"),
    *("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ", "INTERVAL"),
    *(("GEOMETRY", "VARIANT") if reads_file_with(["variant"]) else ()),
)


def without_spaces(stored: Stored) -> Stored:
    """`decimal(5, 2)` and `decimal(5,2)` are the same type."""
    return Stored(stored.name, stored.field_id, stored.type.replace(" ", ""), stored.children)


def read(spark: SparkSession, *paths: Path | str) -> list[Stored]:
    return footers(private_session(spark), [(str(path), Path(path).stat().st_size) for path in paths])


def test_types_that_ducklake_writes(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(f"CREATE TABLE lake.t ({', '.join(f'c{number} {name}' for number, name in enumerate(TYPES))})")
    values = {"VARIANT": "1::VARIANT", "GEOMETRY": "'POINT(1 2)'::GEOMETRY"}
    file_lake.run(f"INSERT INTO lake.t SELECT {', '.join(values.get(name, 'NULL') for name in TYPES)}")
    plan = plan_scan(file_lake.reader, "t", file_lake.newest)
    (found,) = read(spark, plan.files[0].path)
    assert (found.field_id, found.type) == (None, "struct")
    assert found.name.startswith("DuckDB version")
    fields = [without_spaces(field) for field in found.children]
    in_files = {"int128": "float64"}
    expected = [(one.name, one.field_id, in_files.get(one.type, one.type.replace(" ", ""))) for one in plan.columns]
    assert [(field.name, field.field_id, field.type) for field in fields] == expected
    assert all(field.children == () for field in fields)


def is_in_utc(times: pa.Array) -> bool:
    """Whether this version of pyarrow writes times of day as times in UTC."""
    file = io.BytesIO()
    pq.write_table(pa.table({"x": times}), file)
    return bool(json.loads(pq.ParquetFile(file).schema.column(0).logical_type.to_json())["isAdjustedToUTC"])


def test_types_of_other_writers(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array([0], pa.time32("ms"))
    columns = {
        MILLISECONDS: pa.array([0], pa.timestamp("ms", "UTC")),
        "timestamp_ms": pa.array([0], pa.timestamp("ms")),
        "FIXED_LEN_BYTE_ARRAY": pa.array([b"abc"], pa.binary(3)),
        f"INT32 TIME(MILLIS,{str(is_in_utc(times)).lower()})": times,
        "blob": pa.array([b"a"], pa.binary()),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    (found,) = read(spark, path)
    assert found.name.startswith("parquet-cpp-arrow")
    assert {field.name: (field.type, field.field_id) for field in found.children} == {
        name: (name, None) for name in columns
    }
    pq.write_table(pa.table({"x": pa.array([0], pa.timestamp("ns"))}), path, use_deprecated_int96_timestamps=True)
    assert read(spark, path)[0].children == (Stored("x", None, "INT96"),)


def test_lists_of_old_writers_are_no_lists(spark: SparkSession, tmp_path: Path) -> None:
    """Spark returns such a list in another way than DuckDB."""
    path = tmp_path / "a.parquet"
    metadata = "message m { optional group l (LIST) { repeated int32 array; } repeated int64 r; }"
    write_schema(spark, metadata, path)
    (found,) = read(spark, path)
    assert found.children == (
        Stored("l", None, "legacy LIST", (Stored("array", None, "REPEATED int32"),)),
        Stored("r", None, "REPEATED int64"),
    )


def write_schema(spark: SparkSession, schema: str, path: Path) -> None:
    """Writes a file without rows that has a schema of Parquet."""
    jvm = jvm_of(spark)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("parquet.example.schema", schema)
    target = jvm.org.apache.hadoop.fs.Path(f"file://{path}")
    kind = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(schema)
    out = jvm.org.apache.parquet.hadoop.ParquetFileWriter(configuration, kind, target)
    out.start()
    out.end(jvm.java.util.HashMap())


def test_files_with_one_schema_share_it_and_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_schemas, "_cache", type(file_schemas._cache)())
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for rows, path in enumerate(paths, start=1):
        pq.write_table(pa.table({"a": pa.array(range(rows))}), path)
    first, second, _ = read(spark, *paths)
    assert first is second
    sizes = {str(path): path.stat().st_size for path in paths}
    assert dict(file_schemas._cache) == dict.fromkeys(sizes.items(), first)

    def unread(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(file_schemas, "read_footers", unread)
    monkeypatch.setattr(file_schemas, "_CACHED_FILES", 2)
    assert read(spark, *paths)[1] is second
    assert len(file_schemas._cache) == 2


def test_file_that_is_not_parquet_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("damaged, and longer than a footer")
    with pytest.raises(StorageError, match=r"a file of the table is not Parquet, .*: .*a\.parquet") as failed:
        read(spark, tmp_path / "a.parquet")
    assert failed.value.__suppress_context__


def test_calls_into_the_jvm_do_not_depend_on_the_number_of_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_schemas, "_cache", type(file_schemas._cache)())
    for rows in range(1, 61):
        pq.write_table(pa.table({"a": range(rows)}), tmp_path / f"{rows}.parquet")
    paths = sorted(tmp_path.glob("*.parquet"))
    read(spark, paths[0])
    with counted_calls(spark) as few:
        read(spark, *paths[1:10])
    with counted_calls(spark) as many:
        read(spark, *paths[10:])
    assert few.count == many.count


def test_a_full_cache_forgets_files_of_another_thread_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_schemas, "_CACHED_FILES", 1)
    monkeypatch.setattr(file_schemas, "_cache", OrderedDict())
    known = Stored("known", None, "int32")
    assert file_schemas.remembered([("a", 1)], lambda _: [known]) == [known]

    def read(files: Sequence[tuple[str, int]]) -> list[Stored]:
        file_schemas.remembered([("c", 1)], lambda _: [known])  # what another thread does meanwhile
        return [known for _ in files]

    assert file_schemas.remembered([("a", 1), ("b", 1)], read) == [known, known]
