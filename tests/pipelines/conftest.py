from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
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


@pytest.fixture
def lineage_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which OpenLineage appends events, by its own settings."""
    transport = {"TYPE": "file", "LOG_FILE_PATH": tmp_path / "events.json", "APPEND": "true"}
    for key, value in transport.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{key}", str(value))
    return tmp_path / "events.json"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake on SQLite."""
    with store_of(tmp_path).open() as opened:
        yield opened
