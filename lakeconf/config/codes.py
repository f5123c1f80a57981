"""The stable codes of what can be wrong with a configuration, in one place."""

from __future__ import annotations

from enum import Enum


class Code(Enum):
    """A kind of problem: its code, which never changes its meaning, and its title."""

    # The file.
    NO_CONFIGURATION = ("LC001", "No configuration was found")
    UNREADABLE = ("LC002", "The configuration cannot be read")
    NOT_TOML = ("LC003", "The file is not valid TOML")
    NO_TABLE = ("LC004", "pyproject.toml has no [tool.lakeconf]")
    # Keys and values.
    UNKNOWN_KEY = ("LC010", "A key that lakeconf does not know")
    MISSING_KEY = ("LC011", "A key is missing")
    WRONG_TYPE = ("LC012", "A value of the wrong type")
    WRONG_VALUE = ("LC013", "A value that is not allowed")
    # Names.
    STORE_NAME = ("LC020", "A store's name that is not allowed")
    UNKNOWN_STORE = ("LC021", "There is no such store")
    NO_DEFAULT_STORE = ("LC022", "No store was named, and none is the default")
    ALIAS = ("LC023", "An alias that is not allowed")
    # The environment.
    UNSET_VARIABLE = ("LC030", "A variable is not set")
    MALFORMED_VARIABLE = ("LC031", "A ${ that begins no variable")
    OVERRIDE = ("LC032", "An environment variable that overrides nothing")
    # Inheritance.
    UNKNOWN_PARENT = ("LC040", "A store extends one that does not exist")
    CYCLE = ("LC041", "Stores extend each other in a circle")
    # Backends.
    UNKNOWN_TYPE = ("LC050", "There is no such type of backend")
    PAIR = ("LC051", "The two backends do not compose")
    CREDENTIALS = ("LC052", "Credentials that are not whole, or contradict each other")
    FIELDS = ("LC053", "Keys of a backend that do not fit together")
    ATTACH_OPTION = ("LC054", "An attach option that does not exist or fit")
    SHARED_SECRET = ("LC055", "One secret_name for different credentials")
    SHARED_DATA_PATH = ("LC056", "One data path for different catalogs")

    # Warnings.
    LITERAL_SECRET = ("LC060", "A secret that stands in the file")
    WITHOUT_TLS = ("LC061", "Credentials that go without TLS")
    WITHOUT_DEFAULT = ("LC062", "Several stores, and no default")
    CATALOG_WITHOUT_TLS = ("LC063", "A catalog's server that may be reached without TLS")
    BARE_DOLLAR = ("LC064", "A variable without braces")

    def __init__(self, code: str, title: str) -> None:
        self.code = code
        self.title = title
