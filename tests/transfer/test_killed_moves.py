"""A move that is killed at any step continues, and the target is never half a lake."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dying_move
import pytest
from local_stores import in_bucket, on_catalog
from strength import PROVE, in_prove
from whole_lakes import fill

import lakeconf
from lakeconf.ducklake import MARKER
from lakeconf.errors import CatalogLostError, CatalogMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATEMENTS = (
    "CREATE TABLE t AS SELECT range AS id FROM range(100)",
    "DELETE FROM t WHERE id < 40",
    "INSERT INTO t VALUES (500)",
)
# The files of a lake, with the locks of its writers and what SQLite makes beside its file.
OWN = {MARKER, "catalog", "catalog.lakeconf-writers", "catalog-wal", "catalog-shm"}
ENDS = [("sqlite", "local"), ("postgres", "s3"), ("duckdb", "s3"), ("postgres", "local"), ("duckdb", "local")]


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Stores as TOML: each value of their tables is one that JSON writes in the same way."""
    return "\n".join(
        f"[stores.{name}.{table}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        for name, tables_of in tables.items()
        for table, values in tables_of.items()
    )


def configured(request: pytest.FixtureRequest, folder: Path, catalog: str, storage: str, number: int) -> None:
    """A configuration with the lake of `laptop` and the empty store `server`."""

    def local(name: str) -> dict[str, Any]:
        return {"type": "local", "path": str(folder / name)}

    (folder / f"at {number}").mkdir()
    bucket = in_bucket(request.getfixturevalue("s3_server")) if storage == "s3" else local(f"at {number}/data")
    stores = {
        "laptop": {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / "laptop.sqlite")},
            "storage_backend": local("laptop"),
        },
        "server": {
            "metadata_backend": on_catalog(request, folder / f"at {number}", catalog),
            "storage_backend": bucket,
        },
    }
    (folder / "lakeconf.toml").write_text(toml(stores))


def moved(folder: Path, number: int, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, dying_move.__file__, str(number), when, "move", "laptop", "server", "--yes"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def ids(name: str) -> list[Any]:
    with lakeconf.init().get_store(name).connect() as connection:
        return connection.sql("SELECT rowid, id FROM t ORDER BY ALL").fetchall()


@pytest.mark.slow
@pytest.mark.parametrize(("catalog", "storage"), [*ENDS[:2], *in_prove(ENDS[2:])])
def test_killed_move_continues(
    catalog: str, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    configured(request, tmp_path, catalog, storage, 0)
    fill(lakeconf.init().get_store("laptop"), STATEMENTS)
    before = ids("laptop")
    finished = moved(tmp_path, 0, "")
    assert finished.returncode == 0, finished.stderr
    steps = int(finished.stdout.split()[-1])
    assert ids("server") == before
    few = storage != "local" and not PROVE
    # The first steps write the marker of the move, in several files; after the last one, the move is complete.
    first = [(number, when) for number in (3, 4) for when in ("before", "after")]
    rest = [
        (number, "before" if number % 2 or number == steps else "after")
        for number in range(1, steps + 1, 1 if PROVE else 15 if few else 5)
    ]
    for place, (number, when) in enumerate(dict.fromkeys([*first[few * 3 :], *rest]), start=1):
        configured(request, tmp_path, catalog, storage, place)
        killed = moved(tmp_path, number, when)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        server = lakeconf.init().get_store("server")
        with contextlib.suppress(CatalogLostError, CatalogMissingError), server.open(read_only=True) as lake:
            assert lake.table("t").count() == len(before)
        again = moved(tmp_path, 0, "")
        assert again.returncode == 0, (number, when, again.stderr)
        assert ids("server") == ids("laptop") == before
        with server.open() as lake:
            assert lake.maintenance.plan_cleanup(older_than=timedelta(days=1)).paths == []
            lake.table("t").append(lake.sql("SELECT 7000 AS id"))
        left = [
            str(path)
            for path in (tmp_path / f"at {place}").rglob("*")
            if path.is_file() and path.suffix != ".parquet" and path.name not in OWN
        ]
        assert left == []
