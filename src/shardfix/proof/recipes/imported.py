"""The project's own code in a recipe: what is imported of it, from where, and what its calls are given."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition, parameters
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER, SAMPLER_KINDS, SIGNATURES, last_name
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.datasets import is_stand_in
from shardfix.proof.recipes.regime import call, dotted, name
from shardfix.proof.recipes.settings import default, exact, files_around, literal, options_of, settings
from shardfix.proof.stop import DEPTH

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_BUILTINS = frozenset(dir(builtins))
_DATASETS = ("dataset", "data_source", "datasets", "data", "ds", "train_dataset", "eval_dataset", "val_dataset")
_LIBRARIES = ("datasets.", "torchvision.datasets.", "torchaudio.datasets.", "torch.utils.data.Subset")
_FLAGS = ("shuffle", "drop_last", "replacement")
_BATCHES = ("batch_size", "samples_per_gpu", "bs")
_PARSERS = ("parse_args", "parse_known_args", "get_args", "parse_arguments")


@dataclass
class Imports:
    """What a recipe imports; one object serves the programs of one recipe.

    Args:
        root: the project's folder, absolute.
        script: the file of the loader, relative to it: what ``sys.argv`` holds.
    """

    root: str
    script: str = ""
    lines: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def add(self, line: str, folder: str) -> None:
        if line not in self.lines:
            self.lines.append(line)
        if folder not in self.folders:
            self.folders.append(folder)

    @property
    def entries(self) -> tuple[str, ...]:
        """The folders that go first on ``sys.path``, the project's own last."""
        paths = [f"{self.root}/{folder}" for folder in self.folders if folder]
        return (*paths, self.root)

    @property
    def prelude(self) -> str:
        """The import statements, as a program run as ``script`` without arguments would make them."""
        return "\n".join([f"import sys\nsys.argv[:] = [{self.root + '/' + self.script!r}]", *self.lines])


@dataclass(frozen=True, eq=False)
class Imported:
    """Translates what only the project's own code can say: its classes and functions are imported and called."""

    slicer: Slicer
    imports: Imports

    def value(self, node: ast.expr, depth: int = 0, parameter: str = "") -> ast.expr:
        """An expression that may use the project's own names.

        Args:
            parameter: the parameter that it is given to: it tells datasets, ranks, seeds and sizes of batches.
        """
        s = self.slicer
        if depth > DEPTH:
            raise s.stopped(f"`{text_of(node)}` is too far from its making to be followed", node)
        value = literal(node)
        if parameter in _BATCHES and (value is ... or type(value) is int):
            return s.quantities.batch(node, depth + 1)
        if value is not ... or isinstance(node, ast.Constant):
            return ast.Constant(node.value) if isinstance(node, ast.Constant) else ast.Constant(value)  # type: ignore[arg-type]
        if self.is_dataset(node, parameter):
            return s.datasets.dataset(node, depth + 1)
        launched = s.launched(node)
        if launched is not None:
            return launched
        if parameter == "seed":
            return s.quantities.seed(node, depth + 1)
        if parameter in _FLAGS:
            return s.conditions.boolean(node, depth + 1)
        if parameter == "num_workers":
            return ast.Constant(0)  # who reads what is the sampler's word
        if isinstance(node, ast.Call):
            return self.called(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.named(node, depth, parameter)
        return self.parts(node, depth)

    def is_dataset(self, node: ast.expr, parameter: str) -> bool:
        """Whether an expression is a dataset: the loader's own, of a Dataset class, or given to a parameter for one."""
        s = self.slicer
        own = self.own_dataset()
        if own is not None and text_of(own) == text_of(node):
            return True
        if isinstance(node, ast.Call):
            return self.makes_dataset(node)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return False
        made = [d.value for d in s.definitions(node) if d.kind == "assign"]
        if any(isinstance(v, ast.Call) and self.makes_dataset(v) for v in made):
            return True
        if any(self.derives(cls) for cls in s.module.instances(node)):
            return True
        return parameter in _DATASETS and exact(s.module, node) is ...

    def own_dataset(self) -> ast.expr | None:
        """What the construction is given for its dataset, by the signature of its class."""
        m, anchor = self.slicer.module, self.slicer.anchor
        for cls in m.project_classes(anchor.func):
            made = m.method(cls, "__init__")
            named = [p.arg for p in parameters(made) if p.arg in _DATASETS] if made is not None else []
            if made is not None and named:
                return argument_of(m, made, anchor, named[0])
        return m.arguments(anchor, DATA_LOADER).value("dataset")

    def makes_dataset(self, node: ast.Call) -> bool:
        m = self.slicer.module
        if any(self.derives(cls) for cls in m.project_classes(node.func)):
            return True
        return any(name.startswith(_LIBRARIES) for name in m.callee(node))

    def derives(self, cls: ast.ClassDef) -> bool:
        return any(base.rsplit(".", 1)[-1] == "Dataset" for base in self.slicer.module.bases(cls))

    # -- names -----------------------------------------------------------------------------------------------

    def named(self, node: ast.Name | ast.Attribute, depth: int, parameter: str) -> ast.expr:
        s = self.slicer
        known = exact(s.module, node)
        if known is not ...:
            return ast.Constant(known)  # type: ignore[arg-type]
        if s.conditions.is_sampler(node):
            return s.sampling.sampler(node, depth + 1)
        found = s.module.home(node).bindings.reaching(node)
        if isinstance(node, ast.Name) and not found:
            return self.free(node)
        if any(d.kind in ("function", "class", "import") for d in found):
            return self.bound(node, next(iter(found)))
        if self.is_options(node):
            return self.options(node, depth)
        bound = s.need(node, lambda v: self.value(v, depth + 1, parameter), depth + 1)
        if bound is not None:
            return bound
        usual = default(s.module, node)
        if usual is not ...:
            s.choices.stand_ins[text_of(node)] = repr(usual)
            return ast.Constant(usual)  # type: ignore[arg-type]
        if isinstance(node, ast.Attribute) and not settings(s.module, node):
            base = self.value(node.value, depth + 1)
            return ast.Attribute(base, node.attr, ast.Load())
        if last_name(node) in _BATCHES:
            return s.quantities.batch(node, depth + 1)
        raise s.stopped(f"`{text_of(node)}` has no value that is seen", node)

    def free(self, node: ast.Name) -> ast.expr:
        """A name that no statement of the file binds: a builtin, or from ``import *``."""
        home = self.slicer.module.home(node)
        if node.id in _BUILTINS:
            return name(node.id)
        for star in home.bindings.star_modules:
            if self.slicer.module.named(f"{star}.{node.id}") or len(home.bindings.star_modules) == 1:
                return self.imported(home, f"from {star} import {node.id}", star, node.id)
        raise self.slicer.stopped(f"`{node.id}` is not bound in this file", node)

    def bound(self, node: ast.Name | ast.Attribute, d: Definition) -> ast.expr:
        """A class, a function or an imported name, by the import that the file itself makes."""
        s = self.slicer
        home = s.module.home(d.node)
        if d.kind in ("function", "class"):
            if d.scope is not home.tree:
                raise s.stopped(f"`{text_of(node)}` is defined in a function: it can't be imported", node)
            dotted_, folder = spelling(home, home.path)
            variable = s.variable(d.scope, d.key)
            self.imports.add(f"from {dotted_} import {_as(d.key, variable)}", folder)
            return name(variable)
        statement, alias = d.statement, d.node
        assert isinstance(alias, ast.alias)
        variable = s.variable(d.scope, d.key)
        if isinstance(statement, ast.ImportFrom):
            module_name = d.module.rpartition(".")[0]
            return self.imported(home, f"from {module_name} import {_as(alias.name, variable)}", module_name, variable)
        if alias.asname:
            return self.imported(home, f"import {alias.name} as {variable}", alias.name, variable)
        top = alias.name.split(".")[0]
        if variable != top:
            self.imported(home, f"import {alias.name}", alias.name, top)
            return self.imported(home, f"import {top} as {variable}", top, variable)
        return self.imported(home, f"import {alias.name}", alias.name, variable)

    def imported(self, home: Module, line: str, module_name: str, variable: str) -> ast.expr:
        """An import of the file's own, with the folder that makes it work; a relative one by its absolute name."""
        where = home.project.split(module_name, home) if home.project is not None else None
        folder = spelling(home, home.path)[1]
        if where is not None:
            asked = module_name.removesuffix(f".{where[1]}") if where[1] else module_name
            natural, base = spelling(home, where[0].path)
            if natural == asked or natural.endswith(f".{asked}"):
                line, folder = line.replace(asked, natural, 1), base  # inside a package: by its whole name
            else:  # a folder without __init__.py, from where the import sees it
                stem = where[0].path.removesuffix(".py").removesuffix("/__init__")
                folder = stem.removesuffix(asked.replace(".", "/")).rstrip("/")
        self.imports.add(line, folder)
        return name(variable)

    # -- options ---------------------------------------------------------------------------------------------

    def is_options(self, node: ast.expr) -> bool:
        """Whether a name is what a parser made of the command line."""
        made = [d.value for d in self.slicer.definitions(node) if d.kind == "assign"]
        return bool(made) and all(isinstance(v, ast.Call) and last_name(v.func) in _PARSERS for v in made)

    def options(self, node: ast.expr, depth: int) -> ast.expr:
        """The parsed command line as it is without arguments: each option has its default."""
        self.imports.add("import types", "")
        found: dict[str, ast.expr] = {}
        for where in files_around(self.slicer.module.home(node)):
            for option, value in options_of(where).items():
                spelled = ast.Attribute(node, option, ast.Load())
                given = self.slicer.launched(ast.copy_location(spelled, node))
                if given is None:
                    given = self.slicer.attempt(lambda: self.value(value, depth + 1))  # noqa: B023 - called at once
                if given is not None:
                    found[option] = given
            if found:
                break
        self.slicer.choices.stand_ins[text_of(node)] = "the options' defaults"
        return call(dotted("types.SimpleNamespace"), **found)

    # -- calls -----------------------------------------------------------------------------------------------

    def called(self, node: ast.Call, depth: int) -> ast.expr:
        """A call, each argument by the parameter that gets it."""
        s = self.slicer
        for qualified in sorted(s.module.callee(node)):
            if qualified in SAMPLER_KINDS:
                return s.sampling.construction(node, qualified, depth)
        usual = exact(s.module, node)
        if usual is not ...:
            return ast.Constant(usual)  # type: ignore[arg-type]
        if isinstance(node.func, ast.Attribute) and not s.module.qualify(node.func):
            on = self.value(node.func.value, depth + 1)
            if is_stand_in(on):
                raise s.stopped(f"`{text_of(node)}` asks the dataset itself, for which indices stand in", node)
            function: ast.expr = ast.Attribute(on, node.func.attr, ast.Load())
        else:
            function = self.value(node.func, depth + 1)
        names = self.parameters_of(node)
        arguments: list[ast.expr] = []
        for i, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                arguments.append(ast.Starred(self.value(argument.value, depth + 1), ast.Load()))
            elif i == 0 and self.holds_another(node, argument):
                arguments.append(s.datasets.dataset(argument, depth + 1))
            else:
                arguments.append(self.value(argument, depth + 1, names[i] if i < len(names) else ""))
        keywords = [
            ast.keyword(k.arg, self.value(k.value, depth + 1, k.arg or ""))
            for given in node.keywords
            for k in self.spread(given)
        ]
        return ast.Call(function, arguments, keywords)

    def spread(self, given: ast.keyword) -> list[ast.keyword]:
        """The arguments that ``**kwargs`` stands for, where it is the parameter of a function that one call runs."""
        s = self.slicer
        if given.arg is not None or not isinstance(given.value, ast.Name):
            return [given]
        found = list(s.definitions(given.value))
        function = found[0].scope if len(found) == 1 and found[0].kind == "parameter" else None
        if (
            not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            or found[0].node is not function.args.kwarg
        ):
            return [given]
        entered = s.functions.entered.get(function)
        calls = [entered] if entered is not None else s.module.callers(function)
        if len(calls) != 1 or any(k.arg is None for k in calls[0].keywords):
            return [given]
        return [k for k in calls[0].keywords if s.module.parameter_of(function, calls[0], k) is None]

    def holds_another(self, node: ast.Call, first: ast.expr) -> bool:
        """Whether a dataset of the project's own is made around another: what it takes first, if that is no setting."""
        m = self.slicer.module
        if not any(self.derives(cls) for cls in m.project_classes(node.func)):
            return False
        return isinstance(first, (ast.Name, ast.Attribute, ast.Call)) and not settings(m, first)

    def parameters_of(self, node: ast.Call) -> list[str]:
        """The names of the parameters that a call's arguments bind to, in their order."""
        m = self.slicer.module
        functions = m.called_functions(node)
        if functions:
            names = [a.arg for a in parameters(functions[0])]
            return names[1:] if m.is_method(functions[0]) else names
        bases = {b for c in m.project_classes(node.func) for b in m.bases(c)} | m.callee(node)
        return next((list(SIGNATURES[b]) for b in sorted(bases) if b in SIGNATURES), [])

    def parts(self, node: ast.expr, depth: int) -> ast.expr:
        """Any other expression, with its parts translated; what binds names of its own is taken as written only where
        it uses no others."""
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return _Renamed(self, depth).whole(node)
        made = ast.copy_location(type(node)(**{f: getattr(node, f) for f in node._fields}), node)
        for key in node._fields:
            held = getattr(node, key)
            if isinstance(held, list):
                setattr(made, key, [self.value(v, depth + 1) if isinstance(v, ast.expr) else v for v in held])
            elif isinstance(held, ast.expr):
                setattr(made, key, self.value(held, depth + 1))
        return made


class _Renamed(ast.NodeTransformer):
    """A lambda or comprehension with the names that it takes from outside translated."""

    def __init__(self, imported: Imported, depth: int) -> None:
        self.imported = imported
        self.depth = depth
        self.own: set[str] = set()

    def whole(self, node: ast.expr) -> ast.expr:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                self.own.add(n.id)
            elif isinstance(n, ast.arg):
                self.own.add(n.arg)
        return self._made(node)

    def _made(self, node: ast.AST) -> ast.expr:
        if isinstance(node, ast.Name):
            return name(node.id) if node.id in self.own else self.imported.value(node, self.depth + 1)
        if isinstance(node, (ast.Attribute, ast.Call)) and not any(
            isinstance(n, ast.Name) and n.id in self.own for n in ast.walk(node)
        ):
            return self.imported.value(node, self.depth + 1)
        made = type(node)(**{f: getattr(node, f) for f in node._fields})
        for key in node._fields:
            held = getattr(node, key)
            if isinstance(held, list):
                setattr(made, key, [self._made(v) if _translated(v) else v for v in held])
            elif isinstance(held, ast.AST) and _translated(held):
                setattr(made, key, self._made(held))
        return made  # type: ignore[return-value]


def _translated(node: object) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, (ast.expr, ast.comprehension, ast.keyword))


def _as(key: str, variable: str) -> str:
    return key if key == variable else f"{key} as {variable}"


def spelling(home: Module, path: str) -> tuple[str, str]:
    """The dotted name by which a project file is imported, and the folder that must be on ``sys.path`` for it: the one
    that holds its outermost package, or the file's own."""
    modules = home.project.modules if home.project is not None else {}
    parts = path[: -len(".py")].split("/")
    if parts[-1] == "__init__":
        parts.pop()
    first = len(parts) - 1
    while first > 0 and "/".join([*parts[:first], "__init__.py"]) in modules:
        first -= 1
    return ".".join(parts[first:]), "/".join(parts[:first])


__all__ = ["Imported", "Imports", "spelling"]
