"""`shardfix verify --run SCRIPT -- ARGS`: run a script as it is on several ranks and judge what its loaders read."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

if TYPE_CHECKING:
    from shardfix.proof.watching.watch import Launch, Run
    from shardfix.report.text import Maps

_Command = TypeVar("_Command", bound=Callable[..., object])
_REFUTED, _UNPROVEN = 4, 8
_PROGRAM = "shardfix.program"  # in click's context: what followed the first --
_ASKED = "shardfix.asked"  # and all of it, as it was typed


class WithProgram(click.Command):
    """A command whose arguments after ``--`` belong to the program that ``--run`` names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ASKED] = list(args)
        if "--" in args:
            at = args.index("--")
            if any(arg == "--run" or arg.startswith("--run=") for arg in args[:at]):
                ctx.meta[_PROGRAM] = args[at + 1 :]
                args = args[:at]
        return super().parse_args(ctx, args)


def options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--control",
            is_flag=True,
            help="With --run: run the script once more, in one process, which shows what there is to read. It takes "
            "the script's time again, and writes its files again.",
        ),
        click.option("--verbose", is_flag=True, help="With --run: show what each rank prints, as it does."),
        click.option(
            "--launch",
            type=click.Choice(["ranks", "self"]),
            default="ranks",
            show_default=True,
            help="With --run: who starts the ranks, this command or the script itself (mp.spawn, torchrun).",
        ),
        click.option(
            "--max-batches",
            "batches",
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="With --run: each pass over a loader ends after N steps.  [default: at its own end]",
        ),
        click.option(
            "--epochs",
            type=click.IntRange(min=0),
            default=2,
            show_default=True,
            metavar="N",
            help="With --run: stop once the loaders were read N times; 0 runs the script to its end.",
        ),
        click.option("--cpu", is_flag=True, help="With --run: CUDA devices are made up on the CPU."),
        click.option(
            "--run",
            "script",
            metavar="SCRIPT",
            help="Run this script (or '-m module') as it is, with what follows --, and watch its loaders.",
        ),
    ):
        command = option(command)
    return command


def verify(
    ctx: click.Context,
    script: str,
    *,
    cpu: bool,
    epochs: int,
    batches: int,
    launch: str,
    control: bool,
    verbose: bool,
    python: str | None,
    nproc: int,
    timeout: float,
    maps: str,
    svg: str | None,
    checklist: bool | None,
    form: str,
) -> int:
    """Watch a script, print what its loaders read and how its ranks ended; the exit code."""
    from shardfix.cli.output import draw_svg
    from shardfix.proof.judging.endings import judge_run
    from shardfix.proof.running.launch import torch_available
    from shardfix.proof.watching.watch import Program, watch
    from shardfix.report.json import clean
    from shardfix.report.terminal import emit, width_of
    from shardfix.report.watched import watched_json, watched_page
    from shardfix.watching import judge_watched

    if control and launch == "self":
        raise click.UsageError("--control is for ranks that this command starts; --launch self lets the script do that")
    python = _interpreter(python)
    if torch_available(python) is None:
        raise click.UsageError(f"{python} has no torch; name the project's own Python with --python")
    program = Program(
        command=(*_script(script), *ctx.meta.get(_PROGRAM, ())),
        python=python,
        nproc=nproc,
        timeout=timeout,
        epochs=epochs,
        batches=batches,
        cpu=cpu,
        launch=cast("Launch", launch),
    )
    hear = _show if verbose else None
    run = watch(program, hear=hear)
    # where a pass ends early, one process goes as far as the ranks together
    alone = watch(replace(program, nproc=1, batches=batches * nproc), hear=hear) if control else None
    proofs = judge_watched(
        run.watched,
        Path(script) if os.path.isfile(script) else None,
        alone.watched if alone else None,
        again=_with_control(ctx) if launch == "ranks" else "",
    )
    verdict = judge_run(run.watched, proofs)
    of_control = judge_run(alone.watched) if alone else None
    if form == "json":
        data = {**watched_json(proofs, verdict, of_control), "notes": clean(run.notes)}
        import json

        json.dump(data, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        page = watched_page(
            proofs, verdict, of_control, maps=cast("Maps", maps), width=width_of(sys.stdout), checklist=checklist
        )
        for note in run.notes:
            page.line(f"note: {note}")
        emit(page, sys.stdout)
    if svg is not None:
        draw_svg(proofs, svg, sys.stderr if form == "json" else sys.stdout)
    if verdict.cause and not verbose:
        _show_last(run)
    verdicts = {verdict.verdict, *(proof.verdict for proof in proofs)}
    return (_REFUTED if "refuted" in verdicts else 0) | (_UNPROVEN if "unproven" in verdicts else 0)


def _with_control(ctx: click.Context) -> str:
    """The command as it was typed, with ``--control``."""
    return f"shardfix verify --control {shlex.join(ctx.meta.get(_ASKED, ()))}"


def _script(script: str) -> Sequence[str]:
    if script.startswith("-m"):
        words = shlex.split(script.removeprefix("-m"))
        if len(words) != 1:
            raise click.UsageError(f"--run {script!r}: name one module; its arguments follow --")
        return ("-m", words[0])
    if not os.path.isfile(script):
        raise click.UsageError(f"--run {script}: there is no such file; a module is run by --run '-m {script}'")
    if script.endswith((".sh", ".bash")):
        raise click.UsageError(f"--run {script}: this runs Python; name the script that it starts")
    return (script,)


def _interpreter(python: str | None) -> str:
    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise click.UsageError(f"--python {python}: there is no such program")
    return os.path.abspath(found)


def _show(rank: int, line: str) -> None:
    click.echo(f"[{rank}] {line}", err=True)


def _show_last(run: Run, lines: int = 8) -> None:
    """What the ranks said last that gave no better reason, on standard error."""
    unexplained = {ending.rank for ending in run.watched.endings if ending.end in ("signal", "exit", "hang")}
    for rank, text in sorted(run.output.items()):
        if text and (rank in unexplained or not run.watched.loaders):
            click.echo(f"--- rank {rank} printed last ---", err=True)
            click.echo("\n".join(text.splitlines()[-lines:]), err=True)
