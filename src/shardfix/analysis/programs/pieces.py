"""The pieces of code of a project that run or do not run as a whole, and which others each leads to."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.project import Project
from shardfix.analysis.code.tree import children
from shardfix.analysis.programs.by_name import (
    ASKING,
    FRAMEWORKS,
    Asked,
    asked_by_call,
    asked_when_called,
    asks_when_called,
    is_none_of_ours,
    is_run_by_others,
    is_run_with_class,
    may_ask,
)

_REGISTERING = ("register", "command", "group")  # decorators through which a function is run by its name
_NAMING = frozenset({"import", "function", "class", "assign"})
_LOADS_BY_NAME = frozenset({"importlib.import_module", "builtins.__import__"})
_TYPE_TESTS = frozenset({"isinstance", "issubclass"})


@dataclass(eq=False)
class _Unit:
    """A piece of code that runs or does not run as a whole: what a file runs when it is imported, what it runs only as
    a script, a function or class of its top level, a method of such a class, or a variable of its top level that holds
    names of those.

    Args:
        roots: its code; none for what stands for the name of a method, wherever that is written.
    """

    module: Module | None = None
    roots: list[ast.AST] = field(default_factory=list)
    leads_to: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Class:
    """A class of a file's top level, with its methods."""

    module: Module
    node: ast.ClassDef
    unit: int
    methods: dict[int, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)


class Pieces:
    """The pieces of code of all files, and which of them each leads to.

    A method runs where its class is used and its name is written (``both``: the two, and the method), or where its
    class is used by what may call it without writing the name.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.units: list[_Unit] = []
        self.of_node: dict[ast.AST, int] = {}
        self.bodies: dict[str, int] = {}
        self.mains: dict[str, int] = {}
        self._known: dict[tuple[str, frozenset[Definition], str, bool], set[int]] = {}
        self._offers: dict[str, set[int]] = {}
        self.defined: dict[str, dict[str, int]] = {}  # by path, then by name: functions, classes and variables
        self.classes: dict[int, list[_Class]] = {}  # by their piece; a class may be defined in two ways
        self.class_around: dict[int, int] = {}  # of a method's piece the class's
        self.both: list[tuple[int, int, int]] = []
        self._class_of_node: dict[ast.ClassDef, _Class] = {}
        self._names: dict[str, int] = {}  # of methods
        self._made: dict[Definition, list[_Class]] = {}
        for module in project.modules.values():
            self._divide(module)
        self._method_names = frozenset(self._names)
        self._tie()
        for index, unit in enumerate(self.units):
            if unit.module is not None:
                for root in unit.roots:
                    self._read(index, unit.module, root)
        for module in project.modules.values():
            body = self.units[self.bodies[module.path]]
            for star in module.bindings.star_modules:
                body.leads_to |= self._imported(star, module)
            if module.path.endswith("__init__.py") and self._loads_by_name(module):
                folder = module.path.removesuffix("__init__.py")
                body.leads_to |= {
                    index
                    for path, index in self.bodies.items()
                    if path.startswith(folder) and "/" not in path[len(folder) :].removesuffix("/__init__.py")
                }

    def _new(self, module: Module | None = None) -> int:
        self.units.append(_Unit(module))
        return len(self.units) - 1

    def _divide(self, module: Module) -> None:
        body = self.bodies[module.path] = self._new(module)
        defined = self.defined[module.path] = {}
        todo: list[tuple[ast.stmt, int]] = [(s, body) for s in reversed(module.tree.body)]
        while todo:
            s, unit = todo.pop()
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                own = self.of_node[s] = defined.get(s.name) or self._new(module)
                defined[s.name] = own
                if isinstance(s, ast.ClassDef):
                    self._divide_class(module, s, own)
                else:
                    self.units[own].roots.append(s)
                self.units[unit].roots += s.decorator_list
                if any(_registers(d) for d in s.decorator_list):
                    self.units[unit].leads_to.add(own)
            elif isinstance(s, ast.If) and asks_for_main(s.test):
                if module.path not in self.mains:
                    self.mains[module.path] = self._new(module)
                for inner in s.body:
                    self.of_node[inner] = self.mains[module.path]
                    todo.append((inner, self.mains[module.path]))
                todo += [(inner, unit) for inner in s.orelse]
            elif isinstance(s, ast.If) and last_name(s.test) == "TYPE_CHECKING":
                todo += [(inner, unit) for inner in s.orelse]
            elif isinstance(s, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                inner_blocks = [s.body, getattr(s, "orelse", []), getattr(s, "finalbody", [])]
                inner_blocks += [h.body for h in getattr(s, "handlers", [])]
                todo += [(inner, unit) for block in inner_blocks for inner in block]
                heads: list[ast.AST] = [getattr(s, name) for name in ("test", "iter") if hasattr(s, name)]
                heads += [item.context_expr for item in getattr(s, "items", [])]
                self.units[unit].roots += heads
            elif (name := _table(s)) is not None and unit == body:
                own = defined.get(name) or self._new(module)
                defined[name] = self.of_node[s] = own
                self.units[own].roots.append(s)
            elif (name := _made(s)) is not None and module.path.endswith("__init__.py") and unit == body:
                # `New = deprecated(Old)` in a package runs what it calls, and what it hands on only where it is used.
                own = defined[name] = defined.get(name) or self._new(module)
                self.units[own].roots.append(s)
                self.units[unit].roots += [n.func for n in ast.walk(s) if isinstance(n, ast.Call)]
            else:
                self.units[unit].roots.append(s)

    def _divide_class(self, module: Module, cls: ast.ClassDef, own: int) -> None:
        known = self._class_of_node[cls] = _Class(module, cls, own)
        self.classes.setdefault(own, []).append(known)
        roots = self.units[own].roots
        roots += [*cls.decorator_list, *cls.bases, *(k.value for k in cls.keywords)]
        for s in cls.body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
                method = self.of_node[s] = self._new(module)
                self.class_around[method] = own
                self.units[method].roots.append(s)
                roots += s.decorator_list
                known.methods[method] = s
                if s.name not in self._names:
                    self._names[s.name] = self._new()
            else:
                roots.append(s)

    def _tie(self) -> None:
        """What runs the methods of each class."""
        for classes in self.classes.values():
            for cls in classes:
                for method, node in cls.methods.items():
                    if is_run_with_class(node):
                        self.units[cls.unit].leads_to.add(method)
                    else:
                        self.both.append((cls.unit, self._names[node.name], method))
                if is_run_by_others(cls.module, cls.node):
                    self.units[cls.unit].leads_to |= self._methods_of(cls)

    def _methods_of(self, cls: _Class) -> set[int]:
        """The methods that an object of a class has."""
        lineage = [self._class_of_node.get(node) for node in cls.module.lineage(cls.node)]
        return {method for c in lineage if c is not None for method in c.methods}

    def _hand_out(self, index: int, cls: _Class, derived: bool) -> None:
        """A piece of code lets any method of a class run; of those that derive from it, where they are used."""
        self.units[index].leads_to |= self._methods_of(cls)
        for node in self.project.derived(cls.node) if derived else ():
            other = self._class_of_node.get(node)
            if other is not None:
                self.both += [(index, other.unit, method) for method in self._methods_of(other)]

    def _ask(self, index: int, module: Module, asked: Asked) -> None:
        """A piece of code asks an object for methods by their names."""
        leads_to = self.units[index].leads_to
        leads_to |= {self._names[name] for name in asked.names & self._method_names}
        for start, end in asked.parts:
            if start or end:
                leads_to |= {n for name, n in self._names.items() if name.startswith(start) and name.endswith(end)}
            elif asked.of is None:
                leads_to |= set(self._names.values())
            elif not is_none_of_ours(module, asked.of):
                classes = [self._class_of_node.get(cls) for cls in module.instances(asked.of)]
                for cls in classes:
                    if cls is not None:
                        self._hand_out(index, cls, derived=True)
                if not classes or None in classes:
                    leads_to |= set(self._names.values())

    def _called(self, index: int, module: Module, call: ast.Call) -> None:
        """What a call runs beside what it names: methods asked for by name, or of an object given to a library."""
        asked = asked_by_call(module, call) if last_name(call.func) in ASKING else None
        if asked is not None:
            self._ask(index, module, asked)
            return
        for given in _given(call):
            classes = self._classes_of(index, module, given)
            if classes and may_ask(module, call, self._method_names):
                for cls in classes:
                    self._hand_out(index, cls, derived=isinstance(given, ast.Name) and given.id in ("self", "cls"))

    def _classes_of(self, index: int, module: Module, given: ast.expr) -> list[_Class]:
        """The classes of an object that is given to a call, or the class itself, as far as this function shows it."""
        if isinstance(given, ast.Name) and given.id in ("self", "cls"):
            return self.classes.get(self.class_around.get(index, -1), [])
        if isinstance(given, ast.Call):
            return self._made_by(given.func, module)
        definitions = module.bindings.reaching(given)
        if not definitions and isinstance(given, ast.Attribute) and last_name(given.value) == "self":
            around = self.classes.get(self.class_around.get(index, -1), [])
            definitions = frozenset(d for c in around for d in module.attribute_values(c.node, given.attr))
        found: list[_Class] = []
        for d in definitions:
            if d.kind in ("import", "class"):
                found += self._made_by(given, module)
            elif d.kind == "assign" and d.index is None and isinstance(d.value, ast.Call):
                if d not in self._made:
                    self._made[d] = self._made_by(d.value.func, module)
                found += self._made[d]
        return found

    def _made_by(self, func: ast.expr, module: Module) -> list[_Class]:
        """The classes that a name stands for."""
        if not isinstance(func, (ast.Name, ast.Attribute)):
            return []
        return [c for unit in self._named(func, module) for c in self.classes.get(unit, ())]

    def _read(self, index: int, module: Module, root: ast.AST) -> None:
        """Everything that a piece of code refers to; annotations and tests of a type run nothing."""
        leads_to, methods = self.units[index].leads_to, self._names
        todo: list[ast.AST] = [root]
        while todo:
            node = todo.pop()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    names = {alias.name} if isinstance(node, ast.Import) else set()
                    key = alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)
                    names |= {d.module for d in module.bindings.definitions_at(alias, key)}
                    for dotted in names:
                        leads_to |= self._imported(dotted, module)
            elif isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    leads_to |= self._named(node, module)
                    if node.id in ASKING and asks_when_called(node):
                        self._ask(index, module, asked_when_called())
            elif isinstance(node, ast.Constant):
                continue
            elif isinstance(node, ast.Attribute):
                inner: ast.expr = node
                while isinstance(inner, ast.Attribute):
                    if inner.attr in methods:
                        leads_to.add(methods[inner.attr])
                    inner = inner.value
                if isinstance(inner, ast.Name):
                    leads_to |= self._named(node, module)
                else:
                    todo.append(inner)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TYPE_TESTS:
                todo += node.args[:1]
            elif isinstance(node, ast.AnnAssign):
                todo += [n for n in (node.target, node.value) if n is not None]
            elif isinstance(node, ast.arguments):
                todo += [*node.defaults, *(d for d in node.kw_defaults if d is not None)]
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                todo += [node.args, *node.body, *(node.decorator_list if node is not root else [])]
            elif isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING":
                todo += node.orelse
            else:
                if isinstance(node, ast.Call):
                    self._called(index, module, node)
                todo.extend(children(node))

    def _named(self, node: ast.expr, module: Module) -> set[int]:
        """What a name, or a chain of attributes of a name, stands for; the longest part that is known decides."""
        chain = [node]
        while isinstance(chain[-1], ast.Attribute):
            chain.append(chain[-1].value)
        definitions = module.bindings.reaching(chain[-1])
        if not definitions and not module.bindings.star_modules:
            return set()
        if definitions and not any(d.kind in _NAMING for d in definitions):
            return set()
        parent = module.parents.get(node)
        handed_on = isinstance(parent, ast.Call) and node is not parent.func  # getattr(models, name)
        written = ".".join([p.attr if isinstance(p, ast.Attribute) else getattr(p, "id", "") for p in chain])
        key = (module.path, definitions, written, handed_on)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._resolved(chain, definitions, module, handed_on)
        return known

    def _resolved(
        self, chain: list[ast.expr], definitions: frozenset[Definition], module: Module, whole: bool
    ) -> set[int]:
        found: set[int] = set()
        for d in definitions:
            if d.scope is module.tree and d.kind in ("function", "class", "assign"):
                own = self.defined[module.path].get(d.key)
                if own is not None:
                    found.add(own)
            elif d.kind == "function" and isinstance(d.scope, ast.ClassDef) and d.node in self.of_node:
                found.add(self.of_node[d.node])  # `handlers = {"a": train}` in the class of `train`
        if found or not module.qualify(chain[-1]):
            return found
        for part in chain:
            for qualified in module.qualify(part):
                found |= self._definitions(qualified, module, whole)
            if found:
                break
            whole = isinstance(part, ast.Attribute) and part.attr == "__dict__"  # models.__dict__[name]
        return found

    def _definitions(self, qualified: str, module: Module, whole: bool) -> set[int]:
        where = self._within(qualified, module)
        if where is None:
            return set()
        target, rest = where
        name = rest.partition(".")[0]
        if name:
            own = self.defined[target.path].get(name)
            return {own} if own is not None else set()
        # A module itself, asked for something by a name that is not written: all that it offers.
        return self._offered(target) if whole else set()

    def _within(self, qualified: str, module: Module) -> tuple[Module, str] | None:
        """The project file that a name lies in: not in a project that is a framework, whose inside is no program's."""
        return None if qualified.startswith(FRAMEWORKS) else self.project.split(qualified, module)

    def _offered(self, module: Module) -> set[int]:
        known = self._offers.get(module.path)
        if known is None:
            known = self._offers[module.path] = set(self.defined[module.path].values())
            for definitions in module.bindings.exit_of(module.tree).values():
                for d in definitions:
                    if d.kind == "import":
                        for qualified in self.project.resolve(d.module, module):
                            known |= self._definitions(qualified, module, whole=False)
        return known

    def _imported(self, dotted: str, module: Module) -> set[int]:
        """What runs when a name is imported: the file that it lies in, and the packages around that."""
        where = self._within(dotted, module)
        if where is None:
            return set()
        found = {self.bodies[where[0].path]}
        head = where[0].name
        while "." in head:
            head = head.rpartition(".")[0]
            package = self.project.by_name.get(head)
            if package is not None:
                found.add(self.bodies[package.path])
        return found

    def _loads_by_name(self, module: Module) -> bool:
        return any(
            not module.callee(call).isdisjoint(_LOADS_BY_NAME) and not isinstance(_first(call), ast.Constant)
            for call in module.calls
        )


def _first(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else None


def _given(call: ast.Call) -> list[ast.expr]:
    """What a call is given, what stands in lists and dicts there included."""
    found: list[ast.expr] = []
    todo: list[ast.expr | None] = [*call.args, *(k.value for k in call.keywords)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Constant):
            continue
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            todo += node.elts
        elif isinstance(node, ast.Dict):
            todo += node.values
        elif isinstance(node, ast.Starred):
            todo.append(node.value)
        elif isinstance(node, ast.IfExp):
            todo += [node.body, node.orelse]
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            found.append(node)
    return found


def _registers(decorator: ast.expr) -> bool:
    name = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return any(word in name for word in _REGISTERING)


def _made(s: ast.stmt) -> str | None:
    """The one variable that a statement assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


def _table(s: ast.stmt) -> str | None:
    """The variable of an assignment that runs nothing (``MODELS = {"a": A}``): what it names is reached with it."""
    name = _made(s)
    return name if not any(isinstance(n, (ast.Call, ast.Await)) for n in ast.walk(s)) else None


def asks_for_main(test: ast.expr) -> bool:
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    return "__name__" in names and any(isinstance(n, ast.Constant) and n.value == "__main__" for n in ast.walk(test))


__all__ = ["Pieces", "asks_for_main"]
