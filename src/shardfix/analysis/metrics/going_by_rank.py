"""What is seen to go by the rank: expressions that are made of it, and what is stored under a name anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.programs.processes import distributed_test, is_main_test, is_rank

_DEPTH = 4  # names of names
# What is told a device or a rank and is alike in all else: tensors that are moved, wrapped models, sharded loaders.
_PLACED = re.compile(r"^(to|cuda|device|set_device|DDP|DistributedDataParallel|DataLoader|DistributedSampler|FSDP)$")
_DEVICES = ("map_location", "device", "disable")
_SETTINGS = re.compile(
    r"(?i)(^|[._])(args?|arguments|cfgs?|configs?|conf|opts?|options?|flags|hparams|hps?|params|settings)$"
)


def goes_by_rank(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is made of the rank, through the names in it as well; but for the device it lies on."""
    if isinstance(node, ast.expr) and not isinstance(node, (ast.BoolOp, ast.IfExp)):
        if distributed_test(node) is not None:
            return False
        if is_rank(node) or is_main_test(node):
            return True
    if isinstance(node, ast.Name) and depth < _DEPTH:
        found = module.home(node).bindings.reaching(node)
        values = [d.value for d in found if d.kind in ("assign", "loop") and d.value is not None and d.index is None]
        return any(goes_by_rank(module, v, depth + 1) for v in values)
    if isinstance(node, ast.Attribute):
        return goes_by_rank(module, node.value, depth + 1) if depth < _DEPTH else False
    if isinstance(node, ast.Lambda) or (isinstance(node, ast.keyword) and node.arg in _DEVICES):
        return False
    if isinstance(node, ast.Call) and _PLACED.search(last_name(node.func)):
        return isinstance(node.func, ast.Attribute) and goes_by_rank(module, node.func.value, depth)
    return any(
        goes_by_rank(module, n, depth) for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)
    )


def differs(module: Module, test: ast.expr, depth: int = 0) -> bool:
    """Whether a condition itself asks for the rank: plainly, or by a name that stands for the question."""
    if not isinstance(test, (ast.BoolOp, ast.IfExp)) and distributed_test(test) is not None:
        return False
    if is_main_test(test) or is_rank(test):
        return True
    if isinstance(test, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.BinOp, ast.IfExp, ast.NamedExpr)):
        return any(differs(module, n, depth) for n in ast.iter_child_nodes(test) if isinstance(n, ast.expr))
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id in ("range", "min", "max", "bool", "int")
    ):
        return any(differs(module, n, depth) for n in test.args)
    if isinstance(test, ast.Subscript):
        return differs(module, test.value, depth) or any(
            differs(module, n, depth) for n in ast.iter_child_nodes(test.slice) if isinstance(n, ast.expr)
        )
    if isinstance(test, ast.Name) and depth < _DEPTH:
        found = module.home(test).bindings.reaching(test)
        values = [d.value for d in found if d.kind == "assign" and d.value is not None and d.index is None]
        return bool(values) and len(values) == len(found) and all(differs(module, v, depth + 1) for v in values)
    return False


@dataclass
class Stored:
    """What a project puts under a name: as an attribute, a keyword, a key or a default of the command line."""

    module: Module
    _found: dict[str, list[tuple[str, ast.expr]]] = field(default_factory=dict)

    def _of(self, name: str) -> list[tuple[str, ast.expr]]:
        if name not in self._found:
            written = name.replace("_", "[_-]")
            word = re.compile(rf"(?<![A-Za-z0-9_]){written}(?![A-Za-z0-9_])")
            files = [m for m in self.module.fellows if word.search(m.text)]
            self._found[name] = [pair for m in files for pair in _stores(m, name)]
        return self._found[name]

    def by_rank(self, name: str) -> bool:
        """Whether anything that goes by the rank is put under a name."""
        return any(goes_by_rank(self.module, value) for _, value in self._of(name))

    def settings(self, name: str) -> list[ast.expr]:
        """What is put under a name of an object of settings."""
        return [value for owner, value in self._of(name) if _SETTINGS.search(owner)]

    def items(self, key: str) -> list[ast.expr]:
        """What is put under a key of settings."""
        return [value for owner, value in self._of(key) if owner.endswith("]") and _SETTINGS.search(owner[:-2])]

    def values(self, name: str) -> list[ast.expr]:
        """What is put under a name of any object."""
        return [value for owner, value in self._of(name) if owner]


def _stores(module: Module, name: str) -> Iterator[tuple[str, ast.expr]]:
    """What is put under a name, and the object that it is put in: empty for keywords and the like."""
    flag = re.compile(rf"-*{re.escape(name)}")
    for n in ast.walk(module.tree):
        if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and n.value is not None:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            for target, value in (pair for t in targets for pair in _pairs(t, n.value)):
                if isinstance(target, ast.Attribute) and target.attr == name:
                    yield ast.unparse(target.value), value
                elif isinstance(target, ast.Subscript) and _is_text(target.slice, name):
                    yield ast.unparse(target.value) + "[]", value
        elif isinstance(n, ast.Call):
            yield from (("", k.value) for k in n.keywords if k.arg == name)
            if last_name(n.func) in ("setattr", "__setattr__") and len(n.args) == 3 and _is_text(n.args[1], name):
                yield ast.unparse(n.args[0]), n.args[2]
            elif last_name(n.func) in ("add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_integer"):
                flags = [a.value for a in n.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                dest = next((k.value for k in n.keywords if k.arg == "dest"), None)
                named = any(flag.fullmatch(f.replace("-", "_").lstrip("_")) for f in flags)
                if named or (dest is not None and _is_text(dest, name)):
                    yield from (("", a) for a in arguments_of(n))
        elif isinstance(n, ast.Dict):
            yield from (("", v) for k, v in zip(n.keys, n.values, strict=True) if k is not None and _is_text(k, name))


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = (
            value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
        )
        for i, t in enumerate(target.elts):
            yield from _pairs(t, values[i] if values is not None else value)
    else:
        yield target, value


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


__all__ = ["Stored", "differs", "goes_by_rank"]
