"""Changes for staged commits, with files that DuckDB writes: no Spark is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lake_parts import scope_of

from lakeconf.catalog.data_file import folder_keys, groups_of
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.commit.actions import AddFiles
from lakeconf.commit.positions import counted_positions
from lakeconf.commit.row_delta import PositionDeletes, RowDelta
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID, Staged
from lakeconf.engines.file_names import placed_path, staging_folder
from lakeconf.engines.spark.write.partition_folders import folders
from lakeconf.sql import identifier, literal
from lakeconf.write.context import WriteContext, commit_key, quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakeconf import Lake
    from lakeconf.catalog.data_file import FileGroup
    from lakeconf.catalog.pruning.scan_plan import ScanPlan
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.catalog.tables import Column, TableInfo
    from lakeconf.commit.actions import Action
    from lakeconf.commit.positions import Positions
    from lakeconf.commit.transaction import Transaction

COLUMNS = {"id": "BIGINT", "name": "VARCHAR"}


def staged(
    lake: Lake,
    updated: dict[int, str] | None = None,
    deleted: tuple[int, ...] = (),
    added: int = 0,
    table: str = "t",
    header: tuple[str, str] | None = None,
) -> Transaction:
    """A transaction that changes a table with `COLUMNS`, whose ids are its row ids; new ones start at 1000."""
    rows = ", ".join(f"({key}, '{name}', {key})" for key, name in (updated or {}).items())
    return staged_outcome(
        lake,
        table,
        f"SELECT id::BIGINT AS id, name, r AS {ROW_ID} FROM (VALUES {rows}) AS v(id, name, r)" if updated else None,
        [*(updated or {}), *deleted],
        f"SELECT 1000 + i AS id, 'new' AS name FROM range({added}) AS r(i)" if added else None,
        header,
    )


def staged_outcome(
    lake: Lake,
    table: str,
    updated: str | None,
    gone: list[int],
    added: str | None,
    header: tuple[str, str] | None = None,
) -> Transaction:
    """A transaction with a row delta; `updated` and `added` are queries, and `gone` the ids of the former rows.

    `header` has the message and the author of the commit.
    """
    transaction = scope_of(lake).begin(*(header or ()))
    context = WriteContext(transaction.session, transaction, table)
    info = context.target().info
    depends_on = context.dependency(info)
    actions: list[Action] = []
    for query, own in ((updated, True), (added, False)):
        if query is not None:
            rows = Staged("", _files(transaction, info, query, own=own))
            actions.append(AddFiles(table=info.full_name, info=info, staged=rows, own_row_ids=own))
    if gone:
        actions.append(_deleted(context, info, ", ".join(map(str, gone)), len(gone)))
    transaction.contents.extend([replace(action, depends_on=depends_on, written_for=info) for action in actions])
    return transaction


@dataclass(frozen=True)
class _DuckDBSearch:
    """Finds the rows with some ids; DuckDB finds them instead of executors."""

    context: WriteContext
    info: TableInfo
    ids: str

    def find(self, plan: ScanPlan) -> Positions:
        folder, paths = staging_folder(self.info, self.context.staging.next_token()), {}
        if "://" not in folder:
            Path(folder).mkdir(parents=True)
        with self.context.session.writer.cursor() as cursor:
            for file in plan.files:
                path = f"{folder}{file.data_file_id}.parquet"
                table = f"FROM {self.context.quoted(self.info)} AT (VERSION => {plan.snapshot_id})"
                rows = f"SELECT file_row_number AS {FILE_ROW_NUMBER} {table} WHERE rowid IN ({self.ids})"
                rows = f"{rows} AND filename = {literal(file.path)}"
                if cursor.rows(f"SELECT count(*) FROM ({rows})") != [(0,)]:
                    cursor.execute(f"COPY ({rows} ORDER BY 1) TO {literal(path)} (FORMAT parquet)")
                    paths[file.data_file_id] = path
            self.context.staging.own(Staged("", tuple(paths.values()), folder=folder, keeps_files=False))
            positions = counted_positions(cursor, paths)
        assert positions is not None
        return positions


def _deleted(context: WriteContext, info: TableInfo, gone: str, count: int) -> RowDelta:
    """The rows with these ids."""
    search = _DuckDBSearch(context, info, gone)
    plan = plan_scan(context.session.reader, quoted_name(info), context.snapshot_id, ())
    return RowDelta(
        table=info.full_name,
        info=info,
        folder=context.staging.positions_folder(info),
        in_files=PositionDeletes(plan.snapshot_id, frozenset(plan.files), search.find(plan)),
        search=search,
        in_catalog=f"rowid IN ({gone})",
        expected_count=count,
    )


def _files(transaction: Transaction, info: TableInfo, query: str, *, own: bool) -> tuple[str, ...]:
    """Writes rows as Spark does: to the staging folder, or one file to the folder of each partition."""
    writer, token = transaction.session.writer, transaction.staging.next_token()
    folder, row_id = staging_folder(info, token), INTERNAL_ROW_ID
    if "://" not in folder:
        Path(folder).mkdir(parents=True)
    names = ", ".join(identifier(column.name) for column in info.columns)
    ids = _field_ids(info.columns)
    if own:
        names += f", {ROW_ID}::BIGINT AS {row_id.name}"
        ids += f", {row_id.name}: {row_id.field_id}"
    keys = folder_keys(info, registered=False)
    named = {key: identifier(key.column.name) for key in keys}
    parts = [name if key.transform == "identity" else f"{key.transform}({name})" for key, name in named.items()]
    group = f"dense_rank() OVER (ORDER BY {', '.join(parts)})" if parts else "1"
    grouped = f"SELECT *, {group} AS __group FROM ({query})"
    ((count,),) = writer.rows(f"SELECT max(__group) FROM ({grouped})")
    paths = [f"{folder}{number}.parquet" for number in range(1, (count or 0) + 1)]
    for number, path in enumerate(paths, 1):
        rows = f"SELECT {names} FROM ({grouped}) WHERE __group = {number}"
        writer.execute(f"COPY ({rows}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    if not keys:
        return tuple(paths)
    found = folders(writer, paths, keys)
    moved = {path: placed_path(info, found[path], token, number) for number, path in enumerate(paths)}
    for path, target in moved.items():
        if "://" in folder:
            rows = f"SELECT * FROM read_parquet({literal(path)}, hive_partitioning = false)"
            writer.execute(f"COPY ({rows}) TO {literal(target)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
            continue
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(path).rename(target)
    return tuple(moved.values())


def _field_ids(columns: Iterable[Column]) -> str:
    parts = []
    for column in columns:
        inner = f"{{__duckdb_field_id: {column.field_id}, {_field_ids(column.children)}}}"
        parts.append(f"{identifier(column.name)}: {inner if column.children else column.field_id}")
    return ", ".join(parts)


def with_key(lake: Lake, transaction: Transaction, key: str) -> Transaction:
    """A transaction whose changes to the table `t` have an idempotency key, as `Table.merge` adds it."""
    actions = transaction.contents.actions
    actions[:] = [replace(action, key=commit_key(scope_of(lake), "t", key)) for action in actions]
    return transaction


def file_groups(reader: CatalogReader, info: TableInfo, version: int) -> tuple[FileGroup, ...]:
    """The groups of a table's files at a snapshot."""
    with reader.transaction() as transaction:
        return groups_of(transaction, info, version)
