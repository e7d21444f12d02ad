"""What a codemod declares: its codes, tier, examples as data, and how it plans changes from sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.model import Change, Finding, Location, Options, Tier
from shardfix.analysis.sites import Site


@dataclass(frozen=True, slots=True)
class Example:
    """A small program as data: ``before`` becomes ``after``; where that is empty nothing changes, ``why`` says why.

    Args:
        target: the ``--target`` with which the example is run.
        unsafe: whether it is run with ``--unsafe``.
        code: the code of the change made, or of the finding that says why nothing changes.
    """

    why: str
    before: str
    after: str = ""
    code: str = ""
    target: str = "auto"
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What a codemod has to say of some sites: changes, and findings by site (refusals, hazards, notes)."""

    changes: tuple[Change, ...] = ()
    findings: tuple[tuple[Location, Finding], ...] = ()
    right: tuple[tuple[Location, str], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A codemod.

    Args:
        name: the module's name.
        command: the name under which it runs as a LibCST codemod command.
        codes: each code with its title.
        tier: how far its changes are applied without being asked for.
        tiers: the codes whose tier is another.
        why: the measured facts that make it right, in a paragraph.
        refuses: when it leaves a site alone, in a paragraph.
        valid: programs that are left alone.
        invalid: programs that change.
        plan: from the sites of one module to changes and findings.
    """

    name: str
    command: str
    codes: Mapping[str, str]
    tier: Tier
    why: str
    refuses: str
    plan: Callable[[Sequence[Site], Options], Planned]
    valid: tuple[Example, ...] = field(default=())
    invalid: tuple[Example, ...] = field(default=())
    tiers: Mapping[str, Tier] = field(default_factory=dict)

    def tier_of(self, code: str) -> Tier:
        """The tier of one of the codes."""
        return self.tiers.get(code, self.tier)
