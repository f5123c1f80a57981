"""Two lakes, and runs of pipelines on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store
    from lakeconf.pipelines import Pipeline


def stores(folder: Path, *names: str) -> dict[str, Store]:
    declared = {
        name: {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / f"{name}.sqlite")},
            "storage_backend": {"type": "local", "path": str(folder / name)},
        }
        for name in names
    }
    config = lakeconf.init({"stores": declared})
    return {name: config.get_store(name) for name in names}


def rows(lake: Lake, table: str = "marts.t") -> list[tuple[Any, ...]]:
    lake.refresh()
    native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
    found: list[tuple[Any, ...]] = native.fetchall()
    return found


def stored_rows(table: str, store: str | None = None) -> list[tuple[Any, ...]]:
    """The rows of a table of a store of the project in the working directory."""
    with lakeconf.init().get_store(store).open() as lake:
        return rows(lake, table)


def done(pipeline: Pipeline, lake: Lake, **given: Any) -> None:
    for result in run(pipeline, lake, **given):
        if result.error is not None:
            raise result.error
