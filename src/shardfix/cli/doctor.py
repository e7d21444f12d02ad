"""`shardfix doctor`: run what shardfix believes of torch, Accelerate and Lightning on the installed versions."""

from __future__ import annotations

import sys

import click


@click.command("doctor", short_help="Run what shardfix believes of the libraries on yours.")
@click.option("--python", metavar="PATH", help="The project's own Python, whose libraries are asked.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for all of it.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to report.",
)
@click.pass_context
def command(ctx: click.Context, python: str | None, timeout: float, form: str) -> None:
    """Run small programs in two processes that show who reads what with the installed torch, Accelerate, Lightning
    and transformers, and say which of shardfix's beliefs hold there.

    Exits with 1 if one differs, with 2 if they can't be run.
    """
    from shardfix.proof.truth.check import CELLS, check
    from shardfix.report.doctor import doctor_document, doctor_page
    from shardfix.report.terminal import emit, width_of

    if sys.stderr.isatty():
        click.echo(f"running {len(CELLS)} programs in two processes ...", err=True)
    checkup = check(python=python, timeout=timeout)
    if form == "json":
        import json

        json.dump(doctor_document(checkup), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        from shardfix.report.catalogue import titles

        width = width_of(sys.stdout) if sys.stdout.isatty() else None
        emit(doctor_page(checkup, titles(), width=width), sys.stdout)
    ctx.exit(2 if checkup.ended else 1 if checkup.differing else 0)
