"""What a loop runs, as far as it could wait for other ranks: its calls, and the ways of the models that it calls.

A white list: each call of the loop, and of what it calls, is one of the project, which is read, of a library that knows
of no other process, or of an object whose way from its construction is seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given, default_of, only_called
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.metrics.losses import near
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.ranks.sending import DDP, sends_later
from shardfix.analysis.state.plain_calls import (
    hides,
    is_plain_method,
    of_library,
    runs_text,
    sends,
)

_RUN = ("forward", "__call__")
_ON = frozenset({"enable_grad", "set_grad_enabled"})
_DEPTH = 24  # steps back from an object to what made it
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Numbers = (ast.Constant, ast.JoinedStr, ast.Compare, ast.BinOp, ast.UnaryOp)


class Reach:
    """What a loop runs: its own nodes, the functions of the project that these call, and the models.

    Attributes:
        seen, handed: the functions and classes that are run, and those that only get what is run.
        sent: a call of a model in DistributedDataParallel.
        learning: what turns gradients on.
    """

    def __init__(self, module: Module, loop: ast.For) -> None:
        self.loop = loop
        self.inside = set(ast.walk(loop))
        self.seen: set[ast.AST] = set()
        self.handed: set[ast.AST] = set()
        self.asked: set[tuple[ast.AST, ast.Call | None]] = set()
        self.sent: ast.Call | None = None
        self.learning: ast.AST | None = None

    def run(self, module: Module, top: ast.AST) -> Iterator[Obstacle]:
        """What waits, or may, in the nodes of a loop or function."""
        if top in self.seen:
            return
        self.seen.add(top)
        home = module.home(top)
        for n in ast.walk(top):
            if isinstance(n, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
                yield Obstacle(n, "what runs asynchronously is not followed")
            elif isinstance(n, ast.Call):
                yield from self._called(home, n)
            elif isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load):
                yield from self._named(home, n)

    def _named(self, module: Module, node: ast.Name | ast.Attribute) -> Iterator[Obstacle]:
        """A name by itself: of what waits, or of a function of the project, which another may call."""
        if last_name(node) in _ON:
            self.learning = node
        if any(sends(q) for q in module.qualify(node)):
            outer = module.parents.get(node)
            asked = isinstance(outer, ast.Call) and last_name(outer.func) == "isinstance"
            if not asked and not isinstance(outer, ast.Attribute):  # the whole of a dotted name is asked by itself
                yield Obstacle(node, f"`{ast.unparse(node)}` knows of the other ranks")
        elif isinstance(node, ast.Name):
            for d in module.bindings.reaching(node):
                if d.kind == "function":
                    yield from self.run(module.home(d.node), d.node)
        elif isinstance(node.value, ast.Name) and node.value.id == "self":  # a property
            cls = module.class_of(node)
            method = module.method(cls, node.attr) if cls is not None else None
            if method is not None:
                yield from self.run(module, method)

    def _called(self, module: Module, call: ast.Call) -> Iterator[Obstacle]:
        names = module.callee(call)
        functions = module.called_functions(call)
        if is_reduction(module, call) and not functions:
            yield Obstacle(call, f"`{last_name(call.func)}(..)` waits for the other ranks")
        for function in functions:
            yield from self.run(module, function)
        classes = module.project_classes(call.func)
        for cls in classes:
            yield from self._instance(module, cls)
        if runs_text(names):
            yield _unseen(call)
        # What sends is told of as a name.
        if functions or classes or is_plain_method(call) or of_library(names) or any(sends(q) for q in names):
            return
        yield from self._object(module, call.func, call if call in self.inside else None, 0)

    def _instance(self, module: Module, cls: ast.ClassDef) -> Iterator[Obstacle]:
        """What an object of a class of the project does when it is called, or asked by an operator."""
        home = module.home(cls)
        for member in home.lineage(cls):
            own = home.home(member)
            for base in member.bases:
                if not own.project_classes(base) and not of_library(own.qualify(base)):
                    yield Obstacle(member, f"what `{ast.unparse(base)}`, the base of `{member.name}`, does is not seen")
            for s in member.body:
                special = isinstance(s, _Function) and s.name.startswith("__") and s.name != "__init__"
                if isinstance(s, _Function) and (special or s.name in _RUN):
                    yield from self.run(own, s)

    # -- objects ---------------------------------------------------------------------------------------------

    def _object(self, module: Module, node: ast.expr, site: ast.Call | None, depth: int) -> Iterator[Obstacle]:
        """What an object that is called, or whose method is, may wait for, by the way from what made it.

        Args:
            site: the call in the loop that runs it; None where it is run in a function that the loop calls.
        """
        module = module.home(node)
        if (node, site) in self.asked:
            return
        self.asked.add((node, site))
        parts: list[ast.expr] = []
        if depth > _DEPTH:
            yield _unseen(node)
        elif isinstance(node, ast.Lambda):
            yield from self.run(module, node)
        elif isinstance(node, ast.Call):
            yield from self._made(module, node, site, depth)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self._bound(module, node, site, depth)
        elif isinstance(node, (ast.Subscript, ast.Starred)):
            parts = [node.value]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            parts = [node.elt]
        elif isinstance(node, ast.Dict):
            parts = node.values
        elif not isinstance(node, _Numbers):
            yield _unseen(node)
        for part in parts:
            yield from self._object(module, part, site, depth + 1)

    def _bound(
        self, module: Module, node: ast.Name | ast.Attribute, site: ast.Call | None, depth: int
    ) -> Iterator[Obstacle]:
        if of_library(module.qualify(node)):
            return
        if any(sends(q) for q in module.qualify(node)):
            yield Obstacle(node, f"`{ast.unparse(node)}` knows of the other ranks")
            return
        cls = module.class_of(node)
        if isinstance(node, ast.Name) and node.id == "self" and cls is not None:
            yield from self._instance(module, cls)
            return
        definitions = list(module.bindings.reaching(node))
        if not definitions and isinstance(node, ast.Attribute):
            own = [cls] if isinstance(node.value, ast.Name) and node.value.id == "self" and cls is not None else []
            members = [m for o in own or module.instances(node.value) for m in module.lineage(o)]
            definitions = [d for m in members for d in module.attribute_values(m, node.attr)]
            if not definitions and not own:  # a part or method of an object: what made the object is asked
                yield from self._object(module, node.value, site, depth + 1)
                return
        if isinstance(node, ast.Attribute) and _set_from_outside(module, node.attr):
            yield _unseen(node)
        if not definitions:
            yield _unseen(node)
        for d in definitions:
            yield from self._defined(module.home(d.node), d, node, site, depth + 1)

    def _defined(
        self, module: Module, d: Definition, reader: ast.expr, site: ast.Call | None, depth: int
    ) -> Iterator[Obstacle]:
        if d.kind == "function":
            yield from self.run(module, d.node)
        elif d.kind == "class" and isinstance(d.node, ast.ClassDef):
            yield from self._instance(module, d.node)
        elif d.kind == "import":
            found = [o for name in module.resolve(d.module) for o in module.named(name) if o is not d]
            for other in found if depth < _DEPTH else ():
                yield from self._defined(module.home(other.node), other, reader, site, depth + 1)
            if not found and not of_library(frozenset((d.module,))):
                yield _unseen(reader)
        elif d.kind == "parameter" and isinstance(d.scope, _Function):
            yield from self._given(module, d, reader, site, depth)
        elif d.kind in ("assign", "loop", "other") and d.value is not None:
            yield from self._object(module, _taken(d, d.value), site, depth)
            yield from self._handed(module, d)
        else:
            yield _unseen(reader)

    def _handed(self, module: Module, d: Definition) -> Iterator[Obstacle]:
        """What a model, or what else the loop runs, is handed to by its name: it may shard it in place."""
        for reader in module.bindings.readers(d):
            call = module.parents.get(reader)
            call = module.parents.get(call) if isinstance(call, (ast.keyword, ast.Starred)) else call
            if not isinstance(call, ast.Call) or reader is call.func or call in self.inside:
                continue
            names, functions = module.callee(call), module.called_functions(call)
            for f in (*functions, *module.project_classes(call.func)):
                self._passed(module.home(f), f, 0)
            known = functions or module.project_classes(call.func) or is_plain_method(call) or of_library(names)
            if not known and DDP not in names and not any(q.endswith("convert_sync_batchnorm") for q in names):
                yield Obstacle(call, f"what `{ast.unparse(call)}` makes of what the loop runs is not seen")

    def _passed(self, module: Module, top: ast.AST, depth: int) -> None:
        """Note the files of what a model is handed to, and of what that calls."""
        if top in self.handed or depth > _DEPTH // 4:
            return
        self.handed.add(top)
        for n in ast.walk(top):
            for f in module.called_functions(n, passed=False) if isinstance(n, ast.Call) else ():
                self._passed(module.home(f), f, depth + 1)

    def _given(
        self, module: Module, d: Definition, reader: ast.expr, site: ast.Call | None, depth: int
    ) -> Iterator[Obstacle]:
        function = d.scope
        assert isinstance(function, _Function)
        given = arguments_given(module, d)
        if not given or not only_called(module, function):
            yield Obstacle(reader, f"who gives `{ast.unparse(reader)}` to {function.name}() is not seen")
        for call, value in given:
            starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
            value = value if value is not None or starred else default_of(function, d.key)
            if value is None:
                yield _unseen(reader)
            else:
                yield from self._object(module, value, site, depth)

    def _made(self, module: Module, call: ast.Call, site: ast.Call | None, depth: int) -> Iterator[Obstacle]:
        """An object that is made by a class, a function of the project, a library, or a method of another object."""
        names = module.callee(call)
        given = [*call.args, *(k.value for k in call.keywords)]
        parts: list[ast.expr] = []
        functions = [f for f in module.called_functions(call) if f.name != "__init__"]
        classes = module.project_classes(call.func)
        for cls in classes:
            yield from self._instance(module, cls)
        for function in functions:
            home = module.home(function)
            if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(function)):
                yield from self.run(module, function)  # it goes on in the loop
            back = (n.value for n in ast.walk(function) if isinstance(n, ast.Return) and home.function(n) is function)
            parts += [value for value in back if value is not None]
        if DDP in names:
            self.sent = site
            why = sends_later(module, site, self.loop)
            if why:
                yield Obstacle(site or call, why)
            parts += given[:1]
        elif any(q.endswith(".SyncBatchNorm.convert_sync_batchnorm") for q in names):
            parts += given[:1]
        elif hides(names):
            yield _unseen(call)
        elif of_library(names):
            site = None if any(q.startswith("torch.compile") for q in names) else site
            parts += [g for g in given if _may_run(module, g)]
        elif isinstance(call.func, ast.Attribute) and not classes and not functions:
            parts += [call.func.value]
        elif not classes and not functions:
            yield _unseen(call)
        for part in parts:
            yield from self._object(module, part, site, depth + 1)


def _may_run(module: Module, node: ast.expr) -> bool:
    """Whether an argument may be a model or function that a constructor keeps: it is one, or is made by a call."""
    if isinstance(node, ast.Starred):
        return _may_run(module, node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_may_run(module, e) for e in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _may_run(module, node.elt)
    if isinstance(node, ast.Dict):
        return any(_may_run(module, v) for v in node.values)
    if isinstance(node, (ast.Name, ast.Attribute)):
        made = module.bindings.reaching(node)
        return (
            bool(module.qualify(node))
            or any(d.kind in ("function", "class", "import") for d in made)
            or any(isinstance(d.value, (ast.Call, ast.Lambda)) and not _is_plain(d.value) for d in made)
        )
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Call) and not is_plain_method(node))


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and is_plain_method(node)


def _taken(d: Definition, value: ast.expr) -> ast.expr:
    """What a definition takes of its value: an item of a tuple that is written out, or the whole."""
    items = value.elts if isinstance(value, (ast.Tuple, ast.List)) and d.kind == "assign" else []
    return items[d.index] if d.index is not None and 0 <= d.index < len(items) else value


def _set_from_outside(module: Module, attribute: str) -> bool:
    """Whether something gives an object such an attribute that is not the object itself: ``trainer.model = ..``."""
    keys = (d.key for m in near(module) for d in m.bindings.definitions if d.kind != "parameter")
    return any(key.endswith(f".{attribute}") and key != f"self.{attribute}" for key in keys)


def _unseen(node: ast.expr) -> Obstacle:
    return Obstacle(node, f"where `{ast.unparse(node)}` comes from is not seen, and whether it waits for other ranks")


__all__ = ["Reach"]
