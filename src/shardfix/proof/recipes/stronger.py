"""The command that proves a site in a stronger way, where its recipe ends: built from what the analysis knows."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator

from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.sites import Site
from shardfix.proof.recipes.imported import spelling
from shardfix.proof.recipes.settings import exact, literal

_TRAINING = ("train", "main", "run", "finetune", "pretrain")
_FILES = 32  # of a script's imports, in which its parser of arguments is looked for
_PLAIN = frozenset({"builtins.int", "builtins.str", "builtins.float", "builtins.bool"})


def stronger(site: Site, *, project: bool) -> str:
    """The command to type, from the project's folder; empty where no program of the project builds the loader.

    Args:
        project: whether only the project's own code is missing, which may be imported.
    """
    if project:
        return shlex.join(["shardfix", "verify", "--import-project", site.module.path])
    return _factory(site) or _script(site)


def _factory(site: Site) -> str:
    """``shardfix verify --loader pkg.mod:fn``, for a function at the top level of a file that returns the loader."""
    m = site.module
    function = m.function(site.call)
    if not isinstance(function, ast.FunctionDef) or not isinstance(m.parents[function], ast.Module):
        return ""
    returned = any(function in (use.node, m.function(use.node)) for use in site.flow.of("returned"))
    if not returned and not isinstance(m.parents[site.call], ast.Return):
        return ""
    arguments: list[str] = []
    a = function.args
    for parameter in [*a.posonlyargs, *a.args, *a.kwonlyargs]:
        if default_of(function, parameter.arg) is not None:
            continue
        value = _given(m, function, parameter)
        if value is None:
            return ""  # it takes an object, which no command line can give
        arguments += ["--arg", f"{parameter.arg}={value}"]
    name, folder = spelling(m, m.path)
    command = shlex.join(["shardfix", "verify", "--loader", f"{name}:{function.name}", *arguments])
    return f"cd {shlex.quote(folder)} && {command}" if folder else command


def _given(module: Module, function: ast.FunctionDef, parameter: ast.arg) -> str | None:
    """What the command line can give a parameter: what a caller gives, ``..`` where a plain value is annotated."""
    for call in module.callers(function):
        value = argument_of(module, function, call, parameter.arg)
        known = exact(module, value) if value is not None else ...
        if known is not ... and known is not None:
            return str(known)
    plain = parameter.annotation is not None and module.qualify(parameter.annotation) & _PLAIN
    return ".." if plain else None


def _script(site: Site) -> str:
    """``shardfix verify --run SCRIPT -- ARGS``: of the programs that reach the loader, the nearest one."""
    programs = site.regimes.project.programs
    reaching = programs.reaching(site.module, site.call) & ~programs.tests
    scripts = [p.path for p in programs.chosen(reaching) if p.kind == "script"]
    if not scripts:
        return ""
    script = min(scripts, key=lambda path: _rank(site, path))
    entry = site.module.project.modules[script] if site.module.project is not None else site.module
    needed = next((words for m in _run_with(entry) if (words := _required(m))), [])
    return shlex.join(["shardfix", "verify", "--run", script, *(["--", *needed] if needed else [])])


def _rank(site: Site, path: str) -> int:
    """How far a script is from a loader: it makes it, reads it or tells it the epoch, has it made, or is named so."""
    module = site.module
    if path == module.path:
        return 0
    used = [*(u.node for u in site.flow.of("iterate", "next")), *(told.call for told in site.told)]
    if path in {module.home(node).path for node in used}:
        return 1
    function = module.function(site.call)
    if path in {module.home(call).path for call in (module.callers(function) if function is not None else ())}:
        return 2
    return 3 if path.rsplit("/", 1)[-1].startswith(_TRAINING) else 4


def _run_with(entry: Module) -> Iterator[Module]:
    """A script and the files of the project that it imports, nearest first."""
    queue = [entry]
    for module in queue:
        yield module
        if module.project is not None and len(queue) < _FILES:
            paths = sorted(module.project.imports.get(module.path, ()))
            queue += [m for m in (module.project.modules[p] for p in paths) if m not in queue]


def _required(module: Module) -> list[str]:
    """The arguments without which a file's parser gives up, with ``..`` for what the user knows."""
    found: list[str] = []
    last: list[str] = []
    for made in module.calls:
        if last_name(made.func) != "add_argument" or not made.args or not isinstance(literal(made.args[0]), str):
            continue
        keywords = {k.arg: k.value for k in made.keywords}
        flag = str(literal(made.args[0]))
        if flag.startswith("-"):
            flags = [f for f in map(literal, made.args) if isinstance(f, str)]
            if literal(keywords.get("required")) is True:
                found += [next((f for f in flags if f.startswith("--")), flag), ".."]
        elif "default" not in keywords and literal(keywords.get("nargs")) not in ("?", "*"):
            last.append(f"{flag.upper()}")
    return [*found, *last]
