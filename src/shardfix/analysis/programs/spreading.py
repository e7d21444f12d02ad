"""Which starts of a graph reach each of its nodes, where some nodes are reached through two others together only."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence


class Spread:
    """For each node of a graph the starts that reach it, as bits: its components in turn, from the sources on.

    Args:
        edges: the nodes that each node leads to.
        both: two nodes, and one that is reached by what reaches both of them.
        starts: for each bit the nodes at which it starts.
    """

    def __init__(
        self, edges: Sequence[set[int]], both: Iterable[tuple[int, int, int]], starts: Sequence[Iterable[int]]
    ) -> None:
        components = _components(edges)  # each after those that it leads to
        self._component = [0] * len(edges)
        for number, component in enumerate(components):
            for node in component:
                self._component[node] = number
        self._masks = [0] * len(components)
        self._targets = [{self._component[t] for node in c for t in edges[node]} for c in components]
        self._both: dict[int, set[tuple[int, int]]] = {}
        for a, b, target in both:
            one, other, third = self._component[a], self._component[b], self._component[target]
            self._both.setdefault(one, set()).add((other, third))
            self._both.setdefault(other, set()).add((one, third))
        self._heap: list[int] = []
        self._waiting: set[int] = set()
        for bit, nodes in enumerate(starts):
            for node in nodes:
                self._add(self._component[node], 1 << bit)
        self._run()

    def reaching(self, node: int) -> int:
        """The starts that reach a node."""
        return self._masks[self._component[node]]

    def add(self, masks: Iterable[tuple[int, int]]) -> None:
        """Let nodes be reached by more starts, and what they lead to."""
        for node, mask in masks:
            self._add(self._component[node], mask)
        self._run()

    def _add(self, component: int, mask: int) -> None:
        if mask & ~self._masks[component]:
            self._masks[component] |= mask
            if component not in self._waiting:
                self._waiting.add(component)
                heapq.heappush(self._heap, -component)

    def _run(self) -> None:
        while self._heap:
            component = -heapq.heappop(self._heap)
            self._waiting.remove(component)
            mask = self._masks[component]
            for target in self._targets[component]:
                self._add(target, mask)
            for other, target in self._both.get(component, ()):
                self._add(target, mask & self._masks[other])


def _components(edges: Sequence[set[int]]) -> list[list[int]]:
    """The strongly connected components of a graph, each after those that it leads to (Tarjan, without recursion)."""
    order: list[int] = [-1] * len(edges)
    low = [0] * len(edges)
    on_stack = [False] * len(edges)
    stack: list[int] = []
    found: list[list[int]] = []
    count = 0
    for start in range(len(edges)):
        if order[start] >= 0:
            continue
        work: list[tuple[int, Iterator[int]]] = [(start, iter(edges[start]))]
        order[start] = low[start] = count
        count += 1
        stack.append(start)
        on_stack[start] = True
        while work:
            node, targets = work[-1]
            for target in targets:
                if order[target] < 0:
                    order[target] = low[target] = count
                    count += 1
                    stack.append(target)
                    on_stack[target] = True
                    work.append((target, iter(edges[target])))
                    break
                if on_stack[target]:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component: list[int] = []
                    while True:
                        member = stack.pop()
                        on_stack[member] = False
                        component.append(member)
                        if member == node:
                            break
                    found.append(component)
    return found


__all__ = ["Spread"]
