"""Problems outside the tables of the stores."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from config_source import FOLDER, source_of, summary

from lakeconf.config.read_store import STORE_NAME, structure_problems
from lakeconf.errors import Problem

STORES: dict[str, Any] = {"dev": {}}
WRITE_A_STORE = 'write [stores.dev.metadata_backend] type = "sqlite" …'


def problems(text: str, data: dict[str, Any] | None = None) -> list[Problem]:
    source = source_of(text)
    return list(structure_problems(source, source.data if data is None else data))


@pytest.mark.parametrize(
    "text", ["[stores.dev]", 'default_store = "x"\n[stores.dev]\n[pipeline]\n', "stores.a_1.x = 1"]
)
def test_valid_structure_has_no_problems(text: str) -> None:
    assert problems(text) == []


def test_unknown_keys_are_reported_at_their_lines() -> None:
    found = problems('[stores.dev]\n[store.dev]\n["a.b"]\n')
    assert [summary(problem) for problem in found] == [
        ("LC010", "unknown key", 'did you mean "stores"?', "store", 2),
        ("LC010", "unknown key", "use one of: default_store, pipeline, stores", '"a.b"', 3),
    ]
    assert {problem.file for problem in found} == {FOLDER / "lakeconf.toml"}


@pytest.mark.parametrize("text", ["", "stores = {}", "[pipeline]"])
def test_missing_stores_are_reported(text: str) -> None:
    (problem,) = problems(text)
    assert summary(problem)[:4] == ("LC011", "no stores are declared", WRITE_A_STORE, "stores")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "a string"), (1, "an integer"), (True, "a boolean"), ([], "a list"), (date(2026, 1, 1), "a date or time")],
)
def test_stores_and_pipeline_are_tables(value: object, kind: str) -> None:
    (problem,) = problems("", {"stores": value})
    assert summary(problem) == ("LC012", f"must be a table, not {kind}", WRITE_A_STORE, "stores", None)
    (problem,) = problems("", {"stores": STORES, "pipeline": value})
    assert summary(problem) == (
        "LC012",
        f"must be a table, not {kind}",
        'write [pipeline] python = ["models.py"]',
        "pipeline",
        None,
    )


@pytest.mark.parametrize("name", ["a", "dev", "a1", "a_b", "a1_2b_c3"])
def test_valid_store_name(name: str) -> None:
    assert STORE_NAME.fullmatch(name)
    assert problems("", {"stores": {name: {}}}) == []


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("My-Store", "my_store"),
        ("a__b", "a_b"),
        ("_a", "a"),
        ("a_", "a"),
        ("1a", "s1a"),
        ("", "store"),
        ("Größe", "groe"),
        ("a\n", "a"),
        ("ä", "a"),
        ("a; DROP TABLE t", "a_drop_table_t"),
    ],
)
def test_invalid_store_name_is_reported_with_a_valid_one(name: str, proposed: str) -> None:
    (problem,) = problems("", {"stores": {name: {}}})
    assert (problem.code, problem.message) == ("LC020", "invalid store name")
    assert problem.hint == (f"rename it to {proposed}: use lower-case letters, digits and single underscores")
    assert STORE_NAME.fullmatch(proposed)


def test_every_problem_is_reported() -> None:
    found = problems("x = 1\npipeline = 2\n[stores.A]\n[stores.b]\n[stores.C]\n")
    assert [(problem.key, problem.line) for problem in found] == [
        ("x", 1),
        ("pipeline", 2),
        ("stores.A", 3),
        ("stores.C", 5),
    ]
