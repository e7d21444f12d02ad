"""Whether a model that all ranks are to evaluate is the same on all: not changed by one process, nor its statistics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import WRAPPERS_DDP, last_name
from shardfix.analysis.loops.dividing import PLAIN, Divided, close
from shardfix.analysis.loops.effects import HERE
from shardfix.analysis.programs.processes import distributed_test, every_guard
from shardfix.analysis.programs.together import together

_UPDATES = re.compile(r"update|ema|swa|average|load_state|copy_|sync|swap|apply", re.IGNORECASE)
_NORMED = re.compile(r"BatchNorm|torchvision|timm|resnet|inception|densenet|mobilenet|efficientnet", re.IGNORECASE)
_ALONE = "only the main process calls `{}(..)`"
_UNWRAPPED = (
    "`{}` is the model without its DistributedDataParallel: the statistics of BatchNorm are each rank's own there"
)


def same_weights(module: Module, divided: Sequence[Divided]) -> None:
    """See that what is evaluated is the same on all ranks.

    Args:
        divided: statements that are divided between all ranks and one process.

    Raises:
        Closed: one process alone changes it, or its statistics are each rank's own.
    """
    nodes = list(_shared_nodes(divided))
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    read = names.union(*(_of_the_module(module.home(n), n) for n in nodes if isinstance(n, ast.Call)))
    shared = {s for d in divided for s in d.shared}
    for home in {d.module for d in divided}:
        alone = [c for c in home.calls if home.statement(c) not in shared and _by_one(home, c) is not None]
        for call in alone:
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            given = [receiver] if receiver is not None else []
            given += call.args[:1] if receiver is None or isinstance(receiver, ast.Name) else []
            updates = _UPDATES.search(last_name(call.func)) and last_name(call.func) not in (
                "set_postfix",
                "state_dict",
            )
            if updates and any(_named(g) & names and not _another(home, g, divided) for g in given):
                if not _is_result(call):
                    close(call, _ALONE.format(_short(call)))
        for call in alone:
            own = {n for n in names if not PLAIN.search(n)}
            within = own | (read - names) | (_held(home) & names)
            if _changes_in_place(home, call, own) or any(_stores(home, f, within) for f in home.called_functions(call)):
                close(call, _ALONE.format(_short(call)))
    _statistics(module, divided, names)


def _shared_nodes(divided: Sequence[Divided]) -> Iterator[ast.AST]:
    """The nodes of what all ranks do."""
    for d in divided:
        for part in d.parts():
            yield from ast.walk(part)


def _held(module: Module) -> set[str]:
    """The names of the dicts and lists that a module holds: settings, of which a function may change one."""
    made = [d for d in module.bindings.definitions if d.scope is module.tree and d.kind == "assign"]
    return {d.key for d in made if isinstance(d.value, (ast.Dict, ast.List))}


def _another(module: Module, node: ast.expr, divided: Sequence[Divided]) -> bool:
    """Whether a name stands for an object that one process alone made, where all ranks fill one of their own from a
    file under that name."""
    if not isinstance(node, ast.Name):
        return False
    mine = module.bindings.reaching(node)
    made = bool(mine) and all(d.kind == "assign" and isinstance(d.value, ast.Call) for d in mine)
    shared = [n for n in _shared_nodes(divided) if isinstance(n, ast.Name) and n.id == node.id]
    apart = not any(module.home(n).bindings.reaching(n) & mine for n in shared if isinstance(n.ctx, ast.Load))
    filled = [
        e.node.func.value
        for d in divided
        for s, e in d.loading
        if s in d.shared and isinstance(e.node.func, ast.Attribute) and not _partly(e.node)
    ]
    return made and apart and any(isinstance(f, ast.Name) and f.id == node.id for f in filled)


def _partly(call: ast.Call) -> bool:
    """Whether a model is filled in part only, or it is not one that is filled."""
    return last_name(call.func) != "load_state_dict" or any(k.arg == "strict" for k in call.keywords)


def _by_one(module: Module, node: ast.AST) -> ast.expr | None:
    """The condition in its function because of which one of several processes does something."""
    test = every_guard(module, node, HERE)[0]
    return test if test is not None and distributed_test(test) is not False else None


def _changes_in_place(module: Module, call: ast.Call, names: set[str]) -> bool:
    """Whether a call changes what is evaluated in place: ``for a, b in zip(ema.parameters(), ..): a.mul_(0.5)``."""
    name = last_name(call.func)
    if not name.endswith("_") or name.startswith("_"):
        return False
    test = _by_one(module, call)
    own = [n for n in (call, *module.around(call)) if isinstance(n, ast.stmt)]
    under = own[: next((i for i, n in enumerate(own) if any(test is m for m in ast.walk(n))), len(own))]
    return bool(under) and bool(names & {n.id for n in ast.walk(under[-1]) if isinstance(n, ast.Name)})


def _stores(module: Module, function: ast.AST, names: set[str], depth: int = 0) -> bool:
    """Whether a function that one process calls changes what is evaluated, by its name or in a loop over it."""
    home = module.home(function)
    nodes = list(ast.walk(function))
    tied = set(names)
    for n in nodes:
        if isinstance(n, (ast.For, ast.comprehension)) and _loaded(n.iter) & names:
            tied |= {m.id for m in ast.walk(n.target) if isinstance(m, ast.Name)}
    tied -= {t.id for n in nodes if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    for n in nodes:
        changed: ast.expr | None = None
        if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store):
            changed = n.value
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            in_place = n.func.attr.endswith("_") and not n.func.attr.startswith("_")
            changed = n.func.value if in_place or n.func.attr == "load_state_dict" else None
        if changed is not None and _named(changed) & tied:
            return True
    calls = [n for n in nodes if isinstance(n, ast.Call)] if depth < 2 else []
    return any(_stores(home, f, names, depth + 1) for c in calls for f in home.called_functions(c) if f is not function)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _of_the_module(module: Module, call: ast.Call) -> set[str]:
    """The names that the functions of a call read and do not make themselves."""
    found: set[str] = set()
    for function in module.called_functions(call):
        made = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        made |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        found |= _loaded(function) - made
    return found


def _statistics(module: Module, divided: Sequence[Divided], names: set[str]) -> None:
    """A model outside of its DistributedDataParallel: the statistics of its BatchNorm are each rank's own."""
    program = together(module)
    text = "".join(m.text for m in program)
    if not _NORMED.search(text) or "SyncBatchNorm" in text or "SyncBN" in text:
        return
    wraps = [c for m in program for c in m.calls if m.callee(c) & WRAPPERS_DDP]
    inner: set[Definition] = set()
    for wrap in wraps:
        if any(k.arg == "broadcast_buffers" and ast.unparse(k.value) == "False" for k in wrap.keywords):
            close(wrap, "with broadcast_buffers=False the statistics of BatchNorm are each rank's own")
        home = module.home(wrap)
        if wrap.args and isinstance(home.statement(wrap), ast.Assign):
            inner |= home.bindings.reaching(wrap.args[0])
    for n in _shared_nodes(divided):
        if isinstance(n, ast.Call) and last_name(n.func) == "unwrap_model":
            close(n, _UNWRAPPED.format(ast.unparse(n)))
        if not isinstance(n, (ast.Name, ast.Attribute)) or not isinstance(n.ctx, ast.Load):
            continue
        outer = module.parents.get(n)
        asked = isinstance(outer, ast.Attribute) and outer.attr in ("train", "eval", "parameters", "state_dict")
        if asked:
            continue
        found = module.home(n).bindings.reaching(n) if isinstance(n, ast.Name) and n.id in names else frozenset()
        named = bool(found) and found <= inner
        if named or (isinstance(n, ast.Attribute) and n.attr == "module" and wraps):
            close(n, _UNWRAPPED.format(ast.unparse(n)))


def _named(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) and node.id != "self" else set()


def _is_result(call: ast.Call) -> bool:
    """Whether a call is of a counter or a bar, which holds no weights: ``pbar.update(1)``, ``best.update(acc=acc)``."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if receiver is None:
        return False
    text = ast.unparse(receiver).lower()
    return bool(re.search(r"bar|result|metric|meter|log|stat|score|history|tracker", text))


def _short(call: ast.Call) -> str:
    return " ".join(ast.unparse(call.func).split())


__all__ = ["same_weights"]
