"""The plan of a promotion: actions, reasons and counts of rows, and what needs consent."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from promotions import NUMBERS, done, full, rows, stores

import lakeconf
from lakeconf.commit.journal import ModelRun
from lakeconf.errors import DataLossError, PipelineError
from lakeconf.pipelines import Full, Merge, Model, Pipeline, Query, View, promote
from lakeconf.pipelines.plan import ColumnChanges
from lakeconf.pipelines.promotion import Promotion, PromotionPlan, RowChanges, describe, plan_promotion
from lakeconf.pipelines.recorded_runs import PROMOTED

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def test_rows_with_the_same_key_count_as_changed(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    dev.create_table("raw.e", {"id": "INTEGER", "name": "VARCHAR"}).append(dev.sql(f"SELECT * FROM {NUMBERS}"))
    pipeline = Pipeline([Model("marts.t", Merge("id"), Query("SELECT * FROM raw.e"))])
    done(pipeline, dev)
    prod.create_table("marts.t", {"id": "INTEGER", "name": "VARCHAR"}).append(
        prod.sql("SELECT 2 AS id, CAST(NULL AS VARCHAR) AS name")
    )
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.rows.added, step.rows.removed, step.rows.changed) == (1, 0, 1)
    assert step.reason == "1 row added, 1 row changed"
    promote(pipeline, dev, prod)
    assert rows(prod) == [(1, "a"), (2, "b")]
    # A duplicate key does not identify a row.
    prod.table("marts.t").append(prod.sql("SELECT 2 AS id, 'b' AS name"))
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.rows.added, step.rows.removed, step.rows.changed) == (0, 1, 0)


def test_models_without_a_table_are_skipped_with_a_reason(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = Pipeline(
        [Model("marts.v", View(), Query("SELECT 1 AS a")), Model("marts.t", Full(), Query("SELECT 2 AS b"))]
    )
    reasons = {step.model.table: step.reason for step in plan_promotion(pipeline, dev, prod).steps}
    assert reasons["marts.v"].startswith("a view has no rows")
    assert reasons["marts.t"] == "its table does not exist in the source"
    assert promote(pipeline, dev, prod) == {}
    with pytest.raises(PipelineError, match=r"marts\.t cannot be promoted: its table does not exist in the source"):
        promote(pipeline, dev, prod, ["marts.t"])


def test_lake_is_not_promoted_to_itself(tmp_path: Path) -> None:
    store = stores(tmp_path, "dev")["dev"]
    pipeline = full("SELECT 1 AS a")
    with store.open() as one, store.open() as other:
        done(pipeline, one)
        before = one.refresh()
        with pytest.raises(PipelineError, match="the same lake"):
            promote(pipeline, one, other)
        assert one.refresh() == before


ONE = Model("marts.t", Full(), Query("SELECT 1 AS id"), dropped=["old"])


def planned_for(pipeline: Pipeline, dev: Lake, prod: Lake) -> Promotion:
    (step,) = plan_promotion(pipeline, dev, prod).steps
    return step


def counted(step: Promotion) -> tuple[int, int, int]:
    return step.rows.added, step.rows.removed, step.rows.changed


@pytest.mark.parametrize("rows", [RowChanges(1), RowChanges(0, 1), RowChanges(0, 0, 1)])
def test_any_changed_row_is_a_change(rows: RowChanges) -> None:
    assert rows
    assert not RowChanges()


@pytest.mark.parametrize(
    ("rows", "columns", "text"),
    [
        (RowChanges(1, 2, 1), ColumnChanges(), "1 row added, 1 row changed, 2 rows removed"),
        (RowChanges(0, 1, 0), ColumnChanges(dropped=["a"]), "1 row removed; drops a"),
        (RowChanges(), ColumnChanges(added={"a": "INTEGER"}), "adds a INTEGER"),
        (RowChanges(), ColumnChanges(), ""),
    ],
)
def test_description_of_changes(rows: RowChanges, columns: ColumnChanges, text: str) -> None:
    assert describe(Promotion(ONE, "replace", "", rows, columns)) == text


def test_skipped_steps_are_no_changes() -> None:
    steps = [Promotion(ONE, action, "") for action in ("create", "skip", "remember", "replace")]
    assert [step.action for step in PromotionPlan(1, 2, steps).changes] == ["create", "remember", "replace"]


def test_losses_need_consent_for_rows_and_for_columns() -> None:
    lost = Promotion(ONE, "replace", "", RowChanges(9, 1, 9))
    other = Promotion(Model("marts.u", Full()), "replace", "", RowChanges(0, 2), ColumnChanges(dropped=["gone"]))
    plan = PromotionPlan(1, 2, [lost, other])
    with pytest.raises(DataLossError) as caught:
        plan.check_losses(allow_row_loss=False, allow_drop_columns=True)
    assert caught.value.message == (
        "this would delete rows that only the target has: 1 row of marts.t, 2 rows of marts.u"
    )
    assert caught.value.hint == (
        "compare the tables with `lakeconf diff`; --allow-row-loss (allow_row_loss=True) deletes the rows"
    )
    with pytest.raises(DataLossError) as caught:
        plan.check_losses(allow_row_loss=True, allow_drop_columns=False)
    assert caught.value.message == "this would drop the column gone of marts.u"
    assert caught.value.hint == "use --allow-drop-columns (allow_drop_columns=True) to drop them"
    plan.check_losses(allow_row_loss=True, allow_drop_columns=True)
    allowed = Promotion(ONE, "replace", "", RowChanges(1, 0, 1), ColumnChanges(dropped=["OLD"]))
    PromotionPlan(1, 2, [allowed]).check_losses(allow_row_loss=False, allow_drop_columns=False)


def test_plan_names_the_compared_snapshots_and_records_the_runs(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    done(pipeline, prod)
    plan = plan_promotion(pipeline, dev, prod)
    assert (plan.source_snapshot, plan.target_snapshot) == (dev.snapshot_id, prod.snapshot_id)
    prod.table("marts.t").delete("id = 1")
    step = planned_for(pipeline, dev, prod)
    assert (step.action, step.reason, counted(step)) == ("replace", "1 row added", (1, 0, 0))
    assert (step.runs, step.earlier) == (dev.runs.committed("marts.t"), 1)


def test_table_is_found_ignoring_case(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    prod.create_table("Marts.T", {"ID": "INTEGER", "Name": "VARCHAR"})
    assert planned_for(pipeline, dev, prod).reason == "2 rows added"


def test_rows_without_a_key_are_counted_with_their_duplicates(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full("SELECT unnest([1, 1, 2, NULL, NULL]) AS id")
    done(pipeline, dev)
    prod.create_table("marts.t", {"id": "INTEGER"}).append(prod.sql("SELECT unnest([1, 3, NULL, NULL, NULL]) AS id"))
    step = planned_for(pipeline, dev, prod)
    assert (counted(step), step.reason) == ((2, 2, 0), "2 rows added, 2 rows removed")


def test_key_of_several_columns_and_of_any_name(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    sql = 'SELECT unnest([1, 2, 3]) AS "a""b", NULL::INTEGER AS k, unnest([7, 8, 9]) AS n'
    pipeline = Pipeline([Model("marts.t", Merge(['A"B', "K"]), Query(sql))])
    done(pipeline, dev)
    there = prod.sql('SELECT unnest([1, 2, 4]) AS "a""b", NULL::INTEGER AS k, unnest([7, 5, 9]) AS n')
    prod.create_table("marts.t", there).append(there)
    assert counted(planned_for(pipeline, dev, prod)) == (1, 1, 1)


def test_renamed_column_is_compared_with_its_old_name(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full("SELECT 1 AS id, 5 AS number", renamed={"N": "number"})
    done(pipeline, dev)
    prod.create_table("marts.t", {"id": "INTEGER", "n": "INTEGER"}).append(prod.sql("SELECT 1 AS id, 5 AS n"))
    step = planned_for(pipeline, dev, prod)
    assert (counted(step), step.reason) == ((0, 0, 0), "renames n to number")


def test_key_that_only_one_table_has_identifies_no_row(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = Pipeline([Model("marts.t", Merge("id"), Query("SELECT 1 AS id, 5 AS n"))])
    done(pipeline, dev)
    prod.create_table("marts.t", {"n": "INTEGER"}).append(prod.sql("SELECT unnest([5, 5]) AS n"))
    assert counted(planned_for(pipeline, dev, prod)) == (0, 1, 0)


def test_table_that_no_run_has_written_is_skipped(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    dev.create_table("marts.t", {"id": "INTEGER"})
    pipeline = full("SELECT 1 AS id")
    step = planned_for(pipeline, dev, prod)
    assert (step.action, step.reason) == ("skip", "the source has no run of the model")
    with pytest.raises(PipelineError) as caught:
        plan_promotion(pipeline, dev, prod, ["marts.t"])
    assert caught.value.message == "marts.t cannot be promoted: the source has no run of the model"
    assert caught.value.hint == "run it on the source first"
    # A pattern selects what can be promoted.
    assert [one.action for one in plan_promotion(pipeline, dev, prod, ["marts.*"]).steps] == ["skip"]


def recorded(lake: Lake, *runs: ModelRun) -> None:
    for one in runs:
        with lake.transaction() as transaction:
            transaction.runs.record(ModelRun(**vars(one) | {"earlier": len(lake.runs.committed(one.model))}))


FIRST, SECOND = ((datetime(2024, 1, day), datetime(2024, 1, day + 1)) for day in (1, 2))


@pytest.mark.parametrize(
    ("ours", "theirs", "action"),
    [
        ([{}], [{}], "skip"),
        ([{}], [{"definition": "old"}], "remember"),
        ([{}], [{"definition": "old"}, {}], "skip"),
        ([{}], [{}, {"definition": "old"}], "remember"),
        ([{}], [], "remember"),
        ([{}], [{}, {"definition": PROMOTED}], "remember"),
        ([{"interval": FIRST}], [{"interval": FIRST}, {"interval": SECOND}], "skip"),
        ([{"interval": FIRST}, {"interval": SECOND}], [{"interval": FIRST}], "remember"),
        ([{"interval": FIRST}], [{"interval": FIRST, "definition": "old"}, {}], "remember"),
        ([{"files": ["a"]}], [{"files": ["a", "b"]}], "skip"),
        ([{"files": ["a"]}, {"files": ["b"]}], [{"files": ["b"]}], "remember"),
        ([{"files": ["a"]}, {"files": ["b"]}], [{"files": ["b"]}, {"files": ["a"]}], "skip"),
    ],
)
def test_equal_rows_are_skipped_if_the_target_would_skip_the_same_work(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], action: str, lakes: tuple[Lake, Lake]
) -> None:
    for lake, runs in zip(lakes, (ours, theirs), strict=True):
        lake.create_table("marts.t", {"id": "INTEGER"})
        recorded(lake, *(ModelRun("marts.t", **{"definition": "new", "run": "r", **one}) for one in runs))
    reason = {"skip": "equal in both", "remember": "equal rows: only the model's runs are copied"}
    step = planned_for(Pipeline([ONE]), *lakes)
    assert (step.action, step.reason) == (action, reason[action])


def test_tables_of_types_that_cannot_be_compared(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full("SELECT {'a': 1} AS id")
    done(pipeline, dev)
    prod.create_table("marts.t", {"id": "INTEGER"}).append(prod.sql("SELECT 1 AS id"))
    with pytest.raises(lakeconf.LakeconfError):
        plan_promotion(pipeline, dev, prod)
