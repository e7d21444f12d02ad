"""Train or eval: decided from all that reads a loader and all that asks for it; where they disagree it is neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfix.analysis.code.bindings import attribute_key
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import walk
from shardfix.analysis.loaders.flow import Flow, Use, follow
from shardfix.analysis.loops.learning import Does, does, put_to_evaluation
from shardfix.analysis.loops.spoken import role_of_name, words
from shardfix.analysis.model import Evidence, Role
from shardfix.analysis.programs.unit_tests import is_test, is_unit_test

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 3  # how far callers of callers are asked
# What gives back what it was given, in another form: its result is read in the loader's place.
_PASSES = frozenset(
    {"repeat", "cycle", "chain", "from_iterable", "islice", "tqdm", "enumerate", "iter", "zip", "MpDeviceLoader"}
)
_AGENTS = {"trainer": "train", "inferencer": "infer", "evaluator": "eval", "tester": "test", "predictor": "predict"}
_PARTS = frozenset({"split", "subset", "phase"})
_SIZES = frozenset({"size", "bs", "bsz", "workers"})
_SETS_UP = frozenset({"setup_dataloaders", "_setup_dataloader"})


@dataclass(frozen=True, slots=True)
class ShownRole:
    """The role and the lines that show it; for ``unknown``, what stands against what, where something does.

    ``guessed``: only a name near by says so, which is no ground for an edit that the role decides.
    """

    role: Role
    why: str = ""
    evidence: tuple[Evidence, ...] = ()
    guessed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Names:
    """What is said of a loader where it is built.

    Args:
        own: what the loader is called there, the strongest first.
        data: what its dataset is called.
        sampler: what its sampler is called.
        origin: what its dataset is made of, in words.
    """

    own: tuple[str, ...] = ()
    data: str = ""
    sampler: str = ""
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _Reading:
    use: Use
    does: Does


@dataclass(frozen=True, eq=False, slots=True)
class _Order:
    """A call for the loader, and the role in which it asks for it."""

    call: ast.Call
    role: Role


def origins(module: Module, dataset: ast.expr) -> tuple[str, ...]:
    """What the making of a dataset says of its role: ``load(split="train")``, ``cfg.split = "train"`` before it."""
    found: list[str] = []
    for d in module.bindings.reaching(dataset):
        if d.kind != "assign" or d.value is None:
            continue
        for n in ast.walk(d.value):
            if isinstance(n, ast.Constant) and isinstance(n.value, str):
                found.append(n.value)
            elif isinstance(n, ast.Call):
                found.append(last_name(n.func))
            elif isinstance(n, ast.keyword) and isinstance(n.value, ast.Constant) and n.arg in ("train", "is_train"):
                found.append("train" if n.value.value else "eval")
        function = module.function(d.statement)
        for n in walk(function) if function is not None else ():
            told = isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Attribute) and n.targets[0].attr in _PARTS
            if told and isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant):
                found.append(str(n.value.value))
    return tuple(found)


def role(module: Module, construction: ast.Call, names: Names, flow: Flow) -> ShownRole:
    """Train or eval, by what all loops over the loader do, by its names, and by what those who call for it say."""
    own = _first((*names.own, names.data))
    readings = [_Reading(u, does(module, u.node, flow.aliases)) for u in _reads(module, flow)]
    evaluates = [r for r in readings if r.does == "evaluates"]
    either = [r for r in readings if r.does == "either"]
    given = _is_given(module, construction, flow)
    alone = given and _is_what_is_given(module, construction, flow)
    orders = list(_orders(module, construction, flow)) if given and (own == "unknown" or alone) else []
    asked = {o.role for o in orders} - {"unknown"}
    if len(asked) > 1:
        return _serves_both(module, construction, orders)
    other = next((o for o in orders if o.role not in ("unknown", own)), None)
    if own != "unknown" and other is not None and _is_hook(module, construction):
        pair = (construction, other.call) if own == "train" else (other.call, construction)
        return _against(module, construction, *pair)
    if own != "unknown":
        orders = []
    said: Role = own if own != "unknown" else asked.pop() if asked else "unknown"
    # A gradient may be wanted for itself where evaluation is what is said; else what steps is only out of sight.
    learns = ("trains",) if said == "eval" else ("trains", "gradients")
    trains = [r for r in readings if r.does in learns]
    if trains and evaluates:
        if said == "train":
            return ShownRole("train")  # a pass without gradients beside it reads the same data
        if said == "unknown" and len(orders) < 2:
            return ShownRole("train")
        return _against(module, construction, trains[0].use.node, evaluates[0].use.node)
    if trains:
        return _unless(module, construction, "train", said, trains[0].use.node)
    if evaluates:
        open_order = next((o for o in orders if o.role == "unknown" and not _read_by(module, o.call, evaluates)), None)
        if said == "unknown" and len(orders) > 1 and open_order is not None:
            why = f"{_at(module, construction, evaluates[0].use.node)} evaluates; what "
            why += f"{_at(module, construction, open_order.call)} wants it for is not shown"
            return ShownRole("unknown", why, (module.evidence(evaluates[0].use.node), module.evidence(open_order.call)))
        if said == "train" and own == "train" and _first(names.own) == "unknown":
            return ShownRole("eval", guessed=True)  # the data is for training, what reads it here is not
        if said == "unknown" and _agreed(names.origin) == "train":
            said = "train"
        return _unless(module, construction, "eval", said, evaluates[0].use.node)
    if said != "unknown":
        by_data = said == own == "train" and _first(names.own) == "unknown"
        if by_data and any(r.does == "neither" and put_to_evaluation(module, r.use.node) for r in readings):
            return ShownRole("eval", guessed=True)  # features, or a memory, of the data for training
        return ShownRole(said)
    if any(r.does == "gradients" for r in readings):
        return ShownRole("train")
    handed = _handed_as(module, flow)
    if len(handed) == 2 and not either:
        return _against(module, construction, handed["train"], handed["eval"])
    if either:
        line = _at(module, construction, either[0].use.node)
        return ShownRole(
            "unknown", f"{line} trains or evaluates as it is asked", (module.evidence(either[0].use.node),)
        )
    if handed:
        return ShownRole(next(iter(handed)))
    return _by_the_way(module, construction, names, flow)


def _reads(module: Module, flow: Flow) -> list[Use]:
    """Everything that takes batches of the loader, also of what an iterator or a framework makes of it."""
    found = flow.of("iterate", "next")
    seen = {u.node for u in found}
    for use in flow.of("argument"):
        for value in _results(module, use):
            found += [u for u in follow(module, value).of("iterate", "next") if u.node not in seen]
            seen |= {u.node for u in found}
    return found if is_unit_test(module) else [u for u in found if not is_unit_test(module.home(u.node))]


def _results(module: Module, use: Use) -> list[ast.expr]:
    """The expressions that stand for what a call gives back in the loader's place."""
    call = use.node
    if not isinstance(call, ast.Call):
        return []
    name = last_name(call.func)
    if name in _PASSES:
        while True:
            outer = module.parents.get(call)
            while isinstance(outer, ast.Starred):
                outer = module.parents.get(outer)
            if not (isinstance(outer, ast.Call) and last_name(outer.func) in _PASSES and call is not outer.func):
                return [call]
            call = outer
    if name not in _SETS_UP:
        return []
    parent = module.parents.get(call)
    position = next((i for i, a in enumerate(call.args) if a is use.value), -1)
    if len(call.args) == 1 or position < 0 or not isinstance(parent, ast.Assign):
        return [call] if len(call.args) == 1 else []
    targets = parent.targets[0]
    if not (isinstance(targets, (ast.Tuple, ast.List)) and position < len(targets.elts)):
        return []
    return _readers(module, targets.elts[position])


def _readers(module: Module, target: ast.expr) -> list[ast.expr]:
    key = target.id if isinstance(target, ast.Name) else attribute_key(target)
    definitions = module.bindings.definitions_at(target, key) if key is not None else ()
    return [r for d in definitions for r in module.bindings.readers(d)]


# -- who asks for it -----------------------------------------------------------------------------------------------


def _is_given(module: Module, construction: ast.Call, flow: Flow) -> bool:
    """Whether a function makes the loader for its callers, each of which gets one of its own, or a loop for each of its
    values."""
    function = module.function(construction)
    if any(_phases(module, n) for n in ast.walk(construction) if isinstance(n, ast.Name)):
        return True
    if not isinstance(function, _FUNCTIONS) or not module.callers(function):
        return False
    if function.name == "__init__":
        return not any(module.function(u.node) is function for u in flow.of("iterate", "next"))
    leaves = (ast.Return, ast.Expr)  # Expr: a yield, or a call of what reads it
    return any(module.function(a) is function and isinstance(module.statement(a), leaves) for a in flow.aliases)


def _gives_back(module: Module, function: ast.AST | None, flow: Flow) -> bool:
    for alias in flow.aliases:
        if module.function(alias) is function:
            statement = module.statement(alias)
            yields = isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom))
            if yields or isinstance(statement, ast.Return):
                return True
    return False


def _is_what_is_given(module: Module, construction: ast.Call, flow: Flow) -> bool:
    """Whether a function gives its callers the loader and nothing beside it."""
    function = module.function(construction)
    returned = (n for n in flow.aliases if isinstance(module.parents.get(n), ast.Return))
    return any(module.function(n) is function for n in returned)


def _is_hook(module: Module, construction: ast.Call) -> bool:
    """Whether the function that builds a loader says by its name whom it is for: ``def train_dataloader(self)``."""
    name = _spoken(module, module.function(construction))
    return name.endswith("dataloader") and role_of_name(name) != "unknown"


def _orders(module: Module, construction: ast.Call, flow: Flow) -> Iterator[_Order]:
    """The calls that have the loader made, each with the role that its words say."""
    phases = {r for n in ast.walk(construction) if isinstance(n, ast.Name) for r in _phases(module, n)}
    if len(phases) > 1:
        yield from (_Order(construction, r) for r in sorted(phases))
        return
    yield from _asked_of(module, module.function(construction), flow, 0)


def _asked_of(module: Module, function: ast.AST | None, flow: Flow, depth: int) -> Iterator[_Order]:
    if not isinstance(function, _FUNCTIONS):
        return
    for call in module.callers(function):
        if is_unit_test(module.home(call)) and not is_unit_test(module.home(function)):
            continue
        said = _said_by(module, function, call, flow)
        if len(said) == 1:
            yield _Order(call, said.pop())
            continue
        if len(said) > 1 and _all_phases(module, call):
            yield from (_Order(call, r) for r in sorted(said))
            continue
        outer = module.function(call)
        callers = module.callers(outer) if isinstance(outer, _FUNCTIONS) and depth < _DEPTH else []
        if callers and not said:
            further = list(_asked_of(module, outer, flow, depth + 1))
            # What asks for the outer function asks for the loader where that gives it back, or hands its words on.
            if not further or any(o.role != "unknown" for o in further) or _gives_back(module, outer, flow):
                yield from further
                continue
        yield _Order(call, "unknown")


def _said_by(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, flow: Flow) -> set[Role]:
    """The roles that a call's arguments name, or what its result is called."""
    found: set[Role] = set()
    of_sizes: set[Role] = set()  # cfg.train.batch_size may be asked for evaluation too
    for value in arguments_of(call):
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            parameter = module.parameter_of(function, call, value)
            name = parameter.arg if parameter is not None else ""
            if value.value:
                found.add(role_of_name(name))
            elif words(name) & {"train", "training", "eval", "evaluate", "evaluation"}:
                found.add("eval" if role_of_name(name) == "train" else "train")
        elif isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.add(role_of_name(value.value))
        elif isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
            said = of_sizes if words(last_name(value)) & _SIZES else found
            said.add(role_of_name(module.source.source(value)))
            found |= _phases(module, value)
    found = (found - {"unknown"}) or (of_sizes - {"unknown"})
    if not found:
        found = {r for r in map(role_of_name, _results_names(module, call, flow)) if r != "unknown"}
    return found


def _results_names(module: Module, call: ast.Call, flow: Flow) -> Iterator[str]:
    """What the result of a call is called: by assignment, as an argument, or by the function that returns it."""
    node: ast.AST = call
    parent = module.parents[node]
    while isinstance(parent, (ast.IfExp, ast.Await, ast.BoolOp)):
        node, parent = parent, module.parents[parent]
    if isinstance(parent, ast.Assign):
        for target in parent.targets:
            elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            for element in elements:
                if len(elements) == 1 or any(r in flow.aliases for r in _readers(module, element)):
                    yield module.source.source(element)
    elif isinstance(parent, ast.keyword) and parent.arg:
        yield parent.arg
    elif isinstance(parent, ast.Dict):
        keys = [k for k, v in zip(parent.keys, parent.values, strict=True) if v is node]
        yield from (k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str))
    function = module.function(call)
    if isinstance(function, _FUNCTIONS) and function.name.endswith(("dataloader", "_loader")):
        yield _spoken(module, function)


def _handed_as(module: Module, flow: Flow) -> dict[Role, ast.AST]:
    """The roles in which calls take the loader, each with the first that does: by ``train_dataloaders=``, or as a
    parameter of that name."""
    found: dict[Role, ast.AST] = {}
    for use in flow.of("handed", "argument", "escape"):  # escape: in a list or dict
        parent = module.parents.get(use.value)
        taken = parent.arg if isinstance(parent, ast.keyword) and parent.arg else ""
        call = module.parents.get(parent) if taken and parent is not None else use.node
        if not isinstance(call, ast.Call):
            continue
        for function in () if taken or use.kind == "escape" else module.called_functions(call):
            parameter = module.parameter_of(function, call, use.value)
            taken = taken or (parameter.arg if parameter is not None else "")
        said = role_of_name(taken)
        if said != "unknown":
            found.setdefault(said, call)
    return found


def _phases(module: Module, node: ast.expr) -> set[Role]:
    """The roles that the values of a loop's name say: ``for x in ["train", "val"]``."""
    found: set[Role] = set()
    for n in ast.walk(node):
        for d in module.bindings.reaching(n) if isinstance(n, ast.Name) else ():
            if d.kind == "loop" and isinstance(d.value, (ast.List, ast.Tuple)):
                found |= {
                    role_of_name(e.value)
                    for e in d.value.elts
                    if isinstance(e, ast.Constant) and isinstance(e.value, str)
                }
    return found - {"unknown"}


def _all_phases(module: Module, call: ast.Call) -> bool:
    return any(len(_phases(module, value)) > 1 for value in arguments_of(call))


def _read_by(module: Module, call: ast.Call, readings: Sequence[_Reading]) -> bool:
    """Whether the loader made for a call is seen to be read by one of the loops."""
    if any(call in r.use.via or call in r.use.calls for r in readings):
        return True
    nodes = {r.use.node for r in readings}
    return any(u.node in nodes for u in follow(module, call).of("iterate", "next"))


# -- what is said of them --------------------------------------------------------------------------------------------


def _first(names: Sequence[str]) -> Role:
    return next((r for r in map(role_of_name, names) if r != "unknown"), "unknown")


def _agreed(names: Sequence[str]) -> Role:
    """The role that all names say which say one."""
    found = {r for r in map(role_of_name, names) if r != "unknown"}
    return found.pop() if len(found) == 1 else "unknown"


def _at(module: Module, construction: ast.Call, node: ast.AST) -> str:
    place = module.location(node if hasattr(node, "lineno") else module.parents[node])
    return f"line {place.line}" if place.path == module.location(construction).path else f"{place.path}:{place.line}"


def _shows(module: Module, *nodes: ast.AST) -> tuple[Evidence, ...]:
    return tuple(module.evidence(n if hasattr(n, "lineno") else module.parents[n]) for n in nodes)


def _serves_both(module: Module, construction: ast.Call, orders: Sequence[_Order]) -> ShownRole:
    train, evaluation = (next(o.call for o in orders if o.role == r) for r in ("train", "eval"))
    return _against(module, construction, train, evaluation)


def _against(module: Module, construction: ast.Call, train: ast.AST, evaluation: ast.AST) -> ShownRole:
    at, other = _at(module, construction, train), _at(module, construction, evaluation)
    if at == other:
        return ShownRole("unknown", f"it serves training and evaluation in {at}", _shows(module, train))
    why = f"it serves training in {at} and evaluation in {other}"
    return ShownRole("unknown", why, _shows(module, train, evaluation))


def _unless(module: Module, construction: ast.Call, found: Role, said: Role, loop: ast.AST) -> ShownRole:
    """What the loops do, unless something else is said."""
    if said in ("unknown", found):
        return ShownRole(found)
    words = {"train": "training", "eval": "evaluation"}
    does_ = {"train": "updates a model", "eval": "computes no gradients"}
    why = f"it is named for {words[said]}, and {_at(module, construction, loop)} {does_[found]}"
    return ShownRole("unknown", why, _shows(module, loop))


def _by_the_way(module: Module, construction: ast.Call, names: Names, flow: Flow) -> ShownRole:
    """What nothing but a name near by says: of the sampler, of the function that reads or builds it, of what it is
    handed to, of its dataset's making, of the file."""
    readers = [_spoken(module, module.function(u.node)) for u in _reads(module, flow) if u.kind == "iterate"]
    builder = _spoken(module, module.function(construction))
    said: Sequence[str]
    for said in ([names.sampler], readers, [builder]):
        if _agreed(said) != "unknown":
            return ShownRole(_agreed(said))
    handed = [u for u in flow.of("handed", "argument") if isinstance(u.node, ast.Call)]
    first = _takers(module, [u.node for u in handed if not u.calls])  # what takes it from these may be a framework's
    for said in (first, _takers(module, [u.node for u in handed]), names.origin):
        if _agreed(said) != "unknown":
            return ShownRole(_agreed(said), guessed=True)
    home = module.home(construction)
    file = home.path.rpartition("/")[2]
    if file.startswith(("eval", "infer", "predict")) or (file.startswith("test_") and not is_unit_test(home)):
        return ShownRole("eval", guessed=True)
    return ShownRole("unknown")


def _takers(module: Module, calls: Sequence[ast.AST]) -> list[str]:
    """What the functions are called that take a loader, tests aside."""
    found: list[str] = []
    for call in calls:
        if isinstance(call, ast.Call) and not any(is_test(module.home(f), f) for f in module.called_functions(call)):
            found.append(last_name(call.func))
    return found + [_AGENTS.get(w, "") for name in found for w in words(name)]


def _spoken(module: Module, function: ast.AST | None) -> str:
    """A function's name, where it may speak of a role."""
    if function is None or is_test(module.home(function), function):
        return ""
    return getattr(function, "name", "")


__all__ = ["Names", "ShownRole", "role"]
