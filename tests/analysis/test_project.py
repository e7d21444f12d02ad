"""What a name is, as far as the modules of a project show it."""

from __future__ import annotations

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link


def test_a_name_of_an_unread_file_stays_as_it_is_in_the_project_of_a_library() -> None:
    """The star imports lead to files that were not read: no name is made up of what they may hold."""
    package = parse("transformers/__init__.py", "from .dummies import *\nfrom .others import *\n")
    script = parse("run.py", "from transformers import pipeline\npipeline.of.parts\n")
    project = link({m.path: m for m in (package, script)})

    assert project.resolve("transformers.pipeline", script) == {"transformers.pipeline"}
