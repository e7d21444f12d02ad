"""The options that commands share, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

Verify = Literal["auto", "yes", "no"]
_Command = TypeVar("_Command", bound=Callable[..., Any])


def paths(command: _Command) -> _Command:
    return click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATHS]...")(command)


def selection(command: _Command) -> _Command:
    """Which loaders, and which of their faults."""
    for option in (
        click.option(
            "--target",
            type=click.Choice(["auto", "accelerate", "ddp"]),
            help="What the program is to run under where the source does not show it.  [default: auto]",
        ),
        click.option(
            "--ignore",
            multiple=True,
            callback=_separated,
            metavar="CODES",
            help="Leave these out: codes (SHD201), beginnings (SHD2) or codemods, comma separated; repeatable.",
        ),
        click.option(
            "--select",
            multiple=True,
            callback=_separated,
            metavar="CODES",
            help="Only these: codes (SHD201), beginnings (SHD2) or codemods, comma separated; repeatable.",
        ),
    ):
        command = option(command)
    return command


def sanitizer(command: _Command) -> _Command:
    for option in (
        click.option(
            "--sanitizer-from",
            type=click.Choice(["vendor", "package"]),
            help="Bring the run-time check along as one file, or import it from shardfix.  [default: vendor]",
        ),
        click.option(
            "--sanitizer",
            type=click.Choice(["changed", "all", "off"]),
            help="Which loaders get the run-time check.  [default: changed]",
        ),
    ):
        command = option(command)
    return command


def proof(command: _Command) -> _Command:
    """How the proof is run."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(min=1),
            default=120.0,
            show_default=True,
            metavar="SECONDS",
            help="Time for the proof; loaders not reached by then are unproven.",
        ),
        click.option(
            "--nproc",
            type=click.IntRange(min=2),
            default=2,
            show_default=True,
            metavar="N",
            help="Processes to prove with (and one more, to show padding).",
        ),
        click.option(
            "--python",
            metavar="PATH",
            help="The project's own Python, so that the proof uses its torch and accelerate.",
        ),
    ):
        command = option(command)
    return command


def import_project(command: _Command) -> _Command:
    return click.option(
        "--import-project",
        is_flag=True,
        help="Let the proof import and run the project's own modules: samplers, batch samplers, helper functions. "
        "Without it nothing of the project is executed.",
    )(command)


def writing(command: _Command) -> _Command:
    """What may be written, and whether it must be proven first."""
    for option in (
        click.option("--allow-no-vcs", is_flag=True, help="Also write where no git repository could bring files back."),
        click.option("--allow-dirty", is_flag=True, help="Also write to files with uncommitted changes."),
        click.option(
            "--require-proof", is_flag=True, help="Write only what is proven; exit with 8 if something is not."
        ),
        click.option(
            "--verify/--no-verify",
            default=None,
            help="Prove in several processes, or do not.  [default: if torch is there]",
        ),
        click.option("--unsafe", is_flag=True, help="Also make changes that are right only if something unseen holds."),
    ):
        command = option(command)
    return command


def strict(command: _Command) -> _Command:
    return click.option("--strict", is_flag=True, help="Exit with 1 if a loader is refused.")(command)


@dataclass(frozen=True, slots=True)
class Why:
    """Which loaders' ways are to be shown: of the line of a file, of one more path, or of all that are scanned."""

    path: Path | None = None
    line: int | None = None


def why(command: _Command) -> _Command:
    return click.option(
        "--why",
        is_flag=False,
        flag_value="",
        callback=_place,
        metavar="[PATH:LINE]",
        help="Also show each loader's way from its construction to what reads it; of one loader by its line.",
    )(command)


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> Why | None:
    if not value:
        return None if value is None else Why()
    place = re.fullmatch(r"(.+?):([0-9]+)(:[0-9]+)?", value)  # a column may follow, as reports write it
    return Why(Path(place[1]), int(place[2])) if place else Why(Path(value))


def maps(command: _Command) -> _Command:
    return click.option(
        "--maps",
        type=click.Choice(["first", "all", "none"]),
        default="first",
        show_default=True,
        help="Which pictures of who reads what to draw.",
    )(command)


def svg(command: _Command) -> _Command:
    return click.option(
        "--svg",
        callback=_svg_file,
        metavar="FILE",
        help="Also draw who reads what of every loader that was run into one SVG file, light and dark.",
    )(command)


def checklist(command: _Command) -> _Command:
    return click.option(
        "--checklist/--no-checklist",
        default=None,
        help="Answer the checklist for each loader: its sampler, who splits, effective batch, eval counted once, "
        "sanitizer, set_epoch.  [default: for up to 10 loaders]",
    )(command)


def text_or_json(command: _Command) -> _Command:
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to report.",
    )(command)


def verify_word(verify: bool | None) -> Verify:
    return "auto" if verify is None else "yes" if verify else "no"


def _svg_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A file that may be written, known before the loaders are run; nothing but a picture is overwritten."""
    if value is None:
        return None
    path = Path(value)
    if path.suffix.lower() != ".svg" or path.is_dir():
        raise click.BadParameter(f"{value}: name a file that ends in .svg", ctx, param)
    if not path.parent.is_dir():
        raise click.BadParameter(f"{value}: there is no folder {path.parent}", ctx, param)
    return value


def _separated(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words of a repeatable, comma-separated option; None if it was not given."""
    if not values:
        return None
    words = tuple(word.strip() for value in values for word in value.split(",") if word.strip())
    if not words:
        raise click.BadParameter("names no code; leave the option out, or name one", ctx, param)
    return words
