"""The stable codes of what can be wrong with a configuration, in one place."""

from __future__ import annotations

from enum import Enum


class Code(Enum):
    """A kind of problem: its code, which never changes its meaning, and its title."""

    # The file.
    NO_CONFIGURATION = ("LC001", "Configuration not found")
    UNREADABLE = ("LC002", "Unreadable configuration")
    NOT_TOML = ("LC003", "Invalid TOML")
    NO_TABLE = ("LC004", "No [tool.lakeconf] in pyproject.toml")
    # Keys and values.
    UNKNOWN_KEY = ("LC010", "Unknown key")
    MISSING_KEY = ("LC011", "Missing key")
    WRONG_TYPE = ("LC012", "Value of the wrong type")
    WRONG_VALUE = ("LC013", "Value that is not allowed")
    # Names.
    STORE_NAME = ("LC020", "Invalid store name")
    UNKNOWN_STORE = ("LC021", "Unknown store")
    NO_DEFAULT_STORE = ("LC022", "No default store")
    ALIAS = ("LC023", "Invalid alias")
    # The environment.
    UNSET_VARIABLE = ("LC030", "Variable that is not set")
    MALFORMED_VARIABLE = ("LC031", "Invalid variable reference")
    OVERRIDE = ("LC032", "Override variable without effect")
    # Inheritance.
    UNKNOWN_PARENT = ("LC040", "Unknown parent store")
    CYCLE = ("LC041", "Circular inheritance")
    # Backends.
    UNKNOWN_TYPE = ("LC050", "Unknown backend type")
    PAIR = ("LC051", "Unsupported backend combination")
    CREDENTIALS = ("LC052", "Incomplete or contradictory credentials")
    FIELDS = ("LC053", "Conflicting backend settings")
    ATTACH_OPTION = ("LC054", "Invalid attach option")
    SHARED_SECRET = ("LC055", "Shared secret_name with different credentials")
    SHARED_DATA_PATH = ("LC056", "Shared data path of different catalogs")

    # Warnings.
    LITERAL_SECRET = ("LC060", "Secret in the configuration file")
    WITHOUT_TLS = ("LC061", "Credentials sent without TLS")
    WITHOUT_DEFAULT = ("LC062", "Several stores without a default")
    CATALOG_WITHOUT_TLS = ("LC063", "Catalog connection that may be unencrypted")
    BARE_DOLLAR = ("LC064", "Variable without braces")

    def __init__(self, code: str, title: str) -> None:
        self.code = code
        self.title = title
