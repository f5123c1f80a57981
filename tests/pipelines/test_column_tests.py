"""Tests of columns: what they find, and runs that they stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from lakeconf.errors import AuditError, PipelineError, TableNotFoundError
from lakeconf.pipelines import Full, Pipeline, Query, accepted_values, not_null, relationships, run, unique
from lakeconf.pipelines.models.column_tests import ColumnTest, DeclaredTests
from lakeconf.pipelines.models.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

ROWS: list[dict[str, Any]] = [
    {"id": 1, "kind": "view", 'o"dd': 1.5, "other": 1},
    {"id": 1, "kind": None, 'o"dd': None, "other": None},
    {"id": None, "kind": "it's", 'o"dd': 2.0, "other": 7},
    {"id": None, "kind": "view", 'o"dd': 2.0, "other": 1},
]


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with four rows in `raw.t`, and the ids 1 and 2 in `raw.known`."""
    with store.open() as lake:
        lake.create_table("raw.t", ROWS).append(ROWS)
        lake.create_table("raw.known", {"key": "BIGINT"}).append([{"key": 1}, {"key": 2}, {"key": None}])
        yield lake


def test_rows_that_violate_a_test_are_found(lake: Lake) -> None:
    for test, name, count in (
        (not_null("id"), "not_null id", 2),
        (not_null('o"dd'), 'not_null o"dd', 1),
        (unique("id"), "unique id", 1),
        (unique("kind"), "unique kind", 1),
        (unique("id", "kind"), "unique id, kind", 0),
        (accepted_values("kind", ["view"]), "accepted_values kind", 1),
        (accepted_values("kind", ["view", "it's"]), "accepted_values kind", 0),
        (accepted_values("id", [2, 3]), "accepted_values id", 2),
        (accepted_values('o"dd', [1.5, 2]), 'accepted_values o"dd', 0),
        (relationships("other", "raw.known", "key"), "relationships other → raw.known.key", 1),
        (relationships("id", "raw.known", "KEY"), "relationships id → raw.known.KEY", 0),
    ):
        assert (test.name, len(lake.sql(test.query('"raw"."t"')).collect("pyarrow"))) == (name, count)
    # The column of one table is not taken from the other.
    for test in (relationships("other", "raw.known", "id"), relationships("key", "raw.known", "key")):
        with pytest.raises(AuditError, match="cannot be run"), lake.transaction() as tx:  # noqa: PT012 - one commit
            tx.table("raw.known").append([{"key": 3}])
            tx.audit(test.name, test.query("raw.t"))


def test_incomplete_tests_are_refused() -> None:
    with pytest.raises(PipelineError, match="the test unique names no column"):
        unique()
    values: Any
    for values in ([], ["a", None]):
        with pytest.raises(PipelineError, match="needs values other than NULL"):
            accepted_values("kind", values)
    with pytest.raises(TableNotFoundError):
        relationships("id", "a.b.c", "id")


def test_declared_tests_are_those_of_python() -> None:
    declared = DeclaredTests.model_validate(
        {
            "not_null": ["a"],
            "unique": ["a", ["b", "c"]],
            "accepted_values": {"d": ["x", 1, True, 1.5]},
            "relationships": {"e": "raw.t.id"},
        }
    )
    python = [
        not_null("a"),
        unique("a"),
        unique("b", "c"),
        accepted_values("d", ["x", 1, True, 1.5]),
        relationships("e", "raw.t", "id"),
    ]
    assert [(one.name, one.query("t")) for one in declared.tests()] == [(one.name, one.query("t")) for one in python]
    assert "IN ('x', 1, true, 1.5)" in python[3].query("t")
    for target in ("raw.t", "t", "raw.t.", ".raw.t.id"):
        with pytest.raises(ValidationError, match="relationships"):
            DeclaredTests(relationships={"e": target})
    with pytest.raises(ValidationError, match="not_nul"):
        DeclaredTests.model_validate({"not_nul": ["a"]})


@pytest.mark.slow
def test_run_that_violates_a_test_writes_nothing(lake: Lake) -> None:
    def model(sql: str, *tests: ColumnTest) -> Pipeline:
        return Pipeline([Model("marts.t", Full(), Query(sql), tests=tests)])

    good = model("SELECT 1 AS id, 'a' AS kind", not_null("id"), unique("id"), accepted_values("kind", ["a"]))
    (done,) = run(good, lake)
    assert (done.status, done.rows) == ("done", 1)
    before = lake.snapshot_id
    (failed,) = run(model("SELECT NULL::INTEGER AS id, 'a' AS kind", not_null("id")), lake)
    assert failed.status == "failed"
    assert isinstance(failed.error, AuditError)
    assert failed.error.message.startswith("the test 'not_null id' found 1 row, so nothing was written")
    assert failed.error.hint == "fix the rows or the test"
    for column, count in (("id", "rows"), ("rows", "lakeconf_rows")):
        (failed,) = run(model("SELECT 1 AS id, 1 AS rows, 'a' AS kind FROM range(2)", unique(column)), lake)
        assert failed.error is not None
        assert failed.error.message.splitlines()[1] == f"  {{{column!r}: 1, {count!r}: 2}}"
    assert lake.refresh() == before
