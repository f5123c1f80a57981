"""Requested types and conversions for DuckLake types that Spark's Parquet reader does not support.

The reader accepts any INT64 as a long and any byte array as binary, whatever their logical types. Times, UUIDs,
intervals and nanoseconds therefore stay in its vectorised path.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, TimestampType, VariantType

from lakeconf.catalog.column_types import Fact, decimal_digits, has, integer_bits, names_with
from lakeconf.catalog.tables import Column as DuckLakeColumn
from lakeconf.engines.spark.read.file_schemas import MILLISECONDS
from lakeconf.engines.spark.spark_types import leaf_type

Convert = Callable[[Column], Column]
_SECOND = 1_000_000
# DuckDB's number for `infinity`, in any unit.
_INFINITY = (1 << 63) - 1
_WHOLE = re.compile(r"u?int(8|16|32|64)|boolean")
_NAIVE = names_with(Fact.NAIVE) | {"INT96"}
_TEXT = frozenset(("varchar", "json"))
_ZONED = frozenset(("timestamptz", MILLISECONDS))


def _whole(value: Column, divisor: int) -> Column:
    return F.call_function("div", value, F.lit(divisor))


def _fraction(microseconds: Column) -> Column:
    digits = F.rtrim(F.format_string("%06d", microseconds), F.lit("0"))
    return F.when(microseconds == 0, F.lit("")).otherwise(F.concat(F.lit("."), digits))


def _clock(microseconds: Column) -> Column:
    seconds = _whole(microseconds, _SECOND)
    clock = F.format_string(
        "%02d:%02d:%02d", _whole(seconds, 3600), _whole(seconds, 60) % F.lit(60), seconds % F.lit(60)
    )
    return F.concat(clock, _fraction(microseconds % F.lit(_SECOND)))


def time_from_micros(value: Column) -> Column:
    """A time of day as DuckDB formats it: `12:34:56.5`."""
    return F.when(value.isNotNull(), _clock(value))


def zoned_time_from_micros(value: Column) -> Column:
    """Like `time_from_micros`, in UTC: Parquet stores no offset."""
    return F.when(value.isNotNull(), F.concat(_clock(value), F.lit("+00")))


def uuid_from_bytes(value: Column) -> Column:
    """A UUID as text."""
    digits = F.lower(F.hex(value))
    ends = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    text = F.concat_ws("-", *(F.substring(digits, start, length) for start, length in ends))
    return F.when(value.isNotNull(), text)


def naive_from_micros(value: Column) -> Column:
    """A timestamp without zone from microseconds since 1970; unlike a cast, it does not use the session's time zone."""
    return F.timestamp_add("MICROSECOND", value, F.lit("1970-01-01").cast("timestamp_ntz"))


def timestamp_from_nanos(value: Column) -> Column:
    """A timestamp without zone; infinity stays infinity; fails for a value that does not fit Spark's microseconds."""
    refusal = F.raise_error(
        F.concat(
            F.lit("lakeconf: a TIMESTAMP_NS has more digits than Spark's microseconds; read it with DuckDB: "),
            value.cast("string"),
            F.lit(" ns"),
        )
    )
    is_infinite = _is_infinite(value)
    exact = naive_from_micros(F.when(is_infinite, value).otherwise(_whole(value, 1000)))
    return F.when(is_infinite | (value % F.lit(1000) == 0), exact).when(
        value.isNotNull(), refusal.cast("timestamp_ntz")
    )


def timestamp_from_millis(value: Column) -> Column:
    """A timestamp without zone; infinity stays infinity, in microseconds."""
    is_infinite = _is_infinite(value)
    # Unlike a product, this fails for a value that is too large even if the session ignores overflows.
    micros = F.unix_micros(F.timestamp_millis(F.when(~is_infinite, value)))
    return naive_from_micros(F.when(is_infinite, value).otherwise(micros))


def _is_infinite(value: Column) -> Column:
    return (value == _INFINITY) | (value == -_INFINITY)


def decimal_from_double(value: Column) -> Column:
    """The exact integer that DuckLake stores as a double; Spark's own cast rounds it to its shortest text."""
    base = 2.0**32
    power = F.lit(base)
    high = _truncated(value / (power * power * power))
    rest = value - high * (power * power * power)
    total = None
    for digit, weight in ((high, 2**96), (None, 2**64), (None, 2**32), (None, 1)):
        if digit is None:
            digit = _truncated(rest / F.lit(float(weight)))  # noqa: PLW2901
            rest = rest - digit * F.lit(float(weight))
        part = digit.cast("long").cast("decimal(20,0)")
        total = part if total is None else (total * F.lit(2**32).cast("decimal(12,0)")).cast("decimal(38,0)") + part
    assert total is not None  # noqa: S101 - four digits were added
    return total.cast("decimal(38,0)")


def _truncated(value: Column) -> Column:
    return F.when(value >= 0, F.floor(value)).otherwise(F.ceil(value)).cast("double")


def null_from_variant_null(value: Column) -> Column:
    """A variant; as in DuckDB, a variant null is NULL."""
    return F.when(~F.is_variant_null(value), value)


def interval_from_bytes(value: Column) -> Column:
    """An interval as DuckDB formats it: `1 year 2 months 3 days 04:05:06.5`; Parquet has no negative ones."""
    months, days, millis = (_little_endian(value, offset) for offset in (0, 4, 8))
    parts = [
        _counted(_whole(months, 12), "year"),
        _counted(months % F.lit(12), "month"),
        _counted(days, "day"),
        F.when(millis != 0, _clock(millis * 1000)),
    ]
    text = F.concat_ws(" ", *parts)
    return F.when(value.isNotNull(), F.when(text == "", F.lit("00:00:00")).otherwise(text))


def _little_endian(value: Column, offset: int) -> Column:
    digits = F.hex(value)
    swapped = F.concat(*(F.substring(digits, 2 * (offset + byte) + 1, 2) for byte in (3, 2, 1, 0)))
    return F.conv(swapped, 16, 10).cast("long")


def _counted(number: Column, unit: str) -> Column:
    text = F.concat(number.cast("string"), F.lit(f" {unit}"), F.when(number == 1, "").otherwise("s"))
    return F.when(number != 0, text)


# For these stored types: the type requested from Spark's reader, and the conversion to the Spark type.
_STORED: dict[str, tuple[DataType, Convert]] = {
    "uuid": (BinaryType(), uuid_from_bytes),
    "time": (LongType(), time_from_micros),
    "timetz": (LongType(), zoned_time_from_micros),
    "timestamp_ms": (LongType(), timestamp_from_millis),
    "timestamp_ns": (LongType(), timestamp_from_nanos),
    "interval": (BinaryType(), interval_from_bytes),
    "variant": (VariantType(), null_from_variant_null),
    "INT96": (TimestampType(), lambda value: naive_from_micros(F.unix_micros(value))),
}


def leaf_reading(stored: str, column: DuckLakeColumn) -> tuple[DataType, Convert | None] | None:
    """How to read a stored value as a value of a column."""
    target = leaf_type(column.type, column.name)
    if has(column.type, Fact.AS_DOUBLE) and stored == "float64":
        return DoubleType(), decimal_from_double
    if stored in _STORED:
        read, convert = _STORED[stored]
        return (read, convert) if column.type == stored or {column.type, stored} <= _NAIVE else None
    kinds = {column.type, stored}
    if stored == column.type or any(kinds <= alike for alike in (_NAIVE, _TEXT, _ZONED)):
        return target, None
    if not casts_alike(stored, column.type):
        return None
    return leaf_type(stored, column.name), lambda value: value.cast(target)


def casts_alike(stored: str, target: str) -> bool:
    """True if Spark's cast returns the same value as DuckDB's."""
    if _WHOLE.fullmatch(stored):
        numeric = integer_bits(target) or decimal_digits(target)
        return bool(numeric) or target == "boolean" or has(target, Fact.FLOAT)
    if decimal_digits(stored):
        return decimal_digits(target) is not None
    return (stored, target) == ("float32", "float64") or (stored == "date" and target in _NAIVE)
