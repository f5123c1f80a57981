"""A killed compaction or rewrite loses nothing, and the next one continues."""

from __future__ import annotations

import datetime as dt
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from killed_writers import known_files
from local_stores import config_of, on_postgres
from maintaining_process import AFTER, BEFORE, INSIDE, NEVER, Death, Maintainers
from strength import PROVE

import lakeconf

if TYPE_CHECKING:
    from lakeconf import Lake

KILLS = {"sqlite": 20, "duckdb": 4, "postgres": 4}
TABLES = ("raw.plain", "raw.parts", "raw.other")
# A killed process takes at most this number of steps; four steps are a transaction of DuckLake, twenty a staged commit.
MOST_STEPS = 60
# The share of the files of a table that have no values in a column.
_EMPTY = 0.3
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)

State = list[tuple[int, int, str]]


@pytest.fixture(params=list(KILLS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Small deletes go to the catalog, so that a compaction flushes them; larger ones make files that it rewrites."""
    catalog: dict[str, Any] = {"type": kind, "uri": str(tmp_path / "catalog")}
    if kind == "postgres":
        catalog = on_postgres(request.getfixturevalue("postgres_server"))
    config = config_of(tmp_path, catalog)
    config["stores"]["dev"]["attach_options"] = {"data_inlining_row_limit": 3}
    return config


def state(lake: Lake, table: str, version: int | None = None) -> State:
    """The rows of a table with their row ids, as plain DuckDB reads them."""
    at = "" if version is None else f" AT (VERSION => {version})"
    found = lake.sql(f"SELECT rowid, id, kind FROM {table}{at} ORDER BY id").collect("pyarrow")
    return [(int(row[0]), int(row[1]), str(row[2])) for row in found.rows()]


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "data").rglob("*.parquet")}


class History:
    """What the lake must contain: the rows of each table, now and at earlier snapshots."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now: dict[str, State] = {}
        self.past: list[tuple[int, str, State]] = []
        self._rows = 0

    def create(self, lake: Lake) -> None:
        for table in TABLES:
            partitioned_by = ["kind"] if table == "raw.parts" else []
            lake.create_table(table, {"id": "BIGINT", "kind": "VARCHAR"}, partitioned_by=partitioned_by)
        lake._session.writer.execute("CALL dev.set_option('rewrite_delete_threshold', 0.3)")
        for _ in range(4):
            self.change(lake)

    def change(self, lake: Lake) -> None:
        """Adds files to each table, and deletes few or many rows of one."""
        with lake.transaction() as tx:
            for table in TABLES * 3:
                ids = range(self._rows, self._rows + 10)
                self._rows += 10
                # DuckLake would forget the bounds of a table with files of which some have no values.
                is_empty = table == "raw.other" and self.chance.random() < _EMPTY
                kinds = [None if is_empty else f"k{id_ % 2}" for id_ in ids]
                tx.table(table).append(
                    pa.table({"id": pa.array(ids, pa.int64()), "kind": pa.array(kinds, pa.string())})
                )
        table = self.chance.choice(TABLES)
        first = self.chance.choice(state(lake, table))[1]
        lake.table(table).delete(f"id >= {first} AND id < {first + self.chance.choice((1, 8))}")
        for each in TABLES:
            self.now[each] = state(lake, each)
            self.past.append((lake.snapshot_id, each, self.now[each]))

    def check(self, lake: Lake, tmp_path: Path, *, versions: int) -> None:
        """Checks rows, row ids, numbers of rows and files, and some of the earlier snapshots."""
        for table in TABLES:
            assert state(lake, table) == self.now[table]
            assert lake.sql(f"SELECT count(*) FROM {table}").collect("pyarrow").rows() == [(len(self.now[table]),)]
        for version, table, rows in self.chance.sample(self.past, min(versions, len(self.past))):
            assert state(lake, table, version) == rows, (table, version)
        assert known_files(lake) <= files(tmp_path)


def test_kills_during_maintenance_lose_nothing(kind: str, config: dict[str, Any], tmp_path: Path) -> None:
    chance = random.Random(kind)  # noqa: S311 - the same kills every time
    store, history = lakeconf.init(config).get_store("dev"), History(chance)
    with store.open() as lake:
        history.create(lake)
        before = lake.snapshot_id
    kills, committed = KILLS[kind] * (10 if PROVE else 1), 0
    with Maintainers() as maintainers:
        for _ in range(kills):
            how = chance.choice((BEFORE, INSIDE, AFTER))
            death = Death(how, chance.randint(1, MOST_STEPS), chance.randint(1, 2000))
            assert maintainers.run(config, death) in KILLED, death
            with store.open() as lake:
                committed += lake.snapshot_id - before
                history.check(lake, tmp_path, versions=2)
                lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
                assert files(tmp_path) == known_files(lake)
                history.change(lake)
                before = lake.snapshot_id
        assert maintainers.run(config, NEVER) == 0
    # Each process continued where the one before was killed.
    assert committed > kills
    with store.open() as lake:
        assert lake.maintenance.plan_compaction() == []
        history.check(lake, tmp_path, versions=30)
