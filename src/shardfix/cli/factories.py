"""`shardfix verify --loader pkg.mod:fn`: call the user's own factory in several processes and judge its loaders."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from shardfix.report.text import Maps

_Command = TypeVar("_Command", bound=Callable[..., Any])
_REFUTED, _UNPROVEN = 4, 8


def options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--prepare",
            is_flag=True,
            help="With --loader: the program hands these loaders to accelerator.prepare() later.",
        ),
        click.option(
            "--set-epoch",
            metavar="WHO",
            default="auto",
            show_default=True,
            help="With --loader: `auto` tells each loader the epoch as a training loop does, `never`, or pkg.mod:fn, "
            "called with the factory's result and the epoch.",
        ),
        click.option(
            "--arg",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="With --loader: an argument of the functions; a Python or JSON literal, else a string; repeatable.",
        ),
        click.option(
            "--loader",
            "loaders",
            multiple=True,
            metavar="PKG.MOD:FN",
            help="Call this function, which returns one loader or several, in each process; repeatable.",
        ),
    ):
        command = option(command)
    return command


def verify(
    loaders: Sequence[str],
    arguments: Sequence[str],
    *,
    set_epoch: str,
    prepare: bool,
    python: str | None,
    nproc: int,
    timeout: float,
    maps: str,
    svg: str | None,
    checklist: bool | None,
    form: str,
) -> int:
    """Prove the loaders of the named factories and print the result; the exit code.

    Raises FactoryError for what is no factory or can't be called so, VerifierError where the ranks can't be started.
    """
    from shardfix.cli.output import draw_svg
    from shardfix.proof.running.factory import Asked, Call, prove_factories
    from shardfix.report.terminal import emit, width_of
    from shardfix.report.watched import watched_json, watched_page

    given = dict(_argument(text) for text in arguments)
    calls = [Call(_target(text, "--loader"), given) for text in loaders]
    how = {"auto": True, "never": False}.get(set_epoch)
    asked = Asked(
        nproc=nproc,
        set_epoch=_target(set_epoch, "--set-epoch") if how is None else how,
        owner="accelerate" if prepare else "",
        timeout=timeout,
        patience=max(3.0, min(20.0, timeout / 6)),
    )
    proofs = prove_factories(calls, asked, python=python)
    if form == "json":
        import json

        json.dump(watched_json(proofs), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        page = watched_page(proofs, maps=cast("Maps", maps), width=width_of(sys.stdout), checklist=checklist)
        emit(page, sys.stdout)
    if svg is not None:
        draw_svg(proofs, svg, sys.stderr if form == "json" else sys.stdout)
    verdicts = {proof.verdict for proof in proofs}
    return (_REFUTED if "refuted" in verdicts else 0) | (_UNPROVEN if "unproven" in verdicts else 0)


def _target(text: str, option: str) -> str:
    """A module and a name in it, ``pkg.mod:fn``; a path to a file is told how it is written."""
    from shardfix.proof.running.factory import FactoryError

    file = re.fullmatch(r"(?:\./)?(.+?)\.py(?::(.+))?", text)
    if file:
        meant = f"{file[1].strip('/').replace('/', '.')}:{file[2] or 'FUNCTION'}"
        raise FactoryError(f"{option} {text}: name the module as it is imported, {meant}")
    module, colon, name = text.partition(":")
    if colon and all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return text
    raise FactoryError(f"{option} {text}: it must be pkg.mod:function, as in data.loaders:train_loader")


def _argument(text: str) -> tuple[str, Any]:
    from shardfix.proof.running.factory import FactoryError

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise FactoryError(f"--arg {text}: it must be NAME=VALUE, as in --arg batch_size=8")
    import json

    for read in (ast.literal_eval, json.loads):
        try:
            found = read(value)
            json.dumps(found)  # it travels to the ranks so
            return name, found
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return name, value
