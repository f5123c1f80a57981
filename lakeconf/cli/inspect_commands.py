"""Commands that read a lake: doctor, sql, tables, snapshots, history, diff, verify, report, metrics."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from lakeconf.catalog.history import TableFile, change_summaries
from lakeconf.cli.options import (
    config_option,
    confirm,
    output_options,
    overwrite_option,
    stopping,
    store_option,
    yes_option,
)
from lakeconf.cli.output import (
    check_new,
    plain,
    show,
    show_error,
    show_exactly,
    show_json,
    show_lines,
    show_table,
    style,
    write_output,
)
from lakeconf.config.config import init
from lakeconf.config.file_limits import MAX_BYTES
from lakeconf.engines.spark.start import spark_session
from lakeconf.errors import CatalogError, QueryError
from lakeconf.inspection.catalog_files import TableSize, table_size, table_sizes
from lakeconf.inspection.diff import TableDiff, compare
from lakeconf.inspection.doctor import FAILED, WARNING, StepResult, diagnose, repair_marker
from lakeconf.inspection.read_only_sql import query
from lakeconf.inspection.report import report
from lakeconf.inspection.verify import verify
from lakeconf.store import for_reading
from lakeconf.wording import byte_size, counted

if TYPE_CHECKING:
    from lakeconf.catalog.snapshot import Snapshot
    from lakeconf.lake.lake import Lake
    from lakeconf.store import Store

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("-", "bright_black")}
_CELL = 60
_SIZES = ("table", "rows", "files", "bytes", "delete_files", "deleted_rows", "inlined_rows")
_FILE_HEADER = ("file", "rows", "size", "snapshot", "deleted rows", "partition")
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@click.command("doctor", short_help="Diagnose a store step by step.")
@store_option
@click.option(
    "--repair", is_flag=True, help="Create a missing marker below the data path, or record that the catalog was moved."
)
@yes_option
@output_options("text", "json")
@click.pass_context
def doctor_command(
    context: click.Context, store: str | None, source: str | None, format_name: str, *, repair: bool, yes: bool
) -> None:
    """Check a store step by step: extensions, secrets, catalog, version, data path, clock and Spark settings.

    The command writes, reads and removes a small file below the data path. It changes nothing else without --repair.
    The exit code is 1 if a step failed.
    """
    chosen_store = init(source).get_store(store)
    if repair:
        repair_marker(chosen_store, partial(_confirm_repair, yes=yes))
    steps = diagnose(chosen_store)
    healthy = not any(step.status == FAILED for step in steps)
    if format_name == "json":
        show_json({"store": chosen_store.name, "ok": healthy, "steps": [dataclasses.asdict(step) for step in steps]})
    else:
        for step in steps:
            _show_findings(step)
        show(_verdict(chosen_store.name, steps))
    context.exit(0 if healthy else 1)


def _confirm_repair(error: CatalogError, question: str, *, yes: bool) -> None:
    show(error.message, to_stderr=True)
    confirm(question, yes=yes)


def _verdict(store: str, steps: Sequence[StepResult]) -> str:
    failed = [step.name for step in steps if step.status == FAILED]
    warned = [step.name for step in steps if step.status == WARNING]
    if failed:
        return style(f"{store} does not work: {', '.join(failed)} failed", fg="red", bold=True)
    if warned:
        return style(f"{store} works; look at the warnings: {', '.join(warned)}", fg="yellow")
    if any(step.name == "catalog" and step.found.startswith("none yet") for step in steps):
        return style(f"{store} has no lake yet: the first write creates it", fg="green")
    return style(f"{store} works", fg="green")


def _show_findings(step: StepResult) -> None:
    mark, colour = _MARKS[step.status]
    # A line break would be escaped.
    result = " ".join(filter(None, map(str.strip, step.found.splitlines())))
    show(f"{style(mark, fg=colour)} {step.name:<18}  {result}")
    if step.hint:
        show(f"  {'':<18}  {style('hint:', fg='cyan')} {step.hint}")


@click.command("sql", short_help="Run a query on a lake.")
@click.argument("statement", metavar="[QUERY]", required=False)
@click.option("-f", "--file", type=click.File("rb"), help="Read the query from a file; - is the standard input.")
@store_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of rows in a table."
)
@output_options("table", "csv", "json", meaning="Aligned table, or all rows as CSV or JSON.")
def sql_command(
    statement: str | None, file: BinaryIO | None, store: str | None, source: str | None, format_name: str, limit: int
) -> None:
    """Run QUERY, in DuckDB's SQL dialect, on the lake, attached read-only.

    Without QUERY and --file, the command reads the query from the standard input. For a prompt, use
    the DuckDB CLI with the output of `lakeconf preview-sql --portable`.

    \b
        lakeconf sql "SELECT count(*) FROM raw.events AT (VERSION => 3)"
        lakeconf sql -f report.sql --format csv
    """
    chosen_store = init(source).get_store(store)

    # Fetch one extra row to detect that there are more.
    fetched = limit + 1 if format_name == "table" else None
    _show_result(*query(chosen_store, _query_text(statement, file), fetched), format_name, limit)


def _show_result(names: Sequence[str], rows: Sequence[tuple[object, ...]], format_name: str, limit: int) -> None:
    if format_name == "json":
        _check_keys(names)
        show_json([dict(zip(names, map(plain, row), strict=True)) for row in rows])
    elif format_name == "csv":
        _show_csv([names, *(["" if value is None else _text(value) for value in row] for row in rows)])
    else:
        numbers = [number for number, column in enumerate(zip(*rows, strict=True)) if _are_numbers(column)]
        show_table([names, *([_cell(value) for value in row] for row in rows[:limit])], numbers)
        if len(rows) > limit:
            show(f"only the first {limit} rows are shown; use --limit to show more", to_stderr=True)
        elif not rows:
            show("no rows", to_stderr=True)


def _query_text(statement: str | None, file: BinaryIO | None) -> str:
    """The query of the command line, a file, or the standard input."""
    if statement is not None and file is not None:
        raise click.UsageError("pass either QUERY or --file")
    if statement is not None and statement != "-":
        return statement
    if file is None and statement is None and sys.stdin.isatty():
        raise click.UsageError("pass a QUERY, or --file")
    data = (file or sys.stdin.buffer).read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise click.UsageError("the query is larger than 1 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError("the query is not UTF-8") from None


def _show_csv(rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    minimal, quoted = (csv.writer(text, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:
        # GitHub executes a log line that begins with two colons as a command.
        (quoted if row[0].lstrip().startswith("::") else minimal).writerow(row)
    if sys.stdout.isatty():
        show_lines(text.getvalue().rstrip("\n"))
    else:
        show_exactly(text.getvalue().rstrip("\n"))


def _check_keys(names: Sequence[str]) -> None:
    """Rejects columns of the same name: an object of JSON would keep only the last one."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"the result has several columns named {twice!r}, and a row in JSON can have only one",
            hint="name each column with AS, or use --format csv",
        )


def _are_numbers(column: Sequence[object]) -> bool:
    return all(value is None or type(value) in (int, float, Decimal) for value in column)


def _text(value: object) -> str:
    if isinstance(value, float):
        return str(value)
    plain_value = plain(value)
    return (
        json.dumps(plain_value, ensure_ascii=False) if isinstance(plain_value, dict | list | bool) else str(plain_value)
    )


def _cell(value: object) -> str:
    text = "NULL" if value is None else _text(value).replace("\n", "\\n")
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


@click.command("tables", short_help="List the tables of a lake, or the files of a table.")
@click.argument("table", required=False)
@store_option
@output_options("text", "json")
def tables_command(table: str | None, store: str | None, source: str | None, format_name: str) -> None:
    """List the tables of the lake and their sizes. The command reads the catalog, not the data files.

    With TABLE, it lists the data files of this table and the number of deleted rows in each.
    """
    with init(source).get_store(store).open(read_only=True) as lake:
        if table is not None:
            root = lake._scope.source(table).session.reader.data_path  # noqa: SLF001 - as below
            _show_files(table_size(lake, table), root, format_name)
            return
        sizes = table_sizes(lake)
    sizes_data = [{name: getattr(size, name) for name in _SIZES} | {"files": len(size.files)} for size in sizes]
    if format_name == "json":
        show_json(sizes_data)
        return
    header = ["size" if name == "bytes" else name.replace("_", " ") for name in _SIZES]
    shown: dict[str, Any] = dict.fromkeys(_SIZES, "{:,}".format) | {"table": str, "bytes": byte_size}
    rows = [[shown[name](value) for name, value in size.items()] for size in sizes_data]
    show_table([header, *rows], numbers=range(1, len(_SIZES)))


def _show_files(size: TableSize, data_path: str, format_name: str) -> None:
    if format_name == "json":
        show_json([plain(dataclasses.asdict(file)) for file in size.files])
        return
    rows = [
        (
            file.path.removeprefix(data_path),
            f"{file.rows:,}",
            byte_size(file.bytes),
            str(file.begin_snapshot),
            f"{file.deleted_rows:,}",
            _partition(file),
        )
        for file in size.files
    ]
    show_table([_FILE_HEADER, *rows], numbers=range(1, 5))
    inlined = f", and {size.inlined_rows:,} inlined rows in the catalog" if size.inlined_rows else ""
    show(f"{counted(len(rows), 'file')} below {data_path}: {byte_size(size.bytes)}{inlined}", to_stderr=True)


def _partition(file: TableFile) -> str:
    values = ("NULL" if value is None else value for value in file.partition)
    return ", ".join(f"{key}={value}" for key, value in zip(file.partition_keys, values, strict=True))


@click.command("snapshots", short_help="List the snapshots of a lake.")
@store_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of newest snapshots to list."
)
@output_options("text", "json")
def snapshots_command(store: str | None, limit: int, source: str | None, format_name: str) -> None:
    """List the newest snapshots of the lake, newest last: time, changes, author and message."""
    with init(source).get_store(store).open(read_only=True) as lake:
        _show_snapshots(lake, lake.snapshots(), limit, format_name)


@click.command("history", short_help="List who changed a table, when and how.")
@click.argument("table")
@store_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of changes to list.")
@output_options("text", "json")
def history_command(table: str, store: str | None, limit: int, source: str | None, format_name: str) -> None:
    """List the snapshots that changed TABLE, newest first: time, changes, author and message.

    `lakeconf undo TABLE` undoes the first of them.
    """
    with init(source).get_store(store).open(read_only=True) as lake:
        changes = {change.snapshot_id for change in lake.table(table).history()}
        snapshots = [snapshot for snapshot in lake.snapshots() if snapshot.snapshot_id in changes]
        _show_snapshots(lake, snapshots, limit, format_name, newest_first=True)


def _show_snapshots(
    lake: Lake, every: Sequence[Snapshot], limit: int, format_name: str, *, newest_first: bool = False
) -> None:
    newest = every[-limit:][::-1] if newest_first else every[-limit:]
    summaries = change_summaries(lake._session.reader, newest)  # noqa: SLF001 - the lake has no method for words
    if format_name == "json":
        show_json(
            [plain(dataclasses.asdict(snapshot)) | {"summary": summaries[snapshot.snapshot_id]} for snapshot in newest]
        )
        return
    rows = [
        (
            str(snapshot.snapshot_id),
            f"{snapshot.time:%Y-%m-%d %H:%M:%S}",
            summaries[snapshot.snapshot_id],
            snapshot.author or "",
            snapshot.message or "",
        )
        for snapshot in newest
    ]
    show_table([("snapshot", "time (UTC)", "changes", "author", "message"), *rows], numbers=[0])
    if len(every) > limit:
        show(f"only the newest {limit} of {len(every)} snapshots are shown; use --limit to show more", to_stderr=True)


@click.command("diff", short_help="Compare a table of two stores.")
@click.argument("first", metavar="ONE")
@click.argument("second", metavar="OTHER")
@click.argument("table")
@click.option("--on", multiple=True, metavar="COLUMN", help="Key column; repeat for a key of several columns.")
@output_options("text", "json")
@click.pass_context
def diff_command(
    context: click.Context,
    first: str,
    second: str,
    table: str,
    on: tuple[str, ...],
    format_name: str,
    source: str | None,
) -> None:
    """Compare TABLE in the stores ONE and OTHER: columns, missing rows and differing rows.

    The exit code is 1 if they differ.
    """
    config = init(source)
    difference = compare(config.get_store(first), config.get_store(second), table, on)
    if format_name == "json":
        data = plain(dataclasses.asdict(difference))
        show_json({"equal": difference.is_equal, "equal_rows": data.pop("equal"), **data})
    else:
        _show_difference(difference, on)
    context.exit(0 if difference.is_equal else 1)


def _show_difference(difference: TableDiff, on: Sequence[str]) -> None:
    first, second = difference.stores
    show(f"{difference.table}: {first} has {difference.rows[0]} rows, {second} {difference.rows[1]}")
    for name, ours, theirs in difference.schema:
        show(f"  column {name}: {ours or 'none'} in {first}, {theirs or 'none'} in {second}")
    show(f"  {difference.equal} equal, {difference.only[0]} in {first} only, {difference.only[1]} in {second} only")
    for name, count in difference.columns.items():
        if count:
            show(f"  {name} differs in {count} rows of the same {', '.join(on)}")
    for store, sample in zip(difference.stores, difference.samples, strict=True):
        _show_rows(f"rows in {store} only:", sample)
    _show_rows(f"rows that differ ([{first}, {second}]):", difference.sample_changes)


def _show_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        show(f"  {title}")
        for row in rows:
            show("    " + ", ".join(f"{name}={_difference_text(value)}" for name, value in row.items()))


def _difference_text(value: Any) -> str:
    return f"[{', '.join(map(_difference_text, value))}]" if isinstance(value, list) else str(value)


@click.command("verify", short_help="Compare a table on Spark and DuckDB, or check the catalog.")
@click.argument("table", required=False)
@store_option
@click.option("--at", "version", type=int, metavar="VERSION", help="Snapshot version; by default the latest.")
@click.option("--catalog", is_flag=True, help="Check the catalog instead of a table.")
@click.option("--repair", is_flag=True, help="Repair what is safe in the catalog, after a backup.")
@click.option("--backup-to", "place", metavar="PLACE", help="Folder or URI of the backup before a repair.")
@yes_option
@output_options("text", "json")
@click.pass_context
def verify_command(
    context: click.Context,
    table: str | None,
    store: str | None,
    version: int | None,
    place: str | None,
    source: str | None,
    format_name: str,
    *,
    catalog: bool,
    repair: bool,
    yes: bool,
) -> None:
    """Compare TABLE as read by Spark and by DuckDB: row counts, NULLs and a hash of each column.

    Both engines read the whole table at one snapshot; Spark runs on this machine. The exit code is 1 if they differ,
    a deleted row is visible again, or two rows have one row id.

    With --catalog, look for what bugs of DuckLake and interrupted commits leave in the catalog, such as ids that are
    used twice, deletes that have no effect, and lost files. Each finding has a hint; with any, the exit code is 1.

    With --repair, the command backs up the catalog, and repairs counters, statistics and numbers of deleted rows, on
    which no row depends.
    """
    if repair != (place is not None) or (repair and not catalog):
        raise click.UsageError("a repair needs all three: --catalog --repair --backup-to PLACE")
    chosen_store = init(source).get_store(store)
    if catalog:
        if table is not None or version is not None:
            raise click.UsageError("--catalog checks the whole catalog: omit TABLE and --at")
        context.exit(_verify_catalog(chosen_store, format_name, place, yes=yes))
    if table is None:
        raise click.UsageError("pass TABLE or --catalog")
    with chosen_store.open(read_only=True) as lake:
        pinned = lake if version is None else lake.at(version=version)
        pinned.table(table).schema  # noqa: B018 - raises before Spark starts
    # The session ends with this process.
    with chosen_store.open(spark_session(chosen_store, settings=_QUIET), read_only=True) as lake:
        verification = verify(lake if version is None else lake.at(version=version), table)
    if format_name == "json":
        show_json({"equal": verification.equal, **dataclasses.asdict(verification)})
    else:
        show_lines(str(verification))
    context.exit(0 if verification.sound else 1)


def _verify_catalog(store: Store, format_name: str, place: str | None, *, yes: bool) -> int:
    """Shows what is wrong in the catalog, and repairs it if there is a place for a backup; returns the exit code."""
    from lakeconf.transfer.repair_catalog import examine_catalog, repair_catalog  # others do not need the transfers

    findings, is_text = examine_catalog(store), format_name == "text"
    repairable, done = sum(bool(finding.repairs) for finding in findings), None
    if is_text:
        for finding in findings:
            show_lines(str(finding))
        problems = f"{counted(len(findings), 'problem')} found, of which {repairable:,} can be repaired"
        show(f"{store.name}: {problems if findings else 'nothing is wrong'}")
    try:
        if place is not None and repairable:
            confirm(f"Back up the catalog of {store.name} to {place}, and repair it?", yes=yes)
            done = repair_catalog(store, place, findings)
    finally:
        if not is_text:
            repaired = None if done is None else {"snapshot_id": done.snapshot_id, "backup": done.kept}
            left = findings if done is None else done.left
            show_json({"ok": not left, "findings": [finding.data() for finding in findings], "repaired": repaired})
    if done is not None:
        findings = list(done.left)
        if is_text:
            show(f"repaired {counted(repairable, 'problem')} in snapshot {done.snapshot_id}; {len(findings):,} left")
            show(f"the catalog before is the backup {done.kept}")
    return 1 if findings else 0


@click.command("report", short_help="Write an HTML report of a lake.")
@store_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="lake.html", show_default=True, help="Output file."
)
@overwrite_option
@output_options("text", "json")
def report_command(store: str | None, output: Path, source: str | None, format_name: str, *, force: bool) -> None:
    """Write one self-contained HTML file about the lake.

    It shows what to do (tables to compact, unknown files), tables, files and snapshots.
    """
    check_new(output, force=force)
    chosen_store = init(source).get_store(store)
    with for_reading(chosen_store, read_only=False).open() as lake:
        page = report(lake, chosen_store)
    write_output(output, page)
    if format_name == "json":
        show_json({"path": str(output), "store": chosen_store.name, "bytes": output.stat().st_size})
    else:
        show(f"wrote {output}")


class _Address(click.ParamType):  # type: ignore[type-arg]  # see Duration
    """An address to listen on: `:9464` on all addresses of the machine, or `127.0.0.1:9464`."""

    name = "[host]:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        if not (":" in str(value) and port.isdecimal() and port.isascii() and int(port) < 1 << 16):
            self.fail(f"{value!r} is not an address such as :9464 or 127.0.0.1:9464", param, ctx)
        return host.strip("[]"), int(port)


@click.command("metrics", short_help="Print or serve numbers for Prometheus.")
@store_option
@click.option("--listen", type=_Address(), help="Serve the numbers at /metrics, such as :9464, until SIGTERM.")
@config_option
def metrics_command(store: str | None, source: str | None, listen: tuple[str, int] | None) -> None:
    """Print the numbers of a lake in OpenMetrics' text format.

    They are snapshots, files by size, rows, deleted rows, files to delete, and the times of the last commit and
    compaction. The command reads the catalog only.
    """
    from lakeconf.inspection.metrics import metrics, metrics_server  # slow to import

    chosen_store = init(source).get_store(store)

    def numbers() -> str:
        with chosen_store.open(read_only=True) as lake:
            return metrics(lake, chosen_store.name)

    if listen is None:
        show_exactly(numbers().removesuffix("\n"))
        return
    host, port = listen
    with metrics_server(host, port, numbers, show_error) as server, stopping(server.shutdown):
        show(f"listening on {host}:{server.server_address[1]}, path /metrics", to_stderr=True)
        server.serve_forever()
