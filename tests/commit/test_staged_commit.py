"""A staged commit: one snapshot or none, row ids that stay, and files that DuckLake does not remove."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commit_hooks import at_staged_commit
from lake_parts import catalog_of, data_path_of
from local_stores import config_of, in_bucket, on_catalog, on_postgres, store_of
from plain_sql import plain_rows, run_plain
from staged_changes import COLUMNS, staged, with_key

import lakeconf
from lakeconf.commit.actions import AddFiles
from lakeconf.commit.staged_tables import is_metadata_of
from lakeconf.ducklake import STAGED_COMMIT_VERSIONS
from lakeconf.errors import CommitConflictError, CommitError, ConnectionFailed, StorageError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import AttachedLake
    from servers import FaultProxy, PostgresServer

    from lakeconf import Lake, Store


SETUP = (
    "INSERT INTO t SELECT i, 'old' FROM range(20) AS r(i)",
    "INSERT INTO t VALUES (20, 'old'), (21, 'old')",
    "DELETE FROM t WHERE id = 3",
    "DELETE FROM t WHERE id BETWEEN 10 AND 16",
)
FIRST = [*(dict.fromkeys((*range(3), *range(4, 10), *range(17, 22)), "old").items())]
# The message with COMMIT directly after the end of a COPY: only the commit itself copies rows to the catalog.
COMMIT = b"c\x00\x00\x00\x04Q\x00\x00\x00\x0bCOMMIT"
# What other writers do between the read and the commit of a change of the row 5.
CONFLICTS = {
    "append": "INSERT INTO t VALUES (30, 'theirs')",
    "delete": "DELETE FROM t WHERE id = 5",
    "update": "UPDATE t SET name = 'theirs' WHERE id = 6",
    "new column": "ALTER TABLE t ADD COLUMN more INTEGER",
    "drop": "DROP TABLE t",
}


def prepare(store: Store) -> None:
    with store.open() as lake:
        lake.create_table("t", COLUMNS)
        lake.create_table("other", COLUMNS)
        run_plain(lake, *SETUP)
        lake.refresh()
        lake.table("t").delete("id < 0", idempotency_key="first")


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A lake with the table `t`: a file with deletes in a file and in the catalog, and rows in the catalog."""
    made = store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=3)
    prepare(made)
    return made


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        yield lake


def rows(lake: Lake, version: int | None = None) -> list[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return sorted(plain_rows(lake, f"SELECT id, name FROM dev.t{at}"))


def row_ids(lake: Lake) -> dict[int, int]:
    return dict(plain_rows(lake, "SELECT id, rowid FROM dev.t"))


def changed(*pairs: tuple[int, str | None]) -> list[tuple[int, str]]:
    """The first rows with some names replaced, and without rows whose name is None."""
    return sorted((number, name) for number, name in (dict(FIRST) | dict(pairs)).items() if name is not None)


def test_changes_of_each_kind_are_one_snapshot(lake: Lake) -> None:
    before = lake.snapshot_id
    transaction = staged(lake, {4: "new", 20: "new"}, deleted=(5, 21), added=2, header=("it's a message", "me"))
    assert transaction.commit() == before + 1 == lake.snapshot_id
    assert rows(lake) == changed((4, "new"), (20, "new"), (5, None), (21, None), (1000, "new"), (1001, "new"))
    assert {number: found for number, found in row_ids(lake).items() if number < 1000} == {
        number: number for number, _ in rows(lake) if number < 1000
    }
    feed = plain_rows(lake, f"FROM dev.table_changes('t', {before + 1}, {before + 1})")
    assert sorted((kind, number, name) for _, _, kind, number, name in feed) == [
        ("delete", 5, "old"),
        ("delete", 21, "old"),
        ("insert", 1000, "new"),
        ("insert", 1001, "new"),
        ("update_postimage", 4, "new"),
        ("update_postimage", 20, "new"),
        ("update_preimage", 4, "old"),
        ("update_preimage", 20, "old"),
    ]
    assert rows(lake, before) == FIRST
    made = lake.snapshots()[-1]
    info = json.loads(made.extra_info or "")
    assert (made.message, made.author, info["committer"]) == ("it's a message", "me", "staged")


def test_all_rows_of_a_file_may_go(lake: Lake) -> None:
    staged(lake, dict.fromkeys([number for number, _ in FIRST if number < 20], "new"), deleted=(20,)).commit()
    assert rows(lake) == sorted([*((number, "new") for number, _ in FIRST if number < 20), (21, "old")])


def test_a_commit_that_another_overtakes_is_repeated(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lake.snapshot_id
    at_staged_commit(monkeypatch, before=lambda: run_plain(lake, "INSERT INTO other VALUES (1, 'theirs')"))
    assert staged(lake, {4: "new"}).commit() == before + 2
    assert rows(lake) == changed((4, "new"))
    assert rows(lake, before + 1) == FIRST


@pytest.mark.slow
@pytest.mark.prove("postgres")
@pytest.mark.parametrize("other", CONFLICTS)
@pytest.mark.parametrize("late", [False, True])
def test_other_changes_of_the_table_are_conflicts(
    lake: Lake, other: str, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    statement, transaction = CONFLICTS[other], staged(lake, {5: "new"}, added=1)
    if late:
        at_staged_commit(monkeypatch, before=lambda: run_plain(lake, statement))
    else:
        run_plain(lake, statement)
    before = catalog_of(lake)
    with pytest.raises(CommitConflictError):
        transaction.commit()
    with before.transaction() as metadata:
        assert metadata.rows("SELECT count(*) FROM ducklake_data_file WHERE path LIKE 'lakeconf-%'") == [(0,)]


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
@pytest.mark.parametrize("late", [False, True], ids=["before the commit", "during the commit"])
def test_rows_that_maintenance_moves_are_found(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, late: bool) -> None:
    def move() -> None:
        run_plain(lake, "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)")

    transaction = staged(lake, {4: "new", 20: "new"}, deleted=(6,))
    if late:
        at_staged_commit(monkeypatch, before=move)
    else:
        move()
    before = transaction.snapshot_id
    transaction.commit()
    assert rows(lake) == changed((4, "new"), (20, "new"), (6, None))
    assert rows(lake, before) == FIRST


def test_files_are_kept_if_the_function_fails(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckLake removes the files of a failed commit under names that do not exist."""
    folder = Path(data_path_of(lake))
    transaction = staged(lake, {5: "new"}, added=1)
    kept = {Path(path) for change in transaction.contents.actions for path in change.files}
    at_staged_commit(monkeypatch, before=lambda: run_plain(lake, CONFLICTS["append"]))
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert kept <= {*folder.rglob("*.parquet")}


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("where", ["odd path", "s3", "azure"])
def test_files_are_found_wherever_the_lake_is(
    tmp_path: Path, where: str, request: pytest.FixtureRequest, *, partitioned: bool
) -> None:
    """Also by maintenance, which removes the delete files that others have replaced."""
    storage: dict[str, Any] = {"type": "local", "path": str(tmp_path / "it's d=1")}
    if where != "odd path":
        storage = in_bucket(request.getfixturevalue(f"{where}_server"))
    table = """ "it's s"."a""b c" """.strip()
    with lakeconf.init(config_of(tmp_path, None, storage)).get_store("dev").open() as lake:
        run_plain(lake, """CREATE SCHEMA "it's s" """, f"CREATE TABLE {table} (id BIGINT, name VARCHAR)")
        if partitioned:
            run_plain(lake, f"ALTER TABLE {table} SET PARTITIONED BY (name)")
        run_plain(
            lake, f"INSERT INTO {table} SELECT i, 'old' FROM range(9) AS r(i)", f"DELETE FROM {table} WHERE id = 2"
        )
        lake.refresh()
        staged(lake, {4: "n/e w%é"}, deleted=(5,), table=table).commit()
        staged(lake, {4: "newer"}, deleted=(6,), table=table).commit()
        run_plain(
            lake,
            "CALL ducklake_merge_adjacent_files('dev')",
            "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0.0)",
            "CALL ducklake_expire_snapshots('dev', older_than => now())",
            "CALL ducklake_cleanup_old_files('dev', cleanup_all => true)",
        )
        found = plain_rows(lake, f"SELECT rowid, id, name FROM dev.{table}")
    assert sorted(found) == [(n, n, "newer" if n == 4 else "old") for n in (0, 1, 3, 4, 7, 8)]


def test_file_in_another_folder_is_refused(lake: Lake, tmp_path: Path) -> None:
    run_plain(lake, "ALTER TABLE t SET PARTITIONED BY (name)")
    lake.refresh()
    outside, refusal = str(tmp_path / "outside.parquet"), "outside the data path"
    for folder, message in (("name=new/", "is not in the folder of a partition"), ("", refusal)):
        transaction = staged(lake, {4: "new"})
        (change, gone) = transaction.contents.actions
        assert isinstance(change, AddFiles)
        (path,) = change.files
        moved = path.replace(folder, "") if folder else outside
        Path(path).rename(moved)
        staged_rows = replace(change.staged, files=(moved,))
        transaction.contents.actions = [replace(change, staged=staged_rows), gone]
        with pytest.raises((StorageError, CommitError), match=message):
            transaction.commit()
        assert rows(lake) == FIRST


def test_rows_of_registered_files_elsewhere_can_go(lake: Lake, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.parquet"
    run_plain(
        lake,
        f"COPY (SELECT 30 + i AS id, 'old' AS name FROM range(9) AS r(i)) TO '{elsewhere}'",
        f"CALL ducklake_add_data_files('dev', 't', '{elsewhere}')",
    )
    lake.refresh()
    by_id = row_ids(lake)
    staged(lake, deleted=(by_id[31],)).commit()
    staged(lake, deleted=(by_id[33],)).commit()
    assert [number for number, _ in rows(lake) if number >= 30] == [30, 32, *range(34, 39)]
    staged(lake, deleted=tuple(by_id[number] for number in (30, 32, *range(34, 39)))).commit()
    assert rows(lake) == FIRST
    assert elsewhere.exists()


def test_deletion_vectors_are_not_extended(lake: Lake) -> None:
    run_plain(
        lake,
        "CALL ducklake_set_option('dev', 'write_deletion_vectors', true)",
        "CREATE TABLE vectors AS SELECT i AS id, 'old' AS name FROM range(20) AS r(i)",
        "DELETE FROM vectors WHERE id BETWEEN 1 AND 9",
    )
    lake.refresh()
    with pytest.raises(UnsupportedError, match="has a deletion vector"):
        staged(lake, deleted=(15,), table="vectors").commit()


def test_row_that_does_not_exist_is_a_conflict(lake: Lake) -> None:
    transaction = staged(lake, {3: "deleted before"})
    with pytest.raises(CommitConflictError, match=r"expected to change 1 rows of main\.t, but found 0"):
        transaction.commit()
    assert rows(lake) == FIRST


def test_interrupted_commit_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = lake.snapshot_id
    transaction = staged(lake, {4: "new"})
    at_staged_commit(monkeypatch, after=interrupt)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert lake.refresh() == before + 1
    assert rows(lake) == changed((4, "new"))


@pytest.mark.slow
@pytest.mark.parametrize("forward", [True, False], ids=["committed", "not committed"])
def test_lost_reply_on_a_server_is_looked_up(
    postgres_server: PostgresServer,
    postgres_proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    forward: bool,
) -> None:
    database = postgres_server.create_database()
    prepare(store_of(tmp_path, on_postgres(postgres_server, database), data_inlining_row_limit=3))
    hurt = store_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port), data_inlining_row_limit=3)
    with hurt.open() as lake:
        before = lake.snapshot_id
        transaction = with_key(lake, staged(lake, {4: "new"}, deleted=(5,), added=1), "k")
        files = {Path(path) for change in transaction.contents.actions for path in change.files}
        at_staged_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(COMMIT, forward=forward))
        if forward:
            assert transaction.commit() == before + 1
        else:
            with pytest.raises((CommitError, ConnectionFailed)):
                transaction.commit()
        assert postgres_proxy.fired == 1
        wanted = changed((4, "new"), (5, None), (1000, "new")) if forward else FIRST
        assert rows(lake) == wanted
        assert lake.table("t").idempotency_keys() == (["first", "k"] if forward else ["first"])
        if forward:
            assert files <= set(Path(data_path_of(lake)).rglob("*.parquet"))


def test_these_tests_run_each_version_that_may_commit(inlining_lake: AttachedLake) -> None:
    """After an upgrade: compare `COLUMNS` with the extension's source, and run `make prove` before adding a version."""
    found = inlining_lake.rows("SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake'")
    assert {version for (version,) in found} == STAGED_COMMIT_VERSIONS


def test_metadata_are_recognized_by_the_id_of_the_lake(inlining_lake: AttachedLake) -> None:
    name, connection = inlining_lake.reader.metadata_database, inlining_lake.connection
    assert is_metadata_of(connection, name, inlining_lake.reader.lake_id)
    assert not is_metadata_of(connection, name, "another lake")
