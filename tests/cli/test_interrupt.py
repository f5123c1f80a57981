"""Ctrl-C ends a command with exit code 130 and without a traceback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lakeconf
from lakeconf.cli import main

if TYPE_CHECKING:
    from pathlib import Path

LONG_QUERY = "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b"

# The process sends itself the signal once the named function has started and used some CPU time.
INTERRUPTED = """\
import importlib, os, signal, sys, threading, time

signal.signal(signal.SIGINT, signal.default_int_handler)
module, name, attribute, seconds = sys.argv.pop(1).split(":")
begun = threading.Event()

def interrupt():
    begun.wait()
    used = time.process_time()
    while time.process_time() < used + float(seconds):
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)

owner = getattr(importlib.import_module(module), name)
call = getattr(owner, attribute)

def watched(*arguments, **options):
    begun.set()
    return call(*arguments, **options)

setattr(owner, attribute, watched)
threading.Thread(target=interrupt, daemon=True).start()
from lakeconf.cli import main
sys.exit(main())
"""


def interrupted(point: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", INTERRUPTED, point, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("query", [LONG_QUERY, LONG_QUERY.replace("count(*)", "*")])
def test_ctrl_c_stops_a_long_query(query: str, project: Path) -> None:
    lakeconf.init().get_store().open().close()
    done = interrupted("lakeconf.connection.connection:Connection:named_rows:0.5", "sql", query, "--format", "csv")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_second_ctrl_c_ends_a_command_that_waits_for_a_server(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        place = f'host = "127.0.0.1", port = {server.getsockname()[1]}, database = "d", user = "u", password = "p"'
        backend = f'{{ type = "postgres", {place} }}'
        storage = '{ type = "local", path = "data" }'
        (project / "lakeconf.toml").write_text(
            f"[stores.dev]\nmetadata_backend = {backend}\nstorage_backend = {storage}\n"
        )
        command = [sys.executable, "-m", "lakeconf", "tables"]
        with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            with server.accept()[0]:  # it never gets an answer
                process.send_signal(signal.SIGINT)
                assert "press Ctrl-C again" in process.stderr.readline()
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130


def test_ctrl_c_before_the_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakeconf.cli.app.run", interrupt)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    assert main() == 130
