"""The macros of a lake, as statements that create them in a branch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.queries.sql_references import find_references
from lakeconf.catalog.queries.stored_queries import StoredQueries
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import joined_name
from lakeconf.ducklake import check_placeholders, visible_at
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier, literal, qualified

_MACROS = f"""
    SELECT m.macro_id, i.impl_id, s.schema_name, m.macro_name, i.type, i.sql
    FROM ducklake_macro AS m JOIN ducklake_schema AS s ON s.schema_id = m.schema_id
    JOIN ducklake_macro_impl AS i ON i.macro_id = m.macro_id
    WHERE {visible_at(row="m")} AND {visible_at(row="s")} ORDER BY m.macro_id, i.impl_id
"""
_PARAMETERS = """
    SELECT macro_id, impl_id, parameter_name, parameter_type, default_value, default_value_type
    FROM ducklake_macro_parameters ORDER BY macro_id, impl_id, column_id
"""
_KINDS = {"scalar": "MACRO", "table": "MACRO TABLE"}
# What DuckLake stores for a parameter without a type, or without a default.
_NONE = "unknown"


@dataclass(frozen=True)
class Macro:
    """A macro of a lake."""

    schema: str
    name: str
    kind: str  # its kind, as DROP names it
    forms: tuple[tuple[list[tuple[str, ...]], str], ...]  # of each of its forms, rows of the parameters, and the SQL

    @property
    def full_name(self) -> str:
        """Its name with the schema."""
        return joined_name(self.schema, self.name)

    def statement(self, alias: str, other: CatalogReader, stored: StoredQueries) -> str:
        """The statement that creates it in a branch of another lake, which has it.

        Raises:
            LakeconfError: It does more than compute.
        """
        is_table, forms = self.kind == "MACRO TABLE", []
        name = qualified(other.alias, self.schema, self.name)
        stored.check(find_references(f"FROM {name}()" if is_table else f"SELECT {name}()"))
        for parameters, sql in self.forms:
            if find_references(sql if is_table else f"SELECT ({sql})") is None:
                raise UnsupportedError("it is not a single query or expression")
            body = f"TABLE {sql}" if is_table else f"({sql})"
            forms.append(f"({', '.join(_parameter(*parameter) for parameter in parameters)}) AS {body}")
        statement = f"CREATE MACRO {qualified(alias, self.schema, self.name)} {', '.join(forms)}"
        check_placeholders(statement, f"the macro {self.full_name}")
        return statement


def macros(reader: CatalogReader, version: int) -> list[Macro]:
    """The macros of a lake at a snapshot."""
    with reader.transaction() as transaction:
        rows, declared = transaction.rows(_MACROS, [version]), transaction.rows(_PARAMETERS)
    parameters = defaultdict[tuple[int, int], list[tuple[str, ...]]](list)
    for macro_id, impl_id, *parameter in declared:
        parameters[macro_id, impl_id].append(tuple(parameter))
    forms = defaultdict[tuple[int, str, str, str], list[tuple[list[tuple[str, ...]], str]]](list)
    for macro_id, impl_id, schema, name, kind, sql in rows:
        forms[macro_id, schema, name, kind].append((parameters[macro_id, impl_id], sql))
    return [
        Macro(schema, name, _KINDS.get(kind, "MACRO"), tuple(each)) for (_, schema, name, kind), each in forms.items()
    ]


def _parameter(name: str, type_name: str, default: str, default_type: str) -> str:
    """A parameter as SQL."""
    declared = identifier(name)
    if type_name != _NONE:
        declared += f" {_type(name, type_name)}"
    if default_type != _NONE:
        declared += f" := CAST({literal(str(default))} AS {_type(name, default_type)})"
    return declared


def _type(parameter: str, type_name: str) -> str:
    own = duckdb_name(str(type_name))
    if own is None:
        raise UnsupportedError(f"its parameter {parameter!r} has the type {type_name}")
    return own
