"""Which starts of a graph reach each of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def spread(edges: Sequence[set[int]], starts: Sequence[Iterable[int]]) -> list[int]:
    """For each node of a graph the starts that reach it, as bits: in one pass over the graph's components."""
    masks = [0] * len(edges)
    for bit, nodes in enumerate(starts):
        for node in nodes:
            masks[node] |= 1 << bit
    for component in reversed(_components(edges)):  # from the sources on
        mask = 0
        for node in component:
            mask |= masks[node]
        for node in component:
            masks[node] = mask
        if mask:
            for node in component:
                for target in edges[node]:
                    masks[target] |= mask
    return masks


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


__all__ = ["spread"]
