"""Put out what a command has to say: text or JSON, to standard output or beside a diff; patches and pictures."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from shardfix.report.terminal import Page
from shardfix.result import RunResult

if TYPE_CHECKING:
    from shardfix.proof.model import Proof


def print_json(results: Sequence[RunResult]) -> None:
    import json

    from shardfix.report.json import document

    json.dump(document(results), sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()


def print_pages(results: Sequence[RunResult], page_of: Callable[[RunResult], Page], stream: TextIO) -> None:
    from shardfix.report.terminal import emit

    for number, result in enumerate(results):
        page = page_of(result)
        if number:
            page.lines.insert(0, ())
        emit(page, stream)


def write_patch(data: bytes, file: str) -> None:
    """Write a patch to a file. Raises OutputError if that can't be done."""
    write_file(data, file, "the patch")


def draw_svg(proofs: Sequence[Proof], file: str, stream: TextIO) -> None:
    """Write the picture of all loaders that were run to a file, and say so in a line.

    Raises OutputError if that can't be done.
    """
    from shardfix.proof.sheet import pictures_of, sheet_svg
    from shardfix.report.terminal import visible

    pictures = pictures_of(proofs)
    if not pictures:
        stream.write(f"no picture: no loader was run, so {visible(file)} is left as it is\n")
        return
    write_file(sheet_svg(pictures).encode() + b"\n", file, "the picture")
    of = f" of {len(proofs)}" if len(proofs) > len(pictures) else ""
    stream.write(f"picture of {len(pictures)}{of} loader{'s' * (len(proofs) > 1)}: {visible(file)}\n")


def write_file(data: bytes, file: str, what: str) -> None:
    """Write a file anew beside its place, then put it there: it is the old one or the new one, never a part.

    Raises OutputError if that can't be done.
    """
    path = Path(os.path.realpath(file))
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe
            path.write_bytes(data)
            return
        with open(beside, "xb") as new:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise OutputError(f"{file}: {what} can't be written ({error.strerror}); name another file") from None


class OutputError(Exception):
    """A file that was asked for could not be written."""
