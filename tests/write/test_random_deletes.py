"""Deletes on Spark by files and positions: the same rows remain as after DuckDB's DELETE, in random lakes."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from catalog_lake import AttachedLake
from hypothesis import Phase, given, settings
from lake_parts import catalog_of, scope_of, session_of
from local_stores import config_of, on_catalog
from narrow_lakes import COLUMNS, OPERATIONS, build, conditions, statement
from planned_writes import add
from strength import PROVE

import lakeconf
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.pruning.where import parse
from lakeconf.catalog.tables import load_table
from lakeconf.commit.row_delta import RowDelta
from lakeconf.errors import CommitConflictError, LakeconfError, QueryError
from lakeconf.write import strategy as rule
from lakeconf.write.operations.delete import DeleteRows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if PROVE else [])]
# Files with many rows and few values, and rows in the catalog.
START = [("insert", 40, 1), ("partition", "{0}", 0), ("insert", 30, 4), ("insert", 3, 5)]
Rows = list[str]


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> lakeconf.Store:
    """A store with the name that random lakes have."""
    catalog = on_catalog(request, tmp_path)
    return lakeconf.init({"stores": {"lake": config_of(tmp_path, catalog)["stores"]["dev"]}}).get_store("lake")


@pytest.fixture(params=["statements", "a staged commit"])
def seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, searching: None) -> Counter[str]:
    """The number of deletes, and of outcomes; few rows are deleted by statements, many by a staged commit."""
    monkeypatch.setattr(rule, "FEWEST_POSITIONS", 10**6 if request.param == "statements" else 0)
    seen, current = Counter[str](), RowDelta._current

    def counted(self: RowDelta, *arguments: Any) -> Any:
        seen["outcomes"] += 1
        return current(self, *arguments)

    monkeypatch.setattr(RowDelta, "_current", counted)
    return seen


def rows(source: AttachedLake, version: int | None = None) -> Rows:
    at = "" if version is None else f" AT (VERSION => {version})"
    # As text, because NaN differs from itself in Python.
    return sorted(map(repr, source.rows(f"SELECT rowid, * FROM (SELECT rowid, * FROM lake.t{at} OFFSET 0)")))


def after_delete(source: AttachedLake, condition: str) -> Rows | None:
    """The rows that DuckDB's DELETE leaves; None if a column is missing. Nothing is committed."""
    source.run("BEGIN")
    try:
        source.run(f"DELETE FROM lake.t WHERE {condition}")
        return rows(source)
    except QueryError:
        return None
    finally:
        source.run("ROLLBACK")


@pytest.mark.slow
@pytest.mark.prove("sqlite", "postgres", "a staged commit")
def test_random_deletes_leave_the_rows_that_duckdb_leaves(
    store: lakeconf.Store, spark: SparkSession, tmp_path: Path, seen: Counter[str]
) -> None:
    """Another writer sometimes changes the table between the search and the commit."""
    with store.open(spark) as lake, session_of(lake).writer.cursor() as connection:
        source = AttachedLake("", connection, tmp_path)
        source.reader = catalog_of(lake)
        source.run("CALL lake.set_option('data_inlining_row_limit', 10)")

        @settings(max_examples=60 if PROVE else 3, phases=PHASES)
        @given(columns=COLUMNS, operations=st.lists(OPERATIONS, max_size=10), data=st.data())
        def check(columns: dict[str, str], operations: list[tuple[str, Any, int]], data: st.DataObject) -> None:
            source.run("DROP TABLE IF EXISTS lake.t")
            build(source, columns, [*START, *operations])
            for _ in range(3):
                table = load_table(source.reader, "t", source.newest)
                texts = data.draw(st.lists(conditions(table.columns), min_size=1, max_size=3))
                where = data.draw(st.sampled_from([" AND ", " OR "])).join(f"({text})" for text in texts)
                seen["deletes"] += delete_beside(lake, source, where, data.draw(st.none() | OPERATIONS))

        check()
    # A run in which Spark finds nothing, or in which every commit is refused, proves nothing.
    assert min(seen["deletes"], seen["outcomes"]) >= 1, seen


def delete_beside(lake: lakeconf.Lake, source: AttachedLake, where: str, other: tuple[str, Any, int] | None) -> bool:
    """Deletes rows beside another writer, and compares with DuckDB's DELETE; False if it raised an error."""
    lake.refresh()
    condition = to_duckdb_sql(parse(where, load_table(source.reader, "t", source.newest).columns))
    earlier, before = source.newest, rows(source)
    expected: Rows | None = before
    now = before
    try:
        with scope_of(lake).joined() as transaction:
            add(transaction, "t", DeleteRows(where))
            if other is not None:
                build_on(source, other)
            now = rows(source)
            expected = after_delete(source, condition)
    except CommitConflictError:
        assert other is not None
        assert rows(source) == now
        return False
    assert rows(source) == expected, where
    if other is None:
        assert rows(source, earlier) == before, where
    return True


def build_on(source: AttachedLake, operation: tuple[str, Any, int]) -> None:
    with contextlib.suppress(LakeconfError, StopIteration):
        source.run(statement(source, operation))
        return
    with contextlib.suppress(LakeconfError):
        source.run("ROLLBACK")
