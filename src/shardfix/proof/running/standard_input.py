"""Jobs from standard input, one a line; its end means that whoever asked is not there any more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any


class ParentGone(Exception):
    """Standard input was closed while a job was done."""


class StandardInput:
    """What was read of standard input and is no whole line yet; ``watched``: its end is looked for during a job."""

    def __init__(self) -> None:
        self.pending = b""
        self.watched = False

    def more(self) -> bool:
        """Read what there is; False at the end."""
        chunk = os.read(0, 1 << 16)
        self.pending += chunk
        return bool(chunk)

    def jobs(self) -> Iterator[dict[str, Any]]:
        """One JSON job a line, until standard input ends."""
        while True:
            line, newline, rest = self.pending.partition(b"\n")
            if not newline:
                if not self.more():
                    if self.pending.strip():
                        self.watched = False
                        yield json.loads(self.pending)
                    return
                continue
            self.pending = rest
            if line.strip():
                job = json.loads(line)
                self.watched = bool(job.get("watch_stdin"))
                yield job


STDIN = StandardInput()
