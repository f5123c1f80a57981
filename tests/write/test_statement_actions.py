"""MERGE INTO as a table of actions returns the rows of DuckDB's own MERGE INTO."""

from __future__ import annotations

import duckdb
import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from lakeconf.errors import UnsupportedError
from lakeconf.write.statement import parse_statement
from lakeconf.write.statement_actions import actions_of, is_supported

CONDITIONS = st.sampled_from(["", " AND s.a > t.a", " AND s.b IS NULL", " AND s.id % 2 = 0", " AND t.b = 'x'"])
MATCHED = st.sampled_from(
    [
        "UPDATE",
        "UPDATE SET *",
        "UPDATE SET a = s.a + 1.4",
        "UPDATE SET (b, a) = (s.b, t.a - s.a)",
        "DELETE",
        "DO NOTHING",
    ]
)
NOT_MATCHED = st.sampled_from(
    ["INSERT", "INSERT *", "INSERT (id, b) VALUES (s.id, upper(s.b))", "INSERT VALUES (s.id, 7, 'n')", "DO NOTHING"]
)
BY_SOURCE = st.sampled_from(["DELETE", "UPDATE SET a = 9223372036854775807, b = NULL", "DO NOTHING"])
OF_SOURCE = st.sampled_from(["", " AND s.a > 2", " AND s.id % 2 = 0", " AND s.b = 'x'"])
OF_TARGET = st.sampled_from(["", " AND t.a > 2", " AND t.b = 'x'"])
CLAUSES = st.one_of(
    st.builds("WHEN MATCHED{} THEN {}".format, CONDITIONS, MATCHED),
    st.builds("WHEN NOT MATCHED{} THEN {}".format, OF_SOURCE, NOT_MATCHED),
    st.builds("WHEN NOT MATCHED BY SOURCE{} THEN {}".format, OF_TARGET, BY_SOURCE),
)
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 4), st.sampled_from(["x", "y", None])),
    max_size=8,
    unique_by=lambda row: row[0],
)
TYPES = {"id": "BIGINT", "a": "BIGINT", "b": "VARCHAR"}
TABLE = '"memory"."main"."t"'


def database(target: list[tuple[object, ...]], source: list[tuple[object, ...]]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in (("t", target), ("s", source)):
        connection.execute(f"CREATE TABLE {name} (id BIGINT, a BIGINT, b VARCHAR)")
        if rows:
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    return connection


@given(target=ROWS, source=ROWS, clauses=st.lists(CLAUSES, min_size=1, max_size=5), using=st.booleans())
def test_rows_equal_those_of_duckdb(
    target: list[tuple[object, ...]], source: list[tuple[object, ...]], clauses: list[str], using: bool
) -> None:
    sql = f"MERGE INTO t USING s {'USING (id)' if using else 'ON t.id = s.id'} {' '.join(clauses)}"
    with database(target, source) as oracle, database(target, source) as ours:
        try:
            parsed = parse_statement(sql, "memory")
        except UnsupportedError:  # a clause after one without a condition
            hypothesis.reject()
        oracle.execute(sql)
        actions = actions_of(parsed, TABLE, TYPES, list(TYPES))
        ours.execute(actions.computed)
        assert ours.execute(actions.twice).fetchall() == []
        for statement in (*actions.statements, actions.dropped):
            ours.execute(statement)
        assert ours.execute("FROM t ORDER BY ALL").fetchall() == oracle.execute("FROM t ORDER BY ALL").fetchall()


@pytest.mark.parametrize(
    "clauses",
    [
        "WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 0 WHEN NOT MATCHED THEN INSERT BY NAME",
        "WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 7 // 2 * 2 ^ 2 /* , */, b = 'WHEN' -- c",
        """WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN UPDATE SET b = '{"x": 1}'::JSON ->> 'x'""",
    ],
)
def test_clause_keeps_its_meaning(clauses: str) -> None:
    sql = f"MERGE INTO t USING s ON t.id = s.id {clauses}"
    with database([(1, 1, "x"), (2, 2, "y"), (4, 4, "z")], []) as oracle:
        oracle.execute("DROP TABLE s; CREATE TABLE s AS SELECT * FROM (VALUES ('X', 1, 1), ('Y', 2, 2)) AS v(b, a, id)")
        oracle.execute("INSERT INTO s VALUES ('Z', 3, 5)")
        oracle.execute("BEGIN")
        actions = actions_of(parse_statement(sql, "memory"), TABLE, TYPES, ["b", "a", "id"])
        for statement in (actions.computed, *actions.statements):
            oracle.execute(statement)
        ours = oracle.execute("FROM t ORDER BY ALL").fetchall()
        oracle.execute("ROLLBACK")
        oracle.execute(sql)
        assert ours == oracle.execute("FROM t ORDER BY ALL").fetchall()


@pytest.mark.parametrize("clause", ["UPDATE SET a = DEFAULT", "DELETE WHEN NOT MATCHED THEN INSERT DEFAULT VALUES"])
def test_default_values_are_refused(clause: str) -> None:
    sql = f"MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN {clause}"
    with pytest.raises(UnsupportedError, match="default value"):
        actions_of(parse_statement(sql, "memory"), TABLE, TYPES, list(TYPES))


def test_row_with_two_actions_is_found() -> None:
    statement = parse_statement("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE", "memory")
    actions = actions_of(statement, TABLE, TYPES, list(TYPES))
    with database([(1, 1, "x")], [(1, 2, "y"), (1, 3, "z")]) as connection:
        connection.execute(actions.computed)
        assert len(connection.execute(actions.twice).fetchall()) == 1


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT", True),
        ("WHEN MATCHED AND s.a = 1 THEN DO NOTHING WHEN MATCHED THEN DELETE", True),
        ("WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN UPDATE", False),
        ("WHEN MATCHED THEN UPDATE WHEN NOT MATCHED BY SOURCE THEN DELETE", False),
    ],
)
def test_ducklake_supports_one_action_that_changes_rows(clauses: str, expected: bool) -> None:
    assert is_supported(parse_statement(f"MERGE INTO t USING s ON t.id = s.id {clauses}", "memory")) is expected


def test_all_columns_of_an_unknown_source_are_refused() -> None:
    sql = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    with pytest.raises(UnsupportedError, match=r"uses `\*`"):
        actions_of(parse_statement(sql, "memory"), TABLE, TYPES, [])
