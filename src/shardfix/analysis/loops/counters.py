"""What a loop counts: the name or attribute that holds the number of the pass at the top of the loop's body."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.bindings import Definition, attribute_key
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

Loop = ast.For | ast.AsyncFor | ast.While

_RANGES = frozenset({"range", "xrange", "trange", "count", "tnrange"})
_WRAPPERS = frozenset(
    {"tqdm", "tqdm_notebook", "track", "progress_bar", "master_bar", "iter", "list", "tuple", "Progbar", "reversed"}
)
_SCOPES = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEPTH = 6


def named_epoch(counter: str) -> bool:
    """Whether a counter is called an epoch's."""
    return "epoch" in counter.lower() or counter.rsplit(".", 1)[-1] in ("ep", "_epoch", "e")


def is_epoch_iterable(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression counts: ``range``, ``trange``, ``count``, a progress bar over one, a name for one."""
    if depth > _DEPTH:
        return False
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in _RANGES:
            return True
        if (name in _WRAPPERS or name == "enumerate") and node.args:
            return is_epoch_iterable(module, node.args[0], depth + 1)
        return False
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = [d for d in _definitions(module, node) if d.value is not node]
        values = [_value(d) for d in definitions]
        return bool(values) and all(v is not None and is_epoch_iterable(module, v, depth + 1) for v in values)
    return False


def _definitions(module: Module, node: ast.expr) -> list[Definition]:
    """What may give a name its value, or ``self.x`` in any method of its class."""
    found = list(module.bindings.reaching(node))
    if not found and isinstance(node, ast.Attribute) and (attribute_key(node) or "").startswith("self."):
        cls = module.class_of(node)
        if cls is not None:
            found = list(module.home(node).attribute_definitions.get((cls, node.attr), []))
    return found


def _value(d: Definition) -> ast.expr | None:
    """What a definition binds: what is assigned, or what a ``with`` statement opens (``with trange(n) as bar``)."""
    if d.kind == "assign" and d.index is None:
        return d.value
    return d.value if isinstance(d.statement, (ast.With, ast.AsyncWith)) and d.index is None else None


def is_enumerated(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether the items of an iterable are (index, item) pairs."""
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name == "enumerate":
            return True
        return bool(
            name in _WRAPPERS and node.args and depth < _DEPTH and is_enumerated(module, node.args[0], depth + 1)
        )
    if isinstance(node, ast.Name) and depth < _DEPTH:
        return any(
            d.value is not None and is_enumerated(module, d.value, depth + 1) for d in module.bindings.reaching(node)
        )
    return False


def counter_of(module: Module, loop: Loop) -> str | None:
    """The source of the loop's counter, ``""`` for ``_``, None if the loop does not count."""
    if isinstance(loop, ast.While):
        return _while_counter(module, loop)
    target = loop.target
    if not is_epoch_iterable(module, loop.iter):
        return _counted_beside(module, loop)
    if isinstance(target, ast.Tuple) and is_enumerated(module, loop.iter):
        index, item = target.elts[0], target.elts[-1]
        if isinstance(item, ast.Name) and not item.id.startswith("_"):
            return item.id
        if not _counts_from_zero(module, loop.iter):
            return "" if isinstance(item, ast.Name) and not item.id.strip("_") else None
        return index.id if isinstance(index, ast.Name) and not index.id.startswith("_") else None
    if isinstance(target, ast.Name):
        return target.id if target.id.strip("_") else ""
    if isinstance(target, ast.Attribute):
        return module.source.source(target)
    return None


def _counted_beside(module: Module, loop: ast.For | ast.AsyncFor) -> str | None:
    """What counts the epochs beside other items: ``for epoch, seed in enumerate(seeds)``, ``in zip(range(n), seeds)``.
    What is enumerated is not seen to count, so that the name has to say it."""
    iterable, target = loop.iter, loop.target
    while isinstance(iterable, ast.Call) and last_name(iterable.func) in _WRAPPERS and iterable.args:
        iterable = iterable.args[0]
    if not isinstance(iterable, ast.Call) or not isinstance(target, ast.Tuple) or not iterable.args:
        return None
    names = [e.id if isinstance(e, ast.Name) else "" for e in target.elts]
    if last_name(iterable.func) == "enumerate":
        return names[0] if len(names) == 2 and "epoch" in names[0].lower() else None
    if last_name(iterable.func) == "zip" and len(names) == len(iterable.args):
        counting = [n for n, a in zip(names, iterable.args, strict=True) if n and is_epoch_iterable(module, a)]
        return counting[0] if len(counting) == 1 and "epoch" in counting[0].lower() else None
    return None


def _counts_from_zero(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether the index of an enumerated range is the item too: the range starts at zero."""
    if isinstance(node, ast.Name) and depth < _DEPTH:
        values = [d.value for d in module.bindings.reaching(node)]
        return bool(values) and all(v is not None and _counts_from_zero(module, v, depth + 1) for v in values)
    if not isinstance(node, ast.Call) or depth > _DEPTH or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    if last_name(node.func) not in _RANGES:
        return bool(node.args) and _counts_from_zero(module, node.args[0], depth + 1)
    return len(node.args) < 2 or (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


# --- while loops ---


def _while_counter(module: Module, loop: ast.While) -> str | None:
    """What a ``while`` loop counts up by itself, once in each pass.

    ``while epoch < n`` names its counter; ``while True`` has one only if a single name in it is counted, and that is
    called an epoch's.
    """
    asked = [n for n in _asked(loop.test) if not isinstance(n, ast.Constant)]
    if asked:
        found = [module.source.source(n) for n in asked if counts_once(module, n, loop)]
        return found[0] if len(found) == 1 else None
    if not isinstance(loop.test, ast.Constant) or not loop.test.value:
        return None
    counted = {_key(t): t for s in loop.body for t in [counted_up(s)] if t is not None}
    named = [t for key, t in counted.items() if key and named_epoch(key) and counts_once(module, t, loop)]
    return module.source.source(named[0]) if len(named) == 1 else None


def _asked(test: ast.expr) -> list[ast.expr]:
    """The names that a loop's condition compares: of ``epoch < n and not done`` it is ``epoch``, and ``n``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [n for value in test.values for n in _asked(value)]
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return []
    if not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.NotEq)):
        return []
    return [n for n in (test.left, test.comparators[0]) if _key(n)]


def _key(node: ast.expr) -> str:
    """A name, or an attribute of a name, as it is tracked; empty for anything else."""
    return node.id if isinstance(node, ast.Name) else attribute_key(node) or ""


def counted_up(statement: ast.stmt) -> ast.expr | None:
    """What ``x += 1`` or ``x = x + 1`` counts up."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return statement.target if _positive(statement.value) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.value, ast.BinOp):
        target, value = statement.targets[0], statement.value
        same = _key(target) and _key(value.left) == _key(target)
        return target if same and isinstance(value.op, ast.Add) and _positive(value.right) else None
    return None


def _positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def counts_once(module: Module, counter: ast.expr, loop: ast.While) -> bool:
    """Whether each pass of a loop counts a name up, or a method that each pass calls does, and nothing else binds it.

    A pass that a ``continue`` ends early must have counted by then.
    """
    key = _key(counter)
    written = [d for d in module.home(loop).bindings.definitions if d.key == key and _within(module, d, loop)]
    counting = [s for s in loop.body if (t := counted_up(s)) is not None and _key(t) == key]
    if len(counting) == 1 and [d.statement for d in written] == counting:
        return not _cut_short(loop, counting[0]) and not _counted_elsewhere(module, counter, loop)
    return not written and _counted_by_method(module, counter, loop)


def _within(module: Module, d: Definition, loop: Loop) -> bool:
    return d.scope is (module.function(loop) or module.home(loop).tree) and loop in module.around(d.statement)


def _counted_elsewhere(module: Module, counter: ast.expr, loop: ast.While) -> bool:
    """Whether other methods of the class bind an attribute too, those that make the object ready aside."""
    if not isinstance(counter, ast.Attribute) or not _key(counter).startswith("self."):
        return False
    cls, own = module.class_of(loop), module.function(loop)
    if cls is None:
        return True
    called = {module.called_function(c) for s in loop.body for c in ast.walk(s) if isinstance(c, ast.Call)}
    others = module.home(loop).attribute_definitions.get((cls, counter.attr), [])
    return any(d.scope is not own and d.scope in called for d in others)


def _counted_by_method(module: Module, counter: ast.expr, loop: ast.While) -> bool:
    """``while self.epoch < n: self.train_epoch()`` where train_epoch always ends with ``self.epoch += 1``."""
    if not isinstance(counter, ast.Attribute) or not _key(counter).startswith("self."):
        return False
    cls = module.class_of(loop)
    if cls is None:
        return False
    definitions = module.home(loop).attribute_definitions.get((cls, counter.attr), [])
    inside: list[Definition] = []
    for statement in loop.body:
        made = [c for c in ast.walk(statement) if isinstance(c, ast.Call)]
        for call in made:
            function = module.called_function(call)
            mine = [d for d in definitions if function is not None and d.scope is function]
            if not mine or function is None:
                continue
            direct = isinstance(statement, (ast.Expr, ast.Assign)) and statement.value is call
            counts = [s for s in function.body if (t := counted_up(s)) is not None and _key(t) == _key(counter)]
            if not direct or len(counts) != 1 or [d.statement for d in mine] != counts or _leaves(function, counts[0]):
                return False
            inside += mine
    return len(inside) == 1 and not any(isinstance(n, ast.Continue) for n in _own(loop.body))


def _leaves(function: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.stmt) -> bool:
    """Whether a function may return before a statement of its body."""
    before = function.body[: function.body.index(statement)]
    return any(isinstance(n, ast.Return) for s in before for n in ast.walk(s))


def _cut_short(loop: ast.While, counting: ast.stmt) -> bool:
    """Whether a ``continue`` of a loop may end a pass before it has counted."""
    return any(isinstance(n, ast.Continue) for n in _own(loop.body[: loop.body.index(counting)]))


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The statements of a loop's body, those of loops and functions within left out."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(c for c in ast.iter_child_nodes(node) if isinstance(c, (ast.stmt, ast.excepthandler)))


__all__ = [
    "Loop",
    "counted_up",
    "counter_of",
    "counts_once",
    "is_enumerated",
    "is_epoch_iterable",
    "named_epoch",
]
