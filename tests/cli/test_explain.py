"""`lakeconf stores` and `validate --explain`: all stores, the values of one, and a code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.config.codes import explanation

if TYPE_CHECKING:
    from pathlib import Path


def test_code_is_explained_without_a_configuration(folder: Path, called: Any) -> None:
    code, out, err = called("validate", "--explain", "lc012")
    assert (code, err, "```" in out) == (0, "", False)
    assert [line.strip() for line in out.splitlines()] == [
        line.strip() for line in explanation("LC012").splitlines() if not line.startswith("```")
    ]
    found = json.loads(called("validate", "--explain", "lc001", "--format", "json")[1])
    assert (found["code"], found["text"].partition("\n")[0]) == ("LC001", "# LC001: Configuration not found")
    code, out, err = called("validate", "--explain", "LC999")
    assert (code, out, "unknown code 'LC999'" in err) == (1, "", True)
    for option in (["--format", "github"], ["--strict"], ["--untrusted"], ["--store", "dev"]):
        code, out, err = called("validate", "--explain", "LC012", *option)
        assert (code, out, "--explain checks nothing" in err) == (2, "", True)


STORES = """\
[stores.prod]
alias = "lake"

[stores.prod.metadata_backend]
type = "postgres"
host = "${PGHOST}"
database = "lake_${STAGE}"
user = "${PGUSER:-lake}"
password = "${PGPASSWORD}"
secret_parameters = { sslmode = "require", sslkey = "planted-key" }

[stores.prod.storage_backend]
type = "s3"
bucket = "acme"
secret_parameters = { provider = "credential_chain" }

[stores.prod.attach_options]
meta_password = "${PGPASSWORD}"
meta_note = "swordfish"

[stores.staging]
extends = "prod"
storage_backend = { prefix = "staging" }
"""


@pytest.fixture
def stores(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "lakeconf.toml").write_text(STORES)
    monkeypatch.delenv("PGUSER", raising=False)
    for name, value in {"PGHOST": "db", "STAGE": "one", "PGPASSWORD": "planted-password"}.items():
        monkeypatch.setenv(name, value)
    return project / "lakeconf.toml"


def test_each_value_of_a_store_has_an_origin(stores: Path, shown: Any) -> None:
    every = {
        one["key"]: (one["value"], one["from"]) for one in json.loads(shown("stores", "staging", "--format", "json"))
    }
    unset = {key: value for key, (value, origin) in every.items() if origin == "not set"}
    assert {"metadata_backend.port", "storage_backend.use_ssl", "committer"} <= unset.keys()
    found = {key: one for key, one in every.items() if key not in unset}
    assert not any(known.startswith(f"{key}.") for key in unset for known in found)
    inherited = ", inherited from stores.prod"
    assert found == {
        "alias": ("lake", f"lakeconf.toml:2{inherited}"),
        "metadata_backend.type": ("postgres", f"lakeconf.toml:5{inherited}"),
        "metadata_backend.host": ("db", f"the variable PGHOST, named in lakeconf.toml:6{inherited}"),
        "metadata_backend.database": ("lake_one", f"lakeconf.toml:7, with the variable STAGE{inherited}"),
        "metadata_backend.user": (
            "lake",
            f"the default in lakeconf.toml:8, because the variable PGUSER is not set{inherited}",
        ),
        "metadata_backend.password": ("***", f"the variable PGPASSWORD, named in lakeconf.toml:9{inherited}"),
        "metadata_backend.secret_parameters.sslmode": ("require", f"lakeconf.toml:10{inherited}"),
        "metadata_backend.secret_parameters.sslkey": ("***", f"lakeconf.toml:10{inherited}"),
        "storage_backend.type": ("s3", f"lakeconf.toml:13{inherited}"),
        "storage_backend.bucket": ("acme", f"lakeconf.toml:14{inherited}"),
        "storage_backend.secret_parameters.provider": ("credential_chain", f"lakeconf.toml:15{inherited}"),
        "storage_backend.prefix": ("staging", "lakeconf.toml:23"),
        "attach_options.meta_password": ("***", f"the variable PGPASSWORD, named in lakeconf.toml:18{inherited}"),
        "attach_options.meta_note": ("***", f"lakeconf.toml:19{inherited}"),
        "extends": ("prod", "lakeconf.toml:22"),
    }
    header, *lines = shown("stores", "staging").splitlines()
    assert header.split() == ["key", "value", "from"]
    assert ["storage_backend.prefix", "staging", "lakeconf.toml:23"] in [line.split() for line in lines]


def test_values_of_an_invalid_store_are_not_shown(stores: Path, called: Any) -> None:
    """Nothing tells that the value of a misspelt key is a secret."""
    for text in (STORES.replace("sslkey =", "ssl key ="), STORES.replace("password =", "passwrd =", 1)):
        stores.write_text(text.replace('"${PGPASSWORD}"', '"planted-password"'))
        code, out, err = called("stores", "prod")
        assert (code, out) == (1, "")
        assert "planted" not in err
    stores.write_text(STORES.replace('host = "${PGHOST}"', 'host = "postgres://u:${PGHOST}@h/x"'))
    assert "u:db@" not in "".join(map(str, called("stores", "prod")))


def test_stores_needs_no_variables_and_no_valid_configuration(run_in_stores: Any, project: Path) -> None:
    code, out, err = run_in_stores("stores")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "*  dev      sqlite + local",
        "   prod     postgres + s3",
        "   staging  postgres + s3   extends prod",
    ]
    assert json.loads(run_in_stores("stores", "--format", "json")[1])[2] == {
        "name": "staging",
        "is_default": False,
        "metadata_backend": "postgres",
        "storage_backend": "s3",
        "extends": "prod",
        "alias": "staging",
    }
    (project / "lakeconf.toml").write_text('[stores.a]\nextends = "b"\n\n[stores.c.metadata_backend]\nx = 1\n')
    assert run_in_stores("stores") == (0, "   a  ?\n   c  ?\n", "")
