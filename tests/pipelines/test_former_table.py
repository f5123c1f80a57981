"""Runs of a table that was dropped, renamed or created again do not count for the table that has its name now."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from promotions import done, rows

from lakeconf.errors import PipelineError
from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, View, plan

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.pipelines.models.kinds import Kind

DAYS = "range(CAST($start AS TIMESTAMP), CAST($end AS TIMESTAMP), INTERVAL 1 DAY)"
DAILY = Pipeline(
    [
        Model(
            "marts.t",
            Incremental("day", start=date(2024, 1, 1)),
            Query(f"SELECT CAST(range AS DATE) AS day FROM {DAYS}"),
        )
    ]
)
EARLY, UNTIL = date(2024, 1, 3), date(2024, 1, 6)


def renamed(lake: Lake, table: str = "marts.t") -> None:
    lake.rename_table(table, f"{table}_old")


def dropped(lake: Lake, table: str = "marts.t") -> None:
    lake.drop_table(table)


def created_again(lake: Lake, table: str = "marts.t") -> None:
    schema = lake.table(table).schema
    with lake.transaction() as transaction:
        transaction.drop_table(table)
        transaction.create_table(table, schema)
    lake.refresh()


@pytest.mark.parametrize("gone", [renamed, dropped, created_again])
def test_intervals_and_files_of_a_former_table_count_no_longer(gone: Any, lake: Lake, tmp_path: Path) -> None:
    files = Pipeline([Model("marts.f", Append(files="*.csv"), folder=tmp_path)])
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
    done(files, lake)
    done(DAILY, lake, until=UNTIL)
    for table in ("marts.f", "marts.t"):
        gone(lake, table)
    done(DAILY, lake, until=EARLY)
    assert len(rows(lake)) == 2
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, step.warnings) == ("missing: 2024-01-03 to 2024-01-06", [])
    done(DAILY, lake, until=UNTIL)
    assert len(rows(lake)) == 5
    (tmp_path / "1.csv").rename(tmp_path / "away")
    done(files, lake)
    (tmp_path / "away").rename(tmp_path / "1.csv")
    done(files, lake)
    assert rows(lake, "marts.f") == [(0,), (1,)]
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"
    assert plan(files, lake)[0].runs is False


def test_table_that_was_created_again_without_rows_is_computed_again(lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
    kinds: tuple[Kind, ...] = (Full(), Append(), Merge("id"), Merge("id", changes_of="raw.a"))
    tables = [f"marts.t{number}" for number in range(len(kinds))]
    models = [Model(table, kind, Query("SELECT id FROM raw.a")) for table, kind in zip(tables, kinds, strict=True)]
    pipeline = Pipeline(models)
    done(pipeline, lake)
    for table in tables:
        created_again(lake, table)
    assert [step.reason for step in plan(pipeline, lake)] == ["first run"] * 4
    done(pipeline, lake)
    assert [rows(lake, table) for table in tables] == [[(1,)]] * 4
    assert [step.reason for step in plan(pipeline, lake)] == ["nothing has changed"] * 4


def filled_again(lake: Lake) -> None:
    created_again(lake)
    lake.table("marts.t").append(lake.at(version=1).table("marts.t").scan())


def test_intervals_of_a_table_that_was_filled_by_hand_are_computed_again(lake: Lake) -> None:
    done(DAILY, lake, until=EARLY)
    filled_again(lake)
    done(DAILY, lake, until=UNTIL)
    assert (plan(DAILY, lake, until=UNTIL)[0].reason, len(rows(lake))) == ("all intervals are done", 5)


def test_run_does_not_guess_which_files_a_table_has(lake: Lake, tmp_path: Path) -> None:
    pipeline = Pipeline([Model("marts.t", Append(files="*.csv"), folder=tmp_path)])
    (tmp_path / "0.csv").write_text("id\n0\n")
    done(pipeline, lake)
    filled_again(lake)
    with pytest.raises(PipelineError, match="lakeconf cannot tell"):
        plan(pipeline, lake)
    done(pipeline, lake, rebuild=True)
    assert (rows(lake), plan(pipeline, lake)[0].runs) == ([(0,)], False)


def test_run_does_not_replace_rows_that_only_changes_would_add(lake: Lake) -> None:
    lake.create_table("raw.a", {"id": "BIGINT"}).append(lake.sql("SELECT 1 AS id"))
    for table, kind in (("marts.t", Append()), ("marts.u", Merge("id", changes_of="raw.a"))):
        pipeline = Pipeline([Model(table, kind, Query("SELECT id FROM raw.a"))])
        done(pipeline, lake)
        schema = lake.table(table).schema
        dropped(lake, table)
        lake.create_table(table, schema).append(lake.sql("SELECT 7 AS id"))
        with pytest.raises(PipelineError, match="lakeconf cannot tell"):
            plan(pipeline, lake)
        done(pipeline, lake, rebuild=True)
        assert (rows(lake, table), plan(pipeline, lake)[0].reason) == ([(1,)], "nothing has changed")


def test_runs_of_a_restored_table_count_again(lake: Lake) -> None:
    done(DAILY, lake, until=UNTIL)
    first = lake.refresh()
    dropped(lake)
    done(DAILY, lake, until=EARLY)
    second = lake.refresh()
    dropped(lake)
    lake.restore("marts.t", version=first)
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, len(rows(lake))) == ("all intervals are done", 5)
    assert (
        "restored to version 1, before these intervals were done: run with --from 2024-01-01 --to 2024-01-03"
        in (step.warnings[0])
    )
    created_again(lake)
    lake.restore("marts.t", version=second)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "missing: 2024-01-03 to 2024-01-06"
    done(DAILY, lake, until=UNTIL)
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    (step,) = plan(DAILY, lake, until=UNTIL)
    assert (step.reason, step.warnings, len(rows(lake))) == ("all intervals are done", [], 5)


def test_table_that_comes_back_has_its_runs(lake: Lake) -> None:
    done(DAILY, lake, until=UNTIL)
    renamed(lake)
    lake.rename_table("marts.t_old", "marts.t")
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"
    version = lake.refresh()
    lake.table("marts.t").evolve(add={"n": "BIGINT"})
    lake.restore("marts.t", version=version)
    assert plan(DAILY, lake, until=UNTIL)[0].reason == "all intervals are done"


def test_dropped_view_is_created_again(lake: Lake) -> None:
    pipeline = Pipeline([Model("marts.v", View(), Query("SELECT 1 AS id"))])
    done(pipeline, lake)
    assert plan(pipeline, lake)[0].runs is False
    lake.drop_view("marts.v")
    assert plan(pipeline, lake)[0].runs is True
    done(pipeline, lake)
    assert rows(lake, "marts.v") == [(1,)]
