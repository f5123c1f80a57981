"""The prompt of `lakeconf sql` on a real terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from lakeconf.cli.sql_prompt import history_file


def answers(typed: list[bytes], state: Path) -> str:
    """What a terminal shows after these keys, each typed at a prompt; the command must end without an error."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lakeconf", "sql"],
        stdin=child,
        stdout=child,
        stderr=child,
        env=os.environ | {"XDG_STATE_HOME": str(state), "TERM": "dumb", "NO_COLOR": "1"},
        start_new_session=True,
    )
    os.close(child)
    rest, shown, prompts = iter(typed), b"", 0
    with contextlib.suppress(OSError):  # Linux reports the end of the terminal as an error
        while read := os.read(parent, 4096):
            shown += read
            while shown.count(b"lakeconf> ") > prompts:
                prompts += 1
                os.write(parent, next(rest))
    os.close(parent)
    assert process.wait(60) == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_queries_run_until_the_user_leaves(events_folder: Path, tmp_path: Path) -> None:
    typed = [b"SELECT kind\nFROM raw.events ORDER BY id;\n", b"SELEC 1;\n", b"\n", b"SELECT 2 AS two\n\n", b"Exit;\n"]
    shown = answers(typed, tmp_path / "state")
    assert "\nkind\nview\nbuy\n" in shown
    assert 'error: Parser Error: syntax error at or near "SELEC"\n' in shown
    assert "\ntwo\n  2\n" in shown


def test_end_of_input_leaves(events_folder: Path, tmp_path: Path) -> None:
    assert "\none\n  1\n" in answers([b"SELECT 1 AS one;\n", b"\x04"], tmp_path)


def test_only_the_user_can_read_the_history(events_folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    for number in (1, 2):
        answers([b"SELECT %d AS n;\n" % number, b"exit\n"], state)
    file = state / "lakeconf" / "sql_history"
    assert file.read_text().splitlines() == ["SELECT 1 AS n;", "exit", "SELECT 2 AS n;", "exit"]
    assert [path.stat().st_mode & 0o077 for path in (file, file.parent)] == [0, 0]


def test_a_history_that_cannot_be_written_is_no_error(events_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "\none\n  1\n" in answers([b"SELECT 1 AS one;\n", b"exit\n"], tmp_path / "file")


def test_ctrl_c_cancels_the_query_that_is_typed(events_folder: Path, tmp_path: Path) -> None:
    code = (
        "import builtins\nfrom lakeconf.cli.sql_prompt import run_prompt\n"
        "lines = iter(['SELECT 1', KeyboardInterrupt, 'SELECT 2;', 'exit'])\n"
        "def typed(_):\n    line = next(lines)\n"
        "    if line is KeyboardInterrupt:\n        raise line\n    return line\n"
        "builtins.input = typed\nrun_prompt(print)\n"
    )
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "SELECT 2\n"


@pytest.mark.parametrize(
    ("state", "folder"), [("/state", "/state"), ("", "/homes/user/.local/state"), ("rel", "/homes/user/.local/state")]
)
def test_history_is_in_the_state_folder_of_the_user(state: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("HOME", "/homes/user")
    assert history_file() == Path(folder, "lakeconf", "sql_history")
