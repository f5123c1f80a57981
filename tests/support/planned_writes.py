"""Writes that are planned but not yet committed, so that something can happen in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.write.context import WriteContext

if TYPE_CHECKING:
    from lakeconf.commit.transaction import Transaction
    from lakeconf.write.context import Operation


def add(transaction: Transaction, table: str, operation: Operation) -> None:
    """Adds the actions of a write to an open transaction, as `lakeconf.write.context.perform` does."""
    context = WriteContext(transaction.session, transaction, table)
    transaction.contents.extend(operation.plan(context))
