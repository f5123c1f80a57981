"""`lakeconf init` writes a configuration that opens a lake for every pair of backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.backends.registry import metadata_backend as metadata_model
from lakeconf.backends.registry import storage_backend as storage_model
from lakeconf.cli.app import run
from lakeconf.config.config import validate

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2]})
SECRETS = {"password": "LAKE_PG_PASSWORD", "secret": "BUCKET_SECRET"}


@pytest.fixture
def wanted(
    metadata_backend: dict[str, Any], storage_backend: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The fields of the pair as `--set` takes them; secrets are references to environment variables."""
    monkeypatch.setenv("LAKE_PG_SSLMODE", "prefer")
    monkeypatch.setenv("LAKE_PG_CA", "no-file")
    fields = {}
    for section, table in (("metadata_backend", metadata_backend), ("storage_backend", storage_backend)):
        for name, value in table.items():
            if name in SECRETS:
                monkeypatch.setenv(SECRETS[name], value)
            text = f"${{{SECRETS[name]}}}" if name in SECRETS else str(value).lower() if value is False else str(value)
            if name != "type":
                fields[f"{section}.{name}"] = text
    if storage_backend["type"] == "r2":
        fields["storage_backend.account_id"] = "0123"
    return fields


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current working directory."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def required(pair: tuple[str, str]) -> list[str]:
    """The fields of the pair that have no default."""
    models = {"metadata_backend": metadata_model(pair[0]), "storage_backend": storage_model(pair[1])}
    return [
        f"{section}.{name}"
        for section, model in models.items()
        for name, default in model.init_template().fields.items()
        if default is None
    ]


def check_written(folder: Path, secrets: list[str]) -> None:
    """Checks that the file is valid, contains no secret, and its store opens a lake for reading and writing."""
    text = (folder / "lakeconf.toml").read_text()
    assert validate(folder) == []
    assert not any(secret in text for secret in secrets)
    with lakeconf.init(folder).get_store().open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        assert sorted(table.scan().collect("pyarrow").rows()) == [(1,), (2,)]


def held(*backends: dict[str, Any]) -> list[str]:
    return [table[name] for table in backends for name in SECRETS if name in table]


def test_configuration_written_by_init_opens_a_lake(
    pair: tuple[str, str],
    wanted: dict[str, str],
    metadata_backend: dict[str, Any],
    storage_backend: dict[str, Any],
    folder: Path,
) -> None:
    options = [part for key, value in wanted.items() for part in ("--set", f"{key}={value}")]
    assert run(["init", "--metadata", pair[0], "--storage", pair[1], *options]) == 0
    check_written(folder, held(metadata_backend, storage_backend))


def test_init_error_names_the_first_missing_field(
    pair: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = required(pair)
    code = run(["init", "--metadata", pair[0], "--storage", pair[1]])
    assert code == (1 if missing else 0)
    assert (folder / "lakeconf.toml").exists() == (not missing)
    if missing:
        assert f"{missing[0]} is missing" in capsys.readouterr().err
