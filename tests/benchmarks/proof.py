"""What a proof of many loaders costs in one launch, part by part. It reports and decides nothing.

Usage: python -m tests.benchmarks.proof [LOADERS] [ROUNDS]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from shardfix.proof.judging.judge import judge
from shardfix.proof.model import Observation, Program, Proof, Recipe, observation_from_json
from shardfix.proof.running.launch import Verifier

KINDS = (0, 1, 2, 3, 4)


def loaders(number: int, kinds: tuple[int, ...] = KINDS) -> list[Recipe]:
    """Recipes of which no two are alike, so that nothing is known from another one: five kinds, in turn."""
    return [recipe(n, kinds[n % len(kinds)]) for n in range(number)]


def recipe(n: int, kind: int) -> Recipe:
    batch = 2 + n % 7
    data = f"T = torch.utils.data\nD = DATASET('train{n}')\n"
    loader = f"loader = T.DataLoader(D, batch_size={batch}"
    ours = "s = T.distributed.DistributedSampler(D"
    kinds = (
        Program(f"{data}{ours}, seed={n})\n{loader}, sampler=s)", "s.set_epoch(epoch)"),
        Program(f"{data}{ours}, shuffle=False)\n{loader}, sampler=s)"),
        Program(f"{data}{ours}, drop_last=True)\n{loader}, sampler=s, drop_last=True)", f"s.set_epoch(epoch + {n})"),
        Program(f"{data}half = T.Subset(D, range(len(D)))\n{ours.replace('(D', '(half')})\n"
                f"loader = T.DataLoader(half, batch_size={batch}, sampler=s)", "s.set_epoch(epoch)"),
        Program(f"accelerator = Accelerator(cpu=True)\n{data}{loader}, shuffle=True)\n"
                "loader = accelerator.prepare(loader)"),
    )  # fmt: skip
    program = kinds[kind]
    prepared = "Accelerator" in program.build
    owner = "accelerate" if prepared else "ddp"
    return Recipe(f"loader {n}", owner, "train", "stands", None, program, needs_accelerate=prepared)


@dataclass(frozen=True)
class Launch:
    """One launch of an interpreter that is asked to prove one loader of each kind, then all of them.

    ``started`` is how long it takes until the first proofs are there (imports, forks, rendezvous), in seconds. The
    others are what each further loader takes: ``wall`` time, processor time of the worker and its ranks (``used``),
    and of the process that asks (``asking``: it writes recipes, reads and judges).
    """

    started: float
    wall: float
    used: float
    asking: float
    verdicts: Counter[str]


def launch(number: int, kinds: tuple[int, ...] = KINDS) -> Launch:
    few, many = loaders(len(kinds), kinds), loaders(number, kinds)
    begun = time.perf_counter()
    with Verifier(timeout=600) as verifier:
        verifier.prove(few)
        marks = [marked(verifier)]
        proofs: list[Proof] = []
        for recipes in (few, many):
            proofs = verifier.prove(recipes)
            marks.append(marked(verifier))
    of_few, of_all = (difference(*pair) for pair in pairwise(marks))
    wall, used, asking = ((b - a) / (number - len(few)) for a, b in zip(of_few, of_all, strict=True))
    return Launch(marks[0].wall - begun, wall, used, asking, Counter(proof.verdict for proof in proofs))


class Mark(NamedTuple):
    wall: float
    used: float
    asking: float


def marked(verifier: Verifier) -> Mark:
    return Mark(time.perf_counter(), used_by(verifier), time.process_time())


def difference(one: Mark, other: Mark) -> Mark:
    return Mark(*(b - a for a, b in zip(one, other, strict=True)))


def used_by(verifier: Verifier) -> float:
    """The processor time of the worker, and of its ranks that have ended, in seconds; 0 where /proc does not tell."""
    assert verifier._worker is not None
    try:
        text = Path(f"/proc/{verifier._worker.pid}/stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def imports() -> float:
    """The seconds that importing torch and accelerate takes in a fresh process that leaves at once."""
    code = "import torch, torch.distributed, accelerate, os; os._exit(0)"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def report(number: int, rounds: int) -> None:
    apart = {
        "all kinds, 4:1": KINDS,
        "with a DistributedSampler": KINDS[:4],
        "prepared by accelerate": KINDS[4:],
    }
    found: dict[str, list[Launch]] = {name: [] for name in apart}
    torch = []
    for _ in range(rounds):  # in turn, so that what else the machine does falls on all of them
        torch.append(imports())
        for name, kinds in apart.items():
            found[name].append(launch(number, kinds))
    middle = statistics.median
    mixed = found["all kinds, 4:1"]
    many = loaders(number)
    with Verifier(timeout=600) as verifier:
        observed = [seen for seen in verifier.observe(many) if not isinstance(seen, str)]
    runs = sum(len(o.ranks) for one in observed for o in one) / number
    judging = seconds(lambda: [judge(r, o) for r, o in zip(many, observed, strict=True)]) / number
    lines = [json.dumps([_as_sent(o) for o in one]) for one in observed]
    reading = seconds(lambda: [observation_from_json(o) for line in lines for o in json.loads(line)]) / number
    load = os.getloadavg()[0]
    print(f"{number} loaders in one launch, {os.cpu_count()} cores, load {load:.1f}: {dict(mixed[-1].verdicts)}")
    print(f"import torch and accelerate {middle(torch) * 1000:.0f} ms")
    started = (middle(one.started for one in mixed) - middle(torch)) * 1000
    print(f"the first {len(KINDS)} loaders {started:.0f} ms beside that")
    print("each further loader, in ms: wall (at best), processor time of worker and ranks, of who asks and judges")
    for name, launches in found.items():
        best = min(one.wall for one in launches) * 1000
        wall = middle(one.wall for one in launches) * 1000
        used = middle(one.used for one in launches) * 1000
        asking = middle(one.asking for one in launches) * 1000
        print(f"  {name:27} {wall:6.2f} ({best:.2f}) {used:7.2f} {asking:7.2f}")
    print(
        f"of who asks: {reading * 1000:.2f} to read the {runs:.0f} runs of a loader, {judging * 1000:.2f} to judge them"
    )


def _as_sent(observation: Observation) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(observation)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    report(*given, *(200, 3)[len(given) :])
