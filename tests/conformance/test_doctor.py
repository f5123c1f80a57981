"""`lakeconf doctor` on a store of every pair, before and after the lake is created."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeconf.inspection.doctor import diagnose

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
