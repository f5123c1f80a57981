"""`lakeconf copy`: its plan, its consent, what it copies, and what it refuses."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

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


def rows(store: str, table: str = "marts.t") -> list[tuple[Any, ...]]:
    with lakeconf.init().get_store(store).open() as lake:
        native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
        found: list[tuple[Any, ...]] = native.fetchall()
        return found


PLAN = "skip     marts.same  equal in both\nreplace  marts.t     1 row added\n"


def test_a_plan_and_consent_come_first(folder: Path, called: Any) -> None:
    code, out, err = called("copy", "dev", "prod")
    assert (code, out) == (2, PLAN)
    assert "--yes" in err
    assert called("copy", "dev", "prod", "--dry-run")[:2] == (0, PLAN)
    assert len(rows("prod")) == 3
    code, out, _ = called("copy", "dev", "prod", "--yes", "--format", "json")
    found = json.loads(out)
    assert [(one["table"], one["action"], one["added"], one["removed"]) for one in found["tables"]] == [
        ("marts.same", "skip", 0, 0),
        ("marts.t", "replace", 1, 0),
    ]
    assert rows("prod") == rows("dev")
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
        assert rows(target, "raw.sales") == rows("dev", "raw.sales")
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
        assert rows("prod", "marts.same") == rows("dev", "marts.same")
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
    assert rows("duck") == rows("dev")


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
    assert rows("prod") == [(1,)]


def test_a_table_that_changed_after_the_plan_is_not_replaced(folder: Path) -> None:
    config = lakeconf.init()
    with config.get_store("prod").open() as lake, config.get_store("prod").open() as other:
        copies = TableCopies(lake, config.get_store("dev"))
        steps = copies.plan()
        other.table("marts.t").append([{"id": 9, "name": None}])
        with pytest.raises(CommitConflictError):
            copies.copy(steps)
    assert len(rows("prod")) == 4


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
    assert len(rows("duck")) == (4 if source_changes else 1)


def test_models_of_the_target_run_as_usual(folder: Path, called: Any) -> None:
    with (folder / "lakeconf.toml").open("a") as file:
        file.write('\n[pipeline.models."marts.m"]\nsql = "m.sql"\n')
    (folder / "m.sql").write_text("SELECT count(*) AS n FROM marts.t")
    assert run(["run", "--store", "prod"]) == 0
    assert called("copy", "dev", "prod", "marts.t", "--yes")[0] == 0
    assert run(["run", "--store", "prod"]) == 0
    assert rows("prod", "marts.m") == [(4,)]
