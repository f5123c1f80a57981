"""The time after which maintenance begins no further step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from lakeconf.errors import LakeconfError


@dataclass(frozen=True)
class TimeLimit:
    """A moment of the monotonic clock.

    Attributes:
        ends: The moment, in seconds; None for no limit.
        clock: The clock.
    """

    ends: float | None = None
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, deadline: timedelta | None) -> TimeLimit:
        """The limit that ends after a time; None for no limit.

        Raises:
            LakeconfError: It is not a `timedelta`, or is negative.
        """
        given: object = deadline
        if given is not None and not (isinstance(given, timedelta) and given >= timedelta(0)):
            raise LakeconfError(f"the deadline is {deadline!r}, and not a duration", hint="pass timedelta(hours=1)")
        return cls(None if deadline is None else time.monotonic() + deadline.total_seconds())

    @property
    def is_over(self) -> bool:
        """True if no further step may begin."""
        return self.ends is not None and self.clock() >= self.ends
