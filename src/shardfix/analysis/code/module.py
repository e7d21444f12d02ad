"""One parsed source file with what the analysis asks of it: parents, bindings, qualified names, call sites."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.arguments import Arguments, bind
from shardfix.analysis.code.bindings import (
    Bindings,
    Definition,
    Environment,
    FunctionNode,
    ScopeNode,
    attribute_key,
    parameters,
)
from shardfix.analysis.code.calling import called_functions, callers, instance_classes
from shardfix.analysis.code.dicts import dict_items
from shardfix.analysis.code.kept_functions import is_kept_call
from shardfix.analysis.code.names import canonical
from shardfix.analysis.code.source_map import SourceMap
from shardfix.analysis.code.tree import Parents, enclosing, home, plant, settle
from shardfix.analysis.model import Evidence, Location

if TYPE_CHECKING:
    from shardfix.analysis.code.project import Project
    from shardfix.rewrite.edits import Span

_BUILTINS = frozenset(dir(builtins))
_DEPTH = 8  # how many assignments a name is followed back


class ParseFailure(Exception):
    """The file is not Python that the running interpreter can parse."""

    def __init__(self, location: Location, reason: str, remedy: str = "") -> None:
        super().__init__(f"{location}: {reason}")
        self.location = location
        self.reason, self.remedy = reason, remedy


@dataclass(eq=False)
class Module:
    """A file's tree and its indexes. ``name`` is the dotted module name from the project root."""

    path: str
    text: str
    tree: ast.Module
    source: SourceMap
    parents: Parents
    bindings: Bindings
    name: str
    calls: list[ast.Call]
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef]
    classes: list[ast.ClassDef]
    attribute_definitions: dict[tuple[ast.ClassDef, str], list[Definition]] = field(default_factory=dict)
    attribute_loads: dict[str, list[ast.Attribute]] = field(default_factory=dict)
    project: Project | None = None  # what it is linked into
    _qualified: dict[ast.AST, frozenset[str]] = field(default_factory=dict)
    _callers: dict[tuple[ast.AST, bool], list[ast.Call]] = field(default_factory=dict)
    _instances: dict[ast.expr, list[ast.ClassDef]] = field(default_factory=dict)
    _lineages: dict[ast.ClassDef, list[ast.ClassDef]] = field(default_factory=dict)
    _called: dict[tuple[ast.Call, bool], list[ast.FunctionDef | ast.AsyncFunctionDef]] = field(default_factory=dict)

    # -- files -----------------------------------------------------------------------------------------------

    def home(self, node: ast.AST) -> Module:
        """The module that a node belongs to: this one for a node that was made up.

        Every question about a node is answered by its own module, whichever module of the project is asked.
        """
        return home(node, self)

    @property
    def fellows(self) -> tuple[Module, ...]:
        """Every module of the project, this one included."""
        return tuple(self.project.modules.values()) if self.project is not None else (self,)

    def resolve(self, qualified: str) -> frozenset[str]:
        """A qualified name as this module would import it, followed through the project's re-exports."""
        return self.project.resolve(qualified, self) if self.project is not None else frozenset((qualified,))

    # -- names -----------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Forget what names were resolved to, and who calls what."""
        self._qualified.clear()
        self._callers.clear()
        self._called.clear()
        self._lineages.clear()
        self._instances.clear()

    def qualify(self, node: ast.expr, depth: int = 0) -> frozenset[str]:
        """Every qualified name that an expression may stand for, resolved by scope; empty if none is known."""
        known = self._qualified.get(node)
        if known is not None:
            return known
        own = self.home(node)
        if own is not self:
            return own.qualify(node, depth)
        if depth > _DEPTH:
            return frozenset()
        found: set[str] = set()
        if isinstance(node, ast.Name):
            definitions = self.bindings.reaching(node)
            for d in definitions:
                found |= self._qualify_definition(d, depth)
            if not definitions:
                found |= {f"{star}.{node.id}" for star in self.bindings.star_modules}
                if node.id in _BUILTINS:
                    found.add(f"builtins.{node.id}")
                elif node.id == "torch":
                    found.add("torch")  # not bound here: it can only be meant so
        elif isinstance(node, ast.Attribute):
            for d in self.bindings.reaching(node):
                if d.kind == "assign" and d.value is not None and d.index is None:
                    found |= self._qualify_definition(d, depth)
            for base in self.qualify(node.value, depth + 1):
                found.add(f"{base}.{node.attr}")
        elif isinstance(node, ast.IfExp):
            found |= self.qualify(node.body, depth + 1) | self.qualify(node.orelse, depth + 1)
        resolved: set[str] = set()
        for name in found:
            name = canonical(name)
            resolved |= {canonical(r) for r in self.resolve(name)}
        result = frozenset(resolved)
        self._qualified[node] = result
        return result

    def _qualify_definition(self, d: Definition, depth: int) -> frozenset[str]:
        if d.kind == "import":
            return frozenset((d.module,))
        if d.kind in ("function", "class"):
            return frozenset((f"{self.name}.{d.key}",)) if d.scope is self.tree else frozenset((f"<local>.{d.key}",))
        if d.kind == "assign" and d.index is None and isinstance(d.value, (ast.Name, ast.Attribute, ast.IfExp)):
            return self.qualify(d.value, depth + 1)
        return frozenset()

    def callee(self, call: ast.Call) -> frozenset[str]:
        """The qualified names of what a call calls."""
        return self.qualify(call.func)

    def is_call(self, node: ast.AST | None, *names: str) -> bool:
        """Whether a node is a call of one of these qualified names."""
        return isinstance(node, ast.Call) and not self.callee(node).isdisjoint(names)

    # -- structure -------------------------------------------------------------------------------------------

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        return enclosing(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        current = node
        while not isinstance(current, ast.stmt):
            current = self.parents[current]
        return current

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around a node, None at module level."""
        for n in self.around(node):
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return n
        return None

    def scope(self, node: ast.AST) -> FunctionNode | ast.Module:
        """The innermost function around a node, its file's top level where it is in none."""
        return self.function(node) or self.home(node).tree

    def environment(self, node: ast.AST) -> Environment | None:
        """What each local name may be where an expression is evaluated; None if that is not known."""
        own = self.home(node)
        scope = next((n for n in self.around(node) if isinstance(n, ScopeNode)), own.tree)
        return own.bindings.environment(node, scope)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose method a node stands in."""
        previous: ast.AST = node
        for n in self.around(node):
            if isinstance(n, ast.ClassDef) and not isinstance(previous, ast.ClassDef):
                return n
            previous = n
        return None

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that holds a statement."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody", "handlers"):
            body = getattr(parent, name, None)
            if isinstance(body, list) and statement in body:
                return body
        for case in getattr(parent, "cases", []):
            if statement in case.body:
                return list(case.body)
        return [statement]

    def bases(self, cls: ast.ClassDef) -> set[str]:
        """Qualified names of a class's bases, those of base classes in this project included."""
        return {name for c in self.lineage(cls) for base in c.bases for name in self.qualify(_origin(base))}

    def lineage(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """A class and the classes of this project that it derives from, the nearest first."""
        own = self.home(cls)
        known = own._lineages.get(cls)
        if known is None:
            known = own._lineages[cls] = [cls]
            for current in known:  # grows while it is walked
                known += [c for base in current.bases for c in self.project_classes(_origin(base)) if c not in known]
        return known

    def project_classes(self, node: ast.expr) -> list[ast.ClassDef]:
        """The classes of this project that an expression may stand for."""
        own = self.class_definition(node)
        if own is not None:
            return [own]
        found = [d.node for name in sorted(self.qualify(node)) for d in self.named(name) if d.kind == "class"]
        return [cls for cls in found if isinstance(cls, ast.ClassDef)]

    def named(self, qualified: str) -> list[Definition]:
        """What a qualified name is bound to at the top level of a module of this project."""
        return self.project.named(qualified) if self.project is not None else []

    def class_definition(self, node: ast.expr) -> ast.ClassDef | None:
        """The class that a name stands for by a class statement of its own file."""
        for d in self.bindings.reaching(node):
            if d.kind == "class" and isinstance(d.node, ast.ClassDef):
                return d.node
        return None

    def method(self, cls: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """A method by name, looked up in the class and its bases in this project."""
        for current in self.lineage(cls):
            for s in current.body:
                if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)) and s.name == name:
                    return s
        return None

    def attribute_values(self, cls: ast.ClassDef, name: str) -> list[Definition]:
        """The assignments to ``self.name`` in the methods of a class."""
        return self.home(cls).attribute_definitions.get((cls, name), [])

    def instances(self, node: ast.expr) -> list[ast.ClassDef]:
        """The classes of this project of which the value of an expression is an instance; empty if not all are seen."""
        own = self.home(node)
        if node not in own._instances:
            own._instances[node] = instance_classes(own, node)
        return own._instances[node]

    # -- calls -----------------------------------------------------------------------------------------------

    def called_functions(self, call: ast.Call, *, passed: bool = True) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions and methods of this project that a call may run (``__init__`` for a class).

        Args:
            passed: whether the object of a method is also looked for in what callers give to a parameter.
        """
        own = self.home(call)
        if (call, passed) not in own._called:
            own._called[call, passed] = called_functions(own, call, passed=passed)
        return own._called[call, passed]

    def called_function(self, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function or method of this project that a call runs, as far as its file shows: an override in a derived
        class may run in its place. None for one of several that are kept in a dict."""
        found = self.called_functions(call)
        return found[0] if found and (len(found) == 1 or not is_kept_call(call)) else None

    def callers(self, function: ast.AST, *, passed: bool = True) -> list[ast.Call]:
        """The calls in this project that run one of its functions; ``passed`` as in ``called_functions``."""
        own = self.home(function)
        if (function, passed) not in own._callers:
            own._callers[function, passed] = callers(own, function, passed=passed)
        return own._callers[function, passed]

    def is_method(self, function: ast.AST) -> bool:
        """Whether a function is a method that takes ``self`` or ``cls`` first."""
        if not isinstance(self.parents.get(function), ast.ClassDef):
            return False
        decorators = getattr(function, "decorator_list", [])
        return not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)

    def parameter_for(self, call: ast.Call, argument: ast.AST) -> ast.arg | None:
        """The parameter to which a call's argument (value or keyword) binds, of the function that it runs."""
        function = self.called_function(call)
        return self.parameter_of(function, call, argument) if function is not None else None

    def parameter_of(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, argument: ast.AST
    ) -> ast.arg | None:
        """The parameter of a function to which an argument (value or keyword) of a call of it binds."""
        names = parameters(function)
        skipped = int(self.is_method(function) and not self._unbound(call))
        names = names[skipped:]
        for i, value in enumerate(call.args):
            if isinstance(value, ast.Starred):
                return None
            if value is argument:
                return (
                    names[i]
                    if i < len(names) and i < len(function.args.posonlyargs) + len(function.args.args) - skipped
                    else None
                )
        for keyword in call.keywords:
            if keyword is argument or keyword.value is argument:
                return next((n for n in names if n.arg == keyword.arg), None)
        return None

    def _unbound(self, call: ast.Call) -> bool:
        """Whether a method is called on its class, ``Base.__init__(self, loader)``: ``self`` is given."""
        given = call.args[0] if call.args else None
        return (
            isinstance(call.func, ast.Attribute)
            and isinstance(given, ast.Name)
            and given.id == "self"
            and bool(self.project_classes(call.func.value))
        )

    # -- arguments -------------------------------------------------------------------------------------------

    def arguments(self, call: ast.Call, signature: str) -> Arguments:
        """A call's arguments bound to a signature of ``names.SIGNATURES``."""
        return bind(self.home(call), call, signature)

    def dict_items(self, node: ast.expr) -> dict[str, list[ast.expr]] | None:
        """The items of a dict whose making is visible in this file, each key with every value; None if it is not."""
        return dict_items(self.home(node), node)

    # -- words for people ------------------------------------------------------------------------------------

    def location(self, node: ast.AST) -> Location:
        """Where a node starts."""
        return self.source.location(node)

    def place(self, node: ast.AST) -> tuple[str, Span]:
        """The file that a node stands in and its span there: where an edit of it is made."""
        return self.home(node).path, self.source.span(node)

    def evidence(self, node: ast.AST, text: str = "") -> Evidence:
        """The line on which a node starts, as evidence."""
        location = self.location(node)
        return Evidence(location, text or self.home(node).source.line_text(location.line))


def _origin(base: ast.expr) -> ast.expr:
    """``Base`` of a base class written ``Base[T]``."""
    return base.value if isinstance(base, ast.Subscript) else base


def is_false(node: ast.expr) -> bool:
    """Whether an expression is the literal ``False``."""
    return isinstance(node, ast.Constant) and node.value is False


def module_name(path: str) -> str:
    """The dotted name of a project-relative path: ``src/pkg/data.py`` is ``pkg.data``."""
    parts = path.removesuffix(".py").split("/")
    if parts and parts[0] == "src" and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def parse(path: str, text: str) -> Module:
    """Parse a file and index it.

    Args:
        path: project-relative, with ``/`` between its parts.
        text: decoded source without a byte order mark.

    Raises:
        ParseFailure: the running interpreter cannot parse it; the reason says which version could, where known.
    """
    from shardfix.analysis.code.syntax import explain_syntax_error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            line, column = error.lineno or 1, error.offset or 1
            raise ParseFailure(Location(path, line, max(column, 1)), *explain_syntax_error(text, error)) from None
        except (RecursionError, MemoryError, ValueError) as error:
            raise ParseFailure(Location(path, 1, 1), f"cannot be parsed ({type(error).__name__}: {error})") from None
    calls: list[ast.Call] = []
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    classes: list[ast.ClassDef] = []
    loads: dict[str, list[ast.Attribute]] = {}
    for node in plant(tree):
        if isinstance(node, ast.Call):
            calls.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append(node)
        elif isinstance(node, ast.ClassDef):
            classes.append(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            loads.setdefault(node.attr, []).append(node)
    calls.sort(key=lambda c: (c.lineno, c.col_offset))
    name = module_name(path)
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    bindings = Bindings(tree, package)
    module = Module(path, text, tree, SourceMap(path, text), Parents(), bindings, name, calls, functions, classes)
    module.attribute_loads = loads
    settle(tree, module)
    for d in bindings.definitions:
        if d.key.startswith("self."):
            cls = module.class_of(d.node)
            if cls is not None:
                module.attribute_definitions.setdefault((cls, d.key[5:]), []).append(d)
    return module


__all__ = ["Module", "ParseFailure", "attribute_key", "is_false", "module_name", "parse"]
