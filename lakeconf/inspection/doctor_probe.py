"""The file that `lakeconf doctor` puts below the data path, reads, and removes."""

from __future__ import annotations

from pathlib import Path

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.sql import literal


def read_and_remove(connection: Connection, folder: str, probe: str) -> None:
    """Reads the file and removes it.

    Args:
        connection: A connection with access to the storage.
        folder: Its folder, with a slash at the end.
        probe: Its path, as a SQL literal.

    Raises:
        LakeconfError: It cannot be read or removed.
    """
    try:
        connection.rows(f"FROM read_parquet({probe})")
        if "://" not in folder:
            # DuckDB reads some characters of a path as a pattern, and would leave the file.
            Path(folder, "probe.parquet").unlink()
            return
        # DuckDB has no statement that removes a file, but DuckLake removes files that an empty lake does not know.
        connection.execute(f"ATTACH 'ducklake::memory:' AS __lakeconf_doctor (DATA_PATH {literal(folder)})")
        removed = connection.rows("CALL ducklake_delete_orphaned_files('__lakeconf_doctor', cleanup_all => true)")
    except LakeconfError as error:
        raise LakeconfError(
            f"{folder}probe.parquet was written, but could not be read and removed: {error.message}",
            hint=f"remove it; {error.hint or 'check what the credentials permit'}",
        ) from error
    if len(removed) != 1:
        raise LakeconfError(f"{folder}probe.parquet was written, but could not be removed", hint="remove it")


def make_folders(folder: Path) -> list[Path]:
    """Creates a folder and its parents, and returns the ones that did not exist."""
    missing = [path for path in (*reversed(folder.parents), folder) if not path.exists()]
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LakeconfError(
            f"the folder {folder.parent} cannot be written: {error.strerror}",
            hint="check its owner and its permissions",
        ) from error
    return missing
