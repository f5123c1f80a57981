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


def test_usual_configuration_has_no_warnings(file: Path) -> None:
    assert found(file, CATALOG + FOLDER) == []
    assert found(file, CATALOG + BUCKET + 'secret = "${TOKEN}"\n') == []


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
    assert found(file, both) == [
        (
            "LC062",
            "several stores are declared, but no default_store",
            'write default_store = "dev" at the top, or name a store in every call',
            None,
            None,
        )
    ]
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
    assert found(file, CATALOG + BUCKET + f'secret = "{value}"\n') == [
        (
            "LC060",
            message,
            'reference a variable instead: secret = "${DEV_SECRET}"',
            "stores.dev.storage_backend.secret",
            8,
        )
    ]


@pytest.mark.parametrize("value", ["${TOKEN}", "${TOKEN:?why}", "${TOKEN:-}"])
def test_secret_from_a_variable(value: str, file: Path) -> None:
    assert found(file, CATALOG + BUCKET + f'secret = "{value}"\n') == []


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


@pytest.mark.parametrize("endpoint", ["minio.example.com:9000", "10.0.0.1"])
@pytest.mark.parametrize("off", ["false", '"${OFF}"'])
def test_bucket_without_tls(endpoint: str, off: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFF", "0")
    text = CATALOG + BUCKET + f'secret = "${{TOKEN}}"\nendpoint = "{endpoint}"\nuse_ssl = {off}\n'
    assert found(file, text) == [
        (
            "LC061",
            f"credentials and data go to {endpoint} without TLS",
            "remove use_ssl, or use a server on this machine",
            "stores.dev.storage_backend.use_ssl",
            10,
        )
    ]


def test_endpoint_from_a_variable_is_not_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDPOINT", "minio.example.com")
    text = CATALOG + BUCKET + 'secret = "${TOKEN}"\nendpoint = "${ENDPOINT}"\nuse_ssl = false\n'
    assert [one[1] for one in found(file, text)] == ["credentials and data go to ${ENDPOINT} without TLS"]


def test_bucket_of_aws_without_tls(file: Path) -> None:
    text = CATALOG + BUCKET + 'secret = "${TOKEN}"\nuse_ssl = false\n'
    assert [one[1] for one in found(file, text)] == ["credentials and data go to the storage server without TLS"]


@pytest.mark.parametrize(
    "lines", ['endpoint = "e:1"\nuse_ssl = true', 'endpoint = "e:1"', 'endpoint = "localhost:9"\nuse_ssl = false']
)
def test_bucket_with_tls_or_on_this_machine(lines: str, file: Path) -> None:
    assert found(file, CATALOG + BUCKET + f'secret = "${{TOKEN}}"\n{lines}\n') == []


def test_catalog_without_tls(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(file, SERVER + 'host = "db.example.com"\n' + FOLDER) == [
        (
            "LC063",
            "nothing verifies that the server is db.example.com, which gets the password",
            WITH_TLS,
            "stores.dev.metadata_backend.host",
            5,
        )
    ]
    monkeypatch.setenv("HOST", "db.example.com")
    assert [one[1] for one in found(file, SERVER + 'host = "${HOST}"\n' + FOLDER)] == [
        "nothing verifies that the server is ${HOST}, which gets the password"
    ]
    tls = 'host = "db.example.com"\nsecret_parameters = { sslmode = "require" }\n'
    assert [one[0] for one in found(file, SERVER + tls + FOLDER)] == ["LC063"]
    assert found(file, SERVER + tls.replace("require", "verify-full") + FOLDER) == []
    assert found(file, SERVER + 'host = "localhost"\n' + FOLDER) == []


def test_host_that_is_a_secret_elsewhere_is_masked(file: Path) -> None:
    text = SERVER + 'host = "hunter2.example.com"\npassword = "${TOKEN}"\n' + FOLDER
    assert [one[1] for one in found(file, text)] == [
        "nothing verifies that the server is ***.example.com, which gets the password"
    ]


def test_catalog_of_an_existing_secret_is_not_known(file: Path) -> None:
    text = '[stores.dev.metadata_backend]\ntype = "postgres"\nsecret_name = "mine"\n'
    assert found(file, text + FOLDER) == []


# Variables without braces.


@pytest.mark.parametrize("name", ["HOME", "_x1"])
def test_variable_without_braces(name: str, file: Path) -> None:
    assert found(file, CATALOG.replace('"c"', f'"${name}"') + FOLDER) == [
        (
            "LC064",
            "a variable without braces is not resolved",
            f'write "${{{name}}}", or "$${name}" for a literal dollar sign',
            "stores.dev.metadata_backend.uri",
            3,
        )
    ]


def test_secret_without_braces_is_one_warning(file: Path) -> None:
    (warning,) = found(file, CATALOG + BUCKET + 'secret = "$TOKEN"\n')
    assert warning[0] == "LC064"


@pytest.mark.parametrize("value", ["$1", "$", "a$HOME", "$HOME/c", "$$HOME", "$É"])
def test_other_dollar_signs(value: str, file: Path) -> None:
    assert found(file, CATALOG.replace('"c"', f'"{value}"') + FOLDER) == []


# Order and selection.


def test_warnings_are_in_the_order_of_the_file_and_of_the_named_stores(file: Path) -> None:
    one = CATALOG.replace('"c"', '"$A"') + BUCKET + 'secret = "planted"\n'
    other = one.replace(".dev.", ".test.").replace('"b"', '"other"')
    found(file, one + other)
    codes = [(item[0], item[4]) for item in found(file, one + other)]
    assert codes == [("LC062", None), ("LC064", 3), ("LC060", 8), ("LC064", 11), ("LC060", 16)]
    assert [(item[0], item[4]) for item in found(file, one + other, "test")] == [
        ("LC062", None),
        ("LC064", 11),
        ("LC060", 16),
    ]


def test_invalid_store_has_only_the_warnings_of_its_text(file: Path) -> None:
    text = 'default_store = "test"\n' + (CATALOG + FOLDER).replace(".dev.", ".test.")
    text += '[stores.dev]\nextends = "nowhere"\nalias = "$A"\n'
    text += '[stores.more]\nnonsense = "$B"\nextends = "test"\n'
    assert [(one[0], one[3]) for one in found(file, text)] == [("LC064", "stores.more.nonsense")]
