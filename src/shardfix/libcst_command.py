"""One adapter that makes every codemod run under LibCST's own tool: ``python -m libcst.tool codemod -x``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix.analysis.model import Options
from shardfix.analysis.rules import Rule
from shardfix.config import Config

if TYPE_CHECKING:
    import libcst

    from shardfix.planning import Plan
    from shardfix.staging import Staged

_SANITIZER = "add_sanitizer"
# What can be said of a loader only because other files of the project are out of sight here.
_ONE_FILE_ONLY = ("SHD901", "SHD926", "SHD927")
# LibCST looks a command up by its name and finds the same class each time, so that it can hand it to its workers.
_COMMANDS: dict[str, type] = {}


def command_for(rule: Rule) -> type:
    """The codemod as a LibCST ``CodemodCommand``.

    It sees one file: what another file would have to show is refused and told as a warning, as are all findings that
    change nothing. Settings come from the file's own project. Nothing is proven, since no file may be run here, and no
    file can be created, so the check of ``add_sanitizer`` is imported from the installed package.
    """
    known = _COMMANDS.get(rule.name)
    if known is not None:
        return known
    from libcst.codemod import CodemodCommand

    class Command(CodemodCommand):
        DESCRIPTION = "; ".join(f"{title} ({code})" for code, title in rule.codes.items())

        def transform_module_impl(self, tree: libcst.Module) -> libcst.Module:
            result, warnings = _transform(rule, tree, self.context.filename)
            for warning in warnings:
                self.warn(warning)
            return result

    Command.__name__ = Command.__qualname__ = rule.command
    Command.__module__ = f"shardfix.codemods.{rule.name}"
    return _COMMANDS.setdefault(rule.name, Command)


def _transform(rule: Rule, tree: libcst.Module, filename: str | None) -> tuple[libcst.Module, list[str]]:
    import libcst

    from shardfix.analysis.code.module import ParseFailure, parse
    from shardfix.analysis.code.project import link
    from shardfix.reading import Reading
    from shardfix.sources.text import SourceError, decode
    from shardfix.staging import stage
    from shardfix.vendored import Vendored

    path, config = _project(rule, filename)
    data = tree.bytes
    try:
        source = decode(data, path)
        module = parse(path, source.text)
    except (SourceError, ParseFailure) as error:
        return tree, [str(error)]
    chosen = frozenset((path,))
    project = link({path: module})
    reading = Reading(project, chosen, {path: data}, {path: source}, frozenset((path,)), config.options, (), (), 1)
    staged = stage(reading, Vendored(), frozenset())
    warnings = _warnings(rule, staged, config.options)
    text = staged.texts.get(path, source.text)
    if text == source.text:
        return tree, warnings
    result = libcst.parse_module(text, config=tree.config_for_parsing)
    if result.code != text:
        return tree, [*warnings, f"{path}: not changed, LibCST does not write this file back as it was"]
    return result, warnings


def _project(rule: Rule, filename: str | None) -> tuple[str, Config]:
    """The file's path from the root of its project, and the project's settings narrowed to one codemod."""
    from shardfix.config import load
    from shardfix.reading import relative
    from shardfix.sources.discover import project_root

    if filename is None:  # read from standard input
        path, config = "<stdin>", Config(Path.cwd(), Options())
    else:
        place = Path(filename).resolve()
        root = project_root(place)
        path, config = relative(place, root), load(root)
    options = replace(
        config.options,
        select=tuple(rule.codes),
        sanitizer="all" if rule.name == _SANITIZER else "off",
        sanitizer_from="package",
    )
    return path, replace(config, options=options)


def _warnings(rule: Rule, staged: Staged, options: Options) -> list[str]:
    found = [f"{change.site}: {change.codes[0]} not changed: {why}" for change, why in staged.dropped]
    for location, code, message, remedy in _findings(rule, staged.plan, options):
        found.append(f"{location}: {code} {message}" + (f"; {remedy}" if remedy else ""))
    return found


def _findings(rule: Rule, plan: Plan, options: Options) -> list[tuple[str, str, str, str]]:
    """What this codemod has to say of sites that it leaves alone, and what one file can't show."""
    mine = {(location, f.code) for location, f in rule.plan(list(plan.sites.values()), options).findings}
    return [
        (str(report.location), f.code, f.message, f.remedy)
        for report in plan.reports
        if report.verdict not in ("kept", "not-ours")
        for f in report.findings
        if (report.location, f.code) in mine or f.code in _ONE_FILE_ONLY
    ]
