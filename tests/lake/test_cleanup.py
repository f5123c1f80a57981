"""Cleanup removes only files that provably belong to this lake, also in folders that look like patterns."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from lake_parts import catalog_of, session_of
from local_stores import config_of, in_bucket
from plain_sql import run_plain
from staged_changes import COLUMNS, staged, with_key

import lakeconf
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.cli.app import run
from lakeconf.ducklake import MARKER
from lakeconf.engines.file_names import announce
from lakeconf.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import AzureServer, S3Server

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
ORPHAN = "ducklake-01234567-89ab-7cde-8f01-23456789abcd.parquet"


def make_store(catalog: Path, data: Path) -> Store:
    backends = {"type": "sqlite", "uri": str(catalog)}, {"type": "local", "path": str(data)}
    return lakeconf.init(config_of(data, *backends)).get_store("dev")


def fill(store: Store, table: str = "raw.t") -> None:
    """Creates a table with two files; the current snapshot needs only the second."""
    with store.open() as lake:
        lake.create_table(table, ROWS).append(ROWS)
        lake.table(table).overwrite(ROWS)


def cleaned(lake: Lake) -> list[str]:
    lake.maintenance.expire_snapshots(older_than=NOW, force=True)
    return lake.maintenance.cleanup(older_than=NOW, force=True)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@contextlib.contextmanager
def untouched(folder: Path) -> Iterator[None]:
    before = files(folder)
    yield
    assert files(folder) == before


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = make_store(tmp_path / "catalog.sqlite", tmp_path / "data")
    fill(made)
    return made


@pytest.mark.slow
def test_files_of_several_staged_writes_have_names_of_their_own(tmp_path: Path) -> None:
    """Files with rows, deleted positions or keys are named alike in the folders of their writes."""
    with make_store(tmp_path / "catalog.sqlite", tmp_path / "data").open() as lake:
        lake.create_table("t", COLUMNS)
        run_plain(lake, "INSERT INTO t SELECT i, 'old' FROM range(50) AS r(i)")
        lake.refresh()
        lake.table("t").delete("id = 49", idempotency_key="first")
        for number in range(3):
            with_key(lake, staged(lake, {number: "new"}, deleted=(40 + number,)), f"key {number}").commit()
        lake.maintenance.compact()
        orphan = tmp_path / "data" / "main" / "t" / "lakeconf-0123" / "0.parquet"
        announce(session_of(lake).writer, str(orphan.parent), catalog_of(lake).lake_id)
        orphan.parent.mkdir()
        orphan.touch()
        removed = cleaned(lake)
        assert {f"{orphan.parent}.parquet", str(orphan)} < {*removed}
        assert [len(lake.table(name).scan().collect()) for name in ("t", "lakeconf.commits")] == [46, 4]
    with make_store(tmp_path / "catalog.sqlite", tmp_path / "data").open() as lake:
        assert len({*files(tmp_path / "data")} - {MARKER}) == sum(
            1 + bool(file.delete_file) for name in ("t", "lakeconf.commits") for file in lake.table(name).files()
        )


def made_beside(catalog: Path, data: Path) -> Store:
    """A store with a catalog that was made before another lake used the data path."""
    away = data.rename(data.with_name("away"))
    store = make_store(catalog, data)
    store.connect().close()
    shutil.rmtree(data, ignore_errors=True)
    away.rename(data)
    return store


def test_recreated_catalog_is_rejected(store: Store, tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").unlink()
    with made_beside(tmp_path / "new.sqlite", tmp_path / "data").open() as lake, untouched(tmp_path / "data"):
        with pytest.raises(CatalogError, match="belongs to another lake"):
            lake.create_table("raw.t", ROWS)
        with pytest.raises(CatalogError, match="belongs to another lake"):
            cleaned(lake)
        (tmp_path / "data" / MARKER).unlink()
        with pytest.raises(CatalogError, match=r"_lakeconf\.json does not exist.*no file was removed"):
            cleaned(lake)
        with pytest.raises(CatalogError, match="the catalog has no files, but there are Parquet files"):
            lake.create_table("raw.u", ROWS)
        assert not (tmp_path / "data" / MARKER).exists()
        with pytest.raises(CatalogError, match="the catalog has no files, but there are Parquet files"):
            session_of(lake).guard.marker.repair()  # type: ignore[union-attr]
        (tmp_path / "data" / MARKER).write_text(json.dumps({"lake": catalog_of(lake).lake_id}))
        with pytest.raises(CatalogError, match=r"the catalog has no files, but there are 2 Parquet files"):
            cleaned(lake)


def test_cleanup_keeps_a_lake_nested_in_the_data_path(store: Store, tmp_path: Path) -> None:
    nested = make_store(tmp_path / "nested.sqlite", tmp_path / "data" / "dev")
    fill(nested)
    before = files(tmp_path / "data" / "dev")
    with store.open() as lake:
        lake.create_table("dev.raw", ROWS).append(ROWS)
        assert len(cleaned(lake)) == 1
    assert before <= files(tmp_path / "data" / "dev")
    with nested.open() as lake:
        assert len(lake.table("raw.t").scan().collect()) == 10


@pytest.mark.slow
@pytest.mark.parametrize("of", ["somebody else", "a lake below", "a snapshot", "a link"])
def test_cleanup_rejects_scheduled_files_that_it_must_not_remove(store: Store, tmp_path: Path, of: str) -> None:
    stranger = tmp_path / "stranger" / "precious.parquet"
    stranger.parent.mkdir()
    stranger.write_text("not of this lake")
    named = str(stranger)
    expected = f"not below {tmp_path}/data/.*{stranger}"
    if of == "a lake below":
        fill(make_store(tmp_path / "nested.sqlite", tmp_path / "data" / "dev"))
        named = str(next((tmp_path / "data" / "dev").rglob("*.parquet")))
        expected = f"below the marker of another lake.*{named}"
    with store.open() as lake:
        if of == "a snapshot":
            named = lake.table("raw.t").files()[0].path
            expected = f"that snapshots still need.*{named}"
        if of == "a link":
            (tmp_path / "data" / "raw" / "t" / "link").symlink_to(stranger.parent)
            named = f"{tmp_path}/data/raw/t/link/precious.parquet"
            expected = f"not below {tmp_path}/data/.*{named}"
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        run_plain(
            lake,
            "INSERT INTO __ducklake_metadata_dev.ducklake_files_scheduled_for_deletion "
            f"VALUES (99, '{named}', false, TIMESTAMPTZ '2020-01-01 00:00:00+00')",
        )
        with untouched(tmp_path):
            for step in (lake.maintenance.plan_cleanup, lake.maintenance.cleanup):
                with pytest.raises(CatalogError, match=expected):
                    step(older_than=NOW, force=True)


def test_cleanup_removes_only_orphans_of_this_lake(store: Store, tmp_path: Path) -> None:
    data = tmp_path / "data"
    removable = ["raw/t/" + ORPHAN, "raw/t/k=a b/" + ORPHAN.replace("01234567", "11234567")]
    kept = [ORPHAN, "raw/" + ORPHAN, "raw/other/" + ORPHAN, "raw/t/main/u/" + ORPHAN, "raw/t/mine.parquet"]
    kept += ["raw/t/mine-ducklake/" + ORPHAN, "raw/never/lakeconf-0c/part-0.parquet"]
    with store.open() as lake:
        cleaned(lake)
        (known,) = (Path(file.path).name for file in lake.table("raw.t").files())
        kept += [f"raw/t/k=1/{known}"]
        for path in (*removable, *kept):
            (data / path).parent.mkdir(parents=True, exist_ok=True)
            (data / path).write_text("rows")
        for token, lake_id in (("0a", catalog_of(lake).lake_id), ("0b", "of another lake")):
            folder = data / "raw" / "never" / f"lakeconf-{token}"
            folder.mkdir(parents=True)
            (folder / "part-0.parquet").write_text("rows")
            announce(session_of(lake).writer, f"{folder}/", lake_id)
            (removable if token == "0a" else kept).extend(
                [f"raw/never/lakeconf-{token}.parquet", f"raw/never/lakeconf-{token}/part-0.parquet"]
            )
        (data / "raw/never/lakeconf-0c.parquet").write_text("damaged")
        planned = lake.maintenance.plan_cleanup(older_than=NOW, force=True).paths
        assert lake.maintenance.cleanup(older_than=dt.timedelta(days=1)) == []
        assert sorted(cleaned(lake)) == sorted(planned) == sorted(f"{data}/{path}" for path in removable)
        assert set(kept) <= files(data)
        assert not set(removable) & files(data)
        assert len(lake.table("raw.t").scan().collect()) == 10


def test_cleanup_removes_orphans_in_a_bucket_but_keeps_other_files(
    bucket_server: S3Server | AzureServer, tmp_path: Path
) -> None:
    bucket = bucket_server.create_bucket()
    store = lakeconf.init(config_of(tmp_path, storage=in_bucket(bucket_server, bucket))).get_store("dev")
    fill(store)
    before = set(bucket_server.objects(bucket))
    assert store.storage_backend is not None
    folder = store.storage_backend.location
    with store.open() as lake:
        for path in ("raw/t/" + ORPHAN, "raw/t/mine.parquet"):
            run_plain(lake, f"COPY (SELECT 1 AS one) TO '{folder}{path}' (FORMAT parquet)")
        assert f"{folder}raw/t/{ORPHAN}" in cleaned(lake)
        assert len(lake.table("raw.t").scan().collect()) == 10
    after = set(bucket_server.objects(bucket))
    assert after - before == {"lake/raw/t/mine.parquet"}
    assert len(before - after) == 1


def test_cleanup_of_a_table_recorded_through_a_symbolic_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    with store.open() as lake:
        run_plain(
            lake,
            "UPDATE __ducklake_metadata_dev.ducklake_table SET path_is_relative = false, "
            f"path = '{tmp_path}/linked/raw/t/'",
        )
    with store.open() as lake:
        assert len(cleaned(lake)) == 1
        assert len(lake.table("raw.t").scan().collect()) == 10


def test_age_of_less_than_a_day_needs_force(store: Store) -> None:
    with store.open() as lake:
        for age in (NOW, dt.timedelta(hours=23), dt.datetime.now(dt.UTC)):
            for dry_run in (True, False):
                with pytest.raises(lakeconf.LakeconfError, match="is less than a day"):
                    lake.maintenance.expire_snapshots(older_than=age, dry_run=dry_run)
            for step in (lake.maintenance.plan_cleanup, lake.maintenance.cleanup):
                with pytest.raises(lakeconf.LakeconfError, match="is less than a day"):
                    step(older_than=age)
        for command in (lake.maintenance.expire_snapshots, lake.maintenance.cleanup):
            assert command(older_than=dt.timedelta(days=1)) == []
            with pytest.raises(lakeconf.LakeconfError, match="too long"):
                command(older_than=dt.timedelta.max)


def test_ages_select_expired_snapshots_and_removed_files(store: Store, tmp_path: Path) -> None:
    day = dt.timedelta(days=1)
    with store.open() as lake:
        versions = [snapshot.snapshot_id for snapshot in lake.snapshots()]
        run_plain(
            lake,
            f"UPDATE __ducklake_metadata_dev.ducklake_snapshot SET snapshot_time = now() - INTERVAL 40 HOUR "
            f"WHERE snapshot_id <= {versions[-2]}",
        )
        marker = session_of(lake).guard.marker
        assert marker is not None
        marker.confirm_move()  # it has the time of a snapshot
        assert lake.maintenance.expire_snapshots(older_than=2 * day) == []
        assert lake.maintenance.expire_snapshots(older_than=day, keep=3) == versions[:-3]
        assert lake.maintenance.expire_snapshots(older_than=day) == versions[-3:-1]
        before = files(tmp_path / "data")
        assert lake.maintenance.cleanup(older_than=day) == []
        run_plain(
            lake,
            "UPDATE __ducklake_metadata_dev.ducklake_files_scheduled_for_deletion "
            "SET schedule_start = now() - INTERVAL 40 HOUR",
        )
        (orphan := tmp_path / "data" / "raw" / "t" / ORPHAN).write_text("rows")
        assert lake.maintenance.cleanup(older_than=2 * day) == []
        assert len(lake.maintenance.plan_cleanup(older_than=day).paths) == 1
        assert files(tmp_path / "data") == before | {f"raw/t/{ORPHAN}"}
        assert len(lake.maintenance.cleanup(older_than=day)) == 1
        assert files(tmp_path / "data") < before | {f"raw/t/{ORPHAN}"}
        assert orphan.exists()
        long_ago = orphan.stat().st_mtime - 40 * 3600
        os.utime(orphan, (long_ago, long_ago))
        assert lake.maintenance.cleanup(older_than=2 * day) == []
        assert lake.maintenance.cleanup(older_than=day) == [str(orphan)]
        assert len(lake.table("raw.t").scan().collect()) == 10


@pytest.mark.slow
def test_doctor_repair_creates_a_missing_marker(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--store", "dev", "--repair"]) == 1
    assert "has no lake yet" in capsys.readouterr().err
    store = lakeconf.init(project).get_store("dev")
    fill(store)
    marker = project / "data" / MARKER
    content = marker.read_text()
    marker.unlink()
    with store.open() as lake:
        schemas = "SELECT schema_uuid::VARCHAR FROM __ducklake_metadata_dev.ducklake_schema ORDER BY schema_id"
        assert lake.sql(schemas).collect("pyarrow").rows()[0] == (json.loads(content)["lake"],)
        lake.table("raw.t").append(ROWS)
        with pytest.raises(CatalogError, match="lakeconf doctor --store STORE --repair"):
            cleaned(lake)
    assert run(["doctor", "--store", "dev"]) == 0
    assert f"! marker              {marker} does not exist" in capsys.readouterr().out
    assert not marker.exists()
    assert run(["doctor", "--store", "dev", "--repair"]) == 0
    assert f"✓ marker              {marker} names this catalog" in capsys.readouterr().out
    created = json.loads(marker.read_text())
    assert created["snapshot"] == 4
    assert {key: created[key] for key in ("lake", "catalog")} == {
        key: json.loads(content)[key] for key in ("lake", "catalog")
    }
    with store.open() as lake:
        assert len(cleaned(lake)) == 1
    other = content.replace(json.loads(content)["lake"], "11111111-1111-1111-1111-111111111111")
    marker.write_text(other)
    assert run(["doctor", "--store", "dev", "--repair"]) == 1
    assert "belongs to another lake" in capsys.readouterr().err
    assert marker.read_text() == other


def test_without_files_to_remove_the_files_of_the_lake_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path / "catalog", tmp_path / "data")
    fill(store)
    read, rows = [], MetadataTransaction.rows

    def recorded(self: MetadataTransaction, sql: str, *parameters: Any) -> Any:
        read.append(sql)
        return rows(self, sql, *parameters)

    with store.open() as lake:
        monkeypatch.setattr(MetadataTransaction, "rows", recorded)
        assert lake.maintenance.plan_cleanup(older_than=dt.timedelta(days=2)).paths == []
        assert read
        assert not [sql for sql in read if "ducklake_data_file" in sql]
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        assert lake.maintenance.plan_cleanup(older_than=NOW, force=True).paths
        assert [sql for sql in read if "ducklake_data_file" in sql]


ODD = "test[0] {b,c} year=20* what? 100% of #1 & 'more'"
ODD_ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "name": [f"n{i}" for i in range(40)],
        "kind": ["ab"[i % 2] for i in range(40)],
    }
)
LATER = ODD_ROWS.set_column(0, "id", pa.array(range(200, 240), pa.int64()))
CHANGES = pa.table({"id": pa.array([3, 100], pa.int64()), "name": ["changed", "new"], "kind": ["b", "a"]})


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_lake_in_a_folder_with_special_characters(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    storage = {"type": "local", "path": str(tmp_path / ODD / "data")}
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev")
    spark: Any = request.getfixturevalue("spark") if engine == "spark" else None
    with store.open(spark) as lake:
        tables = [
            lake.create_table("raw.split", like=ODD_ROWS, partitioned_by=["kind"]),
            lake.create_table("raw.plain", like=ODD_ROWS),
        ]
        for table in tables:
            table.append(ODD_ROWS)
            table.append(LATER)
            table.delete("id IN (5, 6)")
            table.merge(CHANGES, on="id")
            table.update({"name": "x"}, where="id = 7")
        found = {table.name: sorted(table.scan().collect("pyarrow").rows()) for table in tables}
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        for table in tables:
            assert sorted(table.scan().collect("pyarrow").rows()) == found[table.name]
    with duckdb.connect() as connection:
        store.attach(connection)
        for name, rows in found.items():
            assert len(rows) == 79
            assert rows == sorted(connection.sql(f"SELECT id, name, kind FROM dev.{name}").fetchall())
        listed = [
            path
            for name in ("split", "plain")
            for row in connection.sql(
                f"SELECT data_file, delete_file FROM ducklake_list_files('dev', '{name}', schema => 'raw')"
            ).fetchall()
            for path in row
            if path is not None
        ]
    # No needed file is missing. Unneeded files may remain, because DuckLake searches for them with a glob pattern.
    there = {str(path) for path in (tmp_path / ODD / "data").rglob("*") if path.is_file()}
    assert set(listed) <= there


@pytest.mark.slow
def test_cleanup_keeps_folders_that_match_the_data_path_as_a_pattern(tmp_path: Path) -> None:
    made = {}
    for name in ("data0", "dataX", "data[0]", "data?"):
        backends = (
            {"type": "sqlite", "uri": f"{tmp_path}/{name}.sqlite"},
            {"type": "local", "path": f"{tmp_path}/{name}"},
        )
        made[name] = lakeconf.init(config_of(tmp_path, *backends)).get_store("dev")
    for store in made.values():
        with store.open() as lake:
            lake.create_table("raw.t", like=ODD_ROWS).append(ODD_ROWS)
    for name in ("data[0]", "data?"):
        with made[name].open() as lake:
            assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []
    for store in made.values():
        with store.open() as lake:
            assert lake.table("raw.t").to_arrow().sort_by("id") == ODD_ROWS
