"""Commands about the configuration: init, validate, stores, preview-sql, export, grants."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import get_args

import click

from lakeconf.backends.backend import Role
from lakeconf.cli.options import format_option, output_options, overwrite_option, store_option, stores_option
from lakeconf.cli.output import (
    check_new,
    github_annotations,
    problem_data,
    problem_text,
    show,
    show_exactly,
    show_json,
    show_lines,
    show_table,
    style,
    write_output,
)
from lakeconf.config.codes import explanation
from lakeconf.config.config import init, read, validate
from lakeconf.config.file import FILE_NAME, repository_of
from lakeconf.config.resolve import Outline
from lakeconf.config.schema import json_schema
from lakeconf.config.store_values import store_values
from lakeconf.config.warnings import warnings
from lakeconf.errors import ConfigError, Problem
from lakeconf.inspection.grants import grants
from lakeconf.integrations.exports import TOOLS, Export, export
from lakeconf.logs import escaped
from lakeconf.secret import shown
from lakeconf.wording import counted

_FIRST_CONFIGURATION = """\
default_store = "dev"

# Where the catalog is: names of tables, snapshots, files.
[stores.dev.metadata_backend]
type = "sqlite"
uri = ".lakeconf/catalog.sqlite"

# Where the Parquet files are.
[stores.dev.storage_backend]
type = "local"
path = ".lakeconf/data"
"""
# The file that editors need; see `json_schema`.
_SCHEMA = "json-schema"


@click.command("init", short_help="Write a first lakeconf.toml.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE_NAME, show_default=True)
@overwrite_option
@format_option
def init_command(output: Path, format_name: str, *, force: bool) -> None:
    """Write a lakeconf.toml with one store, `dev`, whose catalog and files are in the folder .lakeconf.

    In a git repository, the command adds .lakeconf/ to .gitignore. The page Backends of the documentation shows stores
    with other backends.
    """
    check_new(output, force=force)
    write_output(output, _FIRST_CONFIGURATION)
    ignored = _ignore(output.resolve().parent)
    if format_name == "json":
        show_json({"path": str(output), "store": "dev", "ignored": ignored})
        return
    option = "" if str(output) == FILE_NAME else f" --config {shlex.quote(str(output))}"
    show(f"wrote {output}; check it with: lakeconf validate{option}")
    if ignored:
        show("added .lakeconf/ to .gitignore", to_stderr=True)


def _ignore(folder: Path) -> bool:
    """Adds local catalogs and files to .gitignore; returns False if there is nothing to add."""
    if repository_of(folder) is None:
        return False
    path = folder / ".gitignore"
    text = path.read_text("utf-8") if path.is_file() else ""
    if {".lakeconf", ".lakeconf/", "/.lakeconf", "/.lakeconf/"} & {line.strip() for line in text.splitlines()}:
        return False
    path.write_text(f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}.lakeconf/\n", "utf-8")
    return True


@click.command("validate", short_help="Check the configuration.")
@stores_option
@click.option("--explain", "code", metavar="CODE", help="Explain an error code, such as LC012, and check nothing.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--untrusted", is_flag=True, help="Do not read environment variables; for files from untrusted sources.")
@output_options("text", "json", "github", meaning="Output format; github writes annotations.")
@click.pass_context
def validate_command(
    context: click.Context,
    stores: tuple[str, ...],
    code: str | None,
    source: str | None,
    format_name: str,
    *,
    strict: bool,
    untrusted: bool,
) -> None:
    """Check the configuration of all stores, or of those of --store, without connecting.

    Each problem is reported with file, line, column, code and hint. Missing variables are problems. If there are no
    problems, warnings report settings that are probably unintended. The exit code is 1 if there are problems.

    \b
        lakeconf validate --explain LC012
    """
    if code is not None:
        if stores or strict or untrusted or format_name not in ("text", "json"):
            raise click.UsageError("--explain checks nothing: it can be combined with --format text or json only")
        text = explanation(code).rstrip()
        if format_name == "json":
            show_json({"code": code.upper(), "text": text})
        else:
            show_lines(re.sub(r"^```\w*\n(.*?)\n```$", lambda code: indent(code[1], "    "), text, flags=re.M | re.S))
        context.exit(0)
    problems, suspicious = _checked(source, stores, untrusted=untrusted)
    if format_name == "json":
        show_json({"valid": not problems, "problems": problem_data(problems), "warnings": problem_data(suspicious)})
    elif format_name == "github":
        for line in (*github_annotations(problems, "error"), *github_annotations(suspicious, "warning")):
            show_exactly(line)
    else:
        _show(problems, suspicious, strict=strict)
    context.exit(1 if problems or (strict and suspicious) else 0)


def _checked(
    source: str | None, stores: Sequence[str], *, untrusted: bool
) -> tuple[Sequence[Problem], Sequence[Problem]]:
    """Returns the problems of a configuration, and its warnings if it has no problems."""
    try:
        config = read(source, trusted=not untrusted)
    except ConfigError as error:
        return error.problems, ()
    problems: Sequence[Problem] = validate(config, *stores)
    if config.pipeline and not problems:
        from lakeconf.pipelines import pipeline_problems  # slow to import, and only needed with a pipeline

        problems = pipeline_problems(config)
    return problems, () if problems else warnings(config, *stores)


def _show(problems: Sequence[Problem], suspicious: Sequence[Problem], *, strict: bool) -> None:
    for problem in problems:
        show_lines(problem_text(problem))
    for problem in suspicious:
        show_lines(f"{style('warning:', fg='yellow')} {problem_text(problem)}")
    if suspicious:
        show(style(f"{counted(len(suspicious), 'warning')} found", fg="yellow"))
    if problems:
        show(style(f"{counted(len(problems), 'problem')} found", fg="red", bold=True))
    elif suspicious and strict:
        show(style("warnings fail with --strict", fg="red", bold=True))
    else:
        show(style("no problem found", fg="green"))


@click.command("stores", short_help="List the stores, or the values of a store.")
@click.argument("store", required=False)
@output_options("text", "json")
def stores_command(store: str | None, source: str | None, format_name: str) -> None:
    """List the stores; * marks the default store. For a STORE, show its keys, with the origin of each value.

    The list does not resolve variables, so it works if some are not set.
    """
    config = init(source)
    if store is not None:
        values = store_values(config, store)
        if format_name == "json":
            show_json([{"key": value.key, "value": value.value, "from": value.origin} for value in values])
        else:
            show_table([("key", "value", "from"), *values])
    elif format_name == "json":
        rows = [outline._asdict().items() for outline in config.outline()]
        show_json([{key: shown(value) if isinstance(value, str) else value for key, value in row} for row in rows])
    else:
        show_table([_row(outline) for outline in config.outline()])


def _row(store: Outline) -> tuple[str, str, str, str]:
    types = (store.metadata_backend or "?", store.storage_backend)
    backends = " + ".join(shown(name) for name in types if name)
    extends = f"extends {shown(store.extends)}" if store.extends else ""
    return "*" if store.is_default else " ", store.name, backends, extends


@click.command("preview-sql", short_help="Show the SQL that attaches a lake.")
@store_option
@click.option("--show-secrets", is_flag=True, help="Print secret values.")
@click.option("--portable", is_flag=True, help="Write a script for the DuckDB CLI, with secrets as getenv('X').")
@output_options("sql", "json", meaning="SQL, or JSON with the alias and extensions of the store.")
def preview_sql_command(
    store: str | None, source: str | None, format_name: str, *, show_secrets: bool, portable: bool
) -> None:
    """Print the SQL that attaches the lake, without connecting.

    Secret values are printed as '***'. With --portable, the script runs elsewhere and contains no secret:

    \b
        lakeconf preview-sql --store prod --portable > init.sql
        duckdb -init init.sql
    """
    if show_secrets and portable:
        raise click.UsageError("--show-secrets and --portable cannot be combined: a portable script contains no secret")
    chosen_store = init(source).get_store(store)
    statements = chosen_store.preview_sql(show_secrets=show_secrets, portable=portable)
    if format_name == "json":
        extensions = list(chosen_store.extensions)
        show_json(
            {
                "store": chosen_store.name,
                "alias": shown(chosen_store.alias),
                "extensions": extensions,
                "statements": statements,
            }
        )
    else:
        for statement in statements:
            show(statement)


@click.command("grants", short_help="Show what gives a role access to a store.")
@store_option
@click.option("--role", type=click.Choice(get_args(Role)), required=True, help="What the role may do.")
@click.option("--to", metavar="NAME", help="Name of the role in PostgreSQL; by default lake_ and the value of --role.")
@output_options("text", "json")
def grants_command(store: str | None, source: str | None, format_name: str, *, role: Role, to: str | None) -> None:
    """Print the statements and the policy that give a role access to the catalog and the files, without connecting.

    A reader reads. A writer also commits, but removes no files. A maintainer also removes them. The store is that of
    the role that owns the catalog.

    \b
        lakeconf grants --store prod --role reader --to reports
        lakeconf grants --store prod --role reader --format json | jq -r .storage > policy.json
    """
    granted = grants(init(source).get_store(store), role, to)
    if format_name == "json":
        show_json(granted._asdict())
        return
    for note in granted.notes:
        show(f"note: {note}", to_stderr=True)
    show_lines("\n\n".join(filter(None, (granted.catalog, granted.storage))))


@click.command("export", short_help="Write the configuration of another tool, or of an editor.")
@click.argument("tool", type=click.Choice([*TOOLS, _SCHEMA]))
@stores_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file or folder.")
@overwrite_option
@output_options("text", "json")
def export_command(
    tool: str, stores: tuple[str, ...], output: Path | None, source: str | None, format_name: str, *, force: bool
) -> None:
    """Write the configuration that another TOOL needs to use the default store, or those of --store.

    The file contains names of stores and variables, and no secret values. What the tool does not support is listed at
    the top of the file, and in the `notes` of the JSON output. The tool json-schema is an editor, which
    completes and checks lakeconf.toml: it needs no store.

    \b
        lakeconf export dbt --store prod -o profiles.yml
        lakeconf export json-schema -o lakeconf.schema.json
        # and as the first line of lakeconf.toml:
        #:schema ./lakeconf.schema.json
    """
    exported = _schema(stores) if tool == _SCHEMA else export(init(source), tool, *stores)
    path = None
    if output is not None:
        path = output / exported.file_name if output.is_dir() else output
        exported = _with_files(exported, path, force=force)
        write_output(path, exported.text)
    if format_name == "json":
        show_json({"tool": tool, "path": path and str(path), "text": exported.text, "notes": list(exported.notes)})
        return
    if path is None:  # with the notes as comments
        show_lines(exported.text.rstrip("\n"))
    for note in exported.notes if path is not None else ():
        show(f"note: {note}", to_stderr=True)


def _with_files(exported: Export, path: Path, *, force: bool) -> Export:
    """Writes the other files of an export; its text then has their full paths."""
    folder = path.resolve().parent
    for target in (path, *(folder / name for name in exported.beside)):
        check_new(target, force=force)
    text = exported.text
    for name, content in exported.beside.items():
        write_output(folder / name, content())
        text = text.replace(f" {name}\n", f" {escaped(str(folder / name))}\n")
    return exported._replace(text=text)


def _schema(stores: Sequence[str]) -> Export:
    from lakeconf.pipelines.models.unit_tests import pipeline_schema  # slow to import

    if stores:
        raise click.UsageError("the schema is the same for all stores: omit --store")
    text = json.dumps(json_schema(pipeline_schema()), indent=2, ensure_ascii=False)
    return Export("lakeconf.schema.json", f"{text}\n")
