"""Backs up the catalog of a lake while writers go on, and tells what each backup is and whether it has its files."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeconf import __version__
from lakeconf.catalog.admission import canonical
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import Snapshot, latest
from lakeconf.ducklake import SUPPORTED_VERSION
from lakeconf.errors import CatalogChangedError, LakeconfError, StorageError, UnsupportedError
from lakeconf.guard.backups import Backup, BackupPlace, checksum_of
from lakeconf.guard.marker import LakeMarker
from lakeconf.inspection.catalog_files import data_path_files, registered_files
from lakeconf.logs import event_logger
from lakeconf.secret import masked
from lakeconf.store import Store
from lakeconf.transfer.file_copies import sizes
from lakeconf.transfer.opened import METADATA, opened_copy, opened_lake, opened_place
from lakeconf.transfer.staged_catalog import STAGED, attached, stage

_log = event_logger("transfer")
# DuckDB keeps the list of the catalog's tables from before the transaction, and a writer may have added one.
_ATTEMPTS = 5
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class BackupState:
    """A backup, and whether it can be restored.

    Attributes:
        path: Its folder or URI.
        backup: What it is; None if it is damaged.
        missing: The files that it needs and that do not exist, or have another size.
        problem: Why it cannot be restored as a whole; None if it can.
    """

    path: str
    backup: Backup | None
    missing: tuple[str, ...] = ()
    problem: str | None = None

    def data(self) -> dict[str, Any]:
        """Its attributes as values of JSON."""
        backup = None if self.backup is None else self.backup.data()
        return {"path": self.path, "backup": backup, "missing": list(self.missing), "problem": self.problem}


def back_up(store: Store, to: str) -> Backup:
    """Backs up the catalog of a lake; see `Store.back_up`."""
    # Maintenance must not remove a file between the moment of the backup and its manifest.
    with opened_place(store, to) as place, opened_lake(store) as (reader, guard), guard.keeping_files():
        return back_up_to(place, store, reader)


def back_up_to(place: BackupPlace, store: Store, reader: CatalogReader) -> Backup:
    """Backs up the catalog of a lake; the caller keeps maintenance out."""
    _check_place(place.root, reader)
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
        staged, newest, files = _staged(reader, Path(folder))
        backup = _described(store, place, reader, staged, newest, files)
        place.publish(backup, staged)
    _log.info("backed up %s at snapshot %d to %s", store.name, backup.snapshot_id, backup.path)
    return backup


def _check_place(root: str, reader: CatalogReader) -> None:
    place, data = canonical(root), canonical(reader.data_path)
    if place.startswith(data):
        raise LakeconfError(
            f"{root} is in the data path {reader.data_path}: a backup there would be lost with the files",
            hint="choose another folder or prefix",
        )
    if reader.encrypted and "://" in place and place.split("/")[:3] == data.split("/")[:3]:
        raise UnsupportedError(
            f"the lake is encrypted, and a backup has the keys of its files, so it must not be in their bucket: {root}",
            hint="choose a folder, or another bucket",
        )


def _staged(reader: CatalogReader, folder: Path) -> tuple[Path, Snapshot, Mapping[str, int | None]]:
    """A copy of the catalog at one moment, with its newest snapshot and the files that its snapshots need."""
    for attempt in range(_ATTEMPTS):
        staged = folder / f"{attempt}.duckdb"
        try:
            with attached(reader.connection, staged):
                with reader.one_state() as state, state.transaction() as transaction:
                    newest, files = latest(state), registered_files(state)[0]
                    stage(transaction, reader.catalog_type, METADATA)
                reader.connection.execute(f"CHECKPOINT {STAGED}")
        except CatalogChangedError as error:
            changed = error
        else:
            return staged, newest, files
    raise changed


def _described(
    store: Store,
    place: BackupPlace,
    reader: CatalogReader,
    staged: Path,
    newest: Snapshot,
    files: Mapping[str, int | None],
) -> Backup:
    now, name = datetime.now(UTC), masked(store.name, store.secrets)
    parts = (_NOT_IN_A_NAME.sub("_", name), f"{now:%Y%m%dT%H%M%SZ}", str(newest.snapshot_id), uuid.uuid4().hex[:8])
    return Backup(
        path=f"{place.root}{'-'.join(parts)}",
        lake=reader.lake_id,
        store=name,
        time=now,
        snapshot_id=newest.snapshot_id,
        snapshot_time=newest.time,
        files=len(files),
        file_bytes=sum(size or 0 for size in files.values()),
        catalog_bytes=staged.stat().st_size,
        sha256=checksum_of(staged),
        encrypted=reader.encrypted,
        ducklake=SUPPORTED_VERSION,
        lakeconf=__version__,
    )


def list_backups(store: Store, place: str) -> list[BackupState]:
    """The backups in a place, newest first; see `Store.backups`."""
    with opened_place(store, place) as opened:
        states = [state for name in opened.names() if (state := _state(store, opened, name)) is not None]
    return sorted(states, key=lambda state: (state.backup is None, _age(state), state.path))


def _age(state: BackupState) -> float:
    return 0 if state.backup is None else -state.backup.time.timestamp()


def _state(store: Store, place: BackupPlace, name: str) -> BackupState | None:
    """A backup of a place; None if it is one of another lake."""
    path, backup = f"{place.root}{name}", None
    try:
        backup = place.backup(name)
        with place.catalog(backup) as catalog, opened_copy(store, catalog) as reader:
            if LakeMarker(reader).is_of_another():
                return None
            missing = missing_files(reader)
    except LakeconfError as error:
        return BackupState(path, backup, problem=error.message)
    return BackupState(path, backup, missing, f"{len(missing):,} of its files are missing" if missing else None)


def missing_files(reader: CatalogReader) -> tuple[str, ...]:
    """The files that a catalog needs and that do not exist, or have another size, sorted."""
    files = data_path_files(reader)
    return tuple(sorted({*files.missing, *files.damaged, *_missing_outside(reader, files.outside)}))


def _missing_outside(reader: CatalogReader, wanted: Mapping[str, int | None]) -> list[str]:
    missing = []
    for path, size in wanted.items():
        try:
            is_there = sizes(reader.connection, [path]) == {path: size}
        except (StorageError, OSError):
            is_there = False
        if not is_there:
            missing.append(path)
    return missing
