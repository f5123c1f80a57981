"""The command-line interface."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator


def main() -> int:
    """Runs the command of this process."""
    # A short process creates little garbage, but collecting it took a fifth of the time: collect rarely during imports,
    # and skip the collection at exit. Pydantic plugins are not needed either.
    gc.set_threshold(100_000, 50, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # pipes of Windows are not in UTF-8: show what they lack as an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        with _ended_by_a_second_interrupt():
            code: int = importlib.import_module("lakeconf.cli.app").run(sys.argv[1:])
    except KeyboardInterrupt:
        # Only during imports; click handles Ctrl-C afterwards.
        code = 130
    finally:
        # What DuckDB still holds in cycles must end before Python does: Python 3.14 aborts otherwise.
        if "_duckdb" not in sys.modules:
            gc.freeze()
    return code


@contextlib.contextmanager
def _ended_by_a_second_interrupt() -> Iterator[None]:
    """Ends the process at the second Ctrl-C: DuckDB looks for none while it waits for a server."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(0)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)  # it gets a byte for each signal
    threading.Thread(target=_wait_for_two, args=(ours,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        theirs.close()


def _wait_for_two(signals: socket.socket) -> None:
    with signals:
        if not signals.recv(1):  # the command has ended
            return
        signals.settimeout(2)
        try:
            again = signals.recv(1)
        except TimeoutError:
            sys.stderr.write("waiting for the operation to end; press Ctrl-C again to stop at once\n")
            signals.settimeout(None)
            again = signals.recv(1)
        if again:
            os._exit(130)
