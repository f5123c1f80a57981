"""Random lakes: sequences of DDL and DML on one table, run by DuckDB; statements that it rejects are skipped."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from catalog_lake import lake
from hypothesis import HealthCheck, Phase, settings
from strength import PROVE

from lakeconf.catalog.tables import load_table
from lakeconf.connection.connection import load_extension
from lakeconf.engines.spark.spark_types import duckdb_type
from lakeconf.errors import LakeconfError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_lake import AttachedLake

    from lakeconf.catalog.tables import Column

LEAVES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "7"],
    "INTEGER": ["-1", "0", "2147483647"],
    "BIGINT": ["0", "9223372036854775807"],
    "UINTEGER": ["0", "4294967295"],
    "UBIGINT": ["1", "'18446744073709551615'"],
    "HUGEINT": ["-5", "1267650600228229401496703205376"],
    "FLOAT": ["0.1", "'nan'", "'-inf'"],
    "DOUBLE": ["0.1", "'nan'", "'inf'", "'-0.0'"],
    "DECIMAL(5,2)": ["0.10", "-999.99"],
    "DECIMAL(18,3)": ["1.5", "123456789012345.678"],
    "VARCHAR": ["''", "'a'", "'ü b'", "'NULL'", "repeat('z', 300)"],
    "BLOB": ["'\\x00\\xFF'::BLOB", "''::BLOB"],
    "JSON": ["'{\"k\": [1]}'"],
    "UUID": ["'550e8400-e29b-41d4-a716-446655440000'"],
    "DATE": ["'2024-03-10'", "'0001-01-01'"],
    "TIME": ["'12:34:56.5'", "'00:00:00'"],
    "TIMESTAMP": ["'2024-03-10 02:30:00.123456'", "'1500-01-01'"],
    "TIMESTAMP_S": ["'2024-03-10 02:30:00'"],
    "TIMESTAMP_MS": ["'2024-03-10 02:30:00.123'"],
    "TIMESTAMPTZ": ["'2024-07-01 12:00:00+02'"],
    "INTERVAL": ["INTERVAL '14 months 3 days 04:05:06.5'"],
}
NESTED = {
    "STRUCT(x INTEGER, y VARCHAR)": ["{'x': 1, 'y': 'a'}", "{'x': NULL, 'y': NULL}"],
    "INTEGER[]": ["[1, NULL, 3]", "[]"],
    "STRUCT(x INTEGER)[]": ["[{'x': 1}, {'x': NULL}]", "[]"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'k': 1, 'l': NULL}", "MAP {}"],
    "MAP(INTEGER, STRUCT(x DATE))": ["MAP {1: {'x': DATE '2024-01-01'}}"],
}
VALUES = LEAVES | NESTED
TYPES = st.sampled_from(sorted(VALUES))
NAMES = st.sampled_from(["a", "b", "c", "d e", "F"])
FIELDS = st.sampled_from(["x", "y", "z"])
SEEDS = st.integers(0, 50)
COLUMNS = st.dictionaries(NAMES, TYPES, min_size=1, max_size=4)
PROMOTED = st.sampled_from(
    ["BIGINT", "DOUBLE", "HUGEINT", "DECIMAL(38,3)", "TIMESTAMP", "TIMESTAMPTZ", "INTEGER", "JSON"]
)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), st.integers(1, 5), SEEDS),
    st.tuples(st.just("insert"), st.integers(11, 60), SEEDS),
    st.tuples(st.just("delete"), st.integers(1, 9), SEEDS),
    st.tuples(st.just("update"), st.integers(1, 9), SEEDS),
    st.tuples(st.just("merge"), st.integers(1, 9), SEEDS),
    st.tuples(st.just("add"), NAMES, TYPES, SEEDS),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("promote"), NAMES, PROMOTED),
    st.tuples(st.just("add field"), NAMES, FIELDS, SEEDS),
    st.tuples(st.just("rename field"), NAMES, FIELDS, FIELDS),
    st.tuples(st.just("drop field"), NAMES, FIELDS),
    st.tuples(st.just("partition"), NAMES, st.sampled_from(["{0}", "year({0})", "bucket(3, {0})"])),
    st.tuples(st.just("register"), SEEDS),
    st.tuples(
        st.just("call"),
        st.sampled_from(["flush_inlined_data", "merge_adjacent_files", "rewrite_data_files", "expire_snapshots"]),
    ),
)

# What `build` needs, and whether small inserts are inlined.
LAKES: dict[str, st.SearchStrategy[Any]] = {
    "columns": COLUMNS,
    "operations": st.lists(OPERATIONS, min_size=3, max_size=12),
    "inline": st.booleans(),
}
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink] if PROVE else [Phase.explicit, Phase.generate]


def examples(number: int, *, prove: int) -> settings:
    """Settings of a test of so many random lakes, or more in `make prove`, which also makes a failing one smaller."""
    return settings(max_examples=prove if PROVE else number, phases=_PHASES, suppress_health_check=list(HealthCheck))


@contextlib.contextmanager
def built(
    kind: str, columns: dict[str, str], operations: Sequence[tuple[object, ...]], *, inline: bool, **server: Any
) -> Iterator[tuple[AttachedLake, str]]:
    """A random lake in a folder of its own, and the script that made it; `server` is that of a PostgreSQL catalog."""
    options = "" if inline else ", DATA_INLINING_ROW_LIMIT 0"
    with tempfile.TemporaryDirectory() as name:
        with lake(kind, Path(name), options=options, **server) as source:
            script = build(source, columns, operations)
        # Attach again: a DuckDB instance cannot be used after an internal error.
        with lake(kind, Path(name), options=options, **server) as source:
            yield source, ";\n".join(script)


def build(source: AttachedLake, columns: dict[str, str], operations: Sequence[tuple[object, ...]]) -> list[str]:
    """Creates the table `t` and runs the operations that DuckDB allows; returns the statements that it ran."""
    load_extension(source.connection, "httpfs")
    fields = ", ".join(f"{identifier(name)} {type_name}" for name, type_name in columns.items())
    script = [f"CREATE TABLE lake.t ({fields})"]
    source.run(script[0])
    for operation in operations:
        for statement in _statements(source, operation):
            try:
                source.run(statement)
            except LakeconfError as error:
                if "INTERNAL" in error.message or "invalidated" in error.message:
                    return script  # an internal error: this DuckDB instance can no longer be used
                with contextlib.suppress(LakeconfError):
                    source.run("ROLLBACK")  # some errors of DuckLake leave the connection in a transaction
                break
            script.append(statement)
    return script


def _statements(source: AttachedLake, operation: tuple[object, ...]) -> list[str]:
    """The SQL of an operation, for the current columns of the table."""
    columns = load_table(source.reader, "t", source.newest).columns
    kind, *rest = operation
    if kind in _ON_ROWS:
        number, seed = int(str(rest[0])), int(str(rest[-1]))
        return _ON_ROWS[str(kind)](columns, number, seed)
    if kind == "register":
        return _register(source, columns, int(str(rest[0])))
    if kind == "call":
        argument = {"rewrite_data_files": ", delete_threshold => 0.0", "expire_snapshots": ", versions => [2]"}
        return [f"CALL ducklake_{rest[0]}('lake'{argument.get(str(rest[0]), '')})"]
    name = identifier(str(rest[0]))
    if kind == "add":
        type_name, seed = str(rest[1]), int(str(rest[2]))
        default = f" DEFAULT {_literal(type_name, seed)}" if seed % 2 else ""
        return [f"ALTER TABLE lake.t ADD COLUMN {name} {type_name}{default}"]
    if kind == "rename":
        return [f"ALTER TABLE lake.t RENAME COLUMN {name} TO {identifier(str(rest[1]))}"]
    if kind == "drop":
        return [f"ALTER TABLE lake.t DROP COLUMN {name}"]
    if kind == "promote":
        return [f"ALTER TABLE lake.t ALTER COLUMN {name} TYPE {rest[1]}"]
    if kind == "partition":
        return [f"ALTER TABLE lake.t SET PARTITIONED BY ({str(rest[1]).format(name)})"]
    return _on_field(columns, str(kind), [str(part) for part in rest])


def _on_field(columns: Sequence[Column], kind: str, rest: list[str]) -> list[str]:
    column = next((column for column in columns if column.name == rest[0]), None)
    within = {"list": ".element", "map": ".value"}.get(column.type, "") if column else ""
    path = f"{identifier(rest[0])}{within}.{rest[1]}"
    if kind == "add field":
        default = f" DEFAULT {rest[2]}" if int(rest[2]) % 2 else ""
        return [f"ALTER TABLE lake.t ADD COLUMN {path} INTEGER{default}"]
    if kind == "rename field":
        return [f"ALTER TABLE lake.t RENAME COLUMN {path} TO {rest[2]}"]
    # DuckDB returns structs of NULL if every field that a file contains was dropped, so one field always remains.
    return [f"ALTER TABLE lake.t DROP COLUMN {path}"] if _has_others(column, rest[1]) else []


def _has_others(column: Column | None, field: str) -> bool:
    while column is not None and column.type != "struct":
        column = column.children[-1] if column.children else None
    return column is not None and any(child.name != field for child in column.children)


def _rows(columns: Sequence[Column], count: int, seed: int) -> str:
    lines = (", ".join(_value(column, seed + 3 * row + n) for n, column in enumerate(columns)) for row in range(count))
    return ", ".join(f"({line})" for line in lines)


def _insert(columns: Sequence[Column], count: int, seed: int) -> list[str]:
    return [f"INSERT INTO lake.t VALUES {_rows(columns, count, seed)}"]


def _delete(_columns: Sequence[Column], modulus: int, seed: int) -> list[str]:
    return [f"DELETE FROM lake.t WHERE (rowid + {seed}) % {modulus} = 0"]


def _update(columns: Sequence[Column], modulus: int, seed: int) -> list[str]:
    column = columns[seed % len(columns)]
    return [
        f"UPDATE lake.t SET {identifier(column.name)} = {_value(column, seed)} WHERE (rowid + {seed}) % {modulus} = 0"
    ]


def _merge(columns: Sequence[Column], count: int, seed: int) -> list[str]:
    names = ", ".join(identifier(column.name) for column in columns)
    first = identifier(columns[0].name)
    return [
        f"MERGE INTO lake.t AS target USING (FROM (VALUES {_rows(columns, count, seed)}) AS v({names})) AS source "
        f"ON target.{first} = source.{first} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT"
    ]


_ON_ROWS = {"insert": _insert, "delete": _delete, "update": _update, "merge": _merge}


def _register(source: AttachedLake, columns: Sequence[Column], seed: int) -> list[str]:
    path = source.folder / f"registered-{source.newest}.parquet"
    order = sorted(columns, key=lambda column: (column.name if seed % 2 else "", column.field_id))
    names = ", ".join(f"{identifier(c.name)} AS {identifier(c.name.upper() if seed % 3 else c.name)}" for c in order)
    rows = f"SELECT * FROM lake.t LIMIT 0) UNION ALL VALUES {_rows(columns, 12, seed)}"
    return [
        f"COPY (SELECT {names} FROM (SELECT * FROM ({rows})) TO '{path}' (FORMAT parquet)",
        f"CALL ducklake_add_data_files('lake', 't', '{path}')",
    ]


def _literal(type_name: str, seed: int) -> str:
    choices = ["NULL", *VALUES[type_name]]
    return choices[seed % len(choices)]


def _value(column: Column, seed: int) -> str:
    """A literal of a column's current type."""
    if seed % 7 == 0:
        return "NULL"
    if column.type == "struct":
        fields = (f"{identifier(c.name)} := {_value(c, seed + n)}" for n, c in enumerate(column.children))
        return f"struct_pack({', '.join(fields)})"
    if column.type == "list":
        return f"[{', '.join(_value(column.children[0], seed + n + 1) for n in range(seed % 3))}]"
    if column.type == "map":
        key, item = column.children
        return f"MAP {{{_value(key, 1 + seed % 6)}: {_value(item, seed + 1)}}}" if seed % 3 else "MAP {}"
    type_name = duckdb_type(column, for_spark=False)
    choices = LEAVES.get(type_name.replace(", ", ","), ["1"])
    return f"CAST({choices[seed % len(choices)]} AS {type_name})"
