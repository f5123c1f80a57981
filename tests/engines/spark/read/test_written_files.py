"""Files that lakeconf wrote with Spark are read without their footers; groups of files; values in paths; codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.engines.spark.read import groups as groups_module
from lakeconf.engines.spark.read.file_index import Stored, footers
from lakeconf.engines.spark.read.groups import Group, groups, known_contents, path_text
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.write.storage import missing_codec
from lakeconf.errors import StorageError
from lakeconf.inspection.verify import verify

if TYPE_CHECKING:
    from catalog_lake import Lake
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
    return plan_scan(lake._session.reader, table, lake.snapshots()[-1].snapshot_id, columns)


def registered(plan: ScanPlan) -> list[tuple[str, int]]:
    """The path and the size of each file that is read by name."""
    return [(file.path, file.file_size_bytes) for file in plan.files if file.mapping_id is not None]


def normal(stored: Stored) -> tuple[object, ...]:
    """A field without the names of elements, keys and values, which are found by position."""
    by_position = stored.type in ("list", "map")
    return stored.name, stored.type, tuple(normal(child)[by_position:] for child in stored.children)


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


def of_table(private: SparkSession, lake: Lake, columns: list[str] | None = None) -> list[Group]:
    return groups(private, plan_scan(lake.reader, "t", lake.newest, columns))


def test_files_of_ducklake_need_no_footers(private: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(3)))
    files.run("DELETE FROM lake.t WHERE a = 7", "INSERT INTO lake.t SELECT * FROM range(9)")
    files.run("DELETE FROM lake.t WHERE a = 8")
    monkeypatch.setattr(groups_module, "footers", None)
    found = of_table(private, files)
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
