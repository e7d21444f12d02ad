"""Do something to a module right after it is imported, whoever imports it and whenever."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable  # noqa: UP035 - Python 3.8 can't subscript the other one

After = Callable[[Any], None]


class Hooks:
    """A finder that lets the others find, and acts once a module that it knows has run."""

    def __init__(self, after: dict[str, After]) -> None:
        self._after = after
        self._finding: set[str] = set()

    def install(self) -> None:
        for name in [name for name in self._after if name in sys.modules]:
            self._after.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._after or name in self._finding:
            return None
        self._finding.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            self._finding.discard(name)
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Running(spec.loader, self._after[name])  # type: ignore[assignment]
        return spec


class Running:
    """A loader that runs a module with another loader, then acts on it."""

    def __init__(self, loader: Any, after: After) -> None:
        self._loader = loader
        self._own = after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._own(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
