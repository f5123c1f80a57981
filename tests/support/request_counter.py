"""Counts the requests that an S3 server receives, by what they do."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from local_stores import config_of, in_bucket, on_postgres

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fault_proxy import FaultProxy, Request
    from servers import PostgresServer, S3Server

    from lakeconf import Store


@dataclass
class Requests:
    """The requests of one operation."""

    # The number of requests of each kind: `GET`, `HEAD`, `PUT`, `POST`, `DELETE`, `LIST`, `COPY`.
    kinds: Counter[str] = field(default_factory=Counter)
    keys: dict[str, list[str]] = field(default_factory=dict)  # the keys of each kind; the prefix of a `LIST`

    @property
    def total(self) -> int:
        return self.kinds.total()

    def add(self, request: Request) -> None:
        parts = urlsplit(request.path)
        query = parse_qs(parts.query)
        kind, key = request.method, unquote(parts.path).lstrip("/").partition("/")[2]
        if request.copies:
            kind = "COPY"
        elif kind == "GET" and not key:
            kind, key = "LIST", query.get("prefix", [""])[0]
        self.kinds[kind] += 1
        self.keys.setdefault(kind, []).append(key)


@contextlib.contextmanager
def counted(proxy: FaultProxy) -> Iterator[Requests]:
    """The requests that pass through a proxy during the block; complete after the block."""
    start, found = len(proxy.requests), Requests()
    yield found
    for request in proxy.requests[start:]:
        found.add(request)


def counted_store(folder: Path, s3_server: S3Server, proxy: FaultProxy, catalog: PostgresServer | None = None) -> Store:
    """A store in a new bucket behind a proxy; its catalog is on SQLite or on a server."""
    bucket = in_bucket(replace(s3_server, port=proxy.port), s3_server.create_bucket())
    metadata: dict[str, Any] | None = on_postgres(catalog) if catalog else None
    return lakeconf.init(config_of(folder, metadata, bucket)).get_store("dev")
