"""The committers of a store."""

from __future__ import annotations

import pytest

from lakeconf.backends.store_options import checked_committer
from lakeconf.errors import LakeconfError


def test_unknown_committer_is_refused() -> None:
    with pytest.raises(LakeconfError, match=r"stores\.dev\.committer: must be one of auto, public, staged"):
        checked_committer("dev", "Staged")
