"""Runs of models, on both engines: each run is one snapshot, recorded in the lake; Spark runs its own SQL."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with
from merge_cases import commit_info
from promotions import rows

import lakeconf
from lakeconf import init
from lakeconf.errors import ConfigError, PipelineError, QueryError, UnsupportedError
from lakeconf.pipelines import (
    Append,
    Full,
    Incremental,
    Merge,
    Model,
    ModelResult,
    Pipeline,
    Query,
    Seed,
    SparkQuery,
    View,
    declared_pipeline,
    model,
    plan,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store


EVENTS = pa.table(
    {
        "event_id": [1, 2, 3, 4],
        "day": [date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)],
        "amount": [10, 20, 30, 40],
    }
)
LATER = pa.table({"event_id": [5, 6], "day": [date(2024, 1, 3), date(2024, 1, 4)], "amount": [2, 7]})
UNTIL = date(2024, 1, 4)


lake = lake_with("raw.events", EVENTS)


def did(results: list[ModelResult]) -> dict[str, str]:
    for result in results:
        if result.error is not None:
            raise result.error
    return {result.model: result.status for result in results}


@model("marts.totals", Full(), inputs={"events": "raw.events"})
def totals(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """What was sold on each day."""
    return events.group_by("day").agg(nw.col("amount").sum())


@model(
    "marts.daily", Incremental("day", start=date(2024, 1, 1), lookback=1), inputs={"events": "raw.events"},
    partitioned_by=["day"],
)  # fmt: skip
def daily(events: nw.LazyFrame[Any], start: date, end: date) -> nw.LazyFrame[Any]:
    return events.filter(nw.col("day") >= start, nw.col("day") < end).group_by("day").agg(nw.col("amount").sum())


@model("staging.large", Append(), inputs={"events": "raw.events"})
def large(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return events.filter(nw.col("amount") > 5).select("event_id", "amount")


@model("marts.by_event", Merge("event_id", changes_of="events", deleted="is_gone"), inputs={"events": "raw.events"})
def by_event(events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    kept = events.filter(nw.col("change_type") != "update_preimage")
    # NULL for an insert, which is a row like one with false.
    is_gone = nw.when(nw.col("change_type") != "insert").then(nw.col("change_type") == "delete")
    return kept.select("event_id", "amount", is_gone.alias("is_gone"))


@pytest.mark.slow
def test_full_model_is_replaced_in_one_snapshot_or_skipped_if_nothing_changed(lake: Lake) -> None:
    pipeline, before = Pipeline([totals]), lake.snapshot_id
    (result,) = run(pipeline, lake)
    assert (result.snapshot_id, result.rows) == (before + 1, 3)
    assert rows(lake, "marts.totals") == [(date(2024, 1, 1), 30), (date(2024, 1, 2), 30), (date(2024, 1, 3), 40)]
    info = commit_info(lake, before + 1)
    assert (info["rows"], info["extra"]["model"], info["extra"]["kind"]) == (3, "marts.totals", "full")
    assert info["extra"]["inputs"] == {"raw.events": before}
    assert info["extra"]["columns"] == ["day", "amount"]
    (remembered,) = lake.runs.committed("marts.totals")
    assert (remembered.definition, remembered.run) == (info["extra"]["definition"], info["extra"]["run"])
    comments: Any = lake.sql("SELECT comment FROM duckdb_tables() WHERE table_name = 'totals'").to_native()
    assert comments.fetchall() == [("What was sold on each day.",)]
    version = lake.snapshot_id
    assert did(run(pipeline, lake)) == {"marts.totals": "skipped"}
    assert lake.refresh() == version
    lake.table("raw.events").append(LATER)
    assert [(step.runs, step.reason) for step in plan(pipeline, lake)] == [(True, "raw.events changed")]
    did(run(pipeline, lake))
    assert (date(2024, 1, 4), 7) in rows(lake, "marts.totals")


@pytest.mark.slow
def test_copy_of_the_lake_contains_the_run_history(lake: Lake, store: Store, tmp_path: Path) -> None:
    pipeline = Pipeline([totals, daily])
    assert set(did(run(pipeline, lake, until=UNTIL)).values()) == {"done"}
    lake.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tmp_path.glob("catalog*"):
        shutil.copy(path, copy)
    shutil.copytree(tmp_path / "data", copy / "data")
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": str(copy / "catalog")},
        "storage_backend": {"type": "local", "path": str(copy / "data")},
        "attach_options": {"override_data_path": True},
    }
    shutil.rmtree(tmp_path / "data")
    with lakeconf.init({"stores": {"dev": backends}}).get_store("dev").open() as other:
        assert set(did(run(pipeline, other, until=UNTIL)).values()) == {"skipped"}
        assert len(rows(other, "marts.totals")) == 3


@pytest.mark.slow
def test_missing_days_and_their_lookback_are_processed(lake: Lake) -> None:
    """The history of the runs survives an expiration of their snapshots."""
    pipeline = Pipeline([daily])
    did(run(pipeline, lake, until=UNTIL))
    assert rows(lake, "marts.daily") == [(date(2024, 1, 1), 30), (date(2024, 1, 2), 30), (date(2024, 1, 3), 40)]
    lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
    assert did(run(pipeline, lake, until=UNTIL)) == {"marts.daily": "skipped"}
    lake.table("raw.events").append(LATER)
    (step,) = plan(pipeline, lake, until=date(2024, 1, 5))
    assert step.reason == "missing: 2024-01-03 to 2024-01-05"
    before = lake.snapshot_id
    did(run(pipeline, lake, until=date(2024, 1, 5)))
    assert lake.snapshot_id == before + 1
    assert rows(lake, "marts.daily")[2:] == [(date(2024, 1, 3), 42), (date(2024, 1, 4), 7)]


@pytest.mark.slow
def test_append_receives_new_rows_and_merge_receives_all_changes(lake: Lake) -> None:
    pipeline = Pipeline([large, by_event])
    did(run(pipeline, lake))
    assert rows(lake, "marts.by_event") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    lake.table("raw.events").append(LATER)
    lake.table("raw.events").update({"amount": 11}, "event_id = 1")
    lake.table("raw.events").delete("event_id = 2")
    assert did(run(pipeline, lake)) == {"staging.large": "done", "marts.by_event": "done"}
    assert rows(lake, "staging.large") == [(1, 10), (2, 20), (3, 30), (4, 40), (6, 7)]
    assert rows(lake, "marts.by_event") == [(1, 11), (3, 30), (4, 40), (5, 2), (6, 7)]
    assert did(run(pipeline, lake)) == {"staging.large": "skipped", "marts.by_event": "skipped"}


@pytest.mark.slow
def test_rows_of_changes_are_kept_if_the_snapshots_of_the_input_have_expired(lake: Lake) -> None:
    pipeline = Pipeline([large, by_event])
    did(run(pipeline, lake))
    lake.table("raw.events").append(LATER)
    lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
    for step in plan(pipeline, lake):
        assert "have expired" in step.reason
        assert (step.runs, step.replaces) == (True, True)
        assert "; needs --rebuild, which replaces all rows" in step.reason
    before = lake.snapshot_id
    for result in run(pipeline, lake):
        start = f"the run would replace all rows of {result.model}: the changes of raw.events"
        assert isinstance(result.error, PipelineError)
        assert result.error.message.startswith(start)
        assert f"lakeconf run {result.model} --rebuild" in str(result.error.hint)
    assert lake.refresh() == before
    did(run(pipeline, lake, rebuild=True))
    assert (len(rows(lake, "staging.large")), len(rows(lake, "marts.by_event"))) == (5, 6)


@pytest.mark.slow
def test_rows_that_a_model_keeps_are_replaced_only_on_request(lake: Lake) -> None:
    kinds: tuple[Append | Merge, ...] = (Append(), Merge("event_id"), Merge("event_id", changes_of="raw.events"))
    tables = [f"marts.t{number}" for number in range(len(kinds))]

    def of(amount: str) -> Pipeline:
        query = Query(f"SELECT event_id, {amount} AS amount FROM raw.events")
        return Pipeline([Model(table, kind, query) for table, kind in zip(tables, kinds, strict=True)])

    # Rows that no run wrote.
    for table in tables:
        lake.create_table(table, {"event_id": "BIGINT", "amount": "BIGINT"})
        lake.table(table).append(pa.table({"event_id": [9], "amount": [9]}))
    assert all(isinstance(result.error, PipelineError) for result in run(of("amount"), lake))
    assert [rows(lake, table) for table in tables] == [[(9, 9)]] * 3
    did(run(of("amount"), lake, rebuild=True))
    # Rows whose source is gone.
    lake.table("raw.events").delete("event_id = 1")
    for result in run(of("amount * 2"), lake):
        assert result.reason == "its definition has changed; needs --rebuild, which replaces all rows"
        assert isinstance(result.error, PipelineError)
        assert (1, 10) in rows(lake, result.model)


@pytest.mark.slow
def test_sql_and_narwhals_models_give_the_same_rows(lake: Lake) -> None:
    in_sql = Model("marts.totals_sql", Full(), Query("SELECT day, sum(amount) AS amount FROM large_days GROUP BY day"),
                   {"large_days": "staging.large_days"})  # fmt: skip
    view = Model("staging.large_days", View(), Query("SELECT * FROM raw.events e WHERE e.amount > 10"))

    @model("marts.totals_narwhals", Full())
    def in_narwhals(large_days: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return large_days.group_by("day").agg(nw.col("amount").sum())

    results = run(Pipeline([in_sql, view, in_narwhals]), lake)
    assert did(results) == {"staging.large_days": "done", "marts.totals_narwhals": "done", "marts.totals_sql": "done"}
    assert rows(lake, "marts.totals_sql") == rows(lake, "marts.totals_narwhals") != []
    # The view is stored in the lake.
    assert len(rows(lake, "staging.large_days")) == 3


@pytest.mark.slow
def test_seed_is_reloaded_if_its_file_changes(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("sku,price\n1,2.50\n")
    prices = Model("raw.prices", Seed("prices.csv", {"sku": "INTEGER", "price": "DECIMAL(8,2)"}), folder=tmp_path)
    did(run(Pipeline([prices]), lake))
    assert did(run(Pipeline([prices]), lake)) == {"raw.prices": "skipped"}
    path.write_text("sku,price\n1,2.75\n2,3\n")
    (result,) = run(Pipeline([prices]), lake)
    assert (result.status, result.reason) == ("done", "its file has changed")
    assert [str(price) for _, price in rows(lake, "raw.prices")] == ["2.75", "3.00"]


@pytest.fixture
def on_spark(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as found:
        table = found.create_table("raw.events", {"id": "BIGINT", "ts": "TIMESTAMP", "key": "UUID"})
        hours = "SELECT range AS id, TIMESTAMP '2024-05-01' + INTERVAL 1 hour * range AS ts, NULL::UUID AS key"
        table.append(found.sql(f"{hours} FROM range(72)"))
        yield found


DAILY = """
SELECT CAST(ts AS DATE) AS day, count(*) AS n, typeof(min(ts)) AS kind
FROM events WHERE ts >= :start AND ts < :end GROUP BY ALL
"""


def pipeline() -> Pipeline:
    @model("marts.late", Full(), inputs={"seen": "marts.seen", "daily": "marts.daily"})
    def late(seen: nw.LazyFrame[Any], daily: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return daily.join(seen, on="day", how="left").select("day", "n", "ids")

    seen = "SELECT CAST(ts AS DATE) AS day, list(id ORDER BY id)[1] AS ids FROM raw.events GROUP BY ALL"
    incremental = Incremental("day", interval="day", start=date(2024, 5, 1))
    return Pipeline(
        [
            Model("marts.daily", incremental, SparkQuery(DAILY, ["events"]), {"events": "raw.events"}),
            Model("marts.seen", View(), Query(seen)),
            Model("marts.keys", Merge("id"), Query("SELECT id, key, hash(id) AS h FROM raw.events WHERE id < 3")),
            Model("marts.above", Full(), SparkQuery("SELECT * FROM marts_keys WHERE id > 0", ["marts_keys"])),
            late,
        ]
    )


@pytest.mark.slow
def test_each_model_runs_on_the_engine_of_its_sql(on_spark: Lake) -> None:
    planned = plan(pipeline(), on_spark, until=date(2024, 5, 4))
    assert all(step.runs for step in planned)
    results = run(pipeline(), on_spark, until=date(2024, 5, 4))
    assert [(one.model, one.error) for one in results if one.status != "done"] == []
    days = [date(2024, 5, day) for day in (1, 2, 3)]
    assert rows(on_spark, "marts.daily") == [(day, 24, "timestamp_ntz") for day in days]
    assert rows(on_spark, "marts.late") == [(day, 24, 24 * number) for number, day in enumerate(days)]
    assert on_spark.table("marts.keys").schema == {"id": "BIGINT", "key": "UUID", "h": "UBIGINT"}
    assert [row[0] for row in rows(on_spark, "marts.above")] == [1, 2]
    assert {one.status for one in run(pipeline(), on_spark, until=date(2024, 5, 4))} == {"skipped"}


def test_spark_sql_needs_a_lake_on_spark_and_is_no_view(store: Store) -> None:
    spark, duckdb = (Model("marts.t", Full(), body("SELECT 1 AS id")) for body in (SparkQuery, Query))
    assert spark.definition() != duckdb.definition()
    with store.open() as on_spark:
        (result,) = run(Pipeline([spark]), on_spark)
    assert isinstance(result.error, UnsupportedError)
    assert result.error.hint == "open the lake with a session: store.open(spark)"
    with pytest.raises(PipelineError, match=r"the view marts\.v is in Spark's SQL"):
        Pipeline([Model("marts.v", View(), SparkQuery("SELECT 1 AS id"))])


def test_a_query_that_spark_rejects_has_its_file(on_spark: Lake, tmp_path: Path) -> None:
    query = SparkQuery("SELECT nothing FROM events", ["events"], tmp_path / "m.sql")
    with pytest.raises(QueryError, match=r"m\.sql: Spark rejects the query: .*nothing") as refused:
        query.rows(on_spark, {"events": on_spark.table("raw.events").scan()}, {"start": datetime(2024, 5, 1)})
    assert "\n" not in refused.value.message


def test_the_configuration_names_the_dialect_and_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "daily.sql").write_text(DAILY)
    file = tmp_path / "lakeconf.toml"
    head = """
[stores.dev.metadata]
type = "sqlite"
uri = "catalog.sqlite"
[stores.dev.storage]
type = "local"
path = "data"
[pipeline.models."marts.daily"]
sql = "daily.sql"
"""
    file.write_text(f'{head}dialect = "spark"\ninputs = {{ events = "raw.events" }}\n')
    (found,) = declared_pipeline(init(file)).models
    assert found.body == SparkQuery(DAILY, ["events"], tmp_path / "daily.sql")
    assert found.inputs == {"events": "raw.events"}
    file.write_text(f'{head}dialect = "mysql"\n')
    with pytest.raises(ConfigError, match="dialect"):
        declared_pipeline(init(file))
