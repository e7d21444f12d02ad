"""Whether a name can be nothing but a loader, by all that gives it a value."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardfix.analysis.code.bindings import Definition, attribute_key
from shardfix.analysis.code.decorators import gives_its_result
from shardfix.analysis.code.names import DATA_LOADER
from shardfix.analysis.code.objects import family
from shardfix.analysis.sites import Site

_DEPTH = 8
_Wanted = Callable[[ast.expr], bool]


def only_this(site: Site, node: ast.expr) -> bool:
    """Whether an expression that may be the site's loader is that one on every path; what callers hand in is not asked.

    ``make()`` may run another function (an import in a branch, an override) or return something else (an early return,
    a wrapper put around the loader on some path).
    """
    return _only(site, node, lambda n: n is site.call, 0)


def always_loader(site: Site, node: ast.expr) -> bool:
    """Whether an expression that may be the site's loader is a DataLoader on every path, so that it has a sampler."""
    known = {s.call for s in site.siblings if s.kind == "torch"}
    return _only(site, node, lambda n: n in known or site.module.is_call(n, DATA_LOADER), 0)


def _only(site: Site, node: ast.expr, wanted: _Wanted, depth: int) -> bool:
    module = site.module
    if wanted(node):
        return True
    if depth > _DEPTH:
        return False
    if isinstance(node, ast.Call):
        return _gives(site, node, None, wanted, depth)
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    bound = list(module.bindings.reaching(node))
    if not bound and isinstance(node, ast.Attribute):
        return _attribute(site, node, wanted, depth)
    if not bound:
        return node in site.flow.aliases  # by a star
    return all(_binds(site, d, wanted, depth) for d in bound)


def _binds(site: Site, d: Definition, wanted: _Wanted, depth: int) -> bool:
    module = site.module
    if d.kind == "parameter":
        return True
    if d.kind == "import":
        named = [o for name in sorted(module.home(d.node).resolve(d.module)) for o in module.named(name) if o is not d]
        return bool(named) and all(_binds(site, o, wanted, depth + 1) for o in named)
    if isinstance(d.statement, (ast.With, ast.AsyncWith)) and d.value is not None:
        return _only(site, d.value, wanted, depth + 1)
    if d.kind != "assign" or d.value is None:
        return d.kind == "loop"  # an item of what is iterated
    if d.index is None:
        return _only(site, d.value, wanted, depth + 1)
    return not isinstance(d.value, ast.Call) or _gives(site, d.value, d.index, wanted, depth)


def _attribute(site: Site, node: ast.Attribute, wanted: _Wanted, depth: int) -> bool:
    """Whether an attribute is set to the loader wherever it is set; ``None`` before that counts as not set."""
    module = site.module
    own = module.class_of(node) if attribute_key(node) == f"self.{node.attr}" else None
    classes = [own] if own is not None else module.instances(node.value)
    if not classes:
        named = [d for name in sorted(module.qualify(node)) for d in module.named(name)]
        if named:
            return all(_binds(site, d, wanted, depth + 1) for d in named)
        return node in site.flow.aliases and len(module.bindings.reaching(node.value)) == 1
    kin = {member for cls in classes for member in family(module, cls)}
    found = [d for cls in kin for d in module.attribute_values(cls, node.attr)]
    values = [d for d in found if not (isinstance(d.value, ast.Constant) and d.value.value is None)]
    return all(_binds(site, d, wanted, depth + 1) and not _of_several(site, d) for d in values)


def _of_several(site: Site, d: Definition) -> bool:
    """Whether an attribute is what an object is made with, where several are made."""
    module = site.module
    function = module.function(d.node)
    names = [n for n in ast.walk(d.value) if isinstance(n, ast.Name)] if d.value is not None else []
    given = any(p.kind == "parameter" and p.scope is function for n in names for p in module.bindings.reaching(n))
    return given and function is not None and len(module.callers(function)) > 1


def _gives(site: Site, call: ast.Call, index: int | None, wanted: _Wanted, depth: int) -> bool:
    """Whether a call gives the loader, whichever function it runs, and nothing in its place."""
    module = site.module
    functions = module.called_functions(call)
    if not functions or len(module.bindings.reaching(call.func)) > len(functions):
        return False
    return all(_returns(site, f, index, wanted, depth) for f in functions)


def _returns(
    site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef, index: int | None, wanted: _Wanted, depth: int
) -> bool:
    module = site.module
    if function.name == "__init__" or not gives_its_result(module, function):
        return False
    given = (n for n in ast.walk(function) if isinstance(n, (ast.Return, ast.Yield)))
    returned = (n for n in given if module.function(n) is function)
    values = [n.value for n in returned if n.value is not None and not isinstance(n.value, ast.Constant)]
    if index is not None:
        items = [v.elts[index] for v in values if isinstance(v, (ast.Tuple, ast.List)) and -1 < index < len(v.elts)]
        return len(items) < len(values) or all(_only(site, v, wanted, depth + 1) for v in items)
    return all(_only(site, v, wanted, depth + 1) for v in values)
