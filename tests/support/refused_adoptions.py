"""What tests of adopted tables share: the rows of a query, and the check that an adoption is refused by name."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake
    from lakeconf.errors import LakeconfError


def rows(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return lake.sql(sql).to_native().fetchall()  # type: ignore[no-any-return]


@contextlib.contextmanager
def refused(lake: Lake, error: type[LakeconfError], match: str) -> Iterator[None]:
    """The block raises an error with a hint, and the lake has no new snapshot."""
    before = lake.snapshot_id
    with pytest.raises(error, match=match) as caught:
        yield
    assert caught.value.hint
    lake.refresh()
    assert lake.snapshot_id == before


def contents(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def maintain_all(lake: Lake) -> None:
    """Compacts the lake, expires all snapshots but one, and removes all files that it may remove."""
    lake.maintenance.compact()
    lake.maintenance.expire_snapshots(older_than=timedelta(), force=True)
    lake.maintenance.cleanup(older_than=timedelta(), force=True)
