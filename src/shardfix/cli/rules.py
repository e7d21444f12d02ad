"""`shardfix rules`: every code in a table."""

from __future__ import annotations

import sys

import click


@click.command("rules", short_help="List every code.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to list them.",
)
def command(form: str) -> None:
    """List every code: what is found, by which codemod, in which tier; and the reasons to leave a loader alone."""
    from shardfix.report.explain import rules_json, rules_markdown, rules_page
    from shardfix.report.terminal import emit

    if form == "json":
        import json

        json.dump(rules_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif form == "markdown":
        sys.stdout.write(rules_markdown())
    else:
        emit(rules_page(), sys.stdout)
