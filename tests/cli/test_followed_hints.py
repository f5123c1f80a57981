"""A hint that names a call, a command or an option is followed literally, and the problem is gone."""

from __future__ import annotations

import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from plain_sql import plain_rows, run_plain
from source_tree import REPOSITORY
from written_hints import CALL, COMMAND, OPTION, TREES, hints, whole

import lakeconf
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake

    Case = Callable[[Lake, Any], None]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
CASES: dict[str, Case] = {}
# Hints that another test follows.
ELSEWHERE = {
    "drop it first: lake.drop_table(": "tests/lake/branches/test_branches.py",
    "drop it first: lakeconf branch --drop": "tests/lake/branches/test_branches.py",
    "open the lake again: store.open()": "tests/lake/branches/test_branches.py",
    "make it: lakeconf branch": "tests/lake/branches/test_branches.py",
    "drop the branch with `lakeconf branch --drop STORE`, and make it again": "tests/lake/branches/test_branches.py",
    "run `lakeconf branch PARENT STORE` again for that branch": "tests/lake/branches/test_branches.py",
    "make another branch, and repeat the change there": "tests/lake/branches/test_branches.py",
    "open the branch by its own store, with branch_of": "tests/lake/branches/test_branches.py",
    "move the rows to files: lake.maintenance.compact()": "tests/commit/test_hidden_row_ids.py",
    "write its files again without them: lake.maintenance.compact()": "tests/upstream/test_lakeconf.py",
    "read it without AT: lake.at(version=…).sql(…)": "tests/upstream/test_lakeconf.py",
    "give them other ids, by writing the rows again: table.overwrite(table.scan())": "tests/lake/test_merging.py",
    "omit --adopt-later": "tests/transfer/test_later_files.py",
    "pass --store … to use the store": "tests/cli/test_commands.py",
    "pass force=True, or --force, if nothing else uses the lake": "tests/lake/test_maintenance.py",
    "run, if no other lake uses this data path: lakeconf doctor": "tests/lake/test_cleanup.py",
    "confirm the move if no other catalog uses this data path: lakeconf doctor": "tests/guard/test_lost_catalog.py",
    "confirm that this catalog is the right one: lakeconf doctor": "tests/guard/test_lost_catalog.py",
    "delete that file if no other lake uses this data path": "tests/guard/test_lost_catalog.py",
    "If the other lake no longer exists, delete that file and run: lakeconf doctor": "tests/guard/test_lost_catalog.py",
    "run with --rebuild to compute all rows again": "tests/pipelines/test_undone_runs.py",
    "--rebuild deletes the rows that cannot be computed from them again": "tests/pipelines/test_run.py",
    "replace all rows: lakeconf run … --rebuild": "tests/pipelines/test_run.py",
    "set --from to a time before --to": "tests/pipelines/test_plan.py",
    "run the same `lakeconf move` again": "tests/transfer/test_killed_moves.py",
    "make one with `lakeconf backup --to`": "tests/transfer/test_backups.py",
    "write: with lake.transaction() as tx: ……": "tests/lake/test_opening.py",
    "replace it with lake.create_view(…), or drop it with lake.drop_view(…)": "tests/lake/test_named_views.py",
    "write it again: lakeconf export spark": "tests/integrations/test_exports.py",
    "lake.stream_sink(": "tests/lake/test_streaming.py",
    "look for the token": "tests/commit/test_recovery.py",
    "run lakeconf copy first": "tests/cli/test_copy.py",
    "use `lakeconf copy`": "tests/cli/test_copy.py",
    "`lakeconf copy` copies tables": "tests/cli/test_copy.py",
}
# Hints that no test follows, and why.
LEFT = {
    "use a separate file for the catalog": "the path of a file",
    "name another role: --to NAME": "the name of a role",
    "omit --untrusted": "one option less",
    "with DuckDB: store.open()": "each test of a lake opens it so",
    "use DuckDB: store.open()": "each test of a lake opens it so",
    "open the lake with DuckDB to write to it: store.open()": "each test of a lake opens it so",
    "read the table with DuckDB, store.open()": "each test of a lake opens it so",
    "open the lake with a session": "each test of Spark opens it so",
    "open the lake with the frame's own session": "each test of Spark opens it so",
    "use another session: store.open(spark.newSession())": "each test of Spark opens it so",
    "read the table with DuckDB: store.open()": "each test of a lake opens it so",
    "read them with DuckDB: lake.sql(…)": "each test of a lake reads so",
    "read the changes with lake.table(…).changes(first, last)": "each test of changes reads them so",
    "map=store.spark_conf())": "tests/engines/spark/test_hadoop.py starts sessions so",
    "use IS NULL or IS NOT NULL, filter after the scan, or run a query with lake.sql()": "of a step that falls back",
    "use other syntax, or write the frames to tables and use lake.sql(…)": "of a query that only Spark understands",
    "update DuckDB's extension sqlite_scanner": "needs an older extension",
    "run `lakeconf verify --catalog --store": "such a lake cannot be opened; tests/transfer/test_repair_catalog.py",
    "run `lakeconf verify --catalog`, and do first what the other hints say": "of findings that no repair mends safely",
    "run `lakeconf doctor`: a column in the catalog may have lost its fields": "such a lake cannot be opened",
    "let DuckLake sort new files: lake.create_table(…, sorted_by=…)": "of types that only DuckLake writes",
    "write the rows again: lake.table(…).overwrite(…)": "of files that other programs have made",
    "restore the files from a backup": "needs the files",
    "restore the files, or choose another backup": "needs the files",
    "restore a backup of the catalog": "needs a backup",
    "load the rows instead: lakeconf load": "of a file that two readers read differently",
    "restore the checkpoint; or compare the source": "needs a backup",
    "run the stream with a classic session": "of Spark Connect",
    "filter the frame: .scan().filter(nw.col(…) + 1 > 2)": "each test of narwhals does",
}


def follows(hint: str) -> Callable[[Case], Case]:
    """Registers the case of a hint, by a part of it."""

    def register(case: Case) -> Case:
        CASES[hint] = case
        return case

    return register


def fails(hint: str, call: Callable[[], Any]) -> None:
    with pytest.raises(LakeconfError) as error:
        call()
    assert hint in str(error.value.hint)


@pytest.fixture
def lake(project: Path) -> Any:
    """A lake with a table `t` of two rows, and its project as the working folder."""
    del project
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
        yield lake


@pytest.mark.parametrize("hint", CASES)
def test_problem_is_gone(hint: str, lake: Lake, called: Any) -> None:
    CASES[hint](lake, called)


def ids(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.table("t").to_arrow(["id"]).to_pylist())


def by_another(lake: Lake, *statements: str) -> None:
    """Another client writes."""
    run_plain(lake, *statements)


@follows("call lake.refresh(), or omit `until`")
def changes_of_the_future(lake: Lake, called: Any) -> None:
    by_another(lake, "INSERT INTO t VALUES (3, 'c')")
    newest = lake.snapshot_id + 1
    fails("call lake.refresh(), or omit `until`", lambda: lake.table("t").changes(1, newest))
    assert len(lake.table("t").changes(1).to_native().fetchall()) == 2
    lake.refresh()
    assert len(lake.table("t").changes(1, newest).to_native().fetchall()) == 3


@follows("compare two snapshots of the table: lake.at(version=")
def rows_changed_twice(lake: Lake, called: Any) -> None:
    before = lake.snapshot_id
    by_another(lake, "BEGIN", "INSERT INTO t VALUES (3, 'c'), (4, 'd')", "UPDATE t SET v = 'x' WHERE id = 4", "COMMIT")
    after = lake.refresh()
    fails("compare two snapshots of the table: lake.at(version=", lambda: lake.table("t").changes(after))
    counts = [lake.at(version=version).table("t").scan().to_native().fetchall() for version in (before, after)]
    assert [len(rows) for rows in counts] == [2, 4]


@follows("list the snapshots with lake.snapshots(), or: lakeconf snapshots")
def no_snapshot(lake: Lake, called: Any) -> None:
    fails("list the snapshots with lake.snapshots()", lambda: lake.at(version=99))
    assert lake.at(version=lake.snapshots()[-1].snapshot_id).table("t").count() in (0, 2)


@follows('to change or delete all rows, use SQL: lake.execute("DELETE FROM …")')
def condition_without_columns(lake: Lake, called: Any) -> None:
    fails("name a column", lambda: lake.table("t").delete("true"))
    lake.execute("DELETE FROM t")
    assert ids(lake) == []


@follows("write the rows again as the table is now: table.overwrite(table.scan())")
def promoted_column(lake: Lake, called: Any) -> None:
    by_another(lake, "CREATE TABLE i (n INTEGER)", "INSERT INTO i VALUES (2)", "ALTER TABLE i ALTER n TYPE DOUBLE")
    lake.refresh()
    table = lake.table("i")
    fails("table.overwrite(table.scan())", lambda: lake.execute("DELETE FROM i WHERE n > 1.5 OR n < 0.5"))
    table.overwrite(table.scan())
    lake.execute("DELETE FROM i WHERE n > 1.5 OR n < 0.5")
    assert table.count() == 0


@follows("use methods such as lake.maintenance.compact(), .expire_snapshots(…) and .cleanup(…)")
def query_that_maintains(lake: Lake, called: Any) -> None:
    query = "FROM ducklake_merge_adjacent_files('dev')"
    fails("lake.maintenance.compact()", lambda: lake.sql(query))
    lake.table("t").append(ROWS)
    lake.maintenance.compact()
    assert len(lake.table("t").files()) == 1


@follows("call lake.refresh() and try again")
def conflict(lake: Lake, called: Any) -> None:
    rows = lake.table("t").scan().to_native()
    by_another(lake, "UPDATE t SET v = 'c' WHERE id = 1")
    fails("call lake.refresh() and try again", lambda: lake.table("t").overwrite(rows))
    lake.refresh()
    lake.table("t").overwrite(lake.table("t").scan())
    assert plain_rows(lake, "FROM t ORDER BY id") == [(1, "c"), (2, "b")]


@follows("call lake.refresh(), and write rows that fit the current table")
def changed_columns(lake: Lake, called: Any) -> None:
    def write() -> None:
        with lake.transaction() as transaction:
            transaction.table("t").append(ROWS)
            by_another(lake, "ALTER TABLE t ADD COLUMN n INTEGER")

    fails("write rows that fit the current table", write)
    lake.refresh()
    lake.table("t").append(ROWS.append_column("n", pa.array([1, 2], pa.int32())))
    assert lake.table("t").count() == 4


@follows("call lake.refresh() and use what exists")
def created_twice(lake: Lake, called: Any) -> None:
    def write() -> None:
        with lake.transaction() as transaction:
            transaction.create_table("u", ROWS)
            by_another(lake, "CREATE TABLE u (id BIGINT, v VARCHAR)")

    fails("call lake.refresh() and use what exists", write)
    lake.refresh()
    lake.table("u").append(ROWS)


@follows("read files with store.connect(), or load them first (lakeconf load)")
def query_of_a_file(lake: Lake, called: Any) -> None:
    lake.close()
    duckdb.sql("COPY (SELECT 3 AS id, 'c' AS v) TO 'rows.csv'")
    code, _, err = called("sql", "FROM 'rows.csv'")
    assert (code, "store.connect()" in err) == (1, True), err
    with lakeconf.init().get_store().connect() as connection:
        assert connection.execute("FROM 'rows.csv'").fetchall() == [(3, "c")]
    assert called("load", "rows.csv", "t", "--yes")[0] == 0


@follows("pass one: store.attach(duckdb.connect())")
def attached_to_something_else(lake: Lake, called: Any) -> None:
    lake.close()
    store = lakeconf.init().get_store()
    fails("store.attach(duckdb.connect())", lambda: store.attach("a.duckdb"))
    connection = duckdb.connect()
    store.attach(connection)
    assert connection.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@follows("open it again: store.open()")
def closed_lake(lake: Lake, called: Any) -> None:
    lake.close()
    fails("open it again: store.open()", lambda: lake.table("t").count())
    with lakeconf.init().get_store().open() as again:
        assert again.table("t").count() == 2


@follows("rename the column: table.evolve(rename={'rowid': …})")
def column_named_rowid(lake: Lake, called: Any) -> None:
    lake.table("t").evolve(rename={"v": "rowid"})
    merges_after_a_rename(lake, "rowid", "table.evolve(rename={'rowid'")


@follows("rename the column: table.evolve(rename={…: …})")
def column_that_no_expression_names(lake: Lake, called: Any) -> None:
    by_another(lake, "ALTER TABLE t RENAME v TO __lakeconf_v")
    lake.refresh()
    merges_after_a_rename(lake, "__lakeconf_v", "table.evolve(rename={")


def merges_after_a_rename(lake: Lake, column: str, hint: str) -> None:
    frame = pa.table({"id": [1], column: ["x"]})
    fails(hint, lambda: lake.table("t").merge(frame, on="id"))
    lake.table("t").evolve(rename={column: "v"})
    lake.table("t").merge(frame.rename_columns(["id", "v"]), on="id")
    assert plain_rows(lake, "FROM t ORDER BY id") == [(1, "x"), (2, "b")]


@follows("read the rows afterwards with lake.sql(…) or table.changes(…)")
def returning(lake: Lake, called: Any) -> None:
    fails("lake.sql(…) or table.changes(…)", lambda: lake.execute("DELETE FROM t WHERE id = 1 RETURNING id"))
    lake.execute("DELETE FROM t WHERE id = 1")
    (row,) = lake.table("t").changes(lake.snapshot_id).to_native().fetchall()
    assert "delete" in row


@follows("use lake.table(…), or pass if_not_exists=True")
def table_exists(lake: Lake, called: Any) -> None:
    fails("if_not_exists=True", lambda: lake.create_table("t", ROWS))
    lake.create_table("t", ROWS, if_not_exists=True).append(ROWS)
    assert lake.table("t").count() == 4


@follows("use lake.drop_view(…) for a view")
def view_dropped_as_a_table(lake: Lake, called: Any) -> None:
    lake.create_view("w", "SELECT id FROM t")
    fails("lake.drop_view(…)", lambda: lake.drop_table("w"))
    lake.drop_view("w")
    assert lake.views() == []


@follows("call lake.refresh() first")
def restore_to_the_future(lake: Lake, called: Any) -> None:
    by_another(lake, "INSERT INTO t VALUES (3, 'c')")
    newest = lake.snapshot_id + 1
    fails("call lake.refresh() first", lambda: lake.restore("t", version=newest))
    lake.refresh()
    lake.restore("t", version=newest)
    assert ids(lake) == [1, 2, 3]


@follows("call lake.refresh() and restore it again")
def restore_of_a_changed_table(lake: Lake, called: Any) -> None:
    version = lake.snapshot_id
    by_another(lake, "INSERT INTO t VALUES (3, 'c')")
    fails("call lake.refresh() and restore it again", lambda: lake.restore("t", version=version))
    lake.refresh()
    lake.restore("t", version=version)
    assert ids(lake) == [1, 2]


@follows("drop it first: lake.drop_view(…)")
def restore_over_a_view(lake: Lake, called: Any) -> None:
    version = lake.snapshot_id
    lake.drop_table("t")
    lake.create_view("t", "SELECT 1 AS id")
    fails("drop it first: lake.drop_view(…)", lambda: lake.restore("t", version=version))
    lake.drop_view("t")
    lake.restore("t", version=version)
    assert ids(lake) == [1, 2]


@follows("write: with lake.transaction() as tx: tx.audit(…)")
def audit_without_a_transaction(lake: Lake, called: Any) -> None:
    fails("with lake.transaction() as tx: tx.audit(…)", lambda: lake.audit("none", "FROM t WHERE false"))
    with lake.transaction() as tx:
        tx.audit("none", "FROM t WHERE false")


@follows("call lake.refresh(), read the table again and repeat the write")
def expired_meanwhile(lake: Lake, called: Any) -> None:
    first = lake.snapshot_id + 1

    def write() -> None:
        with lake.transaction() as transaction:
            transaction.table("t").delete("id = 1")
            by_another(lake, *["INSERT INTO t VALUES (1, 'c'), (2, 'd')"] * 2)
            by_another(lake, f"CALL ducklake_expire_snapshots('dev', versions => [{first}])")

    fails("read the table again and repeat the write", write)
    lake.refresh()
    lake.table("t").delete("id = 1")
    assert ids(lake) == [2, 2, 2]


# Commands.


@follows("name each column with AS, or use --format csv")
def columns_with_one_name(lake: Lake, called: Any) -> None:
    lake.close()
    query = "SELECT id, id FROM t WHERE id = 1"
    code, _, err = called("sql", query, "--format", "json")
    assert (code, "with AS, or use --format csv" in err) == (1, True)
    assert called("sql", "SELECT id AS a, id AS b FROM t WHERE id = 1", "--format", "json")[0] == 0
    assert called("sql", query, "--format", "csv")[0] == 0


@follows("use lakeconf maintain to maintain a lake, lakeconf tables or snapshots to inspect it")
def command_that_maintains(lake: Lake, called: Any) -> None:
    lake.close()
    code, _, err = called("sql", "FROM ducklake_cleanup_old_files('dev', cleanup_all => true)")
    assert (code, "use lakeconf maintain" in err) == (1, True), err
    assert [called(command)[0] for command in ("maintain", "tables", "snapshots")] == [0, 0, 0]


@follows("use lakeconf tables or snapshots to inspect the lake")
def query_of_the_catalog(lake: Lake, called: Any) -> None:
    lake.close()
    code, _, err = called("sql", "FROM __ducklake_metadata_dev.ducklake_table")
    assert (code, "use lakeconf tables or snapshots to inspect the lake" in err) == (1, True), err
    assert "t" in called("tables")[1]


@follows("choose another address or port: --listen :9465")
def port_in_use(lake: Lake, called: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = called("metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, "--listen :9465" in err) == (1, True), err


@follows("check the store's location if you expected a lake: lakeconf doctor --store")
def no_lake_yet(lake: Lake, called: Any) -> None:
    write_store("other", "other.sqlite")
    code, _, err = called("tables", "--store", "other")
    assert (code, "lakeconf doctor --store other" in err) == (1, True), err
    assert "other.sqlite" in "".join(called("doctor", "--store", "other")[1:])


@follows("list its tables with: lakeconf tables --store")
def no_table_to_compare(lake: Lake, called: Any) -> None:
    other_lake(pa.table({"id": pa.array([1], pa.int64())}))
    code, _, err = called("diff", "dev", "other", "nothing")
    assert (code, "lakeconf tables --store" in err) == (1, True), err
    assert "t" in called("tables", "--store", "dev")[1]


@follows("compare whole rows, without --on")
def keys_of_other_types(lake: Lake, called: Any) -> None:
    other_lake(pa.table({"id": ["1", "2"], "v": ["a", "b"]}))
    code, _, err = called("diff", "dev", "other", "t", "--on", "id")
    assert (code, "without --on" in err) == (1, True), err
    assert called("diff", "dev", "other", "t")[2] == ""


@follows("name all columns of the key with --on, or compare whole rows without --on")
def keys_with_several_rows(lake: Lake, called: Any) -> None:
    lake.table("t").append(ROWS)
    other_lake(ROWS)
    code, _, err = called("diff", "dev", "other", "t", "--on", "id")
    assert (code, "name all columns of the key" in err) == (1, True), err
    assert called("diff", "dev", "other", "t")[2] == ""


@follows("pass a day or more; or, if nothing else uses the lake, --force (force=True)")
def young_files(lake: Lake, called: Any) -> None:
    hour = timedelta(hours=1)
    fails("--force (force=True)", lambda: lake.maintenance.cleanup(older_than=hour))
    lake.maintenance.cleanup(older_than=timedelta(days=1))
    lake.maintenance.cleanup(older_than=hour, force=True)


@follows("drop it with DuckDB if another program created it: lakeconf reserves the schema")
def journal_of_another_program(lake: Lake, called: Any) -> None:
    by_another(lake, "CREATE SCHEMA lakeconf", "CREATE TABLE lakeconf.commits (id BIGINT)")
    lake.refresh()
    fails("drop it with DuckDB", lambda: lake.table("t").append(ROWS, idempotency_key="k"))
    by_another(lake, "DROP TABLE lakeconf.commits")
    lake.refresh()
    lake.table("t").append(ROWS, idempotency_key="k")
    assert lake.table("t").count() == 4


@follows("list the snapshots: lake.snapshots(), or lakeconf snapshots")
def query_of_no_snapshot(lake: Lake, called: Any) -> None:
    fails("list the snapshots", lambda: lake.sql("FROM t AT (VERSION => 99)").to_native().fetchall())
    newest = lake.snapshots()[-1].snapshot_id
    lake.sql(f"FROM t AT (VERSION => {newest})").to_native().fetchall()


@follows("read the table with store.connect().sql(")
def type_that_polars_lacks(lake: Lake, called: Any) -> None:
    by_another(lake, "CREATE TABLE b (v TIMETZ)", "INSERT INTO b VALUES ('10:00:00+00')")
    lake.close()
    store = lakeconf.init().get_store()
    fails("store.connect().sql(", lambda: lakeconf.scan_polars("dev", "b").collect())
    with store.connect() as connection:
        assert connection.sql("SELECT CAST(v AS VARCHAR) AS v FROM b").pl().rows() == [("10:00:00+00",)]


def write_store(name: str, catalog: str) -> None:
    with Path("lakeconf.toml").open("a") as file:
        file.write(
            f'[stores.{name}]\nmetadata_backend = {{ type = "sqlite", uri = "{catalog}" }}\n'
            f'storage_backend = {{ type = "local", path = "{name}" }}\n'
        )


def other_lake(rows: pa.Table) -> None:
    """A store `other` whose table `t` has these rows."""
    write_store("other", "other.sqlite")
    with lakeconf.init().get_store("other").open() as lake:
        lake.create_table("t", rows).append(rows)


def test_each_hint_is_followed_or_has_a_reason() -> None:
    texts = {whole(node) for tree in TREES.values() for node in hints(tree)}
    named = {text for text in texts if COMMAND.search(text) or CALL.search(text) or OPTION.search(text)}
    parts = [*CASES, *ELSEWHERE, *LEFT]
    assert sorted(text for text in named if not any(part in text for part in parts)) == []
    assert [part for part in parts if not any(part in text for text in named)] == []
    assert [path for path in ELSEWHERE.values() if not (REPOSITORY / path).exists()] == []
