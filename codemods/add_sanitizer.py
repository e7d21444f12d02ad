"""Put the run-time check right behind the construction of a loader: ``sanitize(loader, owner=...)``."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.old_names import is_old
from shardfix.analysis.code.project import Project
from shardfix.analysis.code.spelling import below_imports
from shardfix.analysis.model import Change, Location, Options
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import AddImport, CreateFile, Edit, InsertStatements, Span, WrapExpression

VENDORED = "shardfix_sanitizer"
_OWNERS = ("accelerate", "ddp", "hf-trainer")
_RELATIVE = "."
_NOT_CHECKED = (
    "no run-time check is put in: nothing shows whether the program is started by its path or with python -m, and each "
    "needs another import (--sanitizer-from package imports it from an installed shardfix)"
)
OLD = "in this file `async` is a name, as in Python up to 3.6, and the file that does it needs a newer one"
_TOO_OLD = f"no run-time check is put in: {OLD} (write `non_blocking=` for `async=`)"


def import_form(
    project: Project, module: Module, files: frozenset[str], vendored: str = VENDORED
) -> tuple[str, str] | None:
    """Where the vendored file goes and the module name by which this module imports it: in the form of the project
    imports that work today, those of this module and those that others make of it.

    Args:
        files: project-relative paths of the project's Python files.
        vendored: the name of the vendored module.

    Returns:
        The folder (project-relative, ``""`` for the root) and the dotted name, relative in a package; None where
        nothing shows how the module is started and either form may fail.
    """
    folder = posixpath.dirname(module.path)
    own = _shown(module, folder, files, lambda d: True)
    if own == _RELATIVE:
        return folder, f".{vendored}"
    in_package = posixpath.join(folder, "__init__.py") in files
    for importer in sorted(project.importers.get(module.path, ())):
        other = project.modules[importer]
        form = _shown(other, posixpath.dirname(importer), files, partial(_names, project, other, module))
        if form is None:
            if in_package and not is_script(module) and _by_package(project, other, module, posixpath.basename(folder)):
                return folder, f".{vendored}"
            continue
        # Imported from above its folder, a module of a package may import relatively.
        inside = in_package and form != folder and not is_script(module)
        if form == _RELATIVE or inside:
            return folder, f".{vendored}"
        return form, vendored
    if own is not None:
        return own, vendored
    return None if in_package else (folder, vendored)


def is_script(module: Module) -> bool:
    """Whether a module can be run as a program: it tests ``__name__``."""
    return any(
        isinstance(n, ast.Name) and n.id == "__name__"
        for statement in module.tree.body
        if isinstance(statement, ast.If)
        for n in ast.walk(statement.test)
    )


def _names(project: Project, importer: Module, module: Module, definition: Definition) -> bool:
    """Whether an import of another module names this one."""
    where = project.split(definition.module, importer)
    return where is not None and where[0] is module


def _by_package(project: Project, importer: Module, module: Module, package: str) -> bool:
    """Whether an import of another module names this one together with its package, wherever that is installed from."""
    found = [d for d in importer.bindings.definitions if d.kind == "import" and _names(project, importer, module, d)]
    return any(package in d.module.split(".")[:-1] for d in found)


def _shown(module: Module, base: str, files: frozenset[str], wanted: Callable[[Definition], bool]) -> str | None:
    """What the first telling import shows: ``_RELATIVE``, or the folder that is searched for modules."""
    for d in module.bindings.definitions:
        if d.kind == "import" and wanted(d):
            form = _form(d.statement, d.module, base, files)
            if form is not None:
                return form
    return None


def _form(statement: ast.AST, dotted: str, base: str, files: frozenset[str]) -> str | None:
    """What one import shows: a relative one that its module is part of a package, an absolute one of a project module
    the folder that is searched for modules."""
    if isinstance(statement, ast.ImportFrom) and statement.level:
        return _RELATIVE
    parts = dotted.split(".")
    place = base
    while True:
        top = posixpath.join(place, parts[0])
        below = posixpath.join(top, parts[1]) if len(parts) > 1 else ""
        named = [f"{top}.py", f"{top}/__init__.py", *([f"{below}.py", f"{below}/__init__.py"] if below else [])]
        if any(name in files for name in named):
            return place
        if not place:
            return None
        place = posixpath.dirname(place)


def is_own(project: Project, module: Module, span: Span | None) -> bool:
    """Whether the import statement at a place imports from the project, as that of the check does."""
    statement = next((s for s in module.tree.body if span is not None and module.source.span(s) == span), None)
    if isinstance(statement, ast.ImportFrom) and (statement.level or not statement.module):
        return True
    names = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
    names += [a.name for a in statement.names] if isinstance(statement, ast.Import) else []
    return any(project.split(f"{name}.x", module) is not None for name in names)


def _call(site: Site, edits: Sequence[Edit]) -> list[Edit]:
    """The check itself: a statement behind the construction, or around the expression that returns or uses it."""
    module = site.module
    end = f', owner="{site.owner}")'
    if site.owner == "hf-trainer":
        # Only what prepare() gives back is sharded, so the check goes around the prepare() that this run puts in.
        prepares = [e for e in edits if isinstance(e, WrapExpression) and e.before.endswith(".prepare(")]
        return [WrapExpression(e.path, e.span, "sanitize(", end) for e in prepares]
    if site.form in ("name", "attribute", "subscript") and site.target is not None:
        statement = module.statement(site.call)
        line = f"sanitize({module.source.source(site.target)}{end}"
        return [InsertStatements(*module.place(statement), "after", (line,))]
    return [WrapExpression(*module.place(site.call), "sanitize(", end)]


def sanitizer_edits(
    site: Site, project: Project, files: frozenset[str], options: Options, vendored: str, edits: Sequence[Edit] = ()
) -> list[Edit]:
    """The edits that check one loader at run time; none where they could not be right.

    Args:
        vendored: the content of the file that ``--sanitizer-from vendor`` puts beside the program.
        edits: those of the change that the check goes with.
    """
    module = site.module
    if site.owner not in _OWNERS or site.sanitized or site.kind != "torch":
        return []
    if site.ownership.started_by == "horovod":
        return []  # the check asks torch's process group for the ranks, and there is none
    if site.shards_sometimes:
        return []  # a factory for training and evaluation: the check would stop the loader that is not to be sharded
    if any(isinstance(n, (ast.Lambda, ast.GeneratorExp)) for n in module.around(site.call)):
        return []
    made: list[Edit] = []
    checks = _call(site, edits)
    for path in dict.fromkeys(check.path for check in checks):
        imported = _imported(project.modules[path], project, files, options, vendored)
        if imported is not None:
            made += [check for check in checks if check.path == path] + imported
    return made


def _imported(
    module: Module, project: Project, files: frozenset[str], options: Options, vendored: str
) -> list[Edit] | None:
    """The edits by which a file gets the check under its name; None where it can't be had."""
    if is_old(module.text):
        return None
    known = module.bindings.exit_of(module.tree).get("sanitize", frozenset())
    if any(d.kind == "import" and d.module.endswith((f"{VENDORED}.sanitize", "shardfix.sanitize")) for d in known):
        return []
    if any(d.key == "sanitize" for d in module.bindings.definitions):
        return None
    below = below_imports(module)
    if options.sanitizer_from == "package":
        return [AddImport(module.path, "shardfix", "sanitize", below)]
    form = import_form(project, module, files)
    if form is None:
        return None
    folder, name = form
    return [
        AddImport(module.path, name, "sanitize", below, apart=not is_own(project, module, below)),
        CreateFile(posixpath.join(folder, f"{VENDORED}.py"), vendored),
    ]


def extend(
    changes: Sequence[Change],
    sites: Mapping[Location, Site],
    project: Project,
    files: frozenset[str],
    options: Options,
    vendored: str,
    guarded: frozenset[Location],
) -> list[Change]:
    """Changes with the check added to each site they settle (``--sanitizer changed``).

    Args:
        guarded: sites that run on the main process only, where the check would stop a right program.
    """
    result: list[Change] = []
    for change in changes:
        checked = [sites[loc] for loc in change.sites if loc in sites and loc not in guarded]
        extra: list[Edit] = []
        if change.tier != "cosmetic":
            for site in checked:
                extra.extend(sanitizer_edits(site, project, files, options, vendored, change.edits))
            unknown = options.sanitizer_from == "vendor" and any(
                site.owner in _OWNERS and import_form(project, site.module, files) is None for site in checked
            )
            old = any(is_old(site.module.text) for site in checked)
            if unknown or old:
                why = _TOO_OLD if old else _NOT_CHECKED
                change = replace(change, consequences=(*change.consequences, why))
        if extra:
            # The check looks at the loader as it is built, before one without the padding takes its place.
            before = change.codemod == "reduce_eval_metrics"
            edits = (*extra, *change.edits) if before else (*change.edits, *extra)
            change = replace(change, edits=edits, codes=(*change.codes, "SHD601"))
        result.append(change)
    return result


def standing(
    sites: Sequence[Site], project: Project, files: frozenset[str], options: Options, vendored: str
) -> list[Change]:
    """Changes that only add the check, for loaders that are right as they are (``--sanitizer all``)."""
    changes: list[Change] = []
    for site in sites:
        arms = [*site.arms, *(inner for batch in site.batch_arms for inner in batch.inner)]
        if site.owner == "ddp" and all(arm.kind != "distributed" for arm in arms):
            continue  # it is right because one process reads it, of which the check on every rank knows nothing
        edits = sanitizer_edits(site, project, files, options, vendored)
        if edits:
            changes.append(
                Change(
                    site.location,
                    "add_sanitizer",
                    ("SHD601",),
                    "safe",
                    "check the loader's sharding at run time",
                    tuple(edits),
                    consequences=("the loader stays as it is; a wrong one raises ShardingError when it is built",),
                    evidence=site.owner_evidence,
                )
            )
    return changes


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Nothing by itself: the check follows the changes of the other codemods (see ``extend``)."""
    return Planned()


RULE = Rule(
    name="add_sanitizer",
    command="AddSanitizer",
    codes={"SHD601": "check the loader's sharding at run time"},
    tier="safe",
    why=(
        "Each fault here is silent: no error, a normal loss curve. The check looks at the loader once, right after "
        "its construction, and raises ShardingError naming the sampler, what each rank would read and the line to "
        "change. It returns the same object, so it costs nothing in the loop, and in one process it does nothing."
    ),
    refuses=(
        "Sites that are refused, unknown, a hazard or under a main-process guard, cosmetic changes, and files in "
        "which the name sanitize is taken."
    ),
    plan=plan,
    valid=(),
    invalid=(
        Example(
            "behind a loader that this run changes",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader, SequentialSampler\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=SequentialSampler(dataset))\n"
            "loader = accelerator.prepare(loader)\n"
            "for batch in loader:\n"
            "    pass\n",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "from shardfix_sanitizer import sanitize\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            "loader = DataLoader(dataset, batch_size=2)\n"
            'sanitize(loader, owner="accelerate")\n'
            "loader = accelerator.prepare(loader)\n"
            "for batch in loader:\n"
            "    pass\n",
            code="SHD601",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
