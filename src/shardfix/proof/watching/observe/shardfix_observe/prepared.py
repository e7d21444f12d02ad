"""Follow a loader into what accelerate, Fabric and Lightning make of it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .loaders import cut_length, watch_iteration
from .recorder import Recorder


def watch_accelerate(module: Any, recorder: Recorder) -> None:
    """In ``accelerate.data_loader``."""
    for name, how in (("prepare_data_loader", "accelerate"), ("skip_first_batches", "skip")):
        if hasattr(module, name):
            setattr(module, name, _deriving(getattr(module, name), how, recorder))
    for name in ("DataLoaderShard", "DataLoaderDispatcher", "SkipDataLoader"):
        wrapper = getattr(module, name, None)
        if wrapper is not None and "__iter__" in wrapper.__dict__:
            watch_iteration(wrapper, recorder, ends=True)
            cut_length(wrapper, recorder)


def watch_lightning(module: Any, recorder: Recorder) -> None:
    """In ``lightning.fabric.utilities.data``, which both Fabric and the Trainer make loaders anew with."""
    make = module._reinstantiate_wrapped_cls

    @functools.wraps(make)
    def made_anew(original: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.of(original) is None:
            return make(original, *args, **kwargs)
        with recorder.deriving(original, _which_lightning()):
            return make(original, *args, **kwargs)

    module._reinstantiate_wrapped_cls = made_anew


def _deriving(function: Any, how: str, recorder: Recorder) -> Any:
    @functools.wraps(function)
    def derived(dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.of(dataloader) is None:
            return function(dataloader, *args, **kwargs)
        with recorder.deriving(dataloader, how):
            return function(dataloader, *args, **kwargs)

    return derived


def _which_lightning() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(("lightning.pytorch.", "pytorch_lightning.")):
            return "lightning"
        frame = frame.f_back  # type: ignore[assignment]
    return "fabric"
