"""Where a loader's sampler and shuffle are written, in its call or in dicts, and the edits that make it plain there."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.codemods._entries import dropped, given, renamed

from shardfix.analysis.code.arguments import Argument
from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.loaders.samplers import Arm, arms
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropImport, DropKeyword, Edit, SetKeyword


def paths(site: Site) -> list[tuple[tuple[Arm, ...], ast.expr | None]]:
    """The samplers that a loader may have with what it is given for ``shuffle`` beside them, on each way."""
    if not site.arguments.ways:
        return [(site.arms, site.arguments.value("shuffle"))]
    found: list[tuple[tuple[Arm, ...], ast.expr | None]] = []
    none = tuple(a for a in site.arms if a.kind == "none" and a.node is site.call.func)
    for way in site.arguments.ways:
        sampler, shuffle = way.get("sampler"), way.get("shuffle")
        mine = arms(site.module, sampler.value) if sampler is not None else none
        found.append((mine, shuffle.value if shuffle is not None else None))
    return found


def written(site: Site) -> list[Argument]:
    """Where ``sampler`` and ``shuffle`` are written, on whatever way."""
    found = [way[name] for way in site.arguments.paths for name in ("sampler", "shuffle") if name in way]
    return list(dict.fromkeys(found))


def holders_of(site: Site) -> list[ast.AST]:
    """The dicts, and what else, that hold ``sampler`` and ``shuffle``."""
    return list(dict.fromkeys(a.holder for a in written(site) if a.holder is not None))


def all_in_call(site: Site) -> bool:
    return not site.arguments.ways and not holders_of(site)


def entry_edits(site: Site, shuffle: str) -> list[Edit] | None:
    """The edits where ``sampler`` and ``shuffle`` are items of a dict; None where they can't be made."""
    turned: dict[Argument, bool] = {}
    edits: list[Edit] = []
    standing = {way["shuffle"] for way in site.arguments.paths if "sampler" not in way and "shuffle" in way}
    for way in site.arguments.paths:
        sampler, existing = way.get("sampler"), way.get("shuffle")
        if shuffle not in ("True", "False"):
            return None  # its names may have other values where the dict is filled
        if sampler is not None:
            turn = shuffle == "True" and existing is None
            if turned.setdefault(sampler, turn) is not turn:
                return None
        if sampler is None:
            continue  # this way stays as it is
        if existing is not None and not (
            isinstance(existing.value, ast.Constant) and str(existing.value.value) == shuffle
        ):
            if existing in standing:
                return None  # it also is what a way without a sampler shuffles by
            changed = given(site, existing, shuffle)
            if changed is None:
                return None
            edits += changed
    for sampler, turn in turned.items():
        changed = renamed(site, sampler, "shuffle", shuffle) if turn else dropped(site, sampler)
        if changed is None:
            return None
        edits += changed
    edits += [DropImport(site.module.path, name) for name in class_names(site.module, site.arms)]
    return list(dict.fromkeys(edits))


def loader_edits(site: Site, shuffle: str) -> list[Edit]:
    module, path = site.module, site.module.path
    call = module.source.span(site.call)
    existing = site.arguments.bound.get("shuffle")
    sampler = site.arguments.bound["sampler"]
    edits: list[Edit] = []
    if sampler.position is not None:
        assert existing is not None  # shuffle stands before the sampler
        if not (shuffle == "False" and is_false(existing.value)):
            edits.append(SetKeyword(path, call, "shuffle", shuffle, positional=existing.position))
        edits.append(SetKeyword(path, call, "sampler", "None", positional=sampler.position))
    elif shuffle == "False":
        edits.append(DropKeyword(path, call, "sampler"))
        if existing is not None and not is_false(existing.value):
            if existing.keyword:
                edits.append(DropKeyword(path, call, "shuffle"))
            else:
                edits.append(SetKeyword(path, call, "shuffle", "False", positional=existing.position))
    elif existing is None:
        edits.append(SetKeyword(path, call, "shuffle", shuffle, replacing="sampler"))
    else:
        edits.append(SetKeyword(path, call, "shuffle", shuffle, positional=existing.position))
        edits.append(DropKeyword(path, call, "sampler"))
    for name in class_names(module, site.arms):
        edits.append(DropImport(path, name))
    return edits


def class_names(module: Module, arms: Sequence[Arm]) -> list[str]:
    names = [a.node.func.id for a in arms if isinstance(a.node, ast.Call) and isinstance(a.node.func, ast.Name)]
    return list(dict.fromkeys(names))
