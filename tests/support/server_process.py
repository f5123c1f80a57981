"""Common parts of all servers: a free port, a process that ends with the test, a bounded wait for readiness."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 180.0
numbers = itertools.count(1)


def free_port() -> int:
    """A free port on loopback."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def accepts_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def run_server(command: list[str], output: Any, **identity: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd="/", **identity)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            message = f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}"
            raise RuntimeError(message)
        time.sleep(0.05)
