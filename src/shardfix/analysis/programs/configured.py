"""What the program tells accelerate about loaders: the literal settings of the Accelerators that may prepare one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import ACCELERATOR, last_name

UNSEEN = object()  # what is no literal


@dataclass(frozen=True)
class Setting:
    """A setting of accelerate's: its literal value (None: not given), or why it is not known."""

    value: object = None
    unknown: str = ""


class Settings:
    """What the Accelerators in some files are told; those of the whole project where the files make none."""

    def __init__(self, modules: Iterable[Module]) -> None:
        near = list(dict.fromkeys(modules))
        project = near[0].project if near else None
        self._made = _constructions(near) or _constructions(project.modules.values() if project is not None else [])

    def of(self, name: str) -> Setting:
        """One setting: unknown where no Accelerator is seen, or where several differ."""
        found = [_setting(module, call, name) for module, call in self._made]
        if not found:
            return Setting(unknown="no Accelerator is seen to be made")
        if any(one != found[0] for one in found):
            return Setting(unknown=f"the Accelerators of the project differ in {name}")
        return found[0]


def _constructions(modules: Iterable[Module]) -> list[tuple[Module, ast.Call]]:
    return [(m, call) for m in modules for call in m.calls if ACCELERATOR in m.callee(call)]


def _setting(module: Module, made: ast.Call, name: str) -> Setting:
    """What a construction says of one setting, in its own arguments or in its ``DataLoaderConfiguration``."""
    for keyword in made.keywords:
        if keyword.arg == name:
            value = literal(module, keyword.value)
            text = module.source.source(keyword.value)
            return Setting(unknown=f"{name}=`{text}`") if value is UNSEEN else Setting(value)
    for keyword in made.keywords:
        if keyword.arg is None:
            items = module.dict_items(keyword.value)
            if items is None or name in items:
                return Setting(unknown=f"`**{module.source.source(keyword.value)}` may hold {name}")
        if keyword.arg == "dataloader_config":
            config = behind(module, keyword.value)
            if isinstance(config, ast.Call) and last_name(config.func) == "DataLoaderConfiguration":
                return _setting(module, config, name)
            return Setting(unknown=f"dataloader_config=`{module.source.source(keyword.value)}` is not seen into")
    return Setting()


def behind(module: Module, node: ast.expr) -> ast.expr:
    """What a name that is assigned once stands for; any other expression is itself."""
    if isinstance(node, ast.Name):
        found = module.bindings.reaching(node)
        if len(found) == 1:
            (d,) = found
            if d.kind == "assign" and d.value is not None and d.index is None:
                return d.value
    return node


def literal(module: Module, node: ast.expr) -> object:
    value = behind(module, node)
    return value.value if isinstance(value, ast.Constant) else UNSEEN
