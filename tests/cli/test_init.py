"""`lakeconf init` writes a valid configuration, from flags and from answers; docs/getting-started.md."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from doc_pages import blocks

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.cli.commands import run
from lakeconf.config.model import validate
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


def test_answers_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "lakeconf", "init", "--store", "prod"]
    process = subprocess.Popen(command, stdin=child, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.close(child)
    # Postgres and S3; an empty line accepts the default of a field.
    os.write(parent, b"postgres\ns3\n\nwarehouse\n\nDB_PASSWORD\nacme\n\n")
    output = process.communicate()[0].decode()
    os.close(parent)
    assert process.returncode == 0, output
    text = (folder / "lakeconf.toml").read_text()
    assert 'database = "warehouse"' in text
    assert 'password = "${DB_PASSWORD}"' in text
    assert 'bucket = "acme"' in text
    assert usable(folder, monkeypatch)


def test_existing_file_is_kept_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").write_text("mine")
    assert run(["init", "--yes"]) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    assert (folder / "lakeconf.toml").read_text() == "mine"
    assert run(["init", "--yes", "--force"]) == 0


def test_missing_or_invalid_arguments_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 2
    assert "no terminal to prompt on" in capsys.readouterr().err
    assert run(["init", "--yes", "--set", "bucket"]) == 2
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
        (["--set", "metadata_backend.port=many"], "stores.dev.metadata_backend.port: must be an integer"),
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


def test_getting_started_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("getting-started.md", "console"):
        command, _, output = block.partition("\n")
        assert run(command.removeprefix("$ lakeconf ").split()) == 0
        assert capsys.readouterr().out == output
    assert blocks("getting-started.md", "toml") == [(folder / "lakeconf.toml").read_text()]
    (code,) = blocks("getting-started.md", "python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[{'id': 1, 'kind': 'view'}, {'id': 2, 'kind': 'buy'}]\n"


def test_gitignore_lists_the_folder_of_the_local_lake(folder: Path) -> None:
    assert run(["init", "--yes"]) == 0
    assert not (folder / ".gitignore").exists()
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q"], check=True)
    (folder / ".gitignore").write_text("build/")
    (folder / ".lakeconf").mkdir()
    (folder / ".lakeconf" / "catalog.sqlite").touch()
    for _ in range(2):
        assert run(["init", "--yes", "--force"]) == 0
        assert (folder / ".gitignore").read_text() == "build/\n.lakeconf/\n"
    status = subprocess.run([git, "status", "--short"], capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["??", ".gitignore", "??", "lakeconf.toml"]


def test_postgres_is_written_with_tls_and_a_password_variable(folder: Path) -> None:
    assert run(["init", "--metadata", "postgres", "--storage", "local"]) == 0
    written = (folder / "lakeconf.toml").read_text()
    assert 'password = "${LAKE_PG_PASSWORD}"' in written
    assert 'sslmode = "${LAKE_PG_SSLMODE:-require}"' in written
