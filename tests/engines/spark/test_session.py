"""A scan does not depend on the settings of the user's session; versions of Spark; jobs of the engine."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from catalog_lake import lake
from packaging.requirements import Requirement
from pyspark.sql import SparkSession
from source_tree import project_file
from spark_rows import access_to, scan
from strength import PROVE

from lakeconf.catalog.tables import load_table
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.sessions import from_arrow, private_session
from lakeconf.engines.spark.table_check import check
from lakeconf.engines.spark.versions import TESTED, check_streams, check_version, reads_file_with
from lakeconf.engines.spark.write.storage import run_job
from lakeconf.errors import SchemaError, SparkError, SparkVersionError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame

    from lakeconf import Store
    from lakeconf.engines.fingerprints import TableCheck

# Each could change what Spark reads from a Parquet file or computes. Boolean settings are flipped.
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoredPathSegmentRegex": ".*",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.columnarReaderBatchSize": "3",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.recordLevelFilter.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.variant.allowReadingShredded": "false",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
COLUMNS = {
    "s": ("STRUCT(x INTEGER, y VARCHAR)", "{'x': i, 'y': 'y' || i}"),
    **({"v": ("VARIANT", "{'k': i}::VARIANT")} if reads_file_with(["variant"]) else {}),
    "ts": ("TIMESTAMP", "TIMESTAMP '1500-01-01' + to_seconds(i)"),
    "tz": ("TIMESTAMPTZ", "TIMESTAMPTZ '1500-01-01 00:00:00+00' + to_seconds(i)"),
    "ns": ("TIMESTAMP_NS", "TIMESTAMP_NS '2020-01-01 00:00:00.123456'"),
    "d": ("DATE", "DATE '1500-01-01' + i::INTEGER"),
    "t": ("TIME", "TIME '12:34:56.5'"),
    "u": ("UUID", "'550e8400-e29b-41d4-a716-446655440000'::UUID"),
    "h": ("HUGEINT", "i"),
    "b": ("BLOB", "'\\xAA\\x5C'::BLOB"),
    "n": ("DECIMAL(10,2)", "i / 4"),
    "m": ("MAP(VARCHAR, TIME)", "MAP {'k': TIME '01:02:03'}"),
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedLake]:
    """A lake with many types and schema changes."""
    folder: Path = tmp_path_factory.mktemp("rich")
    with lake("duckdb", folder, options=", DATA_INLINING_ROW_LIMIT 0") as source:
        source.run(f"CREATE TABLE lake.t (A INTEGER, {', '.join(f'{name} {t}' for name, (t, _) in COLUMNS.items())})")
        row = ", ".join(value for _, value in COLUMNS.values())
        source.run(f"INSERT INTO lake.t SELECT i, {row} FROM range(50) r(i)")
        source.run("ALTER TABLE lake.t RENAME b TO c", "ALTER TABLE lake.t ADD COLUMN b VARCHAR DEFAULT 'a\\n''b\"'")
        source.run("ALTER TABLE lake.t ADD COLUMN e TIMESTAMPTZ DEFAULT '2024-07-01 00:00:00+02'")
        source.run(
            "ALTER TABLE lake.t ADD COLUMN f DOUBLE DEFAULT 0.1", "ALTER TABLE lake.t ALTER n TYPE DECIMAL(12,4)"
        )
        source.run("ALTER TABLE lake.t ADD COLUMN s.z INTEGER DEFAULT 4", "INSERT INTO lake.t SELECT * FROM lake.t")
        source.run("DELETE FROM lake.t WHERE A % 7 = 1", "ALTER TABLE lake.t RENAME s TO struct")
        yield source


def rows(frame: DataFrame) -> list[str]:
    """The rows as text that does not depend on the session's time zone."""
    zoned = [name for name, type_ in frame.dtypes if type_ == "timestamp"]
    return sorted(
        str(tuple(row))
        for row in frame.selectExpr(
            *(
                f"unix_micros(`{n}`)" if n in zoned else f"to_json(`{n}`)" if n == "v" else f"`{n}`"
                for n in frame.columns
            )
        ).collect()
    )


@pytest.fixture(scope="module")
def expected(spark: SparkSession, rich: AttachedLake) -> list[str]:
    """The rows with the default settings of the session."""
    found = rows(scan(spark, rich, "t"))
    assert len(found) == 86
    return found


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session; its settings are restored after the test."""
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    yield spark
    for key, value in before.items():
        spark.conf.unset(key)
        if value is not None and spark.conf.get(key, None) != value:
            spark.conf.set(key, value)


# Each setting alone in `make prove`; otherwise in groups.
CHANGED = [[name] for name in SETTINGS] if PROVE else [list(SETTINGS)[first::2] for first in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("changed", CHANGED, ids=" ".join)
def test_changed_setting_does_not_change_rows(
    settings: SparkSession, rich: AttachedLake, expected: list[str], changed: list[str]
) -> None:
    frame = scan(settings, rich, "t")
    filtered = frame.where("f = 0.1D AND A < 10 AND e IS NOT NULL")
    for setting in changed:
        settings.conf.set(setting, SETTINGS[setting])
    assert rows(frame) == expected
    assert filtered.count() == 16
    assert rows(scan(settings, rich, "t")) == expected, "nor if it was changed before the scan"


@pytest.mark.slow
def test_frame_belongs_to_the_users_session(spark: SparkSession, rich: AttachedLake) -> None:
    frame = scan(spark, rich, "t", columns=["A", "u"])
    assert frame.sparkSession is spark
    assert [field.metadata for field in frame.schema] == [{}, {}]
    other = spark.createDataFrame([(1, "one"), (2, "two")], "A INT, word STRING")
    assert frame.join(other, "A").count() == 2
    frame.createOrReplaceTempView("seen_by_sql")
    assert spark.sql("SELECT count(*) FROM seen_by_sql JOIN seen_by_sql USING (A)").collect()[0][0] == 172


@pytest.mark.slow
def test_application_settings_do_not_affect_a_scan(
    spark: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session starts with these settings, whatever the user's session has now."""
    monkeypatch.setattr(scan_source, "_MOST_POSITIONS", -1)
    file_lake.run("CREATE TABLE lake.t AS SELECT i AS a FROM range(100) r(i)", "DELETE FROM lake.t WHERE a < 10")
    given = {"spark.sql.retainGroupColumns": "false", "spark.sql.groupByOrdinal": "false"}
    started = spark.sparkContext._jsc.sc().conf()
    for key, value in given.items():
        started.set(key, value)
    try:
        private = private_session(spark)
        assert not {key for key in given if private.conf.get(key) == given[key]}
        assert scan(spark, file_lake, "t").count() == 90
    finally:
        for key in given:
            started.remove(key)


@pytest.mark.slow
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_of_arrow_are_not_truncated_at_any_depth(spark: SparkSession, zone: str | None) -> None:
    kind = pa.timestamp("ns", zone)
    for type_, value in (
        (kind, lambda ns: ns),
        (pa.list_(kind), lambda ns: [ns]),
        (pa.large_list(kind), lambda ns: [ns]),
        (pa.struct({"a": kind}), lambda ns: {"a": ns}),
        (pa.map_(pa.string(), kind), lambda ns: [("k", ns)]),
        (pa.list_view(kind), lambda ns: [ns + 1]),
    ):
        if type_ != pa.list_view(kind):
            from_arrow(spark, pa.table({"x": pa.array([value(1000)], type_)}))
        with pytest.raises(SchemaError, match="Spark cannot convert the frame"):
            from_arrow(spark, pa.table({"x": pa.array([value(1001)], type_)}))


def test_unsigned_integers_of_arrow_are_widened_at_any_depth(spark: SparkSession) -> None:
    table = pa.table(
        {"a": pa.array([[255]], pa.list_(pa.uint8())), "b": pa.array([{"x": 2**64 - 1}], pa.struct({"x": pa.uint64()}))}
    )
    assert from_arrow(spark, table).collect() == [([255], (Decimal(2**64 - 1),))]
    found = from_arrow(spark, pa.Table.from_batches([], table.schema))
    assert (found.count(), found.dtypes) == (0, [("a", "array<smallint>"), ("b", "struct<x:decimal(20,0)>")])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.duration("ns")),
        pa.array([2**50], pa.timestamp("s")),
        pa.nulls(1, pa.decimal256(50, 2)),
        pa.array([np.float16(0.5)], pa.float16()),
    ],
    ids=lambda column: str(column.type),
)
def test_values_of_arrow_that_spark_lacks_are_rejected(spark: SparkSession, column: pa.Array) -> None:
    with pytest.raises(SchemaError, match=r"Spark cannot convert the frame(.|\n)*write with DuckDB"):
        from_arrow(spark, pa.table({"x": column}))


OTHERS = ["3.5.8", "4.20.0", "4.4.0", "5.0.0", "14.3.0", "3.5.8-amzn-0", "unknown", ""]
SAME = ["4.0.2-amzn-0", "4.1.4", "4.2.1", "4.3.0", "4.3.12", "4.3.1.dev0"]


@pytest.mark.parametrize("version", OTHERS)
def test_untested_spark_version_opens_no_lake(
    version: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkSession, "version", property(lambda _: version))
    with pytest.raises(SparkVersionError, match=r"lakeconf supports Spark 4\.0 to 4\.3") as caught:
        store.open(spark)
    assert isinstance(caught.value, SparkError)
    assert repr(version) in caught.value.message
    assert "pip install 'lakeconf[spark]'" in str(caught.value)
    assert "store.open()" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", SAME)
def test_tested_spark_version_is_accepted(version: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    check_version(spark)
    assert spark.version.startswith(tuple(f"{tested}." for tested in TESTED))
    monkeypatch.setattr(SparkSession, "version", property(lambda _: version))
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    check_version(spark)


def test_pyspark_may_be_newer_than_the_server_since_4_2(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older server does not know the settings that pyspark asks for before it sends rows."""
    outcomes = {}
    for pair in (("4.3.0", "4.0.2-amzn-0"), ("4.1.4", "4.0.5"), ("4.3.0", "4.1.4"), ("4.3.0", "4.2.1")):
        monkeypatch.setattr(pyspark, "__version__", pair[0])
        monkeypatch.setattr(SparkSession, "version", property(partial(str.format, pair[1])))
        try:
            check_version(spark)
        except SparkVersionError as error:
            outcomes[pair] = error.hint
    assert list(outcomes) == [("4.3.0", "4.0.2-amzn-0"), ("4.1.4", "4.0.5"), ("4.3.0", "4.1.4")]
    assert outcomes["4.3.0", "4.1.4"] == "install the pyspark of the server: pip install 'pyspark[connect]==4.1.*'"


def test_streams_of_the_data_source_need_spark_4_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.0-amzn-1")
    check_streams()
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    with pytest.raises(UnsupportedError, match=r"need Spark 4\.2 or newer, and this is 4\.1\.4"):
        check_streams()


def test_spark_extra_installs_only_the_tested_versions() -> None:
    lines = map(Requirement, project_file()["optional-dependencies"]["spark"])
    (pyspark,) = (line for line in lines if line.name == "pyspark")
    assert pyspark.marker is None
    others = ["3.5.8", "4.4.0", "5.0.0"]
    every = [*others, *(f"{tested}.{patch}" for tested in TESTED for patch in (0, 9))]
    assert [version for version in every if version not in pyspark.specifier] == others


@pytest.fixture
def engine(spark: SparkSession, inlining_lake: AttachedLake) -> Iterator[SparkEngine]:
    inlining_lake.run(
        "CREATE TABLE lake.t (a BIGINT NOT NULL, b VARCHAR)", "INSERT INTO lake.t VALUES (1, 'x'), (2, 'y')"
    )
    with inlining_lake.connection.cursor() as writer:
        writer.execute("USE lake")
        yield SparkEngine(spark, inlining_lake.reader, writer, {}, access_to(inlining_lake))


def test_frame_of_another_application_is_rejected(engine: SparkEngine, spark: SparkSession) -> None:
    frame = spark.range(2)
    assert engine.adopt(frame) is frame
    assert engine.schema(engine.adopt(pa.table({"a": [1]}))) == {"a": "BIGINT"}
    running = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    engine._session = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(_jsc=running)))
    with pytest.raises(SparkError, match=r"belongs to another Spark application(.|\n)*frame\.sparkSession"):
        engine.adopt(frame)


TYPE = "VARIANT" if reads_file_with(["variant"]) else "JSON"
ROWS = f"FROM (VALUES (1, 'x', 1::{TYPE}), (2, NULL, NULL), (3, 'z', 2::{TYPE})) AS v (a, b, v)"


def checked(spark: SparkSession, lake: AttachedLake, change: str = "") -> TableCheck:
    frame = scan(spark, lake, "t")
    table = load_table(lake.reader, "t", lake.newest)
    return check(frame.selectExpr(*change.split(";")) if change else frame, lake.reader, table, lake.newest)


@pytest.mark.slow
def test_column_that_spark_reads_differently_is_found(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run(f"CREATE TABLE lake.t (a INTEGER, b VARCHAR, v {TYPE})", f"INSERT INTO lake.t {ROWS}")
    found = checked(spark, file_lake, "a + 0 AS a;coalesce(b, '') AS b;v")
    assert [one.equal for one in found.columns] == [True, False, True]
    assert (found.columns[1].duckdb.values, found.columns[1].spark.values) == (2, 3)


def test_job_inherits_the_properties_of_the_callers_thread(spark: SparkSession) -> None:
    seen: list[Any] = []
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "planted")
    try:
        run_job(spark, lambda: seen.append(spark.sparkContext.getLocalProperty("spark.scheduler.pool")), "0a1b")
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    assert seen == ["planted"]
