"""From the sites of a project to its plan: every site ends edited, right, refused, kept by the user, or not ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from shardfix.analysis.answers import answers_for, lines_of, most_specific
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.old_names import is_old
from shardfix.analysis.code.project import Project
from shardfix.analysis.comments import Comments, Keep, read_comments
from shardfix.analysis.loaders.branches import conditions
from shardfix.analysis.loaders.libraries import LIBRARIES
from shardfix.analysis.model import Change, Finding, Location, Options, SiteReport, Verdict
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.programs.regimes import ProgramRegimes, program_regimes
from shardfix.analysis.programs.unit_tests import of_a_suite
from shardfix.analysis.refusals import REFUSALS
from shardfix.analysis.sites import Site, find_sites, loader_subclasses
from shardfix.codemods import RULES
from shardfix.codemods._findings import refuse
from shardfix.codemods._sharding import is_streaming, one_process, split_by_hand
from shardfix.codemods._vendoring import imports_of_evaluation
from shardfix.codemods.add_sanitizer import OLD, extend, standing
from shardfix.result import Problem, Suppression
from shardfix.vendored import Vendored

_OURS = ("accelerate", "ddp", "hf-trainer", "single", "unknown")
_TARGET_OWNERS = {"accelerate": ("accelerate", "hf-trainer"), "ddp": ("ddp",)}
_BY_ROLE = frozenset(
    {"SHD301", "SHD302", "SHD305", "SHD306", "SHD501", "SHD505", "SHD506", "SHD507", "SHD508", "SHD509"}
)
# What a change mends besides what it is named for.
_MENDS = {
    "SHD506": frozenset({"SHD502", "SHD503"}),
    "SHD507": frozenset({"SHD707"}),
    "SHD508": frozenset({"SHD504"}),
    "SHD509": frozenset({"SHD504"}),
}
# Hazards beside which an edit of the same loader is still right.
_MILD = frozenset({"SHD707", "SHD708", "SHD713"})


_NOTHING = Vendored()
_NOT_IMPORTED = (
    "it could be reduced, but nothing shows whether the program is started by its path or with python -m, and each "
    "needs another import of what reduces (--sanitizer-from package imports it from an installed shardfix)"
)
_TOO_OLD = f"it could be reduced, but {OLD}: write `non_blocking=` for `async=` first"
_REASON_TEST = "a test may need its loader just as it is"


@dataclass(frozen=True)
class Plan:
    """All changes of a project and what becomes of each of its sites."""

    changes: tuple[Change, ...]
    reports: tuple[SiteReport, ...]
    sites: Mapping[Location, Site]
    suppressions: tuple[Suppression, ...] = ()
    notes: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass
class _Outcome:
    site: Site
    changes: list[Change] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    right: str = ""
    kept: str = ""
    harmless: bool = False  # kept, but what stands is redundant only


# The sites that are left alone, and by its id a change of which a part is made all the same.
Without = frozenset[Location | str]


def left_out(change: Change) -> Without:
    """What a plan is made without, where a change is not kept: all that could be done there, or its other part."""
    return frozenset(change.sites) if change.otherwise is None else frozenset({change.id})


def is_left_out(location: Location, without: Without) -> bool:
    """Whether something at a site was planned and not kept."""
    ids = [name.rpartition(":")[0] for name in without if isinstance(name, str)]
    return location in without or str(location) in ids


def sites_of(project: Project, paths: Collection[str], options: Options) -> dict[str, list[Site]]:
    """The sites of the chosen modules, with the user's answers about them."""
    regimes = program_regimes(project, options.launches)
    subclasses = loader_subclasses(project)
    chosen = [path for path in sorted(paths) if path in project.modules]
    return {
        path: _sites(m, regimes[path], subclasses, options, read_comments(m))
        for path, m in ((path, project.modules[path]) for path in chosen)
    }


def _sites(
    module: Module, regimes: ProgramRegimes, subclasses: frozenset[str], options: Options, comments: Comments
) -> list[Site]:
    sites = find_sites(module, regimes, options, subclasses)
    for site in sites:
        site.answers = answers_for(module, site.call, comments.answers, options.owners, options.roles)
    return sites


def make_plan(
    project: Project,
    paths: Collection[str],
    options: Options,
    *,
    files: frozenset[str] = frozenset(),
    vendored: Vendored = _NOTHING,
    without: Without = frozenset(),
) -> Plan:
    """Plan the changes of a project.

    Args:
        paths: project-relative paths of the files that may be edited; facts come from the whole project.
        files: project-relative paths of every Python file, so that imports are known to be the project's own.
        vendored: what ``--sanitizer-from vendor`` writes beside the program.
        without: what is left alone (refuted, or turned down by a gate), as ``left_out`` says.
    """
    regimes, subclasses = program_regimes(project, options.launches), loader_subclasses(project)
    outcomes: dict[Location, _Outcome] = {}
    suppressions: list[Suppression] = []
    notes: list[Finding] = []
    changes: list[Change] = []
    problems: list[Problem] = []
    for path in sorted(paths):
        module = project.modules.get(path)
        if module is None:
            continue
        told: list[Suppression] = []
        try:
            comments = read_comments(module)
            sites = _sites(module, regimes[path], subclasses, options, comments)
            mine = {site.location: _Outcome(site) for site in sites}
            planned = _planned(module, sites, mine, options, without)
            kept = _keep(module, mine, planned, comments, told)
            for outcome in mine.values():
                _report(outcome)  # what it asks of the file is known from here on
        except Exception as error:  # a defect of ours in one file must not keep the others from being read
            problems.append(_internal(path, error))
            continue
        changes.extend(kept)
        outcomes.update(mine)
        suppressions.extend(told)
        notes.extend(
            Finding("SHD929", where, message, remedy=REFUSALS["SHD929"].remedy)
            for where, message in (*comments.unknown, *_unheeded(comments, sites))
        )
    notes.extend(_idle(project, regimes, subclasses, options))
    everywhere = {loc: o.site for loc, o in outcomes.items()}
    changes = [c for change in changes if (c := _imported(change, outcomes, project, files, options, vendored))]
    if options.sanitizer != "off" and _chosen("SHD601", "add_sanitizer", options, path=""):
        guarded = frozenset(
            loc for loc, o in outcomes.items() if main_process_guard(o.site.module, o.site.call) is not None
        )
        changes = extend(changes, everywhere, project, files, options, vendored.sanitizer, guarded)
        if options.sanitizer == "all":
            changes.extend(
                _everywhere(outcomes, changes, project, files, options, vendored.sanitizer, guarded, without)
            )
    for outcome in outcomes.values():
        outcome.changes = [c for c in changes if outcome.site.location in c.sites]
    reports = tuple(_report(o) for o in outcomes.values())
    return Plan(tuple(changes), reports, everywhere, tuple(suppressions), tuple(notes), tuple(problems))


def _imported(
    change: Change,
    outcomes: Mapping[Location, _Outcome],
    project: Project,
    files: frozenset[str],
    options: Options,
    vendored: Vendored,
) -> Change | None:
    """A change with what it imports; None, its sites refused, where that can't be had."""
    made = imports_of_evaluation(change, project, files, options, vendored.evaluation)
    if made is None and change.otherwise is not None:
        return _imported(change.otherwise, outcomes, project, files, options, vendored)
    old = any(is_old(project.modules[e.path].text) for e in change.edits if e.path in project.modules)
    for location in change.sites if made is None else ():
        why = _TOO_OLD if old else _NOT_IMPORTED
        outcomes[location].findings.append(_refusal(outcomes[location].site, "SHD904", why))
    return made


def _unheeded(comments: Comments, sites: Sequence[Site]) -> list[tuple[Location, str]]:
    """The answers in a file's comments that settle nothing, each with why."""
    found: list[tuple[Location, str]] = []
    for answer in (a for given in comments.answers.values() for a in given):
        holding = [s for s in sites if answer in s.answers.all()]
        if any(answer.question in s.heeded for s in holding):
            continue
        if not holding:
            why = "no loader is built here, or another answer stands nearer"
        elif answer.question in ("owner", "role"):
            why = f"the source shows {getattr(holding[0], answer.question)} already"
        else:
            why = "nothing that is said of this loader depends on it"
        message = f"`# shardfix: {answer.question}={answer.word}` settles nothing: {why}"
        found.append((answer.evidence.location, message))
    return found


def _idle(
    project: Project, regimes: Mapping[str, ProgramRegimes], subclasses: frozenset[str], options: Options
) -> list[Finding]:
    """The settings that answer for no loader of the whole project, whatever part of it was asked about."""
    waiting = [*options.owners, *options.roles]
    for path, module in project.modules.items():
        if not waiting:
            break
        for site in find_sites(module, regimes[path], options, subclasses):
            waiting = [s for s in waiting if most_specific((s,), module, site.call) is None]
    remedy = "name the function, class, module or file that builds the loader as it is imported, or take the line out"
    return [
        Finding(
            "SHD929", s.evidence.location, f"{s.name!r} in the settings names nothing that builds a loader", (), remedy
        )
        for s in waiting
    ]


def _internal(path: str, error: Exception) -> Problem:
    """An exception that nobody expected, told as an error of the file in which it came up."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    message = f"internal error, the file is left alone: {type(error).__name__}: {error}{place}"
    return Problem(path, message, "please report it with the file")


def _everywhere(
    outcomes: Mapping[Location, _Outcome],
    changes: list[Change],
    project: Project,
    files: frozenset[str],
    options: Options,
    vendored: str,
    guarded: frozenset[Location],
    without: Without,
) -> list[Change]:
    """``--sanitizer all``: the check at every right loader too."""
    settled = {loc for c in changes for loc in c.sites}
    free = [
        o.site
        for loc, o in outcomes.items()
        if loc not in settled and loc not in guarded and not o.findings and (o.harmless or not o.kept)
    ]
    return [c for c in standing(free, project, files, options, vendored) if not without & set(c.sites)]


def _chosen(code: str, codemod: str, options: Options, path: str) -> bool:
    """Whether ``--select``, ``--ignore`` and per-file ignores leave a code in."""
    from fnmatch import fnmatch

    def named(words: Collection[str]) -> bool:
        return any(code.startswith(w.upper()) or codemod == w for w in words)

    if options.select and not named(options.select):
        return False
    if named(options.ignore):
        return False
    return not any(fnmatch(path, pattern) and named(words) for pattern, words in options.per_file_ignores)


def _planned(
    module: Module,
    sites: list[Site],
    outcomes: dict[Location, _Outcome],
    options: Options,
    without: Without,
) -> list[Change]:
    """Run every codemod over the sites of a module; the first change of a site settles it."""
    changes: list[Change] = []
    settled: set[Location] = set()
    dangers: dict[Location, list[Finding]] = {}
    for rule in RULES:
        result = rule.plan(sites, options)
        for change in (c for whole in result.changes for c in (whole, whole.otherwise) if c is not None):
            if settled & set(change.sites) or without & {*change.sites, change.id}:
                continue
            if not _chosen(change.codes[0], change.codemod, options, module.path):
                for location in change.sites:
                    outcomes[location].kept = f"{change.codes[0]} is not selected"
                    outcomes[location].harmless = change.codes[0].startswith("SHD1")
                continue
            refused = _against_target(outcomes[change.site].site, change, options) or _by_a_guess(
                outcomes[change.site].site, change
            )
            if refused is not None:
                for location in change.sites:
                    outcomes[location].findings.append(replace(refused, location=location))
                continue
            if change.tier == "unsafe" and not options.unsafe:
                remedy = "`--unsafe` makes the change"
                for location in change.sites:
                    message = f"{change.title}: {change.reason}"
                    found = Finding(change.codes[0], location, message, change.evidence, remedy)
                    outcomes[location].findings.append(found)
                continue
            if change.tier == "safe" and of_a_suite(module):
                if not options.unsafe:
                    for location in change.sites:
                        site = outcomes[location].site
                        outcomes[location].findings.append(_refusal(site, "SHD927", change.title))
                    settled.update(change.sites)
                    continue
                change = replace(change, tier="unsafe", reason=_REASON_TEST)
            changes.append(change)
            settled.update(change.sites)
        for location, finding in result.findings:
            if finding.code.startswith("SHD7") and finding.code not in _MILD:
                dangers.setdefault(location, []).append(finding)
            if _chosen(finding.code, rule.name, options, module.path) or finding.code.startswith("SHD9"):
                outcomes[location].findings.append(finding)
        for location, why in result.right:
            outcomes[location].right = outcomes[location].right or why
    kept = [c for c in changes if not dangers.keys() & set(c.sites)]
    # A hazard that nobody selected is told all the same where it is why nothing is edited.
    for loc in {loc for c in changes if c not in kept for loc in c.sites}:
        outcomes[loc].findings += [f for f in dangers.get(loc, ()) if f not in outcomes[loc].findings]
    for change in kept:
        mends = {mended for code in change.codes for mended in _MENDS.get(code, ())}
        for loc in change.sites:
            told = outcomes[loc].findings
            outcomes[loc].findings = [f for f in told if not f.code.startswith("SHD9") and f.code not in mends]
    return kept


def _by_a_guess(site: Site, change: Change) -> Finding | None:
    """An edit that the loader's role decides needs more than a name near by."""
    if not site.shown_role.guessed or change.codes[0] not in _BY_ROLE or site.answered("role", site.role):
        return None
    word = "training" if site.role == "train" else "evaluation"
    return _refusal(site, "SHD916", f"only what is near by speaks of {word}")


def _against_target(site: Site, change: Change, options: Options) -> Finding | None:
    """A target never overrides a proven owner; what changes no behaviour is right under every target."""
    if options.target == "auto" or change.tier == "cosmetic" or site.owner in _TARGET_OWNERS[options.target]:
        return None
    return _refusal(site, "SHD926", f"{site.owner} owns it, --target is {options.target}")


def _keep(
    module: Module,
    outcomes: Mapping[Location, _Outcome],
    changes: list[Change],
    comments: Comments,
    suppressions: list[Suppression],
) -> list[Change]:
    """Take out what the user wants kept, and count each request as used or not."""
    used: set[int] = set()
    kept_changes = list(changes)
    for location, outcome in outcomes.items():
        for line in lines_of(module, outcome.site.call):
            keep: Keep | None = comments.keeps.get(line)
            if keep is None:
                continue
            mine = [c for c in kept_changes if location in c.sites and keep.covers(c.codes[0])]
            # A refusal that only the verdict brings counts too, where nothing is to be edited.
            said = outcome.findings if any(location in c.sites for c in kept_changes) else _verdict(outcome)[2]
            covered = [f for f in (*outcome.findings, *said) if keep.covers(f.code)]
            if mine or covered:
                used.add(line)
                outcome.kept = keep.reason or "kept"
                outcome.findings = [f for f in outcome.findings if f not in covered]
                parts = [c.otherwise for c in mine if c.otherwise and not keep.covers(c.otherwise.codes[0])]
                kept_changes = [*(c for c in kept_changes if c not in mine), *parts]
    for line, keep in comments.keeps.items():
        suppressions.append(Suppression(str(keep.location), keep.codes, keep.reason, line in used))
    return kept_changes


def _report(outcome: _Outcome) -> SiteReport:
    site = outcome.site
    verdict, why, findings = _verdict(outcome)
    return SiteReport(
        site.location,
        site.role,
        site.owner,
        site.owner_evidence,
        site.sampler,
        verdict,
        tuple(findings),
        tuple(outcome.changes),
        why,
    )


def _refusal(site: Site, code: str, note: str = "") -> Finding:
    """A refusal whose evidence is what shows the owner."""
    return refuse(site, code, note=note, evidence=site.owner_evidence)


def _without_role(site: Site) -> Finding:
    """The refusal of a loader that nobody shards and whose role is not shown."""
    shown = site.shown_role
    note = shown.why
    plain = site.kinds <= {"none"} and not site.batch_arms and split_by_hand(site) is None and not is_streaming(site)
    if note.startswith("it serves") and plain and not any(conditions(site.module, site.call)):
        note += "; as it is, training reads everything on each rank"
    return refuse(site, "SHD916", note=note, evidence=(*shown.evidence, *site.owner_evidence))


def _verdict(o: _Outcome) -> tuple[Verdict, str, list[Finding]]:
    site = o.site
    if o.changes:
        return "edit", o.changes[0].title, o.findings
    if o.kept:
        return "kept", o.kept, o.findings
    if site.owner == "self" and site.answers.owner is not None:
        return "kept", f"it shards itself, as {site.answers.owner.where} says", o.findings
    if site.kind == "foreign" or site.owner in LIBRARIES:
        return "not-ours", "another library's loader", o.findings
    if site.owner not in _OURS:
        return "not-ours", f"left to {site.owner}, which has rules of its own for loaders", o.findings
    if o.findings:
        grave = [f for f in o.findings if not f.code.startswith("SHD9")] or o.findings[:1]
        return "refused", grave[0].message, grave
    if site.kind == "partial" and site.owner != "single":
        note = f"{site.module.source.source(site.call.func)} leaves the rest of them to calls elsewhere"
        return "refused", f"{REFUSALS['SHD903'].title}: {note}", [_refusal(site, "SHD903", note)]
    if site.kind in ("subclass", "partial"):
        if site.owner == "single":
            return "right", "one process reads everything", []
        return "refused", REFUSALS["SHD919"].title, [_refusal(site, "SHD919", site.deviates)]
    if site.owner == "unknown":
        return "refused", site.ownership.missing, [_refusal(site, "SHD901", site.ownership.missing)]
    if site.unseen and site.owner != "single":
        return "refused", REFUSALS["SHD903"].title, [_refusal(site, "SHD903", site.unseen)]
    if site.ownership.note:
        return "right", site.ownership.note, []
    if o.right:
        return "kept" if "epoch" in site.heeded else "right", o.right, []
    if site.owner == "single":
        if site.options.target == "accelerate" and not site.answered("owner", "single"):
            return "refused", REFUSALS["SHD934"].title, [_refusal(site, "SHD934")]
        return "right", "one process reads everything", []
    if site.owner == "accelerate":
        return "right", "prepare() shards it", []
    if site.owner == "hf-trainer":
        return "right", "the trainer's Accelerator shards it", []
    if site.kinds & {"distributed"}:
        return "right", "a DistributedSampler shards it", []
    if site.own_shares:
        return "right", f"{site.own_shares[0].label} gives each rank its share", []
    if site.arguments.opaque:
        return "refused", REFUSALS["SHD903"].title, [_refusal(site, "SHD903", site.arguments.opaque)]
    if site.role == "unknown":
        guard = one_process(site)
        if guard is not None:
            return "right", f"one process alone builds or reads it (line {guard.lineno}), so it reads everything", []
        finding = _without_role(site)
        return "refused", finding.message, [finding]
    return "refused", REFUSALS["SHD915"].title, [_refusal(site, "SHD915")]
