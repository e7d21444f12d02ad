"""Data-parallel groups in a recipe: the sizes and ranks of a device mesh, and groups that are made by hand."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from shardfix.analysis.code.names import last_name
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import name, tells_regime
from shardfix.proof.recipes.settings import exact, literal

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_LARGEST = 12  # ranks that a proof starts for groups
_MESH = "init_device_mesh"


def of_mesh(slicer: Slicer, node: ast.expr, depth: int) -> ast.expr | None:
    """``mesh["dp"].size()`` and ``mesh["dp"].get_local_rank()`` by the world and the rank; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    asked, base = node.func.attr, node.func.value
    if asked not in ("size", "get_local_rank"):
        return None
    key: ast.expr | None = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if isinstance(base, ast.Subscript) and not node.args:
        key, base = base.slice, base.value
    made = [d.value for d in slicer.definitions(base) if isinstance(d.value, ast.Call)]
    if key is None or len(made) != 1 or not isinstance(made[0], ast.Call) or last_name(made[0].func) != _MESH:
        return None
    keywords = {k.arg: k.value for k in made[0].keywords}
    shape = keywords.get("mesh_shape") or (made[0].args[1] if len(made[0].args) > 1 else None)
    names = keywords.get("mesh_dim_names")
    if not isinstance(shape, (ast.Tuple, ast.List)):
        return None
    known = [literal(n) for n in names.elts] if isinstance(names, (ast.Tuple, ast.List)) else []
    wanted = literal(key)
    index = known.index(wanted) if wanted in known else wanted
    if type(index) is not int or not 0 <= index < len(shape.elts):
        return None
    slicer.mesh.setdefault(asked, set()).add(index)
    if len(set.union(*slicer.mesh.values())) > 1:
        raise slicer.stopped("the shares are counted along one dimension of the mesh, the rank along another", node)
    sizes = [slicer.quantities.process(size, "the mesh's size", depth + 1) for size in shape.elts]
    others = [literal(size) for i, size in enumerate(sizes) if i != index]
    if isinstance(sizes[index], ast.Constant) and all(type(n) is int for n in others):
        # as many groups as the ranks that run give
        slicer.choices.stand_ins[text_of(shape.elts[index])] = "as many data-parallel ranks as run"
        ranks = prod(n for n in others if isinstance(n, int))
        sizes[index] = ast.BinOp(name("WORLD_SIZE"), ast.FloorDiv(), ast.Constant(ranks)) if ranks > 1 else sizes[index]
    if asked == "size":
        return sizes[index]
    rank: ast.expr = name("RANK")
    for size in reversed(sizes[index + 1 :]):
        rank = ast.BinOp(rank, ast.FloorDiv(), size)
    return ast.BinOp(rank, ast.Mod(), sizes[index])


def worlds_of(slicer: Slicer, trees: list[ast.stmt]) -> tuple[int, ...]:
    """The numbers of ranks that show what a recipe of data-parallel groups does; none for one without groups.

    Groups show in a rank that is divided (``rank // tp``): several ranks have one share.
    """
    parts = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.BinOp)]
    divided = [n for n in parts if isinstance(n.op, (ast.FloorDiv, ast.Mod)) and _is(n.left, "RANK", "get_rank")]
    if not divided:
        return ()
    counted = [n for n in parts if isinstance(n.op, ast.FloorDiv) and _is(n.left, "WORLD_SIZE", "get_world_size")]
    variables = {
        s.targets[0].id: s.value for s in trees if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    by = _number(slicer, counted[0].right, variables) if counted else 0
    return (2 * by, 3 * by) if by > 1 and 3 * by <= _LARGEST else ()


def _is(node: ast.expr, *names: str) -> bool:
    return tells_regime(node) and any(
        (isinstance(n, ast.Name) and n.id in names) or (isinstance(n, ast.Attribute) and n.attr in names)
        for n in ast.walk(node)
    )


def _number(slicer: Slicer, node: ast.expr, variables: dict[str, ast.expr]) -> int:
    """A whole number, 0 where it is not known."""
    if isinstance(node, ast.Name) and node.id in variables:
        node = variables[node.id]
    value = literal(node)
    if value is ... and hasattr(node, "lineno"):
        value = exact(slicer.module, node)
    return value if type(value) is int else 0
