"""Changes for staged commits, with files that DuckDB writes: no Spark is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeconf.commit.change import Change
from lakeconf.commit.staged_commit import FileChange
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.base import ROW_ID
from lakeconf.sql import literal
from lakeconf.write import writes

if TYPE_CHECKING:
    from lakeconf import Lake
    from lakeconf.commit.transaction import Transaction

COLUMNS = {"id": "BIGINT", "name": "VARCHAR"}


def staged(
    lake: Lake, updated: dict[int, str] | None = None, deleted: tuple[int, ...] = (), added: int = 0, table: str = "t"
) -> Transaction:
    """A transaction that changes a table with the columns `COLUMNS`, whose ids are also its row ids.

    Args:
        lake: The lake, on DuckDB.
        updated: New names by id.
        deleted: Ids.
        added: The number of new rows, with the ids from 1000 on.
        table: The table.
    """
    transaction = lake._scope.begin()
    session, info = transaction.session, writes.target(transaction, table).info
    folder = f"{info.path}lakeconf-{transaction.next_token()}"
    if "://" not in folder:
        Path(folder).mkdir(parents=True)
    changes = []
    rows = ", ".join(f"({key}, '{name}', {key})" for key, name in (updated or {}).items())
    if updated:
        path, own = f"{folder}/updated.parquet", INTERNAL_ROW_ID
        ids = f"id: 1, name: 2, {own.name}: {own.field_id}"
        query = f"SELECT id::BIGINT AS id, name, r::BIGINT AS {own.name} FROM (VALUES {rows}) AS v(id, name, r)"
        session.writer.execute(f"COPY ({query}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
        changes.append(FileChange(info, (path,), own_row_ids=True))
    if added:
        path = f"{folder}/added.parquet"
        query = f"SELECT 1000 + i AS id, 'new' AS name FROM range({added}) AS r(i)"
        session.writer.execute(f"COPY ({query}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{id: 1, name: 2}})")
        changes.append(FileChange(info, (path,)))
    gone = [*(updated or {}), *deleted]
    if gone:
        row_ids = f"SELECT unnest({gone}) AS {ROW_ID}"
        changes.append(FileChange(info, row_ids=row_ids, row_count=len(gone), folder=f"{folder}/deleted/"))
    depends_on = writes.read_dependency(transaction, info)
    for change in changes:
        transaction.add(
            Change((), info.full_name, depends_on=depends_on, deletes=True, written_for=info, by_files=change)
        )
    return transaction
