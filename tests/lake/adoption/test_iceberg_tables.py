"""`Lake.adopt` registers Iceberg tables: `pyiceberg` writes them and judges the rows; metadata leads nowhere else."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import config_of, in_bucket
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType
from refused_adoptions import contents, maintain_all, refused, rows

import lakeconf
from lakeconf.errors import (
    CommitConflictError,
    FileMissingError,
    LakeconfError,
    QueryError,
    SchemaError,
    StorageError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import S3Server

    from lakeconf import Store

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "kind": ["x", "y z/ü", None],
        "at": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        "price": pa.array([1, 2, None], pa.decimal128(10, 2)),
        "tags": [["a"], [], None],
        "places": [[{"x": 1.5}], [], None],
        "more": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    }
)


_CATALOGS: list[SqlCatalog] = []


@pytest.fixture(autouse=True)
def catalogs_are_closed() -> Iterator[None]:
    """Python 3.14 reports connections that nobody closed."""
    yield
    for catalog in _CATALOGS:
        catalog.close()
    _CATALOGS.clear()


def table_in(folder: Path, schema: pa.Schema = ROWS.schema, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("ice", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/tables")
    _CATALOGS.append(catalog)
    catalog.create_namespace_if_not_exists("n")
    return catalog.create_table("n.t", schema, **options)


def metadata_of(table: Any) -> str:
    return str(table.metadata_location).removeprefix("file://")


def folder_of(table: Any) -> Path:
    return Path(metadata_of(table)).parents[1]


def test_an_iceberg_table_becomes_a_table_and_new_snapshots_add_files(store: Store, tmp_path: Path) -> None:
    table = table_in(tmp_path / "ice")
    table.append(ROWS)
    before = contents(folder_of(table))
    with store.open() as lake:
        plan = lake.plan_adopt(metadata_of(table), "raw.t")
        snapshot = table.current_snapshot().snapshot_id
        assert (plan.kind, plan.version, len(plan.files), plan.rows) == ("Iceberg table", snapshot, 1, 3)
        lake.adopt(metadata_of(table), "raw.t", verify="full")
        assert contents(folder_of(table)) == before
        table.append(ROWS)
        lake.adopt(metadata_of(table), "raw.t", verify="full")
        assert not lake.plan_adopt(metadata_of(table), "raw.t").is_needed
        assert rows(lake, "SELECT count(*), sum(id), max(places[1].x) FROM raw.t") == [(6, 12, 1.5)]
        maintain_all(lake)
        table.delete("id = 1")  # pyiceberg writes the files again
        with refused(lake, CommitConflictError, "has removed or rewritten 2 files"):
            lake.adopt(metadata_of(table), "raw.t")


def test_only_a_catalog_or_the_hint_names_the_current_version(store: Store, tmp_path: Path) -> None:
    table = table_in(tmp_path / "ice")
    table.append(ROWS)
    name = Path(metadata_of(table)).name
    hint = folder_of(table) / "metadata" / "version-hint.text"
    with store.open() as lake:
        with refused(lake, UnsupportedError, "only its catalog knows"):
            lake.adopt(str(folder_of(table)), "raw.t")
        hint.write_text("17")
        with refused(lake, FileMissingError, r"names 'v17\.metadata\.json'"):
            lake.adopt(str(folder_of(table)), "raw.t")
        hint.write_text(name)
        lake.adopt(str(folder_of(table)), "raw.t")
        with refused(lake, StorageError, "is not in a folder metadata"):
            lake.adopt(str(tmp_path / name), "raw.u")


def test_columns_that_were_renamed_added_or_promoted(store: Store, tmp_path: Path) -> None:
    promoted, renamed, added = (table_in(tmp_path / name) for name in ("promoted", "renamed", "added"))
    for table in (promoted, renamed, added):
        table.append(ROWS)
    with promoted.update_schema() as update:
        update.update_column("id", field_type=LongType())
    with renamed.update_schema() as update:
        update.rename_column("kind", "sort")
    with added.update_schema() as update:
        update.delete_column("kind").add_column("extra", LongType())
    with store.open() as lake:
        lake.adopt(metadata_of(promoted), "raw.promoted", verify="full")
        assert rows(lake, "SELECT typeof(id), sum(id) FROM raw.promoted GROUP BY ALL") == [("BIGINT", 6)]
        for table in (renamed, added):
            with refused(lake, SchemaError, "has another name in"):
                lake.adopt(metadata_of(table), "raw.t")


@pytest.mark.parametrize("content", [1, 2])
def test_deletes_are_refused(store: Store, tmp_path: Path, content: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestFile

    table = table_in(tmp_path / "ice")
    table.append(ROWS)
    kind = {1: DataFileContent.POSITION_DELETES, 2: DataFileContent.EQUALITY_DELETES}[content]
    original = ManifestFile.fetch_manifest_entry

    def with_delete(self: Any, *arguments: Any, **options: Any) -> list[ManifestEntry]:
        entries = original(self, *arguments, **options)
        for entry in entries:
            monkeypatch.setattr(DataFile, "content", property(lambda _: kind))
            assert entry.data_file.content is kind
        return entries

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", with_delete)
    words = {1: "position deletes", 2: "equality deletes"}[content]
    with store.open() as lake, refused(lake, UnsupportedError, words):
        lake.adopt(metadata_of(table), "raw.t")


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "file:///etc/passwd", "s3://other/x.avro", "http://127.0.0.1:1/x.avro", "hdfs://h/x", ".."]
)
def test_hostile_metadata_leads_nowhere(store: Store, tmp_path: Path, place: str) -> None:
    table = table_in(tmp_path / "ice")
    table.append(ROWS)
    path = Path(metadata_of(table))
    metadata = json.loads(path.read_text())
    for snapshot in metadata["snapshots"]:
        snapshot["manifest-list"] = f"{folder_of(table)}/../../x.avro" if place == ".." else place
    path.write_text(json.dumps(metadata))
    with store.open() as lake, refused(lake, LakeconfError, "."):
        lake.adopt(str(path), "raw.t")


def test_properties_of_the_table_name_no_server_and_no_class(store: Store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        properties = {"s3.endpoint": endpoint, "py-io-impl": "no.such.Class", "uri": endpoint}
        table = table_in(tmp_path / "ice")
        table.append(ROWS)
        path = Path(metadata_of(table))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"properties": properties}))
        with store.open() as lake:
            lake.adopt(str(path), "raw.t", verify="full")
            assert lake.table("raw.t").count() == 3
        with pytest.raises(BlockingIOError):
            server.accept()


def test_damaged_metadata_is_a_named_error(store: Store, tmp_path: Path) -> None:
    table = table_in(tmp_path / "ice")
    table.append(ROWS)
    path = Path(metadata_of(table))
    with store.open() as lake:
        path.write_text("{")
        with refused(lake, QueryError, "cannot be read"):
            lake.adopt(str(path), "raw.t")
        path.unlink()
        with refused(lake, LakeconfError, "."):
            lake.adopt(str(path), "raw.t")


@pytest.mark.slow
def test_random_iceberg_tables_have_the_rows_that_pyiceberg_reads(store: Store, tmp_path: Path) -> None:
    chosen = random.Random(50)  # noqa: S311 - test data
    schema = pa.schema({"id": pa.int64(), "kind": pa.string(), "f": pa.float64()})
    with store.open() as lake:
        for number in range(5):
            table = table_in(tmp_path / f"i{number}", schema)
            if number % 2:
                with table.update_spec() as update:
                    update.add_identity("kind")
            for _ in range(chosen.randint(1, 3)):
                ids = [chosen.randint(0, 9) for _ in range(8)]
                kinds = [chosen.choice(["a b", "ü", None, "1"]) for _ in range(8)]
                floats = [chosen.choice([0.0, -0.0, 1.5, None]) for _ in range(8)]
                table.append(pa.table({"id": ids, "kind": kinds, "f": floats}, schema))
                if chosen.random() < 0.5:
                    table.delete(f"id = {chosen.choice(ids)}")
            name = f"raw.t{number}"
            lake.adopt(metadata_of(table), name, verify="full")
            found = sorted(rows(lake, f"SELECT id, kind, f FROM {name}"), key=repr)
            assert found == sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


@pytest.mark.slow
def test_an_iceberg_table_in_a_bucket_is_read_with_the_secret_of_the_lake_only(
    tmp_path: Path, s3_server: S3Server
) -> None:
    storage = in_bucket(s3_server)
    bucket, keys = storage["bucket"], s3_server.keys
    catalog = SqlCatalog(
        "ice", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"s3://{bucket}/tables",
        **{"s3.endpoint": f"http://{s3_server.endpoint}", "s3.access-key-id": keys.key_id,
           "s3.secret-access-key": keys.secret, "s3.region": s3_server.region},
    )  # fmt: skip
    _CATALOGS.append(catalog)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", ROWS.schema)
    table.append(ROWS)
    with lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev").open() as lake:
        lake.adopt(table.metadata_location, "raw.t", verify="full")
        assert rows(lake, "SELECT count(*), sum(id) FROM raw.t") == [(3, 6)]
