"""Which configured values may be shown; all others are secrets."""

from __future__ import annotations

import pytest

from lakeconf.backends.secrecy import (
    guard_options,
    guard_parameters,
    holds_credentials,
    is_readable_parameter,
    is_secret,
    is_secret_key,
)
from lakeconf.secret import FromVariable, Secret

SECRET = [
    *("password", "PASSWORD", "pg_password", "passphrase", "api_token", "aws_credentials", "extra_http_headers"),
    *("secret", "client_secret", "sslkey", "SSLKEY", "sslkey_file", "api_key", "key", "account_key"),
    *("my_key_id_key", "secret_names", "xsecret_name"),  # only whole names are exceptions
]
SHOWN = ["key_id", "KMS_KEY_ID", "secret_name", "secret_parameters", "keys", "keyring", "host", "user", "passfile"]


@pytest.mark.parametrize("key", SECRET + SHOWN)
def test_names_that_imply_a_secret(key: str) -> None:
    assert is_secret_key(key) == is_secret(("storage_backend", key)) == (key in SECRET)


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        *(((), False), (("attach_options",), False), (("attach_options", "read_only"), False)),
        *((("attach_options", "meta_schema"), False), (("attach_options", "META_SCHEMA"), False)),
        *((("attach_options", "meta_passfile"), True), (("attach_options", "Meta_Anything"), True)),
        *((("attach_options", "meta_schema", "deeper"), False), (("attach_options", "meta_x", "region"), True)),
        *((("attach_options", "encryption_key"), True), (("alias",), False), (("password",), True)),
        (("storage_backend", "secret_parameters", "region"), False),
        (("storage_backend", "secret_parameters", "unknown"), True),
        (("storage_backend", "secret_parameters", "refresh_info", "region"), False),
        (("storage_backend", "secret_parameters", "refresh_info", "token"), True),
        (("storage_backend", "secret_parameters", "unknown", "region"), True),
        (("storage_backend", "other_table", "region"), True),
    ],
)
def test_values_are_secret_by_their_path(path: tuple[str, ...], *, secret: bool) -> None:
    assert is_secret(path) == secret


def test_parameters_that_are_not_on_the_list_are_secret_and_everything_below_them() -> None:
    for name in ("", "region ", "token", "sslkey", "external_id", "new_in_duckdb_9"):
        assert not is_readable_parameter(name)
        assert guard_parameters({name: "x"}) == {name: Secret("x")}
    guarded = guard_parameters({"headers": {"region": "a", "b": ["c", ("d", 1.5)]}, "chain": ["a", ("b",)]})
    assert guarded == {
        "headers": {"region": Secret("a"), "b": [Secret("c"), [Secret("d"), Secret("1.5")]]},
        "chain": ["a", ["b"]],
    }


def test_booleans_empty_texts_secrets_and_names_of_variables_stay_as_they_are() -> None:
    secret = Secret("x", variable="X")
    guarded = guard_parameters({"a": True, "b": "", "c": secret, "d": 0})
    assert guarded == {"a": True, "b": "", "c": secret, "d": Secret("0")}
    assert guarded["c"] is secret
    guarded = guard_parameters({"a": FromVariable("x", "X"), "b": "y"})
    assert [value.variable for value in guarded.values() if isinstance(value, Secret)] == ["X", None]


def test_catalog_options_are_secret_unless_listed() -> None:
    options = {"read_only": True, "snapshot_time": "now", "meta_journal_mode": "WAL", "META_Passfile": "x", "meta_n": 5}
    assert guard_options(options) == {**options, "META_Passfile": Secret("x"), "meta_n": Secret("5")}
    assert guard_options({"meta_schema": "s", "META_BUSY_TIMEOUT": 1, "a_token": "t", "my_meta_x": "y"}) == {
        "meta_schema": "s",
        "META_BUSY_TIMEOUT": 1,
        "a_token": Secret("t"),
        "my_meta_x": "y",
    }


CREDENTIALS = [
    *(("database", "md:d?motherduck_token=x"), ("database", "postgresql://u:p@h/d"), ("host", "u@h")),
    *(("database", "see postgresql://u@h"), ("user", "u password=p"), ("user", "u PASSWD = p"), ("x", "pwd=p")),
    *(("endpoint", "u:p@h:9000"), ("account_id", "a@b")),
]
OTHERS = [
    *(("user", "me@example.com"), ("data_path", "s3://bucket/a@b"), ("data_path", "s3://bucket and x@y")),
    *(("database", "password"), ("database", "my_password=1"), ("database", "mypwd=1")),
    *(("host", "db.example.com"), ("host", "")),
]


@pytest.mark.parametrize(("key", "text"), CREDENTIALS + OTHERS)
def test_credentials_in_a_string_are_found(key: str, text: str) -> None:
    assert holds_credentials(key, text) == ((key, text) in CREDENTIALS)
