"""Audits: conditions on the state that a transaction would commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb
import narwhals as nw

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.stored_queries import prepare_query
from lakeconf.connection.connection import Connection, fetched
from lakeconf.connection.errors import translated_errors
from lakeconf.errors import AuditError, LakeconfError, QueryError
from lakeconf.secret import scrub

SAMPLE_ROWS = 5
# DuckLake's functions that change files or snapshots when they are called.
_MAINTENANCE = re.compile(
    r"\b((?:ducklake_)?(?:expire_snapshots|cleanup_old_files|delete_orphaned_files|merge_adjacent_files"
    r"|rewrite_data_files|flush_inlined_data|add_data_files))\"?\s*\(",
    re.IGNORECASE,
)

Check: TypeAlias = str | Callable[..., Any]


@dataclass(frozen=True)
class Audit:
    """A condition, defined by a check for rows that violate it.

    Attributes:
        name: The name that errors show.
        check: SQL, or a function that takes the table's new rows as a lazy frame; both return the rows that violate
            the condition.
        source: The quoted name of the table that a function checks; None for SQL.
    """

    name: str
    check: Check
    source: str | None = None


def run(audit: Audit, writer: Connection, reader: CatalogReader) -> None:
    """Runs an audit inside the transaction that it checks.

    Args:
        audit: The audit.
        writer: The connection whose transaction is open.
        reader: Reads the catalog, to check the views and macros that the audit uses.

    Raises:
        AuditError: Rows violate the audit, or the audit itself fails.
    """
    try:
        if isinstance(audit.check, str):
            prepare_query(reader, audit.check, writer)
        broken = _broken(audit, writer)
        ((count,),) = fetched(broken.select(nw.len()), writer.secrets)
        names = broken.collect_schema().names()
        shown = fetched(broken.head(SAMPLE_ROWS), writer.secrets) if count else []
        sample = [dict(zip(names, row, strict=True)) for row in shown]
    except AuditError:
        raise
    except Exception as error:
        reason = error.message if isinstance(error, LakeconfError) else f"{type(error).__name__}: {error}"
        reason = scrub(reason, writer.secrets)
        raise AuditError(f"the audit {audit.name!r} cannot be run, so nothing was written: {reason}") from error
    if count:
        rows = "\n".join(f"  {row}" for row in sample)
        more = f"\n  and {count - len(sample)} more" if count > len(sample) else ""
        found = f"{count} row{'s' if count > 1 else ''}"
        raise AuditError(
            f"the audit {audit.name!r} found {found}, so nothing was written:\n{rows}{more}",
            hint="fix the rows or the audit",
        )


def is_query(sql: str) -> bool:
    """True if DuckDB's parser finds exactly one query in the SQL; nothing is executed.

    Raises:
        QueryError: DuckDB cannot parse it.
    """
    with translated_errors():
        kinds = [one.type for one in duckdb.extract_statements(sql)]
        # DuckDB's parser reports a PRAGMA as a query, and one PRAGMA runs any statement. The offsets count bytes.
        start = next((offset for offset, _ in duckdb.tokenize(sql)), 0)
    return kinds == [duckdb.StatementType.SELECT] and not sql.encode()[start:].lower().startswith(b"pragma")


def check_only_reads(sql: str) -> None:
    """Refuses SQL that DuckDB would run at once, before anybody reads the result, and outside of a transaction.

    Unlike for `is_query`, a PIVOT and a CALL are allowed.

    Raises:
        QueryError: It is not a single query, or it calls DuckLake's maintenance.
    """
    with translated_errors():
        statements = duckdb.extract_statements(sql)
        start = next((offset for offset, _ in duckdb.tokenize(sql)), 0)
    # DuckDB's parser adds statements without a text to a PIVOT, and reports a PRAGMA as a query.
    written = [one for one in statements if one.query or one.type != duckdb.StatementType.CREATE]
    reads = [one.type in (duckdb.StatementType.SELECT, duckdb.StatementType.CALL) for one in written]
    # DuckDB's parser reports CHECKPOINT as a CALL.
    if reads != [True] or sql.encode()[start:].lower().startswith((b"pragma", b"checkpoint", b"force")):
        raise QueryError(
            "the SQL is not a single query",
            hint="write one SELECT … or FROM …; use lake.execute(…) to change rows, and methods such as "
            "lake.drop_table(…) to change tables",
        )
    maintenance = _MAINTENANCE.search(sql)
    if maintenance is not None:
        raise QueryError(
            f"{maintenance[1]}() changes the lake without its locks, and is no query",
            hint="use methods such as lake.maintenance.compact(), .expire_snapshots(…) and .cleanup(…)",
        )


def _broken(audit: Audit, writer: Connection) -> nw.LazyFrame[Any]:
    if isinstance(audit.check, str):
        if not is_query(audit.check):
            raise AuditError(
                f"the audit {audit.name!r} is not a single query",
                hint="write one SELECT that returns the rows that violate the condition",
            )
        return nw.from_native(writer.relation(audit.check))
    rows = nw.from_native(writer.relation(f"FROM {audit.source}"))
    with writer.errors():
        found = audit.check(rows)
    if not isinstance(found, nw.LazyFrame):
        raise AuditError(
            f"the audit {audit.name!r} returned a {type(found).__name__}",
            hint="return a lazy frame of the rows that violate the audit: return frame.filter(…)",
        )
    return found
