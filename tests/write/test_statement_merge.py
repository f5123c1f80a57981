"""MERGE INTO becomes clauses of `Table.merge` only if both mean the same."""

from __future__ import annotations

import duckdb
import pytest

from lakeconf.write.merge_clauses import Clauses, Delete, Insert, Update
from lakeconf.write.statement import parse_statement
from lakeconf.write.statement_merge import clauses_of, matched_twice

COLUMNS = ["id", "a", "b"]
ALL = "WHEN MATCHED THEN UPDATE SET id = s.id, a = s.a, b = s.b"


def clauses(sql: str, found: list[str] = COLUMNS) -> Clauses | None:
    return clauses_of(parse_statement(f"MERGE INTO t USING s {sql}", "dev"), COLUMNS, found)


EQUAL = [
    (f"ON t.id = s.id {ALL}", Clauses(("id",), (Update(),), None, None)),
    ("USING (id, a) WHEN MATCHED THEN UPDATE SET *", Clauses(("id", "a"), (Update(),), None, None)),
    ("ON (s.a = t.a) AND t.ID = s.Id WHEN MATCHED THEN DELETE", Clauses(("a", "id"), (Delete(),), None, None)),
    ("ON t.id = s.id WHEN NOT MATCHED THEN INSERT", Clauses(("id",), (), Insert(), None)),
    (
        "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (b, id, a) VALUES (s.b, s.id, s.a)",
        Clauses(("id",), (), Insert(), None),
    ),
    ("ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE", Clauses(("id",), (), None, Delete())),
    (
        "ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT",
        Clauses(("id",), (Delete(),), Insert(), None),
    ),
]


@pytest.mark.parametrize(("sql", "expected"), EQUAL)
def test_statement_that_equals_clauses(sql: str, expected: Clauses) -> None:
    assert clauses(sql) == expected


OTHERS = [
    "ON t.id = s.a WHEN MATCHED THEN DELETE",
    "ON t.id = t.id WHEN MATCHED THEN DELETE",
    "ON t.id = s.id OR t.a = s.a WHEN MATCHED THEN DELETE",
    "ON t.id = s.id AND t.a > 1 WHEN MATCHED THEN DELETE",
    "ON id = s.id WHEN MATCHED THEN DELETE",
    "ON t.id = s.id WHEN MATCHED AND s.a = 1 THEN DELETE",
    "ON t.id = s.id WHEN MATCHED THEN DO NOTHING",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.a + 1",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = 1",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = a",
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET (a, b) = (s.a, s.b)",
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)",
    "ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.id, s.b)",
    "ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 1",
]


@pytest.mark.parametrize("sql", OTHERS)
def test_statement_that_clauses_cannot_express(sql: str) -> None:
    assert clauses(sql) is None


@pytest.mark.parametrize("clause", ["WHEN MATCHED THEN UPDATE", "WHEN NOT MATCHED THEN INSERT *"])
def test_all_columns_need_the_order_of_the_table(clause: str) -> None:
    """DuckDB matches `*` by position, and the frame API by name."""
    assert clauses(f"ON t.id = s.id {clause}", ["id", "b", "a"]) is None


@pytest.mark.parametrize("clause", ["INSERT BY NAME", "INSERT DEFAULT VALUES"])
def test_insert_that_sqlglot_takes_for_another_has_no_clauses(clause: str) -> None:
    assert clauses(f"ON t.id = s.id WHEN NOT MATCHED THEN {clause}") is None


@pytest.mark.parametrize("source", ["s(a, id)", "s TABLESAMPLE 50%", "u AS s(a, id, b)"])
def test_source_with_more_than_a_name_has_no_clauses(source: str) -> None:
    sql = f"MERGE INTO t USING {source} ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert clauses_of(parse_statement(sql, "dev"), COLUMNS, COLUMNS) is None


def test_some_columns_become_values() -> None:
    found = clauses("ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.b")
    assert found is not None
    (update,) = found.matched
    assert isinstance(update, Update)
    assert list(update.values or ()) == ["a"]


@pytest.mark.parametrize(
    ("sql", "twice"),
    [
        ("ON t.id = s.id WHEN MATCHED THEN DELETE", True),
        ("USING (id) WHEN MATCHED THEN DELETE", True),
        ("ON t.id = s.id WHEN MATCHED AND s.a = 1 THEN DELETE", False),
        ("ON t.id = s.id WHEN MATCHED AND s.a = 1 THEN DO NOTHING WHEN MATCHED THEN DELETE", False),
        ("ON t.id = s.id WHEN MATCHED AND s.a = 3 THEN DO NOTHING WHEN MATCHED THEN DELETE", True),
        ("ON t.id = s.id WHEN MATCHED THEN DO NOTHING", False),
    ],
)
def test_rows_that_would_change_twice(sql: str, twice: bool) -> None:
    query = matched_twice(parse_statement(f"MERGE INTO t USING s {sql}", "memory"))
    assert query is not None
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 0 AS a, '' AS b")
        connection.execute("CREATE TABLE s AS FROM (VALUES (1, 1, ''), (1, 2, '')) AS s(id, a, b)")
        assert bool(connection.execute(query).fetchall()) is twice


def test_statement_without_matches_changes_no_row_twice() -> None:
    statement = parse_statement("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT", "memory")
    assert matched_twice(statement) is None
