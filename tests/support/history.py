"""Histories of transactions that append unique values to lists and read the lists, as Elle's list-append histories.

A file of a history has two lines for each transaction: one before it begins, one after its reply. A process that dies
leaves only the first line, so its last transaction is indeterminate.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Status = Literal["ok", "fail", "indeterminate"]
INDETERMINATE: Status = "indeterminate"
# Later than every time of a clock.
NEVER = 1 << 62


@dataclass(frozen=True)
class Append:
    """Appends a value to the list of a key. The value occurs once in a history."""

    key: str
    value: int


@dataclass(frozen=True)
class Read:
    """Reads the list of a key."""

    key: str
    values: tuple[int, ...]


Operation = Append | Read


@dataclass(frozen=True)
class Transaction:
    """One transaction."""

    number: int  # identifies the transaction in its history
    process: int  # The process that ran it. A process runs one transaction at a time.
    operations: tuple[Operation, ...]  # What it did, in order. A transaction without a reply has no reads.
    status: Status = "ok"  # `ok` if the reply said that it was committed, `fail` if the reply said that it was not
    invoked: int = 0  # when it began, on a clock that all processes share
    completed: int = NEVER  # when its reply came; `NEVER` without a reply
    kind: str = ""  # what made the writes, such as `merge`; for messages

    @property
    def appends(self) -> tuple[Append, ...]:
        """Its appends, in order."""
        return tuple(each for each in self.operations if isinstance(each, Append))

    @property
    def reads(self) -> tuple[Read, ...]:
        """Its reads, in order."""
        return tuple(each for each in self.operations if isinstance(each, Read))

    def __str__(self) -> str:
        said = ", ".join(
            f"append({each.key}, {each.value})" if isinstance(each, Append) else f"read({each.key}) = {_short(each)}"
            for each in self.operations
        )
        return f"T{self.number} [{self.status}{f', {self.kind}' if self.kind else ''}]: {said}"


def _short(read: Read) -> str:
    last = ", ".join(map(str, read.values[-3:]))
    return f"[{'…, ' if len(read.values) > 3 else ''}{last}]"


@dataclass
class Journal:
    """Writes the transactions of one process to a file. What it has written survives the death of the process."""

    path: Path
    process: int
    _descriptor: int = field(init=False)

    def __post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def invoke(self, number: int, kind: str, appends: Iterable[Append]) -> None:
        """Records a transaction before it begins."""
        said = [[each.key, each.value] for each in appends]
        self._write({"number": number, "process": self.process, "kind": kind, "appends": said, "at": now()})

    def complete(self, number: int, status: Status, reads: Iterable[Read], why: str = "") -> None:
        """Records the reply to a transaction."""
        said = [[each.key, each.values] for each in reads]
        self._write({"number": number, "status": status, "reads": said, "at": now(), "why": why})

    def _write(self, line: dict[str, object]) -> None:
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())


@dataclass(frozen=True)
class Maintained:
    """One call of maintenance."""

    what: str  # the kind of maintenance
    done: bool  # False if it raised an error
    changed: int  # how much it changed
    forced: bool  # True if it accepted any age
    why: str = ""  # the error

    def write(self, path: Path) -> None:
        """Adds it to a file."""
        with path.open("a") as file:
            file.write(json.dumps(asdict(self)) + "\n")


def load_maintenance(paths: Iterable[Path]) -> list[Maintained]:
    """Reads the maintenance of a history."""
    return [Maintained(**json.loads(line)) for path in paths for line in path.read_text().splitlines()]


def now() -> int:
    """Nanoseconds of the monotonic clock that all processes of the machine share."""
    return time.monotonic_ns()


def load(paths: Iterable[Path]) -> list[Transaction]:
    """Reads the files of a history."""
    begun: dict[int, dict[str, object]] = {}
    ended: dict[int, dict[str, object]] = {}
    for path in paths:
        for text in path.read_text().splitlines():
            line = json.loads(text)
            (ended if "status" in line else begun)[line["number"]] = line
    return [_transaction(begun[number], ended.get(number)) for number in sorted(begun)]


def _transaction(begun: dict[str, object], ended: dict[str, object] | None) -> Transaction:
    reads: list[Operation] = [Read(key, tuple(values)) for key, values in (ended or {}).get("reads", [])]  # type: ignore[attr-defined]
    appends = [Append(key, value) for key, value in begun["appends"]]  # type: ignore[attr-defined]
    status: Status = ended["status"] if ended else INDETERMINATE  # type: ignore[assignment]
    return Transaction(
        number=begun["number"],  # type: ignore[arg-type]
        process=begun["process"],  # type: ignore[arg-type]
        operations=(*reads, *appends),
        status=status,
        invoked=begun["at"],  # type: ignore[arg-type]
        # Without a definite outcome it may still take effect later.
        completed=ended["at"] if ended and status != INDETERMINATE else NEVER,  # type: ignore[arg-type]
        kind=str(begun["kind"]),
    )
