"""The checker finds each anomaly where one was planted, tells them apart, and finds none in correct histories."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from anomalies import ALLOWED_BY_PREFIX_CONSISTENCY, ALLOWED_BY_SNAPSHOT_ISOLATION, MEANINGS, REALTIME, find_anomalies
from history import INDETERMINATE, NEVER, Append, Journal, Operation, Read, Status, Transaction, load

if TYPE_CHECKING:
    from pathlib import Path

# `+x1` appends 1 to x, `x:12` reads x as [1, 2], and `x:` reads it as empty. `@1-2` is when a transaction began and
# ended; without it, it is concurrent with all others.
PLANTED = {
    "duplicate": ["+x1", "+x2", "x:121"],
    "unknown value": ["+x1", "x:13"],
    "incompatible order": ["+x1", "+x2", "x:12", "x:21"],
    "internal": ["+x1", "x:1 +x2 x:1"],
    "G1a": ["fail +x1", "x:1"],
    "dirty update": ["fail +x1", "+x2", "x:12"],
    "G1b": ["+x1 +x2", "x:1"],
    "lost write": ["+x1 @1-2", "x: @3-4"],
    "lost update": ["+x1", "x:1 +x2", "x:1 +x3", "x:123"],
    "G0": ["+x1 +y2", "+x2 +y1", "x:12", "y:12"],
    "G1c": ["+x1 y:1", "x:1 +y1"],
    # The second one has seen the first one's x but not its y.
    "G-single": ["+x1 +y1", "x:1 y:", "y:1"],
    # Two transactions that see the writes of one of two writers each, in different orders.
    "G-nonadjacent": ["+x1", "+y1", "x:1 y:", "x: y:1", "x:1 y:1"],
    "G2-item": ["x: y: +x1", "x: y: +y1", "x:1 y:1"],
    # The third one has seen the second append, but not the first, which a writer made before it.
    "prefix": ["+x1 +y1", "+y2 +z2", "z:2 x:", "y:12 x:1"],
    "G0-realtime": ["+x1 @3-4", "+x2 @1-2", "x:12 @5-6"],
    "G1c-realtime": ["x:1 @1-2", "+x1 @3-4"],
    "G-single-realtime": ["+x1 @1-2", "x: @3-4", "x:1 @5-6"],
    "G-nonadjacent-realtime": ["+x1 @0-9", "+y1 @1-2", "x:1 y: @0-9", "x: @3-8", "x:1 y:1 @10-11"],
}


def transactions(texts: list[str]) -> list[Transaction]:
    return [transaction(number, text) for number, text in enumerate(texts, start=1)]


def transaction(number: int, text: str) -> Transaction:
    status: Status = "ok"
    invoked, completed = 0, NEVER - 1
    operations: list[Operation] = []
    for word in text.split():
        if word in ("fail", "info"):
            status = "fail" if word == "fail" else INDETERMINATE
        elif word.startswith("@"):
            invoked, completed = (int(part) for part in word[1:].split("-"))
        elif word.startswith("+"):
            operations.append(Append(word[1], int(word[2:])))
        else:
            operations.append(Read(word[0], tuple(map(int, word[2:]))))
    return Transaction(number, number, tuple(operations), status, invoked, completed)


# What else is found beside some anomalies; the worst one is reported under its own name.
ALSO = {"G2-item": "", "G1a": "", "G1b": "", "lost write": "", "G0": "prefix", "G1c": "prefix", "G-single": "prefix"}
ALSO |= {"lost update": "G-single"}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_anomaly_is_found_and_told_apart(name: str) -> None:
    """Alone, and among transactions that have nothing to do with it, in any order."""
    report = find_anomalies(transactions(PLANTED[name]))
    assert name in report.found, str(report)
    assert MEANINGS[name.removesuffix(REALTIME)] in str(report)
    if name in ALSO:
        assert {each.removesuffix(REALTIME) for each in report.found} <= {name, ALSO[name]}, str(report)
    if name != "lost write":
        chance = random.Random(name)  # noqa: S311
        history = serial(chance, 200)
        first, last = history[0].invoked, NEVER - 1
        for each in transactions(PLANTED[name]):
            ended = each.completed + first if each.completed < last else last
            moved = replace(each, number=each.number + 1000, invoked=each.invoked + first, completed=ended)
            history.append(moved)
        chance.shuffle(history)
        assert name in find_anomalies(history).found


def test_serializable_histories_have_no_anomaly() -> None:
    for seed in range(20):
        assert find_anomalies(serial(random.Random(seed), 200)).found == {}  # noqa: S311


def serial(chance: random.Random, count: int) -> list[Transaction]:
    """A history of transactions that ran one after the other, on keys of their own; replies come late."""
    lists: dict[str, list[int]] = {key: [] for key in "abcdefgh"}
    history = []
    for number in range(count):
        reads = [Read(key, tuple(lists[key])) for key in chance.sample(sorted(lists), 3)]
        appends = [Append(key, number * 10 + at) for at, key in enumerate(chance.sample(sorted(lists), 2))]
        status: Status = chance.choices(["ok", "fail", INDETERMINATE], [8, 1, 1])[0]
        if status == "ok" or (status == INDETERMINATE and chance.random() < 0.5):
            for append in appends:
                lists[append.key].append(append.value)
        operations: tuple[Operation, ...] = (*reads, *appends) if status == "ok" else tuple(appends)
        completed = NEVER if status == INDETERMINATE else number * 10 + chance.randrange(1, 40)
        history.append(Transaction(number, number % 5, operations, status, number * 10 - 30, completed))
    return history


def test_snapshot_isolation_allows_write_skew_and_prefix_consistency_lost_updates() -> None:
    reports = {name: find_anomalies(transactions(texts)) for name, texts in PLANTED.items()}
    for level, allowed in (
        (ALLOWED_BY_SNAPSHOT_ISOLATION, {"G2-item"}),
        (ALLOWED_BY_PREFIX_CONSISTENCY, {"G2-item", "lost update"}),
    ):
        assert {name for name, report in reports.items() if not report.forbidden(level)} == allowed


def test_transactions_without_a_reply_count_if_a_read_saw_them() -> None:
    assert find_anomalies(transactions(["info +x1", "x:"])).found == {}
    assert find_anomalies(transactions(["info +x1 +y1", "x:1 y:1"])).found == {}
    assert "G-single" in find_anomalies(transactions(["info +x1 +y1", "x:1 y:", "y:1"])).found


def test_a_value_that_occurs_twice_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        find_anomalies(transactions(["+x1", "+x1"]))


def test_a_process_that_dies_leaves_an_indeterminate_transaction(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "1", process=1)
    journal.invoke(7, "merge", [Append("x", 1), Append("y", 2)])
    journal.complete(7, "ok", [Read("x", ()), Read("y", (5, 6))])
    journal.invoke(9, "append", [Append("x", 3)])
    first, second = load([tmp_path / "1"])
    assert first.operations == (Read("x", ()), Read("y", (5, 6)), Append("x", 1), Append("y", 2))
    assert (first.status, second.status, second.completed) == ("ok", INDETERMINATE, NEVER)
    assert first.invoked < first.completed < second.invoked
    assert str(second) == "T9 [indeterminate, append]: append(x, 3)"
