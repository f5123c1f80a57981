from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake, lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake in a DuckDB file that writes small inserts and deletes to files as well."""
    with lake("duckdb", tmp_path, options=", DATA_INLINING_ROW_LIMIT 0") as attached:
        yield attached
