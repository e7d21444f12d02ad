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
        remedy: what the user can do.
    """

    code: str
    title: str
    missing: str
    remedy: str


_ALL = (
    Refusal(
        "SHD901",
        "owner not shown",
        "Who shards this loader at run time can't be seen from the source: it is prepared on one path and not on "
        "another, leaves the file unseen, or belongs to a module that programs of several kinds import.",
        "say it on the statement: `# shardfix: owner=accelerate` (or ddp, single)",
    ),
    Refusal(
        "SHD902",
        "sampler comes from elsewhere",
        "The sampler is a parameter, a factory's result or an attribute whose value this file does not show.",
        "pass the sampler's construction where the loader is built, or check the loader by hand",
    ),
    Refusal(
        "SHD903",
        "arguments not seen",
        "`*args` or `**kwargs` may hold `sampler`, `shuffle` or `batch_sampler`; an edit could repeat a keyword.",
        "write `sampler=` and `shuffle=` in the call",
    ),
    Refusal(
        "SHD904",
        "evaluation not reduced across ranks",
        "Every rank evaluates all samples. Sharding the loader alone would turn the metric into one rank's part of it.",
        "reduce the metric across ranks first; `--unsafe` shards the loader all the same",
    ),
    Refusal(
        "SHD905",
        "evaluated on the main process only",
        "One rank evaluates everything, which is right. A sharded loader would give it a part, and a collective "
        "would hang.",
        "nothing to do",
    ),
    Refusal(
        "SHD906",
        "padding would reach the metric",
        "DistributedSampler repeats up to world size - 1 samples so that the ranks are even; the reduced metric "
        "would count them twice.",
        "lay the gathered results in turn and cut them at len(dataset), or place them by index; `--unsafe` shards the "
        "loader all the same",
    ),
    Refusal(
        "SHD907",
        "sampler draws from another dataset",
        "The sampler's dataset and the loader's are not the same expression, so removing the sampler may change what "
        "is read.",
        "give both the same dataset",
    ),
    Refusal(
        "SHD908",
        "streaming dataset",
        "An IterableDataset takes no sampler: DataLoader raises if one is given. It has to split its stream by rank "
        "itself.",
        "in __iter__, yield every world-size-th record starting at the rank (workers counted in)",
    ),
    Refusal(
        "SHD909",
        "no epoch loop found",
        "No loop over epochs that drives this loader is seen, so there is no epoch to tell the sampler.",
        "call `sampler.set_epoch(epoch)` where the epochs are counted",
    ),
    Refusal(
        "SHD910",
        "epoch loop has no usable counter",
        "The loop over epochs binds no name that is free to use, or two counting loops surround the loader.",
        "give the epoch loop a counter of its own",
    ),
    Refusal(
        "SHD911",
        "driven by next()",
        "Batches are taken with `next()`: there is no pass over the loader at whose start the epoch could be told.",
        "call `sampler.set_epoch(n)` each time the iterator is made anew",
    ),
    Refusal(
        "SHD912",
        "another framework shards it",
        "The framework that runs this program shards loaders, or launches processes, by rules of its own.",
        "nothing to do here; see the framework's own guide",
    ),
    Refusal(
        "SHD913",
        "no process group here",
        "A DistributedSampler built before `init_process_group` raises, and one guarded by `is_initialized()` would "
        "be silently left out: the group is not sure to exist where the loader is built.",
        "build the loader after init_process_group",
    ),
    Refusal(
        "SHD914",
        "a generator decides the order",
        "With `generator=` the order of the samples would change.",
        "`--unsafe` makes the edit all the same",
    ),
    Refusal(
        "SHD915",
        "custom sampler or batch sampler",
        "A sampler of the project's own, a weighted one or a batch sampler draws every sample on every rank; a "
        "DistributedSampler would lose its weights or its grouping.",
        "give the sampler num_replicas and rank, or hand the loader to Accelerate, which cuts one synchronised draw",
    ),
    Refusal(
        "SHD916",
        "role not shown",
        "Whether this loader feeds training or evaluation can't be told; the two are sharded differently.",
        "name the loader or its dataset so (train_..., val_...), or edit by hand",
    ),
    Refusal(
        "SHD917",
        "sharded by hand",
        "The dataset is already split by rank (`shard(`, `split_dataset_by_node`, slices by rank).",
        "nothing to do if each rank gets its own part",
    ),
    Refusal(
        "SHD918",
        "the edit did not pass the gates",
        "The rewritten file failed a check (parses, untouched lines identical, names bound, second run changes "
        "nothing).",
        "edit by hand; please report it with the file",
    ),
    Refusal(
        "SHD919",
        "a loader class of its own",
        "A class derived from DataLoader, or another library's loader, may treat its arguments differently.",
        "check it by hand",
    ),
    Refusal(
        "SHD920",
        "the epoch may be told elsewhere",
        "`set_epoch` is called on something that may be this sampler, or the sampler leaves the file.",
        "nothing to do if it is told; else call `sampler.set_epoch(epoch)` in the epoch loop",
    ),
    Refusal(
        "SHD921",
        "results written in order",
        "The evaluation writes results in the order of the loader; sharded, each rank would write its own part.",
        "write results by sample index, on one rank, after gathering",
    ),
    Refusal(
        "SHD922",
        "the sampler's arms disagree",
        "The sampler shuffles on one path and not on another, so no single `shuffle=` keeps both.",
        "decide whether the loader shuffles and drop the sampler by hand",
    ),
    Refusal(
        "SHD923",
        "evaluation loop not seen",
        "No loop over this loader is seen in the file, so it is not known how its results are combined.",
        "check by hand whether the metric is reduced across ranks",
    ),
    Refusal(
        "SHD924",
        "rebuilt in each epoch",
        "The loader is built inside the epoch loop; its sampler must be told the epoch right there.",
        "call `sampler.set_epoch(epoch)` after the sampler is built",
    ),
    Refusal(
        "SHD925",
        "the rewrite was refuted",
        "Run in several processes, the rewritten loader did not read what it should; the file was left as it was.",
        "see the reasons of the proof",
    ),
    Refusal(
        "SHD928",
        "the rewrite could not be proven",
        "With `--require-proof` only what was run and held is written; this rewrite could not be run, or not all of "
        "it be judged.",
        "run without --require-proof and review the edit by hand",
    ),
    Refusal(
        "SHD929",
        "a comment that says nothing known",
        "A `# shardfix:` comment says neither keep[CODE] nor owner=NAME, so it settles nothing.",
        "write `# shardfix: keep[SHD201] reason` or `# shardfix: owner=accelerate`",
    ),
    Refusal(
        "SHD930",
        "the length is divided already",
        "The program divides len(loader) by the number of processes itself. A sharded loader has that shorter length "
        "already, so a schedule or total would get too short by the number of processes.",
        "take the division out and shard the loader with `--unsafe`",
    ),
    Refusal(
        "SHD932",
        "an interrupted run was brought to its end",
        "An earlier run was ended while it wrote several files; what it had staged is finished, or undone.",
        "look at the files with git diff",
    ),
    Refusal(
        "SHD931",
        "on some ranks only",
        "The loader is built or read under a condition on the rank. A DistributedSampler deals to every rank, so the "
        "shares of the ranks that do not come here would be read by nobody.",
        "build the sampler with num_replicas and rank of the ranks that read",
    ),
    Refusal(
        "SHD926",
        "owned otherwise than the target",
        "The loader is owned by something else than `--target` names; a target never overrides a proven owner.",
        "run without --target, or with the owner's own",
    ),
    Refusal(
        "SHD927",
        "a test's own loader",
        "Tests build loaders to see what becomes of them; a wrong one may be there on purpose.",
        "`--unsafe` makes the edit",
    ),
)

REFUSALS: Mapping[str, Refusal] = {r.code: r for r in _ALL}
