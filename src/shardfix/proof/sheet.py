"""Draw many loaders as one SVG picture that stands alone: no script, no font, light and dark, said in words too."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape

from .model import Proof
from .svg import PAD, WIDTH, Picture, draw_card, text, xml_text

BETWEEN = 16  # of two cards
HEAD = 44  # the line above several

_STYLE = """\
{id} {{ color-scheme: light dark; --fine: #1a7f4b; --open: #a15c07; }}
{id} {{ --paper: #ffffff; --ink: #1f2430; --soft: #667085; --rule: #e4e7ec; --hole: #f2f4f7; }}
{id} {{ --bad: #c81e3a; --good: #98a2b3; }}
@media (prefers-color-scheme: dark) {{
{id} {{ --paper: #14171f; --ink: #e6e9ef; --soft: #98a2b3; --rule: #2b3040; --hole: #1e2330; }}
{id} {{ --bad: #ff6b81; --good: #667085; --fine: #4cc38a; --open: #e0a243; }}
}}
{id} text {{ font-family: ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif; font-size: 13px; }}
{id} text {{ fill: var(--ink); }}
{id} .title {{ font-size: 17px; font-weight: 650; }}
{id} .head {{ font-weight: 600; }}
{id} .soft {{ fill: var(--soft); font-size: 12px; }}
{id} .number {{ font-size: 9px; fill: #ffffff; text-anchor: middle; }}
{id} .tick {{ font-size: 10px; fill: var(--soft); text-anchor: middle; }}
{id} .bad, {id} .refuted {{ fill: var(--bad); }}
{id} .proven {{ fill: var(--fine); }}
{id} .unproven {{ fill: var(--open); }}
{id} .on-light {{ fill: #1f2430; }}
{id} .paper {{ fill: var(--paper); stroke: var(--rule); }}
{id} .hole {{ fill: var(--hole); }}
{id} .ring {{ fill: none; stroke: var(--bad); stroke-width: 2; }}
{id} .never {{ fill: url({id}-stripes); stroke: var(--bad); stroke-width: 1; }}
{id} .extra {{ fill: var(--bad); }}
{id} .once {{ fill: var(--good); }}
{id} .padding {{ fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 3 2; }}
{id} .stripe {{ stroke: var(--bad); stroke-width: 2; }}
"""


def sheet_svg(pictures: Sequence[Picture]) -> str:
    """Loaders one below the other.

    Args:
        pictures: those without any map are left out; every text is escaped.

    Returns:
        An ``<svg>`` element with a title, a description and a legend for each; empty where there is no map at all.
    """
    drawn = [picture for picture in pictures if picture.before is not None or picture.after is not None]
    if not drawn:
        return ""
    title = drawn[0].title if len(drawn) == 1 else heading(drawn)
    mark = f"shards-{hashlib.sha256(repr(drawn).encode('utf-8', 'backslashreplace')).hexdigest()[:10]}"
    parts: list[str] = []
    says: list[str] = []
    y = 0.0
    if len(drawn) > 1:
        parts.append(text(PAD, 28, title, "title"))
        y = HEAD
    for picture in drawn:
        card = draw_card(picture, y)
        parts += card.parts
        says.append(f"{picture.title}: {card.says}" if len(drawn) > 1 else card.says)
        y = card.end + BETWEEN
    total = round(y - BETWEEN)
    # where a stripe pattern is named, its id has no '#'
    style = "\n".join(line.replace("{id}-stripes", f"#{mark}-stripes") for line in _STYLE.splitlines())
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" id="{mark}" viewBox="0 0 {WIDTH} {total}" width="{WIDTH}" '
            f'height="{total}" role="img" aria-labelledby="{mark}-title {mark}-says">',
            f'<title id="{mark}-title">{escape(xml_text(title))}</title>',
            f'<desc id="{mark}-says">{escape(xml_text(". ".join(says)))}</desc>',
            f"<style>\n{style.format(id='#' + mark)}\n</style>",
            f'<defs><pattern id="{mark}-stripes" width="5" height="5" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><path class="stripe" d="M0 0V5"/></pattern></defs>',
            *parts,
            "</svg>",
        )
    )


def heading(pictures: Sequence[Picture]) -> str:
    """How many loaders there are, and what became of them."""
    counts = Counter(picture.verdict.partition(":")[0] for picture in pictures)
    told = [f"{counts[word]} {word}" for word in ("proven", "refuted", "unproven") if counts[word]]
    return f"{len(pictures)} loaders" + (f": {', '.join(told)}" if told else "")


def pictures_of(proofs: Sequence[Proof]) -> list[Picture]:
    """The loaders of which something was seen, each with its verdict, its cause and the first reason."""
    return [
        Picture(
            proof.site,
            proof.map_before,
            proof.map_after,
            proof.verdict + (f": {proof.cause}" if proof.cause else ""),
            (*proof.told[:1], *proof.reasons[:1]),
        )
        for proof in proofs
        if proof.map_before is not None or proof.map_after is not None
    ]
