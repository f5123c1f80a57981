"""Models whose inputs fail do not run; models without a failed input do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeconf.pipelines import Full, Model, Pipeline, Query, View, relationships, run

if TYPE_CHECKING:
    from lakeconf import Lake


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.create_table("raw.events", {"id": "BIGINT"}).append(pa.table({"id": [1, 2, 3]}))
    return lake


def test_models_need_what_they_read_directly_or_through_views(lake: Lake) -> None:
    models = [
        Model("m.a", Full(), Query("SELECT none FROM raw.events")),
        Model("m.view", View(), Query("FROM m.a")),
        Model("m.over", View(), Query("FROM m.view")),
        Model("m.b", Full(), Query("FROM m.over")),
        Model("m.c", Full(), Query("FROM m.b")),
        Model("m.beside", Full(), Query("FROM raw.events")),
    ]
    pipeline = Pipeline(models)
    found = {one.model: (one.status, one.reason) for one in run(pipeline, lake)}
    assert {found.pop("m.a"), found.pop("m.beside")} == {("failed", "first run"), ("done", "first run")}
    assert found == dict.fromkeys(["m.view", "m.over", "m.b", "m.c"], ("not run", "m.a failed"))
    assert lake.runs.committed("m.a") == lake.runs.committed("m.b") == []
    assert [one.status for one in run(pipeline, lake, ["m.a", "m.b"])] == ["failed", "not run"]
    # A table that does not run again is not changed by what it reads: m.c reads its rows, or misses it.
    result = run(pipeline, lake, ["m.a", "m.c"])[1]
    assert (result.status, result.reason) == ("failed", "first run")


def test_models_need_the_tables_of_their_relationships() -> None:
    shops = Model("m.shops", Full(), Query("FROM raw.events"))
    known = Model("m.known", View(), Query("FROM m.shops"))
    sales = Model("m.a_sales", Full(), Query("FROM raw.events"), tests=[relationships("id", "M.Known", "id")])
    pipeline = Pipeline([sales, shops, known])
    assert [model.table for model in pipeline.ordered] == ["m.shops", "m.known", "m.a_sales"]
    assert [model.table for model in pipeline.chosen(["+m.a_sales"])] == ["m.a_sales"]


def test_relationship_is_tested_with_the_rows_of_the_same_run(lake: Lake) -> None:
    lake.create_table("raw.more", {"id": "BIGINT"}).append([{"id": 1}])
    sales = Model("m.a_sales", Full(), Query("FROM raw.more"), tests=[relationships("id", "m.shops", "id")])
    pipeline = Pipeline([sales, Model("m.shops", Full(), Query("FROM raw.more"))])
    for number in (7, 8):
        lake.table("raw.more").append([{"id": number}])
        results = run(pipeline, lake)
        assert [(one.model, one.status) for one in results] == [("m.shops", "done"), ("m.a_sales", "done")]
    broken = Pipeline([sales, Model("m.shops", Full(), Query("SELECT none FROM raw.more"))])
    lake.table("raw.more").append([{"id": 9}])
    results = run(broken, lake)
    assert [(one.status, one.reason) for one in results][1] == ("not run", "m.shops failed")
