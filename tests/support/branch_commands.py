"""Random commands on a lake, which a branch, the lake that it was made of, and full copies of both can carry out."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from branched_lakes import expire_all

from lakeconf.catalog.tables import split_name
from lakeconf.sql import qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lakeconf import Lake

TABLES = ("raw.a", "raw.b", "c", '"odd ""name".d')
VIEWS = ("raw.v", "w")
_VALUES: Mapping[str, Callable[[Random], Any]] = {
    "BIGINT": lambda random: random.randint(0, 40),
    "INTEGER": lambda random: random.choice([0, 1, 2, None]),
    "VARCHAR": lambda random: random.choice(["a", "b", "ü 'q'", None]),
    "DATE": lambda random: random.choice([date(2024, 1, 1), date(2024, 2, 2), None]),
    "DOUBLE": lambda random: random.choice([0.5, -1.0, None]),
    "INTEGER[]": lambda random: random.choice([[1, None], [], None]),
    "STRUCT(x INTEGER, y VARCHAR)": lambda random: random.choice([{"x": 1, "y": "z"}, {"x": None, "y": "a"}, None]),
}
_KEYS = ("c0", "bucket(4, id)", "month(day)")
_ADDED = ("c3", "c4")


class Command(NamedTuple):
    """A command on a lake."""

    words: str
    run: Callable[[Lake], object]
    maintains: bool = False  # True if it expires snapshots


def random_rows(random: Random, types: Mapping[str, str], count: int) -> list[dict[str, Any]]:
    """Rows with values of these types; their ids are distinct."""
    ids = random.sample(range(60), count)
    return [
        {name: ids[row] if name == "id" else _VALUES[str(kind)](random) for name, kind in types.items()}
        for row in range(count)
    ]


def _quoted(name: str) -> str:
    return qualified(*split_name(name))


def _where(random: Random) -> str:
    return random.choice(["id < 10", f"id = {random.randint(0, 60)}", "id > 35", "id IN (1, 3, 5, 7, 20)", "id > 1000"])


class Commands:
    """Makes commands for a lake: `lake` is what a model says about it, and is not changed."""

    def __init__(self, random: Random, lake: Lake) -> None:
        self._random, self._lake = random, lake

    def any(self) -> Command:
        """A command."""
        while True:
            made = self._random.choice(_MAKERS)(self)
            if made is not None:
                return made

    def change(self) -> Command:
        """A command that may be a part of a transaction."""
        while True:
            made = self._random.choice(_CHANGES)(self)
            if made is not None:
                return made

    def _table(self) -> tuple[str, Mapping[str, str]] | None:
        names = self._lake.tables()
        if not names:
            return None
        name = self._random.choice(names)
        return name, self._lake.table(name).schema

    def _rows(self, types: Mapping[str, str]) -> list[dict[str, Any]]:
        return random_rows(self._random, types, self._random.choice([1, 3, 20]))

    def append(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, rows = table[0], self._rows(table[1])
        return Command(f"append {name} {rows}", lambda lake: lake.table(name).append(rows))

    def append_evolved(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, column = table[0], self._random.choice(_ADDED)
        rows = [{**row, column: self._random.choice([1, 2])} for row in self._rows(table[1])]
        return Command(f"append evolved {name} {rows}", lambda lake: lake.table(name).append(rows, evolve=True))

    def overwrite(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, rows = table[0], self._rows(table[1])
        return Command(f"overwrite {name} {rows}", lambda lake: lake.table(name).overwrite(rows))

    def overwrite_part(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, rows = table[0], [{**row, "id": 5} for row in self._rows(table[1])]
        return Command(f"overwrite {name} {rows} id < 10", lambda lake: lake.table(name).overwrite(rows, "id < 10"))

    def overwrite_partitions(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, rows = table[0], self._rows(table[1])
        return Command(
            f"overwrite partitions {name} {rows}",
            lambda lake: lake.table(name).overwrite_partitions(rows, recurring=True),
        )

    def update(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, column = table[0], self._random.choice(sorted(table[1]))
        values, where = {column: _VALUES[str(table[1][column])](self._random)}, _where(self._random)
        return Command(f"update {name} {values} {where}", lambda lake: lake.table(name).update(values, where))

    def delete(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, where = table[0], _where(self._random)
        return Command(f"delete {name} {where}", lambda lake: lake.table(name).delete(where))

    def merge(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, rows = table[0], self._rows(table[1])
        return Command(f"merge {name} {rows}", lambda lake: lake.table(name).merge(rows, on="id"))

    def evolve(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, column = table[0], self._random.choice(sorted(table[1]))
        changes: dict[str, Any] = self._random.choice(
            [
                {"add": {self._random.choice(_ADDED): "INTEGER"}, "defaults": {}},
                {"add": {"c5": "VARCHAR"}, "defaults": {"c5": "it's"}},
                {"drop": [column]} if column != "id" else {"promote": {"c0": "BIGINT"}},
                {"rename": {column: column + "x"}} if column != "id" else {"add": {"day": "DATE"}},
            ]
        )
        return Command(f"evolve {name} {changes}", lambda lake: lake.table(name).evolve(**changes))

    def comment(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name = table[0]
        return Command(f"comment {name}", lambda lake: lake.table(name).set_comments("what's this", {"id": "an id"}))

    def create(self) -> Command | None:
        return self.create_named(self._random.choice(TABLES))

    def create_named(self, name: str) -> Command:
        """Creates a table with rows."""
        types = {"id": "BIGINT", "day": "DATE"}
        types |= {f"c{number}": self._random.choice(sorted(_VALUES)) for number in range(3)}
        keys = self._random.choice([[], [], [self._random.choice(_KEYS)]])
        strict = {**types, "id": types["id"] + self._random.choice(["", " NOT NULL"])}
        rows = self._rows(types)

        def run(lake: Lake) -> None:
            lake.create_table(name, strict, partitioned_by=keys, sorted_by=["id DESC"]).append(rows)

        return Command(f"create {name} {strict} by {keys} {rows}", run)

    def drop(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name = table[0]
        return Command(f"drop {name}", lambda lake: lake.drop_table(name))

    def rename(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        name, new = table[0], self._random.choice(TABLES)
        return Command(f"rename {name} to {new}", lambda lake: lake.rename_table(name, new))

    def create_view(self) -> Command | None:
        if (table := self._table()) is None:
            return None
        view = self._random.choice(VIEWS)
        query = f"SELECT id, count(*) AS n FROM {_quoted(table[0])} GROUP BY id"
        return Command(f"view {view} as {query}", lambda lake: lake.create_view(view, query))

    def drop_view(self) -> Command | None:
        view = self._random.choice(VIEWS)
        return Command(f"drop view {view}", lambda lake: lake.drop_view(view))

    def execute(self) -> Command | None:
        if (table := self._table()) is None or (other := self._table()) is None:
            return None
        target, source = _quoted(table[0]), _quoted(other[0])
        sql = self._random.choice(
            [
                f"INSERT INTO {target} (id) SELECT id + 1 FROM {source} WHERE id < 5",
                f"DELETE FROM {target} WHERE id IN (SELECT id + 1 FROM {source})",
                f"UPDATE {target} SET id = id + 1 WHERE id > 30",
                f"UPDATE {target} SET id = (SELECT max(id) FROM {source}) WHERE id < 3",
                f"DELETE FROM {target}",
                f"INSERT INTO {target} (id) SELECT n FROM raw.v",
            ]
        )
        return Command(sql, lambda lake: lake.execute(sql))

    def copy_query(self) -> Command | None:
        if (table := self._table()) is None or (other := self._table()) is None:
            return None
        name, query = table[0], f"SELECT id FROM {_quoted(other[0])} WHERE id < 20"
        return Command(
            f"merge {name} with {query}",
            lambda lake: lake.table(name).merge(lake.sql(f"SELECT DISTINCT * FROM ({query})"), on="id"),
        )

    def transaction(self) -> Command | None:
        parts = [self.change() for _ in range(self._random.choice([2, 3]))]
        fails = not self._random.randrange(5)

        def run(lake: Lake) -> None:
            with lake.transaction() as open_lake:
                for part in parts:
                    part.run(open_lake)
                if fails:
                    raise ZeroDivisionError

        return Command(f"transaction {[part.words for part in parts]}{' fails' * fails}", run)

    def compact(self) -> Command | None:
        return Command("compact", lambda lake: lake.maintenance.compact())

    def maintain(self) -> Command | None:
        def run(lake: Lake) -> None:
            lake.maintenance.compact()
            expire_all(lake)

        return Command("maintain", run, maintains=True)


_CHANGES: Sequence[Callable[[Commands], Command | None]] = (
    Commands.append,
    Commands.append_evolved,
    Commands.overwrite,
    Commands.overwrite_part,
    Commands.overwrite_partitions,
    Commands.update,
    Commands.delete,
    Commands.merge,
    Commands.evolve,
    Commands.comment,
    Commands.create,
    Commands.drop,
    Commands.rename,
    Commands.create_view,
    Commands.drop_view,
    Commands.execute,
    Commands.copy_query,
)
_MAKERS = (*_CHANGES, *_CHANGES[:9], Commands.transaction, Commands.transaction, Commands.compact, Commands.maintain)
