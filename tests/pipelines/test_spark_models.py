"""Pipelines on a lake that is open on Spark: DuckDB runs DuckDB's SQL, and Spark its own."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from promotions import rows

from lakeconf import init
from lakeconf.errors import ConfigError, PipelineError, QueryError, UnsupportedError
from lakeconf.pipelines import (
    Full,
    Incremental,
    Merge,
    Model,
    Pipeline,
    Query,
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

    import narwhals as nw
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
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


def test_each_model_runs_on_the_engine_of_its_sql(lake: Lake) -> None:
    planned = plan(pipeline(), lake, until=date(2024, 5, 4))
    assert all(step.runs for step in planned)
    results = run(pipeline(), lake, until=date(2024, 5, 4))
    assert [(one.model, one.error) for one in results if one.status != "done"] == []
    days = [date(2024, 5, day) for day in (1, 2, 3)]
    assert rows(lake, "marts.daily") == [(day, 24, "timestamp_ntz") for day in days]
    assert rows(lake, "marts.late") == [(day, 24, 24 * number) for number, day in enumerate(days)]
    assert lake.table("marts.keys").schema == {"id": "BIGINT", "key": "UUID", "h": "UBIGINT"}
    assert [row[0] for row in rows(lake, "marts.above")] == [1, 2]
    assert {one.status for one in run(pipeline(), lake, until=date(2024, 5, 4))} == {"skipped"}


def test_spark_sql_needs_a_lake_on_spark_and_is_no_view(store: Store) -> None:
    spark, duckdb = (Model("marts.t", Full(), body("SELECT 1 AS id")) for body in (SparkQuery, Query))
    assert spark.definition() != duckdb.definition()
    with store.open() as lake:
        (result,) = run(Pipeline([spark]), lake)
    assert isinstance(result.error, UnsupportedError)
    assert result.error.hint == "open the lake with a session: store.open(spark)"
    with pytest.raises(PipelineError, match=r"the view marts\.v is in Spark's SQL"):
        Pipeline([Model("marts.v", View(), SparkQuery("SELECT 1 AS id"))])


def test_a_query_that_spark_rejects_has_its_file(lake: Lake, tmp_path: Path) -> None:
    query = SparkQuery("SELECT nothing FROM events", ["events"], tmp_path / "m.sql")
    with pytest.raises(QueryError, match=r"m\.sql: Spark rejects the query: .*nothing") as refused:
        query.rows(lake, {"events": lake.table("raw.events").scan()}, {"start": datetime(2024, 5, 1)})
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
