"""Every pair of backends, as one lakeconf.toml declares it: checked, and its SQL shown. Nothing is connected to."""

from __future__ import annotations

import os
from pathlib import Path

import lakeconf
from lakeconf.config.model import validate

# What the configuration takes from the environment; the SQL shows none of it.
VARIABLES = (
    "LAKE_PG_PASSWORD",
    "S3_KEY_ID",
    "S3_SECRET",
    "R2_KEY_ID",
    "R2_SECRET",
    "GCS_KEY_ID",
    "GCS_SECRET",
    "MD_TOKEN",
)


def main() -> None:
    os.environ.update({name: f"value-of-{name}" for name in VARIABLES})
    config = lakeconf.init(Path(__file__).parent)
    problems = validate(config)
    print(f"{len(config.names)} stores, {len(problems)} problems")
    for name, store in config.stores.items():
        print(f"\n{name}: {', '.join(store.extensions)}")
        for statement in store.preview_sql():
            print(f"  {statement}")


if __name__ == "__main__":
    main()
