"""How a connection to a lake commits: the settings of DuckDB, and what commits if it is no server."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

# DuckDB settings for reading a lake and committing to it.
SETTINGS: Mapping[str, str | int | float] = {
    # DuckDB applies today's statistics to filters on older snapshots, which is wrong after files were rewritten.
    "disabled_optimizers": "statistics_propagation",
    # Retries of a commit that another commit overtook: 10 are too few for 8 writers. Pauses grow to 6 seconds.
    "ducklake_max_retry_count": 100,
    "ducklake_retry_wait_ms": 50,
    "ducklake_retry_backoff": 1.05,
}


class Committing(Enum):
    """What commits, if it is no server that can wait for commits in progress."""

    THIS_PROCESS = "this process"
    UNKNOWN = "unknown"
