"""Ask git about files without letting the repository run anything: no hooks, monitors, filters or transports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix.sources.text import SourceError

if TYPE_CHECKING:
    from subprocess import CompletedProcess

# What git must not take from a repository's own config. A hooks folder that can't hold a file runs no hook.
SAFE_CONFIG = (
    "core.fsmonitor=false",
    "core.pager=cat",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "status.renames=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.bareRepository=explicit",
    "protocol.ext.allow=never",
)
_KEPT_ENV = (
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_SSL_",
)
_KEPT_ENV_NETWORK = ("GIT_SSH", "GIT_ASKPASS", "GIT_HTTP_", "GIT_PROXY_")
# These look at names and refs only, so that no filter of .gitattributes can come into play.
_NEVER_FILTERS = frozenset({"ls-files", "rev-parse", "check-ignore", "config", "symbolic-ref", "init", "version"})
_FILES_PER_CALL = 500


def git_env(*, network: bool = False) -> dict[str, str]:
    """The environment git is run in.

    What points git at another repository or config (``GIT_DIR``, ``GIT_INDEX_FILE``, ``GIT_CONFIG_COUNT`` ...) is
    taken out; who commits and the user's own config stay. Without ``network`` no transport is allowed at all, so
    that a partial clone can't fetch either.
    """
    kept = _KEPT_ENV + _KEPT_ENV_NETWORK if network else _KEPT_ENV
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)}
    env.pop("LANGUAGE", None)
    env |= {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
    }
    if not network:
        env |= {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
    return env


def git(
    args: Sequence[str],
    cwd: Path,
    *,
    input: bytes | None = None,
    check: bool = True,
    hooks: bool = False,
    network: bool = False,
    timeout: float | None = 600,
) -> CompletedProcess[bytes]:
    """Run ``git ARGS`` in a folder and give back its exit code, output and errors, as bytes.

    The repository's config runs nothing: hooks only with ``hooks``, transports only with ``network``, filters of
    ``.gitattributes`` never. (A caller that asks for patches passes ``--no-ext-diff --no-textconv``.) Pathspecs are
    literal. Raises SourceError when git is missing or slower than ``timeout`` seconds and, with ``check``, when it
    fails.
    """
    import subprocess

    config = list(SAFE_CONFIG)
    if not hooks:
        config.append(f"core.hooksPath={os.devnull}")
    if args[0] not in _NEVER_FILTERS:
        config += _filters_off(cwd)
    command = ["git", *(part for setting in config for part in ("-c", setting)), *args]
    env = git_env(network=network)
    if args[0] == "check-ignore":
        del env["GIT_LITERAL_PATHSPECS"]  # the one command that refuses it
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            timeout=timeout,
        )
    except FileNotFoundError:
        if not os.path.isdir(cwd):
            raise SourceError(cwd, reason="no such folder", remedy="correct the path")
        raise SourceError(cwd, reason="git is not installed", remedy="install git or put it on PATH")
    except subprocess.TimeoutExpired:
        raise SourceError(cwd, reason=f"git {args[0]} took over {timeout:g} s", remedy="try `git status` there by hand")
    except OSError as error:
        raise SourceError(cwd, reason=f"git could not be started: {error.strerror}", remedy="check the rights there")
    if check and done.returncode != 0:
        raise _failure(args, cwd, done.stderr)
    return done


def repository(path: Path) -> Path | None:
    """The nearest folder at or above a path that holds ``.git`` (a folder, or a file in worktrees and submodules)."""
    start = Path(os.path.realpath(path))
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return None


def git_dir(path: Path) -> Path | None:
    """The folder where the repository around a path keeps its own data, also for worktrees and submodules."""
    top = repository(path)
    if top is None:
        return None
    entry = top / ".git"
    try:
        if entry.is_file():
            line = entry.read_text("utf-8", "surrogateescape")
            entry = top / line.removeprefix("gitdir:").strip()
        return entry if (entry / "HEAD").is_file() else None
    except (OSError, ValueError):
        return None


def inside_git(path: Path) -> bool:
    """Whether a file or folder lies in a git work tree, so that git can bring back what is overwritten.

    Raises SourceError when there is a repository that git refuses to read (another user's, for one).
    """
    folder = path if path.is_dir() else path.parent
    if repository(folder) is None:
        return False
    done = git(["rev-parse", "--is-inside-work-tree"], folder, check=False)
    nowhere = b"not a git repository" in done.stderr or b"bare repository" in done.stderr
    if done.returncode != 0 and not nowhere:
        raise _failure(["rev-parse"], folder, done.stderr)
    return done.stdout.strip() == b"true"


def is_tracked_dirty(root: Path, files: Iterable[Path]) -> set[Path]:
    """Those of the files that git tracks and that differ from the last commit, in the work tree or in the index.

    Also counted: files git was told not to look at (``assume-unchanged``, ``skip-worktree``). Not counted: untracked
    files (see `untracked`). Relative files are taken from ``root``; each comes back as it was given.
    Raises SourceError when git can't tell.
    """
    dirty = set()
    for top, named in _by_repository(root, files):
        for part in _chunks(list(named)):
            status = git(["status", "--porcelain", "-z", "--ignore-submodules=all", "-uno", "--", *part], top)
            dirty |= {named[name] for name in (os.fsdecode(row[3:]) for row in _rows(status.stdout)) if name in named}
            flags = git(["ls-files", "-v", "-z", "--", *part], top)
            for row in _rows(flags.stdout):
                hidden = row[:1].islower() or row[:1] == b"S"
                name = os.fsdecode(row[2:])
                if hidden and name in named:
                    dirty.add(named[name])
    return dirty


def untracked(root: Path, files: Iterable[Path]) -> set[Path]:
    """Those of the files (given as for `is_tracked_dirty`) that no commit can bring back: untracked, or not in git."""
    result = {file for file in files if repository((root / file).parent) is None}
    for top, named in _by_repository(root, files):
        known: set[str] = set()
        for part in _chunks(list(named)):
            known.update(map(os.fsdecode, _rows(git(["ls-files", "-z", "--", *part], top).stdout)))
        result |= {file for name, file in named.items() if name not in known}
    return result


def _filters_off(cwd: Path) -> list[str]:
    """Settings that turn off every content filter configured for a repository: `git status` would run them."""
    listed = git(["config", "-z", "--name-only", "--get-regexp", r"^filter\."], cwd, check=False)
    drivers = {os.fsdecode(name).rpartition(".")[0] for name in _rows(listed.stdout)}
    off = []
    for driver in sorted(drivers):
        if "=" in driver or "\n" in driver:  # can't be named in `git -c`
            reason = f"the repository configures a filter named {driver.partition('.')[2]!r}, which git would run"
            raise SourceError(cwd, reason=reason, remedy="look at .git/config and remove it")
        off += [f"{driver}.clean=", f"{driver}.smudge=", f"{driver}.process=", f"{driver}.required=false"]
    return off


def _by_repository(root: Path, files: Iterable[Path]) -> list[tuple[Path, dict[str, Path]]]:
    """The files of each repository: the name git has for each (from the top folder), and the path as given."""
    found: dict[Path, dict[str, Path]] = {}
    tops: dict[Path, Path | None] = {}
    for file in files:
        folder = (root / file).parent
        if folder not in tops:
            tops[folder] = repository(folder)
        top = tops[folder]
        if top is not None:
            real = os.path.join(os.path.realpath(folder), file.name)
            found.setdefault(top, {})[os.path.relpath(real, top).replace(os.sep, "/")] = file
    return list(found.items())


def _chunks(names: list[str]) -> list[list[str]]:
    return [names[i : i + _FILES_PER_CALL] for i in range(0, len(names), _FILES_PER_CALL)]


def _rows(output: bytes) -> list[bytes]:
    return [row for row in output.split(b"\0") if row]


def _failure(args: Sequence[str], cwd: Path, stderr: bytes) -> SourceError:
    said = stderr.decode("utf-8", "replace").strip()
    first = next((line for line in said.splitlines() if line.startswith(("fatal:", "error:"))), said.partition("\n")[0])
    if "dubious ownership" in said or "unsafe repository" in said:
        remedy = f"if you trust it: git config --global --add safe.directory {repository(cwd) or cwd}"
    else:
        remedy = f"try `git {args[0]}` there by hand"
    return SourceError(cwd, reason=f"git {args[0]} failed: {first.removeprefix('fatal: ')}", remedy=remedy)
