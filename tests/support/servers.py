"""Real servers for tests, each a context manager: ready when it returns, gone when it ends.

Nothing has to be installed or started beforehand, and each listens on a free port of loopback alone.
"""

from __future__ import annotations

from fault_proxy import FaultProxy, fault_proxies, fault_proxy
from postgres_server import PostgresServer, postgres
from s3_server import S3Keys, S3Server, s3

__all__ = [
    "FaultProxy",
    "PostgresServer",
    "S3Keys",
    "S3Server",
    "fault_proxies",
    "fault_proxy",
    "postgres",
    "s3",
]
