"""What becomes of ``sampler.set_epoch(e)`` when the sampler goes: the prepared loader is told, or nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfix.codemods._prepared_names import called_elsewhere, items, prepared_name, surely_prepared, tail_of
from shardfix.codemods._unused import pure

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import follow
from shardfix.analysis.loops.epochs import SetEpoch
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropStatement, Edit, InsertStatements, ReplaceExpression

_DEPTH = 8


@dataclass(frozen=True, eq=False)
class Retold:
    """The edits of one ``set_epoch`` call and the nodes that they take away; ``refused`` says why there are none."""

    edits: tuple[Edit, ...] = ()
    gone: frozenset[ast.AST] = frozenset()
    refused: str = ""


def needs_telling(site: Site, told: SetEpoch) -> bool:
    """Whether a call tells the site's sampler; ``loader.set_epoch`` is right as it is."""
    return told.receiver not in site.flow.aliases or isinstance(told.call.func, ast.Call)


def retell(told: SetEpoch, sites: Sequence[Site]) -> Retold:
    """Tell the prepared loaders instead of the samplers that ``sites`` lose.

    accelerate tells its loaders the epoch by itself, so where no name is sure to be the prepared loader the call just
    goes. A call that cannot go without taking something else along stays, if what it is called on does.
    """
    module = sites[0].module
    base = _loader_of(told.receiver)
    if base is not None and any(base in s.flow.aliases for s in sites):
        if isinstance(base, (ast.Name, ast.Attribute)) and surely_prepared(sites[0], base, told.call):
            return _tell(told, sites, [module.source.source(base)])
    stranger = _other_source(module, told.receiver, sites)
    if stranger:
        return Retold(refused=stranger)
    names = [prepared_name(site, told.call) for site in sites]
    if all(names) and not _of_many(module, told.receiver):
        return _tell(told, sites, list(dict.fromkeys(names)))
    return _drop(told, sites)


_DISTRIBUTED = (
    "set_epoch",
    "num_replicas",
    "rank",
    "epoch",
    "seed",
    "shuffle",
    "drop_last",
    "num_samples",
    "total_size",
)


def asked_through(site: Site) -> str:
    """Where something of a DistributedSampler is read through the loader that no edit rewrites: by a name that is not
    seen to be its sampler, or in another file. Empty if nowhere."""
    module = site.module
    rewritten = {t.call.func for t in site.told}
    for load in _sampler_loads(module):
        if _loader_of(load) not in site.flow.aliases and not (
            isinstance(load, ast.Call) and load.args[0] in site.flow.aliases
        ):
            continue
        for alias in follow(module, load).aliases:
            outer = module.parents[alias]
            if isinstance(outer, ast.Attribute) and outer.attr in _DISTRIBUTED and outer not in rewritten:
                if not _asked_before(module, outer):
                    return f"line {outer.lineno} reads {outer.attr} of the loader's sampler"
    known = {n.attr for n in site.flow.aliases if isinstance(n, ast.Attribute)}
    known |= {n.id for n in site.flow.aliases if isinstance(n, ast.Name) and not module.function(n)}
    tail = tail_of(module.name)
    for other in module.fellows:
        if other is module:
            continue
        imports = [d.module for d in other.bindings.definitions if d.kind == "import"]
        knows = any(tail_of(m) == tail or tail_of(m.rpartition(".")[0]) == tail for m in imports)
        for load in _sampler_loads(other):
            base = _loader_of(load)
            outer = other.parents[load]
            if base is None or not isinstance(outer, ast.Attribute) or outer.attr not in _DISTRIBUTED:
                continue
            same = last_name(base) in known or (knows and bool(site.flow.of("returned")))
            if same and not _asked_before(other, outer):
                return f"{other.path}:{outer.lineno} reads {outer.attr} of what may be this loader's sampler"
    return ""


def _sampler_loads(module: Module) -> Iterator[ast.expr]:
    """``x.sampler`` and ``getattr(x, "sampler", ..)``."""
    yield from module.attribute_loads.get("sampler", [])
    for call in module.calls:
        if last_name(call.func) == "getattr" and len(call.args) > 1:
            name = call.args[1]
            if isinstance(name, ast.Constant) and name.value == "sampler":
                yield call


def _asked_before(module: Module, node: ast.AST) -> bool:
    """Whether a test around asks what kind of sampler it is."""
    tests = [n.test for n in module.around(node) if isinstance(n, (ast.If, ast.IfExp))]
    calls = [n for test in tests for n in ast.walk(test) if isinstance(n, ast.Call)]
    return any(last_name(c.func) in ("isinstance", "hasattr") for c in calls)


def _loader_of(receiver: ast.expr) -> ast.expr | None:
    """``loader`` of ``loader.sampler`` and ``loader.batch_sampler.sampler``."""
    node: ast.expr = receiver
    while isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler"):
        node = node.value
    return None if node is receiver else node


def _of_many(module: Module, receiver: ast.expr) -> bool:
    """Whether a call is made on each item of something whose items are not written out beside it."""
    root = receiver
    while isinstance(root, ast.Attribute):
        root = root.value
    found = module.bindings.reaching(root)
    return any(d.kind == "loop" and d.value is not None and items(d.value) is None for d in found)


# --- the edits ---


def _tell(told: SetEpoch, sites: Sequence[Site], names: Sequence[str]) -> Retold:
    """Call ``set_epoch`` on the loaders. A guard that only asks about the sampler goes, one that also asks something
    else keeps the rest."""
    module = sites[0].module
    statement = module.statement(told.call)
    dropped, test, rest = _unguarded(sites, statement)
    alone = isinstance(statement, ast.Expr) and statement.value is told.call
    edits: list[Edit] = []
    gone: set[ast.AST] = set(ast.walk(told.receiver))
    plain = isinstance(told.call.func, ast.Attribute)
    if len(names) == 1 and plain and (dropped is statement or not alone):
        edits.append(ReplaceExpression(*module.place(told.receiver), names[0]))
        dropped = statement
    elif not alone or told.argument is None:
        return _drop(told, sites)
    else:
        whole = _whole_loop(module, dropped) if len(sites) > 1 else dropped
        if whole is None:
            return _drop(told, sites)
        dropped = whole
        argument = module.source.source(told.argument)
        lines = tuple(f"{name}.set_epoch({argument})" for name in names)
        edits.append(InsertStatements(*module.place(dropped), "before", lines))
        edits.append(DropStatement(*module.place(dropped)))
        gone.update(ast.walk(dropped))
    guard = module.parents[dropped]
    if test is not None and isinstance(guard, ast.If) and guard.test is test and "\n" not in rest:
        edits.append(ReplaceExpression(*module.place(test), rest))
        gone.update(n for part in _conjuncts(test) if _question(sites, part) for n in ast.walk(part))
    return Retold(tuple(edits), frozenset(gone))


def _unguarded(sites: Sequence[Site], statement: ast.stmt) -> tuple[ast.stmt, ast.expr | None, str]:
    """A statement with the guards around it that only ask about the sampler; the test of the next guard, if it asks
    about the sampler among other things, and what is left of that."""
    module = sites[0].module
    while True:
        guard = module.parents[statement]
        if not (isinstance(guard, ast.If) and guard.body == [statement] and not guard.orelse):
            return statement, None, ""
        parts = _conjuncts(guard.test)
        others = [p for p in parts if not _question(sites, p)]
        if others:
            rest = " and ".join(_source(module, p, alone=len(others) == 1) for p in others)
            return statement, guard.test if len(others) < len(parts) else None, rest
        statement = guard


def _source(module: Module, part: ast.expr, alone: bool) -> str:
    source = module.source.source(part)
    loose = isinstance(part, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr))
    return f"({source})" if loose and not alone else source


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _question(sites: Sequence[Site], test: ast.expr) -> bool:
    """Whether a test asks what the sampler is, and nothing else: ``isinstance``, ``hasattr``, ``is not None`` on it."""
    samplers = {n for s in sites for arm in sampler_arms(s) for n in s.sampler_flow(arm).aliases}
    loaders = {n for s in sites for n in s.flow.aliases}
    asked = False
    stack: list[ast.AST] = [test]
    while stack:
        node = stack.pop()
        if node in samplers:
            asked = True
        elif isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler"):
            if _loader_of(node) not in loaders:
                return False
            asked = True
        elif isinstance(node, ast.Call):
            if last_name(node.func) not in ("isinstance", "hasattr", "getattr", "type") or not node.args:
                return False
            if node.args[0] in loaders and last_name(node.func) == "getattr":
                asked = True
            else:
                stack.append(node.args[0])
        elif isinstance(node, (ast.Name, ast.Attribute, ast.NamedExpr, ast.Await)):
            return False
        else:
            stack.extend(ast.iter_child_nodes(node))
    return asked and pure(test)


def _whole_loop(module: Module, statement: ast.stmt) -> ast.stmt | None:
    """A statement for several samplers: the loop over them around it, if that does nothing else. None if it does."""
    loop = module.parents[statement]
    if not isinstance(loop, ast.For) or items(loop.iter) is None:
        return statement
    targets = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    inside = set(ast.walk(loop))
    read = [u for t in targets for d in module.bindings.definitions_at(t, t.id) for u in module.bindings.readers(d)]
    if loop.body != [statement] or loop.orelse or not pure(loop.iter) or any(use not in inside for use in read):
        return None
    return loop


def _drop(told: SetEpoch, sites: Sequence[Site]) -> Retold:
    """Take the call away with its statement, and with the blocks that hold nothing else."""
    module = sites[0].module
    statement = module.statement(told.call)
    line = told.call.lineno
    if _goes(module, statement, told.call):
        dropped: ast.stmt | None = statement
        while dropped is not None and module.block(dropped) == [dropped]:
            dropped = _goes_with(module, dropped)
        if dropped is not None:
            edit = DropStatement(*module.place(dropped))
            return Retold((edit,), frozenset(ast.walk(dropped)))
    loaders = {n for s in sites for n in s.flow.aliases}
    if any(n in loaders for n in ast.walk(told.call)):
        return Retold(refused=f"set_epoch in line {line} is called on the loader's sampler, amid other things")
    return Retold()  # it stays, and so does the sampler that it is called on


def _goes(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement does nothing but tell the epoch."""
    if any(not pure(a) for a in [*call.args, *(k.value for k in call.keywords)]):
        return False
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0]
        return isinstance(target, ast.Name) and not any(
            module.bindings.readers(d) for d in module.bindings.definitions_at(target, target.id)
        )
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) and value.values[-1] is call:
        return all(pure(v) for v in value.values[:-1])
    if isinstance(value, ast.IfExp) and call in (value.body, value.orelse):
        other = value.orelse if value.body is call else value.body
        return pure(value.test) and pure(other)
    return value is call


def _goes_with(module: Module, statement: ast.stmt) -> ast.stmt | None:
    """The statement around a block that is all of it, if it asks or iterates without effect."""
    outer = module.parents[statement]
    if isinstance(outer, ast.If) and statement in outer.body and not outer.orelse and pure(outer.test):
        return outer
    if isinstance(outer, ast.For) and statement in outer.body and not outer.orelse and items(outer.iter) is not None:
        return _whole_loop(module, statement)
    return None


# --- what a call is made on ---


def sampler_arms(site: Site) -> Iterator:  # type: ignore[type-arg]
    """Every sampler that is constructed for a site, also within a batch sampler."""
    for arm in (*site.arms, *(i for b in site.batch_arms for i in b.inner)):
        if isinstance(arm.node, ast.Call):
            yield arm


def _other_source(module: Module, receiver: ast.expr, sites: Sequence[Site]) -> str:
    """Why a ``set_epoch`` call may also tell a sampler that stays; empty if it tells only those that go."""
    for function in _parameter_functions(module, receiver):
        if called_elsewhere(module, function):
            return f"{function.name}() in line {function.lineno} tells what other files hand to it, too"
    ours = {arm.node for s in sites for arm in sampler_arms(s)}
    for source in _sources(module, receiver, 0):
        if isinstance(source, ast.Call) and source not in ours and last_name(source.func).endswith("Sampler"):
            return f"the set_epoch that it is told by tells the sampler of line {source.lineno}, too"
    return ""


def _sources(module: Module, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """The expressions whose value a name may have, followed through names, loops and parameters of the file."""
    if depth > _DEPTH:
        return
    if isinstance(node, ast.IfExp):
        yield from _sources(module, node.body, depth + 1)
        yield from _sources(module, node.orelse, depth + 1)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        for d in module.bindings.reaching(node):
            for value in _values(module, d):
                yield from _sources(module, value, depth + 1)
    elif isinstance(node, ast.NamedExpr):
        yield from _sources(module, node.value, depth + 1)
    else:
        yield node


def _values(module: Module, d: Definition) -> list[ast.expr]:
    if d.kind == "loop" and d.value is not None:
        return items(d.value) or []
    if d.kind == "assign" and d.value is not None and d.index is None:
        return [d.value]
    if d.kind == "parameter" and isinstance(d.statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [v for _, v in arguments_given(module, d) if v is not None]
    return []


def _parameter_functions(module: Module, node: ast.expr) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    found = [d.scope for d in module.bindings.reaching(root) if d.kind == "parameter" and d.key not in ("self", "cls")]
    return [s for s in found if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))]
