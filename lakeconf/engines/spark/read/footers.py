"""The schema of a Parquet file, from its footer. Spark's driver reads footers only if a plan needs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import is_file_not_found, read_footers
from lakeconf.engines.spark.read.file_index import in_texts
from lakeconf.engines.spark.read.relation import WITHOUT_CHECKSUMS
from lakeconf.errors import StorageError

_CACHED_FILES = 100_000
_AT_ONCE = "32"
_IN_A_CALL = 1000
_NAME = "lakeconf.Footers"
_SOURCE = """
package lakeconf;

import java.net.URLEncoder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.hadoop.Footer;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.Type;

public class Footers {
    private final Configuration settings;
    private final HashMap numbers = new HashMap();
    private final ArrayList schemas = new ArrayList();

    public Footers(Configuration settings) { this.settings = settings; }
    public int count() { return schemas.size(); }
    public String schema(int number) { return (String) schemas.get(number); }

    // Sizes and paths, each followed by NUL, to numbers of schemas.
    public String read(String text) throws Exception {
        ArrayList files = new ArrayList();
        for (int start = 0; start < text.length();) {
            int middle = text.indexOf(0, start), end = text.indexOf(0, middle + 1);
            long size = Long.parseLong(text.substring(start, middle));
            files.add(new FileStatus(size, false, 1, 0L, 0L, new Path(text.substring(middle + 1, end))));
            start = end + 1;
        }
        List footers = ParquetFileReader.readAllFootersInParallel(settings, files, true);
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < footers.size(); at++) {
            FileMetaData content = ((Footer) footers.get(at)).getParquetMetadata().getFileMetaData();
            StringBuilder schema = new StringBuilder(encoded(String.valueOf(content.getCreatedBy())));
            fields(content.getSchema(), 0, schema);
            String shown = schema.toString();
            if (!numbers.containsKey(shown)) {
                numbers.put(shown, Integer.valueOf(schemas.size()));
                schemas.add(shown);
            }
            found.append(at == 0 ? "" : ",").append(numbers.get(shown));
        }
        return found.toString();
    }

    // A line for each field: depth, field id, repetition, physical type of a leaf, logical type, name.
    private static void fields(GroupType group, int depth, StringBuilder text) throws Exception {
        for (int at = 0; at < group.getFieldCount(); at++) {
            Type field = group.getType(at);
            text.append('\\n').append(depth).append('\\t');
            text.append(field.getId() == null ? "" : String.valueOf(field.getId().intValue())).append('\\t');
            text.append(field.getRepetition()).append('\\t');
            text.append(field.isPrimitive() ? field.asPrimitiveType().getPrimitiveTypeName().toString() : "");
            text.append('\\t');
            Object logical = field.getLogicalTypeAnnotation();
            text.append(logical == null ? "" : logical.toString()).append('\\t').append(encoded(field.getName()));
            if (!field.isPrimitive()) fields(field.asGroupType(), depth + 1, text);
        }
    }

    private static String encoded(String name) throws Exception { return URLEncoder.encode(name, "UTF-8"); }
}
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of a Parquet file, or the file as a whole.

    Attributes:
        name: Its name in the file; for the file as a whole, the program that wrote it.
        field_id: Its field id, if it has one.
        type: The DuckLake type that DuckLake stores this way: `int32`, `timestamp`, `struct`, `list`, …; otherwise
            Parquet's name of the type, in upper case.
        children: Fields of a struct, the element of a list, key and value of a map.
    """

    name: str
    field_id: int | None
    type: str
    children: tuple[Stored, ...] = ()


# Footers never change: a file of a lake is written once. The key is path and size; the oldest are evicted first.
_cache_lock = threading.Lock()
_cache: OrderedDict[tuple[str, int], Stored] = OrderedDict()
# A timestamp with time zone in milliseconds; DuckLake itself writes microseconds.
MILLISECONDS = "timestamptz_ms"
_LOGICAL = {
    ("BOOLEAN", ""): "boolean",
    ("INT32", ""): "int32",
    ("INT64", ""): "int64",
    ("INT96", ""): "INT96",
    ("FLOAT", ""): "float32",
    ("DOUBLE", ""): "float64",
    ("BINARY", ""): "blob",
    ("BINARY", "STRING"): "varchar",
    ("BINARY", "ENUM"): "varchar",
    ("BINARY", "JSON"): "json",
    ("INT32", "DATE"): "date",
    ("INT64", "TIME(MICROS,false)"): "time",
    ("INT64", "TIME(MICROS,true)"): "timetz",
    ("INT64", "TIMESTAMP(MICROS,false)"): "timestamp",
    ("INT64", "TIMESTAMP(MILLIS,false)"): "timestamp_ms",
    ("INT64", "TIMESTAMP(NANOS,false)"): "timestamp_ns",
    ("INT64", "TIMESTAMP(MICROS,true)"): "timestamptz",
    ("INT64", "TIMESTAMP(MILLIS,true)"): MILLISECONDS,
    ("FIXED_LEN_BYTE_ARRAY", "UUID"): "uuid",
    ("FIXED_LEN_BYTE_ARRAY", "INTERVAL"): "interval",
    **{("INT32", f"INTEGER({bits},true)"): f"int{bits}" for bits in (8, 16, 32)},
    **{("INT32", f"INTEGER({bits},false)"): f"uint{bits}" for bits in (8, 16, 32)},
    ("INT64", "INTEGER(64,true)"): "int64",
    ("INT64", "INTEGER(64,false)"): "uint64",
}


def footers(private: SparkSession, files: Sequence[tuple[str, int]]) -> list[Stored]:
    """The schema of each file: a struct of its columns, with the name of the program that wrote the file.

    Args:
        private: The session of the scan.
        files: Path and size of each.

    Raises:
        StorageError: A file is missing, has another size, or is not Parquet.
    """

    def read(unknown: Sequence[tuple[str, int]]) -> list[Stored]:
        settings = {**WITHOUT_CHECKSUMS, "parquet.metadata.read.parallelism": _AT_ONCE}
        texts = in_texts([(spark_uri(path), size) for path, size in unknown], _IN_A_CALL)
        try:
            numbers, texts = read_footers(private, texts, settings, _NAME, _SOURCE)
        except Py4JJavaError as error:
            problem = "is missing" if is_file_not_found(error) else "is not Parquet, or has another size"
            raise StorageError(f"a file of the table {problem}: {error.java_exception.getMessage()}") from None
        schemas = list(map(_schema, texts))
        return [schemas[number] for number in numbers]

    return remembered(files, read)


def remembered(
    files: Sequence[tuple[str, int]], read: Callable[[Sequence[tuple[str, int]]], Sequence[Stored]]
) -> list[Stored]:
    """The schema of each file; reads only those that this process does not know.

    Args:
        files: Path and size of each.
        read: Reads the schemas of some files.
    """
    # Another thread may remove any of them from the cache at any time.
    known = {file: found for file in files if (found := _cache.get(file)) is not None}
    unknown = [file for file in files if file not in known]
    if unknown:
        read_now = dict(zip(unknown, read(unknown), strict=True))
        known |= read_now
        with _cache_lock:
            _cache.update(read_now)
            while len(_cache) > _CACHED_FILES:
                _cache.popitem(last=False)
    return [known[file] for file in files]


def _schema(text: str) -> Stored:
    """The schema from a text of the Java class: a line for the writer, and for each field in the order of the file."""
    writer, *lines = text.split("\n")
    below: list[list[Stored]] = [[]]
    # From the last line to the first, the fields of a group come before it.
    for line in reversed(lines):
        depth_text, *facts, name = line.split("\t")
        depth = int(depth_text)
        while len(below) <= depth + 1:
            below.append([])
        children = tuple(reversed(below[depth + 1]))
        below[depth + 1] = []
        below[depth].append(_field(unquote_plus(name), facts, children))
    return Stored(unquote_plus(writer), None, "struct", tuple(reversed(below[0])))


def _field(name: str, facts: Sequence[str], inner: tuple[Stored, ...]) -> Stored:
    identifier, repetition, physical, logical = facts
    type_, children = (leaf_type_name(physical, logical), inner) if physical else group_type_name(inner, logical)
    if repetition == "REPEATED":
        type_ = f"REPEATED {type_}"
    return Stored(name, int(identifier) if identifier else None, type_, children)


def leaf_type_name(physical: str, logical: str) -> str:
    """The type of a field that is not nested, as `Stored.type`.

    Args:
        physical: Parquet's name of its physical type.
        logical: Its logical type, as Spark's Parquet library writes it; empty without one.
    """
    if logical.startswith("DECIMAL("):
        return logical.lower()
    if logical.startswith("GEOMETRY"):
        return "geometry"
    return _LOGICAL.get((physical, logical), f"{physical} {logical}".strip())


def group_type_name(children: tuple[Stored, ...], logical: str) -> tuple[str, tuple[Stored, ...]]:
    """The type of a nested field, as `Stored.type`, and its children.

    Args:
        children: Its fields in the file.
        logical: Its logical type, as for `leaf_type_name`.
    """
    if logical in ("LIST", "MAP") and len(children) == 1:
        (inner,) = children
        expected = {"LIST": 1, "MAP": 2}[logical]
        if inner.type == "REPEATED struct" and len(inner.children) == expected:
            return logical.lower(), inner.children
        return f"legacy {logical}", children
    names = [child.name for child in children]
    if logical.startswith("VARIANT") or (names[:2] == ["metadata", "value"] and children[0].field_id is None):
        return "variant", ()
    return "struct", children
