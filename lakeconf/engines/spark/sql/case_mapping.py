"""Upper and lower case of text as in DuckDB, which maps each character to one character."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.value_types import VARCHAR, call, spark_cast, value_type

# Characters that Java maps in another way, in the form of its regular expressions. A test compares all characters.
OTHER_UPPER = (
    r"\x{149}\x{19b}\x{1f0}\x{264}\x{390}\x{3b0}\x{587}\x{1c8a}\x{1e96}-\x{1e9a}\x{1f50}-\x{1f56}\x{1f80}-\x{1ffc}"
    r"\x{a7cd}-\x{a7db}\x{fb00}-\x{fb17}\x{10d70}-\x{10d85}\x{16ebb}-\x{16ed3}"
)
OTHER_LOWER = r"\x{1c89}\x{a7cb}-\x{a7dc}\x{10d50}-\x{10d65}\x{16ea0}-\x{16eb8}"
# Java makes two letters of these, or its result depends on the letters around them.
_UPPER, _LOWER = ("ß", "ẞ"), ("Σİ", "\u03c3i")


def upper(text: exp.Expr) -> exp.Expr:
    """Spark's expression for `upper(text)` in DuckDB."""
    return _mapped("upper", text, _UPPER, OTHER_UPPER)


def lower(text: exp.Expr) -> exp.Expr:
    """Spark's expression for `lower(text)` in DuckDB."""
    return _mapped("lower", text, _LOWER, OTHER_LOWER)


def _mapped(name: str, text: exp.Expr, changed: tuple[str, str], other: str) -> exp.Expr:
    mapped = call(name, call("translate", text.copy(), *map(exp.Literal.string, changed)))
    message = exp.Literal.string(f"{name}() of a letter that DuckDB and Java map differently: run the query on DuckDB")
    refused = spark_cast(call("raise_error", message), value_type(VARCHAR))
    differs = call("regexp_like", text.copy(), exp.Literal.string(f"[{other}]"))
    return exp.Case(ifs=[exp.If(this=differs, true=refused)], default=mapped)
