"""Put the run-time check right behind the construction of a loader: ``sanitize(loader, owner=...)``."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardfix.analysis.model import Change, Location, Options
from shardfix.analysis.module import Module
from shardfix.analysis.project import Project
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.analysis.spelling import below_imports
from shardfix.rewrite.edits import AddImport, CreateFile, Edit, InsertStatements, WrapExpression

VENDORED = "shardfix_sanitizer"
_OWNERS = ("accelerate", "ddp", "hf-trainer")


def is_script(module: Module) -> bool:
    """Whether a module is run as a program: it tests ``__name__`` and no other module of the project imports it."""
    for statement in module.tree.body:
        if isinstance(statement, ast.If) and any(
            isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(statement.test)
        ):
            return True
    return False


def import_root(project: Project, module: Module, packages: frozenset[str]) -> tuple[str, str]:
    """Where the vendored file goes and the module name by which this module imports it.

    Args:
        packages: the project's folders that hold an ``__init__.py``.

    Returns:
        The folder (project-relative, ``""`` for the root) and the dotted name, relative in a package.
    """
    folder = posixpath.dirname(module.path)
    if folder in packages and not is_script(module):
        return folder, f".{VENDORED}"
    if not is_script(module):
        importers = sorted(project.importers.get(module.path, ()))
        for importer in importers:
            root = posixpath.dirname(importer)
            if folder != root and (not root or folder.startswith(root + "/")):
                return root, VENDORED
    return folder, VENDORED


def _call(site: Site, edits: Sequence[Edit]) -> list[Edit]:
    """The check itself: a statement behind the construction, or around the expression that returns or uses it."""
    module = site.module
    end = f', owner="{site.owner}")'
    if site.owner == "hf-trainer":
        # Only what prepare() gives back is sharded, so the check goes around the prepare() that this run puts in.
        prepares = [e for e in edits if isinstance(e, WrapExpression) and e.before.endswith(".prepare(")]
        return [WrapExpression(module.path, e.span, "sanitize(", end) for e in prepares]
    if site.form in ("name", "attribute", "subscript") and site.target is not None:
        statement = module.statement(site.call)
        line = f"sanitize({module.source.source(site.target)}{end}"
        return [InsertStatements(module.path, module.source.span(statement), "after", (line,))]
    return [WrapExpression(module.path, module.source.span(site.call), "sanitize(", end)]


def sanitizer_edits(
    site: Site, project: Project, packages: frozenset[str], options: Options, vendored: str, edits: Sequence[Edit] = ()
) -> list[Edit]:
    """The edits that check one loader at run time; none where they could not be right.

    Args:
        vendored: the content of the file that ``--sanitizer-from vendor`` puts beside the program.
        edits: those of the change that the check goes with.
    """
    module = site.module
    if site.owner not in _OWNERS or site.sanitized or site.kind != "torch":
        return []
    if site.shards_sometimes:
        return []  # a factory for training and evaluation: the check would stop the loader that is not to be sharded
    if any(isinstance(n, (ast.Lambda, ast.GeneratorExp)) for n in module.around(site.call)):
        return []
    known = module.bindings.exit_of(module.tree).get("sanitize", frozenset())
    ours = any(d.kind == "import" and d.module.endswith((f"{VENDORED}.sanitize", "shardfix.sanitize")) for d in known)
    if not ours and any(d.key == "sanitize" for d in module.bindings.definitions):
        return []
    made = _call(site, edits)
    if ours or not made:
        return made
    if options.sanitizer_from == "package":
        made.append(AddImport(module.path, "shardfix", "sanitize", below_imports(module)))
    else:
        folder, name = import_root(project, module, packages)
        made.append(AddImport(module.path, name, "sanitize", below_imports(module)))
        made.append(CreateFile(posixpath.join(folder, f"{VENDORED}.py"), vendored))
    return made


def extend(
    changes: Sequence[Change],
    sites: Mapping[Location, Site],
    project: Project,
    packages: frozenset[str],
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
        extra: list[Edit] = []
        if change.tier != "cosmetic":
            for location in change.sites:
                site = sites.get(location)
                if site is not None and location not in guarded:
                    extra.extend(sanitizer_edits(site, project, packages, options, vendored, change.edits))
        if extra:
            change = replace(change, edits=(*change.edits, *extra), codes=(*change.codes, "SHD601"))
        result.append(change)
    return result


def standing(
    sites: Sequence[Site], project: Project, packages: frozenset[str], options: Options, vendored: str
) -> list[Change]:
    """Changes that only add the check, for loaders that are right as they are (``--sanitizer all``)."""
    changes: list[Change] = []
    for site in sites:
        arms = [*site.arms, *(inner for batch in site.batch_arms for inner in batch.inner)]
        if site.owner == "ddp" and all(arm.kind != "distributed" for arm in arms):
            continue  # it is right because one process reads it, of which the check on every rank knows nothing
        edits = sanitizer_edits(site, project, packages, options, vendored)
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
