"""What the commands show: text with colours on a terminal alone, and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import click

from lakeconf.cli.verbosity import clear_progress
from lakeconf.errors import ConfigError, LakeconfError, Problem


def show(text: str, *, to_stderr: bool = False) -> None:
    """Shows text; its colours only on a terminal, and not where NO_COLOR is set."""
    clear_progress()
    click.echo(text, err=to_stderr, color=False if os.environ.get("NO_COLOR") else None)


def show_json(data: Any) -> None:
    """Shows data as JSON."""
    import json

    clear_progress()
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def show_table(rows: Sequence[Sequence[str]]) -> None:
    """Shows rows in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        show("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def plain(value: Any) -> Any:
    """A value as JSON knows it; bytes are written in hexadecimal digits, dates and decimals as text."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def size(count: float) -> str:
    """A number of bytes as a person reads it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def show_error(error: LakeconfError) -> None:
    """Shows an error on stderr, without a traceback."""
    if isinstance(error, ConfigError):
        show("\n".join(problem_text(problem) for problem in error.problems), to_stderr=True)
        return
    lines = [f"{click.style('error:', fg='red', bold=True)} {error.message}"]
    if error.hint:
        lines.append(_hint(error.hint))
    show("\n".join(lines), to_stderr=True)


def problem_text(problem: Problem) -> str:
    """A problem as a person reads it."""
    place = _relative(problem.file) if problem.file is not None else click.style("error", fg="red")
    if problem.line is not None:
        place += f":{problem.line}:{problem.column}"
    key = f" {problem.key}" if problem.key else ""
    code = click.style(f"[{problem.code}]", dim=True)
    text = f"{click.style(f'{place}:', bold=True)}{key}{':' if key else ''} {problem.message} {code}"
    return f"{text}\n{_hint(problem.hint)}" if problem.hint else text


def problem_data(problems: Iterable[Problem]) -> list[Mapping[str, Any]]:
    """The problems as JSON knows them."""
    return [problem._asdict() | {"file": str(problem.file) if problem.file else None} for problem in problems]


def _hint(hint: str) -> str:
    return f"  {click.style('hint:', fg='cyan')} {hint}"


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
