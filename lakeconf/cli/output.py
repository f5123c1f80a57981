"""Prints the output of all commands: escapes untrusted text, and uses colours only on terminals."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Literal

import click

from lakeconf.config.file import repository_of
from lakeconf.errors import ConfigError, LakeconfError, Problem
from lakeconf.logs import escaped

# Our colour codes carry a random mark, so that colour codes in untrusted text can be recognized and escaped.
_MARK = os.urandom(8).hex()
_STYLE = re.compile(f"\x1b\\[([0-9;]*)m{_MARK}")
# The strings of floats that are not numbers in JSON, as PostgreSQL writes them.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# CI systems execute these commands in logs: some at the start of a line, others anywhere.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#(?:\[|vso\[|teamcity\[))")


def show(text: str, *, to_stderr: bool = False) -> None:
    """Prints one line. Escapes control characters, including line ends, and commands of CI systems."""
    _echo(safe_line(text), to_stderr=to_stderr)


def show_lines(text: str, *, to_stderr: bool = False) -> None:
    """Prints text with trusted line ends; each line as by `show`."""
    _echo("\n".join(map(safe_line, text.split("\n"))), to_stderr=to_stderr)


def show_exactly(text: str) -> None:
    """Prints text unchanged, for formats with their own escaping."""
    # Without color=True, click removes colour codes if stdout is not a terminal.
    click.echo(text, color=True)


def style(text: str, **how: Any) -> str:
    """Styles text like `click.style`, for `show` and `show_lines`."""
    parts = re.split(r"(\x1b\[[0-9;]*m)", click.style(escaped(text), **how))
    return "".join(f"{part}{_MARK}" if part.startswith("\x1b") else part for part in parts)


def safe_line(text: str) -> str:
    """Escapes control characters and CI commands in a line; keeps the colours of `style`."""
    parts = _STYLE.split(text)
    # `split` alternates between text and colour codes.
    safe = [f"\x1b[{part}m" if index % 2 else escaped(part) for index, part in enumerate(parts)]
    return _COMMAND.sub(lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):02x}", "".join(safe))


def show_json(data: Any) -> None:
    """Prints data as JSON; characters that control a terminal or a CI system become JSON escapes."""
    import json

    text = json.dumps(data, indent=2, ensure_ascii=False)
    lines = (re.sub(r"[^ -~]", _json_escape, line) for line in text.split("\n"))
    _echo("\n".join(lines).replace("##", "#\\u0023"), to_stderr=False)


def show_table(
    rows: Sequence[Sequence[str]],
    numbers: Collection[int] = (),
    *,
    drawn: Callable[[int, str], str] = lambda _, line: line,
) -> None:
    """Prints rows as an aligned table."""
    cells = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for place, row in enumerate(cells):
        shown = (
            cell.rjust(width) if number in numbers else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        show(drawn(place, "  ".join(shown).rstrip()))


def _echo(text: str, *, to_stderr: bool) -> None:
    click.echo(text, err=to_stderr, color=_colour())


def _colour() -> bool | None:
    """Whether output has colours: https://no-color.org, https://force-color.org; None if the terminal decides."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}" if escaped(match[0]) != match[0] else match[0]


def plain(value: Any) -> Any:
    """Converts a value for JSON: bytes to hexadecimal digits; dates, decimals, NaN and infinities to strings."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]  # JSON has no such numbers
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def counts_text(words: Sequence[str], order: Iterable[str]) -> str:
    """Returns how often each word occurs, as `3 done, 1 failed`; words that do not occur are left out."""
    return ", ".join(f"{words.count(word)} {word}" for word in order if word in words)


def show_error(error: LakeconfError) -> None:
    """Prints an error to stderr, without a traceback."""
    if isinstance(error, ConfigError):
        for problem in error.problems:
            show_lines(problem_text(problem), to_stderr=True)
        return
    # Indent further lines: they may quote untrusted text, which must not look like lakeconf's output.
    first, *rest = error.message.split("\n")
    show(f"{style('error:', fg='red', bold=True)} {first}", to_stderr=True)
    for line in rest:
        show(f"  {line}", to_stderr=True)
    if error.hint:
        show(_hint(error.hint), to_stderr=True)


def problem_text(problem: Problem) -> str:
    """Formats a problem for people: one line, the excerpt of the file, and one line for the hint."""
    place = "error" if problem.file is None else _relative(problem.file)
    if problem.line is not None:
        place += f":{problem.line}:{problem.column or 1}"
    key = f" {escaped(problem.key)}:" if problem.key else ""
    code = style(f"[{problem.code}]", dim=True)
    text = f"{style(f'{place}:', bold=True)}{key} {escaped(problem.message)} {code}"
    lines = [text, *map(escaped, (problem.excerpt or "").splitlines())]
    return "\n".join([*lines, _hint(escaped(problem.hint))] if problem.hint else lines)


def problem_data(problems: Iterable[Problem]) -> list[Mapping[str, Any]]:
    """Converts problems for JSON."""
    shown = [field for field in Problem._fields if field != "excerpt"]
    return [{field: plain(getattr(problem, field)) for field in shown} for problem in problems]


def _hint(hint: str) -> str:
    return f"  {style('hint:', fg='cyan')} {hint}"


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def check_new(path: Path, *, force: bool) -> None:
    """Rejects a file that exists, unless it may be overwritten."""
    if path.exists() and not force:
        raise click.UsageError(f"{path} already exists; use --force to overwrite it")


def write_output(path: Path, content: str | bytes) -> None:
    """Writes a file; text in UTF-8."""
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error


def github_annotations(problems: Iterable[Problem], level: Literal["error", "warning"]) -> list[str]:
    """Formats problems as workflow commands of GitHub Actions.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    lines = []
    for problem in problems:
        place = {"file": _path(problem), "line": problem.line, "col": problem.column, "title": problem.code}
        fields = {name: _data(str(value)) for name, value in place.items() if value is not None}
        properties = ",".join(f"{name}={text}".replace(":", "%3A").replace(",", "%2C") for name, text in fields.items())
        text = f"{problem.key}: {problem.message}" if problem.key else problem.message
        hint = f"\nhint: {problem.hint}" if problem.hint else ""
        lines.append(f"::{level} {properties}::{_data(text + hint)}")
    return lines


def _path(problem: Problem) -> str | None:
    """The path of a file on the code host: below the root of the repository, else below the working directory."""
    if problem.file is None:
        return None
    here = Path.cwd()
    root = repository_of(here) or here
    return (problem.file.relative_to(root) if problem.file.is_relative_to(root) else problem.file).as_posix()


def _data(text: str) -> str:
    # Line ends have their own escapes below; other control characters would reach the log unescaped.
    text = "".join(character if character in "\r\n" else escaped(character) for character in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
