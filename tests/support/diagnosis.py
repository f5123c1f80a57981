"""Runs of `lakeconf doctor` for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local_stores import config_of

import lakeconf
from lakeconf.inspection import doctor

if TYPE_CHECKING:
    from pathlib import Path

STEPS = (
    *("extensions", "secrets", "catalog", "version", "data path readable", "data path writable"),
    *("clock", "server", "marker", "files", "statistics", "spark"),
)


def diagnosed(config: dict[str, Any]) -> dict[str, doctor.Step]:
    steps = doctor.diagnose(lakeconf.init({"stores": {"dev": config}}).get_store("dev"))
    assert tuple(step.name for step in steps) == STEPS
    return {step.name: step for step in steps}


def local(folder: Path) -> dict[str, Any]:
    backends: dict[str, Any] = config_of(folder)["stores"]["dev"]
    return backends
