"""The scope of a `Lake` and its tables: a session, a snapshot, and optionally a transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakeconf.catalog.admission import check_folder
from lakeconf.catalog.definitions import check_not_replaced
from lakeconf.catalog.inherited import check_parent, source_of
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import full_name, tables
from lakeconf.commit.conflicts import Base, is_same_table, read_name
from lakeconf.commit.session import Session, default_author
from lakeconf.commit.transaction import Transaction
from lakeconf.commit.transaction_commit import CommitHeader
from lakeconf.ducklake import check_commit_text, commit_json
from lakeconf.errors import LakeconfError
from lakeconf.guard.locks import Held
from lakeconf.sql import folded


class TableSource(NamedTuple):
    """Where the rows of a table are."""

    session: Session  # this lake; or, if it is a branch that has not written the table, the lake that it was made of
    table: str  # the name of the table there
    snapshot_id: int  # the snapshot to read


@dataclass(frozen=True)
class Scope:
    """A session, the snapshot that reads see, and the transaction that collects writes."""

    session: Session  # the open lake
    at: int | None = None  # the snapshot of `lake.at()`, which is read-only; None to follow the session
    transaction: Transaction | None = None  # the open transaction; None if each write commits by itself

    @property
    def snapshot_id(self) -> int:
        """The snapshot that reads see."""
        if self.transaction is not None:
            return self.transaction.snapshot_id
        return self.session.snapshot_id if self.at is None else self.at

    @property
    def is_pinned(self) -> bool:
        """True for the scope of a transaction or of `lake.at()`; the session belongs to the lake that created it."""
        return self.pinned_at is not None

    @property
    def pinned_at(self) -> int | None:
        """The snapshot of a transaction or of `lake.at()`; None if reads follow the lake."""
        return self.at if self.transaction is None else self.transaction.snapshot_id

    @property
    def base(self) -> Base:
        """The snapshot from which conflict checks start."""
        return self.session.base if self.transaction is None else self.transaction.base

    def source(self, table: str) -> TableSource:
        """Where the rows of a table are; whether it exists is not checked."""
        parent = self.session.parent
        if parent is not None and not self.has_changed(table):
            name = source_of(self.session.reader, table, self.snapshot_of(table))
            if name is not None:
                check_parent(self.session.reader)
                return TableSource(parent, name, parent.snapshot_id)
        return TableSource(self.session, table, self.snapshot_of(table))

    def snapshot_of(self, table: str) -> int:
        """The snapshot at which a table is read: in a transaction, a branch may get tables of its own after it."""
        transaction = self.transaction
        return self.snapshot_id if transaction is None else transaction.snapshot_of(folded(full_name(table)))

    def has_changed(self, table: str) -> bool:
        """True if the open transaction changes the definition of a table."""
        return self.transaction is not None and folded(full_name(table)) in self.transaction.contents.targets

    def add_read(self, table: str | None) -> None:
        """Records a read for conflict checks."""
        # Reads of older snapshots do not cause conflicts in later commits of this lake.
        seen = self.session.snapshot_id if self.transaction is None else self.transaction.snapshot_id
        self.base.add_read(table, seen)

    def begin(
        self,
        message: str | None = None,
        author: str | None = None,
        extra: Mapping[str, object] | None = None,
        *,
        held: Held | None = None,
        explicit: bool = False,
        snapshot_id: int | None = None,
    ) -> Transaction:
        """A new transaction that reads a snapshot, by default that of this scope; `held` is the lake's lock."""
        current, base = self.session.read_point()
        if snapshot_id is None:
            snapshot_id = current if self.at is None else self.at
        # The caller may fill `extra` until the commit.
        header = CommitHeader(message, author or default_author(), {} if extra is None else extra)
        return Transaction(self.session, snapshot_id, base, header, held, explicit=explicit)

    @contextlib.contextmanager
    def joined(self, message: str | None = None, *, reads: str | None = None) -> Iterator[Transaction]:
        """The open transaction; or one for a single write, which is committed at the end of the `with` block.

        `reads` is the table whose latest rows the write needs, if it needs any.
        """
        self.check_writable()
        if self.transaction is not None:
            with self.transaction.adding():
                yield self.transaction
            return
        # The snapshot that the write reads cannot expire while it holds the lock.
        with self.writing() as held:
            snapshot_id = None if reads is None else self._newest_for(reads)
            transaction = self.begin(message, held=held, snapshot_id=snapshot_id)
            with transaction.adding():
                yield transaction
            transaction.commit()

    def _newest_for(self, table: str) -> int:
        """The latest snapshot; that of this scope for a write that may depend on an earlier read of its table.

        Rows are matched to columns by name. So if the columns have changed, the write fails like one after a read.
        """
        current, reader = self.session.snapshot_id, self.session.reader
        if self.base.has_read({None, read_name(full_name(table))}):
            return current
        newest = latest(reader).snapshot_id
        check_not_replaced(current, newest)
        return newest if newest != current and is_same_table(reader, table, current, newest) else current

    @contextlib.contextmanager
    def transacting(
        self, message: str | None, author: str | None, extra: Mapping[str, object] | None
    ) -> Iterator[Scope]:
        """A transaction of several writes; see `Lake.transaction`."""
        if self.transaction is not None:
            raise LakeconfError("a transaction is open: write to its lake")
        check_commit_text(message, "the commit message")
        check_commit_text(author, "the author")
        commit_json({}, extra or {})
        with self.writing() as held:
            transaction = self.begin(message, author, extra, held=held, explicit=True)
            try:
                try:
                    yield replace(self, transaction=transaction)
                finally:
                    transaction.end()
            except BaseException:
                transaction.discard()
                raise
            transaction.commit()

    def writing(self) -> AbstractContextManager[Held | None]:
        """The lake's lock for a write; nothing if this scope cannot write, because then it must create no file."""
        if self.at is not None or self.session.read_only:
            return contextlib.nullcontext()
        return self.session.guard.writing()

    def check_writable(self) -> None:
        """Rejects a write."""
        if self.transaction is not None:
            self.transaction.check_open()
        if self.at is not None:
            raise LakeconfError(
                f"nothing can be written: the lake is pinned at snapshot {self.at}",
                hint="write to the lake that at() was called on",
            )
        self.session.check_writable()

    def check_maintainable(self) -> None:
        """Rejects maintenance, which commits by itself."""
        self.check_writable()
        if self.transaction is not None:
            raise LakeconfError(
                "a transaction is open, and maintenance cannot be a part of it", hint="call it after the `with` block"
            )
        reader = self.session.reader
        for info in tables(reader, self.session.snapshot_id):
            check_folder(reader.data_path, info.path)
