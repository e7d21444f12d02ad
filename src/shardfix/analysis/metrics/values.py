"""Read expressions of an evaluation loop: how the value of each depends on the samples of the batch."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.changing import changed, is_list
from shardfix.analysis.metrics.growing import squeezed
from shardfix.analysis.metrics.methods import CLOCKS, function_value, method_value
from shardfix.analysis.metrics.networks import gives_rows
from shardfix.analysis.metrics.quantities import (
    BATCH,
    CONSTANT,
    COUNT,
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

_LOOPS = (ast.For, ast.AsyncFor)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DEPTH = 3  # project functions that are read inside one another
_OWN_LOSS = frozenset({"loss", "losses"})


class Values:
    """The values of expressions in one loop over a loader, or in a project function that such a loop calls.

    Args:
        inside: the nodes of the loop (of the function): what is bound elsewhere is the same for every batch.
        loop: the loop over the loader.
        examples: whether the loader gives lists of samples, not collated.
        given: what a function's parameters are.
    """

    def __init__(
        self,
        module: Module,
        inside: ast.AST,
        loop: ast.AST | None = None,
        *,
        examples: bool = False,
        given: Mapping[str, Value] | None = None,
        depth: int = 0,
    ) -> None:
        self.module = module
        self.inside = set(ast.walk(inside))
        self.loop = loop
        self.examples = examples
        self.given = given or {}
        self.depth = depth
        self._known: dict[ast.AST, Value] = {}
        self._open: set[ast.AST] = set()

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
        self._open.discard(node)
        self._known[node] = found
        return found

    def _read(self, node: ast.AST) -> Value:
        if isinstance(node, (ast.Constant, ast.Lambda)):
            return CONSTANT
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
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
            return self._comprehension(node)
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
        found = [changed(self, d, self._defined(d)) for d in definitions]
        if len(definitions) > 1:
            hidden = next((t for d in definitions if (t := self._by_batch(d.statement)) is not None), None)
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

    def _by_batch(self, statement: ast.AST) -> ast.expr | None:
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

    def _defined(self, d: Definition) -> Value:
        if d.kind == "parameter" and d.key in self.given:
            return self.given[d.key]
        if d.node not in self.inside:
            return CONSTANT
        if d.kind == "parameter":
            scope = d.scope
            default = default_of(scope, d.key) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
            return CONSTANT if default is not None else UNKNOWN
        if d.kind == "loop":
            return self._looped(d)
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

    def _grows(self, d: Definition) -> bool:
        """Whether a list begins empty, to be filled."""
        return isinstance(d.value, (ast.List, ast.Call)) and ast.unparse(d.value) in ("[]", "list()")

    def _grown(self, d: Definition) -> Value:
        """A list that a function fills: what is appended, all alike."""
        added: list[Value] = []
        for reader in self.module.bindings.readers(d):
            method = self.module.parents[reader]
            call = self.module.parents[method] if isinstance(method, ast.Attribute) else None
            if isinstance(call, ast.Call) and call.func is method and isinstance(method, ast.Attribute):
                if method.attr != "append" or len(call.args) != 1 or self.per_sample_around(call, d.statement):
                    return UNKNOWN
                added.append(self.of(call.args[0]))
        return Value("list", (either(added),)) if added else UNKNOWN

    def per_sample_around(self, node: ast.AST, until: ast.AST) -> bool:
        """Whether a loop over samples stands between a node and the block of a statement."""
        block = self.module.parents[until]
        for outer in self.module.around(node):
            if outer is block:
                return False
            if isinstance(outer, _LOOPS) and self.iterated(outer.iter).kind in ("sample", "output"):
                return True
        return False

    def _looped(self, d: Definition) -> Value:
        loop, iterable = d.statement, d.value
        if iterable is None:
            return UNKNOWN
        if loop is self.loop:
            whole = Value("examples") if self.examples else BATCH
            if is_enumerated(self.module, iterable):
                return Value("step") if d.index == 0 else whole if d.index == 1 else SAMPLES
            return whole if d.index is None else SAMPLES
        return self.part(iterable, d.index)

    def part(self, iterable: ast.expr, index: int | None) -> Value:
        """What a loop over an expression binds: its target, or the item of a position in that."""
        if isinstance(iterable, ast.Call) and not isinstance(iterable.func, ast.Attribute):
            name = last_name(iterable.func)
            if name == "enumerate" and iterable.args:
                inner = self.iterated(iterable.args[0])
                per_sample = inner.kind in ("sample", "output")
                if index == 0:
                    return Value("place") if per_sample else CONSTANT if inner.kind == "constant" else UNKNOWN
                return inner
            if name == "zip" and index is not None and 0 <= index < len(iterable.args):
                whole = self.iterated(iterable)
                return whole if whole.kind in ("sample", "unknown") else self.iterated(iterable.args[index])
            if name == "range" and self.iterated(iterable).kind == "sample" and not self._of_sample(iterable):
                return Value("place")
            if name in ("tqdm", "list", "tuple", "sorted", "reversed") and iterable.args:
                return self.part(iterable.args[0], index)
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
            if iterable.func.attr in ("items", "values", "keys") and self.of(iterable.func.value).kind == "batch":
                key = iterable.func.attr == "keys" or (iterable.func.attr == "items" and index == 0)
                return CONSTANT if key else SAMPLES
        return self.iterated(iterable)

    def iterated(self, iterable: ast.expr) -> Value:
        """One turn of a loop over an expression: ``sample`` if it takes the batch's samples one by one, ``output`` if
        it takes what a model gives one by one."""
        if isinstance(iterable, ast.Call) and not isinstance(iterable.func, ast.Attribute):
            name = last_name(iterable.func)
            if name == "zip" and iterable.args:
                parts = [self.iterated(a) for a in iterable.args]
                if any(p.kind == "sample" for p in parts) and all(p.kind in ("sample", "output") for p in parts):
                    return SAMPLE
                return either(parts)
            if name in ("enumerate", "tqdm", "list", "tuple", "reversed") and iterable.args:
                return self.iterated(iterable.args[0])
            if name == "range":
                if len(iterable.args) == 1 and self.of(iterable.args[0]).kind == "count":
                    return unknown(iterable) if self._again(iterable) else Value("sample")
                return self.together(iterable.args)
        value = self.of(iterable)
        if value.kind in ("samples", "examples", "output") and self._again(iterable):
            return unknown(iterable)
        flat = squeezed(self.module, iterable, self.inside) if value.kind in ("samples", "output") else None
        if flat is not None:
            return unknown(flat)
        if value.kind in ("samples", "examples"):
            return SAMPLE
        if value.kind in ("list", "items"):
            return either(list(value.items))
        if value.kind in ("output", "constant", "sample"):
            return value
        return unknown(iterable)

    def _of_sample(self, counted: ast.Call) -> bool:
        """Whether a range is one of a single sample."""
        return all(self.of(a).kind in ("sample", "constant") for a in counted.args)

    def _again(self, iterable: ast.expr) -> bool:
        """Whether the batch is gone over for each of its samples, so that these are compared with one another."""
        previous: ast.AST = iterable
        for outer in self.module.around(iterable):
            if outer is self.loop or outer not in self.inside:
                return False
            heads: list[ast.expr] = []
            if isinstance(outer, _LOOPS) and previous is not outer.iter:
                heads = [outer.iter]
            elif isinstance(outer, _COMPREHENSIONS):
                own = [g.iter for g in outer.generators]
                place = next((i for i, g in enumerate(outer.generators) if g is previous), len(own))
                heads = own[:place]
            if any(self.iterated(h).kind in ("sample", "output", "unknown") for h in heads):
                return True
            previous = outer
        return False

    # -- parts -----------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Value:
        definitions = [d for d in self.module.bindings.reaching(node) if d.node in self.inside]
        if definitions:
            return either([self._defined(d) for d in definitions])
        base = self.of(node.value)
        if base.kind == "batch":
            return SAMPLES
        if base.kind == "output":
            return unknown(node) if node.attr in _OWN_LOSS else OUTPUT
        if base.kind == "list" and node.attr in ("values", "indices"):
            return base.item()
        if base.kind in ("samples", "transposed") and node.attr in ("T", "mT"):
            return Value("transposed")
        if node.attr in ("data", "real"):
            return base
        return base if base.kind in ("constant", "sample", "unknown", "time") else unknown(node)

    def _subscript(self, node: ast.Subscript) -> Value:
        shaped = self._shape(node)
        if shaped is not None:
            return shaped
        base, index = self.of(node.value), node.slice
        number = index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else None
        if base.kind == "batch":
            return BATCH if isinstance(index, ast.Slice) else SAMPLES
        if base.kind in ("items", "list"):
            return base.item(number) if not isinstance(index, ast.Slice) else UNKNOWN
        place = self.of(index) if not isinstance(index, (ast.Slice, ast.Tuple)) else CONSTANT
        if base.kind in ("samples", "output", "examples") and (place.kind == "place" or place.kind == "sample"):
            hidden = squeezed(self.module, node.value, self.inside)  # of one sample it leaves nothing to count through
            return SAMPLE if self._is_place(index) and hidden is None else unknown(hidden or node)
        if base.kind == "output":
            named = isinstance(index, ast.Constant) and index.value in _OWN_LOSS
            columns = isinstance(index, ast.Tuple) and len(index.elts) > 1 and isinstance(index.elts[0], ast.Slice)
            if columns and isinstance(index, ast.Tuple) and _is_all(index.elts[0]):
                return SAMPLES if all(self._fixed(e) for e in index.elts[1:]) else unknown(node)
            return self._taken_from(node) if not named else unknown(node)
        if base.kind == "samples":
            if isinstance(index, ast.Tuple) and index.elts and _is_all(index.elts[0]):
                return SAMPLES if all(self._fixed(e) for e in index.elts[1:]) else unknown(node)
            return Value("elements") if place.kind == "samples" else unknown(node)
        if base.kind == "transposed":
            return base if isinstance(index, ast.Slice) else SAMPLES if number is not None else unknown(node)
        if base.kind == "elements":
            return base if place.kind in ("samples", "elements") else unknown(node)
        if base.kind in TOTALS | {"mean"}:
            return Value("sum") if base.kind == "count" else base
        if base.kind == "constant":
            return place if place.kind in ("constant", "sample", "samples") else unknown(node)
        return base if base.kind in ("sample", "unknown") else unknown(node)

    def _fixed(self, index: ast.expr) -> bool:
        """Whether an index is the same for all batches."""
        return isinstance(index, ast.Slice) or self.of(index).kind == "constant"

    def _taken_from(self, node: ast.Subscript) -> Value:
        """Part of what a model gives: one of its outputs by name or number, or rows that a mask chooses."""
        index = node.slice
        if isinstance(index, (ast.Slice, ast.Tuple)):
            apart = isinstance(index, ast.Tuple) and _is_all(index.elts[0]) and all(map(self._fixed, index.elts[1:]))
            return OUTPUT if apart else unknown(node)
        kind = self.of(index).kind
        return OUTPUT if kind == "constant" else Value("elements") if kind == "samples" else unknown(node)

    def _is_place(self, index: ast.expr) -> bool:
        """Whether an index is the number that a loop over the samples counts."""
        if not isinstance(index, ast.Name):
            return False
        return all(
            d.kind == "loop" and self._looped(d).kind in ("place", "sample")
            for d in self.module.bindings.reaching(index)
        )

    def _shape(self, node: ast.Subscript) -> Value | None:
        """``x.shape[0]``, ``x.size()[0]``."""
        of: ast.expr | None = None
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            of = node.value.value
        elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            of = node.value.func.value if node.value.func.attr == "size" and not node.value.args else None
        if of is None:
            return None
        first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        kind = self.of(of).kind
        if kind == "samples":
            return COUNT if first else unknown(node)
        return Value(kind) if kind in ("constant", "sample") else unknown(node)

    def _compared(self, node: ast.Compare) -> Value:
        if len(node.comparators) != 1:
            return self.together([node.left, *node.comparators])
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return self.together([node.left, node.comparators[0]])
        left, right = self.of(node.left), self.of(node.comparators[0])
        found = paired(left, right)
        if found.kind == "output":
            return Value("samples", whole=True)
        return replace(found, whole=True) if found.kind in ROWS else found

    def _chosen(self, node: ast.IfExp) -> Value:
        test = self.of(node.test).kind
        if test == "constant":
            return either([self.of(node.body), self.of(node.orelse)])
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

    def _comprehension(self, node: ast.AST) -> Value:
        generators: list[ast.comprehension] = getattr(node, "generators", [])
        generator = generators[0]
        turn = self.iterated(generator.iter)
        if isinstance(node, ast.DictComp):
            if self._moves(generator, node.value):
                return BATCH
            return self.together(
                [node.key, node.value, *(g.iter for g in generators), *(i for g in generators for i in g.ifs)]
            )
        if isinstance(node, ast.SetComp):
            return self.together([node.elt, *(g.iter for g in generators), *(i for g in generators for i in g.ifs)])
        element: ast.expr = getattr(node, "elt", generator.iter)
        over = self.of(generator.iter).kind
        if over == "batch" and len(generators) == 1:
            return BATCH if self._moves(generator, element) else unknown(node)
        if turn.kind == "sample" and over != "sample":
            value = self.of(element)
            chosen = [self.of(i).kind for g in generators for i in g.ifs]
            turns = [self.iterated(g.iter).kind for g in generators]
            if not {*chosen, *turns} <= {"sample", "constant"}:
                return unknown(node)
            if len(generators) > 1 or generator.ifs:
                return Value("elements") if value.kind in ("sample", "constant") else unknown(node)
            return SAMPLES if value.kind in ("sample", "constant") else unknown(node)
        if turn.kind == "output" and len(generators) == 1 and not generator.ifs:
            return OUTPUT
        value = self.of(element)
        if turn.kind in ("constant", "sample") and value.kind in ("constant", "sample", "time"):
            return self.together([element, *(g.iter for g in generators)])
        if turn.kind == "constant":
            return Value("list", (value,))
        return Value("list", (value,)) if over in ("list", "items") else unknown(node)

    def _moves(self, generator: ast.comprehension, element: ast.expr) -> bool:
        """``(t.to(device) for t in batch)``, ``{k: v.cuda() for k, v in batch.items()}``: the batch, elsewhere."""
        names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
        over = generator.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "items":
            over = over.func.value
        while isinstance(element, ast.IfExp):
            element = element.body
        while isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute):
            if element.func.attr not in ("to", "cuda", "cpu", "long", "float", "detach"):
                return False
            element = element.func.value
        return isinstance(element, ast.Name) and element.id in names and self.of(over).kind == "batch"

    # -- calls -----------------------------------------------------------------------------------------------

    def call(self, call: ast.Call) -> Value:
        """What a call gives: of torch, numpy and Python by what they do; of a project function by reading it."""
        names = self.module.callee(call)
        if names & CLOCKS:
            return Value("time")
        found = function_value(self, call, names)
        if found is None and isinstance(call.func, ast.Attribute):
            found = method_value(self, call, call.func)
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

    def _returned(self, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """What a function returns for these arguments."""
        if self.depth >= _DEPTH or isinstance(function, ast.AsyncFunctionDef):
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
        if self._closes_over(home, function) or any(
            inner._by_batch(r) is not None for r in returns if len(returns) > 1
        ):
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
        return function in self.inside or any(
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
            return OUTPUT
        return unknown(call)


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


def _is_all(index: ast.expr) -> bool:
    """``:`` or ``...`` in a subscript."""
    if isinstance(index, ast.Slice):
        return not any(ast.iter_child_nodes(index))
    return isinstance(index, ast.Constant) and index.value is Ellipsis


__all__ = ["Values"]
