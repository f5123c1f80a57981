"""Configurations, as TOML text or dicts, read as far as a test needs: a source, a draft of a store, or stores."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.config.config import Config, init
from lakeconf.config.file import ConfigSource
from lakeconf.config.read_store import read_store
from lakeconf.config.resolve import Draft, Inheritance, secret_texts, secrets_of
from lakeconf.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakeconf.config.read_store import StoreReading
    from lakeconf.secret import Secret

FOLDER = Path("/conf")
SQLITE = {"type": "sqlite", "uri": "/lake/c.sqlite"}
LOCAL = {"type": "local", "path": "/lake/data"}
DEV = {"metadata_backend": SQLITE, "storage_backend": LOCAL}
PROD: dict[str, Any] = {
    "alias": "lake",
    "metadata_backend": {
        "type": "postgres",
        "secret_name": "prod_catalog",
        "host": "${PGHOST}",
        "database": "${PGDATABASE:-lake}",
        "user": "lake",
        "password": "${PGPASSWORD:?export it}",
    },
    "storage_backend": {
        "type": "s3",
        "secret_name": "prod_s3",
        "bucket": "acme",
        "prefix": "shop",
        "secret_parameters": {"provider": "credential_chain"},
    },
}


def source_of(text: str) -> ConfigSource:
    """The content of `/conf/lakeconf.toml`, which need not exist."""
    return ConfigSource(tomllib.loads(text), FOLDER / "lakeconf.toml", text)


def stores_of(text: str) -> Inheritance:
    """The stores of a configuration."""
    source = source_of(text)
    return Inheritance(source, source.data["stores"])


def draft_of(
    text: str, environment: Mapping[str, str] | None = None, *, untrusted: bool = False, hidden: Sequence[Secret] = ()
) -> Draft:
    """The draft of the store `dev`; without `environment`, no variable is set."""
    stores, given = stores_of(text), environment or {}
    secrets = [*hidden, *secrets_of(secret_texts(stores.stores), given)]
    return Draft(stores, "dev", None if untrusted else given, secrets)


def reading_of(text: str, environment: Mapping[str, str] | None = None, *, untrusted: bool = False) -> StoreReading:
    """What `read_store` finds out about the store `dev`; without `environment`, no variable is set."""
    stores, given = stores_of(text), environment or {}
    return read_store(stores, "dev", None if untrusted else given, secrets_of(secret_texts(stores.stores), given))


def summary(problem: Problem) -> tuple[str, str, str | None, str | None, int | None]:
    """The code, message, hint, key and line of a problem."""
    return problem.code, problem.message, problem.hint, problem.key, problem.line


def stores(**tables: Any) -> dict[str, Any]:
    return {"stores": tables}


def problems_of(source: Any, name: str | None = None) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as raised:
        init(source).get_store(name)
    return raised.value.problems


def postgres(config: Config, name: str) -> PostgresMetadata:
    backend = config.get_store(name).metadata_backend
    assert isinstance(backend, PostgresMetadata)
    return backend
