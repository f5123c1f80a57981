"""Summaries of stores as written in the file: nothing is resolved or validated."""

from __future__ import annotations

from config_source import stores_of

from lakeconf.config.resolve import Outline, outline_of, secret_names

TEXT = """
[stores.dev.metadata_backend]
type = "sqlite"
secret_name = "of_the_catalog"

[stores.prod]
extends = "dev"
alias = "${ALIAS}"
storage_backend = { type = "s3", secret_name = "${NAME}" }

[stores.cloud.metadata_backend]
type = "motherduck"
database = "shop"
table = { a = 1 }

[stores.local.metadata_backend]
type = "motherduck"
database = "shop"
compute = "local"

[stores.odd]
metadata_backend = "text"
storage_backend = { type = { a = 1 }, secret_name = { b = 2 } }

[stores.unknown]
metadata_backend = { type = "nonsense", database = "shop" }

[stores.typeless.metadata_backend]
database = "shop"

[stores.number]
metadata_backend = { type = 7, secret_name = 8 }

[stores.orphan]
extends = "nowhere"
"""
STORES = stores_of(TEXT)


def outline(name: str) -> Outline:
    return outline_of(STORES, name, is_default=name == "dev")


def test_store_without_a_storage_has_its_own_name_as_alias() -> None:
    assert outline("dev") == Outline("dev", True, "sqlite", None, None, "dev")  # noqa: FBT003 - as it is shown


def test_values_of_the_parent_and_variables_are_shown_as_written() -> None:
    assert outline("prod") == Outline("prod", False, "sqlite", "s3", "dev", "${ALIAS}")  # noqa: FBT003 - as it is shown


def test_alias_of_a_motherduck_store_is_its_database() -> None:
    assert outline("cloud").alias == "shop"
    assert outline("local").alias == "local"


def test_tables_of_the_wrong_type_are_omitted() -> None:
    assert outline("odd") == Outline("odd", False, None, None, None, "odd")  # noqa: FBT003 - as it is shown
    assert outline("number") == Outline("number", False, "7", None, None, "number")  # noqa: FBT003 - as it is shown


def test_backend_without_a_type_has_no_alias_of_its_own() -> None:
    assert outline("typeless") == Outline("typeless", False, alias="typeless")  # noqa: FBT003 - as it is shown


def test_unknown_type_is_shown_as_written() -> None:
    assert outline("unknown")[2:] == ("nonsense", None, None, "unknown")


def test_store_whose_parent_is_missing_has_only_a_name() -> None:
    assert outline("orphan") == Outline("orphan", False, alias="orphan")  # noqa: FBT003 - as it is shown


def test_names_of_secrets_as_written() -> None:
    assert secret_names(STORES, "dev") == ("of_the_catalog",)
    assert secret_names(STORES, "prod") == ("of_the_catalog", "${NAME}")
    assert secret_names(STORES, "cloud") == secret_names(STORES, "odd") == secret_names(STORES, "orphan") == ()
    assert secret_names(STORES, "number") == ("8",)
