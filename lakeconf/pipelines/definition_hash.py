"""Hashes definitions of models by their parsed code, so that comments do not count."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeconf.catalog.query_text import parsed
from lakeconf.errors import PipelineError

_DIGITS = 16
# In Python 3.11, threads that parse at the same time can fail with a SystemError.
_parsing = threading.Lock()


def digest(*parts: str) -> str:
    """Returns a hash of strings, in hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]


def file_digest(path: Path) -> str:
    """Returns a hash of a file's content, in hexadecimal digits."""
    if not path.is_file():
        raise PipelineError(f"file not found: {path}", hint="write the path relative to the folder of the model")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def sql_code(text: str) -> str:
    """Returns SQL in DuckDB's dialect without comments and line breaks."""
    return "; ".join(
        statement.sql(dialect="duckdb", comments=False) for statement in parsed(text) if statement is not None
    )


def loaded_source(function: Callable[..., Any]) -> str | None:
    """Returns the source of a function; None if it is unavailable, as in an interactive session.

    Read it when the function is loaded: its file may change later, and then contains the code of another function.
    """
    try:
        lines, _ = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    return "".join(lines)


def function_code(function: Callable[..., Any], source: str | None) -> str:
    """Returns the code of a function without decorators, docstring and comments."""
    if source is None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise PipelineError(f"the source of {name} is unavailable", hint="write the model in a file")
    try:
        parsed = _parsed(textwrap.dedent(source))
    except SyntaxError:
        return source.strip()  # the lines of a lambda, which may be a part of an expression
    return _code(parsed.body[0])


def codes_on_disk(path: Path, name: str) -> list[str]:
    """Returns the current code of each function with this name in a file; none if the file is no longer valid."""
    try:
        parsed = _parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [_code(node) for node in ast.walk(parsed) if getattr(node, "name", None) == name]


def _parsed(source: str | bytes) -> ast.Module:
    with _parsing:
        return ast.parse(source)


def _code(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        node.decorator_list = []
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(node)
