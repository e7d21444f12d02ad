"""Where a dataset is seen to be cut by rank: what its length and its samples are made of takes one rank's part.

A rank that is only told to a dataset cuts nothing. Followed is the one value that the loader reads: through names,
items of tuples and dicts, what functions return and are given by the call that led into them, and, of a class of the
project, what ``__len__`` counts or ``__iter__`` yields.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of, arguments_given, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import returns_of, walk
from shardfix.analysis.loaders.branches import apart, conditions
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

Path = tuple[int | str, ...]  # the items that are taken of a value, the outermost first


@dataclass(frozen=True, slots=True)
class _Value:
    """A value to look at.

    Args:
        via: the calls that led into the function it stands in, the last one last: they say what its parameters are.
        path: which item of it is meant.
    """

    module: Module
    node: ast.expr
    via: tuple[ast.Call, ...] = ()
    path: Path = ()


def cut_in(module: Module, dataset: ast.expr) -> tuple[Module, ast.AST] | None:
    """The expression by which a dataset, or the indices of a sampler, are cut by rank; None if none is seen."""
    queue = deque([_Value(module.home(dataset), dataset)])
    seen: set[_Value] = set()
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


def _cut(value: _Value) -> ast.AST | None:
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


def _of_remainder(value: _Value, test: ast.Compare) -> ast.expr | None:
    """The rank of ``i % world == rank``, or of ``!=`` where the others are left out; not of ``rank % gpus == 0``, which
    asks for the process."""
    sides = (test.left, *test.comparators)
    divided = [s for s in sides if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(s))]
    told = (_rank_told(value, s) for s in sides if s not in divided)
    return next((rank for rank in told if rank is not None), None) if divided else None


def _rank_told(value: _Value, node: ast.expr) -> ast.expr | None:
    """The rank that an expression reads."""
    read = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))]
    return next((n for n in read if _is_rank(_Value(value.module, n, value.via), 0)), None)


def _is_rank(value: _Value, depth: int) -> bool:
    """Whether an expression is a rank: by its name, unless it is seen to be something else, or by what it is given."""
    module, node = value.module, value.node
    if isinstance(node, (ast.Call, ast.Subscript)):
        return is_rank(node)
    if not isinstance(node, (ast.Name, ast.Attribute)) or depth > _DEPTH:
        return False
    named = is_rank(node)
    seen: list[bool] = []
    for where, d in _definitions(module, node):
        if d.kind == "loop":
            seen.append(False)  # a place in a ranking, or each rank in turn
        elif d.kind == "parameter":
            given = list(_given(where, d, value.via))
            seen += [_is_number(v, depth + 1) for v in given] or [named]
        elif d.kind == "assign" and d.value is not None and d.index is None:
            seen.append(_is_number(_Value(where, d.value, value.via), depth + 1))
        else:
            seen.append(named)
    return any(seen) if seen else named


def _is_number(value: _Value, depth: int) -> bool:
    """Whether a value is a rank or computed of one: ``rank``, ``rank % 8``, ``get_rank() if distributed else 0``."""
    node = value.node
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _is_rank(value, depth)
    if isinstance(node, ast.Call) and not is_rank(node) and last_name(node.func) != "int":
        return False
    if is_rank(node):
        return True
    parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)] if depth <= _DEPTH else []
    return any(_is_number(_Value(value.module, n, value.via), depth + 1) for n in parts)


# -- what a value is made of ---------------------------------------------------------------------------------------


def _behind(value: _Value) -> Iterator[_Value]:
    module, node, via, path = value.module, value.node, value.via, value.path
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield from _bound(value)
    elif isinstance(node, ast.Call):
        yield from _called(value)
    elif isinstance(node, ast.Subscript):
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        taken = (index, *path) if isinstance(index, (int, str)) else ()
        yield _Value(module, node.value, via, taken)
        if not isinstance(node.slice, ast.Constant):
            yield _Value(module, node.slice, via)
    elif isinstance(node, (ast.Tuple, ast.List)):
        first = path[0] if path else None
        plain = not any(isinstance(e, ast.Starred) for e in node.elts)
        if isinstance(first, int) and plain and -len(node.elts) <= first < len(node.elts):
            yield _Value(module, node.elts[first], via, path[1:])
        else:
            yield from (_Value(module, e, via) for e in node.elts)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            if path and isinstance(key, ast.Constant) and key.value != path[0]:
                continue
            yield _Value(module, item, via, path[1:] if key is not None else path)
    elif isinstance(node, ast.IfExp):
        if not (is_main_test(node.test) or is_not_main_test(node.test)):
            yield from (_Value(module, n, via, path) for n in (node.body, node.orelse))
    elif isinstance(node, ast.Lambda):
        yield _Value(module, node.body, via)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        for generator in node.generators:
            yield from (_Value(module, n, via) for n in (generator.iter, *generator.ifs))
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        yield from (_Value(module, n, via) for n in results)
    elif not isinstance(node, (ast.Constant, ast.JoinedStr)):
        yield from (_Value(module, n, via) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))


def _bound(value: _Value) -> Iterator[_Value]:
    """What a name or an attribute holds: what is assigned, what is given to a parameter, what it is filled with."""
    module, node, via, path = value.module, value.node, value.via, value.path
    assert isinstance(node, (ast.Name, ast.Attribute))
    if isinstance(node, ast.Name) and node.id in _SETTINGS:
        return
    found = _definitions(module, node)
    for where, d in found:
        if d.kind == "parameter":
            yield from (_Value(v.module, v.node, v.via, path) for v in _given(where, d, via))
        elif d.value is not None and _may_hold(where, d, via):
            taken = path if d.index is None else (d.index, *path) if d.index >= 0 else ()
            yield _Value(where, d.value, via, taken if d.kind == "assign" else ())
            if d.kind == "augmented" and isinstance(d.node, (ast.Name, ast.Attribute)):
                yield _Value(where, d.node, via, path)
        for item in _filled(where, d, path):
            yield _Value(where, item, via)
    if not found and isinstance(node, ast.Attribute):
        yield _Value(module, node.value, via)


def _definitions(module: Module, node: ast.Name | ast.Attribute) -> list[tuple[Module, Definition]]:
    found = list(module.bindings.reaching(node))
    if not found and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_of(node)
        for member in module.lineage(cls) if cls is not None else ():
            found += module.attribute_values(member, node.attr)
    outside = [o for d in found if d.kind == "import" for q in sorted(module.qualify(node)) for o in module.named(q)]
    kept = [d for d in found if d.kind not in ("import", "function", "class")]
    return [(module.home(d.node), d) for d in (*kept, *(d for d in outside if d.kind == "assign"))]


def _given(module: Module, d: Definition, via: tuple[ast.Call, ...]) -> Iterator[_Value]:
    """What a parameter is given: by the call that led here, where one did, else by each that the project makes."""
    function = d.scope
    if not isinstance(function, _Function) or not isinstance(d.node, ast.arg):
        return
    if via:
        call = via[-1]
        where = module.home(call)
        if function in where.called_functions(call):
            yield from _argument(where, function, call, d.key, via[:-1])
            return
        made = where.project_classes(call.func)
        lineage = [m for cls in made for m in module.lineage(cls)]
        if function.name == "__init__" and module.parents[function] in lineage:
            for inner in module.callers(function):  # super().__init__(files) of a derived class
                if module.home(inner).class_of(inner) in lineage:
                    yield from _argument(module.home(inner), function, inner, d.key, via)
            return
    for call, given in arguments_given(module, d):
        if given is not None:
            yield _Value(module.home(call), given)


def _argument(
    where: Module, function: ast.AST, call: ast.Call, name: str, via: tuple[ast.Call, ...]
) -> Iterator[_Value]:
    assert isinstance(function, _Function)
    given = argument_of(where, function, call, name)
    if given is not None:
        yield _Value(where, given, via)
        return
    default = default_of(function, name)
    opaque = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    if default is not None and not opaque:
        yield _Value(where.home(function), default)


def _may_hold(module: Module, d: Definition, via: tuple[ast.Call, ...]) -> bool:
    """Whether an assignment may run where its function's parameters are what the call gives: not ``if train:`` of a
    dataset that is made with ``train=False``."""
    return all(_outcome(module, test, via) in (None, holds) for test, holds in conditions(module, d.node) if via)


def _outcome(module: Module, test: ast.expr, via: tuple[ast.Call, ...]) -> bool | None:
    """What a condition on one parameter is, where the call gives it a literal."""
    compared = isinstance(test, ast.Compare) and len(test.ops) == 1
    name = test.left if isinstance(test, ast.Compare) else test
    if not isinstance(name, (ast.Name, ast.Attribute)):
        return None
    given = _literals(module, name, via, 0)
    if len(given) != 1:
        return None
    (held,) = given
    if not compared:
        return bool(held)
    assert isinstance(test, ast.Compare)
    op, right = test.ops[0], test.comparators[0]
    if isinstance(right, ast.Constant) and isinstance(op, (ast.Eq, ast.Is)):
        return held == right.value
    if isinstance(right, ast.Constant) and isinstance(op, (ast.NotEq, ast.IsNot)):
        return held != right.value
    if isinstance(right, (ast.Tuple, ast.List, ast.Set)) and isinstance(op, ast.In):
        if all(isinstance(e, ast.Constant) for e in right.elts):
            return held in [e.value for e in right.elts if isinstance(e, ast.Constant)]
    return None


def _literals(module: Module, node: ast.expr, via: tuple[ast.Call, ...], depth: int) -> set[object]:
    """The literals that a name may be; an Ellipsis stands for anything else."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if not isinstance(node, (ast.Name, ast.Attribute)) or depth > 3:
        return {...}
    found: set[object] = set()
    for where, d in _definitions(module, node):
        if d.kind == "parameter" and via:
            given = list(_given(where, d, via))
            found |= {x for v in given for x in _literals(v.module, v.node, v.via, depth + 1)} or {..., ""}
        elif d.kind == "assign" and d.value is not None and d.index is None:
            found |= _literals(where, d.value, via, depth + 1)
        else:
            found |= {..., ""}
    return found if ... not in found else {..., ""}


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


def _called(value: _Value) -> Iterator[_Value]:
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
            yield from (_Value(where, v, inside, path) for v in returns_of(function))
            yield from _yielded(where, function, inside)
        if functions:
            return
    if isinstance(node.func, ast.Attribute):
        yield _Value(module, node.func.value, via)
    if last_name(node.func) not in _ELSEWHERE:
        yield from (_Value(module, a, via) for a in node.args)
        yield from (_Value(module, k.value, via) for k in node.keywords if k.arg not in _KEYWORDS)


def _yielded(module: Module, function: ast.AST, via: tuple[ast.Call, ...]) -> Iterator[_Value]:
    """What a generator gives: what it yields, under which conditions, and what it goes through."""
    yields = [n for n in walk(function) if isinstance(n, (ast.Yield, ast.YieldFrom)) and module.function(n) is function]
    for node in yields:
        if node.value is not None:
            yield _Value(module, node.value, via)
        yield from (_Value(module, test, via) for test in _choosing(module, node, list(yields)))
        loops = [n for n in module.around(node) if isinstance(n, ast.For) and module.function(n) is function]
        yield from (_Value(module, loop.iter, via) for loop in loops)


def _of_class(module: Module, cls: ast.ClassDef, made: ast.Call, via: tuple[ast.Call, ...]) -> Iterator[_Value]:
    """What the samples of a class of the project are: what ``__len__`` counts, and what ``__getitem__`` takes by rank;
    of a stream, what ``__iter__`` yields; where a library's base class says how many, what that is given or what of
    its attributes is put anew."""
    length, draws = module.method(cls, "__len__"), module.method(cls, "__iter__")
    item = module.method(cls, "__getitem__")
    if length is not None:
        where = module.home(length)
        yield from (_Value(where, v, via) for v in returns_of(length))
        if item is not None:
            yield from _taken(module.home(item), item, via)
        return
    if draws is not None:
        where = module.home(draws)
        yield from (_Value(where, v, via) for v in returns_of(draws))
        yield from _yielded(where, draws, via)
        return
    begins = module.method(cls, "__init__")
    if begins is None:
        yield from (_Value(module, a, via[:-1]) for a in made.args)
        yield from (_Value(module, k.value, via[:-1]) for k in made.keywords if k.arg not in _KEYWORDS)
        return
    where = module.home(begins)
    for n in walk(begins):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "__init__":
            yield from (_Value(where, a, via) for a in n.args if not (isinstance(a, ast.Name) and a.id == "self"))
            yield from (_Value(where, k.value, via) for k in n.keywords if k.arg not in _KEYWORDS)
        elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Attribute):
            again = ast.unparse(n.targets[0])
            if any(isinstance(r, ast.Attribute) and ast.unparse(r) == again for r in ast.walk(n.value)):
                yield _Value(where, n.value, via)


def _taken(module: Module, item: ast.AST, via: tuple[ast.Call, ...]) -> Iterator[_Value]:
    """``self.files[i * world + rank]``: the place that a sample is read from, where rank and size are told with it."""
    assert isinstance(item, _Function)
    names = {a.arg for a in item.args.args[1:2]}
    for n in walk(item):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.BinOp):
            read = [r for r in ast.walk(n.slice) if isinstance(r, ast.expr)]
            if any(isinstance(r, ast.Name) and r.id in names for r in read) and any(is_world_size(r) for r in read):
                yield _Value(module, n, via)
