"""`lakeconf promote`: its plan, its consent, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    native: Any = lake.sql("FROM marts.t ORDER BY ALL").to_native()
    found: list[tuple[Any, ...]] = native.fetchall()
    return found


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
    assert run(["run", "--store", "prod"]) == 0
    sql.write_text("SELECT unnest([0, 1, 2, 3]) AS id")
    assert run(["run"]) == 0
    return project


def prod_rows() -> int:
    with lakeconf.init().get_store("prod").open() as lake:
        return len(rows(lake))


def test_command_needs_consent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["promote", "dev", "prod"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "replace  marts.t  1 row added\n"
    assert "--yes" in shown.err
    assert prod_rows() == 3
    assert run(["promote", "dev", "prod", "--dry-run"]) == 0
    assert capsys.readouterr().out == "replace  marts.t  1 row added\n"
    assert prod_rows() == 3
    assert run(["promote", "dev", "prod", "--yes", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["action"], found["rows"]) == ("replace", {"added": 1, "removed": 0, "changed": 0})
    assert found["snapshot_id"] is not None
    assert prod_rows() == 4
    assert run(["promote", "dev", "prod"]) == 0
    assert capsys.readouterr().out == "skip  marts.t  equal in both\nnothing to promote\n"


def test_command_loses_rows_only_with_allow_row_loss(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lakeconf.init().get_store("prod").open() as lake:
        lake.table("marts.t").append(lake.sql("SELECT 9 AS id"))
    for given in (["--yes"], ["--dry-run"], []):
        capsys.readouterr()
        assert run(["promote", "dev", "prod", *given]) == 1
        shown = capsys.readouterr()
        assert shown.out == "replace  marts.t  1 row added, 1 row removed\n"
        assert "1 row of marts.t" in shown.err
        assert prod_rows() == 4
    assert run(["promote", "dev", "prod", "--allow-row-loss", "--dry-run"]) == 0
    assert prod_rows() == 4
    assert run(["promote", "dev", "prod", "--allow-row-loss", "--yes"]) == 0
    with lakeconf.init().get_store("prod").open() as lake:
        assert rows(lake) == [(0,), (1,), (2,), (3,)]


def test_a_plan_creates_no_lake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "lakeconf.toml").read_text()
    new = '\n[stores.new]\nextends = "prod"\nmetadata_backend = { uri = "new/catalog" }\n'
    (folder / "lakeconf.toml").write_text(text + new + 'storage_backend = { path = "new/data" }\n')
    for given, code in ((["--dry-run"], 0), ([], 2)):
        assert run(["promote", "dev", "new", *given]) == code
        assert capsys.readouterr().out == "create  marts.t  new table, 4 rows\n"
    assert run(["promote", "new", "prod"]) == 1
    assert "store 'new' has no lake yet" in capsys.readouterr().err
    assert not (folder / "new").exists()
    assert run(["promote", "dev", "new", "--yes"]) == 0
    assert (folder / "new").exists()


@pytest.mark.parametrize("names", [("prod", "prod"), ("prod", "prod_again")])
def test_command_refuses_two_names_of_one_lake(
    names: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["promote", *names, "--yes"]) == 1
    assert "are the same lake" in capsys.readouterr().err


def test_link_to_the_same_catalog_is_the_same_lake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "link.sqlite").hardlink_to(folder / "prod.sqlite")
    linked = '\n[stores.linked]\nextends = "prod"\nmetadata_backend = { uri = "link.sqlite" }\n'
    (folder / "lakeconf.toml").write_text((folder / "lakeconf.toml").read_text() + linked)
    assert run(["promote", "prod", "linked", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert "error: prod and linked are the same lake\n  hint: name two stores with different catalogs\n" in shown


def test_promoted_tables_and_their_snapshot_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["promote", "dev", "prod", "marts.t", "--yes"]) == 0
    with lakeconf.init().get_store("prod").open() as lake:
        made = lake.snapshot_id
    assert capsys.readouterr().out == f"replace  marts.t  1 row added\nmarts.t: snapshot {made} of prod\n"
    assert run(["promote", "dev", "prod", "marts.tt"]) == 1
    assert "unknown model 'marts.tt'" in capsys.readouterr().err


def test_dropped_columns_need_the_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lakeconf.init().get_store("prod").open() as lake:
        lake.table("marts.t").evolve(add={"note": "VARCHAR"})
    capsys.readouterr()
    assert run(["promote", "dev", "prod", "--yes"]) == 1
    assert "--allow-drop-columns" in capsys.readouterr().err
    assert run(["promote", "dev", "prod", "--yes", "--allow-drop-columns", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["table"], found["columns"]["dropped"]) == ("marts.t", ["note"])
