"""Runs a command on a whole lake, whose process is killed at one of its steps; a script.

Usage: python dying_move.py NUMBER WHEN ARGUMENT…: WHEN is `before` or `after` the step with this number, from 1 on.
With 0, the last line of its output is the number of steps. Besides commands of lakeconf, `append STORE TABLE` appends
the row with the id 7000 once.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import lakeconf
from lakeconf.cli.app import run
from lakeconf.connection.connection import Connection
from lakeconf.guard import pins
from lakeconf.lake import cleanup
from lakeconf.transfer import move_target

# What changes files or a catalog.
STEP = re.compile(
    r"COMMIT$|COPY |CREATE TABLE .*(ducklake_snapshot|ducklake_tag)\b|"
    r"DELETE FROM .*\bducklake_(snapshot|tag)\b|ATTACH .*\.lakeconf-move",
    re.DOTALL,
)
# The same for a branch, which also removes files.
BRANCH_STEP = re.compile(
    r"COMMIT$|COPY |ATTACH |CALL ducklake_expire_snapshots|DELETE FROM .*scheduled_for_deletion", re.DOTALL
)


def append(store: str, table: str) -> int:
    with lakeconf.init().get_store(store).open() as lake:
        lake.table(table).append([{"id": 7000}], idempotency_key="once")
    return 0


def main(number: int, when: str, arguments: list[str]) -> None:
    seen = 0

    def dying(call: Any, is_step: Any = lambda *_: True) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            nonlocal seen
            steps = is_step(*given)
            seen += bool(steps)
            strikes = steps and seen == number
            if strikes and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*given, **named)
            finally:
                if strikes:
                    os.kill(os.getpid(), signal.SIGKILL)

        return called

    is_branch = arguments[0] != "move"
    pattern = BRANCH_STEP if is_branch else STEP
    Connection.execute = dying(Connection.execute, lambda _, sql, *__: pattern.match(sql))  # type: ignore[method-assign]
    os.link = dying(os.link)
    Path.replace = dying(Path.replace)  # type: ignore[method-assign]
    Path.rename = dying(Path.rename)  # type: ignore[method-assign]
    move_target.remove_files = dying(move_target.remove_files)  # type: ignore[attr-defined]
    if is_branch:
        os.unlink = dying(os.unlink)
        for module in (pins, cleanup):
            module.remove_files = dying(module.remove_files)  # type: ignore[attr-defined]
    code = append(*arguments[1:]) if arguments[0] == "append" else run(arguments)
    if number == 0:
        sys.stdout.write(f"{seen}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
