"""Lakes for the tests of the catalog and of Spark's reader, created by DuckDB without lakeconf. A pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake, lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """An empty lake with DuckLake's default settings, on each kind of catalog."""
    server = request.getfixturevalue("postgres_server") if request.param == "postgres" else None
    with lake(request.param, tmp_path, server=server) as attached:
        yield attached
