"""Whether an object is an instance of a library's class: by what made it, never by its name alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import canonical

# yes, no: its class is seen. maybe: an unseen call made it. open: nothing is seen, so that its name may speak.
Made = Literal["yes", "no", "maybe", "open"]
_FOLLOWED = 6  # steps back from a name to what made its value


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of a library.

    Args:
        classes: its qualified names.
        usual: the name that its objects usually have, in lower case; it counts only where nothing is seen of a value.
        packages: what a file that knows the library imports from.
        first_of: functions that return an instance as the first item of a tuple.
        held_by: whether objects of a class have one by their base class, under the usual name.
        methods: what it is asked for; where a class of this project that derives from it does that otherwise, an object
            of that class is only ``maybe`` one.
    """

    classes: frozenset[str]
    usual: str
    packages: frozenset[str]
    first_of: frozenset[str] = frozenset()
    held_by: Callable[[Module, ast.ClassDef], bool] | None = None
    methods: frozenset[str] = frozenset()


def is_a(module: Module, node: ast.expr, kind: Kind) -> bool:
    """Whether an expression is an instance: made so or annotated so.

    The usual name counts only where nothing is seen of the value and the file shows that it knows the library.
    """
    made = made_as(module, node, kind)
    return made == "yes" or (made == "open" and by_name(module, node, kind))


def by_name(module: Module, node: ast.expr, kind: Kind) -> bool:
    """Whether a value of which nothing is seen has the usual name, in a file that knows the library."""
    named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if named.lstrip("_").lower() != kind.usual:
        return False
    cls = module.class_of(node)
    return knows(module, node, kind) or (cls is not None and kind.held_by is not None and kind.held_by(module, cls))


def knows(module: Module, node: ast.AST, kind: Kind) -> bool:
    """Whether the file of a node imports anything of the library."""
    bindings = module.home(node).bindings
    imports = [d.module for d in bindings.definitions if d.kind == "import"]
    return any(name.split(".")[0] in kind.packages for name in (*imports, *bindings.star_modules))


def made_as(module: Module, node: ast.expr, kind: Kind, depth: int = 0) -> Made:
    """What the source shows of whether an expression is an instance."""
    module = module.home(node)
    if depth > _FOLLOWED:
        return "maybe"
    if isinstance(node, ast.Call):
        return _made_by(module, node, None, kind, depth)
    if isinstance(node, ast.IfExp):
        return _together([made_as(module, n, kind, depth + 1) for n in (node.body, node.orelse)])
    if isinstance(node, ast.BoolOp):
        return _together([made_as(module, n, kind, depth + 1) for n in node.values])
    if isinstance(node, ast.Name) and node.id == "self":
        cls = module.class_of(node)
        return _class(module, cls, kind) if cls is not None else "open"
    definitions = list(module.bindings.reaching(node))
    if not definitions and isinstance(node, ast.Attribute):
        definitions = _attributes(module, node)
    return _together([_defined(module.home(d.node), d, kind, depth) for d in definitions])


def _together(made: list[Made]) -> Made:
    """One answer for the values that a name may have; ``None`` beside an instance says nothing."""
    known = {m for m in made if m != "open"}
    if not known:
        return "open"
    return known.pop() if len(known) == 1 else "maybe"


def _attributes(module: Module, node: ast.Attribute) -> list[Definition]:
    """The assignments to ``self.x`` in the class and its bases, or to the attribute of an object made in this file."""
    owners: list[ast.ClassDef] = []
    if isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_of(node)
        owners = [cls] if cls is not None else []
    else:
        for d in module.bindings.reaching(node.value):
            if isinstance(d.value, ast.Call) and d.index is None:
                owners += module.project_classes(d.value.func)
    found = _assigned(module, owners, node.attr)
    if not found and module.project is not None:  # what a base class uses, a class that derives from it may set
        derived = [c for cls in owners for c in module.project.derived(cls)]
        found = _assigned(module, derived, node.attr)
    return found


def _assigned(module: Module, classes: list[ast.ClassDef], attribute: str) -> list[Definition]:
    """What an attribute is set to in classes, or where one does not set it in its bases."""
    owners = list(classes)
    found: list[Definition] = []
    seen: set[ast.ClassDef] = set()
    while owners:
        cls = owners.pop()
        if cls in seen:
            continue
        seen.add(cls)
        where = module.home(cls)
        own = where.bindings.exit_of(cls).get(attribute, ())
        mine = [*where.attribute_definitions.get((cls, attribute), []), *own]
        found += mine
        if not mine:
            owners += [c for base in cls.bases for c in where.project_classes(base)]
    return found


def _defined(module: Module, d: Definition, kind: Kind, depth: int) -> Made:
    """What one definition of a name shows of it."""
    if d.kind == "parameter" and isinstance(d.node, ast.arg):
        annotated = _annotated(module, d.node, kind)
        return annotated if annotated != "open" else _passed(module, d, kind, depth)
    if d.kind == "import":
        # from setup import accelerator
        named = [o for name in (d.module, *sorted(module.resolve(d.module))) for o in module.named(name) if o is not d]
        found = list(dict.fromkeys(named))
        return _together([_defined(module.home(o.node), o, kind, depth + 1) for o in found if depth < _FOLLOWED])
    if d.kind == "function":  # a property
        return _returned(module, d.node, None, kind, depth + 1)
    if isinstance(d.statement, ast.AnnAssign) and _names_in(module, d.statement.annotation, kind) & kind.classes:
        return "yes"
    if d.kind != "assign" or d.value is None:
        return "open"
    if isinstance(d.value, ast.Call):
        return _made_by(module, d.value, d.index, kind, depth + 1)
    if d.index is not None or isinstance(d.value, ast.Constant):
        return "open"
    if isinstance(d.value, (ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp)):
        return _value(module, d.value, kind, depth)
    return "maybe"


def _value(module: Module, node: ast.expr, kind: Kind, depth: int) -> Made:
    """What an expression is that becomes the value; its own name may speak too."""
    made = made_as(module, node, kind, depth + 1)
    return "yes" if made == "open" and by_name(module, node, kind) else made


def _names_in(module: Module, annotation: ast.expr, kind: Kind) -> set[str]:
    """The qualified names in an annotation: ``Accelerator | None``, ``Optional[Accelerator]``."""
    found: set[str] = set()
    lasts = tuple({name.rpartition(".")[2] for name in kind.classes})
    for n in ast.walk(annotation):
        if isinstance(n, (ast.Name, ast.Attribute)):
            found |= module.qualify(n)
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith(lasts):
            for d in module.bindings.exit_of(module.tree).get(n.value, ()):
                found |= {d.module} if d.kind == "import" else {f"{module.name}.{n.value}"}
    return {canonical(name) for name in found}


def _annotated(module: Module, parameter: ast.arg, kind: Kind) -> Made:
    if parameter.annotation is None:
        return "open"
    if _names_in(module, parameter.annotation, kind) & kind.classes:
        return "yes"
    classes = module.project_classes(parameter.annotation)
    return _together([_class(module, cls, kind) for cls in classes])


def _class(module: Module, cls: ast.ClassDef, kind: Kind) -> Made:
    if not kind.classes & module.bases(cls):
        return "no"
    own = [method for name in sorted(kind.methods) if (method := module.method(cls, name)) is not None]
    return "yes" if all(_hands_on(module, method) for method in own) else "maybe"


def _hands_on(module: Module, method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method returns just what its base class makes of all that it is given:
    ``return super().prepare(*objects)``."""
    given = method.args.vararg
    if given is None or _is_rebound(method, given.arg):
        return False
    values = [n.value for n in ast.walk(method) if isinstance(n, ast.Return) and module.function(n) is method]
    return bool(values) and all(_is_super_call(value, method.name, given.arg) for value in values)


def _is_rebound(method: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in ast.walk(method))


def _is_super_call(value: ast.expr | None, name: str, given: str) -> bool:
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == name):
        return False
    base, handed = value.func.value, [n.value for n in value.args if isinstance(n, ast.Starred)]
    return (
        isinstance(base, ast.Call)
        and isinstance(base.func, ast.Name)
        and base.func.id == "super"
        and len(value.args) == 1
        and len(handed) == 1
        and isinstance(handed[0], ast.Name)
        and handed[0].id == given
    )


def _passed(module: Module, d: Definition, kind: Kind, depth: int) -> Made:
    """What the callers of a function give to its parameter."""
    if not isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return "open"
    a = d.scope.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)][1 if module.is_method(d.scope) else 0 :]
    found: list[Made] = []
    for call in module.callers(d.scope):
        where = module.home(call)
        given = {k.arg: k.value for k in call.keywords if k.arg}
        if not any(isinstance(value, ast.Starred) for value in call.args):
            given |= dict(zip(names, call.args, strict=False))
        if d.key in given:
            found.append(_value(where, given[d.key], kind, depth))
        elif any(k.arg is None for k in call.keywords) and d.key == kind.usual and knows(where, call, kind):
            found.append("yes")  # f(**settings) in a file that knows the library
    return _together(found)


def _made_by(module: Module, call: ast.Call, index: int | None, kind: Kind, depth: int) -> Made:
    """What a call gives: an instance, another object, or what a function of this project returns."""
    callee = module.callee(call)
    # Trainer.from_argparse_args(args)
    callee |= {q.rpartition(".")[0] for q in callee if q.endswith(".from_argparse_args")}
    if callee & kind.classes:
        return "yes" if index is None else "maybe"
    if callee & kind.first_of:
        return "yes" if index == 0 else "no"
    classes = module.project_classes(call.func)
    if classes:
        return _together([_class(module, cls, kind) for cls in classes])
    functions: list[ast.AST] = list(module.called_functions(call))
    made = _together([_returned(module.home(function), function, index, kind, depth) for function in functions])
    return "maybe" if made == "open" else made


def _returned(module: Module, function: ast.AST, index: int | None, kind: Kind, depth: int) -> Made:
    """What a function returns, or the item of a tuple that it returns."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth > _FOLLOWED:
        return "maybe"
    found: list[Made] = []
    for n in ast.walk(function):
        if isinstance(n, ast.Return) and n.value is not None and module.function(n) is function:
            value = n.value
            if index is not None:
                if not isinstance(value, ast.Tuple) or index >= len(value.elts):
                    return "maybe"
                value = value.elts[index]
            found.append(_value(module, value, kind, depth))
    return _together(found)
