"""`shardfix explain`: what a code means, why, and when a loader is left alone."""

from __future__ import annotations

import sys

import click


@click.command("explain", short_help="Explain a code: what, why, before and after.")
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explain a code (SHD201), a cause that verify names (sharded-twice; causes: all), a codemod, or `comments`."""
    from shardfix.config import ConfigError, nearest
    from shardfix.proof.judging.causes import CAUSES
    from shardfix.report.catalogue import selectors
    from shardfix.report.explain import CAUSES_WORD, COMMENTS, explain_page
    from shardfix.report.terminal import emit, width_of

    page = explain_page(code, width=width_of(sys.stdout))
    if page is None:
        meant = nearest(code.replace("-", "_"), {*selectors(), COMMENTS, CAUSES_WORD, *CAUSES})
        way_out = f"did you mean {', '.join(meant)}? " if meant else ""
        raise ConfigError(f"no code or codemod {code!r}; {way_out}`shardfix rules` lists them")
    emit(page, sys.stdout)
