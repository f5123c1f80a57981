"""File pruning: a file is skipped only if none of its rows can match the condition, in whatever way it is written."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from catalog_lake import METADATA, AttachedLake, column, duckdb_rows, planned_rows
from local_stores import store_of

from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.pruning.pruned_files import bounds_of, usable_keys
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.pruning.where import parse
from lakeconf.catalog.tables import Column, load_table
from lakeconf.connection.connection import connect, load_extension
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import lakeconf
    from lakeconf.connection.connection import Connection


def kept(source: AttachedLake, where: str) -> list[int]:
    """The indexes of the files in the plan; also compares the rows of the plan with those of DuckDB."""
    plan = plan_scan(source.reader, "t", source.newest, where=where)
    everything = plan_scan(source.reader, "t", source.newest)
    all_ids = [file.data_file_id for file in everything.files]
    assert plan.files_skipped == len(all_ids) - len(plan.files)
    assert plan.bytes_skipped == sum(f.file_size_bytes for f in everything.files) - sum(
        f.file_size_bytes for f in plan.files
    )
    found = planned_rows(source, plan)
    if plan.table.columns[0].type not in ("blob", "uuid"):
        assert found == duckdb_rows(source, plan, where), where
    return [all_ids.index(file.data_file_id) for file in plan.files]


def files(source: AttachedLake, type_: str, *contents: Sequence[str]) -> None:
    """Creates a table `t` with a column `a`, and one file for each list of values."""
    source.run("CALL lake.set_option('data_inlining_row_limit', 0)", f"CREATE TABLE lake.t (a {type_})")
    for values in contents:
        source.run(f"INSERT INTO lake.t VALUES {', '.join(f'({value})' for value in values)}")


@pytest.mark.slow
def test_statistics_prune_files_on_every_catalog(source: AttachedLake) -> None:
    files(source, "INTEGER", ["1", "9"], ["10", "NULL", "15"], ["20", "20"], ["NULL"])
    for where, expected in {
        "a = 5": [0],
        "a != 20": [0, 1],
        "a < 10": [0],
        "a <= 10": [0, 1],
        "a > 15": [2],
        "a IN (7, 20)": [0, 2],
        "a NOT IN (20)": [0, 1],
        "a BETWEEN 16 AND 30": [2],
        "a IS NULL": [1, 3],
        "a IS NOT NULL": [0, 1, 2],
        "NOT (a < 10 OR a = 20)": [1],
        "a < 1 AND a > 1": [],
        "a = 5 OR a IS NULL": [0, 1, 3],
        "a > 100": [],
        f"a IN ({', '.join(map(str, range(12, 100)))})": [1, 2],
    }.items():
        assert kept(source, where) == expected, where


def test_strings_are_compared_by_bytes_in_any_catalog_collation(source: AttachedLake) -> None:
    files(source, "VARCHAR", ["'A'", "'B'"], ["'a'", "'abz'"], ["'é'"])
    for where, expected in {
        "a = 'B'": [0],
        "a >= 'a'": [1, 2],
        "a < 'a'": [0],
        "a > 'é'": [],
        "a LIKE 'A%'": [0],
        "a LIKE 'ab%'": [1],
        "a NOT LIKE 'a%'": [0, 2],
        "a LIKE '%'": [0, 1, 2],
    }.items():
        assert kept(source, where) == expected, where


def test_long_string_with_a_truncated_bound_is_found(source: AttachedLake) -> None:
    files(source, "VARCHAR", ["repeat('z', 300)"], ["repeat('z', 256)"], ["repeat('é', 300)"], ["'a' || chr(0) || 'b'"])
    assert 0 in kept(source, f"a = '{'z' * 300}'")
    assert 0 in kept(source, f"a > '{'z' * 299}'")
    assert 0 in kept(source, f"a LIKE '{'z' * 290}%'")
    assert 2 in kept(source, f"a = '{'é' * 300}'")
    assert 3 in kept(source, "a > 'a' AND a < 'b'")


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
def test_nan_is_greater_than_every_bound(source: AttachedLake, type_: str) -> None:
    files(source, type_, ["1", "2"], ["1", "'nan'"], ["'nan'"], ["NULL"])
    assert kept(source, "a > 5") == [1, 2]
    assert kept(source, "a != 1") == [0, 1, 2]
    assert kept(source, "a = 'nan'") == [1, 2]
    assert kept(source, "a >= 'nan'") == [1, 2]
    assert kept(source, "a > 'nan'") == []
    assert set(kept(source, "a < 'nan'")) >= {0, 1}
    assert {0, 1} <= set(kept(source, "NOT a = 'nan'"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "values", "wheres", "other"),
    [
        # Without statistics of NaN, with a narrower float, and with more digits than the column.
        ("DOUBLE", pa.array([1.0, float("nan")]), ["a > 100", "a = 'nan'"], "a < 0"),
        ("DOUBLE", pa.array([0.1], pa.float32()), ["a > 0.1", "a = 0.10000000149011612"], "a < 0"),
        (
            "TIMESTAMP",
            pa.array([1767225600123456789], pa.timestamp("ns")),
            [f"a {operator} '2026-01-01 00:00:00.123456'" for operator in ("=", "<=")],
            "a > '2026-01-01 00:00:01'",
        ),
    ],
    ids=["nan", "narrow", "fine"],
)
def test_values_of_a_registered_file_are_found(
    source: AttachedLake, type_: str, values: pa.Array, wheres: list[str], other: str
) -> None:
    path = source.folder / "registered.parquet"
    pq.write_table(pa.table({"a": values}), path)
    source.run(f"CREATE TABLE lake.t (a {type_})", f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    assert [kept(source, where) for where in wheres] == [[0], [0]]
    assert kept(source, other) == []


def test_file_without_statistics_is_kept(source: AttachedLake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)")
    for name, statistics in (("without", False), ("with", True)):
        path = source.folder / f"{name}.parquet"
        pq.write_table(pa.table({"a": pa.array([1, None], pa.int32())}), path, write_statistics=statistics)
        source.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    for where in ("a = 1", "a IS NULL", "a IS NOT NULL", "a = 99", "a > 5", "NOT a = 1"):
        assert 0 in kept(source, where)
    assert kept(source, "a = 99") == [0]


def test_file_with_invalid_or_missing_bounds_is_kept(file_lake: AttachedLake) -> None:
    files(file_lake, "INTEGER", ["1"], ["2"], ["3"])
    file_lake.run(f"UPDATE {METADATA}.ducklake_file_column_stats SET min_value = 'x' WHERE data_file_id = 0")
    file_lake.run(f"UPDATE {METADATA}.ducklake_file_column_stats SET max_value = NULL WHERE data_file_id = 1")
    file_lake.run(f"DELETE FROM {METADATA}.ducklake_file_column_stats WHERE data_file_id = 2")
    plan = plan_scan(file_lake.reader, "t", file_lake.newest, where="a = 99")
    assert [file.data_file_id for file in plan.files] == [1, 2]
    plan = plan_scan(file_lake.reader, "t", file_lake.newest, where="a = -99")
    assert [file.data_file_id for file in plan.files] == [0, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "value", "wheres"),
    [
        ("INTEGER", "BIGINT", "7", ["a = 7", "a < 3000000000"]),
        ("TINYINT", "DOUBLE", "7", ["a = 7", "a > 6.5"]),
        ("INTEGER", "DECIMAL(12,2)", "7", ["a = 7", "a > 6.99"]),
        ("FLOAT", "DOUBLE", "0.1", ["a > 0.1", "a = 0.10000000149011612", "a >= 0.10000000149011612"]),
        ("FLOAT", "DOUBLE", "-0.1", ["a < -0.1", "a = -0.10000000149011612"]),
        ("DATE", "TIMESTAMP", "DATE '2026-03-08'", ["a < '2026-03-08 12:00:00'", "a = '2026-03-08'"]),
    ],
)
def test_promoted_column_uses_the_bounds_of_its_old_files(
    source: AttachedLake, before: str, after: str, value: str, wheres: list[str]
) -> None:
    files(source, before, [value])
    source.run(f"ALTER TABLE lake.t ALTER COLUMN a TYPE {after}")
    for where in wheres:
        assert kept(source, where) == [0], where
    assert kept(source, "a < '2025-01-01'" if after == "TIMESTAMP" else "a < -1000") == []


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_timestamp_promoted_to_timestamptz_is_pruned_in_every_zone(file_lake: AttachedLake, zone: str) -> None:
    files(file_lake, "TIMESTAMP", ["TIMESTAMP '2026-03-08 02:30:00'", "TIMESTAMP '2026-03-08 03:00:00'"])
    file_lake.run("ALTER TABLE lake.t ALTER COLUMN a TYPE TIMESTAMPTZ", f"SET TimeZone = '{zone}'")
    values = [
        text for (text,) in file_lake.rows("SELECT strftime(a AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S') FROM lake.t")
    ]
    for text in values:
        for operator in ("=", "<=", ">="):
            plan = plan_scan(file_lake.reader, "t", file_lake.newest, where=f"a {operator} TIMESTAMPTZ '{text}+00'")
            assert len(plan.files) == 1
    assert plan_scan(file_lake.reader, "t", file_lake.newest, where="a > '2026-03-12 00:00:00Z'").files == ()


@pytest.mark.parametrize(("type_", "text"), [("TIMESTAMP_S", "00:00:01.6"), ("TIMESTAMP_MS", "00:00:01.0006")])
def test_timestamps_rounded_on_read_are_found_by_the_rounded_value(
    file_lake: AttachedLake, type_: str, text: str
) -> None:
    path = file_lake.folder / "fine.parquet"
    file_lake.run(f"CREATE TABLE lake.t (a {type_})", f"COPY (SELECT TIMESTAMP '2026-01-01 {text}' AS a) TO '{path}'")
    file_lake.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    ((read,),) = file_lake.rows("SELECT CAST(a AS VARCHAR) FROM lake.t")
    for operator in ("=", "<=", ">="):
        assert len(plan_scan(file_lake.reader, "t", file_lake.newest, where=f"a {operator} '{read}'").files) == 1


def test_boolean_statistics_in_both_spellings(source: AttachedLake) -> None:
    files(source, "BOOLEAN", ["true"], ["false"])
    for value in ("true", "false"):
        path = source.folder / f"{value}.parquet"
        source.run(f"COPY (SELECT {value} AS a) TO '{path}'")
        source.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    assert kept(source, "a") == [0, 2]
    assert kept(source, "NOT a") == kept(source, "a = false") == [1, 3]


LOW, HIGH = "00000000-0000-4000-8000-000000000000", "f79c3e09-677c-4bbd-a479-3f349cb785e7"
PRUNED: dict[str, tuple[list[str], dict[str, list[int]]]] = {
    "TIMESTAMPTZ": (
        ["'2026-01-01 00:00:00+00'", "'2026-01-02 00:00:00.000001+00'"],
        {"a < '2026-01-02 00:00:00Z'": [0], "a > '2026-01-02 00:00:00Z'": [1]},
    ),
    # By the count of NULLs, but not by bounds.
    "BLOB": ([r"'\xAA'::BLOB", "'AA'::BLOB", "NULL"], {r"a = '\xAA'::BLOB": [0, 1], "a > 'z'::BLOB": [0, 1]}),
    "UUID": ([f"'{LOW}'", f"'{HIGH}'"], {f"a = '{HIGH.upper()}'": [1], f"a < '{HIGH}'": [0], f"a > '{LOW}'": [1]}),
}


@pytest.mark.parametrize("type_", PRUNED)
def test_files_are_pruned_by_the_order_of_their_type(source: AttachedLake, type_: str) -> None:
    values, wheres = PRUNED[type_]
    source.run("SET TimeZone = 'Asia/Kolkata'")
    files(source, type_, *([value] for value in values))
    for where, expected in wheres.items():
        plan = plan_scan(source.reader, "t", source.newest, where=where)
        assert [file.data_file_id for file in plan.files] == expected, where


@pytest.mark.parametrize("type_", ["INTERVAL", "TIMETZ", "HUGEINT", "INTEGER[]", "STRUCT(x INTEGER)", "JSON"])
def test_files_of_types_without_useful_statistics_are_kept(source: AttachedLake, type_: str) -> None:
    source.run("CALL lake.set_option('data_inlining_row_limit', 0)", f"CREATE TABLE lake.t (a {type_})")
    source.run("INSERT INTO lake.t VALUES (NULL)")
    assert len(plan_scan(source.reader, "t", source.newest, where="a IS NULL").files) == 1


def test_column_missing_from_a_file_has_its_initial_default(source: AttachedLake) -> None:
    files(source, "INTEGER", ["1"])
    source.run("ALTER TABLE lake.t ADD COLUMN b INTEGER DEFAULT 7", "INSERT INTO lake.t VALUES (2, 9)")
    assert kept(source, "b = 7") == [0]
    assert 0 in kept(source, "b != 9")
    assert 0 in kept(source, "b IS NOT NULL")
    source.run("ALTER TABLE lake.t DROP COLUMN b", "ALTER TABLE lake.t ADD COLUMN b INTEGER")
    assert kept(source, "b IS NULL") == [0, 1]


def test_partition_values_use_the_partitioning_of_the_file(source: AttachedLake) -> None:
    files(source, "INTEGER")
    source.run("ALTER TABLE lake.t ADD COLUMN b INTEGER", "ALTER TABLE lake.t SET PARTITIONED BY (a)")
    source.run("INSERT INTO lake.t VALUES (1, 2)", "ALTER TABLE lake.t SET PARTITIONED BY (b)")
    source.run("INSERT INTO lake.t VALUES (2, 1)", "ALTER TABLE lake.t RESET PARTITIONED BY")
    source.run("INSERT INTO lake.t VALUES (1, 1)")
    without_statistics(source)
    assert kept(source, "a = 1") == [0, 1, 2]
    assert kept(source, "a = 2") == [1, 2]
    assert kept(source, "b = 2") == [0, 2]
    assert kept(source, "b > 1 AND a < 2") == [0, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "key", "values", "where", "expected"),
    [
        ("VARCHAR", "a", ["'x'", "''", "NULL"], "a = 'x'", [0, 2]),
        ("VARCHAR", "a", ["'x'", "''", "NULL"], "a = ''", [1, 2]),
        ("VARCHAR", "a", ["'x'", "''", "NULL"], "a IS NULL", [0, 1, 2]),
        ("DOUBLE", "a", ["0.1", "'nan'", "0.0"], "a = -0.0", [1, 2]),
        ("DOUBLE", "a", ["0.1", "'nan'", "0.0"], "a = 'nan'", [0, 1, 2]),
        ("BOOLEAN", "a", ["true", "false"], "a", [0]),
        ("DATE", "year(a)", ["DATE '2025-12-31'", "DATE '2026-01-01'"], "a >= '2026-01-01'", [1]),
        ("DATE", "year(a)", ["DATE '2025-12-31'", "DATE '2026-01-01'"], "a < '2026-01-01'", [0, 1]),
        ("TIMESTAMP", "year(a)", ["'2025-12-31'", "'2026-01-01'"], "a = '2025-03-01'", [0]),
        ("TIMESTAMP", "month(a)", ["'2025-12-31'", "'2026-01-01'"], "a = '2020-12-01'", [0]),
        ("TIMESTAMP", "month(a)", ["'2025-12-31'", "'2026-01-01'"], "a > '2025-12-01'", [0, 1]),
        ("TIMESTAMP", "day(a)", ["'2025-12-31'", "'2026-01-01'"], "a IN ('2020-05-31', '2020-05-30')", [0]),
        ("TIMESTAMP", "hour(a)", ["'2025-12-31 05:00:00'", "'2026-01-01'"], "a = '2020-01-01 05:59:59'", [0]),
        ("TIMESTAMPTZ", "day(a)", ["'2025-12-31 23:00:00+00'", "'2026-01-01'"], "a = '2020-05-20 00:00:00Z'", [0, 1]),
        ("BIGINT", "bucket(4, a)", ["1", "2", "3"], "a = 3", [2]),
        ("BIGINT", "bucket(4, a)", ["1", "2", "3"], "a IN (1, 3)", [0, 1, 2]),
        ("BIGINT", "bucket(4, a)", ["1", "2", "3"], "a > 2", [0, 1, 2]),
        ("VARCHAR", "bucket(4, a)", ["'1'", "''", "'abc'"], "a = ''", [1]),
        ("DECIMAL(10,2)", "bucket(4, a)", ["0.0", "1.5"], "a = 1.5", [1]),
        ("DOUBLE", "bucket(4, a)", ["0.0", "'nan'"], "a = -0.0", [0, 1]),
    ],
)  # fmt: skip
def test_partition_transforms_prune_files(
    file_lake: AttachedLake, type_: str, key: str, values: list[str], where: str, expected: list[int]
) -> None:
    files(file_lake, type_)
    file_lake.run("SET TimeZone = 'America/New_York'", f"ALTER TABLE lake.t SET PARTITIONED BY ({key})")
    for value in values:
        file_lake.run(f"INSERT INTO lake.t VALUES ({value})")
    without_statistics(file_lake)
    if type_ == "TIMESTAMPTZ":
        plan = plan_scan(file_lake.reader, "t", file_lake.newest, where=where)
        assert [file.data_file_id for file in plan.files] == expected
    else:
        assert kept(file_lake, where) == expected


def test_many_conditions_and_many_files(file_lake: AttachedLake) -> None:
    files(file_lake, "INTEGER", *[[str(number)] for number in range(5)])
    assert kept(file_lake, " OR ".join(f"a = {number}" for number in range(3, 1200))) == [3, 4]
    assert kept(file_lake, f"a IN ({', '.join(map(str, range(2000)))})") == [0, 1, 2, 3, 4]
    file_lake.run(
        f"INSERT INTO {METADATA}.ducklake_data_file SELECT f.* REPLACE (data_file_id + 100 + i AS data_file_id) "
        f"FROM {METADATA}.ducklake_data_file AS f, range(1000) AS r(i) WHERE data_file_id = 0"
    )
    plan = plan_scan(file_lake.reader, "t", file_lake.newest, where="a >= 2")  # the copies have no statistics
    assert len(plan.files) == 1003
    assert plan.files_skipped == 2


def without_statistics(source: AttachedLake) -> None:
    source.run(f"DELETE FROM {METADATA}.ducklake_file_column_stats")


def test_promoted_column_is_compared_by_its_current_type(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (f FLOAT, d DATE)", "INSERT INTO lake.t VALUES (0.1, '2026-01-01')")
    file_lake.run("ALTER TABLE lake.t ALTER COLUMN f TYPE DOUBLE", "ALTER TABLE lake.t ALTER COLUMN d TYPE TIMESTAMP")
    columns = load_table(file_lake.reader, "t", file_lake.newest).columns
    matches = {"f = 0.1": 0, "f > 0.1": 1, "d = '2026-01-01 12:00:00'": 0, "d < '2026-01-01 12:00:00'": 1}
    for where, count in matches.items():
        sql = to_duckdb_sql(parse(where, columns))
        assert file_lake.rows(f"SELECT count(*) FROM lake.t WHERE {sql}") == [(count,)], where


BOOLEANS: dict[str, list[bool | None]] = {
    "true": [True],
    "false": [False],
    "null": [None],
    "mixed": [True, False, None],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakeconf.Lake]:
    """A lake with a table of four files; `part` is the number of the file."""
    folder: Path = tmp_path_factory.mktemp("conditions")
    with store_of(folder).open() as lake:
        for number, flags in enumerate(BOOLEANS.values()):
            rows = pa.table(
                {
                    "part": [number] * len(flags),
                    "flag": pa.array(flags, pa.bool_()),
                    "size": pa.array([None if flag is None else float(number) for flag in flags], pa.float64()),
                    "text": ["x AND y"] * len(flags),
                }
            )
            if not number:
                lake.create_table("raw.t", rows)
            lake.table("raw.t").append(rows)
        yield lake


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("flag IS TRUE", 2),
        ("flag IS NOT TRUE", 3),
        ("flag IS FALSE", 2),
        ("flag IS NOT FALSE", 3),
        ("NOT flag IS FALSE", 3),
        ("part = 0 AND flag IS TRUE", 1),
        ("(flag AND part > 0) IS TRUE", 1),
        ("(flag OR part = 1) IS FALSE", 1),
        ("(flag AND part > 0) IS NOT FALSE", 2),
        ("(part BETWEEN 1 AND 2) IS TRUE", 2),
        ("(NOT flag) IS TRUE IS TRUE", 2),
        ("flag IS TRUE AND length(text) > 1", 2),
        ("part >= 2 AND text = 'x AND y' AND length(text) > 1 AND flag IS NOT TRUE", 2),
        ("size > 1 AND size < 1e999", 2),
        ("size BETWEEN -1e999 AND 0 AND length(text) > 1", 1),
        ("size < 0.5 AND length(text) < 1e999", 1),
        ("part = 3 IS TRUE", 1),
        ("part IS TRUE", 4),
    ],
)
def test_condition_skips_files(where: str, files: int, lake: lakeconf.Lake) -> None:
    table = lake.table("raw.t")
    assert table.explain(where=where).files == files
    names = ("part", "flag", "size")
    listed = ", ".join(names)
    native: Any = lake.sql(f"SELECT {listed} FROM raw.t WHERE {where} ORDER BY ALL").to_native()
    key = [(name, "ascending") for name in names]
    found = table.to_arrow(columns=names, where=where).sort_by(key).to_pylist()
    wanted = [dict(zip(names, row, strict=True)) for row in native.fetchall()]
    assert sorted(map(str, found)) == sorted(map(str, wanted))


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with connect() as opened:
        load_extension(opened, "icu")
        opened.execute("SET TimeZone = 'America/New_York'")
        yield opened


def evaluated(connection: Connection, found: Column, low: str | None, high: str | None) -> tuple[Any, Any]:
    bounds = bounds_of(found, "low", "high")
    assert bounds is not None
    texts = ", ".join("NULL::VARCHAR" if text is None else literal(text) for text in (low, high))
    (row,) = connection.rows(f"SELECT {bounds.low}, {bounds.high} FROM (VALUES ({texts})) AS t(low, high)")
    return row[0], row[1]


@pytest.mark.parametrize(
    "type_name", ["blob", "int128", "uint128", "interval", "time", "json", "list", "struct", "new"]
)
def test_type_without_usable_statistics_has_no_bounds(type_name: str) -> None:
    assert bounds_of(column(type_name), "low", "high") is None


def test_text_of_a_later_timestamptz_widens_the_bounds_by_a_day(connection: Connection) -> None:
    moment, day = column("timestamp", later="timestamptz"), column("date", later="timestamptz")
    for found, texts, expected in (
        (moment, ["2026-01-31 00:00:00"] * 2, (datetime(2026, 1, 30), datetime(2026, 2, 1))),
        (day, ["2026-01-31"] * 2, (date(2026, 1, 30), date(2026, 2, 1))),
        (column("date", later="timestamp"), ["2026-01-31"] * 2, (date(2026, 1, 31), date(2026, 1, 31))),
        # At the end of the calendar.
        (moment, ["290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"], (None, None)),
        (day, ["5877642-06-25 (BC)", "5881580-07-10"], (None, None)),
    ):
        assert evaluated(connection, found, *texts) == expected


@pytest.mark.parametrize("text", ["2026-01-31 12:00:00", "2026-01-31 12:00:00.5", "2026-01-31"])
def test_time_without_an_offset_gives_bounds_for_every_time_zone(connection: Connection, text: str) -> None:
    bounds = bounds_of(column("timestamptz"), "t", "t")
    assert bounds is not None
    inside = (
        f"SELECT {bounds.low} <= (t::TIMESTAMP || '+14')::TIMESTAMPTZ, {bounds.high} - {bounds.low} = INTERVAL 2 DAY, "
        f"{bounds.high} >= (t::TIMESTAMP || '-12')::TIMESTAMPTZ FROM (VALUES ('{text}')) AS v(t)"
    )
    assert connection.rows(inside) == [(True, True, True)]


def test_infinite_time_is_an_exact_bound(connection: Connection) -> None:
    bounds = bounds_of(column("timestamptz"), "low", "high")
    assert bounds is not None
    infinite = (
        f"SELECT isinf({bounds.low}), isinf({bounds.high}) FROM (VALUES ('-infinity', 'infinity')) AS t(low, high)"
    )
    assert connection.rows(infinite) == [(True, True)]


MOMENTS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
USABLE = {
    "identity": [column("float64"), column("timestamptz"), column("list"), column("int8", former="int4")],
    "bucket(4)": [*map(column, ("int8", "uint64", "varchar", "date", "decimal(4,2)"))],
    "year": [*map(column, (*MOMENTS, "date")), column("date", later="timestamp")],
    "day": [*map(column, (*MOMENTS, "date"))],
    "month": [column("date")],
    "hour": [*map(column, MOMENTS)],
}
UNUSABLE = {
    "bucket(4)": [
        *map(column, ("float64", "timestamptz", "timestamp", "blob", "uuid", "int128", "boolean")),
        column("int64", former="uint8"),
        column("int8", later="int64"),
    ],
    "year": [column("timestamptz"), column("timestamp", later="timestamptz"), column("varchar")],
    "month": [column("timestamptz"), column("int32")],
    "hour": [column("date"), column("timestamptz")],
    "truncate(4)": [column("varchar")],
    "week": [column("date")],
}


def test_key_is_usable_if_it_depends_only_on_the_value(file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (a INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (a)")
    table = load_table(file_lake.reader, "t", file_lake.newest)
    expected = [(transform, one, True) for transform, columns in USABLE.items() for one in columns]
    expected += [(transform, one, False) for transform, columns in UNUSABLE.items() for one in columns]
    for transform in {**USABLE, **UNUSABLE}:
        file_lake.run(f"UPDATE {METADATA}.ducklake_partition_column SET transform = '{transform}'")
        with file_lake.reader.transaction() as transaction:
            for _, one, is_usable in (case for case in expected if case[0] == transform):
                assert (1 in usable_keys(transaction, table.table_id, [one])) is is_usable, (transform, one)
