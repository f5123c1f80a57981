"""OpenLineage events of a run."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from lakeconf.cli.app import run as run_command
from lakeconf.pipelines import Full, Model, Pipeline, Query, run
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
