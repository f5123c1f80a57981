"""Models: what drives them, and which parts of them are their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeconf.pipelines.models.body import Function, Query
from lakeconf.pipelines.models.definition_hash import digest, file_digest
from lakeconf.pipelines.models.kinds import Append, Full, Merge, Seed
from lakeconf.pipelines.models.model import Model, model, not_null

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
