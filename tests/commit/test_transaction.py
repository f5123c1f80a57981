"""Several writes in one transaction: each sees the earlier ones or is rejected; idempotency keys; audits."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with
from lake_parts import catalog_of, scope_of, session_of
from local_stores import store_of
from plain_sql import run_plain

from lakeconf.commit import audits
from lakeconf.commit.actions import RunSql
from lakeconf.commit.audits import Audit
from lakeconf.connection.connection import Connection
from lakeconf.errors import AuditError, CatalogError, CommitConflictError, CommitError, LakeconfError, UnsupportedError
from lakeconf.lake.run_journal import ModelRun
from lakeconf.secret import Secret
from lakeconf.write.operations.merge.clauses import Delete, Insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, Store


ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int64())})
MORE = pa.table({"id": pa.array([2, 3], pa.int64()), "n": pa.array([21, 31], pa.int64())})


lake = lake_with("t", ROWS)


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(lake.sql("FROM t").collect("pyarrow").rows())


READ_THE_TABLE: dict[str, Any] = {
    "merge": lambda table: table.merge(MORE, on="id"),
    "delete what is missing": lambda table: table.merge(
        MORE, on="id", matched=None, not_matched=None, not_matched_by_source=Delete()
    ),
    "insert what is new": lambda table: table.merge(MORE, on="id", matched=None, not_matched=Insert()),
    "computed update": lambda table: table.update({"n": nw.col("n") + 1}, "id = 2"),
}
CHANGE_ROWS: dict[str, Any] = {
    "append": lambda table: table.append(MORE),
    "overwrite": lambda table: table.overwrite(MORE),
    "delete": lambda table: table.delete("id = 2"),
    "update": lambda table: table.update({"n": 5}, "id = 2"),
    "merge": READ_THE_TABLE["merge"],
}


def write_both(lake: Lake, first: Any, second: Any) -> None:
    with lake.transaction() as tx:
        first(tx.table("t"))
        second(tx.table("T"))


@pytest.mark.slow
def test_write_that_reads_a_table_changed_earlier_is_rejected(lake: Lake) -> None:
    before = rows(lake)
    for first in CHANGE_ROWS:
        for second in READ_THE_TABLE:
            with pytest.raises(UnsupportedError, match=r"already contains a write to main\.t"):
                write_both(lake, CHANGE_ROWS[first], READ_THE_TABLE[second])
            assert (first, second, lake.refresh(), rows(lake)) == (first, second, lake.snapshot_id, before)


@pytest.mark.slow("on_spark")
def test_merge_that_deletes_matches_sees_earlier_writes(lake: Lake) -> None:
    gone = pa.table({"id": pa.array([1, 1, None], pa.int64())})
    with lake.transaction() as tx:
        tx.table("t").merge(MORE, on="id")
        tx.table("t").merge(gone, on="id", matched=Delete(), not_matched=None)
    assert rows(lake) == [(2, 21), (3, 31)]


OWN_ROWS: dict[str, Callable[[Any], object]] = {
    "delete": lambda t: t.delete("id = 4"),
    "update": lambda t: t.update({"n": 0}, where="id = 4"),
    "overwrite": lambda t: t.overwrite(pa.table({"id": [4], "n": [0]}), where="id = 4"),
    "merge": lambda t: t.merge(pa.table({"id": [4]}), on="id", matched=Delete(), not_matched=None),
}


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize("kind", OWN_ROWS)
def test_rows_that_a_transaction_has_added_are_not_changed_by_it(kind: str, lake: Lake) -> None:
    """DuckLake would record changes of rows that no snapshot has, and give two rows one id."""
    before = lake.snapshot_id
    with pytest.raises(UnsupportedError, match=r"rows of main\.t that it has added before"), lake.transaction() as tx:  # noqa: PT012 - the commit
        tx.table("t").append(pa.table({"id": [4, 5], "n": [40, 50]}))
        OWN_ROWS[kind](tx.table("t"))
    assert (lake.refresh(), rows(lake)) == (before, [(1, 10), (2, 20)])
    with lake.transaction() as tx:
        tx.table("t").append(pa.table({"id": [4, 5], "n": [40, 50]}))
        tx.table("t").delete("id = 1")
    assert rows(lake) == [(2, 20), (4, 40), (5, 50)]


@pytest.mark.slow("on_spark")
def test_change_feed_rejects_a_snapshot_that_changed_rows_twice(lake: Lake) -> None:
    """DuckLake's feed has both changes of the row, so that the first one may seem to be the last."""
    for second in ("UPDATE t SET n = n * 10 WHERE id = 1", "DELETE FROM t WHERE id = 1"):
        since = lake.snapshot_id + 1
        with lake.transaction() as tx:
            tx.execute("UPDATE t SET n = n + 1")
            tx.execute(second)
        with pytest.raises(UnsupportedError, match=rf"snapshot {since} changed rows of main\.t twice"):
            lake.table("t").changes(since)
    lake.execute("UPDATE t SET n = 7")
    assert len(lake.table("t").changes(lake.snapshot_id).collect("pyarrow")) == 2
    assert rows(lake) == [(2, 7)]


def test_a_nested_field_is_not_changed_after_rows_that_the_transaction_writes_to_the_catalog(tmp_path: Path) -> None:
    with store_of(tmp_path, data_inlining_row_limit=10).open() as lake:
        lake.create_table("t", {"id": "BIGINT", "p": "STRUCT(a INTEGER)"})
        for change in ({"add": {"p.b": "INTEGER"}}, {"rename": {"p.a": "b"}}):
            pattern = r"main\.t cannot be changed: .*ALTER on a table with"
            with pytest.raises(UnsupportedError, match=pattern) as error, lake.transaction() as tx:  # noqa: PT012 - the commit
                tx.table("t").append([{"id": 1, "p": {"a": 2}}])
                tx.table("t").evolve(**change)  # type: ignore[arg-type]
            assert str(error.value.hint).startswith("change the nested field first, or commit the rows first")
        assert lake.table("t").schema == {"id": "BIGINT", "p": "STRUCT(a INTEGER)"}


@pytest.mark.slow("on_spark")
def test_merge_conflicts_if_its_rows_are_missing_at_commit(lake: Lake) -> None:
    """An update by row id changes only the rows that still exist, so the count is the only evidence."""

    def write(second: Any) -> None:
        with lake.transaction() as tx:
            tx.table("t").merge(MORE, on="id")
            (change, *_) = scope_of(tx).transaction.contents.actions  # type: ignore[union-attr]
            second(tx)
            scope_of(tx).transaction.contents.actions.reverse()  # type: ignore[union-attr]
            assert isinstance(change, RunSql)
            assert change.counts == (1,)

    with pytest.raises(CommitConflictError, match=r"expected to change 1 rows of main\.t, but found 0"):
        write(lambda tx: tx.table("t").delete("id = 2"))
    assert rows(lake) == [(1, 10), (2, 20)]


def oracle(connection: duckdb.DuckDBPyConnection, step: tuple[str, int, int]) -> bool:
    """Carries out a step; False if it deletes or updates rows that the transaction has added."""
    kind, low, high = step
    where = f"id BETWEEN {low} AND {high}"
    new = f"SELECT i AS id, {low} AS n, true AS own FROM range({low}, {high + 1}) r(i)"
    own = f"SELECT 1 FROM t WHERE own AND {'true' if kind == 'overwrite' else where} AND {kind != 'append'}"
    is_done = connection.execute(own).fetchone() is None
    connection.execute(
        {
            "append": f"INSERT INTO t {new}",
            "delete": f"DELETE FROM t WHERE {where}",
            "update": f"UPDATE t SET n = {high} WHERE {where}",
            "overwrite where": f"DELETE FROM t WHERE {where}; INSERT INTO t {new}",
            "overwrite": f"DELETE FROM t; INSERT INTO t {new}",
            "delete matches": f"DELETE FROM t WHERE {where}",
        }[kind]
    )
    return is_done


def write(lake: Lake, step: tuple[str, int, int]) -> None:
    kind, low, high = step
    where, table = f"id >= {low} AND id <= {high}", lake.table("t")
    new = pa.table(
        {"id": pa.array(range(low, high + 1), pa.int64()), "n": pa.array([low] * (high + 1 - low), pa.int64())}
    )
    if kind == "append":
        table.append(new)
    elif kind == "delete":
        table.delete(where)
    elif kind == "update":
        table.update({"n": high}, where)
    elif kind == "overwrite where":
        table.overwrite(new, where)
    elif kind == "overwrite":
        table.overwrite(new)
    else:
        table.merge(new.select(["id"]), on="id", matched=Delete(), not_matched=None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_transactions_match_duckdb(store: Store, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - seeded, so that runs are reproducible
    kinds = ["append", "append", "delete", "update", "overwrite where", "overwrite", "delete matches"]
    with duckdb.connect() as connection, store.open() as lake:
        connection.execute("CREATE TABLE t (id BIGINT, n BIGINT, own BOOLEAN)")
        lake.create_table("t", ROWS)
        for _ in range(9):
            steps = []
            for _ in range(chance.randint(1, 4)):
                low = chance.randint(0, 15)
                steps.append((chance.choice(kinds), low, low + chance.randint(0, 9)))
            connection.execute("UPDATE t SET own = false; BEGIN")
            is_done = all([oracle(connection, step) for step in steps])  # noqa: C419 - carry out all
            connection.execute("COMMIT" if is_done else "ROLLBACK")
            expected = contextlib.nullcontext() if is_done else pytest.raises(UnsupportedError, match="added before")
            with expected, lake.transaction() as tx:
                for step in steps:
                    write(tx, step)
            lake.refresh()
            assert rows(lake) == sorted(connection.execute("SELECT id, n FROM t").fetchall()), steps
            assert sorted(lake.table("t").scan().collect("pyarrow").rows()) == rows(lake)


@pytest.fixture
def opened(store: Store) -> Iterator[Lake]:
    with store.open() as opened:
        opened.create_table("t", {"id": "BIGINT"})
        yield opened


def test_rejected_write_reports_the_reason(opened: Lake, store: Store) -> None:
    past = opened.at(version=1)
    with opened.transaction() as ended:
        pass
    with past.transaction() as in_the_past, pytest.raises(LakeconfError, match="the lake is pinned at snapshot 1"):
        in_the_past.table("t").delete("id = 1")
    for write in (lambda: past.table("t").delete("id = 1"), lambda: past.execute("DELETE FROM t")):
        with pytest.raises(LakeconfError, match="nothing can be written: the lake is pinned at snapshot 1"):
            write()
    with pytest.raises(LakeconfError, match="nothing can be written: the transaction has ended"):
        ended.table("t").delete("id = 1")
    with (
        store.open(read_only=True) as read_only,
        pytest.raises(LakeconfError, match="nothing can be written: the store 'dev' is read-only"),
    ):
        read_only.table("t").delete("id = 1")


def test_ended_transaction_rejects_audits_and_runs(opened: Lake) -> None:
    with opened.transaction() as ended:
        pass
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        ended.audit("no rows", "FROM t")
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        ended.runs.record(ModelRun("main.t", "run", "code"))
    assert (scope_of(ended).transaction.contents.audits, scope_of(ended).transaction.contents.events) == ([], [])  # type: ignore[union-attr]


def test_stream_sink_is_rejected_in_a_transaction(opened: Lake) -> None:
    """Spark considers a batch written when the sink returns, but the transaction could still discard it."""
    with (
        opened.transaction() as tx,
        pytest.raises(LakeconfError, match="the batches of a stream cannot be a part of it"),
    ):
        tx.stream_sink("t")


def test_closing_a_transaction_or_past_version_keeps_the_session_open(opened: Lake) -> None:
    with opened.at(version=1) as past:
        assert past.tables() == ["main.t"]
    with opened.transaction() as tx:
        with tx:
            tx.table("t").append(pa.table({"id": [1]}))
        tx.table("t").append(pa.table({"id": [2]}))
    assert sorted(opened.table("t").scan().collect("pyarrow").rows()) == [(1,), (2,)]


@pytest.fixture
def writing(store: Store) -> Iterator[Lake]:
    """A lake whose writer has an open transaction with seven rows in the table `t`."""
    with store.open() as writing:
        writing.create_table("t", {"id": "BIGINT", "name": "VARCHAR"})
        session_of(writing).writer.execute("BEGIN")
        session_of(writing).writer.execute("INSERT INTO dev.t SELECT range, 'n' || range FROM range(7)")
        yield writing


def run(writing: Lake, sql: str) -> None:
    audits.run(Audit("few", sql), session_of(writing).writer, catalog_of(writing))


def refused(writing: Lake, sql: str) -> AuditError:
    with pytest.raises(AuditError) as caught:
        run(writing, sql)
    return caught.value


def test_audit_without_violations_passes(writing: Lake) -> None:
    run(writing, "FROM t WHERE id > 6")
    run(writing, "-- é\n/* pragma */ SELECT * FROM t WHERE id > 6;")
    assert len(writing.table("t").scan().collect()) == 0, "only the transaction sees the rows"


@pytest.mark.parametrize(
    ("count", "found", "more"), [(1, "1 row", ""), (5, "5 rows", ""), (7, "7 rows", "\n  and 2 more")]
)
def test_violations_are_counted_and_a_sample_is_shown(count: int, found: str, more: str, writing: Lake) -> None:
    error = refused(writing, f"SELECT id AS key, name FROM t WHERE id < {count} ORDER BY id")
    rows = "\n".join(f"  {{'key': {number}, 'name': 'n{number}'}}" for number in range(min(count, 5)))
    assert error.message == f"the audit 'few' found {found}, so nothing was written:\n{rows}{more}"
    assert error.hint == "fix the rows or the audit"


def test_audit_that_cannot_be_run_is_refused(writing: Lake) -> None:
    error = refused(writing, "FROM missing")
    assert error.message.startswith("the audit 'few' cannot be run, so nothing was written: ")
    assert "missing" in error.message
    assert "Did you mean" not in error.message
    assert error.hint == "use one of the tables: main.t"
    caught = refused(writing, "FROM ducklake_cleanup_old_files('dev', cleanup_all => true)")
    assert "ducklake_cleanup_old_files() changes the lake without its locks" in caught.message
    # A view of the lake that may read files is refused before it is bound.
    session_of(writing).writer.execute("ROLLBACK")
    session_of(writing).writer.execute("CREATE VIEW dev.files AS FROM read_text('/etc/hostname')")
    assert "read_text" in refused(writing, "FROM files").message


def test_error_of_an_audit_shows_no_secret(writing: Lake) -> None:
    session = session_of(writing)
    writer = Connection(session.writer.native, [Secret("hunter2hunter2")])

    with pytest.raises(AuditError, match="cannot be run") as caught:
        audits.run(Audit("few", "SELECT error('hunter2hunter2')"), writer, session.reader)
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def keyed(store: Store) -> Iterator[Lake]:
    with store.open() as keyed:
        keyed.create_table("t", ROWS)
        yield keyed


def as_another(keyed: Lake, *statements: str) -> None:
    """Runs statements as another writer, then refreshes the lake."""
    run_plain(keyed, *statements)
    keyed.refresh()


def stored(keyed: Lake, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(keyed.table(table).scan().collect("pyarrow").rows(), key=repr)


def append(keyed: Lake, key: str = "k", table: str = "t") -> int:
    return keyed.table(table).append(ROWS, idempotency_key=key)


def test_recreated_table_has_no_keys(keyed: Lake) -> None:
    append(keyed)
    as_another(keyed, "DROP TABLE t", "CREATE TABLE t (id BIGINT, n BIGINT)")
    append(keyed)
    assert len(stored(keyed)) == 2
    append(keyed)
    assert len(stored(keyed)) == 2


@pytest.mark.parametrize("made", ["before", "in the transaction"])
def test_keys_follow_a_rename(keyed: Lake, made: str) -> None:
    if made == "before":
        first = append(keyed)
    else:
        as_another(keyed, "DROP TABLE t")
        with keyed.transaction() as tx:
            tx.create_table("t", ROWS)
            append(tx)
        first = keyed.snapshot_id
    as_another(keyed, "ALTER TABLE t RENAME TO u", "CREATE TABLE t (id BIGINT, n BIGINT)")
    assert append(keyed, table="u") == first
    assert append(keyed) > first
    assert (len(stored(keyed, "u")), len(stored(keyed))) == (2, 2)
    assert append(keyed, table="u") == first


def test_journal_schema_name_is_case_insensitive(keyed: Lake) -> None:
    as_another(keyed, "CREATE SCHEMA LakeConf")
    first = append(keyed)
    assert append(keyed) == first
    assert len(stored(keyed)) == 2
    assert keyed.tables() == ["main.t"]


def test_journal_with_missing_columns_is_rejected(keyed: Lake) -> None:
    as_another(keyed, "CREATE SCHEMA lakeconf", "CREATE TABLE lakeconf.commits (id BIGINT)")
    with pytest.raises(CatalogError, match=r"lakeconf\.commits lacks the column 'token'"):
        append(keyed)


def test_key_used_twice_in_a_transaction_is_rejected(keyed: Lake) -> None:
    with keyed.transaction() as tx:
        append(tx)
        with pytest.raises(CommitError, match=r"already contains a write to .* with the idempotency key 'k'"):
            append(tx)
        tx.create_table("u", ROWS)
        append(tx, table="u")
        with pytest.raises(CommitError, match=r"already contains a write to .* with the idempotency key 'k'"):
            tx.table("U").overwrite(ROWS, idempotency_key="k")
    assert (len(stored(keyed)), len(stored(keyed, "u"))) == (2, 2)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_transaction_skips_only_the_write_with_a_committed_key(keyed: Lake, store: Store, when: str) -> None:
    keyed.create_table("u", ROWS)
    with store.open() as other:
        first = append(other) if when == "before" else 0
        keyed.refresh()
        with keyed.transaction() as tx:
            append(tx)
            append(tx, table="u")
            first = append(other) if when == "meanwhile" else first
    keyed.refresh()
    assert (len(stored(keyed)), len(stored(keyed, "u"))) == (2, 2)
    assert append(keyed) == first
    assert append(keyed, table="u") == keyed.snapshot_id


EVERY_WRITE: dict[str, Any] = {
    "append": lambda table, key: table.append(ROWS, idempotency_key=key),
    "overwrite": lambda table, key: table.overwrite(ROWS, idempotency_key=key),
    "overwrite where": lambda table, key: table.overwrite(ROWS, "id < 9", idempotency_key=key),
    "overwrite_partitions": lambda table, key: table.overwrite_partitions(ROWS, idempotency_key=key),
    "delete": lambda table, key: table.delete("id = 1", idempotency_key=key),
    "update": lambda table, key: table.update({"n": 7}, "id = 2", idempotency_key=key),
    "computed update": lambda table, key: table.update({"n": nw.col("n") + 1}, "id = 2", idempotency_key=key),
    "merge": lambda table, key: table.merge(ROWS, on="id", idempotency_key=key),
    "evolving append": lambda table, key: table.append(
        ROWS.append_column("more", pa.array([1, 2])), evolve=True, idempotency_key=key
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("write", EVERY_WRITE)
def test_every_write_is_skipped_if_its_key_was_committed(keyed: Lake, store: Store, write: str) -> None:
    keyed.create_table("p", ROWS, partitioned_by=["id"])
    keyed.table("p").append(ROWS)
    first = EVERY_WRITE[write](keyed.table("p"), "k")
    assert first == keyed.snapshot_id
    assert EVERY_WRITE[write](keyed.table("p"), "k") == first
    with store.open() as other, keyed.transaction() as tx:
        EVERY_WRITE[write](tx.table("p"), "l")
        second = EVERY_WRITE[write](other.table("p"), "l")
    assert keyed.refresh() == second == first + 1


def test_reads_see_a_write_with_this_key_by_another_session(keyed: Lake, store: Store) -> None:
    with store.open() as other:
        version = append(keyed)
        with keyed.transaction() as tx:
            pinned = tx.snapshot_id
            assert append(tx) == version
            assert tx.snapshot_id == pinned
        assert append(other) == version
        assert other.snapshot_id == version
        assert len(stored(other)) == 2
