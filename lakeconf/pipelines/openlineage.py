"""OpenLineage events of a run. Its own library sends them, and its variables and files say where.

Source: https://openlineage.io/docs/client/python
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState, set_producer
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    output_statistics_output_dataset,
    parent_run,
)

from lakeconf import __version__
from lakeconf.errors import LakeconfError
from lakeconf.logs import event_logger
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.run import ModelResult
from lakeconf.secret import Secret, scrub

_log = event_logger("pipeline")
# A server that does not answer must not delay each model of a long run.
_MAX_FAILURES = 3
_ENDS = {"done": RunState.COMPLETE, "failed": RunState.FAIL}


class LineageEvents:
    """The events of a run; a context manager."""

    def __init__(self, pipeline: Pipeline, store: str, secrets: Iterable[Secret] = ()) -> None:
        set_producer(f"https://github.com/lakeconf/lakeconf/tree/{__version__}")
        self._pipeline, self._namespace, self._secrets = pipeline, f"ducklake://{store}", tuple(secrets)
        self._runs: dict[str, str] = {}
        self._parent = parent_run.Run(runId=str(uuid.uuid4()))
        self.lost: list[str] = []  # the class of the error for each event that could not be sent
        try:
            self._client = OpenLineageClient()
        except Exception as error:  # noqa: BLE001 - of any transport, whose text may quote a key
            raise LakeconfError(
                f"the settings of OpenLineage are invalid ({type(error).__name__})",
                hint="check openlineage.yml and the variables OPENLINEAGE_…",
            ) from None

    def __enter__(self) -> LineageEvents:
        return self

    def __exit__(self, *_: object) -> None:
        for table, run_id in self._runs.items():
            self._send(RunState.ABORT, table, run_id)
        self._client.close(timeout=5)

    def began(self, model: Model) -> None:
        """Sends that a model has begun to run."""
        self._runs[model.table] = str(uuid.uuid4())
        self._send(RunState.START, model.table, self._runs[model.table])

    def ended(self, result: ModelResult) -> None:
        """Sends that a model has run or has failed; nothing if there was nothing to do."""
        if result.status not in _ENDS:
            return
        if result.model not in self._runs:  # its run could not be planned
            self.began(self._pipeline.by_table[result.model])
        run_id = self._runs.pop(result.model)  # Ctrl-C while the event is sent does not abort the run
        self._send(_ENDS[result.status], result.model, run_id, result)

    def _send(self, state: RunState, table: str, run_id: str, result: ModelResult | None = None) -> None:
        if len(self.lost) >= _MAX_FAILURES:
            self.lost.append(self.lost[0])
            return
        try:
            self._client.emit(self._event(state, table, run_id, result))
        except Exception as error:  # noqa: BLE001 - of any transport; the run itself goes on
            # Only the class: the text of an error may contain a URL or a key.
            _log.warning("an OpenLineage event of %s is lost: %s", table, type(error).__name__)
            self.lost.append(type(error).__name__)

    def _event(self, state: RunState, table: str, run_id: str, result: ModelResult | None) -> RunEvent:
        read = self._pipeline.inputs(self._pipeline.by_table[table])
        parent = parent_run.Job(namespace=self._namespace, name="lakeconf run")
        facets: dict[str, Any] = {"parent": parent_run.ParentRunFacet(run=self._parent, job=parent)}
        if result is not None and result.error is not None:
            text = scrub(result.error.message, self._secrets)
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=text, programmingLanguage="Python")
        return RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(run_id, facets),
            job=Job(self._namespace, table),
            eventType=state,
            inputs=[InputDataset(self._namespace, input_table) for input_table in dict.fromkeys(read.values())],
            outputs=[self._output(table, result)],
        )

    def _output(self, table: str, result: ModelResult | None) -> OutputDataset:
        output = OutputDataset(self._namespace, table)
        if result is not None and result.snapshot_id is not None:
            version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(result.snapshot_id))
            rows = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=result.rows)
            output.facets, output.outputFacets = {"version": version}, {"outputStatistics": rows}
        return output
