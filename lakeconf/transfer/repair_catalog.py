"""Repairs what is safe in the catalog of a lake: in a copy, which then takes the place of the catalog at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lakeconf.connection.connection import connect
from lakeconf.errors import CatalogChangedError, CatalogError, listed
from lakeconf.guard.marker import LakeMarker
from lakeconf.inspection.catalog_audit import audit_catalog
from lakeconf.inspection.catalog_repairs import Finding
from lakeconf.logs import event_logger
from lakeconf.sql import literal
from lakeconf.store import Store
from lakeconf.transfer.backup import back_up_to
from lakeconf.transfer.move_target import MoveTarget
from lakeconf.transfer.opened import locked, opened_copy, opened_lake, opened_place
from lakeconf.transfer.staged_catalog import STAGED, attached

_log = event_logger("transfer")
_SHOWN = 3
_MESSAGE = "lakeconf verify --catalog --repair"
# An empty snapshot: a client without lakeconf's locks that commits at the same time gets a conflict. Open clients keep
# statistics and next row ids by the next file id: the next commit of one would write those from before the repair.
_SNAPSHOT = (
    "INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, greatest(snapshot_time, now()), schema_version, "
    "next_catalog_id, (SELECT max(next_file_id) + 1 FROM ducklake_snapshot) FROM ducklake_snapshot "
    "ORDER BY snapshot_id DESC LIMIT 1",
    f"INSERT INTO ducklake_snapshot_changes SELECT max(snapshot_id), '', NULL, {literal(_MESSAGE)}, NULL "  # noqa: S608
    "FROM ducklake_snapshot",
)


@dataclass(frozen=True)
class CatalogRepair:
    """What a repair has done.

    Attributes:
        snapshot_id: Its snapshot, in which no row changed.
        kept: The backup of the catalog before it.
        left: The findings that no repair mends safely.
    """

    snapshot_id: int
    kept: str
    left: tuple[Finding, ...]


def examine_catalog(store: Store) -> list[Finding]:
    """What is wrong in the catalog of a lake, also if nobody can open the lake."""
    with opened_lake(store, loads=False) as (reader, _):
        findings = audit_catalog(reader)
    return [*findings, *_loaded(findings, opened_lake(store))]


def _loaded(findings: Sequence[Finding], lake: AbstractContextManager[object]) -> Iterator[Finding]:
    """The error of a lake that cannot be opened, if no finding explains it."""
    if all(finding.repairs for finding in findings):
        try:
            with lake:
                pass
        except CatalogError as error:
            yield Finding("lake", error.message, "restore a backup of the catalog (docs/operations.md)")


def repair_catalog(store: Store, place: str, shown: Sequence[Finding]) -> CatalogRepair:
    """Repairs what is safe of the findings of `examine_catalog`, after a backup to a place.

    Raises:
        CatalogChangedError: The findings are others now, or a program without lakeconf's locks wrote to the catalog.
        CatalogError: The catalog would not be sound after the repairs, or cannot be backed up.
        CommitError: A writer was active all the time.
    """
    with opened_place(store, place) as backups, MoveTarget.opened(store) as target, locked(store):
        target.check_not_moving()
        if examine_catalog(store) != list(shown):
            raise CatalogChangedError(
                f"the catalog of {store.name} has changed since it was examined: nothing was changed",
                hint="run the command again, and read what it finds",
            )
        with opened_lake(store) as (reader, _):  # only what can be opened can be backed up
            LakeMarker(reader).check_free()
            backup = back_up_to(backups, store, reader)
        left = tuple(finding for finding in shown if not finding.repairs)
        with backups.catalog(backup) as copy:
            _repair(copy, [statement for finding in shown for statement in finding.repairs])
            _check(store, copy, left)
            target.replace_catalog(copy, backup.snapshot_id)
    _log.info("repaired the catalog of %s, which is in %s as it was", store.name, backup.path)
    return CatalogRepair(backup.snapshot_id + 1, backup.path, left)


def _repair(copy: Path, statements: Sequence[str]) -> None:
    with connect() as connection, attached(connection, copy):
        connection.execute(f"USE {STAGED}")
        connection.execute("BEGIN")
        for statement in (*_SNAPSHOT, *statements):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("USE memory")


def _check(store: Store, copy: Path, left: Sequence[Finding]) -> None:
    """Rejects a repaired copy in which anything else is wrong than before."""
    with opened_copy(store, copy, loads=False) as reader:
        findings = audit_catalog(reader)
    findings += _loaded(findings, opened_copy(store, copy))
    others = [finding for finding in (*findings, *left) if finding not in findings or finding not in left]
    if others:
        what = listed([f"{finding.check}: {finding.what}" for finding in others], _SHOWN)
        raise CatalogError(
            f"the catalog would have other problems after the repair than before ({what}): nothing was changed",
            hint="run `lakeconf verify --catalog`, and do first what the other hints say",
        )
