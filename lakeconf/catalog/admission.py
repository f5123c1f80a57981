"""Admits the text of a catalog. Whoever can write to it could otherwise run SQL, or send files and keys elsewhere.

DuckLake writes some names and UUIDs into its own SQL as they are: they are admitted in the form that it gives them.

DuckDB reads parameters such as `?s3_endpoint=HOST` in the URL of a file, signs the request with the secret of the lake,
and sends it to that host. So a path is admitted only if its scheme, host and folder are those of the lake or of a
bucket, whatever else the path is.

`compose_path` checks each path that lakeconf uses. DuckLake reads the catalog by itself, so `CatalogReader` checks all
text in its first transaction, and new text in the first transaction that sees it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from lakeconf.ducklake import BRANCH_RECORD, INTERNAL_SCHEMA, OWN_QUERIES, SERVER_QUERIES, SQLITE_NO_TABLES
from lakeconf.errors import CatalogError
from lakeconf.sql import URL_ENDS, literal

# Expressions for Python and DuckDB alike. They apply to a path after `R` if it is relative, and `A` if it is not.
_ODD = r"\x00|^A//|(?:^.|/)\.\.(?:/|$)" + r"|\\" * (os.sep == "\\")
_ENDS = f"|{URL_ENDS}"
# Registered files may be in any bucket: the store says which server has the buckets.
_IN_BUCKET = r"A(?:s3|s3a|s3n|gcs|gs|r2)://[A-Za-z0-9._-]+(?:/[^\x00-\x1f\x7f\\?#]*)?"
_SCHEME = "://"
# Schemes of one kind of bucket.
_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_SHOWN = 200
_HINT = "find out who writes to the catalog, and correct it in the catalog's database or restore a backup of it"
_PATHS = """
    SELECT 'schema' AS kind, path, path_is_relative FROM ducklake_schema
    UNION ALL SELECT 'table', path, path_is_relative FROM ducklake_table
    UNION ALL SELECT 'data file', path, path_is_relative FROM ducklake_data_file WHERE {new}
    UNION ALL SELECT 'delete file', path, path_is_relative FROM ducklake_delete_file WHERE {new}
"""
# What DuckLake writes into SQL without quotes, or in quotes that the text could end, and the form of each.
_UUID = "[0-9A-Fa-f-]{36}"
SPLICED = {
    ("ducklake_inlined_data_tables", "table_name"): "ducklake_inlined_data_[0-9]+_[0-9]+",
    ("ducklake_schema", "schema_uuid"): _UUID,
    ("ducklake_table", "table_uuid"): _UUID,
    ("ducklake_view", "view_uuid"): _UUID,
}
_NOT_ADMITTED = " UNION ALL ".join(
    f"SELECT '{column}', CAST({column} AS VARCHAR), false FROM {table} "  # noqa: S608
    f"WHERE NOT regexp_full_match(CAST({column} AS VARCHAR), '{form}')"
    for (table, column), form in SPLICED.items()
)
_NEEDED = (
    *(("table", "table_name"), ("view", "view_name"), ("view", "sql"), ("macro", "macro_name"), ("macro_impl", "sql")),
    *(("files_scheduled_for_deletion", "path"), ("inlined_data_tables", "table_name"), ("schema", "schema_name")),
)
_MISSING = " UNION ALL ".join(
    f"SELECT '{column}', NULL, false FROM ducklake_{table} WHERE {column} IS NULL"  # noqa: S608
    for table, column in _NEEDED
)
# DuckDB would run the SQL of a view where lakeconf has looked up a table. lakeconf reads only tables in its own schema;
# it never runs the view that records of what a lake is a branch.
_HIDING = f"""
    WITH named AS (
        SELECT is_view, s.schema_name || '.' || name AS name, begin_snapshot,
            coalesce(end_snapshot, {2**63 - 1}) AS until
        FROM (SELECT false AS is_view, schema_id, table_name AS name, begin_snapshot, end_snapshot FROM ducklake_table
            UNION ALL SELECT true, schema_id, view_name, begin_snapshot, end_snapshot FROM ducklake_view)
        JOIN (SELECT DISTINCT schema_id, schema_name FROM ducklake_schema) AS s USING (schema_id))
    SELECT 'view', v.name, false FROM named AS v WHERE is_view AND (starts_with(lower(v.name), '{INTERNAL_SCHEMA}.')
        AND v.name <> '{INTERNAL_SCHEMA}.{BRANCH_RECORD}'
        OR EXISTS (SELECT 1 FROM named AS t WHERE NOT t.is_view AND lower(t.name) = lower(v.name)
            AND t.begin_snapshot < v.until AND v.begin_snapshot < t.until))
"""  # noqa: S608
# Views, rules and policies can answer a check and DuckLake differently, or each query, by `current_query()`. Triggers
# (also those of the tables that refer to a table), checks, defaults, the bounds of a partition, the expressions of
# indexes, and domains run functions of others with the rights of whoever writes. See also `backends/server.py`.
_NO_TABLES = """
    SELECT relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE nspname = '{schema}' AND relname::text LIKE 'ducklake\\_%'
        AND (relkind NOT IN ('r', 'i') OR relrowsecurity OR relhasrules OR relhassubclass OR relispartition
            OR relchecks > 0 OR EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid)
            OR EXISTS (SELECT FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
                JOIN pg_catalog.pg_namespace AS o ON o.oid = t.typnamespace
                WHERE attrelid = c.oid AND (atthasdef OR typtype <> 'b' OR o.nspname <> 'pg_catalog'))
            OR EXISTS (SELECT FROM pg_catalog.pg_index
                WHERE indrelid = c.oid AND coalesce(indexprs, indpred) IS NOT NULL))
    LIMIT 1
"""
_OF_NUMBERS = (
    "snapshot schema table view tag column_tag data_file file_column_stats delete_file column table_stats "
    "table_column_stats partition_info partition_column file_partition_value files_scheduled_for_deletion "
    "inlined_data_tables column_mapping name_mapping schema_versions macro macro_impl sort_info sort_expression"
)
_NUMBER = ".*_(id|snapshot|version|count|bytes|size|index|max)|(file|column)_order|row_id_start|parent_column"
_NO_NUMBERS = f"""
    SELECT column_name, column_type FROM (DESCRIBE FROM {", ".join(f"ducklake_{name}" for name in _OF_NUMBERS.split())})
    WHERE regexp_full_match(column_name, '{_NUMBER}') AND column_type NOT IN ('BIGINT', 'INTEGER')
"""  # noqa: S608


def compose_path(parent: str, path: object, *, is_relative: bool | None) -> str:
    """Returns the path of a schema, table or file inside its parent folder."""
    if path is None:
        return parent
    if not isinstance(path, str) or is_relative is None:
        raise _not_admitted("file", path)
    tagged = ("R" if is_relative else "A") + path
    odd = re.search(_ODD + _ENDS * (_SCHEME in parent), tagged)
    if odd or (_SCHEME in path and not re.fullmatch(_IN_BUCKET, tagged)):
        raise _not_admitted("file", path)
    return parent + path if is_relative else path


def check_text(rows: Callable[[str], list[tuple[Any, ...]]], root: str, since: int | None = None) -> None:
    """Checks the text of the catalog, in one query that returns no rows if everything is as it should be."""
    new = "true" if since is None else f"begin_snapshot > {since}"
    paths = rows(
        f"""
        SELECT kind, path, coalesce(
            NOT regexp_matches(tagged, {literal(_ODD + _ENDS * (_SCHEME in root))})
                AND (NOT contains(path, '{_SCHEME}') OR regexp_full_match(tagged, {literal(_IN_BUCKET)})),
            false) AS admitted
        FROM (
            SELECT kind, path, CASE CAST(path_is_relative AS BOOLEAN) WHEN true THEN 'R' WHEN false THEN 'A' END || path
                AS tagged, kind IN ('schema', 'table') AS is_folder
            FROM ({_PATHS.format(new=new)}) WHERE path IS NOT NULL OR kind LIKE '% file'
        ) WHERE NOT admitted OR (is_folder AND tagged[1] = 'A' AND NOT starts_with(path, {literal(root)}))
        UNION ALL {_NOT_ADMITTED}
        UNION ALL {_MISSING}
        UNION ALL ({_HIDING})
        """  # noqa: S608
    )
    for kind, path, admitted in paths:
        if not admitted:
            raise _not_admitted(kind, path)
        check_folder(root, path)


def tables_query(kind: str, database: str, schema: str) -> str:
    """The query for what is not a plain table in an attached catalog; a server has a schema for its tables."""
    is_file = kind in OWN_QUERIES
    query = literal(SQLITE_NO_TABLES if is_file else _NO_TABLES.format(schema=schema.replace("'", "''")))
    return f"FROM {(OWN_QUERIES if is_file else SERVER_QUERIES)[kind]}({literal(database)}, {query})"


def check_numbers(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Checks that no number of the catalog is a string: DuckLake and lakeconf write some of them into SQL."""
    for name, kind in rows(_NO_NUMBERS):
        raise CatalogError(f"the catalog's column {name!r} has the type {kind}, and is no number", hint=_HINT)


def check_folder(root: str, folder: str) -> None:
    """Checks that the folder of a table is below the data path, also if folders are links."""
    real_root, real = (root, folder) if _SCHEME in root else map(os.path.realpath, (root, folder))
    if not f"{real}/".startswith(f"{real_root.rstrip('/')}/"):
        raise CatalogError(
            f"the catalog names the folder {folder} of a table, which is not below the data path {root}: nothing was "
            "read or written",
            hint=_HINT,
        )


def _not_admitted(kind: str, path: object) -> CatalogError:
    shown = repr(path)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    if path is None:
        problem = f"{kind} NULL"
    elif any(kind == column for _, column in SPLICED):
        problem = f"{kind} {shown}, which could run as SQL"
    elif kind == "view":
        problem = f"view {shown} in place of a table"
    else:
        problem = f"path {shown} of a {kind}, which could lead elsewhere"
    return CatalogError(f"the catalog names the {problem}: nothing was read or written", hint=_HINT)


def canonical(path: str) -> str:
    """A path or URI in a form in which those of one file are equal."""
    scheme, separator, rest = path.partition(_SCHEME)
    if separator:
        return f"{_SAME_SCHEMES.get(scheme, scheme)}{separator}{rest}"
    return os.path.realpath(path) + "/" * path.endswith("/")
