"""`lakeconf init`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from lakeconf.backends.base import Backend
from lakeconf.backends.registry import metadata_backend, metadata_types, storage_backend, storage_types
from lakeconf.cli.output import show
from lakeconf.config.file import FILE_NAME
from lakeconf.config.template import DEFAULT_METADATA, DEFAULT_STORAGE, NO_STORAGE, first_configuration, holds_secret


class _TypeOfBackend(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no arguments
    """The type of a backend, of lakeconf or of an installed package. Packages are only searched if the option is used.

    Args:
        types: Returns the types.
    """

    name = "type"

    def __init__(self, types: Callable[[], Sequence[str]]) -> None:
        self._types = types

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002 - click's
        return f"[{'|'.join(self._types())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return click.Choice(self._types()).convert(value, param, ctx)


@click.command("init", short_help="Write a first lakeconf.toml.")
@click.option("--store", default="dev", show_default=True, help="Name of the store.")
@click.option("--metadata", type=_TypeOfBackend(metadata_types), help="Metadata backend; prompted for if missing.")
@click.option(
    "--storage",
    type=_TypeOfBackend(lambda: [*storage_types(), NO_STORAGE]),
    help="Storage backend; `none` is allowed with MotherDuck only.",
)
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="Set a field, such as storage_backend.bucket=acme."
)
@click.option("--yes", is_flag=True, help="Do not prompt; use defaults.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=FILE_NAME, show_default=True)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    store: str,
    metadata: str | None,
    storage: str | None,
    given: tuple[str, ...],
    output: Path,
    *,
    yes: bool,
    force: bool,
) -> None:
    """Write a lakeconf.toml with one store, from prompts or options.

    Secrets are written as variables, such as ${LAKE_PG_PASSWORD}. In a git repository, the command adds .lakeconf/, the
    folder of local catalogs and files, to .gitignore.
    """
    if output.exists() and not force:
        raise click.UsageError(f"{output} already exists; --force overwrites it")
    asks = not yes and (metadata is None or storage is None)
    if asks and not sys.stdin.isatty():
        raise click.UsageError("no terminal to prompt on: pass --metadata and --storage, or --yes")
    values = dict(map(_pair, given))
    if asks:
        metadata, storage = _ask(metadata, storage, values)
    metadata, storage = metadata or DEFAULT_METADATA, storage or DEFAULT_STORAGE
    text = first_configuration(store, metadata, None if storage == NO_STORAGE else storage, values)
    try:
        output.write_text(text)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    option = "" if str(output) == FILE_NAME else f" --config {shlex.quote(str(output))}"
    show(f"wrote {output}; check it with: lakeconf validate{option}")
    if ".lakeconf/" in text and _ignore(output.resolve().parent):
        show("added .lakeconf/ to .gitignore", to_stderr=True)


def _ignore(folder: Path) -> bool:
    """Adds local catalogs and files to .gitignore; returns False if there is nothing to add."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return False
    path = folder / ".gitignore"
    text = path.read_text("utf-8") if path.is_file() else ""
    if {".lakeconf", ".lakeconf/", "/.lakeconf", "/.lakeconf/"} & {line.strip() for line in text.splitlines()}:
        return False
    path.write_text(f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}.lakeconf/\n", "utf-8")
    return True


def _ask(metadata: str | None, storage: str | None, values: dict[tuple[str, str], str]) -> tuple[str, str]:
    metadata = metadata or _choose("Metadata backend", metadata_types(), DEFAULT_METADATA)
    model = metadata_backend(metadata)
    if storage is None:
        storages, default = storage_types(), DEFAULT_STORAGE
        if model.keeps_files:
            storages = (*(kind for kind in storages if not storage_backend(kind).on_this_machine), NO_STORAGE)
            default = NO_STORAGE
        storage = _choose("Storage backend", storages, default)
    _ask_fields("metadata_backend", model, values)
    if storage != NO_STORAGE:
        _ask_fields("storage_backend", storage_backend(storage), values)
    return metadata, storage


def _choose(question: str, types: Sequence[str], default: str) -> str:
    return str(click.prompt(question, type=click.Choice(types), default=default))


def _ask_fields(section: str, model: type[Backend], values: dict[tuple[str, str], str]) -> None:
    for name, default in model.init_template().fields.items():
        if (section, name) in values:
            continue
        help_text = (model.model_fields[name].description or "").rstrip(".")
        question = f"{section}.{name} ({help_text})" if help_text else f"{section}.{name}"
        values[section, name] = _answer(question, default, is_secret=holds_secret(model, section, name))


def _answer(question: str, default: str | None, *, is_secret: bool) -> str:
    if not is_secret:
        return str(click.prompt(question, default=default))
    name = str(click.prompt(f"{question}; name of its variable", default=default and default.strip("${}")))
    return name if name.startswith("$") else f"${{{name}}}"


def _pair(text: str) -> tuple[tuple[str, str], str]:
    key, equals, value = text.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and dot):
        raise click.UsageError(f"--set {text}: expected a form such as storage_backend.bucket=acme")
    return (section, name), value
