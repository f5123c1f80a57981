"""Snapshots, the files and the changes of a table, in words, and types of columns, parsed by DuckDB."""

from __future__ import annotations

import datetime as dt
import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from catalog_lake import METADATA, lake
from lake_parts import catalog_of
from plain_sql import run_plain

from lakeconf.catalog.changes import changed_tables, changes_between, changes_since, made_changes
from lakeconf.catalog.column_types import (
    SECOND_DIGITS,
    TYPES,
    Fact,
    columns_of,
    decimal_digits,
    has,
    has_throughout,
    integer_bits,
    parsed_type,
)
from lakeconf.catalog.history import change_summaries, history, stored_rows, stored_rows_of_all
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.snapshot import Snapshot, by_timestamp, by_version, latest, snapshots
from lakeconf.catalog.tables import load_table
from lakeconf.engines.spark.spark_types import duckdb_type
from lakeconf.errors import SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from catalog_lake import AttachedLake

    import lakeconf
    from lakeconf import Store


def test_snapshots_have_author_message_changes_and_time(source: AttachedLake) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    source.run(
        "CREATE TABLE lake.t (a INTEGER)",
        "BEGIN",
        "INSERT INTO lake.t SELECT * FROM range(100)",
        """CALL lake.set_commit_message('ana', 'first load', extra_info => '{"run": 1}')""",
        "COMMIT",
    )
    made, loaded = snapshots(source.reader)[-2:]
    assert made.changes == 'created_table:"main"."t"'
    assert (loaded.author, loaded.message, loaded.extra_info) == ("ana", "first load", '{"run": 1}')
    assert loaded.changes == "inserted_into_table:1"
    assert before < made.time <= loaded.time < datetime.now(UTC) + timedelta(seconds=5)
    assert loaded == latest(source.reader) == by_version(source.reader, loaded.snapshot_id)


def test_by_timestamp_is_independent_of_time_zones(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "SET TimeZone = 'Asia/Tokyo'")
    elsewhere = timezone(timedelta(hours=-11))
    for snapshot in snapshots(source.reader):
        moment = snapshot.time.astimezone(elsewhere)
        assert by_timestamp(source.reader, moment) == snapshot
        at = f"lake.t AT (TIMESTAMP => TIMESTAMPTZ '{moment.isoformat()}')"
        if snapshot.snapshot_id > 0:
            assert source.rows(f"SELECT count(*) FROM {at}") == [(snapshot.snapshot_id - 1,)]


def test_by_timestamp_with_unordered_snapshot_times_matches_duckdb(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", *["INSERT INTO lake.t VALUES (1)"] * 3)
    for version, day in ((0, 1), (1, 1), (2, 4), (3, 2), (4, 3)):
        new = f"SET snapshot_time = '2026-01-0{day} 00:00:00+00' WHERE snapshot_id = {version}"
        source.run(f"UPDATE __ducklake_metadata_lake.ducklake_snapshot {new}")
    for day, version in ((2, 3), (3, 4), (4, 2)):
        noon = datetime(2026, 1, day, 12, tzinfo=UTC)
        assert by_timestamp(source.reader, noon).snapshot_id == version
        rows = source.rows(f"SELECT count(*) FROM lake.t AT (TIMESTAMP => TIMESTAMPTZ '{noon.isoformat()}')")
        assert rows == [(version - 1,)]


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def test_error_for_an_expired_version_names_the_available_range(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", *["INSERT INTO lake.t VALUES (1)"] * 3)
    file_lake.run("CALL ducklake_expire_snapshots('lake', versions => [2])")
    with pytest.raises(SnapshotNotFoundError, match=r"version 2 has expired: the lake has the versions 0 .* to 4 "):
        by_version(file_lake.reader, 2)
    for version in (99, -1):
        with pytest.raises(
            SnapshotNotFoundError,
            match=rf"version {version} does not exist: the lake has the versions 0 \({TIME}\) to 4 \({TIME}\)\n",
        ):
            by_version(file_lake.reader, version)


def test_time_before_the_first_snapshot_or_without_a_time_zone_is_refused(file_lake: AttachedLake) -> None:
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot exists at 2001-.*: the lake has the versions 0 "):
        by_timestamp(file_lake.reader, datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(SnapshotNotFoundError, match="has no time zone"):
        by_timestamp(file_lake.reader, datetime(2030, 1, 1))


_TIME = "12:34:56.123456789"
# For each type, a value that a file may change or round, and a greater one.
VALUES = {
    "boolean": ("false", "true"),
    "int128": ("-170141183460469231731687303715884105727", "170141183460469231731687303715884105726"),
    "uint128": ("340282366920938463463374607431768211454", "340282366920938463463374607431768211455"),
    "decimal": ("-123456789012345.678", "123456789012345.678"),
    "float32": ("-0.1", "0.1"),
    "float64": ("-0.1", "0.1"),
    "varchar": ("a", "é"),
    "json": ("[1]", "[2]"),
    "blob": (r"\x00", r"\xFF"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000001"),
    "date": ("0001-01-01", "9999-12-31"),
    "time": ("00:00:00", _TIME),
    "timetz": ("00:00:00+01", "12:34:56+02"),
    "interval": ("1 microsecond", "1 day"),
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), ("1970-01-01 00:00:00", f"2024-01-02 {_TIME}")
    ),
    "timestamptz": ("1970-01-01 00:00:00+00", "2024-01-02 12:34:56.123456+00"),
    "variant": ("a", "b"),
    "geometry": ("POINT (1 2)", "POINT (3 4)"),
}


def values(name: str) -> tuple[str, str]:
    bits = integer_bits(name)
    if name in VALUES or bits is None:
        return VALUES[name]
    is_signed, size = bits
    return (str(-(2 ** (size - 1))), str(2 ** (size - 1) - 1)) if is_signed else ("0", str(2**size - 1))


@pytest.fixture(params=sorted(TYPES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def in_duckdb(name: str) -> str:
    return "DECIMAL(18,3)" if name == "decimal" else TYPES[name].duckdb


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def test_type_of_duckdb_becomes_this_type(name: str, in_duckdb: str) -> None:
    (column,) = columns_of({"x": in_duckdb})
    assert (column.type.partition("(")[0], column.children) == (name, ())
    assert has(column.type, TYPES[name].facts)
    assert (decimal_digits(column.type) is not None) == (name == "decimal")


def test_files_change_the_values_of_inexact_types_only(
    name: str, in_duckdb: str, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    given = " UNION ALL ".join(f"SELECT CAST('{value}' AS {in_duckdb}) AS x" for value in values(name))
    connection.execute(f"CREATE TABLE given AS {given}")
    connection.execute(f"COPY given TO '{tmp_path}/one.parquet'")
    text = f"SELECT CAST(CAST(x AS {in_duckdb}) AS VARCHAR) FROM"
    before = connection.execute(f"{text} given").fetchall()
    try:
        after = connection.execute(f"{text} '{tmp_path}/one.parquet'").fetchall()
    except duckdb.Error:
        after = []  # the rounded number is outside the range of the type
    assert (before != after) == has(columns_of({"x": in_duckdb})[0].type, Fact.INEXACT)
    (stored,) = connection.execute(f"DESCRIBE FROM '{tmp_path}/one.parquet'").fetchall()
    assert (stored[1] == "DOUBLE" != in_duckdb) == (Fact.AS_DOUBLE in TYPES[name].facts)


def test_bounds_in_a_footer_are_those_of_the_values(
    name: str, in_duckdb: str, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    if Fact.IN_FOOTERS not in TYPES[name].facts:
        return
    given = " UNION ALL ".join(f"SELECT CAST('{value}' AS {in_duckdb}) AS x" for value in values(name))
    connection.execute(f"COPY ({given}) TO '{tmp_path}/one.parquet'")
    (bounds,) = connection.execute(
        f"""SELECT CAST(CAST(stats_min_value AS {in_duckdb}) AS VARCHAR), CAST(CAST(stats_max_value AS {in_duckdb})
            AS VARCHAR), min_is_exact AND max_is_exact FROM parquet_metadata('{tmp_path}/one.parquet')"""
    ).fetchall()
    (wanted,) = connection.execute(
        f"SELECT CAST(min(x) AS VARCHAR), CAST(max(x) AS VARCHAR), true FROM ({given})"
    ).fetchall()
    assert bounds == wanted


def test_type_keeps_the_digits_of_a_second(name: str, in_duckdb: str, connection: duckdb.DuckDBPyConnection) -> None:
    if TYPES[name].second_digits is None:
        return
    text = _TIME if name.startswith("time") and "stamp" not in name else f"2024-01-02 {_TIME}"
    # DuckDB's other types round a text with nine digits.
    ((found,),) = connection.execute(f"SELECT CAST(CAST('{text[:-3]}' AS {in_duckdb}) AS VARCHAR)").fetchall()
    digits = len(found.partition(".")[2].partition("+")[0])
    assert digits == min(SECOND_DIGITS[str(parsed_type(in_duckdb).id)], 6)


def test_floats_have_nan_dated_types_a_year_and_naive_ones_no_zone(
    name: str, in_duckdb: str, connection: duckdb.DuckDBPyConnection
) -> None:
    def runs(query: str) -> bool:
        try:
            connection.execute(query)
        except duckdb.Error:
            return False
        return True

    if integer_bits(name) or name in ("float32", "float64", "decimal"):
        assert runs(f"SELECT CAST('nan' AS {in_duckdb})") == (Fact.FLOAT in TYPES[name].facts)
    typed = f"CAST('{values(name)[0]}' AS {in_duckdb})"
    if name != "interval":
        assert runs(f"SELECT year({typed})") == (Fact.DATED in TYPES[name].facts)
    if Fact.DATED in TYPES[name].facts and TYPES[name].second_digits is not None:
        connection.execute(f"CREATE TABLE given AS SELECT {typed} AS x")
        before = connection.execute("SELECT CAST(x AS VARCHAR) FROM given").fetchall()
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        is_same = connection.execute("SELECT CAST(x AS VARCHAR) FROM given").fetchall() == before
        assert is_same == (Fact.NAIVE in TYPES[name].facts)


def test_spark_has_the_type_or_exchanges_it_as_it_is(name: str, in_duckdb: str) -> None:
    (column,) = columns_of({"x": in_duckdb})
    is_alike = duckdb_type(column, for_spark=True) == duckdb_type(column, for_spark=False)
    assert is_alike == bool(TYPES[name].facts & (Fact.AS_SPARK | Fact.OPAQUE))


def test_fact_of_a_nested_column_is_that_of_its_fields() -> None:
    (column,) = columns_of({"x": "STRUCT(a INTEGER, b DECIMAL(9, 2)[])"})
    assert has_throughout(column, Fact.AS_SPARK)
    assert not has_throughout(column, Fact.AS_SPARK, ("struct",))
    assert not has_throughout(column, Fact.IN_FOOTERS | Fact.FLOAT)
    assert not has("struct", Fact.AS_SPARK)


def test_failed_transaction_of_the_default_connection_does_not_matter(store: Store) -> None:
    duckdb.begin()
    try:
        with pytest.raises(duckdb.Error):
            duckdb.execute("SELECT error('fails')").fetchall()
        with pytest.raises(duckdb.TransactionException):
            duckdb.sqltype("BIGINT")
        with store.open() as lake:
            table = lake.create_table("t", {"id": "BIGINT"})
            table.append(lake.sql("SELECT 1 AS id"))
            table.merge(lake.sql("SELECT 2 AS id"), on="id")
            assert lake.sql("SELECT count(*) FROM t").collect("pyarrow").item() == 2
    finally:
        duckdb.rollback()


def kinds(source: AttachedLake, name: str, version: int) -> list[tuple[int, tuple[str, ...]]]:
    return [(change.snapshot_id, change.changes) for change in history(source.reader, name, version)]


def test_files_of_a_table_with_their_deletes(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as source:
        source.run("CREATE TABLE lake.t (a INTEGER, p VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
        source.run("INSERT INTO lake.t SELECT i, 'x' FROM range(100) AS r(i)")
        source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE a < 3")
        source.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE a IN (50, 51)")
        source.run("INSERT INTO lake.t SELECT i, NULL FROM range(20) AS r(i)")
        (first, second), _ = stored_rows(source.reader, "t", source.newest)
        (path, size), _ = source.metadata("SELECT path, file_size_bytes FROM ducklake_data_file ORDER BY data_file_id")
        ((deletes,),) = source.metadata("SELECT path FROM ducklake_delete_file")
        assert first.path.endswith(f"/main/t/{path}")
        assert (first.delete_file or "").endswith(deletes)
        assert (first.rows, first.bytes, first.begin_snapshot, first.deleted_rows) == (100, size, 3, 5)
        assert (second.rows, second.delete_file, second.deleted_rows) == (20, None, 0)
        assert (first.partition, second.partition) == (("x",), (None,))
        assert [file.partition for file in stored_rows(source.reader, "t", 3)[0]] == [("x",)]
        assert stored_rows(source.reader, "t", 2) == ([], 0)


def test_a_long_history_is_not_read_to_find_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite finds what these queries need by its index."""
    sent: list[tuple[str, Sequence[Any]]] = []
    own_rows, own_sql = MetadataTransaction.own_rows, MetadataTransaction.own_sql

    def rows(self: MetadataTransaction, sql: str, columns: str, parameters: Sequence[Any] = (), **rest: Any) -> Any:
        sent.append((sql, parameters))
        return own_rows(self, sql, columns, parameters, **rest)

    def written(self: MetadataTransaction, sql: str, columns: str) -> str:
        sent.append((sql, ()))
        return own_sql(self, sql, columns)

    monkeypatch.setattr(MetadataTransaction, "own_rows", rows)
    monkeypatch.setattr(MetadataTransaction, "own_sql", written)
    with lake("sqlite", tmp_path) as source:
        source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
        reader = source.reader
        assert latest(reader) == by_version(reader, 2)
        assert load_table(reader, "t", 2) == load_table(reader, "t", 2)
    catalog = sqlite3.connect(tmp_path / "catalog.sqlite")
    plans = [
        [detail for *_, detail in catalog.execute(f"EXPLAIN QUERY PLAN {sql}", tuple(parameters))]
        for sql, parameters in sent
        if "ducklake_snapshot" in sql
    ]
    catalog.close()
    assert len(plans) >= 4
    assert [
        plan for plan in plans if any("SCAN ducklake_snapshot" in detail or "SCAN s" in detail for detail in plan)
    ] == []


def test_files_of_all_tables_are_those_of_each(source: AttachedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every version, and with as many statements for many tables as for few."""
    source.run('CREATE SCHEMA lake."odd.schema"', "CREATE TABLE lake.empty (a INTEGER)")
    for name in ("plain", '"odd.schema".keyed'):
        source.run(f"CREATE TABLE lake.{name} (a INTEGER, p VARCHAR)")
    source.run('ALTER TABLE lake."odd.schema".keyed SET PARTITIONED BY (p)')
    for name in ("plain", '"odd.schema".keyed'):
        source.run(f"INSERT INTO lake.{name} SELECT i, 'x' FROM range(100) AS r(i)")
        source.run("CALL lake.set_option('data_inlining_row_limit', 0)", f"DELETE FROM lake.{name} WHERE a < 3")
        source.run("CALL lake.set_option('data_inlining_row_limit', 10)", f"DELETE FROM lake.{name} WHERE a > 97")
        source.run(f"INSERT INTO lake.{name} VALUES (7, 'y')", f"INSERT INTO lake.{name} VALUES (8, 'z')")
    source.run("ALTER TABLE lake.plain RENAME TO renamed", "DROP TABLE lake.empty")
    for version in source.versions():
        every = stored_rows_of_all(source.reader, version)
        assert every == {name: stored_rows(source.reader, name, version) for name in every}
    assert sorted(every) == ['"odd.schema".keyed', "main.renamed"]
    live = [(sum(file.rows - file.deleted_rows for file in files), rows) for files, rows in every.values()]
    assert live == [(95, 2), (95, 2)]

    sent: list[str] = []
    read = MetadataTransaction.rows

    def reading(self: MetadataTransaction, *call: Any) -> Any:
        sent.append(call[0])
        return read(self, *call)

    monkeypatch.setattr(MetadataTransaction, "rows", reading)
    counts = []
    for number in range(2):
        for at in range(10):
            source.run(f"CREATE TABLE lake.t_{number}_{at} AS SELECT 1 AS a")
        sent.clear()
        assert len(stored_rows_of_all(source.reader, source.newest)) == 12 + 10 * number
        counts.append(len(sent))
    assert counts[0] == counts[1] < 20


def test_history_lists_the_changes_of_one_table(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.u (a INTEGER)", "CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.u VALUES (1)")
    file_lake.run(
        "INSERT INTO lake.t VALUES (1)", "ALTER TABLE lake.t RENAME TO v", "ALTER TABLE lake.v ADD COLUMN b INT"
    )
    file_lake.run(
        "BEGIN", "INSERT INTO lake.v VALUES (1, 2), (3, 4)", "DELETE FROM lake.v WHERE a = 1 AND b IS NULL", "COMMIT"
    )
    changes = kinds(file_lake, "v", file_lake.newest)
    assert changes == [
        (2, ("created_table",)),
        (4, ("inserted_into_table",)),
        (5, ("renamed_table",)),
        (6, ("altered_table",)),
        (7, ("inserted_into_table", "deleted_from_table")),
    ]
    assert kinds(file_lake, "t", 4) == changes[:2]
    assert kinds(file_lake, "u", file_lake.newest) == [(1, ("created_table",)), (3, ("inserted_into_table",))]


def test_table_created_with_rows_has_both_changes(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t AS SELECT 1 AS a", "BEGIN", "ALTER TABLE lake.t RENAME TO w")
    file_lake.run("ALTER TABLE lake.w ADD COLUMN b INTEGER", "COMMIT")
    assert kinds(file_lake, "w", 2) == [
        (1, ("created_table", "inserted_into_table")),
        (2, ("renamed_table", "altered_table")),
    ]


def test_files_are_those_of_one_state_if_the_catalog_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows, changes = MetadataTransaction.rows, ["ALTER TABLE lake.t RENAME COLUMN p TO q"]

    def rows(self: MetadataTransaction, sql: str, *parameters: Any) -> Any:
        if "transform FROM ducklake_partition_column" in sql and changes:
            writer.run(changes.pop())
        return read_rows(self, sql, *parameters)

    monkeypatch.setattr(MetadataTransaction, "rows", rows)
    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as writer:
        writer.run("CREATE TABLE lake.t (a INTEGER, p VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
        writer.run("CALL lake.set_option('data_inlining_row_limit', 0)", "INSERT INTO lake.t VALUES (1, 'x')")
        with lake("sqlite", tmp_path, options=", READ_ONLY") as reading:
            reading.run("SET threads = 4")  # on one thread, DuckDB needs no more connections to the catalog
            ((file,), _) = stored_rows(reading.reader, "t", reading.newest)
            assert (file.partition, file.partition_keys) == (("x",), ("p",))
            ((file,), _) = stored_rows(reading.reader, "t", reading.newest)
    assert not changes
    assert (file.partition, file.partition_keys) == (("x",), ("q",))


def test_history_of_an_unknown_table_is_an_error(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    with pytest.raises(TableNotFoundError):
        history(file_lake.reader, "t", 0)
    with pytest.raises(SnapshotNotFoundError):
        stored_rows(file_lake.reader, "t", 9)


ROWS = pa.table({"id": pa.array(range(5000), pa.int64())})


def summaries(lake: lakeconf.Lake) -> list[str]:
    lake.refresh()
    return list(change_summaries(catalog_of(lake), lake.snapshots()).values())


def test_changes_of_tables_have_their_names_of_then(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    lake.table("t").append(ROWS)
    lake.rename_table("t", '"odd.name"')
    lake.table('"odd.name"').delete("id < 10")
    lake.table('"odd.name"').evolve(add={"n": "INTEGER"})
    lake.create_view("s.v", "SELECT 1 AS one")
    lake.drop_table('"odd.name"')
    assert summaries(lake) == [
        *("create schema main", "create main.t", "create main.u", "insert main.t +5,000 rows"),
        *('rename main.t to main."odd.name"', 'delete from main."odd.name"', 'alter main."odd.name"'),
        *("create schema s, create view s.v", 'drop main."odd.name"'),
    ]


def test_rows_are_counted_per_table_and_only_if_they_are_known(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    with lake.transaction() as tx:
        tx.table("t").append(ROWS)
        tx.table("u").append(ROWS.slice(0, 20))
    lake.table("u").append(ROWS.slice(0, 30))
    assert summaries(lake)[3:] == ["insert main.t +5,000 rows, insert main.u +20 rows", "insert main.u +30 rows"]
    lake.maintenance.compact()
    assert summaries(lake)[3:5] == ["insert main.t +5,000 rows, insert main.u", "insert main.u"]
    run_plain(lake, "CALL dev.set_option('data_inlining_row_limit', 10)", "INSERT INTO u VALUES (7)")
    assert summaries(lake)[-1] == "insert main.u"


@pytest.mark.parametrize(
    "changes", ["something_new:1", "inserted_into_table:99", "odd text", 'created_table:"open', ""]
)
def test_unknown_changes_stay_as_they_are(two_tables: lakeconf.Lake, changes: str) -> None:
    snapshot = Snapshot(7, dt.datetime.now(dt.UTC), 1, changes)
    assert change_summaries(catalog_of(two_tables), [snapshot]) == {7: changes}


@pytest.mark.parametrize("name", ["x,dropped_table:1,", "x:1", ',"",dropped_table:1,""', "dropped_table:1", '"'])
def test_name_that_looks_like_changes_is_none(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    text = f'created_table:{quoted}.{quoted},altered_table:7,created_view:"main".{quoted}'
    assert made_changes(text) == [("altered_table", 7)]


def test_maintenance_changes_no_table() -> None:
    kinds = ("merge_adjacent", "compacted_table", "rewrite_delete", "inline_flush", "flushed_inlined_data")
    changes = [*kinds, "inlined_insert", "dropped_table"]
    text = ",".join(f"{kind}:{number}" for number, kind in enumerate(changes))
    assert changed_tables(text) == [("inlined_insert", 5), ("dropped_table", 6)]


@pytest.fixture
def changed(file_lake: AttachedLake) -> AttachedLake:
    """A lake whose snapshots 1 and 2 create `t` and `u`, 3 and 5 insert into `t`, 4 into `u`; 6 and 7 merge `t`."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "CREATE TABLE lake.u (a INTEGER)")
    file_lake.run(*(f"INSERT INTO lake.{name} VALUES (1)" for name in ("t", "u", "t")))
    file_lake.run(
        "CALL ducklake_merge_adjacent_files('lake', 't')", 'ALTER TABLE lake.t RENAME TO "u,altered_table:1,"'
    )
    return file_lake


def test_deleted_rows_are_lost_with_the_snapshot_before(changed: AttachedLake) -> None:
    table, last = id_of(changed, "u"), changed.newest
    changed.run("DELETE FROM lake.u", "INSERT INTO lake.u VALUES (2)")
    assert changes_since(changed.reader, table, last, last + 2) == [last + 1, last + 2]
    changed.run(f"CALL ducklake_expire_snapshots('lake', versions => {list(range(last + 1))})")
    with pytest.raises(SnapshotNotFoundError, match=f"snapshot {last} has expired"):
        changes_since(changed.reader, table, last, last + 2)
    assert changes_since(changed.reader, table, last + 1, last + 2) == [last + 2]
    assert changes_since(changed.reader, id_of(changed, "u,altered_table:1,"), last, last + 2) == []


def id_of(lake: AttachedLake, name: str) -> int:
    return int(lake.metadata(f"SELECT min(table_id) FROM ducklake_table WHERE table_name = '{name}'")[0][0])


def test_snapshot_without_a_record_has_unknown_changes(changed: AttachedLake) -> None:
    changed.run(f"DELETE FROM {METADATA}.ducklake_snapshot_changes WHERE snapshot_id = 3")
    assert changes_between(changed.reader, 2, 3) == [(3, None)]
