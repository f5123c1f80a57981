"""What a run reports if something goes wrong after the commit of a model."""

from __future__ import annotations

import contextlib
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from merge_cases import commit_info

from lakeconf.commit import committer
from lakeconf.commit.recovery import AttachedCatalog
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, CommitUnknownError, QueryError
from lakeconf.guard.guard import LakeGuard
from lakeconf.lake.run_journal import RunJournal
from lakeconf.pipelines import Full, Incremental, Model, ModelResult, Pipeline, Query, View, run
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
def lake(lake: Lake) -> Lake:
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


@pytest.mark.parametrize(
    ("kind", "sql", "line", "caret"),
    [
        (Full(), "-- é\nSELECT 1 AS n,\n  CAST('x' || id AS INT) AS id\nFROM raw.events e", 3, 3),
        (Full(), "FROM raw.events SELECT id, ('x' || id)::INT AS x", 1, 39),
        (
            Incremental("day", start=date(2024, 1, 1), batch=1),
            "SELECT day, try_cast(id AS INT) AS i FROM raw.events WHERE day >= $start AND day < $end AND "
            "cast('x' || id AS INT) > 1",
            1,
            93,
        ),
    ],
)
def test_value_that_cannot_be_converted_has_the_place_of_the_cast(
    kind: Any, sql: str, line: int, caret: int, lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "m.sql").write_text(sql)
    (result,) = run(Pipeline([Model("marts.m", kind, Query(sql, tmp_path / "m.sql"))]), lake)
    assert result.error is not None
    first, excerpt, mark = result.error.message.split("\n")
    assert first.startswith(f"{tmp_path / 'm.sql'}:{line}:{caret}: Conversion Error: Could not convert string 'x")
    assert excerpt[mark.index("^") :].startswith(sql.splitlines()[line - 1][caret - 1 :][:10])
    with pytest.raises(QueryError, match=r"^Binder Error: Ref"):
        lake.sql("SELECT nope")


@pytest.mark.parametrize("sql", ["SELECT id FROM marts.v", "SELECT id + 9223372036854775807 AS id FROM raw.events"])
def test_error_of_a_value_elsewhere_has_no_place(sql: str, lake: Lake) -> None:
    """The place of a cast in a view is one in the text of the view."""
    view = Model("marts.v", View(), Query("SELECT CAST('x' || id AS INTEGER) AS id FROM raw.events"))
    results = run(Pipeline([view, Model("marts.m", Full(), Query(sql))]), lake)
    (result,) = [one for one in results if one.model == "marts.m"]
    assert result.error is not None
    assert result.error.message.startswith(("Conversion Error: Could not", "Out of Range Error: Overflow"))
    assert "\n" not in result.error.message


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
    assert (result.snapshot_id, commit_info(lake, lake.snapshot_id)["rows"]) == (lake.snapshot_id, 3)


def test_error_after_the_commit_is_a_warning(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the committed files are missing."""
    writing, errors = (
        LakeGuard.writing,
        iter([CatalogError("the lock cannot be released"), CommitError("a file is gone")]),
    )

    @contextlib.contextmanager
    def lost(self: LakeGuard) -> Iterator[Any]:
        with writing(self) as held:
            yield held
        raise next(errors)

    monkeypatch.setattr(LakeGuard, "writing", lost)
    (result,) = run(Pipeline([COPY]), lake)
    assert (result.status, result.rows) == ("done", 3)
    assert result.warnings == ["its commit succeeded, but then: the lock cannot be released"]
    (result,) = run(Pipeline([COPY]), lake, rebuild=True)
    assert (result.status, result.snapshot_id) == ("failed", lake.snapshot_id)

    def refuse(*_: object) -> None:
        raise CatalogError("the run cannot be recorded")

    monkeypatch.setattr(LakeGuard, "writing", writing)
    monkeypatch.setattr(RunJournal, "record", refuse)
    (result,) = run(Pipeline([COPY]), lake, rebuild=True)
    assert (result.status, result.snapshot_id) == ("failed", None)


def test_interrupted_commit_that_succeeded_is_reported_as_done(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    pipeline, ended = Pipeline([COPY, DAILY]), list[ModelResult]()
    at_commit(monkeypatch, after=interrupt)
    with pytest.raises(KeyboardInterrupt), LineageEvents(pipeline, "dev") as events:
        run(pipeline, lake, began=events.began, progress=each(ended.append, events.ended))
    kinds = [json.loads(line)["eventType"] for line in lineage_file.read_text().splitlines()]
    assert kinds == ["START", "COMPLETE"]
    (result,) = ended
    assert (result.model, result.status, result.rows) == ("marts.copy", "done", 3)
    assert result.snapshot_id == lake.refresh()
    assert len(lake.runs.committed("marts.copy")) == 1


def test_interrupted_commit_of_unknown_outcome_is_reported_as_such(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    def lose_the_catalog() -> None:
        monkeypatch.setattr(AttachedCatalog, "find", lost)
        raise KeyboardInterrupt

    def lost(*_: object, **__: object) -> int:
        raise CatalogError("the catalog does not answer")

    monkeypatch.setattr(committer, "LOOK_UP_SECONDS", 0.5)
    at_commit(monkeypatch, after=lose_the_catalog)
    pipeline, ended = Pipeline([COPY]), list[ModelResult]()
    with pytest.raises(KeyboardInterrupt), LineageEvents(pipeline, "dev") as events:
        run(pipeline, lake, began=events.began, progress=each(ended.append, events.ended))
    (result,) = ended
    assert (result.status, result.snapshot_id) == ("failed", None)
    assert isinstance(result.error, CommitUnknownError)
    assert "The commit may have succeeded" in result.error.message
    assert str(result.error.hint).startswith("look for the token ")
    assert [json.loads(line)["eventType"] for line in lineage_file.read_text().splitlines()] == ["START", "FAIL"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_model_that_was_interrupted_before_its_last_commit_is_aborted(
    when: str, lake: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    pipeline, ended = Pipeline([DAILY]), list[ModelResult]()
    at_commit(monkeypatch, **{when: interrupt})
    with pytest.raises(KeyboardInterrupt), LineageEvents(pipeline, "dev") as events:
        run(pipeline, lake, until=date(2024, 1, 3), began=events.began, progress=ended.append)
    assert ended == []
    kinds = [json.loads(line)["eventType"] for line in lineage_file.read_text().splitlines()]
    assert kinds == ["START", "ABORT"]
    lake.refresh()
    assert len(lake.runs.committed("marts.daily")) == (1 if when == "after" else 0)
