"""`extends`: the tables of a store and its parents, merged key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from config_source import stores_of
from prod_store import DEV, PROD, postgres, stores

from lakeconf.config.config import init, validate
from lakeconf.config.resolve import BACKENDS
from lakeconf.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pathlib import Path


def values(text: str, name: str = "dev") -> dict[str, Any]:
    return dict(stores_of(text).merged(name).values)


def problem_of(text: str, name: str = "dev") -> Problem:
    with pytest.raises(ConfigError) as raised:
        stores_of(text).merged(name)
    (problem,) = raised.value.problems
    return problem


def test_tables_are_merged_at_every_depth_and_lists_are_replaced() -> None:
    text = """
    [stores.base]
    extends = "root"
    a = { x = 1, y = { p = 1, q = [1, 2] } }
    [stores.dev]
    extends = "base"
    a = { y = { q = [3] }, z = 4 }
    [stores.root]
    a = { w = 0, x = 0 }
    only = "root"
    """
    assert values(text) == {
        "a": {"w": 0, "x": 1, "y": {"p": 1, "q": [3]}, "z": 4},
        "only": "root",
        "extends": "base",
    }
    assert values(text, "root") == {"a": {"w": 0, "x": 0}, "only": "root"}


def test_value_replaces_a_table_and_a_table_a_value() -> None:
    text = "[stores.base]\na = 1\nb = { c = 1 }\n[stores.dev]\nextends = 'base'\na = { c = 1 }\nb = 1"
    assert values(text) == {"a": {"c": 1}, "b": 1, "extends": "base"}


@pytest.mark.parametrize("section", BACKENDS)
def test_backend_of_another_type_inherits_no_key(section: str) -> None:
    base = f"[stores.base.{section}]\ntype = 'x'\nhost = 'h'\n[stores.dev]\nextends = 'base'\n[stores.dev.{section}]\n"
    assert values(base + "type = 'y'\nport = 1")[section] == {"type": "y", "port": 1}
    assert values(base + "type = 'x'\nport = 1")[section] == {"type": "x", "host": "h", "port": 1}
    assert values(base + "port = 1")[section] == {"type": "x", "host": "h", "port": 1}


def test_type_that_the_parent_does_not_name_replaces_nothing() -> None:
    text = "[stores.base.storage_backend]\nhost = 'h'\n[stores.dev]\nextends = 'base'\n"
    assert values(f"{text}[stores.dev.storage_backend]\ntype = 'y'")["storage_backend"] == {"host": "h", "type": "y"}


def test_type_has_no_meaning_in_other_tables() -> None:
    text = "[stores.base.other]\ntype = 'x'\na = 1\n[stores.dev]\nextends = 'base'\n[stores.dev.other]\ntype = 'y'"
    assert values(text)["other"] == {"type": "y", "a": 1}


def test_long_chain_of_parents_needs_no_recursion() -> None:
    text = "[stores.s0]\na = 1\n" + "".join(f"[stores.s{n}]\nextends = 's{n - 1}'\n" for n in range(1, 3000))
    assert values(text, "s2999") == {"a": 1, "extends": "s2998"}


@pytest.mark.parametrize("name", ["a", "b", "c", "outside"])
def test_cycle_is_reported_alike_for_each_of_its_stores(name: str) -> None:
    text = "".join(f"[stores.{one}]\nextends = '{other}'\n" for one, other in ("bc", "ca", "ab"))
    problem = problem_of(text + "[stores.outside]\nextends = 'c'\n", name)
    assert (problem.message, problem.key, problem.line, problem.store) == (
        "circular inheritance: b -> c -> a -> b",
        "stores.b.extends",
        2,
        "b",
    )


def test_problem_of_a_parent_belongs_to_the_store_that_was_asked_for() -> None:
    problem = problem_of("[stores.dev]\nextends = 'base'\n[stores.base]\nextends = 'x'")
    assert (problem.store, problem.key, problem.line) == ("dev", "stores.base.extends", 4)


def test_variable_replaced_by_the_child_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "p")
    staging = {"extends": "prod", "metadata_backend": {"secret_name": "own", "host": "h"}}
    assert postgres(init(stores(prod=PROD, staging=staging)), "staging").host == "h"


def test_problem_of_a_parent_is_reported_once(tmp_path: Path) -> None:
    prod = {**DEV, "allias": "x"}
    assert len(validate(stores(prod=prod, staging={"extends": "prod"}))) == 1
