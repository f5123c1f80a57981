"""A restored lake is the lake of the backup, goes on, and is never lost; and what a restore refuses."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import dying_move
import pytest
from local_stores import new_store, place_of, remove_catalog, rows
from strength import PROVE, in_prove
from whole_lakes import everything, fill

from lakeconf.ducklake import MARKER, MOVING
from lakeconf.errors import (
    CatalogChangedError,
    CatalogError,
    CatalogLostError,
    CatalogMovedError,
    CatalogRestoredError,
    CommitError,
    LakeconfError,
    SnapshotNotFoundError,
    StorageError,
    UnsupportedError,
)
from lakeconf.guard import locks
from lakeconf.guard.backups import CATALOG, MANIFEST, checksum_of
from lakeconf.inspection.doctor import diagnose, repair_marker
from lakeconf.transfer import restore_lake
from lakeconf.transfer.move_target import MoveTarget
from lakeconf.transfer.staged_catalog import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Store
    from lakeconf.guard.backups import Backup

SHORT = (
    "CREATE TABLE t AS SELECT range AS id FROM range(100)",
    "DELETE FROM t WHERE id < 40",
    "INSERT INTO t VALUES (500)",
)
KINDS = [("sqlite", "local"), ("postgres", "s3"), ("duckdb", "local")]
REST = [("sqlite", "s3"), ("duckdb", "s3"), ("postgres", "local")]


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A small lake on SQLite."""
    made = new_store(request, tmp_path, "prod", "sqlite", "local")
    fill(made, SHORT)
    repair_marker(made, lambda *_: None)
    return made


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "backups")


def ids(store: Store) -> list[Any]:
    with store.connect() as connection:
        return connection.sql("SELECT rowid, id FROM t ORDER BY ALL").fetchall()


def change(store: Store, *, number: int = 600) -> None:
    """Two commits of lakeconf."""
    with store.open() as lake:
        lake.table("t").append(lake.sql(f"SELECT {number} AS id"))
        lake.table("t").delete("id < 60")


@pytest.mark.slow
@pytest.mark.parametrize(("catalog", "storage"), [*KINDS, *in_prove(REST)])
def test_restored_lake_is_equal_and_continues(
    catalog: str, storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "prod", catalog, storage)
    fill(store)
    before, place = everything(store), place_of(store, tmp_path)
    backup = store.back_up(place)
    with store.open() as lake:
        lake.table("parted").delete("k = 1")
        lake.drop_table("raw.events")
        lake.maintenance.expire_snapshots(older_than=timedelta(0), keep=2, force=True)
        newest = lake.snapshot_id
    plan = store.plan_restore_lake(backup.path)
    assert [lost.snapshot_id for lost in plan.lost] == [newest - 1, newest]
    assert [lost.changes.split()[0] for lost in plan.lost] == ["delete", "drop"]
    done = store.restore_lake(backup.path, plan=plan)
    assert everything(store) == before
    # The catalog that was replaced is a backup, too.
    assert {state.path for state in store.backups(place)} == {backup.path, done.kept}
    with store.open() as lake:
        lake.table("raw.events").delete("id < 10")
        lake.maintenance.compact()
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
        count = len(lake.table("raw.events").to_arrow())
    assert [step.name for step in diagnose(store) if step.status == "failed"] == []
    with store.open() as lake:
        assert len(lake.table("raw.events").to_arrow()) == count
    assert {state.problem for state in store.backups(place)} == {None}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("duckdb", marks=pytest.mark.prove)])
def test_lost_catalog_is_restored(kind: str, tmp_path: Path, request: pytest.FixtureRequest, place: str) -> None:
    store = new_store(request, tmp_path, "prod", kind, "local")
    fill(store, SHORT)
    before, backup = ids(store), store.back_up(place)
    change(store)
    remove_catalog(tmp_path / "prod")
    with pytest.raises(CatalogLostError):
        store.open()
    plan = store.plan_restore_lake(backup.path)
    assert (plan.newest, plan.lost, str(plan).splitlines()[1]) == (
        None,
        (),
        "lost    all later commits: there is no catalog to list them",
    )
    assert store.restore_lake(backup.path).kept is None
    assert ids(store) == before
    change(store)


def test_two_restores_of_a_lost_catalog_at_once_do_not_mix(
    store: Store, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = store.back_up(place)
    change(store)
    before, backup = ids(store), store.back_up(place)
    remove_catalog(tmp_path / "prod")
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.5)

    def write_while_another_restores(*arguments: Any) -> None:
        monkeypatch.setattr("lakeconf.transfer.move_target.write", write)
        with pytest.raises(CommitError, match="was not free"):
            store.restore_lake(older.path)
        write(*arguments)

    monkeypatch.setattr("lakeconf.transfer.move_target.write", write_while_another_restores)
    store.restore_lake(backup.path)
    assert ids(store) == before
    assert not [path.name for path in (tmp_path / "prod").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_lost_server_is_replaced_by_another_kind_of_catalog(
    tmp_path: Path, request: pytest.FixtureRequest, place: str, store: Store
) -> None:
    before, backup = ids(store), store.back_up(place)
    server = new_store(request, tmp_path, "server", "postgres", "local").replace(storage_backend=store.storage_backend)
    remove_catalog(tmp_path / "prod")
    server.restore_lake(backup.path)
    assert ids(server) == before
    change(server)
    with server.open() as lake, pytest.raises(CatalogMovedError):  # the former catalog may still be in use
        lake.maintenance.cleanup(older_than=timedelta(days=1))
    repair_marker(server, lambda *_: None)
    with server.open() as lake:
        lake.maintenance.cleanup(older_than=timedelta(days=1))


def test_a_second_catalog_of_the_same_files_removes_none(store: Store, place: str, tmp_path: Path) -> None:
    with store.open() as lake:
        lake.create_table("made", [{"a": 1}]).append([{"a": 1}])
    backup = store.back_up(place)
    second = store.replace(metadata_backend=store.metadata_backend.model_copy(update={"uri": str(tmp_path / "second")}))
    second.restore_lake(backup.path)
    with store.open() as lake:
        lake.table("made").append([{"a": 2}])
    with second.open() as lake, pytest.raises(CatalogMovedError):
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    with store.open() as lake:
        assert sorted(lake.table("made").to_arrow()["a"].to_pylist()) == [1, 2]
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)


def test_files_may_be_elsewhere_now(store: Store, place: str, tmp_path: Path) -> None:
    below = tmp_path / "prod" / "data" / "below.parquet"
    with store.connect() as connection:
        connection.execute(f"COPY (SELECT 7::BIGINT AS id) TO '{below}'")
        connection.execute(f"CALL ducklake_add_data_files('prod', 't', '{below}')")
    before, backup = ids(store), store.back_up(place)
    (tmp_path / "prod" / "data").rename(tmp_path / "moved")
    remove_catalog(tmp_path / "prod")
    assert store.storage_backend is not None
    moved = store.replace(storage_backend=store.storage_backend.model_copy(update={"path": str(tmp_path / "moved")}))
    with pytest.raises(StorageError, match="are missing, or have another size"):
        moved.restore_lake(backup.path)  # the catalog names the file by its old path
    (tmp_path / "prod" / "data").mkdir()
    shutil.copy(tmp_path / "moved" / "below.parquet", below)
    moved.restore_lake(backup.path)
    below.unlink()
    assert ids(moved) == before


def test_encrypted_lake_is_restored_privately(tmp_path: Path, request: pytest.FixtureRequest, place: str) -> None:
    store = new_store(request, tmp_path, "prod", "sqlite", "local").replace(attach_options={"encrypted": True})
    fill(store, SHORT)
    before, backup = ids(store), store.back_up(place)
    with pytest.raises(UnsupportedError, match="is encrypted, and stays so"):
        store.replace(attach_options={"encrypted": False}).restore_lake(backup.path)
    remove_catalog(tmp_path / "prod")
    store.restore_lake(backup.path)
    assert ids(store) == before
    assert (tmp_path / "prod" / "catalog").stat().st_mode & 0o777 == 0o600


def test_open_lakes_notice_the_restore(store: Store, place: str) -> None:
    backup = store.back_up(place)
    with store.open() as lake, store.open() as reader:
        change(store)
        lake.refresh()
        assert reader.refresh() == lake.snapshot_id
        store.restore_lake(backup.path)
        with pytest.raises(SnapshotNotFoundError, match="version 5 does not exist"):
            lake.table("t").append(lake.sql("SELECT 1 AS id"))
        with pytest.raises(CatalogError, match="the catalog was replaced while the lake was open"):
            lake.refresh()
        # Also when the new history is as long as the old one.
        change(store, number=700)
        for attempt in (
            lambda: lake.table("t").append(lake.sql("SELECT 1 AS id")),
            lambda: reader.table("t").delete("id = 500"),
        ):
            with pytest.raises(CatalogError, match="the catalog was replaced while the lake was open"):
                attempt()
    assert (500,) in [row[1:] for row in ids(store)]


def test_restore_waits_for_writers_and_heeds_the_plan(
    store: Store, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.1)
    backup = store.back_up(place)
    plan = store.plan_restore_lake(backup.path)
    with store.open() as lake, lake.transaction() as transaction:
        transaction.table("t").append(lake.sql("SELECT 600 AS id"))
        with pytest.raises(CommitError, match="was not free"):
            store.restore_lake(backup.path)
    before = ids(store)
    with pytest.raises(CatalogChangedError, match="has changed since the plan was made"):
        store.restore_lake(backup.path, plan=plan)
    assert ids(store) == before
    assert len(store.backups(place)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writer_without_locks_stops_the_restore(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(request, tmp_path, "prod", kind, "local")
    fill(store, SHORT)
    backup = store.back_up(place)
    replace_catalog = MoveTarget.replace_catalog

    def write_first(target: MoveTarget, *arguments: Any) -> None:
        with store.connect() as connection:
            connection.execute("INSERT INTO t SELECT 1")
        replace_catalog(target, *arguments)

    monkeypatch.setattr(MoveTarget, "replace_catalog", write_first)
    with pytest.raises(CatalogChangedError, match="another program wrote snapshot"):
        store.restore_lake(backup.path)
    assert len(ids(store)) == 62


def without_a_file(_: Store, __: Backup, folder: Path) -> None:
    next((folder / "prod" / "data").rglob("*.parquet")).unlink()


def another_lake(store: Store, _: Backup, folder: Path) -> None:
    """The store has another lake now."""
    shutil.rmtree(folder / "prod" / "data")
    remove_catalog(folder / "prod")
    fill(store, SHORT)


def another_marker(_: Store, __: Backup, folder: Path) -> None:
    remove_catalog(folder / "prod")
    (folder / "prod" / "data" / MARKER).write_text('{"lake": "another"}')


def on_path(name: str, text: str = "") -> Callable[[Store, Backup, Path], object]:
    return lambda _, __, folder: (folder / name).write_text(text)


def emptied(_: Store, __: Backup, folder: Path) -> None:
    remove_catalog(folder / "prod")
    (folder / "prod" / "catalog").write_text("")


def other_manifest(_: Store, backup: Backup, folder: Path) -> None:
    manifest = folder / "backups" / backup.path / MANIFEST
    manifest.write_text(manifest.read_text().replace(backup.lake, "00000000-0000-0000-0000-000000000000"))


def hostile_catalog(_: Store, backup: Backup, folder: Path) -> None:
    """Whoever can write to the place of backups names a file elsewhere, and corrects the checksum."""
    path = folder / "backups" / backup.path / CATALOG
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE ducklake_data_file SET path = '../../../secret.parquet'")
    manifest = path.parent / MANIFEST
    text = manifest.read_text().replace(backup.sha256, checksum_of(path))
    manifest.write_text(
        text.replace(f'"catalog_bytes": {backup.catalog_bytes}', f'"catalog_bytes": {path.stat().st_size}')
    )


REFUSED: dict[str, tuple[Callable[[Store, Backup, Path], object], type[LakeconfError], str]] = {
    "a missing file": (without_a_file, StorageError, "1 file that the backup .* needs are missing"),
    "another lake": (another_lake, CatalogError, "is one of another lake than"),
    "the marker of another lake": (another_marker, CatalogError, "belongs to another lake"),
    "a move": (on_path(f"prod/data/{MOVING}", "{}"), CatalogError, "a lake is being moved to"),
    "an empty file": (emptied, CatalogError, "is there, but is no whole catalog"),
    "another file": (on_path("prod/catalog", "x" * 200), CatalogError, "damaged|not a database|unknown type"),
    "the manifest of another lake": (other_manifest, CatalogError, "does not describe its catalog"),
    "a path above": (hostile_catalog, CatalogError, "which could lead elsewhere"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(name: str, store: Store, place: str, tmp_path: Path) -> None:
    prepare, error, message = REFUSED[name]
    change(store)
    backup = store.back_up(place)
    prepare(store, backup, tmp_path)
    before = tree(tmp_path)
    with pytest.raises(error, match=message):
        store.restore_lake(backup.path)
    assert tree(tmp_path) == before


DAMAGES = {
    "a column twice": "INSERT INTO ducklake_column SELECT * FROM ducklake_column",
    "no time": "UPDATE ducklake_snapshot SET snapshot_time = 'garbage'",
    "no table": "DROP TABLE ducklake_tag",
    "no snapshots": "DELETE FROM ducklake_snapshot",
    "no inlined rows": "DROP TABLE {inlined}",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_catalog_is_replaced_after_it_was_renamed(
    damage: str, store: Store, place: str, tmp_path: Path
) -> None:
    before, backup = ids(store), store.back_up(place)
    catalog = tmp_path / "prod" / "catalog"
    with contextlib.closing(sqlite3.connect(catalog)) as connection:
        names = "SELECT table_name FROM ducklake_inlined_data_tables"
        ((inlined,),) = connection.execute(names).fetchall()
        connection.execute(DAMAGES[damage].format(inlined=inlined))
        connection.commit()
    with pytest.raises(CatalogError, match="is no whole catalog") as caught:
        store.restore_lake(backup.path)
    assert "rename it and all files beside it" in str(caught.value.hint)
    remove_catalog(tmp_path / "prod")
    store.restore_lake(backup.path)
    assert ids(store) == before


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without locks, and without what SQLite makes to read."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)
    files = (path for path in files if "lakeconf-" not in path.name and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_backup_of_another_lake_is_refused(
    store: Store, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = new_store(request, tmp_path, "other", "sqlite", "local")
    fill(other, SHORT)
    backup, before = other.back_up(place), ids(store)
    with pytest.raises(CatalogError, match="belongs to another lake"):
        store.restore_lake(backup.path)
    # Without a marker, the catalog itself tells.
    (tmp_path / "prod" / "data" / MARKER).unlink()
    with pytest.raises(CatalogError, match="is one of another lake than that of prod"):
        store.restore_lake(backup.path)
    with pytest.raises(CatalogError, match="there is no backup"):
        store.restore_lake(f"{place}/nothing")
    with pytest.raises(LakeconfError, match="is read-only"):
        other.replace(attach_options={"read_only": True}).restore_lake(backup.path)
    assert ids(store) == before


def test_maintenance_stops_until_a_restore_is_confirmed(
    store: Store, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    backup = store.back_up(place)
    change(store)
    with monkeypatch.context() as patched:
        patched.setattr(restore_lake.LakeRestore, "confirm", stop)
        with pytest.raises(KeyboardInterrupt):
            store.restore_lake(backup.path)
    with store.open() as lake, pytest.raises(CatalogRestoredError):
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    store.restore_lake(backup.path)
    with store.open() as lake:
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)


CONFIG = """
[stores.prod]
metadata_backend = {{ type = "{kind}", uri = "prod/catalog" }}
storage_backend = {{ type = "local", path = "prod/data" }}
"""


def restored(folder: Path, backup: str, number: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, "restore-lake", backup, "--yes", "--adopt-later"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_lost"), [("sqlite", False), ("duckdb", True), *in_prove([("duckdb", False), ("sqlite", True)])]
)
def test_killed_restore_leaves_the_old_lake_or_the_new_one(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakeconf.toml").write_text(CONFIG.format(kind=kind))
    store = new_store(request, tmp_path, "prod", kind, "local")
    fill(store, (*SHORT, "CREATE TABLE appended AS SELECT range AS id FROM range(20)"))
    before, backup = ids(store), store.back_up(str(tmp_path / "backups"))
    change(store)
    with store.open() as lake:
        lake.table("appended").append([{"id": 7}])  # the other rows are in a file, too

    def state() -> tuple[list[Any], list[Any]]:
        with store.open() as lake:
            appended = rows(lake, "FROM appended")
        return ids(store), appended

    old, new = state(), (before, sorted([*((number,) for number in range(20)), (7,)], key=repr))
    if is_lost:
        remove_catalog(tmp_path / "prod")
    shutil.copytree(tmp_path / "prod", tmp_path / "before")
    finished = restored(tmp_path, backup.path, 0, "")
    assert finished.returncode == 0, finished.stderr
    steps = int(finished.stdout.split()[-1])
    for number in range(1, steps + 1, 1 if PROVE else 5):
        shutil.rmtree(tmp_path / "prod")
        shutil.copytree(tmp_path / "before", tmp_path / "prod")
        killed = restored(tmp_path, backup.path, number, "before" if number % 2 else "after")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        try:
            assert state() in (old, new)
        except CatalogLostError:
            assert is_lost
        assert {state.problem for state in store.backups(str(tmp_path / "backups"))} == {None}
        again = restored(tmp_path, backup.path, 0, "")
        assert again.returncode == 0, (number, again.stderr)
        assert state() == new
        with store.open() as lake:
            assert lake.maintenance.plan_cleanup(older_than=timedelta(days=1)).paths == []
        assert [path.name for path in (tmp_path / "prod").iterdir() if path.name.startswith(".")] == []
