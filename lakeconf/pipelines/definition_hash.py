"""What tells two definitions of a model apart: their parsed code, so that a comment changes nothing."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlglot

from lakeconf.errors import PipelineError

_DIGITS = 16


def digest(*parts: str) -> str:
    """A hash of texts, in hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]


def file_digest(path: Path) -> str:
    """A hash of a file's bytes.

    Raises:
        PipelineError: It is not there.
    """
    if not path.is_file():
        raise PipelineError(f"there is no file {path}", hint="paths of a model start in its own folder")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def sql_code(text: str) -> str:
    """SQL without its comments and line breaks, as DuckDB would be given it."""
    return "; ".join(
        statement.sql(dialect="duckdb", comments=False)
        for statement in sqlglot.parse(text, dialect="duckdb")
        if statement is not None
    )


def function_code(function: Callable[..., Any]) -> str:
    """The code of a function as it is loaded, without its decorators, docstring and comments.

    Raises:
        PipelineError: Its source is not known, as in an interactive session.
    """
    try:
        lines, _ = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise PipelineError(
            f"the source of {function.__qualname__} is not known", hint="write the model in a file"
        ) from error
    return _code(ast.parse(textwrap.dedent("".join(lines))).body[0])


def codes_on_disk(path: Path, name: str) -> list[str]:
    """The code of each function of this name in a file as it is now."""
    return [_code(node) for node in ast.walk(ast.parse(path.read_text())) if getattr(node, "name", None) == name]


def _code(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        node.decorator_list = []
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(node)
