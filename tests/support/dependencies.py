"""The graph of dependencies between transactions (Adya), and the cycles in it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
