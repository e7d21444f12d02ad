"""Whether a value is seen to be the same on all ranks: made of constants, settings, counts, and of nothing else."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.evaluation import gives_all_the_same
from shardfix.analysis.metrics.alike_names import (
    AGREED,
    CHANGES,
    COUNTERS,
    DISPLAY,
    DRAWN,
    ITSELF,
    LIBRARIES,
    LOOKS,
    MADE,
    OF_FILES,
    OF_ONE_PROCESS,
    PLAIN,
    PURE,
    READS,
    SETTINGS,
    SHOWS,
)
from shardfix.analysis.metrics.catching import caught_by, fails_everywhere
from shardfix.analysis.metrics.going_by_rank import differs, goes_by_rank
from shardfix.analysis.metrics.launching import is_command
from shardfix.analysis.metrics.running import what_runs
from shardfix.analysis.metrics.steps import Step, steps
from shardfix.analysis.metrics.stored import Stored
from shardfix.analysis.programs.processes import distributed_test, is_main_test, is_rank, is_world_size

_DEPTH = 24  # values of values
_Def = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Alike:
    """What is known to be the same on all ranks, while the way to a loop is followed.

    Args:
        assumed: expressions that are, because of an edit or by what they stand for: the loader, lifted conditions.
        loops: what is gathered in them is reduced behind them.
        comes: whether all ranks come to a node or none does.
    """

    module: Module
    assumed: frozenset[ast.expr]
    loops: frozenset[ast.AST]
    stored: Stored
    comes: Callable[[ast.AST, int], bool]
    open: set[ast.AST] = field(default_factory=set)  # being asked about: alike if all else is
    known: dict[ast.expr, bool] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)  # names of attributes that are being asked about

    def value(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether the value of an expression is seen to be the same on all ranks."""
        if node in self.assumed or isinstance(node, ast.Constant):
            return True
        if depth > _DEPTH:
            return False
        known = self.known.get(node)
        if known is None:
            alone = not self.open
            known = self._value(node, depth + 1)
            if alone or not known:
                self.known[node] = known
        return known

    def _value(self, node: ast.expr, depth: int) -> bool:
        whole = not isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.IfExp))
        if whole and (distributed_test(node) is not None or is_world_size(node)):
            return not any(goes_by_rank(self.module, d.value) for d in self._definitions(node) if d.value is not None)
        # Of several conditions one may be lifted: each is asked for itself.
        if not isinstance(node, ast.BoolOp) and (is_rank(node) or is_main_test(node)):
            return False
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return self._is_there(node.left, depth)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.value(node.left, depth) and all(self.value(n, depth) for n in _members(node.comparators[0]))
        if isinstance(node, (ast.Set, ast.SetComp)):
            return False  # each process has an order of its own, by its hashes
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        if isinstance(node, ast.Name):
            return self._named(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript):
            return self._item(node, depth)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._generators(node.generators, depth) and self.value(node.elt, depth)
        if isinstance(node, ast.DictComp):
            return (
                self._generators(node.generators, depth)
                and self.value(node.key, depth)
                and self.value(node.value, depth)
            )
        if isinstance(node, (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        return all(self.value(n, depth) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def _generators(self, generators: list[ast.comprehension], depth: int) -> bool:
        return all(self.turns(g.iter, depth) and all(self.value(t, depth) for t in g.ifs) for g in generators)

    def _definitions(self, node: ast.expr) -> list[Definition]:
        return (
            list(self.module.home(node).bindings.reaching(node)) if isinstance(node, (ast.Name, ast.Attribute)) else []
        )

    def turns(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an iterable has as many items on all ranks, in whatever they are."""
        if depth > _DEPTH or goes_by_rank(self.module, node):
            return False
        if isinstance(node, ast.Call) and last_name(node.func) in (
            "enumerate",
            "tqdm",
            "track",
            "list",
            "iter",
            "reversed",
        ):
            return bool(node.args) and self.turns(node.args[0], depth + 1)
        if isinstance(node, ast.Call) and last_name(node.func) in ("zip", "chain", "product"):
            return all(self.turns(a, depth + 1) for a in node.args)
        if isinstance(node, ast.Call) and last_name(node.func) in ("items", "keys", "values"):
            return isinstance(node.func, ast.Attribute) and self.turns(node.func.value, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            return not any(isinstance(e, ast.Starred) for e in getattr(node, "elts", []))
        if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
            return self._generators(node.generators, depth + 1)
        if isinstance(node, ast.Name) and node not in self.assumed:
            found = self._definitions(node)
            plain = [d for d in found if d.kind == "assign" and d.index is None and d.value is not None]
            if found and len(plain) == len(found):
                same = all(self.reached(d, node, depth + 1) for d in plain)
                kept = all(self._kept(d, node, depth + 1, values=False) for d in plain)
                return same and kept and all(self.turns(d.value, depth + 1) for d in plain if d.value is not None)
        return self.value(node, depth + 1)

    # -- names -------------------------------------------------------------------------------------------------

    def _named(self, node: ast.Name, depth: int) -> bool:
        found = self._definitions(node)
        if not found:
            return hasattr(builtins, node.id) or node.id == "__file__"
        if self._made_alike(node):
            return True
        if self._set_within(node, found):
            return False
        return all(self._defined(d, node, depth) and self._kept(d, node, depth) for d in found)

    def _set_within(self, node: ast.Name, found: list[Definition]) -> bool:
        """Whether a function within sets a name of the one around it, where it is not seen when."""
        home = self.module.home(node)
        scopes = [d.scope for d in found]
        return "nonlocal" in home.text and any(
            isinstance(n, ast.Nonlocal) and node.id in n.names and any(s in home.around(n) for s in scopes)
            for s in scopes
            for n in ast.walk(s)
        )

    def _made_alike(self, node: ast.Name) -> bool:
        """Whether the ranks agree on a value before it is read: it is reduced, or sent from one to all."""
        home = self.module.home(node)
        for d in home.bindings.reaching(node):
            for use in home.bindings.readers(d):
                call = home.parents[use]
                if not (isinstance(call, ast.Call) and call.args and use in (call.args[0], *call.args[1:2])):
                    continue
                between = getattr(d.node, "lineno", 0) <= call.lineno < node.lineno
                named = last_name(call.func) in AGREED and home.scope(call) is home.scope(node)
                alone = len(home.bindings.reaching(node)) == 1 and isinstance(home.parents[call], ast.Expr)
                if named and between and alone and self._alike_here(home, call, 0):
                    return True
        return False

    def _defined(self, d: Definition, reader: ast.AST, depth: int) -> bool:
        """Whether what a definition binds is alike, where all ranks that come to its reader make it or none does."""
        if d.node in self.open or depth > _DEPTH:
            return d.node in self.open
        if d.kind in ("function", "class"):
            return True
        self.open.add(d.node)
        try:
            if d.kind == "import":
                return self._imported(d, reader, depth)
            if d.kind == "parameter":
                return self._given(d, depth)
            if not self.loops.isdisjoint(self.module.around(d.statement)):
                return True  # reduced behind the loop
            if d.value is None or not self.reached(d, reader, depth):
                return False
            if d.kind == "loop":
                return self._item_of(d, reader, depth)
            return d.kind in ("assign", "augmented") and self.value(d.value, depth)
        finally:
            self.open.discard(d.node)

    def _item_of(self, d: Definition, reader: ast.AST, depth: int) -> bool:
        """Whether what a loop takes is alike: its count is, in each turn."""
        assert d.value is not None
        enumerated = isinstance(d.value, ast.Call) and last_name(d.value.func) == "enumerate"
        if enumerated and d.index == 0 and d.statement in self.module.around(reader):
            return True
        return self.value(d.value, depth)

    def _imported(self, d: Definition, reader: ast.AST, depth: int) -> bool:
        named = self.module.named(next(iter(self.module.home(d.node).resolve(d.module)), d.module))
        if named:
            return all(self._defined(n, reader, depth + 1) for n in named)
        whole = isinstance(d.statement, ast.Import)
        known = whole or d.module.partition(".")[0] in LIBRARIES or bool(SETTINGS.search(d.key))
        return known and self.reached(d, reader, depth)

    def _given(self, d: Definition, depth: int) -> bool:
        """Whether all that callers give to a parameter is alike, its default included."""
        scope = d.scope
        if d.key in ("self", "cls"):
            return True
        if not isinstance(scope, _Def) or is_rank(ast.Name(d.key, ast.Load())):
            return False
        home = self.module.home(scope)
        if is_command(home, scope):
            return not self.stored.by_rank(d.key)  # of the command line
        runs = what_runs(home, scope)
        starts = {start.call: start for start in runs.starts}
        calls = [c for c in runs.calls if isinstance(c, ast.Call) and c not in starts]
        by_name = bool(SETTINGS.search(d.key) or (COUNTERS.search(d.key) and runs.launched))
        unwritten = bool(runs.launched and not starts) or runs.unseen is not None or not (calls or starts)
        if unwritten and not by_name:
            return False
        for start in starts.values():
            told = start.argument(scope, d.key)
            if (told is None and not by_name) or (told is not None and not self.value(told, depth)):
                return False
        for call in calls:
            given = argument_of(home, scope, call, d.key)
            if given is None:
                opened = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
                default = default_of(scope, d.key)
                if not by_name and (opened or default is None or not self.value(default, depth)):
                    return False
            elif not self.value(given, depth):
                return False
        return True

    # -- when a name is bound, and what becomes of the object it holds ---------------------------------------------

    def reached(self, d: Definition, reader: ast.AST, depth: int) -> bool:
        """Whether all ranks that come to a reader make a definition or none does."""
        home = self.module.home(d.node)
        scope, mine = home.scope(d.statement), self.module.home(reader)
        if isinstance(d.statement, ast.expr):  # of a comprehension
            return True
        common = {s.node for s in steps(mine, mine.statement(reader))} if mine is home else set()
        if not all(self.step(s, depth) for s in steps(home, d.statement) if s.node not in common):
            return False
        if isinstance(scope, (ast.Module, ast.Lambda)) or scope in (mine.scope(reader), *mine.around(reader)):
            return True
        constructor = isinstance(scope, _Def) and scope.name == "__init__"
        return constructor or self.comes(d.statement, depth)

    def step(self, step: Step, depth: int = 0) -> bool:
        """Whether a step of a way is taken alike by all ranks."""
        if step.kind == "unknown":
            return fails_everywhere(self.module, step) or self._misses_a_file(step, depth)
        if step.node in self.open:
            return True
        self.open.add(step.node)
        try:
            if step.kind == "dies":
                return not isinstance(step.node, ast.expr) or not differs(self.module, step.node)
            if step.kind == "turns":
                return self._repeated(step.node, depth)
            return isinstance(step.node, ast.expr) and self._truth(step.node, depth)
        finally:
            self.open.discard(step.node)

    def _misses_a_file(self, step: Step, depth: int) -> bool:
        """Whether what is caught is that a file is missing, one that was there before the program began: it is on no
        rank or on all."""
        outer, caught = caught_by(self.module, step)
        inside = [n for s in getattr(outer, "body", []) for n in ast.walk(s)]
        opened = [n for n in inside if isinstance(n, ast.Call) and last_name(n.func) in ("open", "load")]
        named = all(self.value(a, depth + 1) for call in opened for a in call.args[:1])
        return caught == {"FileNotFoundError"} and named and not any(isinstance(n, ast.Raise) for n in inside)

    def _truth(self, node: ast.expr, depth: int) -> bool:
        """Whether a condition holds on all ranks or on none: an object that is made is true on each."""
        if node in self.assumed:
            return True
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._truth(node.operand, depth)
        if isinstance(node, ast.BoolOp):
            return all(self._truth(n, depth) for n in node.values)
        told = [
            method
            for cls in self.module.instances(node)
            for name in ("__bool__", "__len__")
            if (method := self.module.method(cls, name)) is not None
        ]
        if told:
            return all(self._gives(method, depth + 1) for method in told)
        return self.value(node, depth) or (isinstance(node, ast.Name) and self._has(node, depth, truth=True))

    def _repeated(self, node: ast.AST, depth: int) -> bool:
        iterable = node.iter if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else None
        if iterable is None or iterable in self.assumed:
            return True
        if self.turns(iterable, depth):
            return True
        # At each step of a training gradients are averaged over the ranks, so that all take equally many.
        trains = "train" in ast.unparse(iterable).lower() or _trains(self.module, node, 0)
        return isinstance(node, ast.For) and trains and not goes_by_rank(self.module, iterable)

    def _kept(self, d: Definition, reader: ast.AST, depth: int, *, values: bool = True) -> bool:
        """Whether an object that a name holds is changed alike on all ranks, or not at all."""
        value = d.value if d.kind == "assign" and d.index is None else None
        made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MADE
        if (not isinstance(value, DISPLAY) and not made) or d.node in self.open:
            return True
        home = self.module.home(d.node)
        self.open.add(d.node)
        try:
            return all(self._used(home, use, depth, values) for use in home.bindings.readers(d))
        finally:
            self.open.discard(d.node)

    def _used(self, home: Module, use: ast.expr, depth: int, values: bool) -> bool:
        outer = home.parents[use]
        call = home.parents.get(outer)
        if not self.loops.isdisjoint(home.around(use)):
            return True
        if isinstance(outer, ast.Subscript) and isinstance(outer.ctx, (ast.Store, ast.Del)):
            stored = getattr(home.statement(use), "value", None)
            same = not values or stored is None or (isinstance(stored, ast.expr) and self.value(stored, depth))
            return same and self.value(outer.slice, depth) and self._alike_here(home, use, depth)
        if isinstance(outer, ast.Attribute) and isinstance(call, ast.Call) and call.func is outer:
            if outer.attr not in CHANGES:
                return True
            same = not values or all(self.value(a, depth) for a in arguments_of(call))
            return same and self._alike_here(home, use, depth)
        if isinstance(outer, (ast.Assign, ast.Attribute, ast.AugAssign, ast.Delete)):
            return False
        if isinstance(outer, (ast.Call, ast.keyword, ast.Starred)):
            whole = outer if isinstance(outer, ast.Call) else call
            name = last_name(whole.func) if isinstance(whole, ast.Call) else ""
            root = {q.partition(".")[0] for q in home.callee(whole)} if isinstance(whole, ast.Call) else set()
            if isinstance(whole, ast.Call) and any("torch.distributed" in q for q in home.callee(whole)):
                return name in AGREED
            return name in PLAIN or name in SHOWS or (bool(root) and root <= {*PURE, "builtins", "logging", "wandb"})
        return True

    def _alike_here(self, home: Module, node: ast.AST, depth: int) -> bool:
        return all(self.step(s, depth) for s in steps(home, home.statement(node)))

    # -- there or not ------------------------------------------------------------------------------------------

    def _is_there(self, node: ast.expr, depth: int) -> bool:
        """Whether all ranks have a value where one has it: ``x is None``."""
        if isinstance(node, ast.Attribute) and node.attr == "gpu":
            return True  # given by the launcher to all or none
        return self._has(node, depth)

    def _has(self, node: ast.expr, depth: int, *, truth: bool = False) -> bool:
        if depth > _DEPTH:
            return False
        if isinstance(node, ast.IfExp):
            return (
                self.value(node.test, depth)
                and self._has(node.body, depth + 1, truth=truth)
                and self._has(node.orelse, depth + 1, truth=truth)
            )
        if isinstance(node, ast.Call):
            home = self.module.home(node)
            if home.project_classes(node.func) or last_name(node.func)[:1].isupper():
                return True  # an object that is made
            if isinstance(node.func, ast.Attribute) and node.func.attr in ITSELF:
                return self._has(node.func.value, depth + 1, truth=truth)
            functions = home.called_functions(node)
            returns = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.Return)]
            if returns and all(self._has_returned(n, depth + 1) for n in returns):
                return True
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set)):
            return not truth
        if isinstance(node, ast.Name) and node not in self.assumed:
            found = self._definitions(node)
            plain = [d for d in found if d.kind == "assign" and d.index is None and d.value is not None]
            if found and len(plain) == len(found) and not self._set_within(node, found):
                where = all(self.reached(d, node, depth + 1) for d in plain)
                return where and all(self._has(d.value, depth + 1, truth=truth) for d in plain if d.value is not None)
        return self.value(node, depth)

    def _has_returned(self, node: ast.Return, depth: int) -> bool:
        home = self.module.home(node)
        there = isinstance(node.value, ast.Call) and self._has(node.value, depth)
        return there and all(self.step(s, depth) for s in steps(home, node))

    # -- attributes and items ----------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, depth: int) -> bool:
        home = self.module.home(node)
        if self.stored.by_rank(node.attr) or not self._unchanged(node, depth):
            return False
        if node.attr == "param_groups":
            return self._schedules(home, depth)
        owner = ast.unparse(node.value)
        if any(SETTINGS.search(part) for part in owner.split(".")) or SETTINGS.search(node.attr):
            return self._of_settings(node, depth)
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        cls = home.class_of(node) if own else None
        owners = [cls] if cls is not None else home.instances(node.value)
        found = [d for c in owners for member in home.lineage(c) for d in home.attribute_values(member, node.attr)]
        if found:
            outside = self.stored.outside(node.attr, owners)
            return all(self._stored_value(v, depth) for v in outside) and all(
                self._defined(d, node, depth) for d in found
            )
        if COUNTERS.search(node.attr):
            return all(self.value(v, depth) for v in self.stored.values(node.attr))
        if isinstance(node.value, ast.Name):
            bound = home.bindings.reaching(node.value)
            if bound and all(d.kind == "import" and not home.named(d.module) for d in bound):  # what a module holds
                named = [d for q in home.qualify(node) for d in home.named(q)]
                library = all(q.partition(".")[0] in LIBRARIES for q in home.qualify(node))
                whole = any(m.name == d.module for d in bound for m in home.fellows)
                return (
                    all(self._defined(d, node, depth) for d in named)
                    if named or whole
                    else library or node.attr == "__dict__"
                )
        return False

    def _unchanged(self, node: ast.Attribute, depth: int, *, values: bool = True) -> bool:
        """Whether what objects hold under a name is changed alike on all ranks, or not at all."""
        if node.attr in self.changing:
            return True
        self.changing.add(node.attr)
        try:
            for load in self.stored.loads(node.attr):
                home = self.module.home(load)
                outer = home.parents[load]
                told = isinstance(outer, ast.Attribute) and outer.attr in CHANGES
                put = isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load)
                if (told or put) and not self._used(home, load, depth, values):
                    return False
            return True
        finally:
            self.changing.discard(node.attr)

    def _of_settings(self, node: ast.Attribute, depth: int) -> bool:
        """Whether a setting is alike: read from what all ranks are given, with nothing else put in its place."""
        base = node.value
        while isinstance(base, (ast.Attribute, ast.Subscript)) and not SETTINGS.search(last_name(base)):
            base = base.value
        if SETTINGS.search(last_name(base)) and not self._settings(base, depth):
            return False
        if node.attr.startswith("__"):
            return True
        return all(v in self.open or self._stored_value(v, depth) for v in self.stored.settings(node.attr))

    def _stored_value(self, value: ast.expr, depth: int) -> bool:
        self.open.add(value)
        try:
            home = self.module.home(value)
            return self.value(value, depth) and all(self.step(s, depth) for s in steps(home, home.statement(value)))
        finally:
            self.open.discard(value)

    def _put_alike(self, name: str, depth: int) -> bool:
        """Whether all ranks or none put something under a name of some object."""
        values = self.stored.values(name)
        return all(self._alike_here(self.module.home(v), v, depth + 1) for v in values)

    def _settings(self, node: ast.expr, depth: int) -> bool:
        """Whether an object with a name of settings is what was read, or made of what is alike."""
        if depth > _DEPTH or goes_by_rank(self.module, node):
            return False
        for d in self._definitions(node):
            if d.node in self.open or d.kind in ("class", "function", "import", "loop"):
                continue
            if d.kind == "parameter":
                continue  # by its name, or what is stored in it shows otherwise
            if d.kind != "assign" or d.value is None or not self._reads(d.value, depth):
                return False
        return True

    def _reads(self, value: ast.expr, depth: int) -> bool:
        if isinstance(value, ast.Call):
            home = self.module.home(value)
            functions = home.called_functions(value)
            name = " ".join([last_name(value.func), *(q.rpartition(".")[2] for q in home.callee(value))])
            if functions and not home.project_classes(value.func):
                return not any(goes_by_rank(home, a) for a in arguments_of(value))
            known = last_name(value.func) in READS or bool(
                re.search(r"(?i)args|parse|config|cfg|option|namespace|dict|param|from_|create|compose|merge", name)
            )
            return known and not any(goes_by_rank(home, a) for a in arguments_of(value))
        if isinstance(value, (ast.Name, ast.Attribute)) and SETTINGS.search(last_name(value)):
            return True
        if isinstance(value, ast.Name) and depth < _DEPTH and self._definitions(value):
            return self._settings(value, depth + 1)
        return self.value(value, depth + 1)

    def _item(self, node: ast.Subscript, depth: int) -> bool:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(key, str) and self.stored.by_rank(key):
            return False
        if SETTINGS.search(last_name(node.value)) and isinstance(key, str):
            put = self.stored.items(key)
            return self._settings(node.value, depth) and all(self._stored_value(v, depth) for v in put)
        return self.value(node.value, depth) and self.value(node.slice, depth)

    def _schedules(self, home: Module, depth: int) -> bool:
        """Whether the learning rate is: what schedules it is told of alike values only."""
        told = [c for c in home.calls if last_name(c.func) == "step" and "sched" in ast.unparse(c.func).lower()]
        return all(self.value(a, depth) for c in told for a in arguments_of(c))

    # -- calls -------------------------------------------------------------------------------------------------

    def _called(self, call: ast.Call, depth: int) -> bool:
        home = self.module.home(call)
        name = last_name(call.func)
        given = arguments_of(call)
        functions = home.called_functions(call)
        if gives_all_the_same(home, call):
            return True
        if home.project_classes(call.func):
            return all(self.value(a, depth) for a in given)
        if functions:
            return all(f in self.open or self._gives(f, depth) for f in functions)
        if name == "len":
            return all(self._length(a, depth) for a in call.args)
        if name in LOOKS:
            return not any(goes_by_rank(home, a) for a in given)
        if name in READS:
            return not any(goes_by_rank(home, n) for n in call.args[:1])
        if name in OF_FILES:
            return bool(given) and all(isinstance(a, ast.Attribute) and self.value(a, depth) for a in given)
        if name in ("getenv", "get") and ast.unparse(call.func) in (
            "os.getenv",
            "os.environ.get",
            "environ.get",
            "getenv",
        ):
            keys = [str(a.value) for a in given[:1] if isinstance(a, ast.Constant)]
            return bool(keys) and not OF_ONE_PROCESS.search(keys[0]) and self._put_alike(keys[0], depth)
        if name == "get_last_lr":
            return self._schedules(home, depth)
        if name == "vars":
            return all(self.value(a, depth) for a in given)
        if name == "hasattr":
            asked = [a.value for a in given[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            return bool(asked) and not goes_by_rank(home, given[0]) and self._put_alike(asked[0], depth)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        roots = {q.partition(".")[0] for q in home.callee(call)}
        if roots and roots <= PURE:
            drawn = any(DRAWN.search(q) for q in home.callee(call))
            return not drawn and all(self.value(k, depth) for k in self._but_device(call))
        if name in PLAIN and (receiver is None or self.value(receiver, depth)):
            return all(self.value(a, depth) for a in self._but_device(call))
        return False

    def _but_device(self, call: ast.Call) -> Iterator[ast.expr]:
        """What a call is given, without the device that a value lies on."""
        if last_name(call.func) in ("to", "cuda", "cpu"):
            return
        yield from call.args
        yield from (k.value for k in call.keywords if k.arg not in ("device", "disable"))

    def _length(self, node: ast.expr, depth: int) -> bool:
        if goes_by_rank(self.module, node):
            return False
        if isinstance(node, ast.Attribute):
            return not self.stored.by_rank(node.attr) and self._unchanged(node, depth, values=False)
        return not isinstance(node, ast.Name) or all(
            self._kept(d, node, depth, values=False) for d in self._definitions(node)
        )

    def _gives(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
        """Whether a project function gives what is alike."""
        home = self.module.home(function)
        runs = what_runs(home, function)
        if depth > _DEPTH or (runs.unseen is not None and not isinstance(runs.unseen.node, ast.FunctionDef)):
            return False
        inside = [n for n in ast.walk(function) if home.function(n) is function]
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inside):
            return False
        given = [n for n in inside if isinstance(n, ast.Return) and n.value is not None]
        self.open.add(function)
        try:
            return bool(given) and all(
                n.value is not None and self.value(n.value, depth) and all(self.step(s, depth) for s in steps(home, n))
                for n in given
            )
        finally:
            self.open.discard(function)


def _members(node: ast.expr) -> list[ast.expr]:
    """What a value is looked for in: of a set its members, which have no order."""
    if isinstance(node, ast.Set):
        return node.elts
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return node.args if made and isinstance(node, ast.Call) else [node]


def _trains(module: Module, loop: ast.AST, depth: int) -> bool:
    """Whether a loop computes gradients."""
    home = module.home(loop)
    for n in ast.walk(loop):
        if isinstance(n, ast.Call):
            if last_name(n.func) in ("backward", "manual_backward", "training_step", "train_step"):
                return True
            if depth < 2 and any(_trains(home, f, depth + 1) for f in home.called_functions(n)):
                return True
    return False


__all__ = ["Alike"]
