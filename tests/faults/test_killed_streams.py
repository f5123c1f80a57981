"""A stream from lake to lake that is killed again and again copies each row once."""

from __future__ import annotations

import itertools
import json
import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from local_stores import ids
from streaming_process import TABLE, StreamingProcess
from strength import PROVE

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake

KILLS = 200 if PROVE else 1
STORE = """\
[stores.{name}]
metadata_backend = {{ type = "sqlite", uri = "{name}.sqlite" }}
storage_backend = {{ type = "local", path = "{name}" }}
"""


@pytest.mark.slow
def test_a_killed_stream_copies_each_row_once(tmp_path: Path) -> None:
    (tmp_path / "lakeconf.toml").write_text("".join(STORE.format(name=name) for name in ("source", "copy")))
    config = lakeconf.init(tmp_path)
    chance, numbers = random.Random(17), itertools.count()  # noqa: S311 - not for secrets
    with config.get_store("copy").open() as copy:
        copy.create_table(TABLE, {"id": "BIGINT"})
    with config.get_store("source").open() as source:
        source.create_table(TABLE, {"id": "BIGINT"})
        killed = 0
        for number in range(KILLS):
            write(source, numbers, chance)
            process = StreamingProcess(tmp_path)
            # The first batch is the whole table, and prints two lines.
            moment = chance.randrange(4 if number else 2)
            killed += any(line == moment for line, _ in enumerate(process.events()))
            process.kill()
            maintain(source, tmp_path / "checkpoint", chance)
        assert killed
        write(source, numbers, chance)
        process = StreamingProcess(tmp_path)
        assert any(line.startswith("end") for line in process.events())
        assert process.finish() == 0
        expected = ids(source, TABLE)
    with config.get_store("copy").open() as copy:
        assert ids(copy, TABLE) == expected == list(range(next(numbers)))


def write(source: Lake, numbers: itertools.count[int], chance: random.Random) -> None:
    """Appends rows in some snapshots."""
    for _ in range(chance.randint(3, 6)):
        source.table(TABLE).append([{"id": next(numbers)} for _ in range(chance.randint(1, 3))])


def maintain(source: Lake, checkpoint: Path, chance: random.Random) -> None:
    """Compacts the table, and expires the snapshots that the stream has completed."""
    if chance.random() < 0.7:
        source.maintenance.compact()
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if done:
        offset = json.loads((checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1])
        unread = source.refresh() - offset["snapshot"]
        source.maintenance.expire_snapshots(older_than=timedelta(0), keep=max(unread, 1), force=True)
