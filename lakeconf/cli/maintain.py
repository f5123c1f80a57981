"""`lakeconf maintain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import click

from lakeconf.cli.confirm import confirm, yes_option
from lakeconf.cli.options import Amount, config_option, dry_run_option, format_option, limit_options, store_option
from lakeconf.cli.output import show_json, show_lines
from lakeconf.config.model import init
from lakeconf.errors import LakeconfError
from lakeconf.lake.maintenance_plan import maintain


@click.command("maintain", short_help="Compact a lake, expire old snapshots, remove unneeded files.")
@store_option
@click.option("--expire-days", type=Amount(), default=30, show_default=True, help="Expire older snapshots.")
@click.option(
    "--cleanup-days",
    type=Amount(),
    default=2,
    show_default=True,
    help="Remove unused files older than this; must be longer than the longest job.",
)
@click.option(
    "--keep", type=click.IntRange(min=1), default=1, show_default=True, help="Number of newest snapshots to keep."
)
@limit_options
@click.option("--force", is_flag=True, help="Allow ages below one day; use only if no other process uses the lake.")
@dry_run_option
@yes_option
@format_option
@config_option
def command(
    store: str | None,
    expire_days: float,
    cleanup_days: float,
    keep: int,
    deadline: timedelta | None,
    memory_limit: str | None,
    source: str | None,
    format_name: str,
    *,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Maintain the lake of STORE: compact small files, expire old snapshots and remove unused files.

    The command first shows its plan: tables to compact, snapshots to expire and files to remove. It uses DuckLake's own
    functions. Rows, row ids and the remaining history do not change.
    """
    _check_ages({"--expire-days": expire_days, "--cleanup-days": cleanup_days}, force=force)
    found = init(source).get_store(store)
    with found.open() as lake:
        do = partial(
            maintain,
            lake,
            expire_older_than=timedelta(days=expire_days),
            cleanup_older_than=timedelta(days=cleanup_days),
            keep=keep,
            deadline=deadline,
            memory_limit=memory_limit,
            force=force,
        )
        plan = do(dry_run=True)
        if format_name == "text":
            show_lines(str(plan))
        done = plan
        try:
            if plan.changes and not dry_run:
                confirm(f"Carry this out on {found.name}?", yes=yes)
                done = do()
        finally:
            if format_name == "json":
                show_json(dataclasses.asdict(done))
    if done is not plan and format_name == "text":
        show_lines(f"done:\n{done}")


def _check_ages(days: Mapping[str, float], *, force: bool) -> None:
    """Refuses ages below one day; the errors of the functions below name arguments of Python."""
    for option, age in days.items():
        if age < 1 and not force:
            raise LakeconfError(
                f"{option} {age:g} is less than a day: other processes may still read or write the files",
                hint="pass a day or more; or, if nothing else uses the lake, --force",
            )
