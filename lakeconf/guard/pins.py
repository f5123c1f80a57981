"""The pins of a lake: files below its data path that name the snapshots which its branches read, so none may expire.

Whoever maintains the lake sees them, also without a configuration that has the branches.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lakeconf.catalog.inherited import branch_record, changed_snapshot
from lakeconf.catalog.reader import CatalogReader, ParentLake
from lakeconf.connection.connection import remove_files
from lakeconf.errors import BranchError, CatalogError, exists, storage_errors
from lakeconf.guard.marker import replace_file, text_in_bucket
from lakeconf.sql import listing_sql, literal

_PREFIX = "_lakeconf_pin_"
_NAME = re.compile(rf"{_PREFIX}(?P<branch>[0-9a-f-]{{36}})\.json")
_PURPOSE = "keeps a snapshot for a branch of this lake; `lakeconf branch --drop STORE` removes this file"
_LARGEST_BYTES = 10_000
_HINT = "check the permissions of the data path of the lake that the branch is made of"


@dataclass(frozen=True)
class Pin:
    """A snapshot that a branch reads.

    Attributes:
        branch: The id of the branch's lake.
        store: The store of the branch.
        lake: The id of the lake that it is a branch of.
        snapshot_id: The snapshot.
        snapshot_time: The time of this snapshot, in UTC: after a restore, another one may have its number.
        path: The file; delete it if the branch was deleted without `lakeconf branch --drop`.
    """

    branch: str
    store: str
    lake: str
    snapshot_id: int
    snapshot_time: str
    path: str = ""

    def data(self) -> dict[str, Any]:
        """Its attributes as values of JSON."""
        return dataclasses.asdict(self)


_KEYS = tuple(field.name for field in dataclasses.fields(Pin) if field.name != "path")


@dataclass(frozen=True)
class Pins:
    """The pins below the data path of a lake."""

    reader: CatalogReader

    def all(self) -> list[Pin]:
        """All pins, by snapshot.

        Raises:
            CatalogError: A pin is damaged: nobody knows which snapshot it keeps.
        """
        pins = [pin for branch in self._branches() if (pin := self.of(branch)) is not None]
        return sorted(pins, key=lambda pin: (pin.snapshot_id, pin.branch))

    def of(self, branch: str) -> Pin | None:
        """The pin of the branch with this lake id; None without one."""
        text = self._text(self._path(branch))
        return None if text is None else self._parsed(branch, text)

    def check(self, pin: Pin, *, kept: bool = True) -> None:
        """Rejects a branch whose snapshot is gone or another one; or, unless `kept` is False, may expire.

        Raises:
            BranchError: The pin does not hold.
        """
        problem = self._changed(pin)
        hint = "drop the branch with `lakeconf branch --drop STORE`, and make it again"
        if problem is None and kept and not self._keeps(pin):
            problem = f"{self._path(pin.branch)} does not keep snapshot {pin.snapshot_id}"
            hint = "run `lakeconf branch PARENT STORE` again: it makes the pin anew, while the snapshot exists"
        if problem is not None:
            raise BranchError(f"the pin of the branch {pin.store!r} is broken: {problem}", hint=hint)

    def _keeps(self, pin: Pin) -> bool:
        kept = self.of(pin.branch)
        return kept is not None and (kept.lake, kept.snapshot_id) == (pin.lake, pin.snapshot_id)

    def _changed(self, pin: Pin) -> str | None:
        if self.reader.lake_id != pin.lake:
            return "it was made of another lake"
        return changed_snapshot(self.reader, pin.snapshot_id, pin.snapshot_time)

    def write(self, pin: Pin) -> None:
        """Makes or replaces the pin of a branch; the caller holds the lock of the lake and has the snapshot."""
        path, content = (
            self._path(pin.branch),
            json.dumps({"lakeconf": _PURPOSE, **{name: pin.data()[name] for name in _KEYS}}),
        )
        if "://" in path:
            value = f"SELECT encode({literal(content)}) AS content"
            self.reader.connection.execute(f"COPY ({value}) TO {literal(path)} (FORMAT BLOB)")
        else:
            with storage_errors(f"{path} cannot be written", hint=_HINT):
                _remove_interrupted(path)
            replace_file(Path(path), content)

    def remove(self, branch: str) -> None:
        """Removes the pin of a branch; does nothing without one."""
        path = self._path(branch)
        if "://" in path:
            remove_files(self.reader.connection, [path])
            return
        with storage_errors(f"{path} cannot be removed", hint=_HINT):
            _remove_interrupted(path)
            Path(path).unlink(missing_ok=True)

    def _path(self, branch: str) -> str:
        return f"{self.reader.data_path}{_PREFIX}{branch}.json"

    def _branches(self) -> list[str]:
        root = self.reader.data_path
        if "://" in root:
            listed = self.reader.connection.rows(listing_sql(root, f"{_PREFIX}*.json"))
            names = [str(path).removeprefix(root) for (path,) in listed]
        else:
            with storage_errors(f"{root} cannot be listed", hint=_HINT):
                names = os.listdir(root) if exists(root) else []
        return sorted(match["branch"] for match in map(_NAME.fullmatch, names) if match is not None)

    def _text(self, path: str) -> str | None:
        if "://" in path:
            return text_in_bucket(self.reader.connection, path)
        with storage_errors(f"{path} cannot be read", hint=_HINT):
            if not exists(path):
                return None
            if not Path(path).is_file():
                raise self._damaged(path)
            with open(path, "rb") as file:
                return file.read(_LARGEST_BYTES).decode(errors="replace")

    def _parsed(self, branch: str, text: str) -> Pin:
        try:
            content = json.loads(text)
            pin = Pin(**{name: content[name] for name in _KEYS}, path=self._path(branch))
            moment = datetime.fromisoformat(pin.snapshot_time)
        except (ValueError, RecursionError, KeyError, TypeError):
            raise self._damaged(self._path(branch)) from None
        texts = (pin.branch, pin.store, pin.lake)
        is_whole = (
            type(pin.snapshot_id) is int and pin.snapshot_id >= 0 and all(isinstance(each, str) for each in texts)
        )
        if not is_whole or moment.tzinfo is None or pin.branch != branch:
            raise self._damaged(self._path(branch))
        return pin

    def _damaged(self, path: str) -> CatalogError:
        return CatalogError(
            f"{path} is damaged: it does not say which snapshot a branch of this lake reads",
            hint="run `lakeconf branch PARENT STORE` again for that branch; or delete the file if it does not exist",
        )


def _remove_interrupted(path: str) -> None:
    """Removes what killed processes have left of a pin that they were writing: files that nobody reads."""
    folder, name = os.path.split(path)
    for left in os.listdir(folder) if os.path.isdir(folder) else ():
        if left.startswith(f"{name}."):
            Path(folder, left).unlink(missing_ok=True)


def with_parent(reader: CatalogReader, parent: CatalogReader, store: str) -> CatalogReader:
    """A reader of the lake of a branch, which knows the lake that it is a branch of.

    Raises:
        BranchError: The lake is no branch, or its pin does not hold.
    """
    record = branch_record(reader)
    if record is None:
        raise BranchError(f"the lake of {store!r} is not a branch yet", hint=f"make it: lakeconf branch PARENT {store}")
    Pins(parent).check(Pin(reader.lake_id, store, *record))
    return replace(reader, parent=ParentLake(parent, record.snapshot_id, record.snapshot_time))
