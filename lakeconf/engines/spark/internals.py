"""All calls of private pyspark functions, and all calls of Spark's JVM through py4j.

`tests/engines/spark/test_internals.py` has a contract test for each function: run it with each new version of Spark.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from importlib import resources
from types import NoneType
from typing import Any, NamedTuple, Protocol, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from lakeconf.engines.spark.versions import aliases_inherit
from lakeconf.errors import SparkError

_MOST_CAUSES = 20
# The catalog class is in a package of Spark, because only a class of the same package can define it.
_CATALOG_PACKAGE = "org.apache.spark.sql.connector.catalog"
CATALOG_CLASS = f"{_CATALOG_PACKAGE}.LakeCatalog"
_defining = threading.Lock()
# They have no types.
_launch_gateway: Callable[[], Any] = launch_gateway
_ensure_callback_server: Callable[[Any], None] = ensure_callback_server_started
# What answers to a request: its method, its values, and perhaps a frame. The answer is a frame, or values for JSON.
Answer: TypeAlias = Callable[[str, Mapping[str, Any], DataFrame | None], Any]
# The constructors of compiled classes, by name, for the JVM that the process used last.
_compiled: dict[str, tuple[Any, Any]] = {}
# The active session of pyspark, which is one for all threads: what the first thread found, the last one restores.
_keeping = threading.Lock()
_kept: list[SparkSession | None] = []


def require_classic(spark: SparkSession) -> None:
    """Rejects a session of Spark Connect."""
    if not hasattr(spark, "_jsparkSession"):
        raise SparkError(
            "lakeconf cannot use a session of Spark Connect: it needs access to Spark's JVM",
            hint="use a classic session, created without SparkSession.builder.remote(…), or use DuckDB: store.open()",
        )


def is_running(spark: SparkSession) -> bool:
    """False if a session was stopped, or its JVM has ended."""
    context = spark.sparkContext._jsc  # None once this process has stopped it
    try:
        return context is not None and not context.sc().isStopped()
    except (Py4JError, ConnectionError):
        return False


def _jvm(spark: SparkSession) -> Any:
    require_classic(spark)
    return spark._jvm


def _java(spark: SparkSession, class_name: str) -> Any:
    """A Java class; by parts as in `jvm.java.util`, py4j would search all JAR files for a class of each part's name."""
    return getattr(_jvm(spark), class_name)


def new_session(spark: SparkSession, settings: Mapping[str, str], kept: Collection[str]) -> SparkSession:
    """A session of the same application with these settings; it keeps only the Spark SQL settings in `kept`."""
    properties = _java(spark, "java.util.Properties")()
    for key, value in settings.items():
        properties.setProperty(key, value)
    session = spark._jsparkSession.newSession()
    configuration = session.sessionState().conf()
    # A new session starts with the settings of the application.
    for key in _keys(configuration.getAllConfs()):
        if key.startswith("spark.sql.") and key not in kept:
            configuration.unsetConf(key)
    configuration.setConf(properties)
    return SparkSession(spark.sparkContext, session)


def cloned_session(spark: SparkSession) -> SparkSession:
    """A session of the same application that starts with the same settings."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def setting_names(spark: SparkSession) -> set[str]:
    """The names of a session's settings; `spark.conf.getAll` takes longer than the rest of a scan."""
    require_classic(spark)
    return _keys(spark._jsparkSession.conf().getAll())


def _keys(settings: Any) -> set[str]:
    """The keys of a Scala map, in one call."""
    return {line.partition(" -> ")[0] for line in str(settings.mkString("\n")).split("\n")}


@contextlib.contextmanager
def active_session_kept(spark: SparkSession) -> Iterator[None]:
    """Restores the active session: creating a frame in a private session activates the private session."""
    sessions = _java(spark, "org.apache.spark.sql.classic.SparkSession")
    in_jvm = sessions.getActiveSession()
    with _keeping:
        _kept.append(_kept[0] if _kept else SparkSession._activeSession)
    try:
        yield
    finally:
        with _keeping:
            previous = _kept.pop()
            if not _kept:
                SparkSession._activeSession = previous
        if in_jvm.isDefined():
            sessions.setActiveSession(in_jvm.get())
        else:
            sessions.clearActiveSession()


def rebind(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Moves a frame to another session: it joins with that session's frames and runs with its settings.

    Its relations keep the session that made them, and with it the settings of their readers.
    """
    plan = frame._jdf.queryExecution().analyzed()
    dataset = _java(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(dataset, spark)


def row_width(frame: DataFrame) -> int:
    """Spark's default size of a row in bytes, from its types only."""
    return int(frame._jdf.schema().defaultSize())


def frame_type(frame: DataFrame) -> str:
    """The names and types of a frame's columns in one string, without nullability."""
    return str(frame._jdf.schema().catalogString())


def has_user_types(frame: DataFrame) -> bool:
    """True if a frame may have types whose classes PySpark imports when it looks at the frame's schema."""
    return '"udt"' in str(frame._jdf.schema().json())


def schema_type(spark: SparkSession, schema: StructType) -> str:
    """Like `frame_type`, for a schema."""
    return str(spark._jsparkSession.parseDataType(schema.json()).catalogString())


class Columns:
    """Creates columns in the JVM: pyspark's functions need ten times as many calls for each column."""

    def __init__(self, spark: SparkSession) -> None:
        self._inherit = aliases_inherit(spark)
        self._by_name = _java(spark, "org.apache.spark.sql.functions").col
        self._no_metadata = _java(spark, "org.apache.spark.sql.types.Metadata").empty()

    def named(self, name: str) -> Column:
        """The column of a quoted name."""
        return ClassicColumn(self._by_name(name))

    def renamed(self, column: Column, name: str) -> Column:
        """The column under another name, without metadata."""
        plain: Any = functions.coalesce(column) if self._inherit else column  # another expression has no metadata
        return ClassicColumn(getattr(plain._jc, "as")(name, self._no_metadata))


class Call(NamedTuple):
    """A part of a column: a function and its operands, each a `Call` or a constant of Python.

    The function is `column` for a reference, with the parts of its name, and `case` for `when`, with pairs of a
    condition and a value, and the other value.
    """

    function: str
    operands: tuple[Any, ...]


def column_tree(column: Column) -> Any:
    """The calls and constants of which a column consists; other parts are calls without operands."""
    if not isinstance(column, ClassicColumn):
        return Call("Connect column", ())
    return _tree(column._jc.node())


def _tree(node: Any) -> Any:
    kind = str(node.getClass().getSimpleName())
    if kind == "Alias":
        return _tree(node.child())
    if kind == "UnresolvedAttribute":
        return Call("column", tuple(str(node.nameParts().mkString("\0")).split("\0")))
    if kind == "UnresolvedFunction" and not node.isDistinct():
        return Call(str(node.functionName()), tuple(map(_tree, _items(node.arguments()))))
    if kind == "CaseWhenOtherwise":
        other = node.otherwise()
        pairs = [part for pair in _items(node.branches()) for part in (_tree(pair._1()), _tree(pair._2()))]
        return Call("case", (*pairs, _tree(other.get()) if other.isDefined() else None))
    if kind == "Literal":
        value = node.value()
        if isinstance(value, bool | int | float | str | Decimal | NoneType):
            return value
        if value.getClass().getSimpleName() in ("Date", "LocalDate"):
            return date.fromisoformat(str(value.toString()))
    return Call(kind, ())


def _items(values: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [values.apply(position) for position in range(values.size())]


def long_array(spark: SparkSession, content: bytes) -> Column:
    """An array of longs as a literal in the plan; `content` contains them as little-endian, 8 bytes each."""
    array = _gateway(spark).new_array(_jvm(spark).long, len(content) // 8)
    order = _java(spark, "java.nio.ByteOrder").LITTLE_ENDIAN
    _java(spark, "java.nio.ByteBuffer").wrap(content).order(order).asLongBuffer().get(array)
    types, expressions = (
        _java(spark, "org.apache.spark.sql.types.DataTypes"),
        "org.apache.spark.sql.catalyst.expressions",
    )
    may_be_null = False
    type_ = types.createArrayType(types.LongType, may_be_null)
    values = _java(spark, f"{expressions}.UnsafeArrayData").fromPrimitiveArray(array)
    value = _java(spark, f"{expressions}.Literal")(values, type_)
    return ClassicColumn(_java(spark, "org.apache.spark.sql.classic.ExpressionUtils").column(value))


def _gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def read_footers(spark: SparkSession, files: Iterable[str], settings: Mapping[str, str]) -> tuple[list[int], list[str]]:
    """The results of `Footers`: the number of each file's schema, and the schemas as text."""
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    for key, value in settings.items():
        configuration.set(key, value)
    reader = _compiled_object(spark, "Footers", configuration)
    numbers = [int(number) for text in files for number in str(reader.read(text)).split(",")]
    return numbers, [str(reader.schema(number)) for number in range(int(reader.count()))]


def with_file_index(frame: DataFrame, files: Iterable[str]) -> DataFrame:
    """The relation of a frame over `PlannedFiles`, whose `add` takes strings that describe files."""
    spark = frame.sparkSession
    relation = frame._jdf.queryExecution().analyzed().relation()
    index = _compiled_object(spark, "PlannedFiles", relation)
    for text in files:
        index.add(text)
    same = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
    indexed = relation.copy(index, *same, relation.options(), relation.sparkSession())
    return DataFrame(spark._jsparkSession.baseRelationToDataFrame(indexed), spark)


def written_files(frame: DataFrame, uri: str, options: Mapping[str, str], by: Iterable[str]) -> dict[str, int]:
    """The unescaped URIs of the files that `ReportedFiles` has written for a frame, with their sizes."""
    spark = frame.sparkSession
    convert = _java(spark, "org.apache.spark.api.python.PythonUtils")
    scala = (convert.toScalaMap(dict(options)), convert.toSeq(list(by)))
    files = str(_compiled_object(spark, "ReportedFiles", frame._jdf, uri, *scala).write()).split("\0")
    return dict(zip(files[::2], map(int, files[1::2]), strict=False))


def _compiled_object(spark: SparkSession, name: str, *values: Any) -> Any:
    """An object of a class in the folder `java`, compiled on first use; only the driver's JVM knows the class."""
    return _object(_gateway(spark), spark._jsparkSession.getClass().getClassLoader(), name, *values)


def _object(gateway: Any, loader: Any, name: str, *values: Any) -> Any:
    arguments = gateway.new_array(gateway.jvm.Object, len(values))
    for position, value in enumerate(values):
        arguments[position] = value
    return _constructor(gateway.jvm, loader, name).newInstance(arguments)


def _constructor(jvm: Any, loader: Any, name: str) -> Any:
    owner, constructor = _compiled.get(name, (None, None))
    if owner is not jvm:
        # Spark ships this compiler for the code that it generates.
        compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
        compiler.setParentClassLoader(loader)
        # Two threads may compile the class. py4j remembers methods by the names of classes, so each has its own.
        package = f"lakeconf.compiled_{uuid.uuid4().hex}"
        source = _sources()[f"{name}.java"].replace("package lakeconf;", f"package {package};", 1)
        compiler.cook(source)
        constructor = compiler.getClassLoader().loadClass(f"{package}.{name}").getConstructors()[0]
        _compiled[name] = (jvm, constructor)
    return constructor


def _sources(*folder: str) -> dict[str, str]:
    """The Java files of a folder."""
    files = resources.files("lakeconf.engines.spark").joinpath("java", *folder).iterdir()
    return {file.name: file.read_text("utf-8") for file in files if file.name.endswith(".java")}


def define_catalog(spark: SparkSession) -> None:
    """Defines the catalog class, and the others in the folder `java/catalog`, unless the JVM has them."""
    neighbour = spark._jsparkSession.getClass().getClassLoader().loadClass(f"{_CATALOG_PACKAGE}.TableCatalog")
    with _defining:
        try:
            neighbour.getClassLoader().loadClass(CATALOG_CLASS)
        except Py4JJavaError:  # it is not defined yet
            _definitions(_compiled_object(spark, "Definitions", neighbour)).define()
        else:
            check_catalog(spark, str(_java(spark, f"{_CATALOG_PACKAGE}.LakeProcess").digest()))


def _definitions(definitions: Any) -> Any:
    for name, source in _sources("catalog").items():
        definitions.add(name, source)
    return definitions


def catalog_classes() -> tuple[dict[str, bytes], str]:
    """The code of the catalog class and the others by the names of their files, and the version of Spark it is for."""
    gateway = _launch_gateway()
    try:
        loader = getattr(gateway.jvm, "java.lang.ClassLoader").getSystemClassLoader()
        neighbour = loader.loadClass(f"{_CATALOG_PACKAGE}.TableCatalog")
        codes = _definitions(_object(gateway, loader, "Definitions", neighbour)).compile()
        version = str(getattr(gateway.jvm, "org.apache.spark.package").SPARK_VERSION())
        return {str(name): bytes(codes[name]) for name in codes}, version
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def catalog_digest(version: str) -> str:
    """Identifies the classes of the catalog, as compiled for a version of Spark."""
    return hashlib.sha256(json.dumps([version, sorted(_sources("catalog").items())]).encode()).hexdigest()


def check_catalog(spark: SparkSession, digest: str) -> None:
    """Rejects classes of a JAR file that another version of lakeconf has written, or for another version of Spark."""
    if digest and digest != catalog_digest(spark.version):
        raise SparkError(
            "the JAR file of the catalog is of another version of lakeconf or Spark",
            hint="write it again: lakeconf export spark",
        )


def started_session() -> SparkSession:
    """The session for which the class `LakeProcess` has started this process."""
    gateway = _launch_gateway()
    jvm = gateway.jvm
    session = getattr(jvm, f"{_CATALOG_PACKAGE}.LakeProcess").session()
    java_context = getattr(jvm, "org.apache.spark.api.java.JavaSparkContext").fromSparkContext(session.sparkContext())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jvm=jvm, _jconf=java_context.getConf()))
    default = getattr(jvm, "org.apache.spark.sql.classic.SparkSession").getDefaultSession()
    # The first session of a process becomes the default one of the JVM.
    SparkSession(context, default.get() if default.isDefined() else session)
    return SparkSession(context, session)


class _Server:
    """Answers to Java's requests, in the Python thread that waits for Spark."""

    def __init__(self, spark: SparkSession, answer: Answer) -> None:
        self._spark = spark
        self._answer = answer
        # Every user of the machine can connect to the server that py4j starts for callbacks.
        self.password = secrets.token_hex()

    def apply(self, request: str, frame: Any) -> Any:
        """Java's method of a function with two arguments."""
        password, method, text = request.split("\0", 2)
        if not secrets.compare_digest(password, self.password):
            raise SparkError("a request to lakeconf does not come from this session's Spark")
        answer = self._answer(method, json.loads(text), None if frame is None else self._framed(frame))
        return answer._jdf if isinstance(answer, DataFrame) else json.dumps(answer)

    def _framed(self, frame: Any) -> DataFrame:
        """A frame with the settings of its own session: each client of a server has one."""
        return DataFrame(frame, SparkSession(self._spark.sparkContext, frame.sparkSession()))

    class Java:
        """The interface that py4j implements."""

        implements = ("java.util.function.BiFunction",)


def serve(spark: SparkSession, answer: Answer) -> str:
    """Lets the catalog class send its requests for a lake to Python; returns the lake's id for the settings."""
    _ensure_callback_server(_gateway(spark))
    server, identity = _Server(spark, answer), uuid.uuid4().hex
    _java(spark, f"{_CATALOG_PACKAGE}.LakeServer").register(identity, server, server.password)
    _java(spark, f"{_CATALOG_PACKAGE}.LakeCatalog").install(spark._jsparkSession)
    return identity


def configure(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Sets settings of a session, and of the sessions that its application starts or resets later."""
    # New sessions have those of the first; `RESET` returns to those of the second.
    for configuration in (spark._jsparkSession.sharedState().conf(), spark.sparkContext._jsc.sc().conf()):
        for key, value in settings.items():
            configuration.set(key, value)
    for key, value in settings.items():
        spark.conf.set(key, value)


class Configuration(Protocol):
    """Hadoop's `Configuration`."""

    def get(self, name: str) -> str | None: ...
    def set(self, name: str, value: str) -> None: ...


def hadoop_version(spark: SparkSession) -> str:
    """The version of Hadoop that a session runs, such as `3.5.0`."""
    return str(_java(spark, "org.apache.hadoop.util.VersionInfo").getVersion())


def hadoop_configuration(spark: SparkSession) -> Configuration:
    """The Hadoop settings of a session's application."""
    require_classic(spark)
    configuration: Configuration = spark.sparkContext._jsc.hadoopConfiguration()
    return configuration


def file_system_configuration(spark: SparkSession, uri: str) -> Configuration:
    """The active Hadoop settings for the files below a URI."""
    path = _java(spark, "org.apache.hadoop.fs.Path")(uri)
    configuration: Configuration = path.getFileSystem(hadoop_configuration(spark)).getConf()
    return configuration


def remove_file(spark: SparkSession, uri: str) -> None:
    """Removes a file or a folder with its contents, if it exists."""
    path, recursive = _java(spark, "org.apache.hadoop.fs.Path")(uri), True
    path.getFileSystem(hadoop_configuration(spark)).delete(path, recursive)


def move_file(spark: SparkSession, source: str, target: str) -> bool:
    """Renames a file and creates its folder; in a bucket, the server copies the file. Returns False if it cannot."""
    old, new = (_java(spark, "org.apache.hadoop.fs.Path")(uri) for uri in (source, target))
    system = old.getFileSystem(hadoop_configuration(spark))
    system.mkdirs(new.getParent())
    return bool(system.rename(old, new))


def error_texts(error: BaseException) -> list[str]:
    """The text of an error of pyspark or py4j, and those of the Java exceptions that caused it."""
    return [str(error), *(str(cause.getMessage()) for cause in _java_exceptions(error))]


def lost_file(error: BaseException) -> str | None:
    """What an error of pyspark or py4j says about a missing file; None if it has another cause."""
    missing = (
        exception
        for exception in _java_exceptions(error)
        if exception.getClass().getName() == "java.io.FileNotFoundException"
    )
    return next((str(exception.getMessage()) for exception in missing), None)


def _java_exceptions(error: BaseException) -> list[Any]:
    causes: list[Any] = []
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None and len(causes) < _MOST_CAUSES:
        causes.append(cause)
        cause = cause.getCause()
    return causes
