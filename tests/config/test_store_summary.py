"""The stores of a file: summaries without values, reads on access only, and problems outside their tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from config_source import FOLDER, source_of, stores_of, summary

from lakeconf.config.read_store import STORE_NAME, structure_problems
from lakeconf.config.resolve import Outline, outline_of, secret_names
from lakeconf.errors import Problem

TEXT = """
[stores.dev.metadata_backend]
type = "sqlite"
secret_name = "of_the_catalog"

[stores.prod]
extends = "dev"
alias = "${ALIAS}"
storage_backend = { type = "s3", secret_name = "${NAME}" }

[stores.cloud.metadata_backend]
type = "motherduck"
database = "shop"
table = { a = 1 }

[stores.local.metadata_backend]
type = "motherduck"
database = "shop"
compute = "local"

[stores.odd]
metadata_backend = "text"
storage_backend = { type = { a = 1 }, secret_name = { b = 2 } }

[stores.unknown]
metadata_backend = { type = "nonsense", database = "shop" }

[stores.typeless.metadata_backend]
database = "shop"

[stores.number]
metadata_backend = { type = 7, secret_name = 8 }

[stores.orphan]
extends = "nowhere"
"""
STORES = stores_of(TEXT)


def outline(name: str) -> Outline:
    return outline_of(STORES, name, is_default=name == "dev")


def test_store_without_a_storage_has_its_own_name_as_alias() -> None:
    assert outline("dev") == Outline("dev", True, "sqlite", None, None, "dev")  # noqa: FBT003 - as it is shown


def test_values_of_the_parent_and_variables_are_shown_as_written() -> None:
    assert outline("prod") == Outline("prod", False, "sqlite", "s3", "dev", "${ALIAS}")  # noqa: FBT003 - as it is shown


def test_alias_of_a_motherduck_store_is_its_database() -> None:
    assert outline("cloud").alias == "shop"
    assert outline("local").alias == "local"


def test_tables_of_the_wrong_type_are_omitted() -> None:
    assert outline("odd") == Outline("odd", False, None, None, None, "odd")  # noqa: FBT003 - as it is shown
    assert outline("number") == Outline("number", False, "7", None, None, "number")  # noqa: FBT003 - as it is shown


def test_backend_without_a_type_has_no_alias_of_its_own() -> None:
    assert outline("typeless") == Outline("typeless", False, alias="typeless")  # noqa: FBT003 - as it is shown


def test_unknown_type_is_shown_as_written() -> None:
    assert outline("unknown")[2:] == ("nonsense", None, None, "unknown")


def test_store_whose_parent_is_missing_has_only_a_name() -> None:
    assert outline("orphan") == Outline("orphan", False, alias="orphan")  # noqa: FBT003 - as it is shown


def test_names_of_secrets_as_written() -> None:
    assert secret_names(STORES, "dev") == ("of_the_catalog",)
    assert secret_names(STORES, "prod") == ("of_the_catalog", "${NAME}")
    assert secret_names(STORES, "cloud") == secret_names(STORES, "odd") == secret_names(STORES, "orphan") == ()
    assert secret_names(STORES, "number") == ("8",)


STORES_OF_STRUCTURE: dict[str, Any] = {"dev": {}}
WRITE_A_STORE = 'write [stores.dev.metadata_backend] and add type = "sqlite" below it'


def problems(text: str, data: dict[str, Any] | None = None) -> list[Problem]:
    source = source_of(text)
    return list(structure_problems(source if data is None else replace(source, data=data)))


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
    (problem,) = problems("", {"stores": STORES_OF_STRUCTURE, "pipeline": value})
    assert summary(problem) == (
        "LC012",
        f"must be a table, not {kind}",
        'write [pipeline] and add python = ["models.py"] below it',
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
