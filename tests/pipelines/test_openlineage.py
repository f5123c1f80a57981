"""OpenLineage events of a run."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated import parent_run
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.parent_run import ParentRunFacet
from openlineage.client.serde import Serde

from lakeconf.cli.app import run as run_command
from lakeconf.pipelines import Full, Model, Pipeline, Query, run
from lakeconf.pipelines.models.body import Function
from lakeconf.pipelines.openlineage import EventFile, LineageEvents
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakeconf import Lake


def failing(events: Any) -> Any:
    raise ValueError("the password hunter2-planted is wrong")


MODELS = [
    Model("marts.copy", Full(), Query("SELECT e.id FROM raw.events e JOIN other.raw.users u USING (id)")),
    Model("marts.failing", Full(), Function(failing), {"events": "raw.events"}),
    Model("marts.below", Full(), Query("FROM marts.failing")),
    Model("marts.quick", Full(), Query("SELECT id FROM raw.events")),
]
PIPELINE = Pipeline(MODELS)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(found: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {name: [one["eventType"] for one in found if one["job"]["name"] == name] for name in PIPELINE.by_table}


FACETS: dict[str, Callable[..., Any]] = {
    "parent": lambda run, job: ParentRunFacet(run=parent_run.Run(**run), job=parent_run.Job(**job)),
    "errorMessage": ErrorMessageRunFacet,
    "version": DatasetVersionDatasetFacet,
    "outputStatistics": OutputStatisticsOutputDatasetFacet,
}


def facets(found: dict[str, Any] | None) -> dict[str, Any]:
    """The facets as objects of the library, which knows their keys and the URLs of their schemas."""
    return {
        name: FACETS[name](**{key: value for key, value in one.items() if key[0] != "_"})
        for name, one in (found or {}).items()
    }


def by_the_library(event: dict[str, Any]) -> Any:
    """The event as OpenLineage's own library writes it; its classes are generated from the specification."""
    made = RunEvent(
        eventType=RunState[event["eventType"]],
        eventTime=event["eventTime"],
        run=Run(event["run"]["runId"], facets(event["run"]["facets"])),
        job=Job(**event["job"]),
        producer=event["producer"],
        inputs=[InputDataset(**one) for one in event["inputs"]],
        outputs=[
            OutputDataset(
                **{**one, "facets": facets(one.get("facets")), "outputFacets": facets(one.get("outputFacets"))}
            )
            for one in event["outputs"]
        ],
    )
    return _written(json.loads(Serde.to_json(made)), event)


def _written(found: Any, ours: Any) -> Any:
    """Without the empty facets and the name of the producer that the library adds."""
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if value not in ({}, None) or key in ours}
        return {
            key: ours.get(key) if key == "_producer" else _written(value, ours.get(key, {}))
            for key, value in kept.items()
        }
    if isinstance(found, list):
        return [_written(one, other) for one, other in zip(found, ours, strict=True)]
    return found


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_model_that_runs_has_two_events(jobs: int, lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    path, (lake, other) = tmp_path / "events.json", lakes
    lake.create_table("raw.events", {"id": "BIGINT"}).append(pa.table({"id": [1, 2]}))
    other.create_table("raw.users", {"id": "BIGINT"}).append(pa.table({"id": [2]}))
    with LineageEvents(EventFile(path), PIPELINE, "dev", [Secret("hunter2-planted")]) as written:
        results = run(PIPELINE, lake, others={"other": other}, jobs=jobs, began=written.began, progress=written.ended)
    found = events(path)
    assert kinds(found) == {
        "marts.copy": ["START", "COMPLETE"],
        "marts.failing": ["START", "FAIL"],
        "marts.below": [],
        "marts.quick": ["START", "COMPLETE"],
    }
    start, complete = (one for one in found if one["job"]["name"] == "marts.copy")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["inputs"] == [
        {"namespace": "ducklake://dev", "name": "raw.events"},
        {"namespace": "ducklake://other", "name": "raw.users"},
    ]
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
    text = path.read_text()
    assert "hunter2" not in text
    for one in found:
        assert by_the_library(one) == one
    assert str(tmp_path / "dev") not in text
    with LineageEvents(EventFile(path), PIPELINE, "dev") as written:
        run(PIPELINE, lake, ["marts.quick"], began=written.began, progress=written.ended)
    assert events(path) == found


def test_model_that_is_interrupted_is_aborted(lakes: tuple[Lake, Lake], tmp_path: Path) -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    pipeline = Pipeline([Model("marts.a", Full(), Function(interrupted))])
    path = tmp_path / "events.json"
    with pytest.raises(KeyboardInterrupt), LineageEvents(EventFile(path), pipeline, "dev") as written:
        run(pipeline, lakes[0], began=written.began, progress=written.ended)
    assert [one["eventType"] for one in events(path)] == ["START", "ABORT"]


def test_run_goes_on_if_events_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = EventFile(tmp_path / "e")
    with open("/dev/full", "ab", buffering=0) as full, LineageEvents(target, PIPELINE, "dev") as written:
        target._file.close()
        target._file = full
        written.began(MODELS[0])
    assert "an OpenLineage event of marts.copy is lost: No space left on device" in caplog.text


def test_events_of_threads_are_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    with LineageEvents(EventFile(path), PIPELINE, "dev") as written:
        threads = [threading.Thread(target=written.began, args=[model]) for model in MODELS * 5]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one["eventType"] for one in events(path)].count("START") == 20


def test_command_appends_events(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (project / "lakeconf.toml").open("a") as file:
        file.write('\n[pipeline.models."marts.one"]\nsql = "one.sql"\n')
    (project / "one.sql").write_text("SELECT 1 AS n")
    assert run_command(["run", "--openlineage", "events.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 done"
    assert run_command(["run", "--openlineage", "events.json", "--rebuild", "--yes"]) == 0
    assert run_command(["run", "--openlineage", "unasked.json", "--rebuild"]) != 0  # there is no terminal
    assert not (project / "unasked.json").exists()
    found = events(project / "events.json")
    assert [one["eventType"] for one in found] == ["START", "COMPLETE"] * 2
    assert {one["job"]["namespace"] for one in found} == {"ducklake://dev"}
    assert run_command(["run", "--openlineage", "none/events.json"]) == 1
