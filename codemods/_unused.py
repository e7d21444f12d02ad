"""Statements that only make what a removal takes away: found together, since removals may share them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import walk

_QUESTIONS = frozenset(
    {"isinstance", "hasattr", "getattr", "callable", "len", "int", "bool", "str", "float", "range", "zip", "enumerate"}
    | {"list", "tuple", "min", "max", "device_count", "getenv", "get", "size", "rank", "world_size", "local_rank"}
)
_ASKING = ("is_", "has_", "get_", "use_", "should_")
_ELSE = re.compile(r"[ \t]*\r?\n\s*else[ \t]*:[ \t]*\r?\n\s*")
_UNBINDS = re.compile(r"\b(?:del|global|nonlocal)\b")
_LOADER_LIKE = ("loader", "loader_", "dl", "loaders")


@dataclass(frozen=True, eq=False)
class Taken:
    """What one removal takes away: nodes that will be gone, the assignments its sampler came through, the calls that
    made the sampler, and the expressions that are loaders (whose ``.sampler`` is no attribute of the project's)."""

    nodes: frozenset[ast.AST]
    definitions: tuple[Definition, ...]
    made: frozenset[ast.AST] = frozenset()
    loaders: frozenset[ast.AST] = frozenset()


@dataclass(frozen=True, eq=False)
class Unused:
    """A statement that nothing needs once the removals of these numbers are all made."""

    statement: ast.stmt
    needs: frozenset[int]


def pure(node: ast.AST, made: Collection[ast.AST] = ()) -> bool:
    """Whether an expression does nothing but ask, so that it may go: no name bound, no call but of a question.

    ``made`` are calls that may go whatever their name is.
    """
    for n in ast.walk(node):
        if isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(n, ast.Call) and n not in made:
            name = last_name(n.func)
            if name not in _QUESTIONS and not name.startswith(_ASKING):
                return False
    return True


def unused_statements(module: Module, removals: Sequence[Taken]) -> list[Unused]:
    """The assignments that nothing reads any more, and the blocks that hold nothing else.

    An assignment that is all that a branch does goes where the branch can go with it. Else it is left: a branch that
    only says ``pass`` tells a reader less than the assignment does.
    """
    kept: set[ast.AST] = set()
    while True:
        dead = _dead_assignments(module, removals, kept)
        found = _outermost(module, dead)
        more = _emptying(module, dead, found)
        if not more:
            return [Unused(statement, needs) for statement, needs in found.items()]
        kept |= more


def _outermost(module: Module, dead: dict[ast.stmt, frozenset[int]]) -> dict[ast.stmt, frozenset[int]]:
    found: dict[ast.stmt, frozenset[int]] = {}
    for statement in dead:
        top: ast.stmt = statement
        needs = dead[statement]
        outer = _around(module, top)
        while outer is not None and _holds_only(outer, dead, found):
            for inner in ast.walk(outer):
                needs |= dead.get(inner, frozenset()) if isinstance(inner, ast.stmt) else frozenset()
            top, outer = outer, _around(module, outer)
        found[top] = found.get(top, frozenset()) | needs
    return found


def _around(module: Module, statement: ast.stmt) -> ast.stmt | None:
    """The compound statement around a statement: a handler and a case are parts of one."""
    outer = module.parents[statement]
    if isinstance(outer, (ast.ExceptHandler, ast.match_case)):
        outer = module.parents[outer]
    return outer if isinstance(outer, ast.stmt) else None


def _emptying(
    module: Module, dead: dict[ast.stmt, frozenset[int]], found: dict[ast.stmt, frozenset[int]]
) -> set[ast.AST]:
    """The dead assignments without which a block would be empty, and those of the same name beside them."""
    needed: set[ast.AST] = set()
    for top in found:
        if all(s in found for s in module.block(top)) and not _goes_alone(module, top, found):
            needed.update(s for s in ast.walk(top) if s in dead)
    names = {(d.scope, d.key) for d in module.bindings.definitions if d.statement in needed}
    return {d.statement for d in module.bindings.definitions if (d.scope, d.key) in names and d.statement in dead}


def _goes_alone(module: Module, statement: ast.stmt, gone: Collection[ast.stmt]) -> bool:
    """Whether a branch that is left empty can go: that of an ``if`` with a plain ``else`` and without comments, whose
    other branch stays."""
    outer = module.parents[statement]
    if not isinstance(outer, ast.If) or not outer.orelse:
        return False
    if all(s in gone for s in (outer.orelse if statement in outer.body else outer.body)):
        return False
    source = module.source
    between = source.text[source.span(outer.body[-1]).end : source.span(outer.orelse[0]).start]
    multiline = outer.body[0].lineno > (outer.test.end_lineno or 0)
    return multiline and _ELSE.fullmatch(between) is not None and "#" not in source.source(outer)


def _dead_assignments(module: Module, removals: Sequence[Taken], kept: set[ast.AST]) -> dict[ast.stmt, frozenset[int]]:
    """Each assignment of which every reader is gone, with the removals that took its readers."""
    gone: set[ast.AST] = set().union(*(r.nodes for r in removals))
    made: set[ast.AST] = set().union(*(r.made for r in removals))
    loaders: set[ast.AST] = set().union(*(r.loaders for r in removals))
    statements = {
        d.statement: frozenset(
            i for i, r in enumerate(removals) if any(o.statement is d.statement for o in r.definitions)
        )
        for r in removals
        for d in r.definitions
        if isinstance(d.statement, (ast.Assign, ast.AnnAssign))
        and d.statement not in kept
        and d.statement.value is not None
        and pure(d.statement.value, made)
    }
    bound = {s: [d for d in module.bindings.definitions if d.statement is s] for s in statements}
    readers = {s: [use for d in bound[s] for use in module.bindings.readers(d)] for s in statements}
    dead: dict[ast.stmt, frozenset[int]] = {}
    while True:  # one dead assignment may have been the last reader of another
        more = [
            s
            for s in statements
            if s not in dead
            and all(use in gone for use in readers[s])
            and not any(_needed_elsewhere(module, d, gone, loaders) for d in bound[s])
        ]
        if not more:
            return dead
        for statement in more:
            assert isinstance(statement, ast.stmt)
            dead[statement] = statements[statement]
            gone.update(ast.walk(statement))


def _holds_only(block: ast.stmt, dead: dict[ast.stmt, frozenset[int]], found: dict[ast.stmt, frozenset[int]]) -> bool:
    """Whether a branching holds nothing but dead assignments (and branchings of such), and asks without effect."""
    parts: list[ast.stmt] = []
    if isinstance(block, ast.If) and pure(block.test):
        parts = [*block.body, *block.orelse]
    elif isinstance(block, ast.Try):
        handled = [s for h in block.handlers for s in h.body]
        parts = [*block.body, *handled, *block.orelse, *block.finalbody]
    elif isinstance(block, ast.Match) and pure(block.subject) and not any(_binds(case) for case in block.cases):
        parts = [s for case in block.cases for s in case.body]
    return bool(parts) and all(s in dead or s in found or _holds_only(s, dead, found) for s in parts)


def _binds(case: ast.match_case) -> bool:
    """Whether a case does more than compare."""
    names = [getattr(n, "name", None) or getattr(n, "rest", None) for n in ast.walk(case.pattern)]
    return any(names) or (case.guard is not None and not pure(case.guard))


# --- who else reads a name ---


def _needed_elsewhere(module: Module, d: Definition, gone: set[ast.AST], loaders: set[ast.AST]) -> bool:
    """Whether something needs a binding that reading it in its own scope does not show."""
    base, _, name = d.key.rpartition(".")
    for node in walk(module.tree) if _UNBINDS.search(module.text) else ():
        if isinstance(node, ast.Delete) and any(_is_target(t, base, name) for t in node.targets):
            return True
        if not base and isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
    if base:
        return any(_reads_attribute(m, module, d, name, gone, loaders) for m in module.fellows or (module,))
    return d.scope is module.tree and (
        name in _exported(module) or any(_imports(m, module, name) for m in module.fellows if m is not module)
    )


def _is_target(target: ast.expr, base: str, name: str) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_is_target(e, base, name) for e in target.elts)
    if base:
        return isinstance(target, ast.Attribute) and target.attr == name
    return isinstance(target, ast.Name) and target.id == name


def _reads_attribute(
    reader: Module, module: Module, d: Definition, name: str, gone: set[ast.AST], loaders: set[ast.AST]
) -> bool:
    """Whether a module reads an attribute of this name that may be the one that ``d`` sets."""
    mine = module.class_of(d.node)
    for load in reader.attribute_loads.get(name, []):
        if load in gone or load.value in loaders:
            continue
        standing = reader.bindings.reaching(load)
        if standing and d not in standing:
            continue  # set anew in its own scope
        if name in ("sampler", "batch_sampler") and last_name(load.value).lower().endswith(_LOADER_LIKE):
            continue
        if isinstance(load.value, ast.Name) and load.value.id in ("self", "cls"):
            other = reader.class_of(load)
            own = other is not None and bool(reader.attribute_definitions.get((other, name)))
            if own and other is not mine and mine is not None and not _related(other, mine):
                continue
        return True
    for call in reader.calls:
        if last_name(call.func) in ("getattr", "hasattr", "delattr") and len(call.args) > 1 and call not in gone:
            asked = call.args[1]
            if isinstance(asked, ast.Constant) and asked.value == name and call.args[0] not in loaders:
                return True
    return False


def _related(a: ast.ClassDef | None, b: ast.ClassDef) -> bool:
    """Whether two classes may be base and derived class, or have a base in common."""
    if a is None:
        return False
    bases = [{c.name, *(last_name(base) for base in c.bases)} - {"object", "Module", "ABC"} for c in (a, b)]
    return bool(bases[0] & bases[1])


def _exported(module: Module) -> Iterator[str]:
    for d in module.bindings.definitions:
        if d.key == "__all__" and d.value is not None:
            for node in ast.walk(d.value):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _imports(other: Module, module: Module, name: str) -> bool:
    """Whether another module of the project gets a module-level name of this one."""
    tail = module.name.rpartition(".")[2]

    def ours(dotted: str) -> bool:
        return dotted.rpartition(".")[2] == tail

    for d in other.bindings.definitions:
        if d.kind != "import":
            continue
        base, _, bound = d.module.rpartition(".")
        if bound == name and ours(base):
            return True
        if ours(d.module):
            for load in other.attribute_loads.get(name, []):
                if load.value in other.bindings.readers(d) or last_name(load.value) == tail:
                    return True
    return name in other.text and any(ours(star) for star in other.bindings.star_modules)
