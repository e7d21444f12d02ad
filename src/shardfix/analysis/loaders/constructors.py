"""Which classes a call may construct a loader of, and whether each leaves sampling to torch's DataLoader."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.arguments import DECIDING, partial_behind
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER, SIGNATURES

# What a class derived from DataLoader may define only if it means to read otherwise.
_SAMPLING = frozenset(
    {
        "__iter__",
        "__len__",
        "__new__",
        "__getattr__",
        "__getattribute__",
        "__setattr__",
        "_get_iterator",
        "_index_sampler",
        "_auto_collation",
        "batch_sampler",
        "batch_size",
        "dataset",
        "drop_last",
        "sampler",
        "set_epoch",
        "generator",
    }
)
_HINTS = frozenset({"batch_size", "sampler", "batch_sampler", "shuffle", "num_workers", "collate_fn", "drop_last"})
_PLAIN_BASES = frozenset({"builtins.object", "typing.Generic", "abc.ABC"})


def constructed(module: Module, call: ast.Call) -> tuple[frozenset[str], bool]:
    """The qualified names of what a call may construct, and whether these are all that it may be.

    A ``partial`` is looked through, and a class handed over as a parameter is looked for in the callers.
    """
    made = partial_behind(module, call)
    if made is not None:
        return module.qualify(made.args[0]), _whole(module, made.args[0])
    found = module.callee(call)
    if found:
        return found, _whole(module, call.func)
    if isinstance(call.func, ast.Name) and any(k.arg in _HINTS for k in call.keywords):
        values = list(_handed(module, call.func))
        if values and None not in values:
            names = [module.home(v).qualify(v) for v in values if v is not None]
            return frozenset().union(*names), all(names)
    return frozenset(), False


def _handed(module: Module, name: ast.Name) -> Iterator[ast.expr | None]:
    """What the callers of a function hand to a parameter that is called in it; None where one is not seen."""
    for d in module.bindings.reaching(name):
        function = d.scope
        if d.kind != "parameter" or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield None
            continue
        default = default_of(function, d.key)
        if default is not None:
            yield default
        for call in module.callers(function):
            value = argument_of(module, function, call, d.key)
            if value is not None:
                yield value
            elif default is None:
                yield None


def _whole(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether every value of a callee's name is one of those that it is qualified as."""
    if isinstance(node, ast.IfExp):
        return _whole(module, node.body, depth + 1) and _whole(module, node.orelse, depth + 1)
    if isinstance(node, ast.Attribute):
        return bool(module.qualify(node))
    if not isinstance(node, ast.Name) or depth > 8:
        return False
    for d in module.bindings.reaching(node):
        assigned = d.kind == "assign" and d.value is not None and d.index is None and _whole(module, d.value, depth + 1)
        if not assigned and d.kind not in ("import", "class", "function"):
            return False
    return True


def class_named(module: Module, call: ast.Call, qualified: str) -> ast.ClassDef | None:
    """The project's class of a qualified name that a call constructs; one of the call's own function too."""
    found = [d.node for d in module.named(qualified) if isinstance(d.node, ast.ClassDef)]
    if not found and qualified.startswith("<local>."):
        own = module.class_definition(call.func)
        found = [own] if own is not None else []
    return found[0] if found else None


def deviation(module: Module, cls: ast.ClassDef) -> str:
    """In what a class that derives from DataLoader may sample otherwise; empty if it leaves that to DataLoader."""
    for member in module.lineage(cls):
        own = module.home(member)
        for base in member.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            names = own.qualify(plain)
            if not names & {DATA_LOADER, *_PLAIN_BASES} and not own.project_classes(plain):
                return f"{member.name} derives from {own.source.source(base)}, which is not seen"
        for statement in member.body:
            why = _redefined(statement)
            if why:
                return f"{member.name} defines {why}"
            if isinstance(statement, ast.FunctionDef):
                why = _forwards(statement) if statement.name == "__init__" else _sets(statement)
                if why:
                    return f"{member.name}.{statement.name} {why}"
    return ""


def forwarded(module: Module, cls: ast.ClassDef, call: ast.Call) -> str:
    """What a class of arguments of its own lets DataLoader draw with, in words: ``default, shuffle=True``; empty where
    that is not shown. It says nothing of how the class may be called otherwise."""
    own = module.home(cls)
    if len(cls.bases) != 1 or DATA_LOADER not in own.qualify(cls.bases[0]):
        return ""
    methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
    made = next((m for m in methods if m.name == "__init__"), None)
    if made is None or any(_redefined(s) for s in cls.body) or any(_sets(m) for m in methods):
        return ""
    calls = [n for n in ast.walk(made) if isinstance(n, ast.Call) and _is_super_init(n)]
    if len(calls) != 1:
        return ""
    (inner,) = calls
    a = made.args
    takes = {arg.arg for arg in (*a.args, *a.kwonlyargs)}
    if a.kwarg is None and any(k.arg not in takes for k in call.keywords):
        return ""
    spread = [n for n in ast.walk(inner) if isinstance(n, ast.Starred)]
    doubled = [k.value for k in inner.keywords if k.arg is None]
    if any(not isinstance(n, ast.Name) or a.kwarg is None or n.id != a.kwarg.arg for n in doubled):
        return ""
    if doubled and a.kwarg is not None and not all(_takes_out(own, n, doubled) for n in _named(made, a.kwarg.arg)):
        return ""
    positional = len([*a.posonlyargs, *a.args]) - 1
    if spread and any(isinstance(n, ast.Starred) for n in call.args):
        return ""
    plain = len(inner.args) - len(spread) + (max(len(call.args) - positional, 0) if spread else 0)
    given = [*inner.keywords, *(call.keywords if doubled else ())]
    # Two are the dataset and the batch size.
    if plain > 2 or any(k.arg in ("sampler", "batch_sampler") for k in given):
        return ""
    if doubled and any(k.arg is None for k in call.keywords):
        return ""
    shuffles = [k.value for k in given if k.arg == "shuffle"]
    if not shuffles:
        return "default"
    return f"default, shuffle={module.source.source(shuffles[0])}"


def _named(function: ast.FunctionDef, name: str) -> list[ast.Name]:
    return [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]


def _takes_out(module: Module, name: ast.Name, handed: list[ast.expr]) -> bool:
    """Whether ``kwargs`` is handed on there, or only asked for an item: ``kwargs.pop("shuffle", False)``."""
    parent = module.parents[name]
    return name in handed or (isinstance(parent, ast.Attribute) and parent.attr in ("pop", "get"))


def _redefined(statement: ast.stmt) -> str:
    """The name by which a statement of a class body changes sampling; empty if it does not."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return statement.name if statement.name in _SAMPLING else ""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    return next((n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and n.id in _SAMPLING), "")


def _sets(function: ast.FunctionDef) -> str:
    """What a method does to the attributes that decide what is read; empty if nothing."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)) and node.attr in _SAMPLING:
            return f"sets {node.attr}"
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in ("setattr", "__setattr__", "delattr"):
            return "sets attributes by name"
    return ""


def _forwards(function: ast.FunctionDef) -> str:
    """Why an ``__init__`` does more than to hand ``*args, **kwargs`` on; empty if it hands them on as they are."""
    a = function.args
    own = [*a.posonlyargs, *a.args][1:]
    if own or a.vararg is None or a.kwarg is None:
        return "has arguments of its own"
    if any(arg.arg in SIGNATURES[DATA_LOADER] for arg in a.kwonlyargs):
        return "has arguments of its own"
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and _is_super_init(n)]
    if len(calls) != 1:
        return "hands its arguments on in a way that is not followed"
    (call,) = calls
    stars = [v.value for v in call.args if isinstance(v, ast.Starred)]
    doubled = [k.value for k in call.keywords if k.arg is None]
    names = [getattr(n, "id", "") for n in (*stars, *doubled)]
    if len(call.args) != 1 or names != [a.vararg.arg, a.kwarg.arg]:
        return "does not hand its arguments on as they are"
    if any(k.arg in (*DECIDING, "batch_size", "drop_last") for k in call.keywords):
        return "gives DataLoader arguments of its own"
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in (a.vararg.arg, a.kwarg.arg) and node not in (*stars, *doubled):
            return "looks into its arguments"
    return _sets(function)


def _is_super_init(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "__init__"
        and isinstance(func.value, ast.Call)
        and isinstance(func.value.func, ast.Name)
        and func.value.func.id == "super"
    )
