"""Real servers for tests, as context managers: ready on entry, stopped on exit.

Nothing needs to be started beforehand, and only npm to be installed. Each server listens on a free port of loopback.
"""

from __future__ import annotations

from azure_server import AzureServer, azure
from fault_proxy import FaultProxy, fault_proxies, fault_proxy
from postgres_server import PostgresServer, postgres
from s3_server import S3Keys, S3Server, s3

__all__ = [
    "AzureServer",
    "FaultProxy",
    "PostgresServer",
    "S3Keys",
    "S3Server",
    "azure",
    "fault_proxies",
    "fault_proxy",
    "postgres",
    "s3",
]
