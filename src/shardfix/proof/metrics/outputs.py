"""What a model gives where a loop is run on rows: the calls that are stand-ins, and who holds a whole output."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.networks import gives_rows, gives_several
from shardfix.proof.metrics.allowed import FUNCTIONS, library
from shardfix.proof.metrics.known import Known
from shardfix.proof.metrics.texts import GIVES, text_of_ids
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name

TAKEN = {
    "mean": "a mean over the samples",
    "sum": "a sum over the samples",
    "output": "a row for each sample, by that sample alone",
    "samples": "a row for each sample, by that sample alone",
}
_RECORDS = (".SquadResult",)  # classes of transformers whose objects hold what they are made with


@dataclass
class Outputs:
    """The outputs of one scope.

    Args:
        kind: what the analysis takes an expression for.

    Attributes:
        names: the variables that hold a whole output, as they are written.
        several: those of them that hold an output of several things; ``layered``: that are gone through, and of which
            one place is taken, as of a list of what layers give.
    """

    known: Known
    kind: Callable[[ast.expr], str]
    names: set[str] = field(default_factory=set)
    several: set[str] = field(default_factory=set)
    layered: set[str] = field(default_factory=set)

    def stand_in(self, node: ast.Call, value: Callable[[ast.expr], ast.expr]) -> ast.expr:
        """A call that is not run, of rows: a model, or a function that is taken for what the analysis takes it for.

        Raises:
            Stop: nothing says what it gives.
        """
        read = text_of_ids(self.known.module, node, value)
        if read is not None:
            self.known.stand_ins[text_of(node)] = GIVES
            return read
        if all(q.startswith("transformers.") and q.endswith(_RECORDS) for q in self.known.module.callee(node) or {""}):
            self.known.stand_ins[text_of(node.func)] = "an object that holds what it is given"
            return self._called("CALL", node, value)
        kind = self.kind(node)
        if not kind:
            kind = (
                "mean"
                if "loss" in text_of(node.func).lower() or "criterion" in text_of(node.func).lower()
                else "output"
            )
        words = text_of(node.func).lower()
        if kind not in TAKEN and any(w in words for w in ("loss", "criterion", "crit")):
            kind = "mean"
        if kind in ("mean", "sum"):
            made = self._called("NUMBER", node, value, ast.Constant(kind))
            self.known.numbers[made] = f"`{text_of(node)}` gives {TAKEN[kind]}"
            return self._noted(node, kind, made)
        if kind in TAKEN:
            made = self._called("MODEL", node, value)
            known = self.known.module.called_functions(node)
            model = bool(self.known.module.instances(node.func)) or not known
            named = any("." in q for q in self.known.module.callee(node))
            from_library = named and not self.known.module.instances(node.func)
            if (known and not (model and kind == "output")) or from_library:
                self.known.resting[made] = f"`{text_of(node)}` gives {TAKEN[kind]}"
            return self._noted(node, kind, made)
        if not self.known.loose:
            raise self.known.stop(f"what `{text_of(node)}` gives is not known", node)
        if gives_rows(self.known.module, node):
            made = self._called("ANY_ROWS", node, value)
            self.known.numbers[made] = f"`{text_of(node)}` gives {TAKEN['output']}"
            return self._noted(node, "output", made)
        place = ast.Constant(len(self.known.by_batch_only))
        made = self._called("UNSURE", node, value, place)
        self.known.by_batch_only[text_of(node)] = "a number of the batch, or rows of it"
        return made

    def _called(
        self, stand_in: str, node: ast.Call, value: Callable[[ast.expr], ast.expr], *first: ast.expr
    ) -> ast.Call:
        keywords = [ast.keyword(k.arg, value(k.value)) for k in node.keywords]
        given = [ast.Constant(text_of(node.func)), *first, *(value(a) for a in node.args)]
        return ast.Call(name(stand_in), given, keywords)

    def _noted(self, node: ast.Call, kind: str, made: ast.expr) -> ast.expr:
        self.known.stand_ins[text_of(node)] = TAKEN[kind]
        if made in self.known.numbers:
            self.known.by_batch_only[text_of(node)] = (
                "rows of the batch, which may depend on one another" if kind == "output" else "a number of the batch"
            )
        return made

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression is what a model gives, as a whole."""
        if ast.unparse(node) in self.names:
            return True
        if not isinstance(node, ast.Call) or not self.known.tracks(node):
            return False
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        unknown = not (receiver is not None and self.known.tracks(receiver)) and not self.known.module.callee(node)
        return unknown and library(self.known, node.func, FUNCTIONS) is None and self.kind(node) in ("", "output")

    def given(self, node: ast.expr, value: Callable[[ast.expr], ast.expr], into: str = "") -> ast.expr:
        """A call of a model that gives several things, or another expression."""
        if not isinstance(node, ast.Call) or not self.holds(node):
            return value(node)
        if into in self.layered:
            self.known.stand_ins[text_of(node)] = "a list of what layers give, of which there is one"
            return self._called("LAYERS", node, value)
        self.known.stand_ins[text_of(node)] = (
            "several things: rows for the samples, each by its sample alone, and numbers"
        )
        self.known.by_batch_only[text_of(node)] = "several things: rows for the samples, and numbers of the batch"
        return self._called("SEVERAL", node, value)

    def unpacked(self, node: ast.expr, names: Sequence[str], value: Callable[[ast.expr], ast.expr]) -> ast.expr:
        """What is unpacked into names: of a model's output, what each is called says something of it."""
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in self.several:
            made: ast.expr = ast.Subscript(value(node.value), value(node.slice), ast.Load())
        elif self.holds(node):
            made = self.given(node, value)
        else:
            return call(name("PARTS"), value(node), ast.Constant(len(names)))
        called = [ast.Constant(n) for n in names]
        for n, of in zip(names, called, strict=True):
            if any(word in n.lower() for word in ("loss", "nll", "ppl")):
                self.known.numbers[of] = f"`{n}` of `{text_of(node)}` is {TAKEN['mean']}"
        return call(name("CALLED"), made, ast.Tuple([*called], ast.Load()))

    def taken(self, node: ast.expr, into: str, value: Callable[[ast.expr], ast.expr]) -> ast.expr | None:
        """One of several things, by its place and by what it is called then; None for another expression."""
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
            return None
        if ast.unparse(node.value) not in self.several or "loss" not in into.lower():
            return None
        made = call(ast.Attribute(value(node.value), "part", ast.Load()), node.slice, ast.Constant(into))
        self.known.numbers[made] = f"`{text_of(node)}` is {TAKEN['mean']}"
        return made

    def seen_to_be_several(self, module: Module, inside: Sequence[ast.AST]) -> None:
        """Note the variables whose outputs are unpacked, or known to be several things of which one is taken."""
        for n in inside:
            if isinstance(n, ast.Assign) and any(isinstance(t, (ast.Tuple, ast.List)) for t in n.targets):
                base = n.value.value if isinstance(n.value, ast.Subscript) else n.value
                if isinstance(base, ast.Name):
                    self.several.add(base.id)
            elif isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and isinstance(n.slice, ast.Constant):
                if isinstance(n.value, ast.Name) and gives_several(module, n.value):
                    self.several.add(n.value.id)
        self.several |= _rows_of_items(inside)
        self.layered = _columns_of_items(inside) - self.several
        self.several |= self.layered

    def whole(self, node: ast.expr, key: ast.expr | None = None) -> None:
        """A model may give several things: which of them is meant is not known.

        Raises:
            Stop: one of them is taken.
        """
        first = (
            key is None
            or isinstance(key, (ast.Constant, ast.UnaryOp))
            or (isinstance(key, ast.Slice) and not (key.lower is None and key.upper is None))
        )
        if first and self.holds(node) and ast.unparse(node) not in self.several:
            raise self.known.stop(f"which part of `{text_of(node)}` is taken is not known", node)


def _rows_of_items(inside: Sequence[ast.AST]) -> set[str]:
    """The names whose items are taken at the place of each sample: ``[x[i] for x in out]``, i counting samples."""
    counters = {
        n.target.elts[0].id
        for n in inside
        if isinstance(n, ast.For) and isinstance(n.target, ast.Tuple) and isinstance(n.target.elts[0], ast.Name)
        if isinstance(n.iter, ast.Call) and isinstance(n.iter.func, ast.Name) and n.iter.func.id == "enumerate"
    }
    found: set[str] = set()
    for n in (n for n in inside if isinstance(n, (ast.ListComp, ast.GeneratorExp))):
        g = n.generators[0]
        places = [
            m for m in ast.walk(n.elt) if isinstance(m, ast.Subscript) and ast.unparse(m.value) == ast.unparse(g.target)
        ]
        if isinstance(g.iter, ast.Name) and places and all(ast.unparse(m.slice) in counters for m in places):
            found.add(g.iter.id)
    return found


def _columns_of_items(inside: Sequence[ast.AST]) -> set[str]:
    """The names whose items hold a row for each sample: ``[x[:, 0] for x in out]`` and ``out[-1][:, 1:]``."""
    found: dict[str, set[str]] = {"turns": set(), "places": set()}
    for n in inside:
        if isinstance(n, ast.comprehension) and isinstance(n.target, ast.Name):
            item = n.target.id
            if any(_of_all_rows(m) and ast.unparse(m.value) == item for m in inside if isinstance(m, ast.Subscript)):
                found["turns"].add(ast.unparse(n.iter))
        elif isinstance(n, ast.Subscript) and _of_all_rows(n) and isinstance(n.value, ast.Subscript):
            key = n.value.slice
            number = key.operand if isinstance(key, ast.UnaryOp) else key
            if isinstance(number, ast.Constant) and type(number.value) is int:
                found["places"].add(ast.unparse(n.value.value))
    return found["turns"] & found["places"]


def _of_all_rows(node: ast.Subscript) -> bool:
    """``x[:, 0]``"""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1 else None
    return isinstance(first, ast.Slice) and first.lower is None and first.upper is None
