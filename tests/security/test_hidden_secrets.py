"""Secrets of other stores are masked too, also if a store is reopened or a frame is computed."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.config.config import init, validate
from lakeconf.errors import ConfigError, LakeconfError
from lakeconf.inspection.read_only_sql import query
from lakeconf.secret import Secret, Settings
from lakeconf.store import Store, for_reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLANTED = "hunter2-planted"
FAILING = f"SELECT error('{PLANTED}') AS name"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    metadata, storage = SQLiteMetadata(uri=str(tmp_path / "c.sqlite")), LocalStorage(path=str(tmp_path / "data"))
    made = Store("dev", metadata, storage, hidden=[Secret(PLANTED)])
    with made.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    return made


def audited(store: Store) -> None:
    with store.open() as lake, lake.transaction() as transaction:
        transaction.table("t").append(pa.table({"id": [1]}))
        transaction.audit("one", lambda _: lake.sql(FAILING), table="t")


def audited_in_python(store: Store) -> None:
    def check(_: object) -> None:
        raise ValueError(PLANTED)

    with store.open() as lake, lake.transaction() as transaction:
        transaction.table("t").append(pa.table({"id": [1]}))
        transaction.audit("one", check, table="t")


def queried(store: Store) -> None:
    query(store, FAILING)


def read(store: Store) -> None:
    with store.open(read_only=True) as lake:
        lake.sql(f'SELECT "{PLANTED}" FROM t')


@pytest.mark.parametrize("use", [audited, audited_in_python, queried, read])
def test_errors_mask_the_secrets_of_other_stores(use: Callable[[Store], None], store: Store) -> None:
    with pytest.raises(LakeconfError) as raised:
        use(store)
    assert PLANTED not in str(raised.value)
    assert "***" in str(raised.value)


def test_store_opened_for_reading_masks_the_same_secrets() -> None:
    metadata, storage = SQLiteMetadata(uri="/x/c.sqlite"), LocalStorage(path="/x/data")
    store = Store("dev", metadata, storage, hidden=[Secret(PLANTED)])
    assert for_reading(store).secrets == store.secrets


def test_names_and_values_of_settings_mask_secrets() -> None:
    settings = Settings(
        {f"fs.s3a.bucket.{PLANTED}.secret.key": Secret(PLANTED), "path": f"s3a://{PLANTED}/", "r": "eu"}
    )
    assert PLANTED not in f"{settings} {settings!r}"
    assert repr(settings) == "{'fs.s3a.bucket.***.secret.key': '***', 'path': 's3a://***/', 'r': 'eu'}"
    assert settings["path"] == f"s3a://{PLANTED}/"


@pytest.mark.parametrize(
    "line",
    [
        f'password = "{PLANTED}',
        f"password = {PLANTED}",
        f'password = "{PLANTED}" "again"',
        f'password = "{PLANTED}\\q"',
        f'{PLANTED} "x"',
        f"password = ['{PLANTED}'",
        f'password = "{PLANTED}"\npassword = "{PLANTED}"',
        f'"{PLANTED}" = 1\n"{PLANTED}" = 2',
        f"[{PLANTED}",
        f"[a.{PLANTED}]\n[a.{PLANTED}]",
    ],
)
def test_invalid_toml_error_shows_no_text_of_the_file(line: str, tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text(f"[stores.dev.metadata_backend]\n{line}\n")
    (problem,) = validate(tmp_path)
    assert problem.line is not None
    assert PLANTED not in str(problem)


@pytest.mark.parametrize("end", [b"", b"\xff"])
def test_local_variables_of_an_invalid_toml_traceback_contain_no_text(end: bytes, tmp_path: Path) -> None:
    text = f'[stores.dev.metadata_backend]\npassword = "{PLANTED}'
    (tmp_path / "lakeconf.toml").write_bytes(text.encode() + end)
    with pytest.raises(ConfigError) as raised:
        init(tmp_path)
    error: BaseException | None = raised.value
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if "lakeconf" in frame.f_code.co_filename.split("/"):
                assert PLANTED not in repr([*frame.f_locals.values()]) or frame.f_code.co_name.startswith("test_")
        error = error.__context__
