"""What a judge has found so far, condition by condition."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardfix.proof.model import CONDITIONS, Verdict

Setting = tuple[int, int, tuple[tuple[str, bool], ...]]  # ranks, samples, unknown booleans


@dataclass(slots=True)
class Ledger:
    """Conditions that were judged, that failed (with the codes of the causes), that stay open, and what is told."""

    judged: set[str] = field(default_factory=set)
    failed: dict[str, list[str]] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # one for each of the codes
    open: dict[str, list[str]] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    not_judged: dict[str, str] = field(default_factory=dict)
    first_failing: Setting | None = None

    def fail(self, condition: str, text: str, code: str = "changed") -> None:
        """The condition does not hold; ``code`` is one of ``causes.CAUSES``."""
        self.failed.setdefault(condition, []).append(text)
        self.codes.append(code)
        self.texts.append(text)

    def leave_open(self, condition: str, text: str) -> None:
        """The condition can't be decided, so the site can't be proven."""
        self.open.setdefault(condition, []).append(text)

    def tell(self, condition: str, text: str) -> None:
        texts = self.told.setdefault(condition, [])
        if text not in texts:
            texts.append(text)

    def verdict(self) -> Verdict:
        return "refuted" if self.failed else "unproven" if self.open else "proven"

    def conditions(self) -> dict[str, str]:
        lines = {}
        for name in CONDITIONS:
            if name in self.failed:
                lines[name] = f"failed: {self.failed[name][0]}"
            elif name in self.open:
                lines[name] = f"not judged: {self.open[name][0]}"
            elif name in self.judged:
                told = self.told.get(name)
                lines[name] = f"held: {'; '.join(told)}" if told else "held"
            else:
                lines[name] = f"not judged: {self.not_judged.get(name, 'no run that shows it')}"
        return lines
