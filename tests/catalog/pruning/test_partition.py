"""Partition keys that can exclude files, and their conditions."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA

from lakeconf.catalog.pruning.pruned_files import PartitionKey, bucket_sql, partition_condition, usable_keys
from lakeconf.catalog.tables import Column, load_table

if TYPE_CHECKING:
    from catalog_lake import Lake

    from lakeconf.catalog.pruning.predicates import Operator, Value


def column(type_name: str, *, former: str = "", later: str = "") -> Column:
    return Column(
        1, "a", type_name, nullable=True, initial_default=None,
        former_types=(former,) if former else (), later_types=(later,) if later else (),
    )  # fmt: skip


def key(transform: str) -> PartitionKey:
    return PartitionKey("key_0", 1, transform, ((1, 0),))


@pytest.mark.parametrize(
    ("transform", "operator", "values", "expected"),
    [
        ("year", "=", [date(2026, 1, 31)], "{} IN (2026)"),
        ("year", "<", [date(2026, 1, 31)], "{} <= 2026"),
        ("year", "<=", [datetime(2026, 1, 31)], "{} <= 2026"),
        ("year", ">", [date(2026, 1, 31)], "{} >= 2026"),
        ("year", ">=", [date(2026, 1, 31)], "{} >= 2026"),
        ("year", "!=", [date(2026, 1, 31)], None),
        ("month", "=", [date(2026, 1, 31), date(2025, 3, 1)], "{} IN (1, 3)"),
        ("month", "<", [date(2026, 1, 31)], None),
        ("day", "=", [date(2026, 1, 31)], "{} IN (31)"),
        ("day", ">=", [date(2026, 1, 31)], None),
        ("hour", "=", [datetime(2026, 1, 31, 23)], "{} IN (23)"),
        ("hour", "!=", [datetime(2026, 1, 31, 23)], None),
    ],
)
def test_condition_of_a_part_of_a_date(
    transform: str, operator: Operator, values: list[Value], expected: str | None
) -> None:
    shown = expected and expected.format("TRY_CAST(key_0.value AS BIGINT)")
    assert partition_condition(key(transform), column("timestamp"), operator, values) == shown


def test_condition_of_a_bucket_contains_the_bucket_of_each_value() -> None:
    found = partition_condition(key("bucket(7)"), column("varchar"), "=", ["x", "it's"])
    assert found is not None
    buckets = [f"murmur3_32(CAST('{text}' AS VARCHAR)) & 2147483647) % 7" for text in ("x", "it''s")]
    assert all(bucket in found for bucket in buckets)
    assert partition_condition(key("bucket(7)"), column("varchar"), "<", ["x"]) is None


def test_only_bucket_is_a_bucket() -> None:
    assert bucket_sql("bucket(16)", "x") == "(murmur3_32(x) & 2147483647) % 16"
    for transform in ("identity", "year", "bucket", "bucket()", "bucket(x)", "my_bucket(3)", "bucket(3) "):
        assert bucket_sql(transform, "x") is None


@pytest.mark.parametrize(
    ("values", "type_name"),
    [(["1", "2", "-3"], "INTEGER"), (["'a'", "''", "'é'"], "VARCHAR"), (["DATE '2026-01-31'"], "DATE")],
)
def test_bucket_is_the_one_that_ducklake_writes(local: Lake, values: list[str], type_name: str) -> None:
    local.run(f"CREATE TABLE lake.t (a {type_name})", "ALTER TABLE lake.t SET PARTITIONED BY (bucket(5, a))")
    for value in values:
        local.run(f"INSERT INTO lake.t VALUES ({value})")
    written = local.metadata("SELECT partition_value FROM ducklake_file_partition_value ORDER BY data_file_id")
    computed = local.rows(f"SELECT {', '.join(str(bucket_sql('bucket(5)', value)) for value in values)}")
    assert [int(text) for (text,) in written] == list(computed[0])


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


@pytest.fixture
def keyed(local: Lake) -> Lake:
    """A lake with a table of two columns that has been partitioned three times."""
    local.run("CREATE TABLE lake.other (a INTEGER)", "ALTER TABLE lake.other SET PARTITIONED BY (a)")
    local.run("CREATE TABLE lake.t (a TIMESTAMP, b INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (year(a), b)")
    local.run("ALTER TABLE lake.t SET PARTITIONED BY (b, day(a))", "ALTER TABLE lake.t SET PARTITIONED BY (year(a))")
    local.run("INSERT INTO lake.t VALUES ('2026-01-31', 1)")
    return local


def test_each_key_lists_the_partitionings_that_contain_it(keyed: Lake) -> None:
    table = load_table(keyed.reader, "t", keyed.newest)
    ids = sorted(number for (number,) in keyed.metadata(
        f"SELECT partition_id FROM ducklake_partition_info WHERE table_id = {table.table_id}"
    ))  # fmt: skip
    with keyed.reader.transaction() as transaction:
        keys = usable_keys(transaction, table.table_id, table.columns)
        only_b = usable_keys(transaction, table.table_id, table.columns[1:])
    first, second, third = ids
    assert [(one.name, one.transform, one.partitionings) for one in keys[1]] == [
        ("key_0", "day", ((second, 1),)),
        ("key_1", "year", ((first, 0), (third, 0))),
    ]
    assert [(one.name, one.transform, one.partitionings) for one in keys[2]] == [
        ("key_2", "identity", ((first, 1), (second, 0)))
    ]
    assert list(only_b) == [2]


def test_values_of_a_key_are_listed_by_file_and_partitioning(keyed: Lake) -> None:
    table = load_table(keyed.reader, "t", keyed.newest)
    keyed.run("INSERT INTO lake.other VALUES (5)")
    with keyed.reader.transaction() as transaction:
        (_, by_year) = usable_keys(transaction, table.table_id, table.columns)[1]
        rows: list[tuple[Any, ...]] = transaction.rows(by_year.table_sql(table.table_id))
    file_id = keyed.metadata(f"SELECT data_file_id FROM ducklake_data_file WHERE table_id = {table.table_id}")[0][0]
    assert sorted(rows) == [(file_id, partition_id, "2026") for partition_id, _ in by_year.partitionings]


def test_key_is_usable_if_it_depends_only_on_the_value(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (a)")
    table = load_table(local.reader, "t", local.newest)
    expected = [(transform, one, True) for transform, columns in USABLE.items() for one in columns]
    expected += [(transform, one, False) for transform, columns in UNUSABLE.items() for one in columns]
    for transform in {**USABLE, **UNUSABLE}:
        local.run(f"UPDATE {METADATA}.ducklake_partition_column SET transform = '{transform}'")
        with local.reader.transaction() as transaction:
            for _, one, is_usable in (case for case in expected if case[0] == transform):
                assert (1 in usable_keys(transaction, table.table_id, [one])) is is_usable, (transform, one)
