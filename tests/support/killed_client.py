"""A client of Spark Connect that kills itself during an append; run as a script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from commit_hooks import at_commit
from pyspark.sql import SparkSession

import lakeconf
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.spark.connect import connect_engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "one"
ROWS = 10
ANNOUNCED, WRITTEN, STAGED = "before the job", "after the job", "before the commit"
SENT, COMMITTED = "before COMMIT", "after COMMIT"
POINTS = (ANNOUNCED, WRITTEN, STAGED, SENT, COMMITTED)


def run(config: Path, url: str, point: str) -> int:
    """Runs a client; returns its exit code, which is negative for a signal."""
    return subprocess.run([sys.executable, __file__, str(config), url, point], check=False, timeout=300).returncode


def killed(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main(config: str, url: str, point: str) -> None:
    patch = pytest.MonkeyPatch()
    strikes: dict[str, Callable[[], None]] = {
        ANNOUNCED: lambda: patch.setattr(connect_engine, "stage_frame", killed),
        WRITTEN: lambda: patch.setattr(connect_engine, "_files_in", killed),
        STAGED: lambda: patch.setattr(Transaction, "commit", killed),
        SENT: lambda: at_commit(patch, before=killed),
        COMMITTED: lambda: at_commit(patch, after=killed),
    }
    spark = SparkSession.builder.remote(url).create()
    with lakeconf.init(config).get_store("dev").open(spark) as lake:
        table = lake.table("t")
        strikes[point]()
        table.append(spark.range(0, ROWS, 1, 2), idempotency_key=KEY)


if __name__ == "__main__":
    main(*sys.argv[1:])
