"""examples/third_party: backends of another package are configured, checked and described like the built-in ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from example_backends import FOLDER, entry_points, forget_packages, write_metadata
from source_tree import REPOSITORY

import lakeconf
from lakeconf.cli.app import run
from lakeconf.config.config import validate
from lakeconf.config.schema import json_schema
from lakeconf.errors import StorageError

SQLITE = {"type": "sqlite", "uri": "/c"}
pytestmark = pytest.mark.usefixtures("example_backends")


def config(**storage: Any) -> dict[str, Any]:
    return {"stores": {"dev": {"metadata_backend": SQLITE, "storage_backend": storage}}}


def test_lakeconf_does_not_mention_the_example_backends() -> None:
    for path in (REPOSITORY / "lakeconf").rglob("*.py"):
        text = path.read_text().lower()
        assert not re.search(r"postgres_service|\"share\"|lakeconf_example", text), path


@pytest.mark.parametrize(
    ("storage", "code", "key"),
    [
        ({"type": "share", "mount": "/mnt", "marker": "m", "foldr": "a"}, "LC010", ".foldr"),
        ({"type": "share", "mount": "/mnt", "marker": ""}, "LC013", ".marker"),
        ({"type": "share", "mount": "/mnt"}, "LC011", ".marker"),
    ],
)
def test_problems_have_a_key_and_a_line(tmp_path: Path, storage: dict[str, str], code: str, key: str) -> None:
    lines = "".join(f'{name} = "{value}"\n' for name, value in storage.items())
    file = tmp_path / "lakeconf.toml"
    file.write_text(
        '[stores.dev.metadata_backend]\ntype = "sqlite"\nuri = "c"\n\n[stores.dev.storage_backend]\n' + lines
    )
    (problem,) = validate(file)
    assert (problem.code, problem.key, problem.line is None) == (code, f"stores.dev.storage_backend{key}", False)


def test_json_schema_describes_the_example_backends() -> None:
    definitions = json_schema()["$defs"]
    for section, name in (("metadata", "postgres_service"), ("storage", "share")):
        properties = definitions[f"{section}_backend.{name}"]["properties"]
        texts = [str(schema) for key, schema in properties.items() if key != "type"]
        assert all("description" in text for text in texts)


def test_two_packages_that_register_one_type_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_metadata(tmp_path, "another-package")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_packages()
    (problem,) = validate(config(type="share", mount="/mnt", marker="m"))
    assert "several packages register 'share'" in problem.message
    assert "another-package, lakeconf-example-backends" in problem.message


def test_unmounted_share_is_not_written_to(tmp_path: Path) -> None:
    shared = config(type="share", mount=str(tmp_path), marker=".mounted")
    shared["stores"]["dev"]["metadata_backend"] = {"type": "sqlite", "uri": str(tmp_path / "c")}
    store = lakeconf.init(shared).get_store("dev")
    with pytest.raises(StorageError, match="is not mounted"):
        store.open()
    (tmp_path / ".mounted").touch()
    store.open().close()


def test_configuration_file_in_the_readme_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    (tmp_path / "lakeconf.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AZURE_CONNECTION_STRING", "x")
    assert run(["validate"]) == 0, capsys.readouterr().out
    assert set(entry_points()) == {"lakeconf.metadata_backends", "lakeconf.storage_backends"}
