"""Declare DuckLake stores in TOML and use them from DuckDB, Spark and other tools."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf.config.config import Config, init
    from lakeconf.engines.spark.start import spark_session
    from lakeconf.errors import (
        CatalogLockedError,
        CommitConflictError,
        CommitError,
        CommitUnknownError,
        ConfigError,
        LakeconfError,
        QueryError,
        SchemaError,
        SnapshotNotFoundError,
        TableNotFoundError,
        UnsupportedError,
    )
    from lakeconf.integrations.polars import scan_polars
    from lakeconf.lake.lake import Lake
    from lakeconf.lake.table import Table
    from lakeconf.secret import Secret
    from lakeconf.store import Store
    from lakeconf.write.operations.merge.clauses import Delete, Insert, Update

__version__ = "0.1.0"
__all__ = [
    "CatalogLockedError",
    "CommitConflictError",
    "CommitError",
    "CommitUnknownError",
    "Config",
    "ConfigError",
    "Delete",
    "Insert",
    "Lake",
    "LakeconfError",
    "QueryError",
    "SchemaError",
    "Secret",
    "SnapshotNotFoundError",
    "Store",
    "Table",
    "TableNotFoundError",
    "UnsupportedError",
    "Update",
    "init",
    "scan_polars",
    "spark_session",
]
# Imported on first use, to keep `import lakeconf` fast. The other names are errors.
_HOME = {
    "Config": "lakeconf.config.config",
    "Delete": "lakeconf.write.operations.merge.clauses",
    "Insert": "lakeconf.write.operations.merge.clauses",
    "Lake": "lakeconf.lake.lake",
    "Secret": "lakeconf.secret",
    "Store": "lakeconf.store",
    "Table": "lakeconf.lake.table",
    "Update": "lakeconf.write.operations.merge.clauses",
    "init": "lakeconf.config.config",
    "scan_polars": "lakeconf.integrations.polars",
    "spark_session": "lakeconf.engines.spark.start",
}
_ERRORS = "lakeconf.errors"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME.get(name, _ERRORS)), name)
    except ImportError as error:
        return _unavailable(error)


def _unavailable(error: ImportError) -> Callable[..., Any]:
    """A function without its optional package: its call fails, but `from lakeconf import *` does not."""
    if not isinstance(error, import_module(_ERRORS).MissingDependencyError):
        raise error
    missing = error

    def unavailable(*_: object, **__: object) -> None:
        raise missing

    return unavailable


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
