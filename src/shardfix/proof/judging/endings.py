"""Judge how a watched run ended: which rank stopped, at which loader, pass and step, and what made it stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardfix.proof.model import Proof, Verdict
from shardfix.proof.observed import Ending, Observed, Watched
from shardfix.wording import join, plural

# what a rank says that only lost its peer: gloo's and c10d's own words
_PEER_LOST = re.compile(
    r"Connection (closed|reset|refused)|[Tt]imed out waiting|gloo/transport|DistBackendError|DistNetworkError|"
    r"Broken pipe|wait timeout after|Watchdog caught"
)
_PEER_GONE = re.compile(r"Connection (closed|reset|refused)|Broken pipe")
OUT_OF_TIME = "the time was over"  # the last line of a rank that was stopped for that
_SIGNALS = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a whole run.

    ``cause`` is empty where every rank came to its end, else a code of ``causes.CAUSES`` (``hang``, ``died``,
    ``raises``, ``exits``, ``no-loader``, or the fault of the loader that made it stop). ``rank``, ``loader``,
    ``passes`` and ``step`` are those of the rank that stopped first; ``text`` is its own traceback, or the place where
    it stood.
    """

    verdict: Verdict
    cause: str = ""
    reasons: tuple[str, ...] = ()
    rank: int | None = None
    loader: str = ""
    passes: int = 0
    step: int = 0
    text: str = ""
    world: int = 0
    seconds: float = 0.0
    endings: tuple[Ending, ...] = ()


def came_to_its_end(endings: Sequence[Ending]) -> bool:
    """Whether every rank ended by itself and well, so that what it read is all that it reads."""
    return bool(endings) and all(ending.end == "returned" or is_clean_exit(ending) for ending in endings)


def judge_run(watched: Watched, proofs: Sequence[Proof] = ()) -> RunVerdict:
    """The verdict on how the run ended; ``proofs`` are those of its loaders, which may name the cause of a hang.

    Refuted: a rank died, raised alone, left early, or the ranks wait for one another. Unproven: every rank raises alike
    (then it is not the sharding), or no loader was made. Proven: every rank came to its end, or as far as was asked.
    """
    ordered = tuple(sorted(watched.endings, key=lambda ending: ending.rank))
    verdict = verdict_of(replace(watched, endings=ordered), proofs)
    return replace(verdict, world=watched.world, seconds=watched.seconds, endings=ordered)


def verdict_of(watched: Watched, proofs: Sequence[Proof]) -> RunVerdict:
    endings = watched.endings
    died = next((ending for ending in endings if ending.end == "signal"), None)
    if died is not None:
        return stopped(died, "died", f"rank {died.rank} was ended by {signal_name(died)}{where(died)}")
    raised = [ending for ending in endings if ending.end == "raised"]
    own = [ending for ending in raised if not lost_its_peer(ending)]
    if own:
        return of_raised(watched, own)
    left = [ending for ending in endings if ending.end == "exit" and not is_clean_exit(ending)]
    if left and len(left) == watched.world and len({ending.code for ending in left}) == 1:
        reason = f"every rank exits with code {left[0].code}{last_line(left[0].text, ': ')}"
        return at(left[0], "unproven", "exits", (reason,))
    if left:
        reason = f"rank {left[0].rank} exits with code {left[0].code}{where(left[0])}"
        return stopped(left[0], "exits", reason, others(endings, left[0]))
    cut = [ending for ending in endings if ending.end == "stopped"]
    late = next((ending for ending in cut if last_line(ending.text) == OUT_OF_TIME), None)
    # who lost a peer that was stopped from outside did not fail; who waited for it in vain did
    vain = [ending for ending in raised if not (cut and _PEER_GONE.search(last_line(ending.text)))]
    waiting = [ending for ending in endings if ending.end == "hang"] or vain
    if waiting:
        return of_waiting(watched, waiting, proofs)
    if late is not None:
        reason = f"the run was stopped because its time was over: rank {late.rank} was still running{where(late)}"
        return at(late, "unproven", "out-of-time", (reason,))
    if not watched.loaders:
        return RunVerdict("unproven", "no-loader", ("the program made no loader that could be watched",))
    if cut:
        return RunVerdict("proven", "", ("the run was stopped after what was asked for; no rank failed",))
    return RunVerdict("proven", "", ("every rank came to its end",))


def of_raised(watched: Watched, own: Sequence[Ending]) -> RunVerdict:
    """An exception of the program: of one rank it is a fault, of all alike it says nothing about sharding."""
    first = own[0]
    lines = {last_line(ending.text) for ending in own}
    if len(own) == watched.world and len(lines) == 1:
        reason = f"every rank raises {lines.pop()}{where(first)}"
        return at(first, "unproven", "raises", (reason,))
    reason = f"rank {first.rank} raises {last_line(first.text)}{where(first)}"
    return stopped(first, "raises", reason, others(watched.endings, first))


def of_waiting(watched: Watched, waiting: Sequence[Ending], proofs: Sequence[Proof]) -> RunVerdict:
    """Ranks that wait for one another: the loader of unequal steps, the rank that left, or where each stands."""
    first = waiting[0]
    stands = tuple(f"rank {ending.rank} {standing(ending)}" for ending in watched.endings)
    uneven = uneven_loader(watched, waiting, proofs)
    if uneven is not None:
        loader, why, rank = uneven
        ending = next((ending for ending in watched.endings if ending.rank == rank), first)
        found = at(ending, "refuted", "uneven", (f"hangs at {loader}: {why}", *stands))
        return replace(found, loader=loader)
    alone = read_by_some(watched, waiting)
    if alone is not None:
        return at(first, "refuted", "part-only", (alone, *stands))
    gone = [ending for ending in watched.endings if ending.end in ("returned", "exit")]
    if gone:
        place = last_line(gone[0].text, " by ")
        reason = f"rank {gone[0].rank} left the program{place} while {named(waiting)} still waits"
        return at(gone[0], "refuted", "exits", (reason, *stands))
    return at(first, "refuted", "hang", (f"hangs: {named(waiting)} wait{'s' * (len(waiting) == 1)} in vain", *stands))


def uneven_loader(watched: Watched, waiting: Sequence[Ending], proofs: Sequence[Proof]) -> tuple[str, str, int] | None:
    """The loader whose ranks make unequal steps: its name, the steps, the rank that has more of them.

    The loaders at which the waiting ranks stand come first; a rank that came to its pass's end has made all its steps.
    """
    stood = {ending.loader for ending in waiting}
    for observed in sorted(watched.loaders, key=lambda one: one.loader not in stood):
        found = unequal_steps(observed)
        if found:
            return (observed.loader, *found)
    for proof in proofs:
        if proof.cause == "uneven":
            return proof.site, proof.reasons[0], waiting[0].rank
    return None


def unequal_steps(observed: Observed) -> tuple[str, int] | None:
    readers = [reader for reader in observed.readers if reader.passes]
    if len(readers) < 2:
        return None
    for number in range(min(len(reader.passes) for reader in readers)):
        steps = {reader.rank: len(reader.passes[number].batches) for reader in readers}
        ended = {reader.rank: steps[reader.rank] for reader in readers if reader.passes[number].complete}
        if not ended:
            continue
        fewest = min(ended, key=lambda rank: ended[rank])
        most = max(steps, key=lambda rank: steps[rank])
        if steps[most] > ended[fewest]:
            text = f"rank {fewest} has {plural(ended[fewest], 'step')}, rank {most} makes {steps[most]}"
            return f"{text}{f' in pass {number}' if number else ''}", most
    return None


def read_by_some(watched: Watched, waiting: Sequence[Ending]) -> str | None:
    """A sharded loader at which a rank waits and that other ranks never began: its sharding is a collective."""
    for ending in waiting:
        observed = next((one for one in watched.loaders if one.loader == ending.loader), None)
        if observed is None:
            continue
        began = {reader.rank for reader in observed.readers if reader.passes} | {
            other.rank for other in waiting if other.loader == ending.loader
        }
        sharded = any(reader.built.sharder.startswith("accelerate") for reader in observed.readers)
        if sharded and len(began) < watched.world:
            who = join([f"rank {rank}" for rank in sorted(began)])
            return f"hangs at {observed.loader}: {who} alone reads a prepared loader, which waits for all ranks"
    return None


# --- in words ---


def lost_its_peer(ending: Ending) -> bool:
    return bool(_PEER_LOST.search(last_line(ending.text)))


def is_clean_exit(ending: Ending) -> bool:
    return ending.end == "exit" and ending.code == 0


def stopped(ending: Ending, cause: str, *reasons: str | tuple[str, ...]) -> RunVerdict:
    flat = tuple(text for reason in reasons for text in ((reason,) if isinstance(reason, str) else reason))
    return at(ending, "refuted", cause, flat)


def at(ending: Ending, verdict: Verdict, cause: str, reasons: tuple[str, ...]) -> RunVerdict:
    return RunVerdict(
        verdict,
        cause,
        reasons,
        rank=ending.rank,
        loader=ending.loader,
        passes=ending.passes,
        step=ending.step,
        text=ending.text,
    )


def others(endings: Sequence[Ending], but: Ending) -> tuple[str, ...]:
    return tuple(f"rank {ending.rank} {standing(ending)}" for ending in endings if ending is not but)


def standing(ending: Ending) -> str:
    """What became of a rank, in words."""
    if ending.end == "returned" or is_clean_exit(ending):
        return "came to its end"
    if ending.end == "raised" and lost_its_peer(ending):
        return f"lost its peer{where(ending)}"
    if ending.end == "raised":
        return f"raises {last_line(ending.text)}{where(ending)}"
    if ending.end == "signal":
        return f"was ended by {signal_name(ending)}{where(ending)}"
    if ending.end == "exit":
        return f"exits with code {ending.code}{where(ending)}"
    if ending.end == "hang":
        return f"waits{where(ending)}{last_line(ending.text, ': ')}"
    return f"was stopped{where(ending)}"


def where(ending: Ending) -> str:
    """`` (at train.py:41, pass 0, step 3)``; empty before it read any loader."""
    if not ending.loader:
        return ""
    return f" (at {ending.loader}, pass {ending.passes}, step {ending.step})"


def signal_name(ending: Ending) -> str:
    number = abs(ending.code)
    return _SIGNALS.get(number, f"signal {number}")


def last_line(text: str, before: str = "") -> str:
    lines = text.strip().splitlines()
    return f"{before}{lines[-1].strip()}" if lines else ""


def named(endings: Sequence[Ending]) -> str:
    return join([f"rank {ending.rank}" for ending in endings])


def run_to_json(verdict: RunVerdict) -> dict[str, Any]:
    return asdict(verdict)
