"""The JSON of loaded files and their states, in the form that earlier versions can read, and in theirs."""

from __future__ import annotations

from lakeconf.commit.journal import FileState, loaded_files, loaded_files_json

STATES = {"a.csv": FileState(5, 1_700_000_000_000_000, "ab"), "s3://b/c.csv": FileState(6, 1_700_000_000_000_001)}


def test_files_and_states_are_read_as_they_were_written() -> None:
    files = ["a.csv", "s3://b/c.csv", "gone.csv"]
    text = loaded_files_json(files, STATES)
    assert loaded_files(text) == (tuple(files), STATES)


def test_unknown_facts_of_later_versions_are_ignored() -> None:
    assert loaded_files('{"a": {"size": 1, "modified": 2, "etag": "x"}}') == (("a",), {"a": FileState(1, 2)})


def test_names_with_placeholders_of_ducklake_are_escaped() -> None:
    text = loaded_files_json(["{DATA_PATH}.csv"], {})
    assert "{DATA_PATH}" not in text
    assert loaded_files(text) == (("{DATA_PATH}.csv",), {})
