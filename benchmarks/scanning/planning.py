"""Planning of many files, 100 of which match a predicate, with lakeconf and with DuckDB: time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import duckdb

import lakeconf
from scanning.lakes import ALIAS, configuration

KEPT = 100
US, DUCKDB = "lakeconf", "DuckDB"


def planners(store: lakeconf.Store, files: int, stack: ExitStack) -> dict[str, Callable[[], object]]:
    """Planning functions by name.

    Args:
        store: The result of `make_catalog`.
        files: The number of files that it lists.
        stack: Closes the opened lake and connection.

    Raises:
        RuntimeError: lakeconf does not plan exactly 100 files.
    """
    first = files // 2 * 1000
    where = f"id >= {first} AND id < {first + KEPT * 1000}"
    table = stack.enter_context(store.open()).table("t")
    kept = table.explain(where=where).files
    if kept != KEPT:
        raise RuntimeError(f"the predicate leaves {kept} files, not {KEPT}")
    con = stack.enter_context(store.connect())
    return {
        US: lambda: table.explain(where=where),
        DUCKDB: lambda: plan_in_duckdb(con, where),
    }


def plan_in_duckdb(con: duckdb.DuckDBPyConnection, where: str) -> None:
    """Plans a query in DuckDB: runs it, and stops at the first file because that does not exist.

    Raises:
        RuntimeError: The file exists.
    """
    try:
        con.execute(f"SELECT * FROM t WHERE {where}")
    except duckdb.IOException:
        return
    raise RuntimeError("the query should have met a file that does not exist")


def memory(folder: Path, files: int, who: str) -> float:
    """Growth of a new process's peak memory, in MB, for the second planning, after opening the lake."""
    command = [sys.executable, "-m", "scanning.planning", str(folder), str(files), who]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


def _grown(folder: Path, files: int, who: str) -> float:
    store = lakeconf.init(configuration(folder, read_only=True)).get_store(ALIAS)
    with store.connect() as con, store.open() as lake:
        con.execute("FROM t LIMIT 0")
        lake.table("t").schema  # noqa: B018 - so that what every table needs is there
        before = _peak()
        first = files // 2 * 1000
        where = f"id >= {first} AND id < {first + KEPT * 1000}"
        if who == US:
            lake.table("t").explain(where=where)
        else:
            plan_in_duckdb(con, where)
        return _peak() - before


def _peak() -> float:
    """The peak memory of this process, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    print(_grown(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
