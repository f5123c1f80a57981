"""Relations that a user takes from a lake: their rows, and readers that nothing ends before the last row."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import catalog_of
from local_stores import on_catalog, store_of

from lakeconf.engines.frames import LazyRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, Store

NAN = float("nan")
IDS = pa.table({"id": pa.array(range(300), pa.int64())})


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def six_files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Lake]]:
    store = store_of(tmp_path, on_catalog(request, tmp_path))
    with store.open() as lake:
        for name in ("t", "u"):
            lake.create_table(name, {"id": "BIGINT"})
        for _ in range(6):
            lake.table("t").append(IDS)
        yield store, lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with store_of(tmp_path).open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": pa.array(range(5000), pa.int64())}))
        yield lake


# What a thread does while it reads batches of rows of a table; `before` is another frame of the table.
MEANWHILE: dict[str, Callable[[Lake, Any], object]] = {
    "refresh": lambda lake, _: lake.refresh(),
    "count": lambda lake, _: lake.table("t").count(),
    "another relation": lambda lake, _: lake.sql("SELECT count(*) FROM t").to_native().fetchall(),
    "query over a frame": lambda lake, _: lake.sql("FROM t JOIN x USING (id)", x=IDS).collect("pyarrow"),
    "frame": lambda _, before: before.collect("pyarrow"),
    "join": lambda lake, before: before.join(lake.table("u").scan(), on="id").collect("pyarrow"),
    "append": lambda lake, _: lake.table("u").append(IDS),
    "append of a frame": lambda lake, before: lake.table("u").append(before),
    "append of a relation": lambda lake, before: lake.table("u").append(before.to_native()),
    "merge": lambda lake, _: lake.table("u").merge(IDS, on="id"),
    "reader of another relation": lambda lake, _: lake.table("t").scan().to_native().to_arrow_reader(100).read_all(),
    "the lake is closed": lambda lake, _: lake.close(),
}
# The relation whose rows it reads: each row of the table once.
READ: dict[str, Callable[[Lake], Any]] = {
    "scan": lambda lake: lake.table("t").scan().to_native(),
    "query over a frame": lambda lake: lake.sql("FROM t JOIN x USING (id)", x=IDS).to_native(),
}


@pytest.mark.parametrize(
    ("meanwhile", "read"),
    [*((name, "scan") for name in MEANWHILE), *((name, "query over a frame") for name in ("count", "frame", "append"))],
)
def test_reader_returns_all_rows_whatever_the_thread_does_meanwhile(
    meanwhile: str, read: str, six_files: tuple[Store, Lake]
) -> None:
    _, lake = six_files
    before = lake.table("t").scan()
    reader = READ[read](lake).to_arrow_reader(300)
    first = reader.read_next_batch()
    MEANWHILE[meanwhile](lake, before)
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 1800


def test_reader_returns_all_rows_while_its_relation_is_written(lake: Lake) -> None:
    relation = lake.table("t").scan().to_native()
    reader = relation.to_arrow_reader(100)
    first = reader.read_next_batch()
    lake.create_table("u", relation).append(relation)
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 5000
    assert lake.table("u").count() == 5000


def test_reader_never_ends_early_if_its_files_are_removed(six_files: tuple[Store, Lake]) -> None:
    store, lake = six_files
    reader = lake.table("t").scan().to_native().to_arrow_reader(300)
    rows = reader.read_next_batch().num_rows
    with store.open() if store.metadata_backend.type != "duckdb" else contextlib.nullcontext(lake) as other:
        other.table("t").overwrite(IDS)
        other.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        assert len(other.maintenance.cleanup(older_than=dt.timedelta(0), force=True)) >= 6
    lake.refresh()
    with contextlib.suppress(OSError):
        rows += sum(batch.num_rows for batch in reader)
        assert rows == 1800
    assert lake.table("t").count() == 300


FRAMES: dict[str, Callable[[Lake], nw.LazyFrame[Any]]] = {
    # In SQL, 0.1 is a DECIMAL, a NaN cannot be written as a number, and a string ends at a NUL.
    "product of a float": lambda lake: lake.table("t").scan().select(x=nw.col("id") * 0.1),
    "filter by a product": lambda lake: lake.table("t").scan().filter(nw.col("id") * 0.1 > 0.3),
    "NaN": lambda lake: lake.table("t").scan().filter(nw.col("id").cast(nw.Float64) < NAN),
    "NUL": lambda lake: lake.table("t").scan().filter(nw.col("id") == nw.lit("5\0006").str.len_chars()),
    "window": lambda lake: lake.table("t").scan().with_columns(s=nw.col("id").cum_sum().over(order_by="id")),
    "join": lambda lake: lake.table("t").scan().join(lake.sql("FROM t WHERE id < 7"), on="id"),
    "query": lambda lake: lake.sql("SELECT count(*) AS n, sum(id) AS s FROM main.t"),
    "two columns with one name": lambda lake: lake.sql("SELECT id AS a, id + 1 AS a FROM t ORDER BY id"),
    "frame in a query over a frame": lambda lake: lake.sql("FROM f", f=lake.sql("FROM x WHERE id > 5", x=IDS)),
    "relation in a query": lambda lake: lake.sql("FROM r", r=lake.table("t").scan().to_native().filter("id % 7 = 0")),
    "rows in a query": lambda lake: lake.sql("FROM t JOIN x USING (id)", x=[{"id": 1}, {"id": 2}]),
    "PIVOT": lambda lake: lake.sql("PIVOT (SELECT id % 3 AS kind, id FROM t) ON kind USING sum(id)"),
    "DESCRIBE": lambda lake: lake.sql("DESCRIBE t"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_relation_has_the_rows_of_its_frame(name: str, lake: Lake) -> None:
    frame = FRAMES[name](lake)
    expected, relation = nw.to_native(frame), frame.to_native()
    assert relation is not expected
    assert (relation.columns, relation.types) == (expected.columns, expected.types)
    assert relation.fetchall() == expected.fetchall()


def test_relation_is_written_and_joined_in_sql_without_a_copy_in_memory(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb.DuckDBPyRelation, "to_arrow_table", None)
    relation = lake.table("t").scan().to_native()
    few = relation.filter("id < 3")
    lake.create_table("u", {"id": "BIGINT"}).append(few)
    query = lake.sql("SELECT sum(a.id) FROM a JOIN b USING (id)", a=relation, b=few)
    del relation, few
    gc.collect()
    lake.table("t").scan().to_native()
    assert (query.to_native().fetchall(), lake.table("u").count()) == ([(3,)], 3)


def test_relation_of_another_thread_is_read_when_that_thread_is_gone(lake: Lake) -> None:
    def make() -> Any:
        return lake.sql("SELECT id FROM t JOIN x USING (id)", x=pa.table({"id": [1, 2, 3]})).to_native()

    with ThreadPoolExecutor(1) as pool:
        relation = pool.submit(make).result()
    gc.collect()
    frame = lake.sql("FROM r", r=relation)
    assert sorted(relation.fetchall()) == [(1,), (2,), (3,)]
    del relation
    gc.collect()
    lake.table("t").scan().to_native()
    assert sorted(frame.to_native().fetchall()) == [(1,), (2,), (3,)]


def test_relations_and_the_frames_in_them_leave_nothing_in_memory(lake: Lake) -> None:
    frame = pa.table({"id": pa.array(range(1000), pa.int64())})
    kept = weakref.ref(frame)

    def read(frame: pa.Table) -> None:
        lake.sql("FROM t JOIN x USING (id)", x=frame).to_native().fetchall()
        lake.sql("PIVOT (SELECT id % 3 AS kind, id FROM t) ON kind USING sum(id)").to_native().fetchall()

    thread = threading.Thread(target=read, args=(frame,))
    thread.start()
    thread.join()
    del frame, thread
    gc.collect()
    for _ in range(3):
        lake.table("t").scan().to_native().fetchall()
    assert kept() is None
    made = "FROM duckdb_views() WHERE view_name LIKE 'lakeconf_%'", "FROM duckdb_tables() WHERE table_name LIKE 'lake%'"
    connection = catalog_of(lake).connection
    assert [len(connection.rows(f"SELECT 1 {query}")) for query in made] == [1, 0]


def test_frames_of_one_lake_have_one_class_and_join(lake: Lake) -> None:
    first, second = lake.table("t").scan(), lake.sql("FROM t WHERE id < 9")
    assert isinstance(first, LazyRows)
    assert type(first) is type(second)
    assert first.join(second, on="id").to_native().aggregate("count(*)").fetchall() == [(9,)]


def test_relation_of_a_closed_lake_is_an_error(lake: Lake) -> None:
    relation = lake.table("t").scan().to_native()
    lake.close()
    with pytest.raises(duckdb.Error):
        relation.fetchall()
