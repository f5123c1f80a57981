"""Replays one schedule: `PYTHONPATH=tests/support .venv/bin/python -m simulator SEED`; `--trace` prints each call."""

from __future__ import annotations

import sys

from simulator.schedule import run_schedule

found = run_schedule(int(sys.argv[1]))
if "--trace" in sys.argv:
    sys.stdout.write("\n".join(found.trace) + "\n")
sys.stdout.write(f"{found}\n")
sys.exit(bool(found.problems))
