"""A missing or damaged file of one table: the other tables are compacted, and the error names table and file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_catalog, store_of

import lakeconf
from lakeconf.cli.app import run
from lakeconf.errors import CommitError, QueryError, StorageError
from lakeconf.lake.failed_tables import FailedTables

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake, Store, Table


def part_filled(file: bytes, start: int, end: int) -> bytes:
    return file[:start] + b"\xff" * (end - start) + file[end:]


def footer_of(file: bytes) -> int:
    """Where the footer of a file begins."""
    return len(file) - 8 - int.from_bytes(file[-8:-4], "little")


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "half": lambda file: file[: len(file) // 2],
    "footer": lambda file: part_filled(file, footer_of(file), len(file) - 8),
    "page": lambda file: part_filled(file, 4, footer_of(file)),
    "no_end": lambda file: file[:-4] + b"XXXX",
}
STEPS = ("merged", "sorted", "updated", "rewritten", "deletes")


def fill(lake: Lake, name: str, step: str) -> Table:
    """A table with files for a step of a compaction."""
    table = lake.create_table(name, {"id": "BIGINT", "v": "BIGINT"}, sorted_by=["id DESC"] if step == "sorted" else ())
    for start in (0, 100):
        ids = pa.array(range(start, start + 100), pa.int64())
        table.append(pa.table({"id": ids, "v": ids}))
    if step == "updated":
        table.update({"v": 1}, where="id < 50")
        table.update({"v": 1}, where="id >= 150")
    if step in ("rewritten", "deletes"):
        table.delete("id < 99 OR id > 100")
    return table


def damage(table: Table, step: str, kind: str) -> Path:
    """Damages a file that the step reads; returns its path."""
    file = table.files()[-1 if step == "updated" else 0]
    path = Path(file.delete_file if step == "deletes" and file.delete_file else file.path)
    content = DAMAGES[kind](path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    return path


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def catalog_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store on each kind of catalog."""
    return store_of(tmp_path, on_catalog(request, tmp_path))


def rows(lake: Lake, name: str) -> list[Any]:
    return sorted(lake.table(name).scan().collect("pyarrow").rows())


def test_other_tables_are_compacted_and_the_error_names_tables_and_files(catalog_store: Store) -> None:
    healthy = {f"whole.{step}": step for step in ("merged", "updated")}
    paths = {}
    with catalog_store.open() as lake:
        for name, step in healthy.items():
            fill(lake, name, step)
        before = {name: rows(lake, name) for name in healthy}
        for number, kind in enumerate(DAMAGES):
            step = STEPS[number % len(STEPS)]
            paths[f"broken.{step}_{kind}"] = damage(fill(lake, f"broken.{step}_{kind}", step), step, kind)
    # A new connection has not read the footers yet.
    with catalog_store.open() as lake:
        planned = {compaction.table for compaction in lake.maintenance.plan_compaction()}
        assert planned == {*healthy, *paths}
        with pytest.raises(StorageError) as refused:
            lake.maintenance.compact()
        lines = refused.value.message.splitlines()
        assert {line.split()[0] for line in lines} == paths.keys()
        assert [line for line in lines if str(paths[line.split()[0]]) not in line] == []
        assert {compaction.table for compaction in lake.maintenance.plan_compaction()} == paths.keys()
        assert {name: rows(lake, name) for name in healthy} == before


def test_hint_of_the_error_works(catalog_store: Store) -> None:
    with catalog_store.open() as lake:
        damage(fill(lake, "raw.t", "merged"), "merged", "footer")
    with catalog_store.open() as lake:
        with pytest.raises(StorageError) as refused:
            lake.maintenance.compact()
        assert "`lakeconf restore`" in str(refused.value.hint)
        lake.drop_table("raw.t")
        lake.restore("raw.t", version=lake.snapshots()[-4].snapshot_id)
        lake.maintenance.compact()
        assert lake.table("raw.t").count() == 0


def test_error_without_a_damaged_file_is_raised_as_it_is(store: Store) -> None:
    error = QueryError("out of memory")
    with store.open() as lake:
        fill(lake, "raw.t", "merged")
        failed = FailedTables(lake._session)
        for name in ("t", "gone"):
            with failed.apart("raw", name):
                raise error
        with pytest.raises(QueryError) as refused:
            failed.check()
        assert refused.value is error
        with pytest.raises(CommitError), failed.apart("raw", "t"):
            raise CommitError("the lock is gone")


def test_command_exits_with_1_and_expires_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lakeconf.init().get_store().open() as lake:
        path = damage(fill(lake, "raw.b", "merged"), "merged", "footer")
        fill(lake, "raw.a", "merged")
        fill(lake, "raw.c", "merged")
        snapshots = len(lake.snapshots())
    assert run(["maintain", "--expire-days", "0", "--cleanup-days", "0", "--force", "--yes"]) == 1
    error = capsys.readouterr().err
    assert f"raw.b cannot be compacted: the file {path}: " in error
    with lakeconf.init().get_store().open() as lake:
        assert len(lake.snapshots()) > snapshots
        assert [len(lake.table(f"raw.{name}").files()) for name in "abc"] == [1, 2, 1]
