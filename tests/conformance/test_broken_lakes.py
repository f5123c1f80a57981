"""`lakeconf doctor` as an alarm: broken lakes on real components, each with its exit code and its verdict."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import in_bucket, on_postgres, on_sqlite

import lakeconf
from lakeconf.cli.app import run
from lakeconf.ducklake import MARKER
from lakeconf.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import FaultProxy, PostgresServer, S3Server

    from lakeconf import Lake

    Break = Callable[["BrokenLake"], object]

ROWS = [{"id": number} for number in range(50)]
FAILED, WARNED = "dev does not work: {} failed", "dev works; look at the warnings: {}"


class BrokenLake:
    """A store with a lake of one table, and the tools to break it."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.request, self.folder = request, folder
        self.metadata: dict[str, Any] = on_sqlite(folder)
        self.storage: dict[str, Any] = {"type": "local", "path": str(folder / "data")}

    @property
    def catalog(self) -> Path:
        return Path(self.metadata["uri"])

    @property
    def postgres(self) -> PostgresServer:
        found: PostgresServer = self.request.getfixturevalue("postgres_server")
        return found

    def s3(self, *, iam: bool = False) -> S3Server:
        found: S3Server = self.request.getfixturevalue("s3_iam_server" if iam else "s3_server")
        return found

    def patch(self) -> pytest.MonkeyPatch:
        found: pytest.MonkeyPatch = self.request.getfixturevalue("monkeypatch")
        return found

    def opened(self) -> Lake:
        config = {"stores": {"dev": {"metadata_backend": self.metadata, "storage_backend": self.storage}}}
        return lakeconf.init(config).get_store("dev").open()

    def write(self) -> None:
        with self.opened() as lake:
            lake.create_table("t", {"id": "BIGINT"}, if_not_exists=True).append(ROWS)

    def written(self) -> BrokenLake:
        self.write()
        return self

    def with_catalog(self, **metadata: Any) -> BrokenLake:
        self.metadata = metadata
        return self

    def on_postgres(self, **changes: Any) -> BrokenLake:
        return self.with_catalog(**on_postgres(self.postgres) | changes)

    def in_bucket(self, server: S3Server, **changes: Any) -> BrokenLake:
        self.storage = in_bucket(server) | changes
        return self

    def statement(self, sql: str) -> None:
        with closing(sqlite3.connect(self.catalog)) as connection, connection:
            connection.execute(sql)

    def data_file(self) -> Path:
        return next((self.folder / "data").rglob("ducklake-*.parquet"))

    def files(self) -> list[Path]:
        """All files, without those that SQLite cannot remove from a full disk."""
        return sorted(path for path in self.folder.rglob("*") if not path.name.startswith("catalog-"))

    def save(self) -> None:
        """Writes the configuration file; JSON strings, numbers and booleans are those of TOML."""
        lines = []
        for section in ("metadata", "storage"):
            lines.append(f"[stores.dev.{section}_backend]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in getattr(self, section).items()]
        path = self.folder / "lakeconf.toml"
        if not path.exists():
            path.write_text("\n".join(lines))


def healthy_servers(case: BrokenLake) -> None:
    case.on_postgres().in_bucket(case.s3()).write()


def locks_of_a_killed_process(case: BrokenLake) -> None:
    case.write()
    holder = "import fcntl, os, sys; fcntl.flock(open(sys.argv[1], 'a'), fcntl.LOCK_EX); os._exit(9)"
    for suffix in ("lock", "writers"):
        killed = subprocess.run([sys.executable, "-c", holder, f"{case.catalog}.lakeconf-{suffix}"], check=False)
        assert killed.returncode == 9


def lost_catalog_without_a_marker(case: BrokenLake) -> None:
    """As plain DuckDB makes a lake."""
    lost_catalog(case)
    (case.folder / "data" / MARKER).unlink()


def lost_catalog(case: BrokenLake) -> None:
    case.write()
    for path in case.folder.glob("catalog*"):
        path.unlink()


def empty_catalog(case: BrokenLake) -> None:
    lost_catalog(case)
    case.catalog.touch()


def catalog_without_tables(case: BrokenLake) -> None:
    lost_catalog(case)
    case.statement("CREATE TABLE t (a)")
    case.statement("DROP TABLE t")


def catalog_on_postgres_dropped(case: BrokenLake) -> None:
    case.on_postgres().write()
    case.postgres.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public", str(case.metadata["database"]))


def corrupt_catalog(case: BrokenLake) -> None:
    case.write()
    content = bytearray(case.catalog.read_bytes())
    content[100:4096] = b"\xff" * 3996
    case.catalog.write_bytes(content)


def mixed_catalog(case: BrokenLake) -> None:
    """As after a restore beside the WAL of the former catalog: an index lacks rows of its table."""
    case.write()
    with closing(sqlite3.connect(case.catalog)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size() "
            "WHERE name = 'sqlite_autoindex_ducklake_data_file_1'"
        )
    content = bytearray(case.catalog.read_bytes())
    content[(page - 1) * size + 3 : (page - 1) * size + 5] = b"\0\0"  # the number of its cells
    case.catalog.write_bytes(content)


def column_without_fields(case: BrokenLake) -> None:
    """As DuckLake leaves a nested column that one transaction adds and renames."""
    with case.opened() as lake:
        lake.create_table("t", {"id": "STRUCT(a BIGINT)"})
    case.statement("DELETE FROM ducklake_column WHERE parent_column IS NOT NULL")
    with pytest.raises(CatalogError, match=r"(?s)optional pointer.*lakeconf doctor"):
        case.opened()


def older_catalog(case: BrokenLake, *, maintained: bool = False) -> None:
    case.write()
    with closing(sqlite3.connect(case.catalog)) as live, closing(sqlite3.connect(case.folder / "backup")) as copy:
        live.backup(copy)
    case.write()
    if maintained:
        with case.opened() as lake:
            lake.maintenance.cleanup(older_than=dt.timedelta(days=2))
    for path in case.folder.glob("catalog*"):
        path.unlink()
    shutil.copy(case.folder / "backup", case.catalog)


def foreign_marker(case: BrokenLake) -> None:
    case.write()
    marker = case.folder / "data" / MARKER
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"lake": "another"}))


def full_disk(case: BrokenLake) -> None:
    case.write()
    case.save()
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # no file can grow beyond it
    case.patch().setattr(sys, "dont_write_bytecode", True)
    case.request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


def wrong_clock(case: BrokenLake) -> None:
    healthy_servers(case)

    class LateClock(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + dt.timedelta(hours=1)

    case.patch().setattr("lakeconf.inspection.doctor_lake.datetime", LateClock)


def as_reader(case: BrokenLake) -> None:
    name, password = case.postgres.create_role(case.metadata["database"], read_only=True)
    case.metadata |= {"user": name, "password": password}


def role_that_cannot_create_a_schema(case: BrokenLake) -> None:
    as_reader(case.on_postgres(metadata_schema="lake"))


def role_that_only_reads(case: BrokenLake) -> None:
    case.on_postgres().write()
    as_reader(case)


def bucket_that_cannot_be_written(case: BrokenLake) -> None:
    server = case.s3(iam=True)
    assert server.read_only is not None
    case.in_bucket(server, key_id=server.read_only.key_id, secret=server.read_only.secret)


def expired_token(case: BrokenLake) -> None:
    proxy: FaultProxy = case.request.getfixturevalue("s3_proxy")
    case.in_bucket(case.s3(), endpoint=f"127.0.0.1:{proxy.port}", session_token="planted-token").write()
    proxy.answer(400, code="ExpiredToken", times=10_000)


def expired_role(case: BrokenLake) -> None:
    case.on_postgres().write()
    as_reader(case)
    case.postgres.sql(f"ALTER ROLE {case.metadata['user']} VALID UNTIL '2020-01-01'")


NO_CATALOG = "has the files of a lake: nothing was created"
CATALOG, FILES = FAILED.format("catalog"), FAILED.format("files")
READABLE, WRITABLE = FAILED.format("data path readable"), FAILED.format("data path writable")
# Each with the verdict, and a part of what is said.
CASES: dict[str, tuple[Break, str, str]] = {
    "nothing": (BrokenLake.written, "dev works", "and no others"),
    "no_lake": (lambda _: None, "dev has no lake yet: the first write creates it", "none yet"),
    "healthy_servers": (healthy_servers, "dev works", "differ by 0 s"),
    "healthy_duckdb": (
        lambda case: case.with_catalog(type="duckdb", uri=str(case.folder / "catalog")).written(),
        "dev works",
        "and no others",
    ),
    "locks_of_a_killed_process": (locks_of_a_killed_process, "dev works", "and no others"),
    "lost_catalog": (lost_catalog, CATALOG, NO_CATALOG),
    "lost_catalog_without_a_marker": (lost_catalog_without_a_marker, CATALOG, NO_CATALOG),
    "empty_catalog": (empty_catalog, CATALOG, NO_CATALOG),
    "catalog_without_tables": (catalog_without_tables, CATALOG, NO_CATALOG),
    "catalog_on_postgres_dropped": (catalog_on_postgres_dropped, CATALOG, NO_CATALOG),
    "corrupt_catalog": (corrupt_catalog, CATALOG, "damaged"),
    "mixed_catalog": (mixed_catalog, FAILED.format("version"), "the catalog file is damaged"),
    "column_without_fields": (column_without_fields, FAILED.format("version"), "has lost its fields"),
    "catalog_of_another_type": (
        lambda case: case.written().metadata.update(type="duckdb"),
        CATALOG,
        'set type = "sqlite"',
    ),
    "catalog_of_a_newer_ducklake": (
        lambda case: case.written().statement("UPDATE ducklake_metadata SET value = '9.9' WHERE key = 'version'"),
        CATALOG,
        "9.9",
    ),
    "older_catalog": (older_catalog, WARNED.format("files"), "the catalog was restored from a backup"),
    "older_catalog_after_a_cleanup": (
        lambda case: older_catalog(case, maintained=True),
        FAILED.format("marker"),
        "the catalog was restored from an older backup",
    ),
    "lost_file": (lambda case: case.written().data_file().unlink(), FILES, "snapshots need 1 file"),
    "lost_data_path": (lambda case: shutil.rmtree(case.written().folder / "data"), FILES, "snapshots need 1 file"),
    "truncated_file": (
        lambda case: os.truncate(case.written().data_file(), 100),
        FILES,
        "another size than in the catalog",
    ),
    "foreign_marker": (foreign_marker, FAILED.format("marker"), "belongs to another lake"),
    "no_marker": (
        lambda case: (case.written().folder / "data" / MARKER).unlink(),
        WARNED.format("marker"),
        "doctor --store STORE --repair",
    ),
    "another_data_path": (
        lambda case: case.written().storage.update(path=str(case.folder / "other")),
        CATALOG,
        "override_data_path",
    ),
    "file_as_data_path": (lambda case: (case.folder / "data").touch(), WRITABLE, "Not a directory"),
    "unwritable_data_path": (lambda case: case.storage.update(path="/proc/lakeconf"), WRITABLE, "cannot be written"),
    "full_disk": (full_disk, FAILED.format("catalog, data path writable"), "the disk is full"),
    "wrong_clock": (wrong_clock, FAILED.format("clock"), "set the clock"),
    "role_that_cannot_create": (
        lambda case: as_reader(case.on_postgres()),
        CATALOG,
        "it lacks CREATE and USAGE on the schema public",
    ),
    "role_that_cannot_create_a_schema": (role_that_cannot_create_a_schema, CATALOG, "it lacks CREATE on the database"),
    "role_that_only_reads": (role_that_only_reads, CATALOG, "the role may not change the catalog's table"),
    "wrong_password": (lambda case: case.on_postgres(password="planted-wrong"), CATALOG, "check `user` and `password`"),
    "wrong_host": (lambda case: case.on_postgres(host="nowhere.invalid"), CATALOG, "cannot be resolved"),
    "wrong_port": (lambda case: case.on_postgres(port=1), CATALOG, "check `host` and `port`"),
    "missing_database": (lambda case: case.on_postgres(database="no_such_database"), CATALOG, "create the database"),
    "missing_bucket": (lambda case: case.in_bucket(case.s3(), bucket="no-such-bucket"), READABLE, "create the bucket"),
    "wrong_secret": (
        lambda case: case.in_bucket(case.s3(iam=True), secret="planted-wrong"),
        READABLE,
        "check key_id, secret",
    ),
    "expired_token": (expired_token, READABLE, "renew the credentials, which have expired"),
    "expired_role": (expired_role, CATALOG, "check `user` and `password`"),
    "bucket_that_cannot_be_written": (bucket_that_cannot_be_written, WRITABLE, "permit this on the bucket"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("break_it", "verdict", "said"), CASES.values(), ids=CASES)
def test_verdict(
    break_it: Break, verdict: str, said: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    case = BrokenLake(request, tmp_path)
    break_it(case)
    case.save()
    monkeypatch.chdir(tmp_path)
    before = case.files()
    code = run(["doctor", "--store", "dev"])
    found = capsys.readouterr().out
    assert (found.splitlines()[-1], code) == (verdict, 0 if "does not work" not in verdict else 1), found
    assert said in found
    assert "planted" not in found
    assert case.files() == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_read_only_media(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """SQLite needs a file beside a catalog with a write-ahead log; the hint makes it readable without one."""
    case = BrokenLake(request, tmp_path)
    case.metadata["type"] = kind
    case.write()
    case.save()
    with (tmp_path / "lakeconf.toml").open("a") as file:
        file.write("\n[stores.dev.attach_options]\nread_only = true")
    doctor = f"mount --bind . . && cd . && mount -o remount,bind,ro . && {sys.executable} -m lakeconf doctor"

    def diagnosed() -> list[str]:
        done = subprocess.run(
            ["/usr/bin/env", "unshare", "--map-root-user", "--mount", "sh", "-c", doctor.replace(" .", f" {tmp_path}")],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [done.stdout.splitlines()[-1], done.stdout]

    verdict, said = diagnosed()
    if kind == "sqlite":
        assert verdict == CATALOG
        assert "has a write-ahead log, which SQLite cannot read in a read-only folder" in said
        case.statement("PRAGMA journal_mode = DELETE")
        verdict, said = diagnosed()
    assert verdict == "dev works", said


def test_configuration_that_cannot_be_read(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    case = BrokenLake(request, tmp_path)
    case.metadata["uri"] = "${LAKECONF_TEST_MISSING}"
    case.save()
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--store", "dev"]) == 1
    assert "LAKECONF_TEST_MISSING is not set" in capsys.readouterr().err
