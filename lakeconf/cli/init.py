"""`lakeconf init`."""

from __future__ import annotations

import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import click

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import metadata_backend, metadata_types, storage_backend, storage_types
from lakeconf.cli.options import format_option, overwrite_option
from lakeconf.cli.output import show, show_json
from lakeconf.config.config import read
from lakeconf.config.file import FILE_NAME, PYPROJECT, file_text
from lakeconf.config.template import (
    COMMENTS,
    DEFAULT_METADATA,
    DEFAULT_STORAGE,
    LOCAL_FOLDER,
    NO_STORAGE,
    default_fields,
    first_configuration,
    holds_secret,
    with_store,
)

_DEFAULT_STORE = "dev"


class _TypeOfBackend(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no arguments
    """The type of a backend, of lakeconf or of an installed package, which is only searched if the option is used."""

    name = "type"

    def __init__(self, types: Callable[[], Sequence[str]]) -> None:
        self._types = types

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002 - click's
        return f"[{'|'.join(self._types())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return click.Choice(self._types()).convert(value, param, ctx)


@click.command("init", short_help="Write a first lakeconf.toml, or add a store.")
@click.option("--store", help="Name of the store; by default dev.")
@click.option("--metadata", type=_TypeOfBackend(metadata_types), help="Metadata backend; prompted for if missing.")
@click.option(
    "--storage",
    type=_TypeOfBackend(lambda: [*storage_types(), NO_STORAGE]),
    help="Storage backend; `none` is allowed with MotherDuck only.",
)
@click.option(
    "--set", "given", multiple=True, metavar="KEY=VALUE", help="Set a field, such as storage_backend.bucket=acme."
)
@click.option("-y", "--yes", is_flag=True, help="Do not prompt; use defaults.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE_NAME, show_default=True)
@overwrite_option
@format_option
def init_command(
    store: str | None,
    metadata: str | None,
    storage: str | None,
    given: tuple[str, ...],
    output: Path,
    format_name: str,
    *,
    yes: bool,
    force: bool,
) -> None:
    """Write a lakeconf.toml with one store, from prompts or options. If the file exists, add a store to it.

    Secrets are written as variables, such as ${LAKE_PG_PASSWORD}. In a git repository, the command adds .lakeconf/, the
    folder of local catalogs and files, to .gitignore.

    \b
        lakeconf init
        lakeconf init --store prod --metadata postgres --storage s3 --set storage_backend.bucket=acme-lake
    """
    adds = output.exists() and not force
    declared = _declared(output) if adds else ()
    if format_name == "json" and not yes and None in (metadata, storage):
        raise click.UsageError("--format json does not prompt: pass --metadata and --storage, or --yes")
    asks = not yes and (metadata is None or storage is None)
    if asks and not sys.stdin.isatty():
        raise click.UsageError("no terminal to prompt on: pass --metadata and --storage, or --yes")
    if store is None:
        store = _ask_name(declared) if asks else _DEFAULT_STORE
    if store in declared:
        message = f"{output} already declares the store {store}; --store names another one, --force overwrites the file"
        raise click.UsageError(message)
    values = dict(map(_pair, given))
    if asks:
        folder = f"{LOCAL_FOLDER}{store}/" if adds else LOCAL_FOLDER
        metadata, storage = _ask(metadata, storage, values, folder)
    kinds = metadata or DEFAULT_METADATA, None if storage == NO_STORAGE else storage or DEFAULT_STORAGE
    made = with_store(file_text(output), store, *kinds, values) if adds else first_configuration(store, *kinds, values)
    _write(output, made)
    ignored = LOCAL_FOLDER in made and _ignore(output.resolve().parent)
    if format_name == "json":
        show_json({"path": str(output), "store": store, "added": adds, "ignored": ignored})
        return
    option = "" if str(output) == FILE_NAME else f" --config {shlex.quote(str(output))}"
    done = f"added the store {store} to" if adds else "wrote"
    show(f"{done} {output}; check it with: lakeconf validate{option}")
    if ignored:
        show("added .lakeconf/ to .gitignore", to_stderr=True)


def _declared(path: Path) -> Sequence[str]:
    """The stores of an existing file, to which a store will be added."""
    if path.name == PYPROJECT:
        raise click.UsageError(f"a store cannot be added to {PYPROJECT}: write it to a {FILE_NAME}, or by hand")
    return read(path).names


def _write(path: Path, text: str) -> None:
    """Writes a file; an existing one is replaced as a whole, and keeps its permissions."""
    path = path.resolve()
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        try:
            with new.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
            if path.exists():
                shutil.copymode(path, new)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error


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


def _ask_name(declared: Collection[str]) -> str:
    show("A store is a lake with a name: commands and code use the name.")
    default = None if _DEFAULT_STORE in declared else _DEFAULT_STORE
    return str(click.prompt("Store", default=default))


def _ask(metadata: str | None, storage: str | None, values: dict[tuple[str, str], str], folder: str) -> tuple[str, str]:
    if metadata is None:
        metadata = _choose("metadata_backend", metadata_types(), DEFAULT_METADATA, metadata_backend)
    model = metadata_backend(metadata)
    if storage is None:
        storages, default = storage_types(), DEFAULT_STORAGE
        if model.keeps_files:
            storages = (*(kind for kind in storages if not storage_backend(kind).on_this_machine), NO_STORAGE)
            default = NO_STORAGE
        storage = _choose("storage_backend", storages, default, storage_backend)
    _ask_fields("metadata_backend", model, values, folder)
    if storage != NO_STORAGE:
        _ask_fields("storage_backend", storage_backend(storage), values, folder)
    return metadata, storage


def _choose(section: str, types: Sequence[str], default: str, model: Callable[[str], type[Backend]]) -> str:
    """Explains the types of a backend and asks for one."""
    show("")
    show(COMMENTS[section])
    width = max(map(len, types))
    for kind in types:
        text = "The metadata backend keeps the files." if kind == NO_STORAGE else model(kind).__doc__ or ""
        show(f"  {kind:{width}}  {text.partition(chr(10))[0]}")
    return str(click.prompt(section.replace("_", " ").capitalize(), type=click.Choice(types), default=default))


def _ask_fields(section: str, model: type[Backend], values: dict[tuple[str, str], str], folder: str) -> None:
    for name, default in default_fields(model, folder).items():
        if (section, name) in values:
            continue
        show("")
        show(model.model_fields[name].description or name)
        question = f"{section}.{name}"
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
