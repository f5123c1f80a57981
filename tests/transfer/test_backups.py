"""A backup is the lake at one moment, also while writers commit; it is whole, or not there; and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import in_bucket, new_store, place_of
from strength import in_prove
from whole_lakes import backed_up, everything, fill

from lakeconf.cli.app import run
from lakeconf.errors import (
    CatalogError,
    CatalogMissingError,
    CommitError,
    ConnectionFailed,
    LakeconfError,
    StorageError,
    UnsupportedError,
)
from lakeconf.guard import backups, locks
from lakeconf.guard.backups import CATALOG, MANIFEST
from lakeconf.inspection.doctor import repair_marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Store
    from lakeconf.guard.backups import Backup

# The tests of restored lakes compare lakes with backups, too.
KINDS = in_prove([("sqlite", "local"), ("postgres", "s3"), ("duckdb", "local")])
SHORT = (
    "CREATE TABLE t AS SELECT range AS id FROM range(100)",
    "DELETE FROM t WHERE id < 40",
    "INSERT INTO t VALUES (500)",
)


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A small lake on SQLite, with inlined rows."""
    made = new_store(request, tmp_path, "prod", "sqlite", "local")
    fill(made, SHORT)
    return made


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "backups")


def test_a_lake_whose_table_keeps_rows_in_the_catalog_by_a_later_option_is_backed_up(store: Store, place: str) -> None:
    with store.connect() as connection:
        connection.execute("CALL prod.set_option('data_inlining_row_limit', 10, table_name => 't')")
        connection.execute("INSERT INTO t VALUES (600)")
    with backed_up(store, store.back_up(place)) as copy, copy.connect() as connection:
        assert connection.sql("FROM t WHERE id = 600").fetchall() == [(600,)]


@pytest.mark.parametrize(("catalog", "storage"), KINDS)
def test_backup_is_equal_to_its_lake(
    catalog: str, storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "prod", catalog, storage)
    fill(store)
    to = place_of(store, tmp_path)
    backup = store.back_up(to)
    with backed_up(store, backup) as copy:
        assert everything(copy) == everything(store)


def test_backups_are_listed_newest_first(store: Store, place: str) -> None:
    first, second = store.back_up(place), store.back_up(place)
    assert [(state.backup, state.missing, state.problem) for state in store.backups(place)] == [
        (second, (), None),
        (first, (), None),
    ]


def rows_at(store: Store, snapshot_id: int) -> list[Any]:
    with store.connect() as connection:
        return connection.sql(f"SELECT rowid, id FROM t AT (VERSION => {snapshot_id}) ORDER BY ALL").fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_backup_while_writers_commit_is_the_lake_at_one_snapshot(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, place: str
) -> None:
    store = new_store(request, tmp_path, "prod", kind, "local")
    fill(store, SHORT)
    stop, written = threading.Event(), threading.Semaphore(0)

    def write(start: int) -> None:
        with store.open() as lake:
            for number in range(start, start + 10_000):
                lake.table("t").append(lake.sql(f"SELECT {number} AS id"))
                lake.table("t").delete(f"id = {number - 1}")
                if number % 5 == 0:  # a new table, and the first deletes in the catalog
                    lake.create_table(f"u{number}", {"a": "BIGINT"})
                written.release()
                if stop.is_set():
                    return

    writers = [threading.Thread(target=write, args=(start,)) for start in (10_000, 30_000)]
    for writer in writers:
        writer.start()
    try:
        made = []
        for _ in range(4):
            written.acquire()
            made.append(store.back_up(place))
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert len({backup.snapshot_id for backup in made}) > 1
    for backup in made:
        with backed_up(store, backup) as copy:
            assert rows_at(copy, backup.snapshot_id) == rows_at(store, backup.snapshot_id)
    assert [state.problem for state in store.backups(place)] == [None] * 4


def test_writer_goes_on_and_maintenance_waits(store: Store, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.1)
    publish = backups.BackupPlace.publish

    def publish_later(opened: Any, backup: Backup, catalog: Path) -> None:
        with store.open() as lake:
            lake.table("t").append(lake.sql("SELECT 600 AS id"))
            with pytest.raises(CommitError, match="was not free"):
                lake.maintenance.cleanup(older_than=timedelta(days=2))
        publish(opened, backup, catalog)

    monkeypatch.setattr(backups.BackupPlace, "publish", publish_later)
    backup = store.back_up(place)
    with store.open() as lake, backed_up(store, backup) as copy:
        assert lake.snapshot_id == backup.snapshot_id + 1
        assert len(rows_at(copy, backup.snapshot_id)) == len(rows_at(store, lake.snapshot_id)) - 1


def test_backup_is_private_and_names_no_secret(store: Store, place: str, tmp_path: Path) -> None:
    backup = store.back_up(place)
    paths = [tmp_path / "backups", *(tmp_path / "backups").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}
    assert sorted(path.name for path in paths if path.is_file()) == sorted((CATALOG, MANIFEST))
    manifest = json.loads((tmp_path / "backups" / backup.path / MANIFEST).read_text())
    assert manifest.keys() == (backup.data().keys() - {"path"}) | {"format"}


@pytest.mark.slow
def test_backup_in_a_bucket_names_no_secret(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = new_store(request, tmp_path, "prod", "postgres", "s3")
    fill(store, SHORT)
    to = place_of(store, tmp_path)
    backup = store.back_up(to)
    with store.connect() as connection:
        query = f"SELECT content FROM read_blob('{backup.path}/*')"
        contents = [content for (content,) in connection.sql(query).fetchall()]
    assert len(contents) == 2
    assert store.secrets
    assert not any(secret.reveal().encode() in content for secret in store.secrets for content in contents)
    # Another bucket of the same server, which is not that of the files.
    other = in_bucket(request.getfixturevalue("s3_server"))["bucket"]
    store.back_up(f"s3://{other}/")
    assert [state.problem for state in store.backups(f"s3://{other}")] == [None]


def test_backup_tells_which_files_are_missing(store: Store, place: str, tmp_path: Path) -> None:
    store.back_up(place)
    first = store.back_up(place)
    file = next((tmp_path / "prod" / "data").rglob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    (state, _) = store.backups(place)
    assert (state.backup, state.missing, state.problem) == (first, (str(file),), "1 of its files are missing")
    file.unlink()
    assert {state.missing for state in store.backups(place)} == {(str(file),)}
    file.write_bytes(content)
    assert {state.missing for state in store.backups(place)} == {()}


def test_files_behind_links_to_folders_are_not_missing(store: Store, place: str, tmp_path: Path) -> None:
    store.back_up(place)
    folder, moved = tmp_path / "prod" / "data" / "main", tmp_path / "other disk"
    shutil.move(folder, moved)
    folder.symlink_to(moved)
    assert [state.problem for state in store.backups(place)] == [None]
    file = next(moved.rglob("*.parquet"))
    file.write_bytes(b"")
    assert [len(state.missing) for state in store.backups(place)] == [1]


def test_a_place_can_have_the_backups_of_two_lakes(
    store: Store, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = new_store(request, tmp_path, "other", "sqlite", "local")
    fill(other, SHORT)
    for each in (store, other):
        repair_marker(each, lambda *_: None)
        backup = each.back_up(place)
        assert [(state.backup, state.problem) for state in each.backups(place)] == [(backup, None)]


def test_files_outside_the_data_path_are_examined(store: Store, place: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.parquet"
    with store.connect() as connection:
        connection.execute(f"COPY (SELECT 8::BIGINT AS id) TO '{elsewhere}'")
        connection.execute(f"CALL ducklake_add_data_files('prod', 't', '{elsewhere}')")
    store.back_up(place)
    assert store.backups(place)[0].missing == ()
    elsewhere.unlink()
    assert store.backups(place)[0].missing == (str(elsewhere),)


@pytest.mark.slow
def test_encrypted_lake_is_not_backed_up_beside_its_files(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = new_store(request, tmp_path, "prod", "sqlite", "s3").replace(attach_options={"encrypted": True})
    fill(store, SHORT)
    with pytest.raises(UnsupportedError, match="must not be in their bucket"):
        store.back_up(place_of(store, tmp_path))
    backup = store.back_up(str(tmp_path / "backups"))
    assert backup.encrypted
    with backed_up(store, backup) as copy:
        assert len(rows_at(copy, backup.snapshot_id)) == 61


def damaged(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda backup: (backup / name).write_bytes(content)


def with_value(**values: object) -> Callable[[Path], object]:
    def change(backup: Path) -> None:
        content = json.loads((backup / MANIFEST).read_text()) | values
        (backup / MANIFEST).write_text(json.dumps(content))

    return change


def without(name: str) -> Callable[[Path], object]:
    return lambda backup: (backup / name).unlink()


def linked(backup: Path) -> None:
    (backup / CATALOG).rename(backup / "secret")
    (backup / CATALOG).symlink_to(backup / "secret")


DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no JSON": (damaged(MANIFEST, b"{"), "manifest of the backup .* is damaged"),
    "an empty manifest": (damaged(MANIFEST, b""), "manifest of the backup .* is damaged"),
    "a list": (damaged(MANIFEST, b"[1]"), "manifest of the backup .* is damaged"),
    "deep JSON": (damaged(MANIFEST, b"[" * 90_000), "manifest of the backup .* is damaged"),
    "a huge manifest": (damaged(MANIFEST, b" " * 200_000), "manifest of the backup .* is damaged"),
    "bytes": (damaged(MANIFEST, b"\xff\x00"), "manifest of the backup .* is damaged"),
    "a negative size": (with_value(catalog_bytes=-1), "manifest of the backup .* is damaged"),
    "a flag as a number": (with_value(files=True), "manifest of the backup .* is damaged"),
    "a huge number": (with_value(snapshot_id=1 << 70), "manifest of the backup .* is damaged"),
    "a checksum that is a path": (with_value(sha256="../../secret"), "manifest of the backup .* is damaged"),
    "a time without a zone": (with_value(time="2026-01-01"), "manifest of the backup .* is damaged"),
    "a missing value": (with_value(lake=None), "manifest of the backup .* is damaged"),
    "a newer format": (with_value(format=2), "a newer version of lakeconf made the backup"),
    "another checksum": (with_value(sha256="0" * 64), "its catalog has another size or checksum"),
    "a shorter catalog": (damaged(CATALOG, b"x"), "its catalog has another size or checksum"),
    "no catalog": (without(CATALOG), "cannot be read"),
    "a link as catalog": (linked, "cannot be read"),
}


def test_damaged_backups_are_named(store: Store, place: str, tmp_path: Path) -> None:
    whole = store.back_up(place)
    for number, (damage, _) in enumerate(DAMAGED.values()):
        copy = tmp_path / "backups" / f"damaged {number}"
        shutil.copytree(whole.path, copy)
        damage(copy)
    problems = {state.path: state.problem for state in store.backups(place)}
    assert problems.pop(whole.path) is None
    for number, (name, (_, message)) in enumerate(DAMAGED.items()):
        problem = problems.pop(f"{place}/damaged {number}")
        assert re.search(message, problem or ""), (name, problem)
    assert problems == {}


def test_place_is_checked_before_anything_is_written(store: Store, tmp_path: Path) -> None:
    data = tmp_path / "prod" / "data"
    (tmp_path / "link").symlink_to(data)
    before = set(tmp_path.rglob("*"))
    for to, error, message in (
        (str(data), LakeconfError, "is in the data path"),
        (str(data / "main"), LakeconfError, "is in the data path"),
        (str(tmp_path / "link" / "backups"), LakeconfError, "is in the data path"),
        ("s3://bucket/backups", UnsupportedError, "has no credentials for s3://"),
        ("s3://bucket/../backups", LakeconfError, "is not the URI of a folder"),
        ("s3://bucket/backups?s3_endpoint=evil.example.com", LakeconfError, "is not the URI of a folder"),
        ("s3://u:planted@bucket/backups", LakeconfError, "contains a user, a password or a token"),
        ("az://a.blob.core.windows.net/c/b?sv=1&sig=planted", LakeconfError, "contains a user, a password or a token"),
        ("https://evil.example.com/", UnsupportedError, "has no credentials for https://"),
        ("", LakeconfError, "is not a folder"),
        ("a\nb", LakeconfError, "is not a folder"),
    ):
        with pytest.raises(error, match=message) as raised:
            store.back_up(to)
        assert "planted" not in str(raised.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        store.back_up(str(tmp_path / "file"))
    (tmp_path / "file").unlink()
    # Reading a catalog makes files beside it.
    assert {path for path in tmp_path.rglob("*") if not path.name.startswith("catalog")} <= before


def test_backups_need_a_place_and_a_lake(store: Store, place: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read: No such file"):
        store.backups(place)
    (tmp_path / "backups" / "notes").mkdir(parents=True)
    assert store.backups(place) == []
    (tmp_path / "prod" / "catalog").rename(tmp_path / "lost")
    with pytest.raises(CatalogError):
        store.back_up(place)
    new = store.replace(
        storage_backend=store.storage_backend and store.storage_backend.model_copy(update={"path": str(tmp_path / "x")})
    )
    with pytest.raises(CatalogMissingError):
        new.back_up(place)


@pytest.mark.slow
def test_catalog_in_duckdb_is_backed_up_when_no_process_has_it_open(
    tmp_path: Path, request: pytest.FixtureRequest, place: str
) -> None:
    store = new_store(request, tmp_path, "prod", "duckdb", "local")
    fill(store, SHORT)
    with store.open(), pytest.raises(ConnectionFailed, match="close the lake"):
        store.back_up(place)
    store.back_up(place)


def test_full_disk_leaves_no_backup(store: Store, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store.back_up(place)
    before = sorted((tmp_path / "backups").rglob("*"))
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(StorageError, match="No space left on device"):
            store.back_up(place)
    assert sorted((tmp_path / "backups").rglob("*")) == before


def test_commands_show_backups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def shown(*arguments: str) -> tuple[int, str]:
        code = run(arguments)
        return code, capsys.readouterr().out

    assert shown("init")[0] == 0
    (tmp_path / "rows.csv").write_text("id\n1\n")
    assert shown("load", "rows.csv", "t", "--yes")[0] == 0
    code, made = shown("backup", "--to", "backups")
    path = next((tmp_path / "backups").iterdir())
    assert (code, str(path) in made, "it needs " in made) == (0, True, True)
    code, text = shown("backups", "--in", "backups")
    assert (code, text.splitlines()[1].split()[-2:]) == (0, ["whole", str(path)])
    (path / CATALOG).write_bytes(b"")
    code, text = shown("backups", "--in", "backups", "--format", "json")
    (state,) = json.loads(text)
    assert (code, state["path"], "another size or checksum" in state["problem"]) == (1, str(path), True)


def drop_tables(store: Store) -> None:
    with store.open() as lake:
        for name in lake.tables():
            lake.drop_table(name)
    repair_marker(store, lambda *_: None)  # plain DuckDB made the lake


def stored_files(store: Store) -> set[Path]:
    storage = store.storage_backend
    assert storage is not None
    return {path for path in Path(storage.location).rglob("*") if path.is_file() and path.suffix == ".parquet"}


def kept_by(store: Store, place: str) -> Store:
    return store.replace(maintenance={"backups": place})


def cleaned(store: Store) -> list[str]:
    """The names of the files that maintenance removes when all snapshots but the latest expire."""
    with store.open() as lake:
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        return [path.rpartition("/")[2] for path in lake.maintenance.cleanup(older_than=timedelta(0), force=True)]


@pytest.mark.parametrize(("catalog", "storage"), KINDS)
def test_maintenance_keeps_the_files_of_backups(
    catalog: str, storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = new_store(request, tmp_path, "prod", catalog, storage)
    fill(store)
    place = place_of(store, tmp_path)
    backup = store.back_up(place)
    with backed_up(store, backup) as copy:
        before = everything(copy)
    drop_tables(store)
    assert cleaned(kept_by(store, place)) == []
    (state,) = store.backups(place)
    assert (state.missing, state.problem) == ((), None)
    with backed_up(store, backup) as copy:
        assert everything(copy) == before
    assert len(cleaned(store)) == backup.files


def test_files_go_when_their_backup_has_gone(store: Store, place: str) -> None:
    backup = store.back_up(place)
    drop_tables(store)
    assert cleaned(kept_by(store, place)) == []
    store.back_up(place)
    shutil.rmtree(backup.path)
    assert len(cleaned(kept_by(store, place))) == backup.files


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: shutil.rmtree(path.parent), "cannot be read"),
        (shutil.rmtree, "has no backup of this lake"),
        (lambda path: (path / MANIFEST).write_text("{}"), "manifest of the backup .* is damaged"),
        (lambda path: (path / CATALOG).write_bytes(b"another"), "another size or checksum"),
        (lambda path: (path / CATALOG).unlink(), "cannot be read"),
    ],
)
def test_maintenance_removes_nothing_if_its_backups_cannot_be_read(
    spoil: Callable[[Path], object], message: str, store: Store, place: str
) -> None:
    backup = store.back_up(place)
    drop_tables(store)
    spoil(Path(backup.path))
    files = stored_files(store)
    with pytest.raises(LakeconfError, match=message):
        cleaned(kept_by(store, place))
    assert stored_files(store) == files


def test_backups_of_another_lake_keep_nothing(
    store: Store, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = new_store(request, tmp_path, "other", "sqlite", "local")
    fill(other, SHORT)
    other.back_up(place)
    drop_tables(store)
    with pytest.raises(CatalogError, match="has no backup of this lake"):
        cleaned(kept_by(store, place))
