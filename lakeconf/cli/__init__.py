"""The command-line interface."""

from __future__ import annotations

import gc
import importlib
import os
import sys


def main() -> int:
    """Runs the command of this process."""
    # A short process creates little garbage, but collecting it took a fifth of the time: collect rarely during imports,
    # and skip the collection at exit. Pydantic plugins are not needed either.
    gc.set_threshold(100_000, 50, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        code: int = importlib.import_module("lakeconf.cli.app").run(sys.argv[1:])
    except KeyboardInterrupt:
        # Only during imports; click handles Ctrl-C afterwards.
        code = 130
    finally:
        gc.freeze()
    return code
