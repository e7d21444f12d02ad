"""What models, datasets and collators of a project keep of what they are given.

A loop calls them where its own file does not show it: the model by its object, the dataset through its loader. What
their methods add up or set is of one rank's samples, so that nothing may be read of it but by themselves.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.programs.together import together
from shardfix.analysis.state.called import functions_named, runs, wrapping
from shardfix.analysis.state.mutations import changed_by, objects, roots
from shardfix.analysis.state.plain_calls import of_library
from shardfix.analysis.state.sharing import IS, Sharing, sharing_of
from shardfix.analysis.state.stored import is_settings

_RUN = frozenset({"forward", "__call__", "__getitem__", "__getitems__", "__iter__", "__next__", "emit", "write"})
_GIVEN_TO = frozenset({"collate_fn", "worker_init_fn", "transform", "target_transform"})
MADE_BY = frozenset({"__init__", "__new__", "__post_init__", "__setstate__", "reset", "reset_parameters"})
_AVERAGES = frozenset({"update"})  # of averaging objects, which are looked at where they are told
_DEPTH = 3
_PSEUDO = frozenset({"data", "grad", "__dict__", "__class__"})


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """What a method that is run out of sight keeps under a name.

    Args:
        cls: the class whose objects keep it; None for a name of a file.
        added: whether it goes by what was there before, as a count or a list does.
        anywhere: whether the object is one that anything may hold: one of the file, of settings.
        whole: whether it is a part of what has this name that is kept.
    """

    cls: ast.ClassDef | None
    added: bool
    anywhere: bool = False
    whole: bool = False


@dataclass
class Keeping:
    """What the classes of one program keep.

    Args:
        attributes: by the name of the attribute.
        names: by the file and the name at its top level.
        methods: the functions that are run out of sight.
    """

    attributes: dict[str, list[Kept]] = field(default_factory=dict)
    names: dict[tuple[str, str], Kept] = field(default_factory=dict)
    methods: set[ast.AST] = field(default_factory=set)

    def run(
        self, module: Module, function: Function | ast.Lambda, given: dict[str, int], cls: ast.ClassDef | None
    ) -> None:
        """Note what a function keeps that is run out of sight, and what it calls."""
        if function in self.methods:
            return
        self.methods.add(function)
        for outer in wrapping(module, function):
            self.run(module.home(outer), outer, {}, None)
        sharing = sharing_of(module, function, given)
        for n in ast.walk(function):
            if _in_training(module, n):
                continue
            for changed in changed_by(module, n) if not _writes(n) else ():
                if sharing.changes_another_s(changed.object):
                    self._note(module, n, changed.object, changed.stored, cls, sharing.own)
            if isinstance(n, ast.Global):
                for name in n.names:
                    self.names[module.path, name] = Kept(None, True)
            elif isinstance(n, ast.Call):
                self._call(module, n, sharing, cls)

    def _call(self, module: Module, call: ast.Call, sharing: Sharing, cls: ast.ClassDef | None) -> None:
        for run in runs(module, call):
            inner = run.function
            given: dict[str, int] = {}
            if isinstance(inner, ast.Lambda):
                continue
            for argument in arguments_of(call):
                bound = module.parameter_of(inner, call, argument)
                if bound is not None:
                    given[bound.arg] = sharing.of(argument)
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if receiver is not None and module.is_method(inner) and inner.name not in MADE_BY:
                given.update({a.arg: IS for a in parameters(inner)[:1]})
            if any(given.values()) or any(isinstance(n, ast.Global) for n in ast.walk(inner)):
                self.run(module.home(inner), inner, given, module.home(inner).class_of(inner) or cls)

    def _note(
        self,
        module: Module,
        node: ast.AST,
        changed: ast.expr,
        stored: bool,
        cls: ast.ClassDef | None,
        own: set[str],
        depth: int = 0,
    ) -> None:
        named = node if isinstance(node, ast.Attribute) and stored else changed
        given = False  # by a call: what a library's function gives is new
        if isinstance(node, ast.Call) and last_name(node.func) in ("setattr", "__setattr__"):
            key = next((a for a in node.args if isinstance(a, ast.Constant)), None)
            if key is not None and isinstance(key.value, str):
                self.attributes.setdefault(key.value, []).append(Kept(cls, True))
            return
        while isinstance(named, (ast.Subscript, ast.Call)) or (
            isinstance(named, ast.Attribute) and (named.attr in _PSEUDO)
        ):
            if isinstance(named, ast.Call):
                if not isinstance(named.func, ast.Attribute):
                    break
                named, given = named.func, True
            named = named.value
        added = not stored
        if stored and _is_constant(module, node):
            return
        if isinstance(named, ast.Attribute):
            if stored and isinstance(node, (ast.Attribute, ast.Subscript)):
                added = _reads_itself(module, node, named.attr)
            anywhere = is_settings(named.value) or any(name not in ("self", "cls") for name, _ in roots(named.value))
            self.attributes.setdefault(named.attr, []).append(Kept(cls, added, anywhere))
            owner = named.value
            while isinstance(owner, ast.Attribute):
                self.attributes.setdefault(owner.attr, []).append(Kept(cls, added, whole=True))
                owner = owner.value
        elif isinstance(named, ast.Name) and named.id in own:
            for d in module.bindings.reaching(named) if depth < _DEPTH else ():  # `mem = self.mem; mem.append(x)`
                if d.value is not None and isinstance(d.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                    self._note(module, node, d.value, False, cls, own, depth + 1)
        elif isinstance(named, ast.Name) and not (given and of_library(module.qualify(named))):
            for place in _defined(module, named):
                known = self.names.get(place)
                self.names[place] = Kept(None, added or (known is not None and known.added))


def _defined(module: Module, name: ast.Name) -> list[tuple[str, str]]:
    """The file and name that a name stands for at the top level: where it is imported from, that of the other file."""
    found = [o for d in module.bindings.reaching(name) if d.kind == "import" for o in objects(module, d)]
    return [(module.home(o.node).path, o.key) for o in found] or [(module.path, name.id)]


def _is_constant(module: Module, node: ast.AST) -> bool:
    """Whether what is set is the same after each batch: ``self.ready = True``, on no condition."""
    statement = module.statement(node)
    if not isinstance(module.parents.get(statement), (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if not isinstance(statement, ast.Assign):
        return False
    named = isinstance(node, ast.Attribute) and (
        node.attr.startswith("__") or isinstance(statement.value, ast.Constant)
    )
    return named and all(isinstance(t, ast.Attribute) for t in statement.targets)


def _writes(node: ast.AST) -> bool:
    """``self.file.write(text)``: what is in the file is read by no program that writes it."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("write", "writelines", "flush")


def _reads_itself(module: Module, target: ast.expr, name: str) -> bool:
    """``self.n = self.n + len(x)``, ``self.n += len(x)``"""
    statement = module.statement(target)
    if isinstance(statement, ast.AugAssign):
        return True
    value = getattr(statement, "value", None)
    return isinstance(value, ast.AST) and any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(value))


def _in_training(module: Module, node: ast.AST) -> bool:
    """Whether a node of a method runs only while its model is trained: ``if self.training:``."""
    inner = node
    for outer in module.around(node):
        if isinstance(outer, ast.If) and _asks_training(outer.test) and inner in outer.body:
            return True
        if isinstance(outer, ast.If) and isinstance(outer.test, ast.UnaryOp) and _asks_training(outer.test.operand):
            if isinstance(outer.test.op, ast.Not) and inner in outer.orelse:
                return True
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        inner = outer
    return False


def _asks_training(test: ast.expr) -> bool:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(isinstance(p, ast.Attribute) and p.attr == "training" for p in parts)


_KNOWN: WeakKeyDictionary[Module, Keeping] = WeakKeyDictionary()  # a file is asked for many loops


def keeping(module: Module) -> Keeping:
    """What the classes of the programs that a file is part of keep out of sight."""
    found = Keeping()
    for m in together(module):
        own = _KNOWN.get(m)
        if own is None:
            own = _KNOWN[m] = _of_file(m)
        for name, kept in own.attributes.items():
            found.attributes.setdefault(name, []).extend(kept)
        found.names.update(own.names)
        found.methods |= own.methods
    return found


def _of_file(module: Module) -> Keeping:
    found = Keeping()
    for cls in module.classes:
        for s in cls.body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)) and s.name in _RUN and not _is_program(s):
                found.run(module, s, {"self": IS}, cls)
    for call in module.calls:
        hook = last_name(call.func)
        handed = call.args if hook.startswith("register_") and hook.endswith("hook") else []
        for argument in (*handed, *(k.value for k in call.keywords if k.arg in _GIVEN_TO)):
            for function in _functions(module, argument):
                home = module.home(function)
                own = parameters(function)[:1] if home.is_method(function) else []
                found.run(home, function, {a.arg: IS for a in own}, home.class_of(function))
    for d in module.bindings.definitions:  # model.forward = counted
        if d.value is not None and d.key.rpartition(".")[2] in _RUN | _GIVEN_TO and "." in d.key:
            for name in (n for n in ast.walk(d.value) if isinstance(n, (ast.Name, ast.Attribute))):
                for function in functions_named(module, name):
                    found.run(module.home(function), function, {a.arg: IS for a in parameters(function)[:1]}, None)
    return found


def _is_program(method: Function) -> bool:
    """Whether an object is called to run a program or a step of training: what it is called with is no sample."""
    if method.name != "__call__":
        return False
    calls = {last_name(n.func) for n in ast.walk(method) if isinstance(n, ast.Call)}
    return len(parameters(method)) < 2 or bool(calls & {"backward", "scale"})


def run_by(kept: Keeping, module: Module, loop: ast.For) -> None:
    """Note what the methods keep that a loop calls of objects that are given to its function."""
    for call in (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)):
        for function in module.called_functions(call) if isinstance(call.func, ast.Attribute) else ():
            home = module.home(function)
            if home.is_method(function) and function.name not in (*MADE_BY, *_AVERAGES):
                kept.run(home, function, {a.arg: IS for a in parameters(function)[:1]}, home.class_of(function))


def _functions(module: Module, node: ast.expr) -> list[Function]:
    found = functions_named(module, node)
    if isinstance(node, ast.Attribute):
        found += [f for cls in module.instances(node.value) if (f := module.method(cls, node.attr)) is not None]
    return found


def adds_up_what_it_reads(module: Module, forward: Function) -> bool:
    """Whether a model goes by what it has added up itself, by a count of its batches say."""
    found = Keeping()
    found.run(module, forward, {"self": IS}, module.class_of(forward))
    for name, of_name in found.attributes.items():
        if any(k.added for k in of_name) and any(_is_used(module, f, name, attribute=True) for f in found.methods):
            return True
    return any(k.added and _is_used(module, f, name) for (_, name), k in found.names.items() for f in found.methods)


def _is_used(module: Module, function: ast.AST, name: str, *, attribute: bool = False) -> bool:
    """Whether a function reads a name, or an attribute, but to change it; not one that it has set anew itself."""
    begun = [n.lineno for n in ast.walk(function) if isinstance(n, ast.Assign) and n in getattr(function, "body", ())
             and any(_is_called(t, name, attribute) for t in n.targets)]  # fmt: skip
    for n in ast.walk(function):
        if not isinstance(n, (ast.Name, ast.Attribute)) or not isinstance(n.ctx, ast.Load):
            continue
        if not _is_called(n, name, attribute) or any(line < n.lineno for line in begun) or _in_training(module, n):
            continue
        outer: ast.AST = n
        while isinstance(module.parents.get(outer), (ast.Attribute, ast.Subscript)):
            outer = module.parents[outer]
        up = module.parents.get(outer)
        stored = isinstance(outer, (ast.Attribute, ast.Subscript)) and not isinstance(outer.ctx, ast.Load)
        told = isinstance(up, ast.Call) and up.func is outer and isinstance(module.parents.get(up), ast.Expr)
        if not stored and not told:
            return True
    return False


def _is_called(node: ast.AST, name: str, attribute: bool) -> bool:
    if attribute:
        return isinstance(node, ast.Attribute) and node.attr == name
    return isinstance(node, ast.Name) and node.id == name


__all__ = ["MADE_BY", "Keeping", "Kept", "adds_up_what_it_reads", "keeping", "run_by"]
