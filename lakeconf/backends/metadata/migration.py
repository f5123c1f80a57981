"""Checks a catalog before DuckDB migrates it, because the migration silently loses information."""

from __future__ import annotations

from collections.abc import Mapping

from lakeconf.backends.backend import MetadataBackend, StoreNames
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError
from lakeconf.sql import Attach, Value, identifier

_BEFORE = "__lakeconf_before_migration"
# DuckLake 0.3 lists the snapshots that were merged into a file, each with its last row: `27:5|28:10`.
_WITHIN_MERGED_FILES = """
SELECT count(DISTINCT snapshot_id), min(snapshot_id), max(snapshot_id)
FROM {schema}.ducklake_data_file JOIN {schema}.ducklake_snapshot
ON snapshot_id >= begin_snapshot
AND snapshot_id < CAST(split_part(string_split(partial_file_info, '|')[-1], ':', 1) AS BIGINT)
WHERE partial_file_info LIKE '%|%'
"""


def check_merged_files(
    connection: Connection, backend: MetadataBackend, names: StoreNames, attach_options: Mapping[str, Value]
) -> None:
    """Refuses to migrate a catalog if some of its snapshots would then contain rows of later ones.

    The extension's migration loses the information which snapshot added which rows of a merged file.
    Source: https://github.com/duckdb/ducklake, `MigrateV03` in src/storage/ducklake_metadata_manager.cpp
    """
    options = backend.ducklake_options(names)
    metadata_options = {key[len("meta_") :]: value for key, value in attach_options.items() if key.startswith("meta_")}
    attach_metadata(connection, options, _BEFORE, metadata_options)
    try:
        schema = str(options.get("metadata_schema") or "main")
        count, first, last = _snapshots_within_merged_files(connection, schema)
    finally:
        connection.execute(f"DETACH {identifier(_BEFORE)}")
    if count:
        raise CatalogError(
            f"stores.{names.store}: after the migration, {count} snapshots between {first} and {last} would contain "
            "rows of later ones, because it loses which snapshot added which rows of a merged file",
            hint="expire these snapshots first, with the DuckDB version that created the lake: "
            f"CALL ducklake_expire_snapshots('lake', versions => [{first}, …, {last}])",
        )


def _snapshots_within_merged_files(connection: Connection, schema: str) -> tuple[int, int, int]:
    has_merged_files = connection.rows(
        "SELECT 1 FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? "
        "AND table_name = 'ducklake_data_file' AND column_name = 'partial_file_info'",
        [_BEFORE, schema],
    )
    if not has_merged_files:
        return 0, 0, 0
    place = f"{identifier(_BEFORE)}.{identifier(schema)}"
    ((count, first, last),) = connection.rows(_WITHIN_MERGED_FILES.format(schema=place))
    return count, first, last


def attach_metadata(
    connection: Connection, options: Mapping[str, Value], alias: str, more: Mapping[str, Value]
) -> None:
    """Attaches the database of a catalog by itself, with the parameters of `MetadataBackend.ducklake_options`."""
    parameters = options.get("metadata_parameters")
    configured = parameters if isinstance(parameters, Mapping) else {}
    connection.run(Attach(str(options["metadata_path"]), alias, {**configured, **more}))
