"""`lakeconf stores` and `validate --explain`: all stores, the keys of one, a key, and a code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakeconf.config.codes import explanation

if TYPE_CHECKING:
    from pathlib import Path


def test_code_is_explained_without_a_configuration(tmp_path: Path, monkeypatch: Any, called: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert called("validate", "--explain", "lc012") == (0, explanation("LC012").rstrip() + "\n", "")


def test_explanation_takes_no_option_of_a_check(called: Any) -> None:
    for option in (["--format", "github"], ["--strict"], ["--untrusted"], ["--store", "dev"]):
        code, out, err = called("validate", "--explain", "LC012", *option)
        assert (code, out, "--explain checks nothing" in err) == (2, "", True)


def test_key_has_a_value_an_origin_and_a_meaning(project: Path, called: Any) -> None:
    code, out, err = called("stores", "dev.storage_backend.path")
    assert (code, err) == (0, "")
    first, origin, meaning = out.splitlines()
    assert first == "stores.dev.storage_backend.path = data"
    assert origin == "  from  lakeconf.toml:9"
    assert meaning.startswith("  is    ")
    assert len(meaning) > 20


def test_all_keys_of_a_store_are_a_table(project: Path, called: Any) -> None:
    code, out, err = called("stores", "dev")
    assert (code, err) == (0, "")
    header, *lines = out.splitlines()
    assert header.split() == ["key", "value", "from"]
    (path,) = [line.split() for line in lines if line.startswith("stores.dev.storage_backend.path ")]
    assert path == ["stores.dev.storage_backend.path", "data", "lakeconf.toml:9"]


def test_value_of_a_secret_is_hidden(run_in_stores: Any, variables: None) -> None:
    for key in ("stores.prod.metadata_backend.password", "prod"):
        code, out, err = run_in_stores("stores", key)
        assert (code, err) == (0, "")
        assert "***" in out
        assert "hunter2" not in out


def test_options_for_the_database_of_the_catalog_are_listed_and_hidden(
    project: Path, called: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("META", "hunter2")
    with (project / "lakeconf.toml").open("a") as file:
        file.write('[stores.dev.attach_options]\nmeta_password = "${META}"\nmeta_note = "swordfish"\n')
    code, out, err = called("stores", "dev.attach_options.meta_password")
    assert (code, err) == (0, "")
    assert out.startswith("stores.dev.attach_options.meta_password = ***\n  from  the variable META")
    code, out, _ = called("stores", "dev")
    assert "meta_note" in out
    assert "hunter2" not in out


def test_unknown_code_and_unknown_key(project: Path, called: Any) -> None:
    for *arguments, message in (
        ("validate", "--explain", "LC999", "unknown code 'LC999'"),
        ("stores", "dev.storage_backend.pth", 'did you mean "stores.dev.storage_backend.path"?'),
        ("stores", "dve", 'did you mean "dev"?'),
    ):
        code, out, err = called(*arguments)
        assert (code, out) == (1, "")
        assert message in err


def test_key_is_looked_up_in_the_given_file(project: Path, tmp_path_factory: Any, called: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    text = (project / "lakeconf.toml").read_text().replace('"data"', '"other"')
    (elsewhere / "lakeconf.toml").write_text(text)
    out = called("stores", "dev.storage_backend.path", "--config", str(elsewhere))[1]
    assert out.startswith("stores.dev.storage_backend.path = other\n")


def test_explanations_as_json(project: Path, shown: Any) -> None:
    found = json.loads(shown("validate", "--explain", "lc001", "--format", "json"))
    assert found["code"] == "LC001"
    assert found["text"].startswith("# LC001: Configuration not found")
    (one,) = json.loads(shown("stores", "dev.storage_backend.path", "--format", "json"))
    assert one["key"] == "stores.dev.storage_backend.path"
    assert one["from"] == "lakeconf.toml:9"


def test_stores_needs_no_variables(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("stores")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "*  dev      sqlite + local",
        "   prod     postgres + s3",
        "   staging  postgres + s3   extends prod",
    ]


def test_stores_as_json(run_in_stores: Any) -> None:
    assert json.loads(run_in_stores("stores", "--format", "json")[1])[2] == {
        "name": "staging",
        "is_default": False,
        "metadata_backend": "postgres",
        "storage_backend": "s3",
        "extends": "prod",
        "alias": "staging",
    }


def test_stores_of_an_invalid_configuration(run_in_stores: Any, project: Path) -> None:
    (project / "lakeconf.toml").write_text('[stores.a]\nextends = "b"\n\n[stores.c.metadata_backend]\nx = 1\n')
    assert run_in_stores("stores") == (0, "   a  ?\n   c  ?\n", "")
