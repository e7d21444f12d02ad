"""`migrate --guard`: a test file for the loaders of a project that a function without arguments builds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.project import Project
from shardfix.analysis.loaders.flow import follow
from shardfix.analysis.model import Location, Options
from shardfix.analysis.programs.unit_tests import is_unit_test
from shardfix.analysis.sites import Site
from shardfix.planning import make_plan

PATH = "tests/test_sharding.py"
NEEDS = "it needs shardfix where the tests run: add shardfix[verify] to the development dependencies"
_OWNERS = ("accelerate", "ddp")
_HEAD = '''\
"""Every process must read its own share of the data exactly once: proven for these loaders on each test run.

Written by `shardfix migrate --guard`, yours to keep and to change. Each function below is called in two and three
processes on the CPU and in one; what its loaders draw is read by index, so no sample is fetched and no model is needed.
It needs shardfix where the tests run (python -m pip install "shardfix[verify]").
"""

from shardfix.pytest_plugin import assert_sharded
'''


@dataclass(frozen=True, slots=True)
class Guarded:
    """A function that the test file calls, and the loaders that it returns."""

    target: str
    sites: tuple[Location, ...]
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "test_" + re.sub(r"\W+", "_", self.target).strip("_").lower()

    @property
    def assertion(self) -> str:
        return f"assert_sharded({', '.join([_quoted(self.target), *self.arguments])})"


@dataclass(frozen=True, slots=True)
class Guard:
    """What ``--guard`` does to a project.

    ``content`` is the new file's, empty where none is made; ``refused`` says why a file that is wanted is not made;
    ``unguarded`` are the loaders that no function builds, each with why.
    """

    tests: tuple[Guarded, ...] = ()
    unguarded: tuple[tuple[Location, str], ...] = ()
    content: str = ""
    refused: str = ""
    path: str = PATH

    @property
    def lines(self) -> tuple[str, ...]:
        """What a report says of it, line by line."""
        said = [f"guard: {self.path} checks {', '.join(test.target for test in self.tests)}"] if self.tests else []
        if self.refused:
            said = [f"guard: {self.refused}"]
        elif self.content:
            said.append(f"guard: {NEEDS}")
        elif self.tests:
            said = [f"guard: {self.path} stands as it is"]
        return (*said, *(f"guard: not {location}: {why}" for location, why in self.unguarded))


def plan_guard(project: Project, options: Options, files: frozenset[str], standing: str | None) -> Guard:
    """The test file for a project as it is after its migration.

    Args:
        project: every module with the new texts.
        files: project-relative paths of every Python file.
        standing: the text of the file of that name, if there is one; it is never overwritten.
    """
    plan = make_plan(project, set(project.modules), options, files=files)
    factories: dict[str, list[Site]] = {}
    unguarded: list[tuple[Location, str]] = []
    unsure: set[str] = set()
    for report in plan.reports:
        site = plan.sites[report.location]
        if is_unit_test(site.module) or site.owner not in _OWNERS:
            continue
        target, why = _factory(project, site, files)
        if report.verdict != "right":
            unsure.add(target)
            why = why or f"what becomes of it is not settled ({report.why or report.verdict})"
        if why:
            unguarded.append((report.location, why))
        else:
            factories.setdefault(target, []).append(site)
    tests: list[Guarded] = []
    for target, sites in sorted(factories.items()):
        places = tuple(site.location for site in sites)
        if target in unsure:
            unguarded += [(place, f"{target} returns a loader that is not settled") for place in places]
        else:
            tests.append(Guarded(target, places, tuple(_arguments(sites, target))))
    told = tuple(sorted(unguarded))
    if not tests:
        return Guard(unguarded=told, refused="no loader that is sharded is built by a function without arguments")
    if standing is not None:
        missing = [test for test in tests if _quoted(test.target) not in standing]
        if not missing:
            return Guard(tuple(tests), told)
        lines = "; ".join(test.assertion for test in missing)
        return Guard(tuple(tests), told, refused=f"{PATH} exists and is never overwritten; add to it: {lines}")
    return Guard(tuple(tests), told, content=_content(tests))


def _content(tests: Sequence[Guarded]) -> str:
    blocks = [_HEAD]
    taken: dict[str, int] = {}
    for test in tests:
        taken[test.name] = taken.get(test.name, 0) + 1
        name = test.name if taken[test.name] == 1 else f"{test.name}_{taken[test.name]}"
        blocks.append(f"\n\ndef {name}() -> None:\n    {test.assertion}\n")
    return "".join(blocks)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _arguments(sites: Sequence[Site], target: str) -> Iterator[str]:
    roles = {site.role for site in sites}
    if roles in ({"train"}, {"eval"}):
        yield f'role="{roles.pop()}"'
    function = target.partition(":")[2]
    if any(site.owner == "accelerate" and not _prepared_in(site, function) for site in sites):
        yield 'owner="accelerate"'


# --- the function that builds a loader ---


def _factory(project: Project, site: Site, files: frozenset[str]) -> tuple[str, str]:
    """The function to call for a loader, as ``pkg.mod:function``; or why there is none."""
    own = site.module.function(site.call)
    returning = list(_returning(site))
    if not returning:
        if own is None:
            return "", "it is made where its module runs, not in a function"
        return "", f"{getattr(own, 'name', 'a lambda')}() does not return it"
    # its own function first, then those that return what that gives them
    returning.sort(key=lambda pair: (pair[1] is not own, pair[0].path, pair[1].lineno))
    reasons: list[str] = []
    for module, function in returning:
        dotted = _module_name(module.path, files)
        why = _not_callable(module, function) or _not_importable(module, dotted)
        if not why:
            return f"{dotted}:{function.name}", ""
        reasons.append(why)
    return "", reasons[0]


def _returning(site: Site) -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions that return the loader, alone or in a tuple, list or dict."""
    seen: set[ast.AST] = set()
    for node in site.flow.aliases:
        module = site.module.home(node)
        outer = module.parents.get(node)
        while isinstance(outer, (ast.Tuple, ast.List, ast.Dict, ast.keyword)):
            outer = module.parents.get(outer)
        if not isinstance(outer, ast.Return):
            continue
        function = module.function(outer)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function not in seen:
            seen.add(function)
            yield module, function


def _prepared_in(site: Site, function: str) -> bool:
    """Whether what a function returns of a loader went through ``prepare`` before."""
    for use in site.flow.of("prepare"):
        if not isinstance(use.node, ast.Call):
            continue
        module = site.module.home(use.node)
        for node in follow(module, use.node).aliases:
            home = site.module.home(node)
            outer = home.parents.get(node)
            while isinstance(outer, (ast.Tuple, ast.List, ast.Dict, ast.keyword)):
                outer = home.parents.get(outer)
            if isinstance(outer, ast.Return) and getattr(home.function(outer), "name", "") == function:
                return True
    return False


def _not_callable(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Why a test can't call a function; empty where it can."""
    name = f"{function.name}()"
    if not isinstance(module.parents[function], ast.Module):
        return f"{name} is no function of a module's own"
    if isinstance(function, ast.AsyncFunctionDef):
        return f"{name} is async"
    given = function.args
    needed = [*given.posonlyargs, *given.args][: len(given.posonlyargs) + len(given.args) - len(given.defaults)]
    needed += [arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if needed:
        return f"{name} needs {', '.join(arg.arg for arg in needed)}"
    if function.name == "main":
        return "main() does more than build it"
    return ""


def _module_name(path: str, files: frozenset[str]) -> str:
    """The name under which a file is imported from the project's root; empty where there is none."""
    parts = PurePosixPath(path).with_suffix("").parts
    folders, name = parts[:-1], parts[-1]
    packages = all(f"{'/'.join(folders[: depth + 1])}/__init__.py" in files for depth in range(len(folders)))
    if not packages or not all(part.isidentifier() for part in parts):
        return ""
    return ".".join(folders if name == "__init__" else parts)


def _not_importable(module: Module, dotted: str) -> str:
    if not dotted:
        return f"{module.path} can't be imported from the project's root"
    runs = next((node for node in module.tree.body if _runs(node)), None)
    if runs is not None:
        return f"importing {dotted} runs its line {runs.lineno}"
    return ""


def _runs(statement: ast.stmt) -> bool:
    """Whether a statement of a module does work when the module is imported: a loop, or a call for its effect."""
    if isinstance(statement, (ast.For, ast.While, ast.With)):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = ast.unparse(statement.value.func)
        return not re.match(r"(logging|warnings|random|np|numpy|torch|sys\.path|os\.environ|matplotlib)\b", called)
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    plain = isinstance(statement, (ast.Assign, ast.AnnAssign))
    return plain and any(ast.unparse(call.func).endswith(("parse_args", "parse_known_args")) for call in calls)


def guard_files(guard: Guard) -> Mapping[str, str]:
    """The files to create."""
    return {guard.path: guard.content} if guard.content else {}
