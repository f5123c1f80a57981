"""The command line: options, .env files, output, logs, Ctrl-C and exit codes of the commands, and docs/cli.md."""

from __future__ import annotations

import ast
import copy
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import pytest
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli import app, main
from lakeconf.cli.app import COMMANDS, GROUPS, SYNONYMS, commands, run
from lakeconf.cli.options import env_variables
from lakeconf.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_errors_go_to_stderr_without_a_traceback(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("preview-sql", "--store", "prod")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "lakeconf.toml:13:1: stores.prod.metadata_backend.host: the variable PGHOST is not set [LC030]",
        "  13 | host = …",
        "     | ^",
        "  hint: export PGHOST=…; a value that is no secret can have a default: ${PGHOST:-…}",
        "lakeconf.toml:16:1: stores.prod.metadata_backend.password: the variable PGPASSWORD is not set [LC030]",
        "  16 | password = …",
        "     | ^",
        "  hint: export PGPASSWORD=…; a value that is no secret can have a default: ${PGPASSWORD:-…}",
    ]


@pytest.mark.parametrize(
    "command", ["preview-sql", "validate", "doctor", "tables", "sql FROM", "verify raw.t", "stores", "maintain"]
)
def test_unknown_store(command: str, run_in_stores: Any) -> None:
    option = () if command == "stores" else ("--store",)
    code, out, err = run_in_stores(*command.split(), *option, "prdo")
    assert (code, out) == (1, "")
    assert 'did you mean "prod"? use one of the stores: dev, prod, staging' in err


def test_no_configuration(run_in_stores: Any, project: Path) -> None:
    (project / "lakeconf.toml").unlink()
    for command in (["preview-sql"], ["stores"]):
        code, out, err = run_in_stores(*command)
        assert (code, out) == (1, "")
        assert f"was found in {project}" in err
    code, out, err = run_in_stores("validate")
    assert (code, err) == (1, "")
    assert "LC001" in out


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command: str, run_in_stores: Any) -> None:
    for flag in ("-h", "--help"):
        code, out, err = run_in_stores(command, flag)
        assert (code, err) == (0, "")
        assert out.startswith(f"Usage: lakeconf {command} ")


def test_help_lists_every_command_in_one_line(run_in_stores: Any) -> None:
    code, out, _ = run_in_stores("--help")
    assert code == 0
    listed = [
        line for heading in GROUPS for line in out.partition(f"\n{heading}:\n")[2].partition("\n\n")[0].splitlines()
    ]
    assert sorted(line.split()[0] for line in listed) == sorted(COMMANDS)
    assert all(line.endswith(".") and "..." not in line for line in listed)
    assert run_in_stores("--version")[1].startswith("lakeconf 0.")


def test_misspelt_command_or_option_is_a_usage_error(run_in_stores: Any) -> None:
    for arguments, message in (
        (("preview_sql",), 'did you mean "preview-sql"?'),
        (("preview-sql", "--potable"), "--potable"),
        (("nonsense",), "nonsense"),
        (("export",), "\n  dagster,\n  dbt,"),
    ):
        code, out, err = run_in_stores(*arguments)
        assert (code, out, message in err, "\\x09" in err) == (2, "", True, False)


OF_A_STORE = {
    "preview-sql prod": 2,
    "validate prod": 2,
    "doctor prod": 2,
    "export prod": 2,
    "export dbt prod": 2,
    "grants prod --role reader": 2,
    "sql prod": 1,
    "sql SELECT prod": 2,
    "tables prod": 1,
    "tables main.t prod": 2,
    "snapshots prod": 2,
    "history prod": 1,
    "history main.t prod": 2,
    "verify prod": 1,
    "report prod": 2,
    "metrics prod": 2,
    "load prod": 2,
    "adopt . --table t prod": 2,
    "maintain prod --dry-run": 2,
    "backup prod --to x": 2,
    "backups prod --in x": 2,
    "restore-lake prod": 1,
    "restore prod --version 0": 1,
    "undo prod": 1,
    "plan prod": 1,
    "run prod": 1,
}
# `init` and `stores` use no store; `diff`, `copy` and `move` have stores as arguments; `test` and `graph` open none.
WITHOUT_STORE = {"init", "stores", "diff", "copy", "move", "branch", "test", "graph"}


@pytest.mark.parametrize("line", OF_A_STORE)
def test_store_as_an_argument_is_an_error_that_names_the_option(line: str, run_in_stores: Any) -> None:
    code, _, err = run_in_stores(*line.split())
    assert (code, "pass --store prod to use the store prod" in err) == (OF_A_STORE[line], True), err
    with_option = run_in_stores(*line.replace(" prod", "").split(), "prdo", "--store", "prod")[2]
    assert "to use the store" not in with_option


def test_each_command_with_a_store_proposes_the_option() -> None:
    root = click.Context(commands)
    tested = {line.split()[0] for line in OF_A_STORE}
    having = {
        name
        for name, command in commands_by_name(root).items()
        if any("--store" in parameter.opts for parameter in command.params)
    }
    assert (having, COMMANDS.keys() - tested) == (tested, WITHOUT_STORE)


def test_unknown_command_is_answered_with_those_that_exist(run_in_stores: Any) -> None:
    for word, command in (("rollback", "undo"), ("log", "snapshots"), ("query", "sql"), ("import", "load")):
        code, out, err = run_in_stores(word)
        assert (code, out, f'no such command {word!r}, did you mean "{command}"?' in err) == (2, "", True), err
    for word in ("show", "nonsense", "prod"):
        code, out, err = run_in_stores(word)
        assert (code, out) == (2, "")
        assert f"no such command {word!r}, use one of: {', '.join(COMMANDS)}" in err
    assert set(SYNONYMS.values()) <= COMMANDS.keys()
    assert not SYNONYMS.keys() & COMMANDS.keys()


def test_closed_output_pipe_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m lakeconf export json-schema | head -n 1"
    result = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command], cwd=project, capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("{\n", "")


HEAD = """# Command line

The help of every command. [Options of several commands](#options-of-several-commands) are listed once, at the end.
"""

EVERYWHERE = {"--config", "--env-file", "--verbose", "--debug"}


def commands_by_name(root: click.Context) -> dict[str, click.Command]:
    return {name: command for name in COMMANDS if (command := commands.get_command(root, name)) is not None}


def options_of(command: click.Command, root: click.Context) -> list[tuple[str, str]]:
    """The help of the options that only some commands have."""
    own = (each for each in command.params if isinstance(each, click.Option) and not EVERYWHERE & set(each.opts))
    return [record for each in own if (record := each.get_help_record(root))]


def section(name: str, command: click.Command, shared: set[tuple[str, str]], root: click.Context) -> str:
    """One command as a section of the page."""
    own = copy.copy(command)
    shown = [record for record in options_of(command, root) if record not in shared]
    own.params = [
        each for each in command.params if isinstance(each, click.Argument) or each.get_help_record(root) in shown
    ]
    own.add_help_option = False
    context = click.Context(own, info_name=name, parent=root, terminal_width=100)
    return f"### `lakeconf {name}`\n\n```text\n{own.get_help(context)}\n```\n"


def test_page_contains_the_help_of_every_command(check_golden: Callable[[Path, str], None]) -> None:
    root = click.Context(commands, info_name="lakeconf", terminal_width=100, **commands.context_settings)
    found = commands_by_name(root)
    times = Counter(record for command in found.values() for record in options_of(command, root))
    shared = [record for record in times if times[record] > 1]
    formatter = click.HelpFormatter(width=100)
    formatter.write_dl(sorted(shared))
    # The headings of the page are the groups of commands.
    options, _, listed = commands.get_help(root).partition("\n\nStart:")
    _, _, end = listed.rpartition("\n\n")
    sections = [f"```text\n{options}\n\n{end}\n```\n"]
    for heading, names in GROUPS.items():
        sections += [f"## {heading}\n", *(section(name, found[name], set(shared), root) for name in names)]
    sections += [f"## Options of several commands\n\n```text\n{formatter.getvalue()}```\n"]
    check_golden(REPOSITORY / "docs" / "cli.md", "\n".join([HEAD, *sections]))


@pytest.fixture
def a_lake(project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"})


def test_verbose_logs_to_stderr_in_any_position_and_once(a_lake: None, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["-v", "tables"], ["tables", "-v"], ["tables", "--verbose"], ["-v", "--debug", "tables", "-v", "--debug"],
    ):  # fmt: skip
        assert app.run(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err.count("INFO    lakeconf.lake: opened dev at snapshot") == 1
        assert "opened dev" not in shown.out


def test_logging_is_restored_after_each_command_and_debug_shows_a_traceback(
    a_lake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("lakeconf")
    handlers, level = list(logger.handlers), logger.level
    for arguments in (["--debug", "tables", "-v"], ["tables"]):
        capsys.readouterr()
        assert app.run(arguments) == 0
    assert capsys.readouterr().err == ""
    assert (list(logger.handlers), logger.level) == (handlers, level)
    assert app.run(["--debug", "tables", "--store", "nowhere"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert shown.count("nowhere") >= 2
    assert app.run(["-v", "tables", "--store", "nowhere"]) == 1
    assert "Traceback" not in capsys.readouterr().err


LONG_QUERY = "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b"

# The process sends itself the signal once the named function has started and used some CPU time.
INTERRUPTED = """\
import importlib, os, signal, sys, threading, time

signal.signal(signal.SIGINT, signal.default_int_handler)
module, name, attribute, seconds = sys.argv.pop(1).split(":")
begun = threading.Event()

def interrupt():
    begun.wait()
    used = time.process_time()
    while time.process_time() < used + float(seconds):
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)

owner = getattr(importlib.import_module(module), name)
call = getattr(owner, attribute)

def watched(*arguments, **options):
    begun.set()
    return call(*arguments, **options)

setattr(owner, attribute, watched)
threading.Thread(target=interrupt, daemon=True).start()
from lakeconf.cli import main
sys.exit(main())
"""


def interrupted(point: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", INTERRUPTED, point, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("query", [LONG_QUERY, LONG_QUERY.replace("count(*)", "*")])
def test_ctrl_c_stops_a_long_query(query: str, project: Path) -> None:
    lakeconf.init().get_store().open().close()
    done = interrupted("lakeconf.connection.connection:Connection:named_rows:0.5", "sql", query, "--format", "csv")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_second_ctrl_c_ends_a_command_that_waits_for_a_server(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        place = f'host = "127.0.0.1", port = {server.getsockname()[1]}, database = "d", user = "u", password = "p"'
        backend = f'{{ type = "postgres", {place} }}'
        storage = '{ type = "local", path = "data" }'
        (project / "lakeconf.toml").write_text(
            f"[stores.dev]\nmetadata_backend = {backend}\nstorage_backend = {storage}\n"
        )
        # The tests may run where this signal is ignored, as in the background of a shell.
        heard = "import signal, sys; signal.signal(2, signal.default_int_handler)"
        code = f"{heard}; from lakeconf.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "tables"]
        with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            with server.accept()[0]:  # it never gets an answer
                process.send_signal(signal.SIGINT)
                assert "press Ctrl-C again" in process.stderr.readline()
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130


def test_ctrl_c_before_the_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakeconf.cli.app.run", interrupt)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    assert main() == 130


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
NAMES = {
    "--config",
    "--env-file",
    "--store",
    "--on",
    "--output",
    "--file",
    "--explain",
    "--to",
    "--in",
    "--table",
    "--backup-to",
    "--drop",
}


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
