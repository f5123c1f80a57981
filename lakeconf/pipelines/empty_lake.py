"""A temporary lake without tables and runs, for plans and tests that must not touch a store."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakeconf.backends.metadata.sqlite import SQLiteMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.lake.lake import Lake
from lakeconf.secret import Secret
from lakeconf.store import Store


def empty_lake(
    stack: contextlib.ExitStack,
    name: str,
    *,
    alias: str | None = None,
    secrets: Sequence[Secret] = (),
    session: Any = None,
) -> Lake:
    """Opens a temporary lake.

    Args:
        stack: Closes and removes the lake.
        name: The name of its store.
        alias: The name under which it is attached; default: its name.
        secrets: Values that errors never show.
        session: A Spark session; None for DuckDB.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lakeconf-"))
    catalog = SQLiteMetadata(uri=str(Path(folder, "catalog.sqlite")))
    files = LocalStorage(path=str(Path(folder, "data")))
    return stack.enter_context(Store(name, catalog, files, alias=alias, hidden=secrets).open(session))
