"""An outcome deletes exactly the rows that satisfy its condition at a snapshot, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.pruning.where import predicate_of
from lakeconf.catalog.tables import load_table
from lakeconf.commit.deletions import (
    Outcome,
    Positions,
    RowsMoved,
    find,
    found_positions,
    is_droppable,
    plan_delete,
)
from lakeconf.engines.engine import FILE_ROW_NUMBER
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from catalog_lake import Lake

    from lakeconf.catalog.pruning.scan_plan import ScanPlan


@pytest.fixture
def lake(usual: Lake) -> Lake:
    """A table of three files with 20 rows each, with deletes in a file and in the catalog, and rows in the catalog."""
    usual.run("CREATE TABLE lake.t (i BIGINT)")
    for start in range(0, 60, 20):
        usual.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 20})")
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM lake.t WHERE i IN (21, 22)")
    usual.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE i IN (41, 42)")
    usual.run("INSERT INTO lake.t VALUES (101), (102), (103)")
    return usual


def outcome(lake: Lake, where: str | None, searched: list[str] | None = None) -> Outcome:
    """The rows that satisfy a condition now; DuckDB finds them in the files that `searched` collects."""
    info = load_table(lake.reader, "t", lake.newest)
    predicate = None if where is None else predicate_of(where, info.columns)

    def search(plan: ScanPlan) -> Positions:
        paths = {}
        for file in plan.files:
            if searched is not None:
                searched.append(file.path)
            path = f"{lake.folder}/positions-{plan.snapshot_id}-{file.data_file_id}.parquet"
            rows = f"FROM lake.t AT (VERSION => {plan.snapshot_id}) WHERE filename = '{file.path}'"
            rows = f"SELECT file_row_number AS {FILE_ROW_NUMBER} {rows} AND ({where or 'true'}) ORDER BY 1"
            if lake.rows(f"SELECT count(*) FROM ({rows})") != [(0,)]:
                lake.run(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
                paths[file.data_file_id] = path
        found = found_positions(lake.connection, paths)
        assert found is not None
        return found

    found = find(lake.reader, info, predicate, search, is_all=True)
    return Outcome(info, f"{lake.folder}/new/", found, search, where or "true", predicate)


def deleted(lake: Lake, found: Outcome) -> list[int]:
    """The values of the rows that a staged commit would delete, sorted; those of dropped files too."""
    dropped, files, inlined = found.deleted(lake.reader, lake.connection, lake.newest)
    listed = [f"filename = '{file.path}'" for file in dropped]
    for file in files:
        rows = lake.rows(f"SELECT pos FROM '{file.path}' ORDER BY pos")
        assert len(rows) == file.row_count
        listed.append(
            f"filename = '{file.data_file.path}' AND file_row_number IN ({', '.join(str(row[0]) for row in rows)})"
        )
    listed += [f"filename = '{name}' AND rowid = {row_id}" for name, row_id in inlined]
    return [value for (value,) in lake.rows(f"SELECT i FROM lake.t WHERE {' OR '.join(listed) or 'false'} ORDER BY i")]


def matching(lake: Lake, where: str | None) -> list[int]:
    return [value for (value,) in lake.rows(f"SELECT i FROM lake.t WHERE {where or 'true'} ORDER BY i")]


def by_statements(lake: Lake, found: Outcome) -> list[int]:
    """The values of the rows that the statements of an outcome delete, each as many as they should."""
    before = matching(lake, None)
    statements, counts = found.statements(lake.reader, lake.connection, lake.newest)
    lake.run("BEGIN")
    assert [lake.rows(statement) for statement in statements] == [[(count,)] for count in counts]
    left = matching(lake, None)
    lake.run("ROLLBACK")
    return sorted({*before} - {*left})


CONDITIONS = [None, "i % 3 = 0", "i < 45 AND i % 2 >= 0", "i < 25 OR i = 102", "i > 100", "i IN (40, 43)", "i < 20"]


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_of_a_condition(lake: Lake, where: str | None) -> None:
    found = outcome(lake, where)
    expected = matching(lake, where)
    assert by_statements(lake, found) == expected
    assert deleted(lake, found) == expected


def test_file_elsewhere_is_not_dropped(lake: Lake) -> None:
    path = lake.folder / "added.parquet"
    lake.run(f"COPY (SELECT 200::BIGINT AS i) TO '{path}'", f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    plan = plan_delete(lake.reader, load_table(lake.reader, "t", lake.newest), None)
    droppable = [is_droppable(file, lake.reader.data_path) for file in plan.files]
    assert droppable == [True, True, False, False]
    assert deleted(lake, outcome(lake, "i >= 200")) == [200]


OTHERS = {
    "INSERT INTO lake.t SELECT * FROM range(300, 320)": True,
    "DELETE FROM lake.t WHERE i = 9": True,
    "INSERT INTO lake.t VALUES (105)": False,  # in the catalog, which the commit searches
    "CREATE TABLE lake.u (i BIGINT)": False,
    "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.0)": True,
    "CALL ducklake_flush_inlined_data('lake')": True,
}


@pytest.mark.parametrize(("other", "moves"), OTHERS.items())
def test_other_files_are_searched_again(lake: Lake, other: str, *, moves: bool) -> None:
    searched = list[str]()
    found = outcome(lake, "i % 3 = 0", searched)
    lake.run(other)
    if moves:
        with pytest.raises(RowsMoved):
            found.deleted(lake.reader, lake.connection, lake.newest)
        before = {*searched}
        searched.clear()
        found = found.searched(lake.reader)
        same = {file.path for file in found.found.files if file.path in before}
        assert not {*searched} > same
    assert deleted(lake, found) == matching(lake, "i % 3 = 0")


def test_repeated_or_unsorted_positions_are_refused(lake: Lake) -> None:
    for number, positions in enumerate(((3, 3), (5, 3))):
        path = f"{lake.folder}/{number}.parquet"
        listed = ", ".join(f"({position}::BIGINT)" for position in positions)
        lake.run(f"COPY (FROM (VALUES {listed}) AS v({FILE_ROW_NUMBER})) TO '{path}' (FORMAT parquet)")
        assert found_positions(lake.connection, {1: path}) is None


def test_deletion_vectors_cannot_be_extended(vectors: Lake) -> None:
    vectors.run("CREATE TABLE lake.t AS SELECT i FROM range(20) AS r(i)", "DELETE FROM lake.t WHERE i = 1")
    with pytest.raises(CommitConflictError, match="cannot be extended"):
        outcome(vectors, "i = 2").deleted(vectors.reader, vectors.connection, vectors.newest)
