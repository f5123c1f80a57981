"""A lost catalog is an error, and a moved one must be confirmed before a cleanup."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import config_of, in_bucket, on_catalog, store_of

import lakeconf
from lakeconf.cli.app import run
from lakeconf.ducklake import MARKER
from lakeconf.errors import CatalogLostError, CatalogMovedError, CatalogRestoredError
from lakeconf.store import for_reading

if TYPE_CHECKING:
    from pathlib import Path

    from servers import AzureServer, PostgresServer, S3Server

    from lakeconf import Lake, Store


COMMANDS = (
    *("tables", "snapshots", "tables t", "sql FROM(t)", "maintain --dry-run", "maintain --yes"),
    "restore t --version 1",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose catalog is lost."""
    catalog = on_catalog(request, tmp_path)
    made = store_of(tmp_path, catalog)
    with made.open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(lake.sql("SELECT 1::BIGINT AS id"))
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public", str(catalog["database"]))
    else:
        for path in tmp_path.glob("catalog*"):
            path.unlink()
    return made


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_nothing_opens_or_creates_it(store: Store, tmp_path: Path) -> None:
    before = files(tmp_path)
    for use in (store.open, store.connect, lambda: store.open(read_only=True), for_reading(store).open):
        with pytest.raises(CatalogLostError, match="has the files of a lake: nothing was created"):
            use()
    assert files(tmp_path) == before


@pytest.mark.parametrize("has_marker", [True, False])
def test_files_in_a_bucket_show_that_a_catalog_is_lost(
    tmp_path: Path, bucket_server: S3Server | AzureServer, *, has_marker: bool
) -> None:
    bucket = bucket_server.create_bucket()
    catalog = tmp_path / "c.sqlite"
    metadata = {"type": "sqlite", "uri": str(catalog)}
    store = lakeconf.init(config_of(tmp_path, metadata, in_bucket(bucket_server, bucket))).get_store()
    with store.open() as lake:
        lake.create_table("t", ROWS).append(ROWS)
    catalog.unlink()
    if not has_marker:
        (marker,) = [key for key in bucket_server.objects(bucket) if key.endswith(MARKER)]
        bucket_server.remove(bucket, marker)
    for use in (store.open, store.connect, lambda: store.open(read_only=True)):
        with pytest.raises(CatalogLostError, match="has the files of a lake: nothing was created"):
            use()
    assert not catalog.exists()


def test_commands_fail_and_create_nothing(events_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in events_folder.glob("catalog.sqlite*"):
        path.unlink()
    before = files(events_folder)
    for command in (*COMMANDS, "doctor"):
        assert run(command.split()) == 1, command
        assert "has the files of a lake" in "".join(capsys.readouterr()), command
        assert files(events_folder) == before, command


def test_commands_create_nothing_without_a_lake(project: Path) -> None:
    before = files(project)
    for command in COMMANDS:
        assert (run(command.split()), files(project)) == (1, before), command


ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


def declare(project: Path, stores: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Writes `lakeconf.toml` with the (metadata backend, storage backend) of each store."""
    lines = []
    for name, backends in stores.items():
        for kind, backend in zip(("metadata_backend", "storage_backend"), backends, strict=True):
            lines += [f"[stores.{name}.{kind}]", *(f"{key} = {json.dumps(value)}" for key, value in backend.items())]
    (project / "lakeconf.toml").write_text("\n".join(lines))


def opened(name: str) -> Lake:
    return lakeconf.init().get_store(name).open()


def cleaned(name: str) -> int:
    """Overwrites the table, removes the obsolete files, and returns how many files were removed."""
    with opened(name) as lake:
        lake.table("t").overwrite(ROWS)
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        return len(lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True))


def check_refusal(name: str) -> None:
    """Checks that writes succeed, that cleanup fails, and that the hint names the repair command."""
    with pytest.raises(CatalogMovedError, match="this catalog was copied or moved") as raised:
        cleaned(name)
    assert "confirm the move if no other catalog uses this data path: lakeconf doctor --store STORE --repair" in str(
        raised.value.hint
    )
    with opened(name) as lake:
        assert len(lake.table("t").scan().collect()) == len(ROWS)


def check_way_out(moved: str, original: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_refusal(moved)
    assert run(["doctor", "--store", moved, "--repair"]) == 2, "nobody can be asked"
    assert "was created for a catalog at another location" in capsys.readouterr().err
    check_refusal(moved)
    assert run(["doctor", "--store", moved, "--repair", "--yes"]) == 0
    assert f"{MARKER} names this catalog" in capsys.readouterr().out
    assert cleaned(moved) > 0
    check_refusal(original)


@pytest.mark.slow
def test_cleanup_of_a_copied_catalog_file_needs_a_confirmation(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"type": "local", "path": "data"}
    declare(project, {name: ({"type": "sqlite", "uri": f"{name}.sqlite"}, data) for name in ("dev", "copy", "renamed")})
    with opened("dev") as lake:
        lake.create_table("t", ROWS)
    shutil.copy(project / "dev.sqlite", project / "copy.sqlite")
    check_way_out("copy", "dev", capsys)
    (project / "copy.sqlite").rename(project / "renamed.sqlite")
    assert cleaned("renamed") > 0, "a rename is no move"


@pytest.mark.slow
def test_cleanup_of_a_restored_catalog_needs_a_confirmation(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(project, {"dev": ({"type": "sqlite", "uri": "dev.sqlite"}, {"type": "local", "path": "data"})})
    with opened("dev") as lake:
        lake.create_table("t", ROWS).append(ROWS)
    shutil.copy(project / "dev.sqlite", project / "backup.sqlite")
    assert cleaned("dev") > 0
    with opened("dev") as lake:
        lake.table("t").append(ROWS)
    # The file keeps its inode, so only the snapshots show that it was restored.
    (project / "dev.sqlite").write_bytes((project / "backup.sqlite").read_bytes())
    files = sorted((project / "data").rglob("*.parquet"))
    for _ in range(3):  # also when the catalog reaches the recorded snapshot number again
        with opened("dev") as lake:
            with pytest.raises(CatalogRestoredError, match="restored from an older backup") as raised:
                lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
            assert "lakeconf doctor --store STORE --repair" in str(raised.value.hint)
            versions = [snapshot.snapshot_id for snapshot in lake.snapshots()]
            # Once the recorded snapshot has expired, a cleanup could not tell the catalog from the one before.
            with pytest.raises(CatalogRestoredError, match="restored from an older backup"):
                lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
            assert [snapshot.snapshot_id for snapshot in lake.snapshots()] == versions
            lake.create_table(f"later_{lake.snapshot_id}", ROWS)
    assert sorted((project / "data").rglob("*.parquet")) == files
    # The earlier cleanup removed a file that the backup needs.
    assert run(["doctor", "--store", "dev", "--repair", "--yes"]) == 1
    shown = capsys.readouterr().out
    assert (f"{MARKER} names this catalog" in shown, "snapshots need 1 file" in shown) == (True, True)
    with opened("dev") as lake:
        assert len(lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)) > 0


def test_declined_repair_keeps_the_marker(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"type": "local", "path": "data"}
    declare(project, {name: ({"type": "sqlite", "uri": f"{name}.sqlite"}, data) for name in ("dev", "copy")})
    with opened("dev") as lake:
        lake.create_table("t", ROWS)
    shutil.copy(project / "dev.sqlite", project / "copy.sqlite")
    before = (project / "data" / MARKER).read_text()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert run(["doctor", "--store", "copy", "--repair"]) == 1
    assert (project / "data" / MARKER).read_text() == before
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    assert run(["doctor", "--store", "copy", "--repair"]) == 0
    assert (project / "data" / MARKER).read_text() != before


@pytest.mark.slow
def test_cleanup_of_a_copied_database_needs_a_confirmation(
    project: Path, postgres_server: PostgresServer, s3_server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server = postgres_server
    first = server.create_database()
    place = {"type": "postgres", "host": server.host, "port": server.port}
    admin = {**place, "user": server.user, "password": server.password}
    storage = in_bucket(s3_server)
    limited = {**place, "user": f"limited_{first}", "password": "limited"}
    declare(
        project,
        {
            "dev": ({**admin, "database": first}, storage),
            "moved": ({**admin, "database": f"{first}_moved"}, storage),
            "limited": ({**limited, "database": f"{first}_moved"}, storage),
        },
    )
    with opened("dev") as lake:
        lake.create_table("t", ROWS)
    server.sql(f"CREATE DATABASE {first}_moved TEMPLATE {first}", "postgres")
    check_way_out("moved", "dev", capsys)
    # A role without pg_control_system() cannot distinguish the original from a copy on another server.
    server.sql(
        f"CREATE ROLE limited_{first} LOGIN PASSWORD 'limited'; "
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO limited_{first}; "
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        f"{first}_moved",
    )
    check_refusal("limited")
    server.sql(f"GRANT EXECUTE ON FUNCTION pg_control_system() TO limited_{first}", f"{first}_moved")
    assert cleaned("limited") > 0
