"""Facts about DuckLake: internal names, visibility at a snapshot, catalog versions, words that it replaces in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from lakeconf.errors import CatalogError, SchemaError

# The version of catalogs that lakeconf reads and writes.
SUPPORTED_VERSION = "1.0"
# The file of lakeconf below a data path that names the catalog of its lake.
MARKER = "_lakeconf.json"
# The file below the data path of a lake that is being moved there.
MOVING = "_lakeconf_move.json"
# The schema of lakeconf's own tables in a lake.
INTERNAL_SCHEMA = "lakeconf"
# The name under which a branch attaches the lake that it is a branch of.
PARENT = "lakeconf_parent"
# The view in that schema that records of what a lake is a branch.
BRANCH_RECORD = "branch"
# The versions of the extension whose undocumented function `ducklake_commit` the tests have run.
STAGED_COMMIT_VERSIONS = frozenset({"d8a1881e"})
# And the types of catalogs, as in `ducklake_settings`, on which they have run it.
STAGED_COMMIT_CATALOGS = frozenset({"duckdb", "postgres", "sqlite"})
# The versions, each with a type of catalog, for which `make prove` has compared staged commits with DuckLake's
# statements. The committer `auto` uses only these.
PROVEN_STAGED_COMMITS = frozenset({("d8a1881e", "duckdb"), ("d8a1881e", "postgres"), ("d8a1881e", "sqlite")})
# The catalog tables with the inlined rows of a table; `?` is the id of the table.
INLINED_TABLES = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ? ORDER BY schema_version"
# The first row id that lakeconf's staged commits record for a file with row ids of its own; readers ignore it. DuckLake
# gives ids in order, far below it, and loses the ids of files when it merges some whose recorded ids are consecutive.
OWN_ROW_IDS = 10**15
_INLINED_DELETES = re.compile(r"ducklake_inlined_delete_(\d+)")
# DuckDB's functions that run a query in the catalog itself, for the types of catalogs of which DuckDB otherwise reads
# whole tables. All columns of their results are strings.
OWN_QUERIES = {"sqlite": "system.main.sqlite_query"}
# DuckDB runs the text of a SQLite view as its own SQL. Triggers run during writes. Neither has pages of its own. An
# index can have other values than its table, and answer some queries, so only those of DuckLake's keys are admitted.
SQLITE_NO_TABLES = """
    SELECT name FROM sqlite_master AS m WHERE type NOT IN ('table', 'index') OR typeof(rootpage) <> 'integer'
        OR rootpage = 0 OR type = 'index' AND tbl_name LIKE 'ducklake%' AND (sql IS NOT NULL
            OR name || coalesce((SELECT group_concat(name) FROM pragma_index_info(m.name)), '') NOT IN (
                'sqlite_autoindex_ducklake_snapshot_1snapshot_id', 'sqlite_autoindex_ducklake_schema_1schema_id',
                'sqlite_autoindex_ducklake_data_file_1data_file_id',
                'sqlite_autoindex_ducklake_delete_file_1delete_file_id',
                'sqlite_autoindex_ducklake_snapshot_changes_1snapshot_id'))
    LIMIT 1
"""
# Those that run a query on the server, for catalogs on one.
SERVER_QUERIES = {"postgres": "postgres_query"}
# The fix for an older catalog; ends the message.
MIGRATE = (
    "open a copy of the lake once with attach_options = { automatic_migration = true }, "
    "which migrates the catalog and cannot be undone"
)
# The message of the extension: https://github.com/duckdb/ducklake, src/storage/ducklake_initializer.cpp
_REFUSED = re.compile(
    r"catalog version is (?P<found>\S+), but the extension requires version (?P<supported>\S+?)\.?(\s|$)"
)
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?P<before_release>-\S+)?")
# DuckLake replaces these words in the SQL that it runs on the catalog, even inside data: a row `{SNAPSHOT_ID}` gives a
# file the bound `5`, so filters lose rows; a comment is stored as `5`; `{DATA_PATH}` breaks the commit. They cannot be
# escaped, so lakeconf refuses them. A regular expression for DuckDB, Spark and Python.
PLACEHOLDER = (
    r"\{(AUTHOR|COMMIT_EXTRA_INFO|COMMIT_MESSAGE|DATA_PATH|METADATA_[A-Z_]+|NEXT_CATALOG_ID|NEXT_FILE_ID"
    r"|SCHEMA_VERSION|SNAPSHOT_ID)\}"
)
_PLACEHOLDER = re.compile(PLACEHOLDER)


class InternalColumn(NamedTuple):
    """A column that DuckLake adds to a file whose rows keep their ids or snapshots."""

    field_id: int  # its Parquet field id
    name: str  # its name in the file


INTERNAL_ROW_ID = InternalColumn(2147483540, "_ducklake_internal_row_id")
INTERNAL_SNAPSHOT_ID = InternalColumn(2147483539, "_ducklake_internal_snapshot_id")
# The columns of a file of deleted positions.
DELETED_FILE = InternalColumn(2147483646, "file_path")
DELETED_POSITION = InternalColumn(2147483645, "pos")


def metadata_database(alias: str, option: object = None) -> str:
    """The name of the DuckDB database with the metadata of an attached lake."""
    return str(option or f"__ducklake_metadata_{alias}")


def inlined_deletes_table(table_id: int) -> str:
    """The catalog's table with deleted positions of a table's files; the first such delete creates it."""
    return f"ducklake_inlined_delete_{table_id}"


def table_of_deletes(name: str) -> int | None:
    """The id of the table whose inlined deletes are in the catalog's table with this name; None for other tables."""
    match = _INLINED_DELETES.fullmatch(name)
    return int(match[1]) if match else None


def visible_at(snapshot: str = "$1", row: str = "") -> str:
    """The SQL condition that a row of the catalog is visible at a snapshot."""
    of = f"{row}." if row else ""
    begin, end = f"{of}begin_snapshot", f"{of}end_snapshot"
    return f"({begin} <= {snapshot} AND ({end} IS NULL OR {end} > {snapshot}))"


def refused_version(text: str) -> str | None:
    """Rewrites the extension's error about the version of a catalog as one sentence."""
    refused = _REFUSED.search(text)
    return refused and version_sentence(refused["found"], refused["supported"], "the ducklake extension")


def version_sentence(version: str, supported: str, by: str) -> str:
    """Describes an unsupported catalog version and the fix."""
    mismatch = f"the catalog has DuckLake version {version}, but {by} supports {supported}"
    has, needs = _order(version), _order(supported)
    if has is None or needs is None:
        return f"{mismatch}: check that it is the catalog of a DuckLake"
    if has > needs:
        return f"{mismatch}: upgrade duckdb, its ducklake extension and lakeconf"
    return f"{mismatch}: {MIGRATE}"


def _order(version: str) -> tuple[int, int, bool] | None:
    numbers = _NUMBERS.fullmatch(version)
    return numbers and (int(numbers[1]), int(numbers[2]), numbers["before_release"] is None)


def check_placeholders(text: str | None, what: str) -> None:
    """Rejects a string that contains a word that DuckLake replaces."""
    match = _PLACEHOLDER.search(text or "")
    if match:
        raise SchemaError(
            f"{what} contains {match[0]}, which DuckLake would replace",
            hint="write it differently, for example with a space after the brace",
        )


def check_commit_text(text: object, what: str) -> None:
    """Rejects a message, an author or a key of a commit that the catalog cannot store."""
    if not isinstance(text, str | None):
        raise SchemaError(f"{what} is {text!r}, and not a string", hint="write it as a string")
    if text is not None and ("\0" in text or any("\ud800" <= character <= "\udfff" for character in text)):
        raise SchemaError(f"{what} {text!r} contains NUL or half a character", hint="remove it")
    check_placeholders(text, what)


def commit_json(info: Mapping[str, object], extra: Mapping[str, object]) -> str:
    """The information about a commit as JSON, without words that DuckLake replaces."""
    try:
        return escaped_json(json.dumps(dict(info) | ({"extra": dict(extra)} if extra else {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"extra cannot be written as JSON: {error}",
            hint="use texts, numbers, True, False, None, lists and dictionaries",
        ) from error


def escaped_json(text: str) -> str:
    """Rewrites JSON as equivalent JSON without such words."""
    # This only affects strings: the brace of an object is followed by a quote or a brace.
    return _PLACEHOLDER.sub(lambda match: rf"\u007b{match[1]}}}", text)


def no_table(name: object) -> CatalogError:
    """The error for something in a catalog that is not a plain table."""
    return CatalogError(
        f"the catalog's {name!r} is not a plain table: reading the catalog could run its SQL with your rights, or give "
        "another answer to each query. Nothing was read",
        hint="find out who made it and drop it (DROP VIEW …, DROP MACRO …, DROP INDEX …); keep views and macros in the "
        "lake or in another file",
    )
