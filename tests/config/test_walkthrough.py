"""From a TOML file with one lake to SQL: init, get_store, extensions and preview_sql, for many combinations."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakeconf.config.config import init
from lakeconf.store import Store

SQLITE = """
[stores.dev.metadata_backend]
type = "sqlite"
uri = "{folder}/ducklake_meta.db"
"""
POSTGRES = """
[stores.dev.metadata_backend]
type = "postgres"
secret_name = "my_pg_secret"
host = "localhost"
port = 5432
database = "ducklake_meta"
user = "ducklake"
password = "changeme"
"""
POSTGRES_PARAMETERS = POSTGRES + 'secret_parameters = {{ sslmode = "require" }}\n'
POSTGRES_REFERENCE = """
[stores.dev.metadata_backend]
type = "postgres"
secret_name = "my_pg_secret"
"""
MOTHERDUCK = """
[stores.dev.metadata_backend]
type = "motherduck"
database = "my_lake"
"""
MOTHERDUCK_BYOB = """
[stores.dev.metadata_backend]
type = "motherduck"
database = "my_ducklake"
region = "eu-central-1"
[stores.dev.storage_backend]
type = "s3"
secret_name = "my_s3_secret"
key_id = "AKIA..."
secret = "changeme"
region = "eu-central-1"
scope = "s3://mybucket/"
bucket = "mybucket"
"""
LOCAL = """
[stores.dev.storage_backend]
type = "local"
path = "{folder}/ducklake_storage"
"""
S3_REFERENCE = """
[stores.dev.storage_backend]
type = "s3"
secret_name = "my_s3_secret"
bucket = "my-ducklake-bucket"
prefix = "data"
region = "eu-central-1"
"""
S3_INLINE = S3_REFERENCE + 'key_id = "AKIA..."\nsecret = "changeme"\n'
S3_CHAIN = S3_REFERENCE + 'secret_parameters = {{ provider = "credential_chain" }}\n'
S3_KMS = S3_INLINE + 'secret_parameters = {{ kms_key_id = "arn:aws:kms:1" }}\n'
R2_REFERENCE = """
[stores.dev.storage_backend]
type = "r2"
secret_name = "my_r2_secret"
account_id = "your-cloudflare-account-id"
data_path = "r2://my-bucket/ducklake/"
"""
R2_INLINE = R2_REFERENCE + 'key_id = "R2_ACCESS_KEY"\nsecret = "changeme"\n'
GCS_REFERENCE = """
[stores.dev.storage_backend]
type = "gcs"
secret_name = "my_gcs_secret"
data_path = "gs://my-bucket/ducklake/"
"""
GCS_INLINE = GCS_REFERENCE + 'key_id = "HMAC_ACCESS_KEY"\nsecret = "changeme"\n'
HEAD = """
[stores.dev]
alias = "ducklake"
attach_options = {{ override_data_path = true }}
"""


def store_of(folder: Path, text: str) -> Store:
    (folder / "lakeconf.toml").write_text(text.replace("{folder}", str(folder)).replace("{{", "{").replace("}}", "}"))
    config = init(folder)
    return config.get_store()


def secret_line(lines: list[str], name: str) -> str:
    (line,) = [line for line in lines if f'SECRET "{name}"' in line]
    return line


def test_sqlite_and_local_storage_from_file_to_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakeconf.toml").write_text((HEAD + SQLITE + LOCAL).format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    config = init()
    store = config.get_store()
    assert store.extensions == ("ducklake", "sqlite_scanner")
    load, load_sqlite, secret, attach, use = store.preview_sql()
    assert (load, load_sqlite, use) == ("LOAD ducklake;", "LOAD sqlite_scanner;", 'USE "ducklake";')
    assert secret == (
        f'CREATE OR REPLACE TEMPORARY SECRET "lakeconf_dev" (TYPE ducklake, METADATA_PATH \'sqlite:{tmp_path}/'
        f"ducklake_meta.db', DATA_PATH '{tmp_path}/ducklake_storage/');"
    )
    assert attach.startswith("ATTACH 'ducklake:lakeconf_dev' AS \"ducklake\" (")
    assert "OVERRIDE_DATA_PATH true" in attach
    with store.connect() as con:
        con.execute("CREATE TABLE demo AS SELECT 42 AS answer")
        assert con.execute("SELECT answer FROM ducklake.demo").fetchall() == [(42,)]
    assert (tmp_path / "ducklake_meta.db").read_bytes().startswith(b"SQLite format 3\x00")
    assert list((tmp_path / "ducklake_storage").rglob("*.parquet"))


@pytest.mark.parametrize(
    "storage", [LOCAL, S3_REFERENCE, S3_INLINE, S3_CHAIN, S3_KMS, R2_REFERENCE, R2_INLINE, GCS_REFERENCE, GCS_INLINE]
)
@pytest.mark.parametrize("metadata", [SQLITE, POSTGRES, POSTGRES_PARAMETERS, POSTGRES_REFERENCE])
def test_every_combination_gives_sql_without_secrets(metadata: str, storage: str, tmp_path: Path) -> None:
    lines = store_of(tmp_path, HEAD + metadata + storage).preview_sql()
    assert "changeme" not in "".join(lines)
    assert lines[-1] == 'USE "ducklake";'
    assert len(duckdb.extract_statements("\n".join(lines))) == len(lines)
    assert ('SECRET "my_pg_secret"' in "".join(lines)) == ("host" in metadata)
    assert any('SECRET "my_' in line and "_pg_" not in line for line in lines) == (
        "key_id = " in storage or "credential_chain" in storage
    )


def test_secrets_in_the_sql_of_some_combinations(tmp_path: Path) -> None:
    lines = store_of(tmp_path, HEAD + POSTGRES_PARAMETERS + S3_KMS).preview_sql()
    assert "SSLMODE 'require'" in secret_line(lines, "my_pg_secret")
    assert "KMS_KEY_ID 'arn:aws:kms:1'" in secret_line(lines, "my_s3_secret")
    assert "DATA_PATH 's3://my-ducklake-bucket/data/'" in secret_line(lines, "lakeconf_dev")
    lines = store_of(tmp_path, HEAD + SQLITE + R2_INLINE).preview_sql()
    assert "ACCOUNT_ID 'your-cloudflare-account-id'" in secret_line(lines, "my_r2_secret")
    store = store_of(tmp_path, HEAD + SQLITE + S3_CHAIN)
    assert store.extensions == ("ducklake", "sqlite_scanner", "httpfs", "aws")
    assert "PROVIDER 'credential_chain'" in secret_line(store.preview_sql(), "my_s3_secret")


def test_motherduck_with_managed_storage_and_with_own_bucket(tmp_path: Path) -> None:
    managed = store_of(tmp_path, MOTHERDUCK)
    assert managed.preview_sql()[-2:] == ['CREATE DATABASE IF NOT EXISTS "my_lake" (TYPE DUCKLAKE);', 'USE "my_lake";']
    lines = store_of(tmp_path, MOTHERDUCK_BYOB).preview_sql()
    assert "IN MOTHERDUCK" in secret_line(lines, "my_s3_secret")
    assert "DATA_PATH 's3://mybucket/'" in "".join(lines)
    assert "changeme" not in "".join(lines)
