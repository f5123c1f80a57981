"""The error for a part of a query that is not translated."""

from __future__ import annotations

import pickle

from lakeconf.engines.untranslated import UntranslatedError
from lakeconf.errors import UnsupportedError


def test_the_error_keeps_its_place_in_another_process() -> None:
    error = UntranslatedError("no", hint="yes", offset=7)
    assert isinstance(error, UnsupportedError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - it was just written
    assert (copy.message, copy.hint, copy.offset) == ("no", "yes", 7)
