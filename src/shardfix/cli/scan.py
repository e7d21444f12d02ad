"""`shardfix scan`: every loader, who owns it and what is wrong with it; reads only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardfix.cli import options

if TYPE_CHECKING:
    from shardfix.result import RunResult


@click.command("scan")
@options.paths
@options.selection
@options.strict
@options.why
@options.text_or_json
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    target: str | None,
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...] | None,
    strict: bool,
    why: options.Why | None,
    form: str,
) -> None:
    """Show every loader: where, role, owner, sampler, verdict. Changes and runs nothing.

    Exits with 1 if a fault stands.
    """
    from shardfix import engine
    from shardfix.cli.output import print_json, print_pages
    from shardfix.cli.projects import each_project
    from shardfix.config import Asked
    from shardfix.report.summary import exit_of_scan
    from shardfix.report.text import scan_page

    asked = Asked(target=target, select=select, ignore=ignore)
    if why is not None and why.path is not None:
        if why.line is not None and paths:
            raise click.UsageError("--why PATH:LINE is about one loader; leave the other paths out")
        paths = (*paths, why.path) if why.line is None else (why.path,)
    results = each_project(
        paths, asked, lambda members, config: engine.scan(members, config=config, why=why is not None)
    )
    if why is not None and why.line is not None:
        results = [_at(result, why.line, str(why.path)) for result in results]
    if form == "json":
        print_json(results)
    else:
        print_pages(results, scan_page, sys.stdout)
    code = 0
    for result in results:
        code |= exit_of_scan(result, strict=strict)
    ctx.exit(code)


def _at(result: RunResult, line: int, path: str) -> RunResult:
    """What is said of the loaders that are built on one line of the one file that was scanned."""
    from dataclasses import replace

    sites = tuple(site for site in result.sites if site.location.line == line)
    if not sites:
        there = ", ".join(str(site.location.line) for site in result.sites) or "none"
        raise click.UsageError(f"{path}:{line}: no loader is built in this line; lines of this file: {there}")
    changes = tuple(c for c in result.changes if any(site.location in c.sites for site in sites))
    return replace(result, sites=sites, changes=changes)
