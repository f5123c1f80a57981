"""A lake and a branch of it, and all that must stay as it is in the lake, whatever becomes of the branch."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_stores import new_store

if TYPE_CHECKING:
    import pytest

    from lakeconf import Lake, Store


SHORT = (
    "CREATE SCHEMA raw",
    "CREATE TABLE raw.e AS SELECT range AS id, 'n' || range AS name FROM range(100)",
    "CREATE TABLE raw.f AS SELECT range AS id FROM range(10)",
    "DELETE FROM raw.e WHERE id < 40",
    "CREATE VIEW raw.v AS SELECT count(*) AS n FROM raw.e",
    "CREATE VIEW raw.w AS SELECT n + 1 AS m FROM {alias}.raw.v",
)


def write_configuration(folder: Path) -> Path:
    """Writes a `lakeconf.toml` with the stores that `lake_and_branch` makes in a folder."""
    texts = [
        f'[stores.{name}]\n{of}metadata_backend = {{ type = "sqlite", uri = "{folder}/{name}/catalog" }}\n'
        f'storage_backend = {{ type = "local", path = "{folder}/{name}/data" }}\n'
        for name, of in (("prod", ""), ("pr", 'branch_of = "prod"\n'))
    ]
    path = folder / "lakeconf.toml"
    path.write_text("".join(texts))
    return path


def lake_and_branch(
    request: pytest.FixtureRequest, folder: Path, catalog: str = "sqlite", storage: str = "local"
) -> tuple[Store, Store]:
    """The stores `prod` and `pr`, which is to be a branch of it; neither has a lake."""
    prod, branch = (new_store(request, folder, name, catalog, storage) for name in ("prod", "pr"))
    return prod, branch.replace(branch_of=prod)


def contents(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables of a lake, as `scan` reads them."""
    return {name: rows_of(lake, name) for name in lake.tables()}


def rows_of(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table, in an order of their own."""
    return sorted((tuple(row.values()) for row in lake.table(name).to_arrow().to_pylist()), key=repr)


def expire_all(lake: Lake) -> list[str]:
    """Expires all snapshots that may expire, and removes all files that may be removed."""
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    return lake.maintenance.cleanup(older_than=timedelta(0), force=True)


def state_of(store: Store, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """All that DuckDB reads from a lake in a folder, and the checksums of its files."""
    files = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "data").rglob("*")
        if path.is_file() and "_lakeconf_pin_" not in path.name
    }
    with store.connect() as connection:
        name = f"__ducklake_metadata_{store.alias}"
        tables = connection.sql(f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{name}'").fetchall()
        return {table: connection.sql(f"FROM {name}.{table} ORDER BY ALL").fetchall() for (table,) in tables}, files
