"""Watch the loaders of this process: ``install(Options(folder))`` before or after torch is imported.

It needs torch only and never imports it: each module is watched once the program imports it. Every process writes a
file of JSON lines to the folder as things happen, so a process that is killed leaves what it did;
``shardfix.proof.watching.records`` reads them. Processes that Python starts anew (``spawn``, ``forkserver``) watch too
if the folder of ``sitecustomize.py`` is on their PYTHONPATH and ``SHARDFIX_OBSERVE`` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import groups, hooks, life, loaders, prepared
from .options import Options, from_environment
from .recorder import Event, Recorder

__all__ = ["Options", "Recorder", "install", "install_from_environment"]


def install(options: Options, write: Callable[[Event], None] | None = None) -> Recorder:
    """Watch every loader of this process from now on; returns what remembers them.

    Args:
        options: where to write, and what to change for the program (nothing but process groups by default).
        write: takes each event instead of the folder.
    """
    recorder = Recorder(options, write)

    def watch_dataloader(module: Any) -> None:
        loaders.install(recorder)

    after: dict[str, hooks.After] = {
        "torch.utils.data.dataloader": watch_dataloader,
        "accelerate.data_loader": lambda module: prepared.watch_accelerate(module, recorder),
        "lightning.fabric.utilities.data": lambda module: prepared.watch_lightning(module, recorder),
        "lightning_fabric.utilities.data": lambda module: prepared.watch_lightning(module, recorder),
    }
    if options.groups:
        after.update(groups.hooks(recorder))
    if options.cuda:
        from . import cpu

        after.update(cpu.hooks(recorder))
    hooks.Hooks(after).install()
    return recorder


def install_from_environment() -> None:
    """Watch this process if the run that started it, or its parents, asks for that."""
    options = from_environment()
    if options is None:
        return
    life.end_with_parent(options.folder)
    recorder = install(options)
    life.tell_ending(recorder)
