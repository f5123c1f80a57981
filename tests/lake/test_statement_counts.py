"""The number of statements that a write or a read sends to the catalog, and that remembering definitions hides nothing.

Each statement costs up to a millisecond, and a round trip if the catalog is on a server.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from strength import mixed

from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitConflictError, SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Store
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.lake.lake import Lake

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": ["a", "b"]})


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with a table that it has written to several times."""
    with store.open() as opened:
        table = opened.create_table("raw.t", {"id": "BIGINT", "n": "VARCHAR"})
        for _ in range(2):
            table.append(ROWS)
        table.delete("id = 99")
        yield opened


@pytest.fixture
def sent(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are sent from now on."""
    statements: list[str] = []

    def recorded(name: str) -> None:
        method: Callable[..., Any] = getattr(Connection, name)

        def record(self: Connection, sql: str, *arguments: Any) -> Any:
            statements.append(" ".join(sql.split()))
            return method(self, sql, *arguments)

        monkeypatch.setattr(Connection, name, record)

    for name in ("execute", "_read", "relation"):
        recorded(name)
    return statements


def transactions(sent: list[str]) -> int:
    """The number of read transactions on the metadata."""
    return sum(statement.startswith("DELETE FROM ducklake_metadata") for statement in sent)


OPERATIONS: dict[str, tuple[Callable[[Lake], object], int, int]] = {
    # What is done, the most statements, and the most read transactions on the metadata.
    "append": (lambda lake: lake.table("raw.t").append(ROWS), 29, 2),
    "delete": (lambda lake: lake.table("raw.t").delete("id = 1"), 37, 3),
    "create": (lambda lake: lake.create_table("raw.u", {"id": "BIGINT"}), 25, 2),
    "types": (lambda lake: lake.table("raw.t").schema, 7, 1),
    "scan": (lambda lake: lake.table("raw.t").scan(), 8, 1),
    "query": (lambda lake: lake.sql("SELECT count(*) FROM raw.t"), 13, 1),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_sends_few_statements(operation: str, lake: Lake, sent: list[str]) -> None:
    run, most, most_transactions = OPERATIONS[operation]
    run(lake)
    assert (len(sent), transactions(sent)) <= (most, most_transactions), sent
    assert transactions(sent) <= most_transactions, sent
    assert not any("DESCRIBE" in statement for statement in sent)


def test_write_reads_the_definition_again_while_it_holds_the_lock(lake: Lake, sent: list[str]) -> None:
    lake.table("raw.t").append(ROWS)
    begun = sent.index("FROM ducklake_current_snapshot(?)")
    read = [number for number, statement in enumerate(sent) if "FROM ducklake_column" in statement]
    assert read
    assert all(begun < number < sent.index("COMMIT") for number in read)


CHANGES = {
    "rename": "ALTER TABLE raw.t RENAME TO u",
    "drop": "DROP TABLE raw.t",
    "replace": "BEGIN; DROP TABLE raw.t; CREATE TABLE raw.t (id BIGINT, n VARCHAR); COMMIT",
    "add a column": "ALTER TABLE raw.t ADD COLUMN more VARCHAR",
    "rename a column": "ALTER TABLE raw.t RENAME n TO m",
    "another column of this name": "ALTER TABLE raw.t DROP n; ALTER TABLE raw.t ADD COLUMN n VARCHAR",
    "partition": "ALTER TABLE raw.t SET PARTITIONED BY (id)",
}


@pytest.mark.parametrize(("change", "writes_between"), mixed(CHANGES, [0, 1]))
def test_change_by_another_process_is_noticed_by_a_lake_that_remembers(
    change: str, writes_between: int, store: Store, lake: Lake
) -> None:
    table = lake.table("raw.t")
    before = table.scan().collect().shape
    with store.connect() as other:
        for _ in range(writes_between):
            other.execute("INSERT INTO raw.t VALUES (7, 'c')")
        other.execute(CHANGES[change])
    with pytest.raises(CommitConflictError):
        table.append(ROWS)
    assert table.scan().collect().shape == before  # still the snapshot of this lake
    lake.refresh()
    if change in ("rename", "drop"):
        with pytest.raises(TableNotFoundError):
            table.append(ROWS)
    else:
        with store.open() as fresh:
            assert table.schema == fresh.table("raw.t").schema


def test_expired_snapshot_is_noticed_by_a_lake_that_remembers(store: Store, lake: Lake) -> None:
    table = lake.table("raw.t")
    assert table.schema
    with store.open() as other:
        other.table("raw.t").append(ROWS)
        other.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
    for use in (lambda: table.append(ROWS), lambda: table.schema, lambda: table.scan().collect()):
        with pytest.raises(SnapshotNotFoundError, match="has expired"):
            use()
    lake.refresh()
    table.append(ROWS)


def test_definition_of_an_earlier_version_is_not_taken_for_the_current_one(lake: Lake) -> None:
    table, earlier = lake.table("raw.t"), lake.snapshot_id
    table.evolve(add={"more": "VARCHAR"})
    for _ in range(2):
        assert list(lake.at(version=earlier).table("raw.t").schema) == ["id", "n"]
        assert list(table.schema) == ["id", "n", "more"]


def test_writes_of_a_transaction_see_its_own_definitions(lake: Lake) -> None:
    more = ROWS.append_column("more", pa.array(["x", "y"]))
    with lake.transaction() as tx:
        tx.table("raw.t").append(ROWS)
        tx.table("raw.t").evolve(add={"more": "VARCHAR"})
        tx.table("raw.t").append(more)
        assert list(tx.table("raw.t").schema) == ["id", "n", "more"]
        tx.create_table("raw.new", {"id": "BIGINT", "n": "VARCHAR"})
        tx.table("raw.new").append(ROWS)
    assert lake.table("raw.t").scan().collect().shape == (8, 3)


def test_failed_read_does_not_harm_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: CatalogReader = lake._scope.session.reader
    with pytest.raises(duckdb.Error), reader.transaction() as transaction:
        transaction.cursor.native.execute("SELECT error('it fails')")
    with pytest.raises(KeyboardInterrupt), reader.transaction():
        raise KeyboardInterrupt
    lake.table("raw.t").append(ROWS)


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_forked_process_and_its_parent_read_and_write(lake: Lake) -> None:
    table = lake.table("raw.t")
    child = os.fork()
    if not child:
        status = 1
        try:
            table.append(ROWS)
            status = 0 if table.scan().collect().shape == (6, 2) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    lake.refresh()
    table.append(ROWS)
    assert table.scan().collect().shape == (8, 2)
