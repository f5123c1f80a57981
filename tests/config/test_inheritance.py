"""`extends`: the tables of a store and its parents, merged key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from config_source import stores_of, summary
from prod_store import DEV, PROD, postgres, s3, stores

from lakeconf.config.config import init, validate
from lakeconf.config.resolve import BACKENDS, STORE_KEYS
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


def test_keys_of_a_store() -> None:
    keys = ("alias", "attach_options", "maintenance", "committer", "extends")
    assert ("metadata_backend", "storage_backend", *keys) == STORE_KEYS
    assert STORE_KEYS[:2] == BACKENDS


def test_store_without_a_parent_is_its_own_table() -> None:
    assert values("[stores.dev]\na = 1\nb.c = [{ d = 2 }]") == {"a": 1, "b": {"c": [{"d": 2}]}}
    assert values("[stores.dev]") == {}


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


def test_places_are_those_of_the_declaring_store() -> None:
    text = "[stores.base.a]\nb = 1\nc = 2\n[stores.dev]\nextends = 'base'\n[stores.dev.a]\nc = 3"
    assert stores_of(text).merged("dev").places == {
        (): ("stores", "dev"),
        ("extends",): ("stores", "dev", "extends"),
        ("a",): ("stores", "dev", "a"),
        ("a", "b"): ("stores", "base", "a", "b"),
        ("a", "c"): ("stores", "dev", "a", "c"),
    }


def test_merged_table_shows_no_value() -> None:
    assert "planted" not in repr(stores_of("[stores.dev]\na = 'planted'").merged("dev"))


def test_long_chain_of_parents_needs_no_recursion() -> None:
    text = "[stores.s0]\na = 1\n" + "".join(f"[stores.s{n}]\nextends = 's{n - 1}'\n" for n in range(1, 3000))
    assert values(text, "s2999") == {"a": 1, "extends": "s2998"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[stores]\ndev = 7",
            ("LC012", "must be a table", "write [stores.dev.metadata_backend] …", "stores.dev", 2),
        ),
        (
            "[stores]\nbase = 7\n[stores.dev]\nextends = 'base'",
            ("LC012", "must be a table", "write [stores.base.metadata_backend] …", "stores.base", 2),
        ),
        (
            "[stores.dev]\nextends = 'prd'\n[stores.prod]",
            ("LC040", "unknown store 'prd'", 'did you mean "prod"?', "stores.dev.extends", 2),
        ),
        (
            "[stores.dev]\nextends = 'x'\n[stores.prod]",
            ("LC040", "unknown store 'x'", "use one of the stores: dev, prod", "stores.dev.extends", 2),
        ),
        (
            "[stores.dev]\nextends = ['prod']\n[stores.prod]",
            ("LC012", "must be a string", "write the name of one store in quotes", "stores.dev.extends", 2),
        ),
        (
            "[stores.dev]\nextends = 'dev'",
            (
                "LC041",
                "circular inheritance: dev -> dev",
                "remove extends from one of these stores",
                "stores.dev.extends",
                2,
            ),
        ),
    ],
)
def test_invalid_parent_is_reported(text: str, expected: tuple[object, ...]) -> None:
    problem = problem_of(text)
    assert summary(problem) == expected
    assert problem.store == "dev"


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


def test_child_replaces_only_the_keys_it_sets(variables: None) -> None:
    staging = {"extends": "prod", "metadata_backend": {"metadata_schema": "s"}, "storage_backend": {"prefix": "t"}}
    config = init(stores(prod=PROD, staging=staging))
    store = config.get_store("staging")
    assert store.alias == "lake"
    assert (postgres(config, "staging").host, postgres(config, "staging").metadata_schema) == ("db.example.com", "s")
    assert (s3(config, "staging").bucket, s3(config, "staging").prefix) == ("acme", "t")
    assert postgres(config, "prod").metadata_schema == "public"


def test_inheritance_over_several_levels(variables: None) -> None:
    config = init(
        stores(
            a={"extends": "b", "alias": "from_a"},
            b={"extends": "c", "alias": "from_b", "storage_backend": {"prefix": "from_b"}},
            c=PROD,
        )
    )
    assert config.get_store("a").alias == "from_a"
    assert s3(config, "a").prefix == "from_b"
    assert postgres(config, "a").user == "lake"


def test_backend_of_another_type_inherits_nothing(variables: None) -> None:
    dev = {"extends": "prod", "storage_backend": {"type": "local", "path": "/d"}}
    assert init(stores(prod=PROD, dev=dev)).get_store("dev").storage_backend is not None


def test_backend_of_the_same_type_inherits_the_other_keys(variables: None) -> None:
    dev = {"extends": "prod", "storage_backend": {"type": "s3", "prefix": "d"}}
    assert s3(init(stores(prod=PROD, dev=dev)), "dev").bucket == "acme"


def test_variable_replaced_by_the_child_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "p")
    staging = {"extends": "prod", "metadata_backend": {"secret_name": "own", "host": "h"}}
    assert postgres(init(stores(prod=PROD, staging=staging)), "staging").host == "h"


def test_problem_of_a_parent_is_reported_once(tmp_path: Path) -> None:
    prod = {**DEV, "allias": "x"}
    assert len(validate(stores(prod=prod, staging={"extends": "prod"}))) == 1
