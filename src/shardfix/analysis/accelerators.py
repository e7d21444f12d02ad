"""Which objects are an ``accelerate.Accelerator``, and which calls hand a loader to one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Literal

from shardfix.analysis.bindings import Definition
from shardfix.analysis.module import Module
from shardfix.analysis.names import ACCELERATOR, canonical

# yes, no: its class is seen. maybe: an unseen call made it. open: nothing is seen, so that its name may speak.
_Made = Literal["yes", "no", "maybe", "open"]
TRAINER_HOOKS = ("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader")
_FOLLOWED = 6  # steps back from a name to what made its value


def is_accelerator(module: Module, node: ast.expr) -> bool:
    """Whether an expression is an ``accelerate.Accelerator``: made so or annotated so.

    Its usual name counts only where nothing is seen of its value and the file shows that it knows accelerate.
    """
    made = accelerator_made(module, node)
    if made != "open":
        return made == "yes"
    return _by_name(module, node)


def _by_name(module: Module, node: ast.expr) -> bool:
    """Whether a value of which nothing is seen is called an accelerator, in a file that knows accelerate."""
    named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if named.lstrip("_").lower() != "accelerator":
        return False
    cls = module.class_of(node)
    return _knows_accelerate(module) or (cls is not None and is_hf_trainer(module, cls))


def _knows_accelerate(module: Module) -> bool:
    imports = [d.module for d in module.bindings.definitions if d.kind == "import"]
    return any(name.split(".")[0] == "accelerate" for name in (*imports, *module.bindings.star_modules))


def accelerator_made(module: Module, node: ast.expr, depth: int = 0) -> _Made:
    """What the source shows of whether an expression is an ``accelerate.Accelerator``."""
    if depth > _FOLLOWED:
        return "maybe"
    if isinstance(node, ast.Call):
        return _made_by(module, node, None, depth)
    if isinstance(node, ast.IfExp):
        return _together([accelerator_made(module, n, depth + 1) for n in (node.body, node.orelse)])
    if isinstance(node, ast.BoolOp):
        return _together([accelerator_made(module, n, depth + 1) for n in node.values])
    definitions: list[tuple[Module, Definition]] = [(module, d) for d in module.bindings.reaching(node)]
    if not definitions and isinstance(node, ast.Attribute):
        definitions = _attributes(module, node)
    return _together([_defined(m, d, depth) for m, d in definitions])


def _together(made: list[_Made]) -> _Made:
    """One answer for the values that a name may have; ``None`` beside an Accelerator says nothing."""
    known = {m for m in made if m != "open"}
    if not known:
        return "open"
    return known.pop() if len(known) == 1 else "maybe"


def _attributes(module: Module, node: ast.Attribute) -> list[tuple[Module, Definition]]:
    """The assignments to ``self.x`` in the class and its bases, or to the attribute of an object made in this file."""
    owners: list[tuple[Module, ast.ClassDef]] = []
    if isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_of(node)
        owners = [(module, cls)] if cls is not None else []
    else:
        for d in module.bindings.reaching(node.value):
            if isinstance(d.value, ast.Call) and d.index is None:
                owners += [(module.home(c), c) for c in module.project_classes(d.value.func)]
    found: list[tuple[Module, Definition]] = []
    seen: set[ast.ClassDef] = set()
    while owners:
        where, cls = owners.pop()
        if cls in seen:
            continue
        seen.add(cls)
        own = where.bindings.exit_of(cls).get(node.attr, ())
        mine = [(where, d) for d in (*where.attribute_definitions.get((cls, node.attr), []), *own)]
        found += mine
        if not mine:
            owners += [(where.home(c), c) for base in cls.bases for c in where.project_classes(base)]
    return found


def _defined(module: Module, d: Definition, depth: int) -> _Made:
    """What one definition of a name shows of it."""
    if d.kind == "parameter" and isinstance(d.node, ast.arg):
        annotated = _annotated(module, d.node)
        return annotated if annotated != "open" else _passed(module, d, depth)
    if d.kind == "import":
        # from setup import accelerator
        named = [o for name in (d.module, *sorted(module.resolve(d.module))) for o in module.named(name) if o is not d]
        found = list(dict.fromkeys(named))
        return _together([_defined(module.home(o.node), o, depth + 1) for o in found if depth < _FOLLOWED])
    if d.kind == "function":  # a property
        return _returned(module, d.node, None, depth + 1)
    if isinstance(d.statement, ast.AnnAssign) and ACCELERATOR in _names_in(module, d.statement.annotation):
        return "yes"
    if d.kind != "assign" or d.value is None:
        return "open"
    if isinstance(d.value, ast.Call):
        return _made_by(module, d.value, d.index, depth + 1)
    if d.index is not None or isinstance(d.value, ast.Constant):
        return "open"
    if isinstance(d.value, (ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp)):
        made = accelerator_made(module, d.value, depth + 1)
        return "yes" if made == "open" and _by_name(module, d.value) else made
    return "maybe"


def _names_in(module: Module, annotation: ast.expr) -> set[str]:
    """The qualified names in an annotation: ``Accelerator | None``, ``Optional[Accelerator]``."""
    found: set[str] = set()
    for n in ast.walk(annotation):
        if isinstance(n, (ast.Name, ast.Attribute)):
            found |= module.qualify(n)
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith("Accelerator"):
            for d in module.bindings.exit_of(module.tree).get(n.value, ()):
                found |= {d.module} if d.kind == "import" else {f"{module.name}.{n.value}"}
    return {canonical(name) for name in found}


def _annotated(module: Module, parameter: ast.arg) -> _Made:
    if parameter.annotation is None:
        return "open"
    if ACCELERATOR in _names_in(module, parameter.annotation):
        return "yes"
    classes = module.project_classes(parameter.annotation)
    return _together([_class(module, cls) for cls in classes])


def _class(module: Module, cls: ast.ClassDef) -> _Made:
    return "yes" if ACCELERATOR in module.bases(cls) else "no"


def _passed(module: Module, d: Definition, depth: int) -> _Made:
    """What the callers of a function give to its parameter."""
    if not isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return "open"
    a = d.scope.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)][1 if module.is_method(d.scope) else 0 :]
    found: list[_Made] = []
    for where, call in ((module.home(c), c) for c in module.callers(d.scope)):
        given = {k.arg: k.value for k in call.keywords if k.arg}
        if not any(isinstance(value, ast.Starred) for value in call.args):
            given |= dict(zip(names, call.args, strict=False))
        if d.key in given:
            made = accelerator_made(where, given[d.key], depth + 1)
            found.append("yes" if made == "open" and _by_name(where, given[d.key]) else made)
        elif any(k.arg is None for k in call.keywords) and d.key == "accelerator" and _knows_accelerate(where):
            found.append("yes")  # f(**settings) in a file that knows accelerate
    return _together(found)


def _made_by(module: Module, call: ast.Call, index: int | None, depth: int) -> _Made:
    """What a call gives: an Accelerator, another object, or what a function of this project returns."""
    callee = module.callee(call)
    if ACCELERATOR in callee:
        return "yes" if index is None else "maybe"
    classes = module.project_classes(call.func)
    if classes:
        return _together([_class(module, cls) for cls in classes])
    functions: list[ast.AST] = list(module.called_functions(call))
    made = _together([_returned(module.home(function), function, index, depth) for function in functions])
    return "maybe" if made == "open" else made


def _returned(module: Module, function: ast.AST, index: int | None, depth: int) -> _Made:
    """What a function returns, or the item of a tuple that it returns."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth > _FOLLOWED:
        return "maybe"
    found: list[_Made] = []
    for n in ast.walk(function):
        if isinstance(n, ast.Return) and n.value is not None and module.function(n) is function:
            value = n.value
            if index is not None:
                if not isinstance(value, ast.Tuple) or index >= len(value.elts):
                    return "maybe"
                value = value.elts[index]
            made = accelerator_made(module, value, depth + 1)
            found.append("yes" if made == "open" and _by_name(module, value) else made)
    return _together(found)


def is_prepare(module: Module, call: ast.Call, prepare_functions: Iterable[str] = ()) -> bool:
    """Whether a call hands its arguments to Accelerate: ``accelerator.prepare``, ``prepare_data_loader``, or a
    project function that the user named."""
    callee = module.callee(call)
    if "accelerate.data_loader.prepare_data_loader" in callee:
        return True
    if any(name == wanted or name.endswith("." + wanted) for wanted in prepare_functions for name in callee):
        return True
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in ("prepare", "prepare_data_loader")
        and is_accelerator(module, func.value)
    )


def is_hf_trainer(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a class derives from ``transformers.Trainer``."""
    for base in module.bases(cls):
        root, _, last = base.rpartition(".")
        if root.split(".")[0] in ("transformers", "trl", "sentence_transformers") and last.endswith("Trainer"):
            return True
    return False


def is_trainer_hook(module: Module, function: ast.AST | None) -> bool:
    """Whether a method is one by which a ``transformers.Trainer`` gets its loaders."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name not in TRAINER_HOOKS:
        return False
    cls = module.class_of(function)
    return cls is not None and is_hf_trainer(module, cls)
