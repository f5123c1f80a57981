"""The stores of a file: summaries without values, reads on access only, and problems outside their tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from config_source import source_of, stores_of, summary

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


@pytest.mark.parametrize(
    "expected",
    [
        ("dev", True, "sqlite", None, None, "dev"),
        ("prod", False, "sqlite", "s3", "dev", "${ALIAS}"),
        ("cloud", False, "motherduck", None, None, "shop"),
        ("local", False, "motherduck", None, None, "local"),
        ("odd", False, None, None, None, "odd"),
        ("number", False, "7", None, None, "number"),
        ("typeless", False, None, None, None, "typeless"),
        ("unknown", False, "nonsense", None, None, "unknown"),
        ("orphan", False, None, None, None, "orphan"),
    ],
    ids=str,
)
def test_summary_shows_what_the_file_says(expected: Outline) -> None:
    assert outline_of(STORES, expected[0], is_default=expected[0] == "dev") == expected


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
