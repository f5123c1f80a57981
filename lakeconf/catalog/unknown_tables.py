"""Errors for unknown tables in SQL, with the most similar table of the lake.

DuckDB proposes names without their schema, and tables of its own such as `pg_depend`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import tables
from lakeconf.catalog.table_name import INTERNAL_SCHEMA
from lakeconf.catalog.views import view_names
from lakeconf.errors import LakeconfError, UnknownNameError, listed, suggestion

_UNKNOWN = re.compile(r"\bTable with name (?P<name>.+?) does not exist")
_ADVICE = re.compile(r"\nDid you mean \"[^\n]*")


@contextlib.contextmanager
def tables_suggested(names: Callable[[], Iterable[str]], otherwise: str) -> Iterator[None]:
    """Gives the errors inside a hint that names a similar table or view of the lake.

    Args:
        names: Returns the names of the tables and views; called for an error only.
        otherwise: The hint if no table is similar; the names of the tables follow.

    Raises:
        UnknownNameError: As DuckDB raised it, with a hint.
    """
    try:
        yield
    except UnknownNameError as error:
        unknown = _UNKNOWN.search(error.message)
        if unknown is not None and error.hint is None:
            known: list[str] = []
            with contextlib.suppress(LakeconfError):  # the error itself is more important
                known += names()
            error.hint = _hint(unknown["name"].strip('"'), known, otherwise)
            error.message = _ADVICE.sub("", error.message)
            error.args = (error.message,)
        raise


def readable_names(reader: CatalogReader) -> list[str]:
    """The sorted names of the tables and views at the latest snapshot, without internal tables."""
    snapshot_id = latest(reader).snapshot_id
    found = [info.full_name for info in tables(reader, snapshot_id) if info.schema_name.lower() != INTERNAL_SCHEMA]
    return sorted([*found, *view_names(reader, snapshot_id)])


def _hint(name: str, known: list[str], otherwise: str) -> str:
    # DuckDB's message has no schema.
    names = {full.rpartition(".")[2].strip('"'): full for full in known} | {full: full for full in known}
    similar = suggestion(name, names)
    if similar:
        full = names[similar.partition('"')[2].rpartition('"')[0]]
        return suggestion(full, [full])
    return f"{otherwise}: {listed(known)}" if known else "create a table first: lake.create_table(…)"
