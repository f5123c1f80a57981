"""Models, and hashes of definitions: comments, layout, decorators and docstrings do not count, all other code does."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import PipelineError
from lakeconf.pipelines.models.body import Function, Query
from lakeconf.pipelines.models.column_tests import not_null
from lakeconf.pipelines.models.definition_hash import digest, file_digest, function_code, loaded_source, sql_code
from lakeconf.pipelines.models.kinds import Append, Full, Merge, Seed
from lakeconf.pipelines.models.model import Model, model

if TYPE_CHECKING:
    from collections.abc import Callable


SOURCE = '''\
from math import pi

LIMIT = 10
FACTOR = LIMIT * 2
OTHER = 3


def decorated(function):
    return function


def helped(events):
    """Helps."""
    return events


@decorated
def totals(events):
    """The totals."""
    # A comment.
    return  helped(events).head( FACTOR ).label(f"{', '.join(['é'])!r:>{LIMIT}}", pi)


def alone(OTHER):
    """Returns what it gets."""
    return OTHER
'''


def code(source: str, folder: Path, name: str = "totals") -> str:
    """The code of a function in a file of its own."""
    path = folder / "models.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("models_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return function_code(found, loaded_source(found))


def test_digest_is_the_same_in_every_version(tmp_path: Path) -> None:
    """Another digest makes every lake compute its models again."""
    assert digest("marts.t", "full") == hashlib.sha256(b"marts.t\0full").hexdigest()[:16]
    assert digest() == hashlib.sha256(b"").hexdigest()[:16]
    assert digest("é\ud7ff") == hashlib.sha256("é\ud7ff".encode()).hexdigest()[:16]
    path = tmp_path / "seed.csv"
    path.write_bytes(b"a\r\n\xff\n")
    assert file_digest(path) == hashlib.sha256(b"a\r\n\xff\n").hexdigest()[:16]
    for name in ("none.csv", "."):
        with pytest.raises(PipelineError) as caught:
            file_digest(tmp_path / name)
        assert caught.value.message == f"file not found: {tmp_path / name}"
        assert caught.value.hint == "write the path relative to the folder of the model"


def test_all_of_sql_counts_but_comments_and_layout() -> None:
    for text in (
        "SELECT id+1 FROM raw.t",
        "SELECT id + 1 -- all\nFROM raw.t",
        "/* all */ SELECT id+1\nFROM raw . t;",
        "SELECT id +1 FROM raw.t;\n-- the end",
    ):
        assert sql_code(text) == "SELECT id + 1 FROM raw . t"
    for one, other in (
        ("SELECT '-- 1'", "SELECT '-- 2'"),
        ('SELECT "/*" FROM t', 'SELECT "/*", 2 FROM t'),
        ("SELECT $$ -- $$, 1", "SELECT $$ -- $$, 2"),
        ("SELECT $a$ -- $$ $a$, 1", "SELECT $a$ -- $$ $a$, 2"),
        (r"SELECT E'\' -- 1', 1", r"SELECT E'\' -- 2', 1"),
        (r"SELECT '\', 1 -- 1'", r"SELECT '\', 2 -- 1'"),
        ("SELECT 1 /* /* */ ' */ , 1 --'", "SELECT 1 /* /* */ ' */ , 2 --'"),
        ("SELECT 1; SELECT 2", "SELECT 1 SELECT 2"),
        ("SELECT a b", "SELECT ab"),
    ):
        assert sql_code(one) != sql_code(other), one


SAME = [
    ("    # A comment.\n", ""),
    ("return  helped(", "return helped("),
    ("head( FACTOR )", "head(\n        FACTOR\n    )"),
    ('    """The totals."""\n', ""),
    ('"""Helps."""', "'''It helps.'''"),
    ("@decorated\n", ""),
    ("OTHER = 3", "OTHER = 4"),
    ("{LIMIT}", "{ LIMIT}"),
    ("LIMIT = 10\n", "\n# Ten.\nLIMIT  =  10\n"),
    ("def alone", "def other"),
    ("from math import pi", "from math import pi, tau"),
]
OTHER = [
    ("LIMIT = 10", "LIMIT = 20"),
    ("LIMIT * 2", "LIMIT * 3"),
    ("return events", "return events.head(1)"),
    ("'é'", "'e'"),
    ("!r:>", "!s:>"),
    ("    return  helped", "    if events: pass\n    return helped"),
    ("def totals(events)", "def totals(events, users)"),
]


@pytest.mark.parametrize(
    ("old", "new", "counts"), [*((*pair, False) for pair in SAME), *((*pair, True) for pair in OTHER)]
)
def test_constants_functions_and_values_that_a_function_uses_count(
    old: str, new: str, counts: bool, tmp_path: Path
) -> None:
    assert old in SOURCE
    assert (code(SOURCE.replace(old, new), tmp_path) != code(SOURCE, tmp_path)) == counts


def test_own_names_and_the_layout_of_blocks_do_not_count(tmp_path: Path) -> None:
    changed = SOURCE.replace("OTHER = 3", "OTHER = 4")
    assert code(changed, tmp_path, "alone") == code(SOURCE, tmp_path, "alone")
    one = "def f(a):\n    if a:\n        return 1\n    return 2\n"
    other = "def f(a):\n  if a:\n\n    return 1\n  return 2\n"
    nested = "def f(a):\n    if a:\n        return 1\n        return 2\n"
    assert code(one, tmp_path, "f") == code(other, tmp_path, "f") != code(nested, tmp_path, "f")


def test_nested_functions_and_lambdas_have_code() -> None:
    def nested(a: int) -> int:
        # A comment.
        return a + 1

    lambdas = {"one": lambda frame: frame.head(1)}
    for one, expected in ((nested, "Return(value=BinOp("), (lambdas["one"], "attr='head'")):
        assert expected in function_code(one, loaded_source(one))


def test_function_without_source_is_an_error() -> None:
    names: dict[str, Any] = {}
    exec("def typed(events):\n    return events", names)  # noqa: S102 - as in an interactive session
    for one, name in ((names["typed"], "typed"), (len, "len"), (functools.partial(len), "partial")):
        assert loaded_source(one) is None
        with pytest.raises(PipelineError) as caught:
            function_code(one, None)
        assert caught.value.message == f"the source of {name} is unavailable"
        assert caught.value.hint == "write the model in a file"


HERE = Path(__file__)


def counted(events: Any) -> Any:
    """A docstring."""
    return events.head(1)


def test_definition_is_the_same_in_every_version(tmp_path: Path) -> None:
    """Another definition makes every lake compute its models again."""
    (tmp_path / "s.csv").write_text("a\n1\n")
    one = Model("marts.t", Full(), Query("SELECT id  FROM x -- all"), {"x": "raw.a"}, audits={"few": "SELECT 1"})
    expected = digest("marts.t", "full", "SELECT id FROM x", "[('x', 'raw.a')]")
    assert one.definition() == expected
    seed = Model("raw.s", Seed("s.csv"), folder=tmp_path)
    assert seed.definition() == digest("raw.s", "seed {}" + file_digest(tmp_path / "s.csv"), "", "[]")
    files = Model("raw.f", Append(files="*.csv"))
    assert files.definition() == digest("raw.f", "append None {}", "", "[]")


def _odd(frame: Any) -> Any:
    return frame


def test_only_what_changes_rows_is_part_of_the_definition() -> None:
    one = Model("marts.t", Full(), Query("SELECT 1"))
    for changed in (
        Model("marts.u", Full(), Query("SELECT 1")),
        Model("marts.t", Merge("id"), Query("SELECT 1")),
        Model("marts.t", Full(), Query("SELECT 3")),
        Model("marts.t", Full(), None),
        Model("marts.t", Full(), Query("SELECT 1"), {"x": "raw.a"}),
    ):
        assert changed.definition() != one.definition()
    others: list[Any] = [{}, ["id"], {"a": "b"}, ["c"], {"few": "SELECT 2", "odd": _odd}, "a comment"]
    other = Model(
        *["marts.t", Full(), Query("SELECT 1 -- x"), *others, Path("/elsewhere"), [not_null("id")], ["nightly"]]
    )
    assert one.definition() == other.definition()
    assert Model("marts.t", Merge("id")).definition() == Model("marts.t", Merge(["id"])).definition()
    inputs = ({"x": "raw.a", "y": "raw.b"}, {"y": "raw.b", "x": "raw.a"})
    assert len({Model("marts.t", Full(), Query("FROM x, y"), given).definition() for given in inputs}) == 1


def test_decorator_makes_a_model_of_a_function() -> None:
    made = model("marts.t", Full())(counted)
    assert (made.table, made.kind, made.body) == ("marts.t", Full(), Function(counted))
    assert (made.comment, made.folder) == ("A docstring.", HERE.parent)
    assert (made.inputs, made.partitioned_by, made.renamed, made.dropped, made.audits) == ({}, (), {}, (), {})
    given: dict[str, Any] = {"inputs": {"events": "raw.e"}, "renamed": {"a": "b"}, "audits": {"odd": _odd}}
    other = model("marts.t", Full(), partitioned_by=["day"], dropped=["c"], **given)(_odd)
    assert (other.inputs, other.renamed, other.audits) == tuple(given.values())
    assert (other.partitioned_by, other.dropped, other.comment) == (["day"], ["c"], None)
