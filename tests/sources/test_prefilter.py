"""The prefilter hands over a file's bytes only if a needle is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.sources.prefilter import mentions
from shardfix.sources.text import SourceError


def test_bytes_come_back_only_with_a_needle(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"loader = DataLoader(ds)\r\n")
    assert mentions(file, [b"prepare", b"DataLoader"]) == b"loader = DataLoader(ds)\r\n"
    assert mentions(file, [b"prepare"]) is None


def test_a_file_that_is_gone_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.py: cannot be read: No such file or directory; "):
        mentions(tmp_path / "gone.py", [b"x"])
