"""Merges, updates with expressions and partition overwrites, on both engines."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pytest
from lake_fixtures import lake_with
from local_stores import rows

from lakeconf.errors import CommitError, LakeconfError, PredicateError, SchemaError
from lakeconf.write.operations.merge.clauses import Delete, Insert, Update

if TYPE_CHECKING:
    from lakeconf import Lake, Store

STOCK = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", None], "amount": pa.array([10, 20, 30, 40], pa.int64())})
DELIVERY = pa.table({"id": [2, 3, 9], "name": ["B", None, "i"], "amount": pa.array([5, 0, 90], pa.int64())})


lake = lake_with("stock", STOCK)


def stock(lake: Lake) -> list[tuple[Any, ...]]:
    return rows(lake, "SELECT * FROM dev.stock")


@pytest.mark.slow("on_spark")
def test_columns_that_the_frame_lacks_keep_their_values_and_are_inserted_with_their_default(lake: Lake) -> None:
    stock_table, before = lake.table("stock"), dict(rows(lake, "SELECT id, rowid FROM dev.stock"))
    stock_table.evolve(add={"origin": "VARCHAR", "size": "DECIMAL(5, 2)"}, defaults={"origin": "north", "size": 1.5})
    version = stock_table.merge(DELIVERY.select(["id", "amount"]), on="ID")
    old = [(1, "a", 10, "north"), (2, "b", 5, "north"), (3, "c", 0, "north"), (4, None, 40, "north")]
    assert rows(lake, "SELECT id, name, amount, origin FROM dev.stock") == [*old, (9, None, 90, "north")]
    assert rows(lake, "SELECT DISTINCT size::VARCHAR FROM dev.stock") == [("1.50",)]
    assert rows(lake, f"SELECT id, rowid FROM dev.stock WHERE rowid < {len(before)}") == sorted(before.items())
    feed = rows(lake, f"SELECT change_type, id FROM dev.table_changes('stock', {version}, {version})")
    changed = [("update_postimage", 2), ("update_postimage", 3), ("update_preimage", 2), ("update_preimage", 3)]
    assert feed == [("insert", 9), *changed]
    stock_table.merge(DELIVERY.select(["id"]), on="id", matched=Update({"name": "seen"}), not_matched=None)
    assert rows(lake, "SELECT name, count(*) FROM dev.stock GROUP BY ALL") == [("a", 1), ("seen", 3), (None, 1)]


@pytest.mark.slow("on_spark")
def test_insert_with_values_sets_only_these_columns(lake: Lake) -> None:
    lake.table("stock").evolve(add={"origin": "VARCHAR"}, defaults={"origin": "north"})
    values = {"ID": nw.col("source_id") + 100, "name": "new"}
    lake.table("stock").merge(DELIVERY.select(["id", "name"]), on="id", matched=None, not_matched=Insert(values))
    assert rows(lake, "FROM dev.stock WHERE id > 4") == [(109, "new", None, "north")]
    with pytest.raises(SchemaError, match="has no column 'nome'"):
        lake.table("stock").merge(DELIVERY, on="id", not_matched=Insert({"nome": "new"}))


@pytest.mark.slow("on_spark")
def test_merge_cannot_insert_without_a_value_for_a_required_or_computed_column(lake: Lake, store: Store) -> None:
    with store.connect() as connection:
        connection.execute(
            "CREATE TABLE strict (id BIGINT, name VARCHAR NOT NULL, a BIGINT, t TIMESTAMP DEFAULT now())"
        )
        connection.execute("INSERT INTO strict (id, name) VALUES (2, 'b')")
    before, strict = lake.refresh(), lake.table("strict")
    for given, reason in {"a": "'name' of main.strict, which is NOT NULL", "name": "'t' .+ default is an expr"}.items():
        frame = pa.table(
            {"id": [2], given: pa.array([None if given == "a" else "B"], None if given == "name" else pa.int64())}
        )
        with pytest.raises(SchemaError, match=reason) as raised:
            strict.merge(frame, on="id")
        assert "not_matched=None" in str(raised.value)
        assert lake.refresh() == before
        strict.merge(frame, on="id", not_matched=None)
        before = lake.refresh()
    whole = frame.append_column("t", pa.array([None], pa.timestamp("us")))
    with lake.transaction() as tx:
        tx.table("strict").evolve(add={"size": "BIGINT"}, defaults={"size": 1})
        with pytest.raises(SchemaError, match="which this transaction adds"):
            tx.table("strict").merge(whole, on="id")


@pytest.mark.slow("on_spark")
def test_merge_rejects_two_source_rows_for_one_target_row(lake: Lake) -> None:
    before = lake.snapshot_id
    with pytest.raises(CommitError, match=r"2 rows of the frame match one row of main\.stock on id: nothing was"):
        lake.table("stock").merge(pa.concat_tables([DELIVERY, DELIVERY.slice(0, 1)]), on="id")
    assert lake.refresh() == before
    assert stock(lake) == rows(lake, f"SELECT * FROM dev.stock AT (VERSION => {before})")


@pytest.mark.slow("on_spark")
def test_merge_of_an_empty_frame_creates_no_snapshot(lake: Lake, tmp_path: Path) -> None:
    before, files = lake.snapshot_id, sorted(tmp_path.rglob("*.parquet"))
    assert lake.table("stock").merge(DELIVERY.slice(0, 0), on="id") == before
    assert lake.refresh() == before
    assert sorted(tmp_path.rglob("*.parquet")) == files


@pytest.mark.slow("on_spark")
def test_merge_with_evolve_adds_columns(lake: Lake) -> None:
    frame = DELIVERY.append_column("origin", pa.array(["north", "south", "west"]))
    before = lake.snapshot_id
    assert lake.table("stock").merge(frame, on="id", evolve=True) == before + 1
    assert stock(lake) == [
        (1, "a", 10, None),
        (2, "B", 5, "north"),
        (3, None, 0, "south"),
        (4, None, 40, None),
        (9, "i", 90, "west"),
    ]


@pytest.mark.slow("on_spark")
def test_merge_after_other_writes_in_a_transaction(lake: Lake) -> None:
    before = lake.snapshot_id
    with lake.transaction("all") as tx:
        tx.create_table("seen", DELIVERY)
        tx.table("seen").append(DELIVERY)
        tx.table("stock").merge(DELIVERY, on="id", not_matched_by_source=Delete())
    assert lake.snapshot_id == before + 1
    assert (
        stock(lake)
        == rows(lake, "SELECT * FROM dev.seen")
        == sorted([(2, "B", 5), (3, None, 0), (9, "i", 90)], key=repr)
    )


@pytest.mark.slow("on_spark")
def test_null_in_a_not_null_column_is_rejected_before_writing(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("strict", {"id": "INTEGER", "name": "VARCHAR NOT NULL"})
    lake.table("strict").append(pa.table({"id": pa.array([2], pa.int32()), "name": ["x"]}))
    before, files = lake.snapshot_id, sorted(tmp_path.rglob("*.parquet"))
    frame = pa.table({"id": pa.array([2], pa.int32()), "name": pa.array([None], pa.string())})
    with pytest.raises(SchemaError, match=r"'name' of main.strict is NOT NULL"):
        lake.table("strict").merge(frame, on="id")
    with pytest.raises(SchemaError, match=r"'name' of main.strict is NOT NULL"):
        lake.table("strict").update({"name": nw.when(nw.col("id") > 5).then(nw.col("name"))}, "id = 2")
    assert (lake.refresh(), sorted(tmp_path.rglob("*.parquet"))) == (before, files)


@pytest.mark.slow("on_spark")
def test_merge_with_types_unknown_to_spark(lake: Lake) -> None:
    lake.sql("SELECT 1")
    types = {"id": "UUID", "note": "JSON", "size": "UBIGINT", "at": "TIMESTAMP_NS", "huge": "HUGEINT", "t": "TIME"}
    lake.create_table("odd", types)
    new = "11111111-1111-1111-1111-111111111111"
    text = {"id": [new], "note": ['{"a": 1}'], "t": ["12:00:00"], "size": pa.array([2**63], pa.uint64())}
    at = pa.array([1_700_000_000_000_000], pa.timestamp("us"))
    frame = pa.table({**text, "at": at, "huge": pa.array([7], pa.int64())})
    if lake.table("odd").explain().refusal is not None:  # pragma: no cover - every engine can read them
        pytest.fail("the table cannot be read")
    lake.table("odd").append(frame)
    lake.table("odd").merge(frame.set_column(0, "id", pa.array([new])), on="id")
    assert rows(lake, "SELECT id::VARCHAR, note::VARCHAR, size, huge, t::VARCHAR FROM dev.odd") == [
        (new, '{"a": 1}', 2**63, 7, "12:00:00")
    ]
    assert rows(lake, "SELECT count(*), min(rowid) FROM dev.odd") == [(1, 0)]


@pytest.mark.slow("on_spark")
def test_update_with_an_expression(lake: Lake) -> None:
    before = dict(rows(lake, "SELECT id, rowid FROM dev.stock"))
    lake.table("stock").update({"amount": nw.col("amount") * 2, "name": "twice"}, "id >= 3")
    assert stock(lake) == [(1, "a", 10), (2, "b", 20), (3, "twice", 60), (4, "twice", 80)]
    assert dict(rows(lake, "SELECT id, rowid FROM dev.stock")) == before
    with pytest.raises(SchemaError, match="'amount' is DOUBLE"):
        lake.table("stock").update({"amount": nw.col("amount") / 3}, "id = 1")


STORED: dict[str, tuple[object, str]] = {
    "DECIMAL(10,2)": (Decimal("1.50"), "1.50"),
    "DECIMAL(11,2)": (Decimal("1E+3"), "1000.00"),
    "DOUBLE": (float("nan"), "nan"),
}
INEXACT = (("DECIMAL(10,2)", "1.005"), ("BIGINT", "1.5"), ("DOUBLE", 2**53 + 1))


@pytest.mark.slow("on_spark")
def test_constants_of_clauses_are_stored_exactly_or_refused(lake: Lake) -> None:
    columns = {kind: f"c{number}" for number, kind in enumerate([*STORED, "BIGINT"])}
    table = lake.create_table("constants", {"id": "BIGINT", **{name: kind for kind, name in columns.items()}})
    table.append([{"id": 1, **dict.fromkeys(columns.values())}])

    def merge(matched: dict[str, object] | None, inserted: dict[str, object] | None) -> None:
        update = None if matched is None else Update(matched)
        insert = None if inserted is None else Insert({"id": nw.col("source_id"), **inserted})
        table.merge(pa.table({"id": [1, 2]}), on="id", matched=update, not_matched=insert)

    for kind, value in INEXACT:
        for clauses in (({columns[kind]: value}, None), (None, {columns[kind]: value})):
            with pytest.raises(SchemaError, match="cannot hold"):
                merge(*clauses)
    stored = {columns[kind]: value for kind, (value, _) in STORED.items()}
    merge(stored, stored)
    listed = ", ".join(f"CAST({columns[kind]} AS VARCHAR)" for kind in STORED)
    assert rows(lake, f"SELECT {listed} FROM constants") == [tuple(text for _, text in STORED.values())] * 2


@pytest.mark.slow("on_spark")
def test_constants_that_duckdb_reads_as_others_are_refused_in_expressions(lake: Lake) -> None:
    table, large = lake.table("stock"), Decimal("1E+3")
    for value in (pd.Timestamp(1), pd.Timedelta(1, "ns"), float("nan")):
        with pytest.raises(PredicateError, match="as another value"):
            table.delete(where=nw.col("id") >= value)
    condition = nw.col("id") >= large
    for use in (
        lambda: table.scan(where=condition),
        lambda: table.delete(where=(nw.col("id") < 9) & ~nw.col("id").is_in([2, large])),
        lambda: table.update({"id": 1}, where=condition),
        lambda: table.update({"id": nw.col("id") * large}, where="id = 1"),
        lambda: table.overwrite(table.scan(), where=condition),
        lambda: Update({"id": nw.when(nw.col("target_id") > 1).then(large).otherwise(2)}),
        lambda: Delete(when=condition),
    ):
        with pytest.raises(PredicateError, match=r"DuckDB reads Decimal\('1E\+3'\) as another value") as caught:
            use()
        assert caught.value.hint == 'write it without an exponent: Decimal("1000")'


@pytest.mark.slow("on_spark")
def test_merge_with_an_expression_that_the_engine_cannot_compute_is_refused(lake: Lake) -> None:
    before = stock(lake)
    with pytest.raises(SchemaError, match=r"cannot (compute|convert)") as refused:
        lake.table("stock").merge(DELIVERY, on="id", matched=Update({"amount": nw.col("source_amount").list.len()}))
    assert len(refused.value.message.splitlines()) == 1
    assert "__lakeconf" not in str(refused.value)
    assert stock(lake) == before


@pytest.mark.slow("on_spark")
def test_overwrite_partitions_replaces_whole_partitions(lake: Lake) -> None:
    lake.create_table("days", {"day": "DATE", "kind": "VARCHAR", "n": "BIGINT"}, partitioned_by=["month(day)", "kind"])
    kinds = "CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END"
    query = f"SELECT DATE '2024-01-01' + i::INT AS day, {kinds} AS kind, i AS n FROM range(60) r(i)"
    lake.table("days").append(lake.sql(query).collect("pyarrow"))
    new = lake.sql("SELECT DATE '2024-02-09' AS day, NULL::VARCHAR AS kind, -1::BIGINT AS n").collect("pyarrow")
    before = lake.snapshot_id
    with pytest.raises(SchemaError, match=r"month\(day\) recurs: a partition of main.days contains rows of every year"):
        lake.table("days").overwrite_partitions(new)
    assert lake.table("days").overwrite_partitions(new, recurring=True) == before + 1
    kept = f"SELECT * FROM ({query}) WHERE NOT (month(day) = 2 AND kind IS NULL)"
    assert rows(lake, "SELECT * FROM dev.days") == rows(lake, f"{kept} UNION ALL SELECT DATE '2024-02-09', NULL, -1")
    with pytest.raises(SchemaError, match=r"main.stock is not partitioned"):
        lake.table("stock").overwrite_partitions(STOCK)


@pytest.mark.slow("on_spark")
def test_rows_that_cannot_be_identified_are_refused(lake: Lake) -> None:
    lake.create_table("odd", {"rowid": "BIGINT", "id": "BIGINT"})
    with lake.transaction() as transaction:
        transaction.table("stock").evolve(rename={"name": "title"})
        renamed = "renamed or dropped in this transaction"
        for table, frame, message in (
            (lake.table("odd"), pa.table({"rowid": [1], "id": [1]}), "named rowid"),
            (transaction.table("stock"), STOCK.rename_columns(["id", "title", "amount"]), renamed),
        ):
            with pytest.raises(LakeconfError, match=message):
                table.merge(frame, on="id")
            with pytest.raises(LakeconfError, match=message):
                table.update({"id": nw.col("id") + 1}, "id = 1")
