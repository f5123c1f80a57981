"""`lakeconf sql` reads the files of a lake in any location, and no other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeconf
from lakeconf.errors import StorageError, UnsafeQueryError
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from pathlib import Path

    from servers import S3Server

    from lakeconf import Store

ROWS = pa.table({"i": pa.array(range(10), pa.int64())})


def make(folder: Path, storage: dict[str, Any], **options: Any) -> Store:
    metadata = {"type": "sqlite", "uri": str(folder / "catalog.sqlite")}
    backends = {"metadata_backend": metadata, "storage_backend": storage, "attach_options": options}
    store = lakeconf.init({"stores": {"dev": backends}}).get_store("dev")
    with store.open() as lake:
        table = lake.create_table("t", like=ROWS)
        table.append(ROWS)
        table.delete("i = 3")
    return store


def local(folder: Path) -> dict[str, Any]:
    return {"type": "local", "path": str(folder / "data")}


def check(store: Store, rows: int = 9) -> None:
    assert query(store, "SELECT count(*) FROM t WHERE i >= 0")[1] == [(rows,)]
    # Before the delete.
    assert query(store, "SELECT count(*) FROM t AT (VERSION => 2)")[1] == [(10,)]


def check_neighbour(store: Store, path: str) -> None:
    """A file that is not part of the lake cannot be read, neither directly nor through a view of the lake."""
    with store.connect() as writer:
        assert writer.execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(10,)]
        writer.execute(f"CREATE VIEW dev.stolen AS SELECT * FROM read_parquet('{path}')")
    for statement in (f"FROM '{path}'", f"FROM read_parquet('{path}')", "FROM stolen"):
        for allow_files in (False, True):
            if allow_files and "stolen" not in statement:
                assert len(query(store, statement, allow_files=True)[1]) == 10
                continue
            with pytest.raises((UnsafeQueryError, StorageError)):
                query(store, statement, allow_files=allow_files)


def neighbour(folder: Path) -> str:
    path = folder / "neighbour.parquet"
    pq.write_table(ROWS, path)
    return str(path)


@pytest.mark.parametrize("encrypted", [False, True])
def test_lake_in_a_local_folder(tmp_path: Path, encrypted: bool) -> None:
    store = make(tmp_path, local(tmp_path), encrypted=encrypted)
    check(store)
    check_neighbour(store, neighbour(tmp_path))


def test_registered_files_outside_the_data_path(tmp_path: Path) -> None:
    store = make(tmp_path, local(tmp_path))
    outside = tmp_path / "landing" / "part.parquet"
    outside.parent.mkdir()
    pq.write_table(ROWS, outside)
    with store.connect() as writer:
        writer.execute(f"CALL ducklake_add_data_files('dev', 't', '{outside}')")
    check(store, 19)
    check_neighbour(store, neighbour(outside.parent))


def test_relative_data_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = make(tmp_path, {"type": "local", "path": "data"})
    check(store)
    check_neighbour(store, neighbour(tmp_path))


def test_relative_data_path_stored_by_plain_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = make(tmp_path, local(tmp_path))
    with store.connect() as writer:
        writer.execute("UPDATE __ducklake_metadata_dev.ducklake_metadata SET value = 'data/' WHERE key = 'data_path'")
    backends = {"metadata_backend": {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}}
    storage = {"type": "local", "path": "data"}
    options = {"override_data_path": True}
    found = {"stores": {"dev": {**backends, "storage_backend": storage, "attach_options": options}}}
    check(lakeconf.init(found).get_store("dev"))


def test_lake_in_a_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.create_bucket()
    storage = {
        "type": "s3",
        "bucket": bucket,
        "prefix": "lake",
        "endpoint": f"127.0.0.1:{s3_server.port}",
        "region": s3_server.region,
        "url_style": "path",
        "use_ssl": False,
        "key_id": s3_server.keys.key_id,
        "secret": s3_server.keys.secret,
    }
    store = make(tmp_path, storage)
    check(store)
    with store.connect() as writer:
        writer.execute(f"COPY (FROM range(10)) TO 's3://{bucket}/lake-of-others/neighbour.parquet'")
    check_neighbour(store, f"s3://{bucket}/lake-of-others/neighbour.parquet")
