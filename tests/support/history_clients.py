"""Clients that run the steps of one transaction when a test says so, and write down what they did."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from history import Append, Read, Status, Transaction, now
from history_plan import LIST
from history_writer import found, read

from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from history import Operation

    from lakeconf import Lake


class LakeClient:
    """A transaction of lakeconf."""

    def __init__(self, lake: Lake) -> None:
        lake.refresh()
        self._block: AbstractContextManager[Lake] = lake.transaction()
        self._lake = self._block.__enter__()
        self._known: dict[str, tuple[int, ...]] = {}

    def read(self, key: str) -> tuple[int, ...]:
        table, _, number = key.partition("/")
        ((self._known[key]),) = (each.values for each in read(self._lake, table, [int(number)]))
        return self._known[key]

    def append(self, key: str, value: int) -> None:
        table, _, number = key.partition("/")
        if table.startswith(LIST):
            # A read in a transaction does not see its own writes.
            self._known[key] = (*self._known[key], value)
            frame = pa.table({"k": [int(number)], "v": [" ".join(map(str, self._known[key]))]})
            self._lake.table(table).overwrite(frame, where=f"k = {number}")
        else:
            self._lake.table(table).append(pa.table({"k": [int(number)], "v": [value]}))

    def delete(self, key: str) -> None:
        table, _, number = key.partition("/")
        self._lake.table(table).delete(f"k = {number}")

    def end(self, *, commit: bool) -> bool:
        if not commit:
            with contextlib.suppress(KeyError):
                self._block.__exit__(KeyError, KeyError(), None)
            return False
        try:
            self._block.__exit__(None, None, None)
        except LakeconfError:
            return False
        return True


class PlainClient:
    """A transaction of DuckDB without lakeconf."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._connection.execute("BEGIN")
        self._failed = False
        # DuckDB begins the transaction of the lake with the first statement that needs it.
        self._run("FROM ducklake_current_snapshot('dev')")

    def _run(self, sql: str) -> list[Any]:
        try:
            return [] if self._failed else self._connection.execute(sql).fetchall()
        except duckdb.Error:
            self._failed = True
            return []

    def read(self, key: str) -> tuple[int, ...]:
        table, _, number = key.partition("/")
        rows = self._run(f"SELECT k, v FROM dev.{table} WHERE k = {number} ORDER BY rowid")
        return found(table, [int(number)], rows)[0].values

    def append(self, key: str, value: int) -> None:
        table, _, number = key.partition("/")
        if table.startswith(LIST):
            self._run(f"UPDATE dev.{table} SET v = concat_ws(' ', nullif(v, ''), '{value}') WHERE k = {number}")
        else:
            self._run(f"INSERT INTO dev.{table} VALUES ({number}, {value})")

    def delete(self, key: str) -> None:
        table, _, number = key.partition("/")
        self._run(f"DELETE FROM dev.{table} WHERE k = {number}")

    def end(self, *, commit: bool) -> bool:
        try:
            if commit and not self._failed:
                self._connection.execute("COMMIT")
                return True
        except duckdb.Error:
            pass
        with contextlib.suppress(duckdb.Error):
            self._connection.execute("ROLLBACK")
        return False


Client = LakeClient | PlainClient


@dataclass
class Script:
    """Runs the steps of a scenario and returns its history.

    A step is the number of a client, and what it does: `?x` reads x, `+x` appends to x, `-x` deletes x, `c` commits,
    and `a` rolls back. The transaction of a client begins with its first step.
    """

    clients: dict[str, Callable[[], Client]]  # begins the transaction of each client
    keys: dict[str, str]  # the key of each letter
    _open: dict[str, Client] = field(default_factory=dict)
    _done: dict[str, list[Operation]] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)
    # The tables begin with smaller values.
    _values: int = 10

    def run(self, steps: str) -> list[Transaction]:
        """Runs the steps, separated by spaces; the transactions that are still open are committed at the end."""
        history = []
        words = steps.split()
        numbers = dict.fromkeys(word[0] for word in words)
        for word in [*words, *(f"{number}c" for number in numbers if f"{number}a" not in words)]:
            number, what, letter = word[0], word[1], word[2:]
            if number not in numbers:
                continue
            if number not in self._open:
                self._times[number] = now()
                self._open[number] = self.clients[number]()
            if what in "ca":
                del numbers[number]
                history.append(self._end(number, commit=what == "c"))
            else:
                self._step(number, what, self.keys[letter])
        return history

    def _step(self, number: str, what: str, key: str) -> None:
        client, done = self._open[number], self._done.setdefault(number, [])
        if what == "-":
            client.delete(key)
        elif what == "?":
            done.append(Read(key, client.read(key)))
        else:
            self._values += 1
            client.append(key, self._values)
            done.append(Append(key, self._values))

    def _end(self, number: str, *, commit: bool) -> Transaction:
        status: Status = "ok" if self._open[number].end(commit=commit) else "fail"
        done = tuple(self._done.get(number, ()))
        return Transaction(int(number), int(number), done, status, self._times[number], now())
