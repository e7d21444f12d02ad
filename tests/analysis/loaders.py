"""Small programs put through the analysis: one file or a few, and their loaders in source order."""

from __future__ import annotations

import ast
from textwrap import dedent

from shardfix.analysis.code.module import Module, parse
from shardfix.analysis.code.project import Project, link
from shardfix.analysis.model import Options
from shardfix.analysis.sites import Site
from shardfix.planning import sites_of

PATH = "train.py"


def module(text: str, path: str = PATH) -> Module:
    """One file alone, linked as a project of its own."""
    return project({path: text}).modules[path]


def project(files: dict[str, str]) -> Project:
    """Files by path, linked."""
    return link({path: parse(path, dedent(text)) for path, text in files.items()})


def sites(text: str | dict[str, str], path: str = PATH, options: Options | None = None) -> list[Site]:
    """The loaders of one file, in source order."""
    files = {path: text} if isinstance(text, str) else text
    return sites_of(project(files), (path,), options or Options())[path]


def site(text: str | dict[str, str], path: str = PATH, options: Options | None = None) -> Site:
    """The one loader of a file."""
    (found,) = sites(text, path, options)
    return found


def uses(found: Module, name: str) -> list[ast.Name]:
    """The loads of a name, in source order."""
    loads = [
        n for n in ast.walk(found.tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    return sorted(loads, key=lambda n: (n.lineno, n.col_offset))


def expression(found: Module, source: str) -> ast.expr:
    """The last expression of a file that is written just so, in load context."""
    wanted = [
        n
        for n in ast.walk(found.tree)
        if isinstance(n, ast.expr)
        and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
        and found.source.source(n) == source
    ]
    return max(wanted, key=lambda n: (n.lineno, n.col_offset))
