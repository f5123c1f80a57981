"""Secrets are masked: unlisted parameters at every depth, and secret values that other fields use too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeconf
from lakeconf.backends.secrecy import READABLE_PARAMETERS, guard_parameters, is_secret
from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.config.warnings import warnings
from lakeconf.errors import LakeconfError
from lakeconf.integrations.exports import TOOLS
from lakeconf.secret import HiddenText, Secret, hidden, masked

if TYPE_CHECKING:
    from pathlib import Path

PARAMETERS = """
[stores.dev.metadata_backend]
type = "sqlite"
uri = "catalog.sqlite"

[stores.dev.storage_backend]
type = "s3"
bucket = "acme"

[stores.dev.storage_backend.secret_parameters]
provider = "credential_chain"
refresh_info = {{ ordinary = "planted-1", region = "eu" }}
listed = ["planted-2", "planted-3"]
extra_http_headers = {{ x-trace = "planted-4", region = "planted-5" }}
uri = "postgresql://u:planted-6@h"
something_new = 735194
{more}
"""
# One variable is a secret in one field and is also used in other fields, of the same store and of another one.
TAINTED = """
default_store = "dev"

[stores.dev]
alias = "${PLANTED_NAME}"

[stores.dev.metadata_backend]
type = "sqlite"
uri = "${PLANTED}.sqlite"

[stores.dev.storage_backend]
type = "s3"
bucket = "acme"
region = "${PLANTED}"
prefix = "a/${PLANTED}/b"
key_id = "a-key"
secret = "${PLANTED}"

[stores.other.metadata_backend]
type = "postgres"
host = "${PLANTED}"
database = "literal-planted"
user = "short"
password = "${SHORT}"

[stores.other.storage_backend]
type = "s3"
bucket = "acme"
region = "${PLANTED}"
key_id = "${PLANTED}"
secret = "literal-planted"

[stores.third]
extends = "other"
storage_backend = { secret = "${PLANTED_NAME}" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANTED", "tok'en-Planted-1")
    monkeypatch.setenv("PLANTED_NAME", "planted_name")
    monkeypatch.setenv("SHORT", "sh")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    run(command)
    output = capsys.readouterr()
    assert output.out + output.err
    return output.out + output.err


COMMANDS = [
    ["stores"],
    ["stores", "--format", "json"],
    *(["validate", "--format", name] for name in ("text", "json", "github")),
    *(["preview-sql", "--store", store] for store in ("dev", "other", "third")),
    ["preview-sql", "--store", "dev", "--format", "json"],
    ["preview-sql", "--store", "dev", "--portable"],
    *(["stores", store] for store in ("dev", "other", "third")),
    ["stores", "dev.storage_backend.region"],
    *(["export", tool, store] for tool in TOOLS for store in ("dev", "other")),
]


@pytest.mark.parametrize("more", ["", 'nonsense = "${PLANTED}"'])
def test_parameters_are_secret_unless_listed(more: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").write_text(PARAMETERS.format(more=more))
    store = lakeconf.init().get_store("dev")
    texts = [repr(store), repr(store.storage_backend), repr(store.statements), *store.preview_sql()]
    commands = (["preview-sql"], ["stores", "dev"], ["validate", "--format", "json"], ["export", "dbt"])
    texts += [said(capsys, *command) for command in commands]
    assert not [text for text in texts if "lanted-" in text or "735194" in text]
    assert "MAP {'ordinary': '***', 'region': 'eu'}" in "".join(store.preview_sql())
    assert {secret.reveal() for secret in store.secrets} >= {f"planted-{number}" for number in range(1, 6)}
    with pytest.raises(LakeconfError, match="is no variable, so a portable script would contain its value"):
        store.preview_sql(portable=True)
    assert "LC060" in {warning.code for warning in warnings()}


@given(st.text(min_size=1), st.text(min_size=1))
def test_unlisted_parameters_are_secret_at_every_depth(key: str, value: str) -> None:
    (guarded,) = guard_parameters({key: [value, {key: {"region": value}}]}).values()
    assert (key.lower() in READABLE_PARAMETERS) == ("Secret" not in repr(guarded))
    assert is_secret(("storage_backend", "secret_parameters", key)) == (key.lower() not in READABLE_PARAMETERS)


def test_credentials_in_fields_that_are_shown_are_refused() -> None:
    for section, key, value in (
        ("metadata_backend", "host", "u:planted@db.example.com"),
        ("metadata_backend", "database", "postgresql://u:planted@db/lake"),
        ("metadata_backend", "user", "u password=planted"),
        ("storage_backend", "endpoint", "u:planted@minio:9000"),
        ("storage_backend", "scope", "s3://u:planted@acme/"),
        ("storage_backend", "key_id", "https://u:planted@h"),
    ):
        store: dict[str, dict[str, Any]] = {
            "metadata_backend": {"type": "postgres", "host": "h", "database": "d", "user": "u"},
            "storage_backend": {"type": "s3", "bucket": "b", "key_id": "k", "secret": "s"},
        }
        store[section][key] = value
        (problem,) = validate({"stores": {"dev": store}})
        assert problem.message.startswith(f"{key} contains a user or a password"), section
        assert "planted" not in str(problem), section


def test_secret_used_in_another_field_is_masked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").write_text(TAINTED)
    for command in COMMANDS:
        text = said(capsys, *command)
        for value in ("en-Planted-1", "planted_name", "literal-planted", '"sh"'):
            assert value not in text, command
    config = lakeconf.init()
    for store in map(config.get_store, config.names):
        things = [store, store.metadata_backend, store.storage_backend, store.statements, store.spark_conf()]
        for text in map(repr, [config, *things]):
            for value in ("en-Planted-1", "planted_name", "literal-planted"):
                assert value not in text
    # The statements that run contain the values.
    assert config.get_store("dev").alias == "planted_name"
    assert "region 'tok''en-planted-1'" in " ".join(config.get_store("dev").preview_sql(show_secrets=True)).lower()


def test_portable_script_reads_the_variable(folder: Path) -> None:
    (folder / "lakeconf.toml").write_text(TAINTED.replace('prefix = "a/${PLANTED}/b"', "").replace("${PLANTED}.", "c."))
    config = lakeconf.init()
    with pytest.raises(LakeconfError, match="the alias contains a secret"):
        config.get_store("dev").preview_sql(portable=True)
    (folder / "lakeconf.toml").write_text(
        (folder / "lakeconf.toml").read_text().replace('alias = "${PLANTED_NAME}"', "")
    )
    assert any("REGION getenv('PLANTED')" in line for line in lakeconf.init().get_store().preview_sql(portable=True))


@pytest.mark.parametrize("password", ["lake", "prod", "conf", "lakeconf", "lakeconf_prod", "data"])
def test_preview_is_the_sql_that_runs_even_if_a_password_is_part_of_a_known_name(
    password: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "lakeconf.toml").write_text(
        """
        [stores.prod]
        storage_backend = { type = "local", path = "data_of_lakes" }
        metadata_backend = { type = "postgres", host = "db", database = "lakes", user = "u", password = "${PLANTED}" }
        """
    )
    monkeypatch.setenv("PLANTED", password)
    masked_sql, clear = (lakeconf.init().get_store().preview_sql(show_secrets=show) for show in (False, True))
    assert "***" in "".join(masked_sql)
    assert [line.replace("PASSWORD '***'", f"PASSWORD '{password}'") for line in masked_sql] == clear


def test_a_secret_that_is_also_the_alias_is_masked_in_other_fields() -> None:
    metadata = {"type": "sqlite", "uri": "c"}
    bucket = {"type": "s3", "bucket": "b", "key_id": "k", "secret": "planted", "region": "planted"}
    store = {"alias": "planted", "metadata_backend": metadata, "storage_backend": bucket}
    assert "planted" not in "".join(lakeconf.init({"stores": {"prod": store}}).get_store().preview_sql())


@given(st.text(), st.text(min_size=1), st.text())
def test_masking_removes_secrets(before: str, secret: str, after: str) -> None:
    text = before + secret + after
    shown = masked(text, [Secret(secret)])
    if len(secret) >= 12 and secret not in "*" * 20:
        assert secret not in shown or secret in before.replace(secret, "***") + "***" + after.replace(secret, "***")
    assert masked(secret, [Secret(secret)]) == "***"
    found = hidden({"a": [text]}, [Secret(secret)])["a"][0]
    assert found == text
    assert isinstance(found, HiddenText) == (shown != text or secret == text)
    assert json.loads(json.dumps(found)) == text
