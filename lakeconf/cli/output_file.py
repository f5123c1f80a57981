"""The file that a command writes."""

from __future__ import annotations

from pathlib import Path

import click


def check_new(path: Path | None, *, force: bool) -> None:
    """Refuses a file that exists, unless it may be overwritten.

    Raises:
        click.UsageError: It exists.
    """
    if path is not None and path.exists() and not force:
        raise click.UsageError(f"{path} already exists; use --force to overwrite it")


def write_output(path: Path, text: str) -> None:
    """Writes a file in UTF-8.

    Raises:
        click.UsageError: It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
