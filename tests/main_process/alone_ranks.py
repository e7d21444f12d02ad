"""Runs scripts as they were and as they are, in one process and on several gloo ranks.

Usage: python alone_ranks.py FOLDER SIZE [VARIANT WORLD]... Each FOLDER/NUMBER/VARIANT holds a program, train.py. What
rank R of W prints goes to FOLDER/NUMBER/VARIANT-W/R.out, and what it writes into that folder; R.failed holds the
traceback of a rank that does not come to its end. A rank that waits for ever is ended by gloo after a minute.
"""

import os
import runpy
import shutil
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # loaded lazily by torch otherwise, in each fork anew
import torch.distributed as dist


def run(folder: Path, world: int, rank: int) -> None:
    """Run the program of a folder as one rank."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # asked for by accelerate, used by nobody
    made = dist.init_process_group

    def init_process_group(*_: Any, **__: Any) -> None:
        store = dist.FileStore(str(folder / "store"), world)  # type: ignore[attr-defined]
        made("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))

    dist.init_process_group = init_process_group
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.argv = ["train.py"]
    sys.stdout, sys.stderr = open(f"{rank}.out", "w"), open(os.devnull, "w")  # noqa: SIM115 - this process ends soon
    try:
        runpy.run_path("train.py", run_name="__main__")
        if dist.is_initialized():
            dist.barrier()  # a rank that is out of step fails here
    except BaseException:
        Path(f"{rank}.failed").write_text(traceback.format_exc())
    sys.stdout.flush()


def main(top: Path, size: int, runs: list[tuple[str, int]]) -> None:
    os.environ["SIZE"] = str(size)
    for program in sorted(path for path in top.iterdir() if path.is_dir()):
        for variant, world in runs:
            folder = program / f"{variant}-{world}"
            shutil.copytree(program / variant, folder)
            ranks = []
            for rank in range(world):
                pid = os.fork()
                if pid == 0:
                    run(folder, world, rank)
                    os._exit(0)  # torch's own way out may hang in a forked rank
                ranks.append(pid)
            for pid in ranks:
                os.waitpid(pid, 0)


if __name__ == "__main__":
    pairs = iter(sys.argv[3:])
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        [(variant, int(world)) for variant, world in zip(pairs, pairs, strict=True)],
    )
