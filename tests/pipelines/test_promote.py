"""Promotion: its plan, what it refuses, and the run history in the target."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.cli.commands import run as command
from lakeconf.errors import CommitConflictError, DataLossError, LakeconfError, PipelineError
from lakeconf.pipelines import (
    Append,
    Full,
    Incremental,
    Merge,
    Model,
    Pipeline,
    Query,
    View,
    plan,
    plan_promotion,
    promote,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

NUMBERS = "(VALUES (1, 'a'), (2, 'b')) AS t(id, name)"


def stores(folder: Path, *names: str) -> dict[str, Store]:
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(folder / name)},
        }
        for name in names
    }
    config = lakeconf.init({"stores": declared})
    return {name: config.get_store(name) for name in names}


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[tuple[Lake, Lake]]:
    found = stores(tmp_path, "dev", "prod")
    with found["dev"].open() as dev, found["prod"].open() as prod:
        yield dev, prod


def full(query: str, **given: Any) -> Pipeline:
    return Pipeline([Model("marts.t", Full(), Query(query), **given)])


def rows(lake: Lake, table: str = "marts.t") -> list[tuple[Any, ...]]:
    lake.refresh()
    native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
    found: list[tuple[Any, ...]] = native.fetchall()
    return found


def done(pipeline: Pipeline, lake: Lake, **given: Any) -> None:
    for result in run(pipeline, lake, **given):
        if result.error is not None:
            raise result.error


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


def test_lake_is_not_promoted_to_itself(tmp_path: Path) -> None:
    store = stores(tmp_path, "dev")["dev"]
    pipeline = full("SELECT 1 AS a")
    with store.open() as one, store.open() as other:
        done(pipeline, one)
        before = one.refresh()
        with pytest.raises(PipelineError, match="the same lake"):
            promote(pipeline, one, other)
        assert one.refresh() == before


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


CONFIGURATION = """
[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }

[stores.prod_again]
extends = "prod"

[pipeline.models."marts.t"]
sql = "t.sql"
"""


@pytest.fixture
def folder(project: Path) -> Path:
    """A project with a table that has four rows in the store dev and three in prod."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(CONFIGURATION)
    sql = project / "t.sql"
    sql.write_text("SELECT unnest([0, 1, 2]) AS id")
    assert command(["run", "--store", "prod"]) == 0
    sql.write_text("SELECT unnest([0, 1, 2, 3]) AS id")
    assert command(["run"]) == 0
    return project


def prod_rows() -> int:
    with lakeconf.init().get_store("prod").open() as lake:
        return len(rows(lake))


def test_command_needs_consent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    capsys.readouterr()
    assert command(["promote", "dev", "prod"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "replace  marts.t  1 row added\n"
    assert "--yes" in shown.err
    assert prod_rows() == 3
    assert command(["promote", "dev", "prod", "--dry-run"]) == 0
    assert capsys.readouterr().out == "replace  marts.t  1 row added\n"
    assert prod_rows() == 3
    assert command(["promote", "dev", "prod", "--yes", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["action"], found["rows"]) == ("replace", {"added": 1, "removed": 0, "changed": 0})
    assert found["snapshot_id"] is not None
    assert prod_rows() == 4
    assert command(["promote", "dev", "prod"]) == 0
    assert capsys.readouterr().out == "skip  marts.t  equal in both\nnothing to promote\n"


def test_command_loses_rows_only_with_allow_row_loss(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    with lakeconf.init().get_store("prod").open() as lake:
        lake.table("marts.t").append(lake.sql("SELECT 9 AS id"))
    for given in (["--yes"], ["--dry-run"], []):
        capsys.readouterr()
        assert command(["promote", "dev", "prod", *given]) == 1
        shown = capsys.readouterr()
        assert shown.out == "replace  marts.t  1 row added, 1 row removed\n"
        assert "1 row of marts.t" in shown.err
        assert prod_rows() == 4
    assert command(["promote", "dev", "prod", "--allow-row-loss", "--dry-run"]) == 0
    assert prod_rows() == 4
    assert command(["promote", "dev", "prod", "--allow-row-loss", "--yes"]) == 0
    with lakeconf.init().get_store("prod").open() as lake:
        assert rows(lake) == [(0,), (1,), (2,), (3,)]


def test_a_plan_creates_no_lake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "lakeconf.toml").read_text()
    new = '\n[stores.new]\nextends = "prod"\nmetadata_backend = { uri = "new/catalog" }\n'
    (folder / "lakeconf.toml").write_text(text + new + 'storage_backend = { path = "new/data" }\n')
    for given, code in ((["--dry-run"], 0), ([], 2)):
        assert command(["promote", "dev", "new", *given]) == code
        assert capsys.readouterr().out == "create  marts.t  new table, 4 rows\n"
    assert command(["promote", "new", "prod"]) == 1
    assert "store 'new' has no lake yet" in capsys.readouterr().err
    assert not (folder / "new").exists()
    assert command(["promote", "dev", "new", "--yes"]) == 0
    assert (folder / "new").exists()


@pytest.mark.parametrize("names", [("prod", "prod"), ("prod", "prod_again")])
def test_command_refuses_two_names_of_one_lake(
    names: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.is_dir()
    assert command(["promote", *names, "--yes"]) == 1
    assert "are the same lake" in capsys.readouterr().err


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
