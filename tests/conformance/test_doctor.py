"""For every pair of backends: maintenance waits for writers and its error names them, and `lakeconf doctor`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeconf.errors import CommitError
from lakeconf.guard import locks
from lakeconf.guard.guard import locks_of, reader_of
from lakeconf.inspection.doctor import diagnose
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.inspection.doctor import Step
    from lakeconf.store import Store


ROWS = pa.table({"id": [1, 2]})
# Skipped in comparisons: its packages may have to be downloaded first.
SPARK = "spark"


def statuses(steps: list[Step]) -> dict[str, str]:
    return {step.name: step.status for step in steps if step.name != SPARK}


def test_doctor_before_and_after_the_lake_is_created(
    store: Store, metadata_backend: dict[str, Any], storage_backend: dict[str, Any], files: Callable[[], set[str]]
) -> None:
    before = diagnose(store)
    assert set(statuses(before).values()) <= {"ok", "skipped"}, before
    assert next(step.found for step in before if step.name == "catalog").startswith("none yet")
    assert not files()
    with store.open() as lake:
        lake.create_table("raw.t", ROWS).append(ROWS)
    after = diagnose(store)
    asked_server = "skipped" if store.metadata_backend.server() is None else "ok"
    expected = dict.fromkeys(statuses(after), "ok") | {"clock": asked_server, "server": asked_server}
    assert statuses(after) == expected, after
    (catalog,) = [step.found for step in after if step.name == "catalog"]
    description = store.metadata_backend.description()
    assert catalog == f"{description}, attached as dev"
    named = [metadata_backend[name] for name in ("uri", "host", "database", "service") if name in metadata_backend]
    assert all(str(field) in description for field in named)
    backends = (metadata_backend, storage_backend)
    secrets = [table[name] for table in backends for name in ("password", "secret") if name in table]
    shown = json.dumps([*map(str, before), *map(str, after)])
    assert not any(secret in shown for secret in secrets)


def test_maintenance_waits_for_writers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(locks, "_ATTEMPT_SECONDS", 0.2)
    with open_connection(store) as connection:
        reader = reader_of(store.metadata_backend, store.names, connection)
        one, other = (locks_of(store.metadata_backend, store.names, reader) for _ in range(2))
        assert one is not None
        assert other is not None
        with one.shared() as held, other.shared():
            held.check()
        with one.shared(), pytest.raises(CommitError, match=f"held by .*process {os.getpid()}"), other.exclusive():
            raise AssertionError
        with other.exclusive():
            pass
