"""The command line, one thin file a command; each is loaded only when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

import shardfix

_COMMANDS = ("scan", "migrate", "verify", "batch", "explain", "rules", "doctor")
_ERROR = 2
_INTERRUPTED = 130
_PIPE_CLOSED = 141  # what a shell shows for a program ended by SIGPIPE


class _Commands(click.Group):
    """A group that loads a command's module when it is asked for, and turns whatever ends a run into its exit code.

    click alone exits with 1 for an uncaught exception, for Ctrl-C and for a closed pipe; 1 means something else here.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"shardfix.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            import difflib

            meant = difflib.get_close_matches(name, _COMMANDS, n=1)
            way_out = f"did you mean {meant[0]!r}?" if meant else f"there are: {', '.join(_COMMANDS)}"
            ctx.fail(f"no command {name!r}; {way_out}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # before click sees it, which would exit with 1
            _drop_stdout()
            ctx.exit(_PIPE_CLOSED)
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")  # a file name must not end a run where the locale is C
        try:
            code = super().main(args, prog_name or "shardfix", complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (KeyboardInterrupt, click.exceptions.Abort):
            click.echo("shardfix: interrupted", err=True)
            code = _INTERRUPTED
        except Exception as error:
            _say(error)
            code = _ERROR
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(shardfix.__version__, "-V", "--version", prog_name="shardfix", message="%(prog)s %(version)s")
def main() -> None:
    """Rewrite PyTorch training code so that every process reads its own share of the data, and prove it.

    Exit: 0 done; 1 would change, or a fault stands; 2 an error; 4 refuted; 8 unproven. Bits add up.
    """


def _say(error: Exception) -> None:
    """An uncaught exception in a line; with SHARDFIX_DEBUG=1 its traceback."""
    if os.environ.get("SHARDFIX_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    from shardfix.report.errors import line_of

    click.echo(f"shardfix: error: {line_of(error)}", err=True)


def _drop_stdout() -> None:
    """Send what is still to be written nowhere, so that the interpreter's own flush at the exit is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
