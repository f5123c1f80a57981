"""The prompt of `lakeconf sql`: queries of several lines, with a history in a file of the user."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lakeconf.cli.output import show, show_error
from lakeconf.cli.verbosity import idle_progress
from lakeconf.errors import LakeconfError

_FIRST, _MORE = "lakeconf> ", "     ...> "
_LEAVE = frozenset({"exit", "quit", ".exit", ".quit"})
_HISTORY_LENGTH = 1000


def run_prompt(run: Callable[[str], None]) -> None:
    """Asks for queries and runs each, until the user leaves. An error of a query does not end the prompt.

    Args:
        run: Runs a query and prints its result.
    """
    show("A query ends with ; or an empty line. Ctrl-D or exit leaves.", to_stderr=True)
    with _history():
        while True:
            try:
                text = _query()
                if text is None:
                    return
                if text:
                    run(text)
            except LakeconfError as error:
                show_error(error)
            except KeyboardInterrupt:
                show("", to_stderr=True)


def history_file() -> Path:
    """The file of earlier queries: https://specifications.freedesktop.org/basedir-spec/latest/."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "lakeconf" / "sql_history"


def _query() -> str | None:
    """The next query without its semicolon; None if the user leaves."""
    lines: list[str] = []
    while True:
        idle_progress()
        try:
            line = input(_MORE if lines else _FIRST)
        except EOFError:
            show("", to_stderr=True)
            return None
        if not lines and line.strip().rstrip(";").lower() in _LEAVE:
            return None
        lines.append(line)
        text = "\n".join(lines).strip()
        if text.endswith(";") or not line.strip():
            return text.rstrip("; \n")


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Lets the arrow keys find earlier queries, where Python has readline. Only the user can read the file."""
    try:
        readline = importlib.import_module("readline")
    except ImportError:
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LENGTH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)
            readline.write_history_file(path)
