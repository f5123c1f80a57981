"""Errors in the SQL of models: their place, the line, and what is never shown."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from lakeconf.errors import PipelineError, UnknownNameError
from lakeconf.pipelines.models.body import ModelSqlError, ModelText, Query, query_error
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

START = "the SQL is not a single DuckDB query: "


def refused(text: str, path: Path | None = None, secrets: tuple[Secret, ...] = ()) -> ModelSqlError:
    with pytest.raises(PipelineError) as caught:
        _ = Query(text, path, secrets=secrets).parsed
    assert isinstance(caught.value, ModelSqlError)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("SELECT 1\nFROM (planted", "syntax error at end of input", 2, 14),
        ("SELECT '日本語' AS a\n\tb c", "syntax error", 2, 2),
        ("SELECT 'é'\n, 'planted", "unterminated quoted string", 2, 3),
        ('SELECT """\n\n""", "planted', "unterminated quoted identifier", 3, 6),
        ("SELECT 1 /* planted", "unterminated /* comment", 1, 10),
        ("SELEC 1", "syntax error", 1, 1),
    ],
)
def test_syntax_error_has_the_place_that_duckdb_finds(text: str, reason: str, line: int, column: int) -> None:
    error = refused(text)
    assert (error.problem.line, error.problem.column) == (line, column)
    first, source, caret = error.message.split("\n")
    assert first == f"the SQL, line {line}, column {column}: {START}{reason}"
    assert source.startswith(f"  {line} | ")
    assert caret.index("^") >= len(f"  {line} | ") + column - 1


def test_place_is_in_the_file_relative_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused("SELECT (", tmp_path / "a.sql")
    assert error.message.startswith(f"a.sql:1:9: {START}syntax error at end of input\n  1 | SELECT (\n")
    assert error.problem.file == tmp_path / "a.sql"


@pytest.mark.parametrize("name", ["t.env", ".env", "linked.sql"])
def test_text_of_other_files_is_not_shown(name: str, tmp_path: Path) -> None:
    """A configuration of someone else may name a file with secrets as SQL."""
    (tmp_path / "key.pem").write_text("KEY=planted")
    (tmp_path / "linked.sql").symlink_to(tmp_path / "key.pem")
    for text in ("KEY planted planted", "KEY 'planted", "SELECT 'planted"):
        error = refused(text, tmp_path / name)
        assert error.message.endswith(f": {START}it cannot be parsed")
        assert "planted" not in repr(error.problem)


def test_line_with_a_secret_is_not_shown() -> None:
    secret = Secret("hunter2-and-more")
    error = refused("SELECT 1,\n'hunter2-and-more' (", None, (secret,))
    assert (error.problem.line, error.problem.excerpt) == (2, None)
    assert "hunter2" not in str(error)
    several = Secret("first line\nsecond line")
    assert refused("SELECT 'first line\nsecond line' (", None, (several,)).problem.excerpt is None
    assert refused("SELECT 'hunter2-and-more',\n1 (", None, (secret,)).problem.excerpt is not None
    assert "hunter2" not in repr(Query("SELECT 1", secrets=(secret,)))


def test_statements_that_are_not_one_query_have_a_reason() -> None:
    assert refused("SELECT 1; SELECT 2").message == f"{START}there are several"
    assert refused("DELETE FROM planted").message.startswith(f"{START}it is no SELECT")
    assert refused("DESCRIBE planted").message == "the SQL describes tables, and has no rows of them"
    assert refused("").hint == "write SELECT … FROM …"


@pytest.mark.parametrize(
    ("text", "name", "column"),
    [
        ("SELECT read_csv FROM read_csv('x.csv')", "read_csv", 22),
        ("FROM glob ('*')", "glob", 6),
        ("FROM \"Read_CSV\"('x')", "read_csv", 6),
        ("SELECT * FROM repeat('a', 3)", "repeat", 15),
        ("SELECT * FROM raw.t, query_table('raw.t')", "query_table", 22),
    ],
)
def test_function_is_no_input(text: str, name: str, column: int) -> None:
    problem = refused(text).problem
    assert (problem.message.lower(), problem.line, problem.column) == (
        f"the function {name} is not an input of a model",
        1,
        column,
    )


def test_error_can_be_pickled() -> None:
    error = refused("SELECT (")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.problem) == (str(error), error.problem)


def test_query_error_keeps_its_class_and_names_tables() -> None:
    given = UnknownNameError(
        "Binder Error: no x in view_1!\nCandidates: view_1.y\n\nLINE 1: SELECT …\n  ^", hint="look"
    )
    error = query_error(ModelText("SELECT x\nFROM t", None), given, 7, {"view_1": "raw.t"})
    assert (type(error), error.hint) == (UnknownNameError, "look")
    assert error.message == (
        "the SQL, line 1, column 8: Binder Error: no x in raw.t!\n  1 | SELECT x\n    |        ^\nCandidates: raw.t.y"
    )
