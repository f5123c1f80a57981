"""Spark reads a lake through the data source `lakeconf`, without registration, and as a stream of all changes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jvm_calls import execution_of
from local_stores import in_bucket
from pyspark.errors import PySparkException
from pyspark.sql import functions
from source_project import open_lake, source_of

import lakeconf
from lakeconf.config.toml_text import toml_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from servers import S3Server

    from lakeconf import Lake

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def with_filters(spark: SparkSession) -> Iterator[None]:
    """Filters reach data sources in Python."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


# The columns of a table: the type, a value in DuckDB's SQL, and the value in Python.
VALUES: dict[str, tuple[str, str, object]] = {
    "id": ("BIGINT", "1", 1),
    "name": ("VARCHAR", "'ü'", "ü"),
    "price": ("DECIMAL(10,2)", "1.5", Decimal("1.50")),
    "day": ("DATE", "'2026-01-02'", date(2026, 1, 2)),
    "at": ("TIMESTAMPTZ", "'2026-01-02 03:04:05.678901+00'", datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)),
    "tags": ("VARCHAR[]", "['a', NULL]", ["a", None]),
    "inner": ("STRUCT(x INTEGER, y VARCHAR)", "{'x': 1, 'y': NULL}", {"x": 1, "y": None}),
    "of": ("MAP(VARCHAR, INTEGER)", "MAP {'k': 1}", [("k", 1)]),
    "big": ("UBIGINT", "18446744073709551615", Decimal(2**64 - 1)),
    "raw": ("BLOB", "'\\x00x'::BLOB", b"\0x"),
    "flag": ("BOOLEAN", "true", True),
    "key": ("UUID", "'550e8400-e29b-41d4-a716-446655440000'", "550e8400-e29b-41d4-a716-446655440000"),
}


def test_a_table_is_read_with_its_types(spark: SparkSession, project: Path) -> None:
    with open_lake(project) as lake:
        lake.create_table("raw.events", {name: type_ for name, (type_, *_) in VALUES.items()})
        lake.execute(f"INSERT INTO raw.events VALUES ({', '.join(sql for _, sql, _ in VALUES.values())})")
        lake.execute(f"INSERT INTO raw.events VALUES ({', '.join('NULL' for _ in VALUES)})")
    rows = source_of(spark, project).load().toArrow().sort_by("id").to_pylist()
    assert rows == [{name: value for name, (*_, value) in VALUES.items()}, dict.fromkeys(VALUES)]


@pytest.mark.slow
def test_an_older_snapshot_and_some_columns_are_read(spark: SparkSession, events_folder: Path) -> None:
    with open_lake(events_folder) as lake:
        first = lake.table("raw.events").history()[1]
    frames = [
        source_of(spark, events_folder, version=first.snapshot_id, columns="kind").load(),
        source_of(spark, events_folder, timestamp=first.time.isoformat(), columns="kind").load(),
    ]
    assert [frame.collect() for frame in frames] == [[("view",), ("view",)]] * 2
    assert source_of(spark, events_folder, where="kind = 'buy'").load().collect() == [(3, "buy")]


@pytest.mark.slow
@pytest.mark.usefixtures("with_filters")
def test_a_frame_and_a_view_keep_their_snapshot_and_all_rows(spark: SparkSession, events_folder: Path) -> None:
    """Spark 4.3 would return only 3 for a union and a later query if the reader accepted filters."""
    frame = source_of(spark, events_folder).load()
    config = events_folder / "lakeconf.toml"
    spark.sql(f"CREATE TEMPORARY VIEW kept USING lakeconf OPTIONS (table 'raw.events', config '{config}')")
    with open_lake(events_folder) as lake:
        lake.table("raw.events").append([{"id": 4, "kind": "late"}])
    assert sorted(frame.where("id < 3").union(frame.where("id >= 3")).collect()) == [(2, "view"), (3, "buy")]
    assert sorted(frame.collect()) == [(2, "view"), (3, "buy")]
    assert spark.sql("SELECT count(*) FROM kept").collect() == [(2,)]
    assert source_of(spark, events_folder).load().count() == 3
    spark.catalog.dropTempView("kept")


@pytest.mark.slow
def test_problems_are_reported_when_the_frame_is_made(spark: SparkSession, events_folder: Path) -> None:
    with pytest.raises(PySparkException, match=r"TableNotFoundError: no table 'raw\.event'"):
        source_of(spark, events_folder, table="raw.event").load()
    with pytest.raises(PySparkException, match="the data source has no option 'password'") as refused:
        source_of(spark, events_folder, password="hunter2").load()
    assert "hunter2" not in str(refused.value)
    with pytest.raises(PySparkException, match="SchemaError: the data source has the schema of the table"):
        source_of(spark, events_folder).schema("id INT").load().collect()


@pytest.mark.slow
def test_plans_and_logs_contain_no_secret(
    spark: SparkSession, tmp_path: Path, s3_server: S3Server, spark_event_log: Path
) -> None:
    storage = in_bucket(s3_server)
    lines = "".join(f"{name} = {toml_value(value)}\n" for name, value in storage.items())
    metadata = '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "catalog.sqlite"\n'
    (tmp_path / "lakeconf.toml").write_text(f"{metadata}[stores.dev.storage_backend]\n{lines}")
    with open_lake(tmp_path) as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append([{"id": 42}])
    frame = source_of(spark, tmp_path).load()
    assert frame.collect() == [(42,)]
    texts = [execution_of(frame).toString(), *(path.read_text() for path in spark_event_log.rglob("events*"))]
    assert any(re.search(r"BatchScan lakeconf", text) for text in texts[1:])
    assert not any(s3_server.keys.secret in text for text in texts)


def sink_of(frame: DataFrame, folder: Path, mode: str = "append") -> Any:
    writer = frame.write.format("lakeconf").option("config", str(folder / "lakeconf.toml")).mode(mode)
    return writer.option("table", "raw.events")


@pytest.mark.slow
def test_a_frame_is_appended_as_one_snapshot_and_others_write_nothing(spark: SparkSession, events_folder: Path) -> None:
    frame = spark.range(10, 14, numPartitions=3).selectExpr("'new' AS kind", "id")
    failing = frame.withColumn("kind", functions.expr("if(id = 13, raise_error('this row was made to fail'), 'new')"))
    with pytest.raises(PySparkException, match="this row was made to fail"):
        sink_of(failing, events_folder).save()
    with pytest.raises(PySparkException, match="SchemaError"):
        sink_of(frame.drop("kind"), events_folder).save()
    assert not list((events_folder / "data").rglob("lakeconf-*.parquet"))
    with open_lake(events_folder) as lake:
        table = lake.table("raw.events")
        assert table.count() == 2
        sink_of(frame, events_folder).save()
        before = lake.snapshot_id
        assert lake.refresh() == before + 1
        assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [2, 3, 10, 11, 12, 13]
        assert table.history()[-1].changes == ("inserted_into_table",)
        assert all(Path(file.path).exists() for file in table.files())


@pytest.mark.slow
def test_overwrite_replaces_all_rows_in_one_snapshot(spark: SparkSession, events_folder: Path) -> None:
    with open_lake(events_folder) as lake:
        table = lake.table("raw.events")
        for ids in ([10, 11, 12], [7], []):
            frame = spark.createDataFrame([(number, "new") for number in ids], "id INT, kind STRING")
            before = lake.refresh()
            sink_of(frame, events_folder, "overwrite").save()
            assert lake.refresh() == before + 1
            assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == ids
        assert lake.at(version=before).table("raw.events").count() == 1
    assert not list((events_folder / "data").rglob("lakeconf-*.parquet"))


@pytest.mark.slow
def test_overwrite_does_not_lose_rows_that_others_add_meanwhile(spark: SparkSession, events_folder: Path) -> None:
    config = events_folder / "lakeconf.toml"

    def late(number: int) -> int:
        with lakeconf.init(config).get_store().open() as other:
            other.table("raw.events").append([{"id": 99, "kind": "late"}])
        return number

    frame = spark.range(1, numPartitions=1).select(functions.udf(late, "long", useArrow=False)("id").alias("id"))
    frame = frame.selectExpr("id", "'new' AS kind")
    with pytest.raises(PySparkException, match=r"raw\.events was read at snapshot \d+, and snapshot"):
        sink_of(frame, events_folder, "overwrite").save()
    with open_lake(events_folder) as lake:
        assert sorted(row["id"] for row in lake.table("raw.events").to_arrow().to_pylist()) == [2, 3, 99]


@pytest.mark.slow
def test_load_and_save_take_the_name_of_a_table(spark: SparkSession, events_folder: Path) -> None:
    config = str(events_folder / "lakeconf.toml")
    reader = spark.read.format("lakeconf").option("config", config)
    reader.load("raw.events").write.format("lakeconf").option("config", config).mode("append").save("raw.events")
    assert reader.load("raw.events").count() == 4
    with pytest.raises(PySparkException, match="the table is named twice"):
        reader.option("table", "raw.events").load("raw.events")
    with pytest.raises(PySparkException, match=r'the option table is missing[\s\S]*load\("raw.events"\)'):
        spark.read.format("lakeconf").option("config", config).load()


@pytest.mark.slow
def test_a_view_is_read_with_the_rows_that_duckdb_computes(spark: SparkSession, events_folder: Path) -> None:
    with open_lake(events_folder) as lake:
        lake.create_view(
            "raw.typed", f"SELECT {', '.join(f'{sql}::{kind} AS {name}' for name, (kind, sql, _) in VALUES.items())}"
        )
        lake.create_view("raw.v", "SELECT id, upper(kind) AS kind, id * 2 AS twice FROM raw.events")
        version = lake.snapshot_id
        lake.create_view("raw.v", "SELECT id FROM raw.events WHERE id > 99")
    typed = source_of(spark, events_folder, "raw.typed").load().toArrow().to_pylist()
    assert typed == [{name: value for name, (*_, value) in VALUES.items()}]
    assert source_of(spark, events_folder, "raw.v").load().collect() == []
    older = source_of(spark, events_folder, "raw.v", version=version, columns="kind,id", where="twice > 5").load()
    assert (older.columns, older.collect(), older.count()) == (["kind", "id"], [("BUY", 3)], 1)
    with pytest.raises(PySparkException, match="UnsupportedError"):
        older.select("id").write.format("lakeconf").options(config=events_folder / "lakeconf.toml").mode("append").save(
            "raw.v"
        )


COLUMNS = {"id": "BIGINT", "kind": "VARCHAR"}


@pytest.fixture
def lake(project: Path) -> Any:
    """The lake of the project with a table of two files."""
    with open_lake(project) as opened:
        table = opened.create_table("raw.events", COLUMNS)
        table.append([{"id": 1, "kind": "view"}])
        table.append([{"id": 2, "kind": "view"}])
        yield opened


def drained(spark: SparkSession, folder: Path, **options: Any) -> list[list[Any]]:
    """The rows of each batch that is available, in the order of their ids."""
    batches: list[list[Any]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(sorted(map(tuple, batch.collect())))

    writer = source_of(spark, folder, stream=True, **options).load().writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [batch for batch in batches if batch]


@pytest.mark.slow
@pytest.mark.needs_spark("4.2")
def test_a_stream_returns_the_table_and_then_inserted_rows(spark: SparkSession, project: Path, lake: Lake) -> None:
    assert drained(spark, project) == [[(1, "view"), (2, "view")]]
    table = lake.table("raw.events")
    for number in (3, 4):
        table.append([{"id": number, "kind": "buy"}])
    table.update({"kind": "seen"}, where="id = 1")
    table.delete("id = 2")
    lake.maintenance.compact()
    table.append([{"id": 5, "kind": "buy"}])
    assert drained(spark, project) == [[(3, "buy"), (4, "buy"), (5, "buy")]]


@pytest.mark.slow
@pytest.mark.needs_spark("4.2")
def test_a_stream_returns_all_changes_in_batches(spark: SparkSession, project: Path, lake: Lake) -> None:
    first = lake.snapshot_id
    table = lake.table("raw.events")
    table.delete("id = 2")
    table.update({"kind": "seen"}, where="id = 1")
    batches = drained(spark, project, since=first, changes="true", snapshots_per_batch=1)
    assert [[(kind, *row) for _, _, kind, *row in batch] for batch in batches] == [
        [("insert", 2, "view")],
        [("delete", 2, "view")],
        [("update_postimage", 1, "seen"), ("update_preimage", 1, "view")],
    ]
    assert [{snapshot for snapshot, *_ in batch} for batch in batches] == [{first}, {first + 1}, {first + 2}]
