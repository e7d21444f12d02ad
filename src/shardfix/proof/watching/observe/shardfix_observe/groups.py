"""Put process groups on gloo and let their ranks meet in a file, so that any program runs on a CPU, many at a time."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import urllib.parse
from collections.abc import Callable
from typing import Any

from .hooks import After
from .places import user_place
from .recorder import Recorder


def hooks(recorder: Recorder) -> dict[str, After]:
    return {
        "torch.distributed.distributed_c10d": lambda module: change_groups(module, recorder),
        "torch.distributed.device_mesh": lambda module: watch_meshes(module, recorder),
        "torch.multiprocessing.spawn": lambda module: watch_spawn(module, recorder),
    }


def change_groups(module: Any, recorder: Recorder) -> None:
    """In ``torch.distributed.distributed_c10d``."""
    init, new = module.init_process_group, module.new_group
    barrier = module.barrier
    signature = inspect.signature(init)
    new_signature = inspect.signature(new)

    @functools.wraps(init)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        given["backend"] = "gloo"
        given.pop("pg_options", None)
        given.pop("device_id", None)
        if given.get("store") is None:
            _meet_in_file(given, recorder)
        result = init(**given)
        recorder.is_rank(module.get_rank(), module.get_world_size())
        return result

    @functools.wraps(new)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        given = dict(new_signature.bind(*args, **kwargs).arguments)
        if given.get("backend") not in (None, "gloo"):
            given["backend"] = "gloo"
        given.pop("pg_options", None)
        given.pop("device_id", None)
        return new(**given)

    @functools.wraps(barrier)
    def barrier_(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return barrier(group, async_op)

    module.init_process_group = init_process_group
    module.new_group = new_group
    module.barrier = barrier_
    for name, result in (("all_reduce", 0), ("reduce", 0), ("reduce_scatter_tensor", 0)):
        _average(module, name, result)


def _average(module: Any, name: str, result: int) -> None:
    """gloo adds up but does not average."""
    reduce = getattr(module, name)
    signature = inspect.signature(reduce)

    @functools.wraps(reduce)
    def reduce_(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if given.get("op") != module.ReduceOp.AVG:
            return reduce(*args, **kwargs)
        given = {**given, "op": module.ReduceOp.SUM, "async_op": False}
        reduce(**given)
        list(given.values())[result].div_(module.get_world_size(given.get("group")))
        return None

    setattr(module, name, reduce_)


def _meet_in_file(given: dict[str, Any], recorder: Recorder) -> None:
    """Replace the rendezvous at an address by a file in the run's own folder, if this rank knows its number."""
    method = given.get("init_method") or "env://"
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(method).query))
    rank, world = given.get("rank", -1), given.get("world_size", -1)
    rank = int(query.get("rank", os.environ.get("RANK", -1))) if rank is None or rank < 0 else rank
    world = int(query.get("world_size", os.environ.get("WORLD_SIZE", -1))) if world is None or world < 0 else world
    if rank < 0 or world < 1:
        return
    path = _next_meeting(recorder.options.folder, rank, world)
    store = sys.modules["torch.distributed"].FileStore(path, world)
    given.pop("init_method", None)
    given.update(store=store, rank=rank, world_size=world)


def _next_meeting(folder: str, rank: int, world: int) -> str:
    """The file of the group that this rank joins next: its first, its second, in whichever process it lives."""
    number = 0
    while True:
        path = os.path.join(folder, f"group-{world}-{number}")
        try:
            os.close(os.open(f"{path}.{rank}", os.O_CREAT | os.O_EXCL))
            return path
        except FileExistsError:
            number += 1


def watch_meshes(module: Any, recorder: Recorder) -> None:
    """In ``torch.distributed.device_mesh``: which ranks share a model, and so their data."""
    make = module.init_device_mesh

    @functools.wraps(make)
    def init_device_mesh(device_type: str, mesh_shape: Any, *args: Any, **kwargs: Any) -> Any:
        names = kwargs.get("mesh_dim_names", args[0] if args else None) or ()
        recorder.emit("mesh", names=list(names), shape=list(mesh_shape))
        return make("cpu" if recorder.options.cuda else device_type, mesh_shape, *args, **kwargs)

    module.init_device_mesh = init_device_mesh


def watch_spawn(module: Any, recorder: Recorder) -> None:
    """Say that the program starts ranks of its own."""
    start: Callable[..., Any] = module.spawn

    @functools.wraps(start)
    def spawn(*args: Any, **kwargs: Any) -> Any:
        place = user_place()
        recorder.emit("spawns", path=place.path, line=place.line)
        return start(*args, **kwargs)

    module.spawn = spawn
