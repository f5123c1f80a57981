"""`.env` files: python-dotenv reads them, variables of the process take precedence, and errors show no value."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakeconf.cli.app import run
from lakeconf.cli.options import env_variables
from lakeconf.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_references_are_not_resolved(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# a comment\nexport A='a # $Y'\nB=${A}$(ls) # b\nC=\"x\\ny\"\n")
    assert env_variables(tmp_path / ".env") == {"A": "a # $Y", "B": "${A}$(ls)", "C": "x\ny"}


def test_invalid_lines_and_missing_files_are_errors_that_show_no_value(tmp_path: Path) -> None:
    for line in ("planted", "X='planted", "X='planted' y", "=planted", "X=planted\0"):
        (tmp_path / ".env").write_text(f"A=1\n{line}\nB=2\n")
        with pytest.raises(ConfigError) as raised:
            env_variables(tmp_path / ".env")
        ((problem,),) = [raised.value.problems]
        assert (problem.file, problem.line, problem.code) == (tmp_path / ".env", 2, "LC002")
        assert "planted" not in repr(raised.value) + str(raised.value)
    with pytest.raises(ConfigError, match="file not found"):
        env_variables(tmp_path / "missing")


def test_variables_are_set_until_the_command_ends(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project / "sub"
    folder.mkdir()
    (folder / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text().replace("dev", "of_sub"))
    (project / "variables").write_text("LAKECONF_CONFIG=sub\n")
    assert run(["--env-file", "variables", "stores"]) == 0
    assert "of_sub" in capsys.readouterr().out
    assert "LAKECONF_CONFIG" not in os.environ
    monkeypatch.setenv("LAKECONF_CONFIG", str(project))
    assert run(["--env-file", "variables", "stores"]) == 0
    assert "of_sub" not in capsys.readouterr().out
    assert os.environ["LAKECONF_CONFIG"] == str(project)
