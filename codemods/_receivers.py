"""What ``set_epoch`` is called on in an epoch loop: the sampler's variable where it is in sight, else the loader's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.codemods._certainty import always_loader, only_this

from shardfix.analysis.code.bindings import Definition, attribute_key, parameters
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.objects import family
from shardfix.analysis.loops.epochs import EpochLoop
from shardfix.analysis.sites import Site

_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Receiver:
    """An expression for the sampler at the top of a loop.

    ``sure``: nothing else can stand there. ``asked`` is the same for a test, where it may not exist either.
    """

    source: str
    sure: bool
    asked: str = ""


def receiver(site: Site, loop: EpochLoop, sampler: str, *, sampler_is_new: bool) -> Receiver | None:
    """What to call ``set_epoch`` on first in a loop; None where no name there is seen to be the sampler or loader.

    Args:
        sampler: the variable that holds the sampler where the loader is built; empty if it has none.
        sampler_is_new: the variable is made by this change, so no other assignment can stand in the way.
    """
    module, function = site.module, site.module.function(loop.loop)
    sure = runs_before(module, module.statement(site.call), loop.loop)
    # A parameter may be another loader in another call, so there the sampler is the loader's, not a variable's.
    handed = any(module.called_function(call) is function for call in loop.use.calls)
    if sampler and sure and not handed and _is_variable(site, loop, sampler, sampler_is_new):
        return Receiver(sampler, True)
    inner = "batch_sampler.sampler" if site.batch_arms else "sampler"
    if any(b.kind != "batch" for b in site.batch_arms):
        return None  # whether a batch sampler of the project's own has .sampler is not known
    sure = sure and not (handed and function is not None and len(module.callers(function)) > 1)
    alias = _alias(site, loop)
    named = module.source.source(alias) if alias is not None else None
    only = alias is None or only_this(site, alias)
    if named is not None and sure and only:
        return Receiver(f"{named}.{inner}", True)
    if named is not None and always_loader(site, loop.use.value):
        if _only_loaders(site, function):
            return Receiver(f"{named}.{inner}", False)
        if not site.batch_arms:
            return Receiver(f"{named}.sampler", False, f'getattr({named}, "sampler", None)')
    lifted = _lifted(site, loop, sure)
    return Receiver(f"{lifted}.{inner}", True) if lifted is not None else None


def runs_before(module: Module, statement: ast.stmt, loop: ast.stmt) -> bool:
    """Whether a statement has run wherever a loop runs; a loader built in a branch may be another one in the loop."""
    parent = module.parents[statement]
    holding = {_condition(n, inner) for n, inner in _branches(module, loop)}
    while isinstance(parent, (ast.With, ast.AsyncWith)) or (
        isinstance(parent, ast.If) and (_is_main(parent) or _condition(parent, statement) in holding)
    ):
        statement, parent = parent, module.parents[parent]
    if module.function(statement) is not module.function(loop) or module.home(statement) is not module.home(loop):
        return not isinstance(parent, (ast.If, ast.For, ast.While, ast.Try))
    around = {loop, *module.around(loop)}
    return any(s in around for s in module.block(statement))


def _branches(module: Module, node: ast.stmt) -> Iterator[tuple[ast.If, ast.stmt]]:
    """The branchings around a statement, each with its part that the statement stands in."""
    inner: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, ast.If) and isinstance(inner, ast.stmt):
            yield outer, inner
        inner = outer


def _condition(branching: ast.If, inner: ast.stmt) -> tuple[str, bool]:
    """What holds in a statement's branch: a test, and whether it does; ``if not a`` is the other side of ``if a``."""
    test, holds = branching.test, inner in branching.body
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return ast.dump(test), holds


def _is_main(node: ast.If) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _only_loaders(site: Site, function: ast.AST | None) -> bool:
    """Whether a function is only given DataLoaders that this file builds, where it is given this one."""
    module = site.module
    known = {n for s in site.siblings if s.kind == "torch" for n in s.flow.aliases}
    calls = module.callers(function) if function is not None else []
    given = [(module.parameter_for(c, v), v) for c in calls for v in (*c.args, *(k.value for k in c.keywords))]
    taken = {parameter for parameter, value in given if value in site.flow.aliases}
    return all(value in known for parameter, value in given if parameter in taken)


# --- names that stand in the loop already ---


def _is_variable(site: Site, loop: EpochLoop, sampler: str, sampler_is_new: bool) -> bool:
    """Whether the sampler's variable is the sampler at a loop's start."""
    module = site.module
    here, there = module.function(site.call), module.function(loop.loop)
    if here is not there and (here is not None or "." in sampler or module.home(loop.loop) is not module):
        return False
    scope = here or module.tree
    mine = set(site.distributed_definitions)
    others = [d for d in module.bindings.definitions if d.scope is scope and d.key == sampler and d not in mine]
    return sampler_is_new or (not others and _is_bound(module, sampler, loop))


def _is_bound(module: Module, name: str, loop: EpochLoop) -> bool:
    """Whether a variable still has its value where a loop starts (``del sampler``)."""
    if "." in name:
        return True
    there = module.environment(_head(loop))
    function = module.function(loop.loop)
    here = any(d.key == name and d.scope is (function or module.tree) for d in module.bindings.definitions)
    return there is None or not here or bool(there.get(name))


def _head(loop: EpochLoop) -> ast.expr:
    return loop.loop.test if isinstance(loop.loop, ast.While) else loop.loop.iter


def _alias(site: Site, loop: EpochLoop) -> ast.expr | None:
    """A name for the loader that is read within a loop and has its value before it."""
    module, there = site.module, site.module.function(loop.loop)
    found: list[tuple[bool, int, str, int, ast.expr]] = []
    for alias in site.flow.aliases:
        if not isinstance(alias, (ast.Name, ast.Attribute)) or module.function(alias) is not there:
            continue
        around = list(module.around(alias))
        if loop.loop in around and isinstance(alias.ctx, ast.Load) and not bound_within(module, alias, loop):
            near = loop.inside in around or alias is loop.use.value
            found.append((not near, alias.lineno, module.source.source(alias), alias.col_offset, alias))
    return min(found, key=lambda f: f[:4])[4] if found else None


def bound_within(module: Module, alias: ast.expr, loop: EpochLoop) -> bool:
    """Whether a name gets its value inside a loop, so that it has none, or an old one, at the loop's start."""
    root: ast.expr = alias
    definitions = set(module.bindings.reaching(alias))
    while isinstance(root, ast.Attribute):
        root = root.value
        definitions |= module.bindings.reaching(root)
    return any(d.statement is loop.loop or loop.loop in module.around(d.statement) for d in definitions)


# --- names carried outwards, from the batch loop through calls to the epoch loop ---


def _lifted(site: Site, loop: EpochLoop, sure: bool) -> str | None:
    """How the loader of a batch loop in another function is written in the epoch loop, where that is surely the same.

    ``self.loader`` of ``run_epoch()`` is ``self.loader`` in the ``fit()`` that calls it, ``trainer.loader`` where
    ``trainer.run_epoch()`` is called.
    """
    module = site.module
    node = _origin(site, loop.use.value) if loop.calls else None  # in its own function the loader has a name already
    attributes: list[str] = []  # behind the node
    for call in reversed(loop.calls):
        node = _unassigned(site, node) if not attributes else node
        root, names = _chain(node) if node is not None else (None, [])
        if node is None or root is None:
            return None
        if names and (attributes or not _settled(site, node, loop)):
            return None
        given = _given(module, root, call)
        if given is None or (names and _several(site, node) and not _made_with_it(site, given, loop)):
            return None
        if given is not root:
            attributes, node = [*names, *attributes], given
    root, names = _chain(node) if node is not None else (None, [])
    if root is None or not _stands(module, root, loop, sure):
        return None
    if names and not attributes:
        return None  # an attribute that is handed in stands in the loop itself
    source = ".".join([root.id, *names, *attributes])
    return source if _unbound_within(module, source, loop) else None


def _unassigned(site: Site, node: ast.expr | None) -> ast.expr | None:
    """The loader's name that a variable of a function was given (``loader = self.loader``), followed back."""
    module = site.module
    for _ in range(_DEPTH):
        if not isinstance(node, ast.Name):
            return node
        bound = module.bindings.reaching(node)
        d = next(iter(bound)) if len(bound) == 1 else None
        if d is None or d.kind != "assign" or d.index is not None or d.value is None:
            return node
        if d.scope is not module.function(node) or d.value is site.call:
            return node
        node = _origin(site, d.value)
    return None


def _origin(site: Site, node: ast.expr) -> ast.expr | None:
    """The name for the loader in what is iterated: of ``enumerate(tqdm(loader))``, or of a variable that holds it."""
    module = site.module
    for _ in range(_DEPTH):
        inner = [n for n in ast.walk(node) if n in site.flow.aliases and isinstance(n, (ast.Name, ast.Attribute))]
        if inner:
            return inner[0]
        found = module.bindings.reaching(node) if isinstance(node, (ast.Name, ast.Attribute)) else frozenset()
        values = [d.value for d in found if d.kind == "assign" and d.index is None and d.value is not None]
        if len(found) != 1 or len(values) != 1:
            return None
        node = values[0]
    return None


def _chain(node: ast.expr) -> tuple[ast.Name | None, list[str]]:
    """The name at the root of ``a.b.c`` and the attributes behind it."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return (node, names) if isinstance(node, ast.Name) else (None, names)


def _given(module: Module, root: ast.Name, call: ast.expr) -> ast.expr | None:
    """What a call gives a name that is free in the called function: its argument, for ``self`` the object."""
    (function,) = {module.function(root)}
    bound = module.bindings.reaching(root)
    if not bound or all(d.scope is not function for d in bound):
        return root  # a variable of the module, or of a function around
    if len(bound) != 1 or next(iter(bound)).kind != "parameter" or function is None:
        return None
    (d,) = bound
    first = parameters(function)[0]
    if d.node is first and module.is_method(function):
        if not isinstance(call, ast.Call):
            return call  # what is iterated
        on = call.func.value if isinstance(call.func, ast.Attribute) else None
        return on if on is not None and _chain(on)[0] is not None else None
    if not isinstance(call, ast.Call):
        return None
    values: Iterator[ast.expr] = (v for v in (*call.args, *(k.value for k in call.keywords)))
    given = [v for v in values if module.parameter_for(call, v) is d.node]
    return given[0] if len(given) == 1 and _chain(given[0])[0] is not None else None


def _stands(module: Module, root: ast.Name, loop: EpochLoop, sure: bool) -> bool:
    """Whether a name has the value it has in the batch loop at the epoch loop's start, too."""
    home, function = module.home(loop.loop), module.function(loop.loop)
    bound = module.bindings.reaching(root)
    scope = function or home.tree
    if bound and all(d.scope is scope for d in bound):
        there = module.environment(_head(loop))
        return there is not None and bool(there.get(root.id)) and there[root.id] <= bound
    if not sure or len(bound) != 1 or any(d.scope is not home.tree for d in bound):
        return False
    scopes = set(module.around(loop.loop)) - {home.tree}
    return not any(d.key == root.id and d.scope in scopes for d in home.bindings.definitions)


def _unbound_within(module: Module, source: str, loop: EpochLoop) -> bool:
    """Whether no part of ``a.b.c`` is bound in a loop."""
    definitions = module.home(loop.loop).bindings.definitions
    parts = source.split(".")
    keys = {".".join(parts[: i + 1]) for i in range(len(parts))}
    return not any(
        d.key in keys and (d.statement is loop.loop or loop.loop in module.around(d.statement)) for d in definitions
    )


# --- attributes ---


def _settled(site: Site, node: ast.expr, loop: EpochLoop) -> bool:
    """Whether ``self.x`` is this loader in every object, and has been set by the time that a loop starts."""
    module = site.module
    cls = module.class_of(node)
    if cls is None or not isinstance(node, ast.Attribute) or attribute_key(node) is None:
        return False
    if module.bindings.reaching(node):
        return False  # set in the function that reads it
    kin = family(module, cls)
    definitions = [d for other in kin for d in module.attribute_values(other, node.attr)]
    if _set_from_outside(module, kin, node.attr):
        return False
    unset = [d for d in definitions if isinstance(d.value, ast.Constant) and d.value.value is None]
    values = [d for d in definitions if d not in unset]
    if not values or not all(_is_loader(site, d) for d in values):
        return False
    if any(getattr(d.scope, "name", "") != "__init__" for d in unset):
        return False  # `self.loader = None` may come later
    return all(_done_before(module, d.statement, loop, 0) for d in values)


def _set_from_outside(module: Module, kin: set[ast.ClassDef], attribute: str) -> bool:
    """Whether ``x.attribute = ..`` stands anywhere for an ``x`` that may be an object of these classes."""
    for other in module.fellows:
        for d in other.bindings.definitions:
            base, _, name = d.key.rpartition(".")
            if name != attribute or base in ("", "self") or not isinstance(d.node, ast.Attribute):
                continue
            made = module.instances(d.node.value)
            if not made or not kin.isdisjoint(made):
                return True
    return False


def _is_loader(site: Site, d: Definition) -> bool:
    """Whether an attribute is set to the site's loader, by each construction of the object where it is handed in."""
    module = site.module
    if d.kind != "assign" or d.value is None:
        return False
    whole = d.value is site.call or d.value in site.flow.aliases
    if d.index is not None:
        readers = module.bindings.readers(d)
        whole = any(r in site.flow.aliases for r in readers) or (d.index >= 0 and _item(site, d))
    return whole


def _several(site: Site, node: ast.expr) -> bool:
    """Whether ``self.x`` is what an object is made with, and several objects are made: it is the loader in one only."""
    module, cls = site.module, site.module.class_of(node)
    assert isinstance(node, ast.Attribute)
    for d in (d for k in family(module, cls) for d in module.attribute_values(k, node.attr)) if cls is not None else ():
        value = list(ast.walk(d.value)) if d.value is not None else []
        names = [n for n in value if isinstance(n, ast.Name)] if site.call not in value else []
        if any(p.kind == "parameter" for n in names for p in module.bindings.reaching(n)):
            function = module.function(d.node)
            if function is None or len(module.callers(function)) != 1:
                return True
    return False


def _made_with_it(site: Site, node: ast.expr, loop: EpochLoop) -> bool:
    """Whether a name is an object that was made with the site's loader."""
    definitions = site.module.bindings.reaching(node)
    return bool(definitions) and all(d.index is None and d.value in loop.use.calls for d in definitions)


def _item(site: Site, d: Definition) -> bool:
    """Whether ``self.x, self.y = make()`` sets this attribute to the loader: where it is read, it is the loader."""
    key = d.key.partition(".")[2]
    loads = site.module.home(d.node).attribute_loads.get(key, [])
    return bool(loads) and any(n in site.flow.aliases for n in loads)


def _done_before(module: Module, statement: ast.AST, loop: EpochLoop, depth: int) -> bool:
    """Whether a statement has run by the time that a loop starts: in the ``__init__`` of the object, above the loop, or
    in a function that one of these calls."""
    if not isinstance(statement, ast.stmt) or depth > _DEPTH:
        return False
    function = module.function(statement)
    if function is module.function(loop.loop):
        around = {loop.loop, *module.around(loop.loop)}
        above = statement.lineno < loop.loop.lineno and statement not in around
        return above and runs_before(module, statement, loop.loop)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    outer = module.parents[statement]
    while isinstance(outer, (ast.With, ast.AsyncWith)):
        outer = module.parents[outer]
    if outer is not function or _left_early(module, function, statement):
        return False
    if function.name == "__init__":
        return True
    calls = [c for c in module.callers(function) if isinstance(module.parents[c], (ast.Expr, ast.Assign))]
    return any(_done_before(module, module.statement(c), loop, depth + 1) for c in calls)


def _left_early(module: Module, function: ast.AST, statement: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Return) and module.function(n) is function and n.lineno < statement.lineno
        for n in ast.walk(function)
    )
