"""The supported pairs of backends as configurations: with inline credentials, and with existing secrets."""

from __future__ import annotations

import itertools
from typing import Any

Table = dict[str, Any]

# Every secret value in the configurations, by environment variable.
SECRETS = {"PGPASSWORD": "hunter2-pg", "BUCKET_SECRET": "hunter2-bucket", "BUCKET_TOKEN": "hunter2-token"}

METADATA: dict[str, Table] = {
    "duckdb": {"type": "duckdb", "uri": "/lake/catalog.duckdb"},
    "sqlite": {"type": "sqlite", "uri": "/lake/catalog.sqlite"},
    "postgres": {"type": "postgres", "secret_name": "my_catalog", "metadata_schema": "shop"},
    "motherduck": {"type": "motherduck", "database": "shop_lake"},
}
STORAGE: dict[str, Table | None] = {
    "local": {"type": "local", "path": "/lake/data"},
    "s3": {"type": "s3", "secret_name": "my_bucket", "bucket": "acme", "prefix": "shop", "region": "eu-central-1"},
    "r2": {"type": "r2", "secret_name": "my_bucket", "account_id": "0a1b", "data_path": "r2://acme/shop/"},
    "gcs": {"type": "gcs", "secret_name": "my_bucket", "data_path": "gs://acme/shop/"},
    "azure": {"type": "azure", "secret_name": "my_bucket", "account": "acme", "container": "shop", "prefix": "lake"},
    "none": None,
}
_BUCKET_KEYS = {"key_id": "AKIA0", "secret": "${BUCKET_SECRET}"}
CREDENTIALS: dict[str, Table] = {
    "postgres": {
        "host": "db.example.com",
        "port": 5432,
        "database": "lake",
        "user": "lake",
        "password": "${PGPASSWORD:?export PGPASSWORD}",
        "secret_parameters": {"sslmode": "require"},
    },
    "s3": {**_BUCKET_KEYS, "session_token": "${BUCKET_TOKEN}"},
    "r2": _BUCKET_KEYS,
    "gcs": _BUCKET_KEYS,
    "azure": {"account_key": "${BUCKET_SECRET}"},
}
ALLOWED = [
    *itertools.product(("duckdb", "sqlite", "postgres"), ("local", "s3", "r2", "gcs", "azure")),
    *(("motherduck", storage) for storage in ("none", "s3", "r2", "gcs")),
]
REFUSED = [(metadata, storage) for metadata in METADATA for storage in STORAGE if (metadata, storage) not in ALLOWED]


def configuration(metadata: str, storage: str, *, inline: bool = False, store: str = "prod") -> Table:
    """A configuration with one store of this pair."""
    backends = {"metadata_backend": METADATA[metadata], "storage_backend": STORAGE[storage]}
    table = {}
    for section, backend in backends.items():
        if backend is not None:
            table[section] = backend | (CREDENTIALS.get(backend["type"], {}) if inline else {})
    return {"stores": {store: table}}


def has_credentials(metadata: str, storage: str) -> bool:
    """True if the configuration of this pair can contain credentials."""
    return metadata in CREDENTIALS or storage in CREDENTIALS
