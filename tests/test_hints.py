"""Every hint says what to do: it begins with a verb, or proposes the name that was meant, and what it names exists."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

import click
from hint_words import is_fix
from source_tree import sources, strings_of
from written_hints import CALL, COMMAND, OPTION, TREES, hints, name_of, whole

from lakeconf import Lake, Store, Table
from lakeconf.cli.app import COMMANDS
from lakeconf.config.codes import Code
from lakeconf.errors import suggestion
from lakeconf.lake.maintenance import Maintenance
from lakeconf.lake.run_journal import RunJournal
from lakeconf.wording import byte_size, parsed_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


DESTRUCTIVE = re.compile(r"\b(delet|drop|overwrit|rebuild|expire|replac|repair|clean)\w*", re.IGNORECASE)
# What following a hint with such a word changes. No hint may be the reason that rows of a lake are lost: it names the
# rows, asks for a copy or a comparison first, or leads to a command that shows its plan and asks.
CONSEQUENCES = {
    "drop it first: lake.drop_table(": "a table in whose place the user creates a view",
    "drop it first: lakeconf branch --drop": "a branch in whose place the user makes another one",
    "drop the branch with `lakeconf branch": "a branch that cannot be read any more",
    "drop the table in the branch, create it there": "no rows: the lake that the branch was made of has them",
    "or delete the file if it does not exist": "the pin of a branch that was deleted",
    "DROP VIEW …": "views and macros that have no rows",
    "PRAGMA journal_mode = DELETE": "the journal of a copy",
    "expire these snapshots first": "old snapshots, which the user names",
    'lake.execute("DELETE FROM …")': "rows of the table that the user adds",
    "run it as your own query": "SQL that is stored in a lake",
    ".expire_snapshots(…) and .cleanup(…)": "names methods that are documented",
    "compare both, then drop the damaged table": "a table whose rows have been copied",
    "drop it with DuckDB if another program created it": "a table that lakeconf cannot use",
    "drop the table and create it again": "a table whose rows have been copied",
    "renew the credentials, which have expired": "nothing in the lake",
    "and rewrite the files with DuckDB": "files, by the same rows",
    "reset_index(drop=True)": "the index of a frame in memory",
    "replace the NULL": "a value of the frame",
    ".overwrite(…)": "rows, by the same rows",
    "table.overwrite(table.scan())": "rows, by the same rows",
    "delete it while no writer is active": "a lock file without content",
    "exclude lock files": "nothing",
    "doctor --store STORE --repair": "the marker of a data path, after a question",
    "to keep the files, delete the rows": "a list of files to delete, so that they are kept",
    "delete them yourself if they are not needed": "warns of files that a lost catalog may need",
    "lake.drop_view(…)": "a view",
    "write it again with its columns": "a file without columns",
    "--rebuild": "a model, after a plan that counts the rows",
    "overwrite(frame, where=…)": "rows that the user names",
    "drop or rename it first": "a table that the user has to choose",
    "drop the table in another transaction": "what the user had asked for",
    "drop …": "what depends on a column that the user drops",
    "with an overwrite": "rows, by the same rows",
    "rename the column: table.evolve": "the name of a column",
}
ARGUMENT = re.compile(r"(?:^|, )(\w+)=")
OWNERS: dict[str, tuple[type[Any], ...]] = {
    **dict.fromkeys(("lake", "tx"), (Lake, Table)),
    "table": (Table,),
    "store": (Store,),
    "maintenance": (Maintenance,),
    "runs": (RunJournal,),
}
# What looks like a command or an option, and is one of another tool, or a word of a sentence.
OF_OTHERS = {"--upgrade", "does", "reserves"}

# They ask where a key is, and report nothing.
PLACES = ("lakeconf/config/config.py",)


def test_hints_begin_with_a_verb() -> None:
    found = [
        (f"{module}:{node.lineno}", text)
        for module, tree in TREES.items()
        for node in hints(tree)
        for text in beginnings(node, assigned(tree))
    ]
    assert len(found) > 400
    assert [one for one in found if not is_fix(one[1])] == []
    assert [text for text in ("Path of the catalog file.", "valid keys: a, b") if is_fix(text)] == []


def test_a_hint_that_is_followed_does_no_harm() -> None:
    found = {text for tree in TREES.values() for node in hints(tree) if DESTRUCTIVE.search(text := whole(node))}
    assert len(found) > 30
    assert [text for text in sorted(found) if not any(part in text for part in CONSEQUENCES)] == []
    assert [part for part in CONSEQUENCES if not any(part in text for text in found)] == []


def test_hints_are_found() -> None:
    """The search above sees arguments, variables, tables, conditions and the text before the first value."""
    source = """
CONSTANT = "constant"
_TYPE_HINTS = {"a": "table"}
_BY_MESSAGE: tuple = (("a", "b", "row"),)
def key_fix(): return f"written {x}"
def f(hint):
    other = "variable" if x else "second"
    raise E("…", hint=other)
    raise E("…", hint=CONSTANT + y)
    raise E("…", hint=suggestion(a, b, f"suggested {c}") or "last")
    Problem(code, "…", "positional")
"""
    tree = ast.parse(source)
    seen = {text for node in hints(tree) for text in beginnings(node, assigned(tree))}
    assert seen == {"constant", "table", "written ", "variable", "second", "suggested ", "last", "positional", "row"}


def test_every_problem_has_a_hint() -> None:
    """The calls that report a code all pass one."""
    calls = {
        f"{module}:{call.lineno}": call
        for module, tree in TREES.items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and reports(call) and not module.startswith(PLACES)
    }
    assert len(calls) > len(Code)
    assert [place for place, call in calls.items() if not has_hint(call)] == []


def reports(call: ast.Call) -> bool:
    """True if a call reports a problem with a code."""
    if name_of(call.func).lstrip("_") not in ("Problem", "problem", "report", "refused"):
        return False
    return any("Code." in ast.unparse(argument) for argument in call.args)


def assigned(tree: ast.Module) -> Mapping[str, list[ast.expr]]:
    """The values that each variable of a module is set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
                found.setdefault(target.id, []).append(node.value)
    return found


def beginnings(node: ast.expr, texts: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """The texts that a hint can begin with; none if a function or another module decides."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from filter(None, [node.value])
    elif isinstance(node, ast.JoinedStr):
        first = node.values[0]
        yield from beginnings(first.value if isinstance(first, ast.FormattedValue) else first, texts)
    elif isinstance(node, ast.IfExp):
        yield from (text for part in (node.body, node.orelse) for text in beginnings(part, texts))
    elif isinstance(node, ast.BoolOp):
        yield from (text for part in node.values for text in beginnings(part, texts))
    elif isinstance(node, ast.BinOp):
        yield from beginnings(node.left, texts)
    elif isinstance(node, ast.Name):
        others = {name: values for name, values in texts.items() if name != node.id}
        yield from (text for value in texts.get(node.id, []) for text in beginnings(value, others))
    elif isinstance(node, ast.Call) and name_of(node.func) == "suggestion":
        yield from (text for part in node.args[2:] for text in beginnings(part, texts))
    elif isinstance(node, ast.Call) and name_of(node.func) in ("lstrip", "format"):
        yield from beginnings(node.func.value, texts) if isinstance(node.func, ast.Attribute) else ()


def has_hint(call: ast.Call) -> bool:
    """True if a call passes a hint: by name, or as the third argument of a problem."""
    by_name = any(
        keyword.arg == "hint" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in call.keywords
    )
    return by_name or (name_of(call.func) == "Problem" and len(call.args) > 2)


def test_suggestion_is_a_similar_name_or_the_list() -> None:
    for word, hint in (
        *((each, 'did you mean "Region"?') for each in ("regoin", "REGION")),
        ("nothing_like_it", "there are Region, bucket"),
    ):
        assert suggestion(word, ["Region", "bucket"], "there are Region, bucket") == hint


def test_only_one_module_suggests_names_and_one_formats_sizes() -> None:
    strings = {name: strings_of(path.read_text()) for name, path in sources().items()}
    suggesting = {name for name, texts in strings.items() if any("did you mean" in one for one in texts)}
    # It resolves a name without its schema, which is not a guess.
    assert suggesting - {"lakeconf.catalog.queries.stored_queries"} == {"lakeconf.errors"}
    assert {name for name, texts in strings.items() if {"B", "KiB", "kB", "MB"} & set(texts)} == {"lakeconf.wording"}


def test_byte_size_uses_binary_units_and_an_option_both() -> None:
    counts = (0, 1023, 1024, 1536, 512 * 2**20, 2.5 * 2**30, 2**50)
    texts = ["0 B", "1023 B", "1 KiB", "1.5 KiB", "512 MiB", "2.5 GiB", "1024 TiB"]
    assert [byte_size(count) for count in counts] == texts
    sizes: dict[str, int | None] = {"": None, "MB": None, "0": 0, "7": 7, "7b": 7, "5 parsecs": 5}
    sizes |= {"1.5 kB": 1500, "512MB": 512 * 10**6, "2GB": 2 * 10**9, "1 tb": 10**12}
    sizes |= {"1KiB": 1024, "3 MiB": 3 * 2**20, "1GiB": 2**30}
    assert {text: parsed_size(text) for text in sizes} == sizes


@functools.cache
def commands() -> dict[str, click.Command]:
    """The commands by name."""
    return {
        str(command.name): command
        for module in set(COMMANDS.values())
        for command in vars(importlib.import_module(module)).values()
        if isinstance(command, click.Command) and command.name in COMMANDS
    }


def options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def unknown_names(text: str) -> Iterator[str]:
    """The names in a hint that do not exist."""
    known = commands()
    everywhere = set[str]().union(*map(options, known.values()), ("--help", "--version"))
    for name, rest in COMMAND.findall(text):
        if name in OF_OTHERS:
            continue
        if name not in known:
            yield f"lakeconf {name}"
            continue
        yield from (f"lakeconf {name} {option}" for option in set(OPTION.findall(rest)) - options(known[name]))
    yield from set(OPTION.findall(text)) - everywhere - OF_OTHERS
    for owner, method, arguments in CALL.findall(text):
        found = [getattr(kind, method) for kind in OWNERS[owner] if hasattr(kind, method)]
        if not found:
            yield f"{owner}.{method}"
        for argument in ARGUMENT.findall(arguments):
            if found and not any(accepts(each, argument) for each in found):
                yield f"{owner}.{method}({argument}=…)"


def accepts(method: Any, argument: str) -> bool:
    parameters = inspect.signature(method).parameters
    return argument in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def test_each_name_in_a_hint_exists() -> None:
    texts = {whole(node) for tree in TREES.values() for node in hints(tree)}
    assert len(texts) > 300
    assert {text: unknown for text in texts if (unknown := sorted(unknown_names(text)))} == {}


def test_names_that_do_not_exist_are_seen() -> None:
    text = "run lakeconf vacuum STORE, lakeconf tables --every, lake.compact(), or table.scan(rows=1): --nothing"
    assert sorted(unknown_names(text)) == [
        *("--every", "--nothing", "lake.compact", "lakeconf tables --every", "lakeconf vacuum", "table.scan(rows=…)"),
    ]
