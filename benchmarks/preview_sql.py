"""`lakeconf preview-sql` compared with `metaxy --help`, and `import lakeconf` with `import pydantic`, as processes.

    python benchmarks/preview_sql.py

metaxy is installed into a separate environment in the user's cache folder, if it is missing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from local_project import CONFIGURATION

METAXY = "metaxy==0.1.11"
ROUNDS = 15


def metaxy_command() -> list[str]:
    """The command of metaxy, which is installed if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = cache / "lakeconf-benchmarks" / f"{METAXY.replace('==', '-')}-py{python}"
    command = environment / "bin" / "metaxy"
    if not command.exists():
        print(f"Installing {METAXY} into {environment}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
        installer = [uv, "pip", "install", "--python"] if uv else []
        target = [str(environment / "bin" / "python")]
        pip = [*installer, *target] if uv else [*target, "-m", "pip", "install", "--disable-pip-version-check"]
        subprocess.run([*pip, "--quiet", METAXY], check=True)
    return [str(command), "--help"]


def seconds(command: list[str], folder: str, environment: dict[str, str]) -> float:
    """The time that the process takes."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - start


def medians(commands: dict[str, list[str]]) -> dict[str, float]:
    """The median of each command, run in turns, so that load on the machine affects all of them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lakeconf.toml").write_text(CONFIGURATION)
        # Byte code is cached, as on a user's machine, whatever the environment of this process sets.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "byte-code")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in commands.values():
            seconds(command, folder, environment)
        times = [
            {name: seconds(command, folder, environment) for name, command in commands.items()} for _ in range(ROUNDS)
        ]
    return {name: statistics.median(turn[name] for turn in times) for name in commands}


def main() -> None:
    python = sys.executable
    lakeconf = str(Path(python).parent / "lakeconf")
    found = medians(
        {
            "`metaxy --help`": metaxy_command(),
            "`lakeconf preview-sql`": [lakeconf, "preview-sql"],
            "`import pydantic`": [python, "-c", "import pydantic"],
            "`import lakeconf`": [python, "-c", "import lakeconf"],
        }
    )
    print("| process | median | ratio | goal |\n|---|---|---|---|")
    pairs = [("`lakeconf preview-sql`", "`metaxy --help`", 0.2), ("`import lakeconf`", "`import pydantic`", 1.2)]
    for ours, theirs, goal in pairs:
        ratio = found[ours] / found[theirs]
        print(f"| {theirs} | {found[theirs] * 1000:.0f} ms | | |")
        print(f"| {ours} | {found[ours] * 1000:.0f} ms | {ratio:.2f} | under {goal} |")


if __name__ == "__main__":
    main()
