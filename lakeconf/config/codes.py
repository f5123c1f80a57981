"""The codes of problems, and their explanations."""

from __future__ import annotations

from enum import Enum
from importlib import resources

from lakeconf.errors import LakeconfError, suggestion


class Code(Enum):
    """A kind of problem: a stable code and a title."""

    # The file.
    NO_CONFIGURATION = ("LC001", "Configuration not found")
    UNREADABLE = ("LC002", "Unreadable configuration")
    NOT_TOML = ("LC003", "Invalid TOML")
    NO_TABLE = ("LC004", "No [tool.lakeconf] in pyproject.toml")
    # Keys and values.
    UNKNOWN_KEY = ("LC010", "Unknown key")
    MISSING_KEY = ("LC011", "Missing key")
    WRONG_TYPE = ("LC012", "Wrong type")
    WRONG_VALUE = ("LC013", "Invalid value")
    # Names.
    STORE_NAME = ("LC020", "Invalid store name")
    UNKNOWN_STORE = ("LC021", "Unknown store")
    NO_DEFAULT_STORE = ("LC022", "No default store")
    ALIAS = ("LC023", "Invalid alias")
    # The environment.
    UNSET_VARIABLE = ("LC030", "Unset variable")
    MALFORMED_VARIABLE = ("LC031", "Invalid variable reference")
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
    SHARED_DATA_PATH = ("LC056", "Data path shared by different catalogs")
    CATALOG_PATHS = ("LC057", "Catalog with several data paths")

    # Warnings.
    LITERAL_SECRET = ("LC060", "Secret in the configuration file")
    WITHOUT_TLS = ("LC061", "Credentials sent without TLS")
    WITHOUT_DEFAULT = ("LC062", "Several stores without a default")
    CATALOG_WITHOUT_TLS = ("LC063", "Catalog server not verified")
    BARE_DOLLAR = ("LC064", "Variable without braces")

    def __init__(self, code: str, title: str) -> None:
        self.code = code
        self.title = title


def explanation(code: str) -> str:
    """Returns the Markdown page of a code."""
    by_text = {member.code: member for member in Code}
    member = by_text.get(code.upper())
    if member is None:
        raise LakeconfError(
            f"unknown code {code!r}",
            hint=suggestion(code, by_text, f"use a code from {min(by_text)} to {max(by_text)}"),
        )
    return resources.files("lakeconf.config").joinpath("explanations", f"{member.code}.md").read_text("utf-8")
