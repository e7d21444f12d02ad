"""Read expressions of an evaluation loop: how the value of each depends on the samples of the batch."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.metrics.changing import changed_in_place, is_list
from shardfix.analysis.metrics.each_step import averaged_value
from shardfix.analysis.metrics.losses import loss_of
from shardfix.analysis.metrics.methods import CLOCKS, function_value, method_value
from shardfix.analysis.metrics.networks import along_the_last, gives_rows
from shardfix.analysis.metrics.parts import attribute_of, item_of
from shardfix.analysis.metrics.quantities import (
    BATCH,
    CONSTANT,
    OUTPUT,
    ROWS,
    SAMPLE,
    SAMPLES,
    TOTALS,
    UNKNOWN,
    Value,
    either,
    operated,
    paired,
    unknown,
)
from shardfix.analysis.metrics.turns import bound, comprehended, goes_through_batch, iterated
from shardfix.analysis.state.forwards import mixes

_LOOPS = (ast.For, ast.AsyncFor)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DEPTH = 3  # project functions that are read inside one another
# Decorators after which a function gives what it gives.
_DECORATORS = frozenset(
    {"no_grad", "inference_mode", "staticmethod", "classmethod", "property", "script", "autocast", "enable_grad"}
    | {"set_grad_enabled", "compile", "jit", "lru_cache", "cache", "override", "typechecked", "unused", "ignore"}
)


class Values:
    """The values of expressions in one loop over a loader, or in a project function that such a loop calls.

    Args:
        inside: the nodes of the loop (of the function): what is bound elsewhere is the same for every batch.
        loop: the loop over the loader.
        examples: whether the loader gives lists of samples, not collated.
        single: whether each batch is of one sample, so that whatever is made of a batch is made of a sample.
        given: what a function's parameters are.
        hidden: the definitions whose rows something changes in place, with what does; looked for where it is None.
    """

    def __init__(
        self,
        module: Module,
        inside: ast.AST,
        loop: ast.AST | None = None,
        *,
        examples: bool = False,
        single: bool = False,
        given: Mapping[str, Value] | None = None,
        depth: int = 0,
        hidden: Mapping[ast.AST, ast.AST] | None = None,
    ) -> None:
        self.module = module
        self.inside = set(ast.walk(inside))
        self._within, self._hidden = inside, hidden
        self.loop = loop
        self.examples = examples
        self.single = single
        self.given = given or {}
        self.depth = depth
        self._known: dict[ast.AST, Value] = {}
        self._open: set[ast.AST] = set()

    def again(self, hidden: Mapping[ast.AST, ast.AST]) -> Values:
        """The same values, were these definitions changed in place and no others."""
        return Values(
            self.module,
            self._within,
            self.loop,
            examples=self.examples,
            single=self.single,
            given=self.given,
            depth=self.depth,
            hidden=dict(hidden),
        )

    @property
    def hidden(self) -> Mapping[ast.AST, ast.AST]:
        """The definitions whose rows something changes in place, with what does."""
        if self._hidden is None:
            self._hidden = changed_in_place(self)
        return self._hidden

    def of(self, node: ast.AST) -> Value:
        """How an expression depends on the batch."""
        if node in self._known:
            return self._known[node]
        if node in self._open:
            return UNKNOWN
        self._open.add(node)
        found = self._read(node)
        if found.kind == "unknown" and found.what is None:
            found = unknown(node)
        if self.single and (found.kind in ("mean", "sum", "count") or self._loses_one(node)):
            found = SAMPLE  # of a batch that holds one
        self._open.discard(node)
        self._known[node] = found
        return found

    def _loses_one(self, node: ast.AST) -> bool:
        """Whether a call is one of a loss of torch of nothing but one sample."""
        if not isinstance(node, ast.Call) or {self.of(a).kind for a in arguments_of(node)} - {"constant"} != {"sample"}:
            return False
        return loss_of(self.module, node) is not None

    def _read(self, node: ast.AST) -> Value:
        if isinstance(node, (ast.Constant, ast.Lambda)):
            return CONSTANT
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return attribute_of(self, node)
        if isinstance(node, ast.Subscript):
            return item_of(self, node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.BinOp):
            return self._operated(node)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.UnaryOp):
            return self._turned(node)
        if isinstance(node, ast.BoolOp):
            return self.together(node.values)
        if isinstance(node, ast.IfExp):
            return self._chosen(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._display(node)
        if isinstance(node, _COMPREHENSIONS):
            return comprehended(self, node)
        if isinstance(node, ast.Dict):
            return self._dict(node)
        if isinstance(node, (ast.JoinedStr, ast.Set)):
            return self.together([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)])
        if isinstance(node, (ast.FormattedValue, ast.NamedExpr, ast.Starred)):
            return self.of(node.value)
        return CONSTANT if isinstance(node, ast.Slice) and not any(ast.iter_child_nodes(node)) else UNKNOWN

    def _operated(self, node: ast.BinOp) -> Value:
        found = operated(node.op, self.of(node.left), self.of(node.right))
        if found.kind in ROWS - {"sample"} and (is_list(self, node.left) or is_list(self, node.right)):
            return unknown(node)  # `+` puts lists behind one another, `*` repeats one
        return found

    def _turned(self, node: ast.UnaryOp) -> Value:
        """A value with its sign turned; what `not` makes of a total is none."""
        value = self.of(node.operand)
        if value.kind in TOTALS | {"mean", "part"}:
            signs = isinstance(node.op, (ast.USub, ast.UAdd))
            return unknown(node) if not signs else replace(value, kind="sum") if value.kind == "count" else value
        if isinstance(node.op, ast.Not) and value.kind in ROWS - {"sample"}:
            return unknown(node)
        return value

    def together(self, nodes: Sequence[ast.expr]) -> Value:
        """What a function of these values alone gives, which knows no other sample than theirs."""
        kinds = {self.of(n).kind for n in nodes} - {"constant"}
        if not kinds:
            return CONSTANT
        if kinds == {"sample"}:
            return SAMPLE
        if kinds == {"time"}:
            return Value("time")
        return next((v for n in nodes if (v := self.of(n)).kind == "unknown"), UNKNOWN)

    # -- names -----------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Value:
        definitions = self.module.bindings.reaching(node)
        if not definitions:
            return CONSTANT
        found = [self.defined(d) for d in definitions]
        if len(definitions) > 1:
            hidden = next((t for d in definitions if (t := self.by_batch(d.statement)) is not None), None)
            if hidden is not None:
                return unknown(hidden)
        if len(found) > 1 and any(v.kind != "constant" for v in found):
            # `x = None` before the loop, or `if x is None: x = default`: the other value is what counts.
            found = [
                v
                for d, v in zip(definitions, found, strict=True)
                if not (isinstance(d.value, ast.Constant) and d.value.value is None)
            ] or found
        return either(list(found))

    def by_batch(self, statement: ast.AST) -> ast.expr | None:
        """The condition by which a statement runs only for some batches, as their samples are; None where there is
        none."""
        if statement not in self.inside:
            return None
        for outer in self.module.around(statement):
            if outer is self.loop or outer not in self.inside:
                return None
            if isinstance(outer, (ast.If, ast.While)) and not _of_kind(outer.test):
                if self.of(outer.test).kind not in ("constant", "sample"):
                    return outer.test
        return None

    def iterated(self, iterable: ast.expr) -> Value:
        """One turn of a loop over an expression."""
        return iterated(self, iterable)

    def defined(self, d: Definition) -> Value:
        """What a definition gives."""
        if d.node in self.inside and d.node in self.hidden:
            return unknown(self.hidden[d.node])
        if d.kind == "parameter" and d.key in self.given:
            return self.given[d.key]
        if d.node not in self.inside:
            return CONSTANT
        if d.kind == "parameter":
            scope = d.scope
            default = default_of(scope, d.key) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
            return CONSTANT if default is not None else UNKNOWN
        if d.kind == "loop":
            return bound(self, d)
        if d.kind == "assign" and d.value is not None:
            found = self._taken(d.value, d.index) if not self._grows(d) else self._grown(d)
            # What a model or an unseen criterion gives as a loss may be a mean already.
            return unknown(d.value) if found.kind == "output" and "loss" in d.key.lower() else found
        return CONSTANT if d.kind in ("import", "function", "class") else UNKNOWN

    def _taken(self, value: ast.expr, index: int | None) -> Value:
        whole = self.of(value)
        if index is None:
            return whole
        if whole.kind == "batch":
            return SAMPLES
        if whole.kind in ("samples", "elements", "transposed", "sum", "count", "mean"):
            return unknown(value)
        if whole.kind == "output":
            return OUTPUT
        return whole.item(index if index >= 0 else None)

    def fills(self, node: ast.expr) -> bool:
        """Whether a list begins empty in the loop, and is filled there."""
        made = self.module.bindings.reaching(node) if isinstance(node, ast.Name) else ()
        return bool(made) and all(d.node in self.inside and self._grows(d) for d in made)

    def _grows(self, d: Definition) -> bool:
        """Whether a list begins empty, to be filled."""
        return isinstance(d.value, (ast.List, ast.Call)) and ast.unparse(d.value) in ("[]", "list()")

    def _grown(self, d: Definition) -> Value:
        """A list that a function fills: what is appended, all alike."""
        added: list[Value] = []
        each: list[bool] = []
        for reader in self.module.bindings.readers(d):
            method = self.module.parents[reader]
            call = self.module.parents[method] if isinstance(method, ast.Attribute) else None
            if isinstance(call, ast.Call) and call.func is method and isinstance(method, ast.Attribute):
                if method.attr != "append" or len(call.args) != 1:
                    return UNKNOWN
                through = self.per_sample_around(call, d.statement)
                if through and not self._once_for_each(call, d.statement):
                    return UNKNOWN
                each.append(through)
                added.append(self.of(call.args[0]))
        if any(each):
            one = len(each) == 1 and added[0].kind in ("sample", "constant")
            return SAMPLES if one else UNKNOWN
        return Value("list", (either(added),)) if added else UNKNOWN

    def _once_for_each(self, call: ast.Call, begun: ast.AST) -> bool:
        """Whether a list gets just one item in each turn of a loop over the batch's samples."""
        statement = self.module.statement(call)
        loop = self.module.parents.get(statement)
        if not isinstance(loop, ast.For) or statement not in loop.body or loop.orelse:
            return False
        if self.module.parents.get(loop) is not self.module.parents.get(begun):
            return False
        left = (ast.Break, ast.Continue, ast.Return)
        if iterated(self, loop.iter).kind != "sample" or any(isinstance(n, left) for n in ast.walk(loop)):
            return False
        return not self._goes_on(loop)

    def _goes_on(self, loop: ast.For) -> bool:
        """Whether a turn of a loop reads what the turn before has left under a name."""
        turn = set(ast.walk(loop))
        for d in self.module.bindings.definitions:
            if d.node not in turn or d.kind not in ("assign", "augmented"):
                continue
            here = (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))
            target = d.node if isinstance(d.node, ast.expr) else None
            if d.kind == "augmented" and target is not None:
                if any(b.node not in turn for b in self.module.bindings.reaching(target)):
                    return True
            if any(r in turn and (r.lineno, r.col_offset) <= here for r in self.module.bindings.readers(d)):
                return True
        return False

    def per_sample_around(self, node: ast.AST, until: ast.AST) -> bool:
        """Whether a loop over samples stands between a node and the block of a statement."""
        block = self.module.parents[until]
        for outer in self.module.around(node):
            if outer is block:
                return False
            if isinstance(outer, _LOOPS) and goes_through_batch(self, outer.iter):
                return True
        return False

    # -- operations ------------------------------------------------------------------------------------------

    def _compared(self, node: ast.Compare) -> Value:
        if len(node.comparators) != 1:
            return self.together([node.left, *node.comparators])
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return self.together([node.left, node.comparators[0]])
        left, right = self.of(node.left), self.of(node.comparators[0])
        found = paired(left, right)
        if found.kind == "output":
            return Value("samples", whole=True, deep=found.deep)
        return replace(found, whole=True) if found.kind in ROWS else found

    def _chosen(self, node: ast.IfExp) -> Value:
        test = self.of(node.test).kind
        if test == "constant":
            # `x if has_types else None`: where it is None there are no rows, of any batch
            found = [n for n in (node.body, node.orelse) if not (isinstance(n, ast.Constant) and n.value is None)]
            return either([self.of(n) for n in found]) if found else CONSTANT
        return self.together([node.test, node.body, node.orelse]) if test == "sample" else unknown(node)

    def _display(self, node: ast.Tuple | ast.List) -> Value:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return UNKNOWN
        values = tuple(self.of(e) for e in node.elts)
        if values and all(v.kind in ("sample", "constant") for v in values) and any(v.kind == "sample" for v in values):
            return SAMPLE
        return Value("items", values) if any(v.kind != "constant" for v in values) else CONSTANT

    def _dict(self, node: ast.Dict) -> Value:
        """What is written for a model: a batch again, if its values are rows of one."""
        kinds = {self.of(v).kind for v in node.values}
        return BATCH if "samples" in kinds and kinds <= {"samples", "constant"} else self.together(node.values)

    # -- calls -----------------------------------------------------------------------------------------------

    def call(self, call: ast.Call) -> Value:
        """What a call gives: of torch, numpy and Python by what they do; of a project function by reading it."""
        names = self.module.callee(call)
        if names & CLOCKS:
            return Value("time")
        found = function_value(self, call, names)
        if found is None and isinstance(call.func, ast.Attribute):
            found = method_value(self, call, call.func)
        own = averaged_value(self.module, call) if found is None and is_reduction(self.module, call) else None
        if own is not None:
            return self.of(own)  # its mean over the ranks is one of means, or of parts of a sum
        if found is None:
            found = self._written_out(call)
        if found is None:
            found = self._project(call)
        return found if found is not None else self._opaque(call)

    def _project(self, call: ast.Call) -> Value | None:
        """What the project functions that a call may run give back; None for a model's, and where there is none."""
        functions = self.module.called_functions(call)
        if not functions or any(f.name in ("__init__", "forward", "__call__") for f in functions):
            return None
        given = {self.of(a.value if isinstance(a, ast.Starred) else a).kind for a in arguments_of(call)}
        if given <= {"constant", "time", "step"} or given <= {"constant", "sample", "place"}:
            return None  # of one sample, or of none, it knows no other
        return either([self._returned(call, f) for f in functions])

    def _written_out(self, call: ast.Call) -> Value | None:
        """What a lambda with a name gives; None for what is called by no such name, or knows one sample only."""
        made = list(self.module.bindings.reaching(call.func)) if isinstance(call.func, ast.Name) else []
        if len(made) != 1 or made[0].kind != "assign" or made[0].index is not None or self.depth >= _DEPTH:
            return None
        function, given = made[0].value, [self.of(a) for a in call.args]
        if not isinstance(function, ast.Lambda) or {v.kind for v in given} <= {
            "constant",
            "sample",
            "time",
            "step",
            "place",
        }:
            return None
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if call.keywords or len(names) != len(given) or self._closes_over(self.module, function):
            return unknown(call)
        inner = Values(self.module, function, given=dict(zip(names, given, strict=True)), depth=self.depth + 1)
        return inner.of(function.body)

    def _returned(self, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """What a function returns for these arguments."""
        if self.depth >= _DEPTH or isinstance(function, ast.AsyncFunctionDef) or _is_wrapped(function):
            return unknown(call)
        given: dict[str, Value] = {}
        for argument in arguments_of(call):
            parameter = self.module.parameter_of(function, call, argument)
            if parameter is None:
                return unknown(call)
            given[parameter.arg] = self.of(argument)
        home = self.module.home(function)
        inner = Values(home, function, given=given, depth=self.depth + 1)
        returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and home.function(n) is function]
        if self._closes_over(home, function) or any(inner.by_batch(r) is not None for r in returns if len(returns) > 1):
            return unknown(call)
        values = [inner.of(r.value) for r in returns if r.value is not None]
        if not values or len(values) != len(returns):
            return unknown(call)
        found = either(values)
        return unknown(call) if found.kind == "unknown" else found

    def _closes_over(self, home: Module, function: ast.AST) -> bool:
        """Whether a function reads names that the loop binds."""
        own = set(ast.walk(function))
        loads = (n for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        here = function in self.inside and any(isinstance(n, (ast.Nonlocal, ast.Global)) for n in own)
        return here or any(
            d.node in self.inside and d.node not in own for n in loads for d in home.bindings.reaching(n)
        )

    def _opaque(self, call: ast.Call) -> Value:
        """A function that is not looked into: a model makes rows of rows, any makes of one sample what is one's."""
        values = [self.of(a.value if isinstance(a, ast.Starred) else a) for a in arguments_of(call)]
        if isinstance(call.func, ast.Attribute):
            values.append(self.of(call.func.value))
        kinds = {i.kind for v in values for i in (v.items or (v,))} - {"constant"}
        if any(k.arg == "num_return_sequences" for k in call.keywords):
            return unknown(call)  # transformers: generate() gives several rows for a sample
        if not kinds:
            return CONSTANT
        made = self.module.bindings.reaching(call.func) if isinstance(call.func, ast.Name) else ()
        lambdas = [d.value for d in made if isinstance(d.value, ast.Lambda)]
        if any(self._closes_over(self.module, v) for v in lambdas):
            return unknown(call)
        if kinds == {"sample"}:
            return SAMPLE
        if kinds <= {"samples", "output", "batch", "examples", "elements"} and gives_rows(self.module, call):
            flat = any(v.kind in ("samples", "output") and not v.deep for v in values)
            flat = flat and along_the_last(self.module, call)
            return unknown(call) if flat or mixes(self.module, call) else OUTPUT
        return unknown(call)


def _is_wrapped(function: ast.FunctionDef) -> bool:
    """Whether a decorator that is not known may make something else of what a function gives."""
    names = (last_name(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list)
    return any(name not in _DECORATORS for name in names)


def _of_kind(test: ast.expr) -> bool:
    """Whether a condition asks what kind of value there is, which is the same for all batches."""
    if isinstance(test, ast.UnaryOp):
        return _of_kind(test.operand)
    if isinstance(test, ast.BoolOp):
        return all(_of_kind(v) for v in test.values)
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "hasattr", "callable", "is_tensor")
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    if isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return True
    left = ast.unparse(test.left)
    return left.endswith((".dim()", ".ndim")) or (left.startswith("len(") and left.endswith(".shape)"))


__all__ = ["Values"]
