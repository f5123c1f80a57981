"""`lakeconf metrics` prints and serves the numbers that `lakeconf tables` and `lakeconf snapshots` show."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import lakeconf

if TYPE_CHECKING:
    from lakeconf import Lake

REPOSITORY = Path(__file__).parents[2]
OPERATIONS = REPOSITORY / "examples" / "operations"
SAMPLE = re.compile(r'(?P<name>[a-z_]+)\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (?P<value>\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
ENDS = {"gauge": ("",), "gaugehistogram": ("_bucket", "_gcount", "_gsum")}


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name, table and limit; checks the order and the form of the lines."""
    *lines, end = text.splitlines()
    assert (end, text.endswith("\n")) == ("# EOF", True)
    values: dict[tuple[str, ...], float] = {}
    kind = metric = ""
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, metric, kind = line.split(" ")
        elif line.startswith("#"):
            assert re.fullmatch(rf"# (UNIT {metric} (seconds|bytes)|HELP {metric} \S.*\.)", line), line
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample["name"].removeprefix(metric) in ENDS[kind], line
            labels = dict(LABEL.findall(sample["labels"]))
            assert labels.pop("store") == "dev"
            texts = [re.sub(r"\\(.)", r"\1", text) for text in labels.values()]
            key = (sample["name"].removeprefix("lakeconf_"), *texts)
            assert key not in values
            values[key] = float(sample["value"])
    return values


@pytest.fixture
def lake(project: Path) -> Any:
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("raw.t", {"id": "BIGINT"})
        table.append([{"id": number} for number in range(10)])
        table.append([{"id": number} for number in range(10, 20)])
        table.delete("id = 3")
        lake.create_table('raw."it""s"', {"id": "BIGINT"})
        for number in range(2):
            lake.table('raw."it""s"').append([{"id": number}])
        yield lake


def test_the_numbers_are_those_of_other_commands(lake: Lake, shown: Any) -> None:
    lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
    lake.maintenance.compact()
    lake.table("raw.t").append([{"id": 99}])
    values = parsed(shown("metrics"))
    tables = json.loads(shown("tables", "--format", "json"))
    assert len(tables) == 2
    for table in tables:
        of_table = {name: values[f"table_{name}", table["table"]] for name in ("rows", "inlined_rows", "deleted_rows")}
        assert of_table == {name: table[name] for name in of_table}
        assert values["table_delete_files", table["table"]] == table["delete_files"]
        assert values["table_file_size_bytes_gsum", table["table"]] == table["bytes"]
        assert values["table_file_size_bytes_bucket", table["table"], "1048576.0"] == table["files"]
        assert values["table_file_size_bytes_bucket", table["table"], "+Inf"] == table["files"]
    snapshots = json.loads(shown("snapshots", "--format", "json"))
    assert (values["snapshots",], values["snapshot_version",]) == (len(snapshots), snapshots[-1]["snapshot_id"])
    assert values["scheduled_deletions",] > 0
    assert ("last_maintenance_timestamp_seconds",) not in values
    lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    values = parsed(shown("metrics"))
    assert values["scheduled_deletions",] == 0
    assert values["last_maintenance_timestamp_seconds",] > values["last_commit_timestamp_seconds",]


def test_no_two_tables_have_the_same_label(shown: Any, project: Path) -> None:
    names = ("a\nb", "a\\nb", "a\\x0ab", 'a"b', "a\\")
    with lakeconf.init().get_store().open() as lake:
        for name in names:
            quoted = name.replace('"', '""')
            lake.create_table(f'"{quoted}"', {"id": "BIGINT"})
    rows = [key for key in parsed(shown("metrics")) if key[0] == "table_rows"]
    assert len(rows) == len(names)


def test_holders_of_the_lock_are_counted(shown: Any, project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        table = lake.create_table("t", {"id": "BIGINT"})
        assert parsed(shown("metrics"))["lock_holders",] == 0
        with lake.transaction():
            table.append([{"id": 1}])
            assert parsed(shown("metrics"))["lock_holders",] == 1
        assert parsed(shown("metrics"))["lock_holders",] == 0


class Service:
    """A running `lakeconf metrics --listen`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr
        self.process = process
        line = process.stderr.readline()
        self.url = f"http://{line.removeprefix('listening on ').split(',')[0]}"

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as answer:  # noqa: S310
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def service(lake: Lake) -> Any:
    command = [sys.executable, "-m", "lakeconf", "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield Service(process)
        process.kill()


@pytest.mark.slow
def test_the_service_answers_with_new_numbers_until_sigterm(service: Service, lake: Lake, called: Any) -> None:
    code, text = service.get()
    assert (code, parsed(text)["table_rows", "raw.t"]) == (200, 19)
    lake.table("raw.t").append([{"id": 5}])
    assert parsed(service.get()[1])["table_rows", "raw.t"] == 20
    assert service.get("/")[0] == 404

    catalog = lakeconf.init().get_store().metadata_backend.file()
    assert catalog
    away = catalog.rename(catalog.with_suffix(".away"))
    code, text = service.get()
    assert (code, str(catalog.parent) in text, catalog.exists()) == (503, False, False)
    away.rename(catalog)
    assert service.get()[0] == 200

    port = service.url.rpartition(":")[2]
    code, _, err = called("metrics", "--listen", f"127.0.0.1:{port}")
    assert (code, "choose another address or port" in err) == (1, True)
    with socket.create_connection(("127.0.0.1", int(port))) as leaving:
        leaving.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    with socket.create_connection(("127.0.0.1", int(port))) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert service.get()[0] == 200
        with ExitStack() as asking:
            for _ in range(8):
                client = asking.enter_context(socket.create_connection(("127.0.0.1", int(port))))
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            service.process.send_signal(signal.SIGTERM)
            out = service.process.communicate(timeout=60)[1]
    assert (service.process.returncode, "Traceback" in out) == (0, False)
    assert "error: store 'dev'" in out


def test_nothing_is_created(project: Path, called: Any) -> None:
    code, out, err = called("metrics")
    assert (code, out, "has no lake yet" in err) == (1, "", True)
    file = lakeconf.init().get_store().metadata_backend.file()
    assert file
    assert not file.exists()


@pytest.mark.parametrize("address", ["9464", "a:b", ":70000", ":-1", ""])
def test_an_address_has_a_port(address: str, project: Path, called: Any) -> None:
    code, _, err = called("metrics", "--listen", address)
    assert (code, "is not an address such as :9464" in err) == (2, True)


def test_promtool_accepts_the_numbers_and_the_alerts(lake: Lake, shown: Any) -> None:
    """`.ci/run` installs promtool where it can; this machine may have none, and the other tests check more."""
    promtool = shutil.which("promtool", path=f"{REPOSITORY / 'build'}:{os.environ['PATH']}")
    # promtool knows Prometheus' own format, which has no histogram of this kind.
    numbers = re.sub(r"# TYPE \S+ gaugehistogram\n(.*\n)*", "", shown("metrics"))
    assert "lakeconf_table_rows{" in numbers
    if promtool is not None:
        for arguments in (["metrics"], ["rules", str(OPERATIONS / "alerts.yml")]):
            check = [promtool, "check", *arguments]
            done = subprocess.run(check, input=numbers, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), done


def test_the_dashboard_and_the_alerts_use_numbers_that_exist(lake: Lake, shown: Any) -> None:
    lake.maintenance.cleanup(older_than=timedelta(0), force=True)
    known = {f"lakeconf_{name}" for name, *_ in parsed(shown("metrics"))}
    panels = json.loads((OPERATIONS / "dashboard.json").read_text())["panels"]
    rules = yaml.safe_load((OPERATIONS / "alerts.yml").read_text())["groups"][0]["rules"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in rules]
    used = {name for query in queries for name in re.findall(r"lakeconf_[a-z_]+", query)}
    assert used <= known
    # What no panel shows is in the table of files by size, or a version.
    assert known - used == {
        "lakeconf_" + name for name in ("snapshot_version", "table_file_size_bytes_gcount", "lock_holders")
    }
    limits = {limit for query in queries for limit in re.findall(r'le="([^"]*)"', query)}
    assert limits <= {key[2] for key in parsed(shown("metrics")) if len(key) == 3}
