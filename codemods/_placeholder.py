"""``set_epoch`` on what a prepared loader has for a sampler: a placeholder that does not take it."""

from __future__ import annotations

import ast

from shardfix.codemods._prepared_names import surely_prepared

from shardfix.analysis.model import Change
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, ReplaceExpression


def wrong_receiver(site: Site) -> Change | None:
    """``loader.sampler.set_epoch`` on a prepared loader: the sampler there is a placeholder without ``set_epoch``."""
    if site.owner != "accelerate" or "distributed" in site.kinds:
        return None
    module = site.module
    edits: list[Edit] = []
    evidence = []
    prepared = {u.value for u in site.flow.uses if u.prepared is not None and u.kind == "attribute"}
    for told in site.told:
        receiver = told.receiver
        if not (isinstance(receiver, ast.Attribute) and receiver.attr == "sampler" and receiver.value in prepared):
            continue
        if isinstance(told.call.func, ast.Attribute) and _only_prepared(site, receiver.value, told.call):
            source = module.source.source(receiver.value)
            edits.append(ReplaceExpression(module.home(receiver).path, module.source.span(receiver), source))
            evidence.append(module.evidence(told.call))
    if not edits:
        return None
    return Change(
        site.location,
        "insert_set_epoch",
        ("SHD402",),
        "safe",
        "tell the prepared loader the epoch, not its placeholder sampler",
        tuple(edits),
        consequences=("the call no longer raises AttributeError; the prepared loader passes the epoch on",),
        evidence=tuple(evidence),
    )


def _only_prepared(site: Site, node: ast.expr, call: ast.Call) -> bool:
    """Whether no loader can stand there as it was built: the factory may give another program one."""
    raw = {u.value for s in (site, *site.siblings) for u in s.flow.of("attribute") if u.prepared is None}
    if site.module.home(node) is site.module:
        return node not in raw
    return node not in raw and isinstance(node, (ast.Name, ast.Attribute)) and surely_prepared(site, node, call)
