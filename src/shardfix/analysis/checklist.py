"""The checklist of a loader: seven questions that a reviewer asks of each, answered from the source or said unknown."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.samplers import Arm, describe
from shardfix.analysis.model import Check, Evidence, SiteReport
from shardfix.analysis.programs.configured import UNSEEN, Settings, literal
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.sites import Site

# Those under which the loader itself decides what a rank reads.
_BY_SAMPLER = ("ddp", "horovod", "hf-trainer")
_MAKES = {"sequential": "SequentialSampler", "random": "RandomSampler"}
_UNTOLD = ("SHD909", "SHD920", "SHD921")
_TWICE = ("SHD702", "SHD703", "SHD715")  # a rank-aware sampler, a stream or data that is split already


def checklist(site: Site, report: SiteReport) -> tuple[Check, ...]:
    """The answers for one loader as it stands, in the order in which they are asked.

    Args:
        site: the loader.
        report: what became of it: what a codemod found is not asked a second time.
    """
    settings = _settings(site)
    return (
        _sampler(site),
        _by_hand(site),
        _mode(site, settings, report),
        _batch(site, settings),
        _counted(site, report),
        Check("sanitizer", "yes" if site.sanitized else "no"),
        _epoch(site, report),
    )


# ---------------------------------------------------------------------------------------------- the sampler


def _codes(report: SiteReport) -> set[str]:
    """The codes of everything that is said of the loader."""
    return {code for change in report.changes for code in change.codes} | {f.code for f in report.findings}


def _hidden(site: Site) -> str:
    """Why the arguments of the construction say nothing of its sampler; empty where they do."""
    if site.kind in ("partial", "foreign") or (site.kind == "subclass" and site.deviates):
        return f"made by {site.module.source.source(site.call.func)}" + (f": {site.deviates}" if site.deviates else "")
    return f"`{site.unseen}` may hold one" if site.unseen else ""


def _given(site: Site) -> tuple[Arm, ...]:
    """The samplers that the program gives, those in batch samplers too."""
    return (*site.arms, *(inner for arm in site.batch_arms for inner in arm.inner or (arm,)))


def _sampler(site: Site) -> Check:
    hidden = _hidden(site)
    if hidden:
        return Check("sampler", "unknown", hidden)
    if _stream(site) is not None:
        return Check("sampler", "none", "a stream has none: its dataset decides what is read")
    if site.batch_arms:
        return Check("sampler", f"batch_sampler={describe(site.batch_arms)}")
    shown = [_label(site, arm) for arm in site.arms] or [_default(site)]
    return Check("sampler", " | ".join(dict.fromkeys(shown)))


def _label(site: Site, arm: Arm) -> str:
    if arm.kind == "none":
        return _default(site)
    if arm.kind == "distributed":
        shuffle = arm.constant("shuffle")
        ordered = {False: ", in order", True: ", shuffled", None: ", shuffled"}
        return describe((arm,)) + (ordered.get(shuffle, "") if isinstance(shuffle, (bool, type(None))) else "")
    return describe((arm,))


def _default(site: Site) -> str:
    """DataLoader's own sampler: which, `shuffle=` says. (In order it is none for a stream, which need not be seen.)"""
    found: list[str] = []
    for way in site.arguments.paths or ({},):
        argument = way.get("shuffle")
        value = argument.value if argument is not None else None
        if value is None or (isinstance(value, ast.Constant) and not value.value):
            found.append("default, in order")
        elif isinstance(value, ast.Constant):
            found.append("RandomSampler (shuffle=True)")
        else:
            found.append(f"default, shuffle={site.module.source.source(value)}")
    return " | ".join(dict.fromkeys(found))


def _by_hand(site: Site) -> Check:
    if site.kind in ("partial", "foreign"):
        return Check("by hand", "unknown", _hidden(site))
    name = "batch_sampler=" if site.batch_arms else "sampler="
    arms = site.batch_arms or site.arms
    made = [arm for arm in arms if arm.kind != "none"]
    if not made:
        return Check("by hand", "unknown" if site.unseen else "no", f"`{site.unseen}` may hold one" * bool(site.unseen))
    if all(arm.kind in ("unknown", "parameter") and not arm.made for arm in made):
        return Check("by hand", "unknown", f"{name}{describe(tuple(made))} comes from what is not seen")
    return Check("by hand", "yes", name if len(made) == len(arms) else f"{name}, on some paths only")


def _stream(site: Site) -> ast.ClassDef | None:
    """The class of an iterable dataset of the project's own."""
    dataset, module = site.dataset, site.module
    values = [dataset] if isinstance(dataset, ast.Call) else []
    if isinstance(dataset, ast.Name):
        values = [d.value for d in module.bindings.reaching(dataset) if isinstance(d.value, ast.Call)]
    for value in values:
        cls = module.class_definition(value.func)
        if cls is not None and any(base.endswith("IterableDataset") for base in module.bases(cls)):
            return cls
    return None


# ---------------------------------------------------------------------------------------------- who splits


def _settings(site: Site) -> Settings:
    near = [site.module, *(site.module.home(use.node) for use in site.flow.of("prepare"))]
    return Settings(near if site.owner == "accelerate" else [])


def _mode(site: Site, settings: Settings, report: SiteReport) -> Check:
    owner = site.owner
    if owner == "unknown":
        return Check("split by", "unknown", site.ownership.missing)
    if owner == "single":
        return Check("split by", "nobody", "one process")
    if owner == "accelerate":
        if any(code.startswith("SHD2") or code in _TWICE for code in _codes(report)):
            return Check("split by", "accelerate", "and by itself before that: sharded twice")
        return _accelerate_mode(site, settings)
    if owner not in _BY_SAMPLER:
        return Check("split by", owner, "in its own way")
    answer, note = _dealt(site)
    guard = _alone(site)
    if guard is not None:
        note = f"one process alone reads it ({_line(site, guard)})"
    return Check("split by", answer, note)


def _dealt(site: Site) -> tuple[str, str]:
    """What a loader that is read as it is gives each rank, by its sampler."""
    stream = _stream(site)
    if stream is not None:
        return "unknown", f"unless {stream.name} looks at the rank, every rank reads all of it"
    hidden = _hidden(site)
    if hidden:
        return "unknown", hidden
    given = _given(site)
    sharding = [arm for arm in given if arm.kind == "distributed" or arm.rank_aware]
    if sharding:
        some = "on some paths only" if site.shards_sometimes else "in runs of several processes"
        return "its sampler", some if len(sharding) < len(given) else ""
    if any(arm.kind in ("custom", "unknown", "parameter") for arm in given):
        return "unknown", f"what {describe(given)} gives each rank is not seen"
    return "nobody", "every rank reads all of it"


def _accelerate_mode(site: Site, settings: Settings) -> Check:
    """How accelerate deals the batches out: ``dispatch_batches`` is None by default, which dispatches streams only."""
    split, dispatch = settings.of("split_batches"), settings.of("dispatch_batches")
    unknown = "; ".join(dict.fromkeys(s.unknown for s in (split, dispatch) if s.unknown))
    if unknown:
        return Check("split by", "accelerate", f"how is unknown: {unknown}")
    meshed = settings.of("parallelism_config")
    if meshed.value is not None or meshed.unknown:
        return Check("split by", "accelerate", "between data-parallel ranks, which parallelism_config= decides")
    dispatched = dispatch.value if dispatch.value is not None else _stream(site) is not None
    how = "dispatch: rank 0 reads and deals out" if dispatched else "shard: each rank reads its own batches"
    return Check("split by", "accelerate", how + (", each a piece of one batch (split_batches)" if split.value else ""))


def _alone(site: Site) -> Evidence | None:
    """The condition under which one process alone builds the loader or reads it."""
    node = main_process_guard(site.module, site.call)
    if node is not None:
        return site.module.evidence(node)
    readers = site.flow.of("iterate", "next")
    guards = [main_process_guard(site.module, use.node) for use in readers]
    if readers and all(guard is not None for guard in guards):
        assert guards[0] is not None
        return site.module.evidence(guards[0])
    return site.evaluation.guard if site.role == "eval" else None


# ---------------------------------------------------------------------------------------------- the batch


def _batch(site: Site, settings: Settings) -> Check:
    """How many samples a step takes in one process and in N."""
    size, note = _batch_size(site)
    if not size:
        return Check("batch", "unknown", note)
    owner, many = site.owner, f"{size} x N" if size.isdecimal() else "x N"
    if owner == "single":
        return Check("batch", size, "one process")
    if owner == "unknown":
        return Check("batch", f"{size} on one process", "on N unknown: so is who splits it")
    notes = [note] if note else []
    anew = _set_anew(site, size)
    if anew is not None:
        notes.append(f"which {_line(site, anew)} sets anew")
    if owner == "accelerate":
        split, steps = settings.of("split_batches"), settings.of("gradient_accumulation_steps")
        if split.unknown:
            return Check("batch", f"{size} on one process", f"on N unknown: {split.unknown}")
        many = "the same" if split.value else many
        meshed = settings.of("parallelism_config")
        if meshed.value is not None or meshed.unknown:
            notes.append("N data-parallel ranks")
        if isinstance(steps.value, int) and steps.value > 1 and site.role == "train":
            notes.append(f"{steps.value} such steps are accumulated")
        elif steps.unknown.startswith("gradient_accumulation_steps") and site.role == "train":
            notes.append(f"accumulated over {steps.unknown.partition('=')[2]} steps")
    elif owner not in _BY_SAMPLER:
        return Check("batch", f"{size} on one process", f"on N as {owner} makes it")
    elif _alone(site) is not None:
        return Check("batch", size, "one process alone reads it")
    elif _dealt(site)[0] == "nobody":
        notes.append("the same samples on every rank")
    return Check("batch", f"{size} on one process, {many} on N", "; ".join(notes))


def _set_anew(site: Site, size: str) -> Evidence | None:
    """Where the program makes the batch size from itself, as in ``args.batch_size //= ngpus``: the one that is given is
    then no longer the one that is passed."""
    for node in ast.walk(site.module.tree):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(site.module.source.source(target) == size for target in targets):
                inside = [site.module.source.source(n) for n in ast.walk(node.value) if isinstance(n, ast.Attribute)]
                if size in inside or (isinstance(node, ast.AugAssign) and "." in size):
                    return site.module.evidence(node)
    return None


def _batch_size(site: Site) -> tuple[str, str]:
    """The batch size as text, or empty and why it is not known."""
    if site.kind in ("partial", "foreign"):
        return "", _hidden(site)
    module = site.module
    if site.batch_arms:
        made = [arm.arguments.value("batch_size") for arm in site.batch_arms if arm.arguments is not None]
        if len(made) == 1 and made[0] is not None:
            return _text(module.home(made[0]), made[0]), ""
        return "", f"{describe(tuple(arm for arm in site.batch_arms if arm.kind != 'none'))} makes the batches"
    value = site.arguments.value("batch_size")
    if value is None:
        unseen = site.arguments.opaque and not site.arguments.ways
        return ("", f"`{site.arguments.opaque}` may hold it") if unseen else ("1", "")
    text = _text(module, value)
    return ("1", "batch_size=None: one item a step") if text == "None" else (text, "")


def _text(module: Module, node: ast.expr) -> str:
    """A literal as it is, a name that stands for one as that, a longer expression in its own brackets."""
    value = literal(module, node)
    if value is not UNSEEN:
        return str(value)
    text = " ".join(module.source.source(node).split())
    return f"({text})" if isinstance(node, (ast.BinOp, ast.IfExp, ast.BoolOp)) else text


# ---------------------------------------------------------------------------------------------- the metric


def _counted(site: Site, report: SiteReport) -> Check:
    """Whether an evaluation counts each sample once."""
    question = "counted once"
    if site.role == "train":
        return Check(question, "-", "not an evaluation")
    if site.role == "unknown":
        return Check(question, "unknown", "nothing shows whether it evaluates")
    if site.owner == "single":
        return Check(question, "yes", "one process")
    if site.owner not in ("accelerate", *_BY_SAMPLER):
        missing = site.ownership.missing
        return Check(question, "unknown", missing if site.owner == "unknown" else f"{site.owner} evaluates")
    found, shards = site.evaluation, _shards(site)
    alone = _alone(site)
    if alone is not None and found.undistributed is None:
        line = _line(site, alone)
        if shards is None:
            return Check(question, "unknown", f"one process evaluates ({line}); what part of it is not seen")
        if shards:
            return Check(question, "no", f"one rank evaluates, its own part only ({line})")
        return Check(question, "yes", f"one process evaluates it whole ({line})")
    if not found.functions:
        return Check(question, "unknown", "no loop over it is seen")
    if found.sometimes is not None:
        return Check(question, "unknown", f"one process alone on some paths ({_line(site, found.sometimes)})")
    if shards is None:
        return Check(question, "unknown", "what each rank reads is not seen")
    if not shards:
        if report.verdict == "right":
            return Check(question, "yes", report.why)
        if found.reduction is None:
            return Check(question, "yes", "every rank evaluates all of it, for itself")
        both = f"every rank counts all of it, then they are combined ({_line(site, found.reduction)})"
        if found.exact is not None and "gather_for_metrics" not in found.exact.text:
            return Check(question, "unknown", f"{both}; whether what comes twice is dropped is not seen")
        return Check(question, "no", both)
    if found.exact is not None:
        return Check(question, "yes", f"padding does not reach it ({_line(site, found.exact)})")
    if site.answers.metric is not None and site.answers.metric.word == "exact":
        return Check(question, "yes", f"told: metric=exact ({site.answers.metric.where})")
    if found.reduction is None or "SHD504" in _codes(report):
        return Check(question, "no", "each rank evaluates its own part, and nothing is seen to combine them")
    line, sharding = _line(site, found.reduction), [arm for arm in _given(site) if arm.kind == "distributed"]
    if site.owner == "accelerate":
        if found.gathers is not None and not _codes(report) & {"SHD507", "SHD707"}:
            return Check(question, "unknown", f"what is gathered ({line}) may be cut at the dataset's length")
    elif site.own_shares:
        return Check(question, "unknown", f"what {site.own_shares[0].label} repeats is not seen ({line})")
    elif sharding and all(arm.constant("drop_last") is True for arm in sharding):
        return Check(question, "yes", "without the tail, which the sampler's drop_last=True leaves out")
    return Check(question, "no", f"padding is counted too ({line})")


def _shards(site: Site) -> bool | None:
    """Whether each rank reads its part; None if that is not seen."""
    if site.owner == "accelerate":
        return True
    return {"its sampler": True, "nobody": False}.get(_dealt(site)[0])


def _line(site: Site, evidence: Evidence) -> str:
    """A line by its number, with its file where that is another one."""
    place = evidence.location
    return f"line {place.line}" if place.path == site.module.path else f"{place.path}:{place.line}"


# ---------------------------------------------------------------------------------------------- the epoch


def _epoch(site: Site, report: SiteReport) -> Check:
    """Whether what shuffles is told the epoch."""
    question = "epoch told"
    told = site.told
    where = _line(site, site.module.evidence(told[0].call)) if told else ""
    if site.owner == "accelerate":
        return Check(question, "yes", where or "a prepared loader tells it by itself")
    codes = _codes(report)
    if codes & {"SHD401", "SHD402"}:
        return Check(question, "no", "every epoch repeats the first one's order" if "SHD401" in codes else "in vain")
    untold = next((f for f in report.findings if f.code in _UNTOLD), None)
    if told:
        return Check(question, "yes", where)
    if site.answers.epoch is not None:
        return Check(question, "yes", f"told: epoch={site.answers.epoch.word} ({site.answers.epoch.where})")
    given = [arm for arm in _given(site) if arm.kind == "distributed" or arm.rank_aware]
    if site.owner not in _BY_SAMPLER:
        if site.owner == "unknown" and (given or _hidden(site)):
            return Check(question, "unknown", site.ownership.missing)
        return Check(question, "-", "one process" if site.owner == "single" else "nothing is to be told")
    if _hidden(site):
        return Check(question, "unknown", _hidden(site))
    if not given:
        custom = [arm for arm in _given(site) if arm.kind in ("custom", "unknown", "parameter")]
        if custom:
            return Check(question, "unknown", f"whether {describe(tuple(custom))} asks for it is not seen")
        return Check(question, "-", "no sampler of it knows epochs")
    if all(arm.constant("shuffle") is False for arm in given):
        return Check(question, "-", "it does not shuffle")
    if all(arm.kind != "distributed" for arm in given):
        shown = describe(tuple(given))
        if report.verdict == "right":
            return Check(question, "-", f"{shown} is not seen to ask for it")
        return Check(question, "unknown", f"whether {shown} asks for it is not seen")
    if untold is not None:
        return Check(question, "unknown", untold.message)
    if any(arm.constant("shuffle") is ... for arm in given):
        return Check(question, "no", "nothing is seen to tell it; whether it shuffles is not known")
    if site.epoch_loops.loops:
        return Check(question, "no", "every epoch repeats the first one's order")
    if site.epoch_loops.rebuilt:
        return Check(question, "no", "it is built anew in each epoch, in the first one's order")
    return Check(question, "no", "nothing is seen to tell it, and no loop over epochs")


__all__ = ["checklist"]
