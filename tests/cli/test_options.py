"""Options that several commands share, and consent: a prompt on a terminal, `--yes` elsewhere."""

from __future__ import annotations

import ast
import os
import pty
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.exceptions import Exit
from click.testing import CliRunner
from source_tree import REPOSITORY

from lakeconf.cli.app import COMMANDS, commands, run
from lakeconf.cli.options import Selection, config_option, confirm, format_option, models_options

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@models_options
def models_command(**given: Any) -> None:
    click.echo(repr(given))


@click.command()
@format_option
@config_option
def plain_command(**given: Any) -> None:
    click.echo(repr(given))


def parsed(command: click.Command, *arguments: str) -> dict[str, Any]:
    found = CliRunner().invoke(command, arguments)
    assert found.exit_code == 0, found.output
    values: dict[str, Any] = eval(found.output, {"datetime": __import__("datetime"), "Selection": Selection})  # noqa: S307 - printed above
    return values


def test_defaults() -> None:
    assert parsed(plain_command) == {"format_name": "text", "source": None}
    assert parsed(models_command) == {
        "models": Selection(),
        "store": None,
        "request": {"since": None, "until": None, "redo_late": False, "rebuild": False},
        "format_name": "text",
        "source": None,
    }


def test_values() -> None:
    given = parsed(
        models_command, "a.b", "--store", "prod", "--from", "2024-01-01", "--to", "2024-01-02T03:04:05", "+raw.*",
        "tag:x", "--exclude", "c.d", "--exclude", "e.f+",
        "--redo-late", "--rebuild", "--format", "json", "--config", "x.toml",
    )  # fmt: skip
    assert given == {
        "models": Selection(("a.b", "+raw.*", "tag:x"), ("c.d", "e.f+")),
        "store": "prod",
        "request": {
            "since": datetime(2024, 1, 1),
            "until": datetime(2024, 1, 2, 3, 4, 5),
            "redo_late": True,
            "rebuild": True,
        },
        "format_name": "json",
        "source": "x.toml",
    }
    assert parsed(models_command, "--to", "2024-01-02 03:04:05")["request"]["until"] == datetime(2024, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "arguments", [["--from", "01.01.2024"], ["--to", "2024-01-01T03"], ["--to", "2024-13-01"], ["--format", "yaml"]]
)
def test_invalid_values(arguments: list[str]) -> None:
    found = CliRunner().invoke(models_command, arguments)
    assert found.exit_code == 2
    assert f"Invalid value for '{arguments[0]}'" in found.output


@pytest.mark.parametrize("command", ["preview-sql", "stores", "validate"])
def test_config_option_selects_the_file(command: str, run_in_stores: Any, project: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lakeconf.toml").write_text((project / "lakeconf.toml").read_text().partition("\n[stores.prod")[0])
    for path in (elsewhere, elsewhere / "lakeconf.toml"):
        assert run_in_stores(command, "--config", str(path))[0] == 0
    assert run_in_stores(command, "--config", str(elsewhere / "no.toml"))[0] == 1


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
NAMES = {"--config", "--env-file", "--store", "--exclude", "--on", "--output", "--file", "--explain"}


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


def test_size_of_memory_is_checked_first(called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for size, why in (("4", "'4' is not a size"), ("0GB", "'0GB' must be more than 0")):
        code, _, err = called("maintain", "--memory-limit", size)
        assert (code, f"Invalid value for '--memory-limit': {why}; write a size such as 4GB." in err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "sub", "stores"],
        ["stores", "--config", "sub"],
        ["--config", "missing", "stores", "--config", "sub"],
    ],
)
def test_options_are_found_before_and_after_the_command(
    arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project / "sub"
    folder.mkdir()
    text = (project / "lakeconf.toml").read_text()
    (folder / "lakeconf.toml").write_text(text.replace("dev", "of_sub"))
    assert run(arguments) == 0
    assert "of_sub" in capsys.readouterr().out


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


def test_without_a_terminal_the_exit_code_is_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answers").write_text("y\n")
    with (tmp_path / "answers").open() as answers:
        monkeypatch.setattr(sys, "stdin", answers)
        with pytest.raises(click.UsageError, match="read the plan above, then pass --yes") as caught:
            confirm("Delete it?", yes=False)
    assert caught.value.exit_code == 2


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
