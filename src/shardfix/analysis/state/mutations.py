"""What one node of a program changes in place, by whatever spelling: a store, a method, a function that is given it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.state.plain_calls import of_library

OUTER = "<outer>"  # the root of an object that no name of its own stands for, as a class: `type(self)`

CHANGES = frozenset(
    {"append", "extend", "update", "add", "insert", "setdefault", "pop", "popitem", "add_batch", "put", "put_nowait"}
    | {"appendleft", "extendleft", "popleft", "push", "clear", "remove", "discard", "write", "writerow", "writelines"}
    | {"send", "load_state_dict", "difference_update", "intersection_update", "symmetric_difference_update"}
    | {"subtract", "itemset", "move_to_end", "reverse", "rotate", "fill"}
)
# What is asked of an object by its dunder name; any other one that is called may change it.
_ASKS = frozenset(
    {"len", "contains", "getitem", "getattribute", "str", "repr", "format", "hash", "bool", "int", "float", "index"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "iter", "reversed", "call", "init", "class_getitem", "sizeof", "dir", "new"}
    | {"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"}
    | {"radd", "rsub", "rmul", "rtruediv", "neg", "pos", "abs", "invert", "round", "copy", "deepcopy", "array"}
    | {"subclasshook", "instancecheck", "subclasscheck", "subclasses", "mro", "reduce", "getstate", "fspath", "complex"}
)
# Functions that change the first thing they are given.
_GIVEN = frozenset(
    {"at", "heappush", "heappushpop", "heapreplace", "heappop", "heapify", "insort", "insort_left", "insort_right"}
    | {"setattr", "delattr", "shuffle", "copyto", "putmask", "place", "fill_diagonal", "put_along_axis"}
)
_OPERATORS = frozenset({"setitem", "delitem"})
_ON_PARAMETERS = frozenset({"vector_to_parameters"})
_HARMLESS = frozenset({"requires_grad_", "detach_", "share_memory_", "pin_memory_"})  # what is there stays as it is
_RUNS_TEXT = frozenset({"exec", "eval"})
_OF_ALL = frozenset({"os.environ", "sys.path", "sys.modules", "sys.argv", "warnings.filters"})
# Calls that give the object itself or a part of it.
_PARTS = frozenset({"get", "pop", "setdefault", "values", "items", "popitem", "popleft", "__getitem__", "__getattr__"})
_OF_FIRST = frozenset({"getattr", "vars", "next", "iter", "reversed", "cast"})
_ALL_NAMES = frozenset({"globals", "locals", "type", "__import__", "import_module"})


@dataclass(frozen=True, eq=False, slots=True)
class Changed:
    """An object that a node changes.

    Args:
        object: what is changed, as it is written there.
        stored: whether an attribute or item of it is set, whatever was there before.
    """

    object: ast.expr
    stored: bool = False


def changed_by(module: Module, node: ast.AST) -> Iterator[Changed]:
    """The objects that a node changes in place, those of libraries and files that are imported left out."""
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        if not isinstance(node.ctx, ast.Load) and not _is_setting(module, node):
            yield Changed(node.value, stored=isinstance(node.ctx, ast.Store))
    elif isinstance(node, ast.AugAssign):
        if not (isinstance(node.target, ast.Name) and _is_rebound(module, node.target, node.value)):
            yield Changed(node.target)
    elif isinstance(node, ast.Call):
        yield from (Changed(n) for n in _by_call(module, node))


def _is_rebound(module: Module, target: ast.Name, added: ast.expr) -> bool:
    """``rate = self.rate; rate *= 0.5``: a number is another one then; only a tensor would be changed."""
    if not _is_number(added):
        return False
    for d in module.home(target).bindings.reaching(target):
        if isinstance(d.value, ast.Attribute) and _holds_tensor(module.home(target), d.value.attr):
            return False
        if not isinstance(d.value, (ast.Attribute, ast.Constant)) and d.kind != "augmented":
            return False
    return True


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is seen to be a number: no list is multiplied by a fraction or added to."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "len")
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _holds_tensor(module: Module, name: str) -> bool:
    """Whether an attribute is a buffer, or is set to what torch gives, in a file."""
    made = (d.value for (_, key), found in module.attribute_definitions.items() if key == name for d in found)
    if any(isinstance(v, ast.Call) and any(q.startswith("torch") for q in module.callee(v)) for v in made):
        return True
    buffers = (c for c in module.calls if last_name(c.func) in ("register_buffer", "register_parameter") and c.args)
    return any(isinstance(c.args[0], ast.Constant) and c.args[0].value == name for c in buffers)


def is_change(name: str) -> bool:
    """Whether a method changes what it is called on, by its name."""
    if name.startswith("__"):
        return name.endswith("__") and name[2:-2] not in _ASKS
    return name in CHANGES or _in_place(name)


def _changes(module: Module, call: ast.Call, name: str) -> bool:
    alone = isinstance(module.parents.get(call), ast.Expr)
    return is_change(name) or (name == "sort" and alone)  # that of a tensor gives another one


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and name not in _HARMLESS


def roots(node: ast.expr, *, deep: bool = False) -> Iterator[tuple[str, bool]]:
    """The names that an object belongs to, each with whether it is a part of what the name stands for."""
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and node.attr == "__class__":
                yield OUTER, True
                return
            node, deep = node.value, True
        elif isinstance(node, (ast.Starred, ast.NamedExpr, ast.Await)):
            node = node.value
        elif isinstance(node, ast.Name):
            yield node.id, deep
            return
        elif isinstance(node, ast.IfExp):
            yield from roots(node.body, deep=deep)
            node = node.orelse
        elif isinstance(node, ast.BoolOp):
            for value in node.values[:-1]:
                yield from roots(value, deep=deep)
            node = node.values[-1]
        elif isinstance(node, ast.Call):
            yield from _roots_of_call(node, deep)
            return
        else:
            return


def _roots_of_call(call: ast.Call, deep: bool) -> Iterator[tuple[str, bool]]:
    func = call.func
    if isinstance(func, ast.Name) and func.id == "super":
        yield "self", deep
    elif isinstance(func, ast.Name) and func.id in _ALL_NAMES:
        yield OUTER, True
    elif isinstance(func, ast.Name) and func.id in _OF_FIRST and call.args:
        yield from roots(call.args[0], deep=True)
    elif isinstance(func, ast.Attribute) and (func.attr in _PARTS or is_change(func.attr)):
        yield from roots(func.value, deep=deep or func.attr in _PARTS)


def root_name(node: ast.expr) -> ast.Name | None:
    """The name at the start of a chain of attributes and items."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _by_call(module: Module, call: ast.Call) -> Iterator[ast.expr]:
    func, name = call.func, last_name(call.func)
    yield from (k.value for k in call.keywords if k.arg == "out")
    if isinstance(func, ast.Call) and last_name(func.func) == "getattr" and func.args:
        asked = func.args[1] if len(func.args) > 1 else None
        if not isinstance(asked, ast.Constant) or is_change(str(asked.value)):
            yield func.args[0]
    elif isinstance(func, ast.Attribute) and _changes(module, call, name) and not is_function(module, func):
        kind = isinstance(func.value, ast.Name) and func.value.id in ("list", "dict", "set", "object")
        yield call.args[0] if kind and call.args else func.value
    first = call.args[:1]
    if name in _GIVEN or (name == "next" and isinstance(func, ast.Name)):
        yield from first
    elif name in _RUNS_TEXT and isinstance(func, ast.Name):
        yield call
    elif name in _ON_PARAMETERS:
        yield from call.args[:2]
    elif isinstance(func, ast.Attribute) and (name == "put" or _in_place(name)) and is_function(module, func):
        yield from first  # np.put(a, ..), torch.relu_(x)
    elif any(q.startswith("operator.") for q in module.callee(call)):
        if name in _OPERATORS or (name.startswith("i") and name not in ("is_", "is_not", "inv", "invert", "index")):
            yield from first


def is_definition(module: Module, name: ast.Name) -> bool:
    """Whether a name stands for a module, function or class: no object of the project, imported or not."""
    return any(not objects(module, d) for d in module.home(name).bindings.reaching(name))


def objects(module: Module, d: Definition) -> list[Definition]:
    """What binds the object that a definition binds, in another file where it is imported; none where it is a module,
    a function or a class."""
    if d.kind != "import":
        return [d] if d.kind not in ("function", "class", "star-import") else []
    own = module.home(d.node)
    named = [o for q in {d.module, *own.resolve(d.module)} for o in own.named(q)]
    return [o for o in named if o.kind not in ("import", "function", "class", "star-import")]


def is_function(module: Module, func: ast.Attribute) -> bool:
    """Whether what looks like a method is a function of a library, file or class: ``torch.add``, ``Log.add``."""
    root = root_name(func)
    if root is None or not is_definition(module, root):
        return False
    if func.value is root:
        return True
    names = module.qualify(func)
    return of_library(names) and not any(q.rpartition(".")[0] in _OF_ALL for q in names)


def _is_setting(module: Module, node: ast.Attribute | ast.Subscript) -> bool:
    """Whether something of a library is set: ``torch.backends.cudnn.benchmark = True``."""
    root = root_name(node)
    if root is None or not isinstance(node, ast.Attribute):
        return False
    return any(d.kind == "import" for d in module.bindings.reaching(root)) and of_library(module.qualify(node))


__all__ = [
    "CHANGES",
    "OUTER",
    "Changed",
    "changed_by",
    "is_change",
    "is_definition",
    "is_function",
    "objects",
    "root_name",
    "roots",
]
