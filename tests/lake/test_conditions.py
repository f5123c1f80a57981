"""A `where` can be any boolean expression in scans and writes, on both engines. DuckDB's own rows are the oracle."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import session_of

from lakeconf.errors import PredicateError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

# Planning understands these, and so does Spark.
SIMPLE = ["id < 40", "ok IS TRUE", "name LIKE 'name1%' OR id BETWEEN 3 AND 5", "NOT id IN (1, 2, 3) AND extra IS NULL"]
CONDITIONS = [
    *SIMPLE,
    "id % 10 = 3",
    "id % 10 = 3 AND id < 40",
    "id < 40 AND (name LIKE '%7' OR ok) AND id % 2 = 1",
    "id = extra",
    "extra IS DISTINCT FROM id",
    "NOT (id % 7 = 0)",
    "length(name) = 5 OR extra IS NULL",
    "CASE WHEN ok THEN extra ELSE id END > 50",
    "upper(name) = 'NAME9' -- the ninth",
    "coalesce(extra, 0) // 10 = 2",
    "price > 1.5 AND price * 2 < 20.5",
    "price = 0.1 AND id % 2 = 1",
    "name ~ 'name[12]'",
    "regexp_matches(name, '3$')",
    "s.a = 3",
    "l[1] = 4 AND len(l) = 2",
]
# Further conditions that DuckDB computes.
MORE = ["regexp_matches(name, '(?i)E3')", "list_contains(l, 4)", "hash(id) % 3 = 1"]


def frame() -> pa.Table:
    ids = list(range(100))
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "name": [f"name{number}" if number % 9 else None for number in ids],
            "ok": [None if number % 5 == 0 else number % 2 == 0 for number in ids],
            "extra": pa.array([None if number % 4 == 0 else number + number % 3 for number in ids], pa.int64()),
            "price": pa.array([number / 10 for number in ids], pa.float32()),
            "s": [{"a": number % 5} for number in ids],
            "l": [[number % 6, number] for number in ids],
        }
    )


def made(lake: Lake) -> Lake:
    """Several files, deleted and inlined rows, and a column with a type that its first files do not have."""
    lake.create_table("t", frame().slice(0, 50)).append(frame().slice(0, 50))
    wide = frame().slice(50, 47)
    doubles = wide["price"].cast(pa.float64())
    lake.table("t").append(wide.set_column(4, "price", doubles), evolve=True)
    lake.table("t").append(frame().slice(97, 3))
    lake.table("t").delete("id = 11")
    return lake


@pytest.fixture(params=["duckdb", "spark"])
def lake(request: pytest.FixtureRequest, store: Store) -> Iterator[Lake]:
    session = request.getfixturevalue("spark") if request.param == "spark" else None
    with store.open(session) as lake:
        yield made(lake)


def ids(store: Store, condition: str) -> list[int]:
    """What plain DuckDB finds, in a table of its own, so that no file is skipped and no filter is pushed down."""
    return found_by_duckdb(store, condition)[condition]


def found_by_duckdb(store: Store, *conditions: str) -> dict[str, list[int]]:
    with store.connect() as connection:
        connection.execute("CREATE TEMP TABLE copied AS FROM t")
        return {
            one: sorted(row[0] for row in connection.sql(f"SELECT id FROM copied WHERE {one}\n").fetchall())
            for one in conditions
        }


@pytest.mark.slow
def test_a_scan_returns_the_rows_of_duckdb(lake: Lake, store: Store) -> None:
    table = lake.table("t")
    expected = found_by_duckdb(store, *CONDITIONS)
    read = CONDITIONS if session_of(lake).engine.name == "duckdb" else SIMPLE
    scans = {one: table.scan(columns=["id"], where=one) for one in read}
    assert {one: sorted(scan.collect("pyarrow")["id"].to_list()) for one, scan in scans.items()} == {
        one: expected[one] for one in read
    }
    for condition in set(CONDITIONS) - set(read):
        with pytest.raises(UnsupportedError, match="Spark does not compute the condition") as refused:
            table.scan(columns=["id"], where=condition)
        assert (refused.value.hint or "").startswith("filter the frame: .scan().filter(nw.col(")
    # What the hint says.
    where = (nw.col("id") % 10 == 3) & (nw.col("name").str.len_chars() > 4)
    found = table.scan().filter(where).collect("pyarrow")["id"].to_list()
    assert sorted(found) == ids(store, "id % 10 = 3 AND length(name) > 4")
    # The rest of a condition skips files, too.
    known, all_of_it = (table.explain(where=where) for where in ("id >= 97", "id >= 97 AND id % 2 = 0"))
    assert all_of_it.files_skipped == known.files_skipped > 0


@pytest.mark.slow
def test_a_delete_removes_the_rows_of_duckdb(store: Store) -> None:
    """Each delete is followed by an append of the deleted rows."""
    with store.open() as lake:
        table = made(lake).table("t")
        rows = table.to_arrow()
        for condition in [*CONDITIONS, *MORE]:
            found = found_by_duckdb(store, "true", condition)
            table.delete(condition)
            assert ids(store, "true") == sorted({*found["true"]} - {*found[condition]}), condition
            table.append(rows.filter(pa.array([number in found[condition] for number in rows["id"].to_pylist()])))


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["s.a = 3 AND id < 50", "ok IS TRUE"])
def test_writes_change_the_rows_of_duckdb(lake: Lake, store: Store, condition: str) -> None:
    chosen = ids(store, condition)
    lake.table("t").update({"name": "changed"}, where=condition)
    assert ids(store, "name = 'changed'") == chosen
    rows = frame()
    kept = rows.filter(pa.array([number in chosen for number in rows["id"].to_pylist()]))
    lake.table("t").overwrite(kept, where=condition)
    assert ids(store, "name = 'changed'") == []
    assert ids(store, condition) == chosen
    others = sorted(set(ids(store, "true")) - set(chosen))
    lake.table("t").delete(condition)
    assert ids(store, "true") == others
    with pytest.raises(PredicateError):
        lake.table("t").overwrite(frame(), where=condition)
    assert ids(store, "true") == others


def test_expressions_of_narwhals_are_read_by_duckdb(store: Store) -> None:
    with store.open() as lake:
        table = made(lake).table("t")
        for where, condition in (
            (nw.col("name").str.slice(-1) == "7", "name LIKE '%7'"),
            (nw.col("name").str.split("e").list.len() == 2, "name IS NOT NULL"),
            (nw.col("name").str.zfill(6) == "0name7", "id = 7"),
            (nw.col("l").list.contains(3), "list_contains(l, 3)"),
            # A function that fails runs only for the rows that the rest allows.
            ("id = 12 AND CAST(replace(name, 'name', '') AS INT) = 12", "id = 12"),
        ):
            found = table.scan(columns=["id"], where=where).collect("pyarrow")["id"].to_list()
            assert sorted(found) == ids(store, condition) != []


def test_a_name_with_a_point_is_a_field_even_if_the_table_has_the_name_of_the_column(store: Store) -> None:
    rows = pa.table({"id": [1, 2], "t": [{"id": 2}, {"id": 1}], "main": [{"t": {"id": 2}}, {"t": {"id": 3}}]})
    with store.open() as lake:
        table = lake.create_table("t", rows)
        table.append(rows)
        assert table.scan(columns=["id"], where="main.t.id = 2").collect("pyarrow")["id"].to_list() == [1]
        table.delete("t.id = 1")
        assert table.scan(columns=["id"]).collect("pyarrow")["id"].to_list() == [1]


def test_functions_of_the_parser_are_those_of_duckdb(store: Store) -> None:
    conditions = ("substring(name, 5, 1) = '7'", "[id] = [3]", "extract(year FROM day) = 2025")
    rows = frame().append_column("day", pa.array([date(2020 + number // 10, 1, 1) for number in range(100)]))
    with store.open() as lake:
        lake.create_table("t", rows).append(rows)
        expected = found_by_duckdb(store, *conditions)
        with store.connect() as connection:
            connection.execute("CREATE MACRO substring(a, b, c) AS '7'; CREATE MACRO list_value(a) AS 1")
            connection.execute("CREATE MACRO date_part(a, b) AS 2025")
        lake.refresh()
        for condition in conditions:
            found = lake.table("t").scan(columns=["id"], where=condition).collect("pyarrow")["id"].to_list()
            assert sorted(found) == expected[condition] != []


@pytest.mark.slow
def test_words_that_ducklake_replaces_are_compared_as_text(store: Store) -> None:
    """DuckLake puts a filter into a query of its own, in which it replaces such words."""
    every = ["a", "{C", "{METADATAx"]
    with store.open() as lake:
        for number, (condition, found) in enumerate(
            {
                "v = '{AUTHOR}'": [],
                "v <= '{DATA_PATH}x'": ["a", "{C"],
                "v IN ('{SNAPSHOT_ID}', '{C')": ["{C"],
                "starts_with(v, '{METADATA_')": [],
                "v > '{AUTHOR}' AND length(v) > 1": ["{C", "{METADATAx"],
            }.items()
        ):
            table = lake.create_table(f"words{number}", {"v": "VARCHAR"})
            table.append(pa.table({"v": every * 10}))
            values = table.scan(where=condition).collect("pyarrow")["v"].to_list()
            assert (sorted(set(values)), len(values)) == (found, 10 * len(found))
            table.delete(condition)
            assert table.scan().collect("pyarrow").shape[0] == 30 - len(values)
        words = lake.table("words0").scan()
        for run in (lake.sql, lambda sql: lake.sql(sql, words0=words)):
            with pytest.raises(SchemaError, match="which DuckLake would replace"):
                run("SELECT * FROM words0 WHERE v < '{SNAPSHOT_ID}'")


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize(
    ("type_", "value"), [("BLOB", r"'\x00\xFF'::BLOB"), ("FLOAT", "-0.0061359718"), ("DOUBLE", "0.1")]
)
def test_rows_are_found_that_duckdb_loses(store: Store, engine: Any, type_: str, value: str) -> None:
    """DuckDB's Bloom filters of BLOB, and DuckLake's bounds of FLOAT, exclude values that are in the file."""
    with store.connect() as connection:
        connection.execute(f"CREATE TABLE odd (v {type_})")
        connection.execute(f"INSERT INTO odd SELECT {value} FROM range(40)")
    with store.open(engine) as lake:
        found = lake.table("odd")
        wanted = lake.sql(f"SELECT {value}::{type_}").to_native().fetchone()[0]
        assert len(found.scan().filter(nw.col("v") == nw.lit(wanted)).collect("pyarrow")) == 40
        assert len(found.scan(where=f"v = {value}").collect("pyarrow")) == 40
        assert len(found.scan(where=f"v >= {value} AND v <= {value}").collect("pyarrow")) == 40
        found.delete(f"v IN ({value})")
        lake.refresh()
        assert len(lake.table("odd").scan().collect("pyarrow")) == 0
