"""`init()`, `Config`, `extends`, and how a store combines the file and the environment."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from config_source import DEV, LOCAL, PROD, SQLITE, postgres, problems_of, stores, stores_of

from lakeconf.config.config import init, validate
from lakeconf.config.resolve import BACKENDS
from lakeconf.errors import ConfigError, LakeconfError, Problem
from lakeconf.secret import Secret

# Store selection.


def test_the_only_store_is_the_default_or_the_one_that_is_named() -> None:
    assert init(stores(a=DEV)).get_store().name == "a"
    config = init({"default_store": "b", **stores(a=DEV, b=DEV)})
    assert config.default_store == "b"
    assert config.get_store().name == "b"
    assert config.get_store("a").name == "a"


def test_hint_about_a_missing_default_or_an_unknown_store_lists_the_stores() -> None:
    (problem,) = problems_of(stores(a=DEV, b=DEV))
    assert problem.code == "LC022"
    assert "a, b" in str(problem.hint)
    (problem,) = problems_of(stores(dev=DEV, prod=DEV), "prd")
    assert (problem.code, problem.hint) == ("LC021", 'did you mean "prod"? use one of the stores: dev, prod')


def test_the_default_store_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"default_store": "${LAKE:-a}", **stores(a=DEV, b=DEV)}
    assert init(source).get_store().name == "a"
    monkeypatch.setenv("LAKE", "b")
    assert init(source).get_store().name == "b"
    monkeypatch.setenv("LAKE", "c")
    assert [problem.code for problem in problems_of(source)] == ["LC021"]
    unset = {**source, "default_store": "${UNSET}"}
    assert init(unset).get_store("a").name == "a"
    assert [problem.code for problem in problems_of(unset)] == ["LC030"]
    assert [problem.code for problem in validate(unset)] == ["LC030"]


def test_variables_of_a_store_are_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    config = init(stores(dev=DEV, prod=PROD))
    assert config.get_store("dev").name == "dev"
    with pytest.raises(ConfigError) as refused:
        config.get_store("prod")
    keys = [f"stores.prod.metadata_backend.{key}" for key in ("host", "password")]
    assert [problem.key for problem in refused.value.problems] == keys
    monkeypatch.setenv("PGHOST", "h")
    monkeypatch.setenv("PGPASSWORD", "p")
    assert config.get_store("prod").name == "prod"


def test_init_can_be_called_repeatedly(project: Path) -> None:
    one, two = init(), init()
    assert one is not two
    assert one.get_store().preview_sql() == two.get_store().preview_sql()
    assert one.path == project / "lakeconf.toml"


def test_init_does_not_change_its_argument(variables: None) -> None:
    source = stores(dev=DEV, prod=PROD, staging={"extends": "prod"})
    before = copy.deepcopy(source)
    init(source).get_store("staging")
    assert source == before


# Variables and secrets.


def test_values_of_variables(variables: None) -> None:
    backend = postgres(init(stores(prod=PROD)), "prod")
    assert (backend.host, backend.database) == ("db.example.com", "lake")
    assert backend.password == Secret("hunter2")
    assert backend.password is not None
    assert backend.password.variable == "PGPASSWORD"


@pytest.mark.parametrize(
    ("value", "portable"),
    [("${TOKEN}", True), ("${TOKEN:?m}", True), ("${TOKEN:-d}", False), ("x${TOKEN}", False), ("literal", False)],
)
def test_secret_is_portable_only_if_it_is_a_single_variable(
    value: str, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    storage = {"type": "s3", "bucket": "b", "secret_parameters": {"provider": "config", "api_token": value}}
    store = init(stores(prod={"metadata_backend": SQLITE, "storage_backend": storage})).get_store()
    if portable:
        assert any("API_TOKEN getenv('TOKEN')" in line for line in store.preview_sql(portable=True))
    else:
        with pytest.raises(LakeconfError, match=r"stores\.prod\.storage_backend.*api_token"):
            store.preview_sql(portable=True)


def test_store_with_a_literal_secret_cannot_be_pickled(variables: None) -> None:
    literal = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "password": "hunter2"}}
    with pytest.raises(TypeError, match="VARIABLE"):
        pickle.dumps(init(stores(prod=literal)).get_store())


def test_dict_may_contain_secret_objects() -> None:
    metadata = {"type": "postgres", "host": "h", "database": "d", "user": "u", "password": Secret("hunter2")}
    backend = postgres(init(stores(prod={"metadata_backend": metadata, "storage_backend": LOCAL})), "prod")
    assert backend.password == Secret("hunter2")


@pytest.mark.parametrize(("port", "expected"), [("${PORT}", 5433), ("${UNSET:-5432}", 5432), (5434, 5434)])
def test_values_of_variables_are_converted_to_the_type_of_the_field(
    port: object, expected: int, variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", "5433")
    prod = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "port": port}}
    assert postgres(init(stores(prod=prod)), "prod").port == expected
    in_the_file = {**PROD, "metadata_backend": {**PROD["metadata_backend"], "port": "5432"}}
    assert [problem.code for problem in problems_of(stores(prod=in_the_file))] == ["LC012"]


# Problems show no values.


@pytest.mark.parametrize("key", ["host", "database", "user", "password", "port", "secret_name", "nonsense"])
@pytest.mark.parametrize("value", ["hunter2", 7351947, ["hunter2"], {"a": "hunter2"}, "hunter2\0", "${hunter2", ""])
def test_problems_of_metadata_show_no_values(key: str, value: object) -> None:
    metadata = {**PROD["metadata_backend"], "host": "h", "password": "hunter2", key: value}
    source = stores(prod={**PROD, "metadata_backend": metadata})
    shown = repr(problems := validate(source))
    assert bool(problems) != (key in {"host", "database", "user", "password", "secret_name"} and value == "hunter2")
    if not problems and key == "password":
        assert "hunter2" not in repr(init(source).get_store("prod"))
    assert "hunter2" not in shown
    assert "7351947" not in shown


@pytest.mark.parametrize("key", ["key_id", "secret", "session_token", "bucket", "data_path", "endpoint", "nonsense"])
@pytest.mark.parametrize("value", ["hunter2://x", 7351947, ["hunter2"], {"a": "hunter2"}, "hunter2/hunter2"])
def test_problems_of_storage_show_no_values(key: str, value: object) -> None:
    storage = {"type": "s3", "bucket": "b", "key_id": "k", "secret": "hunter2", key: value}
    source = stores(prod={"metadata_backend": SQLITE, "storage_backend": storage})
    shown = repr(problems := validate(source))
    is_text = isinstance(value, str) and (key != "endpoint" or "://" not in value)
    assert bool(problems) != (is_text and key in {"key_id", "secret", "session_token", "endpoint"})
    if not problems and key != "endpoint":
        assert "hunter2" not in repr(init(source).get_store("prod"))
    assert "hunter2" not in shown
    assert "7351947" not in shown


@pytest.mark.parametrize("source", [5, True, b"lakeconf.toml", [], {5: 5}, {"stores": {5: {}}}])
def test_source_that_is_no_path_and_no_table_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a path|a key is not a string") as refused:
        init(source)
    assert refused.value.problems[0].hint in ("pass the path as a string", "write keys as strings")


@pytest.mark.parametrize("name", [5, ["dev"]])
def test_name_of_a_store_that_is_no_text_is_unknown(name: Any) -> None:
    backends = {"metadata_backend": {"type": "sqlite", "uri": "x"}, "storage_backend": {"type": "local", "path": "y"}}
    with pytest.raises(ConfigError, match="unknown store"):
        init({"stores": {"dev": backends}}).get_store(name)


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
    assert values(text) == {"a": {"w": 0, "x": 1, "y": {"p": 1, "q": [3]}, "z": 4}, "only": "root", "extends": "base"}
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


def test_type_replaces_nothing_in_other_tables_or_if_the_parent_names_none() -> None:
    text = "[stores.base.storage_backend]\nhost = 'h'\n[stores.dev]\nextends = 'base'\n"
    assert values(f"{text}[stores.dev.storage_backend]\ntype = 'y'")["storage_backend"] == {"host": "h", "type": "y"}
    text = "[stores.base.other]\ntype = 'x'\na = 1\n[stores.dev]\nextends = 'base'\n[stores.dev.other]\ntype = 'y'"
    assert values(text)["other"] == {"type": "y", "a": 1}


def test_long_chain_of_parents_needs_no_recursion() -> None:
    text = "[stores.s0]\na = 1\n" + "".join(f"[stores.s{n}]\nextends = 's{n - 1}'\n" for n in range(1, 3000))
    assert values(text, "s2999") == {"a": 1, "extends": "s2998"}


@pytest.mark.parametrize("name", ["a", "b", "c", "outside"])
def test_cycle_is_reported_alike_for_each_of_its_stores(name: str) -> None:
    text = "".join(f"[stores.{one}]\nextends = '{other}'\n" for one, other in ("bc", "ca", "ab"))
    problem = problem_of(text + "[stores.outside]\nextends = 'c'\n", name)
    assert problem.message == "circular inheritance: b -> c -> a -> b"
    assert (problem.key, problem.line, problem.store) == ("stores.b.extends", 2, "b")


def test_problem_of_a_parent_is_reported_once_for_the_store_that_was_asked_for() -> None:
    problem = problem_of("[stores.dev]\nextends = 'base'\n[stores.base]\nextends = 'x'")
    assert (problem.store, problem.key, problem.line) == ("dev", "stores.base.extends", 4)
    assert len(validate(stores(prod={**DEV, "allias": "x"}, staging={"extends": "prod"}))) == 1


def test_variable_replaced_by_the_child_need_not_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "p")
    staging = {"extends": "prod", "metadata_backend": {"secret_name": "own", "host": "h"}}
    assert postgres(init(stores(prod=PROD, staging=staging)), "staging").host == "h"
