"""`lakeconf init` writes a valid configuration; docs/getting-started.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from doc_pages import blocks

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.config.template import first_configuration
from lakeconf.config.warnings import warnings
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [
    (one, other)
    for one in METADATA_BACKENDS
    for other in (*STORAGE_BACKENDS, "none")
    if ((other not in ("local", "r2", "gcs")) if one == "motherduck" else other != "none")
]
BUCKETS = ["--set", "storage_backend.bucket=acme", "--set", "storage_backend.account_id=0123"]


def usable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    for variable in re.findall(r"\$\{(\w+)\}", (folder / "lakeconf.toml").read_text()):
        monkeypatch.setenv(variable, "a-value")
    return validate() == [] == warnings()


@pytest.mark.parametrize(("metadata", "storage"), PAIRS)
def test_every_pair_of_backends_is_valid(
    metadata: str, storage: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = BUCKETS if storage == "r2" else BUCKETS[:2] if storage in ("s3", "gcs") else []
    assert run(["init", "--metadata", metadata, "--storage", storage, *wanted]) == 0
    assert usable(folder, monkeypatch)


def test_a_store_of_the_file_is_kept_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").write_text("mine")
    assert run(["init"]) == 1
    assert "invalid TOML" in capsys.readouterr().err
    assert (folder / "lakeconf.toml").read_text() == "mine"
    assert run(["init", "--force"]) == 0
    written = (folder / "lakeconf.toml").read_text()
    assert run(["init"]) == 2
    assert "already declares the store dev; --store names another one" in capsys.readouterr().err
    assert (folder / "lakeconf.toml").read_text() == written


def test_a_store_is_added_to_an_existing_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["init"]) == 0
    path = folder / "lakeconf.toml"
    path.chmod(0o600)
    before = path.read_text()
    assert run(["init", "--store", "staging"]) == 0
    assert "added the store staging to lakeconf.toml" in capsys.readouterr().out
    assert path.read_text().startswith(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["init", "--store", "prod", "--metadata", "postgres", "--storage", "s3", *BUCKETS[:2]]) == 0
    assert usable(folder, monkeypatch)
    assert run(["init", "--store", "other", "--set", "storage_backend.path=.lakeconf/data"]) == 1
    assert "the data path equals or overlaps that of the store 'dev'" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["lakeconf.toml"]


def test_an_added_store_has_a_folder_of_its_own(folder: Path) -> None:
    assert run(["init"]) == 0
    assert run(["init", "--store", "staging"]) == 0
    assert 'uri = ".lakeconf/staging/catalog.sqlite"' in (folder / "lakeconf.toml").read_text()


def test_missing_field_is_named_with_its_meaning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--storage", "s3"]) == 1
    assert "pass --set storage_backend.bucket=… (Name of the bucket" in capsys.readouterr().err


def test_a_store_is_not_added_to_pyproject(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("")
    assert run(["init", "-o", "pyproject.toml"]) == 2
    assert "cannot be added to pyproject.toml" in capsys.readouterr().err


def test_a_folder_is_not_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").mkdir()
    assert run(["init"]) == 2
    assert "File 'lakeconf.toml' is a directory." in capsys.readouterr().err


def test_missing_or_invalid_arguments_are_refused(folder: Path) -> None:
    assert run(["init", "--set", "bucket"]) == 2
    with pytest.raises(LakeconfError, match=r"storage_backend\.bucket is missing"):
        first_configuration("dev", "sqlite", "s3", {})
    with pytest.raises(LakeconfError, match="invalid store name 'My-Store'") as caught:
        first_configuration("My-Store", "sqlite", "local", {})
    assert caught.value.hint == "write it as my_store"
    with pytest.raises(LakeconfError, match='did you mean "sqlite"'):
        first_configuration("dev", "sqllite", "local", {})
    with pytest.raises(LakeconfError, match="is a secret") as caught:
        first_configuration("dev", "postgres", "local", {("metadata_backend", "password"): "planted"})
    assert "planted" not in str(caught.value)
    assert not (folder / "lakeconf.toml").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--set", "metadata_backend.password=${X:-planted}"], "password is a secret"),
        (["--set", "metadata_backend.password=pre${X}"], "password is a secret"),
        (["--set", "storage.bucket=acme"], "storage.bucket cannot be set: the store has no storage"),
        (["--set", "storage_backend.bucked=acme"], "stores.dev.storage_backend.bucked: unknown key"),
        (["--set", "metadata_backend.type=sqlite"], "metadata_backend.type is already postgres"),
        (["--set", "metadata_backend.port=many"], "stores.dev.metadata_backend.port: must be a valid integer"),
        (["--metadata", "motherduck"], "stores.dev"),
    ],
)
def test_invalid_configuration_is_not_written(
    given: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--metadata", "postgres", "--storage", "local", *given]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "planted" not in error
    assert not (folder / "lakeconf.toml").exists()


def test_numbers_are_written_as_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["--set", "metadata_backend.port=5433", "--set", "storage_backend.bucket=acme"]
    values += ["--set", "storage_backend.use_ssl=true", "--set", "metadata_backend.database=5433"]
    assert run(["init", "--metadata", "postgres", "--storage", "s3", *values]) == 0
    written = (folder / "lakeconf.toml").read_text().splitlines()
    assert {"port = 5433", "use_ssl = true", 'database = "5433"'} <= set(written)
    assert usable(folder, monkeypatch)


def test_getting_started_needs_only_the_package_that_it_installs(folder: Path) -> None:
    assert run(["init"]) == 0
    code, *_ = blocks("getting-started.md", "python")
    without = "import sys; sys.modules |= dict.fromkeys(['pyarrow', 'pandas', 'numpy', 'polars', 'pyspark'])\n"
    subprocess.run([sys.executable, "-c", without + code], check=True)


def test_gitignore_lists_the_folder_of_the_local_lake(folder: Path) -> None:
    assert run(["init"]) == 0
    assert not (folder / ".gitignore").exists()
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q"], check=True)
    (folder / ".gitignore").write_text("build/")
    (folder / ".lakeconf").mkdir()
    (folder / ".lakeconf" / "catalog.sqlite").touch()
    for _ in range(2):
        assert run(["init", "--force"]) == 0
        assert (folder / ".gitignore").read_text() == "build/\n.lakeconf/\n"
    status = subprocess.run([git, "status", "--short"], capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["??", ".gitignore", "??", "lakeconf.toml"]


def test_postgres_is_written_with_tls_and_a_password_variable(folder: Path) -> None:
    assert run(["init", "--metadata", "postgres", "--storage", "local"]) == 0
    written = (folder / "lakeconf.toml").read_text()
    assert 'password = "${LAKE_PG_PASSWORD}"' in written
    assert 'sslmode = "${LAKE_PG_SSLMODE:-verify-full}"' in written


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    assert run(["init", "--format", "json"]) == 0
    expected = {"path": "lakeconf.toml", "store": "dev", "added": False, "ignored": True}
    assert json.loads(capsys.readouterr().out) == expected
    assert run(["init", "--store", "prod", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**expected, "store": "prod", "added": True, "ignored": False}
