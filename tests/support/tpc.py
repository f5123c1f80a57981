"""The tables and queries of TPC-H and TPC-DS, in a lake whose tables have a history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlglot
from sqlglot import exp

from lakeconf.connection.connection import extension_sql
from lakeconf.sql import identifier

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# By benchmark: the procedure that generates its data, and the function with its queries.
GENERATORS = {"tpch": ("dbgen", "tpch_queries"), "tpcds": ("dsdgen", "tpcds_queries")}
# By table: its partition key.
PARTITIONS = {
    "lineitem": "year(l_shipdate)",
    "orders": "bucket(4, o_custkey)",
    "part": "p_mfgr",
    "store_sales": "ss_store_sk",
    "item": "i_category",
    "customer_address": "ca_state",
}
# Keys above this number belong to rows that the history updates later.
WRONG = 100_000_000


@dataclass(frozen=True)
class Benchmark:
    """The plain tables in DuckDB's memory, and the same rows in a lake that is open on Spark."""

    name: str
    connection: duckdb.DuckDBPyConnection
    lake: Lake
    queries: dict[int, str]


def build(store: Store, name: str, scale: float) -> tuple[duckdb.DuckDBPyConnection, dict[int, str]]:
    """Generates the tables, and writes them to a lake in several steps; a scale of 1 is about 1 GB of text."""
    connection = store.connect()
    numbers = generate(connection, store.alias, name, scale)
    for number, table in enumerate(plain_tables(connection)):
        _write(connection, f"{store.alias}.{name}", table, compacted=number % 2 == 0)
    connection.execute(f"CALL ducklake_merge_adjacent_files('{store.alias}')")
    return connection, numbers


def generate(connection: duckdb.DuckDBPyConnection, alias: str, name: str, scale: float) -> dict[int, str]:
    """Generates the plain tables, and an empty schema in the lake; returns the queries by number."""
    generator, queries = GENERATORS[name]
    connection.execute(extension_sql(name))
    connection.execute(f"CALL {generator}(sf => {scale}, catalog => 'memory')")
    connection.execute(f"CREATE SCHEMA {alias}.{name}")
    return dict(connection.execute(f"SELECT query_nr, query FROM {queries}()").fetchall())


def plain_tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The names of the plain tables."""
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'")
    return sorted(name for (name,) in found.fetchall())


def _write(connection: duckdb.DuckDBPyConnection, schema: str, table: str, *, compacted: bool) -> None:
    """Writes a table with a renamed column, an added and dropped one, updates, deletes and maybe a compaction."""
    full = f"{schema}.{identifier(table)}"
    columns = connection.execute(f"DESCRIBE memory.main.{table}").fetchall()
    (first, type_, *_), rest = columns[0], ", ".join(identifier(name) for name, *_ in columns[1:])
    updated = type_ in ("INTEGER", "BIGINT")
    source = f"(SELECT *, rowid % 6 AS part FROM memory.main.{table})"
    wrong = f"CASE part WHEN 1 THEN {first} + {WRONG} ELSE {first} END" if updated else first
    statements = [
        f"CREATE TABLE {full} AS SELECT {first} AS former, {rest} FROM memory.main.{table} LIMIT 0",
        *([f"ALTER TABLE {full} SET PARTITIONED BY ({PARTITIONS[table]})"] if table in PARTITIONS else []),
        f"INSERT INTO {full} SELECT {first}, {rest} FROM {source} WHERE part IN (0, 3)",
        f"ALTER TABLE {full} RENAME COLUMN former TO {first}",
        f"ALTER TABLE {full} ADD COLUMN extra INTEGER DEFAULT 7",
        # With rows that are updated later, and others that are deleted again.
        f"INSERT INTO {full} SELECT {wrong}, {rest}, 1 FROM {source} WHERE part IN (1, 4) "
        f"UNION ALL SELECT {first}, {rest}, 99 FROM {source} WHERE part = 4",
        f"DELETE FROM {full} WHERE extra = 99",
        *([f"UPDATE {full} SET {first} = {first} - {WRONG} WHERE {first} >= {WRONG}"] if updated else []),
        f"ALTER TABLE {full} DROP COLUMN extra",
        f"INSERT INTO {full} SELECT {first}, {rest} FROM {source} WHERE part IN (2, 5)",
    ]
    alias, _, name = schema.partition(".")
    if compacted:
        statements.append(f"CALL ducklake_rewrite_data_files('{alias}', '{table}', schema => '{name}')")
    for statement in statements:
        connection.execute(statement)


def duckdb_sql(query: str) -> str:
    """A query whose rows can be compared with those of `spark_sql`."""
    return _comparable(query).sql(dialect="duckdb")


def spark_sql(query: str, prefix: str) -> str:
    """A query over the tables or views whose names begin with the prefix, as sqlglot translates it for Spark."""
    tree = _comparable(query)
    defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        name = table.name.lower()
        if name not in defined:
            alias = table.alias or name
            table.replace(exp.alias_(exp.to_table(f"{prefix}{name}"), alias, table=True))
    return tree.sql(dialect="spark")


def _comparable(query: str) -> exp.Expr:
    tree = sqlglot.parse_one(query.strip().rstrip(";"), read="duckdb")
    # It may cut rows with equal sort keys.
    tree.set("limit", None)
    # Q78 rounds 1.025 to 1.02 in DuckDB (a DOUBLE) and to 1.03 in Spark (a DECIMAL), so compare the values before.
    compared: exp.Expr = tree.transform(
        lambda node: node.this if isinstance(node, exp.Round) and node.args.get("decimals") else node
    )
    return compared


def equal_rows(one: Iterable[Sequence[Any]], other: Iterable[Sequence[Any]]) -> bool:
    """Compares rows in any order. Averages of decimals are DOUBLE in DuckDB and DECIMAL in Spark."""
    left, right = sorted(map(_exact_first, one), key=repr), sorted(map(_exact_first, other), key=repr)
    return len(left) == len(right) and all(map(_equal, left, right))


_Row: TypeAlias = tuple[tuple[Any, ...], tuple[float, ...]]


def _equal(one: _Row, other: _Row) -> bool:
    close = [math.isclose(a, b, rel_tol=1e-6, abs_tol=2e-6) for a, b in zip(one[1], other[1], strict=False)]
    return one[0] == other[0] and len(one[1]) == len(other[1]) and all(close)


def _exact_first(row: Sequence[Any]) -> _Row:
    """The values of a row that are compared exactly, and its numbers with decimals."""
    plain = [float(value) if isinstance(value, Decimal | float) else value for value in row]
    exact = tuple(
        value.rstrip() if isinstance(value, str) else value for value in plain if not isinstance(value, float)
    )
    return exact, tuple(round(value, 6) for value in plain if isinstance(value, float))


def spark_rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    """Runs a query on Spark."""
    return [tuple(row) for row in spark.sql(sql).collect()]
