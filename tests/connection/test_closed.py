"""The connection that parses SQL reaches nothing outside its own database."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakeconf.connection.connection import closed_connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{folder}/secret.txt')",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "ATTACH '{folder}/other.duckdb' AS other",
        "FROM variable",
        "SET enable_external_access = true",
        "SET threads = 1",
        "LOAD ducklake",
        "INSTALL httpfs",
    ],
)
def test_nothing_outside_is_reached(sql: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    variable = duckdb.sql("SELECT 1 AS one")
    assert variable.columns == ["one"]
    with closed_connection() as connection, pytest.raises(duckdb.Error):
        connection.execute(sql.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


def test_two_connections_share_nothing() -> None:
    with closed_connection() as one, closed_connection() as other:
        one.execute("CREATE TABLE t (i INTEGER)")
        assert other.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
