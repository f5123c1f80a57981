"""Imports point one way, and the limits of files, functions and folders hold."""

from __future__ import annotations

import ast
import graphlib
from collections import Counter

from source_tree import PACKAGE, Import, all_imports, imports_of, sources

# The top-level modules, each with the modules that it may import.
BASE: dict[str, set[str]] = {
    "arguments": {"errors"},
    "wording": set(),
    "errors": {"logs"},
    "logs": set(),
    "secret": {"errors"},
    "ducklake": {"errors"},
    "sql": {"errors", "secret"},
}
CATALOG = {*BASE, "connection", "catalog"}
STORE = {*BASE, "connection", "backends", "store"}
COMMIT = CATALOG | {"engines", "guard", "commit"}
LAKE = COMMIT | STORE | {"write", "lake"}
# Each folder of lakeconf (and the store), with the folders and modules that it may import.
LAYERS: dict[str, set[str]] = BASE | {
    "connection": {*BASE},
    "catalog": CATALOG,
    "backends": {*BASE, "connection"},
    "engines": CATALOG | {"backends"},
    "store": STORE,
    "config": STORE,
    "guard": CATALOG | {"backends", "guard"},
    "commit": COMMIT,
    "write": COMMIT,
    "lake": LAKE,
    "inspection": LAKE,
    "transfer": LAKE | {"inspection"},
    "pipelines": LAKE | {"config"},
    "integrations": LAKE | {"config"},
    "datasource": LAKE | {"config"},
    "cli": LAKE | {"config", "inspection", "transfer", "pipelines", "integrations"},
    "__main__": {"cli"},
}
# The only exceptions to the order: a store opens, attaches, moves and backs up a lake, and lakes are built on stores.
TRANSFERS = ("backup", "move", "restore_lake")
BACK = {
    ("lakeconf.store", f"lakeconf.{name}")
    for name in (
        "lake.lake",
        "lake.named_lake",
        "lake.opening",
        "lake.branches.branching",
        "guard.backups",
        "guard.pins",
        *(f"transfer.{name}" for name in TRANSFERS),
    )
}
# Function-level imports that follow the order; they load slow modules or optional dependencies.
LAZY = {
    ("lakeconf.engines.spark.column_expressions", "lakeconf.engines.spark.internals"),
    ("lakeconf.commit.transaction_commit", "lakeconf.commit.audits"),
    ("lakeconf.lake.opening", "lakeconf.engines.spark.classic_engine"),
    ("lakeconf.lake.opening", "lakeconf.engines.spark.connect.connect_engine"),
    ("lakeconf.lake.opening", "lakeconf.engines.spark.versions"),
    ("lakeconf.lake.opening", "lakeconf.guard.backups"),
    ("lakeconf.lake.lake", "lakeconf.lake.adoption.adoption"),
    ("lakeconf.engines.spark.start", "lakeconf.engines.spark.hadoop"),
    ("lakeconf.engines.spark.start", "lakeconf.engines.spark.named_tables"),
    ("lakeconf.lake.named_lake", "lakeconf.engines.spark.named_tables"),
    ("lakeconf.integrations.exports", "lakeconf.engines.spark.named_tables"),
    ("lakeconf.cli.config_commands", "lakeconf.pipelines"),
    ("lakeconf.cli.config_commands", "lakeconf.pipelines.models.unit_tests"),
    ("lakeconf.cli.change_commands", "lakeconf.inspection.table_copy"),
    ("lakeconf.cli.inspect_commands", "lakeconf.inspection.metrics"),
    ("lakeconf.cli.inspect_commands", "lakeconf.transfer.repair_catalog"),
    ("lakeconf.cli.pipeline_commands", "lakeconf.pipelines.openlineage"),
    ("lakeconf.cli", "lakeconf.cli.app"),
    ("lakeconf.integrations.pytest", "lakeconf.config.config"),
    ("lakeconf.integrations.pytest", "lakeconf.backends.registry"),
}
# Modules that import from a table of names: public names, commands and backends.
BY_TABLE = {"lakeconf", "lakeconf.cli.app", "lakeconf.backends.registry"}


def own(found: Import) -> bool:
    return found.imported.split(".")[0] == "lakeconf" and found.imported != "lakeconf.__version__"


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


FORBIDDEN = [
    ("lakeconf.store", "from lakeconf.config.config import Config"),
    ("lakeconf.store", "from lakeconf import lake"),
    ("lakeconf.catalog.pruning.scan_plan", "import lakeconf.engines.engine"),
    ("lakeconf.errors", "if TYPE_CHECKING:\n    from lakeconf.sql import Attach"),
    ("lakeconf.cli.config_commands", "from lakeconf import init"),
    ("lakeconf.cli.config_commands", "def run():\n    from lakeconf.store import Store"),
    ("lakeconf.catalog.pruning.scan_plan", "def run():\n    importlib.import_module('lakeconf.engines.engine')"),
    ("lakeconf.somewhere_new", "from lakeconf.store import Store"),
]


def test_forbidden_imports_are_found() -> None:
    modules = {f"lakeconf.{name}" for name in ("config.config", "engines.engine", "lake.lake", "sql", "store")}
    for importer, source in FORBIDDEN:
        assert len(violations(imports_of(importer, source, modules))) == 1, source
    source = "class Store:\n    def open(self):\n        from lakeconf.lake.lake import Lake"
    assert violations(imports_of("lakeconf.store", source, {"lakeconf.lake.lake"})) == []


def violations(imports: list[Import]) -> list[str]:
    """The imports against the order, and those inside functions."""
    wrong = []
    for found in filter(own, imports):
        source, target = layer(found.importer), layer(found.imported)
        if (found.importer, found.imported) in BACK:
            allowed = found.late or found.typing
        else:
            in_order = source in ("", target) or target in LAYERS.get(source, set())
            allowed = in_order and (not found.late or (found.importer, found.imported) in LAZY)
        if not allowed:
            wrong.append(f"{found.importer}:{found.line} imports {found.imported}{' inside a function' * found.late}")
    return wrong


def test_imports_follow_the_order_of_layers() -> None:
    assert violations(all_imports()) == []


def test_neither_modules_nor_layers_have_an_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for found in filter(own, all_imports()):
        if layer(found.importer) and (found.importer, found.imported) not in BACK:
            graph.setdefault(found.importer, set()).add(found.imported)
    graphlib.TopologicalSorter(graph).prepare()
    graphlib.TopologicalSorter({folder: allowed - {folder} for folder, allowed in LAYERS.items()}).prepare()


def test_only_known_modules_import_dynamically_and_only_the_spark_engine_pyspark() -> None:
    computed = {found.importer for found in all_imports() if found.imported == "?"}
    assert computed <= BY_TABLE | {"lakeconf.lake.opening"}
    pyspark = [found for found in all_imports() if found.imported.split(".")[0] in {"pyspark", "py4j"}]
    assert [found for found in pyspark if not found.importer.startswith("lakeconf.engines.spark")] == []


# The limit catches what has grown without a plan: never split a concept, or merge two, to meet it.
MAX_FILE_LINES = 600
# A facade collects the methods that users call; such a class is not split only to meet a limit.
FACADES = {"lakeconf.lake.lake", "lakeconf.store", "lakeconf.lake.table"}
MAX_FACADE_LINES = 710
MAX_FUNCTION_LINES = 40
MAX_DEPTH = 4  # lakeconf/engines/spark/read
MAX_FILES = 18  # in a folder, besides its __init__.py
NAMES_THAT_EXPLAIN_NOTHING = {"common", "core", "helpers", "manager", "misc", "utils"}


def function_length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of lines from `def` to the end, without the docstring."""
    first = node.body[0]
    docstring = 0
    if ast.get_docstring(node) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def test_files_are_short() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in sources().items()}
    limits = {name: MAX_FACADE_LINES if name in FACADES else MAX_FILE_LINES for name in lengths}
    assert {name: lines for name, lines in lengths.items() if lines > limits[name]} == {}


def test_functions_are_short_without_their_docstrings() -> None:
    lengths = {
        f"{name}:{node.lineno} {node.name}": function_length(node)
        for name, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}
    (node,) = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').body
    assert isinstance(node, ast.FunctionDef)
    assert function_length(node) == 2


def test_tree_is_shallow_its_folders_are_small_and_its_names_unique_and_descriptive() -> None:
    paths = [path.relative_to(PACKAGE.parent) for path in sources().values()]
    assert [str(path) for path in paths if len(path.parent.parts) > MAX_DEPTH] == []
    assert [str(path) for path in paths if NAMES_THAT_EXPLAIN_NOTHING & {*path.parent.parts, path.stem}] == []
    folders = Counter(path.parent for path in paths if path.stem != "__init__")
    assert {str(folder): files for folder, files in folders.items() if files > MAX_FILES} == {}
    names = Counter(path.stem for path in paths if not path.stem.startswith("__"))
    assert {name: modules for name, modules in names.items() if modules > 1} == {}
