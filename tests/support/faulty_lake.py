"""A lake for fault injection, and checks that its state is unchanged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, LakeconfError, Store

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})

# More than one megabyte.
MANY = pa.table({"id": pa.array(range(300_000), pa.int64()), "name": [f"{n * 7919:x}" for n in range(300_000)]})


class State(NamedTuple):
    """The visible state of a lake: its snapshots, rows and files."""

    snapshots: list[int]
    rows: list[int]
    files: list[str]


def make_store(metadata_backend: dict[str, Any], storage_backend: dict[str, Any]) -> Store:
    backends = {"metadata_backend": metadata_backend, "storage_backend": storage_backend}
    return lakeconf.init({"stores": {"dev": backends}}).get_store("dev")


def ids(lake: Lake) -> list[int]:
    return sorted(lake.table("t").scan(columns=["id"]).collect("pyarrow").to_native()["id"].to_pylist())


def local_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def state(store: Store, files: Callable[[], list[str]]) -> State:
    """The state of a lake, from a new connection."""
    with store.open() as lake:
        found = [path for path in files() if not path.endswith("_lakeconf.json")]
        return State([snapshot.snapshot_id for snapshot in lake.snapshots()], ids(lake), found)


@contextlib.contextmanager
def refused(expected: type[LakeconfError], match: str, *secrets: str) -> Iterator[None]:
    """Checks that the block raises this lakeconf error, with a message that matches and contains no secret."""
    with pytest.raises(expected, match=match) as caught:
        yield
    error: BaseException | None = caught.value
    assert type(error) is expected
    while error is not None:
        assert not [secret for secret in secrets if secret in f"{error} {error!r} {error.args}"]
        error = error.__cause__ or error.__context__
