"""`shardfix batch`: migrate many projects, none of which can end the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardfix.cli import options

if TYPE_CHECKING:
    from shardfix.batch.outcomes import BatchResult, Outcome


@click.command("batch", short_help="Migrate many projects; a dry run unless --apply is given.")
@click.argument("projects", nargs=-1, metavar="PROJECTS...")
@click.option(
    "--from", "lists", multiple=True, metavar="FILE", help="Also the folders in FILE, one a line (- for stdin)."
)
@click.option("--apply", is_flag=True, help="Write; without it this is a dry run.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Projects at a time."
)
@click.option(
    "--report",
    "report_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write report.json and patches/NAME.patch there.",
)
@click.option(
    "--project-timeout",
    type=click.FloatRange(min=1),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for one project, its proof included.",
)
@options.selection
@options.sanitizer
@options.writing
@options.proof
@options.strict
@options.text_or_json
@click.pass_context
def command(
    ctx: click.Context,
    projects: tuple[str, ...],
    lists: tuple[str, ...],
    apply: bool,
    jobs: int,
    report_folder: Path | None,
    project_timeout: float,
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
    strict: bool,
    form: str,
) -> None:
    """Migrate many projects: folders, or quoted globs of folders. A dry run unless --apply is given.

    A project that fails never ends the run. Cosmetic changes are made only if --select names codes.
    """
    from shardfix.batch import executor
    from shardfix.batch.outcomes import batch_page, to_json, write_report
    from shardfix.batch.projects import find
    from shardfix.config import Asked, checked_codes
    from shardfix.report.terminal import emit

    found = find(projects, [(name, _lines(name)) for name in lists])
    if not found:
        raise click.UsageError("no projects; name folders, quoted globs, or a list with --from")
    checked_codes(select or (), "--select")  # once, here, not as a failure of every project
    checked_codes(ignore or (), "--ignore")
    if report_folder is not None:
        report_folder.mkdir(parents=True, exist_ok=True)  # a folder that can't be written is known before the work
    job = executor.Job(
        Asked(target, select, ignore, unsafe, sanitizer, sanitizer_from, cosmetic=False),
        apply=apply,
        allow_dirty=allow_dirty,
        allow_no_vcs=allow_no_vcs,
        verify=options.verify_word(verify),
        require_proof=require_proof,
        strict=strict,
        python=python,
        nproc=nproc,
        timeout=timeout,
        limit=project_timeout,
    )
    result: BatchResult = executor.run(found, job, jobs=jobs, done=_progress(len(found)))
    if report_folder is not None:
        write_report(result, report_folder)
    if form == "json":
        import json

        json.dump(to_json(result), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        emit(batch_page(result), sys.stdout)
    if result.interrupted:
        raise KeyboardInterrupt
    ctx.exit(result.exit)


def _lines(name: str) -> list[str]:
    text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return text.decode("utf-8-sig", "surrogateescape").splitlines()


class _progress:
    """Say each project as it ends, on a terminal only: the table at the end says it all again."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.ended = 0

    def __call__(self, outcome: Outcome) -> None:
        self.ended += 1
        if sys.stderr.isatty():
            click.echo(f"[{self.ended}/{self.total}] {outcome.project.name}: {outcome.kind}", err=True)
