"""lakeconf returns the right rows of each open issue, or stops with an error before anything is written."""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import ids, on_catalog, rows, store_of
from upstream import DOUBLED, MERGED_TWICE, PROMOTED, WITH_NAN

from lakeconf.errors import (
    AuditError,
    CatalogError,
    CommitConflictError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow("on_spark")


def made(store: Store, statements: Sequence[str]) -> Store:
    """The store, after statements of plain DuckDB."""
    with store.connect() as plain:
        for statement in statements:
            plain.execute(statement.format(lake="dev"))
    return store


def found(lake: Lake, condition: str) -> list[int]:
    """The ids that a scan finds, after a check that a query finds the same."""
    scanned = sorted(lake.table("t").scan(where=condition).collect("pyarrow")["id"].to_list())
    assert [id_ for (id_,) in rows(lake, f"SELECT id FROM t WHERE {condition}")] == scanned
    return scanned


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return on_catalog(request, tmp_path)


@pytest.mark.parametrize("inlined", [0, 10])
@pytest.mark.parametrize(
    ("former", "now", "value", "conditions"),
    [
        ("INTEGER", "DOUBLE", "2", {"v > 1.5": 1, "v < 2.5": 1, "v <> 1.5": 1, "v = 1.5": 0, "v IN (1.5, 2.0)": 1}),
        ("FLOAT", "DOUBLE", "0.1", {"v > 0.1": 1, "v = 0.1": 0}),
        ("INTEGER", "DECIMAL(12, 2)", "2", {"v > 1.5": 1}),
        ("DATE", "TIMESTAMP", "'2024-01-01'", {"v < TIMESTAMP '2024-01-01 10:00:00'": 1}),
    ],
)
def test_rows_before_a_promotion_are_found(
    tmp_path: Path, engine: Any, former: str, now: str, value: str, conditions: dict[str, int], inlined: int
) -> None:
    """duckdb#24900 and ducklake#1307."""
    statements = [
        f"CREATE TABLE dev.t (id INTEGER, v {former})",
        f"INSERT INTO dev.t VALUES (1, {value})",
        f"ALTER TABLE dev.t ALTER v SET DATA TYPE {now}",
    ]
    with made(store_of(tmp_path, data_inlining_row_limit=inlined), statements).open(engine) as lake:
        assert {condition: len(found(lake, condition)) for condition in conditions} == conditions
        for sql in f"DELETE FROM t WHERE {next(iter(conditions))}", "UPDATE t SET id = 5 WHERE v IS NOT NULL":
            with pytest.raises(UnsupportedError, match="DuckLake would miss rows"):
                lake.execute(sql)
        lake.execute("UPDATE t SET v = v WHERE id = 1")
        lake.table("t").delete(next(iter(conditions)))
        assert ids(lake) == []


def test_a_promoted_column_behind_a_view_is_an_error_until_its_rows_are_written_again(tmp_path: Path) -> None:
    with made(store_of(tmp_path), PROMOTED).open() as lake:
        lake.create_view("seen", "SELECT id, v FROM t")
        with pytest.raises(UnsupportedError, match="through a view") as error:
            lake.sql("SELECT id FROM seen WHERE v > 1.5")
        assert "table.overwrite(table.scan())" in (error.value.hint or "")
        lake.table("t").overwrite(lake.table("t").scan())
        assert rows(lake, "SELECT id FROM seen WHERE v > 1.5") == [(1,)]
        lake.execute("DELETE FROM t WHERE v > 1.5")
        assert ids(lake) == []


@pytest.mark.parametrize("condition", ["v <> 1", "NOT (v = 1)", "v <> 1 AND id > 0"])
def test_nan_beside_one_number_is_found(tmp_path: Path, engine: Any, condition: str) -> None:
    """ducklake#1264."""
    with made(store_of(tmp_path), WITH_NAN).open(engine) as lake:
        assert found(lake, condition) == [2]
        lake.table("t").delete(condition)
        assert ids(lake) == [1]


def test_older_snapshots_have_their_own_statistics(tmp_path: Path, engine: Any) -> None:
    """ducklake#1377."""
    statements = [
        "CREATE TABLE dev.t (id INTEGER, v INTEGER)",
        "INSERT INTO dev.t VALUES (1, NULL), (2, 1)",
        "DELETE FROM dev.t WHERE v IS NULL",
        "CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0)",
    ]
    with made(store_of(tmp_path), statements).open(engine) as lake:
        assert found(lake.at(version=2), "v IS NULL") == [1]
        assert rows(lake.at(version=2), "SELECT count(v) FROM t") == [(1,)]


def test_a_compaction_brings_no_deleted_rows_back(catalog: dict[str, Any], tmp_path: Path) -> None:
    """ducklake#1385."""
    for type_ in ("DOUBLE", "DECIMAL(10, 2)", "INTEGER"):
        statements = [
            f"CREATE OR REPLACE TABLE dev.t (id INTEGER, v {type_})",
            "ALTER TABLE dev.t SET SORTED BY (v ASC)",
            "INSERT INTO dev.t VALUES (1, 9), (2, 10)",
            "DELETE FROM dev.t WHERE id = 1",
        ]
        with made(store_of(tmp_path, catalog, data_inlining_row_limit=10), statements).open() as lake:
            lake.maintenance.compact()
            assert ids(lake) == [2]


def test_the_change_feed_shows_each_change_once(tmp_path: Path, engine: Any) -> None:
    """ducklake#1387."""
    with made(store_of(tmp_path), MERGED_TWICE).open(engine) as lake:
        feed = lake.table("t").changes(2, 2).collect("pyarrow")
        assert sorted(zip(feed["rowid"].to_list(), feed["change_type"].to_list(), strict=True)) == [
            (0, "update_postimage"),
            (0, "update_preimage"),
            (1, "delete"),
            (3, "insert"),
        ]


# Only one connection at a time can open a DuckDB catalog.
@pytest.mark.parametrize("catalog", ["sqlite", "postgres"], indirect=True)
def test_upserts_that_delete_nothing_conflict(catalog: dict[str, Any], tmp_path: Path) -> None:
    """ducklake#1393."""
    store = made(store_of(tmp_path, catalog), ["CREATE TABLE {lake}.t (id INTEGER)"])

    def upsert(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.table("t").delete("id = 1")
            tx.table("t").append([{"id": 1}])

    with store.open() as first, store.open() as second:
        upsert(first)
        with pytest.raises(CommitConflictError):
            upsert(second)
        assert ids(first) == [1]


def test_a_delete_is_not_lost_under_a_merge_whose_snapshots_expired(tmp_path: Path, engine: Any) -> None:
    """ducklake#1472."""
    statements = ["CREATE TABLE {lake}.t (id INTEGER)", "INSERT INTO {lake}.t VALUES (1)"]
    store = made(store_of(tmp_path), statements)
    with store.open(engine) as first, store.open() as second:
        assert ids(first) == [1]
        second.table("t").append([{"id": 2}])
        second.maintenance.compact()
        second.create_table("other", {"id": "INTEGER"})
        second.maintenance.expire_snapshots(older_than=datetime.timedelta(0), force=True)
        with pytest.raises(SnapshotNotFoundError):
            first.table("t").delete("id = 1")
        first.refresh()
        first.table("t").delete("id = 1")
        assert ids(first) == [2]


STRUCTS = {
    "STRUCT(f VARCHAR)": {"f": "it's"},
    "STRUCT(f STRUCT(g VARCHAR))": {"f": {"g": "a\\b"}},
    "STRUCT(f DATE, g INTEGER)": {"f": datetime.date(2024, 1, 1), "g": 1},
    "STRUCT(f DOUBLE)": {"f": float("nan")},
    "STRUCT(f BLOB)": {"f": b"ab"},
}
KEPT = {
    "STRUCT(f VARCHAR, g INTEGER)": {"f": 'say "a, b"', "g": 1},
    "STRUCT(f VARCHAR)[]": [{"f": "it's"}],
    "STRUCT(f DATE)": {"f": None},
}
WRITES: dict[str, Callable[[Lake, Any], Any]] = {
    "append": lambda lake, value: lake.table("t").append([{"id": 2, "v": value}]),
    "merge": lambda lake, value: lake.table("t").merge([{"id": 1, "v": value}], on="id"),
    "overwrite": lambda lake, value: lake.table("t").overwrite([{"id": 1, "v": value}], where="id = 1"),
    "execute": lambda lake, value: lake.execute("INSERT INTO t FROM given", given=[{"id": 2, "v": value}]),
}


@pytest.mark.parametrize(
    ("type_", "write"),
    [*((type_, "append") for type_ in (*STRUCTS, *KEPT)), *(("STRUCT(f VARCHAR)", w) for w in WRITES)],
)
def test_structs_stay_whole_in_the_catalog(catalog: dict[str, Any], tmp_path: Path, type_: str, write: str) -> None:
    """ducklake#1435."""
    store, value = store_of(tmp_path, catalog, data_inlining_row_limit=10), (STRUCTS | KEPT)[type_]
    with store.open() as lake:
        lake.create_table("t", {"id": "INTEGER", "v": type_})
        lake.execute("INSERT INTO t VALUES (1, NULL)")
        if type_ in STRUCTS and catalog["type"] != "duckdb":
            with pytest.raises(UnsupportedError, match="loses values in the structs of the column 'v'") as error:
                WRITES[write](lake, value)
            assert rows(lake, "FROM t") == [(1, None)]
            follow(store, error.value)
    with store.open() as lake:
        WRITES[write](lake, value)
        assert repr(value) in {repr(v) for _, v in rows(lake, "FROM t")}


def test_a_new_table_with_structs_has_its_own_hint(tmp_path: Path) -> None:
    store = store_of(tmp_path, data_inlining_row_limit=10)
    with store.open() as lake:
        with pytest.raises(UnsupportedError, match="loses values in the structs") as error, lake.transaction() as tx:
            tx.create_table("t", {"v": "STRUCT(f VARCHAR)"}).append([{"v": {"f": "it's"}}])
        assert lake.tables() == []
        follow(store, error.value)
    with store.open() as lake:
        lake.create_table("t", {"v": "STRUCT(f VARCHAR)"}).append([{"v": {"f": "it's"}}])
        assert rows(lake, "SELECT v.f FROM t") == [("it's",)]


def follow(store: Store, error: LakeconfError) -> None:
    """Runs the statement that the hint of an error ends with."""
    with store.connect() as plain:
        plain.execute(str(error.hint).partition(": ")[2])


def test_rows_deleted_twice_at_once_are_an_error_until_a_compaction(tmp_path: Path, engine: Any) -> None:
    """ducklake#1215."""
    store = store_of(tmp_path, {"type": "duckdb", "uri": str(tmp_path / "catalog")}, data_inlining_row_limit=10)
    made(store, ["CREATE TABLE dev.t AS SELECT i AS id FROM range(100) AS r(i)"])
    with store.connect() as plain, plain.cursor() as small, plain.cursor() as large:
        for cursor, count in ((small, 5), (large, 20)):
            cursor.execute("BEGIN")
            cursor.execute(f"DELETE FROM dev.t WHERE id < {count}")
        small.execute("COMMIT")
        large.execute("COMMIT")
    with store.open(engine) as lake:
        for delete in (lambda: lake.table("t").delete("id = 99"), lambda: lake.execute("DELETE FROM t WHERE id = 99")):
            with pytest.raises(CatalogError, match="deleted the same rows of main"):
                delete()
        lake.maintenance.compact()
        lake.table("t").delete("id = 99")
        assert ids(lake) == list(range(20, 99))


def test_rows_with_null_stay_in_the_catalog_after_drop_not_null(tmp_path: Path) -> None:
    """ducklake#1383."""
    statements = [
        "CREATE TABLE {lake}.t (id INTEGER, v VARCHAR NOT NULL)",
        "INSERT INTO {lake}.t VALUES (1, 'a')",
        "ALTER TABLE {lake}.t ALTER v DROP NOT NULL",
        "INSERT INTO {lake}.t VALUES (2, NULL)",
    ]
    with made(store_of(tmp_path, data_inlining_row_limit=10), statements).open() as lake:
        with pytest.raises(SchemaError, match=r"cannot flush .*NOT NULL constraint failed: t\.v") as error:
            lake.maintenance.compact()
        assert error.value.hint == "create a new table with these rows if they must be in files"
        assert rows(lake, "FROM t") == [(1, "a"), (2, None)]
        lake.create_table("copy", {"id": "INTEGER", "v": "VARCHAR"}).append(lake.table("t").scan())
        lake.drop_table("t")
        lake.maintenance.compact()
        assert rows(lake, "FROM copy") == [(1, "a"), (2, None)]


def test_a_version_whose_rows_a_flush_has_doubled_is_an_error(
    catalog: dict[str, Any], tmp_path: Path, engine: Any
) -> None:
    """ducklake#1406."""
    store = made(
        store_of(tmp_path, catalog, data_inlining_row_limit=10), [*DOUBLED, "CREATE TABLE {lake}.copy (id INT)"]
    )
    with store.open(engine) as lake:
        assert [len(ids(lake.at(version=version))) for version in (1, 2, 3, 5, 6)] == [100, 99, 99, 98, 98]
        lake.create_view("seen", "SELECT id FROM t AT (VERSION => 4)")
        reads: dict[str, Callable[[], Any]] = {
            "scan": lambda: ids(lake.at(version=4)),
            "query": lambda: rows(lake.at(version=4), "SELECT count(id) FROM t"),
            "changes": lambda: lake.table("t").changes(3).collect("pyarrow"),
            "restore": lambda: lake.restore("t", version=4),
            "AT": lambda: rows(lake, "SELECT count(id) FROM t AT (VERSION => 4)"),
            "view": lambda: rows(lake, "FROM seen"),
            "statement": lambda: lake.execute("INSERT INTO copy SELECT id FROM t AT (VERSION => 4)"),
        }
        for name, read in reads.items():
            with pytest.raises((CatalogError, UnsupportedError), match=r"two (live )?delete files|not known which"):
                pytest.fail(f"{name}: {read()}")
        assert rows(lake.at(version=3), "SELECT count(id) FROM t") == [(99,)]
        assert rows(lake, "SELECT count(id) FROM t") == [(98,)]
        assert ids(lake, "copy") == []


def test_a_table_with_two_live_delete_files_of_one_file_is_an_error(
    catalog: dict[str, Any], tmp_path: Path, engine: Any
) -> None:
    """DuckLake commits two concurrent deletes, and returns the rows of the file twice."""
    deletes = [f"DELETE FROM {{lake}}.t WHERE id = {row}" for row in (1, 2)]
    setup = ["CREATE TABLE {lake}.t AS SELECT range AS id FROM range(100)", "CREATE TABLE {lake}.other (id BIGINT)"]
    store = made(store_of(tmp_path, catalog, data_inlining_row_limit=0), [*setup, *deletes])
    files = "__ducklake_metadata_dev.ducklake_delete_file"
    with store.open(engine) as lake:
        lake.create_view("seen", "SELECT id FROM t")
        assert len(ids(lake)) == 98
        with store.connect() as plain:
            plain.execute(f"INSERT INTO {files} SELECT * REPLACE (delete_file_id + 100 AS delete_file_id) FROM {files}")
            plain.execute("INSERT INTO dev.other VALUES (1)")
            assert len(plain.execute("SELECT id FROM dev.t").fetchall()) > 100
        lake.refresh()
        reads: dict[str, Callable[[], Any]] = {
            "scan": lambda: ids(lake),
            "query": lambda: rows(lake, "SELECT count(id) FROM main.t"),
            "view": lambda: rows(lake, "FROM seen"),
            "pinned": lambda: rows(lake.at(version=lake.snapshot_id), "SELECT count(id) FROM t"),
            "statement": lambda: lake.execute("INSERT INTO other SELECT id FROM t"),
            "write": lambda: lake.table("other").append(lake.table("t").scan()),
        }
        for name, read in reads.items():
            with pytest.raises(CatalogError, match=r"two live delete files"):
                pytest.fail(f"{name}: {read()}")
        assert rows(lake, "SELECT id FROM other") == [(1,)]
        with store.connect() as plain:
            plain.execute(f"DELETE FROM {files} WHERE delete_file_id > 100")
        lake.refresh()
        assert len(ids(lake)) == rows(lake, "SELECT count(*) FROM t")[0][0] == 98


@pytest.mark.parametrize("inlined", [0, 10])
def test_a_transaction_does_not_read_earlier_versions_of_what_it_has_changed(tmp_path: Path, inlined: int) -> None:
    """ducklake#1073."""
    statements = ["CREATE TABLE {lake}.t AS FROM range(9) AS r(id)", "CREATE TABLE {lake}.copy (id INT)"]
    store = made(store_of(tmp_path, data_inlining_row_limit=inlined), statements)
    changes: Sequence[Callable[[Lake], Any]] = (
        lambda tx: tx.table("t").delete("id = 1"),
        lambda tx: tx.execute("UPDATE t SET id = 50 WHERE id = 1"),
        lambda tx: tx.table("t").append([{"id": 9}]),
        lambda tx: tx.table("t").merge([{"id": 9}], on="id"),
    )
    with store.open() as lake:
        lake.create_view("seen", "SELECT id FROM t AT (VERSION => 1)")
        reads: Sequence[Callable[[Lake], Any]] = (
            lambda tx: tx.execute("INSERT INTO copy SELECT id FROM t AT (VERSION => 1)"),
            lambda tx: tx.execute("INSERT INTO copy FROM seen"),
            lambda tx: tx.audit("fewer", "SELECT count(*) AS n FROM t AT (VERSION => 1) HAVING n <> 9"),
        )

        def commit(*steps: Callable[[Lake], Any]) -> None:
            with lake.transaction() as tx:
                for step in steps:
                    step(tx)

        for change, read in itertools.product(changes, reads):
            with pytest.raises((UnsupportedError, AuditError), match=r"has changed rows of main\.t"):
                commit(change, read)
        assert (ids(lake), ids(lake, "copy")) == ([*range(9)], [])
        commit(reads[0], changes[0])
        assert (ids(lake), ids(lake, "copy")) == ([0, *range(2, 9)], [*range(9)])
