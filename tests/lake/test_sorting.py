"""A rewrite in an order keeps rows, row ids, history and the change feed, and lets scans skip files."""

from __future__ import annotations

import datetime as dt
import json
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from commit_hooks import at_staged_commit
from local_stores import config_of, in_bucket, on_postgres, store_of
from plain_sql import run_plain

import lakeconf
from lakeconf.connection.connection import Connection
from lakeconf.errors import (
    CommitConflictError,
    CommitError,
    LakeconfError,
    QueryError,
    SchemaError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import S3Server

    from lakeconf import Lake, Store

# A column for each kind of statistics, and odd names; the value of a row by its number `i`.
VALUES = {
    "id": ("BIGINT", "i"),
    'day "of" month': ("DATE", "DATE '2026-01-01' + CAST(i % 9 AS INTEGER)"),
    "ratio": ("DOUBLE", "CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE ELSE i * 1.5 END"),
    "flag": ("BOOLEAN", "i % 2 = 0"),
    "raw": ("BLOB", "('b' || i)::BLOB"),
    "name, full": ("VARCHAR", "CASE WHEN i % 4 > 0 THEN 'n' || (i % 7) END"),
    "time": ("TIMESTAMPTZ", "TIMESTAMPTZ '2026-01-01 00:00:00+00' + i * INTERVAL 1 HOUR"),
    "tags": ("STRUCT(x BIGINT, y VARCHAR)[]", "CASE i % 3 WHEN 0 THEN [] WHEN 1 THEN [{'x': i, 'y': NULL}] END"),
    "pairs": ("MAP(VARCHAR, DOUBLE)", "MAP {'k' || i: i}"),
    "code": ("UUID", "md5(i::VARCHAR)::UUID"),
    "big": ("UBIGINT", "i"),
}
CONDITIONS = (
    "id = 12", "ratio > 30", "ratio = 'nan'", "flag", "raw = 'b7'", '"name, full" = \'n3\'', "code = md5('4')::UUID",
    "time < '2026-01-01 05:00:00+00'", "big = 9", "ratio IS NULL", '"name, full" IS NULL', "later = 7", "later > 7",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "postgres":
        return on_postgres(request.getfixturevalue("postgres_server"))
    return {"type": request.param, "uri": str(tmp_path / "catalog")}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lake]:
    """A lake with the table `t` in four files, each with rows of all days."""
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "day": "BIGINT"})
        for number in range(4):
            ids = range(number * 100, number * 100 + 100)
            table.append(pa.table({"id": list(ids), "day": [id_ % 20 for id_ in ids]}))
        yield lake


def insert(lake: Lake, begin: int, end: int) -> None:
    columns = ", ".join(value for _, value in VALUES.values())
    run_plain(lake, f"INSERT INTO s.t BY POSITION SELECT {columns} FROM range({begin}, {end}) AS r(i)")


def create(store: Store, partitioned_by: list[str]) -> Lake:
    """A lake with the table `s.t`: deletes, updates, rows of the catalog, and a column that was added later."""
    lake = store.open()
    lake.create_table("s.t", {name: kind for name, (kind, _) in VALUES.items()}, partitioned_by=partitioned_by)
    for begin in range(0, 60, 15):
        insert(lake, begin, begin + 15)
    run_plain(lake, "DELETE FROM s.t WHERE id IN (3, 20, 21)", "UPDATE s.t SET flag = NULL WHERE id % 11 = 5")
    lake.refresh()
    lake.table("s.t").evolve(add={"later": "INTEGER"}, defaults={"later": 7})
    run_plain(lake, "UPDATE s.t SET later = id WHERE id BETWEEN 40 AND 50", "DELETE FROM s.t WHERE id = 41")
    lake.refresh()
    return lake


def contents(lake: Lake, table: str = "s.t", version: int | None = None) -> list[str]:
    at = "" if version is None else f" AT (VERSION => {version})"
    rows = lake._session.writer.rows(f"SELECT rowid, COLUMNS(*)::VARCHAR FROM dev.{table}{at} ORDER BY rowid")
    return list(map(str, rows))


def feed(lake: Lake, table: str = "s.t") -> list[str]:
    return sorted(str(row) for row in lake.table(table).changes(1).collect("pyarrow").rows())


def counts(store: Store, conditions: tuple[str, ...] = CONDITIONS) -> list[list[tuple[Any, ...]]]:
    """The numbers of rows that DuckDB finds without lakeconf's settings: with statistics, and in the rows."""
    with duckdb.connect() as plain:
        store.attach(plain)
        sources = ("dev.s.t", "(FROM dev.s.t LIMIT 1000000)")
        selected = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
        filtered = [plain.sql(f"SELECT count(*) FROM dev.s.t WHERE {one}").fetchall()[0][0] for one in conditions]
        extremes = [
            plain.sql(f"SELECT min(id), max(id), min(time), count(ratio) FROM {one}").fetchall() for one in sources
        ]
        assert extremes[0] == extremes[1]
        return [[tuple(filtered)], plain.sql(f"SELECT {selected} FROM {sources[1]}").fetchall()]


@pytest.mark.parametrize("partitioned_by", [[], ["flag"], ["day(time)", "name, full"]])
def test_rows_ids_history_and_feed_stay(catalog: dict[str, Any], tmp_path: Path, partitioned_by: list[str]) -> None:
    store = store_of(tmp_path, catalog, data_inlining_row_limit=4)
    with create(store, partitioned_by) as lake:
        table = lake.table("s.t")
        lake.maintenance.flush()
        past = {version: contents(lake, version=version) for version in range(3, lake.snapshot_id + 1)}
        before, changes = contents(lake), feed(lake)
        done = table.rewrite(["name, full desc nulls first", "id"])
        assert done.complete
        assert done.files_after < done.files_before
        assert contents(lake) == before
        assert feed(lake) == changes
        assert {version: contents(lake, version=version) for version in past} == past
    with_statistics, in_rows = counts(store)
    assert with_statistics == in_rows
    with store.open() as lake:
        run_plain(
            lake, "INSERT INTO s.t SELECT * REPLACE (id + 1000 AS id) FROM s.t", "DELETE FROM s.t WHERE id = 1002"
        )
        before = contents(lake)
    with_statistics, in_rows = counts(store)
    assert with_statistics == in_rows
    with store.open() as lake:
        lake.maintenance.compact()
        assert contents(lake) == before
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert contents(lake) == before
    with_statistics, in_rows = counts(store)
    assert with_statistics == in_rows


def test_scans_read_fewer_files(small: Lake) -> None:
    """Files end at the target size, so each has its own range of days."""
    table, days = small.table("t"), "SELECT day FROM dev.t WHERE filename = '{}'"
    assert table.explain(where="day = 3").files == 4
    small._session.writer.execute("CALL dev.set_option('target_file_size', '1KB')")
    assert table.rewrite(["day"]).files_after > 2
    assert table.explain(where="day = 3").files == 1
    for file in table.files():
        found = [day for (day,) in small._session.writer.rows(days.format(file.path))]
        assert found == sorted(found)
    before = contents(small, "t")
    small._session.writer.execute("CALL dev.set_option('target_file_size', '512MB')")
    assert small.maintenance.compact().files_after == 1
    assert contents(small, "t") == before


def test_files_that_are_sorted_stay(small: Lake) -> None:
    table = small.table("t")
    assert str(table.plan_rewrite("day desc")).startswith("main.t: write 4 files (")
    assert (table.rewrite("day desc").commits, table.rewrite("DAY DESC").commits) == (1, 0)
    plan = table.plan_rewrite(["day DESC NULLS LAST"])
    assert (plan.changes, plan.sorted_files, str(plan)) == (False, 1, "main.t: no file to sort by day DESC NULLS LAST")
    table.append(pa.table({"id": [1], "day": [1]}))
    assert table.plan_rewrite("day desc").files == 2, "the whole table is sorted again"
    assert table.rewrite("day desc").commits == 1
    assert table.rewrite("day").commits == 1, "another order"
    table.delete("id = 7")
    assert table.rewrite("day").commits == 1


def test_rewrite_continues_after_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition is one commit, first of those with most files."""
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "kind": "VARCHAR"}, partitioned_by=["kind"])
        for kinds in ("a", "ab", "abc"):
            table.append(pa.table({"id": [3, 1, 2][: len(kinds)], "kind": list(kinds)}))
        assert (table.rewrite("id", deadline=dt.timedelta(0)).commits, lake.snapshot_id) == (0, 4)
        monkeypatch.setattr("lakeconf.lake.limits.TimeLimit.is_over", property(lambda _: lake.snapshot_id > 5))
        done = table.rewrite("id", deadline=dt.timedelta(hours=1))
        assert (done.commits, done.complete, done.files_before, done.files_after) == (2, False, 6, 3)
        monkeypatch.undo()
        assert [(file.partition, file.begin_snapshot) for file in table.files()][1:] == [(("a",), 5), (("b",), 6)]
        assert table.plan_rewrite("id").sorted_files == 2
        assert table.rewrite("id").complete


def test_rewrite_after_its_deadline_commits_nothing(tmp_path: Path) -> None:
    """Not even rows of the catalog to files."""
    with store_of(tmp_path, data_inlining_row_limit=5).open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        run_plain(lake, "INSERT INTO t VALUES (2), (1)")
        before = lake.refresh()
        assert lake.table("t").rewrite("id", deadline=dt.timedelta(0)).commits == 0
        assert lake.refresh() == before
        assert lake.table("t").rewrite("id").files_after == 1


def test_order_of_the_table_is_the_default(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake:
        lake.create_table("t", {"id": "BIGINT", "day": "BIGINT"}, sorted_by=["day DESC", "id"])
        lake.table("t").append(pa.table({"id": [1, 2], "day": [1, 2]}))
        plan = lake.table("t").plan_rewrite()
        assert plan.sorted_by == ("day DESC NULLS LAST", "id ASC NULLS LAST")
        lake.table("t").rewrite()
        info = json.loads(lake.snapshots()[-1].extra_info or "")
        assert info["extra"] == {"sorted_by": ["day DESC NULLS LAST", "id ASC NULLS LAST"]}
        assert (info["committer"], lake.snapshots()[-1].message) == ("staged", "sort")
        lake.create_table("u", {"id": "BIGINT"})
        with pytest.raises(SchemaError, match=r"main.u has no sort order"):
            lake.table("u").rewrite()


def with_nulls(small: Lake) -> int:
    """The table `p`, with partitions that have only NULLs or only NaN in `v`; the number of commits of a rewrite."""
    kinds = {"a": "1.5", "b": "NULL", "c": "'nan'", "d": "2.5"}
    table = small.create_table("p", {"id": "BIGINT", "kind": "VARCHAR", "v": "DOUBLE"}, partitioned_by=["kind"])
    for first in (0, 20):
        for number, (kind, value) in enumerate(kinds.items()):
            ids = f"range({first + number * 3}, {first + number * 3 + 3}) r(i)"
            run_plain(small, f"INSERT INTO p SELECT i, '{kind}', {value} FROM {ids}")
    small.refresh()
    return table.plan_rewrite("id").commits


def low_values(lake: Lake) -> tuple[int, int]:
    """The number of rows with v < 2 that DuckDB finds with statistics, and without."""
    counted = "SELECT count(*) FROM {} WHERE v < 2"
    ((found,),), ((all_,),) = (
        lake._session.writer.rows(counted.format(one)) for one in ("dev.p", "(FROM dev.p LIMIT 100000)")
    )
    return found, all_


@pytest.mark.parametrize("deleted", ["", "id = 0"])
def test_bounds_stay_if_a_partition_has_no_values(small: Lake, deleted: str) -> None:
    """DuckLake forgets the bounds of the table in a rewrite of one partition, if a file of another one has none."""
    assert with_nulls(small) == 4
    if deleted:
        small.table("p").delete(deleted)
    done, before = small.table("p").rewrite("id"), contents(small, "p")
    assert done.complete
    run_plain(small, "INSERT INTO p VALUES (99, 'e', 7)")
    assert low_values(small) == (6 - bool(deleted),) * 2
    run_plain(small, "INSERT INTO p VALUES (100, 'e', NULL)")
    small.table("p").rewrite("id")
    run_plain(small, "INSERT INTO p VALUES (101, 'f', 9)")
    assert low_values(small) == (6 - bool(deleted),) * 2
    assert contents(small, "p")[: len(before)] == before


def test_files_without_values_that_others_add_meanwhile_are_a_conflict(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_nulls(small)
    before = contents(small, "p")
    with monkeypatch.context() as patch, pytest.raises(CommitConflictError, match="without values in the column 'v'"):  # noqa: PT012
        at_staged_commit(patch, before=lambda: run_plain(small, "INSERT INTO p VALUES (99, 'a', NULL)"))
        small.table("p").rewrite("id")
    assert contents(small, "p")[:-1] == before
    small.table("p").rewrite("id")
    run_plain(small, "INSERT INTO p VALUES (100, 'e', 7)")
    assert low_values(small) == (6, 6)


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (1000, 3)", "CREATE TABLE u (id BIGINT)"])
def test_rows_that_others_add_meanwhile_stay(small: Lake, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(small, "t")
    with monkeypatch.context() as patch:
        at_staged_commit(patch, before=lambda: run_plain(small, statement))
        assert small.table("t").rewrite("day").commits == 1
    after = contents(small, "t")
    assert after[: len(before)] == before
    assert len(after) == len(before) + statement.startswith("INSERT")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE id = 5",
        "UPDATE t SET day = 100 WHERE id = 5",
        "CALL ducklake_merge_adjacent_files('dev', 't')",
        "ALTER TABLE t ADD COLUMN more INTEGER",
        "DROP TABLE t",
    ],
)
@pytest.mark.parametrize("inlined", [0, 10])
def test_changes_of_others_are_conflicts(
    tmp_path: Path, statement: str, inlined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, also if the other writer records its deletes in the catalog, and no file is left."""
    with store_of(tmp_path, data_inlining_row_limit=inlined).open() as lake:
        lake.create_table("t", {"id": "BIGINT", "day": "BIGINT"})
        for number in range(3):
            run_plain(lake, f"INSERT INTO t SELECT i, i % 7 FROM range({number * 30}, {number * 30 + 30}) AS r(i)")
        lake.refresh()
        with monkeypatch.context() as patch:
            at_staged_commit(patch, before=lambda: run_plain(lake, statement))
            with pytest.raises(CommitConflictError, match="another writer"):
                lake.table("t").rewrite("day")
        left = [path for path in (tmp_path / "data").rglob("*.parquet") if "lakeconf-" in str(path)]
        assert left == []
        lake.refresh()
        if not statement.startswith("DROP"):
            assert len(contents(lake, "t")) == 90 - statement.startswith("DELETE")
            assert lake.table("t").rewrite("day").commits == 1
            assert len(contents(lake, "t")) == 90 - statement.startswith("DELETE")


@pytest.mark.parametrize("partitioned_by", [[], ["day"]])
def test_files_in_a_bucket_are_sorted_or_removed(
    s3_server: S3Server, tmp_path: Path, partitioned_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(s3_server))).get_store("dev")
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "day": "BIGINT"}, partitioned_by=partitioned_by)
        for number in range(3):
            table.append(pa.table({"id": [number, 9 - number], "day": [7, 7]}))
        before, listed = contents(lake, "t"), f"SELECT file FROM glob('{lake._session.reader.data_path}**') ORDER BY 1"
        files = lake._session.writer.rows(listed)
        with monkeypatch.context() as patch, pytest.raises(CommitConflictError):  # noqa: PT012
            at_staged_commit(patch, before=lambda: run_plain(lake, "DELETE FROM t WHERE id = 2"))
            table.rewrite("id")
        (added,) = {*lake._session.writer.rows(listed)} - {*files}
        assert added[0].endswith("-delete.parquet")
        assert table.rewrite("id").files_after == 1
        assert contents(lake, "t") == [row for row in before if row.split(", ")[1] != "'2'"]
        assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []


def test_rewrite_whose_reply_was_lost_succeeds(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(small, "t")

    def lost() -> None:
        raise QueryError("the reply was lost")

    with monkeypatch.context() as patch:
        at_staged_commit(patch, after=lost)
        assert small.table("t").rewrite("day").commits == 1
    assert contents(small, "t") == before
    assert small.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []


@pytest.mark.parametrize("change", [("rowid AS", "rowid + 1 AS"), (" ORDER BY", " WHERE id > 0 ORDER BY")])
def test_files_with_other_rows_are_refused(
    small: Lake, change: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rows = contents(small, "t"), Connection.rows

    def wrong(self: Connection, sql: str, *rest: Any) -> Any:
        return rows(self, sql.replace(*change) if sql.startswith("COPY (SELECT") else sql, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "rows", wrong)
        with pytest.raises(CommitError, match=r"the new files of main.t have other rows: nothing was written"):
            small.table("t").rewrite("day")
    assert contents(small, "t") == before
    assert [file.begin_snapshot for file in small.table("t").files()] == [2, 3, 4, 5]


def test_tables_whose_ids_cannot_be_kept_are_refused(small: Lake, tmp_path: Path) -> None:
    small.create_table("hides", {"id": "BIGINT", "rowid": "BIGINT"}).append(pa.table({"id": [1], "rowid": [5]}))
    with pytest.raises(UnsupportedError, match="a column hides the row ids"):
        small.table("hides").rewrite("id")
    small._session.committer = "public"
    with pytest.raises(UnsupportedError, match="committer is public"):
        small.table("t").rewrite("day")
    with pytest.raises(LakeconfError, match="pinned at snapshot 2"):
        small.at(version=2).table("t").rewrite("day")
    with small.transaction() as tx, pytest.raises(LakeconfError, match="a transaction is open"):
        tx.table("t").rewrite("day")
    (tmp_path / "other").mkdir()
    with store_of(tmp_path / "other", encrypted=True).open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [2, 1]}))
        with pytest.raises(UnsupportedError, match="the files are encrypted"):
            lake.table("t").rewrite("id")


def test_empty_tables_have_nothing_to_sort(small: Lake) -> None:
    table = small.create_table("u", {"id": "BIGINT"})
    assert table.rewrite("id").commits == 0
    table.append(pa.table({"id": [1]}))
    table.delete("id = 1")
    assert table.rewrite("id").complete


def test_words_that_ducklake_replaces_are_refused(small: Lake) -> None:
    small.create_table("u", {"name": "VARCHAR"})
    run_plain(small, "INSERT INTO u VALUES ('{SNAPSHOT' || '_ID}')")
    small.refresh()
    with pytest.raises(SchemaError, match=r"a value of main.u contains \{SNAPSHOT_ID\}"):
        small.table("u").rewrite("name")


def test_random_orders_keep_all_rows(small: Lake) -> None:
    chance = Random(5)  # noqa: S311 - the same orders every time
    before = contents(small, "t")
    for _ in range(4):
        keys = [f"{name} {chance.choice(('asc', 'desc'))}" for name in chance.sample(("id", "day"), 2)]
        small.table("t").rewrite(keys)
        assert contents(small, "t") == before
