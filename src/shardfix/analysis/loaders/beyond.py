"""What of a project is to be read beside the files that speak of loaders: what these are handed to, what calls the
functions that make or read them, where the bases of their classes are defined."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardfix.analysis.code.module import Module, module_name
from shardfix.analysis.code.names import DATA_LOADER, arguments_of, last_name
from shardfix.analysis.code.places import Places
from shardfix.analysis.code.project import Project
from shardfix.analysis.code.tree import calls_within
from shardfix.analysis.loaders.flow import follow

_DEPTH = 6  # how many re-exports a name is followed through
_INNER = 4  # how many functions in functions


@dataclass(frozen=True)
class Beyond:
    """What is to be read next.

    Args:
        files: the paths of files that define something that is asked for.
        callers: the name of each function that nothing read so far calls, and of each variable that holds a loader,
            with the name of what it is imported from.
    """

    files: frozenset[str]
    callers: frozenset[tuple[str, str]]

    def imported(self, words: Collection[bytes]) -> list[bytes]:
        """The names that a file may use, by the words of its imports: it imports what holds them."""
        return [name.encode() for name, holder in self.callers if holder.encode() in words]


def imports(data: bytes) -> frozenset[bytes]:
    """The words of a file's imports."""
    return frozenset(word for line in _IMPORTS.findall(data) for word in _WORDS.findall(line))


_IMPORTS = re.compile(rb"(?m)^[ \t]*(?:from|import)\b[^\n]*")
_WORDS = re.compile(rb"\w+")


def constructions(project: Project, subclasses: Collection[str]) -> list[tuple[Module, ast.Call]]:
    """Every construction of a DataLoader, or of a class of the project that derives from it."""
    names = {"DataLoader", *(name.rpartition(".")[2] for name in subclasses)}
    wanted = {DATA_LOADER, *subclasses}
    modules = [m for m in project.modules.values() if any(name in m.text for name in names)]
    return [(m, call) for m in modules for call in m.calls if not m.callee(call).isdisjoint(wanted)]


def beyond(
    project: Project, files: Collection[str], made: Sequence[tuple[Module, ast.Call]], prepare: tuple[str, ...]
) -> Beyond:
    """What is to be read as well, for what it says of the loaders of the files that are read.

    Args:
        files: the project-relative paths of all Python files.
        made: the constructions of loaders, each with its file.
        prepare: the names of the functions of the project that prepare loaders.
    """
    ways = _Files(files, project.modules)
    wanted: set[str] = set()
    functions: dict[ast.AST, Module] = {}
    variables: set[tuple[str, str]] = set()
    read: dict[ast.AST, Module] = {}  # what holds a loop over a loader
    for module in dict.fromkeys(m for m, _ in made):
        for cls in module.classes:
            wanted |= _bases(module, cls, ways)
        for call in (c for m, c in made if m is module):
            flow = follow(module, call, prepare)
            holders = [u.node for u in flow.of("handed") if isinstance(u.node, ast.Call)]
            kept = [follow(module, h, prepare) for h in holders if module.project_classes(h.func)]
            for name in flow.lost.union(*(f.lost for f in kept)):
                wanted |= set(ways.chain(name, module))
            variables |= _variables(module, call)
            places: list[ast.AST] = [call, *(u.node for u in flow.of("returned", "iterate", "next"))]
            for place in places:
                outer = module.function(place)
                if outer is not None:
                    functions[outer] = module.home(outer)
            read |= {u.node: module.home(u.node) for u in flow.of("iterate")}
    helped: set[ast.AST] = set()
    for loop, own in read.items():
        wanted |= _called(own, _helpers(own, loop), ways, helped)
        wanted |= {path for name, home in _given(own, loop) for path in ways.chain(name, home)}
    callers = frozenset(_callers(functions, project.modules))
    for module in dict.fromkeys((*(m for m, _ in made), *functions.values())):
        wanted |= set(_packages(module))
    for function, module in functions.items():
        member = module.class_of(function)
        wanted |= _bases(module, member, ways) if member is not None else set()
        for decorator in getattr(function, "decorator_list", []):
            for name in module.qualify(decorator.func if isinstance(decorator, ast.Call) else decorator):
                wanted |= set(ways.chain(name, module))
    return Beyond(
        frozenset(path for path in wanted if path in files and path not in project.modules), callers | variables
    )


def _variables(module: Module, call: ast.Call) -> set[tuple[str, str]]:
    """The variable at the top level of a file to which a construction is assigned, which other files may import."""
    statement = module.parents[call]
    targets = statement.targets if isinstance(statement, ast.Assign) and module.function(call) is None else []
    return {(t.id, module.name.rpartition(".")[2]) for t in targets if isinstance(t, ast.Name)}


def _helpers(module: Module, loop: ast.AST) -> list[ast.Call]:
    """The calls around a loop that is not seen to train: one of them may, or may reduce its metric across ranks. Where
    its function also trains, or it stands in none, those in the loop and behind it, and what makes the objects that the
    loop tells."""
    function = module.function(loop)
    places: list[ast.AST] = [function] if function is not None else []
    if function is None or _trains(function):
        places = [] if _trains(module.statement(loop)) else [*_from(module, module.statement(loop))]
    calls = [call for place in places for call in calls_within(place)]
    alone = [c for c in calls_within(loop) if isinstance(module.parents.get(c), ast.Expr)]
    told = [c.func.value for c in alone if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Name)]
    made = [d.value for name in told for d in module.bindings.reaching(name) if isinstance(d.value, ast.Call)]
    return [*(c for c in calls if not last_name(c.func)[:1].isupper()), *made]


def _given(module: Module, loop: ast.AST) -> Iterable[tuple[str, Module]]:
    """The functions that make what is handed to the function of a loop: models, tokenizers, metrics."""
    function = module.function(loop)
    for call in module.callers(function) if function is not None else ():
        home = module.home(call)
        for node in (n for n in arguments_of(call) if isinstance(n, ast.Name)):
            made = [d.value for d in home.bindings.reaching(node) if isinstance(d.value, ast.Call)]
            yield from ((name, home) for value in made for name in home.callee(value))


def _from(module: Module, statement: ast.stmt) -> Iterable[ast.stmt]:
    """A statement and those behind it, up to the next turn of a loop around it."""
    yield statement
    while statement in module.block(statement):
        block = module.block(statement)
        yield from block[block.index(statement) + 1 :]
        outer = module.parents[statement]
        if not isinstance(outer, ast.stmt) or isinstance(outer, (ast.For, ast.While, ast.FunctionDef)):
            return
        statement = outer


def _trains(node: ast.AST) -> bool:
    return any(last_name(call.func) == "backward" for call in calls_within(node))


def _called(module: Module, calls: Iterable[ast.Call], ways: _Files, helped: set[ast.AST], depth: int = 0) -> set[str]:
    """The files through which calls, and those in the functions that they run, are imported."""
    found: set[str] = set()
    for call in calls:
        handed = [name for a in arguments_of(call) if isinstance(a, ast.Name) for name in module.qualify(a)]
        for name in (*module.callee(call), *handed):
            found |= set(ways.chain(name, module))
        for function in module.called_functions(call) if depth < _INNER else ():
            if function not in helped:
                helped.add(function)
                found |= _called(module.home(function), calls_within(function), ways, helped, depth + 1)
    return found


def _packages(module: Module) -> Iterable[str]:
    """The paths of the packages that a module is part of, from which what it defines may be imported as well."""
    folder = module.path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        yield f"{folder}/__init__.py"


def _callers(functions: dict[ast.AST, Module], modules: Mapping[str, Module]) -> Iterable[tuple[str, str]]:
    """The functions, and those that call them: any file may hold another program that calls them."""
    todo, seen = list(functions), set(functions)
    while todo:
        function = todo.pop()
        module = functions[function]
        for call in module.callers(function):
            outer = module.function(call)
            if outer is not None and outer not in seen:
                seen.add(outer)
                functions[outer] = module.home(outer)
                todo.append(outer)
        parent, name = module.parents[function], getattr(function, "name", "")
        if isinstance(parent, ast.ClassDef):
            yield (parent.name if name.startswith("__") else name), parent.name
            name, parent = parent.name, module.parents[parent]
        if name and isinstance(parent, ast.Module):
            yield name, module.name.rpartition(".")[2]
            for package in _packages(module):
                init = modules.get(package)
                if init is not None and (name in init.text or "import *" in init.text):
                    yield name, init.name.rpartition(".")[2]


def _bases(module: Module, cls: ast.ClassDef, ways: _Files) -> set[str]:
    """The files through which the bases of a class, and theirs, are imported."""
    found: set[str] = set()
    for member in module.lineage(cls):
        own = module.home(member)
        for base in member.bases:
            for dotted in _imported(own, base):
                found |= set(ways.chain(dotted, own))
    return found


def _imported(module: Module, node: ast.expr) -> set[str]:
    """The dotted names that an expression has by the imports of its own file alone."""
    rest = ""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            rest = f".{node.attr}{rest}"
        node = node.value
    if not isinstance(node, ast.Name):
        return set()
    return {d.module + rest for d in module.bindings.reaching(node) if d.kind == "import"}


class _Files:
    """The paths of all files by the names of their modules, and the way of each name through those that are parsed."""

    def __init__(self, files: Iterable[str], modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self._places = Places({module_name(path): path for path in files})
        self._known: dict[tuple[str, str], list[str]] = {}

    def chain(self, dotted: str, importer: Module) -> list[str]:
        """The files through which a name is imported, as far as they are parsed, and the first that is not."""
        key = (dotted, importer.name.rpartition(".")[0])
        if key not in self._known:
            self._known[key] = self._chain(*key, 0)
        return self._known[key]

    def _chain(self, dotted: str, package: str, depth: int) -> list[str]:
        place = self._places.split(dotted, package)
        if place is None or depth > _DEPTH:
            return []
        path, name = place[0], place[1].partition(".")[0]
        found = [path]
        if path in self.modules:
            module = self.modules[path]
            bound = module.bindings.exit_of(module.tree).get(name, frozenset())
            onwards = [d.module for d in bound if d.kind == "import" and d.module != dotted]
            if name and not bound:
                onwards = [f"{star}.{name}" for star in module.bindings.star_modules]
            for other in onwards:
                found += self._chain(other, module.name.rpartition(".")[0], depth + 1)
        return found
