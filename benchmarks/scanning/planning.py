"""Planning over many files, of which a predicate leaves 100: by lakeconf and by DuckDB; and the memory it takes."""

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
    """What plans, by its name.

    Args:
        store: What `make_catalog` gave.
        files: How many files it lists.
        stack: What stays open is closed with it.

    Raises:
        RuntimeError: lakeconf does not leave 100 files.
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
    """Lets DuckDB plan a query: it does when it runs one, and ends at the first file, since that does not exist.

    Raises:
        RuntimeError: The file exists.
    """
    try:
        con.execute(f"SELECT * FROM t WHERE {where}")
    except duckdb.IOException:
        return
    raise RuntimeError("the query should have met a file that does not exist")


def memory(folder: Path, files: int, who: str) -> float:
    """By how many MB the peak of a new process grows when it plans for the second time, over what opening took."""
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
    """The most memory that this process has had, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    print(_grown(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
