"""The lines outside of Python that start a project's scripts: shell and batch scripts, documents, make and container
files, and the console scripts of its packages."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardfix.analysis.model import Evidence, Launch, Location
from shardfix.sources.git import git, repository
from shardfix.sources.text import SourceError

_SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".mk")
_DOCUMENT = (".md", ".rst")
_NAMES = ("makefile", "dockerfile", "gnumakefile")
_PACKAGING = ("pyproject.toml", "setup.cfg", "setup.py")
_LARGEST = 1 << 20  # bytes of a file; what is larger is no script and no document that a person wrote
_LINES = 64  # physical lines of one command
_MANY = 20_000  # files looked at where there is no git

_BOUNDARY = re.compile(r"&&|\|\||[;|&`()]")
_WORDS = re.compile(r"[^\s\"'`;|&()]+")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*w?$|\$\{?PY(?:THON)?\w*\}?$", re.IGNORECASE)
_LAUNCHERS = frozenset(
    {"torchrun", "torchrun_main", "deepspeed", "horovodrun", "srun", "mpirun", "mpiexec", "bcprun", "composer"}
)
_LAUNCHER_MODULES = frozenset(
    {
        "torch.distributed.launch",
        "torch.distributed.run",
        "torch.distributed.launcher",
        "torch_xla.distributed.xla_dist",
        "accelerate.commands.launch",
        "apex.parallel.multiproc",
        "colossalai.cli",
    }
)
_SECTION = re.compile(r"\s*\[(?P<name>[^\]]+)\]\s*$")
_SCRIPT_SECTIONS = frozenset({"project.scripts", "project.gui-scripts", "tool.poetry.scripts"})
_ENTRY = re.compile(r"""["']?[\w.-]+["']?\s*=\s*["']?(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)""")
_QUOTED_ENTRY = re.compile(r"""["'][\w.-]+\s*=\s*(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)["']""")
_CODE = re.compile(r"(`+)(?P<code>.+?)\1")


def read_launches(root: Path, files: Collection[str]) -> tuple[Launch, ...]:
    """What starts the files of a project: for each the first line that does so in one, and in several processes.

    Args:
        root: the project's root.
        files: the project-relative paths of its Python files.
    """
    scripts = Scripts(frozenset(files))
    found: dict[tuple[str, str, bool], Launch] = {}
    for path in sorted(_candidates(root, files)):
        try:
            with open(root / path, "rb") as file:
                data = file.read(_LARGEST + 1)
        except OSError:
            continue
        if len(data) <= _LARGEST:
            for launch in launches_in(path, data.decode("utf-8", "replace"), scripts):
                found.setdefault((launch.path, launch.function, launch.several), launch)
    return tuple(found.values())


def launches_in(path: str, text: str, scripts: Scripts) -> Iterator[Launch]:
    """The launches that one file names."""
    name = posixpath.basename(path)
    if name in _PACKAGING:
        yield from _console_scripts(path, name, text, scripts)
        return
    folder = posixpath.dirname(path)
    for number, line in _commands(path, text):
        for command in _BOUNDARY.split(line):
            words = _WORDS.findall(command)
            if len(words) == 2 and words[0] in ("cd", "pushd"):
                folder = _moved(posixpath.dirname(path), words[1])
            started = _started(words)
            if started is None:
                continue
            target, is_module, several = started
            script = scripts.module(target, folder) if is_module else scripts.file(target, folder)
            if script is not None:
                evidence = Evidence(Location(path, number, 1), " ".join(line.split())[:200])
                yield Launch(script, "", several, evidence)


def _moved(folder: str, written: str) -> str:
    """Where ``cd`` leads from a folder; nowhere, if that is out of the project or not known."""
    there = posixpath.normpath(posixpath.join(folder, written))
    return folder if "$" in there or there.startswith(("/", "..", "~")) else "" if there == "." else there


def _candidates(root: Path, files: Collection[str]) -> Iterator[str]:
    """The project-relative paths of the files that may name a launch."""
    try:
        if repository(root):
            listed = git(["ls-files", "-z", "--cached", "--others", "--exclude-standard"], root).stdout
            yield from (p for p in {os.fsdecode(name) for name in listed.split(b"\0")} if _may_name(p))
            return
    except SourceError:
        pass
    # Without git: the folders that hold Python files, and those above and directly below them.
    folders = {""}
    for path in files:
        while path := posixpath.dirname(path):
            folders.add(path)
    seen = 0
    for folder in sorted(folders):
        try:
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MANY:
                return
            path = posixpath.join(folder, entry.name)
            if entry.is_file(follow_symlinks=False) and _may_name(path):
                yield path
            elif entry.is_dir(follow_symlinks=False) and path not in folders and entry.name in _FOLDERS:
                yield from (posixpath.join(path, n) for n in sorted(os.listdir(root / path)) if _may_name(n))


_FOLDERS = frozenset({"scripts", "script", "bin", "docs", "doc", "tools", "slurm", "jobs"})


def _may_name(path: str) -> bool:
    name = posixpath.basename(path)
    lower = name.lower()
    return name in _PACKAGING or lower.endswith((*_SHELL, *_DOCUMENT)) or lower.split(".")[0] in _NAMES


# -- lines -----------------------------------------------------------------------------------------------------------


def _commands(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The commands of a file with the number of the line on which each begins: in a document those of its code."""
    document = path.lower().endswith(_DOCUMENT)
    fenced = False
    pending: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if document and stripped.startswith(("```", "~~~")):
            fenced, pending = not fenced, []
            continue
        if document and not pending and not (fenced or line.startswith(("    ", "\t", "$ "))):
            for code in _CODE.finditer(line):
                yield number, code["code"]
            continue
        if not pending and (not stripped or stripped.startswith("#")):
            continue
        start = start if pending else number
        pending.append(stripped.removesuffix("\\").removeprefix("$ ").removeprefix("RUN ").removeprefix("CMD "))
        if stripped.endswith("\\") and len(pending) < _LINES:
            continue
        yield start, " ".join(pending)
        pending = []
    if pending:
        yield start, " ".join(pending)


def _started(words: list[str]) -> tuple[str, bool, bool] | None:
    """What a command starts: a path or the name of a module, which of them it is, and whether in several processes."""
    several = running = False
    option = False  # whether the word before is an option, which may take this one as its value
    at = 0
    while at < len(words):
        word = words[at].strip(",[]{}") if running else words[at]
        at += 1
        base = word.rsplit("/", 1)[-1]
        if base in _LAUNCHERS or (base == "accelerate" and words[at : at + 1] == ["launch"]):
            at += base == "accelerate"
            several = running = True
            option = False
        elif _PYTHON.match(word):
            running, option = True, False
        elif not running or not word:  # a word of CMD ["python", "train.py"]
            continue
        elif word in ("-m", "--module") and at < len(words):
            module = words[at]
            at += 1
            if module not in _LAUNCHER_MODULES:
                return module, True, several
            several, option = True, False
        elif word.endswith(".py") and not word.startswith("-"):
            return word, False, several
        elif word.startswith("-"):
            option = "=" not in word
        elif option:
            option = False
        elif word.startswith("$") or re.fullmatch(r"\w+=\S*", word):
            continue  # ${OPTIONS}, or a variable set for what follows
        else:
            running = option = False
    return None


# -- the files that they name ------------------------------------------------------------------------------------------


@dataclass
class Scripts:
    """The Python files of a project, to be found by the paths and names that people write."""

    files: frozenset[str]
    by_name: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted(self.files):
            self.by_name.setdefault(posixpath.basename(path), []).append(path)

    def file(self, written: str, folder: str) -> str | None:
        """The file that a path names: from the folder, or one above it, or the only one that ends so.

        Variables and roots of other machines are dropped from its front.
        """
        parts = written.replace("\\", "/").split("/")
        opaque = max((i for i, part in enumerate(parts) if "$" in part or "{" in part or "<" in part), default=-1)
        moved = opaque >= 0 or written.startswith(("/", "~"))
        tail = [p for p in parts[opaque + 1 :] if p not in ("", "~")]
        if not tail:
            return None
        if not moved:
            direct = posixpath.normpath(posixpath.join(folder, *tail))
            if direct in self.files or ".." in tail:
                return direct if direct in self.files else None
        names = [p for p in tail if p not in (".", "..")]
        while names:
            found = self._nearest("/".join(names), folder)
            if found is not None or not moved:
                return found
            names = names[1:]
        return None

    def module(self, dotted: str, folder: str) -> str | None:
        """The file of a module's name."""
        if not re.fullmatch(r"[A-Za-z_][\w.]*", dotted):
            return None
        path = dotted.replace(".", "/")
        return self._nearest(f"{path}.py", folder) or self._nearest(f"{path}/__main__.py", folder)

    def _nearest(self, tail: str, folder: str) -> str | None:
        """The only file that ends in a path, in the folder or the nearest one above it that has such files."""
        found = [p for p in self.by_name.get(posixpath.basename(tail), ()) if p == tail or p.endswith(f"/{tail}")]
        while found:
            above = f"{folder}/" if folder else ""
            direct = f"{above}{tail}"
            if direct in found:
                return direct
            near = [p for p in found if p.startswith(above)]
            if near:
                return near[0] if len(near) == 1 else None
            if not folder:
                return None
            folder = posixpath.dirname(folder)
        return None


def _console_scripts(path: str, name: str, text: str, scripts: Scripts) -> Iterator[Launch]:
    """The functions that the commands of a package call."""
    folder = posixpath.dirname(path)
    section = ""
    listed = False
    for number, line in enumerate(text.splitlines(), 1):
        header = _SECTION.match(line)
        if header:
            section, listed = header["name"].strip(), False
        if name == "setup.cfg":
            if re.match(r"\s*(?:console|gui)_scripts\s*=", line):
                listed = True
            elif line[:1].strip():
                listed = False
        if name == "setup.py":
            entry = _QUOTED_ENTRY.search(line)
        elif (name == "pyproject.toml" and section in _SCRIPT_SECTIONS) or listed:
            entry = _ENTRY.search(line)
        else:
            entry = None
        script = scripts.module(entry["module"], folder) if entry else None
        if entry and script is not None:
            yield Launch(script, entry["function"], False, Evidence(Location(path, number, 1), line.strip()[:200]))


__all__ = ["Scripts", "launches_in", "read_launches"]
