"""Sends the runs of models as OpenLineage events, each as JSON in one line.

Source: https://openlineage.io/docs/spec/object-model. Names of datasets contain the names of stores and tables, and no
paths or hosts, which may contain credentials.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakeconf import __version__
from lakeconf.errors import LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.pipelines.lineage_target import EventTarget
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.run import ModelResult
from lakeconf.secret import Secret, scrub

_log = EventLogger("pipeline")
_SPEC = "https://openlineage.io/spec"
_PRODUCER = f"https://github.com/lakeconf/lakeconf/tree/{__version__}"


class LineageEvents:
    """The events of a run; a context manager. Models may run in several threads.

    Args:
        target: Receives the events.
        pipeline: The models.
        store: The store that contains their tables.
        secrets: Values that are masked in errors.

    Attributes:
        lost: For each event that could not be sent, the reason.
    """

    def __init__(self, target: EventTarget, pipeline: Pipeline, store: str, secrets: Iterable[Secret] = ()) -> None:
        self._pipeline, self._store, self._secrets = pipeline, store, tuple(secrets)
        self._runs: dict[str, str] = {}
        self._parent = str(uuid.uuid4())
        self._lock = threading.Lock()
        self._target = target
        self.lost: list[str] = []

    def __enter__(self) -> LineageEvents:
        return self

    def __exit__(self, *_: object) -> None:
        for table, run_id in self._runs.items():
            self._write("ABORT", table, run_id)
        self._target.close()

    def began(self, model: Model) -> None:
        """Writes that a model has begun to run."""
        self._runs[model.table] = str(uuid.uuid4())
        self._write("START", model.table, self._runs[model.table])

    def ended(self, result: ModelResult) -> None:
        """Writes that a model has run or has failed; nothing if there was nothing to do."""
        if result.status not in ("done", "failed"):
            return
        if result.model not in self._runs:  # its run could not be planned
            self.began(self._pipeline.by_table[result.model])
        run_id = self._runs.pop(result.model)  # Ctrl-C while the event is sent does not abort the run
        self._write("COMPLETE" if result.status == "done" else "FAIL", result.model, run_id, result)

    def _write(self, kind: str, table: str, run_id: str, result: ModelResult | None = None) -> None:
        event = json.dumps(self._event(kind, table, run_id, result)).encode()
        with self._lock:
            try:
                self._target.send(event)
            except LakeconfError as error:  # the run itself goes on
                _log.warning("an OpenLineage event of %s is lost: %s", table, error.message)
                self.lost.append(error.message)

    def _event(self, kind: str, table: str, run_id: str, result: ModelResult | None) -> Mapping[str, Any]:
        parent = {"run": {"runId": self._parent}, "job": {"namespace": self._namespace(), "name": "lakeconf run"}}
        facets = {"parent": _facet("1-2-0/ParentRunFacet", parent)}
        if result is not None and result.error is not None:
            text = scrub(result.error.message, self._secrets)
            failed = {"message": text, "programmingLanguage": "Python"}
            facets["errorMessage"] = _facet("1-0-1/ErrorMessageRunFacet", failed)
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": _PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": run_id, "facets": facets},
            "job": {"namespace": self._namespace(), "name": table},
            "inputs": self._inputs(self._pipeline.by_table[table]),
            "outputs": [self._output(table, result)],
        }

    def _inputs(self, model: Model) -> Sequence[Mapping[str, str]]:
        found = []
        for table in dict.fromkeys(self._pipeline.inputs(model).values()):
            store, _, rest = table.partition(".") if table.count(".") > 1 else (self._store, "", table)
            found.append({"namespace": self._namespace(store), "name": rest})
        return found

    def _output(self, table: str, result: ModelResult | None) -> Mapping[str, Any]:
        output: dict[str, Any] = {"namespace": self._namespace(), "name": table}
        if result is not None and result.snapshot_id is not None:
            version = {"datasetVersion": str(result.snapshot_id)}
            output["facets"] = {"version": _facet("1-0-1/DatasetVersionDatasetFacet", version)}
            rows = {"rowCount": result.rows}
            output["outputFacets"] = {"outputStatistics": _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rows)}
        return output

    def _namespace(self, store: str | None = None) -> str:
        return f"ducklake://{self._store if store is None else store}"


def _facet(schema: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    url = f"{_SPEC}/facets/{schema}.json#/$defs/{schema.partition('/')[2]}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **values}
