"""Options and plans of the data source, and what executors receive: files in groups, and no secret."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from local_stores import config_of, in_bucket

import lakeconf
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.datasource.planning import Options, options_of, plan, resolve
from lakeconf.engines.spark.read.parts import Files, divided
from lakeconf.errors import (
    ConfigError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.store import Access

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake
    from servers import S3Server


MIB = 2**20


@pytest.fixture
def one_file(usual: Lake) -> ScanPlan:
    """The plan of a table with one file."""
    usual.run("CREATE TABLE lake.t AS SELECT range AS id FROM range(50)")
    return plan_scan(usual.reader, "t", usual.newest)


def test_small_files_are_read_together(one_file: ScanPlan) -> None:
    (file,) = one_file.files
    cases: list[tuple[list[int], list[int]]] = [
        ([], []),
        ([1], [1]),
        ([MIB] * 10, [10]),
        ([60 * MIB] * 3, [1, 1, 1]),
        ([500 * MIB, MIB, MIB], [1, 2]),
        ([1] * 401, [200, 200, 1]),
    ]
    for sizes, groups in cases:
        files = tuple(replace(file, file_size_bytes=size) for size in sizes)
        parts = list(divided(replace(one_file, files=files)))
        assert [len(part.files) for part in parts] == groups
        assert [file.file_size_bytes for part in parts for file in part.files] == sizes


def test_a_secret_from_a_variable_is_sent_as_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    """One in the configuration is read there, and no other text repeats one."""
    monkeypatch.chdir(tmp_path)
    storage = in_bucket(s3_server)

    def sent(**changed: str) -> bytes:
        store = lakeconf.init(config_of(tmp_path, storage=storage | changed)).get_store()
        return pickle.dumps(Access.of(store))

    monkeypatch.setenv("LAKE_SECRET", "planted-secret-value")
    assert b"planted-secret-value" not in sent(secret="${LAKE_SECRET}", prefix="a/planted-secret-value")
    monkeypatch.setenv("LAKE_SECRET", storage["secret"])
    access = sent(secret="${LAKE_SECRET}")
    assert storage["secret"].encode() not in access
    assert b"LAKE_SECRET" in access
    with pickle.loads(access).connect() as connection:  # noqa: S301 - its own pickle
        assert connection.rows("SELECT type FROM duckdb_secrets()") == [("s3",)]
    monkeypatch.delenv("LAKE_SECRET")
    with pytest.raises(StorageError, match="the variable LAKE_SECRET is not set"):
        pickle.loads(access).connect()  # noqa: S301
    access = sent()
    assert storage["secret"].encode() not in access
    with pytest.raises(ConfigError, match=r"lakeconf\.toml"):
        pickle.loads(access).connect()  # noqa: S301


def test_local_files_need_no_configuration(store: lakeconf.Store) -> None:
    access = pickle.loads(pickle.dumps(Access.of(store)))  # noqa: S301
    with access.connect() as connection:
        assert connection.rows("SELECT current_setting('threads')") == [(1,)]


def paths(options: Options) -> list[str]:
    """The files of a plan at the latest snapshot."""
    parts = plan(options, resolve(options)[1])
    return [file.path for part in parts if isinstance(part, Files) for file in part.plan.files]


def test_options_choose_the_snapshot_the_columns_and_the_files(events_folder: Path) -> None:
    assert events_folder.exists()
    columns, latest = resolve(Options("raw.events"))
    assert [column.name for column in columns] == ["id", "kind"]
    with lakeconf.init().get_store().open() as lake:
        assert latest == lake.snapshot_id
        (first, *_) = lake.table("raw.events").history()
    assert resolve(Options("raw.events", version=2))[1] == 2
    assert resolve(Options("raw.events", timestamp=first.time))[1] == first.snapshot_id
    columns, _ = resolve(Options("raw.events", columns="kind, id"))
    assert [column.name for column in columns] == ["kind", "id"]
    with pytest.raises(SchemaError, match="has no column 'size'"):
        resolve(Options("raw.events", columns="size"))
    assert len(paths(Options("raw.events"))) == 2
    assert len(paths(Options("raw.events", where="id < 3"))) == 1
    assert paths(Options("raw.events", where="id > 3", columns="kind")) == []


def test_missing_tables_and_expired_snapshots_are_reported(events_folder: Path) -> None:
    assert events_folder.exists()
    with pytest.raises(TableNotFoundError, match=r"no table 'raw\.event'"):
        resolve(Options("raw.event"))
    with pytest.raises(SnapshotNotFoundError, match="version 99 does not exist"):
        resolve(Options("raw.events", version=99))
    _, snapshot_id = resolve(Options("raw.events", version=2))
    with lakeconf.init().get_store().open() as lake:
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    with pytest.raises(SnapshotNotFoundError, match="version 2 has expired"):
        plan(Options("raw.events"), snapshot_id)


def test_planning_creates_no_lake_and_refuses_variants(project: Path) -> None:
    with pytest.raises(lakeconf.LakeconfError, match="has no lake yet"):
        resolve(Options("raw.events"))
    assert [path.name for path in project.iterdir()] == ["lakeconf.toml"]
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("t", {"id": "BIGINT", "v": "VARIANT"})
    with pytest.raises(UnsupportedError, match="the column 'v' holds VARIANT"):
        resolve(Options("t"))
    assert resolve(Options("t", columns="id"))


def test_options_are_converted_and_names_ignore_case() -> None:
    given = {"TABLE": "raw.events", "store": "prod", "columns": "a, b", "Timestamp": "2026-01-31T12:00:00+00:00"}
    options = options_of(given, "a read")
    assert options == Options("raw.events", "prod", columns="a, b", timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert options.names == ["a", "b"]
    stream = options_of({"table": "t", "since": "4", "changes": "TRUE", "snapshots_per_batch": "2"}, "a streaming read")
    assert stream == Options("t", since=4, changes=True, snapshots_per_batch=2)
    assert options_of({"table": "t", "idempotency_key": "k"}, "a write").idempotency_key == "k"


def test_wrong_options_are_refused_without_their_values() -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "the option table is missing"),
        ({"version": "x7"}, "the option version is not a whole number"),
        ({"version": "1_0"}, "the option version is not a whole number"),
        ({"timestamp": "x7"}, "the option timestamp is not a time such as 2026-01-31T12:00:00+00:00"),
        ({"version": "1", "timestamp": "2026-01-31"}, "pass either the option version or"),
        ({"since": "1"}, "a read has no option 'since'"),
        ({"password": "x7"}, "the data source has no option 'password'"),
        ({"versionn": "x7"}, "the data source has no option 'versionn'"),
    ]
    for given, message in cases:
        with pytest.raises(LakeconfError) as refused:
            options_of({"table": "t", **given} if given else {}, "a read")
        assert refused.value.message.startswith(message)
        assert "x7" not in str(refused.value)
        assert ("versionn" in given) == ('did you mean "version"' in str(refused.value.hint))
    for name, value in (("snapshots_per_batch", "0"), ("changes", "yes"), ("since", "-1")):
        with pytest.raises(LakeconfError, match=f"the option {name} is"):
            options_of({"table": "t", name: value}, "a streaming read")
