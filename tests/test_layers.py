"""Imports point one way: from the command line down to the errors, and never back."""

from __future__ import annotations

import graphlib

import pytest
from source_tree import Import, all_imports, imports_of

BASE = {"errors", "placeholders", "logs", "forms", "secret", "sql", "versions", "duckdb_errors"}
CATALOG = BASE | {"connection", "catalog"}
STORE = BASE | {"attach_options", "connection", "backends", "migration", "store"}
GUARD = {"locks", "file_locks", "server_locks", "places", "marker", "guard"}
COMMIT = (
    CATALOG
    | GUARD
    | {
        "engines",
        "commits",
        "conflicts",
        "delete_files",
        "audits",
        "kept_files",
        "settle",
        "committer",
        "change",
        "transaction",
    }
)
WRITES = COMMIT | {"definition", "writes"}
LAKE = (
    WRITES
    | STORE
    | {
        "shared_connection",
        "config",
        "contents",
        "reads",
        "staged_rows",
        "partitioning",
        "clauses",
        "merge",
        "table",
        "stream",
        "cleanup",
        "compaction",
        "maintenance_commit",
        "upkeep",
        "model_runs",
        "lake",
    }
)
# Each part of lakeconf, and the parts that it may import. What is not a key here is not a part.
LAYERS: dict[str, set[str]] = {
    "__main__": {"cli"},
    "errors": set(),
    "logs": set(),
    "forms": set(),
    "secret": {"errors", "forms"},
    "sql": {"errors", "secret"},
    "versions": set(),
    "placeholders": {"errors"},
    "attach_options": BASE,
    "duckdb_errors": {"errors", "forms", "secret", "versions"},
    "connection": BASE,
    "backends": BASE | {"attach_options"},
    "migration": BASE | {"connection", "backends"},
    "store": STORE,
    "config": STORE,
    "locks": BASE,
    "file_locks": BASE | {"locks"},
    "server_locks": STORE | {"locks"},
    "places": CATALOG | {"backends", "store"},
    "marker": CATALOG,
    "guard": CATALOG | GUARD | {"store"},
    "catalog": CATALOG,
    "engines": CATALOG,
    "commits": CATALOG,
    "conflicts": CATALOG,
    "audits": CATALOG,
    "kept_files": CATALOG,
    "settle": CATALOG | {"kept_files"},
    "delete_files": CATALOG | {"conflicts"},
    "shared_connection": {"connection"},
    "committer": BASE | {"locks"},
    "change": CATALOG | {"engines", "commits", "conflicts"},
    "transaction": COMMIT,
    "definition": CATALOG | {"engines"},
    "writes": WRITES,
    "staged_rows": COMMIT,
    "partitioning": CATALOG | {"engines"},
    "clauses": CATALOG | {"engines"},
    "merge": WRITES | {"staged_rows", "clauses"},
    "contents": CATALOG | {"conflicts"},
    "reads": CATALOG | {"engines", "transaction", "contents"},
    "table": WRITES | {"reads", "partitioning", "staged_rows", "merge"},
    "stream": {"errors", "table"},
    "cleanup": CATALOG | {"engines", "marker"},
    "model_runs": WRITES,
    "compaction": CATALOG,
    "maintenance_commit": COMMIT,
    "upkeep": COMMIT | {"maintenance_commit", "cleanup", "compaction", "contents"},
    "lake": LAKE,
    "pipelines": LAKE,
    "integrations": LAKE,
    "exports": STORE | {"config"},
    "metaxy": STORE | {"config"},
    "compare": STORE,
    "query": STORE | {"catalog"},
    "verify": LAKE,
    "maintain": LAKE,
    "sizes": LAKE,
    "report": LAKE | {"maintain", "sizes"},
    "doctor_lake": LAKE,
    "doctor_probe": CATALOG,
    "doctor": LAKE | {"doctor_lake", "doctor_probe"},
    "cli": LAKE
    | {
        "pipelines",
        "integrations",
        "verify",
        "compare",
        "exports",
        "metaxy",
        "query",
        "maintain",
        "doctor",
        "sizes",
        "report",
    },
}
# Store.open() makes the Lake that is built on stores; its annotation may name it. And a check of stores does not wait
# for what models are made of.
LATE = {("lakeconf.store", "lakeconf.lake"), ("lakeconf.cli.validate", "lakeconf.pipelines")}


def own(found: Import) -> bool:
    return found.imported.split(".")[0] == "lakeconf" and found.imported != "lakeconf.__version__"


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def violations(imports: list[Import]) -> list[str]:
    """The imports that point back, or stand inside a function."""
    wrong = []
    for found in filter(own, imports):
        source, target = layer(found.importer), layer(found.imported)
        if (found.importer, found.imported) in LATE:
            allowed = found.late or found.typing
        else:
            allowed = not found.late and (source in ("", target) or target in LAYERS.get(source, set()))
        if not allowed:
            wrong.append(f"{found.importer}:{found.line} imports {found.imported}{' inside a function' * found.late}")
    return wrong


def test_imports_point_one_way() -> None:
    assert violations(all_imports()) == []


def test_no_two_modules_need_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for found in filter(own, all_imports()):
        if layer(found.importer) and (found.importer, found.imported) not in LATE:
            graph.setdefault(found.importer, set()).add(found.imported)
    graphlib.TopologicalSorter(graph).prepare()


def test_only_the_spark_engine_imports_pyspark() -> None:
    outside = [
        f"{found.importer}:{found.line}"
        for found in all_imports()
        if found.imported.split(".")[0] in {"pyspark", "py4j"}
        and not found.importer.startswith("lakeconf.engines.spark")
    ]
    assert outside == []


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("lakeconf.store", "from lakeconf.config.model import Config"),
        ("lakeconf.store", "from lakeconf import lake"),
        ("lakeconf.catalog.scan", "import lakeconf.engines.base"),
        ("lakeconf.errors", "if TYPE_CHECKING:\n    from lakeconf.sql import Attach"),
        ("lakeconf.cli.stores", "from lakeconf import init"),
        ("lakeconf.cli.stores", "def run():\n    from lakeconf.store import Store"),
        ("lakeconf.somewhere_new", "from lakeconf.store import Store"),
    ],
)
def test_the_check_sees_what_it_forbids(importer: str, source: str) -> None:
    modules = {"lakeconf.config.model", "lakeconf.engines.base", "lakeconf.lake", "lakeconf.sql", "lakeconf.store"}
    assert len(violations(imports_of(importer, source, modules))) == 1


def test_the_one_late_import_is_allowed() -> None:
    source = "class Store:\n    def open(self):\n        from lakeconf.lake import Lake"
    assert violations(imports_of("lakeconf.store", source, {"lakeconf.lake"})) == []
