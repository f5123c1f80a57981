"""`lakeconf verify --catalog` finds what bugs and interrupted commits leave in a catalog, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from damaged_catalogs import DAMAGES, changed, damaged
from hypothesis import given
from hypothesis import strategies as st
from random_lakes import COLUMNS, OPERATIONS, built, examples

from lakeconf.errors import CatalogError
from lakeconf.inspection.catalog_audit import audit_catalog
from lakeconf.transfer.repair_catalog import examine_catalog

if TYPE_CHECKING:
    from lakeconf import Store


def texts(store: Store) -> list[str]:
    return [str(finding) for finding in examine_catalog(store)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damages_are_found(damage: str, small_store: Store) -> None:
    damaged(small_store, damage)
    assert [line for line in texts(small_store) if line.startswith(DAMAGES[damage].text)], texts(small_store)


def test_sound_lakes_have_no_finding(small_store: Store) -> None:
    assert texts(small_store) == []
    changed(small_store, 'CREATE TABLE "ärger" (a INT)', 'CREATE TABLE "Ärger" (a INT)', "DELETE FROM t")
    assert texts(small_store) == []


@pytest.mark.parametrize("damage", [name for name, damage in DAMAGES.items() if damage.stops_opening])
def test_lake_that_cannot_be_opened_says_what_to_do(damage: str, small_store: Store) -> None:
    damaged(small_store, damage)
    with pytest.raises(CatalogError) as raised:
        small_store.open(read_only=True)
    assert "cannot be opened, because its catalog is damaged" in str(raised.value)
    assert "lakeconf verify --catalog --store dev" in str(raised.value.hint)
    with pytest.raises(CatalogError, match="its catalog is damaged"):
        small_store.connect()


@pytest.mark.slow
@examples(25, prove=500)
@given(
    columns=COLUMNS,
    operations=st.lists(OPERATIONS, min_size=1, max_size=12),
    kind=st.sampled_from(["duckdb", "sqlite"]),
    inline=st.booleans(),
)
def test_nothing_is_found_in_random_lakes(columns: Any, operations: Any, kind: str, inline: bool) -> None:
    with built(kind, columns, operations, inline=inline) as (source, _):
        findings = [finding for finding in audit_catalog(source.reader) if finding.check != "statistics"]
    assert findings == []
