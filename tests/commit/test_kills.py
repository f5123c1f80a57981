"""A writer that is killed leaves the lake as it was before, or as it would have been after, and nothing to keep."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import writing_process
from spark_session import spark_settings
from writing_process import OPERATIONS, ROWS, TABLE, frame, start

import lakeconf

if TYPE_CHECKING:
    from lakeconf import Lake, Store

PROVE = bool(os.environ.get("LAKECONF_PROVE"))
POINTS = ("prepare", "begin", "in the commit", "before the commit", "after the commit", "settle")
COMMITTED = ("after the commit", "settle")
# A writer that is killed from outside dies within this time of its start; the longest write here takes less.
LONGEST_SECONDS = {"on_duckdb": 0.3, "on_spark": 6.0}
Rows = list[tuple[int, int]]


@pytest.fixture(params=["sqlite", "duckdb"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    backends = {
        "metadata_backend": {"type": request.param, "uri": str(tmp_path / "catalog")},
        "storage_backend": {"type": "local", "path": str(tmp_path / "data")},
    }
    return {"stores": {"dev": backends}}


def after(rows: Rows, operation: str, number: int) -> Rows:
    """What the table holds after an operation."""
    new = list(zip(*(column.to_pylist() for column in frame(number).columns), strict=True))
    first = number * ROWS
    if operation == "overwrite":
        return sorted([row for row in rows if not first <= row[0] < first + ROWS] + new)
    if operation == "merge":
        keys = frame(number - 1)["id"].to_pylist()
        return sorted([row for row in rows if row[0] not in set(keys)] + [(key, number) for key in keys])
    if operation == "delete":
        return [row for row in rows if not first - 2 * ROWS + 10 <= row[0] < first - ROWS + 10]
    return sorted(rows + new)


def read(lake: Lake) -> Rows:
    frame = lake.sql(f"SELECT id, write FROM {TABLE}").collect("pyarrow")
    return sorted((int(row[0]), int(row[1])) for row in frame.iter_rows())


def known_files(lake: Lake) -> set[str]:
    paths = "SELECT path FROM __ducklake_metadata_dev.ducklake_{}_file"
    found = lake.sql(f"{paths.format('data')} UNION ALL {paths.format('delete')}").collect("pyarrow")
    return {Path(path).name for (path,) in found.iter_rows()}


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "data").rglob("*.parquet")}


def check(store: Store, tmp_path: Path, allowed: list[Rows]) -> Rows:
    """What is there after a kill: one of the allowed states, and after a cleanup no unknown file of its tables."""
    foreign = tmp_path / "data" / "raw" / "t" / "of-somebody-else.parquet"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("not of lakeconf")
    with store.open() as lake:
        rows = read(lake)
        assert rows in allowed
        lake.cleanup(older_than=dt.timedelta(0), force=True)
        assert foreign.exists()
        foreign.unlink()
        # Nothing proves whose files lie in the folder of a table that no commit has made.
        tables = {name.rpartition(".")[2] for name in lake.tables()} | {"commits"}
        unproven = {path.name for path in (tmp_path / "data").rglob("*.parquet") if path.parent.name not in tables}
        assert files(tmp_path) - unproven == known_files(lake)
        assert read(lake) == rows
        doubled = lake.sql(
            "SELECT 1 FROM __ducklake_metadata_dev.ducklake_delete_file "
            "GROUP BY data_file_id, begin_snapshot HAVING count(*) > 1"
        )
        assert len(doubled.collect()) == 0
    return rows


def kill_writers(config: dict[str, Any], tmp_path: Path, engine: str, kills: int) -> None:
    spark = None if engine == "on_duckdb" else {**spark_settings(), "spark.master": "local[2]"}
    store = lakeconf.init(config).get_store("dev")
    with store.open() as lake:
        lake.create_table(TABLE, frame(0))
        lake.table(TABLE).append(frame(1))
        rows = read(lake)
    chance = random.Random(kills)  # noqa: S311 - the same kills every time
    for number in range(2, 2 + kills):
        operation = OPERATIONS[number % len(OPERATIONS)] if kills < 20 else chance.choice(OPERATIONS)
        point = chance.choice([*POINTS, None, None])
        expected = after(rows, operation, number)
        writer = start(config, spark, operation=operation, number=number, point=point)
        if point is None:
            try:
                writer.wait(timeout=chance.uniform(0, LONGEST_SECONDS[engine]))
            except subprocess.TimeoutExpired:
                writer.kill()
        writer.communicate()
        if point is not None:
            assert writer.returncode == -9
            allowed = [expected] if point in COMMITTED else [rows]
        else:
            allowed = [rows, expected]
        rows = check(store, tmp_path, allowed)
        if operation == "keyed":
            with store.open() as lake:
                writing_process.write(lake, operation, number)
            rows = check(store, tmp_path, [expected])


def test_writers_that_are_killed(config: dict[str, Any], tmp_path: Path) -> None:
    kill_writers(config, tmp_path, "on_duckdb", 100 if PROVE else 5)


def test_spark_writers_that_are_killed(tmp_path: Path) -> None:
    backends = {
        "metadata_backend": {"type": "sqlite", "uri": str(tmp_path / "catalog")},
        "storage_backend": {"type": "local", "path": str(tmp_path / "data")},
    }
    kill_writers({"stores": {"dev": backends}}, tmp_path, "on_spark", 30 if PROVE else 2)
