"""The marker of a lake, and the location of a catalog that it records: a file, or a database on a server."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import socket
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from catalog_lake import AttachedLake, lake
from lake_parts import session_of
from local_stores import config_of, in_bucket, on_postgres, store_of

import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.metadata.motherduck import MotherDuckMetadata
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection, connect
from lakeconf.ducklake import MARKER
from lakeconf.errors import CatalogError, CatalogMovedError, CatalogRestoredError, ConnectionFailed, StorageError
from lakeconf.guard import guard
from lakeconf.guard import marker as module
from lakeconf.guard.guard import marker_of, neighbours, places, reader_of
from lakeconf.guard.marker import LakeMarker
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from servers import AzureServer, PostgresServer, S3Server

    from lakeconf import Store

HERE = ("inode 1:2", "path host:/catalog")
STRANGER = "01234567-89ab-7cde-8f01-23456789abcd"
CONFIRM = "lakeconf doctor --store STORE --repair"


@pytest.fixture
def filled(inlining_lake: AttachedLake) -> AttachedLake:
    """A lake with one file at snapshot 2, and without a marker."""
    inlining_lake.run("CREATE TABLE lake.t (id BIGINT)", "INSERT INTO lake.t FROM range(100)")
    return inlining_lake


def marker(source: AttachedLake, places: tuple[str, ...] = HERE, neighbours: tuple[str, ...] = ()) -> LakeMarker:
    return LakeMarker(source.reader, lambda: places, lambda: neighbours)


def place(source: AttachedLake) -> Path:
    return source.folder / "data" / MARKER


def hashed(places: tuple[str, ...]) -> list[str]:
    """The places of a catalog as a marker contains them."""
    return module.hashes(places)


def content(source: AttachedLake) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place(source).read_text())
    return found


def write(source: AttachedLake, text: str | bytes | None = None, **changed: Any) -> bytes:
    """Writes a marker: the given text, or that of this lake with other values; None leaves a value out."""
    if text is None:
        marker(source).create()
        values = content(source) | changed
        text = json.dumps({key: value for key, value in values.items() if value is not None})
    data = text.encode() if isinstance(text, str) else text
    place(source).parent.mkdir(parents=True, exist_ok=True)
    place(source).write_bytes(data)
    return data


def snapshot(source: AttachedLake) -> dict[str, int]:
    """The newest snapshot, as the marker records it."""
    query = "SELECT snapshot_id, epoch_us(snapshot_time) FROM ducklake_snapshot ORDER BY ALL DESC LIMIT 1"
    ((version, moment),) = source.metadata(query)
    return {"snapshot": version, "snapshot_time": moment}


def foreign_file(source: AttachedLake, name: str = "a/b/x.parquet") -> None:
    path = source.folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("rows")


def assert_refused(do: Callable[[], object], kind: type[CatalogError], message: str, hint: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        do()
    assert type(caught.value) is kind
    assert hint in str(caught.value.hint)


# Creation.


def test_first_write_of_a_new_lake_creates_the_marker(inlining_lake: AttachedLake) -> None:
    one = marker(inlining_lake)
    assert (one.path, place(inlining_lake).exists()) == (str(place(inlining_lake)), False)
    one.before_write()
    assert place(inlining_lake).exists()
    found = content(inlining_lake)
    assert found == {
        "lakeconf": "marks the folder of one DuckLake; `lakeconf doctor --store STORE --repair` creates this file",
        "lake": inlining_lake.reader.lake_id,
        "catalog": hashed(HERE),
        **snapshot(inlining_lake),
    }
    assert [path.name for path in place(inlining_lake).parent.iterdir()] == [MARKER]
    assert all(re.fullmatch("[0-9a-f]{32}", mark) for mark in found["catalog"])
    one.before_write()
    assert content(inlining_lake) == found


def test_hashes_of_places_are_stable_and_differ() -> None:
    """Existing markers contain them."""
    assert hashed(("a", "b", "a")) == [
        "94b135ecf976caac3fbb99fb1094b962",
        "a3f12e62c8bb52a8428e8ba7765cbbcd",
        "94b135ecf976caac3fbb99fb1094b962",
    ]


def test_write_to_a_lake_with_files_creates_no_marker(filled: AttachedLake) -> None:
    marker(filled).before_write()
    assert not place(filled).exists()


@pytest.mark.parametrize("path", ["x.parquet", "a/b/x.parquet"])
def test_empty_catalog_neither_writes_nor_repairs_next_to_unknown_files(path: str, inlining_lake: AttachedLake) -> None:
    foreign_file(inlining_lake, path)
    for do in (marker(inlining_lake).before_write, marker(inlining_lake).repair):
        message = (
            rf"the catalog has no files, but there are Parquet files below {inlining_lake.folder}/data/: they belong"
        )
        assert_refused(do, CatalogError, message, "check `path` and `metadata_schema` of the store, or choose an empty")
    assert not place(inlining_lake).exists()


def test_other_files_do_not_prevent_a_new_lake(inlining_lake: AttachedLake) -> None:
    for name in ("notes.txt", "a/x.parquet.tmp"):
        foreign_file(inlining_lake, name)
    marker(inlining_lake).before_write()
    assert place(inlining_lake).exists()


def test_catalog_knows_files_of_every_kind(inlining_lake: AttachedLake) -> None:
    one = marker(inlining_lake)
    assert one.knows_files() is False
    for table, key in (
        ("ducklake_data_file", "data_file_id"),
        ("ducklake_delete_file", "delete_file_id"),
        ("ducklake_files_scheduled_for_deletion", "data_file_id"),
    ):
        inlining_lake.metadata(f"INSERT INTO {table} ({key}) VALUES (7)")
        assert one.knows_files() is True, table
        inlining_lake.metadata(f"DELETE FROM {table}")
        assert one.knows_files() is False


def test_marker_that_disappears_during_its_creation_is_an_error(
    inlining_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "create_file", lambda *_: None)
    with pytest.raises(CatalogError, match="belongs to another lake"):
        marker(inlining_lake).create()


def test_marker_that_cannot_be_written_is_an_error(inlining_lake: AttachedLake) -> None:
    (inlining_lake.folder / "data").write_text("a file in place of the folder")
    with pytest.raises(StorageError) as caught:
        marker(inlining_lake)._write(module.create_file)
    assert caught.value.message == f"the marker {place(inlining_lake)} cannot be written: File exists"


def test_first_write_on_a_file_system_without_hard_links(
    inlining_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "Operation not permitted")))
    marker(inlining_lake).before_write()
    made = place(inlining_lake).read_bytes()
    assert [path.name for path in place(inlining_lake).parent.iterdir()] == [MARKER]
    marker(inlining_lake)._write(module.create_file)  # another writer was first
    assert place(inlining_lake).read_bytes() == made
    marker(inlining_lake).before_cleanup()


def test_marker_that_cannot_be_read_is_an_error(inlining_lake: AttachedLake) -> None:
    place(inlining_lake).mkdir(parents=True)
    for do in (
        marker(inlining_lake).check_free,
        marker(inlining_lake).before_write,
        marker(inlining_lake).before_cleanup,
    ):
        with pytest.raises(StorageError) as caught:
            do()
        assert caught.value.message == f"the marker {place(inlining_lake)} cannot be read: Is a directory"


def test_failed_replacement_keeps_the_marker_and_leaves_no_file(
    inlining_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(inlining_lake, catalog=["another"])
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            marker(inlining_lake).confirm_move()
    assert place(inlining_lake).read_bytes() == before
    assert [path.name for path in place(inlining_lake).parent.iterdir()] == [MARKER]


# Writes.


def test_marker_is_compared_once_per_open_lake(filled: AttachedLake) -> None:
    write(filled)
    one = marker(filled)
    one.before_write()
    write(filled, lake=STRANGER)
    one.before_write()
    with pytest.raises(CatalogError, match="belongs to another lake"):
        marker(filled).before_write()


@pytest.mark.parametrize("lake_id", [STRANGER, None, 7, "", []], ids=str)
def test_marker_of_another_lake_refuses_everything(lake_id: object, filled: AttachedLake) -> None:
    """So does one that does not say whose it is."""
    before, one = write(filled, lake=lake_id), marker(filled)
    message = f"the data path {filled.folder}/data/ belongs to another lake, according to {place(filled)}: nothing was"
    hint = "check `path` and `metadata_schema` of the store: each lake needs its own data path. If the other"
    for do in (one.before_write, one.before_write, one.before_cleanup, one.record, one.repair, one.confirm_move):
        assert_refused(do, CatalogError, message, hint)
    assert_refused(one.create, CatalogError, message, hint)
    assert place(filled).read_bytes() == before
    assert [path.name for path in place(filled).parent.iterdir() if path.is_file()] == [MARKER]


def test_moved_or_restored_catalog_accepts_writes(filled: AttachedLake) -> None:
    write(filled, snapshot=99)
    marker(filled, ("inode 5:6", "path elsewhere")).before_write()


DAMAGED = [b"", b"{", b"[]", b"7", b"null", b'"text"', b"\x00\xff", b"[" * 9_000, b'{"lake": "' + b"x" * 20_000 + b'"}']


def test_marker_that_is_a_pipe_is_rejected(filled: AttachedLake) -> None:
    os.mkfifo(place(filled))
    with pytest.raises(StorageError, match="is not a regular file"):
        marker(filled).before_cleanup()


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_marker_refuses_everything(text: bytes, filled: AttachedLake) -> None:
    write(filled, text)
    one = marker(filled)
    for do in (one.before_write, one.before_cleanup, one.record, one.repair, one.confirm_move, one.create):
        message = f"{place(filled)} is damaged: it does not name a catalog"
        assert_refused(
            do, CatalogError, message, f"delete that file if no other lake uses this data path, and run: {CONFIRM}"
        )
    assert place(filled).read_bytes() == text


# Cleanup.


def test_cleanup_of_a_new_lake_needs_no_marker(inlining_lake: AttachedLake) -> None:
    marker(inlining_lake).before_cleanup()
    marker(inlining_lake).record()
    assert not place(inlining_lake).exists()


def test_cleanup_of_files_without_a_marker_is_refused(inlining_lake: AttachedLake) -> None:
    folder = f"{inlining_lake.folder}/data/"
    message = rf"{place(inlining_lake)} does not exist, so the files below {folder} may belong to another lake"
    hint = f"run, if no other lake uses this data path: {CONFIRM}"
    inlining_lake.run("CREATE TABLE lake.t (id BIGINT)", "INSERT INTO lake.t FROM range(100)")
    assert_refused(marker(inlining_lake).before_cleanup, CatalogError, message, hint)
    inlining_lake.run("DROP TABLE lake.t")
    for table in ("data_file", "delete_file", "files_scheduled_for_deletion"):
        inlining_lake.metadata(f"DELETE FROM ducklake_{table}")
    assert_refused(marker(inlining_lake).before_cleanup, CatalogError, message, hint)


MOVES = [
    # The recorded location, the location of this catalog, its neighbours, and whether the cleanup is refused.
    (("a", "b"), ("a", "b"), (), False),
    (("a", "b"), ("b", "a"), (), False),
    (("a", "b"), ("c", "d"), (), True),
    (("a", "b"), ("a", "d"), (), False),
    (("a", "b"), ("c", "b"), (), False),
    (("a", "b"), ("a", "d"), ("x", "y"), False),
    (("a", "b"), ("a", "d"), ("x", "b"), True),
    (("a", "b"), ("c", "b"), ("a", "y"), True),
    (("a", "b"), ("a", "b"), ("a", "b"), False),
    (("a", "b"), ("a", "d"), ("a", "d"), False),
    (("a",), ("a",), ("a",), False),
    (("a",), ("b",), (), True),
    (("a", "a"), ("b",), (), True),
    (("a", "b"), (), ("a", "b"), False),
    ((), ("a", "b"), ("a", "b"), False),
]


@pytest.mark.parametrize(("recorded", "here", "neighbours", "refused"), MOVES)
def test_cleanup_of_a_moved_or_copied_catalog_needs_a_confirmation(
    recorded: tuple[str, ...],
    here: tuple[str, ...],
    neighbours: tuple[str, ...],
    refused: bool,
    inlining_lake: AttachedLake,
) -> None:
    write(inlining_lake, catalog=hashed(recorded))
    one = marker(inlining_lake, here, neighbours)
    if not refused:
        one.before_cleanup()
        return
    message = f"{place(inlining_lake)} was created for a catalog at another location: this catalog was copied or moved"
    for do in (one.before_cleanup, one.record, one.repair):
        assert_refused(
            do, CatalogMovedError, message, f"confirm the move if no other catalog uses this data path: {CONFIRM}"
        )
    assert content(inlining_lake)["catalog"] == hashed(recorded)
    one.confirm_move()
    assert content(inlining_lake)["catalog"] == hashed(here)
    marker(inlining_lake, here, neighbours).before_cleanup()
    assert_refused(marker(inlining_lake, recorded, here).before_cleanup, CatalogMovedError, "copied or moved", CONFIRM)


@pytest.mark.parametrize("recorded", [None, "a", {"a": 1}, 7], ids=str)
def test_marker_without_a_list_of_places_is_not_compared(recorded: object, inlining_lake: AttachedLake) -> None:
    """So is one of a metadata backend without locations."""
    write(inlining_lake, catalog=recorded)
    marker(inlining_lake, ("elsewhere",)).before_cleanup()


def test_cleanup_of_a_restored_catalog_needs_a_confirmation(filled: AttachedLake) -> None:
    now = snapshot(filled)
    version, moment = now["snapshot"], now["snapshot_time"]
    cases: list[tuple[object, object, bool]] = [
        (version, moment, False),
        (version - 1, None, True),  # another snapshot had this number
        (version, moment + 1, True),
        (version, moment - 1, True),
        (version, None, True),
        (version + 1, moment, True),
        (None, None, False),
        (str(version + 1), moment, False),
    ]
    for recorded, time, refused in cases:
        write(filled, snapshot=recorded, snapshot_time=time)
        if not refused:
            marker(filled).before_cleanup()
            continue
        message = rf"{place(filled)} records snapshot {recorded}, which this catalog lacks: the catalog was restored"
        assert_refused(marker(filled).before_cleanup, CatalogRestoredError, message, f"is the right one: {CONFIRM}")
        marker(filled).confirm_move()
        assert content(filled)["snapshot"] == version
        marker(filled).before_cleanup()


def test_recorded_snapshot_may_have_expired(filled: AttachedLake) -> None:
    write(filled)
    filled.run("INSERT INTO lake.t FROM range(100)")
    filled.metadata("DELETE FROM ducklake_snapshot WHERE snapshot_id < 3")
    marker(filled).before_cleanup()
    marker(filled).record()
    assert content(filled)["snapshot"] == 3


def test_record_writes_the_location_and_the_newest_snapshot(filled: AttachedLake) -> None:
    write(filled)
    before = place(filled).stat()
    marker(filled).record()
    assert place(filled).stat().st_ino == before.st_ino, "nothing has changed, so nothing was written"
    filled.run("INSERT INTO lake.t FROM range(100)")
    marker(filled, ("inode 1:2", "path host:/renamed")).record()
    found = content(filled)
    assert {key: found[key] for key in ("snapshot", "snapshot_time")} == snapshot(filled)
    assert found["catalog"] == hashed(("inode 1:2", "path host:/renamed"))
    assert [path.name for path in place(filled).parent.iterdir() if path.is_file()] == [MARKER]


# Repair.


def test_repair_creates_a_missing_marker(filled: AttachedLake, tmp_path: Path) -> None:
    assert marker(filled).repair() == f"created {place(filled)}"
    before = place(filled).read_bytes()
    assert marker(filled).repair() == f"{place(filled)} names this catalog"
    assert place(filled).read_bytes() == before
    with lake("sqlite", tmp_path / "new") as empty:
        assert marker(empty).repair() == f"created {place(empty)}"


def test_move_is_confirmed_only_with_a_marker(filled: AttachedLake) -> None:
    with pytest.raises(CatalogError, match=r"_lakeconf\.json does not exist"):
        marker(filled).confirm_move()
    before = write(filled)
    marker(filled).confirm_move()
    assert place(filled).read_bytes() == before


# Object storage.


def test_marker_in_a_bucket(bucket_server: S3Server | AzureServer, tmp_path: Path) -> None:
    bucket = bucket_server.create_bucket()
    storage = in_bucket(bucket_server, bucket)
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev")
    assert store.storage_backend is not None
    folder = store.storage_backend.location
    with store.open() as opened:
        one = session_of(opened).guard.marker
        assert one is not None
        connection = one.reader.connection
        assert (one.path, bucket_server.objects(bucket)) == (f"{folder}{MARKER}", [])
        connection.execute(f"COPY (SELECT 1) TO '{folder}a/b/x.parquet'")
        with pytest.raises(CatalogError, match="the catalog has no files, but there are Parquet files"):
            one.before_write()
        with pytest.raises(CatalogError, match="may belong to another lake"):
            one.before_cleanup()
        keys = set(bucket_server.objects(bucket))
        assert keys == {"lake/a/b/x.parquet"}
        one.create()
        assert f"lake/{MARKER}" in bucket_server.objects(bucket)
        ((text,),) = connection.rows("SELECT content FROM read_text(?)", [one.path])
        assert json.loads(text) == one._content()
        one.before_cleanup()
        moved = marker_of(one.reader, store.metadata_backend)
        moved.places = lambda: ('a "quoted" \\ place\twith a tab', "b")
        with pytest.raises(CatalogMovedError):
            moved.before_cleanup()
        moved.confirm_move()
        moved.before_cleanup()
        with pytest.raises(CatalogMovedError):
            one.before_cleanup()
        connection.execute(f"COPY (SELECT 'damaged' AS x) TO '{one.path}' (FORMAT csv, HEADER false)")
        with pytest.raises(CatalogError, match="is damaged"):
            one.before_cleanup()


ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.fixture
def reader() -> Iterator[CatalogReader]:
    """A reader without a lake: the location of a file needs none."""
    with connect() as connection:
        yield CatalogReader(connection, "dev")


@pytest.fixture
def backend(tmp_path: Path) -> SQLiteMetadata:
    (tmp_path / "catalog").write_text("a catalog")
    return SQLiteMetadata(uri=str(tmp_path / "catalog"))


def marks(path: Path) -> list[str]:
    return [f"inode {os.statvfs(path).f_fsid}:{path.stat().st_ino}", f"path {socket.gethostname()}:{path}"]


def at(path: Path, reader: CatalogReader) -> Sequence[str]:
    return places(SQLiteMetadata(uri=str(path)), reader)


def test_renamed_file_keeps_its_inode_and_a_restored_one_its_path(reader: CatalogReader, tmp_path: Path) -> None:
    catalog, renamed = tmp_path / "catalog", tmp_path / "renamed"
    catalog.touch()
    before = at(catalog, reader)
    catalog.rename(renamed)
    catalog.touch()
    moved, restored = at(renamed, reader), at(catalog, reader)
    assert set(before) & set(moved) == {before[0]}
    assert set(before) & set(restored) == {before[1]}
    assert not set(moved) & set(restored)


def test_link_to_a_file_has_the_location_of_the_file(
    backend: SQLiteMetadata, reader: CatalogReader, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "catalog"
    link.symlink_to(tmp_path / "catalog")
    assert at(link, reader) == places(backend, reader)
    assert list(places(backend, reader)) == marks(tmp_path / "catalog")
    (tmp_path / "other").touch()
    assert neighbours(SQLiteMetadata(uri=str(link))) == marks(tmp_path / "other")


def test_neighbours_are_the_other_files_in_the_folder_of_the_catalog(backend: SQLiteMetadata, tmp_path: Path) -> None:
    assert neighbours(backend) == []
    (tmp_path / "backup").touch()
    (tmp_path / "link").symlink_to(tmp_path / "backup")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deeper").touch()
    os.mkfifo(tmp_path / "pipe")
    assert neighbours(backend) == marks(tmp_path / "backup")
    (tmp_path / "second").touch()
    assert sorted(neighbours(backend)) == sorted(marks(tmp_path / "backup") + marks(tmp_path / "second"))


def test_backend_without_a_file_and_without_a_server_has_no_location(reader: CatalogReader) -> None:
    backend = MotherDuckMetadata(database="lake")
    assert (places(backend, reader), neighbours(backend)) == ((), ())


# Servers.


@pytest.fixture
def store(postgres_server: PostgresServer, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_postgres(postgres_server))


def place_of(store: Store, connection: Connection) -> Sequence[str]:
    return places(store.metadata_backend, reader_of(store.metadata_backend, store.names, connection))


def test_database_has_one_location_that_names_its_server(store: Store, postgres_server: PostgresServer) -> None:
    database = on_postgres(postgres_server, store.metadata_backend.database)["database"]  # type: ignore[attr-defined]
    schema = "SELECT concat(d.oid, '/', n.oid) FROM pg_database d, pg_namespace n WHERE nspname = 'public'"
    catalog = postgres_server.sql(f"{schema} AND datname = current_database()", database)
    identifier = postgres_server.sql("SELECT system_identifier FROM pg_control_system()")
    with open_connection(store) as connection:
        assert place_of(store, connection) == (f"{catalog} of {identifier}",)


def test_role_without_the_privilege_does_not_know_the_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    server = store.metadata_backend.server()
    denied = "FROM postgres_query('__ducklake_metadata_dev', 'SELECT 1 FROM no_such_function()')"
    monkeypatch.setattr(type(server), "server_id", lambda *_: denied)
    with open_connection(store) as connection:
        (found,) = place_of(store, connection)
    assert found.endswith(" of server not known")


def test_a_lost_connection_does_not_change_the_place_in_the_marker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every later cleanup takes the catalog for a copy."""
    ask = guard._ask

    def lost(reader: CatalogReader, query: str) -> str:
        if "pg_control_system" in query:
            raise ConnectionFailed("server closed the connection")
        return ask(reader, query)

    with store.open() as lake:
        lake.create_table("t", like=ROWS)
        lake.table("t").append(ROWS)
        monkeypatch.setattr(guard, "_ask", lost)
        with pytest.raises(ConnectionFailed):
            lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        monkeypatch.setattr(guard, "_ask", ask)
        assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []
