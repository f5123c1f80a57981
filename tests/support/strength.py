"""How many examples the tests run: some in `make test`, many in `make prove`."""

from __future__ import annotations

import os

PROVE = bool(os.environ.get("LAKECONF_PROVE"))
