"""Numbers about a lake in OpenMetrics' text format, printed or served.

Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

import logging
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import accumulate
from socket import AF_INET, AF_INET6, SHUT_RD, socket
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, NamedTuple

from lakeconf.catalog.reader import CatalogReader
from lakeconf.errors import ConnectionFailed, LakeconfError
from lakeconf.guard.guard import LakeGuard
from lakeconf.inspection.catalog_files import TableSize, table_sizes
from lakeconf.lake.lake import Lake
from lakeconf.logs import escaped

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# The upper ends of the bands of file sizes, in bytes. DuckLake compacts to 512 MB by default.
BANDS: Sequence[int] = (1 << 20, 16 << 20, 128 << 20, 512 << 20)
_PATH = "/metrics"
# The time after which a client that sends nothing is left.
_CLIENT_SECONDS = 2
_SNAPSHOTS = """
    SELECT count(*), max(snapshot_id), epoch(min(moment)), epoch(max(moment))
    FROM (SELECT snapshot_id, CAST(snapshot_time AS TIMESTAMPTZ) AS moment FROM ducklake_snapshot)
"""
_SCHEDULED = "SELECT count(*) FROM ducklake_files_scheduled_for_deletion"
_log = logging.getLogger("lakeconf.metrics")


class Metric(NamedTuple):
    """A metric, as its lines of metadata describe it."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]
    kind: str = "gauge"


def metrics(lake: Lake, store: str) -> str:
    """Returns the numbers of a lake at its snapshot, for Prometheus and others that read its format.

    Args:
        lake: The lake; nothing is changed.
        store: The name of its store: the label `store` of each number.

    Raises:
        CatalogError: The catalog cannot be read.
    """
    tables = table_sizes(lake, own=True)
    session = lake._session  # noqa: SLF001 - no method of a lake counts snapshots, files to delete or writers
    lines = [
        line
        for metric in (*_of_lake(session.reader, session.guard), *_of_tables(tables))
        for line in _lines(metric, store)
    ]
    return "\n".join([*lines, "# EOF\n"])


def _of_lake(reader: CatalogReader, guard: LakeGuard) -> Iterator[Metric]:
    with reader.transaction() as transaction:
        ((count, newest, oldest_time, newest_time),) = transaction.rows(_SNAPSHOTS)
        ((scheduled,),) = transaction.rows(_SCHEDULED)
    cleanup_time = None if guard.marker is None else guard.marker.last_cleanup()
    for name, meaning, value in (
        ("snapshots", "Snapshots that have not expired.", count),
        ("snapshot_version", "Version of the latest snapshot.", newest),
        ("oldest_snapshot_timestamp_seconds", "Time of the oldest snapshot.", oldest_time),
        ("last_commit_timestamp_seconds", "Time of the latest snapshot.", newest_time),
        (
            "last_maintenance_timestamp_seconds",
            "Time of the last cleanup, the last step of a maintenance.",
            cleanup_time,
        ),
        ("scheduled_deletions", "Files that no snapshot needs, and that a cleanup removes.", scheduled),
        ("lock_holders", "Writers, or a maintenance, that hold the lock of the lake.", guard.holders()),
    ):
        if value is not None:
            yield Metric(f"lakeconf_{name}", meaning, [({}, value)])


def _of_tables(tables: Sequence[TableSize]) -> Iterator[Metric]:
    def gauge(name: str, meaning: str, value: Callable[[TableSize], float]) -> Metric:
        return Metric(f"lakeconf_table_{name}", meaning, [({"table": table.table}, value(table)) for table in tables])

    yield gauge("rows", "Rows of the table.", lambda table: table.rows)
    yield gauge("inlined_rows", "Rows in the catalog.", lambda table: table.inlined_rows)
    yield gauge("deleted_rows", "Deleted rows in the data files.", lambda table: table.deleted_rows)
    yield gauge("delete_files", "Data files with a delete file.", lambda table: table.delete_files)
    sizes = [sample for table in tables for sample in _bands(table)]
    yield Metric("lakeconf_table_file_size_bytes", "Sizes of the data files.", sizes, "gaugehistogram")


def _bands(table: TableSize) -> Iterator[tuple[Mapping[str, str], float]]:
    """The samples of a histogram; `part` is the end of a sample's name."""
    counts = [0] * (len(BANDS) + 1)
    for file in table.files:
        counts[bisect_left(BANDS, file.bytes)] += 1
    for end, count in zip((*map(float, BANDS), "+Inf"), accumulate(counts), strict=True):
        yield {"part": "_bucket", "table": table.table, "le": str(end)}, count
    yield {"part": "_gcount", "table": table.table}, len(table.files)
    yield {"part": "_gsum", "table": table.table}, table.bytes


def _lines(metric: Metric, store: str) -> Iterator[str]:
    yield f"# TYPE {metric.name} {metric.kind}"
    for unit in ("seconds", "bytes"):
        if metric.name.endswith(f"_{unit}"):
            yield f"# UNIT {metric.name} {unit}"
    yield f"# HELP {metric.name} {metric.help}"
    for labels, value in metric.samples:
        of_sample = {"store": store, **labels}
        name = metric.name + of_sample.pop("part", "")
        pairs = ",".join(f'{label}="{_label(text)}"' for label, text in of_sample.items())
        yield f"{name}{{{pairs}}} {value}"


def _label(text: str) -> str:
    # No control characters, and then the escapes of the format. Two names never become one label.
    return escaped(text.replace("\\", "\\\\")).replace("\\", "\\\\").replace('"', '\\"')


class MetricsServer(ThreadingMixIn, TCPServer):
    """Answers each request with new numbers. A slow client keeps no other out.

    Closing waits for the answers in progress: Python aborts if it ends while a thread is in DuckDB.
    """

    # A service that starts again finds its port in use by connections that have ended.
    allow_reuse_address = True

    def __init__(
        self, host: str, port: int, numbers: Callable[[], str], failed: Callable[[LakeconfError], None]
    ) -> None:
        self.numbers, self.failed = numbers, failed
        self.reading = threading.Lock()
        self.clients: set[socket] = set()
        self.address_family = AF_INET6 if ":" in host else AF_INET
        super().__init__((host, port), _MetricsHandler)

    def verify_request(self, request: Any, client_address: object) -> bool:  # noqa: ARG002 - the contract
        self.clients.add(request)
        return True

    def shutdown_request(self, request: Any) -> None:
        self.clients.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        # What a client has not asked until now is not waited for.
        for client in tuple(self.clients):
            with suppress(OSError):
                client.shutdown(SHUT_RD)
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the contract
        if not isinstance(sys.exception(), OSError):  # the client has gone
            raise  # noqa: PLE0704 - called in an `except` block


class _MetricsHandler(BaseHTTPRequestHandler):
    timeout = _CLIENT_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != _PATH:
            self.send_error(404, explain=f"the numbers are at {_PATH}")
            return
        try:
            with self.server.reading:
                body = self.server.numbers().encode()
        except LakeconfError as error:
            # The message names files and servers: it is not for clients.
            self.server.failed(error)
            self.send_error(503, explain="the lake cannot be read; the log of the server says why")
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "lakeconf"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in http.server
        _log.debug("%s: %s", self.address_string(), escaped(format % arguments))


def metrics_server(
    host: str, port: int, numbers: Callable[[], str], failed: Callable[[LakeconfError], None]
) -> MetricsServer:
    """Returns a server that listens, and answers at `/metrics` while its `serve_forever` runs.

    Args:
        host: The address to listen on; empty for all addresses of this machine.
        port: The port; 0 for a free one.
        numbers: Returns the text for each request.
        failed: Called with the error of a request that gets no numbers.

    Raises:
        ConnectionFailed: The address is in use, or not one of this machine.
    """
    try:
        return MetricsServer(host, port, numbers, failed)
    except OSError as error:
        raise ConnectionFailed(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another address or port: --listen :9465"
        ) from error
