"""Run loaders in forked gloo ranks and write down what each rank reads: one file that needs torch and nothing else.

It is started as a script by any interpreter (``python worker.py RESULTS [FOLDER]``; RESULTS is a path or ``fd:N``),
reads one JSON job a line from standard input and writes JSON lines: ``ready``, then for each job its ``recipe`` lines
and ``done``. FOLDER is removed when standard input ends, for a parent that was killed and can't. torch is imported
once; groups of ranks are forked from that, and every recipe goes through all of them.

The parent hands the ranks many programs at a time and looks at each answer: the ranks must have taken part in equally
many collectives, so that no program's can have met another's. Where they did not, or a rank raises alone, hangs or
dies, the group is ended and that program run again by itself in a fresh one (25 to 50 ms) before the rest goes on.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import functools
import gc
import importlib
import importlib.util
import itertools
import json
import mmap
import os
import random
import re
import selectors
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn

BUILTINS = [
    *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "getattr", "hasattr"),
    *(
        "int",
        "isinstance",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "object",
        "range",
        "reversed",
        "round",
        "set",
    ),
    *("slice", "sorted", "str", "sum", "tuple", "type", "zip"),
    *("AssertionError", "AttributeError", "Exception", "KeyError", "RuntimeError", "TypeError", "ValueError"),
]
STAGES = (
    "before it was asked",
    "while the loader was built",
    "before the epoch's pass",
    "while it waited for a batch",
    "while the project's code was imported",
)
PROGRESS = struct.Struct("iii")  # stage, epoch, step
KEPT_VARIABLES = (
    *("ACCELERATE", "CUDA", "FSDP", "GLOO", "HF_", "HOME", "LD_", "LOCAL", "MASTER", "MKL", "OMP", "PATH", "PYTHON"),
    *("RANK", "TMP", "TOKENIZERS", "TORCH", "USE_", "WORLD"),
)
STARVED = 6  # times as long where the machine does not let a rank run
IMPORTING = 5  # times as long as a rank may take for any other step
TOGETHER = 24  # recipes whose runs go through the ranks at the same time
PROBE = 24  # a multiple of W*B for the commonest small batch sizes
LARGEST = 1 << 13  # a pass over more samples would take seconds
NOT_BUILT: dict[str, Any] = {
    "batch_size": None,
    "drop_last": False,
    "sampler": "",
    "draws": None,
    "shuffled": None,
    "replacement": False,
    "sampler_drop_last": False,
    "prepared": False,
}


ACCESSED: list[int] = []  # the items of index datasets that were read


class IndexDataset:
    """A map-style dataset whose items are their own indices in the base dataset; a slice is a dataset again."""

    def __init__(self, indices: Any) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return IndexDataset(self.indices[index])
        found = int(self.indices[int(index)])
        ACCESSED.append(found)
        return found

    def __getitems__(self, indices: Any) -> list[int]:
        return [int(self.indices[int(index)]) for index in indices]

    def select(self, indices: Any) -> IndexDataset:
        return IndexDataset([self[i] for i in indices])


class Through:
    """A dataset of the project's own over index datasets: each item is the index that it reads there.

    What it makes of the item is not looked at: it may even fail on a number.
    """

    def __init__(self, real: Any) -> None:
        self.real = real

    def __len__(self) -> int:
        return len(self.real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __getitem__(self, index: Any) -> int:
        del ACCESSED[:]
        try:
            self.real[index]
        except Exception:
            if not ACCESSED:
                raise
        if len(set(ACCESSED)) != 1:
            raise TypeError(f"an item of {type(self.real).__name__} reads {len(set(ACCESSED))} samples")
        return ACCESSED[0]


def shuffled(indices: Any, seed: int) -> list[int]:
    """The indices in one order for a seed."""
    found = list(indices)
    random.Random(seed).shuffle(found)
    return found


def sizes_for(batch_size: int | None, world: int) -> list[int]:
    """Dataset sizes that tell right from wrong: a multiple of W*B with eight draws a rank, a ragged one, one below W.

    The ragged one leaves one rank a batch more than another wherever shares are not padded.
    """
    batch = batch_size or 1
    full = world * batch
    even = full * max(2, -(-8 // batch))
    if PROBE % full == 0 and PROBE // world >= 8:
        even = PROBE
    elif even > LARGEST:
        even = full if full <= LARGEST else LARGEST // 2
    if world == 1:
        return [even, even + 1]
    candidates = [n for n in range(even + 1, even + min(full, LARGEST) + world + 1) if n % world]
    telling = [n for n in candidates if -(-n // world) % batch == 1]
    return [even, (telling or candidates)[0], world - 1]


def assignments(names: list[str]) -> list[dict[str, bool]]:
    """Every way to set the unknown booleans; beyond four names, all equal or all but one."""
    if len(names) <= 4:
        rows = itertools.product((False, True), repeat=len(names))
        return [dict(zip(names, row)) for row in rows]  # noqa: B905 - Python 3.8 has no strict=
    odd_ones = [{n: (n == odd) is value for n in names} for odd in names for value in (True, False)]
    return [dict.fromkeys(names, False), dict.fromkeys(names, True), *odd_ones]


# --- in a rank ---


def import_for_extensions(
    name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Refuse a program's import statement, but not what torch's C code imports in the program's frame.

    CPython's PyImport_Import takes ``__import__`` from the calling frame's builtins (``torch.tensor`` needs it) and
    passes a list as ``fromlist``; an import statement passes a tuple or None.
    """
    if isinstance(fromlist, list):
        return __import__(name, globals_, locals_, fromlist, level)
    raise ImportError(f"a recipe imports nothing, not even {name}")


GIVEN = {"__import__": import_for_extensions, **{name: getattr(builtins, name) for name in BUILTINS}}


def namespace(
    rank: int, world: int, grouped: bool, size: int, unknown: dict[str, bool], accelerate: bool, trusted: bool
) -> dict[str, Any]:
    """The names that a program may use; one that is trusted has all builtins and may import."""
    datasets: dict[str, IndexDataset] = {}

    def dataset(name: str = "") -> IndexDataset:
        return datasets.setdefault(name, IndexDataset(range(size)))

    return {
        **library(accelerate),
        "__builtins__": builtins if trusted else GIVEN,
        "__name__": "recipe",
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank if grouped else -1,
        "DISTRIBUTED": grouped,
        "DATASET": dataset,
        "SHUFFLED": shuffled,
        "THROUGH": Through,
        "UNKNOWN": unknown,
    }


@functools.lru_cache(maxsize=None)  # noqa: UP033
def library(accelerate: bool) -> dict[str, Any]:
    """The modules that a program may use."""
    import torch
    import torch.distributed
    import torch.utils.data
    import torch.utils.data.distributed

    names: dict[str, Any] = {"torch": torch, "dist": torch.distributed}
    if accelerate:
        import accelerate as accelerate_module

        names["accelerate"] = accelerate_module
        names["Accelerator"] = accelerate_module.Accelerator
    return names


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.8 has no functools.cache
def classes() -> Any:
    """torch's classes by name, looked up once: an import statement takes longer than a batch."""
    from torch.utils import data
    from torch.utils.data._utils.collate import default_collate
    from torch.utils.data.distributed import DistributedSampler

    drawn = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    names = {"loader": data.DataLoader, "distributed": DistributedSampler, "random": drawn}
    return types.SimpleNamespace(**names, sequential=data.SequentialSampler, collate=default_collate)


def declared(loader: Any) -> dict[str, Any]:
    """What a loader says of itself, through the wrappers that accelerate puts around its batch sampler."""
    known = classes()
    batch_sampler: Any = getattr(loader, "batch_sampler", None)
    while getattr(batch_sampler, "batch_sampler", None) is not None:
        batch_sampler = batch_sampler.batch_sampler
    source = loader if batch_sampler is None else batch_sampler
    sampler = getattr(source, "sampler", None)
    batch_size = getattr(source, "batch_size", None)
    shuffled: bool | None = None
    if isinstance(sampler, known.distributed):
        shuffled = bool(sampler.shuffle)
    elif isinstance(sampler, known.random):
        shuffled = True
    elif isinstance(sampler, known.sequential):
        shuffled = False
    try:
        draws: int | None = len(sampler) if sampler is not None else None
    except TypeError:
        draws = None
    return {
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "drop_last": bool(getattr(source, "drop_last", False)),
        "sampler": type(sampler).__name__ if sampler is not None else "",
        "draws": draws,
        "shuffled": shuffled,
        "replacement": bool(getattr(sampler, "replacement", False)),
        "sampler_drop_last": isinstance(sampler, known.distributed) and bool(sampler.drop_last),
        "prepared": type(loader).__name__ in ("DataLoaderShard", "DataLoaderDispatcher"),
    }


def share_of(loader: Any) -> list[int] | None:
    """How many shares a loader's DistributedSampler makes, and which of them this rank takes."""
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return [sampler.num_replicas, sampler.rank] if isinstance(sampler, classes().distributed) else None


def indices_of(batch: Any) -> Iterator[int]:
    if isinstance(batch, int):
        yield batch
    elif hasattr(batch, "tolist"):
        yield from indices_of(batch.tolist())
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from indices_of(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from indices_of(value)


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


def line_of(exception: BaseException, folders: list[str]) -> str:
    """The last line of the folders' own files that an exception went through, as ``path:line``."""
    found = ""
    trace = exception.__traceback__
    root = folders[-1] if folders else ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if "site-packages" not in path and any(path.startswith(os.path.join(folder, "")) for folder in folders):
            found = f"{os.path.relpath(path, root)}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(exception, SyntaxError) and exception.filename and os.path.isabs(exception.filename):
        found = f"{os.path.relpath(exception.filename, root) if root else exception.filename}:{exception.lineno}"
    return found


def words_of(exception: BaseException) -> str:
    message = " ".join(str(exception).split())
    return f"{type(exception).__name__}: {message}"[:400].rstrip(": ")


CODE: dict[tuple[str, str], Any] = {}


def compiled(source: str, name: str) -> Any:
    """A program's code, compiled once for all sizes."""
    code = CODE.get((source, name))
    if code is None:
        code = CODE[source, name] = compile(source, name, "exec")
    return code


def take_indices_as_they_are(loader: Any) -> None:
    """Leave out the making of tensors: it decides nothing, and takes half of the time of a plain loader."""
    known = classes()
    if type(loader) is known.loader and loader.collate_fn is known.collate:
        loader.collate_fn = list


def run_program(
    task: dict[str, Any], names: dict[str, Any], progress: Callable[[int, int, int], None]
) -> dict[str, Any]:
    """Build the loader, read it for some epochs, say what came; a program's exception is its answer."""
    said = dict(NOT_BUILT)
    epochs: list[list[list[int]]] = []
    error, where, unable = "", "", ""
    share: list[int] | None = None
    try:
        if task["prelude"]:
            progress(4, 0, 0)
            try:
                exec(compiled(task["prelude"], "<imports>"), names)
            except (Exception, SystemExit) as exception:
                unable = words_of(exception)
                raise
        progress(1, 0, 0)
        exec(compiled(task["build"], "<recipe>"), names)
        loader = names["loader"]
        said = declared(loader)
        share = share_of(loader)
        take_indices_as_they_are(loader)
        each_epoch = compiled(task["each_epoch"], "<each epoch>")
        limit = 4 * task["size"] + 1000
        for epoch in range(task["epochs"]):
            progress(2, epoch, 0)
            names["epoch"] = epoch
            exec(each_epoch, names)
            batches: list[list[int]] = []
            progress(3, epoch, 0)
            for batch in loader:
                plain = type(batch) is list and all(type(index) is int for index in batch)
                batches.append(batch if plain else list(indices_of(batch)))
                progress(3, epoch, len(batches))
                if len(batches) > limit:
                    raise RuntimeError(f"the loader does not end: {limit} batches from {task['size']} samples")
            epochs.append(batches)
    except (Exception, SystemExit) as exception:
        error = words_of(exception)
        where = line_of(exception, task["imports"] or [])
    # a name that no recipe may bind: what a program has worked out from what it read, ready for JSON
    value = names.get("__value__")
    about = {"where": where, "unable": unable, "share": share, "value": value}
    return {"epochs": epochs, "error": error, "declared": said, **about}


def end_with_parent(parent: int, life: int) -> None:
    """Whatever happens to the parent, this process does not outlive it."""
    if sys.platform.startswith("linux"):
        import ctypes

        # the watcher below does the same, but not for a rank that holds the interpreter's lock
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        os.read(life, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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


def collectives(group: Group) -> Any:
    """How many collectives this rank has taken part in; None where that is not known."""
    if not group.grouped or group.world == 1:
        return 0
    import torch.distributed as dist

    try:
        return dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError, ValueError):
        return None


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


def serve(rank: int, group: Group, commands: int, answers: int, trace: Any) -> NoReturn:
    """A rank's life: join the group, then run one program after another."""
    import torch

    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
    become_rank(rank, group.world, group.grouped, os.path.join(group.folder, "store"))

    def progress(*values: int) -> None:
        PROGRESS.pack_into(group.progress, rank * PROGRESS.size, *values)

    if group.imports is None:
        # accelerate copies the environment and looks for a dozen of packages whenever an Accelerator is made
        for name in [name for name in os.environ if not name.startswith(KEPT_VARIABLES)]:
            del os.environ[name]
        importlib.util.find_spec = functools.lru_cache(maxsize=None)(importlib.util.find_spec)
        torch.autograd.profiler.record_function = NoRecord  # type: ignore[assignment,misc]
    gc.freeze()
    gc.disable()  # what a program leaves is little, and is looked for now and then
    if group.imports:
        sys.path[:0] = group.imports
        sys.argv[:] = [os.path.join(group.imports[0], "recipe.py")]
        os.chdir(group.imports[-1])
    count = 0
    outbox, accelerators = Outbox(answers), Accelerators()
    with os.fdopen(commands, "rb") as inbox:
        for line in inbox:
            for task in json.loads(line):
                del ACCESSED[:]
                unknown, trusted = dict(task["unknown"]), task["imports"] is not None
                names = namespace(rank, group.world, group.grouped, task["size"], unknown, task["accelerate"], trusted)
                if task["accelerate"] and trusted:
                    forget_accelerators()
                elif task["accelerate"]:
                    names["Accelerator"] = accelerators
                seed_everything(1234 + 7919 * rank)  # ranks are seeded differently on purpose
                before = collectives(group)
                said = run_program(task, names, progress)
                if said["error"]:
                    accelerators.forget()
                said["collectives"] = None if before is None else collectives(group) - before
                outbox.put(json.dumps(said, separators=(",", ":")).encode() + b"\n")
                progress(0, 0, 0)
                count += 1
                if count % 256 == 0:
                    gc.collect()
            outbox.send()
    os._exit(0)


# --- in the parent ---


class Group:
    """Forked ranks that share one process group (or one process without); they are this process's own children.

    ``imports``: the folders that trusted programs import from; such ranks run nothing else.
    """

    def __init__(self, world: int, grouped: bool, imports: tuple[str, ...] | None = None) -> None:
        self.world = world
        self.grouped = grouped
        self.imports = imports
        self.pids: list[int] = []
        self.open = False

    def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="shardfix-ranks-")
        self.progress = mmap.mmap(-1, PROGRESS.size * self.world)
        self.pids, self.commands, self.answers, self.traces = [], [], [], []
        life_read, self.life = os.pipe()
        PARENT_FDS.add(self.life)
        parent = os.getpid()
        for rank in range(self.world):
            command_read, command_write = os.pipe()
            answer_read, answer_write = os.pipe()
            trace = open(os.path.join(self.folder, f"trace{rank}"), "w+")  # noqa: SIM115
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                try:
                    for fd in (*PARENT_FDS, command_write, answer_read):
                        os.close(fd)
                    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
                    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # standard input is the parent's own
                    end_with_parent(parent, life_read)
                    serve(rank, self, command_read, answer_write, trace)
                except BaseException as exception:
                    os.write(2, f"shardfix rank {rank}: {type(exception).__name__}: {exception}\n".encode())
                finally:
                    os._exit(1)
            os.close(command_read)
            os.close(answer_write)
            PARENT_FDS.update((command_write, answer_read))
            self.pids.append(pid)
            self.commands.append(command_write)
            self.answers.append(answer_read)
            self.traces.append(trace)
        os.close(life_read)
        self.open = True

    def close(self) -> None:
        """End the ranks, reap them, leave no file."""
        if not self.open:
            return
        self.open = False
        running = [pid for pid in self.pids if pid]
        for pid in running:
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        for pid in running:
            os.waitpid(pid, 0)
        for fd in (*self.commands, *self.answers, self.life):
            os.close(fd)
            PARENT_FDS.discard(fd)
        for trace in self.traces:
            trace.close()
        self.progress.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, task: dict[str, Any], patience: float) -> dict[str, Any]:
        """Put one program through all ranks; ranks that stop or die are part of the answer."""
        batch = Batch(self, [task], patience)
        run_batches([batch])
        return batch.results[0] or {}

    def where(self, rank: int) -> str:
        """Where a rank that does not answer stands: its stage, and the call it is in."""
        stage, epoch, step = PROGRESS.unpack_from(self.progress, rank * PROGRESS.size)
        place = STAGES[stage]
        if stage in (2, 3):
            place = f"epoch {epoch}, {place}" + (f" after {step} steps" if stage == 3 else "")
        trace = self.traces[rank]
        os.kill(self.pids[rank], signal.SIGUSR1)
        text = ""
        for _ in range(20):
            time.sleep(0.02)
            trace.seek(0)
            text = trace.read()
            if text:
                break
        for file, line, name in re.findall(r'File "([^"]*)", line (\d+) in (\S+)', text):
            if "c10d_logger" not in file:
                return f"{place}, in {name} ({os.path.basename(file)}:{line})"
        return place


class Batch:
    """Programs on their way through the ranks of one group.

    ``first`` is the first one without a result, ``end`` the end of what the ranks were given; ``alone``: they were
    given one only, in a fresh group, so that its answer counts whatever it is. With ``put_off`` a program that must be
    run alone has no result here, so that nothing waits for it.
    """

    def __init__(self, group: Group, tasks: list[dict[str, Any]], patience: float, put_off: bool = False) -> None:
        self.group = group
        self.tasks = tasks
        self.patience = patience
        self.put_off = put_off
        self.results: list[dict[str, Any] | None] = []
        self.stuck: dict[str, dict[str, Any]] = {}
        self.used: list[float] | None = None
        self.end = len(tasks)
        self.alone = False

    @property
    def first(self) -> int:
        return len(self.results)

    def send(self, selector: selectors.BaseSelector) -> None:
        """Give the ranks the programs from the first one on, up to the end."""
        group = self.group
        self.alone = self.end == self.first + 1 and not group.open
        if not group.open:
            group.start()
        self.answers: list[list[dict[str, Any]]] = [[] for _ in range(group.world)]
        self.parts = [b""] * group.world
        self.ended: dict[int, str] = {}
        self.seen, self.moved = bytes(group.progress), time.monotonic()
        line = json.dumps(self.tasks[self.first : self.end], separators=(",", ":")).encode() + b"\n"
        for rank, fd in enumerate(group.commands):
            selector.register(group.answers[rank], selectors.EVENT_READ, (self, rank))
            data = line
            with contextlib.suppress(BrokenPipeError):  # its answer pipe says how it ended
                while data:
                    data = data[os.write(fd, data) :]

    def take(self, rank: int, selector: selectors.BaseSelector) -> None:
        """What a rank has to say: answers, or its end."""
        chunk = os.read(self.group.answers[rank], 1 << 16)
        self.moved = time.monotonic()
        *lines, self.parts[rank] = (self.parts[rank] + chunk).split(b"\n")
        self.answers[rank] += map(json.loads, lines)
        if not chunk:
            self.ended[rank] = how_it_ended(self.group.pids[rank])
            self.group.pids[rank] = 0
            selector.unregister(self.group.answers[rank])

    def settle(self, selector: selectors.BaseSelector) -> bool:
        """Take the answers that all ranks have given; whether there is nothing left to do."""
        group = self.group
        while self.first < self.end and all(self.answers):
            answers = {rank: self.answers[rank][0] for rank in range(group.world)}
            steady = in_step(list(answers.values()))
            if not steady and not self.alone:
                return self.suspect(selector)
            for rank in range(group.world):
                del self.answers[rank][0]
            self.results.append(result_of(group.world, answers, {}))
            if not steady:
                return self.restart(selector, len(self.tasks))
        if self.first == self.end:
            if self.end == len(self.tasks):
                self.leave(selector)
                return True
            self.leave(selector)
            self.end = len(self.tasks)
            self.send(selector)
            return False
        if self.ended or self.waited_for_ever():
            return self.stopped(selector)
        return False

    def waited_for_ever(self) -> bool:
        now = bytes(self.group.progress)
        if now != self.seen:
            self.seen, self.moved = now, time.monotonic()
        # where one rank has raised, the others may wait for it in vain
        broken = any(answer["error"] for answers in self.answers for answer in answers[:1])
        wait = min(self.patience, 2.0) if broken else self.patience
        stages = [PROGRESS.unpack_from(now, rank * PROGRESS.size)[0] for rank in range(self.group.world)]
        wait *= IMPORTING if 4 in stages else 1
        waited = time.monotonic() - self.moved
        if waited <= wait / 2:
            self.used = None
        elif self.used is None:
            self.used = [used for used, _ in map(cpu_of, self.group.pids)]
        elif waited > wait:
            # a rank that wants to run and is not let (a busy machine) is waited for longer
            starved = [
                used - before < wait / 4
                for before, (used, runs) in zip(self.used, map(cpu_of, self.group.pids))  # noqa: B905
                if runs
            ]
            return waited > STARVED * wait or not any(starved)
        return False

    def stopped(self, selector: selectors.BaseSelector) -> bool:
        """Some rank died or does not come on."""
        group = self.group
        if self.alone:
            if self.ended and len(self.ended) + sum(map(bool, self.answers)) < group.world:
                if time.monotonic() - self.moved <= min(self.patience, 2.0):
                    return False  # the others may still end by themselves
            answers = {rank: given[0] for rank, given in enumerate(self.answers) if given}
            missing = [rank for rank in range(group.world) if rank not in answers]
            stops = {rank: self.ended.get(rank) or group.where(rank) for rank in missing}
            self.results.append(result_of(group.world, answers, stops))
            self.stuck[text_of(self.tasks[self.first - 1])] = self.results[-1] or {}
            self.same_again()
            return self.restart(selector, len(self.tasks))
        done = min((len(self.answers[rank]) for rank in self.ended), default=0)
        if done:  # those before the one in which a rank died go once more, in a group that does not come to that
            return self.restart(selector, self.first + done)
        return self.suspect(selector)

    def suspect(self, selector: selectors.BaseSelector) -> bool:
        """The first program must be run alone, or is left to whoever asks for it again."""
        if not self.put_off:
            return self.restart(selector, self.first + 1)
        self.results.append(None)
        self.same_again()
        return self.restart(selector, len(self.tasks))

    def same_again(self) -> None:
        """What has hung once is not waited for again: the same program at the next sizes gets the same result."""
        text = text_of(self.tasks[self.first - 1])
        while self.first < len(self.tasks) and text_of(self.tasks[self.first]) == text:
            self.results.append(self.results[-1])

    def restart(self, selector: selectors.BaseSelector, end: int) -> bool:
        """End the group, and go on in a fresh one up to ``end``."""
        self.leave(selector)
        self.group.close()
        self.end = end
        if self.first == len(self.tasks):
            return True
        self.send(selector)
        return False

    def leave(self, selector: selectors.BaseSelector) -> None:
        for fd in self.group.answers:
            with contextlib.suppress(KeyError):
                selector.unregister(fd)


def cpu_of(pid: int) -> tuple[float, bool]:
    """The seconds that a process has run, and whether it wants to; (0, False) where that is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def in_step(answers: list[dict[str, Any]]) -> bool:
    """Whether all ranks took part in equally many collectives, so that the next program finds them together."""
    counts = {answer["collectives"] for answer in answers}
    if None not in counts:
        return len(counts) == 1
    steps = {tuple(len(epoch) for epoch in answer["epochs"]) for answer in answers}
    return len(answers) == 1 or (len(steps) == 1 and not any(answer["error"] for answer in answers))


def text_of(task: dict[str, Any]) -> str:
    """What tells one program from another, whatever size it is run at."""
    return json.dumps([task["build"], task["each_epoch"], task["prelude"], sorted(dict(task["unknown"]).items())])


def result_of(world: int, answers: dict[int, dict[str, Any]], stops: dict[int, str]) -> dict[str, Any]:
    """What all ranks of one run said; ``stops`` says where those stand that said nothing."""
    nothing: dict[str, Any] = {"epochs": [], "error": "", "where": "", "unable": "", "declared": NOT_BUILT}
    nothing.update(value=None, share=None)
    ranks = []
    unable = ""
    for rank in range(world):
        answer = answers.get(rank, nothing)
        kept = {key: answer[key] for key in ("epochs", "error", "where", "value", "share")}
        ranks.append({"rank": rank, **kept, "stopped": stops.get(rank, "")})
        if answer["unable"]:
            unable = unable or answer["unable"] + (f" ({answer['where']})" if answer["where"] else "")
    said = answers[min(answers)]["declared"] if answers else NOT_BUILT
    return {"ranks": ranks, "declared": said, "unable": unable}


def run_batches(batches: list[Batch]) -> None:
    """Run batches of different groups at the same time."""
    left = [batch for batch in batches if batch.tasks]
    with selectors.DefaultSelector() as selector:
        if WATCH_STDIN:
            selector.register(0, selectors.EVENT_READ, None)
        for batch in left:
            batch.send(selector)
        while left:
            for key, _ in selector.select(0.25):
                if key.data is None:
                    if not more_from_stdin():
                        raise ParentGone
                    continue
                batch, rank = key.data
                batch.take(rank, selector)
            left = [batch for batch in left if not batch.settle(selector)]


PARENT_FDS: set[int] = set()
WATCH_STDIN = False
PENDING = b""


class ParentGone(Exception):
    """Standard input was closed: whoever asked is not there any more."""


def more_from_stdin() -> bytes:
    global PENDING
    chunk = os.read(0, 1 << 16)
    PENDING += chunk
    return chunk


def jobs() -> Iterator[dict[str, Any]]:
    """One JSON job a line, until standard input ends."""
    global PENDING, WATCH_STDIN
    while True:
        line, newline, rest = PENDING.partition(b"\n")
        if not newline:
            if not more_from_stdin():
                if PENDING.strip():
                    WATCH_STDIN = False
                    yield json.loads(PENDING)
                return
            continue
        PENDING = rest
        if line.strip():
            job = json.loads(line)
            WATCH_STDIN = bool(job.get("watch_stdin"))
            yield job


def how_it_ended(pid: int) -> str:
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"the process left with exit code {os.WEXITSTATUS(status)}"


@dataclass(frozen=True)
class Ask:
    """One run of a variant of a recipe; ``unknown`` are its booleans and what they are taken to be."""

    variant: str
    world: int
    grouped: bool
    size: int
    unknown: tuple[tuple[str, bool], ...] = ()


def observe(
    recipe: dict[str, Any], nproc: int
) -> Generator[list[Ask], dict[Ask, dict[str, Any]], list[dict[str, Any]]]:
    """The runs that the judge wants of one recipe, each round of them asked for at once; the observations they make."""
    variants = [v for v in ("before", "after") if recipe[v] is not None]
    worlds = recipe["worlds"] or ([nproc, nproc + 1] if recipe["owner"] != "single" else [])
    places = [(world, True) for world in worlds] or [(1, False)]
    rows = [tuple(row.items()) for row in assignments(list(recipe["unknown"]))]
    seen = dict((yield [Ask(v, *places[0], PROBE, row) for row in rows for v in reversed(variants)]))

    def batch_of(place: tuple[int, bool], size: int, row: tuple[tuple[str, bool], ...]) -> int | None:
        built = [seen[Ask(v, *place, size, row)]["declared"]["batch_size"] for v in reversed(variants)]
        return next((size for size in built if size), None)

    # in more ranks a batch is mostly as large: what is asked at once is asked again only where it is not
    batches = {(row, place): batch_of(places[0], PROBE, row) for row in rows for place in places}
    for _ in range(2):
        sizes = {(row, place): sizes_for(batches[row, place], place[0]) for row in rows for place in places}
        for row, place in sizes:
            if place != places[0]:
                sizes[row, place] = sizes[row, place][1:2]  # more ranks are for the padding: the ragged size
        shared: dict[Any, list[Ask]] = {row: [] for row in rows}
        alone: dict[Any, list[list[Ask]]] = {}
        # with data-parallel groups, the ranks of one model are what one process is
        single = (worlds[0] // 2, True) if recipe["worlds"] else (1, False)
        for row in rows:
            for place in places if worlds else ():
                shared[row] += [Ask(v, *place, size, row) for size in sizes[row, place] for v in variants]
            every = dict.fromkeys(size for place in places for size in sizes[row, place])
            alone[row] = [[Ask(v, single[0], single[1], size, row) for v in variants] for size in every]
        wanted = [ask for row in rows for ask in (*shared[row], *itertools.chain(*alone[row])) if ask not in seen]
        seen.update((yield wanted))
        found = {(row, place): batch_of(place, sizes[row, place][0], row) for row, place in batches if worlds}
        if all(size in (None, batches[where]) for where, size in found.items()) or not wanted:
            break
        batches.update({where: size for where, size in found.items() if size})
    again: list[Ask] = []
    for pair in (pair for row in rows for pair in alone[row]):
        failed = [any(r["error"] or r["stopped"] for r in seen[ask]["ranks"]) for ask in pair]
        if (all(failed) or (any(failed) and recipe["group"] == "always")) and not recipe["worlds"]:
            again += [replace(ask, grouped=True) for ask in pair]
    seen.update((yield again))
    order: list[Ask] = []
    for row in rows:
        order += shared[row]
        for pair in alone[row]:
            order += pair
            order += [inside for ask in pair if (inside := replace(ask, grouped=True)) in again]
    return [
        {
            "variant": ask.variant,
            "world": ask.world,
            "grouped": ask.grouped,
            "size": ask.size,
            "unknown": list(ask.unknown),
            "ranks": seen[ask]["ranks"],
            "declared": seen[ask]["declared"],
        }
        for ask in order
    ]


class Runs:
    """All groups of ranks, forked when first asked for, and what is known already: equal programs run once."""

    def __init__(self, patience: float, epochs: int) -> None:
        self.patience = patience
        self.epochs = epochs
        self.groups: dict[tuple[Any, ...], Group] = {}
        self.known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.stuck: dict[str, dict[str, Any]] = {}

    def observe(self, recipes: list[dict[str, Any]], nproc: int, put_off: bool = False) -> list[dict[str, Any] | None]:
        """The answers for several recipes, whose runs go through the ranks together.

        With ``put_off``, None for one of which a program must be run alone.
        """
        answers: list[dict[str, Any] | None] = [None] * len(recipes)
        waiting: list[tuple[int, Generator[list[Ask], Any, Any], list[Ask]]] = []
        for number, recipe in enumerate(recipes):
            observing = observe(recipe, nproc)
            waiting.append((number, observing, next(observing)))
        while waiting:
            self.run([(recipes[number], ask) for number, _, asks in waiting for ask in asks], put_off)
            left = []
            for number, observing, asks in waiting:
                keys = {ask: self.key(recipes[number], ask) for ask in asks}
                if not all(key in self.known for key in keys.values()):
                    continue
                results = {ask: self.known[key] for ask, key in keys.items()}
                unable = next((r["unable"] for r in results.values() if r["unable"]), "")
                if unable:
                    answers[number] = {"observations": [], "error": unable}
                    continue
                try:
                    left.append((number, observing, observing.send(results)))
                except StopIteration as stop:
                    answers[number] = {"observations": stop.value, "error": ""}
            waiting = left
        return answers

    def key(self, recipe: dict[str, Any], ask: Ask) -> tuple[Any, ...]:
        imports = tuple(recipe["imports"]) if recipe["imports"] is not None else None
        program = recipe[ask.variant]
        text = (program["build"], program["each_epoch"], imports, recipe["prelude"], recipe["needs_accelerate"])
        return (*text, ask.world, ask.grouped, ask.size, ask.unknown)

    def run(self, asked: list[tuple[dict[str, Any], Ask]], put_off: bool) -> None:
        """Run what is not known yet, each group its own."""
        wanted: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, Any]]] = {}
        for recipe, ask in asked:
            key = self.key(recipe, ask)
            imports = key[2]
            if key in self.known:
                continue
            task = {
                **recipe[ask.variant],
                "size": ask.size,
                "unknown": dict(ask.unknown),
                "accelerate": recipe["needs_accelerate"],
                "epochs": self.epochs,
                "imports": imports,
                "prelude": recipe["prelude"],
            }
            stuck = self.stuck.get(f"{ask.world} {ask.grouped} {text_of(task)}")
            if stuck is not None:  # what has hung once is not waited for again
                self.known[key] = stuck
            else:
                wanted.setdefault((ask.world, ask.grouped, imports), {})[key] = task
        batches: list[tuple[Batch, list[tuple[Any, ...]]]] = []
        for where, tasks in wanted.items():
            group = self.groups.setdefault(where, Group(*where))
            batches.append((Batch(group, list(tasks.values()), self.patience, put_off), list(tasks)))
        run_batches([batch for batch, _ in batches])
        for batch, keys in batches:
            found = zip(keys, batch.results)  # noqa: B905 - Python 3.8 has no strict=
            self.known.update((key, result) for key, result in found if result is not None)
            for text, result in batch.stuck.items():
                self.stuck[f"{batch.group.world} {batch.group.grouped} {text}"] = result

    def close(self) -> None:
        for group in self.groups.values():
            group.close()


def work(job: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
    missing = ""
    if any(recipe["needs_accelerate"] for recipe in job["recipes"]):
        try:
            import accelerate  # noqa: F401
        except ImportError as exception:
            missing = f"{type(exception).__name__}: {exception} ({sys.executable} -m pip install accelerate)"
    runs = Runs(job["patience"], job.get("epochs", 3))
    try:
        late: list[int] = []
        for start in range(0, len(job["recipes"]), TOGETHER):
            chunk = range(start, min(start + TOGETHER, len(job["recipes"])))
            for number in chunk:
                emit({"kind": "begin", "recipe": number})
            able = [n for n in chunk if not (missing and job["recipes"][n]["needs_accelerate"])]
            answers = runs.observe([job["recipes"][n] for n in able], job["nproc"], put_off=True)
            for number, answer in zip(able, answers):  # noqa: B905 - Python 3.8 has no strict=
                if answer is None:
                    late.append(number)
                else:
                    emit({"kind": "recipe", "recipe": number, **answer})
            for number in chunk:
                if number not in able:
                    emit({"kind": "recipe", "recipe": number, "observations": [], "error": missing})
        for number in late:  # what hangs or dies is waited for when all others are done
            (answer,) = runs.observe([job["recipes"][number]], job["nproc"])
            emit({"kind": "recipe", "recipe": number, **(answer or {})})
    finally:
        runs.close()
    emit({"kind": "done"})


def installed(libraries: dict[str, list[list[str]]]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the libraries that can be imported, and why the others can't.

    Of each, the first set of modules that can be imported counts. They are imported here, once, before ranks are
    forked; what a library says while it is imported is nothing for the user.
    """
    versions: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for library, sets in libraries.items():
        for modules in sets:
            try:
                found = [importlib.import_module(name) for name in modules]
            except Exception as exception:  # a release that does not fit the others raises anything
                reasons.setdefault(library, words_of(exception))
                continue
            top = sys.modules[found[0].__name__.partition(".")[0]]
            versions[library] = str(getattr(top, "__version__", "of unknown version"))
            reasons.pop(library, None)
            break
    return versions, reasons


def run_cells(job: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
    """Run programs that are not held against one another, each once, in as many ranks as it names."""
    versions, reasons = installed(job["libraries"])
    emit({"kind": "versions", "python": sys.version.split()[0], "versions": versions, "reasons": reasons})
    groups: dict[tuple[int, bool], Group] = {}
    stuck: set[str] = set()
    try:
        for number, cell in enumerate(job["cells"]):
            if not versions.keys() >= set(cell["needs"]) or cell.get("program") in stuck:
                continue
            key = (cell["world"], cell["grouped"])
            group = groups.setdefault(key, Group(*key, imports=()))
            if cell["waits"]:
                group.close()  # what does not end in a used group is tried again in a fresh one
            accelerate = not {"accelerate", "transformers"}.isdisjoint(cell["needs"])
            task = {**cell, "unknown": {}, "accelerate": accelerate, "imports": ()}
            patience = min(job["patience"], 1.5) if cell["waits"] else job["patience"]
            ranks = group.run(task, patience)["ranks"]
            emit({"kind": "cell", "cell": number, "ranks": ranks})
            if "program" in cell and any(rank["stopped"] for rank in ranks):
                stuck.add(cell["program"])  # what has hung once is not waited for again
    finally:
        for group in groups.values():
            group.close()
    emit({"kind": "done"})


def on_the_cpu() -> None:
    """Set the environment so that nothing looks for a GPU or another host."""
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", ACCELERATE_USE_CPU="true", TOKENIZERS_PARALLELISM="false"
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")


def ready(emit: Callable[[dict[str, Any]], None]) -> bool:
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


def main(target: str) -> int:
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    on_the_cpu()
    results = (
        int(target[3:]) if target.startswith("fd:") else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    )
    PARENT_FDS.add(results)

    def emit(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(results, data) :]

    if not ready(emit):
        return 2
    os.dup2(2, 1)  # what a program prints is no result
    try:
        for job in jobs():
            (run_cells if "cells" in job else work)(job, emit)
    except (ParentGone, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    status = 1
    try:
        status = main(sys.argv[1])
        if len(sys.argv) > 2:
            shutil.rmtree(sys.argv[2], ignore_errors=True)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # torch's own way out takes 0.4 s
