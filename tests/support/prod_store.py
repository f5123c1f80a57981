"""Configurations with the stores `dev` (SQLite, local files) and `prod` (PostgreSQL, S3), and their backends."""

from __future__ import annotations

from typing import Any

import pytest

from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.object_storage import S3Storage
from lakeconf.config.config import Config, init
from lakeconf.errors import ConfigError, Problem

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


def s3(config: Config, name: str) -> S3Storage:
    backend = config.get_store(name).storage_backend
    assert isinstance(backend, S3Storage)
    return backend
