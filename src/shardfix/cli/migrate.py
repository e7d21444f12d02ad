"""`shardfix migrate`: rewrite what is wrong, prove it, and write what was not refuted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from shardfix.cli import options

if TYPE_CHECKING:
    from shardfix.config import Config
    from shardfix.report.terminal import Page
    from shardfix.report.text import Maps
    from shardfix.result import RunResult


@click.command("migrate", short_help="Rewrite loaders so that every process reads its own share.")
@options.paths
@click.option("--diff", is_flag=True, help="Write nothing; print the diff (the report goes to standard error).")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option(
    "--patch",
    "patch_file",
    metavar="FILE",
    help="Write nothing but the diff, to FILE (- for standard output).",
)
@click.option(
    "--guard",
    is_flag=True,
    help="Also add tests/test_sharding.py, which proves the loaders that a function without arguments builds.",
)
@options.selection
@options.sanitizer
@options.writing
@options.proof
@options.import_project
@options.maps
@options.svg
@options.strict
@options.text_or_json
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    diff: bool,
    check: bool,
    patch_file: str | None,
    guard: bool,
    target: str | None,
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...] | None,
    sanitizer: str | None,
    sanitizer_from: str | None,
    unsafe: bool,
    verify: bool | None,
    require_proof: bool,
    allow_dirty: bool,
    allow_no_vcs: bool,
    python: str | None,
    nproc: int,
    timeout: float,
    import_project: bool,
    maps: str,
    svg: str | None,
    strict: bool,
    form: str,
) -> None:
    """Rewrite loaders in place so that every process reads its own share exactly once.

    Rewritten loaders are run in several processes first (if torch is there), and what is refuted is not written.
    `shardfix migrate --diff | git apply` does by hand what `shardfix migrate` does.
    """
    if form == "json" and (diff or patch_file == "-"):
        raise click.UsageError("--format json and a diff both go to standard output; use --patch FILE")
    from shardfix import engine
    from shardfix.cli.output import draw_svg, print_json, print_pages, write_patch
    from shardfix.cli.projects import each_project
    from shardfix.config import Asked
    from shardfix.report.catalogue import titles
    from shardfix.report.patch import patch
    from shardfix.report.summary import exit_of_migrate
    from shardfix.report.terminal import emit_diff, width_of
    from shardfix.report.text import migrate_page

    dry = diff or check or patch_file is not None
    asked = Asked(target, select, ignore, unsafe, sanitizer, sanitizer_from)

    def work(members: Sequence[Path], config: Config) -> RunResult:
        return engine.migrate(
            members,
            config=config,
            write=not dry,
            allow_dirty=allow_dirty,
            allow_no_vcs=allow_no_vcs,
            verify=options.verify_word(verify),
            python=python,
            nproc=nproc,
            timeout=timeout,
            require_proof=require_proof,
            guard=guard,
            import_project=import_project,
        )

    results = each_project(paths, asked, work)
    on_stdout = diff or patch_file == "-"
    if patch_file is not None and patch_file != "-":
        write_patch(b"".join(map(patch, results)), patch_file)
    if on_stdout:
        emit_diff(b"".join(map(patch, results)), sys.stdout)
    stream = sys.stderr if on_stdout else sys.stdout
    if form == "json":
        print_json(results)
    else:
        names = titles()

        def page(result: RunResult) -> Page:
            return migrate_page(result, names, dry=dry, maps=cast("Maps", maps), width=width_of(stream))

        print_pages(results, page, stream)
    if svg is not None:
        proofs = [proof for result in results for proof in result.proofs]
        draw_svg(proofs, svg, sys.stderr if form == "json" else stream)
    code = 0
    for result in results:
        code |= exit_of_migrate(result, check=check or diff, strict=strict, require_proof=require_proof)
    ctx.exit(code)
