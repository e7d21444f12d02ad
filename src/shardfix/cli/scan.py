"""`shardfix scan`: every loader, who owns it and what is wrong with it; reads only."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from shardfix.cli import options


@click.command("scan")
@options.paths
@options.selection
@options.strict
@options.text_or_json
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    target: str | None,
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...] | None,
    strict: bool,
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
    results = each_project(paths, asked, lambda members, config: engine.scan(members, config=config))
    if form == "json":
        print_json(results)
    else:
        print_pages(results, scan_page, sys.stdout)
    code = 0
    for result in results:
        code |= exit_of_scan(result, strict=strict)
    ctx.exit(code)
