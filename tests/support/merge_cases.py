"""Random tables and merges, and the outcome of a merge in a form that twins have in common."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import narwhals as nw
from lake_parts import session_of

from lakeconf.errors import LakeconfError
from lakeconf.write.operations.merge.clauses import Delete, Insert, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from random import Random

    import pyarrow as pa

    from lakeconf import Lake, Table

# Literals by type: few values, so that keys match.
KEYS = {
    "BIGINT": ["1", "2", "-9223372036854775808", "9223372036854775807"],
    "TINYINT": ["-128", "0", "127"],
    "VARCHAR": ["''", "'a'", "'A'", "'a '", "'é'", "repeat('z', 70)", "'10'", "'9'"],
    "DECIMAL(5,2)": ["0.10", "-999.99", "999.99"],
    "DECIMAL(30,3)": ["123456789012345678901234567.891", "-0.001", "0"],
    "DATE": ["'2024-03-10'", "'0001-01-01'", "'1582-10-10'", "'9999-12-31'"],
    "TIMESTAMP": ["'2024-03-10 02:30:00.123456'", "'1500-01-01'", "'9999-12-31 23:59:59.999999'"],
    "TIMESTAMPTZ": ["'2024-07-01 12:00:00+02'", "'1500-01-01 00:00:00+00'", "'2024-03-31 01:30:00+00'"],
    "BLOB": [r"'\x00\xFF'::BLOB", "''::BLOB", r"'\x00'::BLOB"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0.0", "'-0.0'", "'nan'", "'inf'", "0.1"],
    "FLOAT": ["0.0", "'-0.0'", "'nan'", "0.1"],
    "UUID": ["'550e8400-e29b-41d4-a716-446655440000'", "'00000000-0000-0000-0000-000000000001'"],
}
OTHERS = KEYS | {
    "INTEGER": ["-1", "0", "2", "3"],
    "STRUCT(x INTEGER, y VARCHAR)": ["{'x': 1, 'y': NULL}", "{'x': NULL, 'y': 'a'}"],
    "INTEGER[]": ["[1, NULL]", "[]"],
    "UBIGINT": ["'18446744073709551615'", "0"],
    "JSON": ["'{\"k\": [1]}'"],
}


# Defaults of new columns, for types with literals that DuckLake accepts.
DEFAULTS = {"BIGINT": "7", "DATE": "'2024-03-10'", "VARCHAR": "'a'"}
# Transforms of partition keys, and types that can be promoted to others.
PARTS = {"DATE": ["year", "month", "day"], "TIMESTAMP": ["year", "month", "hour"]}
NARROWER = {"INTEGER": "TINYINT", "BIGINT": "INTEGER"}


class Case(NamedTuple):
    """A table and a merge."""

    setup: list[str]  # statements that create the table `§`
    columns: dict[str, str]
    frame: str  # the query that returns the frame
    arguments: dict[str, Any]  # those of `merge` besides the frame


def values(random: Random, columns: dict[str, str], count: int) -> str:
    def value(type_name: str) -> str:
        text = "NULL" if random.random() < 0.2 else random.choice(OTHERS[type_name])
        return f"CAST({text} AS {type_name})"

    return ", ".join(f"({', '.join(map(value, columns.values()))})" for _ in range(count))


def condition(random: Random, side: str, columns: dict[str, str]) -> nw.Expr | None:
    """A condition that DuckDB may compute for Spark, or one that it must not."""
    number, text = nw.col(f"{side}_n"), nw.col(f"{side}_s")
    name = f"{side}_{random.choice([name for name, found in columns.items() if found in KEYS])}"
    plain = [None, None, number >= 0, ~(number == 2) | text.is_null(), (text < "b") & ~nw.col(name).is_null()]
    return number + 1 > 2 if random.random() < 0.1 else random.choice(plain)


def insert(random: Random, columns: dict[str, str]) -> Insert | None:
    """No insert, or one of the columns of the frame, or of some columns."""
    when = condition(random, "source", columns)
    values: list[dict[str, object] | None] = [None, None, {"n": nw.col("source_n"), "s": "new"}]
    return random.choice([None, Insert(random.choice(values), when), Insert(when=when)])


def clauses(random: Random, columns: dict[str, str]) -> dict[str, Any]:
    both = random.choice(["source", "target"])
    update: list[dict[str, object] | None] = [
        None,
        {"n": nw.col("source_n"), "s": "set"},
        {"n": nw.col("target_n")},
        {"s": None},
    ]
    update += [{"n": nw.col("target_n") + 1}] * (random.random() < 0.15)
    matched: list[Update | Delete] = [
        Delete(condition(random, both, columns))
        if random.random() < 0.3
        else Update(random.choice(update), condition(random, both, columns))
        for _ in range(random.randint(0, 2))
    ]
    return {
        "matched": matched,
        "not_matched": insert(random, columns),
        "not_matched_by_source": Delete(condition(random, "target", columns)) if random.random() < 0.3 else None,
    }


def partition_keys(random: Random, columns: dict[str, str]) -> str:
    """The keys of a random partitioning; DuckLake's buckets and some pairs of keys have no staged commits."""
    parts = {name: random.choice(PARTS[found]) for name, found in columns.items() if found in PARTS}
    choices = ["s", "n", "s, n", "bucket(3, s)", *(f"{part}({name})" for name, part in parts.items())]
    choices += [f"year({name}), s" for name in parts] + [f"year({name}), month({name})" for name in parts]
    return random.choice(choices)


def former_columns(random: Random, columns: dict[str, str], types: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Columns that a table has first, and the statements that make others of them."""
    kind = random.choice(["drop", "rename", "promote"])
    if kind == "drop":
        return columns | {"x": random.choice(sorted(types))}, ["ALTER TABLE § DROP COLUMN x"]
    if kind == "rename":
        former = {"old" if name == "v" else name: found for name, found in columns.items()}
        return former, ["ALTER TABLE § RENAME COLUMN old TO v"]
    found = columns["v"]
    if found not in NARROWER:
        return columns, []
    return columns | {"v": NARROWER[found]}, [f"ALTER TABLE § ALTER COLUMN v SET DATA TYPE {found}"]


def random_case(
    random: Random, types: Collection[str] = OTHERS, *, partitioned: float = 0.3, evolved: float = 0.0
) -> Case:
    """A random table, with a partitioned or evolved one of these probabilities, and a merge."""
    keys, others = [name for name in KEYS if name in types], sorted(name for name in OTHERS if name in types)
    columns = {"k": random.choice([*keys, "BIGINT", "VARCHAR"]), "l": random.choice(sorted(keys)), "n": "INTEGER"}
    columns |= {"s": "VARCHAR", "v": random.choice(others)}
    former, changes = former_columns(random, columns, others) if random.random() < evolved else (columns, [])
    fields = ", ".join(f"{name} {found}" for name, found in former.items())
    setup = [f"CREATE TABLE § ({fields})"]
    if random.random() < partitioned:
        kept = {name: found for name, found in columns.items() if name in former}
        setup.append(f"ALTER TABLE § SET PARTITIONED BY ({partition_keys(random, kept)})")
    setup += [f"INSERT INTO § VALUES {values(random, former, random.choice([3, 12]))}" for _ in range(2)]
    setup += [*changes, f"INSERT INTO § VALUES {values(random, columns, random.choice([3, 12]))}"]
    if random.random() < 0.5:
        setup += ["ALTER TABLE § ALTER COLUMN n SET DEFAULT 2", "ALTER TABLE § ALTER COLUMN s SET DEFAULT 'A'"]
    setup.append(f"DELETE FROM § WHERE rowid % {random.randint(2, 9)} = 0")
    if random.random() < 0.3:
        columns["w"] = random.choice(others)
        default = f" DEFAULT {DEFAULTS[columns['w']]}" if columns["w"] in DEFAULTS else ""
        setup.append(f"ALTER TABLE § ADD COLUMN w {columns['w']}{default}")
        setup.append(f"INSERT INTO § VALUES {values(random, columns, 4)}")
    on = random.choice([["k"], ["k"], ["k", "l"], ["l", "n"]])
    whole = random.random() < 0.7
    given = columns if whole else {name: columns[name] for name in [*on, "n", "s"]}
    rows = f"SELECT * FROM (VALUES {values(random, given, random.choice([0, 3, 8]) + 1)}) AS r({', '.join(given)})"
    if random.random() < 0.8:  # otherwise several rows may match one
        rows += f" QUALIFY row_number() OVER (PARTITION BY {', '.join(on)}) = 1"
    return Case(setup, columns, rows, {"on": on} | clauses(random, given))


def frame_of(case: Case) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(case.frame).to_arrow_table()
    return found.replace_schema_metadata(None)


class WriteOutcome(NamedTuple):
    """The result of a merge: rows by row id, except for new ones, and the feed; or the error."""

    kept: dict[int, str]
    new: list[str]
    feed: list[str]
    error: str | None


def merged(lake: Lake, name: str, case: Case) -> tuple[WriteOutcome, str | None]:
    """Merges; returns the outcome and the recorded decision."""
    return outcome_of(lake, name, lambda table: table.merge(frame_of(case), **case.arguments))


def outcome_of(lake: Lake, name: str, write: Callable[[Table], object]) -> tuple[WriteOutcome, str | None]:
    """Writes to a table; returns the outcome and the recorded decision."""
    ((newest,),) = fetched(lake, f"SELECT coalesce(max(rowid), -1) FROM {name}")
    before, error = lake.snapshot_id, None
    try:
        write(lake.table(name))
    except LakeconfError as raised:
        error = f"{type(raised).__name__}: {raised.message}".replace(name, "t")
    found = {row_id: shown(row) for row_id, *row in fetched(lake, f"SELECT rowid, COLUMNS(*)::VARCHAR FROM {name}")}
    feed = []
    decision = None
    if lake.snapshot_id > before:
        for row_id, kind, *row in fetched(
            lake,
            f"SELECT rowid, change_type, COLUMNS(* EXCLUDE (rowid, change_type, snapshot_id))::VARCHAR "
            f"FROM dev.table_changes('{name}', {lake.snapshot_id}, {lake.snapshot_id})",
        ):
            feed.append(shown([row_id if row_id <= newest else None, kind, *row]))
        decision = commit_info(lake).get("written_by", {}).get(f"main.{name}")
    kept = {row_id: row for row_id, row in found.items() if row_id <= newest}
    new = sorted(row for row_id, row in found.items() if row_id > newest)
    return WriteOutcome(kept, new, sorted(feed), error), decision


def commit_info(lake: Lake, version: int | None = None) -> dict[str, Any]:
    """What a commit has recorded, by default the newest."""
    *_, one = [one for one in lake.snapshots() if version in (None, one.snapshot_id)]
    found: dict[str, Any] = json.loads(one.extra_info or "{}")
    return found


def unknown_files(lake: Lake, tmp_path: Path) -> list[str]:
    """Files of lakeconf that the catalog does not know."""
    metadata = "__ducklake_metadata_dev."
    query = f"SELECT path FROM {metadata}ducklake_data_file UNION ALL SELECT path FROM {metadata}ducklake_delete_file"
    known = [path for (path,) in fetched(lake, query)]
    found = [str(path) for path in (tmp_path / "data").rglob("*.parquet") if "lakeconf-" in str(path)]
    return [path for path in found if not any(path.endswith(one) for one in known)]


def committer(lake: Lake) -> str:
    """Who has made the newest commit: `public` or `staged`."""
    return str(commit_info(lake)["committer"])


def shown(row: list[object]) -> str:
    """A row as text; DuckDB's dictionaries of Parquet files contain one of 0.0 and -0.0 for both."""
    return repr(row).replace("'-0.0'", "'0.0'")


def fetched(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, as DuckDB without lakeconf returns them; the lake is the default database."""
    connection = session_of(lake).writer.cursor()
    try:
        connection.execute(f"USE {session_of(lake).alias}")
        return connection.rows(query)
    finally:
        connection.close()
