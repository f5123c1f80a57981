"""Errors of DuckDB by type, their places and their messages."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import duckdb
import pytest
from source_tree import sources

from lakeconf.connection.connection import Connection, connect
from lakeconf.connection.duckdb_errors import Reported, place_of, reported
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The modules that translate the errors of another program, and that program.
TRANSLATORS = {
    "lakeconf.connection.duckdb_errors": "DuckDB",
    "lakeconf.catalog.stored_queries": "DuckDB: the name of a table that does not exist",
    "lakeconf.config.file": "tomllib, which has no codes",
    "lakeconf.config.read_store": "backends, also of third parties: which key of the configuration an error names",
    "lakeconf.pipelines.models.body": "DuckDB: the place of an error in a query",
    "lakeconf.engines.spark.write.storage": "Spark",
}
TEXTS = {"message", "args", "strerror", "__notes__"}
MATCHES = {"search", "match", "fullmatch", "findall", "finditer", "startswith", "endswith", "removeprefix", "count"}
MATCHES |= {"removesuffix", "partition", "rpartition", "find", "index"}


def errors_of(function: ast.AST) -> set[str]:
    """Names of exceptions: those of handlers, and of parameters annotated with an exception type."""
    names = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.annotation is not None:
            type_ = ast.unparse(node.annotation)
            if type_.split(" ")[0].split(".")[-1].endswith(("Error", "Exception")):
                names.add(node.arg)
    return names


def is_text(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    """True if a part of an expression is the text of an exception."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in TEXTS and ast.unparse(inner.value) in errors:
            return True
        shown = inner.args if isinstance(inner, ast.Call) and ast.unparse(inner.func) in ("str", "repr") else []
        if any(ast.unparse(argument) in errors for argument in shown):
            return True
        if isinstance(inner, ast.Name) and inner.id in texts:
            return True
    return False


def matched_texts(source: str) -> Iterator[int]:
    """Line numbers of code that matches the text of an exception."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        errors, texts = errors_of(function), set[str]()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and is_text(node.value, errors, texts):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq | ast.NotEq):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MATCHES:
                parts = [node.func.value, *node.args]
            else:
                continue
            if any(is_text(part, errors, texts) for part in parts):
                yield node.lineno


def test_errors_are_distinguished_by_type() -> None:
    found = {name: list(matched_texts(path.read_text())) for name, path in sources().items() if name not in TRANSLATORS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_check_finds_text_matching_and_permits_showing_a_text() -> None:
    tried = "try:\n        work()\n    except {} as error:\n        {}"
    for body in (
        tried.format("ValueError", "if 'locked' in str(error): pass"),
        tried.format("LakeconfError", "if error.message.endswith('x'): pass"),
        tried.format("LakeconfError", "text = error.message\n        PATTERN.search(text)"),
        "return bool(re.search('404', str(found)))",
        "return found.args[0] == '404'",
    ):
        assert list(matched_texts(f"def run(found: LakeconfError) -> bool:\n    {body}\n")), body
    shown = "return f'failed: {error.message}' + str(error).splitlines()[0]"
    assert list(matched_texts(f"def run(error: LakeconfError) -> str:\n    {shown}\n")) == []


def failing(connection: Connection, sql: str) -> LakeconfError:
    relation = connection.relation(sql)
    with pytest.raises(LakeconfError) as caught, connection.errors(), connection.errors_with_places():
        relation.query("lakeconf_rows", "CREATE TABLE memory.main.lakeconf_t AS SELECT a FROM lakeconf_rows")
    return caught.value


def test_place_is_that_in_the_relation_and_the_message_has_no_statement() -> None:
    with connect() as connection:
        error = failing(connection, "SELECT 'é', CAST('x' || range AS INT) AS a FROM range(3)")
        assert error.message.startswith("Conversion Error: Could not convert string 'x")
        assert "lakeconf_t" not in str(error)
        assert "\n" not in error.message
        assert place_of(error) == len("SELECT 'é', ".encode())
        # Other errors are as before.
        with pytest.raises(duckdb.Error, match="LINE 1: SELECT nope"):
            connection.native.execute("SELECT nope")
        error = failing(connection, "SELECT 9223372036854775807 + range AS a FROM range(3)")
    assert place_of(error) is place_of(ValueError()) is None
    assert error.message.startswith("Out of Range Error: Overflow")


def test_errors_in_json() -> None:
    placed = 'Parser Error: {"exception_message":"at {a}: b","position":"12"}'
    assert reported(placed) == Reported("Parser Error", "at {a}: b", 12)
    for text in ('Error: {"exception_message":"no"}', 'Error: {"exception_message":"no","position":"x"}'):
        assert reported(text) == Reported("Error", "no", None)
    for text in ("Binder Error: x", 'Error: {"position": "1"}', "Error: {}", "Error: {[", "{1}"):
        assert reported(text) is None
