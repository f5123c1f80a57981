"""Random statements on a table `t` in two dialects, those of Spark's SQL and of DuckDB's, that mean the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

# Values by DuckDB type. DuckDB's text of a value, or that and Spark's.
VALUES: Mapping[str, list[Any]] = {
    "INTEGER": ["-1", "0", "2", "3", "2147483647"],
    "BIGINT": ["0", "5", "-9223372036854775807"],
    "DECIMAL(9,2)": ["0.10", "-0.01", "9999999.99", "1"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789", "0", "-0.0000000001"],
    "DOUBLE": ["'0.0'", "'-0.0'", "'nan'", "'inf'", "'0.1'", "'1e300'"],
    "FLOAT": ["'0.0'", "'-0.0'", "'nan'", "'0.1'"],
    "BOOLEAN": ["true", "false"],
    "VARCHAR": ["''", "'a'", "'A'", "'a '", "'é 日本'", "'it''s'", "'NULL'", "'10'", "repeat('z', 70)"],
    "DATE": ["'2024-03-10'", "'0001-01-01'", "'1582-10-10'", "'9999-12-31'", "'2024-03-31'"],
    "TIMESTAMP": ["'2024-03-10 02:30:00.123456'", "'1500-01-01 00:00:00'", "'2024-03-31 02:30:00'"],
    "TIMESTAMPTZ": ["'2024-07-01 12:00:00+02:00'", "'1500-01-01 00:00:00+00:00'", "'2024-03-31 01:30:00+00:00'"],
    "BLOB": [("'\\x00\\xFF'", "X'00FF'"), ("''", "X''")],
    "STRUCT(x INTEGER, y VARCHAR)": [
        ("{'x': 1, 'y': NULL}", "named_struct('x', 1, 'y', NULL)"),
        ("{'x': NULL, 'y': 'a '}", "named_struct('x', NULL, 'y', 'a ')"),
    ],
    "INTEGER[]": [("[1, NULL]", "array(1, NULL)"), ("[]", "array()")],
    "MAP(VARCHAR, INTEGER)": [("MAP {'k': 1, 'l': NULL}", "map('k', 1, 'l', NULL)"), ("MAP {}", "map()")],
}
SPARK_TYPES = {
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ",
    "STRUCT(x INTEGER, y VARCHAR)": "STRUCT<x: INT, y: STRING>",
    "INTEGER[]": "ARRAY<INT>",
    "MAP(VARCHAR, INTEGER)": "MAP<STRING, INT>",
}
# Those that DuckDB and Spark compare alike.
COMPARED = [name for name in VALUES if not name.endswith((")", "]")) or name.startswith("DECIMAL")]
WIDER = {"INTEGER": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(9,2)": "DECIMAL(12,2)"}
PARTS = {"DATE": ("year", "month", "day"), "TIMESTAMP": ("year", "month", "day", "hour")}
IDENTITY = ("INTEGER", "VARCHAR", "DATE", "DECIMAL(9,2)", "BOOLEAN", "TIMESTAMP", "TIMESTAMPTZ")
NAMES = ("a", "b", "c d", "E")


class Both(NamedTuple):
    """A text in DuckDB's dialect and in Spark's."""

    duckdb: str
    spark: str


def both(template: str, *parts: Both | str | int) -> Both:
    """A text with parts in place of `{}`; the table's name needs no quotes."""
    texts = [part if isinstance(part, Both) else Both(str(part), str(part)) for part in parts]
    return Both(template.format(*(text.duckdb for text in texts)), template.format(*(text.spark for text in texts)))


def joined(separator: str, parts: list[Both]) -> Both:
    return Both(separator.join(part.duckdb for part in parts), separator.join(part.spark for part in parts))


def name_of(name: str) -> Both:
    return Both(f'"{name}"', f"`{name}`")


def type_of(kind: str) -> Both:
    return Both(kind, SPARK_TYPES.get(kind, kind))


class Statement(NamedTuple):
    """A statement of Spark, and those of DuckDB that leave the same rows, in one transaction."""

    kind: str
    spark: str
    duckdb: list[str]
    # What `write` gets instead of running `spark`, which is then the query of a frame.
    write: str = ""
    settings: Mapping[str, str] = {}


@dataclass
class RandomStatements:
    """Makes statements, and keeps the columns that the table has after them."""

    random: Random
    columns: dict[str, str] = field(default_factory=dict)  # DuckDB types by name; always with the key `id`
    keys: list[tuple[str, str]] = field(default_factory=list)  # transforms and columns of the partition

    def created(self) -> list[str]:
        """DuckDB's statements that create the table."""
        some = self.random.sample(NAMES, self.random.randint(2, 4))
        self.columns = {"id": "INTEGER"} | {name: self.random.choice(list(VALUES)) for name in some}
        fields = ", ".join(f"{name_of(name).duckdb} {kind}" for name, kind in self.columns.items())
        return [f"CREATE TABLE t ({fields})", *self.repartitioned()]

    def repartitioned(self) -> list[str]:
        """DuckDB's statement that changes the partition keys."""
        choices: list[list[tuple[str, str]]] = [[], [("bucket(3, {})", "id")]]
        for name, kind in self.columns.items():
            if kind in IDENTITY:
                choices.append([("{}", name)])
            if kind in PARTS:
                parts = PARTS[kind][: self.random.randint(1, 4)]
                choices.append([(f"{part}({{}})", name) for part in parts])
        self.keys = self.random.choice(choices)
        if not self.keys:
            return ["ALTER TABLE t RESET PARTITIONED BY"]
        keys = ", ".join(transform.format(name_of(name).duckdb) for transform, name in self.keys)
        return [f"ALTER TABLE t SET PARTITIONED BY ({keys})"]

    def value(self, kind: str) -> Both:
        if self.random.random() < 0.15:
            return both("CAST(NULL AS {})", type_of(kind))
        text = self.random.choice(VALUES.get(kind, ["1", "0"]))
        return both("CAST({} AS {})", Both(*text) if isinstance(text, tuple) else text, type_of(kind))

    def row(self, names: list[str], key: int | None = None) -> Both:
        values = [
            both("{}", self.random.randint(0, 12) if key is None else key)
            if name == "id"
            else self.value(self.columns[name])
            for name in names
        ]
        return both("({})", joined(", ", values))

    def row_with_defaults(self, names: list[str]) -> Both:
        """A row for INSERT … VALUES, where a value may be the word DEFAULT."""
        values = [both("DEFAULT") if self.random.random() < 0.2 else self.value(self.columns[name]) for name in names]
        return both("({})", joined(", ", values))

    def rows(self, names: list[str], count: int, *, unique: bool = False) -> Both:
        keys = self.random.sample(range(13), count) if unique else [None] * count
        return joined(", ", [self.row(names, key) for key in keys])

    def frame(self, names: list[str], count: int, *, unique: bool = False) -> Both:
        """A query with rows."""
        listed = joined(", ", [name_of(name) for name in names])
        return both("SELECT * FROM (VALUES {}) AS v({})", self.rows(names, count, unique=unique), listed)

    def condition(self, side: str = "", depth: int = 0) -> Both:
        draw = self.random.random()
        if depth < 2 and draw < 0.3:
            word = self.random.choice(["AND", "OR"])
            return both("({} {} {})", self.condition(side, depth + 1), word, self.condition(side, depth + 1))
        if draw < 0.4:
            return both("NOT ({})", self.condition(side, depth + 1))
        name = self.random.choice(list(self.columns))
        kind = self.columns[name]
        column = both("{}{}", side, name_of(name))
        if kind not in COMPARED or draw < 0.5:
            return both("{} IS NULL", column)
        if draw < 0.6:
            return both("{} IN ({}, {})", column, self.value(kind), self.value(kind))
        if draw < 0.67:
            return both("{} {} {}", column, Both("IS NOT DISTINCT FROM", "<=>"), self.value(kind))
        if draw < 0.75 and kind == "VARCHAR":
            return both("{} LIKE {}", column, self.random.choice(["'a%'", "'é%'", "'%z'", "'_'"]))
        if draw < 0.82:
            return both("coalesce({}, {}) = {}", column, self.value(kind), self.value(kind))
        if draw < 0.9:
            return both("{}{} % 3 = {}", side, name_of("id"), self.random.randint(0, 2))
        return both("{} {} {}", column, self.random.choice(["=", "<", ">=", "<>", "<=", ">"]), self.value(kind))

    def plain_condition(self) -> Both:
        """One that Spark can give to a data source."""
        kinds = [(name, kind) for name, kind in self.columns.items() if kind in COMPARED and kind != "FLOAT"]
        kinds = [(name, kind) for name, kind in kinds if kind != "BLOB"]
        name, kind = self.random.choice(kinds)
        literal = self.value(kind)
        while any(word in literal.duckdb for word in ("NULL", "nan")):  # an overwrite is no comparison with these
            literal = self.value(kind)
        return both("{} {} {}", name_of(name), self.random.choice(["=", "<", ">="]), literal)

    def computed(self, name: str, side: str = "") -> Both:
        """A new value of a column."""
        kind, column = self.columns[name], both("{}{}", side, name_of(name))
        alike = [other for other, found in self.columns.items() if found == kind]
        choices = [self.value(kind), both("{}{}", side, name_of(self.random.choice(alike)))]
        if kind == "VARCHAR":
            choices += [both("{} || 'x '", column), both("upper({})", column)]
        if kind in ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL(9,2)"):
            choices += [both("-{}", column), both("-(-{})", column)]  # no overflow, which DuckDB may see in other rows
        if kind in COMPARED and not side:
            choices.append(both("(SELECT min({}) FROM t)", name_of(name)))
        choices.append(both("CASE WHEN {} THEN {} ELSE {} END", self.condition(side), self.value(kind), column))
        return self.random.choice(choices)

    def assignments(self, side: str = "") -> Both:
        names = self.random.sample(list(self.columns), self.random.randint(1, min(3, len(self.columns))))
        return joined(", ", [both("{} = {}", name_of(name), self.computed(name, side)) for name in names])

    def next(self) -> Statement:
        """A random statement that the table can take."""
        kind = self.random.choices(list(MAKERS), [frequency for _, frequency in MAKERS.values()])[0]
        return MAKERS[kind][0](self)

    def insert(self) -> Statement:
        names = self.random.sample(list(self.columns), len(self.columns))
        if self.random.random() < 0.3 and len(names) > 2:
            names = ["id", *[name for name in names if name != "id"][:-1]]
        if self.random.random() < 0.3:
            names = list(self.columns)
            count = self.random.randint(1, 6)
            text = both("INSERT INTO t VALUES {}", joined(", ", [self.row_with_defaults(names) for _ in range(count)]))
        else:
            listed = joined(", ", [name_of(name) for name in names])
            text = both("INSERT INTO t ({}) {}", listed, self.frame(names, self.random.randint(1, 14)))
        return Statement("insert", text.spark, [text.duckdb])

    def insert_self(self) -> Statement:
        names = joined(", ", [self.computed(name) for name in self.columns])
        text = both("INSERT INTO t SELECT {} FROM t WHERE {}", names, self.condition())
        return Statement("insert of itself", text.spark, [text.duckdb])

    def overwrite(self) -> Statement:
        names = list(self.columns)
        frame = self.frame(names, self.random.randint(1, 12))
        if self.random.random() < 0.5:
            frame = both("SELECT {} FROM t WHERE {}", joined(", ", list(map(name_of, names))), self.condition())
        return Statement("overwrite", f"INSERT OVERWRITE t {frame.spark}", self.replaced(frame, "true"))

    def replaced(self, frame: Both, condition: str) -> list[str]:
        """DuckDB's statements that replace rows by those of a query."""
        return [
            f"CREATE OR REPLACE TEMP TABLE source AS {frame.duckdb}",
            f"DELETE FROM t WHERE {condition}",
            "INSERT INTO t FROM source",
        ]

    def overwrite_where(self) -> Statement:
        condition, names = self.plain_condition(), list(self.columns)
        frame = both(
            "SELECT * FROM (SELECT * FROM (VALUES {}) AS v({}) UNION ALL SELECT * FROM t) AS u WHERE {}",
            self.rows(names, 8),
            joined(", ", [name_of(name) for name in names]),
            condition,
        )
        text = f"INSERT INTO t REPLACE WHERE {condition.spark} {frame.spark}"
        return Statement("replace where", text, self.replaced(frame, condition.duckdb))

    def overwrite_partitions(self) -> Statement:
        keys = [(transform, name_of(name).duckdb) for transform, name in self.keys]
        names = list(self.columns)
        if not keys or keys[0][0].startswith("bucket") or names == ["id"]:
            return self.overwrite()
        frame = self.frame(names, self.random.randint(1, 5))
        if keys[0][0] == "{}" and self.random.random() < 0.4:  # a static partition, whose value is a constant
            key = self.keys[0][1]
            kind = self.columns[key]
            word = kind if kind in ("DATE", "TIMESTAMP") else ""
            value = both("{} {}", type_of(word) if word else "", self.random.choice(VALUES.get(kind, ["1"])[:4]))
            others = [name for name in names if name != key]
            rows = self.frame(others, 3)
            text = f"INSERT OVERWRITE t PARTITION ({name_of(key).spark} = {value.spark}) {rows.spark}"
            full = f"SELECT {value.duckdb} AS {name_of(key).duckdb}, * FROM ({rows.duckdb})"
            condition = f"{name_of(key).duckdb} = {value.duckdb}"
            statements = self.replaced(Both(full, ""), condition)
            return Statement("static partition", text, [*statements[:2], "INSERT INTO t BY NAME FROM source"])
        row = "{" + ", ".join(f"'k{at}': {part.format(name)}" for at, (part, name) in enumerate(keys)) + "}"
        statements = self.replaced(frame, f"{row} IN (SELECT {row} FROM source)")
        dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
        if self.random.random() < 0.5:
            return Statement("dynamic frame", frame.spark, statements, "overwritePartitions")
        return Statement("dynamic partitions", f"INSERT OVERWRITE t {frame.spark}", statements, "", dynamic)

    def write_frame(self) -> Statement:
        names = list(self.columns)
        how = self.random.choice(["append", "saveAsTable append", "insertInto", "saveAsTable overwrite"])
        shuffled = names if how in ("insertInto", "saveAsTable overwrite") else self.random.sample(names, len(names))
        frame = self.frame(shuffled, self.random.randint(1, 9))
        statements = [f"INSERT INTO t BY NAME {frame.duckdb}"]
        if how == "saveAsTable overwrite":
            self.keys, statements = [], [f"CREATE OR REPLACE TABLE t AS {frame.duckdb}"]
        return Statement(how, frame.spark, statements, how)

    def delete(self) -> Statement:
        condition = self.condition()
        if self.random.random() < 0.25:
            condition = both("{} IN (SELECT {} FROM t WHERE {})", name_of("id"), name_of("id"), condition)
        text = both("DELETE FROM t WHERE {}", condition)
        return Statement("delete", text.spark, [text.duckdb])

    def update(self) -> Statement:
        assignments = self.assignments()
        if self.random.random() < 0.2:
            assignments = both("{} = DEFAULT", name_of(self.random.choice(list(self.columns))))
        text = both("UPDATE t SET {}", assignments)
        if self.random.random() < 0.8:
            text = both("{} WHERE {}", text, self.condition())
        return Statement("update", text.spark, [text.duckdb])

    def merge(self) -> Statement:
        names = list(self.columns)
        source = self.frame(names, self.random.randint(1, 9), unique=True)
        on = both("t.{} = s.{}", name_of("id"), name_of("id"))
        if self.random.random() < 0.2:
            on = both("{} AND {}", on, self.condition("t."))
        clauses = [self.clause("WHEN MATCHED", ("t.", "s.")) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.25:
            clauses.append(Both("WHEN MATCHED THEN UPDATE", "WHEN MATCHED THEN UPDATE SET *"))
        clauses += [self.insertion() for _ in range(self.random.randint(0, 2))]
        if self.random.random() < 0.3 or not clauses:
            clauses.append(self.clause("WHEN NOT MATCHED BY SOURCE", ("t.",)))
        text = both("MERGE INTO t USING ({}) AS s ON {} {}", source, on, joined(" ", clauses))
        return Statement("merge", text.spark, [text.duckdb])

    def clause(self, start: str, sides: tuple[str, ...]) -> Both:
        condition = self.condition(self.random.choice(sides))
        text = both("{} AND {} THEN", start, condition)
        if self.random.random() < 0.3:
            return both("{} DELETE", text)
        names = self.random.sample(list(self.columns), self.random.randint(1, 2))
        values = [both("{} = {}", name_of(name), self.computed(name, self.random.choice(sides))) for name in names]
        return both("{} UPDATE SET {}", text, joined(", ", values))

    def insertion(self) -> Both:
        start = both("WHEN NOT MATCHED AND {} THEN", self.condition("s."))
        if self.random.random() < 0.5:
            return both("{} {}", start, Both("INSERT", "INSERT *"))
        names = (
            ["id", *self.random.sample([name for name in self.columns if name != "id"], 1)]
            if len(self.columns) > 1
            else ["id"]
        )
        values = joined(", ", [self.computed(name, "s.") for name in names])
        return both("{} INSERT ({}) VALUES ({})", start, joined(", ", list(map(name_of, names))), values)

    def truncate(self) -> Statement:
        return Statement("truncate", "TRUNCATE TABLE t", ["DELETE FROM t"])

    def alter(self) -> Statement:
        used = {name for _, name in self.keys} | {"id"}
        free = [name for name in self.columns if name not in used]
        missing = [name for name in NAMES if name not in self.columns]
        kind = self.random.choice(["add", "rename", "drop", "widen"])
        if kind == "add" and missing:
            name, type_name = self.random.choice(missing), self.random.choice(list(VALUES))
            self.columns[name] = type_name
            text = both("ALTER TABLE t ADD COLUMN {} {}", name_of(name), type_of(type_name))
        elif kind == "rename" and missing:
            old, new = self.random.choice([name for name in self.columns if name != "id"] or ["id"]), missing[0]
            if old == "id":
                return self.truncate()
            self.columns = {new if name == old else name: found for name, found in self.columns.items()}
            self.keys = [(transform, new if name == old else name) for transform, name in self.keys]
            text = both("ALTER TABLE t RENAME COLUMN {} TO {}", name_of(old), name_of(new))
        elif kind == "widen" and any(self.columns[name] in WIDER for name in free):
            name = next(name for name in free if self.columns[name] in WIDER)
            self.columns[name] = WIDER[self.columns[name]]
            wide = self.columns[name]
            text = Both(
                f"ALTER TABLE t ALTER COLUMN {name_of(name).duckdb} SET DATA TYPE {wide}",
                f"ALTER TABLE t ALTER COLUMN {name_of(name).spark} TYPE {wide}",
            )
        elif free:
            name = self.random.choice(free)
            del self.columns[name]
            text = both("ALTER TABLE t DROP COLUMN {}", name_of(name))
        else:
            text = Both("COMMENT ON TABLE t IS 'a ''comment'''", "COMMENT ON TABLE t IS 'a \\'comment\\''")
        return Statement("alter", text.spark, [text.duckdb])

    def default(self) -> Statement:
        """A column, perhaps a new one, gets a default or loses it."""
        missing = [name for name in NAMES if name not in self.columns]
        name = self.random.choice([*self.columns, *missing[:1]])
        kind = self.columns.get(name) or self.random.choice(COMPARED)
        value = self.default_of(kind)
        if name in self.columns:
            change = both("DROP DEFAULT") if value is None else both("SET DEFAULT {}", value)
            text = both("ALTER TABLE t ALTER COLUMN {} {}", name_of(name), change)
        else:
            self.columns[name] = kind
            given = both("") if value is None else both(" DEFAULT {}", value)
            text = both("ALTER TABLE t ADD COLUMN {} {}{}", name_of(name), type_of(kind), given)
        return Statement("default", text.spark, [text.duckdb])

    def default_of(self, kind: str) -> Both | None:
        """A constant; DuckDB takes those without quotes for expressions."""
        texts = [text if isinstance(text, tuple) else (text, text) for text in VALUES.get(kind, ["1"])]
        texts = [text for text in texts if text[0] != "'NULL'" and text[0][0] not in "{[Mr"]
        if not texts or self.random.random() < 0.2:
            return None
        quoted, plain = self.random.choice(texts)
        return Both(quoted if quoted.startswith("'") else f"'{quoted}'", f"CAST({plain} AS {type_of(kind).spark})")

    def replace_table(self) -> Statement:
        names = list(self.columns)
        query = both("SELECT {} FROM t WHERE {}", joined(", ", list(map(name_of, names))), self.condition())
        self.keys = [("{}", "id")] if self.random.random() < 0.5 else []
        keys = "PARTITIONED BY (id) " if self.keys else ""
        how = self.random.choice(["REPLACE", "CREATE OR REPLACE"])
        statements = [f"CREATE OR REPLACE TEMP TABLE source AS {query.duckdb}", "DROP TABLE t"]
        statements.append("CREATE TABLE t AS FROM source")
        if keys:
            statements = [*statements[:2], "CREATE TABLE t AS FROM source LIMIT 0"]
            statements += ["ALTER TABLE t SET PARTITIONED BY (id)", "INSERT INTO t FROM source"]
        return Statement("replace table", f"{how} TABLE t {keys}AS {query.spark}", statements)

    def by_duckdb(self) -> list[str]:
        """What DuckDB does to both tables: rows in the catalog, partition keys, columns with defaults, fields."""
        draw = self.random.random()
        names = list(self.columns)
        if draw < 0.5:
            return [f"INSERT INTO t VALUES {self.rows(names, self.random.choice([2, 4, 15])).duckdb}"]
        if draw < 0.65:
            return self.repartitioned()
        if draw < 0.75:
            return self.with_default()
        missing = [name for name in NAMES if name not in self.columns]
        if draw < 0.85 and missing:
            self.columns[missing[0]] = "VARCHAR"
            name = name_of(missing[0]).duckdb
            return [
                f"ALTER TABLE t ADD COLUMN {name} VARCHAR DEFAULT 'de '",
                f"ALTER TABLE t ALTER {name} DROP DEFAULT",
            ]
        return [f"DELETE FROM t WHERE {self.condition().duckdb}"]

    def with_default(self) -> list[str]:
        """DuckDB's statement that gives a column a default, or takes it away."""
        name = self.random.choice(list(self.columns))
        texts = [text[0] if isinstance(text, tuple) else text for text in VALUES.get(self.columns[name], ["1"])]
        constants = [text for text in texts if text[0] not in "{[M" and not text.startswith("repeat")]
        how = (
            f"SET DEFAULT {self.random.choice(constants)}"
            if constants and self.random.random() < 0.8
            else "DROP DEFAULT"
        )
        return [f"ALTER TABLE t ALTER {name_of(name).duckdb} {how}"]


# The makers of statements, and how frequent they are.
MAKERS: Mapping[str, tuple[Callable[[RandomStatements], Statement], int]] = {
    "insert": (RandomStatements.insert, 5),
    "insert of itself": (RandomStatements.insert_self, 2),
    "overwrite": (RandomStatements.overwrite, 2),
    "replace where": (RandomStatements.overwrite_where, 2),
    "partitions": (RandomStatements.overwrite_partitions, 3),
    "frame": (RandomStatements.write_frame, 3),
    "delete": (RandomStatements.delete, 3),
    "update": (RandomStatements.update, 4),
    "merge": (RandomStatements.merge, 6),
    "truncate": (RandomStatements.truncate, 1),
    "alter": (RandomStatements.alter, 3),
    "default": (RandomStatements.default, 2),
    "replace table": (RandomStatements.replace_table, 1),
}
