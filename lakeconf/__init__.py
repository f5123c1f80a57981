"""DuckLake stores, declared once in TOML: for DuckDB, for Spark, and for the tools around them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeconf.config.model import Config, init
    from lakeconf.engines.spark.start import spark_session
    from lakeconf.errors import LakeconfError
    from lakeconf.integrations.polars import scan_polars
    from lakeconf.lake import Lake
    from lakeconf.secret import Secret
    from lakeconf.store import Store
    from lakeconf.table import Table

__version__ = "0.1.0"
__all__ = ["Config", "Lake", "LakeconfError", "Secret", "Store", "Table", "init", "scan_polars", "spark_session"]

# Imported when first used, so that `import lakeconf` stays as cheap as a bare module.
_HOME = {
    "Config": "lakeconf.config.model",
    "Lake": "lakeconf.lake",
    "LakeconfError": "lakeconf.errors",
    "Secret": "lakeconf.secret",
    "Store": "lakeconf.store",
    "Table": "lakeconf.table",
    "init": "lakeconf.config.model",
    "scan_polars": "lakeconf.integrations.polars",
    "spark_session": "lakeconf.engines.spark.start",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
