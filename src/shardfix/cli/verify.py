"""`shardfix verify`: run the loaders as they stand in several processes and judge what each process reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from shardfix.cli import factories, options, scripts

if TYPE_CHECKING:
    from shardfix.config import Config
    from shardfix.report.terminal import Page
    from shardfix.report.text import Maps
    from shardfix.result import RunResult


@click.command("verify", cls=scripts.WithProgram, short_help="Run the loaders in several processes and judge them.")
@options.paths
@factories.options
@scripts.options
@options.proof
@options.import_project
@options.maps
@options.svg
@options.checklist
@options.text_or_json
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    loaders: tuple[str, ...],
    arguments: tuple[str, ...],
    set_epoch: str,
    prepare: bool,
    script: str | None,
    cpu: bool,
    epochs: int,
    batches: int,
    launch: str,
    control: bool,
    verbose: bool,
    python: str | None,
    nproc: int,
    timeout: float,
    import_project: bool,
    maps: str,
    svg: str | None,
    checklist: bool | None,
    form: str,
) -> None:
    """Prove every loader as it stands: run it in several processes and see who reads what.

    Exits with 4 if a loader is refuted, with 8 if one is unproven.
    """
    if script is not None:
        if paths or loaders:
            raise click.UsageError("--run watches one script; leave out paths and --loader (its arguments follow --)")
        code = scripts.verify(
            ctx,
            script,
            cpu=cpu,
            epochs=epochs,
            batches=batches,
            launch=launch,
            control=control,
            verbose=verbose,
            python=python,
            nproc=nproc,
            timeout=timeout,
            maps=maps,
            svg=svg,
            checklist=checklist,
            form=form,
        )
        ctx.exit(code)
    if loaders:
        if paths:
            raise click.UsageError("--loader names what is to be proven; leave out the paths")
        code = factories.verify(
            loaders,
            arguments,
            set_epoch=set_epoch,
            prepare=prepare,
            python=python,
            nproc=nproc,
            timeout=timeout,
            maps=maps,
            svg=svg,
            checklist=checklist,
            form=form,
        )
        ctx.exit(code)
    from shardfix import engine
    from shardfix.cli.output import draw_svg, print_json, print_pages
    from shardfix.cli.projects import each_project
    from shardfix.config import Asked
    from shardfix.report.summary import exit_of_verify
    from shardfix.report.terminal import width_of
    from shardfix.report.text import verify_page

    def verify(members: Sequence[Path], config: Config) -> RunResult:
        return engine.verify(
            members, config=config, python=python, nproc=nproc, timeout=timeout, import_project=import_project
        )

    results = each_project(paths, Asked(), verify)
    if form == "json":
        print_json(results)
    else:

        def page(result: RunResult) -> Page:
            return verify_page(result, maps=cast("Maps", maps), width=width_of(sys.stdout), checklist=checklist)

        print_pages(results, page, sys.stdout)
    if svg is not None:
        proofs = [proof for result in results for proof in result.proofs]
        draw_svg(proofs, svg, sys.stderr if form == "json" else sys.stdout)
    code = 0
    for result in results:
        code |= exit_of_verify(result)
    ctx.exit(code)
