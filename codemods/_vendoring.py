"""Import what keeps a metric whole from the file beside the program, or from an installed shardfix."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from shardfix.codemods._mending import EVALUATION, is_ours
from shardfix.codemods.add_sanitizer import import_form, is_own

from shardfix.analysis.code.old_names import is_old
from shardfix.analysis.code.project import Project
from shardfix.analysis.model import Change, Options
from shardfix.rewrite.edits import AddImport, CreateFile, Edit


def imports_of_evaluation(
    change: Change, project: Project, files: frozenset[str], options: Options, content: str
) -> Change | None:
    """A change whose imports from the evaluation's file are in the form of its project, with that file; None where
    nothing shows how a module of it is imported, or a module is one of Python up to 3.6.

    Args:
        files: project-relative paths of the project's Python files.
        content: of the file that ``--sanitizer-from vendor`` puts beside the program.
    """
    ours = [e for e in change.edits if isinstance(e, AddImport) and e.module == EVALUATION]
    if not ours:
        return change
    edits: list[Edit] = [e for e in change.edits if e not in ours]
    made: list[CreateFile] = []
    for edit in sorted(ours, key=lambda e: e.name):
        module = project.modules[edit.path]
        bound = module.bindings.exit_of(module.tree).get(edit.name, frozenset())
        if any(d.kind == "import" and is_ours(d.module) for d in bound):
            continue
        if is_old(module.text):
            return None
        if options.sanitizer_from == "package":
            edits.append(replace(edit, module="shardfix.evaluation"))
            continue
        form = import_form(project, module, files, EVALUATION)
        if form is None:
            return None
        folder, name = form
        edits.append(replace(edit, module=name, apart=not is_own(project, module, edit.beside)))
        made.append(CreateFile(posixpath.join(folder, f"{EVALUATION}.py"), content))
    return replace(change, edits=tuple(dict.fromkeys([*edits, *made])))
