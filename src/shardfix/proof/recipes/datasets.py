"""Datasets in a recipe: an index dataset under the source's own words, subsets and splits in plain sight."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import DATA_LOADER
from shardfix.analysis.loaders.cuts import cut_in
from shardfix.analysis.loaders.datasets import rank_in
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.draws import draw_of, draws_in
from shardfix.proof.recipes.regime import call, dotted, name
from shardfix.proof.recipes.settings import literal
from shardfix.proof.stop import DEPTH, Stop

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_SUBSET = "torch.utils.data.Subset"
_SPLIT = "torch.utils.data.random_split"
_BY_NODE = "datasets.distributed.split_dataset_by_node"


@dataclass(frozen=True, eq=False)
class Datasets:
    """Translates datasets."""

    slicer: Slicer
    known: dict[tuple[str, frozenset[Definition]], str] = field(default_factory=dict)

    def own_dataset(self, depth: int) -> ast.expr:
        """The dataset of the construction itself."""
        value = self.slicer.module.arguments(self.slicer.anchor, DATA_LOADER).value("dataset")
        return self.dataset(value, depth) if value is not None else call(name("DATASET"), ast.Constant("dataset"))

    def dataset(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A dataset: an index dataset under the source's own words; subsets and splits in plain sight stay."""
        if depth > DEPTH:
            return self.stand_in(node)
        part = self.part(node, depth) or self.through(node, depth)
        if part is not None:
            return part
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
                    if d.index is None and self.is_part(value):
                        shown = self.slicer.attempt(lambda: self.dataset(value, depth + 1))
                        if shown is not None and not is_stand_in(shown):
                            bound = self.slicer.need(node, lambda v: self.dataset(v, depth + 1), depth + 1)
                            if bound is not None:
                                return bound
                    if d.index is not None and self.slicer.module.is_call(value, _SPLIT):
                        bound = self.slicer.attempt(lambda: self.slicer.need(node, self.dataset, depth + 1))
                        if bound is not None:
                            return bound
                if d.kind == "parameter":
                    given = self.slicer.given(d)
                    if len(given) == 1 and isinstance(given[0][0], (ast.Name, ast.Attribute)):
                        return self.dataset(given[0][0], depth + 1)
        return self.stand_in(node)

    def through(self, node: ast.expr, depth: int) -> ast.expr | None:
        """A dataset of the project's own that is cut by rank, made over index datasets, where its code may run."""
        imported = self.slicer.imported
        if imported is None or not isinstance(node, ast.Call) or cut_in(self.slicer.module, node) is None:
            return None
        if not self.slicer.module.project_classes(node.func):
            return None
        return call(name("THROUGH"), imported.called(node, depth + 1))

    def is_part(self, node: ast.expr) -> bool:
        """Whether an expression takes a part of a dataset by index."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice)
        if self.slicer.imported is not None and isinstance(node, ast.Call):
            if self.slicer.module.project_classes(node.func) and cut_in(self.slicer.module, node) is not None:
                return True
        method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        return method in ("select", "shard") or self.slicer.module.is_call(node, _SUBSET, _BY_NODE)

    def part(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``Subset(ds, indices)``, ``ds.select(indices)``, ``ds.shard(n, i)``, ``split_dataset_by_node(ds, rank, n)``
        and ``ds[a:b:c]``; None for anything else, and where the indices can't be followed."""
        m = self.slicer.module
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            shown = self.slicer.attempt(lambda: self.slicer.indices.cut(node.slice, depth + 1))
            return ast.Subscript(self.dataset(node.value, depth + 1), shown, ast.Load()) if shown is not None else None
        if not isinstance(node, ast.Call):
            return None
        self.no_stream(node)
        func = node.func
        names = {k.arg: k.value for k in node.keywords if k.arg}
        base: ast.expr | None = None
        indices: ast.expr | None = None
        if _SUBSET in m.callee(node):
            values = [*node.args, *names.values()]
            if len(values) == 2:
                base, indices = values[0], self.slicer.attempt(lambda: self.slicer.indices.index(values[1], depth + 1))
        elif _BY_NODE in m.callee(node) and len(node.args) == 1:
            base, indices = node.args[0], self.strided(base=node.args[0], names=names, depth=depth)
        elif isinstance(func, ast.Attribute) and func.attr == "select" and len(node.args) + len(names) == 1:
            (value,) = [*node.args, *names.values()]
            base, indices = func.value, self.slicer.attempt(lambda: self.slicer.indices.index(value, depth + 1))
        elif isinstance(func, ast.Attribute) and func.attr == "shard" and len(node.args) + len(names) >= 2:
            names = {**dict(zip(("num_shards", "index"), node.args, strict=False)), **names}
            base, indices = func.value, self.strided(base=func.value, names=names, depth=depth)
        if base is None or indices is None:
            return None
        data = self.dataset(base, depth + 1)
        return call(dotted(_SUBSET), data, indices)

    def strided(self, base: ast.expr, names: dict[str, ast.expr], depth: int) -> ast.expr | None:
        """Every n-th index of a dataset, from one rank's number on."""
        first = names.get("rank") or names.get("index")
        step = names.get("world_size") or names.get("num_shards")
        if first is None or step is None:
            return None

        def made() -> ast.expr:
            ends = [self.slicer.quantities.process(v, "the share", depth + 1) for v in (first, step)]
            return call(name("range"), ends[0], call(name("len"), self.dataset(base, depth + 1)), ends[1])

        return self.slicer.attempt(made)

    def no_stream(self, node: ast.Call) -> None:
        """A stream has no sampler and no indices."""
        m = self.slicer.module
        cls = m.class_definition(node.func)
        bases = m.bases(cls) if cls is not None else set()
        streams = any(k.arg == "streaming" and literal(k.value) is True for k in node.keywords)
        if streams or any(b.rsplit(".", 1)[-1] == "IterableDataset" for b in [*bases, *m.callee(node)]):
            self.slicer.stop(f"`{text_of(node)}` is a stream (IterableDataset): it has no indices to compare", node)

    def stand_in(self, node: ast.expr) -> ast.expr:
        """An index dataset known by the source's words; the same words with other assignments are another one.

        It stands for one dataset that is the same on every rank: one that is cut by rank, or drawn by each rank for
        itself, has none.
        """
        if isinstance(node, (ast.List, ast.Tuple)) and not node.elts:
            raise self.slicer.stopped("the dataset is empty: there is nothing to read", node)
        cut = cut_in(self.slicer.module, node)
        if cut is not None:
            where = self.slicer.module.location(cut[1])
            text = text_of(cut[1]) if isinstance(cut[1], ast.expr) else "the rank"
            reason = f"`{text_of(node)}` holds one rank's samples: it is cut by `{text}` ({where})"
            made = [node, *(d.value for d in self.slicer.definitions(node) if d.value is not None)]
            own = any(isinstance(v, ast.Call) and self.slicer.module.project_classes(v.func) for v in made)
            missing = own and self.slicer.imported is None
            raise Stop(reason, self.slicer.module.location(node), project=missing)
        for draw in draws_in(self.slicer.module, node):
            self.slicer.drawn.alike(draw)
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
            ranked = rank_in(self.slicer.module, node)
            if ranked is not None:
                self.slicer.ranked[self.known[key]] = str(ranked[0].location(ranked[1]))
        return call(name("DATASET"), ast.Constant(self.known[key]))

    def split(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``random_split`` with lengths that follow from the dataset's length: by its own generator, or by the global
        one where the program seeds that."""
        m = self.slicer.module
        if m.is_call(node, "sklearn.model_selection.train_test_split") and isinstance(node, ast.Call):
            return self.halves(node, depth)
        if not isinstance(node, ast.Call) or not m.is_call(node, _SPLIT):
            return None
        values = dict(zip(("dataset", "lengths", "generator"), node.args, strict=False))
        values |= {k.arg: k.value for k in node.keywords if k.arg}
        if not {"dataset", "lengths"} <= set(values):
            return None
        lengths = self.slicer.indices.index(values["lengths"], depth + 1)
        draw = draw_of(m, node)
        if draw is not None:
            seeded = call(
                ast.Attribute(call(dotted("torch.Generator")), "manual_seed", ast.Load()), self.slicer.drawn.alike(draw)
            )
            made: ast.expr | None = seeded
        else:
            made = self.slicer.sampling.generator(values["generator"], depth + 1)
        if made is None or not isinstance(lengths, ast.List):
            return None
        if not all(isinstance(literal(e), float) or not isinstance(literal(e), int) for e in lengths.elts):
            return None
        data = self.dataset(values["dataset"], depth + 1)
        return call(dotted(_SPLIT), data, lengths, generator=made)

    def halves(self, node: ast.Call, depth: int) -> ast.expr | None:
        """scikit-learn's ``train_test_split(indices, test_size=0.1, random_state=0)``, as a list of the two parts."""
        names = {k.arg: k.value for k in node.keywords if k.arg}
        share = literal(names.get("test_size"))
        if len(node.args) != 1 or not isinstance(share, float):
            return None
        draw = draw_of(self.slicer.module, node)
        seed = self.slicer.drawn.alike(draw) if draw else self.slicer.quantities.seed(names["random_state"], depth + 1)
        mixed = call(name("SHUFFLED"), self.slicer.indices.index(node.args[0], depth + 1), seed)
        cut = call(name("int"), ast.BinOp(call(name("len"), mixed), ast.Mult(), ast.Constant(share)))
        parts = [ast.Slice(cut, None, None), ast.Slice(None, cut, None)]
        return ast.List([ast.Subscript(mixed, part, ast.Load()) for part in parts], ast.Load())


def is_stand_in(node: ast.expr) -> bool:
    """Whether a recipe's expression is an index dataset that stands for the program's own."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "DATASET"
