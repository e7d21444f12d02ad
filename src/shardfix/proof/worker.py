"""Run loaders in forked gloo ranks and write down what each rank reads: one file that needs torch and nothing else.

It is started as a script by any interpreter (``python worker.py RESULTS [FOLDER]``; RESULTS is a path or ``fd:N``),
reads one JSON job a line from standard input and writes JSON lines: ``ready``, then for each job its ``recipe`` lines
and ``done``. FOLDER is removed when standard input ends, for a parent that was killed and can't. torch is imported
once; groups of ranks are forked from that, and every recipe goes through all of them.

The parent hands the ranks one program at a time and waits for all answers, so a rank that raises or hangs can't
put another recipe's collectives out of step: such a group is ended and a fresh one forked (25 to 50 ms).
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import importlib
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
from collections.abc import Callable, Iterator
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
IMPORTING = 5  # times as long as a rank may take for any other step
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


def namespace(
    rank: int, world: int, grouped: bool, size: int, unknown: dict[str, bool], accelerate: bool, trusted: bool
) -> dict[str, Any]:
    """The names that a program may use; one that is trusted has all builtins and may import."""
    import torch
    import torch.distributed
    import torch.utils.data
    import torch.utils.data.distributed

    datasets: dict[str, IndexDataset] = {}

    def dataset(name: str = "") -> IndexDataset:
        return datasets.setdefault(name, IndexDataset(range(size)))

    given = {"__import__": import_for_extensions, **{name: getattr(builtins, name) for name in BUILTINS}}
    names: dict[str, Any] = {
        "__builtins__": builtins if trusted else given,
        "__name__": "recipe",
        "torch": torch,
        "dist": torch.distributed,
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank if grouped else -1,
        "DISTRIBUTED": grouped,
        "DATASET": dataset,
        "SHUFFLED": shuffled,
        "THROUGH": Through,
        "UNKNOWN": unknown,
    }
    if accelerate:
        import accelerate as accelerate_module

        names["accelerate"] = accelerate_module
        names["Accelerator"] = accelerate_module.Accelerator
    return names


def declared(loader: Any) -> dict[str, Any]:
    """What a loader says of itself, through the wrappers that accelerate puts around its batch sampler."""
    from torch.utils import data
    from torch.utils.data.distributed import DistributedSampler

    batch_sampler: Any = getattr(loader, "batch_sampler", None)
    while getattr(batch_sampler, "batch_sampler", None) is not None:
        batch_sampler = batch_sampler.batch_sampler
    source = loader if batch_sampler is None else batch_sampler
    sampler = getattr(source, "sampler", None)
    batch_size = getattr(source, "batch_size", None)
    shuffled: bool | None = None
    if isinstance(sampler, DistributedSampler):
        shuffled = bool(sampler.shuffle)
    elif isinstance(sampler, (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)):
        shuffled = True
    elif isinstance(sampler, data.SequentialSampler):
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
        "sampler_drop_last": isinstance(sampler, DistributedSampler) and bool(sampler.drop_last),
        "prepared": type(loader).__name__ in ("DataLoaderShard", "DataLoaderDispatcher"),
    }


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
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def forget_accelerators() -> None:
    """Each program makes its own Accelerator, with its own settings."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    AcceleratorState._reset_state()
    PartialState._reset_state()
    GradientState._reset_state()


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


def run_program(
    task: dict[str, Any], names: dict[str, Any], progress: Callable[[int, int, int], None]
) -> dict[str, Any]:
    """Build the loader, read it for some epochs, say what came; a program's exception is its answer."""
    said = dict(NOT_BUILT)
    epochs: list[list[list[int]]] = []
    error, where, unable = "", "", ""
    try:
        if task["prelude"]:
            progress(4, 0, 0)
            try:
                exec(compile(task["prelude"], "<imports>", "exec"), names)
            except (Exception, SystemExit) as exception:
                unable = words_of(exception)
                raise
        progress(1, 0, 0)
        exec(compile(task["build"], "<recipe>", "exec"), names)
        loader = names["loader"]
        said = declared(loader)
        each_epoch = compile(task["each_epoch"], "<each epoch>", "exec")
        limit = 4 * task["size"] + 1000
        for epoch in range(task["epochs"]):
            progress(2, epoch, 0)
            names["epoch"] = epoch
            exec(each_epoch, names)
            batches: list[list[int]] = []
            progress(3, epoch, 0)
            for batch in loader:
                batches.append(list(indices_of(batch)))
                progress(3, epoch, len(batches))
                if len(batches) > limit:
                    raise RuntimeError(f"the loader does not end: {limit} batches from {task['size']} samples")
            epochs.append(batches)
    except (Exception, SystemExit) as exception:
        error = words_of(exception)
        where = line_of(exception, task["imports"] or [])
    # a name that no recipe may bind: what a program has worked out from what it read, ready for JSON
    value = names.get("__value__")
    return {"epochs": epochs, "error": error, "where": where, "unable": unable, "declared": said, "value": value}


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


def serve(rank: int, group: Group, commands: int, answers: int, trace: Any) -> NoReturn:
    """A rank's life: join the group, then run one program after another."""
    import torch
    import torch.distributed as dist

    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
    torch.set_num_threads(1)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    if group.grouped:
        world = str(group.world)
        os.environ.update(RANK=str(rank), WORLD_SIZE=world, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=world)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")  # never connected to: the store is a file
        store = dist.FileStore(  # type: ignore[attr-defined]
            os.path.join(group.folder, "store"), group.world
        )
        dist.init_process_group("gloo", store=store, rank=rank, world_size=group.world, timeout=timedelta(seconds=600))

    def progress(*values: int) -> None:
        PROGRESS.pack_into(group.progress, rank * PROGRESS.size, *values)

    if group.imports:
        sys.path[:0] = group.imports
        sys.argv[:] = [os.path.join(group.imports[0], "recipe.py")]
        os.chdir(group.imports[-1])
    with os.fdopen(commands, "rb") as inbox:
        for line in inbox:
            task = json.loads(line)
            del ACCESSED[:]
            unknown, trusted = dict(task["unknown"]), task["imports"] is not None
            names = namespace(rank, group.world, group.grouped, task["size"], unknown, task["accelerate"], trusted)
            if task["accelerate"]:
                forget_accelerators()
            seed_everything(1234 + 7919 * rank)  # ranks are seeded differently on purpose
            answer = json.dumps(run_program(task, names, progress)).encode() + b"\n"
            progress(0, 0, 0)
            while answer:
                answer = answer[os.write(answers, answer) :]
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
        self.fresh = True
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
        self.fresh = True
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
        if not self.open:
            self.start()
        fresh, self.fresh = self.fresh, False
        answers, ended = self._ask(task, patience)
        if len(answers) < self.world:
            stops = {rank: ended.get(rank) or self._where(rank) for rank in range(self.world) if rank not in answers}
            self.close()
            if not fresh:  # an earlier program may have left this group out of step: judge only in a new one
                return self.run(task, patience)
        else:
            stops = {}
            steps = {tuple(len(epoch) for epoch in answer["epochs"]) for answer in answers.values()}
            if self.world > 1 and (len(steps) > 1 or any(answer["error"] for answer in answers.values())):
                self.close()  # collectives may be out of step
        nothing: dict[str, Any] = {"epochs": [], "error": "", "where": "", "unable": "", "declared": NOT_BUILT}
        ranks = []
        unable = ""
        for rank in range(self.world):
            answer = answers.get(rank, nothing)
            ranks.append(
                {
                    "rank": rank,
                    "epochs": answer["epochs"],
                    "error": answer["error"],
                    "where": answer["where"],
                    "stopped": stops.get(rank, ""),
                    "value": answer.get("value"),
                }
            )
            if answer["unable"]:
                unable = unable or answer["unable"] + (f" ({answer['where']})" if answer["where"] else "")
        said = answers[min(answers)]["declared"] if answers else NOT_BUILT
        return {"ranks": ranks, "declared": said, "unable": unable}

    def _ask(self, task: dict[str, Any], patience: float) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
        line = json.dumps(task).encode() + b"\n"
        answers: dict[int, dict[str, Any]] = {}
        ended: dict[int, str] = {}
        parts: dict[int, bytes] = {}
        seen, moved = bytes(self.progress), time.monotonic()
        with selectors.DefaultSelector() as selector:
            for rank, fd in enumerate(self.commands):
                with contextlib.suppress(BrokenPipeError):  # its answer pipe says how it ended
                    os.write(fd, line)
                selector.register(self.answers[rank], selectors.EVENT_READ, rank)
            if WATCH_STDIN:
                selector.register(0, selectors.EVENT_READ, None)
            while len(answers) + len(ended) < self.world:
                for key, _ in selector.select(0.25):
                    if key.data is None:
                        if not more_from_stdin():
                            raise ParentGone
                        continue
                    rank = key.data
                    chunk = os.read(key.fd, 1 << 16)
                    parts[rank] = parts.get(rank, b"") + chunk
                    moved = time.monotonic()
                    if parts[rank].endswith(b"\n"):
                        answers[rank] = json.loads(parts[rank])
                        selector.unregister(key.fd)
                    elif not chunk:
                        ended[rank] = how_it_ended(self.pids[rank])
                        self.pids[rank] = 0
                        selector.unregister(key.fd)
                now = bytes(self.progress)
                if now != seen:
                    seen, moved = now, time.monotonic()
                # where one rank has raised or died, the others wait for it in vain
                broken = bool(ended) or any(answer["error"] for answer in answers.values())
                stages = [PROGRESS.unpack_from(now, rank * PROGRESS.size)[0] for rank in range(self.world)]
                wait = min(patience, 2.0) if broken else patience
                if time.monotonic() - moved > (IMPORTING * wait if 4 in stages else wait):
                    break
        return answers, ended

    def _where(self, rank: int) -> str:
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


class Unable(Exception):
    """A program can't be asked about its loader: what it needs before that failed."""


class Runs:
    """All groups of ranks, forked when first asked for, and what is known already: equal programs run once."""

    def __init__(self, patience: float, epochs: int) -> None:
        self.patience = patience
        self.epochs = epochs
        self.groups: dict[tuple[Any, ...], Group] = {}
        self.known: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.stuck: dict[tuple[Any, ...], dict[str, Any]] = {}

    def run(
        self, recipe: dict[str, Any], variant: str, world: int, grouped: bool, size: int, unknown: dict[str, bool]
    ) -> dict[str, Any]:
        """What the ranks read of one variant of a recipe. Raises Unable where its prelude fails."""
        program, accelerate = recipe[variant], recipe["needs_accelerate"]
        imports = tuple(recipe["imports"]) if recipe["imports"] is not None else None
        trust = (imports, recipe["prelude"])
        text = (*program.values(), *trust, accelerate, tuple(unknown.items()), grouped and world > 1)
        key = (*text, world, grouped, size)
        if text in self.stuck:  # what has hung once is not waited for again
            stuck = self.stuck[text]
            return {**stuck, "ranks": [r for r in stuck["ranks"] if r["rank"] < world]}
        if key not in self.known:
            group = self.groups.setdefault((world, grouped, imports), Group(world, grouped, imports))
            task = {**program, "size": size, "unknown": unknown, "accelerate": accelerate, "epochs": self.epochs}
            result = group.run({**task, "imports": imports, "prelude": recipe["prelude"]}, self.patience)
            self.known[key] = result
            if any(rank["stopped"] for rank in result["ranks"]):
                self.stuck[text] = result
        if self.known[key]["unable"]:
            raise Unable(self.known[key]["unable"])
        return self.known[key]

    def observe(self, recipe: dict[str, Any], nproc: int) -> Iterator[dict[str, Any]]:
        """Every observation that the judge wants of one recipe."""
        variants = [v for v in ("before", "after") if recipe[v] is not None]
        worlds = [] if recipe["owner"] == "single" else [nproc, nproc + 1]
        for unknown in assignments(list(recipe["unknown"])):

            def run(variant: str, world: int, grouped: bool, size: int) -> dict[str, Any]:
                result = self.run(recipe, variant, world, grouped, size, unknown)  # noqa: B023
                about = {"variant": variant, "world": world, "grouped": grouped, "size": size}
                return {**about, "unknown": list(unknown.items()), **result}  # noqa: B023

            alone_sizes: list[int] = []
            for world in worlds:
                probes = [self.run(recipe, v, world, True, PROBE, unknown) for v in reversed(variants)]
                built = [p["declared"]["batch_size"] for p in probes if p["declared"]["batch_size"]]
                for size in sizes_for(built[0] if built else None, world):
                    alone_sizes += [size] * (size not in alone_sizes)
                    for variant in variants:
                        yield run(variant, world, True, size)
            if not worlds:
                probes = [self.run(recipe, v, 1, False, PROBE, unknown) for v in reversed(variants)]
                built = [p["declared"]["batch_size"] for p in probes if p["declared"]["batch_size"]]
                alone_sizes = sizes_for(built[0] if built else None, 1)
            for size in alone_sizes:
                alone = [run(variant, 1, False, size) for variant in variants]
                yield from alone
                failed = [any(r["error"] or r["stopped"] for r in o["ranks"]) for o in alone]
                if all(failed) or (any(failed) and recipe["group"] == "always"):
                    for variant in variants:
                        yield run(variant, 1, True, size)

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
        for number, recipe in enumerate(job["recipes"]):
            emit({"kind": "begin", "recipe": number})
            if missing and recipe["needs_accelerate"]:
                emit({"kind": "recipe", "recipe": number, "observations": [], "error": missing})
                continue
            answer: dict[str, Any] = {"kind": "recipe", "recipe": number, "observations": [], "error": ""}
            try:
                answer["observations"] = list(runs.observe(recipe, job["nproc"]))
            except Unable as unable:
                answer["error"] = str(unable)
            emit(answer)
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


def main(target: str) -> int:
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", ACCELERATE_USE_CPU="true", TOKENIZERS_PARALLELISM="false"
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    results = (
        int(target[3:]) if target.startswith("fd:") else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    )
    PARENT_FDS.add(results)

    def emit(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(results, data) :]

    about = {"kind": "ready", "python": sys.executable, "torch": "", "error": ""}
    if not hasattr(os, "fork"):
        emit({**about, "error": f"{sys.platform} has no os.fork; the ranks are forked (Linux, macOS, WSL)"})
        return 2
    try:
        import torch
        import torch.distributed
    except Exception as exception:
        emit({**about, "error": f"{sys.executable} can't import torch: {type(exception).__name__}: {exception}"})
        return 2
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        emit({**about, "error": f"torch {torch.__version__} of {sys.executable} has no gloo backend"})
        return 2
    emit({**about, "torch": str(torch.__version__)})
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
