"""OpenLineage events of a run, and where they go: a file, or a server.

Source: https://openlineage.io/docs/client/python. The variables are those of its clients: OPENLINEAGE_URL,
OPENLINEAGE_ENDPOINT and OPENLINEAGE_API_KEY.
"""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from lakeconf import __version__
from lakeconf.errors import LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.run import ModelResult
from lakeconf.secret import Secret, scrub

URL_VARIABLE = "OPENLINEAGE_URL"
_ENDPOINT = "api/v1/lineage"
_URL = "write https://host:port, and the key of the server in OPENLINEAGE_API_KEY"
_SECONDS = 5.0
# A server that does not answer must not delay each model of a long run.
_MAX_FAILURES = 3


class EventFile:
    """A file to which events are appended."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise LakeconfError(f"{path} cannot be written: {error.strerror}", hint="choose another file") from error

    def send(self, event: bytes) -> None:
        try:
            self._file.write(event + b"\n")
        except OSError as error:
            raise LakeconfError(str(error.strerror)) from error

    def close(self) -> None:
        self._file.close()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class EventServer:
    """A server that receives events by HTTP, which the key authorizes."""

    def __init__(self, url: str, endpoint: str = _ENDPOINT, api_key: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            self._shown = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        except ValueError as error:
            raise LakeconfError("the URL of the OpenLineage server is invalid", hint=_URL) from error
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
            raise LakeconfError("the URL of the OpenLineage server has credentials, a query or no host", hint=_URL)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise LakeconfError("OPENLINEAGE_API_KEY contains characters that a header cannot contain", hint=_URL)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        self._request = urllib.request.Request(  # noqa: S310 - `event_target` permits http and https only
            f"{url.rstrip('/')}/{endpoint.lstrip('/')}", headers=headers, method="POST"
        )
        # A redirect would send the key to another server.
        self._opener = urllib.request.build_opener(_NoRedirects())
        self._failures = 0

    def send(self, event: bytes) -> None:
        if self._failures >= _MAX_FAILURES:
            raise LakeconfError(f"{self._shown} failed {_MAX_FAILURES} times, and nothing more is sent to it")
        try:
            self._opener.open(self._request, event, _SECONDS).close()
        except urllib.error.HTTPError as error:
            error.close()
            self._fail(f"answered HTTP {error.code}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            # Only the class: the text of an error can contain the URL.
            self._fail(f"does not answer ({type(cause if isinstance(cause, Exception) else error).__name__})")
        self._failures = 0

    def _fail(self, why: str) -> NoReturn:
        self._failures += 1
        raise LakeconfError(f"{self._shown} {why}") from None

    def close(self) -> None:
        """Each request has its own connection."""


def event_target(target: str, environment: Mapping[str, str]) -> EventFile | EventServer:
    """Returns a server for a URL, or else a file."""
    if not target.lower().startswith(("http://", "https://")):
        return EventFile(Path(target))
    endpoint = environment.get("OPENLINEAGE_ENDPOINT") or _ENDPOINT
    return EventServer(target, endpoint, environment.get("OPENLINEAGE_API_KEY") or None)


_log = EventLogger("pipeline")
_SPEC = "https://openlineage.io/spec"
_PRODUCER = f"https://github.com/lakeconf/lakeconf/tree/{__version__}"


class LineageEvents:
    """The events of a run; a context manager. Models may run in several threads."""

    def __init__(
        self, target: EventFile | EventServer, pipeline: Pipeline, store: str, secrets: Iterable[Secret] = ()
    ) -> None:
        self._pipeline, self._store, self._secrets = pipeline, store, tuple(secrets)
        self._runs: dict[str, str] = {}
        self._parent = str(uuid.uuid4())
        self._lock = threading.Lock()
        self._target = target
        self.lost: list[str] = []  # the reason for each event that could not be sent

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
