"""Column changes of a model: `renamed` maps old names to new ones, and dropping a column needs consent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import DataLossError, LakeconfError, PipelineError
from lakeconf.pipelines import Full, Merge, Model, Pipeline, Query, plan, run

if TYPE_CHECKING:
    from lakeconf import Lake


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """A lake with the table `marts.t`, which a model created with the columns id, n and day."""
    assert error(lake, "SELECT 1 AS id, 2 AS n, DATE '2024-01-01' AS day") is None
    return lake


def error(lake: Lake, query: str, *, allow_drop_columns: bool = False, **given: Any) -> LakeconfError | None:
    pipeline = Pipeline([Model("marts.t", Full(), Query(query), **given)])
    (result,) = run(pipeline, lake, allow_drop_columns=allow_drop_columns)
    return result.error


def columns(lake: Lake) -> list[str]:
    lake.refresh()
    return list(lake.table("marts.t").schema)


def test_dropping_a_column_needs_consent(lake: Lake) -> None:
    before = lake.refresh()
    found = error(lake, "SELECT 1 AS id")
    assert isinstance(found, DataLossError)
    assert found.message == "this would drop the columns n, day of marts.t"
    assert 'dropped = ["n", "day"]' in str(found.hint)
    assert isinstance(error(lake, "SELECT 1 AS id", dropped=["n"]), DataLossError)
    assert (lake.refresh(), columns(lake)) == (before, ["id", "n", "day"])
    assert error(lake, "SELECT 1 AS id, 2 AS n", dropped=["DAY"]) is None
    assert columns(lake) == ["id", "n"]
    assert error(lake, "SELECT 1 AS id", allow_drop_columns=True) is None
    assert columns(lake) == ["id"]


def test_renamed_maps_old_names_to_new_ones(lake: Lake) -> None:
    before = lake.refresh()
    for columns_, renamed, message in (
        ("1 AS id, 2 AS number, 3 AS day", {"number": "n"}, "the model has no column 'n'"),
        ("1 AS id, 2 AS number, 3 AS day", {"n": "numbr"}, "the model has no column 'numbr'"),
        ("1 AS id, 2 AS n, 3 AS number, 4 AS day", {"n": "number"}, "the model still has 'n'"),
    ):
        found = error(lake, f"SELECT {columns_}", renamed=renamed, allow_drop_columns=True)
        assert isinstance(found, PipelineError)
        assert message in found.message
    assert lake.refresh() == before
    assert error(lake, "SELECT 1 AS id, 2 AS number, DATE '2024-01-01' AS day", renamed={"n": "number"}) is None
    assert columns(lake) == ["id", "number", "day"]
    # In later runs of the same model `renamed` has no effect.
    assert error(lake, "SELECT 2 AS id, 2 AS number, DATE '2024-01-01' AS day", renamed={"n": "number"}) is None


def test_all_columns_of_a_table_are_replaced(lake: Lake) -> None:
    assert error(lake, 'SELECT 1 AS a, 2 AS "b.c"', dropped=["id", "n", "day"]) is None
    assert columns(lake) == ["a", "b.c"]
    assert error(lake, 'SELECT 1 AS "d.e"', dropped=["a"], renamed={"b.c": "d.e"}) is None
    assert columns(lake) == ["d.e"]


def test_column_whose_type_cannot_hold_the_rows_is_created_again(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.t", Full(), Query("SELECT 'x' AS id, 2 AS n, [1] AS day"))])
    (step,) = plan(pipeline, lake)
    assert str(step.columns) == "changes id from INTEGER to VARCHAR, changes day from DATE to INTEGER[]"
    before = lake.snapshot_id
    (result,) = run(pipeline, lake)
    assert result.error is None
    assert (lake.table("marts.t").schema, lake.snapshot_id) == (
        {"n": "INTEGER", "id": "VARCHAR", "day": "INTEGER[]"},
        before + 1,
    )
    assert lake.table("marts.t").head() == [{"n": 2, "id": "x", "day": [1]}]
    assert lake.at(version=before).table("marts.t").schema["day"] == "DATE"


def test_only_a_rebuild_of_a_merge_creates_a_column_again(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.t", Merge("id"), Query("SELECT 'x' AS id, 2 AS n, DATE '2024-01-01' AS day"))])
    (result,) = run(pipeline, lake)
    assert result.error is not None
    assert (lake.refresh(), columns(lake)) == (lake.snapshot_id, ["id", "n", "day"])
    (result,) = run(pipeline, lake, rebuild=True)
    assert result.error is None
    assert lake.table("marts.t").schema["id"] == "VARCHAR"
