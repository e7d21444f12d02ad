"""What a proof of many loaders costs in one launch, part by part. It reports and decides nothing.

Usage: python -m tests.benchmarks.proof [LOADERS] [ROUNDS]
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from shardfix.proof.judging.judge import judge
from shardfix.proof.model import Observation, Program, Recipe, observation_from_json
from shardfix.proof.running.launch import Verifier

FEW = 1


def loaders(number: int, kinds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> list[Recipe]:
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


def launch(recipes: list[Recipe]) -> tuple[float, float, list[Any]]:
    """The seconds until all is proven, those of the worker's processes, and the observations as they come."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with Verifier(timeout=600) as verifier:
        seen = verifier.observe(recipes)
        wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, seen


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
    many = loaders(number)
    first, wall, used, torch = [], [], [], []
    seen: list[Any] = []
    for _ in range(rounds):  # in turn, so that what else the machine does falls on all of them
        torch.append(imports())
        few = launch(many[:FEW])
        whole = launch(many)
        first.append(few[0])
        wall.append((whole[0] - few[0]) / (number - FEW))
        used.append((whole[1] - few[1]) / (number - FEW))
        seen = whole[2]
    middle = statistics.median
    alone = {name: loaders(number, kinds) for name, kinds in (("DistributedSampler", (0, 1, 2, 3)), ("prepared", (4,)))}
    apart = {name: (launch(all_of)[0] - middle(first)) / (number - FEW) for name, all_of in alone.items()}
    observed: list[list[Observation]] = [o for o in seen if not isinstance(o, str)]
    runs = sum(len(o.ranks) for one in observed for o in one) / number
    judging = seconds(lambda: [judge(r, o) for r, o in zip(many, observed, strict=True)]) / number
    lines = [json.dumps([_as_sent(o) for o in one]) for one in observed]
    reading = seconds(lambda: [observation_from_json(o) for line in lines for o in json.loads(line)]) / number
    verdicts = Counter(judge(r, o).verdict for r, o in zip(many, observed, strict=True))
    print(f"{number} loaders in one launch, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: {dict(verdicts)}")
    print(f"import torch and accelerate          {middle(torch) * 1000:7.0f} ms")
    print(f"fork, rendezvous and {FEW} loader        {(middle(first) - middle(torch)) * 1000:7.0f} ms beside that")
    print(f"each further loader                  {middle(wall) * 1000:7.2f} ms, {min(wall) * 1000:.2f} at best")
    for name, each in apart.items():
        print(f"  if all are {name:25} {each * 1000:7.2f} ms")
    print(f"  in all ranks together              {middle(used) * 1000:7.2f} ms of processor time, {runs:.0f} runs")
    print(f"  its observations read from JSON    {reading * 1000:7.2f} ms of processor time")
    print(f"  judged                             {judging * 1000:7.2f} ms of processor time")


def _as_sent(observation: Observation) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(observation)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    report(*given, *(200, 3)[len(given) :])
