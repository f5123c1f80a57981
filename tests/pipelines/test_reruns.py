"""What causes a model to run again, and which rows a repeated run keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.pipelines import Append, Full, Merge, Model, Pipeline, Query, plan, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path).open() as lake:
        for name in ("a", "b"):
            rows = lake.sql("SELECT 1 AS id, 10 AS n")
            lake.create_table(f"raw.{name}", rows).append(rows)
        yield lake


def rows(lake: Lake, table: str = "marts.t") -> list[tuple[Any, ...]]:
    lake.refresh()
    native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
    found: list[tuple[Any, ...]] = native.fetchall()
    return found


def done(lake: Lake, *models: Model, **given: Any) -> list[str]:
    results = run(Pipeline(models), lake, **given)
    for result in results:
        if result.error is not None:
            raise result.error
    return [result.reason for result in results]


def add(lake: Lake, table: str, number: int, n: int) -> None:
    lake.table(table).append(lake.sql(f"SELECT {number} AS id, {n} AS n"))


def test_append_with_a_changed_definition_is_rebuilt(lake: Lake) -> None:
    done(lake, Model("marts.t", Append(), Query("SELECT id, n FROM raw.a")))
    add(lake, "raw.a", 2, 20)
    changed = Model("marts.t", Append(), Query("SELECT id, n * 2 AS n FROM raw.a"))
    assert done(lake, changed, rebuild=True) == ["requested: replaces all rows"]
    assert rows(lake) == [(1, 20), (2, 40)]


def test_changed_input_table_causes_a_rebuild(lake: Lake) -> None:
    done(lake, Model("marts.t", Merge("id", changes_of="x"), Query("SELECT id, n FROM x"), {"x": "raw.a"}))
    moved = Model("marts.t", Merge("id", changes_of="x"), Query("SELECT id, n FROM x"), {"x": "raw.b"})
    (step,) = plan(Pipeline([moved]), lake)
    assert (step.runs, step.rebuild, step.needs_rebuild) == (True, True, True)
    done(lake, moved, rebuild=True)
    view = Model("marts.u", Full(), Query("SELECT id, n FROM x"), {"x": "raw.a"})
    done(lake, view)
    assert [step.runs for step in plan(Pipeline([view]), lake)] == [False]


def test_plan_includes_models_downstream_of_a_model_that_will_run(lake: Lake) -> None:
    below = Model("marts.b", Full(), Query("SELECT * FROM marts.t"))
    first = Model("marts.t", Full(), Query("SELECT id, n FROM raw.a"))
    done(lake, first, below)
    assert [step.runs for step in plan(Pipeline([first, below]), lake)] == [False, False]
    add(lake, "raw.a", 2, 20)
    steps = plan(Pipeline([first, below]), lake)
    assert [(step.model.table, step.runs, step.reason) for step in steps] == [
        ("marts.t", True, "raw.a changed"),
        ("marts.b", True, "marts.t changed"),
    ]


@pytest.mark.parametrize(("update", "expected"), [(True, [(1, 99), (2, 20)]), (False, [(1, 10), (2, 20)])])
def test_merge_updates_rows_only_with_update(update: bool, expected: list[tuple[int, int]], lake: Lake) -> None:
    merge = Model("marts.t", Merge("id", update=update), Query("SELECT id, n FROM raw.a"))
    done(lake, merge)
    lake.table("raw.a").update({"n": 99}, "id = 1")
    add(lake, "raw.a", 2, 20)
    done(lake, merge)
    assert rows(lake) == expected


def test_rebuild_loads_all_files_without_duplicates(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\n1\n")
    load = Model("raw.f", Append(files="*.csv"), folder=tmp_path)
    done(lake, load)
    (tmp_path / "2.csv").write_text("id\n2\n")
    done(lake, load)
    assert done(lake, load) == ["no new file matches *.csv"]
    (step,) = plan(Pipeline([load]), lake, rebuild=True)
    assert (step.rebuild, step.replaces, list(step.files)) == (True, True, ["1.csv", "2.csv"])
    done(lake, load, rebuild=True)
    assert rows(lake, "raw.f") == [(1,), (2,)]


def test_input_can_have_the_name_of_its_table(lake: Lake) -> None:
    done(lake, Model("marts.t", Full(), Query("SELECT id, n FROM A"), {"A": "raw.a"}))
    assert rows(lake) == [(1, 10)]
