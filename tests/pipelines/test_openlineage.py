"""What a run reports: OpenLineage events, and what goes wrong after the commit of a model."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from datetime import date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from merge_cases import commit_info

from lakeconf.cli.app import run as run_command
from lakeconf.commit import driver
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, CommitUnknownError, QueryError
from lakeconf.guard.guard import LakeGuard
from lakeconf.lake.run_journal import RunJournal
from lakeconf.pipelines import Full, Incremental, Model, ModelResult, Pipeline, Query, View, run
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.openlineage import LineageEvents
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake


def failing(events: Any) -> Any:
    raise ValueError("the password hunter2-planted is wrong")


MODELS = [
    Model("marts.copy", Full(), Query("SELECT e.id FROM raw.events e JOIN raw.users u USING (id)")),
    Model("marts.failing", Full(), Function(failing), {"events": "raw.events"}),
    Model("marts.below", Full(), Query("FROM marts.failing")),
    Model("marts.quick", Full(), Query("SELECT id FROM raw.events")),
]
PIPELINE = Pipeline(MODELS)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(found: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {name: [one["eventType"] for one in found if one["job"]["name"] == name] for name in PIPELINE.by_table}


@pytest.mark.slow
def test_each_model_that_runs_has_two_events(lake: Lake, lineage_file: Path) -> None:
    lake.create_table("raw.events", {"id": "BIGINT"}).append(pa.table({"id": [1, 2]}))
    lake.create_table("raw.users", {"id": "BIGINT"}).append(pa.table({"id": [2]}))
    with LineageEvents(PIPELINE, "dev", [Secret("hunter2-planted")]) as written:
        results = run(PIPELINE, lake, began=written.began, progress=written.ended)
    found = events(lineage_file)
    assert kinds(found) == {
        "marts.copy": ["START", "COMPLETE"],
        "marts.failing": ["START", "FAIL"],
        "marts.below": [],
        "marts.quick": ["START", "COMPLETE"],
    }
    start, complete = (one for one in found if one["job"]["name"] == "marts.copy")
    assert start["run"]["runId"] == complete["run"]["runId"]
    inputs = {(one["namespace"], one["name"]) for one in complete["inputs"]}
    assert inputs == {("ducklake://dev", "raw.events"), ("ducklake://dev", "raw.users")}
    (output,) = complete["outputs"]
    snapshot = next(one.snapshot_id for one in results if one.model == "marts.copy")
    assert (output["namespace"], output["name"]) == ("ducklake://dev", "marts.copy")
    assert output["facets"]["version"]["datasetVersion"] == str(snapshot)
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    (failed,) = (one for one in found if one["eventType"] == "FAIL")
    assert "the password *** is wrong" in failed["run"]["facets"]["errorMessage"]["message"]
    assert len({one["run"]["facets"]["parent"]["run"]["runId"] for one in found}) == 1
    for one in found:
        uuid.UUID(one["run"]["runId"])
        assert datetime.fromisoformat(one["eventTime"]).utcoffset() is not None
    text = lineage_file.read_text()
    assert "hunter2" not in text
    assert str(lineage_file.parent / "data") not in text
    with LineageEvents(PIPELINE, "dev") as written:
        run(PIPELINE, lake, ["marts.quick"], began=written.began, progress=written.ended)
    assert events(lineage_file) == found


def test_model_that_is_interrupted_is_aborted(lake: Lake, lineage_file: Path) -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    pipeline = Pipeline([Model("marts.a", Full(), Function(interrupted))])
    with pytest.raises(KeyboardInterrupt), LineageEvents(pipeline, "dev") as written:
        run(pipeline, lake, began=written.began, progress=written.ended)
    assert [one["eventType"] for one in events(lineage_file)] == ["START", "ABORT"]


@pytest.fixture
def model(project: Path) -> Path:
    with (project / "lakeconf.toml").open("a") as toml:
        toml.write('\n[pipeline.models."marts.one"]\nsql = "one.sql"\n')
    (project / "one.sql").write_text("SELECT 1 AS n")
    return project


@pytest.mark.slow
@pytest.mark.usefixtures("model")
def test_command_appends_events(lineage_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run"]) == 0
    assert not lineage_file.exists()
    assert run_command(["run", "--openlineage", "--rebuild"]) != 0  # there is no terminal
    assert not lineage_file.exists()
    assert run_command(["run", "--openlineage", "--rebuild", "--yes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 done"
    assert [one["eventType"] for one in events(lineage_file)] == ["START", "COMPLETE"]
    assert {one["job"]["namespace"] for one in events(lineage_file)} == {"ducklake://dev"}


class Handler(BaseHTTPRequestHandler):
    """Records the path and the key of each request, and redirects it or answers HTTP 400."""

    seen: ClassVar[list[tuple[str, str | None]]]
    location: ClassVar[str | None]

    def do_POST(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(400 if self.location is None else 307)
        if self.location is not None:
            self.send_header("Location", self.location)
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the name that the handler looks for

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextlib.contextmanager
def server(location: str | None = None) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    class Recorder(Handler):
        pass

    Recorder.seen, Recorder.location = [], location
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}", Recorder.seen
        found.shutdown()
        thread.join()


@pytest.mark.slow
def test_failing_server_does_not_fail_the_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The key goes to the server only, also if that redirects; after three failures, nothing more is sent."""
    pipeline = Pipeline([Model(f"marts.{name}", Full(), Query("SELECT 1 AS n")) for name in "abc"])
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "planted-key")
    with server() as (other, elsewhere), server(f"{other}/x") as (url, seen):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        with LineageEvents(pipeline, "dev") as written:
            results = run(pipeline, lake, began=written.began, progress=written.ended)
    assert [result.status for result in results] == ["done"] * 3
    assert seen == [("/api/v1/lineage", "Bearer planted-key")] * 3
    assert {key for _, key in elsewhere} == {None}
    assert written.lost == ["HTTPError"] * 6
    assert "an OpenLineage event of marts.a is lost: HTTPError" in caplog.messages
    assert "planted" not in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("model")
def test_command_says_what_is_lost_or_invalid_without_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server() as (url, _):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        assert run_command(["run", "--openlineage"]) == 0
    assert "warning: OpenLineage: events lost: 2; HTTPError" in capsys.readouterr().err
    monkeypatch.setenv("OPENLINEAGE_URL", "ht!tp://planted")
    assert run_command(["run", "--openlineage"]) == 1
    shown = capsys.readouterr().err
    assert "the settings of OpenLineage are invalid (ValueError)" in shown
    assert "planted" not in shown


COPY = Model("marts.copy", Full(), Query("SELECT id FROM raw.events"))
DAILY = Model(
    "marts.daily", Incremental("day", start=date(2024, 1, 1), batch=1),
    Query("SELECT day FROM raw.events WHERE day >= $start AND day < $end"),
)  # fmt: skip


@pytest.fixture
def loaded(lake: Lake) -> Lake:
    days = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2)]
    lake.create_table("raw.events", {"id": "BIGINT", "day": "DATE"}).append(pa.table({"id": [1, 2, 3], "day": days}))
    return lake


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupted(
    pipeline: Pipeline, loaded: Lake, lineage_file: Path, **given: Any
) -> tuple[list[ModelResult], list[str]]:
    """The results of a run that Ctrl-C ends, and the kinds of its events."""
    ended = list[ModelResult]()

    def end(result: ModelResult) -> None:
        ended.append(result)
        lineage.ended(result)

    with pytest.raises(KeyboardInterrupt), LineageEvents(pipeline, "dev") as lineage:
        run(pipeline, loaded, began=lineage.began, progress=end, **given)
    return ended, [one["eventType"] for one in events(lineage_file)]


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
    kind: Any, sql: str, line: int, caret: int, loaded: Lake, tmp_path: Path
) -> None:
    (tmp_path / "m.sql").write_text(sql)
    (result,) = run(Pipeline([Model("marts.m", kind, Query(sql, tmp_path / "m.sql"))]), loaded)
    assert result.error is not None
    first, excerpt, mark = result.error.message.split("\n")
    assert first.startswith(f"{tmp_path / 'm.sql'}:{line}:{caret}: Conversion Error: Could not convert string 'x")
    assert excerpt[mark.index("^") :].startswith(sql.splitlines()[line - 1][caret - 1 :][:10])
    with pytest.raises(QueryError, match=r"^Binder Error: Ref"):
        loaded.sql("SELECT nope")


@pytest.mark.parametrize("sql", ["SELECT id FROM marts.v", "SELECT id + 9223372036854775807 AS id FROM raw.events"])
def test_error_of_a_value_elsewhere_has_no_place(sql: str, loaded: Lake) -> None:
    """The place of a cast in a view is one in the text of the view."""
    view = Model("marts.v", View(), Query("SELECT CAST('x' || id AS INTEGER) AS id FROM raw.events"))
    results = run(Pipeline([view, Model("marts.m", Full(), Query(sql))]), loaded)
    (result,) = [one for one in results if one.model == "marts.m"]
    assert result.error is not None
    assert result.error.message.startswith(("Conversion Error: Could not", "Out of Range Error: Overflow"))
    assert "\n" not in result.error.message


def test_committed_model_is_done_if_the_catalog_fails_afterwards(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[str] = []
    rows = Connection.rows

    def failing(self: Connection, sql: str, *rest: Any) -> Any:
        if broken and "last_committed" not in sql:
            raise CatalogError("the catalog cannot be read")
        return rows(self, sql, *rest)

    monkeypatch.setattr(Connection, "rows", failing)
    at_commit(monkeypatch, after=lambda: broken.append("now"))
    (result,) = run(Pipeline([COPY]), loaded)
    assert (result.status, result.error, result.rows) == ("done", None, 3)
    broken.clear()
    loaded.refresh()
    assert (result.snapshot_id, commit_info(loaded, loaded.snapshot_id)["rows"]) == (loaded.snapshot_id, 3)


@pytest.mark.slow
def test_error_after_the_commit_is_a_warning(loaded: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (result,) = run(Pipeline([COPY]), loaded)
    assert (result.status, result.rows) == ("done", 3)
    assert result.warnings == ["its commit succeeded, but then: the lock cannot be released"]
    (result,) = run(Pipeline([COPY]), loaded, rebuild=True)
    assert (result.status, result.snapshot_id) == ("failed", loaded.snapshot_id)

    def refuse(*_: object) -> None:
        raise CatalogError("the run cannot be recorded")

    monkeypatch.setattr(LakeGuard, "writing", writing)
    monkeypatch.setattr(RunJournal, "record", refuse)
    (result,) = run(Pipeline([COPY]), loaded, rebuild=True)
    assert (result.status, result.snapshot_id) == ("failed", None)


def test_interrupted_commit_that_succeeded_is_reported_as_done(
    loaded: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    at_commit(monkeypatch, after=interrupt)
    (result,), kinds = interrupted(Pipeline([COPY, DAILY]), loaded, lineage_file)
    assert kinds == ["START", "COMPLETE"]
    assert (result.model, result.status, result.rows) == ("marts.copy", "done", 3)
    assert result.snapshot_id == loaded.refresh()
    assert len(loaded.runs.committed("marts.copy")) == 1


@pytest.mark.slow
def test_interrupted_commit_of_unknown_outcome_is_reported_as_such(
    loaded: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    def lose_the_catalog() -> None:
        monkeypatch.setattr(SqlCommit, "find", lost)
        raise KeyboardInterrupt

    def lost(*_: object, **__: object) -> int:
        raise CatalogError("the catalog does not answer")

    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.5)
    at_commit(monkeypatch, after=lose_the_catalog)
    (result,), kinds = interrupted(Pipeline([COPY]), loaded, lineage_file)
    assert (result.status, result.snapshot_id) == ("failed", None)
    assert isinstance(result.error, CommitUnknownError)
    assert "The commit may have succeeded" in result.error.message
    assert str(result.error.hint).startswith("look for the token ")
    assert kinds == ["START", "FAIL"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_model_that_was_interrupted_before_its_last_commit_is_aborted(
    when: str, loaded: Lake, monkeypatch: pytest.MonkeyPatch, lineage_file: Path
) -> None:
    at_commit(monkeypatch, **{when: interrupt})
    assert interrupted(Pipeline([DAILY]), loaded, lineage_file, until=date(2024, 1, 3)) == ([], ["START", "ABORT"])
    loaded.refresh()
    assert len(loaded.runs.committed("marts.daily")) == (1 if when == "after" else 0)
