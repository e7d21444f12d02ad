"""Data that is split among ranks by itself, not at all, or twice: datasets that look at the rank, and streams."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.codemods._sharding import sampler_data

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.cuts import cut_in
from shardfix.analysis.model import Evidence, Finding
from shardfix.analysis.programs.configured import Settings
from shardfix.analysis.programs.processes import is_rank
from shardfix.analysis.sites import Site


def reads_rank(node: ast.AST) -> bool:
    """Whether something in a node is a rank."""
    return any(isinstance(n, ast.expr) and is_rank(n) for n in ast.walk(node))


def streams(site: Site) -> Iterator[Finding]:
    """What goes wrong where a stream of the project's own is prepared, so that rank 0 reads it for all."""
    module, dataset = site.module, site.dataset
    values = [dataset] if dataset is not None else []
    if isinstance(dataset, ast.Name):
        values = [d.value for d in module.bindings.reaching(dataset) if d.value is not None]
    for value in values:
        cls = module.class_definition(value.func) if isinstance(value, ast.Call) else None
        draws = module.method(cls, "__iter__") if cls is not None else None
        if cls is None or draws is None or not any(b.endswith("IterableDataset") for b in module.bases(cls)):
            continue
        if reads_rank(draws):
            yield Finding(
                "SHD703",
                site.location,
                "the stream yields only its rank's records, and prepare() takes all batches from rank 0: the others "
                "are never read",
                (module.evidence(draws), *site.owner_evidence),
                "yield every record and let prepare() split them, or do not prepare this loader",
            )
        if (
            "pad_sequence" in module.text
            and "dispatch_batches" not in module.text
            and "collate_fn" in site.arguments.bound
        ):
            yield Finding(
                "SHD714",
                site.location,
                "batches padded to different widths can't be joined on rank 0, which dispatches a stream's batches",
                (module.evidence(site.call),),
                "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))",
            )


def undispatched(site: Site) -> bool:
    """Whether each rank reads a prepared stream for itself: ``dispatch_batches=False``, where rank 0 deals out by
    default (accelerate 1.15: of 21 samples in batches of 4 on two ranks, gather_for_metrics gives 24 then, else 21)."""
    near = [site.module, *(site.module.home(use.node) for use in site.flow.of("prepare"))]
    return Settings(near).of("dispatch_batches").value is False


def split_twice(site: Site, again: str) -> Iterator[Finding]:
    """Data that each rank has only its part of, sharded once more."""
    module, dataset = site.module, site.dataset
    part = _between_processes(module, dataset) if dataset is not None else None
    for value in [dataset, *sampler_data(site)] if part is None and dataset is not None else ():
        found = cut_in(module, value)
        if part is None and found is not None:
            part = found[0].evidence(found[1])
    if part is not None:
        yield Finding(
            "SHD715",
            site.location,
            f"the data is split by rank already, and {again} again: each rank reads 1/W of its part, the rest is never "
            "read",
            (part, *site.owner_evidence),
            "split it once: give every rank the whole dataset, or do not shard the loader",
        )


def _between_processes(module: Module, dataset: ast.expr) -> Evidence | None:
    for d in module.bindings.reaching(dataset) if isinstance(dataset, ast.Name) else ():
        for item in getattr(d.statement, "items", []):
            context = item.context_expr
            if isinstance(context, ast.Call) and last_name(context.func) == "split_between_processes":
                return module.evidence(context)
    return None


def whole_stream(site: Site) -> Finding:
    """A stream that every rank reads."""
    evidence: tuple[Evidence, ...] = (site.module.evidence(site.call), *site.owner_evidence)
    return Finding(
        "SHD711",
        site.location,
        "nobody splits this stream: unless its __iter__ looks at the rank, every rank reads all of it; a stream "
        "whose length differs by rank hangs the others",
        evidence,
        "in __iter__, yield every world-size-th record starting at the rank (workers counted in); DataLoader takes "
        "no sampler here",
    )
