"""Loggers below `lakeconf`: what they log of changes, escaped arguments, and no output by default."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

import lakeconf
from lakeconf.errors import CatalogError
from lakeconf.logs import TerminalFormatter, escaped, event_logger

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_arguments_cannot_control_a_terminal_or_start_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lakeconf")
    event_logger("commit").info("wrote %s in %d files, %.1f s", "a\n::error::b\x1b[2J\u202e", 3, 0.25)
    (record,) = caplog.records
    assert (record.name, record.filename) == ("lakeconf.commit", "test_logs.py")
    assert record.getMessage() == "wrote a\\x0a::error::b\\x1b[2J\\u202e in 3 files, 0.2 s"
    for code in (0x00, 0x09, 0x0A, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x200F, 0x2028, 0x202E, 0x2069):
        assert escaped(f"a{chr(code)}b").isprintable()
    assert escaped("Größe 数 'a' {b} \\n") == "Größe 数 'a' {b} \\n"


def test_text_of_an_error_controls_no_terminal() -> None:
    """Python prints it in a traceback, also outside of the commands."""
    error = CatalogError("no table \x1b[2J\u202e", hint="a\nb\x07")
    assert str(error) == "no table \\x1b[2J\\u202e\n  hint: a\nb\\x07"


def test_traceback_is_escaped_line_by_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalFormatter("%(message)s"))
    logger = logging.getLogger("lakeconf.test_logs")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        raise ValueError("\x1b[2J\n::error::forged")
    except ValueError:
        logger.debug("failed", exc_info=True)
    finally:
        logger.removeHandler(handler)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "failed"
    assert lines[1].startswith("| Traceback")
    assert lines[-2:] == ["| ValueError: \\x1b[2J", "| ::error::forged"]


def test_nothing_is_printed_if_logging_is_not_configured() -> None:
    code = "from lakeconf.logs import event_logger; event_logger('commit').warning('unheard')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_writes_and_maintenance_are_logged(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lakeconf")
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.events", {"id": "BIGINT", "note": "VARCHAR"})
        caplog.clear()
        snapshot_id = table.append(pa.table({"id": [1], "note": ["a value of a row"]}))
        # Threads that renew passwords for other tests log, too.
        own = [record for record in caplog.records if record.thread == threading.get_ident()]
        logged = [record.getMessage() for record in own if record.levelno >= logging.INFO]
        assert logged[0].startswith("staging rows for raw.events (write ")
        assert logged[1] == "staged 1 rows in 0 files for raw.events"
        assert logged[2].startswith("committing 1 changes to raw.events (write ")
        assert f" as snapshot {snapshot_id} in " in logged[3]
        caplog.clear()
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        names = [record.name for record in caplog.records if record.levelno >= logging.INFO]
        assert "lakeconf.maintenance" in names
    assert "a value of a row" not in caplog.text
