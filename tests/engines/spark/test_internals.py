"""Contracts of Spark's private calls: each test is named after the call, and fails if a Spark version changes it."""

from __future__ import annotations

import ast
import shlex
import struct
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import py4j.java_gateway
import pyspark
import pytest
from jvm_calls import execution_of, jvm_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StringType, StructField, StructType
from source_tree import sources

from lakeconf.engines.spark import internals
from lakeconf.engines.spark.read import file_index, file_schemas
from lakeconf.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def written(spark: SparkSession, folder: Path) -> DataFrame:
    """A relation over two files with three rows."""
    for number, rows in (("1", 1), ("2", 2)):
        spark.range(rows).coalesce(1).write.parquet(f"{folder}/{number}")
    return spark.read.parquet(f"{folder}/1", f"{folder}/2")


def test_hasattr_jsparksession_distinguishes_classic_from_connect(spark: SparkSession) -> None:
    class Connected:
        """Like `pyspark.sql.connect.session.SparkSession`, which needs additional packages."""

        def __getattr__(self, name: str) -> object:
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})

    internals.require_classic(spark)
    for call in (internals.require_classic, internals.setting_names, internals.hadoop_configuration):
        with pytest.raises(SparkError, match="cannot use a session of Spark Connect"):
            call(Connected())  # type: ignore[arg-type]
    refused = (Path(pyspark.__file__).parent / "sql" / "connect" / "session.py").read_text()
    assert '"_jvm", "_jsparkSession"' in refused


def test_jsc_sc_isstopped_tells_a_session_that_has_ended(spark: SparkSession) -> None:
    """tests/engines/spark/write/test_storage.py stops and kills one."""
    assert internals.is_running(spark)


def test_newsession_sessionstate_conf_unsetconf_and_setconf(spark: SparkSession) -> None:
    key, other = "spark.sql.shuffle.partitions", "spark.sql.session.timeZone"
    made = internals.new_session(spark, {"spark.sql.ansi.enabled": "false"}, [key])
    of_application = spark.sparkContext.getConf().get(key)
    assert (made.conf.get("spark.sql.ansi.enabled"), made.conf.get(key)) == ("false", of_application)
    # The application of the tests starts with a time zone other than the machine's.
    assert made.conf.get(other) != "America/New_York"
    assert made.sparkContext is spark.sparkContext


def test_clonesession_copies_settings_once(spark: SparkSession) -> None:
    first = internals.new_session(spark, {"spark.sql.shuffle.partitions": "7"}, [])
    second = internals.cloned_session(first)
    second.conf.set("spark.sql.shuffle.partitions", "8")
    assert [each.conf.get("spark.sql.shuffle.partitions") for each in (first, second)] == ["7", "8"]


def test_conf_getall_mkstring_lists_setting_names(spark: SparkSession) -> None:
    made = internals.new_session(spark, {"spark.sql.shuffle.partitions": "7", "fs.some.key": "a -> b"}, [])
    assert {"spark.sql.shuffle.partitions", "fs.some.key"} <= internals.setting_names(made)


def test_activesession_is_restored_in_python_and_in_the_jvm(spark: SparkSession) -> None:
    made = internals.new_session(spark, {}, [])
    before = SparkSession.getActiveSession()
    with internals.active_session_kept(spark):
        made.range(1)
        internals.rebind(made.range(1), made)
    after = SparkSession.getActiveSession()
    assert before is not None
    assert after is not None
    assert after._jsparkSession.equals(before._jsparkSession)


def test_activesession_is_restored_after_threads_that_overlap(spark: SparkSession) -> None:
    before = SparkSession._activeSession
    first, second = internals.active_session_kept(spark), internals.active_session_kept(spark)
    first.__enter__()
    SparkSession._activeSession = spark.newSession()
    second.__enter__()
    SparkSession._activeSession = spark.newSession()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert SparkSession._activeSession is before


def test_dataset_ofrows_with_an_analysed_plan_rebinds_a_frame(spark: SparkSession) -> None:
    made = internals.new_session(spark, {}, [])
    with internals.active_session_kept(spark):
        frame = made.range(3)
    rebound = internals.rebind(frame, spark)
    assert rebound.sparkSession is spark
    assert rebound.crossJoin(spark.range(2)).count() == 6


def test_jdf_schema_defaultsize_is_the_row_width(spark: SparkSession) -> None:
    assert internals.row_width(spark.range(1).selectExpr("id", "CAST(id AS INT) AS i")) == 12


def test_catalogstring_of_a_frame_equals_that_of_parsedatatype(spark: SparkSession) -> None:
    schema = StructType([StructField("A b", LongType(), nullable=False), StructField("s", StringType())])
    frame = spark.createDataFrame([(1, "x")], schema)
    assert internals.frame_type(frame) == internals.schema_type(spark, schema) == "struct<A b:bigint,s:string>"


def test_jdf_schema_json_shows_user_defined_types(spark: SparkSession) -> None:
    kind = '{"type": "udt", "pyClass": "a.B", "serializedClass": "", "sqlType": "long"}'
    schema = f'{{"type": "struct", "fields": [{{"name": "v", "type": {kind}, "nullable": true, "metadata": {{}}}}]}}'
    parsed = spark._jsparkSession.parseDataType(schema)
    made = type(spark.range(1))(spark._jsparkSession.read().schema(parsed).json("/dev/null"), spark)
    assert internals.has_user_types(made)
    assert not internals.has_user_types(spark.range(1))


def test_functions_col_and_as_with_metadata_create_columns(spark: SparkSession) -> None:
    frame = spark.range(1).select(F.col("id").alias("a.b", metadata={"k": "v"}))
    made = internals.Columns(spark)
    (field,) = frame.select(made.renamed(made.named("`a.b`"), "c")).schema
    assert (field.name, field.metadata) == ("c", {})


def test_node_has_the_functions_of_a_column(spark: SparkSession) -> None:
    assert spark.version
    column = F.when((F.col("a b") + 1).isin(2, "x"), F.lit(date(2026, 1, 2))).otherwise(F.expr("other")).alias("c")
    call = internals.Call
    total = call("+", (call("column", ("a b",)), 1))
    assert internals.column_tree(column) == call(
        "case", (call("in", (total, 2, "x")), date(2026, 1, 2), call("SqlExpression", ()))
    )


def test_unsafearraydata_of_a_new_array_is_a_literal(spark: SparkSession) -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63)]
    literal = internals.long_array(spark, struct.pack("<4q", *numbers))
    assert spark.range(1).select(literal.alias("a")).collect() == [(numbers,)]


def test_full_names_find_classes_without_a_search_for_packages(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py4j looks for a class of the name of each package, in all JAR files: `org`, `org.apache` and so on."""
    frame, uri = spark.range(3), f"file://{tmp_path}/new"
    (tmp_path / "old").touch()
    searched: list[str] = []

    def package(name: str, *_: object, **__: object) -> None:
        searched.append(name)
        raise AssertionError(name)

    monkeypatch.setattr(py4j.java_gateway, "JavaPackage", package)
    internals._compiled.clear()
    made = internals.new_session(spark, {}, [])
    with internals.active_session_kept(spark):
        internals.rebind(frame, made)
    columns = internals.Columns(spark)
    columns.renamed(columns.named("id"), "other")
    internals.long_array(spark, bytes(8))
    internals.hadoop_version(spark)
    internals.file_system_configuration(spark, uri)
    assert internals.move_file(spark, f"file://{tmp_path}/old", uri)
    internals.remove_file(spark, uri)
    internals.written_files(frame, uri, {}, [])
    assert searched == []


def test_relation_copy_and_janino_replace_the_fileindex(spark: SparkSession, tmp_path: Path) -> None:
    (path, *_) = sorted(written(spark, tmp_path).inputFiles())
    size = Path(path.removeprefix("file://")).stat().st_size
    texts = [f"{size}\0{path}\0"]
    fixed = internals.with_file_index(spark.read.schema("id BIGINT").parquet(), texts)
    assert "PlannedFiles" in str(execution_of(fixed).analyzed().relation().location().getClass())
    assert 0 < fixed.count() < 3


def test_lookup_defines_the_catalog_class_and_the_callback_server_answers_it(spark: SparkSession) -> None:
    own, asked = spark.newSession(), []

    def answer(method: str, values: object, frame: object) -> object:
        asked.append((method, values, frame))
        return {"schemas": ["s"]}

    for _ in range(2):
        internals.define_catalog(own)
    key = "spark.sql.catalog.some"
    internals.configure(own, {f"{key}.lake": internals.serve(own, answer), key: internals.CATALOG_CLASS})
    assert (own.conf.get(key), spark.newSession().conf.get(key)) == (internals.CATALOG_CLASS,) * 2
    assert [row.namespace for row in own.sql("SHOW NAMESPACES IN some").collect()] == ["s"]
    assert asked == [("schemas", {"version": None}, None)]
    with pytest.raises(SparkError, match="does not come from this session's Spark"):
        internals._Server(own, answer).apply("guessed\0schemas\0{}", None)


@pytest.mark.slow
def test_launch_gateway_compiles_the_catalog_without_a_session(spark: SparkSession) -> None:
    codes, version = internals.catalog_classes()
    assert f"{internals.CATALOG_CLASS.replace('.', '/')}.class" in codes
    assert all(code.startswith(b"\xca\xfe\xba\xbe") for code in codes.values())
    assert version == spark.version
    for digest in ("", internals.catalog_digest(version)):
        internals.check_catalog(spark, digest)
    with pytest.raises(SparkError, match="the JAR file of the catalog is of another version"):
        internals.check_catalog(spark, internals.catalog_digest("4.0.0"))


@pytest.mark.slow
def test_py4jserver_gives_a_python_process_the_session_that_starts_it(spark: SparkSession, tmp_path: Path) -> None:
    code = f"spark = internals.{internals.started_session.__name__}()"
    program, seen = tmp_path / "python", tmp_path / "seen"
    code += f"; open({str(seen)!r}, 'w').write(f'{{spark.sparkContext.applicationId}} {{spark.range(3).count()}}')"
    line = shlex.join([sys.executable, "-c", f"from lakeconf.engines.spark import internals; {code}"])
    program.write_text(f"#!/bin/sh\nexec {line}\n")
    program.chmod(0o700)
    own, key = spark.newSession(), "spark.sql.catalog.program"
    internals.define_catalog(own)
    internals.configure(own, {key: internals.CATALOG_CLASS, f"{key}.store": "dev", f"{key}.python": str(program)})
    jvm = jvm_of(spark)
    default = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    with pytest.raises(AnalysisException, match="the Python process of lakeconf did not start"):
        own.sql("SHOW NAMESPACES IN program")  # it does not answer
    assert seen.read_text() == f"{spark.sparkContext.applicationId} 3"
    assert jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().equals(default)


def test_readallfootersinparallel_reads_schema_and_writer(spark: SparkSession, tmp_path: Path) -> None:
    paths = sorted(written(spark, tmp_path).inputFiles())
    texts = [f"{Path(path.removeprefix('file://')).stat().st_size}\0{path}\0" for path in paths]
    settings = {"parquet.metadata.read.parallelism": "2"}
    numbers, (schema,) = internals.read_footers(spark, texts, settings)
    assert numbers == [0] * len(paths)
    assert schema.startswith("parquet-mr")
    assert [line.split("\t")[-1] for line in schema.split("\n")[1:]] == ["id"]


def test_a_class_that_two_threads_have_compiled_works_in_both(spark: SparkSession, tmp_path: Path) -> None:
    """py4j remembers the methods of a class by its name."""
    path = sorted(written(spark, tmp_path).inputFiles())[0].removeprefix("file://")
    texts = [f"{Path(path).stat().st_size}\0{path}\0"]
    for _ in range(2):
        numbers, _schemas = internals.read_footers(spark, texts, {})
        assert numbers == [0]
        internals._compiled.clear()


def test_versioninfo_returns_the_hadoop_version(spark: SparkSession) -> None:
    assert internals.hadoop_version(spark).split(".")[0].isdecimal()


def test_jsc_hadoopconfiguration_belongs_to_the_application(spark: SparkSession) -> None:
    internals.hadoop_configuration(spark).set("lakeconf.test", "x")
    assert internals.hadoop_configuration(spark).get("lakeconf.test") == "x"
    assert internals.hadoop_configuration(spark).get("lakeconf.test.none") is None


def test_getfilesystem_getconf_returns_the_effective_configuration(spark: SparkSession, tmp_path: Path) -> None:
    assert internals.file_system_configuration(spark, tmp_path.as_uri()).get("fs.defaultFS") == "file:///"
    with pytest.raises(Py4JJavaError):
        internals.file_system_configuration(spark, "nonsense://bucket/file")


def test_hadoop_path_finds_and_removes_files(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "100% a.txt"
    file.parent.mkdir()
    file.write_text("x")
    uri = f"file://{file}"
    internals.remove_file(spark, f"file://{file.parent}")
    assert not file.parent.exists()
    internals.remove_file(spark, uri)


def test_rename_moves_a_file_to_a_new_folder(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "a b.txt", tmp_path / "new" / "p=%20:x" / "c.txt"
    source.write_text("x")
    assert internals.move_file(spark, f"file://{source}", f"file://{target}")
    assert (source.exists(), target.read_text()) == (False, "x")
    assert not internals.move_file(spark, f"file://{source}", f"file://{target}")


def test_compiled_commit_protocol_returns_the_files_of_the_tasks(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/new"
    found = internals.written_files(spark.range(0, 3, 1, 2), uri, {"compression": "none"}, [])
    written = sorted((tmp_path / "new").iterdir())
    assert found == {f"file:{path}": path.stat().st_size for path in written}
    assert list(found) == [f"file:{path}" for path in written]
    assert len(found) == 2


def test_origin_and_java_exception_contain_the_causes(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="planted") as of_pyspark:
        spark.range(1).select(F.raise_error(F.lit("planted"))).collect()
    with pytest.raises(Py4JJavaError) as of_py4j:
        internals.file_system_configuration(spark, "nonsense://bucket/file")
    for error, text in ((of_pyspark.value, "planted"), (of_py4j.value, "nonsense")):
        assert any(text in found for found in internals.error_texts(error)[1:])
    assert internals.error_texts(ValueError("plain")) == ["plain"]


def test_a_missing_file_is_told_from_other_errors(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("not Parquet")
    for name, missing in (("nothing", True), ("other", False)):
        files = file_index.in_texts([(f"file://{tmp_path}/{name}", 11)], file_schemas._FOOTERS_IN_A_CALL)
        with pytest.raises(Py4JJavaError) as raised:
            internals.read_footers(spark, files, file_index.WITHOUT_CHECKSUMS)
        assert (internals.lost_file(raised.value) is not None) is missing


def private_names(source: str) -> list[str]:
    """Attributes with a leading underscore, except on `self` and `cls`, and imports of private pyspark modules."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.append(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = node.args[1]
            if not isinstance(name, ast.Constant) or str(name.value).startswith("_"):
                found.append(ast.unparse(name))
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(("pyspark.sql.classic", "py4j.java")):
            found.append(str(node.module))
    return found


def test_only_internals_uses_private_names_of_pyspark() -> None:
    engine = {name: path for name, path in sources().items() if name.startswith("lakeconf.engines.spark")}
    internal = engine.pop(internals.__name__)
    assert {name: found for name, path in engine.items() if (found := private_names(path.read_text()))} == {}
    assert {"_jvm", "_jdf", "_jsparkSession", "_gateway", "_jsc", "_jc"} <= set(private_names(internal.read_text()))


def test_every_function_of_internals_has_a_contract_test() -> None:
    tree = ast.parse(sources()[internals.__name__].read_text())
    public = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    with open(__file__) as file:
        tested = {ast.unparse(node) for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Attribute)}
    assert {name for name in public if f"internals.{name}" not in tested} == set()
