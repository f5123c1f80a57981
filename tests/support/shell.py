"""Runs the commands of a documentation page as a reader would: in a shell, in the working folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_shell(commands: str, **environment: str) -> str:
    """The output of commands, with the programs of this Python first on the path; the first that fails is the last."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        env=os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
