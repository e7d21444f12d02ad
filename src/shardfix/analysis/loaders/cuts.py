"""Where a dataset is seen to be cut by rank: what its length and its samples are made of takes one rank's part.

A rank that is only told to a dataset cuts nothing. Followed is the one value that the loader reads: through names,
items of tuples and dicts, what functions return and are given by the call that led into them, and, of a class of the
project, what ``__len__`` counts or ``__iter__`` yields.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import returns_of, walk
from shardfix.analysis.loaders.branches import apart, conditions
from shardfix.analysis.loaders.entered import Path, Value, definitions, may_run, passed
from shardfix.analysis.programs.processes import is_main_test, is_not_main_test, is_rank, is_world_size, leaves

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 5  # calls that a value is followed into, one within the other
_LIMIT = 3000  # values that are followed; a dataset of more is judged by these
_RANGES = frozenset({"range", "arange", "islice"})
_BY_NODE = frozenset({"split_dataset_by_node", "split_by_node"})
_SELECTS = frozenset({"shard", "split_dataset_by_node"})
_FILLS = frozenset({"append", "extend", "insert", "add", "update", "appendleft"})
# What these are told chooses no samples.
_SETTINGS = frozenset(
    {"args", "cfg", "config", "conf", "opt", "opts", "options", "hparams", "params", "FLAGS", "flags"}
)
_ELSEWHERE = frozenset({"to", "cuda", "device", "set_device", "tqdm", "trange"})
_KEYWORDS = frozenset({"device", "map_location", "disable", "desc", "seed", "generator", "device_map", "device_ids"})


def cut_in(module: Module, dataset: ast.expr) -> tuple[Module, ast.AST] | None:
    """The expression by which a dataset, or the indices of a sampler, are cut by rank; None if none is seen."""
    queue = deque([Value(module.home(dataset), dataset)])
    seen: set[Value] = set()
    while queue and len(seen) < _LIMIT:
        value = queue.popleft()
        if value in seen or apart(module, value.node, dataset):
            continue
        seen.add(value)
        found = _cut(value)
        if found is not None:
            return value.module, found
        queue.extend(_behind(value))
    return None


# -- what cuts -----------------------------------------------------------------------------------------------------


def _cut(value: Value) -> ast.AST | None:
    """The rank by which a value is one part of another: ``files[rank::world]``, ``parts[rank]``,
    ``range(rank, n, world)``, ``ds.shard(world, rank)``, or what is chosen by ``i % world == rank``."""
    node = value.node
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return None if is_rank(node) else _rank_told(value, node.slice)
    if isinstance(node, ast.Compare):
        return _of_remainder(value, node)
    if isinstance(node, ast.Call):
        name, given = last_name(node.func), arguments_of(node)
        told = (_rank_told(value, a) for a in given) if name in _RANGES | _SELECTS else ()
        by_node = name in _BY_NODE or any(last_name(a) in _BY_NODE for a in given)
        return next((rank for rank in told if rank is not None), node if by_node else None)
    return None


def _of_remainder(value: Value, test: ast.Compare) -> ast.expr | None:
    """The rank of ``i % world == rank``, or of ``!=`` where the others are left out; not of ``rank % gpus == 0``, which
    asks for the process."""
    sides = (test.left, *test.comparators)
    divided = [s for s in sides if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(s))]
    told = (_rank_told(value, s) for s in sides if s not in divided)
    return next((rank for rank in told if rank is not None), None) if divided else None


def _rank_told(value: Value, node: ast.expr) -> ast.expr | None:
    """The rank that an expression reads."""
    read = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))]
    return next((n for n in read if _is_rank(Value(value.module, n, value.via), 0)), None)


def _is_rank(value: Value, depth: int) -> bool:
    """Whether an expression is a rank: by its name, unless it is seen to be something else, or by what it is given."""
    module, node = value.module, value.node
    if isinstance(node, (ast.Call, ast.Subscript)):
        return is_rank(node)
    if not isinstance(node, (ast.Name, ast.Attribute)) or depth > _DEPTH:
        return False
    named = is_rank(node)
    seen: list[bool] = []
    for where, d in definitions(module, node):
        if d.kind == "loop":
            seen.append(False)  # a place in a ranking, or each rank in turn
        elif d.kind == "parameter":
            given = list(passed(where, d, value.via))
            seen += [_is_number(v, depth + 1) for v in given] or [named]
        elif d.kind == "assign" and d.value is not None and d.index is None:
            seen.append(_is_number(Value(where, d.value, value.via), depth + 1))
        else:
            seen.append(named)
    return any(seen) if seen else named


def _is_number(value: Value, depth: int) -> bool:
    """Whether a value is a rank or computed of one: ``rank``, ``rank % 8``, ``get_rank() if distributed else 0``."""
    node = value.node
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _is_rank(value, depth)
    if isinstance(node, ast.Call) and not is_rank(node) and last_name(node.func) != "int":
        return False
    if is_rank(node):
        return True
    parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)] if depth <= _DEPTH else []
    return any(_is_number(Value(value.module, n, value.via), depth + 1) for n in parts)


# -- what a value is made of ---------------------------------------------------------------------------------------


def _behind(value: Value) -> Iterator[Value]:
    module, node, via, path = value.module, value.node, value.via, value.path
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield from _bound(value)
    elif isinstance(node, ast.Call):
        yield from _called(value)
    elif isinstance(node, ast.Subscript):
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        taken = (index, *path) if isinstance(index, (int, str)) else ()
        yield Value(module, node.value, via, taken)
        if not isinstance(node.slice, ast.Constant):
            yield Value(module, node.slice, via)
    elif isinstance(node, (ast.Tuple, ast.List)):
        first = path[0] if path else None
        plain = not any(isinstance(e, ast.Starred) for e in node.elts)
        if isinstance(first, int) and plain and -len(node.elts) <= first < len(node.elts):
            yield Value(module, node.elts[first], via, path[1:])
        else:
            yield from (Value(module, e, via) for e in node.elts)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            if path and isinstance(key, ast.Constant) and key.value != path[0]:
                continue
            yield Value(module, item, via, path[1:] if key is not None else path)
    elif isinstance(node, ast.IfExp):
        if not (is_main_test(node.test) or is_not_main_test(node.test)):
            yield from (Value(module, n, via, path) for n in (node.body, node.orelse))
    elif isinstance(node, ast.Lambda):
        yield Value(module, node.body, via)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        for generator in node.generators:
            yield from (Value(module, n, via) for n in (generator.iter, *generator.ifs))
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        yield from (Value(module, n, via) for n in results)
    elif not isinstance(node, (ast.Constant, ast.JoinedStr)):
        yield from (Value(module, n, via) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))


def _bound(value: Value) -> Iterator[Value]:
    """What a name or an attribute holds: what is assigned, what is given to a parameter, what it is filled with."""
    module, node, via, path = value.module, value.node, value.via, value.path
    assert isinstance(node, (ast.Name, ast.Attribute))
    if isinstance(node, ast.Name) and node.id in _SETTINGS:
        return
    found = definitions(module, node)
    for where, d in found:
        if d.kind == "parameter":
            yield from (Value(v.module, v.node, v.via, path) for v in passed(where, d, via))
        elif d.value is not None and may_run(where, d.node, via):
            taken = path if d.index is None else (d.index, *path) if d.index >= 0 else ()
            yield Value(where, d.value, via, taken if d.kind == "assign" else ())
            if d.kind == "augmented" and isinstance(d.node, (ast.Name, ast.Attribute)):
                yield Value(where, d.node, via, path)
        for item in _filled(where, d, path):
            yield Value(where, item, via)
    if not found and isinstance(node, ast.Attribute):
        yield Value(module, node.value, via)


def _filled(module: Module, d: Definition, path: Path) -> Iterator[ast.expr]:
    """What a list or dict is filled with behind its making, and the conditions under which it is."""
    if d.kind != "assign":
        return
    fills: list[tuple[ast.AST, list[ast.expr]]] = []
    for use in _uses(module, d):
        parent = module.parents[use]
        above = module.parents.get(parent)
        if isinstance(parent, ast.Attribute) and parent.attr in _FILLS and isinstance(above, ast.Call):
            if above.func is parent:
                fills.append((above, arguments_of(above)))
        elif isinstance(parent, ast.Subscript) and parent.value is use and isinstance(parent.ctx, ast.Store):
            key = parent.slice.value if isinstance(parent.slice, ast.Constant) else None
            if not (path and key is not None and key != path[0]) and isinstance(above, ast.Assign):
                fills.append((above, [above.value]))
    for node, given in fills:
        yield from given
        yield from _choosing(module, node, [other for other, _ in fills])


def _uses(module: Module, d: Definition) -> Iterable[ast.expr]:
    if not d.key.startswith("self."):
        return module.bindings.readers(d)
    cls = module.class_of(d.node)
    loads = module.home(d.node).attribute_loads.get(d.key[5:], ())
    return [n for n in loads if module.class_of(n) is cls and isinstance(n.value, ast.Name) and n.value.id == "self"]


def _choosing(module: Module, node: ast.AST, others: list[ast.AST]) -> Iterator[ast.expr]:
    """The conditions under which a place runs, as far as they may choose samples: none of which the other outcome
    leads to such a place too, so that each sample is taken in one way or the other."""
    around = set(module.around(node))
    for test, _ in conditions(module, node):
        if not isinstance(test, ast.Compare):
            continue
        asks = next(n for n in module.around(test) if isinstance(n, (ast.If, ast.IfExp)))
        if isinstance(asks, ast.If):
            here = asks in around and any(s in around or s is node for s in asks.body)
            arm = asks.orelse if here else asks.body
            if here and not arm and leaves(asks.body):
                block = module.block(asks)
                arm = block[block.index(asks) + 1 :] if asks in block else []
            if any(n in others for s in arm for n in ast.walk(s)):
                continue
        yield test


def _called(value: Value) -> Iterator[Value]:
    """What a call makes its result of: what the project's own function returns, what counts in its class, or, of any
    other function, the object that it is a method of and its arguments."""
    module, node, via, path = value.module, value.node, value.via, value.path
    assert isinstance(node, ast.Call)
    classes = module.project_classes(node.func)
    if len(via) < _DEPTH and node not in via:
        inside = (*via, node)
        if classes:
            for cls in classes:
                yield from _of_class(module, cls, node, inside)
            return
        functions = [f for f in module.called_functions(node) if f.name != "__init__"]
        for function in functions:
            where = module.home(function)
            yield from (Value(where, v, inside, path) for v in returns_of(function))
            yield from _yielded(where, function, inside)
        if functions:
            return
    if isinstance(node.func, ast.Attribute):
        yield Value(module, node.func.value, via)
    if last_name(node.func) not in _ELSEWHERE:
        yield from (Value(module, a, via) for a in node.args)
        yield from (Value(module, k.value, via) for k in node.keywords if k.arg not in _KEYWORDS)


def _yielded(module: Module, function: ast.AST, via: tuple[ast.Call, ...]) -> Iterator[Value]:
    """What a generator gives: what it yields, under which conditions, and what it goes through."""
    yields = [n for n in walk(function) if isinstance(n, (ast.Yield, ast.YieldFrom)) and module.function(n) is function]
    for node in yields:
        if node.value is not None:
            yield Value(module, node.value, via)
        yield from (Value(module, test, via) for test in _choosing(module, node, list(yields)))
        loops = [n for n in module.around(node) if isinstance(n, ast.For) and module.function(n) is function]
        yield from (Value(module, loop.iter, via) for loop in loops)


def _of_class(module: Module, cls: ast.ClassDef, made: ast.Call, via: tuple[ast.Call, ...]) -> Iterator[Value]:
    """What the samples of a class of the project are: what ``__len__`` counts, and what ``__getitem__`` takes by rank;
    of a stream, what ``__iter__`` yields; where a library's base class says how many, what that is given or what of
    its attributes is put anew."""
    length, draws = module.method(cls, "__len__"), module.method(cls, "__iter__")
    item = module.method(cls, "__getitem__")
    if length is not None:
        where = module.home(length)
        yield from (Value(where, v, via) for v in returns_of(length))
        if item is not None:
            yield from _taken(module.home(item), item, via)
        return
    if draws is not None:
        where = module.home(draws)
        yield from (Value(where, v, via) for v in returns_of(draws))
        yield from _yielded(where, draws, via)
        return
    begins = module.method(cls, "__init__")
    if begins is None:
        yield from (Value(module, a, via[:-1]) for a in made.args)
        yield from (Value(module, k.value, via[:-1]) for k in made.keywords if k.arg not in _KEYWORDS)
        return
    where = module.home(begins)
    for n in walk(begins):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "__init__":
            yield from (Value(where, a, via) for a in n.args if not (isinstance(a, ast.Name) and a.id == "self"))
            yield from (Value(where, k.value, via) for k in n.keywords if k.arg not in _KEYWORDS)
        elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Attribute):
            again = ast.unparse(n.targets[0])
            if any(isinstance(r, ast.Attribute) and ast.unparse(r) == again for r in ast.walk(n.value)):
                yield Value(where, n.value, via)


def _taken(module: Module, item: ast.AST, via: tuple[ast.Call, ...]) -> Iterator[Value]:
    """``self.files[i * world + rank]``: the place that a sample is read from, where rank and size are told with it."""
    assert isinstance(item, _Function)
    names = {a.arg for a in item.args.args[1:2]}
    for n in walk(item):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.BinOp):
            read = [r for r in ast.walk(n.slice) if isinstance(r, ast.expr)]
            if any(isinstance(r, ast.Name) and r.id in names for r in read) and any(is_world_size(r) for r in read):
                yield Value(module, n, via)
