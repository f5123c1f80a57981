"""Fields of structs and elements of lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, refused
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import call


def is_list(value: exp.Expr) -> bool:
    """True for a value whose type in DuckDB is a list."""
    return type_of(value).name.endswith("[]")


def translated_list_length(node: exp.Expr) -> exp.Expr:
    """Translates `len(list)`.

    Raises:
        UnsupportedError: The value is no list.
    """
    if not is_list(node.this):
        raise refused(node)
    return cast(call("array_size", node.this.copy()), type_of(node))


def _is_struct(value: exp.Expr) -> bool:
    return type_of(value).name.startswith("STRUCT(") and not is_list(value)


def _field(node: exp.Expr) -> exp.Expr:
    """`struct.field`."""
    if not _is_struct(node.this) or not isinstance(node.expression, exp.Identifier):
        raise refused(node)
    return node


def _extracted(node: exp.Expr) -> exp.Expr:
    """`struct_extract(struct, 'field')`."""
    return _named_field(node, node.expression)


def _element(node: exp.Expr) -> exp.Expr:
    """`list[3]` and `struct['field']`."""
    key, *others = node.expressions
    if others:
        raise refused(node)
    if _is_struct(node.this):
        return _named_field(node, key)
    if not is_list(node.this) or not isinstance(key, exp.Literal) or not key.name.isdigit():
        raise refused(node)
    # sqlglot counts from 0. Both engines return NULL behind the last element.
    return call("try_element_at", node.this.copy(), exp.Literal.number(int(key.name) + 1))


def _named_field(node: exp.Expr, key: exp.Expr) -> exp.Expr:
    if not _is_struct(node.this) or not isinstance(key, exp.Literal) or not key.is_string:
        raise refused(node)
    return exp.Dot(this=node.this.copy(), expression=exp.to_identifier(key.name, quoted=True))


NESTED_VALUES: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Dot: _field,
    exp.StructExtract: _extracted,
    exp.Bracket: _element,
    exp.ArraySize: translated_list_length,
}
