from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from promotions import stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[tuple[Lake, Lake]]:
    """Two lakes on SQLite: `dev` and `prod`."""
    found = stores(tmp_path, "dev", "prod")
    with found["dev"].open() as dev, found["prod"].open() as prod:
        yield dev, prod
