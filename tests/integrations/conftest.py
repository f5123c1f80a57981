"""A project with stores on PostgreSQL and S3, and a home directory with DuckDB extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from server_project import Project, make_project

from lakeconf.connection.connection import _extension_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer, S3Server


@pytest.fixture
def server_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer, s3_server: S3Server
) -> Project:
    """The working directory, with the stores `prod` and `analytics` on PostgreSQL and S3; secrets are in variables."""
    monkeypatch.setenv("SQLMESH__DISABLE_ANONYMIZED_ANALYTICS", "true")
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return make_project(folder, monkeypatch, postgres_server, s3_server)


@pytest.fixture(scope="session")
def home_with_extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory in which DuckDB's extensions are installed, as after INSTALL from its server."""
    home = tmp_path_factory.mktemp("home")
    with duckdb.connect(config={"extension_directory": str(home / ".duckdb" / "extensions")}) as connection:
        for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "httpfs"):
            connection.execute(f"INSTALL '{_extension_wheel(name)}'")
    return home
