"""dbt: a plugin for dbt-duckdb that attaches lakes, so that profiles only name stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from lakeconf.config.config import init
from lakeconf.errors import LakeconfError, required

with required("dbt", extra="dbt", needed_for="lakeconf.integrations.dbt"):
    from dbt.adapters.duckdb.plugins import BasePlugin

_KEYS = ("stores", "lakeconf")


class Plugin(BasePlugin):
    """Attaches stores before dbt starts its work.

    In a profile: `plugins: [{module: lakeconf.integrations.dbt, config: {stores: [prod]}}]`. dbt also needs the
    databases as `attach` entries of the profile; these have no effect, because the databases are already attached.
    """

    def initialize(self, plugin_config: Mapping[str, Any]) -> None:
        """Reads the configuration of the plugin.

        Args:
            plugin_config: The profile's `config`: `stores`, a list of names; optionally `lakeconf`, the configuration
                file or its folder.

        Raises:
            LakeconfError: It names no store, or contains an unknown key.
        """
        unknown = [key for key in plugin_config if key not in _KEYS]
        stores = plugin_config.get("stores")
        if unknown or not isinstance(stores, list) or not stores:
            problem = f"unknown key {unknown[0]!r}" if unknown else "stores must be a list of names"
            raise LakeconfError(f"the profile's plugin lakeconf: {problem}", hint="write config: {stores: [prod]}")
        self._names = stores
        self._source = plugin_config.get("lakeconf")

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Attaches the stores.

        Args:
            conn: The connection from which dbt creates its cursors.

        Raises:
            ConfigError: A store does not exist.
            ConnectionFailed: A catalog cannot be reached.
        """
        config = init(self._source)
        for name in self._names:
            config.get_store(name).attach(conn)
