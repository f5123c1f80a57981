"""What each method of a table passes on; the statements that it sends to the catalog, and what it remembers."""

from __future__ import annotations

import datetime as dt
import os
import sys
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import scope_of

from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitConflictError, SchemaError, SnapshotNotFoundError, TableNotFoundError
from lakeconf.write.operations.merge.clauses import Delete, Insert, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf import Lake, Store, Table
    from lakeconf.catalog.reader import CatalogReader

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int64())})
MORE = pa.table({"id": pa.array([2, 3], pa.int64()), "n": pa.array([21, 31], pa.int64())})
WIDER = MORE.append_column("note", pa.array(["x", "y"]))


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with two rows in the table `t`, at snapshot 2."""
    with store.open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.table("t")


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(lake.table("t").scan().collect("pyarrow").rows(), key=repr)


def test_schema_is_that_of_the_snapshot_or_of_the_transaction(lake: Lake, table: Table) -> None:
    assert table.schema == {"id": "BIGINT", "n": "BIGINT"}
    with lake.transaction() as tx:
        tx.table("t").evolve(add={"note": "VARCHAR"})
        assert tx.table("T").schema == {"id": "BIGINT", "n": "BIGINT", "note": "VARCHAR"}
        assert table.schema == {"id": "BIGINT", "n": "BIGINT"}
    table.schema.clear()
    assert list(table.schema) == ["id", "n", "note"]
    with pytest.raises(TableNotFoundError, match="no table"):
        _ = lake.at(version=0).table("t").schema


def test_files_and_history_end_at_the_snapshot_of_the_lake(lake: Lake, table: Table) -> None:
    table.delete("id = 1")
    assert [file.deleted_rows for file in table.files()] == [1]
    assert [change.snapshot_id for change in table.history()] == [1, 2, 3]
    past = lake.at(version=2).table("t")
    assert [file.deleted_rows for file in past.files()] == [0]
    assert [change.snapshot_id for change in past.history()] == [1, 2]
    for found in (lake.at(version=0).table("t").files, lake.at(version=0).table("t").history):
        with pytest.raises(TableNotFoundError):
            found()


def merge_twice(lake: Lake) -> None:
    lake.table("t").merge(ROWS, on="id", matched=[Delete(when=nw.col("source_id") == 1), Update()])


def update_the_rest(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").delete("id = 1")
        tx.table("t").update({"n": 5}, where="id > 0")


def delete_the_rest(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").delete("id = 1")
        tx.table("t").delete("id > 0")


UPDATED = ["delete", "update_postimage", "update_preimage"]


def test_row_that_is_deleted_before_the_rest_of_its_file_is_one_change(lake: Lake, table: Table) -> None:
    for write, kinds in (
        (merge_twice, UPDATED), (update_the_rest, UPDATED), (delete_the_rest, ["delete", "delete"]),
    ):  # fmt: skip
        table.overwrite(ROWS)
        write(lake)
        found = table.changes(lake.snapshot_id).collect("pyarrow")
        assert sorted(found["change_type"].to_list()) == kinds
        assert len(set(found["rowid"].to_list())) == 2


WRITES: dict[str, tuple[Callable[[Table, str | None], int], list[tuple[int, int]]]] = {
    "append": (lambda t, key: t.append(MORE, idempotency_key=key), [(1, 10), (2, 20), (2, 21), (3, 31)]),
    "overwrite": (lambda t, key: t.overwrite(MORE, idempotency_key=key), [(2, 21), (3, 31)]),
    "overwrite where": (lambda t, key: t.overwrite(MORE, "id > 1", idempotency_key=key), [(1, 10), (2, 21), (3, 31)]),
    "delete": (lambda t, key: t.delete("id = 1", idempotency_key=key), [(2, 20)]),
    "update": (lambda t, key: t.update({"n": 7}, "id = 1", idempotency_key=key), [(1, 7), (2, 20)]),
    "merge": (lambda t, key: t.merge(MORE, "id", idempotency_key=key), [(1, 10), (2, 21), (3, 31)]),
    "merge with several actions": (
        lambda t, key: t.merge(
            MORE,
            ["id"],
            matched=[Update({"n": 9}, when=nw.col("source_n") == 21), Delete()],
            not_matched=None,
            not_matched_by_source=Delete(),
            idempotency_key=key,
        ),
        [(2, 9)],
    ),
    "merge with one action": (
        lambda t, key: t.merge(MORE, ("id",), matched=Delete(), not_matched=Insert(), idempotency_key=key),
        [(1, 10), (3, 31)],
    ),
    "merge without actions": (
        lambda t, key: t.merge(MORE, "id", matched=None, idempotency_key=key),
        [(1, 10), (2, 20), (3, 31)],
    ),
}


@pytest.mark.slow
def test_write_returns_its_snapshot_and_its_key_is_used_once(lake: Lake, table: Table) -> None:
    for name, (write, expected) in WRITES.items():
        table.overwrite(ROWS)
        before = lake.snapshot_id
        snapshot_id = write(table, name)
        assert snapshot_id == lake.snapshot_id > before
        assert rows(lake) == expected, name
        table.overwrite(ROWS)
        assert write(table, name) == snapshot_id
        assert rows(lake) == [(1, 10), (2, 20)]
        assert write(table, None) == lake.snapshot_id
        assert rows(lake) == expected, name


def test_write_adds_columns_only_if_it_says_so(table: Table) -> None:
    writes: list[Callable[..., int]] = [
        lambda **evolve: table.append(WIDER, **evolve),
        lambda **evolve: table.overwrite(WIDER, **evolve),
        lambda **evolve: table.merge(WIDER, "id", **evolve),
    ]
    for write in writes:
        for given in ({}, {"evolve": False}):
            with pytest.raises(SchemaError, match="note"):
                write(**given)
        write(evolve=True)
        assert list(table.schema) == ["id", "n", "note"]
        table.evolve(drop=["note"])


def test_keys_of_a_table_begin_with_a_prefix(lake: Lake, table: Table) -> None:
    for key in ("b-1", "a-2", "a-1"):
        table.append(MORE, idempotency_key=key)
    lake.create_table("u", ROWS).append(ROWS, idempotency_key="of u")
    assert table.idempotency_keys() == ["a-1", "a-2", "b-1"]
    assert table.idempotency_keys("a") == ["a-1", "a-2"]


def test_comments_are_set_and_removed(lake: Lake, table: Table) -> None:
    before = lake.snapshot_id
    assert (table.comment, table.column_comments) == (None, {})
    assert table.set_comments() == before
    assert table.set_comments("it's", {"N": "a number"}) == before + 1
    assert (table.comment, table.column_comments) == ("it's", {"n": "a number"})
    table.set_comments(columns={"n": None, "id": "a key"})
    assert (table.comment, table.column_comments) == ("it's", {"id": "a key"})
    with pytest.raises(SchemaError, match="a comment describes an unknown column: 'm'"):
        table.set_comments(columns={"m": "x"})
    with pytest.raises(SchemaError, match=r"a comment of main\.t contains \{AUTHOR\}"):
        table.set_comments("{AUTHOR}")
    table.set_comments("")
    assert table.comment is None
    with lake.transaction() as tx:
        tx.create_table("new", ROWS).set_comments("made here")
    assert lake.table("new").comment == "made here"


def test_dictionaries_are_rows(lake: Lake, table: Table) -> None:
    table.append([{"n": 30, "ID": 3}, {"id": 4}])
    table.merge([{"id": 4, "n": 40}], on="id")
    table.overwrite([{"id": 1, "n": 11}], where="id = 1")
    assert rows(lake) == [(1, 11), (2, 20), (3, 30), (4, 40)]
    before = lake.snapshot_id
    assert table.append([]) == before
    table.append(({"id": 5, "n": None, "note": "x"},), evolve=True)
    assert table.head(100)[-1].keys() == {"id", "n", "note"}
    made = lake.create_table("made", [{"a": 1, "b": [{"c": "x"}]}])
    assert made.schema == {"a": "BIGINT", "b": "STRUCT(c VARCHAR)[]"}
    with pytest.raises(SchemaError, match="a list without rows has no columns"):
        lake.create_table("empty", [])


def test_dictionaries_take_the_types_of_the_table(lake: Lake) -> None:
    narrow = lake.create_table(
        "narrow", {"i": "TINYINT NOT NULL", "f": "FLOAT", "d": "DECIMAL(5, 2)", "l": "SMALLINT[]"}
    )
    narrow.append([{"i": 127, "f": 0.1, "d": 1, "l": [1, None]}, {"i": -1}])
    assert narrow.to_arrow(["i", "d", "l"]).to_pylist() == [
        {"i": 127, "d": Decimal(1), "l": [1, None]},
        {"i": -1, "d": None, "l": None},
    ]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"i": 128}, "the values of the column 'i' do not have one type that fits"),
        ({"i": 1, "d": 1.5}, "'d' is DOUBLE"),
        ({"i": None}, "NOT NULL"),
        ({"i": 1, "unknown": 1}, "has a column 'unknown'"),
    ]
    for row, message in refused:
        with pytest.raises(SchemaError, match=message):
            narrow.append([{"f": None, "d": None, "l": None} | row])


@pytest.mark.slow
def test_overwrite_replaces_the_partitions_of_the_frame(lake: Lake) -> None:
    def frame(*rows: tuple[int, str | None, int]) -> pa.Table:
        years, kinds, numbers = zip(*rows, strict=True)
        return pa.table({"day": [dt.date(year, 1, 1) for year in years], "kind": kinds, "n": numbers}, columns)

    columns = pa.schema({"day": pa.date32(), "kind": pa.string(), "n": pa.int64()})
    for keys in (["year(day)", "kind"], ["year(day)", "month(day)", "kind"], ["day", "bucket(4, kind)"], ["kind"]):
        table = lake.create_table(f"by{len(lake.tables())}", frame((2025, "a", 1)), partitioned_by=keys)
        table.append(frame((2025, "a", 1), (2026, "a", 2), (2026, None, 3), (2026, "b", 4)))
        table.overwrite_partitions(frame((2026, None, 9)))
        assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2, 4, 9]
        made = table.overwrite_partitions(frame((2026, "a", 8)), idempotency_key=f"{keys}")
        assert table.overwrite_partitions(frame((2026, "a", 8)), idempotency_key=f"{keys}") == made
        assert sorted(table.to_arrow()["n"].to_pylist()) == ([4, 8, 9] if keys == ["kind"] else [1, 4, 8, 9])


PAIR = pa.table({"id": pa.array([1, 2], pa.int64()), "n": ["a", "b"]})


@pytest.fixture
def known(store: Store) -> Iterator[Lake]:
    """A lake with a table that it has written to several times."""
    with store.open() as opened:
        table = opened.create_table("raw.t", {"id": "BIGINT", "n": "VARCHAR"})
        for _ in range(2):
            table.append(PAIR)
        table.delete("id = 99")
        yield opened


@pytest.fixture
def sent(known: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
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
    "append": (lambda known: known.table("raw.t").append(PAIR), 29, 2),
    "delete": (lambda known: known.table("raw.t").delete("id = 1"), 37, 3),
    "create": (lambda known: known.create_table("raw.u", {"id": "BIGINT"}), 25, 2),
    "types": (lambda known: known.table("raw.t").schema, 7, 1),
    "scan": (lambda known: known.table("raw.t").scan(), 8, 1),
    "query": (lambda known: known.sql("SELECT count(*) FROM raw.t"), 13, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_sends_few_statements(operation: str, known: Lake, sent: list[str]) -> None:
    run, most, most_transactions = OPERATIONS[operation]
    run(known)
    assert (len(sent), transactions(sent)) <= (most, most_transactions), sent
    assert transactions(sent) <= most_transactions, sent
    assert not any("DESCRIBE" in statement for statement in sent)


def test_write_reads_the_definition_again_while_it_holds_the_lock(known: Lake, sent: list[str]) -> None:
    known.table("raw.t").append(PAIR)
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


@pytest.mark.slow
@pytest.mark.parametrize("writes_between", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
def test_change_by_another_process_is_noticed_by_a_lake_that_remembers(
    change: str, writes_between: int, store: Store, known: Lake
) -> None:
    table = known.table("raw.t")
    before = table.scan().collect().shape
    with store.connect() as other:
        for _ in range(writes_between):
            other.execute("INSERT INTO raw.t VALUES (7, 'c')")
        other.execute(CHANGES[change])
    with pytest.raises(CommitConflictError):
        table.append(PAIR)
    assert table.scan().collect().shape == before  # still the snapshot of this lake
    known.refresh()
    if change in ("rename", "drop"):
        with pytest.raises(TableNotFoundError):
            table.append(PAIR)
    else:
        with store.open() as fresh:
            assert table.schema == fresh.table("raw.t").schema


def test_expired_snapshot_is_noticed_by_a_lake_that_remembers(store: Store, known: Lake) -> None:
    table = known.table("raw.t")
    assert table.schema
    with store.open() as other:
        other.table("raw.t").append(PAIR)
        other.maintenance.expire_snapshots(older_than=timedelta(0), keep=1, force=True)
    for use in (lambda: table.append(PAIR), lambda: table.schema, lambda: table.scan().collect()):
        with pytest.raises(SnapshotNotFoundError, match="has expired"):
            use()
    known.refresh()
    table.append(PAIR)


def test_definition_of_an_earlier_version_is_not_taken_for_the_current_one(known: Lake) -> None:
    table, earlier = known.table("raw.t"), known.snapshot_id
    table.evolve(add={"more": "VARCHAR"})
    for _ in range(2):
        assert list(known.at(version=earlier).table("raw.t").schema) == ["id", "n"]
        assert list(table.schema) == ["id", "n", "more"]


def test_writes_of_a_transaction_see_its_own_definitions(known: Lake) -> None:
    more = PAIR.append_column("more", pa.array(["x", "y"]))
    with known.transaction() as tx:
        tx.table("raw.t").append(PAIR)
        tx.table("raw.t").evolve(add={"more": "VARCHAR"})
        tx.table("raw.t").append(more)
        assert list(tx.table("raw.t").schema) == ["id", "n", "more"]
        tx.create_table("raw.new", {"id": "BIGINT", "n": "VARCHAR"})
        tx.table("raw.new").append(PAIR)
    assert known.table("raw.t").scan().collect().shape == (8, 3)


def test_failed_read_does_not_harm_the_next(known: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: CatalogReader = scope_of(known).session.reader
    with pytest.raises(duckdb.Error), reader.transaction() as transaction:
        transaction.cursor.native.execute("SELECT error('it fails')")
    with pytest.raises(KeyboardInterrupt), reader.transaction():
        raise KeyboardInterrupt
    known.table("raw.t").append(PAIR)


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_forked_process_and_its_parent_read_and_write(known: Lake) -> None:
    table = known.table("raw.t")
    child = os.fork()
    if not child:
        status = 1
        try:
            table.append(PAIR)
            status = 0 if table.scan().collect().shape == (6, 2) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    known.refresh()
    table.append(PAIR)
    assert table.scan().collect().shape == (8, 2)
