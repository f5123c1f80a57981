"""Models: what drives them, and which parts of them are their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeconf.errors import PipelineError
from lakeconf.pipelines.models.body import Function, Query
from lakeconf.pipelines.models.definition_hash import digest, file_digest
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Kind, Merge, Seed
from lakeconf.pipelines.models.model import Model, model, not_null

HERE = Path(__file__)


def counted(events: Any) -> Any:
    """A docstring."""
    return events.head(1)


@pytest.mark.parametrize(
    ("kind", "sql", "driving"),
    [
        (Full(), "FROM raw.a", None),
        (Incremental("day"), "FROM raw.a", None),
        (Merge("id"), "FROM raw.a", None),
        (Merge("id", changes_of="raw.b"), "FROM raw.a, raw.b", "raw.b"),
        (Append(), "FROM raw.a", "raw.a"),
        (Append(new_rows_of="raw.b"), "FROM raw.a, raw.b", "raw.b"),
        (Append(files="*.csv"), "FROM raw.a", None),
    ],
    ids=repr,
)
def test_driving_input(kind: Kind, sql: str, driving: str | None) -> None:
    assert Model("marts.t", kind, Query(sql)).driving_input == driving


@pytest.mark.parametrize(
    ("kind", "sql", "message", "hint"),
    [
        (
            Merge("id", changes_of="raw.x"),
            "FROM raw.a, raw.b",
            "has no input 'raw.x'",
            "name one of its inputs: raw.a, raw.b",
        ),
        (Append(new_rows_of="raw.x"), "SELECT 1", "has no input 'raw.x'", "omit it: there are no inputs"),
        (
            Append(),
            "FROM raw.a, raw.b",
            "appends, but does not name the input that provides new rows",
            "set Append(new_rows_of=…) to one of: raw.a, raw.b; or set Append(files=…)",
        ),
        (
            Append(),
            "SELECT 1",
            "appends, but does not name the input that provides new rows",
            "set Append(new_rows_of=…) to one of: no inputs; or set Append(files=…)",
        ),
    ],
)
def test_invalid_driving_input(kind: Kind, sql: str, message: str, hint: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Model("marts.t", kind, Query(sql)).driving_input  # noqa: B018 - the property raises
    assert (caught.value.message, caught.value.hint) == (f"the model marts.t {message}", hint)


def test_first_argument_of_a_model_that_loads_files_receives_the_files() -> None:
    assert Model("marts.t", Append(files="*.csv"), Query("FROM files, raw.a")).arguments == ["raw.a"]
    assert Model("marts.t", Append(), Query("FROM files, raw.a")).arguments == ["files", "raw.a"]
    assert Model("marts.t", Full(), Query("FROM files, raw.a")).arguments == ["files", "raw.a"]
    assert Model("marts.t", Append(files="*.csv")).arguments == ()


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


@pytest.mark.parametrize(
    "changed",
    [
        Model("marts.u", Full(), Query("SELECT 1")),
        Model("marts.t", Merge("id"), Query("SELECT 1")),
        Model("marts.t", Full(), Query("SELECT 3")),
        Model("marts.t", Full(), None),
        Model("marts.t", Full(), Query("SELECT 1"), {"x": "raw.a"}),
    ],
)
def test_every_part_of_the_definition_counts(changed: Model) -> None:
    one = Model("marts.t", Full(), Query("SELECT 1"))
    assert changed.definition() != one.definition()


def test_definition_is_that_of_the_loaded_code(tmp_path: Path) -> None:
    """A run of old code must not be recorded as a run of the file that has changed since."""
    path = tmp_path / "models.py"
    path.write_text("def t(events):\n    return events\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102 - a model in a file that changes
    made = model("marts.t", Full())(names["t"])
    before = made.definition()
    path.write_text("def t(events):\n    return events.head(2)\n")
    assert made.definition() == before
    path.unlink()
    assert made.definition() == before


def test_options_that_do_not_change_rows_are_no_part_of_the_definition() -> None:
    one = Model("marts.t", Full(), Query("SELECT 1"))
    others: list[Any] = [{}, ["id"], {"a": "b"}, ["c"], {"few": "SELECT 2", "odd": _odd}, "a comment"]
    other = Model(
        *["marts.t", Full(), Query("SELECT 1 -- x"), *others, Path("/elsewhere"), [not_null("id")], ["nightly"]]
    )
    assert one.definition() == other.definition()
    assert Model("marts.t", Merge("id")).definition() == Model("marts.t", Merge(["id"])).definition()


def test_order_of_the_inputs_does_not_change_the_definition() -> None:
    sql = Query("FROM x, y")
    one, other = ({"x": "raw.a", "y": "raw.b"}, {"y": "raw.b", "x": "raw.a"})
    assert Model("marts.t", Full(), sql, one).definition() == Model("marts.t", Full(), sql, other).definition()


def test_decorator_makes_a_model_of_a_function() -> None:
    made = model("marts.t", Full())(counted)
    assert (made.table, made.kind, made.body) == ("marts.t", Full(), Function(counted))
    assert (made.comment, made.folder) == ("A docstring.", HERE.parent)
    assert (made.inputs, made.partitioned_by, made.renamed, made.dropped, made.audits) == ({}, (), {}, (), {})
    given: dict[str, Any] = {"inputs": {"events": "raw.e"}, "renamed": {"a": "b"}, "audits": {"odd": _odd}}
    other = model("marts.t", Full(), partitioned_by=["day"], dropped=["c"], **given)(_odd)
    assert (other.inputs, other.renamed, other.audits) == tuple(given.values())
    assert (other.partitioned_by, other.dropped, other.comment) == (["day"], ["c"], None)


def test_defaults_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = Model("marts.t", Full())
    assert (made.body, made.inputs, made.partitioned_by, made.renamed) == (None, {}, (), {})
    assert (made.dropped, made.audits, made.comment, made.folder) == ((), {}, None, tmp_path)


def test_definition_of_a_seed_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a\n1\n")
    seed = Model("raw.s", Seed("s.csv"), folder=tmp_path)
    before = seed.definition()
    (tmp_path / "s.csv").write_text("a\n2\n")
    assert seed.definition() != before
