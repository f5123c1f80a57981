"""`lakeconf stores KEY`: the value, its origin and its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.cli.app import run
from lakeconf.config.config import init
from lakeconf.config.explain_key import explain_key
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
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

[stores.staging]
extends = "prod"
storage_backend = { prefix = "staging" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakeconf.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGUSER", raising=False)
    for name, value in {"PGHOST": "db", "STAGE": "one", "PGPASSWORD": "planted-password"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKECONF_STORES__PROD__STORAGE_BACKEND__REGION", "eu-central-1")
    return tmp_path / "lakeconf.toml"


@pytest.mark.parametrize(
    ("key", "value", "origin"),
    [
        ("prod.alias", "lake", "lakeconf.toml:2"),
        ("prod.metadata_backend.type", "postgres", "lakeconf.toml:5"),
        ("prod.metadata_backend.host", "db", "the variable PGHOST, named in lakeconf.toml:6"),
        ("prod.metadata_backend.database", "lake_one", "lakeconf.toml:7, with the variable STAGE"),
        (
            "prod.metadata_backend.user",
            "lake",
            "the default in lakeconf.toml:8, because the variable PGUSER is not set",
        ),
        ("prod.metadata_backend.password", "***", "the variable PGPASSWORD, named in lakeconf.toml:9"),
        ("prod.metadata_backend.secret_parameters", "sslmode = require, sslkey = ***", "lakeconf.toml:10"),
        (
            "prod.storage_backend.region",
            "eu-central-1",
            "the variable LAKECONF_STORES__PROD__STORAGE_BACKEND__REGION, which overrides the file",
        ),
        ("prod.storage_backend.prefix", "(not set)", "not set"),
        ("staging.storage_backend.prefix", "staging", "lakeconf.toml:19"),
        ("staging.storage_backend.bucket", "acme", "lakeconf.toml:14, inherited from stores.prod"),
    ],
)
def test_one_key(key: str, value: str, origin: str, file: Path) -> None:
    (found,) = explain_key(init(), f"stores.{key}")
    assert (found.key, found.value, found.origin) == (f"stores.{key}", value, origin)
    assert found.description


def test_all_keys_of_a_store(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stores", "prod"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", "value", "from"]
    assert {"stores.prod.alias", "stores.prod.metadata_backend.port", "stores.prod.storage_backend.bucket"} <= {
        line.split()[0] for line in lines
    }
    assert "planted" not in "".join(lines)
    assert run(["stores", "prod.storage_backend.bucket"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "stores.prod.storage_backend.bucket = acme",
        "  from  lakeconf.toml:14",
    ]


def test_unknown_keys(file: Path) -> None:
    with pytest.raises(LakeconfError, match="'prod' has no key") as caught:
        explain_key(init(), "stores.prod.storage_backend.buckett")
    assert caught.value.hint == 'did you mean "stores.prod.storage_backend.bucket"?'
    with pytest.raises(LakeconfError, match="unknown store 'prdo'"):
        explain_key(init(), "stores.prdo")


def test_url_with_credentials_is_not_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace('host = "${PGHOST}"', 'host = "postgres://u:${PGHOST}@h/x"'))
    run(["stores", "prod.metadata_backend.host"])
    run(["stores", "prod"])
    shown = capsys.readouterr()
    assert "u:db@" not in shown.out + shown.err
