"""Updates and schema changes concurrent with each kind of write: both commit, or the later one conflicts."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa
import pytest
from commit_hooks import at_commit
from local_stores import store_of

from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake, Store

Rows = list[tuple[Any, ...]]
START: Rows = [(1, 1), (2, 2), (3, 3), (4, 4)]


class Write(NamedTuple):
    """A write with lakeconf, the same write in plain SQL, and its effect on the rows."""

    run: Callable[[Lake, str], object]
    plain: tuple[str, ...]
    leaves: Callable[[Rows], Rows]


def frame(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "price": pa.array(ids, pa.int64())})


def read(lake: Lake, name: str) -> Rows:
    return sorted(lake.sql(f"SELECT * FROM {name}").collect("pyarrow").rows())


def add_column(lake: Lake, name: str) -> None:
    lake.table(name).evolve(add={"note": "VARCHAR"}, promote={"price": "DECIMAL(38, 0)"})


UPDATE = Write(
    lambda lake, name: lake.table(name).update({"price": 30}, "id = 3"),
    (),
    lambda rows: [(key, 30 if key == 3 else price) for key, price in rows],
)
OURS = {
    "update": UPDATE,
    "update after a read": UPDATE,
    "computed update": Write(
        lambda lake, name: lake.table(name).update({"price": nw.col("price") * 10}, "id <= 3"),
        (),
        lambda rows: [(key, 10 * price if key <= 3 else price) for key, price in rows],
    ),
    "evolve": Write(add_column, (), lambda rows: [(key, Decimal(price), None) for key, price in rows]),
}
OTHERS = {
    "append": Write(
        lambda lake, name: lake.table(name).append(frame(5, 6)),
        ("INSERT INTO {} VALUES (5, 5), (6, 6)",),
        lambda rows: [*rows, (5, 5), (6, 6)],
    ),
    "overwrite": Write(
        lambda lake, name: lake.table(name).overwrite(frame(3, 8)),
        ("BEGIN", "DELETE FROM {}", "INSERT INTO {} VALUES (3, 3), (8, 8)", "COMMIT"),
        lambda _: [(3, 3), (8, 8)],
    ),
    "delete": Write(
        lambda lake, name: lake.table(name).delete("id = 1"),
        ("DELETE FROM {} WHERE id = 1",),
        lambda rows: [row for row in rows if row[0] != 1],
    ),
    "update": Write(
        lambda lake, name: lake.table(name).update({"price": 7}, "id = 3"),
        ("UPDATE {} SET price = 7 WHERE id = 3",),
        lambda rows: [(key, 7 if key == 3 else price) for key, price in rows],
    ),
    "evolve": Write(
        lambda lake, name: lake.table(name).evolve(rename={"id": "key"}),
        ("ALTER TABLE {} RENAME COLUMN id TO key",),
        lambda rows: rows,
    ),
    "compact": Write(
        lambda lake, _: lake.maintenance.compact(),
        ("CALL ducklake_merge_adjacent_files('dev', '{}')",),
        lambda rows: rows,
    ),
}
_ROWS = {"append", "overwrite", "delete", "update"}
# For each write, the concurrent writes it conflicts with. With any other concurrent write, both commit.
REFUSED = {
    "update": {"evolve"},
    "update after a read": {*_ROWS, "evolve"},
    "computed update": {*_ROWS, "evolve"},
    "evolve": {"evolve"},
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one table of two files for each kind of concurrent write."""
    store = store_of(tmp_path, {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")})
    with store.open() as lake:
        for ids in ((1, 2), (3, 4)):
            with lake.transaction() as tx:
                for other in OTHERS:
                    if ids == (1, 2):
                        tx.create_table(f"t_{other}", frame())
                    tx.table(f"t_{other}").append(frame(*ids))
    return store


def write(lake: Lake, ours: str, other: str, interfere: Callable[[], object]) -> Rows:
    """Writes after `interfere` has run; returns the rows that the table must contain."""
    name = f"t_{other}"
    if ours == "update after a read":
        assert read(lake, name) == START
    left = OTHERS[other].leaves(START)
    interfere()
    if other in REFUSED[ours]:
        with pytest.raises(CommitConflictError, match=rf"(?s)main\.{name} .*refresh"):
            OURS[ours].run(lake, name)
        return left
    OURS[ours].run(lake, name)
    return sorted(OURS[ours].leaves(left))


@pytest.mark.parametrize("ours", OURS)
def test_lakeconf_write_between_read_and_commit(store: Store, ours: str) -> None:
    with store.open() as lake, store.open() as rival:
        for other in OTHERS:
            lake.refresh()
            left = write(lake, ours, other, partial(OTHERS[other].run, rival, f"t_{other}"))
            rival.refresh()
            assert read(rival, f"t_{other}") == left, other


@pytest.mark.parametrize("ours", OURS)
def test_plain_sql_write_between_conflict_check_and_commit(
    store: Store, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open() as lake, store.open() as reader, store.connect() as foreign:
        for other in OTHERS:

            def interfere(other: str = other) -> None:
                for statement in OTHERS[other].plain:
                    foreign.execute(statement.format(f"dev.t_{other}" if other != "compact" else "t_compact"))

            lake.refresh()
            with monkeypatch.context() as patch:
                if other == "compact" and REFUSED[ours] & _ROWS:
                    # DuckLake itself may give rows other ids.
                    patch.setitem(REFUSED, ours, {*REFUSED[ours], "compact"})
                left = write(lake, ours, other, partial(at_commit, patch, before=interfere))
            reader.refresh()
            assert read(reader, f"t_{other}") == left, other
