"""Options that several commands share, .env files, and consent: a prompt on a terminal, `--yes` elsewhere."""

from __future__ import annotations

import ast
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import pytest
from source_tree import REPOSITORY

from lakeconf.cli.app import COMMANDS, commands, run
from lakeconf.cli.options import env_variables
from lakeconf.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_no_option_is_declared_twice() -> None:
    """Copies of an option drift apart: the shared ones are in `options.py`."""
    declared = Counter(
        ast.unparse(call)
        for module in (REPOSITORY / "lakeconf" / "cli").glob("*.py")
        for call in ast.walk(ast.parse(module.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "click.option"
    )
    assert len(declared) > 20
    assert [text for text, count in declared.items() if count > 1] == []


# Options whose values are names or paths, which the command looks up before it connects.
NAMES = {"--config", "--env-file", "--store", "--on", "--output", "--file", "--explain"}


def _checked() -> list[tuple[str, str]]:
    return [
        (name, option)
        for name in COMMANDS
        if (command := commands.get_command(click.Context(commands), name)) is not None
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count
        if (option := parameter.opts[-1]) not in NAMES
    ]


@pytest.mark.parametrize(("name", "option"), _checked(), ids="".join)
def test_values_of_options_are_checked_before_anything_is_read(
    name: str, option: str, called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a folder without a configuration
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    arguments = [one for one in command.params if isinstance(one, click.Argument) and one.required]
    (tmp_path / "given.csv").write_text("id\n1\n")
    given = ["dbt" if isinstance(one.type, click.Choice) else "given.csv" for one in arguments]
    code, _, err = called(name, *given, option, "?")
    assert (code, f"Invalid value for '{option}'" in err or f"/ '{option}'" in err) == (2, True), err


def test_config_option_selects_the_file_before_and_after_the_command(project: Path, called: Any) -> None:
    folder = project / "sub"
    folder.mkdir()
    text = (project / "lakeconf.toml").read_text()
    (folder / "lakeconf.toml").write_text(text.replace("dev", "of_sub"))
    for arguments in (
        ["--config", "sub", "stores"],
        ["stores", "--config", "sub"],
        ["--config", "missing", "stores", "--config", "sub/lakeconf.toml"],
        ["preview-sql", "--config", "sub"],
        ["validate", "--config", "sub", "--store", "of_sub"],
    ):
        code, out, _ = called(*arguments)
        assert (code, "of_sub" in out or arguments[0] == "validate") == (0, True)
        assert called(*(one.replace("sub/lakeconf.toml", "sub/no").replace("sub", "no") for one in arguments))[0] == 1


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
