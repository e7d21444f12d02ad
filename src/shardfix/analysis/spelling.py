"""How new code is spelled in a file: names that are free, and library names as this file already writes them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.module import Module
from shardfix.analysis.names import DISTRIBUTED_SAMPLER, canonical
from shardfix.rewrite.edits import AddImport, Edit, Span


def free_name(module: Module, node: ast.AST, candidates: Sequence[str]) -> str | None:
    """The first candidate that neither the scope around a node nor the module binds or reads."""
    scope = module.function(node) or module.tree
    taken = {d.key for d in module.bindings.definitions if d.scope is scope or d.scope is module.tree}
    taken |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name)}
    return next((c for c in candidates if c not in taken), None)


def _bound_to(module: Module, qualified: str) -> str | None:
    """The name by which a module-level import binds a library name."""
    for name, definitions in module.bindings.exit_of(module.tree).items():
        if len(definitions) == 1:
            (d,) = definitions
            if d.kind == "import" and d.scope is module.tree and "." not in name:
                use = ast.Name(name, ast.Load())
                if qualified in _qualify(module, use, d.module):
                    return name
    return None


def _qualify(module: Module, use: ast.Name, imported: str) -> frozenset[str]:
    found = {canonical(imported)}
    if module.resolver is not None:
        found |= {canonical(r) for r in module.resolver(canonical(imported), module)}
    return frozenset(found)


def spell_distributed_sampler(module: Module, call: ast.Call) -> tuple[str, tuple[Edit, ...]]:
    """How this file names DistributedSampler, and the import it needs for that.

    A file that writes ``torch.utils.data.DataLoader`` in full gets the sampler in full, without an import.
    """
    known = _bound_to(module, DISTRIBUTED_SAMPLER)
    if known is not None:
        return known, ()
    written = module.source.source(call.func)
    if written == "torch.utils.data.DataLoader":
        return "torch.utils.data.distributed.DistributedSampler", ()
    package = _bound_to(module, "torch.utils.data.distributed")
    if package is not None:
        return f"{package}.DistributedSampler", ()
    data = _bound_to(module, "torch.utils.data")
    if data is not None and written == f"{data}.DataLoader":
        return f"{data}.distributed.DistributedSampler", ()
    return "DistributedSampler", (
        AddImport(module.path, DISTRIBUTED_SAMPLER.rpartition(".")[0], "DistributedSampler", beside(module)),
    )


def spell_distributed_package(module: Module) -> tuple[str, tuple[Edit, ...]]:
    """How this file names ``torch.distributed``, and the import it needs for that."""
    known = _bound_to(module, "torch.distributed")
    if known is not None:
        return known, ()
    if _bound_to(module, "torch") == "torch":
        return "torch.distributed", ()
    return "torch.distributed", (AddImport(module.path, "torch.distributed", "", beside(module)),)


def spell_subset(module: Module) -> tuple[str, tuple[Edit, ...]]:
    """How this file names ``torch.utils.data.Subset``, and the import it needs for that."""
    known = _bound_to(module, "torch.utils.data.Subset")
    if known is not None:
        return known, ()
    return "Subset", (AddImport(module.path, "torch.utils.data", "Subset", beside(module)),)


def beside(module: Module) -> Span | None:
    """The span of the top-level statement that imports DataLoader, the natural neighbour of a new torch import."""
    found = _importing(module, ("DataLoader", "DistributedSampler"))
    if found is None:
        found = _importing(module, ())
    return module.source.span(found) if found is not None else None


def below_imports(module: Module) -> Span | None:
    """The span of the last import of the block that imports DataLoader: local modules are imported below it."""
    first = _importing(module, ("DataLoader", "DistributedSampler")) or _importing(module, ())
    if first is None:
        return None
    last = first
    for statement in module.tree.body[module.tree.body.index(first) + 1 :]:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            break
        last = statement
    return module.source.span(last)


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
