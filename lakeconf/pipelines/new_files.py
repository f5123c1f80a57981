"""The files of a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace

from lakeconf.commit.journal import ModelRun
from lakeconf.connection.connection import fetched
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.model import Model
from lakeconf.sql import literal


def found_files(lake: Lake, model: Model, pattern: str) -> Sequence[str]:
    """Returns the files of a pattern, sorted: URIs, or paths as the pattern has them, absolute or relative.

    Args:
        lake: The lake, whose secrets read URIs.
        model: The model.
        pattern: The pattern.
    """
    if "://" in pattern:
        secrets = lake._session.writer.secrets  # noqa: SLF001 - for scrubbing only
        rows = fetched(lake.sql(f"SELECT file FROM glob({literal(pattern)})"), secrets)
        return sorted({str(file) for (file,) in rows})
    # With `root_dir`, brackets in the name of the folder are no pattern.
    paths = glob.glob(pattern, root_dir=model.folder, recursive=True)
    return sorted({_full_name(model, pattern, path) for path in paths})


def runs_by_full_name(model: Model, pattern: str, runs: Sequence[ModelRun]) -> Sequence[ModelRun]:
    """Returns runs with the names that `found_files` gives to the loaded files.

    Earlier versions recorded files of an absolute pattern relative to the model's folder.

    Args:
        model: The model.
        pattern: The pattern.
        runs: The runs.
    """
    if "://" in pattern:
        return runs
    return [
        replace(
            run,
            files=[_full_name(model, pattern, file) for file in run.files],
            file_states={_full_name(model, pattern, file): state for file, state in run.file_states.items()},
        )
        for run in runs
    ]


def _full_name(model: Model, pattern: str, path: str) -> str:
    if "://" in path:
        return path
    if os.path.isabs(pattern):
        return os.path.normpath(model.folder / path)
    return os.path.relpath(model.folder / path, model.folder)
