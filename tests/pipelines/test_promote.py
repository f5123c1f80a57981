"""Promotion: its plan, what it refuses, and the run history in the target."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from promotions import NUMBERS, done, full, rows, stores

from lakeconf.errors import CommitConflictError, DataLossError, LakeconfError
from lakeconf.pipelines import Append, Full, Incremental, Model, Pipeline, Query, plan, plan_promotion, promote

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def test_missing_table_is_created(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.action, step.reason) == ("create", "new table, 2 rows")
    assert promote(pipeline, dev, prod) == {"marts.t": prod.snapshot_id}
    assert rows(prod) == rows(dev) == [(1, "a"), (2, "b")]


def test_equal_tables_are_skipped(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    promote(pipeline, dev, prod)
    before = prod.refresh()
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert (step.action, step.reason) == ("skip", "equal in both")
    assert promote(pipeline, dev, prod) == {}
    assert prod.refresh() == before


def test_target_has_the_types_of_the_source(lakes: tuple[Lake, Lake]) -> None:
    """A frame between two lakes has DECIMAL(38,0) in place of HUGEINT, the type of a sum."""
    dev, prod = lakes
    pipeline = full(f"SELECT name, sum(id) AS total FROM {NUMBERS} GROUP BY name")
    done(pipeline, dev)
    promote(pipeline, dev, prod)
    assert prod.table("marts.t").schema == dev.table("marts.t").schema == {"name": "VARCHAR", "total": "HUGEINT"}
    assert [step.action for step in plan_promotion(pipeline, dev, prod).steps] == ["skip"]
    prod.table("marts.t").overwrite(prod.sql("SELECT 'c' AS name, sum(range) AS total FROM range(3)"))


def test_losing_rows_of_the_target_needs_consent(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    promote(pipeline, dev, prod)
    prod.table("marts.t").append(prod.sql("SELECT 3 AS id, 'c' AS name"))
    before = prod.refresh()
    with pytest.raises(DataLossError, match=r"1 row of marts\.t") as caught:
        promote(pipeline, dev, prod)
    assert "--allow-row-loss" in str(caught.value.hint)
    assert (prod.refresh(), len(rows(prod))) == (before, 3)
    promote(pipeline, dev, prod, allow_row_loss=True)
    assert rows(prod) == [(1, "a"), (2, "b")]


def test_promotion_is_all_or_nothing(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = Pipeline([Model(f"marts.{name}", Full(), Query(f"SELECT * FROM {NUMBERS}")) for name in ("a", "b")])
    done(pipeline, dev)
    prod.create_table("marts.b", {"id": "INTEGER", "name": "VARCHAR"}).append(prod.sql("SELECT 9 AS id, 'x' AS name"))
    with pytest.raises(DataLossError):
        promote(pipeline, dev, prod)
    assert prod.tables() == ["marts.b"]
    before = prod.snapshot_id
    assert set(promote(pipeline, dev, prod, allow_row_loss=True).values()) == {before + 1}


def test_dropping_columns_of_the_target_needs_consent(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full("SELECT 1 AS number, 'x' AS note", renamed={"n": "number"})
    done(pipeline, dev)
    prod.create_table("marts.t", {"n": "INTEGER", "owner": "VARCHAR"}).append(prod.sql("SELECT 1 AS n, 'me' AS owner"))
    (step,) = plan_promotion(pipeline, dev, prod).steps
    assert step.reason == "adds note VARCHAR, renames n to number, drops owner"
    with pytest.raises(DataLossError, match=r"drop the column owner of marts\.t"):
        promote(pipeline, dev, prod)
    assert rows(prod) == [(1, "me")]
    promote(pipeline, dev, prod, allow_drop_columns=True)
    assert prod.table("marts.t").schema == dev.table("marts.t").schema
    assert rows(prod) == [(1, "x")]


def test_tables_without_a_common_column(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    pipeline = full("SELECT 1 AS a")
    done(pipeline, dev)
    prod.create_table("marts.t", {"b": "INTEGER"}).append(prod.sql("SELECT 2 AS b"))
    with pytest.raises(DataLossError, match="1 row"):
        promote(pipeline, dev, prod, allow_drop_columns=True)
    promote(pipeline, dev, prod, allow_drop_columns=True, allow_row_loss=True)
    assert rows(prod) == [(1,)]


def test_table_changed_since_the_plan_is_not_replaced(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, prod = lakes
    pipeline = full(f"SELECT * FROM {NUMBERS}")
    done(pipeline, dev)
    prod.create_table("marts.t", {"id": "INTEGER", "name": "VARCHAR"})
    planned = plan_promotion(pipeline, dev, prod)
    with stores(tmp_path, "prod")["prod"].open() as other:
        other.table("marts.t").append(other.sql("SELECT 7 AS id, 'new' AS name"))
    with pytest.raises(CommitConflictError):
        promote(pipeline, dev, prod, planned=planned)
    assert rows(prod) == [(7, "new")]
    with pytest.raises(CommitConflictError, match="since the promotion was planned"):
        promote(pipeline, dev, prod, planned=planned)


def test_day_deleted_by_a_promotion_runs_again(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    days = ", ".join(f"(DATE '2024-01-0{day}')" for day in range(1, 9))
    query = f"SELECT day FROM (VALUES {days}) AS t(day) WHERE day >= $start AND day < $end"
    pipeline = Pipeline([Model("marts.t", Incremental("day", start=date(2024, 1, 1)), Query(query))])
    done(pipeline, dev, until=date(2024, 1, 3))
    done(pipeline, prod, until=date(2024, 1, 5))
    promote(pipeline, dev, prod, allow_row_loss=True)
    assert len(rows(prod)) == 2
    (step,) = plan(pipeline, prod, until=date(2024, 1, 5))
    assert step.reason == "missing: 2024-01-03 to 2024-01-05"
    done(pipeline, prod, until=date(2024, 1, 5))
    assert len(rows(prod)) == 4


def test_files_whose_rows_a_promotion_deleted_are_loaded_again(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    dev, prod = lakes
    (tmp_path / "1.csv").write_text("a\n1\n")
    pipeline = Pipeline([Model("raw.f", Append(files="*.csv"), folder=tmp_path)])
    done(pipeline, dev)
    (tmp_path / "2.csv").write_text("a\n2\n")
    done(pipeline, prod)
    promote(pipeline, dev, prod, allow_row_loss=True)
    assert rows(prod, "raw.f") == [(1,)]
    done(pipeline, prod)
    assert rows(prod, "raw.f") == [(1,), (2,)]


def test_equal_rows_of_another_definition_update_only_the_history(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    old, new = full("SELECT 1 AS a"), full("SELECT 2 - 1 AS a")
    done(new, dev)
    done(old, prod)
    (step,) = plan_promotion(new, dev, prod).steps
    assert step.action == "remember"
    before = prod.snapshot_id
    promote(new, dev, prod)
    assert prod.runs.changes_since("marts.t", before) == []
    assert [step.runs for step in plan(new, prod)] == [False]
    # A second promotion changes nothing.
    assert promote(new, dev, prod) == {}


def test_view_of_the_same_name_in_the_target_is_kept(lakes: tuple[Lake, Lake]) -> None:
    dev, prod = lakes
    prod.create_view("main.w", "SELECT 9 AS id")
    other = Pipeline([Model("main.w", Full(), Query(f"SELECT * FROM {NUMBERS}"))])
    done(other, dev)
    before = prod.refresh()
    with pytest.raises(LakeconfError, match='View with name "w" already exists'):
        promote(other, dev, prod)
    assert prod.refresh() == before
    assert rows(prod, "main.w") == [(9,)]
