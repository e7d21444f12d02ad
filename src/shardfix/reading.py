"""From paths to a linked project: find the files, read those that matter, parse them, link them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardfix.analysis.code.module import Module, ParseFailure, parse
from shardfix.analysis.code.old_names import readable
from shardfix.analysis.code.project import Project, link
from shardfix.analysis.loaders.beyond import Beyond, beyond, constructions, imports
from shardfix.analysis.model import Evidence, Location, Options
from shardfix.analysis.sites import loader_subclasses
from shardfix.config import Config
from shardfix.result import Problem
from shardfix.sources.discover import discover
from shardfix.sources.installed import installed
from shardfix.sources.launches import read_launches
from shardfix.sources.prefilter import mentions, read
from shardfix.sources.templates import REASON as TEMPLATE
from shardfix.sources.templates import breaks_at_tag
from shardfix.sources.text import SourceError, SourceText, decode

# A file that holds none of these makes no loader and starts no program that owns one. Project classes that derive
# from DataLoader are looked for by their own names once they are known.
NEEDLES = (
    b"DataLoader",
    b"WebLoader",
    b"torch_geometric.loader",
    b"torch.utils.data",
    b"init_process_group",
    b"DistributedDataParallel",
    b"FullyShardedDataParallel",
    b"DistributedSampler",
    b"Accelerator",
    b"set_epoch",
    b"LightningModule",
    b"LightningDataModule",
    # What starts the processes of a framework, or parts them into groups, may stand in a file that makes no loader.
    b"pytorch_lightning",
    b"import lightning",
    b"from lightning",
    b"Fabric(",
    b"deepspeed.init",
    b"horovod.torch",
    b"xla_multiprocessing",
    b"MpDeviceLoader",
    b"ray.train",
    b"ignite.distributed",
    b"from composer",
    b"colossalai",
    b"jax.pmap",
    b"DeviceMesh(",
    b"init_device_mesh",
    b"parallelize_module",
    b"initialize_model_parallel",
    b"get_data_parallel_",
)
_HOPS = 4  # how many files a name is followed through to where it is defined
_MARK = b"`shardfix migrate` copies this one file"  # in the run-time check that is put beside a program


_REQUIREMENTS = ("requirements*.txt", "requirements/*.txt", "pyproject.toml", "setup.cfg", "environment*.y*ml")
_PIN = re.compile(r"""^[\s\-"'\[]*accelerate(?:\[[^\]]*\])?\s*(?P<how>===?|~=|<=?)\s*(?P<version>\d+(?:\.\d+)*)""")
# 0.24 repeats its order, 0.25 to 0.29 overlap unless all ranks are seeded alike; 0.22 and 0.23 do neither (measured).
_FIRST, _FLOOR = (0, 24), (0, 30)


@dataclass(frozen=True)
class Reading:
    """A project as read: bytes and decoded text of every file that matters, by project-relative path."""

    project: Project
    chosen: frozenset[str]
    data: dict[str, bytes]
    texts: dict[str, SourceText]
    files: frozenset[str]
    options: Options
    problems: tuple[Problem, ...]
    skipped: tuple[tuple[str, str], ...]
    scanned_files: int


def relative(path: Path, root: Path) -> str:
    """A path as reports show it: relative to the root, with ``/``."""
    return os.path.relpath(path, root).replace(os.sep, "/")


def read_project(paths: Sequence[Path], config: Config, python: str | None = None) -> Reading:
    """Read a project. ``paths`` choose what may be edited; facts come from every file below the root.

    ``python``: the interpreter that the user named as the project's; only what it has installed is looked at.

    Raises:
        SourceError: a path that does not exist.
    """
    root = config.root
    whole = discover([root], root=root, exclude=config.exclude)
    all_of_it = not paths or [Path(os.path.abspath(p)) for p in paths] == [Path(os.path.abspath(root))]
    named = whole if all_of_it else discover(paths, root=root, exclude=config.exclude)
    chosen = {relative(p, root) for p in named.files}
    files = {relative(p, root): p for p in (*whole.files, *named.files)}
    data: dict[str, bytes] = {}
    texts: dict[str, SourceText] = {}
    modules: dict[str, Module] = {}
    problems: list[Problem] = []
    templates: list[tuple[str, str]] = []
    words: dict[str, frozenset[bytes]] = {}  # of the imports of the files that are not parsed

    def take(wanted: Mapping[str, Path], needles: Sequence[bytes], quiet: bool = False) -> None:
        for path, place in sorted(wanted.items()):
            try:
                content = mentions(place, needles)
                if content is None or _MARK in content[:400]:
                    continue
                text = decode(content, path)
                text, modules[path] = _parsed(path, text)
            except SourceError as error:
                if path in chosen and not quiet:
                    problems.append(Problem(path, str(error).removeprefix(f"{path}: ").removeprefix(path)))
                continue
            except ParseFailure as failure:
                if path in chosen and not quiet:
                    if breaks_at_tag(text.text, failure.location.line):
                        templates.append((path, TEMPLATE))
                    else:
                        problems.append(Problem(str(failure.location), failure.reason, failure.remedy))
                continue
            data[path], texts[path] = content, text

    def take_callers(more: Beyond) -> None:
        for path, place in sorted(files.items()):
            if path in modules or not more.callers:
                continue
            if path not in words:
                words[path] = imports(read(place))
            names = more.imported(words[path])
            if names:
                take({path: place}, names, quiet=True)

    take(files, NEEDLES)
    project = link(modules)
    subclasses = loader_subclasses(project)
    derived = {name.rpartition(".")[2].encode() for name in subclasses}
    unknown = sorted(name for name in derived if not any(needle in name for needle in NEEDLES))
    if unknown:
        take({path: place for path, place in files.items() if path not in modules}, unknown)
        project = link(modules)
    made = constructions(project, subclasses)
    asked: set[tuple[str, str]] = set()
    for _ in range(_HOPS):
        before = len(modules)
        more = beyond(project, files, made, config.options.prepare_functions)
        take({path: files[path] for path in more.files}, (b"",), quiet=True)  # whatever they mention
        take_callers(replace(more, callers=more.callers - asked))
        asked |= more.callers
        if len(modules) == before:
            break
        project = link(modules)
    skipped = tuple((relative(p, root), reason) for p, reason in named.skipped)
    notes = tuple((relative(root, root), note) for note in named.notes)
    return Reading(
        project,
        frozenset(chosen),
        data,
        texts,
        frozenset(files),
        replace(
            config.options,
            old_accelerate=old_accelerate(root),
            installed_accelerate=installed_accelerate(root, python),
            launches=read_launches(root, files),
        ),
        tuple(problems),
        (*skipped, *templates, *notes),
        len(chosen),
    )


def _parsed(path: str, text: SourceText) -> tuple[SourceText, Module]:
    """A file's module, with its text as it was parsed.

    Raises:
        ParseFailure: no Python that is known could.
    """
    try:
        return text, parse(path, text.text)
    except ParseFailure:
        old = readable(text.text)
        if old is None:
            raise
    text = replace(text, text=old)
    return text, parse(path, text.text)


def old_accelerate(root: Path) -> Evidence | None:
    """The line of the project's requirements that asks for an accelerate from 0.24 to 0.29."""
    for pattern in _REQUIREMENTS:
        for place in sorted(root.glob(pattern)):
            try:
                lines = place.read_text("utf-8", "replace").splitlines()
            except OSError:
                continue
            for number, line in enumerate(lines, 1):
                pin = _PIN.match(line)
                if pin is None:
                    continue
                version = tuple(map(int, pin["version"].split(".")))[:2]
                if pin["how"] == "<":
                    told = _FIRST < version <= _FLOOR
                else:
                    told = _FIRST <= version < _FLOOR
                if told:
                    return Evidence(Location(relative(place, root), number, 1), line.strip())
    return None


def installed_accelerate(root: Path, python: str | None = None) -> Evidence | None:
    """The metadata of the accelerate from 0.24 to 0.29 that the project's own environment holds."""
    found = installed("accelerate", root, python)
    if found is None or not _FIRST <= tuple(int(n) for n in re.findall(r"\d+", found.version)[:2]) < _FLOOR:
        return None
    inside = found.path.is_relative_to(root)
    path = relative(found.path, root) if inside else str(found.path)
    return Evidence(Location(path, found.line, 1), f"Version: {found.version}")


def reread(reading: Reading, results: dict[str, str]) -> Project:
    """The project made anew, with these files' texts in the place of the old ones."""
    modules: dict[str, Module] = {}
    for path, module in reading.project.modules.items():
        modules[path] = parse(path, results.get(path, module.text))
    for path, text in results.items():
        if path not in modules:
            modules[path] = parse(path, text)
    return link(modules)
