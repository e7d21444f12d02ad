"""The modules of a project linked: imports resolved across files, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import canonical, last_name
from shardfix.analysis.code.places import Places
from shardfix.analysis.code.tree import home

if TYPE_CHECKING:
    from shardfix.analysis.loaders.flow import Flow

_OUTSIDE = ("torch.", "accelerate.", "builtins.", "<local>.", "transformers.")
_PLACES = 64  # where a name is looked for


@dataclass(eq=False)
class Project:
    """The parsed modules by path; linking makes names resolve through re-exports of the project's own modules."""

    modules: dict[str, Module]
    by_name: dict[str, Module] = field(default_factory=dict)
    imports: dict[str, set[str]] = field(default_factory=dict)
    importers: dict[str, set[str]] = field(default_factory=dict)
    flows: dict[tuple[ast.expr, tuple[str, ...]], Flow] = field(default_factory=dict)  # where values go, once asked
    _calls: dict[str, list[ast.Call]] | None = None
    _renamed: dict[str, set[str]] = field(default_factory=dict)
    _loads: dict[str, list[ast.Attribute]] | None = None
    _stores: dict[str, list[Definition]] | None = None
    _imported: dict[str, list[Definition]] | None = None
    _derived: dict[ast.ClassDef, list[ast.ClassDef]] | None = None
    _resolved: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    _places: Places[Module] | None = None

    def split(self, qualified: str, importer: Module) -> tuple[Module, str] | None:
        """The project module that a qualified name lies in, and the rest of the name, as the importer would find it."""
        if self._places is None:
            self._places = Places(self.by_name)
        return self._places.split(qualified, importer.name.rpartition(".")[0])

    def resolve(self, qualified: str, importer: Module) -> frozenset[str]:
        """A qualified name followed through the project's re-exports."""
        key = (qualified, importer.name)
        known = self._resolved.get(key)
        if known is None:
            known = frozenset(self._follow(qualified, importer, set()) or {qualified})
            self._resolved[key] = known
        return known

    def _is_outside(self, qualified: str) -> bool:
        """Whether a name is a library's, not of a project that is this library."""
        return qualified.startswith(_OUTSIDE) and qualified.partition(".")[0] not in self.by_name

    def _follow(self, qualified: str, importer: Module, seen: set[tuple[str, str]]) -> set[str]:
        """What a name is, each place looked at once (packages that import all of each other go in circles); empty if
        it is not bound where it should be."""
        if self._is_outside(qualified):
            return {qualified}
        where = self.split(qualified, importer)
        if where is None or not where[1]:
            return {qualified}
        module, rest = where
        if (module.path, rest) in seen:
            return set()
        if len(seen) >= _PLACES:
            return {qualified}
        seen.add((module.path, rest))
        name, _, more = rest.partition(".")
        found: set[str] = set()
        for d in module.bindings.exit_of(module.tree).get(name, frozenset()):
            if d.kind == "import":
                target = canonical(d.module + (f".{more}" if more else ""))
                if target != qualified:
                    found |= self._follow(target, module, seen) or {target}
            elif d.kind in ("function", "class"):
                found.add(f"{module.name}.{rest}")
            elif d.kind == "assign" and d.value is not None and not more:
                found |= module.qualify(d.value)
        if not found:
            for star in module.bindings.star_modules:
                target = canonical(f"{star}.{rest}")
                starred = self.split(star, module)
                if self._is_outside(target) or (starred is not None and not starred[1]):  # itself, not one above it
                    found |= self._follow(target, module, seen)
        return found

    def named(self, qualified: str) -> list[Definition]:
        """The definitions of a resolved name: at a module's top level (``pkg.data.make``) or in a class there."""
        head, _, name = qualified.rpartition(".")
        module = self.by_name.get(head)
        if module is not None:
            found = module.bindings.exit_of(module.tree).get(name, frozenset())
        else:
            head, _, cls = head.rpartition(".")
            module = self.by_name.get(head)
            outer = module.bindings.exit_of(module.tree).get(cls, frozenset()) if module is not None else ()
            classes = [d.node for d in outer if isinstance(d.node, ast.ClassDef)]
            found = frozenset(d for c in classes if module for d in module.bindings.exit_of(c).get(name, ()))
        return sorted(found, key=lambda d: getattr(d.node, "lineno", 0))

    def calls_named(self, names: Collection[str]) -> list[ast.Call]:
        """The calls, in every module, that may be of a function of one of these names: also by a name that an import
        gives it (``from data import make as build``)."""
        if self._calls is None:
            self._calls = {}
            for module in self.modules.values():
                for call in module.calls:
                    self._calls.setdefault(last_name(call.func), []).append(call)
                for d in module.bindings.definitions:
                    written = d.module.rpartition(".")[2]
                    if d.kind == "import" and written != d.key:
                        self._renamed.setdefault(written, set()).add(d.key)
        wanted = dict.fromkeys(n for name in names for n in (name, *sorted(self._renamed.get(name, ()))))
        return [call for name in wanted for call in self._calls.get(name, [])]

    def loads_named(self, attribute: str) -> list[ast.Attribute]:
        """The loads of an attribute by its name, in every module."""
        if self._loads is None:
            self._loads = {}
            for module in self.modules.values():
                for name, loads in module.attribute_loads.items():
                    self._loads.setdefault(name, []).extend(loads)
        return self._loads.get(attribute, [])

    def stores_named(self, attribute: str) -> list[Definition]:
        """The assignments to an attribute of a plain name (``bundle.train = ..``), in every module."""
        if self._stores is None:
            self._stores = {}
            for module in self.modules.values():
                for d in module.bindings.definitions:
                    if "." in d.key and not d.key.startswith("self."):
                        self._stores.setdefault(d.key.rpartition(".")[2], []).append(d)
        return self._stores.get(attribute, [])

    def imported_as(self, qualified: str) -> list[Definition]:
        """The imports, in every module, of a top-level name."""
        if self._imported is None:
            self._imported = {}
            for module in self.modules.values():
                for d in module.bindings.definitions:
                    if d.kind == "import":
                        self._imported.setdefault(d.module.rpartition(".")[2], []).append(d)
        found = self._imported.get(qualified.rpartition(".")[2], [])
        homes = [(home(d.scope, None), d) for d in found]
        return [d for module, d in homes if module is not None and qualified in module.resolve(canonical(d.module))]

    def derived(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """The classes of the project that derive from a class, through several levels."""
        if self._derived is None:
            self._derived = {}
            for module in self.modules.values():
                for c in module.classes:
                    for base in module.lineage(c)[1:]:
                        self._derived.setdefault(base, []).append(c)
        return self._derived.get(cls, [])


def link(modules: dict[str, Module]) -> Project:
    """Link parsed modules into a project."""
    project = Project(modules, {m.name: m for m in modules.values()})
    for path, module in modules.items():
        module.forget()  # names resolved while fewer modules were known
        module.project = project
        targets: set[str] = set()
        names = [d.module for d in module.bindings.definitions if d.kind == "import"]
        for dotted in [*names, *module.bindings.star_modules]:
            where = project.split(dotted, module)
            if where is not None and where[0] is not module:
                targets.add(where[0].path)
        project.imports[path] = targets
        for target in targets:
            project.importers.setdefault(target, set()).add(path)
    return project
