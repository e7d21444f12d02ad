"""How a watched process ends: with its parent at the latest, and never without saying why it did."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import os
import select
import signal
import sys
import threading
import traceback
from typing import Any, NoReturn

from .places import OWN, in_library, user_place
from .recorder import Recorder

F_SETSIG = 10  # of Linux; the fcntl module has no name for it


def end_with_parent(folder: str) -> None:
    """End this process and its group when the run that it belongs to ends, by whatever ended that.

    The run holds the writing end of a fifo in its folder, and a lock. On Linux the kernel ends the group when the fifo
    is closed, so that nothing in here needs to run; elsewhere a thread does.
    """
    fifo = os.path.join(folder, "life")
    if os.getpgrp() != os.getpid() or not os.path.exists(fifo):
        return  # the leader of the group sees to it
    life = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if sys.platform == "linux":
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    else:
        threading.Thread(target=_wait_for_end, args=(life,), daemon=True).start()
    with open(os.path.join(folder, "lock")) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return
    os.killpg(os.getpgrp(), signal.SIGKILL)  # nobody holds the lock: the run ended before this process could watch it


def _wait_for_end(life: int) -> None:
    select.select([life], [], [])
    os.killpg(os.getpgrp(), signal.SIGKILL)


def signal_for_stacks() -> int:
    """Asks a process where it stands; one that programs have no use for."""
    return signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR1


def tell_ending(recorder: Recorder) -> None:
    """Write down what ends this process: an exception, an exit and its place, a signal, or nothing but its own end;
    and where it stands, if asked."""
    stacks = open(os.path.join(recorder.options.folder, f"stacks-{os.getpid()}"), "w")  # noqa: SIM115
    faulthandler.register(signal_for_stacks(), file=stacks, all_threads=True)
    crash = open(os.path.join(recorder.options.folder, f"crash-{os.getpid()}"), "w")  # noqa: SIM115
    with contextlib.suppress(Exception):
        faulthandler.enable(file=crash, all_threads=False)
    hook, leave, leave_now = sys.excepthook, sys.exit, os._exit

    def say(kind: Any, error: Any, trace: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            recorder.emit("raised", kind=kind.__name__, text=readable(error))
        hook(kind, error, trace)

    def exit_(status: Any = None, /) -> NoReturn:
        _say_exit(recorder, status)
        leave(status)

    def exit_now(status: int) -> NoReturn:
        _say_exit(recorder, status)
        leave_now(status)

    atexit.register(recorder.emit, "over")  # first in, last out: what comes after is the interpreter's own end
    sys.excepthook = say
    sys.exit = exit_
    os._exit = exit_now


def _say_exit(recorder: Recorder, status: Any) -> None:
    if recorder._pid in (0, os.getpid()):  # not in a forked child, which leaves by os._exit
        place = user_place()
        if in_library(place.path):
            return
        with contextlib.suppress(Exception):
            recorder.emit("exit", status=repr(status), path=place.path, line=place.line)


def readable(error: BaseException) -> str:
    """A traceback without the frames of this observer."""
    shown = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    todo: list[Any] = [shown]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        kept = [frame for frame in one.stack if not frame.filename.startswith(OWN)]
        one.stack = traceback.StackSummary.from_list(kept)
        todo += [one.__cause__, one.__context__]
    return "".join(shown.format())
