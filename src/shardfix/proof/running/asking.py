"""Which runs the judge wants of a recipe: pure, each round of them asked for at once."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import Any, NamedTuple

PROBE = 24  # a multiple of W*B for the commonest small batch sizes
EPOCHS = 3  # at the size that is a multiple of ranks times batch size: a schedule of two epochs shows in the third
FEWER = 2  # at the other sizes, which are for padding and for steps: what a pass leaves behind shows in the next one
LARGEST = 1 << 13  # a pass over more samples would take seconds


class Ask(NamedTuple):
    """One run of a variant of a recipe; ``unknown`` are its booleans and what they are taken to be.

    A ``probe`` is there to tell the batch size, and is read only if its size is one that tells right from wrong.
    """

    variant: str
    world: int
    grouped: bool
    size: int
    unknown: tuple[tuple[str, bool], ...] = ()
    epochs: int = EPOCHS
    probe: bool = False


def observe(
    recipe: dict[str, Any], nproc: int
) -> Generator[list[Ask], dict[Ask, dict[str, Any]], list[dict[str, Any]]]:
    """The runs that the judge wants of one recipe, each round of them asked for at once; the observations they make."""
    variants = [v for v in ("before", "after") if recipe[v] is not None]
    worlds = recipe["worlds"] or ([nproc, nproc + 1] if recipe["owner"] != "single" else [])
    places = [(world, True) for world in worlds] or [(1, False)]
    rows = [tuple(row.items()) for row in assignments(list(recipe["unknown"]))]
    probed = yield [Ask(v, *places[0], PROBE, row, probe=True) for row in rows for v in reversed(variants)]
    seen = {ask._replace(probe=False): result for ask, result in probed.items() if result["read"]}
    # the project's own code may keep anything from one pass to the next; and an order that is to be seen to repeat is
    # looked for at every size
    fewer = FEWER if recipe["imports"] is None and recipe["expect"] != "frozen-epoch" else EPOCHS

    # in more ranks a batch is mostly as large: what is asked at once is asked again only where it is not
    batches: dict[Any, int | None] = {}
    for row in rows:
        told = [probed[Ask(v, *places[0], PROBE, row, probe=True)] for v in reversed(variants)]
        batches.update(dict.fromkeys(((row, place) for place in places), batch_of(told)))
    for _ in range(2):
        sizes = {(row, place): sizes_for(batches[row, place], place[0]) for row in rows for place in places}
        for row, place in sizes:
            if place != places[0]:
                sizes[row, place] = sizes[row, place][1:2]  # more ranks are for the padding: the ragged size
        shared: dict[Any, list[list[Ask]]] = {where: [] for where in sizes}
        alone: dict[Any, list[list[Ask]]] = {}
        # with data-parallel groups, the ranks of one model are what one process is
        single = (worlds[0] // 2, True) if recipe["worlds"] else (1, False)
        for row in rows:
            even = sizes[row, places[0]][0]
            every = {
                size: EPOCHS if size == even else fewer for place in places for size in sizes[row, place]
            }  # as often in one process as in several
            for place in places if worlds else ():
                shared[row, place] = [
                    [Ask(v, *place, size, row, every[size]) for v in variants] for size in sizes[row, place]
                ]
            alone[row] = [[Ask(v, single[0], single[1], size, row, every[size]) for v in variants] for size in every]
        pairs = [pair for row in rows for place in places for pair in (*shared[row, place], *alone[row])]
        # one program after the other, so that it is sent once for all its sizes
        wanted = [pair[n] for n in range(len(variants)) for pair in pairs if pair[n] not in seen]
        seen.update((yield list(dict.fromkeys(wanted))))
        found = {where: batch_of([seen[ask] for ask in reversed(pairs[0])]) for where, pairs in shared.items() if pairs}
        if all(size in (None, batches[where]) for where, size in found.items()) or not wanted:
            break
        batches.update({where: size for where, size in found.items() if size})
    again: list[Ask] = []
    for pair in (pair for row in rows for pair in alone[row]):
        failed = [any(r["error"] or r["stopped"] for r in seen[ask]["ranks"]) for ask in pair]
        if (all(failed) or (any(failed) and recipe["group"] == "always")) and not recipe["worlds"]:
            again += [ask._replace(grouped=True) for ask in pair]
    seen.update((yield again))
    order: list[Ask] = []
    for row in rows:
        order += [ask for place in places for pair in shared[row, place] for ask in pair]
        for pair in alone[row]:
            order += pair
            order += [inside for ask in pair if (inside := ask._replace(grouped=True)) in again]
    return [
        {
            "variant": ask.variant,
            "world": ask.world,
            "grouped": ask.grouped,
            "size": ask.size,
            "unknown": list(ask.unknown),
            "ranks": seen[ask]["ranks"],
            "declared": seen[ask]["declared"],
        }
        for ask in order
    ]


def batch_of(results: list[dict[str, Any]]) -> int | None:
    """The batch size of the first of several loaders that has one."""
    return next((size for result in results if (size := result["declared"]["batch_size"])), None)


def sizes_for(batch_size: int | None, world: int) -> list[int]:
    """Dataset sizes that tell right from wrong: a multiple of W*B with eight draws a rank, a ragged one, one below W.

    The ragged one leaves one rank a batch more than another wherever shares are not padded.
    """
    batch = batch_size or 1
    full = world * batch
    even = full * max(2, -(-8 // batch))
    if PROBE % full == 0 and PROBE // world >= 8:
        even = PROBE
    elif even > LARGEST:
        even = full if full <= LARGEST else LARGEST // 2
    if world == 1:
        return [even, even + 1]
    candidates = [n for n in range(even + 1, even + min(full, LARGEST) + world + 1) if n % world]
    telling = [n for n in candidates if -(-n // world) % batch == 1]
    return [even, (telling or candidates)[0], world - 1]


def assignments(names: list[str]) -> list[dict[str, bool]]:
    """Every way to set the unknown booleans; beyond four names, all equal or all but one."""
    if len(names) <= 4:
        rows = itertools.product((False, True), repeat=len(names))
        return [dict(zip(names, row)) for row in rows]  # noqa: B905 - Python 3.8 has no strict=
    odd_ones = [{n: (n == odd) is value for n in names} for odd in names for value in (True, False)]
    return [dict.fromkeys(names, False), dict.fromkeys(names, True), *odd_ones]
