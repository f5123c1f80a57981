"""Data files, delete files, their groups, footers and folders, and how DuckDB reads the files of a plan."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import hypothesis.strategies as st
import narrow_lakes
import pytest
from catalog_lake import FILE_CATALOGS, AttachedLake, duckdb_rows, lake, planned_rows
from hypothesis import given, settings
from lake_parts import catalog_of
from narrow_lakes import COLUMNS, OPERATIONS, conditions
from plain_sql import run_plain
from random_lakes import LAKES, built, examples
from staged_changes import file_groups

from lakeconf.catalog.data_file import (
    DataFile,
    FileGroup,
    folder_keys,
    folder_values,
    load_data_files,
    to_data_file,
    to_delete_file,
)
from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.partial_lake import attach_partial_lake, name_in_lake, refuse_encrypted
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.catalog.tables import NO_ID, Column, PartitionField, TableInfo, load_table
from lakeconf.connection.connection import connect, load_extension
from lakeconf.errors import StorageError, TableNotFoundError, UnsupportedError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import lakeconf
    from lakeconf.connection.connection import Connection


TABLE = TableInfo(1, "main", "t", (), "/data/main/t/")
ROW = ["f.parquet", True, "parquet", 10, 200, 5, 2, None, None, None, None, False]


def loaded(source: AttachedLake, version: int | None = None, ids: Sequence[int] | None = None) -> tuple[DataFile, ...]:
    at = source.newest if version is None else version
    table = load_table(source.reader, "t", at)
    with source.reader.transaction() as transaction:
        return load_data_files(transaction, table, at, ids)


def test_unknown_format_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"^the data file 'f\.orc' has the format 'orc'; lakeconf only reads parquet$"
    ):
        to_data_file(TABLE, [7, "f.orc", True, "orc", *ROW[3:]])
    message = r"^the delete file '/data/main/t/d' has the format 'orc'; lakeconf only reads parquet and puffin$"
    with pytest.raises(UnsupportedError, match=message):
        to_delete_file(TABLE, ["d", True, "orc", 3, 40, None])


def test_repr_shows_no_encryption_key() -> None:
    hidden = "c2VjcmV0IGtleQ=="
    data_file = to_data_file(TABLE, [1, *ROW[:10], hidden, False])
    delete_file = to_delete_file(TABLE, ["d", True, "puffin", 3, 40, hidden])
    assert (data_file.encryption_key, delete_file.encryption_key) == (hidden, hidden)
    assert hidden not in repr((data_file, delete_file))


def test_only_the_wanted_files_are_loaded(three_files: AttachedLake) -> None:
    three_files.run("DELETE FROM lake.t WHERE a IN (3, 15)")
    for wanted, found in (([], []), ([1], [1]), ([2, 0], [0, 2]), ([99], []), (range(0, 2000, 2), [0, 2])):
        some = loaded(three_files, ids=list(wanted))
        assert [file.data_file_id for file in some] == found
        assert some == tuple(file for file in loaded(three_files) if file.data_file_id in found)


def groups(lake: lakeconf.Lake, table: str = "t") -> tuple[FileGroup, ...]:
    reader = catalog_of(lake)
    version = lake.refresh()
    return file_groups(reader, load_table(reader, table, version), version)


def test_files_of_a_partition_are_a_group(two_tables: lakeconf.Lake) -> None:
    lake = two_tables
    run_plain(lake, "INSERT INTO t FROM range(3)", "ALTER TABLE t SET PARTITIONED BY (id)")
    run_plain(lake, "INSERT INTO t SELECT i % 2 FROM range(7) AS r(i)", "INSERT INTO t VALUES (1), (NULL)")
    run_plain(lake, "DELETE FROM t WHERE rowid IN (0, 3)")
    found = groups(lake)
    assert [(group.partition, len(group.files), group.rows) for group in found] == [
        (((0, "1"),), 2, 4),
        ((), 1, 2),
        (((0, "0"),), 1, 3),
        (((0, None),), 1, 1),
    ]
    assert [group.partition_id is None for group in found] == [False, True, False, False]
    assert found[0].folder == f"{load_table(catalog_of(lake), 't', lake.snapshot_id).path}id=1/"
    assert sum(group.size for group in found) == sum(file.bytes for file in lake.table("t").files())
    assert [file.delete_file is None for group in found for file in group.files] == [True, True, False, False, True]
    assert FileGroup((*found[0].files, *found[2].files)).folder is None


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


def column(field_id: int, name: str, type_name: str, *children: Column) -> Column:
    return Column(field_id, name, type_name, nullable=True, initial_default=None, children=children)


def write(connection: Connection, path: Path, query: str, rows_per_group: int = 100000) -> str:
    connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {rows_per_group})")
    return str(path)


def statistics(connection: Connection, path: str, *columns: Column) -> dict[int, tuple[object, ...]]:
    """Values, NULLs and bounds by field id."""
    (footer,) = read_footers(connection, [path], columns)
    return {found.field_id: (found.value_count, found.null_count, found.low, found.high) for found in footer.statistics}


def test_sizes_and_counts_of_a_file(connection: Connection, tmp_path: Path) -> None:
    path = write(connection, tmp_path / "a.parquet", "SELECT i FROM range(5) AS r(i)")
    (footer,) = read_footers(connection, [path])
    assert (footer.path, footer.row_count, footer.statistics) == (path, 5, ())
    assert (tmp_path / "a.parquet").stat().st_size == footer.file_size_bytes > footer.footer_size > 0


ROWS = "SELECT CASE WHEN i < 2048 THEN 9 WHEN i < 4096 THEN 10 END AS n, 'a' || i AS s FROM range(6000) AS r(i)"
STRUCT = column(3, "s", "struct", column(4, "x", "int32"), column(5, "y, z", "date"))


def value(sql: str, type_name: str, low: str | None, high: str | None = None) -> tuple[str, list[Column], Any]:
    """The statistics of one value."""
    return f"SELECT {sql} AS v", [column(1, "v", type_name)], {1: (1, 0, low, low if high is None else high)}


@pytest.mark.parametrize(
    ("query", "columns", "expected"),
    [
        # Of all row groups; numbers are compared as numbers, not as text.
        (
            ROWS,
            [column(1, "n", "int32"), column(2, "s", "varchar")],
            {1: (6000, 1904, "9", "10"), 2: (6000, 0, "a0", "a999")},
        ),
        (
            "SELECT {'x': 7, 'y, z': NULL::DATE} AS s UNION ALL SELECT NULL",
            [STRUCT],
            {4: (2, 1, "7", "7"), 5: (2, 2, None, None)},
        ),
        ("SELECT NULL::INTEGER AS a", [column(1, "a", "int32")], {1: (1, 1, None, None)}),
        # Types and values without exact bounds.
        *(value("0.5::DOUBLE", "float64", None), value("'nan'::FLOAT", "float32", None)),
        *(value("true", "boolean", None), value(r"'\xFF'::BLOB", "blob", None)),
        # Text that cannot be a bound.
        *(value(sql, "varchar", "", "\U0010ffff" * 64) for sql in ("chr(0)", r"'C:\xy'")),
        # Text as in the catalog: in UTC, whatever the session's time zone is.
        value("-1.50::DECIMAL(5,2)", "decimal(5,2)", "-1.50"),
        value("'2024-07-01 12:00:00+02'::TIMESTAMPTZ", "timestamptz", "2024-07-01 10:00:00+00"),
        value("'2024-07-01 12:00:00.000001'::TIMESTAMP", "timestamp", "2024-07-01 12:00:00.000001"),
    ],
)
def test_values_nulls_and_bounds_of_columns(
    query: str, columns: list[Column], expected: object, connection: Connection, tmp_path: Path
) -> None:
    connection.execute("SET TimeZone = 'America/New_York'")
    path = write(connection, tmp_path / "a.parquet", query, 2048)
    assert statistics(connection, path, *columns) == expected


def test_column_with_the_name_of_a_field_and_file_without_a_column_are_refused(
    connection: Connection, tmp_path: Path
) -> None:
    path = write(connection, tmp_path / "a.parquet", """SELECT {'b': NULL::INTEGER} AS a, 1 AS "a, b\"""")
    columns = [column(1, "a", "struct", column(2, "b", "int32")), column(3, "a, b", "int32")]
    with pytest.raises(StorageError, match="two columns have the same path"):
        read_footers(connection, [path], columns)
    path = write(connection, tmp_path / "b.parquet", "SELECT 1 AS a")
    with pytest.raises(StorageError, match="does not have exactly the columns"):
        read_footers(connection, [path], [column(1, "a", "int32"), column(2, "b", "int32")])


TYPES = {
    "day": "date",
    "at": "timestamp",
    "kind": "varchar",
    "price": "decimal(10,2)",
    "zoned": "timestamptz",
    "at2": "timestamp",
}


def table(keys: list[str], types: dict[str, str] | None = None, *, path: str = "/data/s/t/", id_: int = 1) -> TableInfo:
    """A table with keys such as `day` and `year day`."""
    columns = tuple(
        Column(number, name, text, nullable=True, initial_default=None)
        for number, (name, text) in enumerate((types or TYPES).items())
    )
    ids = {column.name: column.field_id for column in columns}
    named = [key.rpartition(" ") for key in keys]
    fields = tuple(
        PartitionField(index, ids.get(name, 99), transform or "identity")
        for index, (transform, _, name) in enumerate(named)
    )
    return TableInfo(id_, "s", "t", columns, path, 0 if keys else None, fields)


def test_keys_have_the_names_of_ducklake() -> None:
    for keys, names in (
        (["day"], ["day"]),
        (["kind", "price", "zoned"], ["kind", "price", "zoned"]),
        (["month at", "year day"], ["month", "year"]),
        (["year at", "kind", "year day"], ["year", "kind", "year_day"]),
        (["hour at", "month at2"], ["hour", "month"]),
    ):
        found = folder_keys(table(keys))
        assert [key.name for key in found] == names, keys
        assert [f"{key.transform} {key.column.name}".removeprefix("identity ") for key in found] == keys, keys


def test_keys_without_certain_folders_have_none() -> None:
    for keys, types in (
        ([], TYPES),
        (["year day", "month day"], TYPES),
        (["day at"], TYPES),
        (["day", "year day"], TYPES),
        (["YEAR", "year day"], {"YEAR": "int32", "day": "date"}),
        (["year zoned"], TYPES),
        (["hour day"], TYPES),
        (["bucket(4) kind"], TYPES),
        (["gone"], TYPES),
        (["kind", "d"], {"kind": "varchar", "d": "float64"}),
        (["k"], {"k": "float32"}),
        (["k"], {"k": "blob"}),
        (["k"], {"k": "uuid"}),
        (["k"], {"k": "struct"}),
        (["year k"], {"k": "decimal(10,2)"}),
        (["year k"], {"k": "date", "YEAR": "int32"}),
        (["year k", "year L"], {"k": "date", "L": "date", "year_l": "int32"}),
        (["a b"], {"a b": "int32"}),
        (["a=b"], {"a=b": "int32"}),
        (["ü"], {"ü": "int32"}),
        (["year k", "year l l"], {"k": "date", "l l": "date"}),
    ):
        assert folder_keys(table(keys, types)) == (), keys


@pytest.mark.parametrize(("schema", "name", "known"), [("s", "a-b_1", True), ("s", "a b", False), ("ü", "t", False)])
def test_folder_of_a_new_table_is_known_for_plain_names(schema: str, name: str, known: bool) -> None:
    """DuckLake invents a folder for other names when it commits."""
    new = table(["day"], id_=NO_ID)
    new = TableInfo(NO_ID, schema, name, new.columns, new.path, 0, new.partition_fields)
    assert bool(folder_keys(new)) is known
    committed = TableInfo(7, schema, name, new.columns, new.path, 0, new.partition_fields)
    assert folder_keys(committed)


def test_folder_above_the_table_must_not_look_like_a_key_if_values_are_read_from_paths() -> None:
    for path in ("/env=prod/data/s/t/", "s3://bucket/a=b/s/t/", "/data/s/t=/"):
        assert folder_keys(table(["day"], path=path)) == (), path
    keys = folder_keys(table(["year day", "month day", "day"], path="/d=1/t/"), registered=False)
    assert [key.name for key in keys] == ["year", "month", "day"]


def test_values_of_a_file_come_from_its_folder() -> None:
    keyed = table(["kind", "year day"])
    for folder, values in (
        ("kind=a%20b%2Fc/year=2024/", ("a b/c", "2024")),
        ("kind=/year=__HIVE_DEFAULT_PARTITION__/", ("", None)),
        ("kind=%C3%A9%2B+/year=1/", ("é++", "1")),
        ("kind=a=b/year=1/", ("a=b", "1")),
    ):
        assert folder_values(keyed, f"/data/s/t/{folder}f.parquet") == values, folder
    for path in ("t/f.parquet", "t/kind=a/f.parquet", "t/year=1/kind=a/f", "u/kind=a/year=1/f"):
        with pytest.raises(StorageError, match=r"is not in the folder of a partition of s\.t"):
            folder_values(keyed, f"/data/s/{path}")


def rows(plan: ScanPlan) -> Counter[tuple[object, ...]]:
    """The rows of a plan's files, with their ids, read in a partial lake."""
    with connect() as connection:
        load_extension(connection, "ducklake")
        source = attach_partial_lake(connection, "part", plan)
        return Counter(connection.rows(_query([name_in_lake(column) for column in plan.columns], source)))


def expected(source: AttachedLake, plan: ScanPlan) -> Counter[tuple[object, ...]]:
    """The same rows, read in the lake."""
    table = f"lake.main.{identifier(plan.table.name)} AT (VERSION => {plan.snapshot_id})"
    with source.reader.lake_cursor() as cursor:
        names = [column.name for column in plan.columns]
        return Counter(cursor.rows(f"{_query(names, table)} WHERE filename LIKE '%/%'"))


def _query(names: Iterable[str], source: str) -> str:
    columns = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
    return f"SELECT rowid, snapshot_id, filename, file_row_number, {columns} FROM {source}"


def assert_alike(source: AttachedLake, versions: Iterable[int] | None = None) -> list[ScanPlan]:
    """Compares the table `t` at some snapshots, by default at all; returns the plans."""
    plans = []
    for version in source.versions() if versions is None else versions:
        with contextlib.suppress(TableNotFoundError):
            plans.append(plan_scan(source.reader, "t", version))
            assert rows(plans[-1]) == expected(source, plans[-1])
    return plans


@pytest.mark.slow
def test_random_lakes_are_read_alike() -> None:
    seen = Counter[str]()
    _compare_random_lakes(seen)
    assert min(seen[kind] for kind in ("plain", "mapped", "delete files")) > 0, seen


@examples(12, prove=300)
@given(**LAKES)
def _compare_random_lakes(
    seen: Counter[str], columns: dict[str, str], operations: list[tuple[object, ...]], inline: bool
) -> None:
    with built("duckdb", columns, operations, inline=inline) as (source, _):
        for plan in assert_alike(source):
            seen["plain"] += bool(plan.files) and not plan.name_mappings
            seen["mapped"] += bool(plan.name_mappings)
            seen["delete files"] += any(file.delete_file for file in plan.files)


def test_deletion_vectors_are_applied(vectors: AttachedLake) -> None:
    vectors.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(1000)", "DELETE FROM lake.t WHERE id % 3 = 0")
    (_, plan) = assert_alike(vectors)
    deletes = plan.files[0].delete_file
    assert deletes is not None
    assert deletes.format == "puffin"


def test_columns_that_look_like_virtual_ones_keep_their_values(inlining_lake: AttachedLake) -> None:
    inlining_lake.run(
        'CREATE TABLE lake.t AS SELECT 7 AS filename, 8 AS rowid, \'x\' AS "a""b", 9 AS rows FROM range(50)'
    )
    plan = plan_scan(inlining_lake.reader, "t", inlining_lake.newest)
    with connect() as connection:
        load_extension(connection, "ducklake")
        found = connection.rows(f"FROM {attach_partial_lake(connection, 'part', plan)}")
    assert found == [(7, 8, "x", 9)] * 50


def test_many_files_need_several_statements(inlining_lake: AttachedLake) -> None:
    inlining_lake.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t AS SELECT 1 AS id")
    plan = plan_scan(inlining_lake.reader, "t", inlining_lake.newest)
    (file,) = plan.files
    files = tuple(replace(file, data_file_id=number, row_id_start=number) for number in range(2001))
    assert sum(rows(replace(plan, files=files)).values()) == 2001


def test_encrypted_files_are_read_with_their_keys(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", ENCRYPTED, DATA_INLINING_ROW_LIMIT 0") as source:
        load_extension(source.connection, "httpfs")
        source.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)", "DELETE FROM lake.t WHERE id = 7")
        (_, plan) = assert_alike(source)
        with pytest.raises(UnsupportedError, match=r"files of main\.t are encrypted"):
            refuse_encrypted(plan)


# Each example creates a lake and reads all its snapshots.
EXAMPLES = 200 if hypothesis.settings().max_examples > 200 else 12


@pytest.mark.slow
@pytest.mark.prove("duckdb")
@pytest.mark.parametrize("kind", FILE_CATALOGS)
@settings(max_examples=EXAMPLES)
@given(columns=COLUMNS, operations=st.lists(OPERATIONS, min_size=3, max_size=14))
def test_plan_returns_the_rows_of_every_snapshot(
    kind: str, columns: dict[str, str], operations: list[tuple[str, Any, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, lake(kind, Path(folder)) as source:
        narrow_lakes.build(source, columns, operations)
        for version in source.versions():
            try:
                plan = plan_scan(source.reader, "t", version)
            except TableNotFoundError:
                assert version < 1
                continue
            assert planned_rows(source, plan) == duckdb_rows(source, plan), version


@pytest.mark.slow
@pytest.mark.prove("sqlite")
@pytest.mark.parametrize("kind", FILE_CATALOGS)
@settings(max_examples=EXAMPLES)
@given(columns=COLUMNS, operations=st.lists(OPERATIONS, min_size=3, max_size=14), data=st.data())
def test_pruning_never_skips_a_matching_row(
    kind: str, columns: dict[str, str], operations: list[tuple[str, Any, int]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, lake(kind, Path(folder)) as source:
        narrow_lakes.build(source, columns, operations)
        versions = [version for version in source.versions() if version >= 1]
        version = data.draw(st.sampled_from(versions))
        one = conditions(load_table(source.reader, "t", version).columns)
        for _ in range(6):
            joined = data.draw(st.sampled_from([" AND ", " OR "]))
            where = joined.join(f"({text})" for text in data.draw(st.lists(one, min_size=1, max_size=3)))
            plan = plan_scan(source.reader, "t", version, where=where)
            assert planned_rows(source, plan) == duckdb_rows(source, plan, where), where
