"""Runs `evaluate(size)` of a program in one process and in two and three gloo ranks under Accelerate.

Usage: python gathered_ranks.py FOLDER (with train.py in it; what each rank gave is written there as WORLD-RANK.json)
"""

import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # loaded lazily by torch otherwise, in each fork anew
import torch.distributed as dist

SIZES = (24, 13, 7, 25)


def main(folder: Path, world: int, rank: int) -> None:
    torch.set_num_threads(1)
    os.environ["ACCELERATE_USE_CPU"] = "true"
    if world > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1")  # asked for, and not used: the group is there
        store = dist.FileStore(str(folder / f"store-{world}"), world)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    sys.path.insert(0, str(folder))
    import train  # type: ignore[import-not-found]

    given = {str(size): train.evaluate(size) for size in SIZES}
    (folder / f"{world}-{rank}.json").write_text(json.dumps(given))


if __name__ == "__main__":
    for world in (1, 2, 3):
        ranks = []
        for rank in range(world):
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
        if any(os.waitpid(pid, 0)[1] for pid in ranks):
            sys.exit(f"a rank of {world} failed")
