"""`python -m lakeconf` is `lakeconf`."""

from __future__ import annotations

import sys

from lakeconf.cli import main

sys.exit(main())
