"""What the user asked for: `[tool.shardfix]` of the project's pyproject.toml, with the command line on top."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from shardfix.analysis.model import Evidence, Location, Options, Setting, Target

if TYPE_CHECKING:
    from shardfix.analysis.answers import Question

TARGETS = ("auto", "accelerate", "ddp")
SANITIZER = ("changed", "all", "off")
SANITIZER_FROM = ("vendor", "package")
KEYS = (
    "target",
    "exclude",
    "select",
    "ignore",
    "prepare-functions",
    "sanitizer",
    "sanitizer-from",
    "eval-set-epoch",
    "per-file-ignores",
    "owners",
    "roles",
)


class ConfigError(Exception):
    """A setting that can't be used, told in one line: where, what, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Config:
    """What holds for one project. ``exclude`` are gitignore-style patterns relative to ``root``."""

    root: Path
    options: Options
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says; None where it says nothing, so that the project's own settings hold.

    ``cosmetic`` None: on. A selection on the command line or in the settings turns it on in any case.
    """

    target: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    unsafe: bool = False
    sanitizer: str | None = None
    sanitizer_from: str | None = None
    cosmetic: bool | None = None


def load(root: Path, asked: Asked | None = None) -> Config:
    """The settings for the project at ``root``.

    Raises ConfigError for a pyproject.toml that can't be read, an unknown key, a value of the wrong type, or a code
    or codemod that does not exist.
    """
    asked = asked or Asked()
    given = _Settings(root / "pyproject.toml")
    select = given.codes("select") if asked.select is None else checked_codes(asked.select, "--select")
    ignore = given.codes("ignore") if asked.ignore is None else checked_codes(asked.ignore, "--ignore")
    cosmetic = True if asked.cosmetic is None else asked.cosmetic
    options = Options(
        target=cast(Target, asked.target or given.choice("target", TARGETS)),
        unsafe=asked.unsafe,
        cosmetic=cosmetic or bool(select),
        select=select,
        ignore=ignore,
        sanitizer=cast(Literal["changed", "all", "off"], asked.sanitizer or given.choice("sanitizer", SANITIZER)),
        sanitizer_from=cast(
            Literal["vendor", "package"], asked.sanitizer_from or given.choice("sanitizer-from", SANITIZER_FROM)
        ),
        eval_set_epoch=given.truth("eval-set-epoch", default=True),
        prepare_functions=given.strings("prepare-functions"),
        per_file_ignores=given.codes_by_file("per-file-ignores"),
        owners=given.answers("owners", "owner"),
        roles=given.answers("roles", "role"),
    )
    return Config(root, options, given.strings("exclude"))


def checked_codes(codes: Sequence[str], where: str) -> tuple[str, ...]:
    """Codes (`SHD201`), beginnings of codes (`SHD2`) and names of codemods, in their one spelling.

    Raises ConfigError naming ``where`` for one that is none of these.
    """
    if not codes:
        return ()
    from shardfix.report.catalogue import selectors

    known = selectors()
    result = []
    for code in codes:
        upper, name = code.strip().upper(), code.strip().lower().replace("-", "_")
        if name in known:
            result.append(name)
        elif upper.startswith("SHD") and any(entry.startswith(upper) for entry in known):
            result.append(upper)
        else:
            raise ConfigError(f"{where}: unknown code or codemod {code!r}; {_way_out(code, known)}")
    return tuple(result)


def nearest(word: str, known: Collection[str]) -> tuple[str, ...]:
    """The known words that were probably meant, the likeliest first."""
    import difflib

    by_spelling = {entry.lower(): entry for entry in known}
    word = word.lower()
    begun = [entry for spelling, entry in by_spelling.items() if word and spelling.startswith(word)]
    # Codes are alike where one character differs; difflib would rank by the longest common stretch.
    slips = [
        entry
        for spelling, entry in sorted(by_spelling.items())
        if len(spelling) == len(word) and sum(a != b for a, b in zip(spelling, word, strict=True)) == 1
    ]
    alike = [by_spelling[entry] for entry in difflib.get_close_matches(word, by_spelling, n=3, cutoff=0.6)]
    return tuple(dict.fromkeys(sorted(begun)[:5] + slips + ([] if begun or slips else alike)))


def _way_out(code: str, known: Collection[str]) -> str:
    meant = nearest(code.replace("-", "_"), known)
    return (f"did you mean {' or '.join(meant[:3])}? " if meant else "") + "`shardfix rules` lists them"


class _Settings:
    """`[tool.shardfix]` as it stands in the file, handed out checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text, self.table = _table(path)
        for key in self.table:
            if key not in KEYS:
                meant = nearest(key, KEYS)
                way_out = f"did you mean {meant[0]!r}?" if meant else f"there are: {', '.join(KEYS)}"
                raise ConfigError(f"{path}: [tool.shardfix] has an unknown key {key!r}; {way_out}")

    def wrong(self, key: str, expected: str) -> ConfigError:
        value = self.table[key]
        return ConfigError(f"{self.path}: [tool.shardfix] {key} is {value!r}; it must be {expected}")

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.table.get(key, allowed[0])
        if value not in allowed:
            raise self.wrong(key, " or ".join(f'"{word}"' for word in allowed))
        return str(value)

    def truth(self, key: str, *, default: bool) -> bool:
        value = self.table.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        if not _is_strings(value):
            raise self.wrong(key, 'a list of strings, as in ["a", "b"]')
        return tuple(value)

    def codes(self, key: str) -> tuple[str, ...]:
        return checked_codes(self.strings(key), f"{self.path}: [tool.shardfix] {key}")

    def codes_by_file(self, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        value = self.table.get(key, {})
        if not isinstance(value, Mapping) or not all(_is_strings(codes) for codes in value.values()):
            raise self.wrong(key, 'a table of pattern = list of codes, as in { "legacy/*" = ["SHD3"] }')
        where = f"{self.path}: [tool.shardfix.{key}]"
        return tuple((pattern, checked_codes(codes, f"{where} {pattern!r}")) for pattern, codes in value.items())

    def answers(self, key: str, question: Question) -> tuple[Setting, ...]:
        """The answers to a question, each with its line: what is named = a word of ``analysis.answers``."""
        if key not in self.table:
            return ()
        from shardfix.analysis.answers import VOCABULARY

        words = VOCABULARY[question]
        named = _flat(self.table[key])
        if named is None:
            example = f'{{ "pkg.data.make_loader" = "{next(iter(words))}" }}'
            raise self.wrong(key, f"a table of name = word, as in {example}")
        for name, word in named.items():
            if word not in words:
                meant = nearest(word, words)
                way_out = f"did you mean {meant[0]!r}?" if meant else f"it is one of {', '.join(words)}"
                raise ConfigError(f"{self.path}: [tool.shardfix.{key}] {name!r} is {word!r}; {way_out}")
        return tuple(Setting(name, word, self.line_of(key, name)) for name, word in named.items())

    def line_of(self, key: str, name: str) -> Evidence:
        """The line of an entry of a table, as evidence; of the table or the file where it is written otherwise."""
        lines = self.text.splitlines()
        head = next((i for i, line in enumerate(lines) if re.match(rf"\s*\[tool\.shardfix\.{key}\]", line)), 0)
        entry = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*=""")
        number = next((i for i in range(head, len(lines)) if entry.match(lines[i])), head)
        return Evidence(Location(self.path.name, number + 1, 1), lines[number].strip())


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _flat(value: object, prefix: str = "") -> dict[str, str] | None:
    """A table of strings; TOML reads an unquoted ``pkg.data = "x"`` as tables in tables, which are joined again."""
    if not isinstance(value, Mapping):
        return None
    found: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, str):
            found[prefix + name] = item
            continue
        inner = _flat(item, f"{prefix}{name}.")
        if inner is None:
            return None
        found |= inner
    return found


def _table(path: Path) -> tuple[str, Mapping[str, Any]]:
    """The file's text and what it says to shardfix."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror}); make it readable, or remove it") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8, which TOML must be; save it as UTF-8") from None
    if "shardfix" not in text:
        return text, {}  # what other tools made of the file is not our concern
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        tool = tomllib.loads(text.replace("\r\n", "\n")).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML ({error}); correct it") from None
    table = tool.get("shardfix", {}) if isinstance(tool, Mapping) else {}
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: `shardfix` in [tool] is {table!r}; it must be a table, [tool.shardfix]")
    return text, table
