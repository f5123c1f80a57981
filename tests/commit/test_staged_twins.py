"""The same random outcomes by DuckDB's statements and by staged commits: rows, row ids, feeds, history, statistics."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from lake_parts import session_of
from local_stores import on_catalog, store_of
from merge_cases import OTHERS, fetched, shown
from plain_sql import run_plain
from staged_changes import staged_outcome
from strength import PROVE
from twin_checks import check_partitions, filtered

from lakeconf.engines.engine import ROW_ID
from lakeconf.lake.compaction_step import RowsChangedError
from lakeconf.lake.rewriting import flush_table
from lakeconf.lake.staged_rewriting import newest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from lakeconf import Lake, Store

# The types whose files a staged commit takes.
TYPES = [name for name in OTHERS if name not in ("UUID", "UBIGINT", "JSON", "INTEGER[]")]
PROMOTIONS = {"TINYINT": "INTEGER", "FLOAT": "DOUBLE", "DATE": "TIMESTAMP", "INTEGER": "BIGINT"}
TRANSFORMS = {"DATE": ["year", "month", "day"], "TIMESTAMP": ["year", "month", "hour"]}
NOT_KEYS = ("DOUBLE", "FLOAT", "BLOB", "STRUCT(x INTEGER, y VARCHAR)")
MERGE = "CALL ducklake_merge_adjacent_files('dev', '§')"
REWRITE = "CALL ducklake_rewrite_data_files('dev', '§', delete_threshold => 0.0)"
KEYS = """
    SELECT c.column_name FROM __ducklake_metadata_dev.ducklake_partition_column AS p
    JOIN __ducklake_metadata_dev.ducklake_column AS c USING (table_id, column_id)
    JOIN __ducklake_metadata_dev.ducklake_table AS t USING (table_id) WHERE t.table_name = '{}'
"""


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Stores of new lakes on one kind of catalog."""

    def new(folder: Path) -> Store:
        folder.mkdir()
        return store_of(folder, on_catalog(request, folder), data_inlining_row_limit=3)

    return (new(tmp_path / str(number)) for number in itertools.count())


class Twins:
    """Two tables with the same rows, of which one is changed by staged commits."""

    def __init__(self, lake: Lake, random: Random, number: int) -> None:
        self.lake, self.random = lake, random
        self.public, self.staged = f"public_{number}", f"staged_{number}"
        self.columns = {"id": "BIGINT", "n": "INTEGER", "s": "VARCHAR"}
        self.columns |= {name: random.choice(TYPES) for name in ("v", "w")}
        self.promoted: set[str] = set()
        self.next_id = 0
        self.maintained = self.rewritten = False
        self.written_plainly: set[int] = set()
        self.versions: dict[str, list[int]] = {self.public: [], self.staged: []}
        self.row_ids: dict[str, dict[int, int]] = {self.public: {}, self.staged: {}}

    def rows(self, ids: list[int]) -> str:
        """A query for new values of these rows."""

        def value(found: str) -> str:
            return f"CAST({'NULL' if self.random.random() < 0.2 else self.random.choice(OTHERS[found])} AS {found})"

        listed = ", ".join(
            f"({number}, {', '.join(value(found) for name, found in self.columns.items() if name != 'id')})"
            for number in ids
        )
        names = ", ".join(self.columns)
        typed = ", ".join(f"{name}::{found} AS {name}" for name, found in self.columns.items())
        return f"SELECT {typed} FROM (VALUES {listed}) AS r({names})"

    def new_ids(self, most: int) -> list[int]:
        first = self.next_id
        self.next_id += self.random.randint(1, most)
        return list(range(first, self.next_id))

    def both(self, *statements: str) -> None:
        """Runs statements on both tables, whose name is `§` in them."""
        for twin in (self.public, self.staged):
            for statement in statements:
                run_plain(self.lake, *statement.replace("§", twin).split("; "))
            self.versions[twin].append(self.lake.refresh())

    def create(self) -> None:
        self.both(f"CREATE TABLE § ({', '.join(f'{name} {found}' for name, found in self.columns.items())})")
        if self.random.random() < 0.6:
            self.partition()
        for most in (3, 12, 3):
            self.both(f"INSERT INTO § {self.rows(self.new_ids(most))}")
        self.both(f"DELETE FROM § WHERE id % {self.random.randint(2, 9)} = 0")

    def partition(self) -> None:
        keys = []
        for name in self.random.sample([name for name in self.columns if name != "id"], 2)[: self.random.randint(1, 2)]:
            found = self.columns[name]
            transform = self.random.choice([None, *TRANSFORMS.get(found, [])])
            if transform or found not in NOT_KEYS:
                keys.append(f"{transform}({name})" if transform else name)
            if found in TRANSFORMS and transform != "year" and self.random.random() < 0.4:
                keys.append(f"year({name})")
        self.both(f"ALTER TABLE § SET PARTITIONED BY ({', '.join(keys)})" if keys else "SELECT 1")

    def maintain(self) -> None:
        self.maintained = True
        kind = self.random.choice(["flush", "merge", "rewrite"])
        # DuckLake cannot rewrite a table with floats and rows in a catalog on SQLite or PostgreSQL.
        if kind != "merge" and not self.flush():
            return
        if kind != "flush":
            self.both(MERGE if kind == "merge" else REWRITE)
            self.rewritten |= kind == "rewrite"

    def flush(self) -> bool:
        """Flushes both tables; false if DuckLake would restore deleted rows."""
        done = True
        for twin in (self.public, self.staged):
            try:
                flush_table(session_of(self.lake), newest(session_of(self.lake), twin))
            except RowsChangedError:
                done = False
            self.versions[twin].append(self.lake.refresh())
        return done

    def evolve(self) -> None:
        kind = self.random.choice(["add", "drop", "rename", "promote", "partition"])
        others = [name for name in self.columns if name not in ("id", "n", "s")]
        name = self.random.choice(others) if others else ""
        keys = fetched(self.lake, KEYS.format(self.staged))
        fixed = not name or (name,) in keys
        if kind == "add":
            new = f"c{len(self.versions[self.staged])}"
            self.columns[new] = found = self.random.choice(TYPES)
            default = " DEFAULT 7" if found == "BIGINT" else " DEFAULT 'a'" if found == "VARCHAR" else ""
            self.both(f"ALTER TABLE § ADD COLUMN {new} {found}{default}")
        elif kind == "drop" and not fixed:
            del self.columns[name]
            self.both(f"ALTER TABLE § DROP COLUMN {name}")
        elif kind == "rename" and not fixed:
            new = f"r{len(self.versions[self.staged])}"
            self.columns = {new if key == name else key: found for key, found in self.columns.items()}
            self.promoted |= {new} if name in self.promoted else set()
            self.both(f"ALTER TABLE § RENAME COLUMN {name} TO {new}")
        elif kind == "promote" and not fixed and self.columns[name] in PROMOTIONS:
            self.columns[name] = PROMOTIONS[self.columns[name]]
            self.promoted.add(name)
            self.both(f"ALTER TABLE § ALTER COLUMN {name} SET DATA TYPE {self.columns[name]}")
        elif kind == "partition":
            if self.random.random() < 0.2:
                self.both("ALTER TABLE § RESET PARTITIONED BY")
            else:
                self.partition()

    def outcome(self) -> None:
        """A random outcome of a merge, by statements in one twin and by a staged commit in the other."""
        ids = sorted(self.row_ids[self.staged])
        chosen = self.random.sample(ids, self.random.randint(0, min(len(ids), 6)))
        split = self.random.randint(0, len(chosen))
        updated, deleted = chosen[:split], chosen[split:]
        new = self.rows(updated) if updated else None
        added = self.rows(self.new_ids(6)) if self.random.random() < 0.6 or not chosen else None
        statements = [f"DELETE FROM {self.public} WHERE id IN ({', '.join(map(str, deleted))})"] if deleted else []
        if new:
            settings = ", ".join(f"{name} = v.{name}" for name in self.columns)
            statements.append(f"UPDATE {self.public} AS t SET {settings} FROM ({new}) AS v WHERE t.id = v.id")
        statements += [f"INSERT INTO {self.public} {added}"] if added else []
        run_plain(self.lake, "BEGIN", *statements, "COMMIT")
        self.versions[self.public].append(self.lake.refresh())
        listed = ", ".join(f"({number}, {self.row_ids[self.staged][number]})" for number in updated)
        with_ids = (
            f"SELECT r.*, row_id AS {ROW_ID} FROM ({new}) AS r JOIN (VALUES {listed}) AS i(id, row_id) USING (id)"
        )
        self.written_plainly -= {*updated}
        gone = [self.row_ids[self.staged][number] for number in chosen]
        self.versions[self.staged].append(
            staged_outcome(self.lake, self.staged, with_ids if new else None, gone, added).commit()
        )

    def contents(self, twin: str, version: int) -> list[str]:
        found = fetched(self.lake, f"SELECT COLUMNS(*)::VARCHAR FROM dev.{twin} AT (VERSION => {version})")
        return sorted(shown(list(row)) for row in found)

    def feed(self, twin: str) -> list[str]:
        version = self.versions[twin][-1]
        columns = "change_type, COLUMNS(* EXCLUDE (rowid, change_type, snapshot_id))::VARCHAR"
        found = fetched(self.lake, f"SELECT {columns} FROM dev.table_changes('{twin}', {version}, {version})")
        if self.maintained:
            # DuckLake does not pair the images of an update in a file that it has merged or flushed.
            kinds = {"update_preimage": "delete", "update_postimage": "insert"}
            found = [(kinds.get(kind, kind), *row) for kind, *row in found]
        return sorted(shown(list(row)) for row in found)

    def check(self) -> None:
        """Compares the last versions, and checks that no row has another id than before."""
        for twin in (self.public, self.staged):
            found = dict(fetched(self.lake, f"SELECT id, rowid FROM dev.{twin}"))
            before = self.row_ids[twin]
            # DuckLake loses the ids of rows of its own updates when it merges their files.
            kept = found.keys() - (
                self.written_plainly if twin == self.staged else {*found} if self.maintained else set()
            )
            assert [before.get(number, found[number]) for number in kept] == [found[number] for number in kept], twin
            assert len({*found.values()}) == len(found)
            self.row_ids[twin] = found
        assert self.contents(self.public, self.versions[self.public][-1]) == self.contents(
            self.staged, self.versions[self.staged][-1]
        )

    def check_all(self, seen: Counter[str]) -> None:
        for public, staged in zip(self.versions[self.public], self.versions[self.staged], strict=True):
            assert self.contents(self.public, public) == self.contents(self.staged, staged)
        seen["partitioned files"] += check_partitions(self.lake, self.staged)

    def check_filters(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self.rewritten:
            return  # DuckLake's rewrite loses the bounds of a column if a file contains only NULLs
        # DuckLake compares a filter on a promoted column in the type of the file.
        asked = {name: found for name, found in self.columns.items() if name not in {"id", *self.promoted}}
        assert filtered(connection, self.staged, asked) == filtered(connection, self.public, asked)


def run(twins: Twins, seen: Counter[str]) -> None:
    twins.create()
    twins.check()
    for _ in range(twins.random.randint(4, 8)):
        step = twins.random.choice(["outcome"] * 3 + ["write", "maintain", "evolve"])
        seen[step] += 1
        if step == "outcome":
            twins.outcome()
            assert twins.feed(twins.public) == twins.feed(twins.staged)
        elif step == "write":
            twins.both(f"INSERT INTO § {twins.rows(twins.new_ids(5))}")
            residue = twins.random.randint(0, 3)
            twins.both(f"UPDATE § SET s = 'later' WHERE id % 4 = {residue}")
            twins.written_plainly |= {number for number in range(twins.next_id) if number % 4 == residue}
            twins.both(f"DELETE FROM § WHERE id % 9 = {twins.random.randint(0, 8)}")
        elif step == "maintain":
            twins.maintain()
        else:
            twins.evolve()
        twins.check()
    # If a table had lost its bounds, those of a later insert would hide other rows.
    twins.both(f"INSERT INTO § {twins.rows(twins.new_ids(1))}")
    twins.check_all(seen)


def check_seeds(store: Store, seeds: range, seen: Counter[str]) -> None:
    """Runs the twins of each seed in one lake."""
    made = list[Twins]()
    with store.open() as lake:
        for seed in seeds:
            twins = Twins(lake, Random(seed), seed)  # noqa: S311 - not for cryptography
            made.append(twins)
            try:
                run(twins, seen)
            except BaseException as error:
                error.add_note(f"seed {seed}: {twins.columns}")
                raise
    with store.connect() as connection:
        for twins in made:
            twins.check_filters(connection)


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_twins_stay_equal(stores: Iterator[Store]) -> None:
    """Other writers insert, update, delete, compact and evolve between the outcomes."""
    seen = Counter[str]()
    # A lake for each ten seeds: each step takes longer in a lake with more tables.
    for number, store in enumerate(itertools.islice(stores, 20 if PROVE else 1)):
        kind = ("sqlite", "duckdb", "postgres").index(store.metadata_backend.type)
        first = 10_000 * kind + 10 * number
        check_seeds(store, range(first, first + (10 if PROVE else 2)), seen)
    assert min(seen["outcome"], seen["partitioned files"]) > 0
