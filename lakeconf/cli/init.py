"""`lakeconf init`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from lakeconf.backends.secrecy import is_secret_key
from lakeconf.cli.output import show
from lakeconf.config.file import FILE_NAME
from lakeconf.config.template import METADATA, STORAGE, first_configuration


@click.command("init", short_help="Write a first lakeconf.toml.")
@click.option("--store", default="dev", show_default=True, help="Name of the store.")
@click.option("--metadata", type=click.Choice(list(METADATA)), help="Metadata backend; prompted for if missing.")
@click.option(
    "--storage", type=click.Choice([*STORAGE, "none"]), help="Storage backend; `none` is allowed with MotherDuck only."
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
    text = first_configuration(store, metadata or "sqlite", None if storage == "none" else storage or "local", values)
    try:
        output.write_text(text)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    option = "" if str(output) == FILE_NAME else f" --config {shlex.quote(str(output))}"
    show(f"wrote {output}; check it with: lakeconf validate{option}")
    if ".lakeconf/" in text and _ignore(output.resolve().parent):
        show("added .lakeconf/ to .gitignore", to_stderr=True)


def _ignore(folder: Path) -> bool:
    """Keeps the local catalog and its files out of the folder's git repository; False if nothing had to be written."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return False
    path = folder / ".gitignore"
    text = path.read_text("utf-8") if path.is_file() else ""
    if {".lakeconf", ".lakeconf/", "/.lakeconf", "/.lakeconf/"} & {line.strip() for line in text.splitlines()}:
        return False
    path.write_text(f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}.lakeconf/\n", "utf-8")
    return True


def _ask(metadata: str | None, storage: str | None, values: dict[tuple[str, str], str]) -> tuple[str, str]:
    metadata = metadata or click.prompt("Metadata backend", type=click.Choice(list(METADATA)), default="sqlite")
    elsewhere = [kind for kind in STORAGE if kind != "local"]
    kinds = [*elsewhere, "none"] if metadata == "motherduck" else list(STORAGE)
    default = "none" if metadata == "motherduck" else "local"
    storage = storage or click.prompt("Storage backend", type=click.Choice(kinds), default=default)
    for section, fields in (("metadata_backend", METADATA[metadata]), ("storage_backend", STORAGE.get(storage, {}))):
        for name, likely in fields.items():
            if (section, name) not in values:
                values[section, name] = _answer(f"{section}.{name}", likely, is_secret=is_secret_key(name))
    return metadata, storage


def _answer(key: str, likely: str | None, *, is_secret: bool) -> str:
    if not is_secret:
        return str(click.prompt(key, default=likely))
    default = likely and likely.strip("${}")
    name = str(click.prompt(f"{key}, the name of the variable that holds it", default=default))
    return name if name.startswith("$") else f"${{{name}}}"


def _pair(text: str) -> tuple[tuple[str, str], str]:
    key, equals, value = text.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and dot):
        raise click.UsageError(f"--set {text}: expected a form such as storage_backend.bucket=acme")
    return (section, name), value
