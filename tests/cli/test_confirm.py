"""Consent: a prompt on a terminal, `--yes` elsewhere, exit code 2 without either."""

from __future__ import annotations

import os
import pty
import sys
from typing import TYPE_CHECKING

import pytest
from click.exceptions import Exit

from lakeconf.cli.options import ConsentRequired, confirm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Replaces stdin by a terminal; yields the file descriptor that sends its input."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield master
    os.close(master)


def test_yes_skips_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    confirm("Delete it?", yes=True)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answers").write_text("y\n")
    with (tmp_path / "answers").open() as answers:
        monkeypatch.setattr(sys, "stdin", answers)
        with pytest.raises(ConsentRequired) as caught:
            confirm("Delete it?", yes=False)
    assert caught.value.exit_code == 2
    caught.value.show()
    assert "hint: read the plan above, then pass --yes" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [("y", None), ("n", 1), ("", 1)])
def test_prompt_on_a_terminal(answer: str, code: int | None, terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(terminal, f"{answer}\n".encode())
    if code is None:
        confirm("Delete it?", yes=False)
    else:
        with pytest.raises(Exit) as caught:
            confirm("Delete it?", yes=False)
        assert caught.value.exit_code == code
    shown = capsys.readouterr().err
    assert "Delete it? [y/N]" in shown
    assert ("nothing was changed" in shown) == (code is not None)
