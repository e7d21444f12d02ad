"""Where an argument of a loader is written, in its call or in a dict that it unpacks, and how it is edited there."""

from __future__ import annotations

import ast

from shardfix.analysis.code.arguments import Argument
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropKeyword, DropStatement, Edit, ReplaceExpression, SetKeyword

_DEPTH = 6


def dropped(site: Site, argument: Argument) -> list[Edit] | None:
    """The edits that take an argument out; None where that can't be done."""
    module, holder = site.module, argument.holder
    if holder is None:
        if argument.position is not None:
            return None
        return [DropKeyword(*module.place(site.call), argument.name)]
    if isinstance(holder, ast.Dict):
        return [DropKeyword(*module.place(holder), argument.name)]
    if isinstance(holder, ast.Call) and _keyword(holder, argument) is not None:
        if len(holder.keywords) == 1 and not holder.args and isinstance(module.parents[holder], ast.Expr):
            return [DropStatement(*module.place(module.parents[holder]))]
        return [DropKeyword(*module.place(holder), argument.name)]
    return [DropStatement(*module.place(holder))] if isinstance(holder, ast.Assign) else None


def given(site: Site, argument: Argument, value: str) -> list[Edit] | None:
    """The edits that give an argument another value; None where that can't be done."""
    module, holder = site.module, argument.holder
    if holder is None:
        return [SetKeyword(*module.place(site.call), argument.name, value, positional=argument.position)]
    if isinstance(holder, ast.AugAssign):
        return None
    return [ReplaceExpression(*module.place(argument.value), value)]


def renamed(site: Site, argument: Argument, name: str, value: str) -> list[Edit] | None:
    """The edits that put another argument in the place of one; None where that can't be done."""
    module, holder = site.module, argument.holder
    if holder is None:
        if argument.position is not None:
            return None
        return [SetKeyword(*module.place(site.call), name, value, replacing=argument.name)]
    if isinstance(holder, ast.Call) and _keyword(holder, argument) is not None:
        return [SetKeyword(*module.place(holder), name, value, replacing=argument.name)]
    key: ast.expr | None = None
    if isinstance(holder, ast.Dict):
        key = next(k for k, v in zip(holder.keys, holder.values, strict=True) if v is argument.value)
    elif isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Subscript):
        key = holder.targets[0].slice
    if key is None:
        return None
    quote = module.source.source(key)[:1]
    return [
        ReplaceExpression(*module.place(key), f"{quote}{name}{quote}" if quote in "'\"" else repr(name)),
        ReplaceExpression(*module.place(argument.value), value),
    ]


def _keyword(call: ast.Call, argument: Argument) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == argument.name and k.value is argument.value), None)


def fed_by(site: Site, holder: ast.AST) -> list[ast.Call] | None:
    """The calls that unpack what a holder is part of; None where it also goes somewhere that is not followed."""
    found: list[ast.Call] = []
    return found if _fed(site, holder, found, 0) else None


def _fed(site: Site, holder: ast.AST, found: list[ast.Call], depth: int) -> bool:
    module = site.module.home(holder)
    if depth > _DEPTH:
        return False
    if isinstance(holder, ast.Assign):
        item = holder.targets[0]
        return isinstance(item, ast.Subscript) and _variable(site, item.value, found, depth)
    outer: ast.AST = holder
    parent = module.parents[outer]
    if isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute) and holder.func.attr == "update":
        return _variable(site, holder.func.value, found, depth)
    while isinstance(parent, (ast.IfExp, ast.BinOp)):
        outer, parent = parent, module.parents[parent]
    if isinstance(parent, ast.keyword) and parent.arg is None:
        return _unpacked(site, parent, found, depth)
    if isinstance(parent, ast.Dict):
        return None in parent.keys and _fed(site, parent, found, depth + 1)
    if isinstance(parent, ast.Call):
        return _handed(site, parent, outer, found, depth)
    one = isinstance(parent, ast.Assign) and len(parent.targets) == 1
    target = parent.targets[0] if isinstance(parent, ast.Assign) and one else getattr(parent, "target", None)
    return isinstance(target, ast.Name) and _bound(site, target, found, depth)


def _bound(site: Site, target: ast.Name, found: list[ast.Call], depth: int) -> bool:
    module = site.module.home(target)
    for d in module.bindings.definitions_at(target, target.id):
        for use in module.bindings.readers(d):
            if not _used(site, use, found, depth):
                return False
    return True


def _variable(site: Site, node: ast.expr, found: list[ast.Call], depth: int) -> bool:
    """The same for every value that a variable may have where it is changed."""
    module = site.module.home(node)
    definitions = module.bindings.reaching(node)
    names = [d.node for d in definitions]
    return bool(names) and all(isinstance(n, ast.Name) and _bound(site, n, found, depth) for n in names)


def _used(site: Site, use: ast.expr, found: list[ast.Call], depth: int) -> bool:
    """Whether one read of a dict is followed: changed, asked, unpacked, or made part of another."""
    module = site.module.home(use)
    parent = module.parents[use]
    if isinstance(parent, ast.keyword) and parent.arg is None:
        return _unpacked(site, parent, found, depth)
    if isinstance(parent, ast.Dict):
        return None in parent.keys and _fed(site, parent, found, depth + 1)
    if isinstance(parent, (ast.Subscript, ast.Attribute, ast.Compare)):
        call = module.parents[parent]
        copied = isinstance(call, ast.Call) and isinstance(parent, ast.Attribute) and parent.attr == "copy"
        return not copied or _fed(site, call, found, depth + 1)
    if isinstance(parent, (ast.IfExp, ast.BinOp)):
        return _fed(site, parent, found, depth + 1)
    if isinstance(parent, ast.Call) and parent.func is use:
        found.append(parent)  # a partial
        return True
    return isinstance(parent, ast.Call) and _handed(site, parent, use, found, depth)


def _unpacked(site: Site, keyword: ast.keyword, found: list[ast.Call], depth: int) -> bool:
    module = site.module.home(keyword)
    call = module.parents[keyword]
    assert isinstance(call, ast.Call)
    if "builtins.dict" in module.callee(call):
        return _fed(site, call, found, depth + 1)
    found.append(call)
    return True


def _handed(site: Site, call: ast.Call, use: ast.AST, found: list[ast.Call], depth: int) -> bool:
    """Whether a dict handed to a call is followed: to ``update``, a copy, or the function that builds the loader."""
    module = site.module.home(call)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "update" and isinstance(call.func, ast.Attribute):
        return _variable(site, call.func.value, found, depth + 1)
    callee = module.callee(call)
    if callee & {"builtins.dict", "copy.copy", "copy.deepcopy"}:
        return _fed(site, call, found, depth + 1)
    if callee & {"builtins.print", "builtins.len"}:
        return True
    functions = module.called_functions(call)
    if functions != [module.function(site.call)] or not isinstance(use, ast.expr):
        return False
    parameter = module.parameter_of(functions[0], call, use)
    return parameter is not None and all(
        _used(site, reader, found, depth + 1)
        for d in site.module.bindings.definitions_at(parameter, parameter.arg)
        for reader in site.module.bindings.readers(d)
    )
