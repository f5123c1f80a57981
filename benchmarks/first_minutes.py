"""The first steps of the README in an empty environment: how long a new user waits for each command.

python benchmarks/first_minutes.py [server]      (default: DuckDB's extensions as packages; or from DuckDB's server)

The wheel is built from this checkout. The time of `pip install` depends on the network and on pip's cache.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
GOAL_SECONDS = 60.0


def waited(folder: Path, *command: str) -> float:
    """The seconds that a command takes; it must succeed."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    print(f"{seconds:6.1f} s  {Path(command[0]).name} {' '.join(Path(one).name for one in command[1:])}")
    return seconds


def main() -> None:
    """Runs the steps, and prints their times and the sum."""
    readme = (REPOSITORY / "README.md").read_text()
    script = re.search(r"```python\n(# first\.py\n.*?)```", readme, re.DOTALL)
    query = re.search(r'\$ lakeconf sql "([^"]+)"', readme)
    if script is None or query is None:
        raise SystemExit("README.md has no first.py, or no query")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--out-dir", name, str(REPOSITORY)]
        subprocess.run(build, check=True)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / "bin"
        (folder / "first.py").write_text(script[1])
        extra = "" if "server" in sys.argv[1:] else "[bundled]"
        total = waited(folder, str(programs / "pip"), "install", f"{wheel}{extra}")
        total += waited(folder, str(programs / "lakeconf"), "init", "--yes")
        total += waited(folder, str(programs / "python"), "first.py")
        total += waited(folder, str(programs / "lakeconf"), "sql", query[1])
    print(f"{total:6.1f} s  in all; goal: at most {GOAL_SECONDS:.0f} s")


if __name__ == "__main__":
    main()
