"""Errors in the SQL of a model, with file, line, column and the line itself."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

from lakeconf.config.codes import Code
from lakeconf.config.excerpt import drawn
from lakeconf.connection.closed import closed_connection
from lakeconf.connection.error_places import reported
from lakeconf.errors import LakeconfError, PipelineError, Problem
from lakeconf.pipelines.places import shown_place
from lakeconf.secret import Secret, scrub

# A configuration may name any file as SQL: only lines of files that end in this are shown.
_ENDING = ".sql"
# DuckDB quotes the text from the error to the end of the file after these words.
_QUOTE = " at or near "


class ModelSqlError(PipelineError):
    """The SQL of a model is not a single query.

    Attributes:
        problem: The problem with its place; without a place if it is unknown.
    """

    def __init__(self, problem: Problem) -> None:
        place = shown_place(problem.file, problem.line, problem.column)
        text = f"{place}: {problem.message}" if place else problem.message
        super().__init__("\n".join(filter(None, (text, problem.excerpt))), hint=problem.hint)
        self.problem = problem


@dataclass(frozen=True)
class ModelText:
    """The text of a model in SQL.

    Attributes:
        text: The SQL.
        path: The file that contains it; None for SQL in Python.
        secrets: Values that are never shown.
    """

    text: str
    path: Path | None
    secrets: Sequence[Secret] = ()

    @property
    def is_shown(self) -> bool:
        """True if the text may be shown."""
        return self.path is None or self.path.resolve().suffix.lower() == _ENDING

    def problem(self, message: str, offset: int | None = None, *, hint: str | None = None) -> Problem:
        """Creates a problem at an offset; None if the place is unknown."""
        file = None if self.path is None else self.path.absolute()
        if offset is None:
            return Problem(Code.WRONG_VALUE.code, message, hint, file=file)
        line, column = self.line_and_column(offset)
        return Problem(
            Code.WRONG_VALUE.code, message, hint, file=file, line=line, column=column, excerpt=self.excerpt(offset)
        )

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Returns the 1-based line and column of an offset."""
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def excerpt(self, offset: int) -> str | None:
        """Returns the line of an offset with a caret below it; None if the line may contain a secret."""
        line, column = self.line_and_column(offset)
        lines, masked = self.text.split("\n"), scrub(self.text, self.secrets).split("\n")
        if not self.is_shown or len(lines) != len(masked) or lines[line - 1] != masked[line - 1]:
            return None
        return drawn(line, lines[line - 1][: column - 1], lines[line - 1][column - 1 :])


def syntax_error(source: ModelText, error: Exception) -> ModelSqlError:
    """Returns the error for SQL that sqlglot cannot parse.

    Args:
        source: The SQL.
        error: The error of sqlglot.
    """
    found = _of_duckdb(source.text) or _of_sqlglot(source.text, error)
    reason, offset = found if found is not None else ("it cannot be parsed", None)
    shown = reason if source.is_shown else "it cannot be parsed"
    return ModelSqlError(source.problem(f"the SQL is not a single DuckDB query: {shown}", offset))


def function_problem(source: ModelText, function: exp.Expression) -> Problem:
    """Returns the problem of a query that reads a function such as `read_csv`, which is no input of a model.

    Args:
        source: The SQL.
        function: The function.
    """
    name = function.name if isinstance(function, exp.Anonymous) else function.key
    wanted = {name.lower(), function.sql_name().lower()} if isinstance(function, exp.Func) else {name.lower()}
    tokens = itertools.pairwise(sqlglot.tokenize(source.text, dialect="duckdb"))
    found = [one for one, after in tokens if after.text == "(" and one.text.strip('"').lower() in wanted]
    shown = found[0].text if found else name
    return source.problem(
        f"the function {shown} is not an input of a model",
        found[0].start if found else None,
        hint='read a table: a model of kind = "append" loads files; only range and generate_series are allowed',
    )


def query_error(source: ModelText, error: LakeconfError, offset: int, views: Mapping[str, str]) -> LakeconfError:
    """Returns an error of DuckDB about a model's query with its place in the model.

    Args:
        source: The SQL.
        error: The error.
        offset: The place of the error in the SQL.
        views: The inputs of the query by the names of their temporary views, which the message may contain.
    """
    first, _, rest = error.message.partition("\n\nLINE ")[0].partition("\n")
    lines = [f"{shown_place(source.path, *source.line_and_column(offset))}: {first}", source.excerpt(offset), rest]
    message = "\n".join(filter(None, lines))
    for view, table in views.items():
        message = message.replace(view, table)
    return type(error)(message, hint=error.hint)


def _of_duckdb(text: str) -> tuple[str, int] | None:
    """The reason and the offset of the error that DuckDB's parser finds; None if it finds none."""
    with closed_connection(errors_as_json=True) as connection:
        try:
            connection.extract_statements(text)
        except duckdb.Error as error:
            found = reported(str(error))
            if found is None or found.position is None or not 0 <= found.position <= len(text):
                return None
            return found.message.partition(_QUOTE)[0], found.position
    return None


def _of_sqlglot(text: str, error: Exception) -> tuple[str, int] | None:
    """The reason and the offset of the error that sqlglot finds: DuckDB's grammar is larger than sqlglot's."""
    if not isinstance(error, sqlglot.errors.ParseError) or not error.errors:
        return None
    first = error.errors[0]
    # The line of sqlglot is wrong after some tokens with several lines, unlike the text before and after the place.
    before = str(first.get("start_context") or "")
    around = f"{before}{first.get('highlight') or ''}{first.get('end_context') or ''}"
    if not around or text.count(around) != 1:
        return None
    return "lakeconf cannot parse this", text.index(around) + len(before)
