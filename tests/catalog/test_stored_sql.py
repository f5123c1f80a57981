"""SQL in a lake is found, whatever it is."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake

from lakeconf.catalog.stored_queries import stored_sql
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

# The kinds that are found after each statement.
STATEMENTS = {
    "INSERT INTO lake.t VALUES (1, now(), 1)": set[str](),
    "CREATE VIEW lake.v AS SELECT 1 AS a": {"view"},
    "CREATE MACRO lake.m(x) AS x + 1": {"scalar macro"},
    "CREATE MACRO lake.n(x) AS TABLE SELECT x AS a": {"table macro"},
    "ALTER TABLE lake.t SET SORTED BY (a + 1)": {"sort key of the table"},
    "CREATE TABLE lake.u (a TIMESTAMP DEFAULT now())": {"default value of the table"},
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_each_kind_of_sql_is_found(kind: str, statement: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    with lake(kind, tmp_path, server=postgres_server) as source:
        source.run("CREATE TABLE lake.t (a INTEGER, b TIMESTAMP, c INTEGER DEFAULT 5)", statement)
        with source.reader.transaction() as transaction:
            found = stored_sql(transaction, names=False)
            assert {row[0] for row in [*found.views, *found.expressions]} == STATEMENTS[statement]
            assert bool(found.names) == bool(STATEMENTS[statement])
            named = stored_sql(transaction, names=True)
            assert ("main", "t", 1, None) in named.names
            assert named.newest == found.newest == source.newest


def test_sql_that_ended_is_still_found(tmp_path: Path) -> None:
    """A query may read an earlier snapshot."""
    with lake("sqlite", tmp_path) as source:
        source.run("CREATE VIEW lake.v AS SELECT 1 AS a", "DROP VIEW lake.v")
        with source.reader.transaction() as transaction:
            assert [row[:2] for row in stored_sql(transaction, names=False).views] == [("view", "v")]


def test_value_that_the_catalog_stores_as_another_type_is_not_overlooked(tmp_path: Path) -> None:
    """The bytes of a BLOB may be those of the text: whoever reads them may take it for the text."""
    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as source:
        source.run("CREATE TABLE lake.t (a INTEGER DEFAULT 5)")
        with contextlib.closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as catalog:
            catalog.execute("UPDATE ducklake_column SET default_value_type = CAST('expression' AS BLOB)")
            catalog.commit()
        with pytest.raises(SchemaError, match="default_value_type"), source.reader.transaction() as transaction:
            stored_sql(transaction, names=False)
