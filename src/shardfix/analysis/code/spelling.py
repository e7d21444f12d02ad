"""How new code is spelled in a file: names that are free, and library names as this file already writes them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, canonical, last_name
from shardfix.rewrite.edits import AddImport, Edit, Span

_BETWEEN = 3  # statements between two imports that are still one head of a file
_SETTING_UP = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.Try, ast.Pass, ast.Raise)


def free_name(module: Module, node: ast.AST, candidates: Sequence[str]) -> str | None:
    """The first candidate that neither the scope around a node nor the module binds or reads."""
    scope = module.function(node) or module.tree
    taken = {d.key for d in module.bindings.definitions if d.scope is scope or d.scope is module.tree}
    taken |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name)}
    return next((c for c in candidates if c not in taken), None)


def means(module: Module, name: str, place: ast.AST, qualified: str) -> bool:
    """Whether a name stands for a library's module or class at a place: bound by an import that always runs, above the
    place, and by nothing else in any scope around it."""
    definitions = [d for d in module.bindings.definitions if d.key == name]
    scopes = {module.tree, *module.around(place)}
    mine = [d for d in definitions if d.scope in scopes and not isinstance(d.scope, ast.ClassDef)]
    if not mine or any(d.kind != "import" or qualified not in _qualify(module, d.module) for d in mine):
        return False
    if any(
        d.key == name for d in module.bindings.definitions if isinstance(d.scope, ast.ClassDef) and d.scope in scopes
    ):
        return False
    top = _top(module, place)
    return any(d.statement in module.tree.body and getattr(d.statement, "lineno", 0) < top for d in mine)


def _top(module: Module, place: ast.AST) -> int:
    """The line of the top-level statement around a place."""
    outer = [n for n in (place, *module.around(place)) if isinstance(n, ast.stmt)]
    return outer[-1].lineno if outer else 0


def _bound_to(module: Module, qualified: str, places: Sequence[ast.AST]) -> str | None:
    """The name by which a module-level import binds a library name for all of these places."""
    for d in module.bindings.definitions:
        if d.kind == "import" and d.scope is module.tree and "." not in d.key:
            if all(means(module, d.key, place, qualified) for place in places):
                return d.key
    return None


def _qualify(module: Module, imported: str) -> frozenset[str]:
    found = {canonical(imported)}
    found |= {canonical(r) for r in module.resolve(canonical(imported))}
    return frozenset(found)


def _may_import(module: Module, name: str, qualified: str, places: Sequence[ast.AST]) -> bool:
    """Whether an import of a name can be added on top: nothing else is called so, and no import further down is
    the one that the new one would be taken for."""
    for d in module.bindings.definitions:
        if d.key != name:
            continue
        if d.scope is module.tree:
            if d.kind != "import" or d.statement in module.tree.body or qualified not in _qualify(module, d.module):
                return False
        elif any(d.scope in module.around(place) for place in places):
            same = d.kind == "import" and qualified in _qualify(module, d.module)
            if not same or any(getattr(d.statement, "lineno", 0) > getattr(p, "lineno", 0) for p in places):
                return False
    return True


def spell_distributed_sampler(
    module: Module, call: ast.Call, others: Sequence[ast.AST] = ()
) -> tuple[str, tuple[Edit, ...]] | None:
    """How this file names DistributedSampler where a loader is built, and the import it needs for that; None where
    the name means something else.

    A file that writes ``torch.utils.data.DataLoader`` in full gets the sampler in full, without an import.

    Args:
        others: further places where the name is to mean the same.
    """
    places = (call, *others)
    known = _bound_to(module, DISTRIBUTED_SAMPLER, places)
    if known is not None:
        return known, ()
    in_full = "torch.utils.data.distributed.DistributedSampler"
    torch = all(means(module, "torch", place, "torch") for place in places)
    written = module.source.source(call.func)
    if written == "torch.utils.data.DataLoader" and torch:
        return in_full, ()
    package = _bound_to(module, "torch.utils.data.distributed", places)
    if package is not None:
        return f"{package}.DistributedSampler", ()
    data = _bound_to(module, "torch.utils.data", places)
    if data is not None and written == f"{data}.DataLoader":
        return f"{data}.distributed.DistributedSampler", ()
    if _may_import(module, "DistributedSampler", DISTRIBUTED_SAMPLER, places):
        package = DISTRIBUTED_SAMPLER.rpartition(".")[0]
        return "DistributedSampler", (AddImport(module.path, package, "DistributedSampler", beside(module)),)
    return (in_full, ()) if torch else None


def spell_distributed_package(module: Module, place: ast.AST) -> tuple[str, tuple[Edit, ...]] | None:
    """How this file names ``torch.distributed`` at a place, and the import it needs for that; None where ``torch``
    means something else there."""
    known = _bound_to(module, "torch.distributed", (place,))
    if known is not None:
        return known, ()
    if means(module, "torch", place, "torch"):
        return "torch.distributed", ()
    if not _may_import(module, "torch", "torch", (place,)):
        return None
    return "torch.distributed", (AddImport(module.path, "torch.distributed", "", beside(module)),)


def spell_subset(module: Module, place: ast.AST) -> tuple[str, tuple[Edit, ...]] | None:
    """How this file names ``torch.utils.data.Subset`` at a place, and the import it needs for that; None where the
    name means something else."""
    known = _bound_to(module, "torch.utils.data.Subset", (place,))
    if known is not None:
        return known, ()
    if not _may_import(module, "Subset", "torch.utils.data.Subset", (place,)):
        return None
    return "Subset", (AddImport(module.path, "torch.utils.data", "Subset", beside(module)),)


def beside(module: Module) -> Span | None:
    """The span of the top-level statement that imports DataLoader, the natural neighbour of a new torch import."""
    found = _importing(module, ("DataLoader", "DistributedSampler"))
    if found is None:
        found = _importing(module, ())
    return module.source.span(found) if found is not None else None


def below_imports(module: Module) -> Span | None:
    """The span of the last import at the top of a file that imports DataLoader: local modules are imported below it.

    A few statements may stand between two imports (``sys.path.append(..)``, a logger): not one that makes a loader.
    """
    first = _importing(module, ("DataLoader", "DistributedSampler")) or _importing(module, ())
    if first is None:
        return None
    last, between = first, 0
    for statement in module.tree.body[module.tree.body.index(first) + 1 :]:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last, between = statement, 0
            continue
        between += 1
        if between > _BETWEEN or not _sets_up(statement):
            break
    return module.source.span(last)


def _sets_up(statement: ast.stmt) -> bool:
    """Whether a statement between imports only sets something up, and makes no loader."""
    nodes = list(ast.walk(statement))
    if any(isinstance(n, ast.stmt) and not isinstance(n, _SETTING_UP) for n in nodes):
        return False
    if any(isinstance(n, ast.Name) and n.id == "__name__" for n in nodes if isinstance(statement, ast.If)):
        return False
    return not any("loader" in last_name(n.func).lower() for n in nodes if isinstance(n, ast.Call))


def _importing(module: Module, names: tuple[str, ...]) -> ast.stmt | None:
    """The first top-level statement that imports one of these names, or anything of torch or accelerate; an import
    inside ``try`` or ``if`` counts for the whole statement."""
    for statement in module.tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                package = (getattr(node, "module", None) or "").split(".")[0]
                if names and any(a.name in names for a in node.names):
                    return statement
                if not names and {package, *(a.name.split(".")[0] for a in node.names)} & {"torch", "accelerate"}:
                    return statement
    return None
