"""A bucket key that a table got after its rows: DuckLake would look for them in the wrong files (ducklake#1414)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import config_of, on_catalog
from plain_sql import run_plain

import lakeconf
from lakeconf import Insert, Update
from lakeconf.errors import AuditError, UnsupportedError
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

pytestmark = [pytest.mark.slow("on_spark"), pytest.mark.prove("duckdb-on_spark", "postgres-on_spark")]

ROWS = pa.table({"id": pa.array(range(24), pa.int32()), "v": [f"v{number}" for number in range(24)]})
KEYS = {
    "none": [],
    "bucket": ["ALTER TABLE t SET PARTITIONED BY (bucket(8, id))"],
    "identity": ["ALTER TABLE t SET PARTITIONED BY (id)"],
}


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def catalog_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return lakeconf.init(config_of(tmp_path, on_catalog(request, tmp_path))).get_store()


@pytest.fixture
def lake(catalog_store: Store, engine: Any) -> Iterator[Lake]:
    with catalog_store.open(engine) as lake:
        yield lake


def made(lake: Lake, before: list[str] | tuple[str, ...] = ()) -> Lake:
    """The table `t`, whose key `bucket(4, id)` is newer than its rows."""
    lake.create_table("t", ROWS)
    run_plain(lake, "CALL set_option('data_inlining_row_limit', 0)", *before)
    lake.refresh()
    lake.table("t").append(ROWS)
    run_plain(lake, "ALTER TABLE t SET PARTITIONED BY (bucket(4, id))")
    lake.refresh()
    return lake


def ids(frame: nw.LazyFrame[Any]) -> list[int]:
    return sorted(frame.collect("pyarrow")["id"].to_list())


def everything(lake: Lake) -> dict[int, str]:
    rows = lake.table("t").to_arrow().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize("before", KEYS)
def test_scans_find_rows_that_are_older_than_the_key(lake: Lake, before: str) -> None:
    table = made(lake, KEYS[before]).table("t")
    for number in range(6):
        assert ids(table.scan(where=f"id = {number}")) == [number]
        assert ids(table.scan().filter(nw.col("id") == number)) == [number]
    assert ids(table.scan(where="id IN (1, 5) AND v <> 'v5'")) == [1]
    keys = table.scan(where="v IN ('v3', 'v4')").select("id")
    assert ids(table.scan().join(keys, on="id")) == [3, 4]
    # The snapshot before the key, and one after new rows.
    assert ids(lake.at(version=lake.snapshot_id - 1).table("t").scan(where="id = 1")) == [1]
    table.append(ROWS)
    assert ids(table.scan(where="id = 1")) == [1, 1]


def test_writes_find_rows_that_are_older_than_the_key(lake: Lake) -> None:
    table = made(lake).table("t")
    table.delete("id = 6")
    table.update({"v": "updated"}, where="id = 7")
    table.update({"v": nw.concat_str(nw.col("v"), nw.lit("!"))}, where="id = 8")
    table.overwrite(pa.table({"id": pa.array([10], pa.int32()), "v": ["overwritten"]}), where="id = 10")
    frame = pa.table({"id": pa.array([11, 12, 99], pa.int32()), "v": ["merged"] * 3})
    table.merge(frame, on="id", matched=[Update()], not_matched=Insert())
    wanted = {number: f"v{number}" for number in range(24) if number != 6}
    wanted |= {7: "updated", 8: "v8!", 10: "overwritten", 11: "merged", 12: "merged", 99: "merged"}
    assert everything(lake) == wanted
    with lake.transaction() as tx:
        tx.table("t").evolve(rename={"id": "key"})
        tx.table("t").delete("key = 13")
    assert sorted(table.to_arrow()["key"].to_pylist()) == sorted(wanted.keys() - {13})


@pytest.mark.parametrize("pinned", [False, True])
def test_queries_find_rows_that_are_older_than_the_key(lake: Lake, pinned: bool) -> None:
    made(lake)
    for name, rows in ("other", [1, 2]), ("v", []):
        lake.create_table(name, {"id": "INTEGER"}).append(pa.table({"id": pa.array(rows, pa.int32())}))
    reading = lake.at(version=lake.snapshot_id) if pinned else lake
    for sql, wanted in {
        "SELECT * FROM t WHERE id = 1": [1],
        "FROM main.t WHERE t.id = 1": [1],
        "SELECT id FROM dev.main.t AS a WHERE a.id IN (1, 2)": [1, 2],
        "SELECT a.id FROM dev.t a(id, w) WHERE a.id = 3 AND w = 'v3'": [3],
        "SELECT id FROM t JOIN other USING (id)": [1, 2],
        "WITH t2 AS (TABLE t) SELECT id FROM t2 WHERE id = 1": [1],
        "SELECT id FROM t WHERE id IN (FROM other)": [1, 2],
        "SELECT id FROM t INTERSECT FROM other": [1, 2],
        "SELECT id FROM x: t WHERE x.id = 1": [1],
        "SELECT id FROM frame JOIN t USING (id)": [4],
        "SELECT count(*)::INTEGER AS id FROM t TABLESAMPLE 100 PERCENT WHERE id = 1": [1],
    }.items():
        frames = {"frame": pa.table({"id": pa.array([4], pa.int32())})} if "frame" in sql else {}
        assert ids(reading.sql(sql, **frames)) == wanted, sql
    assert reading.sql("DESCRIBE t").collect("pyarrow")["column_name"].to_list() == ["id", "v"]


def test_command_line_finds_rows_that_are_older_than_the_key(catalog_store: Store) -> None:
    with catalog_store.open() as lake:
        made(lake)
    assert query(catalog_store, "SELECT id FROM t WHERE id = 1")[1] == [(1,)]


def test_what_could_miss_rows_is_an_error_that_says_what_to_do(lake: Lake) -> None:
    made(lake)
    before = everything(lake)
    snapshot = lake.snapshot_id
    lake.create_view("seen", "SELECT id FROM t")
    lake.create_view("past", f"SELECT id FROM t AT (VERSION => {snapshot})")
    lake.create_table("other", {"id": "INTEGER"})
    queries = [
        "SELECT * FROM seen WHERE id = 1",
        "SELECT * FROM past WHERE id = 1",
        f"SELECT * FROM t AT (VERSION => {snapshot}) WHERE id = 1",
        "SELECT id FROM query_table('t') WHERE id = 1",
    ]
    for sql in queries:
        with pytest.raises(UnsupportedError, match="DuckLake would miss rows") as error:
            lake.sql(sql)
        assert "table.overwrite(table.scan())" in (error.value.hint or "")
    for sql in (
        "DELETE FROM t WHERE id = 6",
        "UPDATE t SET v = 'x' WHERE id = 6",
        "DELETE FROM t USING other WHERE t.id = other.id",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM (FROM t) AS s(key, w) WHERE key = 6)",
        "INSERT INTO other SELECT id FROM t WHERE id = 6",
        "INSERT INTO other SELECT id FROM seen",
    ):
        with pytest.raises(UnsupportedError, match="DuckLake would miss rows") as error:
            lake.execute(sql)
        assert "table.overwrite(table.scan())" in (error.value.hint or "")
    assert everything(lake) == before
    # Statements that do not look for rows by the column run.
    lake.execute("UPDATE t SET v = 'all' WHERE v <> 'v1'")
    lake.execute("INSERT INTO t VALUES (100, 'new')")
    assert everything(lake) == dict.fromkeys(before, "all") | {1: "v1", 100: "new"}
    # What the hint says.
    lake.table("t").overwrite(lake.table("t").scan())
    lake.execute("DELETE FROM t WHERE id = 6")
    assert ids(lake.sql("SELECT * FROM seen WHERE id < 6")) == [0, 1, 2, 3, 4, 5]
    assert ids(lake.at(version=snapshot).sql("SELECT * FROM t WHERE id = 6")) == [6]
    assert 6 not in everything(lake)


def test_audits_find_rows_that_are_older_than_the_key(lake: Lake) -> None:
    made(lake)

    def changed() -> None:
        with lake.transaction() as tx:
            tx.audit("no six", "SELECT * FROM t WHERE id = 6")
            tx.table("t").delete("id = 5")

    with pytest.raises(AuditError, match="found 1 row"):
        changed()
    assert 5 in everything(lake)


def test_inlined_rows_that_are_older_than_the_key_are_found_after_a_flush(catalog_store: Store) -> None:
    with catalog_store.open() as lake:
        lake.create_table("t", ROWS)
        run_plain(lake, "CALL set_option('data_inlining_row_limit', 100)")
        run_plain(lake, "INSERT INTO t SELECT i, 'v' || i FROM range(24) AS r(i)")
        run_plain(lake, "ALTER TABLE t SET PARTITIONED BY (bucket(4, id))")
        lake.refresh()
        table = lake.table("t")
        assert ids(table.scan(where="id = 1")) == [1]
        planned = table.scan(where="id = 2")
        run_plain(lake, "CALL ducklake_flush_inlined_data('dev')")
        assert ids(planned) == [2]
        assert ids(table.scan(where="id = 1")) == ids(lake.sql("SELECT id FROM t WHERE id = 1")) == [1]
        lake.refresh()
        table.delete("id = 3")
        assert everything(lake).keys() == set(range(24)) - {3}


@pytest.mark.parametrize(
    ("type_", "wider", "condition"),
    [
        ("DATE", "TIMESTAMP", "id = '2024-01-02'"),
        ("INTEGER", "DOUBLE", "id = 1"),
        ("UINTEGER", "BIGINT", "id = 1"),
        ("DOUBLE", "DOUBLE", "id = 'nan'::DOUBLE"),
    ],
)
def test_promoted_and_inexact_columns_are_found_in_their_buckets(
    catalog_store: Store, engine: Any, type_: str, wider: str, condition: str
) -> None:
    values = {"DATE": "DATE '2024-01-01' + i::INTEGER", "DOUBLE": "if(i % 2 = 0, 'nan', '-nan')::DOUBLE"}
    with catalog_store.open(engine) as lake:
        lake.create_table("t", {"id": type_, "v": "INTEGER"}, partitioned_by=["bucket(7, id)"])
        run_plain(lake, "CALL set_option('data_inlining_row_limit', 0)")
        run_plain(lake, f"INSERT INTO t SELECT {values.get(type_, f'i::{type_}')}, i FROM range(24) AS r(i)")
        run_plain(lake, *([f"ALTER TABLE t ALTER id SET DATA TYPE {wider}"] if wider != type_ else []))
        lake.refresh()
        wanted = 24 if type_ == "DOUBLE" else 1
        assert len(lake.sql(f"SELECT * FROM t WHERE {condition}").collect("pyarrow")) == wanted
        table = lake.table("t")
        if type_ != "DOUBLE":
            assert len(table.scan(where=condition).collect("pyarrow")) == wanted
            table.delete(condition)
            assert len(table.to_arrow()) == 24 - wanted


def test_tables_with_their_first_key_use_their_buckets(catalog_store: Store) -> None:
    """The plan of DuckDB has the condition, by which DuckLake reads one file."""
    with catalog_store.open() as lake:
        lake.create_table("t", ROWS, partitioned_by=["bucket(4, id)"]).append(ROWS)
        plan = lake.table("t").scan(where="id = 1").to_native().explain()
        assert "id=1" in plan
        assert "id=1" in lake.sql("SELECT * FROM t WHERE id = 1").to_native().explain()
