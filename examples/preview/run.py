"""Reads a lakeconf.toml with every pair of backends, and prints its SQL, without connecting to anything."""

from __future__ import annotations

import os
from pathlib import Path

import lakeconf

# Environment variables that the configuration uses; the SQL contains none of their values.
VARIABLES = (
    "LAKE_PG_PASSWORD",
    "S3_KEY_ID",
    "S3_SECRET",
    "R2_KEY_ID",
    "R2_SECRET",
    "GCS_KEY_ID",
    "GCS_SECRET",
    "AZURE_ACCOUNT_KEY",
    "MD_TOKEN",
)


def main() -> None:
    os.environ.update({name: f"value-of-{name}" for name in VARIABLES})
    config = lakeconf.init(Path(__file__).parent)
    print(f"{len(config.names)} stores")
    for name in config.names:
        store = config.get_store(name)  # reports the problems of the store
        print(f"\n{name}: {', '.join(store.extensions)}")
        for statement in store.preview_sql():
            print(f"  {statement}")


if __name__ == "__main__":
    main()
