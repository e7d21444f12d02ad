"""What a loop over batches is read for besides its sums: what a batch decides, what is read behind, what is granted."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.metrics.gathering import Write
from shardfix.analysis.metrics.values import Values
from shardfix.proof.recipes.choices import text_of

_CASTS = frozenset({"int", "abs", "bool", "round", "long", "short", "byte", "floor", "ceil", "trunc"})
_HITS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "equal", "isclose"})
_DEPTH = 3  # how many assignments a name in the loop is followed back


def within(loop: ast.For) -> list[ast.AST]:
    """All that stands in the loop's body."""
    return [n for s in loop.body for n in ast.walk(s)]


def timed(values: Values, loop: ast.For) -> set[str]:
    """Names that only the clock decides."""
    assigned: dict[str, list[ast.expr]] = {}
    for s in ast.walk(loop):
        if isinstance(s, ast.Assign):
            for t in s.targets:
                assigned.setdefault(ast.unparse(t), []).append(s.value)
    return {text for text, found in assigned.items() if all(values.of(v).kind == "time" for v in found)}


def of_batches(module: Module, loop: ast.For) -> set[str]:
    """The names in the loop that a batch decides."""
    target = loop.target
    if is_enumerated(module, loop.iter) and isinstance(target, ast.Tuple):
        target = target.elts[-1]
    found = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    before = 0
    while len(found) > before:
        before = len(found)
        for s in within(loop):
            pairs: list[tuple[ast.AST, ast.AST]] = []
            if isinstance(s, ast.Assign):
                pairs = [(t, s.value) for t in s.targets]
            elif isinstance(s, (ast.AugAssign, ast.AnnAssign)) and s.value is not None:
                pairs = [(s.target, s.value)]
            elif isinstance(s, ast.For):
                pairs = [(s.target, s.iter)]
            for written, value in pairs:
                if any(isinstance(n, ast.Name) and n.id in found for n in ast.walk(value)):
                    found |= {n.id for n in ast.walk(written) if isinstance(n, ast.Name)}
    return found


def is_given(call: ast.Call, names: set[str]) -> bool:
    """Whether one of these names is in what a call is given."""
    return any(isinstance(n, ast.Name) and n.id in names for a in [*call.args, *call.keywords] for n in ast.walk(a))


def following(module: Module, begin: ast.stmt) -> list[tuple[list[ast.stmt], int]]:
    """The blocks whose statements run after one, up to the next turn of a loop around it, with its place in each."""
    found: list[tuple[list[ast.stmt], int]] = []
    statement = begin
    scope = module.scope(begin)
    while True:
        block = module.block(statement)
        if statement in block:
            found.append((block, block.index(statement)))
        outer = module.parents[statement]
        if outer is scope or not isinstance(outer, ast.stmt) or isinstance(outer, (ast.For, ast.While)):
            return found
        statement = outer


def read_behind(module: Module, loop: ast.For) -> set[str]:
    """Names and attributes that are read behind the loop, but for objects that are only told something there."""
    found: set[str] = set()
    for block, at in following(module, loop):
        for s in block[at + 1 :]:
            told = [n.value.func for n in ast.walk(s) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
            skipped = {n for function in told for n in ast.walk(function)}
            found |= {
                ast.unparse(n)
                for n in ast.walk(s)
                if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load) and n not in skipped
            }
    return found


def granted(module: Module, loop: ast.For, values: Values, writes: Sequence[Write]) -> list[str]:
    """What stand-ins for the sums of a loop take for granted, in words.

    That is: nothing else keeps what the loop tells it, rows are not written over, a function of the project gives a
    value of each sample by itself, and a total that is made a whole number, or turned round, is none the less a sum.
    """
    found: list[str] = []
    names = {w.name for w in writes}
    batchy = of_batches(module, loop)
    kept = read_behind(module, loop) - names - {"self"} - batchy
    for n in within(loop):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            if ast.unparse(n.func.value) in kept and is_given(n, batchy):
                found.append(f"`{text_of(n)}` keeps nothing that is read behind the loop")
        elif isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and root_of(n) not in names:
            found.append(f"`{text_of(n)}` may be written to")
    stack: list[tuple[ast.AST, int]] = [(w.statement, 0) for w in writes]
    meters = {w.statement for w in writes if w.meter is not None}
    inside = set(ast.walk(loop))
    while stack:
        node, depth = stack.pop(0)
        for n in ast.walk(node):
            found += _taken(module, values, n, meters)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and depth < _DEPTH:
                assigned = [d.value for d in module.bindings.reaching(n) if d.node in inside and d.kind == "assign"]
                stack += [(value, depth + 1) for value in assigned if value is not None]
    return list(dict.fromkeys(found))


def _taken(module: Module, values: Values, n: ast.AST, meters: set[ast.stmt]) -> list[str]:
    """What is taken for granted of one expression."""
    total: ast.expr | None = None
    if isinstance(n, ast.Call):
        outer = module.parents[n]
        is_meter = isinstance(outer, ast.Expr) and outer in meters
        if module.called_functions(n) and not module.instances(n.func) and not is_meter:
            return [f"`{text_of(n)}` gives a value of each sample by itself"]
        function = last_name(n.func)
        receiver = n.func.value if isinstance(n.func, ast.Attribute) else None
        inner = n.args[0] if n.args and function in ("int", "abs", "bool", "round") else receiver
        if function in _CASTS and inner is not None and not _is_count(inner):
            total = inner
    elif isinstance(n, ast.UnaryOp) and isinstance(n.op, (ast.Not, ast.Invert)):
        total = n.operand
    if total is None or values.of(total).kind not in ("sum", "mean", "count"):
        return []
    assert isinstance(n, ast.expr)
    return [f"`{text_of(n)}` changes a total by nothing"]


def _is_count(node: ast.expr) -> bool:
    """Whether a total is one of comparisons, a whole number."""
    return any(
        isinstance(n, ast.Compare) or (isinstance(n, ast.Call) and last_name(n.func) in _HITS) for n in ast.walk(node)
    )


__all__ = ["following", "granted", "is_given", "of_batches", "read_behind", "timed", "within"]
