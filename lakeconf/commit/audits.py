"""Audits: conditions on the state that a transaction would commit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import narwhals as nw

from lakeconf.catalog.queries.only_reads import check_only_reads
from lakeconf.catalog.queries.stored_queries import prepare_query, readable_names, tables_suggested
from lakeconf.connection.connection import Connection, fetched
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.connection.sql_text import tokens
from lakeconf.engines.frames import lazy_rows
from lakeconf.errors import AuditError, LakeconfError
from lakeconf.secret import scrub

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakeconf.catalog.reader import CatalogReader

SAMPLE_ROWS = 5
# The tests of columns count rows in a column of this name. It is part of the definition of models, so it stays.
_COUNT = "lakeconf_rows"


@dataclass(frozen=True)
class Audit:
    """A condition on the new state."""

    name: str  # the name that errors show
    sql: str  # a query for the rows that violate it
    kind: Literal["audit", "test"] = "audit"  # what errors call it: tests of columns are run like audits

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r}"


def run(audit: Audit, writer: Connection, reader: CatalogReader, changed: Collection[str] = ()) -> None:
    """Runs an audit inside the transaction that it checks, which has changed rows of some tables."""
    try:
        sql = prepare_query(reader, audit.sql, writer, changed=changed)
        with tables_suggested(partial(readable_names, reader), "use one of the tables"):
            broken = _broken(audit, sql, writer)
        ((count,),) = fetched(broken.select(nw.len()), writer.secrets)
        names = broken.collect_schema().names()
        names = ["rows" if name == _COUNT and "rows" not in names else name for name in names]
        shown = fetched(broken.head(SAMPLE_ROWS), writer.secrets) if count else []
        sample = [dict(zip(names, row, strict=True)) for row in shown]
    except AuditError:
        raise
    except Exception as error:
        reason = error.message if isinstance(error, LakeconfError) else f"{type(error).__name__}: {error}"
        reason = scrub(reason, writer.secrets)
        hint = error.hint if isinstance(error, LakeconfError) else None
        raise AuditError(f"{audit} cannot be run, so nothing was written: {reason}", hint=hint) from error
    if count:
        rows = "\n".join(f"  {row}" for row in sample)
        more = f"\n  and {count - len(sample)} more" if count > len(sample) else ""
        found = f"{count} row{'s' if count > 1 else ''}"
        raise AuditError(
            f"{audit} found {found}, so nothing was written:\n{rows}{more}", hint=f"fix the rows or the {audit.kind}"
        )


def is_query(sql: str) -> bool:
    """True if DuckDB's parser finds exactly one query in the SQL; nothing is executed."""
    with translated_errors():
        kinds = [statement.type for statement in duckdb.extract_statements(sql)]
    # DuckDB's parser reports a PRAGMA as a query, and one PRAGMA runs any statement.
    return kinds == [duckdb.StatementType.SELECT] and tokens(sql)[0].word != "pragma"


def _broken(audit: Audit, sql: str, writer: Connection) -> nw.LazyFrame[Any]:
    if not is_query(audit.sql):
        raise AuditError(
            f"{audit} is not a single query", hint="write one SELECT that returns the rows that violate the condition"
        )
    check_only_reads(audit.sql)
    return lazy_rows(writer.relation(sql), writer)
