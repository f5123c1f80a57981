"""`lakeconf copy` and `diff`: plan, consent, what they copy, refuse and show."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from promotions import stored_rows

import lakeconf
from lakeconf.cli.app import run
from lakeconf.errors import CommitConflictError
from lakeconf.inspection.table_copy import TableCopies, opened_target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake


CONFIGURATION = """
[stores.prod]
metadata_backend = { type = "sqlite", uri = "prod.sqlite" }
storage_backend = { type = "local", path = "prod" }

[stores.prod_again]
extends = "prod"

[stores.duck]
alias = "prod"
metadata_backend = { type = "duckdb", uri = "duck.duckdb" }
storage_backend = { type = "local", path = "duck" }
"""


@pytest.fixture
def folder(project: Path) -> Path:
    """The table marts.t has four rows in dev, and three of them in prod; marts.same is equal in both."""
    with (project / "lakeconf.toml").open("a") as file:
        file.write(CONFIGURATION)
    for name, count in (("dev", 4), ("prod", 3)):
        with lakeconf.init().get_store(name).open() as lake:
            for table, rows in (("marts.t", count), ("marts.same", 2)):
                frame = lake.sql(f"SELECT range AS id, 'n' || range AS name FROM range({rows})")
                lake.create_table(table, like=frame).append(frame)
    return project


PLAN = "skip     marts.same  equal in both\nreplace  marts.t     1 row added\n"


def test_a_plan_and_consent_come_first(folder: Path, called: Any) -> None:
    code, out, err = called("copy", "dev", "prod")
    assert (code, out) == (2, PLAN)
    assert "--yes" in err
    assert called("copy", "dev", "prod", "--dry-run")[:2] == (0, PLAN)
    assert len(stored_rows("marts.t", "prod")) == 3
    code, out, _ = called("copy", "dev", "prod", "--yes", "--format", "json")
    found = json.loads(out)
    assert [(one["table"], one["action"], one["added"], one["removed"]) for one in found["tables"]] == [
        ("marts.same", "skip", 0, 0),
        ("marts.t", "replace", 1, 0),
    ]
    assert stored_rows("marts.t", "prod") == stored_rows("marts.t", "dev")
    with lakeconf.init().get_store("prod").open() as lake:
        assert lake.snapshot_id == found["snapshot_id"]
        assert lake.snapshots()[-1].message == "copy marts.t from dev"
    assert called("copy", "dev", "prod", "marts.t", "--yes")[1] == "skip  marts.t  equal in both\nnothing to copy\n"


def test_a_new_table_has_everything_of_its_source(folder: Path, called: Any) -> None:
    definition: dict[str, Any] = {
        "partitioned_by": ["year(day)", "bucket(4, id)"],
        "sorted_by": ["id DESC NULLS LAST"],
        "comment": "Sales.",
        "column_comments": {"id": "The key."},
    }
    with lakeconf.init().get_store("dev").open() as lake:
        wanted = {"id": "UUID NOT NULL", "day": "DATE", "n": "HUGEINT", "s": "STRUCT(a INTEGER[], b DECIMAL(9,2))"}
        made = lake.create_table("raw.sales", wanted, **definition)
        values = "uuid() AS id, DATE '2024-05-17' AS day, 7::HUGEINT AS n, {'a': [1], 'b': 2.50::DECIMAL(9,2)} AS s"
        made.append(lake.sql(f"SELECT {values}"))
        expected = (made.schema, made.comment)
    for target in ("prod", "duck"):
        code, out, _ = called("copy", "dev", target, "raw.sales", "--yes")
        assert (code, out.splitlines()[0]) == (0, "create  raw.sales  1 row added")
        assert stored_rows("raw.sales", target) == stored_rows("raw.sales", "dev")
        with lakeconf.init().get_store(target).open() as lake:
            found = lake.table("raw.sales")
            assert (found.schema, found.comment) == expected
        assert called("copy", "dev", target, "raw.sales")[1].startswith("skip")


def test_a_table_that_differs_becomes_that_of_the_source(folder: Path, called: Any) -> None:
    """Whether its columns, its comments and partition keys, or only its rows differ."""
    changes: list[tuple[Callable[[Lake], object], str]] = [
        (lambda lake: lake.table("marts.same").evolve(add={"note": "VARCHAR"}), "- note VARCHAR"),
        (lambda lake: lake.table("marts.same").evolve(drop=["name"]), "+ name VARCHAR"),
        (
            lambda lake: lake.table("marts.same").evolve(promote={"id": "DECIMAL(38, 0)"}),
            "+ id BIGINT; - id DECIMAL(38,0)",
        ),
        (
            lambda lake: (
                lake.drop_table("marts.same"),
                lake.create_table("marts.same", {"name": "VARCHAR"}, partitioned_by=["name"], comment="Other."),
            ),
            "2 rows added; + id BIGINT; partitioned by nothing; other comments",
        ),
        (lambda lake: lake.table("marts.same").append([{"id": 9, "name": None}]), "replace  marts.same  1 row removed"),
    ]
    for change, shown in changes:
        with lakeconf.init().get_store("prod").open() as lake:
            change(lake)
        code, out, _ = called("copy", "dev", "prod", "marts.same", "--yes")
        assert (code, out.splitlines()[0].endswith(shown)) == (0, True), out
        assert stored_rows("marts.same", "prod") == stored_rows("marts.same", "dev")
    assert called("copy", "dev", "prod", "marts.same")[1].startswith("skip")


def test_a_plan_creates_no_lake(folder: Path, called: Any) -> None:
    for options in (("--dry-run",), ()):
        code, out, _ = called("copy", "dev", "duck", *options)
        assert (code, out) == (
            0 if options else 2,
            "create  marts.same  2 rows added\ncreate  marts.t     4 rows added\n",
        )
        assert not (folder / "duck.duckdb").exists()
        assert not (folder / "duck").exists()
    code, _, err = called("copy", "duck", "prod", "--yes")
    assert (code, "store 'duck' has no lake yet" in err) == (1, True)
    assert called("copy", "dev", "duck", "--yes")[0] == 0
    assert stored_rows("marts.t", "duck") == stored_rows("marts.t", "dev")


def test_what_cannot_be_copied_is_refused(folder: Path, called: Any) -> None:
    """Two names of one lake, and what runs have done."""
    with lakeconf.init().get_store("dev").open() as lake:
        lake.table("marts.t").append([{"id": 9, "name": None}], idempotency_key="k")
    for arguments, message in (
        (("prod", "prod"), "are the same lake"),
        (("prod", "prod_again"), "are the same lake"),
        (("dev", "prod", "lakeconf.commits"), "belongs to lakeconf"),
        (("dev", "prod", "LAKECONF.commits"), "belongs to lakeconf"),
    ):
        code, _, err = called("copy", *arguments, "--yes")
        assert (code, message in err) == (1, True)


def test_a_view_of_the_same_name_is_kept(folder: Path, called: Any) -> None:
    with lakeconf.init().get_store("prod").open() as lake:
        lake.drop_table("marts.t")
        lake.create_view("marts.t", "SELECT 1 AS id")
    assert called("copy", "dev", "prod", "--yes")[0] == 1
    assert stored_rows("marts.t", "prod") == [(1,)]


def test_a_table_that_changed_after_the_plan_is_not_replaced(folder: Path) -> None:
    config = lakeconf.init()
    with config.get_store("prod").open() as lake, config.get_store("prod").open() as other:
        copies = TableCopies(lake, config.get_store("dev"))
        steps = copies.plan()
        other.table("marts.t").append([{"id": 9, "name": None}])
        with pytest.raises(CommitConflictError):
            copies.copy(steps)
    assert len(stored_rows("marts.t", "prod")) == 4


@pytest.mark.parametrize("source_changes", [False, True])
def test_a_lake_that_was_created_after_the_plan_is_not_replaced(folder: Path, *, source_changes: bool) -> None:
    config = lakeconf.init()
    target, source = config.get_store("duck"), config.get_store("dev")
    with contextlib.ExitStack() as stack:
        lake, is_new = opened_target(stack, target)
        assert is_new
        copies = TableCopies(lake, source)
        steps = copies.plan()
        with target.open() as made:
            if not source_changes:
                made.create_table("marts.t", {"id": "BIGINT"}).append([{"id": 100}])
        if source_changes:
            with source.open() as changed:
                changed.table("marts.t").append([{"id": 9, "name": None}])
        new = stack.enter_context(target.open())
        if source_changes:
            copies.copy_to(new, source, steps)
        else:
            with pytest.raises(CommitConflictError, match="after the plan was made"):
                copies.copy_to(new, source, steps)
    assert len(stored_rows("marts.t", "duck")) == (4 if source_changes else 1)


def test_models_of_the_target_run_as_usual(folder: Path, called: Any) -> None:
    with (folder / "lakeconf.toml").open("a") as file:
        file.write('\n[pipeline.models."marts.m"]\nsql = "m.sql"\n')
    (folder / "m.sql").write_text("SELECT count(*) AS n FROM marts.t")
    assert run(["run", "--store", "prod"]) == 0
    assert called("copy", "dev", "prod", "marts.t", "--yes")[0] == 0
    assert run(["run", "--store", "prod"]) == 0
    assert stored_rows("marts.m", "prod") == [(4,)]


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
def compared(lakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the two stores is the current one."""
    monkeypatch.chdir(lakes)


def test_equal_tables_and_a_table_with_one_row_more(compared: None, called: Any) -> None:
    assert called("diff", "dev", "prod", "marts.same") == (
        0,
        "marts.same: dev has 1 rows, prod 1\n  1 equal, 0 in dev only, 0 in prod only\n",
        "",
    )
    for table, code, rows in (("same", 0, 1), ("more", 1, 2)):
        found_code, out, _ = called("diff", "dev", "prod", f"marts.{table}", "--format", "json")
        found = json.loads(out)
        assert (found_code, found["equal"] is (code == 0), found["equal_rows"]) == (code, True, rows)


def test_differences_with_a_key(compared: None, called: Any) -> None:
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


def test_differences_as_json(compared: None, called: Any) -> None:
    arguments = ("diff", "dev", "prod", "marts.t", "--on", "id", "--format", "json")
    code, out, _ = called(*arguments)
    found = json.loads(out)
    assert (code, found["equal"], found["equal_rows"], found["stores"]) == (1, False, 0, ["dev", "prod"])
    assert found["table"] == "marts.t"
    assert (found["rows"], found["only"], found["columns"]["name"]) == ([2, 2], [1, 1], 1)
    assert found["schema"] == [["flag", None, "BOOLEAN"]]
    assert found["sample_changes"] == [{"id": 1, "name": ["a", "A"], "tags": [[1, None], [1, None]]}]


def test_key_of_several_columns_and_unknown_names(compared: None, called: Any) -> None:
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
