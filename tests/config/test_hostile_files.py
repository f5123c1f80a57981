"""Untrusted configurations, as CI validates them: what they can make `validate` print, read and do."""

from __future__ import annotations

import pickle
import time
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeconf.cli.app import run
from lakeconf.config.config import init, validate
from lakeconf.config.warnings import warnings
from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

STORE = """
[stores.dev.metadata_backend]
type = "sqlite"
uri = "c.sqlite"

[stores.dev.storage_backend]
type = "local"
path = "data"
"""
TOKEN = "Planted-Token-1"
# Each way in which the value of a variable could get into a message.
READERS = {
    "alias": '[stores.dev]\nalias = "${TOKEN}"' + STORE,
    "alias in part": '[stores.dev]\nalias = "x-${TOKEN}"' + STORE,
    "reserved alias": '[stores.dev]\nalias = "${MAIN}"' + STORE,
    "default_store": 'default_store = "${TOKEN}"' + STORE,
    "metadata type": STORE.replace('"sqlite"', '"${TOKEN}"'),
    "storage type": STORE.replace('"local"', '"${TOKEN}"'),
    "path": STORE.replace('"data"', '"xx://${TOKEN}"'),
    "backslash": STORE.replace('"data"', r'"${TOKEN}\\x"'),
    "endpoint": STORE.replace('"local"\npath = "data"', '"s3"\nbucket = "b"\nendpoint = "a@${TOKEN}"'),
    "data_path": STORE.replace('"local"\npath = "data"', '"s3"\ndata_path = "${TOKEN}"'),
    "url_style": STORE.replace('"local"\npath = "data"', '"s3"\nbucket = "b"\nurl_style = "${TOKEN}"'),
    "port": STORE.replace('"sqlite"\nuri = "c.sqlite"', '"postgres"\nhost = "${TOKEN}"\nport = "${TOKEN}"'),
    "motherduck": '[stores.dev]\nalias = "lake"\n[stores.dev.metadata_backend]\ntype = "motherduck"\n'
    'database = "${TOKEN}"\n',
    "extends": STORE + '[stores.b]\nextends = "${TOKEN}"\n',
    "option": '[stores.dev]\nattach_options = { snapshot_version = "${TOKEN}" }\n' + STORE,
    "parameter": STORE.replace(
        '"local"\npath = "data"', '"s3"\nbucket = "b"\nsecret_parameters = { region = "a\\nb${TOKEN}" }'
    ),
    "shared secret": STORE.replace(
        '"local"\npath = "data"',
        '"s3"\nbucket = "b"\nkey_id = "k"\nsecret = "s"\nsecret_name = "${NAME}"\n[stores.b]\nextends = "dev"\n'
        'storage_backend = { key_id = "other" }',
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("NAME", "Planted_Token_1")
    monkeypatch.setenv("MAIN", "information_schema")
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--untrusted",)], ids=["trusted", "untrusted"])
@pytest.mark.parametrize("name", READERS)
def test_values_of_variables_are_not_printed(
    name: str, options: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "lakeconf.toml").write_text(READERS[name])
    for form in ("text", "json", "github"):
        code = run(["validate", "--strict", "--format", form, *options])
        output = capsys.readouterr()
        text = (output.out + output.err).lower()
        assert "planted" not in text
        assert "information_schema" not in text
        assert code == (0 if options and name in UNKNOWN else 1)


# Only the value of a variable makes these invalid, so `--untrusted` cannot find the problem.
UNKNOWN = (
    *("alias", "alias in part", "reserved alias", "default_store", "metadata type", "storage type"),
    *("path", "backslash", "url_style", "port", "option"),
)


def test_untrusted_validation_reads_no_variable(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STORE.replace('"data"', '"${MISSING}/${TOKEN}"') + "[stores.b]\nextends = 'dev'\nalias = '${MISSING}'\n"
    (folder / "lakeconf.toml").write_text(f'default_store = "dev"\n{text}')
    assert run(["validate", "--untrusted", "--strict"]) == 0
    assert run(["validate"]) == 1
    (folder / "lakeconf.toml").write_text(text.replace("path", "paht"))
    assert run(["validate", "--untrusted"]) == 1
    assert "[LC010]" in capsys.readouterr().out


def test_untrusted_validation_compares_what_the_file_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data paths without variables overlap whatever the credentials are; an unknown endpoint may be this machine."""
    catalog = '{{ type = "postgres", host = "localhost", database = "{}", user = "${{U}}", password = "${{P}}" }}'
    storage = '{{ type = "s3", bucket = "{}", region = "r", key_id = "${{K}}", secret = "${{S}}"{} }}'
    text = "".join(
        f"[stores.{name}]\nmetadata_backend = {catalog.format(name)}\nstorage_backend = {storage.format(*given)}\n"
        for name, given in {
            "a": ("b", ""),
            "c": ("${B}", ', endpoint = "${E}", use_ssl = false'),
            "d": ("b", ', prefix = "x"'),
        }.items()
    )
    (folder / "lakeconf.toml").write_text(f'default_store = "a"\n{text}')
    assert run(["validate", "--untrusted"]) == 1
    said = capsys.readouterr().out
    assert "stores.d.storage_backend: the data path equals or overlaps that of the store 'a'" in said
    assert (said.count("[LC056]"), "LC061" in said) == (1, False)


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "../outside.sql", "link.sql", "folder/../../outside.sql", "a\nb.sql"]
)
@pytest.mark.parametrize("key", ["sql", "csv", "python"])
def test_no_file_outside_the_folder_is_read(
    key: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside.sql").write_text("planted SELECT")
    (folder / "link.sql").symlink_to(tmp_path / "outside.sql")
    monkeypatch.chdir(folder)
    quoted = repr(path).replace("'", '"')
    kinds = {"csv": '"seed"', "sql": '"full"'}
    model = f'[pipeline.models."a.t"]\nkind = {kinds.get(key)}\n{key} = {quoted}\n'
    (folder / "lakeconf.toml").write_text(STORE + (f"[pipeline]\npython = [{quoted}]" if key == "python" else model))
    assert run(["validate"]) == 1
    said = capsys.readouterr().out
    assert "must be a path" in said if "\n" in path else "is outside the configuration's folder" in said
    assert "planted" not in said
    assert run(["plan"]) == 1


@pytest.mark.parametrize("content", ["PLANTED=planted SELECT ' (", "planted", "SELECT FROM planted WHERE", "\0planted"])
def test_file_that_is_not_sql_is_not_quoted(content: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "secrets.env").write_text(content)
    (folder / "lakeconf.toml").write_text(STORE + '[pipeline.models."a.t"]\nsql = "secrets.env"\n')
    run(["validate"])
    output = capsys.readouterr()
    assert "is not a single DuckDB query" in output.out or "is not a query" in output.out or "no problem" in output.out
    assert "planted" not in (output.out + output.err).lower()


def limited(text: str, seconds: float) -> list[str]:
    begun = time.process_time()
    found = [problem.code for problem in validate(tomllib.loads(text))]
    assert time.process_time() - begun < seconds
    return found


@pytest.mark.slow
def test_long_chains_and_many_stores_are_validated_in_seconds() -> None:
    chain = "".join(f"[stores.s{n}]\nextends = 's{n + 1}'\n" for n in range(1200))
    assert limited(STORE.replace("dev", "s1200") + chain, 20) == []
    circle = "".join(f"[stores.s{n}]\nextends = 's{(n + 1) % 600}'\n" for n in range(600))
    assert limited(circle, 20) == ["LC041"]
    storage = 'type = "s3"\nbucket = "b"\nsecret_name = "one"\nkey_id = "k"\n'
    same = "".join(
        f"[stores.s{n}.metadata_backend]\ntype = 'sqlite'\nuri = 'c{n}'\n[stores.s{n}.storage_backend]\n{storage}"
        f"secret = '{n // 399}'\n"
        for n in range(400)
    )
    assert set(limited(same, 20)) == {"LC055"}
    unknown = "".join(f"[stores.s{n}]\nextends = 'x{n}'\n" for n in range(1000))
    assert set(limited(unknown, 20)) == {"LC040"}


@pytest.mark.parametrize(
    "text",
    [
        "[stores.dev]\nalias = " + "[" * 5000 + "]" * 5000,
        "stores" + ".a" * 5000 + " = 1",
        "[stores.dev.attach_options]\nmeta_x = " + "{ a = " * 90 + "1" + " }" * 90,
        "# " + "x" * 1024 * 1024,
    ],
    ids=["lists", "keys", "tables", "size"],
)
def test_deeply_nested_or_large_files_are_refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lakeconf.toml").write_text(text)
    for command in (["validate"], ["validate", "--untrusted"], ["stores"]):
        assert run(command) == 1
    assert "Traceback" not in capsys.readouterr().err


SQL = {
    "parentheses": "(" * 60 + "1" + ")" * 60,
    "functions": "f(" * 3000 + "1" + ")" * 3000,
    "lists": "[" * 500 + "1" + "]" * 500,
    "structs": "{'a': " * 300 + "1" + "}" * 300,
    "types": "CAST(1 AS " + "STRUCT(a " * 300 + "INT" + ")" * 301,
    "queries": "* FROM " + "(SELECT * FROM " * 100 + "t" + ")" * 100,
    "CASE": "CASE WHEN a THEN " * 300 + "1" + " END" * 300,
    "NOT": "NOT " * 3000 + "true",
    "minus": "- " * 3000 + "1",
    "index": "a" + "[1]" * 1000,
    "methods": "a" + ".f()" * 1000,
    "sum": "+".join("1" * 200_000),
    "short sum": "+".join("1" * 20_000),
    "operators": "a" + "->0" * 20_000,
    "columns": ", ".join("a" * 20_000),
    "unions": " UNION ALL SELECT ".join("1" * 15_000),
    "comments": "/**/" * 15_000 + "1",
    "open comments": "/*" * 30_000,
    "quotes": "'" * 60_001,
    "dollars": "$a" * 30_000,
}


def test_sql_of_people_is_within_the_limits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep = "(" * 25 + "1" + ")" * 25
    cases = "CASE WHEN NOT x.end[1].case -1 > -(-1) THEN f(a).b(c) END, " * 300
    (folder / "m.sql").write_text(f"-- ((((\nSELECT {cases} {deep}, '{'(' * 99}', \"{'[' * 99}\" /* {'(' * 99} */")
    (folder / "lakeconf.toml").write_text(STORE + '[pipeline.models."a.t"]\nsql = "m.sql"\n')
    assert run(["validate", "--untrusted"]) == 0, capsys.readouterr().out


TOML = {
    "lists": "a = " + "[" * 5000 + "]" * 5000,
    "tables": "a = " + "{a = " * 5000 + "1" + "}" * 5000,
    "dotted key": "a" + " . a" * 10_000 + " = 1",
    "quoted key": "a" + '."a"' * 10_000 + " = 1",
    "header": "[a" + ".a" * 30_000 + "]",
    "long key": "a" * 60_000 + " = 1",
    "long header": "[stores." + "a" * 60_000 + "]",
    "variables": f"[stores.dev]\nalias = '{'${' * 30_000}'",
    "defaults": f"[stores.dev]\nalias = '{'${A:-' * 12_000}'",
    "keys": "\n".join(f"k{n} = 1" for n in range(6000)),
    "stores": "".join(f"[stores.a{n}.metadata_backend]\ntype = 'x'\n" for n in range(1400)),
    "parents": "".join(f"[stores.a{n}]\nextends = 'a{n + 1}'\n" for n in range(1900)),
    "models": "".join(f"[pipeline.models.'m.a{n}']\n" for n in range(2000)),
    "quotes": 'a = """' + '"' * 60_000,
    "size": "# " + "x" * 64 * 1024,
}


@pytest.mark.parametrize(("kind", "name"), [*(("sql", name) for name in SQL), *(("toml", name) for name in TOML)])
def test_hostile_text_is_an_error_with_a_place_within_seconds(
    kind: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[pipeline.models."a.t"]\nsql = "m.sql"\n' if kind == "sql" else TOML[name]
    (folder / "m.sql").write_text(f"SELECT\n{SQL.get(name)}")
    (folder / "lakeconf.toml").write_text(STORE + text)
    begun = time.process_time()
    assert run(["validate", "--untrusted"]) == 1
    assert time.process_time() - begun < 5
    said = capsys.readouterr()
    if kind == "sql":
        # A file that is too large is not read, so the key is the place.
        assert "m.sql:2:" in said.out or "lakeconf.toml:10:1: " in said.out
        assert len(said.out) < 1000
    else:
        assert said.out.startswith("lakeconf.toml: the file is larger" if name == "size" else "lakeconf.toml:")
        assert max(map(len, said.out.splitlines())) < 1000
    assert said.err == ""


@pytest.mark.slow
def test_queries_are_limited_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.sql").write_text(f"SELECT 1 AS a{', 1' * 3000} -- {'x' * 50_000}")
    (folder / "lakeconf.toml").write_text(
        STORE + "".join(f"[pipeline.models.'m.a{number}']\nsql = 'm.sql'\n" for number in range(1200))
    )
    begun = time.process_time()
    assert run(["validate", "--untrusted"]) == 1
    assert time.process_time() - begun < 15
    assert "all queries together are larger than 2048 KiB" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["sql", "csv"])
def test_path_that_is_too_long_is_an_error_with_a_place(
    key: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = "kind = 'seed'\n" if key == "csv" else ""
    (folder / "lakeconf.toml").write_text(STORE + f"[pipeline.models.'m.a']\n{kind}{key} = '{'x' * 30_000}'\n")
    assert run(["validate", "--untrusted"]) == 1
    said = capsys.readouterr().out
    assert f"lakeconf.toml:{10 + len(kind.splitlines())}:1: pipeline.models" in said
    assert "cannot be read: File name too long" in said


@pytest.mark.parametrize("kind", ["file", "pyproject", "folder", "above"])
def test_untrusted_links_out_of_the_repository_are_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside, repository = tmp_path / "outside", tmp_path / "repository"
    outside.mkdir()
    (repository / ".git").mkdir(parents=True)
    (repository / "inside").mkdir()
    name = "pyproject.toml" if kind == "pyproject" else "lakeconf.toml"
    (outside / name).write_text("[tool.lakeconf]\n[planted]\nplanted = 1\n")
    if kind == "folder":
        (repository / "linked").symlink_to(outside)
    else:
        (repository / name).symlink_to(outside / name)
    monkeypatch.chdir(repository / ("linked" if kind == "folder" else "inside" if kind == "above" else "."))
    arguments = ["--config", str(repository / "linked" / name)] if kind == "folder" else []
    for form in ("text", "json", "github"):
        assert run(["validate", "--untrusted", "--format", form, *arguments]) == 1
        said = capsys.readouterr()
        assert "a link that leads out of its repository" in said.out
        assert "planted" not in said.out + said.err
    # A link to a file of the same repository is common.
    (repository / "inside" / "shared.toml").write_text(STORE)
    (repository / "lakeconf.toml").unlink(missing_ok=True)
    (repository / "lakeconf.toml").symlink_to(repository / "inside" / "shared.toml")
    assert run(["validate", "--untrusted", "--config", str(repository / "lakeconf.toml")]) == 0


VALUES = st.recursive(
    st.text() | st.integers() | st.booleans() | st.sampled_from(["${TOKEN}", "${", "$$", "sqlite", "s3", "postgres"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["type", "uri", "path", "alias", "extends", "host", "password", "secret_parameters", "bucket", "endpoint", "scope"]
)
BACKEND = st.dictionaries(KEYS | st.text(), VALUES, max_size=5)
STORES = st.dictionaries(
    st.sampled_from(["metadata_backend", "storage_backend", "alias", "attach_options", "extends"]) | st.text(),
    BACKEND | VALUES,
    max_size=5,
)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(["stores", "default_store", "pipeline"]) | st.text(), VALUES | STORES, max_size=4)
)
@settings(max_examples=300)
def test_any_configuration_is_valid_or_has_problems(data: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", TOKEN)
        for problem in [*validate(data), *warnings(data)]:
            assert TOKEN not in str(problem)


@pytest.mark.slow
@given(STORES)
@settings(max_examples=300)
def test_any_store_is_valid_or_has_problems(store: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", TOKEN)
        problems = validate({"stores": {"dev": store}})
        assert not [problem for problem in problems if TOKEN in str(problem)]
        if not problems:
            for line in init({"stores": {"dev": store}}).get_store().preview_sql():
                assert "\n" not in line


def test_pickled_closure_contains_no_values_of_variables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import cloudpickle

    monkeypatch.setenv("OTHER_PASSWORD", "planted-other")
    monkeypatch.setenv("PLANTED", "planted_alias")
    text = STORE.replace('"local"\npath = "data"', '"s3"\nbucket = "b"\nkey_id = "k"\nsecret = "${TOKEN}"')
    (folder / "lakeconf.toml").write_text(f"{text}\n[stores.dev]\nalias = '${{PLANTED}}'\n")
    config = init()
    assert config.get_store().secrets == (Secret(TOKEN),)
    sent = cloudpickle.dumps(lambda: config.get_store("dev"))
    for value in (b"planted-other", b"planted_alias", TOKEN.encode()):
        assert value not in sent
    monkeypatch.setenv("TOKEN", "there")
    there = pickle.loads(sent)()  # noqa: S301 - made above
    assert (there.alias, there.secrets) == ("planted_alias", (Secret("there"),))
    assert pickle.loads(pickle.dumps(config.get_store())).alias == "planted_alias"  # noqa: S301 - made here
    monkeypatch.delenv("PLANTED")
    with pytest.raises(LakeconfError, match="the variable PLANTED is not set"):
        pickle.loads(sent)()  # noqa: S301 - made above
    (folder / "lakeconf.toml").write_text(text.replace("${TOKEN}", "planted-literal"))
    with pytest.raises(TypeError, match="its file contains a secret"):
        cloudpickle.dumps(init())
