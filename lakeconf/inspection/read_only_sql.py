"""Runs queries that can only read the lake."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lakeconf.backends.metadata.postgres import hidden_credentials
from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.pruning.hidden_columns import HiddenColumns
from lakeconf.catalog.queries.only_reads import READERS
from lakeconf.catalog.queries.parsed_query import NotOneQuery, parse_query
from lakeconf.catalog.queries.sql_references import References, check_syntax, find_references
from lakeconf.catalog.queries.stored_queries import StoredQueries, check_past, tables_suggested
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import joined_name, tables_in
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import CatalogMissingError, LakeconfError, QueryError, UnsafeQueryError
from lakeconf.lake.opening import empty_store, store_reader
from lakeconf.sql import literal
from lakeconf.store import Store, for_reading, open_connection

# Operators in DuckDB's plans that only compute. A scan has the name of its function.
_OPERATORS = frozenset(
    {
        *("ASOF_JOIN", "BLOCKWISE_NL_JOIN", "COLUMN_DATA_SCAN", "CROSS_PRODUCT", "CTE", "CTE_SCAN", "DELIM_SCAN"),
        *("DUCKLAKE_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "EXPRESSION_SCAN", "FILTER", "HASH_GROUP_BY", "HASH_JOIN"),
        *("IE_JOIN", "INOUT_FUNCTION", "LEFT_DELIM_JOIN", "LIMIT", "LIMIT_PERCENT", "NESTED_LOOP_JOIN", "ORDER_BY"),
        *("PARTITIONED_AGGREGATE", "PERFECT_HASH_GROUP_BY", "PIECEWISE_MERGE_JOIN", "PIVOT", "POSITIONAL_JOIN"),
        *("POSITIONAL_SCAN", "PROJECTION", "RECURSIVE_CTE", "RECURSIVE_KEY_CTE", "REC_CTE", "REC_CTE_SCAN"),
        *("RESERVOIR_SAMPLE", "RIGHT_DELIM_JOIN", "STREAMING_LIMIT", "STREAMING_SAMPLE", "STREAMING_WINDOW"),
        *("TOP_N", "UNGROUPED_AGGREGATE", "UNION", "UNNEST", "WINDOW"),
    }
)
_ONE_QUERY = "write a single SELECT … or FROM …: lakeconf load, models and lake.execute write to a lake"
# DuckDB's name of the kind of error, and its list of functions with other types.
_NOISE = re.compile(r"\A[A-Z]\w*(?: [A-Z]\w*)* Error: |\n\s*Candidate functions:.*?(?=\n\nLINE |\Z)", re.DOTALL)
_LINE = re.compile(r"\nLINE (\d+):")


def query(store: Store, statement: str, limit: int | None = None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Runs a query in DuckDB's SQL dialect on a lake, attached read-only.

    The query can only read the lake: no files, URLs or other databases, and not the tables of the catalog database.
    """
    with _reworded(partial(_NOISE.sub, "")):
        try:
            return _query(store, statement, limit)
        except CatalogMissingError:
            if not _reads_nothing(statement):
                raise
        # Without a lake, such a query still has a result.
        with empty_store(store.name, store.alias, store.secrets) as empty:
            empty.open().close()
            return _query(empty, statement, limit)


@contextlib.contextmanager
def _reworded(change: Callable[[str], str]) -> Iterator[None]:
    """Changes the messages of errors inside."""
    try:
        yield
    except LakeconfError as error:
        error.message = change(error.message)
        error.args = (error.message,)
        raise


def _reads_nothing(statement: str) -> bool:
    try:
        parsed = parse_query(statement)
    except NotOneQuery:
        return False
    return not (parsed.tables or parsed.functions or parsed.describes)


def _query(store: Store, statement: str, limit: int | None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    backend = store.metadata_backend.with_own_credentials()
    of = store.branch_of and store.branch_of.replace(
        metadata_backend=store.branch_of.metadata_backend.with_own_credentials()
    )
    reading = for_reading(store).replace(metadata_backend=backend, branch_of=of)
    with hidden_credentials(), open_connection(reading) as connection:
        reader = store_reader(reading, connection)
        # Check and run the query in one transaction, so that both see the same snapshot.
        connection.execute("BEGIN")
        ((snapshot_id,),) = connection.rows(f"FROM ducklake_current_snapshot({literal(store.alias)})")
        references = find_references(statement)
        if references is None:
            check_syntax(connection, statement)
            raise QueryError("the statement is not a single query", hint=_ONE_QUERY)
        check_placeholders(statement, "the query")
        stored = StoredQueries.load(reader, snapshot_id)
        stored.open_schemas(connection)
        _check_references(references, stored)
        stored.check_inherited(statement)
        behind = stored.references_behind(statement)
        check_past(reader, statement, behind)
        if stored.may_miss:
            statement = HiddenColumns.load(reader, snapshot_id).hide(statement, references, (), behind)
        at_pin = [] if reader.parent is None else [(reader.parent.reader, reader.parent.snapshot_id)]
        _restrict(connection, [(reader, snapshot_id), *at_pin])
        with tables_suggested(partial(_names, stored), "use one of the tables"):
            return _run(connection, statement, limit)


def _run(connection: Connection, statement: str, limit: int | None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    with _reworded(_without_explain):
        ((_, plan),) = connection.rows(f"EXPLAIN (FORMAT json)\n{statement}")
    allowed = _OPERATORS | {name.upper() for name in READERS}
    refused = sorted({name for node in json.loads(plan) for name in _operators(node)} - allowed)
    if refused:
        raise _unsafe(", ".join(name.lower() for name in refused))
    return connection.named_rows(statement, limit)


def _without_explain(message: str) -> str:
    """The message of an error, with the lines of the query counted without that of EXPLAIN above it."""
    return _LINE.sub(lambda match: f"\nLINE {int(match[1]) - 1}:".ljust(len(match[0])), message)


def _names(stored: StoredQueries) -> list[str]:
    """The names of the tables and views that exist, in lower case."""
    return sorted(joined_name(schema, name) for schema, name, _, end in stored.relations if end is None)


def _check_references(query: References, stored: StoredQueries) -> None:
    """Rejects a query that uses anything except the lake's tables and functions that only read."""
    macros = {macro.name for macro in stored.queries if macro.kind == "table macro"}
    refused = sorted(query.table_functions - READERS - macros)
    if refused:
        raise _unsafe(", ".join(refused))
    readers = [stored.reader] if stored.reader.parent is None else [stored.reader, stored.reader.parent.reader]
    metadata = {reader.metadata_database.lower() for reader in readers}
    for relation in sorted(query.relations):
        if not metadata.isdisjoint((relation.database, relation.schema)):
            raise UnsafeQueryError(
                f"the query reads {relation} of the catalog database",
                hint="use lakeconf tables or snapshots to inspect the lake",
            )
    stored.check(query)
    stored.check_schemas(query, stored.reader.connection)


def _restrict(connection: Connection, lakes: Sequence[tuple[CatalogReader, int]]) -> None:
    """Restricts the DuckDB instance to what a query on lakes at snapshots needs."""
    files = [file for reader, snapshot_id in lakes for file in _files_elsewhere(reader, snapshot_id)]
    folders = [reader.data_path for reader, _ in lakes]
    settings = {
        # DuckDB applies current statistics to past snapshots, which is wrong after files were rewritten.
        "disabled_optimizers": "'statistics_propagation'",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "allowed_directories": f"[{', '.join(map(literal, folders))}]",
        "allowed_paths": f"[{', '.join(map(literal, files))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")


def _files_elsewhere(reader: CatalogReader, snapshot_id: int) -> list[str]:
    """Returns the tables' files outside the data path, such as registered files."""
    with reader.transaction() as transaction:
        folders = {info.table_id: info.path for info in tables_in(transaction, snapshot_id)}
        moved = [str(table_id) for table_id, folder in folders.items() if not folder.startswith(reader.data_path)]
        condition = f"NOT path_is_relative OR table_id IN ({', '.join(moved) or 'NULL'})"
        rows = transaction.rows(
            f"SELECT table_id, path, path_is_relative FROM ducklake_data_file WHERE {condition} "
            f"UNION ALL SELECT table_id, path, path_is_relative FROM ducklake_delete_file WHERE {condition}"
        )
    files = (compose_path(folders.get(table_id, ""), path, is_relative=relative) for table_id, path, relative in rows)
    return [file for file in files if not file.startswith(reader.data_path)]


def _operators(node: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of a plan's operators and of the table functions that they call."""
    yield node["name"].strip()
    function = node["extra_info"].get("Function")
    if function is not None:
        yield function
    for child in node["children"]:
        yield from _operators(child)


def _unsafe(what: str) -> UnsafeQueryError:
    return UnsafeQueryError(
        f"the query calls {what}, which does more than read",
        hint="use lakeconf maintain to maintain a lake, lakeconf tables or snapshots to inspect it, and a DuckDB "
        "connection to read files: store.connect()",
    )
