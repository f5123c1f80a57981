"""The model of the simulator answers like DuckLake: one program, statement by statement, on both."""

from __future__ import annotations

import datetime as dt
import re
import types
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from local_stores import store_of
from simulator.duckdb_model import Instance, Session
from simulator.engine import SimulatedEngine
from simulator.schedule import template
from simulator.world import Native, World

import lakeconf.lake.opening
from lakeconf.catalog.admission import _ENDS

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake

Answers = list[tuple[str, list[tuple[Any, ...]]]]
# Statements about the lake; the others set up DuckDB or depend on the place of the files.
ABOUT_THE_LAKE = re.compile(
    r"FROM ducklake_(?!settings)|SELECT (?!.*(duckdb_|read_|glob|postgres_query|system\.main\.current|count\(\*\)|"
    r'_uuid FROM|record_count|arg_max|EXISTS|ducklake_metadata W))|DELETE FROM "dev"|DESCRIBE'
)


class AnswerRecorder:
    """A connection that records the answers to statements about the lake."""

    def __init__(self, native: Any, answers: Answers) -> None:
        self._native, self._answers = native, answers

    def execute(self, sql: str, parameters: Any = None) -> Any:
        sql = " ".join(sql.split())
        done = self._native.execute(sql, parameters)
        if not ABOUT_THE_LAKE.match(sql):
            return done
        rows = done.fetchall()
        self._answers.append((normal(f"{sql} {parameters or ''}"), [normal_row(row) for row in rows]))
        return types.SimpleNamespace(fetchall=lambda: rows)

    def cursor(self) -> AnswerRecorder:
        return AnswerRecorder(self._native.cursor(), self._answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


def normal(text: str) -> str:
    """A text without names and times that differ between two lakes."""
    text = text.replace(_ENDS, "")  # in paths of URLs only
    text = re.sub(r"(s3:/|/\S*?)/(lake/)?data/", "…/", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.+]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", "…", text)
    return re.sub(r"\d{16}|seconds\": [\d.]+", "…", text)


def normal_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(normal(str(int(value) if isinstance(value, bool) else value)) for value in row)


def program(lake: Lake, later: dt.datetime) -> None:
    events: Any = lake.table("events")
    counter: Any = lake.table("counter")
    events.append([1])
    with lake.transaction() as tx:
        tx.table("events").append([2])
        tx.table("audit").append([2])
    assert events.append([3], idempotency_key="k") == events.append([3], idempotency_key="k")
    events.append([4, 5, 6])
    for number in (4, 5, 1, 6):
        events.delete(f"id = {number}")
    for _ in range(2):
        (number,) = counter.scan()
        counter.overwrite([number + 1])
    lake.refresh()
    assert sorted(events.scan()) == [2, 3]
    lake.maintenance.expire_snapshots(older_than=later, force=True, keep=2)
    lake.maintenance.cleanup(older_than=later, force=True)
    events.append([7])
    events.append([11], idempotency_key="l")
    events.delete("id = 11")
    for number in (8, 9, 10):
        events.append([number])
        events.delete(f"id = {number}")
    assert sorted(events.scan()) == [2, 3, 7]


def on_ducklake(folder: Path, patch: pytest.MonkeyPatch) -> Answers:
    answers: Answers = []
    store = store_of(folder, data_inlining_row_limit=0)
    with store.open() as lake:
        for table in ("events", "audit", "counter"):
            lake.create_table(table, {"id": "BIGINT"})
        lake.table("counter").append(duckdb.sql("SELECT 0::BIGINT AS id"), idempotency_key="first")
    orphan = folder / "data/main/events/ducklake-01a2038f-458f-7bf2-9b60-aa3bf78bc080.parquet"
    orphan.parent.mkdir(exist_ok=True)
    orphan.touch()
    connect = duckdb.connect
    by_value: Any = types.SimpleNamespace(values=types.SimpleNamespace(choice=lambda styles: styles[0]))
    patch.setattr(
        duckdb, "connect", lambda config=None: connect(config=config) if config else AnswerRecorder(connect(), answers)
    )
    patch.setattr(
        lakeconf.lake.opening, "DuckDBEngine", lambda reader, writer: SimulatedEngine(reader, writer, by_value)
    )
    with store.open() as lake:
        program(lake, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    return answers


def on_model(patch: pytest.MonkeyPatch) -> Answers:
    answers: Answers = []
    world = World.new(0, template(), (0.0, 0.0))
    real = duckdb.connect  # the connections that only parse

    def connect(_: World, config: Any = None) -> Any:
        return real(config=config) if config else AnswerRecorder(_connected(world), answers)

    patch.setattr(World, "connect", connect)
    patch.setattr(world.values, "choice", lambda styles: styles[0])
    with world.around(), template().on_file.open() as lake:
        later = dt.datetime.fromtimestamp(world.scheduler.now, dt.UTC) + dt.timedelta(days=1)
        program(lake, later)
    return answers


def _connected(world: World) -> Native:
    return Native(world, None, Session(Instance()))


def test_the_model_answers_like_ducklake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        expected = on_ducklake(tmp_path, patch)
    with monkeypatch.context() as patch:
        found = on_model(patch)
    assert len(expected) > 150
    assert [sql for sql, _ in found] == [sql for sql, _ in expected]
    different = {
        sql: (sorted(rows), sorted(others))
        for (sql, rows), (_, others) in zip(found, expected, strict=True)
        if sorted(rows) != sorted(others)
    }
    assert different == {}
