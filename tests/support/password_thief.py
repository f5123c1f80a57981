"""A server that implements just enough of the PostgreSQL protocol to ask for a cleartext password and log it.

It runs in a separate process: duckdb holds Python's GIL while libpq waits for a server.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_ENCRYPTION = {80877103, 80877104}
_CLEARTEXT_PASSWORD = b"R" + struct.pack("!II", 8, 3)
# A client that receives nothing in time disconnects, and the server closes the connection.
_CLIENT_SECONDS = 10


@dataclass(frozen=True)
class PasswordThief:
    """The server."""

    port: int  # its port on 127.0.0.1
    log: Path  # A file with a line for each connection and for each password

    @property
    def seen(self) -> list[str]:
        """`connection` for each connection, and `password …` for each password, in order."""
        return self.log.read_text().splitlines()

    @property
    def scan(self) -> str:
        """A call that connects to this server when a query with it is bound."""
        return f"postgres_scan('host=127.0.0.1 port={self.port} dbname=d user=u', 's', 't')"


@contextlib.contextmanager
def password_thief(folder: Path) -> Iterator[PasswordThief]:
    """Starts the server, and stops it afterwards."""
    log = folder / "thief.log"
    log.touch()
    with subprocess.Popen([sys.executable, __file__, str(log)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield PasswordThief(int(process.stdout.readline()), log)
        finally:
            process.terminate()


def _serve(log: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, log.open("a") as seen:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            client, _ = server.accept()
            seen.write("connection\n")
            seen.flush()
            with client, contextlib.suppress(OSError, struct.error):
                client.settimeout(_CLIENT_SECONDS)
                seen.write(f"password {_password(client)}\n")
                seen.flush()


def _password(client: socket.socket) -> str:
    while True:
        length, code = struct.unpack("!II", client.recv(8))
        if code not in _NO_ENCRYPTION:
            break
        client.sendall(b"N")
    client.recv(length - 8)
    client.sendall(_CLEARTEXT_PASSWORD)
    _, length = struct.unpack("!cI", client.recv(5))
    return client.recv(length - 4).rstrip(b"\0").decode()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
