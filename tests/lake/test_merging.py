"""Small files are merged and others rewritten in transactions of a limited size; one that stops is continued."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from lake_parts import catalog_of, session_of
from local_stores import config_of, store_of
from plain_sql import plain_rows, run_plain
from strength import PROVE
from tiny_files import make_tiny_files

import lakeconf
from lakeconf import Delete
from lakeconf.commit.transaction import Transaction
from lakeconf.errors import CommitConflictError, LakeconfError
from lakeconf.lake import maintenance, rewriting
from lakeconf.lake.compaction import rewritten_files
from lakeconf.lake.compaction_step import CompactionStep
from lakeconf.lake.failed_tables import FailedTables
from lakeconf.lake.limits import TimeLimit
from lakeconf.lake.staged_rewriting import FILES_READ, newest, replacement_obstacle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, Store, Table

READ = 10


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake with 120 files of one row in `large`, 6 partitions of 3 files in `parts`, and 2 files in `little`."""
    monkeypatch.setattr(rewriting, "FILES_READ", READ)
    with store_of(tmp_path).open() as opened:
        for name in ("little", "large", "parts"):
            keys = ["part"] if name == "parts" else []
            opened.create_table(name, {"id": "INTEGER", "part": "INTEGER"}, partitioned_by=keys)
        for name, count in (("little", 2), ("large", 120), ("parts", 3)):
            for number in range(count):
                values = "i, i FROM range(6) AS r(i)" if name == "parts" else f"{number}, 0"
                run_plain(opened, f"INSERT INTO dev.{name} SELECT {values}")
        opened.refresh()
        yield opened


def rows(lake: Lake, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    parts = (f"SELECT '{name}', rowid, * FROM {name}{at}" for name in ("little", "large", "parts"))
    native: Any = lake.sql(" UNION ALL ".join(parts)).to_native()
    return sorted(native.fetchall())


def files(lake: Lake) -> dict[str, int]:
    return {name: len(lake.table(name).files()) for name in ("little", "large", "parts")}


@pytest.mark.slow
def test_transactions_are_limited_and_the_table_with_most_files_comes_first(
    lake: Lake, steps: list[list[tuple[str, int]]]
) -> None:
    before, version = rows(lake), lake.snapshot_id
    assert lake.maintenance.compact().complete
    assert files(lake) == {"little": 1, "large": 1, "parts": 6}
    merged = [one for step in steps for one in step]
    assert [table for table, _ in merged[:12]] == ["large"] * 12
    assert list(dict.fromkeys(table for table, _ in merged)) == ["large", "parts", "little"]
    # Files differ by some bytes.
    assert max(read for _, read in merged) <= 1.5 * READ
    assert rows(lake) == rows(lake, version) == before


@pytest.mark.slow
def test_interrupted_merge_keeps_what_it_has_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before, left = rows(lake), [5]

    run = CompactionStep.run

    def interrupted(self: CompactionStep) -> list[tuple[Any, ...]]:
        left[0] -= "ducklake_merge_adjacent_files" in self.call
        if left[0] < 0:
            raise KeyboardInterrupt
        return run(self)

    with monkeypatch.context() as patch:
        patch.setattr(CompactionStep, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lake.maintenance.compact()
    lake.refresh()
    assert 60 < files(lake)["large"] < 80
    assert rows(lake) == before
    assert session_of(lake).writer.rows("SELECT system.main.current_setting('ducklake_target_file_size')") == [(None,)]
    lake.maintenance.compact()
    assert files(lake) == {"little": 1, "large": 1, "parts": 6}
    assert rows(lake) == before


def ids(lake: Lake, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return plain_rows(lake, f"SELECT rowid, * FROM dev.t{at} ORDER BY ALL")


@pytest.mark.slow
def test_updated_rows_keep_their_ids(store: Store) -> None:
    """DuckLake's own merge gives them new ids, and its feed then reports a delete and an insert."""
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT", "v": "VARCHAR"})
        table.append(lake.sql("SELECT range AS id, 'a' AS v FROM range(1000)"))
        table.update({"v": "b"}, where="id < 300")
        table.update({"v": "c"}, where="id >= 300 AND id < 600")
        last, before = lake.snapshot_id, ids(lake)
        assert [str(one) for one in lake.maintenance.plan_compaction()] == ["main.t: merge 2 small files"]
        lake.maintenance.compact()
        assert len(table.files()) == 2
        assert ids(lake) == ids(lake, last) == before
        feed = f"SELECT DISTINCT change_type FROM dev.table_changes('t', {last - 1}, {last}) ORDER BY ALL"
        kinds = [("update_postimage",), ("update_preimage",)]
        assert lake.sql(feed).to_native().fetchall() == kinds
        run_plain(lake, "CREATE TABLE plain AS FROM t LIMIT 0", "INSERT INTO plain SELECT i, 'a' FROM range(9) AS r(i)")
        run_plain(lake, "UPDATE plain SET v = 'b' WHERE id < 2", "UPDATE plain SET v = 'c' WHERE id = 3")
        run_plain(lake, "CALL ducklake_merge_adjacent_files('dev', 'plain')")
        assert plain_rows(lake, "SELECT max(rowid) FROM dev.plain") == [(11,)], "DuckLake keeps the ids now"


FLUSHED = {
    "files between": "INSERT INTO t SELECT i, 0, 0 FROM range({}, {}) AS r(i)",
    "another partition": "INSERT INTO t SELECT i, 0, {0} % 2 FROM range({0}, {1}) AS r(i)",
}


@pytest.mark.slow
@pytest.mark.parametrize("between", FLUSHED)
def test_flushed_rows_keep_their_ids(tmp_path: Path, between: str) -> None:
    """The catalog has a wrong range for flushed rows with other rows between them; DuckLake's merge would use it."""
    parted = between == "another partition"
    with store_of(tmp_path, data_inlining_row_limit=8).open() as lake:
        table = lake.create_table(
            "t", {"id": "BIGINT", "v": "BIGINT", "p": "BIGINT"}, partitioned_by=["p"] if parted else []
        )
        for start, end in ((0, 30), (30, 33), (33, 48), (48, 53)):
            run_plain(lake, FLUSHED[between].format(start, end))
        if not parted:
            run_plain(lake, "DELETE FROM t WHERE id BETWEEN 34 AND 44")
        version = lake.refresh()
        before = ids(lake)
        lake.maintenance.compact()
        assert ids(lake) == ids(lake, version) == before
        assert len({one[0] for one in before}) == len(before)
        table.update({"v": nw.col("id") * 10}, where="id IN (33, 48)")
        assert [one[2] for one in ids(lake) if one[1] in (33, 48)] == [330, 480]


@pytest.fixture
def renumbered(tmp_path: Path) -> Iterator[Lake]:
    """A lake whose rows 33 to 37 and 48 to 52 have the same row ids, because DuckLake itself has merged files."""
    with store_of(tmp_path, data_inlining_row_limit=8).open() as lake:
        lake.create_table("t", {"id": "BIGINT", "v": "BIGINT"})
        for start, end in ((0, 30), (30, 33), (33, 48), (48, 53)):
            run_plain(lake, f"INSERT INTO t SELECT i, 0 FROM range({start}, {end}) AS r(i)")
        run_plain(lake, "DELETE FROM t WHERE id = 47", "CALL ducklake_flush_inlined_data('dev')")
        lake.refresh()
        yield lake


WRITES: dict[str, Callable[[Table], int]] = {
    "update": lambda table: table.update({"v": nw.col("id") * 10}, where="id IN (33, 48)"),
    "update of one": lambda table: table.update({"v": nw.col("id") * 10}, where="id = 48"),
    "merge": lambda table: table.merge([{"id": 33, "v": 330}, {"id": 48, "v": 480}], on="id"),
    "merge of one": lambda table: table.merge([{"id": 48, "v": 480}], on="id"),
    "merge that deletes": lambda table: table.merge(
        [{"id": 48, "v": 480}], on="id", matched=Delete(), not_matched=None
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "when"), [*((kind, "before") for kind in WRITES), ("update", "meanwhile"), ("merge", "meanwhile")]
)
def test_rows_with_the_id_of_another_row_are_not_changed(
    renumbered: Lake, kind: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge() -> None:
        with store_of(tmp_path, data_inlining_row_limit=8).connect() as plain:
            plain.execute("CALL ducklake_merge_adjacent_files('dev', 't')")

    commit = Transaction.commit

    def late(self: Transaction) -> Any:
        if when == "meanwhile":
            merge()
        return commit(self)

    if when == "before":
        merge()
        renumbered.refresh()
    monkeypatch.setattr(Transaction, "commit", late)
    with pytest.raises(LakeconfError) as refused:
        WRITES[kind](renumbered.table("t"))
    renumbered.refresh()
    assert {one[2] for one in ids(renumbered)} == {0}
    assert len(ids(renumbered)) == 52
    if when == "meanwhile":
        assert isinstance(refused.value, CommitConflictError)
        return
    monkeypatch.undo()
    renumbered.table("t").overwrite(renumbered.table("t").scan())  # the hint of the error
    WRITES[kind](renumbered.table("t"))
    assert len({one[0] for one in ids(renumbered)}) == len(ids(renumbered))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Lake]:
    """A lake with the table `large`, of two small files."""
    with store_of(tmp_path).open() as opened:
        run_plain(
            opened, "CREATE TABLE large (id INTEGER)", "INSERT INTO large VALUES (1)", "INSERT INTO large VALUES (2)"
        )
        yield opened


@pytest.mark.slow
def test_a_sorted_table_keeps_its_row_ids(kept: Lake) -> None:
    """DuckLake gives the rows of merged files new ids, in the order of the table."""
    run_plain(kept, "CREATE TABLE parts (id INTEGER)", "ALTER TABLE parts SET SORTED BY (id DESC)")
    for rows in ("(1), (2)", "(3), (4)", "(5), (6)"):
        run_plain(kept, f"INSERT INTO parts VALUES {rows}")
    run_plain(kept, "DELETE FROM parts WHERE id = 6")
    version = kept.refresh()
    queries = [f"SELECT rowid, id FROM dev.parts AT (VERSION => {one}) ORDER BY ALL" for one in (version - 2, version)]
    before = [plain_rows(kept, query) for query in queries]
    feed = sorted(map(str, kept.table("parts").changes(0, version).collect("pyarrow").rows()))
    planned = ["main.large: merge 2 small files", "main.parts: merge 2 small files"]
    assert [str(one) for one in kept.maintenance.plan_compaction()] == planned
    for _ in range(2):
        kept.maintenance.compact()
        queries.append(queries[-1].replace(f"{version}", f"{kept.snapshot_id}"))
        assert [plain_rows(kept, query) for query in queries] == [*before, *before[1:] * (len(queries) - 2)]
        assert sorted(map(str, kept.table("parts").changes(0, version).collect("pyarrow").rows())) == feed
    assert [len(kept.table(name).files()) for name in ("large", "parts")] == [1, 2]


def test_a_sorted_table_is_left_if_no_staged_commit_is_possible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(tmp_path)
    config["stores"]["dev"]["committer"] = "public"
    with lakeconf.init(config).get_store("dev").open() as lake:
        table = lake.create_table("t", {"id": "INTEGER"}, sorted_by=["id DESC"])
        for start in (1, 3):
            table.append(lake.sql(f"SELECT range::INTEGER AS id FROM range({start}, {start + 2})"))
        before = plain_rows(lake, "SELECT rowid, id FROM dev.t ORDER BY ALL")
        assert lake.maintenance.plan_compaction() == []
        lake.maintenance.compact()
        assert plain_rows(lake, "SELECT rowid, id FROM dev.t ORDER BY ALL") == before
    assert "main.t keeps 2 small files" in caplog.text


def test_files_of_a_partition_in_several_folders_are_left(kept: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """DuckLake closes the database instead: a rewritten file stays in its folder, and has the new columns."""
    kept.create_table("parts", {"id": "INTEGER", "a": "INTEGER"}, partitioned_by=["a"])
    run_plain(kept, "CALL dev.set_option('rewrite_delete_threshold', 0.1)")
    run_plain(kept, "INSERT INTO parts SELECT i, 7 FROM range(20) AS r(i)", "DELETE FROM parts WHERE id < 15")
    run_plain(kept, "ALTER TABLE parts RENAME a TO b", "INSERT INTO parts VALUES (20, 7)")
    kept.refresh()
    kept.maintenance.compact()
    assert plain_rows(kept, "SELECT id FROM dev.parts ORDER BY id") == [(i,) for i in range(15, 21)]
    assert len(kept.table("large").files()) == 1
    assert "main.parts keeps 2 small files" in caplog.text


FILES = 100_000 if PROVE else 4_500
MEMORY, DEADLINE = ("4GB", dt.timedelta(seconds=30)) if PROVE else ("500MB", dt.timedelta(seconds=0.1))
ROWS = "SELECT count(*), count(DISTINCT rowid), min(rowid), max(rowid), min(name), max(id) FROM dev.t"


@pytest.mark.slow
def test_compaction_of_tiny_files_ends_within_its_limits(tmp_path: Path) -> None:
    store = store_of(tmp_path, {"type": "duckdb", "uri": str(tmp_path / "catalog")})
    make_tiny_files(store, tmp_path / "data", FILES)
    left, deadline = [FILES], DEADLINE
    while left[-1] > 1:
        with store.open() as lake:
            session_of(lake).deadline, session_of(lake).memory_limit = deadline, MEMORY
            done = lake.maintenance.compact()
        assert done.files_before == left[-1], "nothing is lost between two runs"
        assert done.files_after == 1 or not done.complete
        left.append(done.files_after)
        deadline *= 2  # a busy machine may need longer for the first transaction
    assert left == sorted(left, reverse=True)
    assert len(left) > 2, "the deadline ended a run"
    with store.open() as lake:
        assert len(lake.table("t").files()) == 1
        assert plain_rows(lake, ROWS) == [(FILES, FILES, 0, FILES - 1, "x", 1)]


ROWS_EACH, LARGE = 30, 8


@pytest.fixture
def worn(tmp_path: Path) -> Iterator[Lake]:
    """A lake with eight files in `s.large`, with 3 to 24 of 30 rows deleted, and one in `small`, with 15 deleted."""
    with store_of(tmp_path).open() as opened:
        writer = session_of(opened).writer
        opened.create_table("s.large", {"id": "INTEGER"})
        opened.create_table("small", {"id": "INTEGER"})
        for number in range(LARGE):
            writer.execute(f"INSERT INTO dev.s.large FROM range({number * ROWS_EACH}, {(number + 1) * ROWS_EACH})")
        writer.execute(f"INSERT INTO dev.small FROM range({ROWS_EACH})")
        writer.execute(f"DELETE FROM dev.s.large WHERE id % {ROWS_EACH} < 3 * (id // {ROWS_EACH} + 1)")
        writer.execute(f"DELETE FROM dev.small WHERE id < {ROWS_EACH // 2}")
        writer.execute("CALL dev.set_option('rewrite_delete_threshold', 0.15)")
        opened.refresh()
        yield opened


def ids_of_both(worn: Lake, version: int | None = None) -> list[list[int]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    queries = (f"SELECT rowid, id FROM {table}{at} ORDER BY ALL" for table in ("s.large", "small"))
    return [[tuple(map(int, row)) for row in worn.sql(query).collect("pyarrow").rows()] for query in queries]  # type: ignore[misc]


def deleted_shares(worn: Lake) -> list[int]:
    """The numbers of deleted rows of the files of the large table that a rewrite would change."""
    found = [table for table in rewritten_files(catalog_of(worn), session_of(worn).own_files) if table.name == "large"]
    return [round(share * ROWS_EACH) for table in found for share, _ in table.files]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (FILES_READ, [[("large", 7), ("small", 1)]]),
        (3, [[("large", 3)], [("large", 3)], [("large", 1)], [("small", 1)], []]),
    ],
)
def test_parts_have_a_limited_number_of_files(
    worn: Lake,
    steps: list[list[tuple[str, int]]],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    expected: list[list[tuple[str, int]]],
) -> None:
    """Files that are not above the lake's threshold are left."""
    monkeypatch.setattr(rewriting, "FILES_READ", most)
    before, version = ids_of_both(worn), worn.snapshot_id
    assert worn.maintenance.rewrite().complete
    assert [sorted(step) for step in steps] == expected
    assert ids_of_both(worn) == ids_of_both(worn, version) == before
    assert rewritten_files(catalog_of(worn), session_of(worn).own_files) == []


def test_parts_have_a_limited_size(
    worn: Lake, steps: list[list[tuple[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = max(
        size for table in rewritten_files(catalog_of(worn), session_of(worn).own_files) for _, size in table.files
    )
    monkeypatch.setattr(rewriting, "BYTES_READ", 2.5 * largest)
    worn.maintenance.rewrite()
    assert [step for step in steps if step and step[0][0] == "large"] == [[("large", 2)]] * 3 + [[("large", 1)]]


def test_files_with_most_deleted_rows_come_first_and_the_rest_is_continued(
    worn: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "FILES_READ", 2)
    before = ids_of_both(worn)
    assert deleted_shares(worn) == [24, 21, 18, 15, 12, 9, 6]
    times = iter([0, 0, 1])
    rewriting.rewrite_files(session_of(worn), TimeLimit(1, lambda: next(times, 1)), FailedTables(session_of(worn)))
    assert deleted_shares(worn) == [12, 9, 6]
    assert worn.maintenance.rewrite().complete
    assert deleted_shares(worn) == []
    assert ids_of_both(worn) == before


def test_files_with_the_same_share_are_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "FILES_READ", 2)
    files = [(0.9, 1), (0.5, 1), (0.5, 1), (0.5, 1), (0.2, 1), (0.1, 1), (0.05, 1)]
    assert list(rewriting._parts(files)) == [0.5, 0.1, 0.05]
    assert list(rewriting._parts([])) == []


@pytest.mark.slow
def test_shares_are_not_rounded(
    worn: Lake, steps: list[list[tuple[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share such as 4/11 has no exact decimal number."""
    monkeypatch.setattr(rewriting, "FILES_READ", 0)
    writer = session_of(worn).writer
    writer.execute("CREATE TABLE dev.parts (id INTEGER)")
    for rows, deleted in ((11, 4), (11, 10), (13, 2), (13, 6)):
        writer.execute(f"INSERT INTO dev.parts FROM range({rows})")
        writer.execute(f"DELETE FROM dev.parts WHERE id < {deleted}")
        worn.refresh()
        steps.clear()
        worn.maintenance.rewrite()
        assert steps.index([("parts", 1)]) < len(steps) - 1, "the last step would rewrite it, too"
        assert rewritten_files(catalog_of(worn), session_of(worn).own_files) == []


def refusal(worn: Lake, name: str = "t", *, encrypted: bool = False) -> str | None:
    session = session_of(worn)
    return replacement_obstacle(session, newest(session, name), session.snapshot_id, encrypted=encrypted)


def test_tables_whose_ids_cannot_be_kept_are_refused(two_tables: Lake) -> None:
    worn = two_tables
    assert refusal(worn) is None
    assert refusal(worn, encrypted=True) == "the files are encrypted"
    run_plain(worn, "CREATE TABLE hides (rowid BIGINT)")
    assert refusal(worn, "hides") == "a column hides the row ids"
    session_of(worn).committer = "staged"
    assert refusal(worn) is None
    session_of(worn).committer = "public"
    assert refusal(worn) == "the store's committer is public, which cannot register row ids"


def versions(worn: Lake) -> list[list[int]]:
    newest = worn.refresh()
    queries = (f"SELECT id FROM dev.t AT (VERSION => {version}) ORDER BY id" for version in range(2, newest + 1))
    return [[row[0] for row in plain_rows(worn, query)] for query in queries]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("step", ["rewrite", "merge"])
def test_deletes_in_the_catalog_do_not_outlive_their_file(
    tmp_path: Path, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush would write them as deletes of a file that is gone: older snapshots had other rows, and the feed none."""
    with store_of(tmp_path, data_inlining_row_limit=8).open() as worn:
        worn.create_table("t", {"id": "BIGINT"})
        inserts = [f"INSERT INTO t SELECT i FROM range({start}, {start + 20}) AS r(i)" for start in (0, 20)]
        run_plain(worn, *inserts)
        last = 19 if step == "rewrite" else 8
        deletes = [f"DELETE FROM t WHERE id BETWEEN {start} AND {min(start + 6, last)}" for start in range(5, last, 7)]

        def late(session: Any, limit: Any, failed: Any) -> None:
            flush(session, limit, failed)
            run_plain(worn, *deletes)

        flush = rewriting.flush_lake
        run_plain(worn, "DELETE FROM t WHERE id < 5" if step == "rewrite" else "DELETE FROM t WHERE id < 0")
        if when == "before":
            run_plain(worn, *deletes)
        else:
            monkeypatch.setattr(maintenance, "flush_lake", late)
        before = versions(worn) if when == "before" else None
        compact = worn.maintenance.rewrite if step == "rewrite" else worn.maintenance.compact
        compact()
        monkeypatch.undo()
        before = versions(worn) if before is None else before
        run_plain(worn, "DELETE FROM t WHERE id = 39")
        worn.refresh()
        worn.maintenance.compact()
        assert versions(worn)[: len(before)] == before
        worn.table("t").changes(2).collect("pyarrow")
