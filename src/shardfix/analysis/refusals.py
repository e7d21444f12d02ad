"""Refusals: the reasons for which a site is left alone, each with the fact that is missing and what settles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason not to edit.

    Args:
        code: stable for good.
        title: the reason in a clause.
        missing: the fact that is missing, or the danger, in a sentence or two.
        remedy: what the user can do, in the code or in a comment.
        settled_by: the answers (``owner=self``) in a comment that settle the question for good.
    """

    code: str
    title: str
    missing: str
    remedy: str
    settled_by: tuple[str, ...] = ()


_ALL = (
    Refusal(
        "SHD901",
        "owner not shown",
        "Who shards this loader at run time: it is prepared on one path and not on another, leaves the code that is "
        "followed, or belongs to a module that programs of several kinds import.",
        "say it on the statement, `# shardfix: owner=accelerate` (or ddp, single, self), or of all loaders that a "
        "function builds, in [tool.shardfix.owners]",
        ("owner=accelerate", "owner=ddp", "owner=single", "owner=self"),
    ),
    Refusal(
        "SHD902",
        "sampler comes from elsewhere",
        "Which sampler the loader gets: it is a parameter, a factory's result or an attribute whose value is not seen.",
        "build the sampler where the loader is built; if it gives each rank its own share, say so: "
        "`# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD903",
        "arguments not seen",
        "Whether `*args` or `**kwargs` hold `sampler`, `shuffle` or `batch_sampler`: an edit could give one twice.",
        "write `sampler=` and `shuffle=` in the call; if what is passed shards the loader, say so: "
        "`# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD904",
        "evaluation not reduced across ranks",
        "Where the metric is combined across ranks. Every rank evaluates all samples now; sharding the loader alone "
        "would turn the metric into one rank's part of it.",
        "reduce the metric across ranks; if that is done out of sight, say so: `# shardfix: metric=exact` (or "
        "reduced, if repeated samples are counted); `--unsafe` shards the loader all the same, and reduces "
        "the metric where it is understood",
        ("metric=exact", "metric=reduced"),
    ),
    Refusal(
        "SHD905",
        "evaluated on the main process only",
        "Nothing: one rank evaluates everything, which is right. A sharded loader would give it a part, and a "
        "collective would hang.",
        "nothing to do; where nothing stands in the way, `--unsafe` lets all ranks evaluate (SHD306)",
    ),
    Refusal(
        "SHD906",
        "padding would reach the metric",
        "Where repeated samples are left out. A DistributedSampler repeats up to world size - 1 of them so that the "
        "ranks are even, and the reduced metric would count them twice.",
        "lay the gathered results in turn and cut them at len(dataset), or place them by index; if that is done out "
        "of sight, say so: `# shardfix: metric=exact`; `--unsafe` shards the loader all the same",
        ("metric=exact",),
    ),
    Refusal(
        "SHD907",
        "sampler draws from another dataset",
        "Whether the sampler's dataset and the loader's have the same samples: they are not the same expression, and "
        "without the sampler something else may be read.",
        "give both the same dataset, by the same name",
    ),
    Refusal(
        "SHD908",
        "streaming dataset",
        "How the stream is split by rank. An IterableDataset takes no sampler: DataLoader raises if one is given.",
        "in __iter__, yield every world-size-th record starting at the rank (workers counted in); if it does, say so: "
        "`# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD909",
        "no epoch loop found",
        "The loop over epochs that drives this loader: without it there is no epoch to tell the sampler.",
        "call `sampler.set_epoch(epoch)` where the epochs are counted; if that is done out of sight, say so: "
        "`# shardfix: epoch=told`",
        ("epoch=told",),
    ),
    Refusal(
        "SHD910",
        "epoch loop has no usable counter",
        "A name for the epoch: the loop binds none that is free to use, or two counting loops surround the loader.",
        "give the epoch loop a counter of its own; if the epoch is told out of sight, say so: `# shardfix: epoch=told`",
        ("epoch=told",),
    ),
    Refusal(
        "SHD911",
        "driven by next()",
        "Where a pass over the loader starts, so that the epoch could be told there: batches are taken with `next()`.",
        "call `sampler.set_epoch(n)` each time the iterator is made anew; if that is done out of sight, say so: "
        "`# shardfix: epoch=told`",
        ("epoch=told",),
    ),
    Refusal(
        "SHD912",
        "another framework shards it",
        "Nothing: the framework that runs this program shards loaders, or launches processes, by rules of its own.",
        "nothing to do here; see the framework's own guide",
    ),
    Refusal(
        "SHD913",
        "no process group here",
        "That the process group exists where the loader is built. A DistributedSampler built before "
        "`init_process_group` raises, and one guarded by `is_initialized()` would be silently left out.",
        "build the loader after init_process_group, in the same function or in one that it calls",
    ),
    Refusal(
        "SHD914",
        "a generator decides the order",
        "Whether the order may change: it comes from `generator=` now, and would come from the sampler's seed.",
        "take `generator=` out if the order is free; `--unsafe` makes the edit all the same",
    ),
    Refusal(
        "SHD915",
        "custom sampler or batch sampler",
        "Whether the sampler gives each rank its own share. A sampler of the project's own, a weighted one or a batch "
        "sampler draws every sample on every rank; a DistributedSampler would lose its weights or its grouping.",
        "give the sampler num_replicas and rank, or hand the loader to Accelerate, which cuts one synchronised draw; "
        "if it shards already, say so: `# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD916",
        "role not shown",
        "Whether this loader feeds training or evaluation: the two are sharded differently.",
        "say it on the statement, `# shardfix: role=train` (or eval), or of all loaders that a function builds, in "
        "[tool.shardfix.roles]",
        ("role=train", "role=eval"),
    ),
    Refusal(
        "SHD917",
        "sharded by hand",
        "Whether each rank gets its own part: the data is already split by rank (`shard(`, `split_dataset_by_node`, "
        "slices by rank), and a DistributedSampler would split it again.",
        "if each rank gets its own part, say so: `# shardfix: owner=self`; else take the split out",
        ("owner=self",),
    ),
    Refusal(
        "SHD918",
        "the edit did not pass the gates",
        "A correct edit: the rewritten file failed a check (parses, untouched lines identical, names bound, a second "
        "run changes nothing), so it was left as it was.",
        "edit by hand; please report it with the file",
    ),
    Refusal(
        "SHD919",
        "a loader class of its own",
        "What the class does with its arguments: it derives from DataLoader, or is chosen at run time, and may treat "
        "them differently.",
        "use DataLoader itself; if the class gives each rank its own share, say so: `# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD920",
        "the epoch may be told elsewhere",
        "Whether a `set_epoch` call reaches this sampler: what it is called on may be this one, or the sampler leaves "
        "the code that is followed.",
        "if it is told, say so: `# shardfix: epoch=told`; else call `sampler.set_epoch(epoch)` in the epoch loop",
        ("epoch=told",),
    ),
    Refusal(
        "SHD921",
        "results go by the loader's order",
        "A place for each result: they are written in the loader's order, or matched with something by a running "
        "number. Sharded, each rank would number and write its own part.",
        "write and match results by the sample's own index, on one rank, after gathering",
    ),
    Refusal(
        "SHD922",
        "the sampler's arms disagree",
        "Whether the loader shuffles: the sampler does on one path and not on another, so no single `shuffle=` keeps "
        "both.",
        "decide whether the loader shuffles and drop the sampler by hand",
    ),
    Refusal(
        "SHD923",
        "evaluation loop not seen",
        "How the results of this loader are combined: no loop over it is seen.",
        "reduce the metric across ranks; if that is done out of sight, say so: `# shardfix: metric=exact` (or "
        "reduced, if repeated samples are counted)",
        ("metric=exact", "metric=reduced"),
    ),
    Refusal(
        "SHD924",
        "rebuilt in each epoch",
        "A sampler that outlives the epoch: the loader is built inside the epoch loop, so its sampler must be told "
        "the epoch right there.",
        "call `sampler.set_epoch(epoch)` after the sampler is built; if that is done out of sight, say so: "
        "`# shardfix: epoch=told`",
        ("epoch=told",),
    ),
    Refusal(
        "SHD925",
        "the rewrite was refuted",
        "A correct rewrite: run in several processes, the rewritten loader did not read what it should, so the file "
        "was left as it was.",
        "see the reasons of the proof",
    ),
    Refusal(
        "SHD926",
        "owned otherwise than the target",
        "Nothing: the loader is owned by something else than `--target` names, and a target never overrides a proven "
        "owner.",
        "run without --target, or with the owner's own",
    ),
    Refusal(
        "SHD927",
        "a test's own loader",
        "Whether the fault is meant: tests build loaders to see what becomes of them.",
        "keep it with `# shardfix: keep[CODE] reason`; `--unsafe` makes the edit",
    ),
    Refusal(
        "SHD928",
        "the rewrite could not be proven",
        "The proof: with `--require-proof` only what was run and held is written, and this rewrite could not be run, "
        "or not all of it be judged.",
        "run without --require-proof and review the edit by hand",
    ),
    Refusal(
        "SHD929",
        "a comment or setting that settles nothing",
        "A meaning: a `# shardfix:` comment says nothing known, or answers what the source shows already, or an entry "
        "of [tool.shardfix.owners] or [tool.shardfix.roles] names nothing that builds a loader.",
        "correct it or take it out; `shardfix explain comments` lists what can be said",
    ),
    Refusal(
        "SHD930",
        "the length is divided already",
        "Which length is meant: the program divides len(loader) by the number of processes itself. A sharded loader "
        "has that shorter length already, so a schedule or total would get too short by the number of processes.",
        "take the division out and shard the loader with `--unsafe`",
    ),
    Refusal(
        "SHD931",
        "on some ranks only",
        "Which ranks read the loader: it is built or read under a condition on the rank. A DistributedSampler deals "
        "to every rank, so the shares of the ranks that do not come here would be read by nobody.",
        "build the sampler with num_replicas and rank of the ranks that read; if what is there shards by these ranks, "
        "say so: `# shardfix: owner=self`",
        ("owner=self",),
    ),
    Refusal(
        "SHD932",
        "an interrupted run was brought to its end",
        "Nothing: an earlier run was ended while it wrote several files; what it had staged is finished, or undone.",
        "look at the files with git diff",
    ),
    Refusal(
        "SHD933",
        "read in pairs with another loader",
        "Whether the pairs are to be the same in each epoch: two loaders that shuffle on their own meet by chance, two "
        "DistributedSamplers of one seed draw one permutation, so each sample would keep its partner for good.",
        "give both loaders a DistributedSampler by hand, one of them with a `seed=` of its own",
    ),
    Refusal(
        "SHD934",
        "no Accelerator in this program",
        "An Accelerator that prepares this loader: one process reads everything today. No sampler is put in, as "
        "prepare() would shard a second time, and none is needed, as prepare() shards any loader.",
        "make an Accelerator, hand model, optimizer and loader to its prepare() and iterate what it returns; shardfix "
        "then checks it. If this program stays with one process, say so: `# shardfix: owner=single`",
        ("owner=single",),
    ),
    Refusal(
        "SHD935",
        "the dataset changes",
        "Which samples there are, or what they hold, when a rank reads its share: the dataset's length changes after "
        "the loader is built, when a DistributedSampler has taken it, or an item goes by what was read before.",
        "build the loader after the change, or make an item follow from its index alone",
    ),
    Refusal(
        "SHD936",
        "each rank learns for itself",
        "What joins the ranks' gradients: no wrapped model and no collective is seen. Every rank trains the same model "
        "on all samples now; sharded, each would train another one on its part, and the saved one has seen no more.",
        "wrap the model in DistributedDataParallel; where the gradients are joined out of sight, `--unsafe` makes the "
        "edit",
    ),
)

REFUSALS: Mapping[str, Refusal] = {r.code: r for r in _ALL}

# Reports that an answer settles as well: they need an edit by hand, or none where the answer is true.
_REPORTS: Mapping[str, tuple[str, ...]] = {
    "SHD502": ("metric=exact",),
    "SHD503": ("metric=exact", "metric=reduced"),
    "SHD504": ("metric=exact", "metric=reduced"),
    "SHD711": ("owner=self",),
}
REPORTS = tuple(_REPORTS)


def settled_by(code: str) -> tuple[str, ...]:
    """The answers that settle a refusal or a report for good; empty if only the code can."""
    return REFUSALS[code].settled_by if code in REFUSALS else _REPORTS.get(code, ())


def settles(answer: str) -> tuple[str, ...]:
    """The codes that an answer (``owner=self``) settles."""
    return tuple(sorted(code for code in (*REFUSALS, *_REPORTS) if answer in settled_by(code)))
