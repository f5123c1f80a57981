"""Real servers for tests, as context managers: ready on entry, stopped on exit.

Nothing needs to be installed or started beforehand. Each server listens on a free port of loopback only.
"""

from __future__ import annotations

from fault_proxy import FaultProxy, fault_proxies, fault_proxy
from postgres_server import PostgresServer, postgres
from s3_server import S3Keys, S3Server, s3

__all__ = ["FaultProxy", "PostgresServer", "S3Keys", "S3Server", "fault_proxies", "fault_proxy", "postgres", "s3"]
