"""The file that a command writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from lakeconf.cli.output import check_new, write_output

if TYPE_CHECKING:
    from pathlib import Path


def test_an_existing_file_is_refused_without_force(tmp_path: Path) -> None:
    path = tmp_path / "out"
    check_new(path, force=False)
    check_new(None, force=False)
    write_output(path, "é")
    assert path.read_bytes() == "é".encode()
    check_new(path, force=True)
    with pytest.raises(click.UsageError, match="already exists; use --force"):
        check_new(path, force=False)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="out cannot be written: No such file"):
        write_output(tmp_path / "missing" / "out", "text")
