"""What an evaluation makes of gathered values behind its loop, as statements that can be run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.evaluation import find_reduction, is_reduction
from shardfix.analysis.metrics.meters import Meter
from shardfix.analysis.programs.processes import is_main_test, is_not_main_test
from shardfix.proof.metrics.literal import Literal
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name, value_of
from shardfix.proof.recipes.slice import assign
from shardfix.proof.stop import Stop

_COLLECTIVE = ("reduced", "in_order")
_BUILTINS = frozenset(
    {
        *("len", "sum", "max", "min", "round", "int", "float", "abs", "bool", "range", "sorted", "enumerate"),
        *("list", "tuple", "zip", "set", "dict"),
    }
)
# Functions of the libraries that make one value of others, by their names there.
_NUMPY = frozenset(
    {
        *("mean", "sum", "median", "std", "nanmean", "sqrt", "exp", "argmax", "maximum", "minimum", "around", "diag"),
        *("array", "asarray", "concatenate", "vstack", "hstack", "stack", "squeeze", "zeros", "zeros_like"),
    }
)
_TORCH = frozenset(
    {
        *("cat", "stack", "vstack", "hstack", "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor"),
        *("LongTensor", "mean", "sum", "sqrt", "exp", "argmax", "diag", "zeros", "zeros_like"),
    }
)
_MATH = frozenset({"exp", "sqrt", "log", "isnan", "floor", "ceil"})
_METHODS = frozenset(
    {
        *("item", "numpy", "tolist", "detach", "clone", "copy", "float", "double", "long", "int", "astype", "round"),
        *("mean", "sum", "std", "max", "min", "argmax", "sqrt", "exp", "div", "div_", "mul", "clamp", "diag", "t"),
        *("squeeze", "flatten", "reshape", "view", "size", "append", "extend", "get", "keys", "values", "items"),
        *("update", "count"),
    }
)
_ALONG = frozenset(
    {
        *("argmax", "argmin", "max", "min", "mean", "sum", "std", "softmax", "squeeze", "unsqueeze", "topk"),
        *("reshape", "view", "flatten", "stack", "cat", "concatenate", "size"),
    }
)
_MOVES = frozenset({"to", "cuda", "cpu", "type", "contiguous"})
_ATTRIBUTES = frozenset({"dataset", "T", "shape", "avg", "sum", "count", "val", "average", "global_avg", "batch_size"})
_KEPT_KEYWORDS = frozenset({"axis", "dim", "key", "min", "max", "ndigits", "keepdim"})
_CHANGES = frozenset({"append", "extend", "add", "update", "insert", "pop", "sort", "remove", "setdefault", "reverse"})
_CONTAINERS = frozenset({"list", "dict", "set", "deque", "Counter", "defaultdict"})
_BATCHES = re.compile(r"loader|iter|batches")  # names of what has as many items as there are batches
_DEPTH = 8
_LONGEST = 80
_UNKNOWN = 3  # a number for what the evaluation does not decide: settings, other objects


@dataclass
class Afterwards:
    """Translates what stands before and behind a loop.

    Args:
        loaders: how the loader is written; ``dataset``: how its dataset is.
        stand_ins: the expressions that were replaced, and by what; added to.

    Attributes:
        tracked: the variables of what follows from the batches, by how they are written.
        weighted: what of that goes by the number of batches, or by means over them.
        kept: the texts of the values that are kept.
        literal: what translates functions of the project, where the rows are real ones.
        assumed: what the values hold only by, in words; added to.
        told_of: the objects that are told of batches in the loop, or called with them, as they are written.
    """

    module: Module
    loaders: Sequence[str]
    dataset: str
    stand_ins: dict[str, str]
    tracked: dict[str, str] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    weighted: set[str] = field(default_factory=set)
    kept: list[tuple[str, bool]] = field(default_factory=list)
    unchanged: set[str] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    literal: Literal | None = None
    assumed: list[str] = field(default_factory=list)
    told_of: set[str] = field(default_factory=set)

    def track(self, text: str) -> str:
        """The variable for a name or attribute of the program."""
        if text not in self.tracked:
            base = "v_" + "".join(c if c.isalnum() else "_" for c in text)
            while base in self.tracked.values():
                base += "_"
            self.tracked[text] = base
        return self.tracked[text]

    def keep(self, text: str, value: ast.expr, weighted: bool) -> list[ast.stmt]:
        """Keep a value to be compared, once for what it is."""
        if text in self.unchanged:
            return []
        self.unchanged.add(text)
        number = len(self.kept)
        self.kept.append((text, weighted))
        key = ast.Subscript(name("VALUES"), ast.Constant(f"#{number}"), ast.Store())
        return [ast.Assign([key], value, lineno=0)]

    def follows(self, node: ast.AST) -> bool:
        """Whether something of an expression follows from the batches, or from how many there are."""
        return any(
            isinstance(n, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
            and (ast.unparse(n) in self.tracked or ast.unparse(n) in self.loaders or ast.unparse(n) in self.local)
            for n in ast.walk(node)
        ) or any(isinstance(n, ast.Call) and last_name(n.func) in _COLLECTIVE for n in ast.walk(node))

    def drifts(self, node: ast.AST) -> bool:
        """Whether an expression goes by the number of batches, or by means over them."""
        for n in ast.walk(node):
            if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and ast.unparse(n) in self.weighted:
                return True
            if _is_length(n) and ast.unparse(n.args[0]) in self.loaders:  # type: ignore[attr-defined]
                return True
        return False

    # -- statements ------------------------------------------------------------------------------------------

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        """A statement behind the loop: what it makes of what was gathered, and what of it is shown.

        Raises:
            Stop: it puts the ranks' parts together in a way that is not followed.
        """
        for node in ast.walk(s):
            if isinstance(node, ast.Call) and self._reduces(node) and not self._is_all_reduce(node):
                raise self.stop(f"the program's own `{text_of(node.func)}` is not followed", node)
        before = dict(self.tracked), list(self.kept), set(self.unchanged), set(self.weighted)
        try:
            return self._followed(s)
        except Stop:
            if any(isinstance(n, ast.Call) and last_name(n.func) in _COLLECTIVE for n in ast.walk(s)):
                raise
            self.tracked, self.kept, self.unchanged, self.weighted = before
            return self._as_one(s)

    def _reduces(self, node: ast.Call) -> bool:
        """Whether a call, not one of those that were added, combines values across ranks."""
        if last_name(node.func) in _COLLECTIVE or ast.unparse(node) in self.tracked:
            return False
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in self.meters:
            return False  # its method is known
        if isinstance(node.func, ast.Attribute) and self.follows(node.func.value) and self._may_reduce(node.func.attr):
            return True
        inner = self.module.called_function(node)
        return is_reduction(self.module, node) or (
            inner is not None and find_reduction(self.module.home(inner), inner) is not None
        )

    def _may_reduce(self, method: str) -> bool:
        """Whether a class of the project has a method of this name that combines values across ranks."""
        return method not in _METHODS and any(
            f.name == method and m.class_of(f) is not None and find_reduction(m, f) is not None
            for m in self.module.fellows
            for f in m.functions
        )

    def _is_all_reduce(self, node: ast.Call) -> bool:
        """``dist.all_reduce(counts)``, a sum over the ranks in place."""
        plain = "torch.distributed.all_reduce" in self.module.callee(node) and len(node.args) == 1
        return plain and all(k.arg == "op" and last_name(k.value).upper() == "SUM" for k in node.keywords)

    def _as_one(self, s: ast.stmt) -> list[ast.stmt]:
        """A statement that is not run: what it reads of the gathered values decides all that it writes."""
        if not self.follows(s):
            return []
        nodes = list(ast.walk(s))
        targets = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
        written = {_root(n) for n in targets if isinstance(n.ctx, ast.Store)}
        written |= {
            _root(n.func.value)
            for n in nodes
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _CHANGES
        }
        made_of = self._made_of(s)
        drifts = self.drifts(s)
        made: list[ast.stmt] = []
        for text in sorted(w for w in written if w and w not in self.meters):
            made.append(assign(self.track(text), made_of))
            (self.weighted.add if drifts else self.weighted.discard)(text)
        return made

    def _made_of(self, node: ast.AST) -> ast.Call:
        """What is not run, as a function of the gathered values in it."""
        parts: dict[str, ast.expr] = {}
        stack: list[ast.AST] = [node]
        while stack:
            n = stack.pop()
            text = ast.unparse(n) if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) else ""
            if text in self.tracked:
                parts[text] = name(self.tracked[text])
            elif text and text in self.local:
                parts[text] = name(text)
            elif _is_length(n) and ast.unparse(n.args[0]) in self.loaders:  # type: ignore[attr-defined]
                parts[ast.unparse(n)] = call(name("len"), name("loader"))
            else:
                stack.extend(ast.iter_child_nodes(n))
        words = " ".join(ast.unparse(node).split())
        words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
        self.stand_ins[words] = "what it is given decides what it gives"
        return call(name("CALL"), ast.Constant(words), *(parts[text] for text in sorted(parts)))

    def _followed(self, s: ast.stmt) -> list[ast.stmt]:
        if isinstance(s, ast.Return):
            return self._shown([s.value]) if s.value is not None else []
        if isinstance(s, (ast.Assign, ast.AnnAssign)) and s.value is not None:
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            self._changed(targets)
            return self._assigned(targets, s.value)
        if isinstance(s, ast.AugAssign):
            self._changed([s.target])
            if ast.unparse(s.target) in self.tracked and not isinstance(s.target, ast.Subscript):
                target = ast.Name(self.tracked[ast.unparse(s.target)], ast.Store())
                if self.drifts(s.value):
                    self.weighted.add(ast.unparse(s.target))
                return [ast.AugAssign(target, s.op, self.value(s.value))]
            return self._shown([s.value])
        if isinstance(s, ast.Expr):
            return self._called(s.value)
        if isinstance(s, ast.If):
            return self._branched(s)
        if isinstance(s, (ast.With, ast.AsyncWith)):
            return [made for inner in s.body for made in self.statement(inner)]
        if isinstance(s, (ast.For, ast.While, ast.Try)):
            raise self.stop("what it makes of the gathered values is not followed", s)
        return []

    def _assigned(self, targets: Sequence[ast.expr], value: ast.expr) -> list[ast.stmt]:
        if len(targets) != 1:
            targets = targets[:1] if not self.follows(value) else targets
        made: list[ast.stmt] = []
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                made += self._unpacked(target, value)
            elif isinstance(target, (ast.Name, ast.Attribute)):
                text = ast.unparse(target)
                base = ast.unparse(target.value) if isinstance(target, ast.Attribute) else ""
                if base in self.meters:
                    attribute = ast.Attribute(name(self.tracked[base]), target.attr, ast.Store())  # type: ignore[union-attr]
                    made.append(ast.Assign([attribute], self.value(value), lineno=0))
                elif self.follows(value):
                    translated = self.value(value)
                    self._drifting(text, value)
                    made.append(assign(self.track(text), translated))
                elif text in self.tracked:
                    del self.tracked[text]  # something else from here on
            elif self.follows(value):
                made += self._shown([value])
        return made

    def _changed(self, targets: Sequence[ast.expr]) -> None:
        """What is kept already and mentions these is to be kept anew."""
        written = {ast.unparse(n) for t in targets for n in ast.walk(t) if isinstance(n, (ast.Name, ast.Attribute))}
        self.unchanged = {text for text in self.unchanged if not any(w in text for w in written)}

    def _drifting(self, text: str, value: ast.expr) -> None:
        (self.weighted.add if self.drifts(value) else self.weighted.discard)(text)

    def _is_collective(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and last_name(value.func) in _COLLECTIVE

    def _unpacked(self, target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        if not self.follows(value):
            return []
        translated = self.value(value)
        names: list[ast.expr] = []
        for element in target.elts:
            text = ast.unparse(element)
            base = ast.unparse(element.value) if isinstance(element, ast.Attribute) else ""
            if base in self.meters and isinstance(element, ast.Attribute):
                names.append(ast.Attribute(name(self.tracked[base]), element.attr, ast.Store()))
            elif isinstance(element, (ast.Name, ast.Attribute)):
                if not self._is_collective(value):
                    self._drifting(text, value)
                names.append(ast.Name(self.track(text), ast.Store()))
            else:
                raise self.stop("what it makes of the gathered values is not followed", target)
        if isinstance(translated, ast.Call) and last_name(translated.func) == "CALL":
            return [
                ast.Assign([each], call(name("CALL"), ast.Constant(f"item {n}"), translated), lineno=0)
                for n, each in enumerate(names)
            ]
        return [ast.Assign([ast.Tuple(names, ast.Store())], translated, lineno=0)]

    def _called(self, node: ast.expr) -> list[ast.stmt]:
        """A call whose result nobody takes: it prints, logs or writes what is kept here."""
        if not isinstance(node, ast.Call):
            return []
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        text = ast.unparse(receiver) if receiver is not None else ""
        if self._is_all_reduce(node) and self.follows(node.args[0]):
            return [ast.Expr(call(ast.Attribute(name("dist"), "all_reduce", ast.Load()), self.value(node.args[0])))]
        if text in self.meters and isinstance(node.func, ast.Attribute) and node.func.attr == self.meters[text].method:
            self.stand_ins[text_of(node)] = "sums the meter over the ranks"
            return [
                ast.Expr(call(ast.Attribute(name(self.tracked[text]), "REDUCE", ast.Load()), name("reduced"))),
            ]
        if text in self.tracked and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return [ast.Expr(self.value(node))]
        return self._shown([*node.args, *(k.value for k in node.keywords)])

    def _shown(self, nodes: Sequence[ast.expr]) -> list[ast.stmt]:
        """Keep the values that are returned or shown."""
        made: list[ast.stmt] = []
        for node in nodes:
            for part in _parts(node):
                if self.follows(part) and not (isinstance(part, ast.Name) and part.id in self.loaders):
                    made += self.keep(text_of(part), self.value(part), self.drifts(part))
        return made

    def _branched(self, s: ast.If) -> list[ast.stmt]:
        if is_main_test(s.test) or is_not_main_test(s.test):
            # what one rank shows is what all have: the guard decides only who says it
            if any(self._binds(b) for b in (*s.body, *s.orelse)):
                raise self.stop("one rank alone makes something of the gathered values", s)
            return [made for b in (*s.body, *s.orelse) for made in self.statement(b)]
        if not self.follows(s) and not self._binds(s):
            return []
        before = dict(self.tracked)
        launch = value_of(self.module, s.test)
        test = launch if launch is not None else self.value(s.test)
        body = [made for b in s.body for made in self.statement(b)]
        orelse = [made for b in s.orelse for made in self.statement(b)]
        self.tracked = {**self.tracked, **before}
        return [ast.If(test, body or [ast.Pass()], orelse)]

    def _binds(self, s: ast.AST) -> bool:
        """Whether a statement gives a gathered value, or what follows from it, a new value."""
        targets = {
            ast.unparse(n)
            for n in ast.walk(s)
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store)
        }
        return bool(targets & set(self.tracked))

    # -- expressions -----------------------------------------------------------------------------------------

    def first(self, node: ast.expr) -> ast.expr:
        """What an accumulator begins with."""
        return self.value(node)

    def value(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """An expression outside of the loop: of what was gathered as it is, of anything else a stand-in."""
        if depth > _DEPTH:
            raise self.stop(f"`{text_of(node)}` is nested too deeply", node)
        text = ast.unparse(node)
        if text in self.loaders:
            return name("loader")
        if text in self.tracked:
            return name(self.tracked[text])
        if text == self.dataset:
            return ast.Attribute(name("loader"), "dataset", ast.Load())
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self.local):
            return node
        launch = value_of(self.module, node)
        if launch is not None and "accelerator" not in ast.unparse(launch):
            return launch
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript) and _root(node) in self.local:
            return self._made_of(node)  # a row is a number here, whatever the program keeps in it
        if isinstance(node, ast.Subscript) and self.follows(node.value):
            key = node.slice if isinstance(node.slice, ast.Slice) else self.value(node.slice, depth + 1)
            return ast.Subscript(self.value(node.value, depth + 1), key, ast.Load())
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            return self._comprehension(node, depth)
        if isinstance(node, ast.JoinedStr):
            shown = [v.value for v in node.values if isinstance(v, ast.FormattedValue) and self.follows(v.value)]
            return ast.Tuple([self.value(v, depth + 1) for v in shown], ast.Load())
        if isinstance(
            node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict)
        ):
            return self._rebuilt(node, depth)
        if self.follows(node):
            return self._unless_collective(node)
        return self._stand_in(node)

    def _unless_collective(self, node: ast.expr) -> ast.expr:
        if any(isinstance(n, ast.Call) and last_name(n.func) in _COLLECTIVE for n in ast.walk(node)):
            raise self.stop(f"`{text_of(node)}` is not followed", node)
        return self._made_of(node)

    def _rebuilt(self, node: ast.expr, depth: int) -> ast.expr:
        """The same operation on translated parts."""
        fields: dict[str, Any] = {}
        for key, old in ast.iter_fields(node):
            if isinstance(old, ast.expr):
                fields[key] = self.value(old, depth + 1)
            elif isinstance(old, list) and all(isinstance(item, ast.expr) or item is None for item in old):
                fields[key] = [None if item is None else self.value(item, depth + 1) for item in old]
            else:
                fields[key] = old
        made: ast.expr = type(node)(**fields)
        return made

    def _name(self, node: ast.Name, depth: int) -> ast.expr:
        """A name that is not gathered: what it was assigned, where that says something; else a stand-in."""
        found = list(self.module.bindings.reaching(node))
        if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None and found[0].index is None:
            value = found[0].value
            if isinstance(value, ast.Constant) or self.follows(value) or ast.unparse(value) == self.dataset:
                return self.value(value, depth + 1)
        if any(d.kind == "parameter" for d in found) and self._is_given_a_length(node):
            self.assumed.append(f"`{node.id}` is not the number of batches")
        return self._stand_in(node)

    def _is_given_a_length(self, node: ast.Name) -> bool:
        """Whether a caller gives a parameter the length of something."""
        function = self.module.scope(node)
        return any(
            _is_length(n) and (parameter := self.module.parameter_for(c, a)) is not None and parameter.arg == node.id
            for c in self.module.callers(function)
            for a in [*c.args, *(k.value for k in c.keywords)]
            for n in ast.walk(a)
        )

    def _stand_in(self, node: ast.expr) -> ast.expr:
        self.stand_ins[text_of(node)] = str(_UNKNOWN)
        for n in ast.walk(node):
            if (isinstance(n, ast.Attribute) and self._may_change(n)) or (
                isinstance(n, ast.Name) and self._may_grow(n)
            ):
                self.assumed.append(f"the evaluation does not decide `{text_of(n)}`")
        return ast.Constant(_UNKNOWN)

    def _may_grow(self, node: ast.Name) -> bool:
        """Whether a name is that of a list or dict that begins empty: a hook or another function may fill it."""
        values = [d.value for d in self.module.bindings.reaching(node) if d.kind == "assign" and d.index is None]
        return any(
            (isinstance(v, ast.List) and not v.elts)
            or (isinstance(v, ast.Dict) and not v.keys)
            or (isinstance(v, ast.Call) and not v.args and last_name(v.func) in _CONTAINERS)
            for v in values
        )

    def _may_change(self, node: ast.Attribute) -> bool:
        """Whether an attribute may go by the batches: of an object that is told of them, or set by their number."""
        if ast.unparse(node.value) in self.told_of:
            return True
        cls = self.module.class_of(node)
        if cls is None or ast.unparse(node.value) != "self":
            return False
        values = [d.value for d in self.module.attribute_values(cls, node.attr)]
        return any(isinstance(n, ast.Call) and last_name(n.func) == "len" for v in values if v for n in ast.walk(v))

    def _attribute(self, node: ast.Attribute, depth: int) -> ast.expr:
        base = ast.unparse(node.value)
        if base in self.meters or (node.attr in _ATTRIBUTES and self.follows(node.value)):
            return ast.Attribute(self.value(node.value, depth + 1), node.attr, ast.Load())
        return self._unless_collective(node) if self.follows(node.value) else self._stand_in(node)

    def _call(self, node: ast.Call, depth: int) -> ast.expr:
        function = last_name(node.func)
        callee = self.module.callee(node)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if self.literal is None and _across(node):  # a stand-in for a row has no dimension but the first
            return self._opaque(node, depth)
        if function in _COLLECTIVE and (receiver is None or not self.follows(receiver)):
            return call(name(function), *(self.value(a, depth + 1) for a in node.args))
        if _is_length(node) and not self.follows(node) and ast.unparse(node.args[0]) != self.dataset:
            words = ast.unparse(node.args[0]).lower()
            if _BATCHES.search(words) and not words.endswith(".dataset"):
                self.assumed.append(f"`{text_of(node)}` is not the number of batches")
            return self._stand_in(node)
        if isinstance(node.func, ast.Name) and function in _BUILTINS and f"builtins.{function}" in callee:
            return self._kept_call(name(function), node, depth)
        if any(q.startswith("numpy.") for q in callee) and function in _NUMPY:
            self._import("numpy")
            return self._kept_call(ast.Attribute(name("numpy"), function, ast.Load()), node, depth)
        if any(q.startswith("torch.") and q.count(".") == 1 for q in callee) and function in _TORCH:
            return self._kept_call(ast.Attribute(name("torch"), function, ast.Load()), node, depth)
        if any(q.startswith("math.") for q in callee) and function in _MATH:
            self._import("math")
            return self._kept_call(ast.Attribute(name("math"), function, ast.Load()), node, depth)
        if any(q.startswith("collections.") for q in callee) and function in ("Counter", "defaultdict", "OrderedDict"):
            self._import("collections")
            parts = [a for a in node.args if isinstance(a, ast.Name) and a.id in ("int", "float", "list")]
            return call(ast.Attribute(name("collections"), function, ast.Load()), *parts)
        if receiver is not None and self.follows(receiver):
            if function in _MOVES:
                return self.value(receiver, depth + 1)
            if function in _METHODS and _root(receiver) not in self.local:
                method = ast.Attribute(self.value(receiver, depth + 1), function, ast.Load())
                return self._kept_call(method, node, depth)
            if function == "format":
                return self._opaque(node, depth)
        if receiver is not None and isinstance(receiver, ast.Call) and function in _MOVES:
            return self.value(receiver, depth + 1)  # torch.zeros(2).to(device)
        return self._opaque(node, depth)

    def _kept_call(self, function: ast.expr, node: ast.Call, depth: int) -> ast.expr:
        args = [self.value(a, depth + 1) for a in node.args]
        keywords = {k.arg: self.value(k.value, depth + 1) for k in node.keywords if k.arg in _KEPT_KEYWORDS and k.arg}
        return call(function, *args, **keywords)

    def _opaque(self, node: ast.Call, depth: int) -> ast.expr:
        """A function that is not run: what it is given decides what it gives."""
        given = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
        if isinstance(node.func, ast.Attribute):
            given.append(node.func.value)
        told = [g for g in given if self.follows(g)]
        if not told:
            return self._stand_in(node)
        if self.literal is not None:
            self.literal.tracked = self.tracked
            read = self.literal.inlined(node, lambda function, n: self._of_all(function, n, depth))
            if read is not None:
                return read
        for g in told:
            if ast.unparse(g) in self.loaders:
                self.assumed.append(f"`{text_of(node)}` does not go by the number of batches")
        self.stand_ins[text_of(node.func)] = "what it is given decides what it gives"
        parts = [self.value(g, depth + 1) for g in told]
        return call(name("CALL"), ast.Constant(text_of(node.func)), *parts)

    def _of_all(self, function: ast.expr, node: ast.Call, depth: int) -> ast.expr:
        """A call with all of its arguments."""
        args = [self.value(a, depth + 1) for a in node.args]
        keywords = {k.arg: self.value(k.value, depth + 1) for k in node.keywords if k.arg}
        return call(function, *args, **keywords)

    def _comprehension(self, node: ast.expr, depth: int) -> ast.expr:
        """A comprehension over what was gathered."""
        generators = []
        bound = len(self.local)
        for g in getattr(node, "generators", []):
            turn = self.value(g.iter, depth + 1)
            self.local += [n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)]
            generators.append(ast.comprehension(g.target, turn, [self.value(c, depth + 1) for c in g.ifs], 0))
        fields: dict[str, Any] = {"generators": generators}
        fields |= {key: self.value(old, depth + 1) for key, old in ast.iter_fields(node) if isinstance(old, ast.expr)}
        del self.local[bound:]
        made: ast.expr = type(node)(**fields)
        return made

    def _import(self, module: str) -> None:
        if f"import {module}" not in self.imports:
            self.imports.append(f"import {module}")

    def stop(self, reason: str, node: ast.AST) -> Stop:
        return Stop(reason, self.module.home(node).location(node))


def _root(node: ast.expr) -> str:
    """The name or attribute whose item something is, as it is written; empty for anything else."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "len" and len(node.args) == 1


def _across(node: ast.Call) -> bool:
    """Whether a call works along another dimension than the samples'."""
    if last_name(node.func) not in _ALONG:
        return False
    given = [*node.args, *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    signs = [g.operand if isinstance(g, ast.UnaryOp) else g for g in given]
    return any(isinstance(g, ast.Constant) and type(g.value) is int and g.value > 0 for g in signs)


def _parts(node: ast.expr) -> list[ast.expr]:
    """The values of a tuple, a dict or a formatted text, each by itself; else the expression."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return [part for element in node.elts for part in _parts(element)]
    if isinstance(node, ast.Dict):
        return [part for value in node.values for part in _parts(value)]
    if isinstance(node, ast.JoinedStr):
        return [part for v in node.values if isinstance(v, ast.FormattedValue) for part in _parts(v.value)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return [part for a in node.args for part in _parts(a)] + [p for k in node.keywords for p in _parts(k.value)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return _parts(node.right)  # "%.3f" % value
    return [node]


__all__ = ["Afterwards"]
