"""Files of which every row satisfies a predicate."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from catalog_lake import FILE_CATALOGS, lake
from hypothesis import given, settings
from narrow_lakes import COLUMNS, OPERATIONS, build, conditions

from lakeconf.catalog.predicates import to_duckdb_sql
from lakeconf.catalog.pruned_files import coverage
from lakeconf.catalog.table import load_table
from lakeconf.catalog.where import parse
from lakeconf.sql import literal

if TYPE_CHECKING:
    from catalog_lake import Lake

EXAMPLES = 200 if hypothesis.settings().max_examples > 200 else 15


def covered(source: Lake, where: str) -> dict[int, str]:
    """The paths of the covered files of the table `t`, by id."""
    table = load_table(source.reader, "t", source.newest)
    with source.reader.transaction() as transaction:
        found = coverage(transaction, table, source.newest, parse(where, table.columns)).covered
    files = source.metadata("SELECT data_file_id, path FROM ducklake_data_file WHERE end_snapshot IS NULL")
    return {file_id: path for file_id, path in files if file_id in found}


def others(source: Lake, where: str) -> dict[str, int]:
    """The number of visible rows that do not satisfy a condition, by the end of the path; without pruning."""
    condition = to_duckdb_sql(parse(where, load_table(source.reader, "t", source.newest).columns))
    found = "SELECT filename, count(*) FILTER (holds IS NOT TRUE) FROM "
    found += f"(SELECT filename, {condition} AS holds FROM lake.t OFFSET 0) GROUP BY ALL"
    return dict(source.rows(found))


@pytest.mark.parametrize("kind", FILE_CATALOGS)
def test_every_row_of_a_covered_file_satisfies_the_condition(kind: str) -> None:
    seen = Counter[bool]()

    @settings(max_examples=EXAMPLES)
    @given(columns=COLUMNS, operations=st.lists(OPERATIONS, min_size=3, max_size=14), data=st.data())
    def check(columns: dict[str, str], operations: list[tuple[str, Any, int]], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder, lake(kind, Path(folder)) as source:
            build(source, columns, operations)
            one = conditions(load_table(source.reader, "t", source.newest).columns)
            for _ in range(8):
                joined = data.draw(st.sampled_from([" AND ", " OR "]))
                where = joined.join(f"({text})" for text in data.draw(st.lists(one, min_size=1, max_size=3)))
                wrong = others(source, where)
                for path in covered(source, where).values():
                    # Files without visible rows are not in the result.
                    count = next((count for name, count in wrong.items() if name.endswith(path)), None)
                    assert not count, where
                    seen[count is not None] += 1

    check()
    assert seen[True] > EXAMPLES, seen


ROWS = "(1, 1.0, 'a', DATE '2024-01-01', NULL), (3, 2.0, 'b', DATE '2024-01-31', NULL)"
CASES = {
    "i > 0": True, "i >= 1": True, "i > 1": False, "i < 4": True, "i BETWEEN 1 AND 3": True, "i = 1": False,
    "i != 2": False, "i != 4": True, "NOT i > 3": True, "i IN (1, 3)": False, "i NOT IN (4, 5)": True,
    "f < 3": True, "f > 0": True, "f <= 'nan'": True, "f != 'nan'": True, "f < 2": False,
    "s < 'c'": False, "s LIKE 'a%'": False, "d < '2024-02-01'": True, "d >= '2024-01-01' AND d < '2024-01-31'": False,
    "n IS NULL": True, "n IS NOT NULL": False, "n > 0": False, "NOT n > 0": False, "n > 0 OR i > 0": True,
    "n > 0 AND i > 0": False, "i IS NOT NULL": True, "NOT (i IS NULL OR f > 5)": True, "i > 1.5 OR i < 1.5": False,
    "i != 1.5": True, "i < 3.5": True,
}  # fmt: skip


@pytest.mark.parametrize(("where", "expected"), CASES.items())
def test_bounds_and_counts_of_nulls_prove_coverage(local: Lake, where: str, expected: bool) -> None:
    local.run("CREATE TABLE lake.t (i INTEGER, f DOUBLE, s VARCHAR, d DATE, n INTEGER)")
    local.run(f"INSERT INTO lake.t VALUES {ROWS}")
    assert bool(covered(local, where)) is expected


@pytest.mark.parametrize("where", ["i > 0", "i < 5", "i IS NOT NULL", "f < 9", "f > 0"])
def test_null_or_nan_prevents_coverage(local: Lake, where: str) -> None:
    local.run("CREATE TABLE lake.t (i INTEGER, f DOUBLE)")
    local.run("INSERT INTO lake.t VALUES (1, 1.0), (NULL, 'nan'), (2, NULL)")
    assert not covered(local, where)


def test_nan_is_greater_than_all_numbers(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (f DOUBLE)", "INSERT INTO lake.t VALUES (1.0), ('nan')")
    assert covered(local, "f > 0.5")
    assert not covered(local, "f < 5")


def test_registered_file_may_contain_nan_and_need_no_statistics(local: Lake) -> None:
    rows = pa.table({"f": [1.0, float("nan")], "i": pa.array([1, None], pa.int32()), "j": pa.array([1, 2], pa.int32())})
    pq.write_table(rows, local.folder / "r.parquet", write_statistics=["f", "j"])
    local.run("CREATE TABLE lake.t (f DOUBLE, i INTEGER, j INTEGER)")
    local.run(f"CALL ducklake_add_data_files('lake', 't', {literal(str(local.folder / 'r.parquet'))})")
    assert [bool(covered(local, where)) for where in ("f < 5", "f > 0", "i > 0", "i = 1", "j > 0")] == [
        False, True, False, False, True,
    ]  # fmt: skip


def test_file_without_the_column_is_not_covered(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t VALUES (1)")
    local.run("ALTER TABLE lake.t ADD COLUMN d INTEGER DEFAULT 7")
    assert not covered(local, "d = 7")
    assert not covered(local, "d IS NOT NULL")
    assert len(covered(local, "i = 1")) == 1


@pytest.mark.parametrize("value", ["eu", "a b/c", "é", "x=y", "2024-01-01"])
def test_text_is_covered_if_it_is_the_value_in_the_path(local: Lake, value: str) -> None:
    local.run("CREATE TABLE lake.t (i INTEGER, s VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (s)")
    local.run(f"INSERT INTO lake.t VALUES (1, {literal(value)}), (2, 'other')")
    assert len(covered(local, f"s = {literal(value)}")) == 1
    assert len(covered(local, f"s LIKE {literal(value[:1] + '%')}")) == 1
    assert len(covered(local, "s != 'none'")) == 2
    local.run("ALTER TABLE lake.t RESET PARTITIONED BY", f"INSERT INTO lake.t VALUES (3, {literal(value)})")
    assert len(covered(local, f"s = {literal(value)}")) == 1


@pytest.mark.parametrize("word", ["SNAPSHOT_ID", "NEXT_FILE_ID", "SCHEMA_VERSION", "NEXT_CATALOG_ID"])
def test_text_that_ducklake_replaces_covers_nothing(source: Lake, word: str) -> None:
    source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t (i INTEGER, s VARCHAR)")
    source.run("ALTER TABLE lake.t SET PARTITIONED BY (i, s)")
    for number in range(12):
        source.run(f"INSERT INTO lake.t VALUES ({number}, '{{{word}}}')")
    for number in range(20):
        assert not covered(source, f"s = '{number}'")
    assert not covered(source, "s < 'b'")


def test_partition_value_without_proof_in_the_rows_covers_nothing(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (d DATE, s VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (year(d))")
    folder = local.folder / "year=2023"
    folder.mkdir()
    local.run(f"COPY (SELECT DATE '2024-05-05' AS d, 'x' AS s) TO '{folder}/a.parquet' (FORMAT parquet)")
    local.run(f"CALL ducklake_add_data_files('lake', 't', '{folder}/a.parquet', hive_partitioning => true)")
    assert not covered(local, "d < '2024-01-01'")
    assert covered(local, "d > '2024-01-01'")


def test_bounds_of_a_promoted_column_are_widened(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (f FLOAT, d DATE)", "INSERT INTO lake.t VALUES (0.1, DATE '2024-01-01')")
    local.run("ALTER TABLE lake.t ALTER COLUMN f TYPE DOUBLE", "ALTER TABLE lake.t ALTER COLUMN d TYPE TIMESTAMP")
    assert not covered(local, "f = 0.1")
    assert not covered(local, "f <= 0.1")
    assert covered(local, "f < 0.11")
    assert covered(local, "d < '2024-01-01 00:00:01'")
    assert not covered(local, "d < '2024-01-01 00:00:00'")


def test_deleted_rows_count_too(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t VALUES (1), (2), (9)")
    local.run("DELETE FROM lake.t WHERE i = 9")
    assert not covered(local, "i < 5")


def test_size_is_that_of_the_columns_of_the_predicate(local: Lake) -> None:
    local.run(
        "CREATE TABLE lake.t (i INTEGER, s VARCHAR)", "INSERT INTO lake.t SELECT i, hash(i) FROM range(500) AS r(i)"
    )
    local.run("ALTER TABLE lake.t ADD COLUMN j INTEGER")
    table = load_table(local.reader, "t", local.newest)
    sizes = {}
    with local.reader.transaction() as transaction:
        for where in ("i > 0", "s > 'a'", "i > 0 AND s > 'a'", "j > 0"):
            predicate = parse(where, table.columns)
            (sizes[where],) = coverage(transaction, table, local.newest, predicate).column_bytes.values()
    assert 0 < sizes["i > 0"] < sizes["s > 'a'"] < sizes["i > 0 AND s > 'a'"]
    assert sizes["i > 0 AND s > 'a'"] == sizes["i > 0"] + sizes["s > 'a'"]
    assert sizes["j > 0"] == 0


@pytest.mark.parametrize("type_name", ["TIMETZ", "INTERVAL"])
def test_column_without_counts_may_contain_null(local: Lake, type_name: str) -> None:
    local.run(f"CREATE TABLE lake.t (z {type_name})", "INSERT INTO lake.t VALUES (NULL), (NULL)")
    assert local.metadata("SELECT value_count, null_count FROM ducklake_file_column_stats") == [(0, 0)]
    assert not covered(local, "z IS NOT NULL")
    assert not covered(local, "z IS NULL")


def test_bounds_in_the_wrong_order_prove_nothing(local: Lake) -> None:
    """Old writers compared unsigned integers and decimals in another order."""
    local.run("CREATE TABLE lake.t (i INTEGER)", "INSERT INTO lake.t VALUES (1), (9)")
    local.metadata("UPDATE ducklake_file_column_stats SET min_value = '9', max_value = '1'")
    assert not covered(local, "i > 5")
    assert not covered(local, "i < 5")
