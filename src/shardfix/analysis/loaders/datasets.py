"""What a dataset or a sampler is made of: whether it depends on the rank already, and whether it is a stream."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import walk
from shardfix.analysis.loaders.branches import apart, conditions
from shardfix.analysis.programs.processes import (
    distributed_test,
    is_main_test,
    is_not_main_test,
    is_rank,
    is_world_size,
)

_CALLS = 4  # how many calls a value is followed into or out of
_LIMIT = 3000  # nodes that are followed; a dataset of more is judged by these
_SPLITTERS = re.compile(r"split_dataset_by_node|split_by_node|\.shard\(")
_METHODS = ("__init__", "__getitem__", "__getitems__", "__iter__", "__len__")
_SETTINGS = frozenset(
    {"args", "cfg", "config", "conf", "opt", "opts", "options", "hparams", "params", "FLAGS", "flags"}
)
# Where a rank says on which device or how loudly, not which samples.
_ELSEWHERE = frozenset({"to", "cuda", "device", "set_device", "print", "tqdm", "trange", "barrier"})
_LOGS = frozenset(
    {"info", "debug", "warning", "warn", "error", "log", "seed", "manual_seed", "manual_seed_all", "write"}
)
_KEYWORDS = frozenset({"device", "map_location", "disable", "desc", "verbose", "device_map", "device_ids"})


@dataclass(frozen=True, slots=True)
class _Step:
    """A node to look at. ``inside``: it was entered by a call, whose arguments were looked at where they stand."""

    module: Module
    node: ast.AST
    calls: int
    inside: bool


def rank_in(module: Module, dataset: ast.expr) -> tuple[Module, ast.AST] | None:
    """The expression because of which a dataset holds one rank's samples only, with its module; None if none is seen.

    Followed are the names it reads, what called functions return, the methods of dataset classes, and, where it is a
    parameter, what the callers pass.
    """
    return next(_ranks(_made_of(module, dataset)), None)


def class_cuts(module: Module, cls: ast.ClassDef) -> tuple[Module, ast.AST] | None:
    """The expression by which a sampler of the project takes its rank's share by itself, whatever it is made with."""
    methods = [m for name in _METHODS if (m := module.method(cls, name)) is not None]
    if not any(isinstance(n, ast.expr) and is_world_size(n) for m in methods for n in ast.walk(m)):
        return None
    steps = (s for m in methods for s in _walk(_Step(module.home(m), m, 1, True), _onward))
    return next((found for found in _ranks(steps) if is_cut(*found)), None)


def _ranks(steps: Iterable[_Step]) -> Iterator[tuple[Module, ast.AST]]:
    for step in steps:
        if _splits(step) or (
            isinstance(step.node, ast.expr) and is_rank(step.node) and not _counted(step.module, step.node)
        ):
            yield step.module, step.node
        elif isinstance(step.node, ast.IfExp) and (is_main_test(step.node.test) or is_not_main_test(step.node.test)):
            yield step.module, step.node.test


def _splits(step: _Step) -> bool:
    return isinstance(step.node, ast.Call) and _SPLITTERS.search(step.module.source.source(step.node)) is not None


def is_cut(module: Module, node: ast.AST) -> bool:
    """Whether a rank surely cuts: an index or step by it, ``i % world == rank``, a split that is told rank and size."""
    if isinstance(node, ast.Call) and not (isinstance(node, ast.expr) and is_rank(node)):
        return True
    inner = node
    for outer in module.around(node):
        if isinstance(outer, ast.stmt):
            return False
        told = [n for n in ast.walk(outer) if isinstance(n, ast.expr)]
        if isinstance(outer, ast.Subscript) and inner is outer.slice:
            return True
        if isinstance(outer, ast.Compare) and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in told):
            return True
        if isinstance(outer, ast.Call) and any(is_world_size(n) for n in told):
            return True
        inner = outer
    return False


def _counted(module: Module, node: ast.expr) -> bool:
    """``for rank, item in enumerate(...)``: a place in a ranking."""
    definitions = module.bindings.reaching(node) if isinstance(node, ast.Name) else frozenset()
    return bool(definitions) and all(d.kind == "loop" for d in definitions)


def means_rank(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a rank, or a name that is given one."""
    if is_rank(node):
        return not _counted(module, node)
    definitions = module.bindings.reaching(node) if isinstance(node, ast.Name) else frozenset()
    values = [d.value for d in definitions if d.kind == "assign" and d.index is None]
    return any(v is not None and is_rank(v) for v in values)


def _made_of(module: Module, dataset: ast.expr) -> Iterator[_Step]:
    """Every node that a dataset's value is made of, nearest first."""
    return _walk(_Step(module, dataset, 0, False), _onward)


def _onward(step: _Step) -> Iterator[_Step]:
    return chain(_children(step), _behind(step))


def _walk(start: _Step, onward: Callable[[_Step], Iterable[_Step]]) -> Iterator[_Step]:
    """A node and what ``onward`` leads to from it, each once, nearest first; bounded."""
    queue = deque([start])
    seen: set[ast.AST] = set()
    while queue and len(seen) < _LIMIT:
        step = queue.popleft()
        if step.node in seen:
            continue
        seen.add(step.node)
        yield step
        queue.extend(onward(step))


def _children(step: _Step) -> Iterator[_Step]:
    node = step.node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Call) and child is not node.func and last_name(node.func) in _ELSEWHERE:
            continue
        if isinstance(child, ast.keyword) and (child.arg in _KEYWORDS or _names_a_place(step.module, node, child)):
            continue
        if isinstance(node, ast.Call) and node.args and child is node.args[0] and _loads_whole(step.module, node):
            continue
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            if last_name(child.value.func) in _LOGS:
                continue
        if isinstance(child, ast.expr) and (_asks_which(child) or isinstance(getattr(child, "ctx", None), ast.Store)):
            continue
        if isinstance(child, (ast.arguments, ast.expr_context)):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in node.decorator_list:
            continue
        yield _Step(step.module, child, step.calls, step.inside)


def _names_a_place(module: Module, call: ast.AST, given: ast.keyword) -> bool:
    """``cache_dir=f"/tmp/{rank}"``, and the root of a dataset that is downloaded whole: where a rank keeps the samples,
    not which."""
    return given.arg == "cache_dir" or (
        given.arg == "root" and isinstance(call, ast.Call) and _loads_whole(module, call)
    )


def _loads_whole(module: Module, call: ast.Call) -> bool:
    """Whether a call is of one of torchvision's or torchaudio's datasets that download all their samples, and does."""
    download = next((k.value for k in call.keywords if k.arg == "download"), None)
    whole = download is not None and not (isinstance(download, ast.Constant) and not download.value)
    return whole and any(q.startswith(("torchvision.datasets.", "torchaudio.datasets.")) for q in module.callee(call))


def _asks_which(node: ast.expr) -> bool:
    """``rank == 0``, ``rank in (-1, 0)``: whether something is printed or fetched here, not which samples."""
    if not isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return False
    return is_main_test(node) or is_not_main_test(node) or distributed_test(node) is not None


def _behind(step: _Step) -> Iterator[_Step]:
    """What stands behind a name, an attribute or a call."""
    module, node = step.module, step.node
    if isinstance(node, (ast.Name, ast.Attribute)):
        if isinstance(node, ast.Name) and node.id in _SETTINGS:
            return
        for where, d in _definitions(module, node):
            if d.kind == "parameter":
                if not step.inside and step.calls < _CALLS:
                    given = (value for _, value in arguments_given(where, d) if value is not None)
                    yield from (_Step(where, value, step.calls + 1, False) for value in given)
            elif d.value is not None and d.kind in ("assign", "loop", "augmented", "other"):
                yield _Step(where, d.value, step.calls, step.inside)
    elif isinstance(node, ast.Call) and step.calls < _CALLS:
        for cls in module.project_classes(node.func):
            for name in _METHODS:
                method = module.method(cls, name)
                if method is not None:
                    yield _Step(module.home(method), method, step.calls + 1, True)
        for where, function in called(module, node):
            for value in returned(where, function):
                yield _Step(where, value, step.calls + 1, True)


def _definitions(module: Module, node: ast.Name | ast.Attribute) -> list[tuple[Module, Definition]]:
    found = list(module.bindings.reaching(node))
    if not found and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_of(node)
        found = module.attribute_values(cls, node.attr) if cls is not None else []
    outside = [o for d in found if d.kind == "import" for q in sorted(module.qualify(node)) for o in module.named(q)]
    kept = [d for d in found if d.kind != "import"] + [d for d in outside if d.kind == "assign"]
    return [(module.home(d.node), d) for d in kept]


def called(module: Module, call: ast.Call) -> list[tuple[Module, ast.AST]]:
    """The functions of this project that a call may run, each with its module."""
    return [(module.home(f), f) for f in module.called_functions(call) if f.name != "__init__"]


def returned(module: Module, function: ast.AST) -> list[ast.expr]:
    """What a function returns or yields."""
    return [
        n.value
        for n in walk(function)
        if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)) and n.value is not None
        if module.function(n) is function
    ]


# What these build is read from front to back: torchtext's datasets are iterators since 0.9, data pipes since 0.12.
_STREAMS = ("webdataset.", "torchtext.datasets.")


def is_stream(module: Module, dataset: ast.expr) -> bool:
    """Whether a dataset may be an IterableDataset: a class of the project or of torch, a dataset that is loaded with
    ``streaming=True``, a WebDataset or an iterable data pipe; through names, factories and parameters. Not what is made
    in the other arm of a condition, nor where the loader is built for what is asked to be no IterableDataset."""
    module = module.home(dataset)
    if any(not holds and _asks_for_stream(module, test, dataset) for test, holds in conditions(module, dataset)):
        return False

    def sources(step: _Step) -> Iterator[_Step]:
        return (s for s in _stream_sources(step) if not apart(s.module, s.node, dataset))

    return any(
        isinstance(step.node, ast.Call) and _streams(step.module, step.node)
        for step in _walk(_Step(module, dataset, 0, False), sources)
    )


def _asks_for_stream(module: Module, test: ast.expr, dataset: ast.expr) -> bool:
    """``isinstance(dataset, IterableDataset)``."""
    if not (isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2):
        return False
    named = [test.args[1], *getattr(test.args[1], "elts", [])]
    asked = any(q.endswith("IterableDataset") for n in named for q in module.qualify(n))
    return asked and ast.dump(test.args[0]) == ast.dump(dataset)


def _stream_sources(step: _Step) -> Iterator[_Step]:
    """What a value may be the stream of: the receiver of ``.map(...)``, what a factory returns, the items of a pair."""
    node = step.node
    same: list[ast.expr] = []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):  # .map(...), .shuffle(...) of a stream are streams
            same = [node.func.value]
    elif isinstance(node, ast.IfExp):
        same = [node.body, node.orelse]
    elif isinstance(node, ast.Subscript):
        same = [node.value]
    elif isinstance(node, (ast.Tuple, ast.List)):
        same = node.elts
    elif isinstance(node, ast.Dict):
        same = node.values
    for inner in same:
        yield _Step(step.module, inner, step.calls, step.inside)
    if isinstance(node, ast.Call) and step.calls < _CALLS:
        for where, function in called(step.module, node):
            for value in returned(where, function):
                yield _Step(where, value, step.calls + 1, True)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield from _behind(step)


def _streams(module: Module, call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg == "streaming" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            return True
    callee = module.callee(call)
    if any(q.endswith("IterableDataset") or q.startswith(_STREAMS) or ".datapipes.iter." in q for q in callee):
        return True
    return any(
        b.endswith(("IterableDataset", "IterDataPipe"))
        for cls in module.project_classes(call.func)
        for b in module.bases(cls)
    )
