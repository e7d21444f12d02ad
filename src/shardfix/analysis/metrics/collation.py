"""Whether a loader hands out its samples as a list or collated, and whether a row may depend on the other rows."""

from __future__ import annotations

import ast
from typing import Literal

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

_DEFAULTS = frozenset({"default_collate", "default_data_collator", "default_convert"})
_STACKS = frozenset(
    {"stack", "tensor", "as_tensor", "LongTensor", "FloatTensor", "BoolTensor", "Tensor", "array", "asarray"}
    | {"list", "tuple", "from_numpy"}
)
_CONVERTS = frozenset({"to", "float", "long", "int", "double", "bool", "half", "numpy", "contiguous", "unsqueeze"})

# What an expression of a collate function is of: the list of samples; one value for each sample in their order; one
# such column after the other (`zip(*batch)`); what is stacked of them; one sample's own; nothing of them.
Part = Literal["batch", "column", "columns", "stacked", "sample", "constant"]


def may_pad(module: Module, collate: ast.expr | None, bound: ast.Call | None = None) -> bool:
    """Whether a row of a batch may depend on which samples are in it, as padding does, or a batch have other rows than
    samples: the function given as ``collate_fn`` is not seen only to stack them.

    Args:
        bound: the call of ``partial`` that gives the function some of its arguments.
    """
    if collate is None or (isinstance(collate, ast.Constant) and collate.value is None):
        return False
    if isinstance(collate, ast.Lambda):
        return not _Collate(module, collate, bound).stacks_only()
    if isinstance(collate, ast.Call) and last_name(collate.func) == "partial" and collate.args:
        return bound is not None or may_pad(module, collate.args[0], collate)
    if last_name(collate) in _DEFAULTS:
        return False
    made = list(module.bindings.reaching(collate))
    functions = [d.node for d in made if d.kind == "function"]
    if not made or any(d.kind == "import" for d in made):
        functions = [d.node for name in module.qualify(collate) for d in module.named(name) if d.kind == "function"]
    values = [d.value for d in made if d.kind == "assign" and d.index is None and d.value is not None]
    if values and len(values) == len(made):
        return any(v is collate or may_pad(module, v, bound) for v in values)
    return not functions or any(
        not isinstance(f, ast.FunctionDef) or not _Collate(module.home(f), f, bound).stacks_only() for f in functions
    )


# Of transformers, seen in its source (5.24, ``data/data_collator.py``): they make a row of each sample, in their order,
# and draw nothing. DataCollatorForLanguageModeling, which masks at random, and ..WithFlattening are none of these.
_STACKING = frozenset({"default_data_collator", "DefaultDataCollator"})
_PADDING = frozenset(
    {"DataCollatorWithPadding", "DataCollatorForTokenClassification", "DataCollatorForSeq2Seq"}
    | {"DataCollatorForMultipleChoice"}
)

# Each row by its sample alone and as wide as the sample; filled up to the widest of its batch; or not known.
Collated = Literal["stacked", "padded", "unknown"]


def collated(module: Module, collate: ast.expr | None) -> Collated:
    """How the function given as ``collate_fn`` puts samples together, whichever of its values it has."""
    if not may_pad(module, collate):
        return "stacked"
    assert collate is not None
    made = list(module.bindings.reaching(collate)) if isinstance(collate, (ast.Name, ast.Attribute)) else []
    if made and all(d.kind == "assign" and d.index is None and d.value is not None for d in made):
        ways = {collated(module.home(d.value), d.value) for d in made if d.value is not None and d.value is not collate}
        return "unknown" if "unknown" in ways or not ways else "padded" if "padded" in ways else "stacked"
    made_by = collate.func if isinstance(collate, ast.Call) else collate
    names = {q.rpartition(".")[2] for q in module.qualify(made_by) if q.startswith("transformers.")}
    if names and names <= _STACKING:
        return "stacked"
    if names and names <= _PADDING and isinstance(collate, ast.Call):
        return "padded"
    functions = [d.node for d in made if d.kind == "function"]
    own = [f for f in functions if isinstance(f, ast.FunctionDef)]
    if own and len(own) == len(made) and all(_Collate(module.home(f), f, None, pads=True).stacks_only() for f in own):
        return "padded"
    return "unknown"


class _Collate:
    """One collate function, read statement by statement: every value that it gives back must hold a row a sample, made
    of that sample alone. What is not known to be so is not. ``pads``: the rows may be filled up to one width."""

    def __init__(
        self, module: Module, function: ast.FunctionDef | ast.Lambda, bound: ast.Call | None, *, pads: bool = False
    ) -> None:
        self.module, self.function, self.pads = module, function, pads
        names = [a.arg for a in function.args.args]
        if isinstance(function, ast.FunctionDef) and module.is_method(function):
            names = names[1:]
        given = {k.arg for k in bound.keywords} if bound is not None else set()
        free = [n for n in names[len(bound.args) - 1 if bound is not None else 0 :] if n not in given]
        self.parts: dict[str, Part] = dict.fromkeys(names, "constant")
        self.parts.update(dict.fromkeys(free[:1], "batch"))

    def stacks_only(self) -> bool:
        if isinstance(self.function, ast.Lambda):
            return self._gives(self.function.body)
        if self.function.decorator_list and last_name(self.function.decorator_list[0]) != "staticmethod":
            return False
        return all(self._runs(s) for s in self.function.body)

    def _runs(self, s: ast.stmt) -> bool:
        """Take note of what a statement binds; False where it may do something else."""
        if isinstance(s, ast.Return):
            return s.value is not None and self._gives(s.value)
        if isinstance(s, ast.Expr):
            return isinstance(s.value, ast.Constant) or self._appends(s.value)
        if isinstance(s, (ast.Assert, ast.Pass, ast.Import, ast.ImportFrom)):
            return True
        if isinstance(s, ast.AnnAssign) and s.value is not None:
            return self._binds(s.target, s.value)
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            return self._binds(s.targets[0], s.value)
        if isinstance(s, ast.For) and not s.orelse and self._loops(s.target, s.iter):
            return all(self._runs(inner) for inner in s.body if not isinstance(inner, ast.Return))
        return False

    def _binds(self, target: ast.expr, value: ast.expr) -> bool:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            return all(self._binds(t, v) for t, v in zip(target.elts, value.elts, strict=True))
        part: Part | None = "column" if isinstance(value, ast.List) and not value.elts else self.of(value)
        if isinstance(target, (ast.Tuple, ast.List)):
            part = {"columns": "column", "sample": "sample", "constant": "constant"}.get(part or "")  # type: ignore[assignment]
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        for name in names:
            if part is None or not isinstance(name, ast.Name):
                return False
            self.parts[name.id] = part
        return True

    def _appends(self, node: ast.expr) -> bool:
        """``xs.append(x)`` of one sample's own, in a loop over the samples."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"):
            return False
        filled = self.of(node.func.value) == "column" and isinstance(node.func.value, ast.Name)
        return filled and len(node.args) == 1 and self.of(node.args[0]) == "sample"

    def _loops(self, target: ast.expr, over: ast.expr) -> bool:
        """Whether a loop takes one sample after the other; its names are that sample's."""
        part = self.of(over)
        if part not in ("batch", "column", "columns"):
            return False
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name in names:
            if not isinstance(name, ast.Name):
                return False
            self.parts[name.id] = "column" if part == "columns" else "sample"
        return True

    def _gives(self, node: ast.expr) -> bool:
        """Whether what is given back holds rows of samples."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self._gives(e) for e in node.elts)
        if isinstance(node, ast.Dict):
            return all(self._gives(v) for v in node.values)
        if isinstance(node, ast.DictComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            over, name = node.generators[0].iter, node.generators[0].target
            if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "keys":
                over = over.func.value
            keys = isinstance(over, ast.Subscript) and self.of(over.value) == "batch"  # as `batch[0]` has them
            return keys and isinstance(name, ast.Name) and self._gives(node.value)
        return self.of(node) in ("batch", "column", "columns", "stacked", "constant")

    def of(self, node: ast.expr) -> Part | None:
        """What an expression is of; None where that is not known."""
        if isinstance(node, ast.Name):
            return self.parts.get(node.id, "constant")
        if isinstance(node, ast.Constant):
            return "constant"
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._column(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript) and self.of(node.value) == "columns":
            return "column" if isinstance(node.slice, ast.Constant) else None
        inner = [self.of(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        if isinstance(node, (ast.Subscript, ast.Attribute)) and self.of(node.value) not in ("sample", "constant"):
            return None
        if None in inner or not set(inner) <= {"sample", "constant"}:
            return None
        return "sample" if "sample" in inner else "constant"

    def _column(self, node: ast.ListComp | ast.GeneratorExp) -> Part | None:
        """``[sample["x"] for sample in batch]``: a value for each, none left out and none twice."""
        if len(node.generators) != 1 or node.generators[0].ifs:
            return None
        before = dict(self.parts)
        made = self.of(node.elt) if self._loops(node.generators[0].target, node.generators[0].iter) else None
        within = self.of(node.generators[0].iter)
        self.parts = before
        if within == "columns":
            return "columns" if made in ("stacked", "column") else None
        return "column" if made == "sample" else None

    def _call(self, node: ast.Call) -> Part | None:
        name = last_name(node.func)
        given = [self.of(a.value if isinstance(a, ast.Starred) else a) for a in node.args]
        given += [self.of(k.value) for k in node.keywords]
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if isinstance(node.func, ast.Attribute) and name in _CONVERTS:
            held = self.of(node.func.value)
            in_front = name == "unsqueeze" and held == "stacked" and "0" in map(ast.unparse, node.args)
            if held in ("stacked", "sample", "constant") and set(given) <= {"constant"} and not in_front:
                return held
        if name == "zip" and len(node.args) == 1 and starred and given == ["batch"]:
            return "columns"
        if name == "map" and len(given) == 2 and given[1] in ("batch", "column"):
            return "column"
        if name == "map" and len(given) == 2 and given[1] == "columns" and last_name(node.args[0]) in _STACKS:
            return "columns"
        if name in _DEFAULTS and given[:1] in (["batch"], ["column"]):
            return "stacked"
        if name in ("list", "tuple") and len(given) == 1:
            return given[0]
        if name == "len" and len(given) == 1:
            return "sample" if given == ["sample"] else "constant" if given == ["constant"] else None
        if self.pads and name == "pad_sequence" and not starred and given[:1] == ["column"]:
            told = [k.value for k in node.keywords if k.arg == "batch_first"] + node.args[1:2]
            in_rows = any(isinstance(t, ast.Constant) and t.value is True for t in told)
            return "stacked" if in_rows and set(given[1:]) <= {"constant"} else None
        if name in _STACKS and not starred and given[:1] in (["batch"], ["column"]) and set(given[1:]) <= {"constant"}:
            along = [k.value for k in node.keywords if k.arg in ("dim", "axis")]
            along += node.args[1:2] if name == "stack" else []
            first = all(isinstance(a, ast.Constant) and a.value == 0 for a in along)
            return "stacked" if first else None
        if "rand" in ast.unparse(node.func) or name in ("shuffle", "choice", "sample", "uniform", "normal"):
            return None
        own = self.of(node.func.value) if isinstance(node.func, ast.Attribute) else "constant"
        if starred or own not in ("sample", "constant") or not set(given) <= {"sample", "constant"}:
            return None
        return "sample" if "sample" in (own, *given) else "constant"


def gives_lists(module: Module, collate: ast.expr | None) -> bool:
    """Whether batches are lists of samples: the function given as ``collate_fn`` gives back what it is given."""
    if collate is None:
        return False
    if isinstance(collate, ast.Lambda):
        arguments = collate.args.args
        return len(arguments) == 1 and isinstance(collate.body, ast.Name) and collate.body.id == arguments[0].arg
    made = [d.node for d in module.bindings.reaching(collate) if d.kind == "function"]
    if len(made) != 1 or not isinstance(made[0], ast.FunctionDef):
        return False
    function = made[0]
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or len(function.args.args) != 1:
        return False
    given = body[0].value
    return isinstance(given, ast.Name) and given.id == function.args.args[0].arg


__all__ = ["Collated", "collated", "gives_lists", "may_pad"]
