"""Executors read a file with DuckDB: its columns, without the deleted rows, and without a key in an error."""

from __future__ import annotations

import dataclasses
import struct
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from catalog_lake import Lake
from pyspark import cloudpickle

from lakeconf.connection.connection import connect, load_extension
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read import executor_code
from lakeconf.engines.spark.read.executor_code import POSITION, ROWS, Task, puffin_positions

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER_KEY = "MDEyMzQ1Njc4OWFiY2RlZg==", "MDEyMzQ1Njc4OWFiY2RlWg=="
TASK = Task(
    path="s3://b/data.parquet",
    select=f"a, {POSITION} AS row",
    source="read_parquet(?)",
    conditions=(),
    time_zone="UTC",
    snapshot_id=5,
    deleted=(),
    delete_format=None,
    key=None,
    delete_key=None,
)


@pytest.fixture
def ten(tmp_path: Path) -> bytes:
    """A file with the numbers from 0 to 9."""
    return parquet(tmp_path, "SELECT i AS a FROM range(10) r(i)")


def parquet(folder: Path, query: str) -> bytes:
    path = folder / "made.parquet"
    with duckdb.default_connection().cursor() as con:
        con.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


def rows(task: Task, content: bytes, deletes: bytes | None = None) -> list[tuple[Any, ...]]:
    batches = executor_code.read_file(task, content, deletes)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def changed(**changes: Any) -> Task:
    return dataclasses.replace(TASK, **changes)


def test_rows_have_their_positions_in_the_file(ten: bytes) -> None:
    assert rows(TASK, ten) == [(n, n) for n in range(10)]
    assert rows(changed(conditions=("a > 3", "a < 6")), ten) == [(4, 4), (5, 5)]
    assert rows(changed(deleted=(0, 1, 2, 9, 100)), ten) == [(n, n) for n in range(3, 9)]


def test_worker_reads_with_one_thread_and_a_part_of_the_file_at_a_time(tmp_path: Path) -> None:
    content = parquet(tmp_path, "SELECT i AS a FROM range(300_000) r(i)")
    select = "a, current_setting('threads') AS threads, current_setting('memory_limit') AS memory"
    batches = executor_code.read_file(changed(select=select), content, None)
    first = next(batches)
    assert first.slice(0, 1).to_pylist() == [{"a": 0, "threads": 1, "memory": "1.8 GiB"}]
    sizes = [first.num_rows, *(batch.num_rows for batch in batches)]
    assert (sum(sizes), max(sizes) <= executor_code._ROWS_AT_ONCE) == (300_000, True)


def test_error_in_a_later_part_of_the_file_names_the_file(tmp_path: Path) -> None:
    content = parquet(tmp_path, "SELECT i AS a FROM range(300_000) r(i)")
    task = changed(select="CASE WHEN a = 299_999 THEN error('wrong') END AS a")
    with pytest.raises(RuntimeError, match=r"^lakeconf: DuckDB cannot read s3://b/data\.parquet: .*wrong"):
        list(executor_code.read_file(task, content, None))


def test_time_zone_of_the_lake_converts_naive_timestamps(ten: bytes) -> None:
    select = "epoch(CAST(TIMESTAMP '2024-01-01 12:00:00' AS TIMESTAMPTZ)) % 86400 AS noon"
    for zone, expected in (("UTC", 43_200), ("Asia/Kolkata", 23_400)):
        assert rows(changed(select=select, time_zone=zone, conditions=("a = 0",)), ten) == [(expected,)]


def test_deletes_of_later_snapshots_are_not_applied(ten: bytes, tmp_path: Path) -> None:
    values = "FROM (VALUES ('f', 1, 4), ('f', 2, 5), ('f', 3, 6))"
    names = f"v (file_path, pos, {INTERNAL_SNAPSHOT_ID.name})"
    task = changed(delete_format="parquet", deleted=(9,))
    marked = parquet(tmp_path, f"{values} AS {names}")
    assert [row for row, _ in rows(task, ten, marked)] == [0, 3, 4, 5, 6, 7, 8]
    without = parquet(tmp_path, f"{values} AS v (file_path, pos, other)")
    assert [row for row, _ in rows(task, ten, without)] == [0, 4, 5, 6, 7, 8]


def vector(positions: list[int]) -> bytes:
    """A deletion vector with one array container."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(positions) - 1, 16) + struct.pack(f"<{len(positions)}H", *positions)
    body = b"\xd1\xd3\x39\x64" + struct.pack("<qi", 1, 0) + bitmap
    return struct.pack(">I", len(body)) + body + b"CRC!"


def test_deletion_vector_is_applied(ten: bytes) -> None:
    task = changed(delete_format="puffin", deleted=(9,))
    assert [row for row, _ in rows(task, ten, vector([0, 3, 4]))] == [1, 2, 5, 6, 7, 8]


def test_encrypted_files_are_read_with_their_keys(ten: bytes, tmp_path: Path) -> None:
    def encrypted(query: str, key: str) -> bytes:
        path = tmp_path / "encrypted.parquet"
        options = f"FORMAT parquet, ENCRYPTION_CONFIG {{footer_key_value: from_base64('{key}')}}"
        with connect() as con:
            load_extension(con, "httpfs")  # DuckDB writes encrypted files with the OpenSSL of httpfs
            con.execute(f"COPY ({query}) TO '{path}' ({options})")
        return path.read_bytes()

    source = "read_parquet(?, encryption_config = {footer_key_value: from_base64(?)})"
    data = encrypted("SELECT i AS a FROM range(10) r(i)", KEY)
    deletes = encrypted("SELECT 'f' AS file_path, 1::BIGINT AS pos", OTHER_KEY)
    task = changed(source=source, key=KEY, delete_key=OTHER_KEY, delete_format="parquet")
    assert len(rows(task, data, deletes)) == 9
    for wrong in (dataclasses.replace(task, key=OTHER_KEY), dataclasses.replace(task, delete_key=KEY)):
        with pytest.raises(RuntimeError, match=r"^lakeconf: DuckDB cannot read s3://b/data\.parquet: "):
            rows(wrong, data, deletes)
    assert KEY not in repr(task)
    assert OTHER_KEY not in repr(task)


def test_error_of_duckdb_names_the_file_and_hides_the_keys(ten: bytes) -> None:
    source = "(SELECT a, file_row_number FROM read_parquet(?) WHERE ? <> '')"
    bad = f"CAST('{KEY} {OTHER_KEY}' AS INTEGER) AS x"
    with pytest.raises(RuntimeError) as failed:
        rows(changed(select=bad, source=source, key=KEY, delete_key=OTHER_KEY), ten)
    assert "DuckDB cannot read s3://b/data.parquet: Conversion Error" in str(failed.value)
    assert "'*** ***'" in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    with pytest.raises(RuntimeError, match="cannot read"):
        rows(TASK, b"damaged")


def test_reader_reads_each_task_of_a_batch(ten: bytes) -> None:
    class Broadcast:
        value = (changed(conditions=("a < 2",)), changed(delete_format="puffin", conditions=("a > 7",)))

    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 0]), pa.array([ten, ten]), pa.array([vector([8]), None])], ["number", "content", "deletes"]
    )
    found = executor_code.reader_of(Broadcast())(iter([batch, batch.slice(1)]))
    assert [row["a"] for part in found for row in part.to_pylist()] == [9, 0, 1, 0, 1]


def test_summing_runs_the_query_over_each_batch() -> None:
    query = f"SELECT sum(a) AS total, max(strftime(z, '%H')) AS hour FROM {ROWS}"
    zoned = pa.array([0], pa.timestamp("us", "UTC"))
    batches = [pa.RecordBatch.from_arrays([pa.array([n]), zoned], ["a", "z"]) for n in (1, 5)]
    found = executor_code.summing(query, "Asia/Tokyo")(iter(batches))
    assert [row for batch in found for row in batch.to_pylist()] == [{"total": n, "hour": "09"} for n in (1, 5)]


def test_functions_are_sent_without_lakeconf() -> None:
    """Executors do not need lakeconf: cloudpickle sends the code of the module by value."""
    for function in (executor_code.puffin_reader, executor_code.summing("SELECT 1", "UTC")):
        sent = cloudpickle.dumps(function)  # type: ignore[no-untyped-call, unused-ignore]
        assert b"_container" in sent or b"lakeconf_rows" in sent


def test_executor_without_duckdb_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    task = executor_code.Task("a.parquet", "1", "t", (), "UTC", 1, (), None, None, None)
    with pytest.raises(RuntimeError, match=r"read a\.parquet .* no package duckdb; install it there"):
        list(executor_code.read_file(task, b"", None))
    with pytest.raises(RuntimeError, match=r"verify needs the package duckdb .* install it there"):
        list(executor_code.summing("", "UTC")(iter([])))


@pytest.mark.parametrize(
    "name", ["__lakeconf_position", "__LAKECONF_POSITION", "file_row_number", "position", "deleted"]
)
def test_column_names_that_the_query_of_the_executor_uses(tmp_path: Path, name: str) -> None:
    """Deleted positions are compared with the row number, never with a column of the file."""
    content = parquet(tmp_path, f"SELECT i AS a, 99 - i AS {name} FROM range(100) r(i)")
    task = changed(select=f'a, "{name}", {POSITION} AS row', deleted=tuple(range(10)))
    assert sorted(rows(task, content)) == [(i, 99 - i, i) for i in range(10, 100)]


@pytest.mark.parametrize(
    "condition",
    ["a % 2 = 0", "a BETWEEN 1000 AND 90000", "a IN (0, 65535, 65536, 131071, 199999)", "a < 200000", "a > 70000"],
)
def test_deletion_vectors_with_every_kind_of_container(vectors: Lake, condition: str) -> None:
    vectors.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t SELECT i FROM range(200000) r(i)")
    vectors.run(f"DELETE FROM lake.t WHERE {condition} AND a <> 199998")
    ((path,),) = vectors.rows("SELECT delete_file FROM ducklake_list_files('lake', 't')")
    expected = vectors.rows(f"SELECT i FROM range(200000) r(i) WHERE {condition.replace('a ', 'i ')} AND i <> 199998")
    assert puffin_positions((vectors.folder / path).read_bytes()) == [position for (position,) in expected]


@pytest.mark.parametrize("content", [b"\0\0\0\0PAR1PAR1", b"\0\0\xff\xff\xd1\xd3\x39\x64" + b"\0" * 20])
def test_damaged_deletion_vector_raises_an_error(content: bytes) -> None:
    with pytest.raises(RuntimeError, match="deletion vector is damaged"):
        puffin_positions(content)


HEAD = b"\xd1\xd3\x39\x64" + struct.pack("<qi", 1, 0)


def of_bitmap(bitmap: bytes, head: bytes = HEAD) -> bytes:
    return struct.pack(">I", len(head + bitmap)) + head + bitmap + b"CRC!"


def runs(*pairs: tuple[int, int]) -> bytes:
    return struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs)


def test_runs_and_arrays_in_one_bitmap() -> None:
    cookie = struct.pack("<I", 12347 | (2 - 1) << 16) + bytes([0b10])
    headers = struct.pack("<HHHH", 0, 1, 3, 5)
    bitmap = cookie + headers + struct.pack("<HH", 7, 9) + runs((2, 1), (10, 3))
    expected = [7, 9, *((3 << 16) + n for n in (2, 3, 10, 11, 12, 13))]
    assert puffin_positions(of_bitmap(bitmap)) == expected


@pytest.mark.parametrize("count", [3, 4, 9])
def test_offsets_follow_the_headers_of_four_containers_with_runs(count: int) -> None:
    cookie = struct.pack("<I", 12347 | (count - 1) << 16) + b"\xff" * ((count + 7) // 8)
    headers = b"".join(struct.pack("<HH", key, 0) for key in range(count))
    offsets = b"\xee" * 4 * count if count >= 4 else b""
    bitmap = cookie + headers + offsets + runs((5, 0)) * count
    assert puffin_positions(of_bitmap(bitmap)) == [(key << 16) + 5 for key in range(count)]


@pytest.mark.parametrize("size", [4096, 4097])
def test_large_containers_are_bits(size: int) -> None:
    values = [3 * n for n in range(size)]
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, size - 1, 16)
    if size <= 4096:
        bitmap += struct.pack(f"<{size}H", *values)
    else:
        bitmap += sum(1 << value for value in values).to_bytes(8192, "little")
    assert puffin_positions(of_bitmap(bitmap + b"")) == values


def test_positions_above_32_bits() -> None:
    one = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 7)
    head = HEAD[:4] + struct.pack("<qi", 2, 0)
    content = of_bitmap(one + struct.pack("<i", 3) + one, head)
    assert puffin_positions(content) == [7, (3 << 32) | 7]
    assert puffin_positions(of_bitmap(b"", HEAD[:4] + struct.pack("<q", 0))) == []


def test_unknown_kind_of_bitmap_is_rejected() -> None:
    with pytest.raises(RuntimeError, match=r"^lakeconf: a deletion vector is damaged or has an unknown format$"):
        puffin_positions(of_bitmap(struct.pack("<I", 12345) + b"\0" * 20))
    whole = vector([1])
    assert puffin_positions(whole) == [1]
    with pytest.raises(RuntimeError, match=r"^lakeconf: a deletion vector is damaged or has an unknown format$"):
        puffin_positions(whole[:-1])


def test_deletion_vectors_of_files_become_rows() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([100, 1 << 40]), pa.array([vector([1, 2]), vector([0])])], ["base", "content"]
    )
    found = list(executor_code.puffin_reader(iter([batch])))
    assert [part.schema.field("row").type for part in found] == [pa.int64()] * 2
    assert [row["row"] for part in found for row in part.to_pylist()] == [101, 102, 1 << 40]
