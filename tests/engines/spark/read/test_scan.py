"""`read` returns the rows of a plan, filters are those of DuckDB, and engines with another reader are rejected."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from jvm_calls import counted_calls, execution_of, jvm_of
from pyspark import SparkConf
from spark_rows import access_to

from lakeconf.catalog.pruning.predicates import Comparison, In
from lakeconf.catalog.pruning.scan_plan import plan_scan, plan_with_inlined_rows
from lakeconf.catalog.tables import Column
from lakeconf.ducklake import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.engine import FILENAME, ROW_ID
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.engines.spark.read.native_scan import read
from lakeconf.engines.spark.read.spark_filters import to_spark
from lakeconf.engines.spark.spark_types import spark_type
from lakeconf.engines.spark.versions import refuse_accelerators
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_lake import AttachedLake
    from pyspark.sql import SparkSession

    from lakeconf.catalog.pruning.predicates import Predicate


def rows(
    spark: SparkSession,
    lake: AttachedLake,
    *,
    version: int | None = None,
    columns: Sequence[str] | None = None,
    ids: bool = False,
) -> list[tuple[Any, ...]]:
    plan, inlined = plan_with_inlined_rows(lake.reader, "t", version or lake.newest, columns)
    return sorted(tuple(row) for row in read(spark, access_to(lake), plan, inlined, row_ids=ids).collect())


def with_ids(lake: AttachedLake) -> list[tuple[Any, ...]]:
    """The rows with DuckDB's virtual columns, sorted; inlined rows have no file."""
    in_file = "filename NOT LIKE 'ducklake_inlined%'"
    files = lake.metadata("SELECT path, data_file_id FROM ducklake_data_file")
    ids = " ".join(f"WHEN ends_with(filename, '{path}') THEN {number}" for path, number in files)
    places = ("filename", f"CASE {ids} END", "file_row_number")
    virtual = ", ".join(f"CASE WHEN {in_file} THEN {column} END" for column in places)
    return sorted(lake.rows(f"SELECT *, rowid, snapshot_id, {virtual} FROM lake.t"))


@pytest.mark.slow
def test_ids_of_rows_are_those_of_duckdb(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    """In files with and without deletes, in merged and rewritten files that contain the ids, and in the catalog."""
    inlining_lake.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t FROM range(100, 120)")
    inlining_lake.run("INSERT INTO lake.t FROM range(200, 220)", "CALL ducklake_merge_adjacent_files('lake')")
    inlining_lake.run("INSERT INTO lake.t FROM range(300, 320)", "DELETE FROM lake.t WHERE a >= 200 AND a < 215")
    inlining_lake.run("UPDATE lake.t SET a = a + 1000 WHERE a % 2 = 0", "INSERT INTO lake.t VALUES (1), (2)")
    inlining_lake.run("DELETE FROM lake.t WHERE a = 2")
    found = rows(spark, inlining_lake, ids=True)
    assert found == with_ids(inlining_lake)
    assert {path is None for *_, path, _, _ in found} == {True, False}


@pytest.mark.parametrize("name", [ROW_ID, FILENAME])
def test_columns_with_the_names_of_ids_are_refused_only_with_ids(
    spark: SparkSession, file_lake: AttachedLake, name: str
) -> None:
    file_lake.run(f'CREATE TABLE lake.t ("{name}" INTEGER)', "INSERT INTO lake.t VALUES (1)")
    assert rows(spark, file_lake) == [(1,)]
    with pytest.raises(UnsupportedError, match="reserves for the ids of rows") as raised:
        rows(spark, file_lake, ids=True)
    assert raised.value.hint == "rename the column, or use DuckDB: store.open()"


def test_names_that_ducklake_gives_to_stored_ids_are_ordinary_names(
    spark: SparkSession, file_lake: AttachedLake
) -> None:
    names = ", ".join(f'"{column.name}_" INTEGER' for column in (INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID))
    file_lake.run(f"CREATE TABLE lake.t ({names})", "INSERT INTO lake.t VALUES (1, 2)")
    assert [row[:2] for row in rows(spark, file_lake, ids=True)] == [(1, 2)]


@pytest.mark.slow
def test_calls_into_the_jvm_do_not_depend_on_the_number_of_files(spark: SparkSession, file_lake: AttachedLake) -> None:
    """Each partition has a file without deletes and one with deletes."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER, i INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (a)")
    found = []
    for first, last in ((0, 6), (6, 132)):
        for sign in ("", "-"):
            file_lake.run(f"INSERT INTO lake.t SELECT i // 2, {sign}i FROM range({first}, {last}) AS r(i)")
        file_lake.run("DELETE FROM lake.t WHERE i < 0 AND i % 2 = 0")
        plan = plan_scan(file_lake.reader, "t", file_lake.newest)
        read(spark, access_to(file_lake), plan, None)  # compiles a class when it is the first one
        with counted_calls(spark) as calls:
            read(spark, access_to(file_lake), plan, None)
        found.append((len(plan.files), len([file for file in plan.files if file.delete_file]), calls.count))
    assert [counts[:2] for counts in found] == [(6, 2), (132, 65)]
    assert found[0][2] == found[1][2]


SETTINGS = {
    "RAPIDS": ("spark.plugins", "com.nvidia.spark.SQLPlugin"),
    "Gluten": ("spark.plugins", "org.apache.gluten.GlutenPlugin"),
    "Gluten before Apache": ("spark.plugins", "io.glutenproject.GlutenPlugin"),
    "Comet": ("spark.plugins", "org.apache.spark.CometPlugin"),
    "Comet by its extension": ("spark.sql.extensions", "org.apache.comet.CometSparkSessionExtensions"),
    "Blaze": ("spark.sql.extensions", "org.apache.spark.sql.blaze.BlazeSparkSessionExtension"),
    "Auron": ("spark.sql.extensions", "org.apache.spark.sql.auron.AuronSparkSessionExtension"),
    "Photon": ("spark.databricks.clusterUsageTags.runtimeEngine", "PHOTON"),
}
HARMLESS = ("io.delta.sql.DeltaSparkSessionExtension", "org.apache.sedona.sql.SedonaSqlExtensions")


def with_setting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    """Sets a setting of the running application that can only be set at startup."""
    configuration = SparkConf(_jvm=jvm_of(spark)).setAll(spark.sparkContext.getConf().getAll())
    monkeypatch.setattr(spark.sparkContext, "_conf", configuration.set(key, value))


@pytest.mark.parametrize("engine", SETTINGS)
def test_engine_that_replaces_the_parquet_reader_is_rejected(
    spark: SparkSession, engine: str, monkeypatch: pytest.MonkeyPatch, file_lake: AttachedLake
) -> None:
    key, value = SETTINGS[engine]
    with_setting(spark, monkeypatch, key, f"{HARMLESS[0]},{value}" if "runtime" not in key else value)
    with pytest.raises(UnsupportedError, match=f"uses {engine.split()[0]} ") as caught:
        SparkEngine(spark, file_lake.reader, file_lake.reader.connection, {}, access_to(file_lake))
    assert value in str(caught.value)
    assert "read and write with DuckDB" in str(caught.value)


def test_other_extensions_are_accepted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with_setting(spark, monkeypatch, "spark.sql.extensions", ",".join(HARMLESS))
    refuse_accelerators(spark)


def column(type_name: str, name: str = "x") -> Column:
    return Column(3, name, type_name, nullable=True, initial_default=None)


VALUES = [
    ("boolean", True, "true", "false"),
    ("int8", -3, "-3Y", "4Y"),
    ("uint64", 2**64 - 1, "18446744073709551615BD", "1BD"),
    *(("int128", value, f"{value}BD", "1BD") for value in (2**100, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1)),
    ("float32", 0.5, "0.5F", "0.25F"),
    ("float64", float("nan"), "double('nan')", "1D"),
    ("decimal(9,2)", Decimal("1.50"), "1.50BD", "1.51BD"),
    ("varchar", "it's \\", r"'it\'s \\'", "'b'"),
    ("blob", b"\x00\xff", "X'00ff'", "X'00'"),
    ("date", dt.date(2024, 2, 29), "DATE '2024-02-29'", "DATE '2024-02-28'"),
    ("date", dt.date(1582, 10, 15), "DATE '1582-10-15'", "DATE '1582-10-14'"),
    ("date", dt.date(1500, 3, 1), "DATE '1500-03-01'", "DATE '1500-02-28'"),
    ("timestamp", dt.datetime(2024, 1, 1, 1, 2, 3, 4), "TIMESTAMP_NTZ '2024-01-01 01:02:03.000004'", "NULL"),
    ("timestamp", dt.datetime(1500, 1, 1), "TIMESTAMP_NTZ '1500-01-01 00:00:00'", "NULL"),
    *(
        ("timestamptz", dt.datetime(2024, 7, 1, tzinfo=zone), "TIMESTAMP '2024-07-01 00:00:00Z'", "NULL")
        for zone in (dt.UTC, None)
    ),
    ("timestamptz", dt.datetime(1883, 7, 1, 0, 0, 0, 5, dt.UTC), "TIMESTAMP '1883-07-01 00:00:00.000005Z'", "NULL"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("type_name", "value", "same", "other"), VALUES)
def test_values_have_the_type_of_the_column(
    spark: SparkSession, type_name: str, value: Any, same: str, other: str
) -> None:
    kind = column(type_name)
    text = spark_type(kind).simpleString()
    frame = spark.sql(f"SELECT CAST(value AS {text}) AS x FROM VALUES ({same}), ({other}) AS given (value)")
    for predicate in (Comparison(kind, "=", value), In(kind, (value,))):
        filtered = frame.where(to_spark(predicate))
        assert filtered.count() == 1
        assert "cast(x" not in execution_of(filtered).optimizedPlan().toString().lower()


def condition(spark: SparkSession, predicate: Predicate, kind: str) -> str:
    """The filter as Spark shows it."""
    frame = spark.range(1).selectExpr(f"CAST(NULL AS {kind}) AS x").where(to_spark(predicate))
    return str(execution_of(frame).analyzed().toString())


def test_only_old_dates_and_times_are_compared_as_numbers(spark: SparkSession) -> None:
    """Spark pushes other filters down to the statistics in files."""
    for day, as_number in ((dt.date(1582, 10, 14), True), (dt.date(1582, 10, 15), False)):
        assert ("unix_date" in condition(spark, Comparison(column("date"), "<", day), "DATE")) is as_number
    for moment, as_number in (
        (dt.datetime(1900, 12, 31, 23, 59, 59, 999_999, dt.UTC), True),
        (dt.datetime(1901, 1, 1, tzinfo=dt.UTC), False),
    ):
        text = condition(spark, Comparison(column("timestamptz"), "<", moment), "TIMESTAMP")
        assert ("unix_micros" in text) is as_number
    mixed = In(column("date"), (dt.date(2024, 1, 1), dt.date(1500, 1, 1)))
    assert "unix_date" in condition(spark, mixed, "DATE")


@pytest.mark.parametrize("value", [10**38, -(10**38)])
def test_number_with_more_than_38_digits_is_rejected(spark: SparkSession, value: int) -> None:
    kind = column("int128", "n`n")
    with pytest.raises(UnsupportedError) as refused:
        to_spark(Comparison(kind, "<", value))
    assert refused.value.message == (
        f"the column 'n`n' cannot be compared with {value} on Spark, whose numbers have 38 digits"
    )
    assert refused.value.hint == "read the table with DuckDB"
    to_spark(Comparison(kind, "<", 10**38 - 1))
