"""DuckDB's plan of a query, to prove that two queries mean the same."""

from __future__ import annotations

import json
from typing import Any

import duckdb

_PLAN = "SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true, optimize := false)"
# Keys of a plan that only contain names or places in the text.
_NAMES = ("alias", "is_operator", "query_location", "names", "bound_columns", "column_name_map", "ctename")
_UNITS = tuple(f"to_{unit}s" for unit in ("second", "minute", "hour", "day", "week", "month", "year"))
# Other names of the same function; a test compares them with DuckDB's list.
SYNONYMS = {
    "stddev": "stddev_samp",
    "mean": "avg",
    "substr": "substring",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "mod": "%",
    "strpos": "instr",
    "position": "instr",
    "ucase": "upper",
    "lcase": "lower",
    "ends_with": "suffix",
    "ceiling": "ceil",
}
_PARTS_OF_TIME = {"dayofweek": "dow", "dayofyear": "doy"}
_SYNONYMS = {**SYNONYMS, "variance": "var_samp", "datediff": "date_diff"}


def logical_plan(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The plan that DuckDB makes of a query before it optimizes, without names and places in the text.

    Raises:
        duckdb.Error: DuckDB refuses the query.
    """
    (text,) = connection.execute(_PLAN, [sql]).fetchone() or ("",)
    found = json.loads(text)
    if found["error"]:
        raise duckdb.BinderException(str(found.get("error_message", "the query has no plan")))
    return _without_names(found["plans"])


def _without_names(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_names(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _without_names(value) for key, value in node.items() if key not in _NAMES}
    if found.get("name") in ("date_trunc", "date_diff", "datediff", "date_part"):
        # sqlglot writes the unit in capitals.
        unit = found["children"][0].get("value", {})
        unit["value"] = _PARTS_OF_TIME.get(str(unit.get("value")).lower(), str(unit.get("value")).lower())
    if found.get("name") == "struct_extract":
        # Names of fields ignore case.
        field = found["children"][1].get("value", {})
        field["value"] = str(field.get("value")).lower()
    if found.get("name") in _SYNONYMS:
        found["name"] = _SYNONYMS[found["name"]]
    interval = _interval(found)
    if interval is not None:
        return interval
    # sqlglot writes IS NOT NULL as NOT … IS NULL.
    if found.get("type") == "OPERATOR_NOT" and found["children"][0].get("type") == "OPERATOR_IS_NULL":
        return {**found["children"][0], "type": "OPERATOR_IS_NOT_NULL"}
    return found


def _interval(node: dict[str, Any]) -> dict[str, Any] | None:
    """The same for `INTERVAL 5 DAY`, `INTERVAL '5' DAY` and `INTERVAL '5 days'`; None for other expressions."""
    is_cast = node.get("type") == "OPERATOR_CAST" and node.get("return_type") == {"id": "INTERVAL"}
    if is_cast:
        words = str(_constant(node["child"])).lower().split()
        if len(words) != 2:
            return None
        number, unit = words[0], f"to_{words[1].removesuffix('s')}s"
    elif str(node.get("name", "")) in _UNITS and len(node["children"]) == 1:
        number, unit = str(_constant(node["children"][0])), node["name"]
    else:
        return None
    return {"interval": [number, unit]} if number.isdigit() and unit in _UNITS else None


def _constant(node: dict[str, Any]) -> Any:
    """The value of a constant, which DuckDB casts and truncates; None for other expressions."""
    while "child" in node or node.get("name") == "trunc":
        node = node["child"] if "child" in node else node["children"][0]
    value = node.get("value")
    return value.get("value") if isinstance(value, dict) else None
