"""Stores of a metaxy.toml, in both spellings and all combinations, are converted to lakeconf stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.cli.commands import run
from lakeconf.config.model import validate
from lakeconf.errors import LakeconfError
from lakeconf.integrations.metaxy import from_metaxy

if TYPE_CHECKING:
    from pathlib import Path

METADATA = {
    "sqlite": 'type = "sqlite"\nuri = "/tmp/meta.db"',
    "duckdb": 'type = "duckdb"\nuri = "/tmp/meta.duckdb"',
    "postgres": 'type = "postgres"\nsecret_name = "pg"\nhost = "localhost"\nport = 5432\ndatabase = "meta"\n'
    'user = "ducklake"\npassword = "planted-pg"\nsecret_parameters = { sslmode = "require" }',
    "postgres_by_name": 'type = "postgres"\nsecret_name = "pg"',
}
STORAGE = {
    "local": 'type = "local"\npath = "/tmp/storage"',
    "s3": 'type = "s3"\nsecret_name = "s"\nbucket = "b"\nprefix = "data"\nregion = "eu-central-1"\nkey_id = "AKIA"\n'
    'secret = "planted-s3"',
    "s3_chain": 'type = "s3"\nsecret_name = "s"\nbucket = "b"\nsecret_parameters = { provider = "credential_chain" }',
    "s3_by_name": 'type = "s3"\nsecret_name = "s"\nbucket = "b"',
    "r2": 'type = "r2"\nsecret_name = "s"\naccount_id = "0123"\ndata_path = "r2://b/lake/"\nkey_id = "K"\n'
    'secret = "${R2_SECRET}"',
    "gcs": 'type = "gcs"\nsecret_name = "s"\ndata_path = "gs://b/lake/"\nkey_id = "K"\nsecret = "planted-gcs"',
}
MOTHERDUCK = {
    "managed": ('type = "motherduck"\ndatabase = "my_lake"', None),
    "own bucket": ('type = "motherduck"\ndatabase = "my_lake"\nregion = "eu-central-1"', "s3"),
}
PAIRS = [(m, s) for m in METADATA for s in STORAGE]
HEAD = """\
project = "x"
entrypoints = ["x.demo"]

[stores.dev]
type = "metaxy.DuckDB"

[stores.dev.config]
database = "/tmp/d.db"
"""


def metaxy(folder: Path, metadata: str, storage: str | None, *, spelling: int, alias: bool = True) -> Path:
    sections = ("metadata_backend", "storage_backend") if spelling == 0 else ("catalog", "storage")
    text = HEAD + ('[stores.dev.config.ducklake]\nalias = "ducklake"\n' if alias else "")
    text += f"[stores.dev.config.ducklake.{sections[0]}]\n{metadata}\n"
    if storage is not None:
        text += f"[stores.dev.config.ducklake.{sections[1]}]\n{storage}\n"
    text += "[stores.dev.config.ducklake.attach_options]\noverride_data_path = true\n"
    path = folder / "metaxy.toml"
    path.write_text(text)
    return path


def attached(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets the variables of the imported store and returns its SQL."""
    for variable in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(variable, "a-value")
    (folder / "lakeconf.toml").write_text(text)
    assert validate(folder) == []
    return "\n".join(lakeconf.init(folder).get_store("dev").preview_sql())


@pytest.mark.parametrize("spelling", [0, 1], ids=["backends", "catalog and storage"])
@pytest.mark.parametrize(("metadata", "storage"), PAIRS)
def test_every_combination_of_backends(
    metadata: str, storage: str, spelling: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = from_metaxy(metaxy(tmp_path, METADATA[metadata], STORAGE[storage], spelling=spelling))
    assert "planted" not in imported.text + "".join(imported.notes)
    sql = attached(tmp_path, imported.text, monkeypatch)
    assert 'AS "ducklake"' in sql
    assert "OVERRIDE_DATA_PATH" in sql
    made = {"postgres": "TYPE postgres", "s3": "TYPE s3", "s3_chain": "PROVIDER", "r2": "ACCOUNT_ID", "gcs": "TYPE gcs"}
    for name in (metadata, storage):
        assert made.get(name, "").lower() in sql.lower()
    secrets = [name for name in (metadata, storage) if "planted" in {**METADATA, **STORAGE}[name]]
    assert sum("was not copied" in note for note in imported.notes) == len(secrets)


@pytest.mark.parametrize("shape", MOTHERDUCK)
def test_motherduck(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata, storage = MOTHERDUCK[shape]
    path = metaxy(tmp_path, metadata, storage and STORAGE[storage], spelling=0, alias=False)
    path.write_text(path.read_text().partition("[stores.dev.config.ducklake.attach_options]")[0])
    sql = attached(tmp_path, from_metaxy(path).text, monkeypatch)
    assert "md:" in sql
    assert ("IN MOTHERDUCK" in sql) == (storage is not None)


def test_omitted_settings_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = metaxy(tmp_path, METADATA["postgres"], STORAGE["local"], spelling=0)
    text = path.read_text().replace("stores.dev", "stores.My-Store")
    path.write_text(text + '\n[stores.plain]\ntype = "metaxy.Delta"\n')
    assert run(["import", str(path)]) == 0
    output = capsys.readouterr()
    assert "[stores.my_store.metadata_backend]" in output.out
    assert output.err.splitlines() == [
        "note: stores.My-Store was renamed to my_store: lower-case letters, digits, underscores",
        "note: the secret my_store.metadata_backend.password was not copied: export MY_STORE_METADATA_PASSWORD=…",
        "note: stores.My-Store.config.database does not apply to a lake",
        "note: stores.plain is not a DuckLake store and was omitted",
        "note: project applies to metaxy only",
        "note: entrypoints applies to metaxy only",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "cannot be read: No such file"), ("[stores", "is not valid TOML"), ("", "has no DuckLake store")],
)
def test_invalid_metaxy_toml(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "metaxy.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LakeconfError, match=message):
        from_metaxy(path)


def test_secrets_of_any_form_are_not_copied(tmp_path: Path) -> None:
    shapes = ["918273", '["planted-1"]', '"planted-${X}"', '"${X:-planted}"', '{ a = "planted-2" }', '"$planted"']
    for shape in shapes:
        metadata = f'type = "postgres"\nhost = "h"\ndatabase = "d"\nuser = "u"\npassword = {shape}'
        path = metaxy(tmp_path, metadata, STORAGE["local"], spelling=0)
        text = from_metaxy(path).text
        assert "planted" not in text
        assert "918273" not in text
        assert 'password = "${DEV_METADATA_PASSWORD}"' in text


def test_colliding_names_and_values_that_should_be_tables(tmp_path: Path) -> None:
    path = metaxy(tmp_path, METADATA["sqlite"], STORAGE["local"], spelling=0, alias=False)
    one = path.read_text().partition(HEAD)[2]
    stores = ["my_store", "My-Store", '"my store"', """'a"b'"""]
    text = "".join(one.replace("stores.dev", f"stores.{name}") for name in stores)
    text = text.replace("[stores.my_store.config.ducklake.attach_options]\noverride_data_path = true\n", "")
    text = text.replace(
        "[stores.my_store.config.ducklake.metadata",
        "[stores.my_store.config.ducklake]\nattach_options = 3\n[stores.my_store.config.ducklake.metadata",
    )
    path.write_text('store = "My-Store"\n' + text)
    imported = from_metaxy(path)
    assert re.findall(r"^\[stores\.(\w+)\.metadata", imported.text, re.MULTILINE) == [
        "my_store",
        "my_store_2",
        "my_store_3",
        "a_b",
    ]
    assert 'default_store = "my_store_2"' in imported.text
    assert "stores.my_store: attach_options is not a table and was omitted" in imported.notes
    # The file repeats the notes as comments.
    assert [line.removeprefix("# ") for line in imported.text.splitlines() if line.startswith("#")] == imported.notes


def test_default_store_that_is_no_lake_is_reported(tmp_path: Path) -> None:
    path = metaxy(tmp_path, METADATA["sqlite"], STORAGE["local"], spelling=0)
    path.write_text('store = "other"\n' + path.read_text())
    assert "the default store other was not converted" in from_metaxy(path).notes


def test_unknown_settings_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "metaxy.toml"
    path.write_text("""
[stores.dev.config.ducklake.metadata_backend]
type = "postgres"
uri = "postgresql://u:planted-1@h/db"
dsn = "host=h password=planted-2"
host = "u:planted-3@h"
database = "lake"
user = "lake"
passwords = ["planted-4", "planted-5"]
secret_parameters = { options = ["planted-6"], sslmode = "require", pool = { deep = "planted-7" } }

[stores.dev.config.ducklake.storage_backend]
type = "unheard_of"
anything = "planted-8"

[stores.dev.config.ducklake.attach_options]
read_only = true
meta_options = "planted-9"
""")
    imported = from_metaxy(path)
    assert "planted" not in imported.text
    assert not [note for note in imported.notes if "planted" in note]
    assert 'sslmode = "require"' in imported.text
    assert "read_only = true" in imported.text
