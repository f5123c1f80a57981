"""Errors in the SQL of models: their place, the line, and what is never shown."""

from __future__ import annotations

import pickle
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.errors import PipelineError, QueryError, UnknownNameError
from lakeconf.pipelines.models.body import ModelSqlError, Query
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


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


def test_text_of_other_files_is_not_shown(tmp_path: Path) -> None:
    """A configuration of someone else may name a file with secrets as SQL."""
    (tmp_path / "key.pem").write_text("KEY=planted")
    (tmp_path / "linked.sql").symlink_to(tmp_path / "key.pem")
    for name in ("t.env", ".env", "linked.sql"):
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


def test_function_is_no_input() -> None:
    for text, name, column in (
        ("SELECT read_csv FROM read_csv('x.csv')", "read_csv", 22),
        ("FROM glob ('*')", "glob", 6),
        ("FROM \"Read_CSV\"('x')", "read_csv", 6),
        ("SELECT * FROM repeat('a', 3)", "repeat", 15),
        ("SELECT * FROM raw.t, query_table('raw.t')", "query_table", 22),
    ):
        problem = refused(text).problem
        message = f"the function {name} is not an input of a model"
        assert (problem.message.lower(), problem.line, problem.column) == (message, 1, column)


def test_error_can_be_pickled() -> None:
    error = refused("SELECT (")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.problem) == (str(error), error.problem)


@pytest.fixture
def lake(tmp_path: Path, engine: Any) -> Iterator[Lake]:
    with store_of(tmp_path).open(engine) as lake:
        yield lake


def test_error_is_at_its_place_in_the_text(lake: Lake) -> None:
    frames = {name: lake.sql("SELECT DATE '2024-01-01' AS day") for name in ("raw.prices", "od d.x")}
    for sql in (
        "SELECT ¶nope FROM raw.prices",
        "FROM raw.prices SELECT day,\n\n\t ¶nope",
        'SELECT \'日本\', "é".day, ¶nope FROM raw.prices AS "é"',
        'SELECT day FROM raw.prices JOIN "od d".x USING (day) WHERE day > $start AND\n day < $end AND ¶nope = 1',
        "SELECT '$start' AS a, p.day FROM raw.prices p, \"od d\".x WHERE ¶p.nope > $end",
        "-- $start raw.prices nope\nWITH t AS (FROM raw.prices) SELECT /* nope */ day, ¶nope(day) FROM t",
        'SELECT (SELECT max(day) FROM "od d".x WHERE ¶nope) FROM raw.prices;',
    ):
        offset, text = sql.index("¶"), sql.replace("¶", "")
        query = Query(text)
        given = {name: frames[name] for name in query.arguments()}
        with pytest.raises(QueryError) as caught:
            query.rows(lake, given, {"start": date(2024, 1, 1), "end": date.max})
        line = text.count("\n", 0, offset) + 1
        column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        assert caught.value.message.startswith(f"the SQL, line {line}, column {column}: ")
        # Later errors are written as before.
        with pytest.raises(QueryError, match=r"^Binder Error: Ref"):
            lake.sql("SELECT nope FROM (SELECT 1 AS day)")
    with pytest.raises(UnknownNameError) as unknown:
        Query("SELECT\nnofun(day) FROM raw.prices").rows(lake, {"raw.prices": frames["raw.prices"]}, {})
    assert unknown.value.message.split("\n")[:2] == [
        "the SQL, line 2, column 1: Catalog Error: Scalar Function with name nofun does not exist!",
        "  2 | nofun(day) FROM raw.prices",
    ]
