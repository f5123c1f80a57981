"""`lakeconf init`."""

from __future__ import annotations

import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from lakeconf.backends.registry import metadata_types, storage_types
from lakeconf.cli.options import format_option, overwrite_option, pairs_of
from lakeconf.cli.output import show, show_json
from lakeconf.config.config import read
from lakeconf.config.file import FILE_NAME, PYPROJECT, file_text
from lakeconf.config.template import (
    DEFAULT_METADATA,
    DEFAULT_STORAGE,
    LOCAL_FOLDER,
    NO_STORAGE,
    first_configuration,
    with_store,
)


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
@click.option("--store", default="dev", show_default=True, help="Name of the store.")
@click.option("--metadata", type=_TypeOfBackend(metadata_types), help="Metadata backend; by default sqlite.")
@click.option(
    "--storage",
    type=_TypeOfBackend(lambda: [*storage_types(), NO_STORAGE]),
    help="Storage backend; by default local. `none` is allowed with MotherDuck only.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_of("storage_backend.bucket=acme"),
    help="Set a field, such as storage_backend.bucket=acme.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE_NAME, show_default=True)
@overwrite_option
@format_option
def init_command(
    store: str,
    metadata: str | None,
    storage: str | None,
    given: Mapping[str, str],
    output: Path,
    format_name: str,
    *,
    force: bool,
) -> None:
    """Write a lakeconf.toml with one store. If the file exists, add a store to it.

    Secrets are written as variables, such as ${LAKE_PG_PASSWORD}. In a git repository, the command adds .lakeconf/, the
    folder of local catalogs and files, to .gitignore.

    \b
        lakeconf init
        lakeconf init --store prod --metadata postgres --storage s3 --set storage_backend.bucket=acme-lake
    """
    adds = output.exists() and not force
    declared = _declared(output) if adds else ()
    if store in declared:
        message = f"{output} already declares the store {store}; --store names another one, --force overwrites the file"
        raise click.UsageError(message)
    values = {_field(key): value for key, value in given.items()}
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


def _field(key: str) -> tuple[str, str]:
    section, dot, name = key.partition(".")
    if not dot:
        raise click.UsageError(f"--set {key}: expected a form such as storage_backend.bucket=acme")
    return section, name
