"""What a run asks of the observer; it travels to every process of the run in one environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

VARIABLE = "SHARDFIX_OBSERVE"


@dataclass(frozen=True)
class Options:
    """How to watch.

    ``folder`` is where each process writes its file and the ranks meet; ``epochs`` ends the program when its loaders
    have been read that often, ``batches`` each pass after so many steps, 0 for never. ``cuda`` is the number of CUDA
    devices to make up on the CPU, 0 for none. ``groups`` puts process groups on gloo.
    """

    folder: str
    epochs: int = 0
    batches: int = 0
    cuda: int = 0
    groups: bool = True


def to_environment(options: Options) -> str:
    return json.dumps(asdict(options))


def from_environment() -> Options | None:
    text = os.environ.get(VARIABLE)
    return Options(**json.loads(text)) if text else None
