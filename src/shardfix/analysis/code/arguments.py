"""What a call is given: its arguments bound to the real signature, the items of a visible ``**dict`` among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.dicts import Item, ways_of
from shardfix.analysis.code.names import DATA_LOADER, SIGNATURES

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

# What decides which samples a loader draws: where these differ from way to way, no single value is said.
DECIDING = ("dataset", "shuffle", "sampler", "batch_sampler", "generator")
_MAX_WAYS = 16


@dataclass(frozen=True, slots=True)
class Argument:
    """A value bound to a parameter: by keyword, by position, or as an item of a visible ``**dict``.

    ``holder`` is the dict display, ``dict()`` or ``update()`` call, assignment to an item or ``partial()`` call that it
    is written in, None where it is written in the call itself.
    """

    name: str
    value: ast.expr
    keyword: bool
    position: int | None = None
    holder: ast.AST | None = None

    @property
    def from_dict(self) -> bool:
        """Whether it is not written in the call itself."""
        return self.holder is not None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call bound to the real signature; ``opaque`` names what could not be seen.

    ``ways``: where a dict is filled differently from path to path in what decides the samples, the arguments on each;
    ``bound`` then lacks those that differ, and ``opaque`` says which.
    """

    bound: dict[str, Argument]
    opaque: str = ""
    ways: tuple[dict[str, Argument], ...] = field(default=())

    def value(self, name: str) -> ast.expr | None:
        """The expression bound to a parameter, or None."""
        argument = self.bound.get(name)
        return argument.value if argument else None

    @property
    def paths(self) -> tuple[dict[str, Argument], ...]:
        """The arguments on every way, one way or several."""
        return self.ways or (self.bound,)


def bind(module: Module, call: ast.Call, signature: str) -> Arguments:
    """A call's arguments bound to a signature of ``names.SIGNATURES``."""
    order = SIGNATURES[signature]
    fixed: dict[str, Argument] = {}
    opaque = ""
    made = partial_behind(module, call) if signature == DATA_LOADER else None
    if made is not None:
        for given in _keywords_and_items(module, made):
            if isinstance(given, Argument):
                fixed[given.name] = Argument(given.name, given.value, keyword=False, holder=made)
            else:
                opaque = given
        for i, value in enumerate(made.args[1:]):
            if isinstance(value, ast.Starred) or i >= len(order):
                opaque = module.source.source(value)
                break
            fixed[order[i]] = Argument(order[i], value, keyword=False, position=i + 1, holder=made)
    before = len(made.args) - 1 if made is not None else 0
    for i, value in enumerate(call.args):
        if isinstance(value, ast.Starred) or i + before >= len(order):
            opaque = module.source.source(value)
            break
        name = order[i + before]
        fixed[name] = Argument(name, value, keyword=False, position=i)
    ways: list[dict[str, Argument]] = [fixed]
    for keyword in call.keywords:
        if keyword.arg is not None:
            for way in ways:
                way[keyword.arg] = Argument(keyword.arg, keyword.value, keyword=True)
            continue
        found = ways_of(module, keyword.value, call)
        if not found or len(found) * len(ways) > _MAX_WAYS:
            opaque = "**" + module.source.source(keyword.value)
            continue
        ways = [_filled(way, items) for items in found for way in ways]
    differing = _differing(ways)
    if not differing:
        return Arguments(ways[-1], opaque)
    bound = {name: a for name, a in ways[-1].items() if name not in differing}
    if opaque:
        return Arguments(bound, opaque)
    text = next("**" + module.source.source(k.value) for k in call.keywords if k.arg is None)
    return Arguments(bound, f"{text} (several values of {sorted(differing)[0]!r})", tuple(ways))


def _filled(way: dict[str, Argument], items: dict[str, Item]) -> dict[str, Argument]:
    """A way with the items of a dict; what the call itself has can't be given twice, what a ``partial`` has yields."""
    return {**way, **{n: a for n, a in _arguments(items).items() if n not in way or way[n].from_dict}}


def _arguments(items: dict[str, Item]) -> dict[str, Argument]:
    return {n: Argument(n, item.value, keyword=False, holder=item.holder) for n, item in items.items()}


def _differing(ways: list[dict[str, Argument]]) -> set[str]:
    """The deciding arguments that are not the same on all ways."""
    return {n for n in DECIDING if len({a.value if (a := way.get(n)) is not None else None for way in ways}) > 1}


def _keywords_and_items(module: Module, call: ast.Call) -> Iterator[Argument | str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield Argument(keyword.arg, keyword.value, keyword=True)
            continue
        found = ways_of(module, keyword.value, call)
        if found is None or len(found) != 1:
            yield "**" + module.source.source(keyword.value)
        else:
            yield from _arguments(found[0]).values()


def partial_behind(module: Module, call: ast.Call) -> ast.Call | None:
    """The ``functools.partial(...)`` that a call calls by a name which has no other value."""
    if not isinstance(call.func, ast.Name):
        return None
    definitions = list(module.bindings.reaching(call.func))
    if len(definitions) != 1:
        return None
    d = definitions[0]
    made = d.value if d.kind == "assign" and d.index is None else None
    if isinstance(made, ast.Call) and made.args and "functools.partial" in module.callee(made):
        return made
    return None
