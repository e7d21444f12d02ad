"""What starts a function on every rank: launchers of processes, and what runs it with the command line."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.ranks.going_by_rank import differs

_SPAWN = frozenset({"spawn", "start_processes"})  # they give each process its number first
_LAUNCHERS = frozenset({"notebook_launcher", "debug_launcher", "elastic_launch"})
_RUNS = frozenset({"Fire", "run", "cli", "start", "main"})  # `app.run(main)`, `fire.Fire(main)`: once, as it is called
_COMMANDS = frozenset({"absl", "fire", "typer", "tyro", "hydra", "jsonargparse", "click", "pyrallis", "draccus"})
_Def = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False, slots=True)
class Start:
    """What a function that is handed on is started by.

    Args:
        call: of the launcher.
        ranks: whether it starts all ranks, so that nothing that leads to it is done by a rank.
        first: how many arguments come before those that are written; None where they are not known.
        given: the arguments, where they are written.
    """

    call: ast.Call
    ranks: bool
    first: int | None = None
    given: tuple[ast.expr, ...] | None = None

    def argument(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
        """What is given to a parameter; None where that is not written."""
        names = [a.arg for a in parameters(function)]
        place = names.index(name) - self.first if name in names and self.first is not None else -1
        return self.given[place] if self.given is not None and 0 <= place < len(self.given) else None


def started_by(module: Module, use: ast.expr) -> Start | None:
    """What starts a function where its name is handed on; None where that is not seen."""
    module = module.home(use)
    outer = module.parents[use]
    if isinstance(outer, ast.keyword):
        outer = module.parents[outer]
    if not isinstance(outer, ast.Call) or outer.func is use:
        return None
    name = last_name(outer.func)
    if isinstance(outer.func, ast.Call):  # elastic_launch(config, main)(args)
        name = last_name(outer.func.func)
    functions = module.called_functions(outer)
    if functions:
        return Start(outer, True) if all(_starts_ranks(module.home(f), f) for f in functions) else None
    if name in _SPAWN:
        return Start(outer, True, 1, _written(outer))
    if name in _LAUNCHERS or name == "launch":
        return Start(outer, True)
    if name == "Process":  # one for each rank; a single one is no rank
        repeated = any(isinstance(n, (ast.For, ast.While, ast.ListComp)) for n in module.around(outer))
        return Start(outer, False, 0, _written(outer)) if repeated else None
    first = bool(outer.args) and outer.args[0] is use
    known = {q.partition(".")[0] for q in module.callee(outer)} & _COMMANDS
    return Start(outer, False) if name in _RUNS and first and known else None


def _written(call: ast.Call) -> tuple[ast.expr, ...] | None:
    """The arguments in ``spawn(worker, args=(2, args))``."""
    given = [k.value for k in call.keywords if k.arg == "args"] or call.args[1:2]
    items = given[0].elts if given and isinstance(given[0], (ast.Tuple, ast.List)) else None
    return tuple(items) if items is not None and not any(isinstance(i, ast.Starred) for i in items) else None


def _starts_ranks(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function of the project starts processes, which run what it is given whatever their rank is."""
    spawned = [n for n in ast.walk(function) if isinstance(n, ast.Call) and last_name(n.func) in (*_SPAWN, "Process")]
    targets = [f for call in spawned for f in _targets(module, call)]
    return bool(spawned) and not any(_chooses(module, f) for f in (function, *targets))


def _targets(module: Module, call: ast.Call) -> list[ast.AST]:
    handed = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("fn", "target"))]
    return [
        d.node for h in handed if isinstance(h, ast.Name) for d in module.bindings.reaching(h) if d.kind == "function"
    ]


def _chooses(module: Module, function: ast.AST) -> bool:
    """Whether a function runs what it is given on some ranks only."""
    if not isinstance(function, _Def):
        return False
    names = {a.arg for a in parameters(function)}
    for n in ast.walk(function):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names:
            if any(isinstance(o, ast.If) and differs(module, o.test) for o in module.around(n)):
                return True
    return False


def is_command(module: Module, function: ast.AST) -> bool:
    """Whether decorators make a function the start of a program: ``@hydra.main(..)``, ``@click.command()``."""
    return any(of_command(module, d) for d in getattr(function, "decorator_list", []))


def of_command(module: Module, decorator: ast.expr) -> bool:
    """Whether a decorator is of a library that runs functions with the command line, as it is or as a method of what
    it made: ``app = typer.Typer()``, ``@app.command()``."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    base = func.value if isinstance(func, ast.Attribute) else func
    made = [d.value.func for d in module.bindings.reaching(base) if isinstance(d.value, ast.Call)]
    return any(q.partition(".")[0] in _COMMANDS for n in (func, *made) for q in module.qualify(n))


__all__ = ["Start", "is_command", "of_command", "started_by"]
