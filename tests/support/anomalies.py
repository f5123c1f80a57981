"""Finds anomalies in histories of transactions that append to lists, in the style of Elle.

A read shows the order in which the values before it were appended. From these orders follow the dependencies between
transactions, and a cycle of dependencies is an anomaly: Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies
from Experimental Observations" (VLDB 2020); Adya, "Weak Consistency" (MIT 1999).
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from history import INDETERMINATE, NEVER, Append, Read, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


# Examples of one anomaly; a broken history has thousands.
_EXAMPLES = 5

MEANINGS = {
    "duplicate": "a list has one value twice",
    "unknown value": "a list has a value that no transaction appended",
    "incompatible order": "two reads of one list saw its values in different orders",
    "internal": "a transaction read something else than it had read or appended itself",
    "G1a": "aborted read, or dirty read: a read saw a value of a failed transaction",
    "dirty update": "a committed transaction appended to a list that had a value of a failed transaction",
    "G1b": "intermediate read: a read saw a part of the appends of a transaction",
    "lost write": "a read that began after the reply to an append did not see it, and no other read did",
    "lost update": "two committed transactions read the same version of a list and both appended to it",
    "G0": "write cycle: two transactions each overwrote the other",
    "G1c": "circular information flow: a cycle of writes and reads",
    "G-single": "read skew: a cycle with one anti-dependency",
    "G-nonadjacent": "a cycle with anti-dependencies, of which no two follow each other",
    "G2-item": "write skew: a cycle in which two anti-dependencies follow each other",
    "prefix": "a transaction saw a transaction, but not one that committed before that",
}
# The suffix of an anomaly whose cycle has an edge from a transaction's reply to the start of a later transaction.
REALTIME = "-realtime"
# What snapshot isolation allows. Everything else is forbidden.
ALLOWED_BY_SNAPSHOT_ISOLATION = {"G2-item", "G2-item-realtime"}
# What prefix consistency allows: snapshot isolation without a rule that of two writers of one item only one commits.
ALLOWED_BY_PREFIX_CONSISTENCY = ALLOWED_BY_SNAPSHOT_ISOLATION | {
    "lost update",
    "G-single",
    "G-nonadjacent",
    "G-single-realtime",
    "G-nonadjacent-realtime",
}


@dataclass
class Report:
    """The anomalies of a history."""

    found: dict[str, list[str]] = field(default_factory=dict)  # examples of each anomaly, by name
    counts: Counter[str] = field(default_factory=Counter)  # the number of transactions of each status
    edges: Counter[str] = field(default_factory=Counter)  # the number of dependencies of each kind

    def add(self, name: str, example: str) -> None:
        """Records an example of an anomaly."""
        examples = self.found.setdefault(name, [])
        if len(examples) < _EXAMPLES and example not in examples:
            examples.append(example)

    def forbidden(self, allowed: Iterable[str] = ()) -> dict[str, list[str]]:
        """The anomalies that a level of isolation does not allow."""
        return {name: examples for name, examples in self.found.items() if name not in set(allowed)}

    def __str__(self) -> str:
        lines = [f"{dict(self.counts)}, {dict(self.edges)}"]
        for name, examples in self.found.items():
            lines += [f"{name}: {MEANINGS[name.removesuffix(REALTIME)]}", *(f"    {each}" for each in examples)]
        return "\n".join(lines)


class _Versions:
    """Who appended each value, and the order of the values of each key."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.writers: dict[tuple[str, int], Transaction] = {}
        self.orders: dict[str, tuple[int, ...]] = {}
        self.readers = [each for each in history if each.status == "ok"]
        for transaction in history:
            for append in transaction.appends:
                if (append.key, append.value) in self.writers:
                    raise ValueError(f"{append} occurs twice: the history cannot be checked")
                self.writers[append.key, append.value] = transaction
        for read in (read for transaction in self.readers for read in transaction.reads):
            if len(read.values) > len(self.orders.get(read.key, ())):
                self.orders[read.key] = read.values

    def writer(self, key: str, value: int) -> Transaction | None:
        """The transaction that appended a value, if it may have committed."""
        found = self.writers.get((key, value))
        return None if found is None or found.status == "fail" else found


def find_anomalies(history: Sequence[Transaction], *, realtime: bool = True) -> Report:
    """Checks a history; an indeterminate transaction counts as committed if a read saw a value of it."""
    report = Report(counts=Counter(each.status for each in history))
    versions = _Versions(history)
    for transaction in versions.readers:
        _check_internal(report, transaction)
        for read in transaction.reads:
            _check_read(report, versions, transaction, read)
    _check_orders(report, versions)
    _check_lost_updates(report, versions)
    _check_lost_writes(report, versions)
    graph = Graph(_dependencies(versions))
    _check_cycles(report, graph, "")
    if realtime:
        for edge in _real_time(history):
            graph.add(edge)
        _check_cycles(report, graph, REALTIME)
    report.edges = Counter(edge.kind for edge in graph.edges())
    return report


def _check_internal(report: Report, transaction: Transaction) -> None:
    known: dict[str, tuple[int, ...]] = {}
    appended: dict[str, tuple[int, ...]] = {}
    for each in transaction.operations:
        if isinstance(each, Append):
            appended[each.key] = (*appended.get(each.key, ()), each.value)
            if each.key in known:
                known[each.key] = (*known[each.key], each.value)
        else:
            own = appended.get(each.key, ())
            expected = known.get(each.key)
            if (expected is not None and each.values != expected) or (own and each.values[-len(own) :] != own):
                report.add("internal", str(transaction))
            known[each.key] = each.values


def _check_read(report: Report, versions: _Versions, transaction: Transaction, read: Read) -> None:
    if len(set(read.values)) < len(read.values):
        twice = [value for value, count in Counter(read.values).items() if count > 1]
        report.add("duplicate", f"{transaction}: {twice[:3]} of {read.key}")
    order = versions.orders.get(read.key, ())
    if read.values != order[: len(read.values)]:
        at = next(index for index, (one, other) in enumerate(zip(read.values, order, strict=False)) if one != other)
        report.add(
            "incompatible order",
            f"{transaction}: {read.key} is {read.values[at : at + 3]} and elsewhere {order[at : at + 3]} from {at} on",
        )
    for value in read.values:
        writer = versions.writers.get((read.key, value))
        if writer is None:
            report.add("unknown value", f"{transaction}: {value} of {read.key}")
        elif writer.status == "fail" and writer is not transaction:
            report.add("G1a", f"{transaction} saw {value} of {writer}")
    if read.values:
        writer = versions.writers.get((read.key, read.values[-1]))
        if writer is not None and writer is not transaction:
            last = [append.value for append in writer.appends if append.key == read.key][-1]
            if last != read.values[-1]:
                report.add("G1b", f"{transaction} saw a part of {writer}")


def _check_orders(report: Report, versions: _Versions) -> None:
    for key, values in versions.orders.items():
        for value, later in pairwise(values):
            failed, written = versions.writers.get((key, value)), versions.writer(key, later)
            if failed is not None and failed.status == "fail" and written is not None:
                report.add("dirty update", f"{written} comes after {failed}")


def _check_lost_updates(report: Report, versions: _Versions) -> None:
    based: dict[tuple[str, tuple[int, ...]], Transaction] = {}
    for transaction in versions.readers:
        written = {append.key for append in transaction.appends}
        for key, values in {read.key: read.values for read in reversed(transaction.reads)}.items():
            if key in written:
                other = based.setdefault((key, values), transaction)
                if other is not transaction:
                    report.add("lost update", f"{other} and {transaction}")


def _check_lost_writes(report: Report, versions: _Versions) -> None:
    latest: dict[str, Transaction] = {}
    for transaction in versions.readers:
        for read in transaction.reads:
            if read.key not in latest or transaction.invoked > latest[read.key].invoked:
                latest[read.key] = transaction
    seen = {(read.key, value) for each in versions.readers for read in each.reads for value in read.values}
    for (key, value), writer in versions.writers.items():
        reader = latest.get(key)
        if writer.status == "ok" and (key, value) not in seen and reader and writer.completed < reader.invoked:
            report.add("lost write", f"{writer}: no read saw {value} of {key}, not even {reader}")


def _dependencies(versions: _Versions) -> Iterable[Edge]:
    """The dependencies that follow from the reads."""
    following: dict[tuple[str, int | None], int] = {}
    for key, values in versions.orders.items():
        for value, later in zip((None, *values), values, strict=False):
            following.setdefault((key, value), later)
            earlier, written = versions.writer(key, value) if value is not None else None, versions.writer(key, later)
            if earlier and written:
                yield Edge(earlier.number, written.number, WW, f"{key}: {value}, {later}")
    for transaction in versions.readers:
        for read in transaction.reads:
            last = read.values[-1] if read.values else None
            writer = versions.writer(read.key, last) if last is not None else None
            if writer:
                yield Edge(writer.number, transaction.number, WR, f"{read.key}: {last}")
            newer = following.get((read.key, last))
            overwriter = versions.writer(read.key, newer) if newer is not None else None
            if overwriter:
                yield Edge(transaction.number, overwriter.number, RW, f"{read.key}: {last}, {newer}")


def _real_time(history: Sequence[Transaction]) -> Iterable[Edge]:
    """An edge from each transaction to those that began after its reply, without edges that follow from others."""
    known = [each for each in history if each.status != "fail"]
    times = [(each.invoked, 1, each) for each in known]
    times += [(each.completed, 0, each) for each in known if each.status != INDETERMINATE and each.completed < NEVER]
    newest: dict[int, Transaction] = {}
    before: dict[int, set[int]] = {}
    for _, is_begin, transaction in sorted(times, key=lambda item: item[:2]):
        if is_begin:
            before[transaction.number] = set(newest)
            for number in newest:
                yield Edge(number, transaction.number, RT)
        else:
            for number in before[transaction.number]:
                newest.pop(number, None)
            newest[transaction.number] = transaction


def _check_cycles(report: Report, graph: Graph, suffix: str) -> None:
    """Finds cycles. With a suffix, only those through an edge of real time."""
    real = {RT} if suffix else set[str]()

    def add(name: str, edges: list[Edge]) -> None:
        if edges and (not suffix or any(edge.kind == RT for edge in edges)):
            report.add(name + suffix, " ".join(map(str, edges)))

    writes = graph.of(WW, *real)
    for component in writes.components():
        add("G0", _cycle(writes.within(component), real or {WW}))
    certain = graph.of(WW, WR, *real)
    for component in certain.components():
        add("G1c", _cycle(certain.within(component), real or {WR}))
    # Snapshot isolation: no cycle in (ww or wr), each followed by at most one rw. Cerone and Gotsman, "Analysing
    # Snapshot Isolation" (PODC 2016).
    skewed = set[int]()
    for component in Graph(_composed(graph, certain)).components():
        skewed |= component
    full = graph.of(WW, WR, RW, *real)
    for component in full.components():
        part = full.within(component)
        if skewed & component:
            for cycle in _without_adjacent(part, skewed & component):
                add("G-single" if sum(edge.kind == RW for edge in cycle) == 1 else "G-nonadjacent", cycle)
        else:
            add("G2-item", _cycle(part, {RW}))
    # Prefix consistency: no cycle in ww, and wr followed by at most one rw. Cerone, Gotsman and Yang, "Algebraic Laws
    # for Weak Consistency" (CONCUR 2017).
    seen = graph.of(WR, *real)
    prefix = Graph([*graph.of(WW).edges(), *_composed(graph, seen)])
    for component in prefix.components():
        add("prefix", _cycle(prefix.within(component), real or {WR}))


def _cycle(graph: Graph, kinds: set[str]) -> list[Edge]:
    """A cycle with an edge of one of some kinds; empty if there is none."""
    for edge in graph.edges():
        if edge.kind in kinds:
            return [edge, *graph.path(edge.target, edge.source)]
    return []


def _composed(graph: Graph, first: Graph) -> Iterable[Edge]:
    """The edges of `first`, and each of them followed by an anti-dependency."""
    skips: dict[int, list[Edge]] = {}
    for edge in graph.of(RW).edges():
        skips.setdefault(edge.source, []).append(edge)
    for edge in first.edges():
        yield edge
        for skip in skips.get(edge.target, ()):
            if skip.target == edge.source:
                # A cycle of two, which a graph without loops does not show.
                yield Edge(edge.source, edge.target, edge.kind, edge.why)
                yield Edge(edge.target, edge.source, edge.kind, f"{edge.why} {skip.why}")
            else:
                yield Edge(edge.source, skip.target, edge.kind, f"{edge.why})-> T{edge.target} -rw({skip.why}")


def _without_adjacent(graph: Graph, nodes: set[int]) -> Iterable[list[Edge]]:
    """Cycles in which no anti-dependency follows another one."""
    found = 0
    for edge in graph.edges():
        if edge.kind == RW and edge.target in nodes and found < _EXAMPLES:

            def may_follow(last: Edge | None, following: Edge, edge: Edge = edge) -> bool:
                closes = following.target == edge.source
                return following.kind != RW or not (last is None or last.kind == RW or closes)

            cycle = graph.path(edge.target, edge.source, leaves=may_follow)
            if cycle:
                found += 1
                yield [edge, *cycle]


WW, WR, RW, RT = "ww", "wr", "rw", "rt"


class Edge(NamedTuple):
    """A transaction that comes after another one in every equivalent serial order."""

    source: int  # the number of the earlier transaction
    target: int  # the number of the later transaction
    # `ww`: overwrites its version. `wr`: reads its version. `rw`: overwrites the version that it read. `rt`: began
    # after its reply.
    kind: str
    why: str = ""  # the key and the values that show it

    def __str__(self) -> str:
        return f"T{self.source} -{self.kind}{f'({self.why})' if self.why else ''}-> T{self.target}"


class Graph:
    """A graph with at most one edge of each kind between two transactions."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self._out: dict[int, dict[tuple[int, str], Edge]] = {}
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        """Adds an edge, unless it leads back to its own transaction."""
        if edge.source != edge.target:
            self._out.setdefault(edge.source, {}).setdefault((edge.target, edge.kind), edge)

    def edges(self) -> Iterator[Edge]:
        """All edges."""
        for out in self._out.values():
            yield from out.values()

    def after(self, node: int) -> Iterable[Edge]:
        """The edges that leave a transaction."""
        return self._out.get(node, {}).values()

    def of(self, *kinds: str) -> Graph:
        """The graph with only some kinds of edges."""
        return Graph(edge for edge in self.edges() if edge.kind in kinds)

    def within(self, nodes: set[int]) -> Graph:
        """The graph with only some transactions."""
        return Graph(edge for node in nodes for edge in self.after(node) if edge.target in nodes)

    def components(self) -> list[set[int]]:
        """The strongly connected components with more than one transaction (Kosaraju's algorithm)."""
        sources: dict[int, list[int]] = {}
        for edge in self.edges():
            sources.setdefault(edge.target, []).append(edge.source)
        seen: set[int] = set()
        found = []
        for root in reversed(self._postorder()):
            component, waiting = set[int](), [root]
            while waiting:
                node = waiting.pop()
                if node not in seen:
                    seen.add(node)
                    component.add(node)
                    waiting += sources.get(node, ())
            if len(component) > 1:
                found.append(component)
        return found

    def _postorder(self) -> list[int]:
        """The transactions, each after all that a search from it reaches first."""
        seen: set[int] = set()
        order = []
        for root in self._out:
            waiting = [(root, False)]
            while waiting:
                node, is_done = waiting.pop()
                if is_done:
                    order.append(node)
                elif node not in seen:
                    seen.add(node)
                    waiting.append((node, True))
                    waiting += ((edge.target, False) for edge in self.after(node))
        return order

    def path(self, start: int, end: int, *, leaves: Callable[[Edge | None, Edge], bool] | None = None) -> list[Edge]:
        """A shortest path between two transactions, or a cycle; `leaves` may forbid an edge after another."""
        waiting: deque[tuple[Edge, ...]] = deque([()])
        seen: set[tuple[int, bool]] = set()
        while waiting:
            taken = waiting.popleft()
            last = taken[-1] if taken else None
            for edge in self.after(last.target if last else start):
                state = edge.target, edge.kind == RW
                if state in seen or (leaves and not leaves(last, edge)):
                    continue
                if edge.target == end:
                    return [*taken, edge]
                seen.add(state)
                waiting.append((*taken, edge))
        return []
