"""Two lakes on one SQLite catalog register files at the same time; run as a script, because DuckLake can crash.

The first lake begins to commit; then the second one commits a file with a mapping of names that is new to the first.
Afterwards the first lake registers files with mappings of names that are new to it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lake_parts import catalog_of, scope_of
from plain_sql import run_plain

import lakeconf
from lakeconf.catalog.tables import load_table
from lakeconf.commit.actions import AddFiles
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.engines.engine import Staged

if TYPE_CHECKING:
    from lakeconf import Lake

_LATER = tuple(f"later_{number}" for number in range(4))
# Time for the second lake to commit, if nothing makes it wait.
_SECONDS = 3.0


def run(config: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script on the store of a configuration."""
    command = [sys.executable, __file__, str(config)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def register(lake: Lake, name: str, folder: Path) -> None:
    """Commits a file to a table, as after a job of Spark has written it."""
    path = folder / f"{name}.parquet"
    run_plain(lake, f"COPY (SELECT 1 AS x) TO '{path}'")
    with scope_of(lake).joined() as transaction:
        info = load_table(catalog_of(lake), name, transaction.snapshot_id)
        staged = Staged(f"FROM '{path}'", files=(str(path),), row_count=1)
        transaction.contents.extend([AddFiles(table=info.full_name, info=info, staged=staged)])


def main(config: str) -> None:
    store = lakeconf.init(config).get_store("dev")
    folder, begin = Path(config).parent, SqlCommit.begin
    with store.open() as first, store.open() as second:
        for name in ("one", "two", *_LATER):
            first.create_table(name, {"x": "INTEGER"})
        second.refresh()
        other = threading.Thread(target=register, args=(second, "two", folder))

        def begin_before_the_other(catalog: SqlCommit) -> int:
            SqlCommit.begin = begin  # type: ignore[method-assign]
            begun = begin(catalog)
            other.start()
            other.join(_SECONDS)
            return begun

        SqlCommit.begin = begin_before_the_other  # type: ignore[method-assign, assignment]
        register(first, "one", folder)
        other.join()
        for name in _LATER:
            register(first, name, folder)
        first.refresh()
        for name in ("one", "two", *_LATER):
            sys.stdout.write(f"{name} {first.table(name).count()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
