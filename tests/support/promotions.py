"""Two lakes and pipelines of one model, for the tests of promotions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.pipelines import Full, Model, Pipeline, Query, run

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store

NUMBERS = "(VALUES (1, 'a'), (2, 'b')) AS t(id, name)"


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


def full(query: str, **given: Any) -> Pipeline:
    return Pipeline([Model("marts.t", Full(), Query(query), **given)])


def rows(lake: Lake, table: str = "marts.t") -> list[tuple[Any, ...]]:
    lake.refresh()
    native: Any = lake.sql(f"FROM {table} ORDER BY ALL").to_native()
    found: list[tuple[Any, ...]] = native.fetchall()
    return found


def done(pipeline: Pipeline, lake: Lake, **given: Any) -> None:
    for result in run(pipeline, lake, **given):
        if result.error is not None:
            raise result.error
