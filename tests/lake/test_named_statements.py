"""Random statements of Spark's SQL by name leave the rows, the changes and the history of DuckDB's on a twin."""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest
from local_stores import store_of
from named_statements import RandomStatements
from strength import in_prove

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from named_statements import Statement
    from pyspark.sql import SparkSession

    from lakeconf import Store

STEPS = 14
SEEDS = 4
# A MERGE with several updates and deletes, and SET … = DEFAULT, are only possible in DuckDB's own tables.
ONLY_IN_MEMORY = ("single UPDATE/DELETE action", "SET DEFAULT is not yet supported")


class Side:
    """One of the twins: a table `t` in a lake, on a connection of plain DuckDB."""

    def __init__(self, store: Store) -> None:
        self.connection = store.connect()
        self.seen: dict[int, Counter[tuple[str | None, ...]]] = {}

    def run(self, statements: list[str]) -> str | None:
        """Runs statements in one transaction; returns the error."""
        try:
            self.connection.execute("BEGIN")
            for statement in statements:
                self.connection.execute(statement)
            self.connection.execute("COMMIT")
        except duckdb.Error as error:
            with contextlib.suppress(duckdb.Error):
                self.connection.execute("ROLLBACK")
            return str(error)
        return None

    def fetched(self, query: str) -> Counter[tuple[str | None, ...]]:
        return alike(self.connection.execute(query).fetchall())

    @property
    def newest(self) -> int:
        snapshots = "SELECT max(snapshot_id) FROM ducklake_snapshots(current_database())"
        ((newest,),) = self.connection.execute(snapshots).fetchall()
        return int(newest)

    def rows(self, version: int | None = None) -> Counter[tuple[str | None, ...]]:
        at = "" if version is None else f" AT (VERSION => {version})"
        return self.fetched(f"SELECT COLUMNS(*)::VARCHAR FROM t{at}")

    def feed(self, version: int) -> Counter[tuple[str | None, ...]]:
        return self.fetched(
            "SELECT change_type, COLUMNS(* EXCLUDE (rowid, change_type, snapshot_id))::VARCHAR "
            f"FROM ducklake_table_changes(current_database(), 'main', 't', {version}, {version})"
        )

    def in_memory(self, statement: str) -> str | None:
        """Runs a statement on a copy of the table, whose rows the table then gets."""
        columns = (
            "SELECT column_name, column_default FROM duckdb_columns() WHERE table_name = 't' AND database_name = 'dev'"
        )
        defaults = [row for row in self.connection.execute(columns).fetchall() if row[1] is not None]
        return self.run(
            [
                "CREATE OR REPLACE TABLE memory.main.t AS FROM t",
                *(f'ALTER TABLE memory.main.t ALTER "{name}" SET DEFAULT {text}' for name, text in defaults),
                statement.replace("MERGE INTO t ", "MERGE INTO memory.main.t AS t ").replace(
                    "UPDATE t SET", "UPDATE memory.main.t AS t SET"
                ),
            ]
        ) or self.run(["DELETE FROM t", "INSERT INTO t FROM memory.main.t"])


def by_spark(own: SparkSession, side: Side) -> Counter[tuple[str | None, ...]]:
    """The rows that Spark reads by name."""
    read = own.sql("SELECT * FROM t").toArrow()
    with duckdb.connect() as plain:
        plain.register("read", read)
        kinds = {name: kind for name, kind, *_ in side.connection.execute("DESCRIBE t").fetchall()}
        listed = ", ".join(f'CAST(CAST("{name}" AS {kind}) AS VARCHAR)' for name, kind in kinds.items())
        return alike(plain.execute(f"SELECT {listed} FROM read").fetchall())


def alike(rows: Iterable[Sequence[str | None]]) -> Counter[tuple[str | None, ...]]:
    """Rows to compare: DuckDB's Parquet files may have one of 0.0 and -0.0 for both."""
    return Counter(tuple("0.0" if value == "-0.0" else value for value in row) for row in rows)


def carried_out(own: SparkSession, statement: Statement) -> str | None:
    """Runs a statement on Spark; returns the error."""
    for key, value in statement.settings.items():
        own.conf.set(key, value)
    try:
        frame = own.sql(statement.spark)
        if statement.write in ("append", "overwritePartitions"):
            getattr(frame.writeTo("t"), statement.write)()
        elif statement.write == "insertInto":
            frame.write.insertInto("t")
        elif statement.write:
            frame.write.mode(statement.write.split()[1]).saveAsTable("t")
    except Exception as error:  # noqa: BLE001 - Spark has many
        return f"{type(error).__name__}: {error}"
    finally:
        for key in statement.settings:
            own.conf.unset(key)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(SEEDS), *in_prove(range(SEEDS, 300))])
def test_random_statements_leave_what_duckdb_leaves(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    statements = RandomStatements(random)
    own = spark.newSession()
    store = store_of(tmp_path)
    lake, twin = Side(store), Side(store_of(tmp_path / "twin"))
    store.attach(own)
    script = statements.created()
    states = {}
    with contextlib.closing(lake.connection), contextlib.closing(twin.connection):
        for side in (lake, twin):
            assert side.run(script) is None
        for _ in range(STEPS):
            if random.random() < 0.3:
                prepared = statements.by_duckdb()
                script += prepared
                assert lake.run(prepared) == twin.run(prepared), script
                continue
            states[lake.newest] = lake.rows()
            check(own, lake, twin, statements.next(), script)
        for version, rows in states.items():
            assert lake.rows(version) == rows, (version, script)


def check(own: SparkSession, lake: Side, twin: Side, statement: Statement, script: list[str]) -> None:
    script.append(f"-- {statement.kind}\n{statement.spark}")
    told = "\n".join(script)
    before, twins, rows = lake.newest, twin.newest, lake.rows()
    error, expected = carried_out(own, statement), twin.run(statement.duckdb)
    copied = expected is not None and any(text in expected for text in ONLY_IN_MEMORY)
    if copied:
        expected = twin.in_memory(statement.duckdb[0])
    assert (error is None) == (expected is None), f"Spark: {error}\nDuckDB: {expected}\n{told}"
    assert lake.rows() == twin.rows(), told
    assert by_spark(own, lake) == twin.rows(), told
    committed = lake.newest - before
    assert committed == 0 if error else committed <= 1, told
    assert committed or lake.rows() == rows, told
    if committed and twin.newest == twins + 1 and not copied:
        assert lake.feed(lake.newest) == twin.feed(twin.newest), told
