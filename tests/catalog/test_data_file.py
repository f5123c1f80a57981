"""Data files, delete files and name mappings, as rows of the catalog become values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import METADATA, lake

from lakeconf.catalog.data_file import (
    DataFile,
    DeleteFile,
    NameMapping,
    load_data_files,
    load_name_mappings,
    to_data_file,
    to_delete_file,
)
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.connection.connection import load_extension
from lakeconf.errors import CatalogError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from catalog_lake import Lake

TABLE = TableInfo(1, "main", "t", (), "/data/main/t/")
ROW = ["f.parquet", True, "parquet", 10, 200, 5, 2, None, None, None, None, False]


def loaded(source: Lake, version: int | None = None, ids: Sequence[int] | None = None) -> tuple[DataFile, ...]:
    at = source.newest if version is None else version
    table = load_table(source.reader, "t", at)
    with source.reader.transaction() as transaction:
        return load_data_files(transaction, table, at, ids)


@pytest.fixture
def files(local: Lake) -> Lake:
    """A lake with a table `t`; the snapshots 2, 3 and 4 add the files 0, 1 and 2 with ten rows each."""
    local.run("CREATE TABLE lake.t (a INTEGER)")
    for start in (0, 10, 20):
        local.run(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 10})")
    return local


def test_row_of_the_catalog_becomes_a_data_file() -> None:
    row: list[Any] = [7, "f.parquet", True, "parquet", 10, 200, 5, 2, 9, 3, 1, "key", True]
    assert to_data_file(TABLE, row) == DataFile(
        data_file_id=7,
        path="/data/main/t/f.parquet",
        record_count=10,
        file_size_bytes=200,
        row_id_start=5,
        begin_snapshot=2,
        mapping_id=3,
        snapshot_filter=1,
        encryption_key="key",
        partition_id=9,
        is_partial=True,
    )
    row[1:3] = ["s3://bucket/f.parquet", False]
    assert to_data_file(TABLE, row).path == "s3://bucket/f.parquet"


def test_row_of_the_catalog_becomes_a_delete_file() -> None:
    found = to_delete_file(TABLE, ["d.puffin", True, "puffin", 3, 40, "key", 9, 2])
    assert found == DeleteFile("/data/main/t/d.puffin", "puffin", 3, 40, "key", delete_file_id=9, begin_snapshot=2)
    assert to_delete_file(TABLE, ["/d.parquet", False, "parquet", 3, 40, None]).path == "/d.parquet"


def test_unknown_format_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"^the data file 'f\.orc' has the format 'orc'; lakeconf only reads parquet$"
    ):
        to_data_file(TABLE, [7, "f.orc", True, "orc", *ROW[3:]])
    message = r"^the delete file '/data/main/t/d' has the format 'orc'; lakeconf only reads parquet and puffin$"
    with pytest.raises(UnsupportedError, match=message):
        to_delete_file(TABLE, ["d", True, "orc", 3, 40, None])


def test_repr_shows_no_encryption_key() -> None:
    hidden = "c2VjcmV0IGtleQ=="
    data_file = to_data_file(TABLE, [1, *ROW[:10], hidden, False])
    delete_file = to_delete_file(TABLE, ["d", True, "puffin", 3, 40, hidden])
    assert (data_file.encryption_key, delete_file.encryption_key) == (hidden, hidden)
    assert hidden not in repr((data_file, delete_file))


def test_keys_of_an_encrypted_lake_decrypt_its_files(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path, options=", ENCRYPTED true, DATA_INLINING_ROW_LIMIT 0") as source:
        load_extension(source.connection, "httpfs")  # DuckDB uses its crypto module for encryption
        source.run("CREATE TABLE lake.t AS SELECT * FROM range(100)", "DELETE FROM lake.t WHERE range = 1")
        (file,) = loaded(source)
        assert file.delete_file is not None
        for path, key, count in (
            (file.path, file.encryption_key, 100),
            (file.delete_file.path, file.delete_file.encryption_key, 1),
        ):
            config = f"encryption_config = {{footer_key_value: from_base64('{key}')}}"
            assert source.rows(f"SELECT count(*) FROM read_parquet('{path}', {config})") == [(count,)]


def test_files_are_visible_from_their_begin_to_their_end(files: Lake) -> None:
    files.run("DELETE FROM lake.t WHERE a < 10")
    ids = {version: [file.data_file_id for file in loaded(files, version)] for version in range(1, 6)}
    assert ids == {1: [], 2: [0], 3: [0, 1], 4: [0, 1, 2], 5: [1, 2]}


def test_only_the_wanted_files_are_loaded(files: Lake) -> None:
    files.run("DELETE FROM lake.t WHERE a IN (3, 15)")
    for wanted, found in (([], []), ([1], [1]), ([2, 0], [0, 2]), ([99], []), (range(0, 2000, 2), [0, 2])):
        some = loaded(files, ids=list(wanted))
        assert [file.data_file_id for file in some] == found
        assert some == tuple(file for file in loaded(files) if file.data_file_id in found)


def test_delete_file_belongs_to_its_data_file(files: Lake) -> None:
    files.run("CREATE TABLE lake.u AS FROM range(10) AS r(a)", "DELETE FROM lake.u WHERE a = 1")
    files.run("DELETE FROM lake.t WHERE a IN (3, 15)")
    counts = [file.delete_file and file.delete_file.delete_count for file in loaded(files)]
    assert counts == [1, 1, None]
    assert [file.delete_file for file in loaded(files, files.newest - 1)] == [None] * 3
    (delete_file,) = (file.delete_file for file in loaded(files, ids=[1]))
    assert delete_file is not None
    assert files.rows(f"SELECT pos FROM read_parquet('{delete_file.path}')") == [(5,)]


def test_deletion_vector_has_the_format_puffin(local: Lake) -> None:
    local.run("CALL lake.set_option('write_deletion_vectors', true)", "CREATE TABLE lake.t AS SELECT * FROM range(100)")
    local.run("DELETE FROM lake.t WHERE range = 1")
    (file,) = loaded(local)
    assert file.delete_file is not None
    assert (file.delete_file.format, file.delete_file.delete_count) == ("puffin", 1)


def test_two_live_delete_files_are_refused(files: Lake) -> None:
    files.run("DELETE FROM lake.t WHERE a = 13")
    twin = f"INSERT INTO {METADATA}.ducklake_delete_file SELECT * REPLACE (99 AS delete_file_id, 'twin' AS path)"
    files.run(f"{twin} FROM {METADATA}.ducklake_delete_file")
    path = files.metadata("SELECT path FROM ducklake_delete_file WHERE path <> 'twin'")[0][0]
    with pytest.raises(CatalogError) as refused:
        loaded(files)
    folder = load_table(files.reader, "t", files.newest).path
    assert refused.value.message == (
        f"the data file 1 of main.t has two live delete files at version 5, '{folder}{path}' and '{folder}twin': "
        "two concurrent deletes damaged the table"
    )
    assert refused.value.hint == "write the table again, from a version before 5: only these are intact"
    assert len(loaded(files, ids=[0, 2])) == 2
    assert len(loaded(files, 4)) == 3


def test_inlined_deletes_are_ordered_positions_up_to_the_snapshot(tmp_path: Path) -> None:
    with lake("duckdb", tmp_path) as source:
        source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (-1)")
        source.run(*(f"INSERT INTO lake.t SELECT * FROM range({start}, {start + 50})" for start in (0, 50)))
        assert [file.inlined_deletes for file in loaded(source)] == [(), ()]
        source.run("DELETE FROM lake.t WHERE a = 7", "DELETE FROM lake.t WHERE a IN (5, 51)")
        assert [file.inlined_deletes for file in loaded(source)] == [(5, 7), (1,)]
        assert [file.inlined_deletes for file in loaded(source, source.newest - 1)] == [(7,), ()]
        second = loaded(source)[1].data_file_id
        assert [file.inlined_deletes for file in loaded(source, ids=[second])] == [(1,)]
        source.run(f"INSERT INTO {METADATA}.ducklake_inlined_delete_1 FROM {METADATA}.ducklake_inlined_delete_1")
        assert [file.inlined_deletes for file in loaded(source)] == [(5, 7), (1,)]


def test_partition_values_have_the_order_of_the_keys(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR)", "INSERT INTO lake.t VALUES (0, 'none')")
    local.run("ALTER TABLE lake.t SET PARTITIONED BY (b, a)", "INSERT INTO lake.t VALUES (1, 'x'), (2, NULL)")
    values = [file.partition_values for file in loaded(local)]
    assert values[0] == ()
    assert sorted(values[1:], key=str) == [((0, "x"), (1, "1")), ((0, None), (1, "2"))]
    assert [file.partition_values for file in loaded(local, ids=[2])] == values[2:]


def test_merged_file_is_filtered_only_for_earlier_snapshots(files: Lake) -> None:
    files.run("CALL ducklake_merge_adjacent_files('lake')")
    filters = {version: [file.snapshot_filter for file in loaded(files, version)] for version in (2, 3, 4, 5)}
    assert filters == {2: [2], 3: [3], 4: [None], 5: [None]}


def test_name_mappings_are_trees(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER, s STRUCT(x INTEGER, y INTEGER))")
    for name, columns in (("f", "1 AS A, {'x': 1, 'Y': 2} AS S"), ("g", "2 AS a, {'x': 1, 'y': 2} AS s")):
        local.run(f"COPY (SELECT {columns}) TO '{local.folder}/{name}.parquet'")
        local.run(f"CALL ducklake_add_data_files('lake', 't', '{local.folder}/{name}.parquet')")
    first, second = (file.mapping_id for file in loaded(local))
    assert first is not None
    assert second is not None
    with local.reader.transaction() as transaction:
        found = load_name_mappings(transaction, [second, first, second])
        assert load_name_mappings(transaction, [first]) == {first: found[first]}
        assert load_name_mappings(transaction, []) == {}
    assert found == {
        first: (NameMapping("A", 1), NameMapping("S", 2, children=(NameMapping("x", 3), NameMapping("Y", 4)))),
        second: (NameMapping("a", 1), NameMapping("s", 2, children=(NameMapping("x", 3), NameMapping("y", 4)))),
    }


def test_value_in_the_path_is_marked(local: Lake) -> None:
    folder = local.folder / "p=7"
    folder.mkdir()
    local.run("CREATE TABLE lake.t (a INTEGER, p INTEGER)", "ALTER TABLE lake.t SET PARTITIONED BY (p)")
    local.run(f"COPY (SELECT 1 AS a) TO '{folder}/f.parquet'")
    local.run(f"CALL ducklake_add_data_files('lake', 't', '{folder}/f.parquet', hive_partitioning => true)")
    (file,) = loaded(local)
    assert file.mapping_id is not None
    with local.reader.transaction() as transaction:
        mapping = load_name_mappings(transaction, [file.mapping_id])[file.mapping_id]
    assert mapping == (NameMapping("a", 1), NameMapping("p", 2, in_path=True))
    assert (file.path, file.partition_values) == (f"{folder}/f.parquet", ((0, "7"),))
