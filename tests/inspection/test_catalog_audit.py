"""`lakeconf verify --catalog` finds what bugs and interrupted commits leave in a catalog, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA
from hypothesis import given
from hypothesis import strategies as st
from random_lakes import COLUMNS, OPERATIONS, built, examples

from lakeconf.inspection.catalog_audit import audit_catalog

if TYPE_CHECKING:
    from catalog_lake import AttachedLake

# What is changed in the catalog, `m` its prefix, and what is said of it.
DAMAGES = {
    "table and view of one id": (
        "INSERT INTO m.ducklake_view VALUES (1, uuid(), 2, NULL, 0, 'v', 'duckdb', 'SELECT 1', NULL)",
        "ids: have one id: table t and view v",
    ),
    "file of two tables": ("UPDATE m.ducklake_delete_file SET delete_file_id = 0", "ids: used twice: file 0"),
    "column twice": (
        "UPDATE m.ducklake_column SET column_id = 1 WHERE table_id = 1",
        "ids: used twice: column 1 of table 1",
    ),
    "tables of one name": (
        "UPDATE m.ducklake_table SET table_name = 'T'",
        "names: two tables or views have one name",
    ),
    "columns of one name": ("UPDATE m.ducklake_column SET column_name = 'a'", "names: two columns have one name: a of"),
    "table without a schema": ("UPDATE m.ducklake_table SET schema_id = 99 WHERE table_id = 1", "schemas: tables in a"),
    "files without a table": ("UPDATE m.ducklake_data_file SET table_id = 99", "files: data files of no table: "),
    "file twice": (
        "INSERT INTO m.ducklake_data_file SELECT * REPLACE (8 AS data_file_id) FROM m.ducklake_data_file LIMIT 1",
        "files: registered twice: ",
    ),
    "two delete files": (
        "INSERT INTO m.ducklake_delete_file SELECT * REPLACE (8 AS delete_file_id) FROM m.ducklake_delete_file",
        "deletes: two delete files for one data file",
    ),
    "too many deletes": (
        "UPDATE m.ducklake_delete_file SET delete_count = 99",
        "deletes: more rows deleted than there are: ",
    ),
    "rows of no snapshot": (
        "UPDATE m.ducklake_data_file SET begin_snapshot = 99",
        "snapshots: 1 row of ducklake_data_file are of no snapshot",
    ),
    "half a snapshot": (
        "DELETE FROM m.ducklake_snapshot_changes WHERE snapshot_id = 4",
        "snapshots: no changes are recorded for 4",
    ),
    "next table": (
        "UPDATE m.ducklake_snapshot SET next_catalog_id = 1",
        "ids: next_catalog_id is 1, but the greatest",
    ),
    "next file": ("UPDATE m.ducklake_snapshot SET next_file_id = 1", "ids: next_file_id is 1, but the greatest id"),
    "next row": ("UPDATE m.ducklake_table_stats SET next_row_id = 2", "ids: the next row id of main.t is 2, but files"),
    "lost file": ("UPDATE m.ducklake_data_file SET path = 'lost.parquet'", "files: lost: "),
    "other size": (
        "UPDATE m.ducklake_data_file SET file_size_bytes = 9",
        "files: of another size than in the",
    ),
    "bounds": (
        "UPDATE m.ducklake_table_column_stats SET min_value = '4'",
        "statistics: outside lakeconf, DuckDB may",
    ),
}


def texts(source: AttachedLake) -> list[str]:
    return [str(finding) for finding in audit_catalog(source.reader)]


@pytest.fixture
def made(source: AttachedLake) -> AttachedLake:
    """A lake of two tables, of which the first has a data file with a delete file."""
    source.run(
        "CREATE TABLE lake.t (a BIGINT, b VARCHAR)",
        "CREATE TABLE lake.u (a BIGINT)",
        "INSERT INTO lake.t SELECT i, 'x' FROM range(1, 60) AS r(i)",
        "DELETE FROM lake.t WHERE a < 30",
    )
    return source


@pytest.mark.parametrize("damage", DAMAGES)
def test_damages_are_found(damage: str, made: AttachedLake) -> None:
    assert texts(made) == []
    statement, text = DAMAGES[damage]
    made.run(statement.replace("m.", f"{METADATA}."))
    assert [line for line in texts(made) if line.startswith(text)], texts(made)


@pytest.mark.parametrize("damage", ["next table", "next file", "next row"])
def test_hints_with_a_statement_repair(damage: str, made: AttachedLake) -> None:
    made.run(DAMAGES[damage][0].replace("m.", f"{METADATA}."))
    for finding in audit_catalog(made.reader):
        made.run(finding.hint.removeprefix("run with DuckDB, while nobody writes: "))
    assert texts(made) == []
    made.run("CREATE TABLE lake.w (a INT)", "INSERT INTO lake.t VALUES (60, 'y')")
    assert texts(made) == []


def test_deletes_of_all_rows_and_names_that_differ_by_other_letters_are_sound(made: AttachedLake) -> None:
    made.run('CREATE TABLE lake."ärger" (a INT)', 'CREATE TABLE lake."Ärger" (a INT)', "DELETE FROM lake.t")
    assert texts(made) == []


@pytest.mark.slow
@examples(25, prove=500)
@given(
    columns=COLUMNS,
    operations=st.lists(OPERATIONS, min_size=1, max_size=12),
    kind=st.sampled_from(["duckdb", "sqlite"]),
    inline=st.booleans(),
)
def test_nothing_is_found_in_random_lakes(columns: Any, operations: Any, kind: str, inline: bool) -> None:
    with built(kind, columns, operations, inline=inline) as (source, _):
        findings = [finding for finding in audit_catalog(source.reader) if finding.check != "statistics"]
    assert findings == []
