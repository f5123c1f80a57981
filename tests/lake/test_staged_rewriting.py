"""Files with deleted rows are replaced where DuckLake would forget bounds; a flush restores no deleted row."""

from __future__ import annotations

import datetime as dt
import logging
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from commit_hooks import at_staged_commit
from lake_parts import catalog_of, session_of
from local_stores import config_of, in_bucket, on_catalog, store_of
from merge_cases import fetched
from plain_sql import plain_rows, run_plain

import lakeconf
from lakeconf.catalog.data_file import DataFile, DeleteFile, FileGroup
from lakeconf.engines import sorted_files
from lakeconf.errors import QueryError
from lakeconf.lake import staged_rewriting
from lakeconf.lake.compaction import rewritten_files
from lakeconf.lake.compaction_step import RowsChangedError
from lakeconf.lake.failed_tables import FailedTables
from lakeconf.lake.limits import TimeLimit
from lakeconf.lake.rewriting import flush_table, rewrite_files
from lakeconf.lake.staged_rewriting import StagedRewriting, newest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store
    from lakeconf.catalog.tables import TableInfo
    from lakeconf.commit.session import Session

NULLS, ONES = "SELECT i, NULL FROM range({0}, {0} + 20) r(i)", "SELECT i, 1 FROM range({0}, {0} + 20) r(i)"
BOUNDS = "SELECT column_id, min_value, max_value FROM __ducklake_metadata_dev.ducklake_table_column_stats ORDER BY ALL"


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return on_catalog(request, tmp_path)


def fill(lake: Lake, kind: str = "INTEGER", partitioned_by: str = "") -> None:
    """The table `t`: two files with only NULLs in `v`, three with values and 15, 5 and 3 of 20 rows deleted."""
    lake.create_table("t", {"id": "BIGINT", "v": kind}, partitioned_by=[partitioned_by] if partitioned_by else [])
    run_plain(lake, "CALL dev.set_option('rewrite_delete_threshold', 0.1)")
    for start, rows in enumerate((NULLS, ONES, ONES, NULLS, ONES)):
        run_plain(lake, f"INSERT INTO t {rows.format(start * 20)}")
    run_plain(lake, "DELETE FROM t WHERE id BETWEEN 20 AND 34", "DELETE FROM t WHERE id BETWEEN 40 AND 44")
    run_plain(lake, "DELETE FROM t WHERE id BETWEEN 90 AND 92")
    lake.refresh()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path).open() as opened:
        fill(opened)
        yield opened


def contents(lake: Lake, version: int | None = None) -> list[str]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return list(map(str, plain_rows(lake, f"SELECT rowid, id, v FROM dev.t{at} ORDER BY ALL")))


def feed(lake: Lake) -> list[str]:
    return sorted(map(str, lake.table("t").changes(1).collect("pyarrow").rows()))


def left(lake: Lake) -> list[int]:
    """The sizes of the files with deleted rows, in rows."""
    found = rewritten_files(catalog_of(lake), session_of(lake).own_files)
    return [round(20 * share) for table in found for share, _ in table.files]


def check_plain(store: Store) -> None:
    """Plain DuckDB finds the rows, also after an insert, whose bounds do not become those of the table."""
    with duckdb.connect() as plain:
        store.attach(plain)
        for statement in ("", "INSERT INTO dev.t VALUES (1000, 7)"):
            plain.execute(statement or "SELECT 1")
            for condition in ("v = '1'", "v < '7'", "v IS NULL", "v IS NOT NULL"):
                found = [
                    plain.sql(f"SELECT count(*) FROM {source} WHERE {condition}").fetchall()
                    for source in ("dev.t", "(FROM dev.t LIMIT 100000)")
                ]
                assert found[0] == found[1], (statement, condition)


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
@pytest.mark.parametrize(("kind", "partitioned_by"), [("VARCHAR", "v"), ("DOUBLE", "bucket(2, id)")])
def test_rows_ids_history_feed_and_bounds_stay(
    catalog: dict[str, Any], tmp_path: Path, kind: str, partitioned_by: str
) -> None:
    store = store_of(tmp_path, catalog)
    with store.open() as lake:
        fill(lake, kind, partitioned_by)
        past = {version: contents(lake, version) for version in range(4, lake.snapshot_id + 1)}
        changes, bounds = feed(lake), plain_rows(lake, BOUNDS)
        (planned,) = [one.rewritten_files for one in lake.maintenance.plan_compaction()]
        assert planned == len(left(lake)) > 0
        lake.maintenance.rewrite()
        assert left(lake) == []
        assert {version: contents(lake, version) for version in past} == past
        assert contents(lake) == past[max(past)]
        assert feed(lake) == changes
        assert plain_rows(lake, BOUNDS) == bounds
        assert not any(one.rewritten_files for one in lake.maintenance.plan_compaction())
    check_plain(store)
    with store.open() as lake:
        before = contents(lake)
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert contents(lake) == before
    check_plain(store)


def test_one_file_stays_if_files_without_bounds_are_large(lake: Lake) -> None:
    """The one with fewest deleted rows: as long as it has some, DuckLake does not compute bounds again."""
    run_plain(lake, "CALL dev.set_option('target_file_size', '600B')")
    bounds = plain_rows(lake, BOUNDS)
    assert [one.rewritten_files for one in lake.maintenance.plan_compaction()] == [2]
    lake.maintenance.rewrite()
    assert left(lake) == [3]
    assert plain_rows(lake, BOUNDS) == bounds
    version = lake.snapshot_id
    assert lake.maintenance.rewrite().complete
    assert (left(lake), lake.snapshot_id) == ([3], version)
    run_plain(lake, "DELETE FROM t WHERE id = 65")
    lake.maintenance.rewrite()
    assert left(lake) == [], "another file has a deleted row, but too few to be rewritten"
    assert plain_rows(lake, BOUNDS) == bounds


def test_rewrite_continues_after_its_deadline(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without bounds come first, then those with most deleted rows."""
    monkeypatch.setattr(staged_rewriting, "FILES_READ", 1)
    before, (table,) = contents(lake), rewritten_files(catalog_of(lake), session_of(lake).own_files)
    times = iter([0, 0, 0, 1])
    assert StagedRewriting(session_of(lake), TimeLimit(1, lambda: next(times))).run(table) is None
    assert left(lake) == [5, 3]
    begins = [file.begin_snapshot for file in lake.table("t").files()]
    assert lake.maintenance.rewrite().complete
    assert (left(lake), contents(lake)) == ([], before)
    assert len({*begins}) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM t WHERE id = 45", "UPDATE t SET v = 3 WHERE id > 40", f"INSERT INTO t {NULLS.format(500)}"],
)
def test_a_rewrite_that_others_overtake_is_repeated(
    lake: Lake, tmp_path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        at_staged_commit(patch, before=lambda: run_plain(lake, statement))
        lake.maintenance.rewrite()
    after = contents(lake)
    lake.maintenance.rewrite()
    assert left(lake) == []
    assert contents(lake) == after
    lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
    lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
    known = {file.path for file in lake.table("t").files()}
    assert {str(path) for path in (tmp_path / "data").rglob("*.parquet") if "delete" not in path.name} == known
    check_plain(store_of(tmp_path))


def test_writers_that_are_always_faster_leave_the_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = iter(range(45, 60))
    stage = sorted_files.stage_sorted

    def overtaken(*arguments: Any) -> Any:
        file = stage(*arguments)
        run_plain(lake, f"DELETE FROM t WHERE id = {next(ids)}")
        return file

    monkeypatch.setattr(staged_rewriting, "stage_sorted", overtaken)
    lake.maintenance.rewrite()
    assert sorted(left(lake))[0] > 0
    assert "another writer changed rows in" in caplog.text


def test_a_rewrite_whose_reply_was_lost_succeeds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise QueryError("the reply was lost")

    before = contents(lake)
    with monkeypatch.context() as patch:
        at_staged_commit(patch, after=lost)
        lake.maintenance.rewrite()
    assert (left(lake), contents(lake)) == ([], before)
    assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []


def test_tables_that_no_staged_commit_can_carry_are_left(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    run_plain(
        lake, "CREATE TABLE other (id BIGINT)", "INSERT INTO other FROM range(20)", "DELETE FROM other WHERE id > 5"
    )
    lake.refresh()
    session_of(lake).committer = "public"
    assert [one.rewritten_files for one in lake.maintenance.plan_compaction()] == [1, 0]
    lake.maintenance.rewrite()
    assert left(lake) == [15, 5, 3], "those of the other table are rewritten"
    (record,) = [record for record in caplog.records if "forget the bounds" in record.getMessage()]
    assert record.levelname == "WARNING"
    assert "main.t keeps files with deleted rows" in record.getMessage()
    assert "the column v, and" in record.getMessage()
    assert record.getMessage().endswith("the store's committer is public, which cannot register row ids")


def test_a_table_that_is_gone_is_skipped(lake: Lake) -> None:
    (table,) = rewritten_files(catalog_of(lake), session_of(lake).own_files)
    run_plain(lake, "DROP TABLE t")
    lake.refresh()
    rewriting = StagedRewriting(session_of(lake), TimeLimit())
    assert (rewriting.planned(table), rewriting.run(table)) == (0, None)


def test_deletes_in_the_catalog_wait_for_a_flush(lake: Lake) -> None:
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10)", "DELETE FROM t WHERE id = 45")
    before = contents(lake)
    rewrite_files(session_of(lake), TimeLimit(), FailedTables(session_of(lake)))
    assert (left(lake), contents(lake)) == ([5], before)
    lake.maintenance.compact()
    assert (left(lake), contents(lake)) == ([], before)


def test_files_without_rows_are_replaced_together_with_others(lake: Lake) -> None:
    """DuckLake flushes deletes of all rows of a file to a file of deletes."""
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 100)", "DELETE FROM t WHERE id BETWEEN 20 AND 39")
    before = contents(lake)
    lake.maintenance.compact()
    assert (left(lake), contents(lake)) == ([], before)


@pytest.mark.slow("s3", "azure")
@pytest.mark.parametrize("place", ["s3", "azure", "spark"])
def test_files_in_a_bucket_and_of_a_lake_on_spark_are_replaced_by_duckdb(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    storage = None if place == "spark" else in_bucket(request.getfixturevalue(f"{place}_server"))
    spark = request.getfixturevalue("spark") if place == "spark" else None
    with lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev").open(spark) as lake:
        fill(lake, partitioned_by="v")
        before = contents(lake)
        lake.maintenance.rewrite()
        assert (left(lake), contents(lake)) == ([], before)
        assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []


def test_damaged_tables_are_left(lake: Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance of the other tables continues."""
    deletes, writer = "__ducklake_metadata_dev.ducklake_delete_file", session_of(lake).writer
    ((file_id,),) = writer.rows(f"SELECT min(data_file_id) FROM {deletes}")
    copied = f"SELECT * REPLACE (delete_file_id + 1000 AS delete_file_id) FROM {deletes} WHERE data_file_id = {file_id}"
    writer.execute(f"INSERT INTO {deletes} {copied}")
    lake.maintenance.rewrite()
    assert "main.t keeps files with deleted rows" in caplog.text
    assert f"the data file {file_id} of main.t has two live delete files" in caplog.text


def test_order_of_the_table_is_that_of_the_new_files(lake: Lake) -> None:
    run_plain(lake, "ALTER TABLE t SET SORTED BY (id DESC)")
    lake.refresh()
    lake.maintenance.rewrite()
    for file in lake.table("t").files():
        found = [id_ for (id_,) in plain_rows(lake, f"SELECT id FROM dev.t WHERE filename = '{file.path}'")]
        assert found == sorted(found, reverse=True)


def sized(number: int, rows: int, deleted: int) -> DataFile:
    deletes = DeleteFile(f"/{number}-deletes", "parquet", deleted, 10)
    return DataFile(number, f"/{number}", rows + deleted, 100, None, 1, delete_file=deletes)


def test_parts_have_one_file_of_the_target_size_and_a_row() -> None:
    files = [sized(1, 10, 0), sized(2, 5, 5), sized(3, 0, 10), sized(4, 3, 7), sized(5, 0, 10), sized(6, 1, 9)]

    def divided(files: list[DataFile]) -> list[list[int]]:
        return [[file.data_file_id for file in part] for part in staged_rewriting._divided(files, 60)]

    assert divided(files) == [[3, 5, 6, 4], [2], [1]]
    assert divided([files[0], files[2]]) == [[3, 1]], "a file without rows is never alone"
    assert divided([sized(3, 0, 10)]) == []


def test_transactions_have_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [FileGroup((sized(number, 1, 1),)) for number in range(6)]
    for name, limit in (("FILES_READ", 4), ("BYTES_READ", 300), ("FILES_WRITTEN", 2)):
        monkeypatch.setattr(staged_rewriting, name, limit)
        assert len(list(staged_rewriting._limited(parts))) == min(limit, 600) // (100 if limit > 99 else 1)
    monkeypatch.setattr(staged_rewriting, "BYTES_READ", 1)
    assert list(staged_rewriting._limited(parts)) == parts[:1]


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_deletes_between_plan_and_rewrite_are_a_conflict_and_not_the_end(
    catalog: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, newest, fired = store_of(tmp_path, catalog), staged_rewriting.newest, list[bool]()
    with store.open() as lake:
        for name in ("a", "b"):
            table = lake.create_table(name, {"id": "BIGINT"}, sorted_by=["id"])  # merged by staged commits
            for start in (0, 10, 20):
                table.append([{"id": start + number} for number in range(10)])

        def changed(session: Session, name: str) -> TableInfo:
            # The second delete extends the file of the first, which keeps its snapshot: the plan counts too many.
            if '"a"' in name and not fired:
                run_plain(lake, "DELETE FROM a WHERE id = 0")
            found = newest(session, name)
            if '"a"' in name and not fired:
                fired.append(True)
                run_plain(lake, "DELETE FROM a WHERE id IN (1, 2)")
            return found

        monkeypatch.setattr(staged_rewriting, "newest", changed)
        lake.maintenance.compact()
        lake.refresh()
        assert fired
        assert (lake.table("a").count(), lake.table("b").count()) == (27, 30)
        assert len(lake.table("b").files()) == 1
        assert len(lake.table("a").files()) < 3


def test_texts_with_nul_are_merged(catalog: dict[str, Any], tmp_path: Path) -> None:
    with store_of(tmp_path, catalog).open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "v": "VARCHAR"}, sorted_by=["id"])
        for start in (0, 10):
            table.append([{"id": start, "v": f"x\0{start}"}, {"id": start + 1, "v": "y"}])
        before = contents(lake)
        lake.maintenance.compact()
        assert contents(lake) == before
        assert len(table.files()) == 1
        assert table.scan(where="v > 'x' AND v < 'y'").collect("pyarrow").rows() == [(0, "x\x000"), (10, "x\x0010")]


# Texts that DuckLake on PostgreSQL compares with another text: \' is in the text form of bytes, and é has two bytes.
HIDDEN = ("O'Brien", 'a"b', "a\\b", "é")


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The type of the metadata backend."""
    return str(request.param)


@pytest.fixture
def store(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Store:
    """A store whose lake keeps small writes in the catalog."""
    return store_of(tmp_path, on_catalog(request, tmp_path, kind), data_inlining_row_limit=20)


@pytest.fixture
def small(store: Store) -> Iterator[Lake]:
    """The lake with the tables `t`, which has partitions, and `plain`."""
    with store.open() as small:
        for name in ("t", "plain"):
            run_plain(small, f"CREATE TABLE {name} (id BIGINT, s VARCHAR)")
        run_plain(small, "ALTER TABLE t SET PARTITIONED BY (s)")
        yield small


def fill_both(small: Lake, texts: tuple[str, ...]) -> None:
    for name in ("t", "plain"):
        for number, text in enumerate(texts):
            quoted = text.replace("'", "''")
            run_plain(small, f"INSERT INTO {name} VALUES ({2 * number}, '{quoted}'), ({2 * number + 1}, '{quoted}')")
        run_plain(small, f"DELETE FROM {name} WHERE id % 2 = 0", f"UPDATE {name} SET id = -id WHERE id = 1")
    small.refresh()


def rows(small: Lake, name: str) -> list[tuple[int, str]]:
    small.refresh()
    return sorted(fetched(small, f"SELECT id, s FROM {name}"))


def inlined(small: Lake, name: str) -> bool:
    tables = (
        f"SELECT i.table_name FROM {METADATA}.ducklake_inlined_data_tables AS i JOIN {METADATA}.ducklake_table AS t"
    )
    found = fetched(small, f"{tables} USING (table_id) WHERE t.table_name = '{name}'")
    return any(fetched(small, f"SELECT 1 FROM {METADATA}.{table} LIMIT 1") for (table,) in found)


METADATA = "__ducklake_metadata_dev"


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
@pytest.mark.parametrize(
    ("kind", "texts"),
    [("sqlite", HIDDEN), ("duckdb", HIDDEN), ("postgres", ("b c", "%")), *(("postgres", (text,)) for text in HIDDEN)],
    indirect=["kind"],
)
def test_no_flush_restores_a_deleted_row(
    small: Lake, texts: tuple[str, ...], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill_both(small, ("a", *texts))
    before = {name: rows(small, name) for name in ("t", "plain")}
    with caplog.at_level(logging.WARNING, "lakeconf"):
        small.maintenance.compact()
    for name, found in before.items():
        assert rows(small, name) == found
    assert not inlined(small, "plain")
    on_server = kind == "postgres" and texts[-1] in HIDDEN
    assert inlined(small, "t") == on_server
    assert ("the rows of main.t would change" in caplog.text) == on_server
    if not on_server:
        return
    run_plain(small, "ALTER TABLE t RESET PARTITIONED BY")
    small.maintenance.flush()
    assert rows(small, "t") == before["t"]
    # What the warning says to do.
    small.create_table("new", {"id": "BIGINT", "s": "VARCHAR"}).append(small.table("t").scan())
    assert rows(small, "new") == before["t"]


def test_a_flush_of_one_table_is_refused(small: Lake, kind: str) -> None:
    fill_both(small, HIDDEN)
    before = rows(small, "t")
    info = newest(session_of(small), "t")
    if kind == "postgres":
        with pytest.raises(RowsChangedError, match="stay in the catalog"):
            flush_table(session_of(small), info)
    else:
        flush_table(session_of(small), info)
    assert rows(small, "t") == before


def test_no_flush_restores_a_row_of_a_table_with_a_column_rowid(small: Lake) -> None:
    text = HIDDEN[3]
    run_plain(small, f"INSERT INTO t VALUES (NULL, '{text}'), (1, '{text}')", "DELETE FROM t WHERE id IS NULL")
    run_plain(small, "ALTER TABLE t RENAME id TO rowid")
    small.maintenance.flush()
    assert fetched(small, "SELECT rowid, s FROM t") == [(1, text)]


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_a_table_that_cannot_be_flushed_does_not_stop_the_others(small: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """DuckLake cannot flush bytes that are no text as a partition."""
    run_plain(small, "CREATE TABLE bytes (b BLOB)", "ALTER TABLE bytes SET PARTITIONED BY (b)")
    run_plain(small, "INSERT INTO bytes VALUES ('\\xFF'::BLOB)", "INSERT INTO plain VALUES (1, 'a')")
    small.refresh()
    small.maintenance.compact()
    assert small.table("bytes").count() == 1
    assert not inlined(small, "plain")
    assert "the rows of main.bytes in the catalog cannot be flushed" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)  # a DuckDB file cannot be opened twice
@pytest.mark.parametrize("comment", [None, "it's a table"])
def test_lake_that_is_open_elsewhere_stays_usable(small: Lake, store: Store, comment: str | None) -> None:
    """DuckLake remembers the tables of rows in the catalog, of which a flush drops those with former columns."""
    small.refresh()
    plain = small.table("plain")
    plain.set_comments(comment, columns={"s": "a text"})
    plain.append([{"id": 1, "s": "a"}])
    plain.evolve(add={"c": "VARCHAR"})
    plain.append([{"id": 2, "s": "b", "c": "c"}])
    with store.open() as other:
        expected = rows(other, "plain")
        small.maintenance.compact()
        assert rows(other, "plain") == expected == [(1, "a"), (2, "b")]
        assert sorted(other.table("plain").scan(["id"]).collect("pyarrow").rows()) == [(1,), (2,)]
        other.table("plain").delete("id = 1")
        other.table("plain").append([{"id": 3, "s": "d", "c": None}])
        assert rows(small, "plain") == rows(other, "plain") == [(2, "b"), (3, "d")]
        assert (plain.comment, plain.column_comments) == (comment, {"s": "a text"})
        # The definition does not change again.
        before = small.snapshots()[-1].schema_version
        small.maintenance.compact()
        assert small.snapshots()[-1].schema_version == before
        assert rows(other, "plain") == rows(small, "plain")
