"""The body of an evaluation loop as it is written, to be run on rows that stand for a model's output and for a batch.

Only literals, operators, listed functions of torch, numpy and Python, and listed methods of their values are kept;
functions of the project's own are translated by the same rules, and are not called where that is not possible.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfix.analysis.code.names import last_name
from shardfix.proof.metrics.allowed import (
    BUILTINS,
    DROPPED_KEYWORDS,
    DTYPES,
    FUNCTIONS,
    METHODS,
    MOVES,
    library,
    torch_module,
)
from shardfix.proof.metrics.collectives import collective, is_collective, only_waits
from shardfix.proof.metrics.functions import inlined
from shardfix.proof.metrics.known import Known
from shardfix.proof.metrics.outputs import Outputs
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name

_REBUILT = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Slice),
    *(ast.JoinedStr, ast.FormattedValue, ast.Starred),
)
_TYPES = frozenset({"int", "float", "bool", "str", "list", "tuple", "dict", "set"})
_CLASSES = frozenset({"Tensor", "ndarray", "generic"})
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


@dataclass
class Literal:
    """Translates statements and expressions of one scope.

    Args:
        outside: what to make of an expression that does not follow from a batch.
        own: a statement that is known another way (a meter's update), translated; None for all others.
        untracked: what to make of a call that nobody takes the result of and whose receiver is not tracked.
        functions: the functions of the project that were translated, by their names here; added to.
        depth: how many functions it is in.
        methods: those of the class that it is in, which may call one another.
        called: those of the objects that this class holds.
        samples: whether batches are lists of samples, of which one may be unpacked.
    """

    known: Known
    outputs: Outputs
    outside: Callable[[ast.expr], ast.expr]
    own: Callable[[ast.stmt, Literal], list[ast.stmt] | None]
    untracked: Callable[[ast.Call], None]
    functions: dict[str, ast.stmt] = field(default_factory=dict)
    depth: int = 0
    methods: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    samples: bool = False

    # -- statements ------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements, one after the other.

        Raises:
            Stop: one of them can't be run as it is.
        """
        return [made for s in body for made in self.statement(s)]

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        """One statement."""
        own = self.own(s, self)
        if own is not None:
            return own
        if isinstance(s, (ast.Assign, ast.AnnAssign)):
            if s.value is None:
                return []
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            into = next((t for t in targets if isinstance(t, (ast.Tuple, ast.List))), None)
            if into is not None:
                value = self.outputs.unpacked(s.value, [ast.unparse(e) for e in into.elts], self.value)
            elif ast.unparse(targets[0]) in self.outputs.several:
                value = self.outputs.given(s.value, self.value, ast.unparse(targets[0]))
            else:
                named = self.outputs.taken(s.value, ast.unparse(targets[0]), self.value)
                value = named if named is not None else self.value(s.value)
            for target in targets:
                if target is not into and self.outputs.holds(s.value):
                    self.outputs.names.add(ast.unparse(target))
                else:
                    self.outputs.names.discard(ast.unparse(target))
            return [ast.Assign([self.target(t) for t in targets], value, lineno=0)]
        if isinstance(s, ast.AugAssign):
            return [ast.AugAssign(self.target(s.target), s.op, self.value(s.value))]  # type: ignore[arg-type]
        if isinstance(s, ast.Expr):
            return self._called(s.value)
        if isinstance(s, ast.If):
            body, orelse = self.block(s.body), self.block(s.orelse)
            if not body and not orelse:
                return []
            return [ast.If(self.value(s.test), body or [ast.Pass()], orelse)]
        if isinstance(s, ast.For):
            turns = self._turns(s.target, self.value(s.iter))
            return [ast.For(self.target(s.target), turns, self.block(s.body) or [ast.Pass()], [])]
        if isinstance(s, ast.With):
            return self.block(s.body)  # no_grad, autocast: nothing here has a gradient
        if isinstance(s, ast.Return) and self.depth:
            return [ast.Return(self.value(s.value) if s.value is not None else None)]
        if isinstance(s, (ast.Continue, ast.Break, ast.Pass)):
            return [s]
        if isinstance(s, ast.Raise) and self.methods and "AttributeError" in ast.unparse(s):
            return [ast.Raise(name("AttributeError"))]  # that of a `__getattr__`
        if isinstance(s, (ast.Assert, ast.Delete, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
            return []
        raise self.known.stop("a statement can't be run as it is", s)

    def target(self, node: ast.expr) -> ast.expr:
        """What is written to."""
        text = ast.unparse(node)
        if text in self.known.tracked:
            return ast.Name(self.known.tracked[text], ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return type(node)([self.target(e) for e in node.elts], ast.Store())
        if isinstance(node, ast.Starred):
            return ast.Starred(self.target(node.value), ast.Store())
        if isinstance(node, ast.Subscript) and self.known.tracks(node.value):
            return ast.Subscript(self.value(node.value), self.value(node.slice), ast.Store())
        raise self.known.stop(f"`{text_of(node)}` is written to, which is not followed", node)

    def _called(self, node: ast.expr) -> list[ast.stmt]:
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            raise self.known.stop("what is handed out one by one is not followed", node)
        if isinstance(node, ast.Constant) or not isinstance(node, ast.Call):
            return []
        if only_waits(self.known.module, node):
            return []
        if is_collective(self.known.module, node) and self.known.tracks(node):
            return [ast.Expr(collective(self.known, node, self.value))]
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if receiver is not None and self.known.tracks(receiver) and ast.unparse(receiver) not in self.known.tracked:
            if not isinstance(receiver, (ast.Subscript, ast.Call)):
                raise self.known.stop(f"`{text_of(node)}` is not followed", node)
            return [ast.Expr(self.value(node))]
        if receiver is not None and ast.unparse(receiver) in self.known.tracked:
            return [ast.Expr(self.value(node))]
        self.untracked(node)
        return []

    # -- expressions -----------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> ast.expr:
        """An expression as it is, but for what is not to be run.

        Raises:
            Stop: it can't be run as it is.
        """
        text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self.known.local):
            return node
        if text in self.known.tracked:
            return name(self.known.tracked[text])
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if not self.known.tracks(node) and isinstance(node, (ast.Name, ast.Subscript)):
            return self.outside(node)
        if isinstance(node, ast.Subscript):
            if not self.known.tracks(node.value):  # a table of the program's, by what is looked up in it
                self.known.stand_ins[text_of(node.value)] = "what is looked up decides what it gives"
                return call(name("LOOKUP"), ast.Constant(text_of(node.value)), self.value(node.slice))
            if self.outputs.holds(node.value):
                self.outputs.whole(node.value, node.slice)
            return ast.Subscript(self.value(node.value), self.value(node.slice), ast.Load())
        if isinstance(node, ast.Compare) and _asks_for_a_name(node) and not self.known.tracks(node):
            self.known.stand_ins[text_of(node)] = "True"
            return ast.Constant(True)
        if isinstance(node, _REBUILT):
            return self._rebuilt(node)
        raise self.known.stop(f"`{text_of(node)}` can't be run as it is", node)

    def _rebuilt(self, node: ast.expr) -> ast.expr:
        fields: dict[str, Any] = {}
        for key, old in ast.iter_fields(node):
            if isinstance(old, ast.expr):
                fields[key] = self.value(old)
            elif isinstance(old, list) and all(isinstance(item, ast.expr) or item is None for item in old):
                fields[key] = [None if item is None else self.value(item) for item in old]
            else:
                fields[key] = old
        made: ast.expr = type(node)(**fields)
        return made

    def _comprehension(self, node: ast.expr) -> ast.expr:
        bound = len(self.known.local)
        generators = []
        for g in getattr(node, "generators", []):
            turn = self._turns(g.target, self.value(g.iter))
            self.known.local += [n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)]
            generators.append(ast.comprehension(g.target, turn, [self.value(c) for c in g.ifs], 0))
        fields: dict[str, Any] = {"generators": generators}
        fields |= {key: self.value(old) for key, old in ast.iter_fields(node) if isinstance(old, ast.expr)}
        del self.known.local[bound:]
        made: ast.expr = type(node)(**fields)
        return made

    def _turns(self, target: ast.expr, over: ast.expr) -> ast.expr:
        """What a loop goes over: a sample among it may have more parts than the names that it is unpacked into."""
        unpacks = isinstance(target, (ast.Tuple, ast.List)) and not any(
            isinstance(n, ast.Starred) for n in ast.walk(target)
        )
        return call(name("EACH"), over, _names(target)) if self.samples and unpacks else over

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        known = library(self.known, node, DTYPES)
        if known is not None:
            return known
        if ast.unparse(node.value) in self.known.meters:
            return ast.Attribute(self.value(node.value), node.attr, ast.Load())
        if self.known.tracks(node.value):
            return call(name("FIELD"), self.value(node.value), ast.Constant(node.attr))
        return self.outside(node)

    def _call(self, node: ast.Call) -> ast.expr:
        function = last_name(node.func)
        callee = self.known.module.callee(node)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if function in ("reduced", "in_order", "of_all_batches", "unpadded"):
            raise self.known.stop("ranks are put together within the loop", node)
        if is_collective(self.known.module, node) and self.known.tracks(node):
            return collective(self.known, node, self.value)
        if isinstance(node.func, ast.Name) and function in BUILTINS and f"builtins.{function}" in callee:
            if not self.known.tracks(node):
                return self.outside(node)
            return self._kept(name(function), node)
        known = library(self.known, node.func, FUNCTIONS)
        if known is not None:
            return self._kept(known, node)
        module = torch_module(self.known, node.func)
        if module is not None:
            return self._kept(module, node)
        own = self.methods if isinstance(receiver, ast.Name) and receiver.id == "self" else frozenset()
        if receiver is not None and function in own | self.known.classes.get(ast.unparse(receiver), frozenset()):
            return self._kept(ast.Attribute(self.value(receiver), function, ast.Load()), node)
        if function == "isinstance" and "builtins.isinstance" in callee and len(node.args) == 2:
            return call(name(function), self.value(node.args[0]), self._types(node.args[1]))
        if receiver is not None and self.known.tracks(receiver):
            if function in MOVES:
                types = [a for a in node.args if library(self.known, a, DTYPES) is not None]
                kept = self.value(receiver)
                return call(ast.Attribute(kept, "to", ast.Load()), self.value(types[0])) if types else kept
            if function not in METHODS | self.called:
                raise self.known.stop(f"`.{function}()` can't be run as it is", node)
            if function == "view" and not any(library(self.known, a, DTYPES) is not None for a in node.args):
                function = "reshape"  # older torch gave contiguous rows where a newer one does not
            return self._kept(ast.Attribute(self.value(receiver), function, ast.Load()), node)
        if isinstance(receiver, ast.Constant) and function in ("join", "format"):
            return self._kept(ast.Attribute(receiver, function, ast.Load()), node)
        if not self.known.tracks(node):
            return self.outside(node)
        return inlined(self, node, self._kept) or self.outputs.stand_in(node, self.value)

    def _types(self, node: ast.expr) -> ast.expr:
        """The types that a value is asked for: numbers, containers, tensors and arrays."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self._types(e) for e in node.elts], ast.Load())
        if isinstance(node, ast.Name) and node.id in _TYPES:
            return node
        found = library(self.known, node, _CLASSES)
        if found is None:
            raise self.known.stop(f"`{text_of(node)}` is not known", node)
        return found

    def _kept(self, function: ast.expr, node: ast.Call) -> ast.expr:
        args = [self.value(a) for a in node.args]
        if any(k.arg is None for k in node.keywords):
            raise self.known.stop("keywords are not seen", node)
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg and k.arg not in DROPPED_KEYWORDS}
        return call(function, *args, **keywords)


def _asks_for_a_name(node: ast.Compare) -> bool:
    """``"vit" in args.arch``: a setting that is a text, which is not known."""
    inside = len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))
    return inside and isinstance(node.left, ast.Constant) and isinstance(node.comparators[0], (ast.Name, ast.Attribute))


def _names(target: ast.expr) -> ast.expr:
    """As many things as there are names in a target, in tuples as there."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return ast.Tuple([_names(e) for e in target.elts], ast.Load())
    return ast.Constant(0)


__all__ = ["Literal"]
