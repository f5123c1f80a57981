"""`lakeconf stores`: the stores of a configuration, valid or not, without variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def test_stores_needs_no_variables(run_in_stores: Any) -> None:
    code, out, err = run_in_stores("stores")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "*  dev      sqlite + local",
        "   prod     postgres + s3",
        "   staging  postgres + s3   extends prod",
    ]


def test_stores_as_json(run_in_stores: Any) -> None:
    assert json.loads(run_in_stores("stores", "--format", "json")[1])[2] == {
        "name": "staging",
        "is_default": False,
        "metadata_backend": "postgres",
        "storage_backend": "s3",
        "extends": "prod",
        "alias": "staging",
    }


def test_stores_of_an_invalid_configuration(run_in_stores: Any, project: Path) -> None:
    (project / "lakeconf.toml").write_text('[stores.a]\nextends = "b"\n\n[stores.c.metadata_backend]\nx = 1\n')
    assert run_in_stores("stores") == (0, "   a  ?\n   c  ?\n", "")
