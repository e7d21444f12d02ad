"""Which statements of a slice are kept: decided conditions, dead names, and names that some path leaves unset."""

from __future__ import annotations

import ast

from shardfix.proof.recipes.choices import named


def folded(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements with conditions that are literals decided."""
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.If):
            test = _constant(s.test)
            if test is not None:
                found += folded(s.body if test else s.orelse)
                continue
            s = ast.If(s.test, folded(s.body), folded(s.orelse))
        found.append(s)
    return found


def _constant(node: ast.expr) -> bool | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _constant(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        values = [_constant(v) for v in node.values]
        decisive = isinstance(node.op, ast.Or)
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return bool(node.value) if isinstance(node, ast.Constant) else None


def reads(body: list[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def needed(body: list[ast.stmt], also: set[str]) -> list[ast.stmt]:
    """The statements without those that nothing reads."""
    while True:
        kept = _without(body, reads(body) | also | {"loader"})
        if [ast.dump(s) for s in kept] == [ast.dump(s) for s in body]:
            return kept
        body = kept


def _without(body: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.If):
            inside, other = _without(s.body, read), _without(s.orelse, read)
            if inside:
                found.append(ast.If(s.test, inside, other))
            elif other:
                found.append(ast.If(ast.UnaryOp(ast.Not(), s.test), other, []))
        elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            if s.targets[0].id in read:
                found.append(s)
        elif not isinstance(s, ast.Pass):
            found.append(s)
    return found


def unset(body: list[ast.stmt]) -> str | None:
    """A name of the recipe that is read where some path has not set it."""
    made = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def run(block: list[ast.stmt], known: set[str]) -> str | None:
        for s in block:
            value = s.test if isinstance(s, ast.If) else s
            for n in ast.walk(value):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in made and n.id not in known:
                    return n.id
            if isinstance(s, ast.If):
                left, right = set(known), set(known)
                missing = run(s.body, left) or run(s.orelse, right)
                if missing:
                    return missing
                known |= left & right
            elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                known.add(s.targets[0].id)
        return None

    return run(body, set())


def conditions_of(body: list[ast.stmt], variable: str) -> dict[str, bool]:
    """The unknown conditions under which a variable is set, and what they must be for that."""
    for s in body:
        if not isinstance(s, ast.If):
            continue
        for block, outcome in ((s.body, True), (s.orelse, False)):
            if any(
                isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == variable
                for inner in block
                for n in ast.walk(inner)
            ):
                found = conditions_of(block, variable)
                test: ast.expr = s.test
                while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    test, outcome = test.operand, not outcome
                unknown = named(test, "UNKNOWN")
                if isinstance(test, ast.Subscript) and unknown:
                    found[unknown[0]] = outcome
                return found
    return {}
