"""What the run-time check costs: in the training loop, as a call, and as an import. It reports and decides nothing.

Usage: python tests/benchmarks/sanitizer.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SAMPLES, BATCH = 20_000, 32
ROOT = Path(__file__).parents[2]


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_the_loop(rounds: int) -> None:
    """An epoch over a loader that was checked and over one that was not, in turn, in one process."""
    import torch
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    from shardfix.sanitizer import sanitize

    data = TensorDataset(torch.arange(SAMPLES, dtype=torch.float32))

    def made() -> DataLoader[Any]:
        return DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, num_replicas=2, rank=0))

    plain, checked = made(), sanitize(made(), owner="ddp", num_replicas=2, rank=0)
    total = torch.zeros(())

    def epoch(loader: DataLoader[Any]) -> None:
        for (batch,) in loader:
            total.add_(batch.sum())

    epoch(plain), epoch(checked)  # type: ignore[func-returns-value]
    ratios = []
    for turn in range(rounds):
        pair = [plain, checked] if turn % 2 else [checked, plain]  # neither always comes first
        took = {id(loader): seconds(lambda loader=loader: epoch(loader)) for loader in pair}  # type: ignore[misc]
        ratios.append(took[id(checked)] / took[id(plain)])
    low, middle, high = statistics.quantiles(ratios, n=4)
    batches = SAMPLES // 2 // BATCH
    print(f"loop of {batches} batches, checked / not checked: {middle:.3f} (quartiles {low:.3f} to {high:.3f})")
    print(f"the checked loader is the loader itself: {sanitize(plain, owner='ddp', num_replicas=2, rank=0) is plain}")

    calls = 2000
    for name, given, options in (
        ("two processes", made(), {"owner": "ddp", "num_replicas": 2, "rank": 0}),
        ("accelerate", DataLoader(data, batch_size=BATCH, shuffle=True), {"owner": "accelerate", "num_replicas": 2}),
        ("one process", made(), {"owner": "ddp"}),
    ):
        took = [seconds(lambda g=given, o=options: sanitize(g, **o)) for _ in range(calls)]  # type: ignore[misc]
        print(f"one call, {name}: {1e6 * statistics.median(took):.0f} us")


def imports(rounds: int) -> None:
    """Milliseconds that an import takes beside an interpreter that imports nothing, in turn."""
    here = ROOT / "src" / "shardfix" / "sanitizer.py"
    vendored = (
        f"import importlib.util as u; s = u.spec_from_file_location('v', {str(here)!r}); m = u.module_from_spec(s); "
    )
    vendored += "__import__('sys').modules['v'] = m; s.loader.exec_module(m)"
    after = f"import time, torch; t = time.perf_counter(); {vendored}; print(1e3 * (time.perf_counter() - t))"
    loaded = [subprocess.run([sys.executable, "-c", after], capture_output=True, check=True) for _ in range(3)]
    print(f"import, the vendored file once torch is loaded: {min(float(one.stdout) for one in loaded):.1f} ms")
    programs = {
        "nothing": "pass",
        "import shardfix": "import shardfix",
        "the vendored file": vendored,
        "import torch": "import torch",
    }
    took: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, code in programs.items():
            if name == "import torch" and turn > 2:
                continue
            one = seconds(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))  # type: ignore[misc]
            if turn:  # the first fills the caches
                took[name].append(one)
    base = statistics.median(took["nothing"])
    for name in programs:
        print(f"import, {name}: {1e3 * (statistics.median(took[name]) - (base if name != 'nothing' else 0)):.1f} ms")


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    in_the_loop(asked)
    imports(asked)
