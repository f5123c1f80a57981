"""Queries that the catalog runs itself return what DuckDB reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import Lake, lake

from lakeconf.catalog.reader import own_rows

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

QUERY = """
    SELECT c.column_id AS id, c.column_name AS name, c.initial_default AS value, c.nulls_allowed AS nullable
    FROM ducklake_column AS c WHERE c.table_id >= $1 AND lower(c.column_name) <> lower($2)
"""
TYPES = "id BIGINT, name VARCHAR, value VARCHAR, nullable BOOLEAN"


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_rows_are_those_that_duckdb_reads(kind: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    with lake(kind, tmp_path, server=postgres_server) as source:
        source.run("CREATE TABLE lake.t (a INTEGER NOT NULL, b VARCHAR, left_out INTEGER)")
        source.run('ALTER TABLE lake.t ADD COLUMN "It\'s ""ü"" ?" VARCHAR DEFAULT \'it\'\'s "ü"\'')
        with source.reader.transaction() as transaction:
            assert (transaction.own_query is not None) == (kind == "sqlite")
            expected = transaction.rows(f"{QUERY} ORDER BY id", [1, "Left_Out"])
            assert own_rows(transaction, QUERY, TYPES, [1, "Left_Out"], order="id") == expected
            assert own_rows(transaction, QUERY, TYPES, [1, "it's 'odd'"], order="id DESC")[0][0] == 4
            assert own_rows(transaction, QUERY, TYPES, [99, ""]) == []
        assert [(row[0], row[3]) for row in expected] == [(1, False), (2, True), (4, True)]
        assert expected[2][1:3] == ('It\'s "ü" ?', 'it\'s "ü"')


def test_value_that_has_no_literal_is_bound(tmp_path: Path) -> None:
    with lake("sqlite", tmp_path) as source, source.reader.transaction() as transaction:
        found: list[tuple[Any, ...]] = own_rows(
            transaction, "SELECT snapshot_id AS id FROM ducklake_snapshot WHERE snapshot_id < ?", "id BIGINT", [0.5]
        )
        assert found == [(0,)]


def test_own_rows_are_of_the_state_of_the_transaction(tmp_path: Path) -> None:
    newest = "SELECT max(snapshot_id) AS id FROM ducklake_snapshot"

    def read(source: Lake) -> list[tuple[Any, ...]]:
        return own_rows(transaction, newest, "id BIGINT")

    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as source:
        with source.reader.transaction() as transaction:
            before = read(source)
            source.run("CREATE TABLE lake.t (a INTEGER)")
            assert read(source) == before
        with source.reader.transaction() as transaction:
            assert read(source) != before
