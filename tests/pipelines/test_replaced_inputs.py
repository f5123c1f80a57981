"""An input whose name is that of another table than a run read counts as changed in all its rows."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.errors import PipelineError
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, ModelResult, Pipeline, Query, plan, run

if TYPE_CHECKING:
    from lakeconf import Lake

UNTIL = date(2024, 1, 4)
ROWS = "SELECT id, day FROM raw.a"
CHANGES = "SELECT id, day FROM raw.a WHERE change_type IN ('insert', 'update_postimage')"
DAYS = f"{ROWS} WHERE day >= $start AND day < $end"


def daily(**given: Any) -> Model:
    return Model("marts.days", Incremental("day", start=date(2024, 1, 1), **given), Query(DAYS))


REPLACED = [Model("marts.full", Full(), Query(ROWS)), daily(lookback=3)]
KEPT = [
    Model("marts.new", Append(new_rows_of="raw.a"), Query(ROWS)),
    Model("marts.merged", Merge("id", changes_of="raw.a"), Query(CHANGES)),
]


@pytest.fixture
def lake(lakes: tuple[Lake, Lake]) -> Lake:
    """The tables raw.a and raw.b of the same columns."""
    lake, _ = lakes
    for name, days in (("raw.a", (1, 2, 3)), ("raw.b", (2, 9))):
        lake.create_table(name, {"id": "BIGINT", "day": "DATE"}).append(of(*days))
    return lake


def of(*days: int) -> pa.Table:
    return pa.table({"id": days, "day": [date(2024, 1, min(day, 3)) for day in days]})


def ids(lake: Lake, table: str) -> list[int]:
    lake.refresh()
    return sorted(lake.table(table).to_arrow().column("id").to_pylist())


def results(pipeline: Pipeline, lake: Lake, **given: Any) -> dict[str, ModelResult]:
    found = {one.model: one for one in run(pipeline, lake, until=UNTIL, **given)}
    lake.refresh()
    return found


def created_again(lake: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.drop_table("raw.a")
        transaction.create_table("raw.a", {"id": "BIGINT", "day": "DATE"}).append(of(2, 9))


def swapped(lake: Lake) -> None:
    lake.rename_table("raw.a", "raw.old")
    lake.rename_table("raw.b", "raw.a")


def restored(lake: Lake) -> None:
    version = lake.snapshot_id
    lake.table("raw.a").evolve(add={"more": "INTEGER"})
    lake.restore("raw.a", version=version)


@pytest.mark.slow
@pytest.mark.parametrize("replace", [created_again, swapped, restored])
def test_a_replaced_input_is_noticed_by_all_kinds(replace: Any, lake: Lake) -> None:
    pipeline = Pipeline([*REPLACED, *KEPT])
    assert {one.status for one in results(pipeline, lake).values()} == {"done"}
    replace(lake)
    lake.refresh()
    expected, reason = ids(lake, "raw.a"), "raw.a is no longer the table that the last run read"
    found = results(pipeline, lake)
    for one in REPLACED:
        assert (found[one.table].status, ids(lake, one.table)) == ("done", expected)
    for one in KEPT:
        error = found[one.table].error
        assert isinstance(error, PipelineError)
        assert error.message.startswith(f"the run would replace all rows of {one.table}: {reason}; needs --rebuild")
        assert ids(lake, one.table) == [1, 2, 3]
    rebuilt = results(pipeline, lake, tables=[one.table for one in KEPT], rebuild=True)
    assert {one.status for one in rebuilt.values()} == {"done"}
    assert [ids(lake, one.table) for one in KEPT] == [expected, expected]
    assert {one.status for one in results(pipeline, lake).values()} == {"skipped"}


@pytest.mark.slow
@pytest.mark.parametrize("expires", [False, True], ids=["", "expires"])
def test_an_input_that_gets_its_name_back_is_the_same_table(lake: Lake, *, expires: bool) -> None:
    pipeline = Pipeline([*REPLACED, *KEPT])
    results(pipeline, lake)
    lake.rename_table("raw.a", "raw.old")
    lake.rename_table("raw.old", "raw.a")
    assert {one.status for one in results(pipeline, lake).values()} == {"skipped"}
    lake.table("raw.a").append(of(9))
    assert {one.status for one in results(pipeline, lake).values()} == {"done"}
    assert [ids(lake, one.table) for one in (*REPLACED, *KEPT)] == [[1, 2, 3, 9]] * 4
    if expires:  # the name is still that of the runs
        lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
        lake.table("raw.a").append(of(8))
        assert {step.reason for step in plan(pipeline, lake, ["marts.new"])} == {"raw.a has changed"}


@pytest.mark.slow
def test_days_computed_from_a_table_that_lost_the_name_again_are_late(lake: Lake) -> None:
    model = daily()
    results(Pipeline([model]), lake)
    lake.rename_table("raw.a", "raw.old")
    lake.rename_table("raw.b", "raw.a")
    (step,) = plan(Pipeline([model]), lake, until=UNTIL)
    assert step.warnings == ["raw.a changed in done intervals: run with --from 2024-01-01 --to 2024-01-04"]
    run(Pipeline([model]), lake, since=date(2024, 1, 2), until=date(2024, 1, 3))
    lake.refresh()
    assert ids(lake, "marts.days") == [1, 2, 3]
    lake.rename_table("raw.a", "raw.b")
    lake.rename_table("raw.old", "raw.a")
    (step,) = plan(Pipeline([model]), lake, until=UNTIL)
    assert step.warnings == ["raw.a changed in done intervals: run with --from 2024-01-02 --to 2024-01-03"]


@pytest.mark.slow
def test_the_lookback_of_a_replaced_input_is_computed_again(lake: Lake) -> None:
    pipeline = Pipeline([daily(late="ignore", lookback=1)])
    results(pipeline, lake)
    swapped(lake)
    assert results(pipeline, lake)["marts.days"].reason == "raw.a changed: 2024-01-03 to 2024-01-04"
    assert ids(lake, "marts.days") == [1, 2, 9]


def overwritten(lake: Lake) -> None:
    lake.table("raw.a").overwrite(lake.table("raw.a").scan().sort("id"))


def restored_rows(lake: Lake) -> None:
    lake.table("raw.a").delete("id > 1")
    lake.restore("raw.a", version=lake.snapshot_id - 1)


def emptied_and_restored(lake: Lake) -> None:
    lake.table("raw.a").delete("id > 0")
    version = lake.snapshot_id
    run(Pipeline([KEPT[0]]), lake)
    lake.restore("raw.a", version=version - 1)


def overwritten_with_other_values(lake: Lake) -> None:
    lake.table("raw.a").overwrite(lake.table("raw.a").scan().with_columns(day=nw.lit(date(2025, 1, 1))))


def deleted_and_inserted(lake: Lake) -> None:
    rows = lake.table("raw.a").to_arrow()
    lake.table("raw.a").delete("id > 0")
    lake.table("raw.a").append(rows)


CHANGES_BACK = [
    *(overwritten, restored_rows, emptied_and_restored),
    *(overwritten_with_other_values, deleted_and_inserted),
]


def test_rows_of_a_full_model_are_never_new() -> None:
    full = Model("raw.a", Full(), Query("SELECT 1 AS id"))
    with pytest.raises(PipelineError, match=r"of which each run writes all rows again"):
        Pipeline([full, KEPT[0]])


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES_BACK)
def test_rows_that_are_written_again_are_not_new(change: Any, lake: Lake) -> None:
    pipeline = Pipeline([KEPT[0]])
    run(pipeline, lake)
    change(lake)
    (failed,) = run(pipeline, lake)
    assert isinstance(failed.error, PipelineError)
    assert "wrote rows again, as an overwrite and a restore do" in failed.error.message
    assert "lakeconf run marts.new --rebuild" in str(failed.error.hint)
    assert ids(lake, "marts.new") == [1, 2, 3]
    (done,) = run(pipeline, lake, rebuild=True)
    assert (done.error, ids(lake, "marts.new")) == (None, ids(lake, "raw.a"))
    lake.table("raw.a").append(of(7))
    assert (run(pipeline, lake)[0].rows, ids(lake, "marts.new")) == (1, ids(lake, "raw.a"))


@pytest.mark.slow
def test_rows_that_are_inserted_beside_deletes_and_updates_are_new(lake: Lake) -> None:
    pipeline = Pipeline([KEPT[0]])
    run(pipeline, lake)
    lake.table("raw.a").delete("id = 1")
    lake.table("raw.a").append(of(8))
    lake.table("raw.a").update({"day": date(2024, 2, 1)}, where="id = 2")
    assert run(pipeline, lake)[0].error is None
    assert ids(lake, "marts.new") == [1, 2, 3, 8]
