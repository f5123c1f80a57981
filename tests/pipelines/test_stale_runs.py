"""Promotion of a table whose inputs have changed in the source since it was computed."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from promotions import done, rows, stores

from lakeconf.pipelines import Append, Full, Incremental, Merge, Model, Pipeline, Query, plan, plan_promotion, promote
from lakeconf.pipelines.late import is_own

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.pipelines.kinds import Kind

UNTIL = date(2024, 1, 5)
EVENTS = Append(files="*.csv")
SQL = "SELECT day, CAST(sum(n) AS BIGINT) AS n FROM raw.a WHERE day >= $start AND day < $end GROUP BY day"


def load(folder: Path, name: str, *days: int) -> None:
    lines = "".join(f"2024-01-{day:02},1\n" for day in days)
    (folder / f"{name}.csv").write_text(f"day,n\n{lines}")


def pipeline_of(folder: Path, kind: Kind, sql: str = "SELECT * FROM raw.a") -> Pipeline:
    return Pipeline([Model("raw.a", EVENTS, folder=folder), Model("marts.t", kind, Query(sql))])


def test_input_in_another_store_is_not_in_the_own_lake() -> None:
    assert (is_own("raw.a"), is_own("dev.raw.a")) == (True, False)


@pytest.mark.parametrize("late", ["warn", "redo"])
def test_target_computes_the_late_intervals_of_the_source(lakes: tuple[Lake, Lake], tmp_path: Path, late: str) -> None:
    dev, prod = lakes
    pipeline = pipeline_of(tmp_path, Incremental("day", start=date(2024, 1, 1), late=late), SQL)  # type: ignore[arg-type]
    load(tmp_path, "a", 1, 2, 3, 4)
    done(pipeline, dev, until=UNTIL)
    load(tmp_path, "b", 2)
    done(pipeline, dev, tables=["raw.a"])
    note = "; its inputs changed in the source since it computed 2024-01-02 to 2024-01-03: the target computes these "
    assert plan_promotion(pipeline, dev, prod).steps[1].reason == f"new table, 4 rows{note}intervals again"
    promote(pipeline, dev, prod)
    assert plan(pipeline, prod, until=UNTIL)[1].reason == "missing: 2024-01-02 to 2024-01-03"
    done(pipeline, prod, until=UNTIL)
    assert [n for _, n in rows(prod)] == [1, 2, 1, 1]
    assert plan(pipeline, prod, until=UNTIL)[1].warnings == []


def test_target_repeats_the_lookback_that_the_source_would_repeat(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, prod = lakes
    kind = Incremental("day", start=date(2024, 1, 1), lookback=1, late="ignore")
    pipeline = pipeline_of(tmp_path, kind, SQL)
    load(tmp_path, "a", 1, 2, 3, 4)
    done(pipeline, dev, until=UNTIL)
    promote(pipeline, dev, prod)
    assert plan(pipeline, prod, until=UNTIL)[1].reason == "all intervals are done"
    load(tmp_path, "b", 1, 4)
    done(pipeline, dev, tables=["raw.a"])
    prod.drop_table("marts.t")
    promote(pipeline, dev, prod)
    done(pipeline, prod, until=UNTIL)
    assert [n for _, n in rows(prod)] == [1, 1, 1, 2]


@pytest.mark.parametrize("kind", [Full(), Append(), Merge("day"), Merge("day", changes_of="raw.a")])
def test_target_computes_a_table_again_that_the_source_would_compute(
    kind: Kind, lakes: tuple[Lake, Lake], tmp_path: Path
) -> None:
    dev, prod = lakes
    pipeline = pipeline_of(tmp_path, kind, "SELECT day, n FROM raw.a")
    load(tmp_path, "a", 1)
    done(pipeline, dev)
    load(tmp_path, "b", 2)
    done(pipeline, dev, tables=["raw.a"])
    note = "; raw.a changed in the source since its last run: the target computes all rows again"
    assert plan_promotion(pipeline, dev, prod).steps[1].reason == f"new table, 1 row{note}"
    promote(pipeline, dev, prod)
    done(pipeline, prod)
    assert len(rows(prod)) == 2


def test_unknown_changes_of_inputs_are_named(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, prod = lakes
    pipeline = pipeline_of(tmp_path, Full())
    load(tmp_path, "a", 1)
    done(pipeline, dev)
    dev.drop_table("raw.a")
    (step,) = plan_promotion(pipeline, dev, prod, ["marts.t"]).steps
    assert step.reason.startswith("new table, 1 row; changes of its inputs in the source are unknown: ")


def test_target_finds_changes_of_inputs_in_other_stores_itself(tmp_path: Path) -> None:
    found = stores(tmp_path, "dev", "prod", "ext")
    pipeline = Pipeline([Model("marts.t", Full(), Query("SELECT id FROM ext.raw.a"))])
    with found["dev"].open() as dev, found["prod"].open() as prod, found["ext"].open() as ext:
        ext.create_table("raw.a", {"id": "BIGINT"}).append(ext.sql("SELECT 1 AS id"))
        done(pipeline, dev, others={"ext": ext})
        ext.table("raw.a").append(ext.sql("SELECT 2 AS id"))
        for number in range(5):  # snapshots of the target say nothing about another lake
            prod.create_table(f"raw.t{number}", {"id": "BIGINT"})
        assert plan_promotion(pipeline, dev, prod).steps[0].reason == "new table, 1 row"
        promote(pipeline, dev, prod)
        assert prod.runs.committed("marts.t")[-1].inputs == {"ext.raw.a": 2}
        done(pipeline, prod, others={"ext": ext})
        assert rows(prod) == [(1,), (2,)]
