"""Random lakes with few distinct values, so that the bounds of files are narrow, and random conditions on them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st

from lakeconf.catalog.pruning.predicates import literal_type
from lakeconf.catalog.tables import load_table
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from catalog_lake import AttachedLake

    from lakeconf.catalog.tables import Column

VALUES = {
    "int32": ["NULL", "-1", "0", "5", "7", "2147483647"],
    "int64": ["NULL", "-1", "0", "5", "9223372036854775807"],
    "float32": ["NULL", "0.1", "-1.5", "'nan'", "'inf'", "0", "1e30"],
    "float64": ["NULL", "0.1", "0.10000000149011612", "'nan'", "'-inf'", "-0.0", "1e300"],
    "varchar": ["NULL", "''", "'a'", "'ab'", "'é'", "'B'", "'it''s'", "repeat('z', 300)"],
    "date": ["NULL", "DATE '2020-01-01'", "DATE '2021-07-31'", "DATE '0001-01-01'"],
    "timestamp": ["NULL", "TIMESTAMP '2020-01-01 00:00:00'", "TIMESTAMP '2021-07-31 23:59:59.999999'"],
    "decimal(10,2)": ["NULL", "0.00", "1.50", "-99999999.99"],
    "boolean": ["NULL", "true", "false"],
}
PROMOTIONS = {"int32": "BIGINT", "float32": "DOUBLE", "date": "TIMESTAMP"}
NAMES = st.sampled_from(["a", "b", "c", "d", "E"])
TYPES = st.sampled_from(sorted(VALUES))
SEEDS = st.integers(0, 1000)
COLUMNS = st.dictionaries(NAMES, TYPES, min_size=1)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), st.integers(1, 5), SEEDS),
    st.tuples(st.just("insert"), st.integers(11, 40), SEEDS),
    st.tuples(st.just("register"), st.integers(1, 5), SEEDS),
    st.tuples(st.just("delete"), st.integers(2, 9), SEEDS),
    st.tuples(st.just("update"), st.integers(2, 9), SEEDS),
    st.tuples(st.sampled_from(["add", "rename", "drop", "promote"]), NAMES, SEEDS),
    st.tuples(st.just("partition"), st.sampled_from(["{0}", "year({0})", "bucket(3, {0})"]), SEEDS),
    st.tuples(
        st.just("call"),
        st.sampled_from(["flush_inlined_data", "merge_adjacent_files", "rewrite_data_files", "expire_snapshots"]),
        SEEDS,
    ),
)


def columns_of(source: AttachedLake) -> tuple[Column, ...]:
    return load_table(source.reader, "t", source.newest).columns


def value(ducklake_type: str, seed: int) -> str:
    choices = VALUES[ducklake_type]
    return choices[seed % len(choices)]


def values(columns: tuple[Column, ...], count: int, seed: int) -> str:
    """A VALUES clause with `count` rows of few distinct values, so that file bounds are narrow."""
    lines = (
        ", ".join(
            f"CAST({value(c.type, seed // 2 + n + i % 2)} AS {literal_type(c.type)})" for n, c in enumerate(columns)
        )
        for i in range(count)
    )
    return "VALUES " + ", ".join(f"({line})" for line in lines)


def statement(source: AttachedLake, operation: tuple[str, Any, int]) -> str:
    """The SQL of an operation, for the current columns of the table."""
    kind, what, seed = operation
    columns = columns_of(source)
    column = columns[seed % len(columns)]
    if kind == "register":
        path = source.folder / f"registered-{source.newest}.parquet"
        names = ", ".join(c.name for c in columns)
        source.run(f"COPY (FROM ({values(columns, what, seed)}) AS v({names})) TO '{path}'")
        return f"CALL ducklake_add_data_files('lake', 't', '{path}')"
    if kind == "promote":
        column = next(c for c in columns if c.type in PROMOTIONS)
        return f"ALTER TABLE lake.t ALTER COLUMN {column.name} TYPE {PROMOTIONS[column.type]}"
    if kind == "add":
        ducklake_type = sorted(VALUES)[seed % len(VALUES)]
        default = value(ducklake_type, seed // 10)
        return f"ALTER TABLE lake.t ADD COLUMN {what} {literal_type(ducklake_type)} DEFAULT {default}"
    if kind == "call":
        more = {"rewrite_data_files": ", delete_threshold => 0.0", "expire_snapshots": ", versions => [2]"}
        return f"CALL ducklake_{what}('lake'{more.get(what, '')})"
    return {
        "insert": lambda: f"INSERT INTO lake.t {values(columns, what, seed)}",
        "delete": lambda: f"DELETE FROM lake.t WHERE (rowid + {seed}) % {what} = 0",
        "update": lambda: f"UPDATE lake.t SET {column.name} = {value(column.type, seed)} WHERE rowid % {what} = 0",
        "partition": lambda: f"ALTER TABLE lake.t SET PARTITIONED BY ({what.format(column.name)})",
        "rename": lambda: f"ALTER TABLE lake.t RENAME COLUMN {column.name} TO {what}",
        "drop": lambda: f"ALTER TABLE lake.t DROP COLUMN {column.name}",
    }[kind]()


def build(source: AttachedLake, columns: dict[str, str], operations: list[tuple[str, Any, int]]) -> None:
    """Creates the table and runs the operations, skipping those that DuckDB rejects."""
    fields = ", ".join(f"{name} {literal_type(type_name)}" for name, type_name in columns.items())
    source.run(f"CREATE TABLE lake.t ({fields})")
    for operation in operations:
        try:
            source.run(statement(source, operation))
        except (LakeconfError, StopIteration):  # the name exists already, or no column can be promoted
            with contextlib.suppress(LakeconfError):
                source.run("ROLLBACK")  # some DuckLake errors leave a transaction open


OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


@st.composite
def conditions(draw: st.DrawFn, columns: tuple[Column, ...]) -> str:
    column = draw(st.sampled_from(columns))
    choices = [text for text in VALUES[column.type] if text != "NULL" and not text.startswith("repeat")]
    one, other = draw(st.sampled_from(choices)), draw(st.sampled_from(choices))
    forms = [
        f"{column.name} {draw(OPERATORS)} {one}",
        f"{column.name} IN ({one}, {other})",
        f"{column.name} BETWEEN {one} AND {other}",
        f"{column.name} IS NULL",
    ]
    if column.type == "varchar":
        forms.append(f"{column.name} LIKE {one[:-1]}%'")
    form = draw(st.sampled_from(forms))
    return f"NOT ({form})" if draw(st.booleans()) else form
