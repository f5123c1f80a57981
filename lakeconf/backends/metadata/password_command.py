"""Passwords that a command prints, such as tokens that expire: renewed while a process uses them, and never shown."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import subprocess
import threading
import time

from lakeconf.backends.server import ServerAddress
from lakeconf.errors import ConnectionFailed, LakeconfError, UnsupportedError
from lakeconf.secret import Secret

_log = logging.getLogger(__name__)
# Below the lifetime of the tokens of AWS, which is 15 minutes.
DEFAULT_TTL = 600
TIMEOUT_SECONDS = 30.0
_SECONDS_AFTER_FAILURE = 10.0
_HINT = "run the password_command yourself: it must print one line, and its output is not shown here"


class PasswordFile(Secret):
    """The path of a file with the current password. The command runs when a connection is opened, not for a preview.

    PostgreSQL's client reads the file for each connection, also for those that DuckDB opens later. The file exists in
    the memory of this process alone, and names the server: the client sends the password to no other one.
    """

    __slots__ = ("_command", "_server", "_ttl")

    def __init__(self, command: tuple[str, ...], ttl: int, server: ServerAddress) -> None:
        super().__init__("\0".join((str(ttl), *map(str, server), *command)))
        self._command, self._ttl, self._server = command, ttl, server

    def reveal(self) -> str:
        """Says where the password comes from: there is none without a connection."""
        return "printed by password_command"

    def for_connection(self) -> str:
        """Returns the path, with a password in the file that is not older than its time to live."""
        return _renewed_file(os.getpid(), self._command, self._ttl, self._server).path()


@functools.cache
def _renewed_file(_process: int, command: tuple[str, ...], ttl: int, server: ServerAddress) -> _RenewedFile:
    """The file of a command; a forked process has its own, because threads do not outlive a fork."""
    return _RenewedFile(command, ttl, server)


class _RenewedFile:
    """A file in memory with the password, which a thread renews until the process ends."""

    def __init__(self, command: tuple[str, ...], ttl: int, server: ServerAddress) -> None:
        self._command, self._ttl, self._server = command, ttl, server
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._renewed_at = 0.0

    def path(self) -> str:
        """The path of the file with the current password."""
        with self._lock:
            is_first = self._descriptor is None
            if is_first or abs(time.time() - self._renewed_at) >= self._ttl:
                self._renew()
            if is_first:
                threading.Thread(target=self._keep_renewing, name="lakeconf-password", daemon=True).start()
            return f"/proc/self/fd/{self._descriptor}"

    def _keep_renewing(self) -> None:
        never, seconds = threading.Event(), float(self._ttl)
        while not never.wait(seconds):
            seconds = float(self._ttl)
            try:
                with self._lock:
                    self._renew()
            except LakeconfError as error:
                # The earlier password may still be valid, and the next connection says if it is not.
                _log.warning("the password of the catalog was not renewed: %s", error.message)
                seconds = min(seconds, _SECONDS_AFTER_FAILURE)

    def _renew(self) -> None:
        if not hasattr(os, "memfd_create"):
            raise UnsupportedError(
                "password_command needs Linux, which has files in memory", hint="set password in the metadata backend"
            )
        asked_at = time.time()
        try:
            self._write(_lines(self._server, _output(self._command)))
        except LakeconfError:
            raise  # some of them are an OSError, too
        except OSError as error:
            message = f"the password of password_command cannot be kept in memory: {error.strerror}"
            raise ConnectionFailed(
                message, hint="check the limits of this process, such as that of open files"
            ) from None
        self._renewed_at = asked_at

    def _write(self, content: str) -> None:
        new = os.memfd_create("lakeconf")
        try:
            os.fchmod(new, 0o600)  # the client ignores a file that others can read
            os.write(new, content.encode())
            # The path stays the same, and never leads to half of a password.
            if self._descriptor is None:
                self._descriptor = os.dup(new)
            else:
                os.dup2(new, self._descriptor, inheritable=False)
        finally:
            os.close(new)


def _lines(server: ServerAddress, password: str) -> str:
    """The lines of a password file: one for each host of a list. Only a socket has no name that the client compares."""
    login = [str(server.port), server.database, server.user, password]
    hosts = ["*" if host.startswith("/") else _escaped(host) for host in server.host.split(",")]
    return "".join(f"{':'.join([host, *map(_escaped, login)])}\n" for host in hosts)


def _escaped(field: str) -> str:
    return field.replace("\\", "\\\\").replace(":", "\\:")


def _output(command: tuple[str, ...]) -> str:
    """The line that a command prints. It runs without a shell, and its errors have no output."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no command"
        raise ConnectionFailed(f"the password_command cannot be started: {reason}", hint=_HINT) from None
    output = None
    try:
        # Raised outside, an error has no context: that of the time-out contains the output.
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        _kill(process)
    if output is None:
        raise ConnectionFailed(f"the password_command did not end within {TIMEOUT_SECONDS:g} seconds", hint=_HINT)
    if process.returncode != 0:
        raise ConnectionFailed(f"the password_command failed with the exit code {process.returncode}", hint=_HINT)
    line = output.decode(errors="replace").rstrip("\r\n")
    if not line or not line.isprintable() or "\ufffd" in line:
        raise ConnectionFailed("the password_command did not print one line with a password", hint=_HINT)
    return line


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the command with the processes that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
