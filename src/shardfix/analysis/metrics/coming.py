"""Whether every rank comes to a loop: the conditions around it, up through its callers, are alike on all ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.programs.processes import distributed_test, handed_on, is_main_test, is_rank, is_world_size

_DEPTH = 6  # callers of callers, and values of values
_SETTINGS = re.compile(
    r"(^|_)(args?|arguments|cfgs?|config|configs|conf|opts?|options?|flags|hparams|hps|hp|params|settings)$",
    re.IGNORECASE,
)
_NAMED_SO = re.compile(r"(^|_)(args|arguments|cfg|config|opts?|flags|hparams|settings)$", re.IGNORECASE)
_COUNTERS = re.compile(r"(^|_)(epochs?|ep|steps?|iters?|iteration|iterations|it|rounds?|batch_?idx|updates)(_|$|\d)")
# What is alike on all ranks if what it is given is.
_PLAIN = frozenset(
    {"len", "int", "float", "bool", "str", "abs", "min", "max", "round", "any", "all", "range", "getattr", "list"}
    | {"tuple", "set", "sorted", "get", "lower", "upper", "strip", "split", "startswith", "endswith", "items", "keys"}
    | {"values", "enumerate", "zip", "count", "item"}
)
_LOOKS = frozenset(
    {"hasattr", "isinstance", "issubclass", "callable", "is_available", "device_count", "is_initialized"}
)
_READS = frozenset({"parse_args", "parse_known_args", "parse_args_into_dataclasses", "load", "safe_load", "getenv"})
_LEAVES = ("exit", "_exit", "quit")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def stays_away(
    module: Module,
    loop: ast.AST,
    calls: Sequence[ast.Call],
    aliases: frozenset[ast.expr],
    lifted: frozenset[ast.expr] = frozenset(),
) -> Obstacle | None:
    """The condition because of which a rank may not come to a loop while others do; None where all are seen alike.

    Args:
        calls: the calls through which the loader came to the loop, where these are known.
        aliases: the expressions that stand for the loader.
        lifted: conditions that are to be taken away.
    """
    return _Way(module, aliases, set(calls), lifted).to(loop)


@dataclass
class _Way:
    """The way from the start of a program to a loop.

    Args:
        results: the calls on it, whose results are the metric: reduced, they are alike on all ranks.
    """

    module: Module
    aliases: frozenset[ast.expr]
    given: set[ast.Call]
    lifted: frozenset[ast.expr] = frozenset()
    results: set[ast.AST] = field(default_factory=set)
    seen: set[ast.AST] = field(default_factory=set)

    def to(self, node: ast.AST, depth: int = 0) -> Obstacle | None:
        """What may keep a rank from a node."""
        self.results.add(node)
        module = self.module.home(node)
        calls: list[ast.Call] = []
        function = next((n for n in module.around(node) if isinstance(n, _Function)), None)
        if function is not None and function not in self.seen and depth < _DEPTH:
            self.seen.add(function)
            calls = [] if isinstance(function, ast.Lambda) else module.callers(function)
            mine = [c for c in calls if c in self.given or any(a in self.aliases for a in arguments_of(c))]
            calls = mine or calls
        self.results.update(calls)
        caught = _swallows(module, node)
        if caught is not None:
            why = "what is raised on one rank is caught here, and that rank goes on while the others wait for it"
            return Obstacle(caught, why)
        for test in _conditions(module, node):
            if not self.alike(test):
                words = " ".join(ast.unparse(test).split())
                return Obstacle(test, f"every rank must come here, and `{words[:60]}` is not seen to be alike on all")
        return next((found for c in calls if (found := self.to(c, depth + 1)) is not None), None)

    # -- values ----------------------------------------------------------------------------------------------

    def alike(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether the value of an expression is seen to be the same on all ranks."""
        if isinstance(node, ast.Constant) or node in self.aliases or node in self.results or node in self.lifted:
            return True
        if depth > 2 * _DEPTH:
            return False
        if distributed_test(node) is not None or is_world_size(node):
            return True
        if isinstance(node, ast.BoolOp):
            return all(self.alike(v, depth + 1) for v in node.values)
        if is_rank(node) or is_main_test(node):
            return False
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return self._is_there(node.left, depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        if isinstance(node, ast.Name):
            return self._named(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.Await)):
            return False
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return all(self.alike(n, depth + 1) for n in parts)

    def _is_there(self, node: ast.expr, depth: int) -> bool:
        """Whether all ranks have a value where one has it: ``x is None``."""
        if isinstance(node, ast.Attribute) and node.attr == "gpu":
            return True  # given by the launcher to all or none
        return self._has(node, depth)

    def _has(self, node: ast.expr, depth: int) -> bool:
        if isinstance(node, ast.IfExp):
            return self.alike(node.test, depth + 1) and self._has(node.body, depth) and self._has(node.orelse, depth)
        if isinstance(node, ast.Call) and not self.module.called_functions(node):
            return True  # what a library makes is there on every rank
        if isinstance(node, ast.Call) and self.module.home(node).project_classes(node.func):
            return True
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set)):
            return True
        if isinstance(node, ast.Name) and node not in self.aliases:
            found = self.module.bindings.reaching(node)
            assigned = [d for d in found if d.kind == "assign" and d.index is None and d.value is not None]
            if found and len(assigned) == len(found) and depth < _DEPTH:
                where = all(self._reached(d, node) for d in assigned)
                return where and all(self._has(d.value, depth + 1) for d in assigned if d.value is not None)
        return self.alike(node, depth + 1)

    def _reached(self, d: Definition, reader: ast.AST) -> bool:
        """Whether all ranks that come to a reader make a definition or none does."""
        home = self.module.home(d.node)
        around = set(home.around(reader))
        tests = (n.test for n in home.around(d.statement) if isinstance(n, ast.If) and n not in around)
        return not any(_of_rank(t) for t in tests)

    def _named(self, node: ast.Name, depth: int) -> bool:
        if _NAMED_SO.search(node.id):
            return True
        found = self.module.bindings.reaching(node)
        if not found:
            return not self.module.home(node).bindings.star_modules  # a builtin
        return all(self._defined(d, node, depth) for d in found)

    def _defined(self, d: Definition, reader: ast.AST, depth: int) -> bool:
        if d.node in self.seen and d.kind == "augmented":
            return True
        if d.kind in ("function", "class"):
            return True
        if d.kind == "import":
            named = self.module.named(next(iter(self.module.resolve(d.module)), d.module))
            return all(self._defined(n, reader, depth + 1) for n in named)
        if not self._reached(d, reader) or d.value is None:
            return d.kind == "parameter" and self._given(d, depth)
        if d.kind == "parameter":
            return self._given(d, depth)
        if d.kind == "loop":
            counts = is_enumerated(self.module.home(d.node), d.value) and d.index == 0
            return counts or self.alike(d.value, depth + 1)
        if d.kind in ("assign", "augmented"):
            key = d.node
            if key in self.seen:
                return True
            self.seen.add(key)
            try:
                return self.alike(d.value, depth + 1)
            finally:
                self.seen.discard(key)
        return False

    def _given(self, d: Definition, depth: int) -> bool:
        """Whether all that callers give to a parameter is alike, its default included."""
        if not isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or d.node in self.seen:
            return True
        self.seen.add(d.node)
        try:
            calls = self.module.callers(d.scope)
            if not calls or handed_on(self.module.home(d.scope), d.scope):
                return bool(_COUNTERS.search(d.key))  # `mp.spawn(main_worker)` gives each process its number
            given = [argument_of(self.module, d.scope, call, d.key) for call in calls]
            return not _of_rank_name(d.key) and all(g is None or self.alike(g, depth + 1) for g in given)
        finally:
            self.seen.discard(d.node)

    def _attribute(self, node: ast.Attribute, depth: int) -> bool:
        chain = ast.unparse(node).split(".")
        values = [
            d.value
            for m in self.module.fellows
            if f".{node.attr}" in m.text
            for d in m.bindings.definitions
            if d.key.endswith("." + node.attr) and d.kind == "assign" and d.value is not None and d.index is None
        ]
        if any(_of_rank(v) for v in values):
            return False
        if any(_SETTINGS.search(part) for part in chain[:-1]) or _SETTINGS.search(node.attr):
            return True
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        cls = self.module.home(node).class_of(node)
        if own and cls is not None:
            mine = [d for c in self.module.lineage(cls) for d in self.module.attribute_values(c, node.attr)]
            if mine:
                return all(self._defined(d, node, depth + 1) for d in mine)
        if _COUNTERS.search(node.attr):
            return True
        if not isinstance(node.value, ast.Name):
            return False
        found = self.module.bindings.reaching(node.value)
        if all(d.kind == "import" and not self.module.named(d.module) for d in found):  # what a module holds
            named = [d for q in self.module.qualify(node) for d in self.module.named(q)]
            return all(self._defined(d, node, depth + 1) for d in named)
        return False

    def _called(self, call: ast.Call, depth: int) -> bool:
        name = last_name(call.func)
        functions = self.module.called_functions(call)
        if functions:
            return any(f in self.seen for f in functions) or all(self._gives(f, depth) for f in functions)
        if name in _LOOKS:
            return not any(_of_rank(a) for a in arguments_of(call))
        if name == "len":
            return not any(_of_rank(a) for a in call.args)
        if name in _READS:
            return not _of_rank(call)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in _PLAIN and (
            receiver is None or ast.unparse(receiver) == "os.environ" or self.alike(receiver, depth)
        ):
            return all(self.alike(a, depth + 1) for a in arguments_of(call))
        return False

    def _gives(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
        """Whether a project function gives what is alike."""
        inside = list(ast.walk(function))
        given = [n.value for n in inside if isinstance(n, ast.Return) and n.value is not None]
        tests = [n.test for n in inside if isinstance(n, (ast.If, ast.While, ast.IfExp))]
        return bool(given) and depth < _DEPTH and all(self.alike(n, depth + 2) for n in (*given, *tests))


# -- conditions -------------------------------------------------------------------------------------------------


def _conditions(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The conditions of one function that a way to a node goes through."""
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and previous is not outer.test:
            yield outer.test
        elif isinstance(outer, ast.BoolOp):
            yield from outer.values[: next((i for i, v in enumerate(outer.values) if v is previous), 0)]
        if isinstance(previous, ast.stmt):
            block = module.block(previous)
            before = block[: block.index(previous)] if previous in block else []
            turns = isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and previous in outer.body
            yield from _leaving(before, whole=True)
            if turns:
                yield from _leaving(block[len(before) :], whole=False)
        if isinstance(outer, _Function):
            return
        previous = outer


def _leaving(statements: Iterable[ast.stmt], *, whole: bool) -> Iterator[ast.expr]:
    """The conditions under which statements go no further, or go to the next turn.

    Args:
        whole: whether to go on to the next turn leaves what is asked for.
    """
    for s in statements:
        if isinstance(s, ast.If):
            for body in (s.body, s.orelse):
                if _leaves(body, whole=whole):
                    yield s.test
                    yield from _leaving(body, whole=whole)
        elif isinstance(s, (ast.With, ast.AsyncWith, ast.Try)):
            yield from _leaving(s.body, whole=whole)
        elif isinstance(s, (ast.For, ast.AsyncFor, ast.While)):
            for n in s.body:
                if isinstance(n, ast.If) and any(isinstance(r, ast.Return) for b in n.body for r in ast.walk(b)):
                    yield n.test


def _leaves(body: Iterable[ast.AST], *, whole: bool) -> bool:
    for n in body:
        if isinstance(n, (ast.Return, ast.Break)) or (whole and isinstance(n, ast.Continue)):
            return True
        if isinstance(n, ast.Call) and last_name(n.func) in _LEAVES:
            return True
        if isinstance(n, (*_Function, ast.ClassDef)):
            continue
        inner = ast.iter_child_nodes(n)
        if isinstance(n, (ast.For, ast.AsyncFor, ast.While)):
            if any(isinstance(r, ast.Return) for r in ast.walk(n)):
                return True
            continue
        if _leaves(inner, whole=whole):
            return True
    return False


def _swallows(module: Module, node: ast.AST) -> ast.AST | None:
    """What around a node, in its function, catches an exception and goes on: but for the end of a program."""
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, _Function):
            return None
        if isinstance(outer, ast.Try) and previous in outer.body:
            goes_on = module.function(outer) is not None or outer in module.block(outer)[:-1]
            found = next((h for h in outer.handlers if not _gives_up(h)), None) if goes_on else None
            if found is not None:
                return found
        elif isinstance(outer, (ast.With, ast.AsyncWith)):
            items = (i.context_expr for i in outer.items)
            if any(isinstance(i, ast.Call) and last_name(i.func) == "suppress" for i in items):
                return outer
        previous = outer
    return None


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the program, or raises again."""
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    if caught and all(n in ("KeyboardInterrupt", "SystemExit") for n in re.findall(r"\w+", caught)):
        return True
    last = handler.body[-1]
    ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and last_name(last.value.func) in _LEAVES
    return isinstance(last, ast.Raise) or ends


def _of_rank(node: ast.AST) -> bool:
    """Whether an expression goes by the rank."""
    for n in ast.walk(node):
        if isinstance(n, ast.expr) and distributed_test(n) is None and (is_rank(n) or is_main_test(n)):
            return True
    return False


def _of_rank_name(name: str) -> bool:
    return is_rank(ast.Name(name, ast.Load())) or is_main_test(ast.Name(name, ast.Load()))


__all__ = ["stays_away"]
