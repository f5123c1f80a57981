"""The command line."""

from __future__ import annotations

import gc
import importlib
import os
import sys


def main() -> int:
    """Runs the command of this process.

    Returns:
        Its exit code: 0, 1 if the command failed, 2 if it was called wrongly, 130 if Ctrl-C ended it.
    """
    # A short process makes hardly any garbage, and looking for it took a fifth of the time: almost never while modules
    # are loaded, and not once more at the end. Nor has any plugin of pydantic a part in reading a configuration.
    gc.set_threshold(100_000, 50, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        code: int = importlib.import_module("lakeconf.cli.commands").run(sys.argv[1:])
    except KeyboardInterrupt:
        # While the modules of the command are imported; click handles it afterwards.
        code = 130
    finally:
        gc.freeze()
    return code
