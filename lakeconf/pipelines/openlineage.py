"""Writes the runs of models as OpenLineage events, one JSON object per line.

Source: https://openlineage.io/docs/spec/object-model. Names of datasets contain the names of stores and tables, and no
paths or hosts, which may contain credentials.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeconf import __version__
from lakeconf.errors import LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.run import ModelResult
from lakeconf.secret import Secret, scrub

_log = EventLogger("pipeline")
_SPEC = "https://openlineage.io/spec"
_PRODUCER = f"https://github.com/lakeconf/lakeconf/tree/{__version__}"


class LineageEvents:
    """A file of events; a context manager. Models may run in several threads.

    Args:
        path: The file; events are appended.
        pipeline: The models.
        store: The store that contains their tables.
        secrets: Values that are masked in errors.

    Raises:
        LakeconfError: The file cannot be written.
    """

    def __init__(self, path: Path, pipeline: Pipeline, store: str, secrets: Iterable[Secret] = ()) -> None:
        self._pipeline, self._store, self._secrets = pipeline, store, tuple(secrets)
        self._runs: dict[str, str] = {}
        self._parent = str(uuid.uuid4())
        self._lock = threading.Lock()
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise LakeconfError(f"{path} cannot be written: {error.strerror}", hint="choose another file") from error

    def __enter__(self) -> LineageEvents:
        return self

    def __exit__(self, *_: object) -> None:
        for table in [*self._runs]:
            self._write("ABORT", table)
        self._file.close()

    def began(self, model: Model) -> None:
        """Writes that a model has begun to run."""
        self._runs[model.table] = str(uuid.uuid4())
        self._write("START", model.table)

    def ended(self, result: ModelResult) -> None:
        """Writes that a model has run or has failed; nothing if there was nothing to do."""
        if result.status not in ("done", "failed"):
            return
        if result.model not in self._runs:  # its run could not be planned
            self.began(self._pipeline.by_table[result.model])
        self._write("COMPLETE" if result.status == "done" else "FAIL", result.model, result)
        del self._runs[result.model]

    def _write(self, kind: str, table: str, result: ModelResult | None = None) -> None:
        line = json.dumps(self._event(kind, table, result)) + "\n"
        with self._lock:
            try:
                self._file.write(line.encode())
            except OSError as error:  # the run itself goes on
                _log.warning("an OpenLineage event of %s is lost: %s", table, error.strerror)

    def _event(self, kind: str, table: str, result: ModelResult | None) -> Mapping[str, Any]:
        parent = {"run": {"runId": self._parent}, "job": {"namespace": self._namespace(), "name": "lakeconf run"}}
        facets = {"parent": _facet("1-1-0/ParentRunFacet", parent)}
        if result is not None and result.error is not None:
            text = scrub(result.error.message, self._secrets)
            failed = {"message": text, "programmingLanguage": "Python"}
            facets["errorMessage"] = _facet("1-0-1/ErrorMessageRunFacet", failed)
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": _PRODUCER,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": self._runs[table], "facets": facets},
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
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json", **values}
