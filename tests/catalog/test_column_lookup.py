"""Columns by name: any ASCII case, in the order of the names."""

from __future__ import annotations

import pytest

from lakeconf.catalog.tables import Column, TableInfo, columns_named
from lakeconf.errors import SchemaError


def table(*names: str) -> TableInfo:
    columns = tuple(Column(n, name, "int32", nullable=True, initial_default=None) for n, name in enumerate(names, 1))
    return TableInfo(1, "raw", "events", columns, "/data/")


def test_columns_have_the_order_of_the_names() -> None:
    events = table("id", "Kind", "odd, name")
    assert [column.field_id for column in columns_named(events, ["ODD, NAME", "kind", "ID"])] == [3, 2, 1]
    assert columns_named(events, []) == ()


def test_only_ascii_letters_match_in_any_case() -> None:
    accented = table("é", "É", "ß")
    assert [column.name for column in columns_named(accented, ["É", "é"])] == ["É", "é"]
    with pytest.raises(SchemaError):
        columns_named(accented, ["SS"])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("knd", 'did you mean "kind"?'),
        ("zzz", "use one of its columns: id, kind"),
        ("", "use one of its columns: id, kind"),
    ],
)
def test_unknown_column_is_refused(name: str, hint: str) -> None:
    with pytest.raises(SchemaError) as refused:
        columns_named(table("kind", "id"), ["id", name])
    assert refused.value.message == f"the table raw.events has no column {name!r}"
    assert refused.value.hint == hint


def test_repeated_column_is_refused() -> None:
    with pytest.raises(SchemaError) as refused:
        columns_named(table("id", "kind"), ["id", "kind", "ID"])
    assert refused.value.message == "the column 'ID' of raw.events is selected twice"
    assert refused.value.hint == "name each column once"
