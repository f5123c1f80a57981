"""Commands on whole lakes: move."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from lakeconf.cli.options import ChangeOptions, change_options
from lakeconf.cli.output import show, show_lines
from lakeconf.config.config import init
from lakeconf.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.transfer.move import MovePlan

# Of all bytes, between two lines about the progress.
_STEP = 0.1


@click.command("move", short_help="Move a lake with its history to another store.")
@click.argument("source_store", metavar="SOURCE")
@click.argument("target_store", metavar="TARGET")
@change_options
def move_command(source_store: str, target_store: str, source: str | None, change: ChangeOptions) -> None:
    """Move the lake of the store SOURCE, with its whole history, to the empty store TARGET: another catalog, other
    storage, or both.

    The command first shows its plan. It copies the files and then the catalog, and changes nothing in SOURCE. Writers
    of lakeconf wait meanwhile. If it is killed, run it again: it continues.
    """  # noqa: D205 - click shows the first paragraph
    config = init(source)
    origin, target = config.get_store(source_store), config.get_store(target_store)
    plan = origin.plan_move(target)
    if change.is_text:
        show_lines(str(plan))
    moved = change.carry_out(
        f"Move {source_store} to {target_store}?",
        lambda: origin.move_to(target, progress=shown_progress()),
        lambda moved: _data(moved or plan, done=moved is not None),
        needed=True,
    )
    if moved is not None and change.is_text:
        show(f"moved {source_store} to {target_store}: use only {target_store} from now on")


def shown_progress() -> Callable[[int, int], None]:
    """A function that shows some of the progress of a copy on stderr."""
    shown = 0.0

    def show_progress(done: int, total: int) -> None:
        nonlocal shown
        if done - shown >= total * _STEP or done == total:
            shown = done
            show(f"copied {byte_size(done)} of {byte_size(total)}", to_stderr=True)

    return show_progress


def _data(plan: MovePlan, *, done: bool) -> dict[str, object]:
    data = dataclasses.asdict(plan)
    data.pop("is_done")
    return data | {"done": done}
