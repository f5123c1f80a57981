"""`--config` and `--env-file`, before and after the name of a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeconf.cli.app import run


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "sub", "stores"],
        ["stores", "--config", "sub"],
        ["--config", "missing", "stores", "--config", "sub"],
        ["--env-file", "variables", "stores"],
        ["stores", "--env-file", "variables"],
    ],
)
def test_options_are_found_before_and_after_the_command(
    arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project / "sub"
    folder.mkdir()
    text = (project / "lakeconf.toml").read_text()
    (folder / "lakeconf.toml").write_text(text.replace("dev", "of_sub"))
    (project / "variables").write_text("LAKECONF_CONFIG=sub\n")
    assert run(arguments) == 0
    assert "of_sub" in capsys.readouterr().out
    assert "LAKECONF_CONFIG" not in os.environ


def test_variables_of_the_process_are_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "variables").write_text("LAKECONF_CONFIG=missing\n")
    monkeypatch.setenv("LAKECONF_CONFIG", str(project))
    assert run(["--env-file", "variables", "stores"]) == 0
    assert os.environ["LAKECONF_CONFIG"] == str(project)


def test_a_missing_file_of_variables_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--env-file", "missing", "stores"]) == 1
    assert "missing: file not found" in capsys.readouterr().err
