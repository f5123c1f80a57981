"""Hashes of definitions: comments, layout, decorators and docstrings do not count, all other code does."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import PipelineError
from lakeconf.pipelines import definition_hash
from lakeconf.pipelines.definition_hash import (
    codes_on_disk,
    digest,
    file_digest,
    function_code,
    loaded_source,
    sql_code,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = '''\
def decorated(function):
    return function


@decorated
def totals(events):
    """The totals."""
    # A comment.
    return  events.head( 1 )


def empty():
    """Only a docstring."""


class Named:
    """A class."""

    def totals(self):
        """Nested."""
        return 2


async def totals():
    """Asynchronous."""
    return 3
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(SOURCE)
    return path


def function(path: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("models_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return found


def test_digest_is_the_same_in_every_version() -> None:
    """Another digest makes every lake compute its models again."""
    assert digest("marts.t", "full") == hashlib.sha256(b"marts.t\0full").hexdigest()[:16]
    assert digest() == hashlib.sha256(b"").hexdigest()[:16]
    assert digest("é\ud7ff") == hashlib.sha256("é\ud7ff".encode()).hexdigest()[:16]


def test_digest_depends_on_the_borders_of_the_parts() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4


def test_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "seed.csv"
    path.write_bytes(b"a\r\n\xff\n")
    assert file_digest(path) == hashlib.sha256(b"a\r\n\xff\n").hexdigest()[:16]


@pytest.mark.parametrize("name", ["none.csv", "."], ids=["missing", "folder"])
def test_digest_needs_a_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        file_digest(tmp_path / name)
    assert caught.value.message == f"file not found: {tmp_path / name}"
    assert caught.value.hint == "write the path relative to the folder of the model"


@pytest.mark.parametrize(
    "text",
    [
        "select  id from raw.t",
        "SELECT id -- all\nFROM raw.t",
        "/* all */ SELECT id\nFROM raw.t;",
        "SELECT id FROM raw.t;\n-- the end",
    ],
)
def test_comments_and_layout_of_sql_do_not_count(text: str) -> None:
    assert sql_code(text).rstrip("; ") == "SELECT id FROM raw.t"


def test_code_of_sql_keeps_names_values_and_all_statements() -> None:
    assert sql_code("SELECT \"Id\" FROM raw.t WHERE a = '-- no comment'") == (
        "SELECT \"Id\" FROM raw.t WHERE a = '-- no comment'"
    )
    assert sql_code("SELECT 1; SELECT 2") == "SELECT 1; SELECT 2"
    assert sql_code("") == sql_code(";") == ""


def test_code_of_sql_is_in_the_dialect_of_duckdb() -> None:
    assert sql_code("SELECT * EXCLUDE (a) FROM t") == "SELECT * EXCLUDE (a) FROM t"
    assert sql_code("SELECT 7 // 2") == "SELECT 7 // 2"


def code(function: Callable[..., Any]) -> str:
    return function_code(function, loaded_source(function))


def test_code_of_a_function_has_no_decorator_docstring_or_comment(source: Path) -> None:
    assert code(function(source, "totals")) == "async def totals():\n    return 3"
    source.write_text(SOURCE.partition("class")[0])
    assert code(function(source, "totals")) == "def totals(events):\n    return events.head(1)"
    assert code(function(source, "empty")) == "def empty():\n    pass"


def test_nested_function_has_code() -> None:
    def nested(a: int) -> int:
        # A comment.
        return a + 1

    assert code(nested) == "def nested(a: int) -> int:\n    return a + 1"


def test_lambda_within_an_expression_has_code() -> None:
    lambdas = {
        "one": lambda frame: frame.head(1),
    }
    assert code(lambdas["one"]) == '"one": lambda frame: frame.head(1),'


def test_source_is_that_of_the_loaded_function(source: Path) -> None:
    loaded = function(source, "empty")
    before = loaded_source(loaded)
    source.write_text("# A line more.\n" + SOURCE.replace("empty", "other"))
    assert function_code(loaded, before) == "def empty():\n    pass"


def test_function_without_source_is_an_error() -> None:
    names: dict[str, Any] = {}
    exec("def typed(events):\n    return events", names)  # noqa: S102 - as in an interactive session
    for one, name in ((names["typed"], "typed"), (len, "len"), (functools.partial(len), "partial")):
        assert loaded_source(one) is None
        with pytest.raises(PipelineError) as caught:
            function_code(one, None)
        assert caught.value.message == f"the source of {name} is unavailable"
        assert caught.value.hint == "write the model in a file"


def test_codes_on_disk_are_all_functions_and_classes_of_the_name(source: Path) -> None:
    assert codes_on_disk(source, "totals") == [
        "def totals(events):\n    return events.head(1)",
        "async def totals():\n    return 3",
        "def totals(self):\n    return 2",
    ]
    (named,) = codes_on_disk(source, "Named")
    assert named.startswith("class Named:\n\n    def totals(self):")
    assert codes_on_disk(source, "nothing") == []


def test_code_on_disk_follows_the_file(source: Path) -> None:
    loaded = function(source, "empty")
    source.write_text("def empty():\n    return 9\n")
    assert codes_on_disk(source, loaded.__name__) == ["def empty():\n    return 9"]


@pytest.mark.parametrize("text", [None, b"def empty(:\n", b"\xff", b"\0"], ids=["deleted", "syntax", "encoding", "NUL"])
def test_file_that_is_no_longer_valid_has_no_code(text: bytes | None, source: Path) -> None:
    source.unlink()
    if text is not None:
        source.write_bytes(text)
    assert codes_on_disk(source, "empty") == []


def test_threads_parse_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python 3.11, threads that parse at the same time can fail with a SystemError."""
    parse: Any = ast.parse
    held: list[bool] = []

    def watched(source: Any) -> Any:
        held.append(definition_hash._parsing.locked())
        return parse(source)

    monkeypatch.setattr(ast, "parse", watched)
    (tmp_path / "models.py").write_text("def f():\n    return 1\n")
    assert codes_on_disk(tmp_path / "models.py", "f") == ["def f():\n    return 1"]
    function_code(test_threads_parse_one_after_the_other, "def f():\n    return 1\n")
    assert held == [True, True]
    assert not definition_hash._parsing.locked()
