"""docs/integrations/dlt.md: a dlt pipeline that loads into a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse as url_of

import pytest
from doc_pages import named
from shell import run_shell

import lakeconf
from lakeconf.errors import UnsupportedError
from lakeconf.integrations.dlt import destination

if TYPE_CHECKING:
    from server_project import Project

PAGE = "integrations/dlt.md"
TOTALS = "SELECT (SELECT count(*) FROM raw.users), count(*), sum(revenue) FROM raw.events"
ALL = [(200, 3000, sum(range(1, 3001)) / 4)]


@pytest.mark.slow
def test_second_run_of_a_pipeline_loads_only_new_rows(server_project: Project) -> None:
    (server_project.folder / "load.py").write_text(named(PAGE, "python")["load.py"])
    home = server_project.folder.parent / "dlt"
    output = "".join(run_shell("python load.py", DLT_DATA_DIR=str(home)) for _ in range(2))
    assert server_project.rows(TOTALS) == ALL
    assert any(home.rglob("trace.pickle"))
    server_project.assert_no_secret(home, text=output)


def test_dlt_creates_no_folder(project: Path) -> None:
    """dlt creates the folder of its storage, which a user may not be allowed to do, unless it exists."""
    url = destination("dev", config=project).config_params["credentials"].storage.bucket_url
    assert Path(url_of(str(url)).path).is_dir()


def test_destination_masks_secrets_and_needs_them(server_project: Project) -> None:
    made = destination("prod")
    shown = f"{made!r}{made.config_params!r}{made.config_params['credentials']!s}"
    server_project.assert_no_secret(text=shown)
    backends = {
        "metadata_backend": {"type": "postgres", "secret_name": "x"},
        "storage_backend": {"type": "local", "path": "/lake"},
    }
    with pytest.raises(UnsupportedError, match=r"stores\.prod: dlt opens its own connections"):
        destination("prod", config=lakeconf.init({"stores": {"prod": backends}}))
