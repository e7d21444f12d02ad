"""What an interpreter must have to run ranks, and how one of its processes becomes one: it needs torch and no more."""

from __future__ import annotations

import os
import random
import sys
from datetime import timedelta
from typing import Any, Callable, Dict  # noqa: UP035 - Python 3.8 can't subscript the others

Emit = Callable[[Dict[str, Any]], None]  # noqa: UP006


def on_the_cpu() -> None:
    """Set the environment so that nothing looks for a GPU or another host."""
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", ACCELERATE_USE_CPU="true", TOKENIZERS_PARALLELISM="false"
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")


def ready(emit: Emit) -> bool:
    """Say what this interpreter has to run ranks with, and whether that is enough."""
    about = {"kind": "ready", "python": sys.executable, "torch": "", "error": ""}
    if not hasattr(os, "fork"):
        emit({**about, "error": f"{sys.platform} has no os.fork; the ranks are forked (Linux, macOS, WSL)"})
        return False
    try:
        import torch
        import torch.distributed
    except Exception as exception:
        emit({**about, "error": f"{sys.executable} can't import torch: {type(exception).__name__}: {exception}"})
        return False
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        emit({**about, "error": f"torch {torch.__version__} of {sys.executable} has no gloo backend"})
        return False
    emit({**about, "torch": str(torch.__version__)})
    return True


def become_rank(rank: int, world: int, grouped: bool, meeting: str) -> None:
    """Be a rank from now on, by environment and, if ``grouped``, by a gloo group that meets in the file ``meeting``."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
        os.environ.pop(name, None)
    if grouped:
        size = str(world)
        os.environ.update(RANK=str(rank), WORLD_SIZE=size, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=size)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")  # never connected to: the store is a file
        store = dist.FileStore(meeting, world)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=600))


def seed_everything(seed: int) -> None:
    random.seed(seed)
    sys.modules["torch"].default_generator.manual_seed(seed)  # torch.manual_seed asks every kind of device: 0.2 ms
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def forget_accelerators() -> None:
    """Each program makes its own Accelerator, with its own settings."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    AcceleratorState._reset_state()
    PartialState._reset_state()
    GradientState._reset_state()
