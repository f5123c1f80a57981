"""Properties that are computed once: each object by itself, also in threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakeconf.catalog.reader import cached

SECONDS = 20


@dataclass(frozen=True)
class Meeting:
    """An object whose property waits until the property of another object is computed as well."""

    barrier: threading.Barrier

    @cached
    def place(self) -> object:
        """Where they meet."""
        self.barrier.wait(SECONDS)
        return object()


def test_object_that_waits_does_not_block_other_objects() -> None:
    """`functools.cached_property` of Python 3.11 fails this test."""
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        places = list(pool.map(lambda meeting: meeting.place, (Meeting(barrier), Meeting(barrier))))
    assert places[0] is not places[1]
