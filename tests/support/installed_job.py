"""Uses an installed lakeconf on DuckDB, and optionally on Spark; runs in a separate environment.

    python installed_job.py [spark]

The working folder holds a lakeconf.toml with the stores `dev` and `prod` and a pipeline. It prints "done" at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path

import duckdb
import narwhals as nw

import lakeconf
from lakeconf.cli.app import COMMANDS, run
from lakeconf.errors import AuditError, MissingDependencyError

COLUMNS = {"id": "BIGINT", "name": "VARCHAR", "seen": "TIMESTAMPTZ"}
ROWS = "SELECT {0}::BIGINT AS id, '{1}' AS name, TIMESTAMPTZ '2026-01-01 00:00:00Z' AS seen"
# Every command with its arguments. Those in `FAILING` need an extra, or a store on servers.
CALLS = [
    ["validate"], ["stores"], ["preview-sql"], ["export", "json-schema"], ["doctor"],
    ["validate", "--explain", "LC001"],
    ["tables"], ["tables", "--format", "json"], ["snapshots"], ["history", "raw.events"], ["tables", "raw.events"],
    ["sql", "FROM raw.events"], ["load", "names.csv", "raw.names", "--yes"],
    ["adopt", "files", "--table", "raw.adopted", "--yes"],
    ["plan"], ["run"], ["copy", "dev", "prod", "marts.names", "--yes"], ["diff", "dev", "prod", "marts.names"],
    ["move", "dev", "new", "--yes"], ["backup", "--to", "backups"], ["backups", "--in", "backups"],
    ["branch", "dev"],
    ["graph"], ["test"], ["restore", "raw.events", "--version", "3", "--dry-run"], ["undo", "raw.events", "--dry-run"],
    ["metrics"], ["maintain", "--dry-run"], ["maintain", "--yes"], ["export", "dbt"],
    ["init", "--output", "other.toml"],
]  # fmt: skip
FAILING = {
    "verify": (["verify", "raw.events"], "lakeconf[spark]"),
    "report": (["report"], "lakeconf[report]"),
    "restore-lake": (["restore-lake", "backups/none"], "there is no backup"),
    "grants": (["grants", "--role", "reader"], "neither backend of the store has roles"),
}
MODULES = {"polars": "polars", "dagster": "dagster", "dbt": "dbt", "dlt": "dlt", "sqlmesh": "sqlmesh"}


def called(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, and everything it prints."""
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = run(arguments)
    return code, output.getvalue()


def message(expected: type[Exception], call: Callable[[], object]) -> str:
    """The message of the error that a call raises."""
    try:
        call()
    except expected as error:
        return str(error)
    raise AssertionError(f"no {expected.__name__} was raised")


def refused_append(lake: lakeconf.Lake) -> None:
    """A transaction whose audit fails."""
    with lake.transaction() as transaction:
        transaction.table("raw.events").append(transaction.sql(ROWS.format(-1, "negative")))
        transaction.audit("positive ids", "FROM raw.events WHERE id < 0")


def writes(store: lakeconf.Store, session: object = None) -> None:
    """Every kind of write and read; at the end DuckDB reports the contents of the table."""
    with store.open(session) as lake, duckdb.connect() as other:
        lake.create_table("raw.events", like=COLUMNS)
        table = lake.table("raw.events")
        table.append(lake.sql(" UNION ALL ".join(ROWS.format(i, f"n{i}") for i in range(5))))
        table.append(other.sql(ROWS.format(7, "of another connection")))
        table.merge(lake.sql(ROWS.format(1, "merged")), on="id")
        table.update({"name": nw.lit("updated")}, where="id = 2")
        table.delete("id = 3")
        with lake.transaction("two writes") as transaction:
            transaction.table("raw.events").append(transaction.sql(ROWS.format(8, "in a transaction")))
            transaction.audit("positive ids", "FROM raw.events WHERE id < 0")
        assert "'id': -1" in message(AuditError, lambda: refused_append(lake))
        assert len(lake.snapshots()) > 5
        assert "data files" in str(table.explain())
        if session is None:
            assert table.changes(since=2).to_native().fetchall()
            found = table.scan(["id", "name"]).sort("id").to_native().fetchall()
        else:
            found = [tuple(row) for row in table.scan(["id", "name"]).sort("id").to_native().collect()]
    assert found == [
        (0, "n0"), (1, "merged"), (2, "updated"), (4, "n4"), (7, "of another connection"), (8, "in a transaction")
    ]  # fmt: skip


def commands() -> None:
    """Every command works, or its error says what it needs."""
    assert {name for name, *_ in CALLS} | set(FAILING) == set(COMMANDS), set(COMMANDS)
    Path("names.csv").write_text("id,name\n1,one\n")
    duckdb.sql("COPY (SELECT 1 AS id) TO 'files' (FORMAT parquet, PER_THREAD_OUTPUT)")
    for arguments in CALLS:
        code, output = called(arguments)
        assert code == 0, f"lakeconf {' '.join(arguments)}: exit code {code}\n{output}"
    for arguments, reason in FAILING.values():
        code, output = called(arguments)
        assert code == 1, output
        assert reason in output, output


def missing_extras() -> None:
    """Functions that need an extra name it in their error."""
    for module, extra in MODULES.items():
        found = message(MissingDependencyError, lambda: import_module(f"lakeconf.integrations.{module}"))  # noqa: B023
        assert f"pip install 'lakeconf[{extra}]'" in found, found
    assert "[polars]" in message(MissingDependencyError, lambda: lakeconf.scan_polars("dev", "t"))
    assert "[spark]" in message(MissingDependencyError, lakeconf.spark_session)


def main() -> None:
    """Runs everything that the installed extras support."""
    store = lakeconf.init().get_store()
    if "spark" in sys.argv[1:]:
        session = lakeconf.spark_session(store, settings={"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
        writes(store, session)
        assert session.read.format("lakeconf").option("table", "raw.events").load().count() == 6
        session.stop()
    else:
        writes(store)
        commands()
        missing_extras()
    print("done")  # noqa: T201 - for the test


if __name__ == "__main__":
    main()
