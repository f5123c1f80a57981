"""A write conflicts if another writer changed its columns or rows, or both commit; catalog damage is detected."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commit_hooks import at_commit
from lake_fixtures import lake_with
from lake_parts import session_of
from local_stores import ids, on_postgres, store_of
from plain_sql import run_plain

from lakeconf.errors import CatalogError, CommitConflictError, CommitError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import FaultProxy, PostgresServer

    from lakeconf import Lake, Store


ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "price": pa.array([10, 20], pa.int64())})


lake = lake_with("t", ROWS)


WRITES: dict[str, Any] = {
    "append": lambda table: table.append(ROWS),
    "keyed append": lambda table: table.append(ROWS, idempotency_key="k"),
    "overwrite": lambda table: table.overwrite(ROWS),
    "overwrite where": lambda table: table.overwrite(ROWS, "id < 9"),
    "delete": lambda table: table.delete("price = 10"),
    "update": lambda table: table.update({"price": 3}, "id = 1"),
    "computed update": lambda table: table.update({"price": nw.col("price") + 1}, "id = 1"),
    "merge": lambda table: table.merge(ROWS, on="id"),
}
CHANGES = {
    "another column in its place": ("DROP COLUMN price", "ADD COLUMN discount BIGINT"),
    "two columns that swap names": (
        "RENAME COLUMN id TO other",
        "RENAME COLUMN price TO id",
        "RENAME COLUMN other TO price",
    ),
    "a column dropped and added again": ("DROP COLUMN price", "ADD COLUMN price BIGINT"),
    "a column more": ("ADD COLUMN discount BIGINT DEFAULT 7",),
    "a wider type": ("ALTER COLUMN price SET DATA TYPE DECIMAL(38, 0)",),
}


@pytest.mark.slow
@pytest.mark.prove(*(f"on_spark-{change}" for change in CHANGES if change != "a column dropped and added again"))
@pytest.mark.parametrize("change", CHANGES)
def test_write_conflicts_with_column_changes_of_another_writer(
    lake: Lake, store: Store, tmp_path: Path, change: str
) -> None:
    with store.open() as other:
        run_plain(other, *(f"ALTER TABLE t {statement}" for statement in CHANGES[change]))
        before = other.refresh()
        held = set(tmp_path.rglob("*.parquet"))
        execute = lambda _: lake.execute("UPDATE t SET id = 3 WHERE id % 2 = 1")  # noqa: E731
        for name, write in [*WRITES.items(), ("execute", execute)]:
            with pytest.raises(CommitConflictError, match=r"main\.t"):
                write(lake.table("t"))
            assert (name, other.refresh(), set(tmp_path.rglob("*.parquet"))) == (name, before, held)


@pytest.mark.slow("on_spark")
def test_append_conflicts_with_a_table_that_was_dropped_or_recreated(lake: Lake, store: Store) -> None:
    with store.open() as other:
        run_plain(other, "DROP TABLE t")
        with pytest.raises(CommitConflictError, match=r"main\.t"):
            lake.table("t").append(ROWS)
        run_plain(other, "CREATE TABLE t (id BIGINT, price BIGINT)")
        before = other.refresh()
        with pytest.raises(CommitConflictError, match=r"main\.t"):
            lake.table("t").append(ROWS)
        assert other.refresh() == before
    lake.refresh()
    lake.table("t").append(ROWS)
    assert lake.table("t").scan().collect("pyarrow").rows() == [(1, 10), (2, 20)]


@pytest.mark.slow("on_spark")
def test_append_conflicts_with_columns_changed_after_staging(lake: Lake, store: Store) -> None:
    def write() -> None:
        with store.open() as other, lake.transaction() as tx:
            tx.table("t").append(ROWS)
            run_plain(other, "ALTER TABLE t DROP COLUMN price")
            run_plain(other, "ALTER TABLE t ADD COLUMN discount BIGINT")

    with pytest.raises(CommitConflictError, match=r"main\.t"):
        write()
    assert lake.sql("SELECT DISTINCT discount FROM t").collect("pyarrow").rows() == [(None,)]


@pytest.mark.slow("on_spark")
def test_append_uses_columns_changed_in_the_same_transaction(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").append(ROWS)
        tx.table("t").evolve(rename={"price": "cost"}, add={"note": "VARCHAR"})
        more = {"note": ["x"], "cost": pa.array([30], pa.int64()), "id": pa.array([3], pa.int64())}
        tx.table("t").append(pa.table(more))
    found = lake.sql("SELECT id, cost, note FROM t ORDER BY ALL").collect("pyarrow").rows()
    assert found == [(1, 10, None), (1, 10, None), (2, 20, None), (2, 20, None), (3, 30, "x")]


HUNDRED = pa.table({"id": pa.array(range(100), pa.int64())})


def doubled(tmp_path: Path, server: PostgresServer) -> Any:
    """A store whose table `t` has a data file with two delete files."""
    store = store_of(tmp_path, on_postgres(server, server.create_database(), server.port))
    with store.open() as lake:
        lake.create_table("t", like=HUNDRED).append(HUNDRED)
        lake.table("t").append(pa.table({"id": [100, 101]}))
    with store.connect() as one, one.cursor() as other:
        one.execute("CALL ducklake_set_option('dev', 'data_inlining_row_limit', 0)")
        one.execute("DELETE FROM dev.t WHERE id = 1")
        for connection, row in ((one, 2), (other, 3)):
            connection.execute("BEGIN")
            connection.execute(f"DELETE FROM dev.t WHERE id = {row}")
        one.execute("COMMIT")
        other.execute("COMMIT")
        assert len(one.execute("SELECT id FROM dev.t").fetchall()) == 198
    return store


@pytest.mark.slow
def test_table_with_duplicate_delete_files_is_rejected_and_can_be_rebuilt(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    store = doubled(tmp_path, postgres_server)
    with store.open() as lake:
        before = lake.snapshot_id
        for write in (
            lambda: lake.table("t").delete("id = 50"),
            lambda: lake.table("t").overwrite(HUNDRED),
            lambda: lake.table("t").update({"id": 500}, where="id = 51"),
        ):
            with pytest.raises(CatalogError, match=r"two delete files.*nothing was written") as caught:
                write()
        assert lake.refresh() == before
    repair = re.search(r"CREATE TABLE .*;", str(caught.value.hint), re.DOTALL)
    assert repair is not None
    with store.connect() as connection:
        connection.execute(repair[0])
        connection.execute("DROP TABLE dev.t; ALTER TABLE dev.t_rebuilt RENAME TO t")
    with store.open() as lake:
        assert ids(lake) == [0, *range(4, 102)]
        lake.table("t").delete("id = 50")
        assert ids(lake) == [0, *range(4, 50), *range(51, 102)]


# The second is that of a merge on Spark, which reads the file.
TWICE = r"twice.parquet is registered more than once.*nothing was written|the catalog lists a file of the table twice"


@pytest.mark.slow("on_spark")
@pytest.mark.usefixtures("searching")
def test_file_that_is_registered_twice_loses_no_rows(tmp_path: Path, engine: Any) -> None:
    """DuckLake's own DELETE of all rows leaves some of them."""
    path = tmp_path / "twice.parquet"
    pq.write_table(HUNDRED, path)
    with store_of(tmp_path).open(engine) as lake:
        table = lake.create_table("t", like=HUNDRED)
        with session_of(lake).writer.cursor() as cursor:
            for _ in range(2):
                cursor.execute(f"CALL ducklake_add_data_files('dev', 't', '{path}')")
        before = lake.refresh()
        for write in (
            lambda: table.delete("id = 50"),
            lambda: table.overwrite(HUNDRED),
            lambda: table.update({"id": 500}, where="id = 51"),
            lambda: table.merge(pa.table({"id": [99]}), on="id"),
        ):
            with pytest.raises((CatalogError, UnsupportedError), match=TWICE):
                write()
        assert lake.refresh() == before
        table.append(pa.table({"id": [100]}))
        found = lake.sql("SELECT id FROM t").collect("pyarrow").rows()
        assert sorted(found) == sorted((number,) for number in [*range(100), *range(101)])


@pytest.mark.slow
@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("kept", [True, False])
def test_delete_file_removed_by_ducklake_is_restored_or_reported(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    kept: bool,
) -> None:
    if not kept:
        monkeypatch.setattr("lakeconf.commit.lost_reply._MOST_FILES", 0)
    database = postgres_server.create_database()
    store = store_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    with store.open(request.getfixturevalue("spark") if kept else None) as lake:
        table = lake.create_table("t", like=HUNDRED)
        table.append(HUNDRED)
        table.delete("id = 1")
        at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
        if kept:
            assert table.delete("id = 2") == 4
            assert len(ids(lake)) == len(HUNDRED) - 2
        else:
            with pytest.raises(CommitError, match=r"snapshot 4 was committed.*removed .*-delete\.parquet"):
                table.delete("id = 2")
        assert postgres_proxy.fired == 1


Rows = list[tuple[Any, ...]]
START: Rows = [(1, 1), (2, 2), (3, 3), (4, 4)]


class TwinWrite(NamedTuple):
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


UPDATE = TwinWrite(
    lambda lake, name: lake.table(name).update({"price": 30}, "id = 3"),
    (),
    lambda rows: [(key, 30 if key == 3 else price) for key, price in rows],
)
COMPUTED = TwinWrite(
    lambda lake, name: lake.table(name).update({"price": nw.col("price") * 10}, "id <= 3"),
    (),
    lambda rows: [(key, 10 * price if key <= 3 else price) for key, price in rows],
)
OURS = {
    "update": UPDATE,
    "update after a read": UPDATE,
    "computed update": COMPUTED,
    "computed update after a read": COMPUTED,
    "evolve": TwinWrite(add_column, (), lambda rows: [(key, Decimal(price), None) for key, price in rows]),
}
OTHERS = {
    "append": TwinWrite(
        lambda lake, name: lake.table(name).append(frame(5, 6)),
        ("INSERT INTO {} VALUES (5, 5), (6, 6)",),
        lambda rows: [*rows, (5, 5), (6, 6)],
    ),
    "overwrite": TwinWrite(
        lambda lake, name: lake.table(name).overwrite(frame(3, 8)),
        ("BEGIN", "DELETE FROM {}", "INSERT INTO {} VALUES (3, 3), (8, 8)", "COMMIT"),
        lambda _: [(3, 3), (8, 8)],
    ),
    "delete": TwinWrite(
        lambda lake, name: lake.table(name).delete("id = 1"),
        ("DELETE FROM {} WHERE id = 1",),
        lambda rows: [row for row in rows if row[0] != 1],
    ),
    "update": TwinWrite(
        lambda lake, name: lake.table(name).update({"price": 7}, "id = 3"),
        ("UPDATE {} SET price = 7 WHERE id = 3",),
        lambda rows: [(key, 7 if key == 3 else price) for key, price in rows],
    ),
    "evolve": TwinWrite(
        lambda lake, name: lake.table(name).evolve(rename={"id": "key"}),
        ("ALTER TABLE {} RENAME COLUMN id TO key",),
        lambda rows: rows,
    ),
    "compact": TwinWrite(
        lambda lake, _: lake.maintenance.compact(),
        ("CALL ducklake_merge_adjacent_files('dev', '{}')",),
        lambda rows: rows,
    ),
}
_ROWS = {"append", "overwrite", "delete", "update"}
# For each write, the earlier writes since the lake's snapshot it conflicts with. With any other write, both commit.
REFUSED = {
    "update": {"evolve"},
    "update after a read": {*_ROWS, "evolve"},
    "computed update": {"evolve"},
    "computed update after a read": {*_ROWS, "evolve"},
    "evolve": {"evolve"},
}
# The same for writes after it has begun. DuckLake's own merge can give other ids to the rows.
REFUSED_IN_PLAIN_SQL = REFUSED | {
    ours: {*_ROWS, "evolve", "compact"}
    for ours in ("update after a read", "computed update", "computed update after a read")
}


@pytest.fixture
def matrix(tmp_path: Path) -> Store:
    """A store with one table of two files for each kind of concurrent write."""
    matrix = store_of(tmp_path, {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")})
    with matrix.open() as lake:
        for ids in ((1, 2), (3, 4)):
            with lake.transaction() as tx:
                for other in OTHERS:
                    if ids == (1, 2):
                        tx.create_table(f"t_{other}", frame())
                    tx.table(f"t_{other}").append(frame(*ids))
    return matrix


def write(lake: Lake, ours: str, other: str, refused: set[str], interfere: Callable[[], object]) -> Rows:
    """Writes after `interfere` has run; returns the rows that the table must contain."""
    name = f"t_{other}"
    if ours.endswith("after a read"):
        assert read(lake, name) == START
    left = OTHERS[other].leaves(START)
    interfere()
    if other in refused:
        with pytest.raises(CommitConflictError, match=rf"(?s)main\.{name} .*refresh"):
            OURS[ours].run(lake, name)
        return left
    OURS[ours].run(lake, name)
    return sorted(OURS[ours].leaves(left))


@pytest.mark.slow
@pytest.mark.parametrize("ours", OURS)
def test_lakeconf_write_between_read_and_commit(matrix: Store, ours: str) -> None:
    with matrix.open() as lake, matrix.open() as rival:
        for other in OTHERS:
            lake.refresh()
            left = write(lake, ours, other, REFUSED[ours], partial(OTHERS[other].run, rival, f"t_{other}"))
            rival.refresh()
            assert read(rival, f"t_{other}") == left, other


@pytest.mark.slow
@pytest.mark.parametrize("ours", OURS)
def test_plain_sql_write_between_conflict_check_and_commit(
    matrix: Store, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with matrix.open() as lake, matrix.open() as reader, matrix.connect() as foreign:
        for other in OTHERS:

            def interfere(other: str = other) -> None:
                for statement in OTHERS[other].plain:
                    foreign.execute(statement.format(f"dev.t_{other}" if other != "compact" else "t_compact"))

            lake.refresh()
            with monkeypatch.context() as patch:
                left = write(lake, ours, other, REFUSED_IN_PLAIN_SQL[ours], partial(at_commit, patch, before=interfere))
            reader.refresh()
            assert read(reader, f"t_{other}") == left, other


def test_a_read_counts_at_the_snapshot_that_it_saw(lake: Lake, store: Store) -> None:
    """A commit of the lake itself moves later reads past the commits of other writers."""
    with store.open() as other:
        other.table("t").append(ROWS)
        lake.table("t").append(ROWS)
        assert lake.table("t").count() == 6
        seen = lake.snapshot_id
        lake.table("t").update({"price": nw.col("price") + 1}, "id > 0")
        other.table("t").delete("id = 1")
        with pytest.raises(CommitConflictError, match=f"was read at snapshot {seen}, and snapshot {seen + 2} of"):
            lake.table("t").update({"price": nw.col("price") + 1}, "id > 0")
        lake.refresh()
        with lake.transaction() as tx:
            tx.table("t").update({"price": nw.col("price") + 1}, "id > 0")
    assert sorted(lake.table("t").to_arrow()["price"].to_pylist()) == [22, 22, 22]
