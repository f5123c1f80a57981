"""Valid settings that are probably mistakes."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from config_source import summary

from lakeconf.config.config import init
from lakeconf.config.warnings import warnings

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "c"\n'
FOLDER = '[stores.dev.storage_backend]\ntype = "local"\npath = "data"\n'
BUCKET = '[stores.dev.storage_backend]\ntype = "s3"\nbucket = "b"\nkey_id = "k"\n'
SERVER = '[stores.dev.metadata_backend]\ntype = "postgres"\ndatabase = "d"\nuser = "u"\n'
SECRET = 'secret = "${TOKEN}"\n'
WITH_TLS = 'write secret_parameters = { sslmode = "verify-full", sslrootcert = "system" }'
Summary = tuple[str, str, str | None, str | None, int | None]


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "hunter2")
    return tmp_path / "lakeconf.toml"


def found(file: Path, text: str, *stores: str) -> list[Summary]:
    file.write_text(text)
    return [summary(one) for one in warnings(None, *stores)]


USUAL = [
    CATALOG + FOLDER,
    *(CATALOG + BUCKET + f'secret = "{value}"\n' for value in ("${TOKEN}", "${TOKEN:?why}", "${TOKEN:-}")),
    # With TLS, or on this machine.
    *(CATALOG + BUCKET + SECRET + f'endpoint = "e:1"\n{line}\n' for line in ("use_ssl = true", "")),
    CATALOG + BUCKET + SECRET + 'endpoint = "localhost:9"\nuse_ssl = false\n',
    SERVER + 'host = "localhost"\n' + FOLDER,
    # The server of an existing secret is not known.
    '[stores.dev.metadata_backend]\ntype = "postgres"\nsecret_name = "mine"\n' + FOLDER,
    # No variable.
    *(CATALOG.replace('"c"', f'"{value}"') + FOLDER for value in ("$1", "$", "a$HOME", "$$HOME", "$É")),
]


@pytest.mark.parametrize("text", USUAL)
def test_usual_configuration_has_no_warnings(text: str, file: Path) -> None:
    assert found(file, text) == []


@pytest.mark.parametrize("text", ["", "not toml", "[stores.dev]\n[store]\n", "[stores.dev]\nextends = 'x'\n"])
def test_invalid_configuration_has_no_warnings(text: str, file: Path) -> None:
    assert found(file, text) == []
    assert warnings(file.parent / "missing.toml") == []


def test_configuration_is_given_in_each_form(file: Path) -> None:
    text = CATALOG + BUCKET + 'secret = "planted"\n'
    file.write_text(text)
    for source in (None, file, str(file.parent), init(file), tomllib.loads(text)):
        assert [one.code for one in warnings(source)] == ["LC060"]


# No default store.


def test_several_stores_without_a_default(file: Path) -> None:
    text = CATALOG + FOLDER
    both = text + text.replace(".dev.", ".test.").replace('"data"', '"other"')
    message = "several stores are declared, but no default_store"
    hint = 'write default_store = "dev" at the top, or name a store in every call'
    assert found(file, both) == [("LC062", message, hint, None, None)]
    assert found(file, 'default_store = "test"\n' + both) == []
    assert found(file, 'default_store = "${UNSET}"\n' + both) == []


# Secrets in the file.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("planted", "the file contains a secret"),
        ("x${TOKEN}", "the file contains part of a secret, or its default value"),
        ("${TOKEN:-planted}", "the file contains part of a secret, or its default value"),
    ],
)
def test_secret_in_the_file(value: str, message: str, file: Path) -> None:
    hint = 'reference a variable instead: secret = "${DEV_SECRET}"'
    expected = ("LC060", message, hint, "stores.dev.storage_backend.secret", 8)
    assert found(file, CATALOG + BUCKET + f'secret = "{value}"\n') == [expected]


def test_inherited_secret_is_reported_once_with_the_name_of_its_owner(file: Path) -> None:
    text = 'default_store = "dev"\n' + CATALOG + BUCKET + 'secret = "planted"\n'
    text += '[stores.child]\nextends = "dev"\nalias = "other"\n'
    for stores in ((), ("child",)):
        assert [one[2:] for one in found(file, text, *stores)] == [
            ('reference a variable instead: secret = "${DEV_SECRET}"', "stores.dev.storage_backend.secret", 9)
        ]


def test_parameters_and_options_that_are_secrets(file: Path) -> None:
    text = "[stores.dev]\nattach_options = { meta_password = 'planted', read_only = true }\n"
    text += CATALOG + BUCKET + "secret = '${TOKEN}'\nsecret_parameters = { token = 'planted', kms_key_id = 'x' }\n"
    assert [(one[0], one[3]) for one in found(file, text)] == [
        ("LC060", "stores.dev.attach_options.meta_password"),
        ("LC060", "stores.dev.storage_backend.secret_parameters.token"),
    ]


# Connections without TLS.


@pytest.mark.parametrize("endpoint", ["minio.example.com:9000", "10.0.0.1", "${ENDPOINT}"])
@pytest.mark.parametrize("off", ["false", '"${OFF}"'])
def test_bucket_without_tls(endpoint: str, off: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFF", "0")
    monkeypatch.setenv("ENDPOINT", "minio.example.com")
    text = CATALOG + BUCKET + f'secret = "${{TOKEN}}"\nendpoint = "{endpoint}"\nuse_ssl = {off}\n'
    message = f"credentials and data go to {endpoint} without TLS"
    hint = "remove use_ssl, or use a server on this machine"
    assert found(file, text) == [("LC061", message, hint, "stores.dev.storage_backend.use_ssl", 10)]
    assert [one[1] for one in found(file, text.replace(f'endpoint = "{endpoint}"\n', ""))] == [
        "credentials and data go to the storage server without TLS"
    ]


def test_catalog_without_tls(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "db.example.com")
    tls = 'host = "db.example.com"\nsecret_parameters = { sslmode = "require" }\n'
    for lines, shown in (
        *((f'host = "{host}"\n', host) for host in ("db.example.com", "${HOST}")),
        (tls, "db.example.com"),
        # A secret elsewhere.
        ('host = "hunter2.example.com"\npassword = "${TOKEN}"\n', "***.example.com"),
    ):
        message = f"nothing verifies that the server is {shown}, which gets the password"
        expected = ("LC063", message, WITH_TLS, "stores.dev.metadata_backend.host", 5)
        assert found(file, SERVER + lines + FOLDER) == [expected]
    assert found(file, SERVER + tls.replace("require", "verify-full") + FOLDER) == []


# Variables without braces.


@pytest.mark.parametrize(("name", "rest"), [("HOME", ""), ("_x1", ""), ("HOME", "/…")])
def test_variable_without_braces(name: str, rest: str, file: Path) -> None:
    message = "a variable without braces is not resolved"
    hint = f'write "${{{name}}}{rest}", or "$${name}{rest}" for a literal dollar sign'
    expected = ("LC064", message, hint, "stores.dev.metadata_backend.uri", 3)
    assert found(file, CATALOG.replace('"c"', f'"${name}{rest}"') + FOLDER) == [expected]
    assert [one[0] for one in found(file, CATALOG + BUCKET + 'secret = "$TOKEN"\n')] == ["LC064"]


# Order and selection.


def test_warnings_are_in_the_order_of_the_file_and_of_the_named_stores(file: Path) -> None:
    one = CATALOG.replace('"c"', '"$A"') + BUCKET + 'secret = "planted"\n'
    other = one.replace(".dev.", ".test.").replace('"b"', '"other"')
    found(file, one + other)
    codes = [(item[0], item[4]) for item in found(file, one + other)]
    assert codes == [("LC062", None), ("LC064", 3), ("LC060", 8), ("LC064", 11), ("LC060", 16)]
    named = [(item[0], item[4]) for item in found(file, one + other, "test")]
    assert named == [("LC062", None), ("LC064", 11), ("LC060", 16)]


def test_invalid_store_has_only_the_warnings_of_its_text(file: Path) -> None:
    text = 'default_store = "test"\n' + (CATALOG + FOLDER).replace(".dev.", ".test.")
    text += '[stores.dev]\nextends = "nowhere"\nalias = "$A"\n'
    text += '[stores.more]\nnonsense = "$B"\nextends = "test"\n'
    assert [(one[0], one[3]) for one in found(file, text)] == [("LC064", "stores.more.nonsense")]
