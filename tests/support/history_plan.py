"""What the processes of a history do: tasks, tables, and random transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from history import Append, load

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from lakeconf import Store

KEYS = 3
# After so many transactions of a thread the keys change, so that lists stay short.
GENERATION = 40
MAX_THREADS = 8
REPLACING = ("merge", "overwrite", "update", "delete", "single merge", "single overwrite", "single update")
KINDS = (*REPLACING, *["read"] * 2, *["append"] * 3)
MAINTENANCE = ("flush", "rewrite", "compact")
REMOVING = ("expire", "cleanup")
LIST, ROWS = "lists", "rows"


@dataclass(frozen=True)
class Task:
    """What a process does."""

    config: dict[str, Any]  # the configuration; its store is `dev`
    folder: Path  # where histories are written
    process: int  # the number of the process
    seed: int  # decides what it does, and when it suffers a fault
    count: int  # the number of transactions of each thread
    threads: int = 1  # the number of threads, which share an open lake
    tables: int = 2  # the number of tables of each kind
    # Who writes: lakeconf with the engine `duckdb` or `spark`, or `plain` DuckDB without lakeconf.
    writer: str = "duckdb"
    faults: tuple[str, ...] = ()  # what may happen at a commit: `kill`, `pause`, `clock`
    maintenance: tuple[str, ...] = ()  # maintenance that the process does in turn, each kind at least once
    # True if maintenance removes snapshots and files of any age; False if only those older than a day.
    forced: bool = True
    unprotected: bool = False  # True to disable the locks and conflict checks of lakeconf

    @property
    def is_duckdb_file(self) -> bool:
        """True if only one process can have the catalog open."""
        return bool(self.config["stores"]["dev"]["metadata_backend"]["type"] == "duckdb")

    @property
    def between(self) -> int:
        """The number of transactions of a thread between two kinds of maintenance: often, but not most of the time."""
        return min(max(self.count // 10, 2), 10)

    def journal(self, thread: int) -> Path:
        """The file of the history of a thread."""
        return self.folder / f"{self.process}-{thread}.jsonl"

    @property
    def maintained(self) -> Path:
        """The file of the maintenance of the process."""
        return self.folder / f"{self.process}.maintenance"

    def number(self, thread: int, step: int) -> int:
        """The number of a transaction, which no other one has."""
        return (self.process * MAX_THREADS + thread) * 1_000_000 + step

    def begun(self, thread: int) -> int:
        """The number of transactions that the process had begun when it was killed."""
        path = self.journal(thread)
        return len(load([path])) if path.exists() else 0


class Plan(NamedTuple):
    """A transaction before it runs: the keys that it reads by table, and what it appends."""

    kind: str
    reads: dict[str, list[int]]
    appends: list[Append]


def names(count: int) -> list[str]:
    """The names of all tables."""
    return [f"{kind}_{number}" for kind in (LIST, ROWS) for number in range(count)]


def create_tables(store: Store, count: int) -> None:
    """Creates the tables."""
    with store.open() as lake:
        for name in names(count):
            lake.create_table(name, {"k": "BIGINT", "v": "VARCHAR" if name.startswith(LIST) else "BIGINT"})


def plan(chance: random.Random, number: int, step: int, tables: int) -> Plan:
    """A random transaction; `step` is how many its thread began before, `tables` the number of tables of each kind."""
    generation = step // GENERATION
    kind = chance.choice(KINDS)
    form = ROWS if kind == "append" else chance.choice((LIST, ROWS)) if kind == "read" else LIST
    # Mostly few tables, sometimes all of them.
    several = 1 if kind.startswith("single") else min(chance.randint(1, tables) for _ in range(3 if tables > 2 else 1))
    reads = {
        f"{form}_{table}": [generation * KEYS + key for key in chance.sample(range(KEYS), chance.randint(1, 2))]
        for table in chance.sample(range(tables), several)
    }
    written = [] if kind == "read" else chance.sample(sorted(reads), chance.randint(1, len(reads)))
    keys = [f"{table}/{chance.choice(reads[table])}" for table in written]
    return Plan(kind, reads, [Append(key, number * 10 + at) for at, key in enumerate(keys)])
