"""What a run reports if something goes wrong after the commit of a model."""

from __future__ import annotations

import contextlib
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit

from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError
from lakeconf.guard.guard import LakeGuard
from lakeconf.lake.run_journal import RunJournal
from lakeconf.pipelines import Full, Incremental, Model, ModelResult, Pipeline, Query, run
from lakeconf.pipelines.lineage_target import EventFile
from lakeconf.pipelines.openlineage import LineageEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake

COPY = Model("marts.copy", Full(), Query("SELECT id FROM raw.events"))
DAILY = Model(
    "marts.daily", Incremental("day", start=date(2024, 1, 1), batch=1),
    Query("SELECT day FROM raw.events WHERE day >= $start AND day < $end"),
)  # fmt: skip


@pytest.fixture
def lake(lakes: tuple[Lake, Lake]) -> Lake:
    lake, _ = lakes
    days = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2)]
    lake.create_table("raw.events", {"id": "BIGINT", "day": "DATE"}).append(pa.table({"id": [1, 2, 3], "day": days}))
    return lake


def interrupt() -> None:
    raise KeyboardInterrupt


def each(*calls: Callable[[ModelResult], None]) -> Callable[[ModelResult], None]:
    def end(result: ModelResult) -> None:
        for call in calls:
            call(result)

    return end


def test_committed_model_is_done_if_the_catalog_fails_afterwards(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[str] = []
    rows = Connection.rows

    def failing(self: Connection, sql: str, *rest: Any) -> Any:
        if broken and "last_committed" not in sql:
            raise CatalogError("the catalog cannot be read")
        return rows(self, sql, *rest)

    monkeypatch.setattr(Connection, "rows", failing)
    at_commit(monkeypatch, after=lambda: broken.append("now"))
    (result,) = run(Pipeline([COPY]), lake)
    assert (result.status, result.error, result.rows) == ("done", None, 3)
    broken.clear()
    lake.refresh()
    assert (result.snapshot_id, lake.runs.commit_info(lake.snapshot_id)["rows"]) == (lake.snapshot_id, 3)


def test_error_after_the_commit_is_a_warning(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = LakeGuard.writing

    @contextlib.contextmanager
    def lost(self: LakeGuard) -> Iterator[Any]:
        with writing(self) as held:
            yield held
        raise CatalogError("the lock cannot be released")

    monkeypatch.setattr(LakeGuard, "writing", lost)
    (result,) = run(Pipeline([COPY]), lake)
    assert (result.status, result.rows) == ("done", 3)
    assert result.warnings == ["its commit succeeded, but then: the lock cannot be released"]

    def refuse(*_: object) -> None:
        raise CatalogError("the run cannot be recorded")

    monkeypatch.setattr(RunJournal, "record", refuse)
    (result,) = run(Pipeline([COPY]), lake, rebuild=True)
    assert (result.status, result.snapshot_id) == ("failed", None)


def test_model_whose_committed_files_are_missing_is_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = LakeGuard.writing

    @contextlib.contextmanager
    def damaged(self: LakeGuard) -> Iterator[Any]:
        with writing(self) as held:
            yield held
        raise CommitError("snapshot 3 was committed, but a file is missing")

    monkeypatch.setattr(LakeGuard, "writing", damaged)
    (result,) = run(Pipeline([COPY]), lake)
    assert (result.status, result.snapshot_id) == ("failed", lake.snapshot_id)


def test_interrupted_commit_that_succeeded_is_reported_as_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, pipeline, ended = tmp_path / "events.json", Pipeline([COPY, DAILY]), list[ModelResult]()
    at_commit(monkeypatch, after=interrupt)
    with pytest.raises(KeyboardInterrupt), LineageEvents(EventFile(path), pipeline, "dev") as events:
        run(pipeline, lake, began=events.began, progress=each(ended.append, events.ended))
    kinds = [json.loads(line)["eventType"] for line in path.read_text().splitlines()]
    assert kinds == ["START", "COMPLETE"]
    (result,) = ended
    assert (result.model, result.status, result.rows) == ("marts.copy", "done", 3)
    assert result.snapshot_id == lake.refresh()
    assert len(lake.runs.committed("marts.copy")) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_model_that_was_interrupted_before_its_last_commit_is_aborted(
    when: str, lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, pipeline, ended = tmp_path / "events.json", Pipeline([DAILY]), list[ModelResult]()
    at_commit(monkeypatch, **{when: interrupt})
    with pytest.raises(KeyboardInterrupt), LineageEvents(EventFile(path), pipeline, "dev") as events:
        run(pipeline, lake, until=date(2024, 1, 3), began=events.began, progress=ended.append)
    assert ended == []
    kinds = [json.loads(line)["eventType"] for line in path.read_text().splitlines()]
    assert kinds == ["START", "ABORT"]
    lake.refresh()
    assert len(lake.runs.committed("marts.daily")) == (1 if when == "after" else 0)
