"""Temporary files of tests in memory: half of the time of a small lake is waiting for the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # the only folder in memory that every Linux has
_NEEDED_BYTES = 6 * 2**30


def use_memory() -> None:
    """Sets the folder for temporary files, also of subprocesses, unless TMPDIR names one or the memory is small."""
    if "TMPDIR" in os.environ or not os.access(_SHARED_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_SHARED_MEMORY).free >= _NEEDED_BYTES and _available_bytes() >= _NEEDED_BYTES:
        os.environ["TMPDIR"] = str(_SHARED_MEMORY)
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(_SHARED_MEMORY))
        tempfile.tempdir = None  # `tempfile` then reads TMPDIR again


def _available_bytes() -> int:
    """The memory that programs can have without swapping."""
    found = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(found["MemAvailable"].split()[0]) * 1024
