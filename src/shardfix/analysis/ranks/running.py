"""What runs a function of the project, as far as it is seen: its calls, reads of a property, launchers of ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.objects import attribute_loads, imported_loads
from shardfix.analysis.code.tree import walk
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.programs.together import together
from shardfix.analysis.ranks.launching import Start, is_command, of_command, started_by
from shardfix.analysis.state.stored import is_settings

_Def = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators under which a call of a function runs it, once and on every rank.
_DECORATORS = frozenset(
    {
        "no_grad",
        "inference_mode",
        "enable_grad",
        "set_grad_enabled",
        "autocast",
        "staticmethod",
        "classmethod",
        "record",
    }
    | {"override", "overload", "typechecked", "wraps", "timer", "timeit", "profile", "jit", "beartype", "jaxtyped"}
    | {"abstractmethod", "add_start_docstrings", "deprecated", "eval_mode", "torch_no_grad"}
)
_CLASS_DECORATORS = frozenset(
    {"dataclass", "dataclasses", "total_ordering", "final", "runtime_checkable", "define", "attrs", "s", "register"}
    | {"register_module", "register_model", "add_start_docstrings"}
)
_ENTRY = re.compile(r"(^|_)(main|cli)(_|$)")
_SETTINGS = re.compile(
    r"(^|[._])(args?|cfgs?|config|conf|opts?|options?|flags|hparams|params|settings)$", re.IGNORECASE
)
_MANY = 60  # calls of a method's name on objects that are not seen


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """What runs a function.

    Args:
        calls: each place that runs it, so that what leads there leads to the function: a call, or a property's read.
        launched: whether it is run on every rank by what is not written: a launcher, the command line.
        starts: the calls of launchers, in so far as they give it what is written there.
        unseen: what else may run it, or that nothing is seen to.
    """

    calls: tuple[ast.AST, ...]
    launched: bool
    unseen: Obstacle | None
    starts: tuple[Start, ...] = ()


def what_runs(module: Module, function: ast.AST) -> Runs:
    """Every place that runs a function, or why not all are seen."""
    module = module.home(function)
    if isinstance(function, ast.Lambda):
        return _lambda(module, function)
    assert isinstance(function, _Def)
    kind = _unlike_a_call(module, function)
    if kind is not None:
        return Runs((), False, kind)
    if any(last_name(d) == "property" for d in function.decorator_list):
        loads = attribute_loads(module, function.name)
        none = Obstacle(function, f"what reads the property `{function.name}` is not seen")
        return Runs(tuple(loads), False, None if 0 < len(loads) <= _MANY else none)
    calls: list[ast.AST] = list(module.callers(function))
    method = isinstance(module.parents[function], ast.ClassDef)
    if method and function.name.startswith("__") and function.name != "__init__":
        found, submitted = _instance_calls(module, function) if function.name == "__call__" else ([], False)
        calls += found
        if submitted and not calls:
            return Runs((), True, None)
        if not found:
            return Runs((), False, Obstacle(function, f"what runs `{function.name}` is not seen"))
    if method:
        calls += [c for c in _maybe_calls(module, function) if c not in calls]
    if len(calls) > _MANY:
        return Runs((), False, Obstacle(function, f"`{function.name}` is called from too many places to be followed"))
    starts: list[Start] = []
    for use in _other_uses(module, function, calls):
        start = started_by(module, use)
        if start is None:
            why = f"`{function.name}` is handed on here, and what runs it then is not seen"
            return Runs(tuple(calls), False, Obstacle(use, why))
        starts.append(start)
    launched = any(start.ranks for start in starts)
    calls += [start.call for start in starts if not start.ranks]
    replaced = _replaced(module, function)
    if replaced is not None:
        return Runs(tuple(calls), launched, replaced)
    entry = not method and bool(_ENTRY.search(function.name))
    entry = entry or is_command(module, function)
    if not calls and not launched and not entry:
        return Runs((), False, Obstacle(function, f"nothing in the project is seen to call `{function.name}`"))
    return Runs(tuple(calls), launched or (entry and not calls), None, tuple(starts))


def _unlike_a_call(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Obstacle | None:
    """Why to call a function is not to run it, once."""
    if isinstance(function, ast.AsyncFunctionDef):
        return Obstacle(function, f"when `{function.name}` is run, being async, is not seen")
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) and module.function(n) is function for n in walk(function)):
        return Obstacle(function, f"how far each rank takes the generator `{function.name}` is not seen")
    for decorator in function.decorator_list:
        if last_name(decorator) == "property" or _is_plain(module, decorator, _DECORATORS):
            continue
        return Obstacle(decorator, f"whether `@{_text(decorator)}` runs the function on every rank is not known")
    cls = module.parents[function]
    for decorator in cls.decorator_list if isinstance(cls, ast.ClassDef) else ():
        if not _is_plain(module, decorator, _CLASS_DECORATORS):
            return Obstacle(decorator, f"whether `@{_text(decorator)}` leaves the methods as they are is not known")
    return None


def _is_plain(module: Module, decorator: ast.expr, known: frozenset[str]) -> bool:
    """Whether a decorator leaves what it decorates to be run as it is called."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    own = [d.node for d in module.bindings.reaching(func) if isinstance(d.node, (*_Def, ast.ClassDef))]
    own += [d.node for q in module.qualify(func) for d in module.named(q) if isinstance(d.node, (*_Def, ast.ClassDef))]
    if own:
        return all(isinstance(f, ast.FunctionDef) and _always_calls(module.home(f), f) for f in own)
    return last_name(func) in known or of_command(module, decorator)


def _always_calls(module: Module, decorator: ast.FunctionDef) -> bool:
    """Whether a decorator of the project gives back what it is given, or what calls that once whatever happens."""
    inner = [s for s in decorator.body if isinstance(s, ast.FunctionDef)]
    if any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for n in ast.walk(decorator)):
        return False
    if not decorator.args.args or len(inner) > 1:
        return False
    name = decorator.args.args[0].arg
    if not inner:
        results = [n.value for n in ast.walk(decorator) if isinstance(n, ast.Return)]
        return bool(results) and all(isinstance(r, ast.Name) and r.id == name for r in results)
    for s in inner[0].body:
        if isinstance(s, (ast.If, ast.For, ast.While, ast.Try, ast.Match, *_Def)):
            return False
        calls = (n for n in ast.walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
        if any(c.func.id == name for c in calls if isinstance(c.func, ast.Name)):
            return not any(isinstance(n, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)) for n in ast.walk(s))
        if isinstance(s, (ast.Return, ast.Raise)):
            return False
    return False


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:40]


# -- calls that are not written as such ---------------------------------------------------------------------------


def _lambda(module: Module, function: ast.Lambda) -> Runs:
    unseen = Obstacle(function, "what calls this lambda is not seen")
    outer = module.parents[function]
    if isinstance(outer, ast.Call) and outer.func is function:
        return Runs((outer,), False, None)
    if not (isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name)):
        return Runs((), False, unseen)
    uses = [u for d in module.bindings.definitions if d.value is function for u in module.bindings.readers(d)]
    calls = [c for u in uses if isinstance(c := module.parents[u], ast.Call) and c.func is u]
    return Runs(tuple(calls), False, None if calls and len(calls) == len(uses) else unseen)


def _instance_calls(module: Module, function: ast.AST) -> tuple[list[ast.AST], bool]:
    """The calls of instances of a class that has ``__call__``, none where one of its objects goes out of sight; and
    whether one is handed to what starts it as a program on every rank."""
    cls = module.class_of(function)
    if cls is None:
        return [], False
    family = {cls, *(c for m in module.fellows for c in m.classes if cls in module.lineage(c))}
    names = {c.name for c in family}
    found: list[ast.AST] = []
    submitted = False
    for m in module.fellows:
        if not any(name in m.text for name in names):
            continue
        for call in m.calls:
            if family & set(m.project_classes(call.func)):
                if _is_submitted(m, call):
                    submitted = True
                    continue
                uses = _uses_of(m, call)
                if uses is None:
                    return [], False
                found += uses
    return found, submitted


def _is_submitted(module: Module, made: ast.Call) -> bool:
    """``executor.submit(Trainer(args))``, ``DelayedSubmission(Trainer(args))``: submitit runs it as a job."""
    jobs = any(d.kind == "import" and d.module.partition(".")[0] == "submitit" for d in module.bindings.definitions)
    outer = module.parents[made]
    places = [outer]
    if isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Name):
        readers = [u for d in module.bindings.definitions if d.value is made for u in module.bindings.readers(d)]
        places = [module.parents[u] for u in readers]
    handed = [p for p in places if isinstance(p, ast.Call)]
    return jobs and bool(handed) and all(last_name(p.func) in ("submit", "DelayedSubmission") for p in handed)


def _uses_of(module: Module, made: ast.Call) -> list[ast.AST] | None:
    """The calls of an object that a name of its function holds; None where it goes elsewhere."""
    outer = module.parents[made]
    if isinstance(outer, ast.Call) and outer.func is made:
        return [outer]
    if not (isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name)):
        return None
    calls: list[ast.AST] = []
    for d in module.bindings.definitions:
        if d.value is made and d.node is outer.targets[0]:
            for use in module.bindings.readers(d):
                parent = module.parents[use]
                if isinstance(parent, ast.Call) and parent.func is use:
                    calls.append(parent)
                elif not isinstance(parent, (ast.Attribute, ast.Compare, ast.If)):
                    return None
    return calls


def _maybe_calls(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The calls of a method's name on objects of which the class is not seen."""
    named = module.project.calls_named({function.name}) if module.project is not None else module.calls
    for call in named:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != function.name:
            continue
        home = module.home(call)
        if home.called_functions(call) or home.instances(call.func.value) or home.project_classes(call.func.value):
            continue
        base = call.func.value
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        made = home.bindings.reaching(base) if isinstance(base, ast.Name) else frozenset()
        if isinstance(base, ast.Name) and base.id in ("self", "cls", "super"):
            if base is call.func.value:
                continue  # of a class that has no such method, or whose method it is not
        if made and all(d.kind == "import" and not home.named(d.module) for d in made):
            continue
        yield call


def _other_uses(module: Module, function: ast.AST, calls: list[ast.AST]) -> Iterator[ast.expr]:
    """Where a function is named without being called; a look at its name (``not evaluate``) is none."""
    called = {c.func for c in calls if isinstance(c, ast.Call)}
    name = getattr(function, "name", "")
    found: list[ast.expr] = []
    for d in module.bindings.definitions_at(function, name):
        found += [*module.bindings.readers(d), *imported_loads(module, d)]
    if isinstance(module.parents[function], ast.ClassDef):
        found += attribute_loads(module, name)
    looks = (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.If, ast.While, ast.Expr)
    for use in dict.fromkeys(found):
        parent = module.home(use).parents[use]
        of_function = isinstance(parent, ast.Attribute) and not isinstance(use, ast.Attribute)  # validate.__name__
        asked = isinstance(parent, looks) or (isinstance(parent, ast.IfExp) and parent.test is use) or of_function
        if use in called or asked or (isinstance(parent, ast.Call) and parent.func is use):
            continue
        if isinstance(use, ast.Attribute) and isinstance(module.parents[function], ast.ClassDef):
            classes = module.home(use).instances(use.value)
            data = bool(_SETTINGS.search(ast.unparse(use.value))) or not isinstance(parent, (ast.Call, ast.keyword))
            if not set(classes) & set(_family(module, function)) and (classes or data):
                continue  # what another object holds under the same name
        yield use


def _family(module: Module, function: ast.AST) -> list[ast.ClassDef]:
    cls = module.class_of(function)
    return [c for m in module.fellows for c in m.classes if cls in module.lineage(c)] if cls is not None else []


def _replaced(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Obstacle | None:
    """Where something else is put under a function's name, or it is asked for by its name as a text."""
    name, project = function.name, module.project
    # A script that no other file imports is known to none of them.
    imported = project is None or bool(project.importers.get(module.path)) or bool(_family(module, function))
    for m in together(module) if imported else (module,):
        if name not in m.text:
            continue
        for d in m.bindings.definitions:
            if d.key.endswith(f".{name}") and d.kind == "assign" and _may_be(m, d.node, module, function):
                return Obstacle(d.statement, f"something else is put in the place of `{name}` here")
        if m is module or "getattr" in m.text:
            for call in m.calls:
                named = last_name(call.func) in ("getattr", "setattr", "attrgetter", "methodcaller")
                if named and _asks(m, call, name) and _may_hold(m, call, module, function):
                    return Obstacle(call, f"`{name}` may be asked for by its name here, and what runs it is not seen")
    return None


def _may_be(m: Module, target: ast.AST, module: Module, function: ast.AST) -> bool:
    base = target.value if isinstance(target, ast.Attribute) else None
    if base is None:
        return False
    family = set(_family(module, function))
    if family:
        classes = {*m.instances(base), *m.project_classes(base)}
        return bool(classes & family) or (isinstance(base, ast.Name) and base.id == "cls")
    return any(q == module.name for q in m.qualify(base))


def _may_hold(m: Module, call: ast.Call, module: Module, function: ast.AST) -> bool:
    """Whether an object that is asked for an attribute may hold a function: a module, an object of its class, or what
    is not seen."""
    if last_name(call.func) not in ("getattr", "setattr") or not call.args:
        return True
    base = call.args[0]
    if is_settings(base):
        return False
    family = set(_family(module, function))
    own = m.class_of(call) if isinstance(base, ast.Name) and base.id in ("self", "cls") else None
    classes = {own} if own is not None else {*m.instances(base), *m.project_classes(base)}
    if classes:
        return bool(classes & family)
    named = m.qualify(base)
    return not named or (not family and module.name in named)


def _asks(module: Module, call: ast.Call, name: str) -> bool:
    """Whether a call may ask an object for an attribute of this name."""
    given = arguments_of(call)
    keys = given if last_name(call.func) in ("attrgetter", "methodcaller") else given[1:2]
    for key in keys:
        if isinstance(key, ast.Constant):
            if key.value == name:
                return True
        elif any(isinstance(n, ast.Constant) and n.value == name for n in ast.walk(module.tree)):
            return True
    return False


__all__ = ["Runs", "what_runs"]
