"""Runs a command of lakeconf whose process is killed at one of its commits, or in which that commit fails; a script.

Usage: python dying_command.py NUMBER WHEN ARGUMENT…: WHEN is `before` or `after` the commit with this number, from 1
on, or `instead` of it. With 0, the last line of its output is the number of commits.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from lakeconf.cli.app import run
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError

# What changes the catalog or the files, each in a transaction of its own.
COMMIT = re.compile(
    r"COMMIT$|.*\bducklake_(commit|expire_snapshots|cleanup_old_files)\(|DELETE FROM .*scheduled_for_deletion",
    re.DOTALL,
)


def main(number: int, when: str, arguments: list[str]) -> None:
    seen = 0

    def dying(call: Any) -> Any:
        def called(self: Connection, sql: str, *rest: Any) -> Any:
            nonlocal seen
            found = COMMIT.match(sql)
            seen += found is not None
            strikes = found and seen == number
            if strikes and when == "before":
                os._exit(9)
            if strikes and when == "instead":
                raise CatalogError("the disk of the catalog is full")
            done = call(self, sql, *rest)
            if strikes:
                os._exit(9)
            return done

        return called

    for name in ("execute", "rows"):
        setattr(Connection, name, dying(getattr(Connection, name)))
    code = run(arguments)
    if number == 0:
        sys.stdout.write(f"{seen}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
