"""Expressions outside of a loop over batches: of what was gathered as they are, of anything else a stand-in."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.proof.metrics.apart import makes_a_value
from shardfix.proof.metrics.closed import strange
from shardfix.proof.metrics.collectives import collective, is_collective
from shardfix.proof.metrics.functions import inlined
from shardfix.proof.metrics.known import COLLECTIVE, Known, is_length
from shardfix.proof.metrics.literal import Literal
from shardfix.proof.metrics.unseen import is_given_a_length, is_of_the_loader, unseen
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name, value_of

_BUILTINS = frozenset(
    {
        *("len", "sum", "max", "min", "round", "int", "float", "abs", "bool", "range", "sorted", "enumerate"),
        *("list", "tuple", "zip", "set", "dict"),
    }
)
# Functions of the libraries that make one value of others, by their names there.
_NUMPY = frozenset(
    {
        *("mean", "sum", "median", "std", "average", "sqrt", "exp", "argmax", "maximum", "minimum", "around", "diag"),
        "nanmean",
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
METHODS = frozenset(
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
_KEPT_KEYWORDS = frozenset({"axis", "dim", "key", "min", "max", "ndigits", "keepdim", "weights"})
_OF_MODELS = frozenset({"MODEL", "NUMBER", "ANY_ROWS", "UNSURE", "SEVERAL", "LOOKUP"})  # stand for what is not seen
_BATCHES = re.compile(r"loader|iter|batches")  # names of what has as many items as there are batches
_GOES_OVER = frozenset({"zip", "enumerate", "list", "tuple", "set", "sorted", "dict"})
_DEPTH = 8
_LONGEST = 80
_UNKNOWN = 3  # a number for what the evaluation does not decide: settings, other objects


@dataclass
class Outside:
    """Translates expressions that stand outside of the loop.

    Args:
        literal: what translates functions of the project, where the rows are real ones.
    """

    known: Known
    literal: Literal | None = None

    def value(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """An expression outside of the loop: of what was gathered as it is, of anything else a stand-in."""
        if depth > _DEPTH:
            raise self.known.stop(f"`{text_of(node)}` is nested too deeply", node)
        text = ast.unparse(node)
        if isinstance(node, ast.Name) and node.id in self.known.local:
            return node
        if text in self.known.loaders:
            return name("loader")
        if text in self.known.tracked:
            return name(self.known.tracked[text])
        if text == self.known.dataset:
            return ast.Attribute(name("loader"), "dataset", ast.Load())
        if isinstance(node, ast.Constant):
            return node
        launch = value_of(self.known.module, node)
        if launch is not None and "accelerator" not in ast.unparse(launch):
            return launch
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript) and root_of(node) in self.known.local:
            return self.made_of(node)  # a row is a number here, whatever the program keeps in it
        if isinstance(node, ast.Subscript) and self.known.follows(node.value):
            return ast.Subscript(self.value(node.value, depth + 1), self._key(node.slice, depth + 1), ast.Load())
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            return self._comprehension(node, depth)
        if isinstance(node, ast.JoinedStr):
            shown = [v.value for v in node.values if isinstance(v, ast.FormattedValue) and self.known.follows(v.value)]
            return ast.Tuple([self.value(v, depth + 1) for v in shown], ast.Load())
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and len(node.ops) == 1:
            named = self._named(node.left, node.comparators[0])
            if named is not None:
                return ast.Constant(named == isinstance(node.ops[0], ast.Eq))
        if isinstance(
            node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict)
        ):
            return self._rebuilt(node, depth)
        if self.known.follows(node):
            return self._unless_collective(node)
        return self._stand_in(node)

    def _unless_collective(self, node: ast.expr) -> ast.expr:
        if any(isinstance(n, ast.Call) and last_name(n.func) in COLLECTIVE for n in ast.walk(node)):
            raise self.known.stop(f"`{text_of(node)}` is not followed", node)
        return self.made_of(node)

    def _named(self, node: ast.expr, text: ast.expr) -> bool | None:
        """Whether a setting that is not known is a text: the first one that it is compared with; None for others."""
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str) or self.known.follows(node):
            return None
        if not isinstance(node, (ast.Name, ast.Attribute)) or not is_unknown(self.value(node)):
            return None
        taken = self.known.texts.setdefault(ast.unparse(node), text.value)
        self.known.stand_ins[text_of(node)] = repr(taken)
        return taken == text.value

    def _key(self, node: ast.expr, depth: int) -> ast.expr:
        """What is taken of something: a place, a slice, or one of them for each dimension."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self._key(e, depth) for e in node.elts], ast.Load())
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return ast.Slice(*(None if part is None else self.value(part, depth) for part in parts))
        return self.value(node, depth)

    def _rebuilt(self, node: ast.expr, depth: int) -> ast.expr:
        """The same operation on translated parts."""
        if isinstance(node, ast.Dict) and None in node.keys and self.known.follows(node):
            return self.made_of(node)  # of what is merged into it, nothing may be known
        fields: dict[str, Any] = {}
        for key, old in ast.iter_fields(node):
            if isinstance(old, ast.expr):
                fields[key] = self.value(old, depth + 1)
            elif isinstance(old, list) and all(isinstance(item, ast.expr) or item is None for item in old):
                fields[key] = [None if item is None else self.value(item, depth + 1) for item in old]
            else:
                fields[key] = old
        made: ast.expr = type(node)(**fields)
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add) and isinstance(node, ast.BinOp):
            pair = ((node.left, made.left), (node.right, made.right))
            if any(_may_be_unknown(value) and not isinstance(old, ast.Constant) for old, value in pair):
                return call(name("ADDED"), made.left, made.right)
        return made

    def _name(self, node: ast.Name, depth: int) -> ast.expr:
        """A name that is not gathered: what it was assigned, where that says something; else a stand-in."""
        found = list(self.known.module.bindings.reaching(node))
        if len(found) == 1 and found[0].kind == "assign" and found[0].value is not None and found[0].index is None:
            value = found[0].value
            if isinstance(value, ast.Constant) or self.known.follows(value) or ast.unparse(value) == self.known.dataset:
                return self.value(value, depth + 1)
        if any(d.kind == "parameter" for d in found) and is_given_a_length(self.known, node):
            self.known.assumed.append(f"`{node.id}` is not the number of batches")
        return self._stand_in(node)

    def _stand_in(self, node: ast.expr) -> ast.expr:
        self.known.stand_ins[text_of(node)] = str(_UNKNOWN)
        self.known.assumed += unseen(self.known, node)
        return ast.Constant(_UNKNOWN)

    def _attribute(self, node: ast.Attribute, depth: int) -> ast.expr:
        base = ast.unparse(node.value)
        if base in self.known.meters or (node.attr in _ATTRIBUTES and self.known.follows(node.value)):
            return ast.Attribute(self.value(node.value, depth + 1), node.attr, ast.Load())
        if not self.known.follows(node.value):
            return self._stand_in(node)
        if is_of_the_loader(self.known, node):
            self.known.assumed.append(f"the evaluation does not decide `{text_of(node)}`")
        return self._unless_collective(node)

    def _call(self, node: ast.Call, depth: int) -> ast.expr:
        function = last_name(node.func)
        callee = self.known.module.callee(node)
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if self.literal is None and _across(node):  # a stand-in for a row has no dimension but the first
            return self._opaque(node, depth)
        if is_collective(self.known.module, node) and self.known.follows(node):
            return collective(self.known, node, lambda n: self.value(n, depth + 1))
        if function in COLLECTIVE and (receiver is None or not self.known.follows(receiver)):
            return call(name(function), *(self.value(a, depth + 1) for a in node.args))
        if is_length(node) and not self.known.follows(node) and ast.unparse(node.args[0]) != self.known.dataset:
            words = ast.unparse(node.args[0]).lower()
            if _BATCHES.search(words) and not words.endswith(".dataset"):
                self.known.assumed.append(f"`{text_of(node)}` is not the number of batches")
            return self._stand_in(node)
        if isinstance(node.func, ast.Name) and function in _BUILTINS and f"builtins.{function}" in callee:
            return self._kept_call(name(function), node, depth)
        if any(q.startswith("numpy.") for q in callee) and function in _NUMPY:
            self.known.importing("numpy")
            return self._kept_call(ast.Attribute(name("numpy"), function, ast.Load()), node, depth)
        if any(q.startswith("torch.") and q.count(".") == 1 for q in callee) and function in _TORCH:
            return self._kept_call(ast.Attribute(name("torch"), function, ast.Load()), node, depth)
        if any(q.startswith("math.") for q in callee) and function in _MATH:
            self.known.importing("math")
            return self._kept_call(ast.Attribute(name("math"), function, ast.Load()), node, depth)
        if any(q.startswith("collections.") for q in callee) and function in ("Counter", "defaultdict", "OrderedDict"):
            self.known.importing("collections")
            parts = [a for a in node.args if isinstance(a, ast.Name) and a.id in ("int", "float", "list")]
            return call(ast.Attribute(name("collections"), function, ast.Load()), *parts)
        if receiver is not None and self.known.follows(receiver):
            if function in _MOVES:
                return self.value(receiver, depth + 1)
            own = METHODS | self.known.classes.get(ast.unparse(receiver), frozenset())
            if function in own and root_of(receiver) not in self.known.local:
                method = ast.Attribute(self.value(receiver, depth + 1), function, ast.Load())
                return self._kept_call(method, node, depth)
            if function == "format":
                return self._opaque(node, depth)
        if receiver is not None and isinstance(receiver, ast.Call) and function in _MOVES:
            return self.value(receiver, depth + 1)  # torch.zeros(2).to(device)
        return self._opaque(node, depth)

    def _kept_call(self, function: ast.expr, node: ast.Call, depth: int) -> ast.expr:
        args = [self.value(a, depth + 1) for a in node.args]
        if last_name(node.func) in _GOES_OVER and any(map(is_unknown, args)) and self.known.follows(node):
            return self.made_of(node)  # there is nothing to go over
        keywords = {k.arg: self.value(k.value, depth + 1) for k in node.keywords if k.arg in _KEPT_KEYWORDS and k.arg}
        return call(function, *args, **keywords)

    def _opaque(self, node: ast.Call, depth: int) -> ast.expr:
        """A function that is not run: what it is given decides what it gives."""
        given = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
        if isinstance(node.func, ast.Attribute):
            given.append(node.func.value)
        told = [g for g in given if self.known.follows(g)]
        if not told:
            return self._stand_in(node)
        read = self._read_whole(node, depth)
        if read is not None:
            return read
        for g in told:
            if ast.unparse(g) in self.known.loaders:
                self.known.assumed.append(f"`{text_of(node)}` does not go by the number of batches")
        self.known.stand_ins[text_of(node.func)] = "what it is given decides what it gives"
        parts = [self.value(g, depth + 1) for g in told]
        pairs = any(q.startswith("sklearn.metrics.") for q in self.known.module.callee(node))
        made = call(name("CALL_OF_PAIRS" if pairs else "CALL"), ast.Constant(text_of(node.func)), *parts)
        if not makes_a_value(self.known.module, node):
            why = strange(self.known.module, node)
            because = f", though what {why} may do is not known" if why else ""
            self.known.resting[made] = f"`{text_of(node)}` makes nothing of other ranks' values{because}"
        return made

    def _read_whole(self, node: ast.Call, depth: int) -> ast.expr | None:
        """A call of a function of the project that is run as it is written; None where that can't be. What it calls
        that is not known is no model here, as it would be in the loop."""
        if self.literal is None:
            return None
        stand_ins, functions = dict(self.known.stand_ins), set(self.literal.functions)
        read = inlined(self.literal, node, lambda function, n: self._of_all(function, n, depth))
        added = self.literal.functions.keys() - functions
        parts = [*(self.literal.functions[label] for label in added), *([read] if read is not None else [])]
        of_models = any(isinstance(n, ast.Name) and n.id in _OF_MODELS for part in parts for n in ast.walk(part))
        if read is not None and not of_models:
            return read
        for label in added:
            del self.literal.functions[label]
        for text in self.known.stand_ins.keys() - stand_ins.keys():
            del self.known.stand_ins[text]
        return None

    def runs(self, node: ast.Call) -> bool:
        """Whether a call is of a function that can be run as it is written."""
        return self.literal is not None and inlined(self.literal, node, lambda function, _: function) is not None

    def _of_all(self, function: ast.expr, node: ast.Call, depth: int) -> ast.expr:
        """A call with all of its arguments."""
        args = [self.value(a, depth + 1) for a in node.args]
        keywords = {k.arg: self.value(k.value, depth + 1) for k in node.keywords if k.arg}
        return call(function, *args, **keywords)

    def _comprehension(self, node: ast.expr, depth: int) -> ast.expr:
        """A comprehension over what was gathered."""
        generators = []
        bound = len(self.known.local)
        for g in getattr(node, "generators", []):
            turn = self.value(g.iter, depth + 1)
            unpacked = isinstance(g.target, ast.Tuple) and isinstance(turn, ast.Call) and last_name(turn.func) == "CALL"
            if isinstance(turn, ast.Constant) or unpacked:  # a stand-in: there is nothing to go over
                del self.known.local[bound:]
                return self.made_of(node) if self.known.follows(node) else self._stand_in(node)
            self.known.local += [n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)]
            generators.append(ast.comprehension(g.target, turn, [self.value(c, depth + 1) for c in g.ifs], 0))
        fields: dict[str, Any] = {"generators": generators}
        fields |= {key: self.value(old, depth + 1) for key, old in ast.iter_fields(node) if isinstance(old, ast.expr)}
        del self.known.local[bound:]
        made: ast.expr = type(node)(**fields)
        return made

    def made_of(self, node: ast.AST) -> ast.Call:
        """What is not run, as a function of the gathered values in it."""
        parts: dict[str, ast.expr] = {}
        stack: list[ast.AST] = [node]
        while stack:
            n = stack.pop()
            text = ast.unparse(n) if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) else ""
            if text and text in self.known.local:
                parts[text] = name(text)
            elif text in self.known.tracked:
                parts[text] = name(self.known.tracked[text])
            elif is_length(n) and ast.unparse(n.args[0]) in self.known.loaders:  # type: ignore[attr-defined]
                parts[ast.unparse(n)] = call(name("len"), name("loader"))
            else:
                stack.extend(ast.iter_child_nodes(n))
        words = " ".join(ast.unparse(node).split())
        words = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
        self.known.stand_ins[words] = "what it is given decides what it gives"
        return call(name("CALL"), ast.Constant(words), *(parts[text] for text in sorted(parts)))


def is_unknown(value: ast.expr) -> bool:
    """Whether an expression is the number that stands for what the evaluation does not decide."""
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value == _UNKNOWN


def _may_be_unknown(value: ast.expr) -> bool:
    return is_unknown(value) or (isinstance(value, ast.IfExp) and any(map(is_unknown, (value.body, value.orelse))))


def _across(node: ast.Call) -> bool:
    """Whether a call works along another dimension than the samples'."""
    if last_name(node.func) not in _ALONG:
        return False
    given = [*node.args, *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    signs = [g.operand if isinstance(g, ast.UnaryOp) else g for g in given]
    return any(isinstance(g, ast.Constant) and type(g.value) is int and g.value > 0 for g in signs)


__all__ = ["METHODS", "Outside", "is_unknown"]
