"""`lakeconf diff`: the differences as text and as JSON, and the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }
"""


@pytest.fixture
def folder(project: Path) -> Path:
    """The stores dev and prod. Their tables marts.t differ in each way, and marts.same are equal."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(OTHER)
    rows = {
        "dev": "SELECT * FROM (VALUES (1, 'a', [1, NULL]), (2, 'b', [2])) AS t(id, name, tags)",
        "prod": "SELECT *, true AS flag FROM (VALUES (1, 'A', [1, NULL]), (3, NULL, [2])) AS t(id, name, tags)",
    }
    for name, sql in rows.items():
        with lakeconf.init().get_store(name).open() as lake:
            lake.create_table("marts.t", lake.sql(sql)).append(lake.sql(sql))
            lake.create_table("marts.same", lake.sql("SELECT 1 AS id")).append(lake.sql("SELECT 1 AS id"))
    return project


def test_equal_tables(folder: Path, called: Any) -> None:
    assert called("diff", "dev", "prod", "marts.same") == (
        0,
        "marts.same: dev has 1 rows, prod 1\n  1 equal, 0 in dev only, 0 in prod only\n",
        "",
    )
    code, out, _ = called("diff", "dev", "prod", "marts.same", "--format", "json")
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"]) == (0, True, 1)
    assert isinstance(found["equal"], bool)


def test_different_tables_with_an_equal_row_are_not_equal_in_json(project: Path, called: Any) -> None:
    with (project / "lakeconf.toml").open("a") as file:
        file.write(OTHER)
    for name, rows in (("dev", "range(2)"), ("prod", "range(3)")):
        with lakeconf.init().get_store(name).open() as lake:
            sql = f"SELECT range AS id FROM {rows}"
            lake.create_table("marts.t", lake.sql(sql)).append(lake.sql(sql))
    code, out, _ = called("diff", "dev", "prod", "marts.t", "--format", "json")
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"]) == (1, False, 2)
    assert isinstance(found["equal"], bool)


def test_differences_with_a_key(folder: Path, called: Any) -> None:
    code, out, err = called("diff", "dev", "prod", "marts.t", "--on", "id")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "marts.t: dev has 2 rows, prod 2",
        "  column flag: none in dev, BOOLEAN in prod",
        "  0 equal, 1 in dev only, 1 in prod only",
        "  name differs in 1 rows of the same id",
        "  rows in dev only:",
        "    id=2, name=b, tags=[2]",
        "  rows in prod only:",
        "    id=3, name=None, tags=[2]",
        "  rows that differ ([dev, prod]):",
        "    id=1, name=[a, A], tags=[[1, None], [1, None]]",
    ]


def test_differences_as_json(folder: Path, called: Any) -> None:
    arguments = ("diff", "dev", "prod", "marts.t", "--on", "id", "--format", "json")
    code, out, _ = called(*arguments)
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"], found["stores"]) == (1, False, 0, ["dev", "prod"])
    assert found["table"] == "marts.t"
    assert (found["rows"], found["only"], found["columns"]["name"]) == ([2, 2], [1, 1], 1)
    assert found["schema"] == [["flag", None, "BOOLEAN"]]
    assert found["sample_changes"] == [{"id": 1, "name": ["a", "A"], "tags": [[1, None], [1, None]]}]


def test_key_of_several_columns(folder: Path, called: Any) -> None:
    code, out, _ = called("diff", "dev", "prod", "marts.t", "--on", "id", "--on", "tags")
    assert code == 1
    assert "  name differs in 1 rows of the same id, tags" in out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dev", "nowhere", "marts.t"), "use one of the stores: dev, prod"),
        (("dev", "prod", "marts.none"), "the store 'dev' has no table marts.none"),
        (("dev", "prod", "marts.t", "--on", "nothing"), "marts.t has no column 'nothing' in both stores"),
    ],
)
def test_unknown_names(arguments: tuple[str, ...], message: str, folder: Path, called: Any) -> None:
    code, out, err = called("diff", *arguments)
    assert (code, out) == (1, "")
    assert message in err
