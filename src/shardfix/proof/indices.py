"""Datasets and indices in a recipe: an index dataset under the source's own words, subsets in plain sight."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import DATA_LOADER, last_name
from shardfix.proof.choices import text_of
from shardfix.proof.regime import call, default_of, dotted, literal, name
from shardfix.proof.stop import DEPTH, Stop

if TYPE_CHECKING:
    from shardfix.proof.slice import Slicer

_LARGEST_INDEX = 64
_WRITES = frozenset({"append", "extend", "insert", "sort", "reverse", "pop", "remove", "clear", "shuffle"})


@dataclass(frozen=True, eq=False)
class Indices:
    """Translates datasets and what follows from their length."""

    slicer: Slicer
    known: dict[tuple[str, frozenset[Definition]], str] = field(default_factory=dict)

    def own_dataset(self, depth: int) -> ast.expr:
        """The dataset of the construction itself."""
        value = self.slicer.module.arguments(self.slicer.anchor, DATA_LOADER).value("dataset")
        return self.dataset(value, depth) if value is not None else call(name("DATASET"), ast.Constant("dataset"))

    def dataset(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A dataset: an index dataset under the source's own words; subsets and splits in plain sight stay."""
        m = self.slicer.module
        if depth > DEPTH:
            return self.stand_in(node)
        if isinstance(node, ast.Call):
            self.no_stream(node)
            if "torch.utils.data.Subset" in m.callee(node):
                values = [*node.args, *(k.value for k in node.keywords)]
                if len(values) == 2:
                    indices = self.slicer.attempt(lambda: self.index(values[1], depth + 1))
                    if indices is not None:
                        return call(dotted("torch.utils.data.Subset"), self.dataset(values[0], depth + 1), indices)
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.slicer.definitions(node)
            for d in found:
                if isinstance(d.value, ast.Call) and d.kind == "assign":
                    self.no_stream(d.value)
            if len(found) == 1:
                (d,) = found
                value = d.value
                if d.kind == "assign" and value is not None and d not in self.slicer.pending:
                    if d.index is None and isinstance(value, (ast.Name, ast.Attribute)):
                        return self.dataset(value, depth + 1)
                    if d.index is None and m.is_call(value, "torch.utils.data.Subset"):
                        shown = self.slicer.attempt(lambda: self.dataset(value, depth + 1))
                        if isinstance(shown, ast.Call) and ast.unparse(shown.func) != "DATASET":
                            bound = self.slicer.need(node, lambda v: self.dataset(v, depth + 1), depth + 1)
                            if bound is not None:
                                return bound
                    if d.index is not None and m.is_call(value, "torch.utils.data.random_split"):
                        bound = self.slicer.attempt(lambda: self.slicer.need(node, self.dataset, depth + 1))
                        if bound is not None:
                            return bound
                if d.kind == "parameter":
                    given = self.slicer.given(d)
                    if len(given) == 1 and isinstance(given[0][0], (ast.Name, ast.Attribute)):
                        return self.dataset(given[0][0], depth + 1)
        return self.stand_in(node)

    def no_stream(self, node: ast.Call) -> None:
        """A stream has no sampler and no indices."""
        m = self.slicer.module
        cls = m.class_definition(node.func)
        bases = m.bases(cls) if cls is not None else set()
        streams = any(k.arg == "streaming" and literal(k.value) is True for k in node.keywords)
        if streams or any(b.rsplit(".", 1)[-1] == "IterableDataset" for b in [*bases, *m.callee(node)]):
            self.slicer.stop(f"`{text_of(node)}` is a stream (IterableDataset): it has no indices to compare", node)

    def stand_in(self, node: ast.expr) -> ast.expr:
        """An index dataset known by the source's words; the same words with other assignments are another one."""
        text = text_of(node)
        held: set[Definition] = set()
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Name, ast.Attribute)):
                held |= self.slicer.definitions(inner)
        key = (text, frozenset(held))
        if key not in self.known:
            # a use that may see the same assignment is the same dataset: two arms that make one, then the loader
            for (known, others), given in list(self.known.items()):
                if known == text and (not held or held & others):
                    self.known[key] = given
        if key not in self.known:
            same = sum(1 for known, _ in self.known if known == text)
            self.known[key] = text if not same else f"{text} #{same + 1}"
        return call(name("DATASET"), ast.Constant(self.known[key]))

    def split(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``random_split`` with a seeded generator and lengths that follow from the dataset's length."""
        m = self.slicer.module
        if not isinstance(node, ast.Call) or not m.is_call(node, "torch.utils.data.random_split"):
            return None
        values = dict(zip(("dataset", "lengths", "generator"), node.args, strict=False))
        values |= {k.arg: k.value for k in node.keywords if k.arg}
        if "generator" not in values or not {"dataset", "lengths"} <= set(values):
            return None  # drawn from the global state: who reads which part is not a matter of the loader
        lengths = self.index(values["lengths"], depth + 1)
        made = self.slicer.sampling.generator(values["generator"], depth + 1)
        if made is None or not isinstance(lengths, ast.List):
            return None
        if not all(isinstance(literal(e), float) or not isinstance(literal(e), int) for e in lengths.elts):
            return None
        data = self.dataset(values["dataset"], depth + 1)
        return call(dotted("torch.utils.data.random_split"), data, lengths, generator=made)

    def index(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """Index lists and lengths: what follows from a dataset's length by literals, ranges, slices and arithmetic."""
        m = self.slicer.module
        if depth > DEPTH:
            raise self.slicer.needs_project("the indices", node)
        value = literal(node)
        if value is None or (isinstance(value, (int, float)) and abs(value) <= _LARGEST_INDEX):
            return ast.Constant(value)
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
        ):
            return ast.BinOp(self.index(node.left, depth + 1), node.op, self.index(node.right, depth + 1))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return ast.UnaryOp(ast.USub(), self.index(node.operand, depth + 1))
        if isinstance(node, (ast.List, ast.Tuple)):
            if any(type(literal(e)) is int for e in node.elts):
                raise self.fixed(node)
            return ast.List([self.index(e, depth + 1) for e in node.elts], ast.Load())
        if isinstance(node, ast.Subscript):
            base = self.index(node.value, depth + 1)
            cut = node.slice
            if isinstance(cut, ast.Slice):
                parts = [self.index(p, depth + 1) if p is not None else None for p in (cut.lower, cut.upper, cut.step)]
                return ast.Subscript(base, ast.Slice(*parts), ast.Load())
            return ast.Subscript(base, self.index(cut, depth + 1), ast.Load())
        if isinstance(node, ast.Call):
            return self.index_call(node, depth)
        launched = self.slicer.launched(node)
        if launched is not None:
            return launched
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.unwritten(node)

            def follows(value: ast.expr) -> ast.expr:
                if type(literal(value)) is int:
                    raise self.fixed(value)
                return self.index(value, depth + 1)

            bound = self.slicer.need(node, follows, depth + 1)
            if bound is not None:
                return bound
            default = default_of(m, node)
            if isinstance(default, (int, float)) and abs(default) <= 1:
                self.slicer.choices.stand_ins[text_of(node)] = str(default)
                return ast.Constant(default)
        raise self.slicer.needs_project("the indices", node)

    def index_call(self, node: ast.Call, depth: int) -> ast.expr:
        callee = self.slicer.module.callee(node)
        if node.keywords:
            raise self.slicer.needs_project("the indices", node)
        counts = ("builtins.range", "numpy.arange", "torch.arange")
        if not callee.isdisjoint(counts) and type(literal(node.args[min(1, len(node.args) - 1)])) is int:
            raise self.fixed(node)
        if "builtins.len" in callee and len(node.args) == 1:
            data = self.dataset(node.args[0], depth + 1)
            if ast.dump(data) == ast.dump(self.own_dataset(depth + 1)):
                return call(name("len"), data)
            inner = self.slicer.attempt(lambda: self.index(node.args[0], depth + 1))
            return call(name("len"), inner if inner is not None else data)
        for function in ("range", "list", "tuple", "int", "float", "min", "max", "round", "sum", "sorted"):
            if f"builtins.{function}" in callee:
                return call(name(function), *(self.index(a, depth + 1) for a in node.args))
        if "numpy.floor" in callee and len(node.args) == 1:
            return ast.BinOp(self.index(node.args[0], depth + 1), ast.FloorDiv(), ast.Constant(1))
        if not callee.isdisjoint(("numpy.arange", "torch.arange")):
            return call(name("list"), call(name("range"), *(self.index(a, depth + 1) for a in node.args)))
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "tolist" and not node.args:
            return self.index(func.value, depth + 1)
        raise self.slicer.needs_project("the indices", node)

    def fixed(self, node: ast.expr) -> Stop:
        """Absolute indices and lengths fit the program's own dataset only, not the sizes that a proof is run at."""
        return self.slicer.stopped(f"`{text_of(node)}` does not follow from the dataset's length", node)

    def unwritten(self, node: ast.expr) -> None:
        """A list that is shuffled or written to between its making and its use is not what its making says."""
        for d in self.slicer.definitions(node):
            for reader in self.slicer.module.bindings.readers(d):
                parent = self.slicer.module.parents[reader]
                if isinstance(parent, ast.Attribute) and parent.attr in _WRITES:
                    raise self.slicer.stopped(f"`{text_of(node)}` is changed by `.{parent.attr}()`", parent)
                if isinstance(parent, ast.Call) and last_name(parent.func) in _WRITES:
                    raise self.slicer.stopped(f"`{text_of(node)}` is shuffled by `{text_of(parent)}`", parent)
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    raise self.slicer.stopped(f"`{text_of(node)}` is written to", parent)
