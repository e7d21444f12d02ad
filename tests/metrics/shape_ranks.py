"""Runs every shape's program before and after its migration, in one process and on several gloo ranks.

Usage: python shape_ranks.py FOLDER. FOLDER/NUMBER/before and FOLDER/NUMBER/after hold the programs, as train.py; the
results go to FOLDER/WORLD-RANK.pickle, WORLD 0 being one process without a group.
"""

import importlib
import os
import pickle
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # loaded lazily by torch otherwise, in each fork anew
import torch.distributed as dist
from torch.utils.data import Dataset

WORLDS = (0, 1, 2, 3)
# (samples, batch size): full batches on 2 and 3 ranks, one more, one less, a last batch that is halved on some rank.
CASES = ((24, 4), (24, 2), (13, 3), (25, 4), (23, 4), (7, 2))
MINE = ("train", "shardfix_evaluation", "shardfix_sanitizer")


def plain(value: Any) -> Any:
    """A value in types that can be compared and need no module of the program's own."""
    if isinstance(value, torch.Tensor) or type(value).__module__ == "numpy":
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def run(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """What the program's `evaluate` returns in each case, and the samples that it read."""
    for name in MINE:
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    results: dict[tuple[int, int], dict[str, Any]] = {}
    try:
        program = importlib.import_module("train")
        read = recorded(program)
        error = ""
        for size, batch_size in CASES:
            read.clear()
            value = None
            if not error:  # else the ranks may be out of step
                try:
                    value = plain(program.evaluate(size, batch_size))
                except Exception:
                    error = traceback.format_exc()
            results[size, batch_size] = {"value": value, "read": list(read), "error": error}
    finally:
        sys.path.remove(str(folder))
    return results


def recorded(program: Any) -> list[int]:
    """The index of every sample that the program's datasets give from now on."""
    read: list[int] = []
    for kind in [value for value in vars(program).values() if isinstance(value, type) and issubclass(value, Dataset)]:
        if "__getitem__" not in vars(kind):
            continue

        def give(self: Any, index: int, inner: Any = kind.__getitem__) -> Any:
            read.append(int(index))
            return inner(self, index)

        kind.__getitem__ = give  # type: ignore[method-assign]
    return read


def main(folder: Path, world: int, rank: int) -> None:
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what the programs print is nothing to us
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", world)):
        if world:
            os.environ[name] = str(value)
    if world:
        store = dist.FileStore(str(folder / f"store-{world}"), world)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    results: dict[tuple[str, str], dict[tuple[int, int], dict[str, Any]]] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        for variant in ("before", "after") if world < 3 else ("after",):
            results[path.name, variant] = run(path / variant)
            if world > 1 and any(case["error"] for case in results[path.name, variant].values()):
                break  # the ranks may be out of step
        else:
            continue
        break
    (folder / f"{world}-{rank}.pickle").write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    for world in WORLDS:
        ranks = []
        for rank in range(max(world, 1)):
            pid = os.fork()
            if pid == 0:
                try:
                    main(Path(sys.argv[1]), world, rank)
                except BaseException:
                    traceback.print_exc()
                    sys.stderr.flush()
                    os._exit(1)
                os._exit(0)  # torch's own way out may hang in a forked rank
            ranks.append(pid)
        ended = [os.waitpid(pid, 0)[1] for pid in ranks]
        if any(ended):
            sys.exit(f"a rank of {world} failed")
