"""What executors receive: files in groups, and no secret."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from catalog_lake import Lake
from local_stores import config_of, in_bucket

import lakeconf
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.engines.spark.read.parts import divided
from lakeconf.errors import ConfigError, StorageError
from lakeconf.store import Access

if TYPE_CHECKING:
    from pathlib import Path

    from servers import S3Server

MIB = 2**20


@pytest.fixture
def plan(usual: Lake) -> ScanPlan:
    """The plan of a table with one file."""
    usual.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)")
    return plan_scan(usual.reader, "t", usual.newest)


def with_sizes(plan: ScanPlan, sizes: list[int]) -> ScanPlan:
    (file,) = plan.files
    return replace(plan, files=tuple(replace(file, file_size_bytes=size) for size in sizes))


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([1], [1]),
        ([MIB] * 10, [10]),
        ([60 * MIB] * 3, [1, 1, 1]),
        ([500 * MIB, MIB, MIB], [1, 2]),
        ([1] * 401, [200, 200, 1]),
    ],
)
def test_small_files_are_read_together(plan: ScanPlan, sizes: list[int], groups: list[int]) -> None:
    parts = list(divided(with_sizes(plan, sizes)))
    assert [len(part.files) for part in parts] == groups
    assert [file.file_size_bytes for part in parts for file in part.files] == sizes


def test_a_secret_from_a_variable_is_sent_as_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    storage = in_bucket(s3_server)
    value, storage["secret"] = storage["secret"], "${LAKE_SECRET}"
    monkeypatch.setenv("LAKE_SECRET", value)
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store()
    sent = pickle.dumps(Access.of(store))
    assert value.encode() not in sent
    assert b"LAKE_SECRET" in sent
    with pickle.loads(sent).connect() as connection:  # noqa: S301 - its own pickle
        assert connection.rows("SELECT type FROM duckdb_secrets()") == [("s3",)]
    monkeypatch.delenv("LAKE_SECRET")
    with pytest.raises(StorageError, match="the variable LAKE_SECRET is not set"):
        pickle.loads(sent).connect()  # noqa: S301


def test_a_secret_that_another_text_repeats_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    monkeypatch.setenv("LAKE_SECRET", "planted-secret-value")
    storage = in_bucket(s3_server) | {"secret": "${LAKE_SECRET}", "prefix": "a/planted-secret-value"}
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store()
    assert b"planted-secret-value" not in pickle.dumps(Access.of(store))


def test_a_secret_in_the_configuration_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = in_bucket(s3_server)
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store()
    sent = pickle.dumps(Access.of(store))
    assert storage["secret"].encode() not in sent
    with pytest.raises(ConfigError, match=r"lakeconf\.toml"):
        pickle.loads(sent).connect()  # noqa: S301


def test_local_files_need_no_configuration(store: lakeconf.Store) -> None:
    access = pickle.loads(pickle.dumps(Access.of(store)))  # noqa: S301
    with access.connect() as connection:
        assert connection.rows("SELECT current_setting('threads')") == [(1,)]
