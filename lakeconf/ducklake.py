"""Facts about DuckLake: internal names, visibility at a snapshot, catalog versions, words that it replaces in SQL."""

from __future__ import annotations

import re
from typing import NamedTuple

from lakeconf.errors import SchemaError


class InternalColumn(NamedTuple):
    """A column that DuckLake adds to a file whose rows have ids or snapshots of their own.

    Attributes:
        field_id: Its Parquet field id.
        name: Its name in the file.
    """

    field_id: int
    name: str


INTERNAL_ROW_ID = InternalColumn(2147483540, "_ducklake_internal_row_id")
INTERNAL_SNAPSHOT_ID = InternalColumn(2147483539, "_ducklake_internal_snapshot_id")
# The tables of the catalog that hold a table's inlined rows; `?` is the id of the table.
INLINED_TABLES = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ? ORDER BY schema_version"
# What to do with an older catalog, at the end of its sentence.
MIGRATE = (
    "open a copy of the lake once with attach_options = { automatic_migration = true }, "
    "which migrates the catalog and cannot be undone"
)
# The extension's own words: https://github.com/duckdb/ducklake, src/storage/ducklake_initializer.cpp
_REFUSED = re.compile(
    r"catalog version is (?P<found>\S+), but the extension requires version (?P<supported>\S+?)\.?(\s|$)"
)
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?P<before_release>-\S+)?")
# DuckLake replaces these words in the SQL that it runs on the catalog, inside of data as well: a row `{SNAPSHOT_ID}`
# gives a file the bound `5`, so that filters lose rows; a comment is stored as `5`; `{DATA_PATH}` breaks the commit.
# Nothing can be escaped, so lakeconf refuses them. As a regular expression for DuckDB, Spark and Python.
PLACEHOLDER = (
    r"\{(AUTHOR|COMMIT_EXTRA_INFO|COMMIT_MESSAGE|DATA_PATH|METADATA_[A-Z_]+|NEXT_CATALOG_ID|NEXT_FILE_ID"
    r"|SCHEMA_VERSION|SNAPSHOT_ID)\}"
)
_PLACEHOLDER = re.compile(PLACEHOLDER)


def metadata_database(alias: str, option: object = None) -> str:
    """The name of the database in which DuckDB shows the metadata of an attached lake.

    Args:
        alias: The name under which the lake is attached.
        option: The option `metadata_catalog` of ATTACH, which replaces DuckLake's name.
    """
    return str(option or f"__ducklake_metadata_{alias}")


def inlined_deletes_table(table_id: int) -> str:
    """The catalog's table with deleted positions of a table's files; the first such delete creates it."""
    return f"ducklake_inlined_delete_{table_id}"


def visible_at(snapshot: str = "$1", row: str = "") -> str:
    """The SQL condition that a row of the catalog is visible at a snapshot.

    Args:
        snapshot: The SQL of the snapshot's id.
        row: The name of the catalog's table in the query, where the query has several.
    """
    of = f"{row}." if row else ""
    begin, end = f"{of}begin_snapshot", f"{of}end_snapshot"
    return f"({begin} <= {snapshot} AND ({end} IS NULL OR {end} > {snapshot}))"


def refused_version(text: str) -> str | None:
    """One sentence in place of the extension's error about the version of a catalog.

    Args:
        text: An error of DuckDB.

    Returns:
        Which version the catalog has, which one is supported, and what to do; None where the error is another.
    """
    refused = _REFUSED.search(text)
    return refused and version_sentence(refused["found"], refused["supported"], "the ducklake extension")


def version_sentence(found: str, supported: str, by: str) -> str:
    """What is wrong with the version of a catalog, and what to do.

    Args:
        found: The catalog's version.
        supported: The version that is supported.
        by: Who supports it.
    """
    mismatch = f"the catalog has the DuckLake version {found}, but {by} supports {supported}"
    has, needs = _order(found), _order(supported)
    if has is None or needs is None:
        return f"{mismatch}: check that it is the catalog of a DuckLake"
    if has > needs:
        return f"{mismatch}: upgrade duckdb, its ducklake extension and lakeconf"
    return f"{mismatch}: {MIGRATE}"


def _order(version: str) -> tuple[int, int, bool] | None:
    numbers = _NUMBERS.fullmatch(version)
    return numbers and (int(numbers[1]), int(numbers[2]), numbers["before_release"] is None)


def check_placeholders(text: str | None, what: str) -> None:
    """Refuses a text that DuckLake would change.

    Args:
        text: The text; None is fine.
        what: What it is, for the message.

    Raises:
        SchemaError: It has such a word.
    """
    found = _PLACEHOLDER.search(text or "")
    if found:
        raise SchemaError(
            f"{what} has the text {found[0]}, which DuckLake would replace",
            hint="write it in another way, such as with a space after the brace",
        )


def escaped_json(text: str) -> str:
    """JSON that means the same and has no such word."""
    # Only in strings: the brace of an object is followed by a quote or a brace.
    return _PLACEHOLDER.sub(lambda found: rf"\u007b{found[1]}}}", text)
