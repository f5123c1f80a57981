"""The backups of lakes in a folder or bucket: what each one is, and how one is read and published.

A backup is a folder with a catalog, as a DuckDB file, and a manifest. It exists once it has a manifest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeconf.backends.backend import StorageBackend, StoreNames
from lakeconf.backends.registry import metadata_backend
from lakeconf.backends.secrecy import check_place
from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import (
    CatalogError,
    FileMissingError,
    LakeconfError,
    StorageError,
    UnsupportedError,
    exists,
    storage_errors,
)
from lakeconf.logs import escaped, event_logger
from lakeconf.secret import Secret
from lakeconf.sql import URL_ENDS, files_sql, listing_sql, literal
from lakeconf.wording import byte_size

MANIFEST, CATALOG = "backup.json", "catalog.duckdb"
FORMAT = 1
_log = event_logger("transfer")
_LARGEST_MANIFEST = 100_000
# DuckDB reads a file of a bucket as one value. It refuses larger ones.
_LARGEST_IN_BUCKET = 4_100_000_000
_UNFINISHED = ".lakeconf-backup-"
_URI = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<host>[A-Za-z0-9._-]+)(?:/.*)?", re.DOTALL)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ANOTHER = "name another backup; `lakeconf backups` lists them"
_CHUNK = 1 << 20
_COPY = "lakeconf_backup"
_NEEDED = f"SELECT path FROM {_COPY}.ducklake_data_file UNION SELECT path FROM {_COPY}.ducklake_delete_file"  # noqa: S608


@dataclass(frozen=True)
class Backup:
    """A backup of a lake's catalog.

    Attributes:
        path: Its folder or URI.
        lake: The id of the lake.
        store: The store that had the lake.
        time: When it was made, in UTC.
        snapshot_id: The newest snapshot.
        snapshot_time: The time of this snapshot, in UTC.
        files: The number of files that its snapshots need.
        file_bytes: Their size.
        catalog_bytes: The size of the catalog.
        sha256: The checksum of the catalog.
        encrypted: True if the files are encrypted, and the catalog has their keys.
        ducklake: The version of the catalog.
        lakeconf: The version of lakeconf that made it.
    """

    path: str
    lake: str
    store: str
    time: datetime
    snapshot_id: int
    snapshot_time: datetime
    files: int
    file_bytes: int
    catalog_bytes: int
    sha256: str = field(repr=False)
    encrypted: bool
    ducklake: str
    lakeconf: str

    def data(self) -> dict[str, Any]:
        """Its attributes as values of JSON."""
        times = {"time": self.time.isoformat(), "snapshot_time": self.snapshot_time.isoformat()}
        return dataclasses.asdict(self) | times

    def manifest(self) -> str:
        """The text of its manifest."""
        values = {name: value for name, value in self.data().items() if name != "path"}
        return json.dumps({"format": FORMAT, **values}, indent=2) + "\n"


def _parsed(path: str, text: str) -> Backup:
    """The backup that a manifest describes; whoever can write there may have written anything."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    values: Mapping[str, Any] = content if isinstance(content, dict) else {}
    if isinstance(values.get("format"), int) and values["format"] > FORMAT:
        raise CatalogError(f"a newer version of lakeconf made the backup {path}", hint="update lakeconf")
    fields: dict[str, Any] = {name: values.get(name) for name in Backup.__dataclass_fields__ if name != "path"}
    for name in ("time", "snapshot_time"):
        fields[name] = _moment(fields[name])
    if values.get("format") != FORMAT or not all(_fits(*each) for each in fields.items()):
        raise CatalogError(f"the manifest of the backup {path} is damaged", hint=_ANOTHER)
    return Backup(path, **fields)


def _moment(value: object) -> datetime | None:
    with contextlib.suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.astimezone(UTC) if moment is not None and moment.tzinfo else None
    return None


def _fits(name: str, value: object) -> bool:
    kind = Backup.__annotations__[name]
    if kind == "int":
        return type(value) is int and 0 <= value < 1 << 63
    if kind == "str":
        return isinstance(value, str) and (name != "sha256" or _SHA256.fullmatch(value) is not None)
    return isinstance(value, bool if kind == "bool" else datetime)


@dataclass
class BackupPlace:
    """A folder or bucket with backups, with a connection that has no secrets but those for the bucket."""

    root: str  # an absolute folder or a URI, ending in `/`
    connection: Connection = field(repr=False)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, place: str, storage: StorageBackend | None, names: StoreNames, secrets: Iterable[Secret]
    ) -> Iterator[BackupPlace]:
        """Opens a place for the lake of a store: its storage has the credentials for a bucket.

        Raises:
            UnsupportedError: The store has no credentials for such a URI.
        """
        with connect(secrets) as connection:
            if "://" in place:
                root = _reached(place, storage, names, connection)
            elif place and escaped(place) == place:
                root = os.path.abspath(place).rstrip("/") + "/"
            else:
                raise LakeconfError(
                    f"{place!r} is not a folder", hint="write a folder, or a URI such as s3://bucket/backups"
                )
            yield cls(root, connection)

    def names(self) -> list[str]:
        """The names of all backups.

        Raises:
            StorageError: The place does not exist or cannot be read.
        """
        if "://" in self.root:
            keys = (str(key) for (key,) in self.connection.rows(listing_sql(self.root, f"*/{MANIFEST}")))
            return sorted(key[len(self.root) :].removesuffix(f"/{MANIFEST}") for key in keys)
        hint = "check the path, and the permissions of the folder"
        with storage_errors(f"the backups in {self.root} cannot be read", hint=hint), os.scandir(self.root) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
            return [name for name in names if exists(f"{self.root}{name}/{MANIFEST}")]

    def backup(self, name: str) -> Backup:
        """The backup with this name.

        Raises:
            CatalogError: There is none, or its manifest is damaged.
        """
        path = f"{self.root}{name}"
        text = self._text(f"{path}/{MANIFEST}")
        if text is None:
            raise CatalogError(f"the manifest of the backup {path} is damaged", hint=_ANOTHER)
        return _parsed(path, text)

    @contextlib.contextmanager
    def catalog(self, backup: Backup) -> Iterator[Path]:
        """A private copy of the catalog of a backup, with the checksum of its manifest."""
        source = f"{backup.path}/{CATALOG}"
        hint = "check the permissions of the backup, and the free space for temporary files"
        with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
            copy = Path(folder, CATALOG)
            with storage_errors(f"the backup {backup.path} cannot be read", hint=hint):
                if "://" in source:
                    self.connection.execute(_blob_copy(source, str(copy)))
                else:
                    # DuckDB would also read what lies beside the file itself, such as a write-ahead log.
                    with _opened_regular(source) as original, copy.open("xb") as target:
                        shutil.copyfileobj(original, target, _CHUNK)
                size, checksum = copy.stat().st_size, checksum_of(copy)
            if (size, checksum) != (backup.catalog_bytes, backup.sha256):
                raise CatalogError(
                    f"the backup {backup.path} is damaged: its catalog has another size or checksum than when it was "
                    "made",
                    hint=_ANOTHER,
                )
            yield copy

    def publish(self, backup: Backup, catalog: Path) -> None:
        """Makes a backup of a catalog: complete, or not at all. No other backup is replaced."""
        if "://" in self.root:
            self._upload(backup, catalog)
            return
        hint = "check the permissions and the free space of the folder"
        with storage_errors(f"the backup {backup.path} cannot be written", hint=hint):
            Path(self.root).mkdir(0o700, parents=True, exist_ok=True)
            part = Path(f"{self.root}{_UNFINISHED}{uuid.uuid4().hex}")
            part.mkdir(0o700)
            try:
                with _private(part / CATALOG) as target, catalog.open("rb") as original:
                    shutil.copyfileobj(original, target, _CHUNK)
                with _private(part / MANIFEST) as target:
                    target.write(backup.manifest().encode())
                _sync_folder(part)
                part.rename(backup.path)
                _sync_folder(Path(self.root))
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def _upload(self, backup: Backup, catalog: Path) -> None:
        if backup.catalog_bytes > _LARGEST_IN_BUCKET:
            raise UnsupportedError(
                f"the catalog has {byte_size(backup.catalog_bytes)}, and lakeconf writes at most "
                f"{byte_size(_LARGEST_IN_BUCKET)} to a bucket",
                hint="choose a folder for the backup",
            )
        self.connection.execute(_blob_copy(str(catalog), f"{backup.path}/{CATALOG}"))
        manifest = f"SELECT encode({literal(backup.manifest())}) AS content"
        self.connection.execute(f"COPY ({manifest}) TO {literal(f'{backup.path}/{MANIFEST}')} (FORMAT BLOB)")

    def _text(self, path: str) -> str | None:
        """The text of a manifest; None if it is too long for one."""
        if "://" in path:
            try:
                sizes = self.connection.rows(f"SELECT size FROM {files_sql('read_blob', path)}")  # noqa: S608
                if not sizes:  # of Azure, DuckDB reports no error
                    raise _no_backup(path)
                if sizes[0][0] > _LARGEST_MANIFEST:
                    return None
                ((content,),) = self.connection.rows(f"SELECT content FROM {files_sql('read_blob', path)}")  # noqa: S608
            except FileMissingError:
                raise _no_backup(path) from None
        else:
            hint = "check the permissions of the backup"
            try:
                with storage_errors(f"{path} cannot be read", hint=hint), _opened_regular(path) as file:
                    content = file.read(_LARGEST_MANIFEST + 1)
            except StorageError as error:
                if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                    raise _no_backup(path) from None
                raise
        return None if len(content) > _LARGEST_MANIFEST else bytes(content).decode(errors="replace")


def paths_needed(opening: AbstractContextManager[BackupPlace], lake: str) -> frozenset[str]:
    """The paths of the files that the backups of a lake need, as their catalogs have them.

    Raises:
        StorageError: The place cannot be read.
        CatalogError: A backup is damaged, or there is none of this lake.
    """
    paths = set[str]()
    with opening as place:
        own = [backup for backup in map(place.backup, place.names()) if backup.lake == lake]
        if not own:  # a disk that is not mounted is an empty folder
            raise CatalogError(
                f"{place.root} has no backup of this lake, and maintenance keeps the files of its backups: no file was "
                "removed",
                hint="make one with `lakeconf backup --to`, or correct `backups` in the maintenance of the store",
            )
        for backup in own:
            with place.catalog(backup) as catalog:
                paths |= _paths_in(catalog)
    return frozenset(paths)


def _paths_in(catalog: Path) -> set[str]:
    backend = metadata_backend("duckdb").model_validate({"type": "duckdb", "uri": str(catalog)})
    with connect() as connection:
        backend.admit(connection)
        connection.execute(f"ATTACH {literal(str(catalog))} AS {_COPY} (READ_ONLY)")
        return {str(path) for (path,) in connection.rows(_NEEDED)}


def _no_backup(manifest: str) -> CatalogError:
    return CatalogError(f"there is no backup {manifest.removesuffix(f'/{MANIFEST}')}", hint=_ANOTHER)


def checksum_of(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _reached(place: str, storage: StorageBackend | None, names: StoreNames, connection: Connection) -> str:
    """Gives a connection the credentials of the store's storage for a bucket, and returns its URI.

    The requests go to the server that the store names, whatever the URI is.
    """
    check_place(place)
    own = None if storage is None else storage.location.partition("://")[0]
    uri = _URI.fullmatch(place)
    if uri is None or re.search(URL_ENDS, place) or ".." in place.split("/"):
        raise LakeconfError(f"{place!r} is not the URI of a folder", hint="write a URI such as s3://bucket/backups")
    if storage is None or uri["scheme"] != own:
        raise UnsupportedError(
            f"the store {names.store!r} has no credentials for {uri['scheme']}://: its files are elsewhere",
            hint="choose a folder; or, for a store with a bucket, a URI of the same service",
        )
    for name in storage.extensions:
        load_extension(connection, name)
    for setting in storage.duckdb_settings:
        connection.run(setting)
    scope = f"{uri['scheme']}://{uri['host']}/"
    for secret in storage.secrets(names):
        connection.run(secret._replace(options={**secret.options, "scope": scope}))
    return place.rstrip("/") + "/"


def _blob_copy(source: str, target: str) -> str:
    content = f"SELECT content FROM {files_sql('read_blob', source)}"  # noqa: S608
    return f"COPY ({content}) TO {literal(target)} (FORMAT BLOB)"


@contextlib.contextmanager
def _opened_regular(path: str) -> Iterator[Any]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StorageError(f"{path} is not a regular file", hint="find out who made it, and remove it")
        yield file


@contextlib.contextmanager
def _private(path: Path) -> Iterator[Any]:
    """A new file for its owner only, which is on the disk at the end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
