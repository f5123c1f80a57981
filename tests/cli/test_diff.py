"""`lakeconf diff`: the differences as text and as JSON, and the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

STORES = """
[stores.dev]
metadata_backend = { type = "sqlite", uri = "dev.sqlite" }
storage_backend = { type = "local", path = "dev" }

[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }
"""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores. Their tables marts.t differ in each way, marts.more has one row more, and marts.same are equal."""
    folder = tmp_path_factory.mktemp("diff")
    (folder / "lakeconf.toml").write_text(STORES)
    keyed = {
        "dev": "SELECT * FROM (VALUES (1, 'a', [1, NULL]), (2, 'b', [2])) AS t(id, name, tags)",
        "prod": "SELECT *, true AS flag FROM (VALUES (1, 'A', [1, NULL]), (3, NULL, [2])) AS t(id, name, tags)",
    }
    for name, rows in (("dev", 2), ("prod", 3)):
        with lakeconf.init(folder).get_store(name).open() as lake:
            more = f"SELECT range AS id FROM range({rows})"
            for table, sql in (("t", keyed[name]), ("more", more), ("same", "SELECT 1 AS id")):
                lake.create_table(f"marts.{table}", lake.sql(sql)).append(lake.sql(sql))
    return folder


@pytest.fixture
def folder(lakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the two stores is the current one."""
    monkeypatch.chdir(lakes)


def test_equal_tables_and_a_table_with_one_row_more(folder: None, called: Any) -> None:
    assert called("diff", "dev", "prod", "marts.same") == (
        0,
        "marts.same: dev has 1 rows, prod 1\n  1 equal, 0 in dev only, 0 in prod only\n",
        "",
    )
    for table, code, rows in (("same", 0, 1), ("more", 1, 2)):
        found_code, out, _ = called("diff", "dev", "prod", f"marts.{table}", "--format", "json")
        found = json.loads(out)
        assert (found_code, found["equal"] is (code == 0), found["equal_rows"]) == (code, True, rows)


def test_differences_with_a_key(folder: None, called: Any) -> None:
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


def test_differences_as_json(folder: None, called: Any) -> None:
    arguments = ("diff", "dev", "prod", "marts.t", "--on", "id", "--format", "json")
    code, out, _ = called(*arguments)
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"], found["stores"]) == (1, False, 0, ["dev", "prod"])
    assert found["table"] == "marts.t"
    assert (found["rows"], found["only"], found["columns"]["name"]) == ([2, 2], [1, 1], 1)
    assert found["schema"] == [["flag", None, "BOOLEAN"]]
    assert found["sample_changes"] == [{"id": 1, "name": ["a", "A"], "tags": [[1, None], [1, None]]}]


def test_key_of_several_columns_and_unknown_names(folder: None, called: Any) -> None:
    code, out, _ = called("diff", "dev", "prod", "marts.t", "--on", "id", "--on", "tags")
    assert code == 1
    assert "  name differs in 1 rows of the same id, tags" in out.splitlines()
    for *arguments, message in (
        ("dev", "nowhere", "marts.t", "use one of the stores: dev, prod"),
        ("dev", "prod", "marts.none", "the store 'dev' has no table marts.none"),
        ("dev", "prod", "marts.t", "--on", "nothing", "marts.t has no column 'nothing' in both stores"),
    ):
        code, out, err = called("diff", *arguments)
        assert (code, out, message in err) == (1, "", True)
