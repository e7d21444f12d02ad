"""A rank's life: join the group, then run one program after another and answer."""

from __future__ import annotations

import functools
import gc
import importlib.util
import marshal
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from .forking import Seat
from .gloo import become_rank, forget_accelerators, seed_everything
from .program import Program, Task, run_program
from .program_names import ACCESSED, namespace

KEPT_VARIABLES = (
    *("ACCELERATE", "CUDA", "FSDP", "GLOO", "HF_", "HOME", "LD_", "LOCAL", "MASTER", "MKL", "OMP", "PATH", "PYTHON"),
    *("RANK", "TMP", "TOKENIZERS", "TORCH", "USE_", "WORLD"),
)
LENGTH = struct.Struct("I")


def serve(seat: Seat, world: int, grouped: bool, imports: tuple[str, ...] | None) -> None:
    """Run the programs that come in until nobody sends any; the rest as in ``dispatch.Where``."""
    import torch
    import torch.utils.data

    become_rank(seat.rank, world, grouped, os.path.join(seat.folder, "store"))
    if imports is None:
        # accelerate copies the environment and looks for a dozen of packages whenever an Accelerator is made
        for name in [name for name in os.environ if not name.startswith(KEPT_VARIABLES)]:
            del os.environ[name]
        importlib.util.find_spec = functools.lru_cache(maxsize=None)(importlib.util.find_spec)
        torch.autograd.profiler.record_function = NoRecord  # type: ignore[assignment,misc]
        # each pass asks the group for its size, for pipes of data only
        loading: Any = torch.utils.data.dataloader
        if hasattr(loading, "_get_distributed_settings"):
            settings = loading._get_distributed_settings()
            loading._get_distributed_settings = lambda: settings
    gc.freeze()
    gc.disable()  # what a program leaves is little, and is looked for now and then
    if imports:
        sys.path[:0] = imports
        sys.argv[:] = [os.path.join(imports[0], "recipe.py")]
        os.chdir(imports[-1])
    trusted = imports is not None
    folders = list(imports or ())
    at = seat.place
    count = 0
    outbox, accelerators = Outbox(seat.answers), Accelerators()
    with os.fdopen(seat.commands, "rb") as inbox:
        for tasks in tasks_from(inbox):
            for task in tasks:
                del ACCESSED[:]
                program = task.program
                names = namespace(
                    seat.rank, world, grouped, task.size, dict(program.unknown), program.accelerate, trusted
                )
                if program.accelerate and trusted:
                    forget_accelerators()
                elif program.accelerate:
                    names["Accelerator"] = accelerators
                seed_everything(1234 + 7919 * seat.rank)  # ranks are seeded differently on purpose
                before = counted(world, grouped)
                said = run_program(task, world, folders, names, at)
                if said["error"]:
                    accelerators.forget()
                said["collectives"] = None if before is None else counted(world, grouped) - before
                outbox.put(framed(said))
                at(0, 0, 0, 0)
                count += 1
                if count % 256 == 0:
                    gc.collect()
            outbox.send()


def frame_of(tasks: list[Task]) -> bytes:
    """Tasks on their way to the ranks, after their length; a program is there once for the sizes that follow it.

    It is compiled here, once for all ranks: that takes half as long as running it.
    """
    programs: list[Any] = []
    last = None
    for task in tasks:
        if task.program != last:
            last = task.program
            code = map(compiled_if_it_can_be, (last.build, last.each_epoch, last.prelude))
            programs.append((*code, last.accelerate, last.unknown, []))
        programs[-1][-1].append((task.size, task.epochs, task.probe))
    return framed(programs)


def framed(message: Any) -> bytes:
    """A message between the ranks and their parent, which are of the same interpreter, after its length."""
    data = marshal.dumps(message)
    return LENGTH.pack(len(data)) + data


def unframed(data: bytes) -> tuple[list[Any], bytes]:
    """The messages that are whole, and what is left of the data."""
    messages = []
    at = 0
    while len(data) - at >= LENGTH.size:
        (length,) = LENGTH.unpack_from(data, at)
        if len(data) - at - LENGTH.size < length:
            break
        at += LENGTH.size + length
        messages.append(marshal.loads(data[at - length : at]))
    return messages, data[at:]


def tasks_from(inbox: BinaryIO) -> Iterator[list[Task]]:
    """The tasks that came, as long as any do; the texts of their programs are code objects."""
    while True:
        head = inbox.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        programs = marshal.loads(inbox.read(*LENGTH.unpack(head)))
        yield [Task(Program(*fields[:-1]), *run) for fields in programs for run in fields[-1]]


@functools.lru_cache(maxsize=512)
def compiled_if_it_can_be(text: str) -> Any:
    """A program's code; its text where there is none, or where it can't be compiled: that is then its answer."""
    try:
        return compile(text, "<recipe>", "exec") if text else ""
    except Exception:
        return text


def counted(world: int, grouped: bool) -> Any:
    """How many collectives this rank has taken part in; None where that is not known."""
    if not grouped or world == 1:
        return 0
    import torch.distributed as dist

    try:
        return dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError, ValueError):
        return None


class Accelerators:
    """Makes Accelerators as recipes ask for them; one that the last program made alike serves the next one too.

    To make one takes longer than to read a loader. Nothing that a recipe may do changes how it shards.
    """

    def __init__(self) -> None:
        self.settings: Any = None
        self.last: Any = None

    def __call__(self, **settings: Any) -> Any:
        from accelerate import Accelerator

        if self.last is None or settings != self.settings:
            forget_accelerators()
            self.settings, self.last = None, None
            made = Accelerator(**settings)
            if not all(value is None or isinstance(value, (bool, int, str)) for value in settings.values()):
                return made  # what an object of settings holds is not compared
            self.settings, self.last = settings, made
        self.last._dataloaders.clear()
        return self.last

    def forget(self) -> None:
        self.last = None


class NoRecord:
    """In the place of torch's profiler marks around each batch, which cost more than the batch."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> NoRecord:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Outbox:
    """Answers on their way to the parent: many in one write, and none held back for long by the program after it.

    Each write of its own would wake the parent, which costs more than most programs.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.held: list[bytes] = []
        self.lock = threading.Lock()
        threading.Thread(target=self.deliver, daemon=True).start()

    def put(self, answer: bytes) -> None:
        with self.lock:
            self.held.append(answer)

    def send(self) -> None:
        with self.lock:
            data, self.held = b"".join(self.held), []
            while data:
                data = data[os.write(self.fd, data) :]

    def deliver(self) -> None:
        while True:
            time.sleep(0.02)
            self.send()
