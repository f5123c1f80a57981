"""How other holders of a lock file see it."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def held(path: Path) -> str:
    """How another holder holds a lock file: not at all, shared or alone."""
    with path.open() as file:
        for kind, name in ((fcntl.LOCK_EX, "not at all"), (fcntl.LOCK_SH, "shared")):
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return name
    return "alone"
