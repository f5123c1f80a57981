"""dbt: a plugin of dbt-duckdb that attaches lakes, so that a profile names stores only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from lakeconf.config.model import init
from lakeconf.errors import LakeconfError, required

with required("dbt", extra="dbt", needed_for="lakeconf.integrations.dbt"):
    from dbt.adapters.duckdb.plugins import BasePlugin

_KEYS = ("stores", "lakeconf")


class Plugin(BasePlugin):
    """Attaches the stores of its configuration before dbt does anything.

    In a profile: `plugins: [{module: lakeconf.integrations.dbt, config: {stores: [prod]}}]`. The `attach` entries of
    the profile, which dbt needs in order to know the databases, then find them attached and do nothing.
    """

    def initialize(self, plugin_config: Mapping[str, Any]) -> None:
        """Takes `stores`, a list of names, and `lakeconf`, the configuration file or its folder where it is not found.

        Args:
            plugin_config: What the profile says below `config`.

        Raises:
            LakeconfError: It names no store, or has another key.
        """
        unknown = [key for key in plugin_config if key not in _KEYS]
        stores = plugin_config.get("stores")
        if unknown or not isinstance(stores, list) or not stores:
            problem = f"unknown key {unknown[0]!r}" if unknown else "stores should be a list of names"
            raise LakeconfError(f"the profile's plugin lakeconf: {problem}", hint="config: {stores: [prod]}")
        self._names = stores
        self._source = plugin_config.get("lakeconf")

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Attaches the stores.

        Args:
            conn: The connection that all of dbt's are cursors of.

        Raises:
            ConfigError: There is no such store.
            ConnectionFailed: A catalog cannot be reached.
        """
        config = init(self._source)
        for name in self._names:
            config.get_store(name).attach(conn)
