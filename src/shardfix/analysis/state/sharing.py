"""Which names of a function stand for objects that it was given or that are not its own, and which only hold some."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.calling import Function, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.state.mutations import OUTER, objects, roots

NOTHING, HOLDS, IS = 0, 1, 2  # of an expression: it is an object of its own, it holds one that is not, it is one

_PLAIN = frozenset({"shape", "device", "dtype", "training", "ndim", "__name__", "__doc__"})
# Methods that give the object itself in another shape, or a part of it.
_VIEWS = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "t", "transpose", "permute", "detach", "numpy", "flatten", "ravel"}
    | {"expand", "expand_as", "view_as", "select", "narrow", "contiguous", "get", "pop", "popitem", "popleft", "next"}
    | {"setdefault", "cpu", "cuda", "to", "float", "long", "int", "double", "half", "diagonal", "get_submodule"}
    | {"__iadd__", "get_buffer", "get_parameter", "unwrap_model"}
)
# Functions and methods that give something new, which holds what they are given or called on.
_HOLDS = frozenset(
    {"list", "tuple", "set", "dict", "sorted", "zip", "enumerate", "reversed", "iter", "map", "filter", "chain"}
    | {"copy", "values", "items", "keys", "parameters", "named_parameters", "modules", "named_modules", "children"}
    | {"named_children", "buffers", "named_buffers", "state_dict", "partial", "unbind", "split", "chunk", "vars"}
    | {"cycle", "islice", "tee", "deque", "defaultdict", "OrderedDict", "replace", "_replace"}
)
_ITSELF = frozenset(
    {"nullcontext", "closing", "cast", "getattr", "next", "max", "min", "from_numpy", "asarray", "as_tensor"}
    | {"unwrap_model"}
)
_CACHED = frozenset({"lru_cache", "cache", "cached_property"})
_BUILTINS = frozenset(dir(builtins)) | {"torch"}
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)
_DEPTH = 3


@dataclass
class Sharing:
    """The names of one function, or of one loop.

    Args:
        inside: the function, or the loop.
        known: what its parameters are, where they are not its own; then what each of its names is.
        own: all names that it binds itself.
        depth: how many functions it is looked into from another one.
    """

    module: Module
    inside: ast.AST
    known: dict[str, int]
    own: set[str]
    depth: int = 0
    _parts: dict[str, set[str] | None] = field(default_factory=dict)  # under which of its keys a name holds some
    _open: set[ast.AST] = field(default_factory=set)

    def __post_init__(self) -> None:
        nodes = [n for n in ast.walk(self.inside) if isinstance(n, _BINDS) and n is not self.inside]
        for _ in range(len(nodes) + 1):
            before = dict(self.known)
            for n in nodes:
                self._bind(n)
            if self.known == before:
                return

    def of(self, node: ast.expr) -> int:
        """Whether an expression is an object that is not the function's own, or holds one."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id, NOTHING) if node.id in self.own else self._from_outside(node)
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and node.attr in _PLAIN:
                return NOTHING
            if isinstance(node, ast.Attribute) and self._is_shared(node):
                return IS
            return IS if self.of(node.value) and not self._is_another_part(node) else NOTHING
        if isinstance(node, (ast.Starred, ast.NamedExpr, ast.Await, ast.FormattedValue)):
            return self.of(node.value)
        if isinstance(node, ast.IfExp):
            return max(self.of(node.body), self.of(node.orelse))
        if isinstance(node, ast.BoolOp):
            return max(map(self.of, node.values))
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return min(HOLDS, max(map(self.of, node.elts), default=NOTHING))
        if isinstance(node, ast.Dict):
            return min(HOLDS, max(map(self.of, node.values), default=NOTHING))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return min(HOLDS, self.of(node.elt))
        if isinstance(node, ast.DictComp):
            return min(HOLDS, self.of(node.value))
        return self._called(node) if isinstance(node, ast.Call) else NOTHING

    def changes_another_s(self, node: ast.expr) -> bool:
        """Whether a change of this object, as it is written, changes one that is not the function's own."""
        for name, deep in roots(node):
            if name == OUTER:
                return True
            kind = self.known.get(name, NOTHING) if name in self.own else IS
            if kind == IS or (deep and kind == HOLDS and not self._is_another_part(_first_part(node))):
                return True
        if isinstance(node, (ast.Attribute, ast.Subscript)) and self.of(node) == IS:
            return True
        calls = node
        while isinstance(calls, (ast.Attribute, ast.Subscript)):
            calls = calls.value
        if isinstance(calls, ast.Call):
            return self.of(calls) >= (HOLDS if calls is not node else IS)
        return False

    def _is_another_part(self, node: ast.expr) -> bool:
        """Whether an item or attribute is none of those under which a name holds what is not the function's own."""
        if not isinstance(node, (ast.Attribute, ast.Subscript)) or not isinstance(node.value, ast.Name):
            return False
        keys = self._parts.get(node.value.id)
        key = _key(node)
        return self.known.get(node.value.id) == HOLDS and keys is not None and key is not None and key not in keys

    # -- what is bound -----------------------------------------------------------------------------------------

    def _bind(self, n: ast.AST) -> None:
        if isinstance(n, ast.Assign):
            for target in n.targets:
                self._put(target, n.value, self.of(n.value))
        elif isinstance(n, (ast.AnnAssign, ast.NamedExpr)) and n.value is not None:
            self._put(n.target, n.value, self.of(n.value))
        elif isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._put(n.target, None, IS if self.of(n.iter) or self._asked(n.iter) else NOTHING)
        elif isinstance(n, ast.withitem) and n.optional_vars is not None:
            self._put(n.optional_vars, None, self.of(n.context_expr))
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            added = n.args[-1:] if n.func.attr in ("append", "add", "setdefault", "__setitem__", "insert") else []
            if any(self.of(a) for a in added):
                self._hold(n.func.value)

    def _asked(self, node: ast.expr) -> bool:
        """``model.parameters()``, ``enumerate(h.values())``: what it goes over belongs to what is asked for it."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
            if self.of(node):
                return not isinstance(node, ast.Name) or node.id in self.own
        return False

    def _put(self, target: ast.expr, value: ast.expr | None, kind: int) -> None:
        if isinstance(target, ast.Starred):
            self._put(target.value, None, min(kind, HOLDS))
        elif isinstance(target, (ast.Tuple, ast.List)):
            pairs = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for i, t in enumerate(target.elts):
                item = value.elts[i] if pairs and isinstance(value, (ast.Tuple, ast.List)) else None
                self._put(t, item, self.of(item) if item is not None else IS if kind else NOTHING)
        elif isinstance(target, ast.Name):
            self.known[target.id] = max(self.known.get(target.id, NOTHING), kind)
            if kind:
                self._part(target.id, self._keys(value))
        elif kind:
            self._hold(target)

    def _hold(self, node: ast.expr) -> None:
        """What something that is not the function's own is put in holds it from there on."""
        for name, _ in roots(node):
            if name in self.own:
                self.known[name] = max(self.known.get(name, NOTHING), HOLDS)
                key = _key(node) if isinstance(node, (ast.Attribute, ast.Subscript)) else None
                direct = isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name)
                self._part(name, {key} if key is not None and direct else None)

    def _part(self, name: str, keys: set[str] | None) -> None:
        before = self._parts.get(name, set())
        self._parts[name] = None if keys is None or before is None else before | keys

    def _keys(self, value: ast.expr | None) -> set[str] | None:
        """The keys of a dict that is written out under which it holds something; None where that is not seen."""
        if not isinstance(value, ast.Dict):
            return None
        held = [k for k, v in zip(value.keys, value.values, strict=True) if k is None or self.of(v)]
        if not all(isinstance(k, ast.Constant) for k in held):
            return None
        return {repr(k.value) for k in held if isinstance(k, ast.Constant)}

    # -- what is read ------------------------------------------------------------------------------------------

    def _from_outside(self, node: ast.Name) -> int:
        found = self.module.home(node).bindings.reaching(node)
        if not found:
            return NOTHING if node.id in _BUILTINS else IS
        made = [o for d in found for o in objects(self.module, d)]
        plain = all(isinstance(d.value, ast.Constant) for d in made)
        return IS if made and not plain else NOTHING

    def _is_shared(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one object for all of a class, or what a property gives that is not the object's."""
        home = self.module.home(node)
        for cls in home.project_classes(node.value):
            if shared_by_class(home, cls, node.attr):
                return True
        for cls in home.instances(node.value):
            method = home.method(cls, node.attr)
            if method is not None and _is_property(method):
                inner = Sharing(home.home(method), method, {}, names_of(method), self.depth + 1)
                if self.depth < _DEPTH and any(inner.of(r) == IS for r in returns_of(method)):
                    return True
            if shared_by_class(home, cls, node.attr):
                return True
        return False

    def _made(self, call: ast.Call, cls: ast.ClassDef) -> int:
        """What an object of a class is that is made here: one of many names, or one that holds what others do."""
        home = self.module.home(cls)
        if home.method(cls, "__new__") is not None:
            return IS
        made = home.method(cls, "__init__")
        if made is None or self.depth >= _DEPTH or made in self._open:
            return NOTHING
        given = self._arguments(made, call)
        inner = Sharing(home.home(made), made, given, names_of(made), self.depth + 1, _open={*self._open, made})
        whole = any(isinstance(n, ast.Attribute) and n.attr == "__dict__" for n in ast.walk(made))
        return IS if whole else min(HOLDS, inner.known.get("self", NOTHING))

    def _called(self, call: ast.Call) -> int:
        name = last_name(call.func)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        given = max(map(self.of, arguments_of(call)), default=NOTHING)
        classes = self.module.project_classes(call.func)
        if classes:
            return max(min(given, HOLDS), *(self._made(call, cls) for cls in classes))
        if name == "type" and isinstance(call.func, ast.Name):
            return IS
        functions = self.module.called_functions(call, passed=False)
        if functions:
            return max(self._given_back(f, call) for f in functions)
        of_receiver = self.of(receiver) if receiver is not None else NOTHING
        if name in _ITSELF:
            return IS if given else NOTHING
        if name in _VIEWS or (name.endswith("_") and not name.endswith("__")):
            return IS if of_receiver else NOTHING
        if name in _HOLDS:
            return HOLDS if of_receiver or given else NOTHING
        return min(given, HOLDS) if name[:1].isupper() else NOTHING

    def _given_back(self, function: Function, call: ast.Call) -> int:
        """What a function of the project returns: a cached object and one from outside it are nobody's own."""
        if any(last_name(d.func if isinstance(d, ast.Call) else d) in _CACHED for d in function.decorator_list):
            return IS
        returned = returns_of(function)
        if self.depth >= _DEPTH or not returned or function in self._open:
            return NOTHING
        given = self._arguments(function, call)
        if isinstance(call.func, ast.Attribute) and self.module.is_method(function):
            first = parameters(function)[:1]
            given.update({a.arg: self._of_object(call.func.value) for a in first})
        home = self.module.home(function)
        inner = Sharing(home, function, given, names_of(function), self.depth + 1, _open={*self._open, function})
        return max(map(inner.of, returned))

    def _arguments(self, function: Function, call: ast.Call) -> dict[str, int]:
        """What a function's parameters are in a call; a list that is a default is the same one in all calls."""
        defaults = {a.arg: default_of(function, a.arg) for a in parameters(function)}
        given = {name: IS for name, value in defaults.items() if isinstance(value, MUTABLE)}
        for argument in arguments_of(call):
            bound = self.module.parameter_of(function, call, argument)
            if bound is not None:
                given[bound.arg] = self.of(argument)
        return given

    def _of_object(self, node: ast.expr) -> int:
        return IS if self.module.project_classes(node) else self.of(node)


def _key(node: ast.Attribute | ast.Subscript) -> str | None:
    """``'x'`` of ``b.x`` and ``b['x']``; None where that is not written out."""
    if isinstance(node, ast.Attribute):
        return repr(node.attr)
    return repr(node.slice.value) if isinstance(node.slice, ast.Constant) else None


def _first_part(node: ast.expr) -> ast.expr:
    """``b.x`` of ``b.x[0].append``: the part of a name that an object belongs to."""
    while isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.value, ast.Name):
        node = node.value
    return node


_BINDS = (
    *(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem),
    ast.Call,
)


def shared_by_class(module: Module, cls: ast.ClassDef, name: str) -> bool:
    """Whether a class itself has an object under a name that no object of it sets anew: ``rows = []``."""
    lineage = module.lineage(cls)
    if any(module.attribute_values(c, name) for c in lineage):
        return False
    for statement in (s for c in lineage for s in c.body):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        value = getattr(statement, "value", None)
        if isinstance(value, MUTABLE) and any(isinstance(t, ast.Name) and t.id == name for t in targets):
            return not (isinstance(value, ast.Call) and last_name(value.func) == "field")
    return False


def _is_property(method: Function) -> bool:
    return any(last_name(d) in ("property", "cached_property") for d in method.decorator_list)


def sharing_of(module: Module, function: Function | ast.Lambda, given: Mapping[str, int], depth: int = 0) -> Sharing:
    """The names of a function that is given these objects."""
    return Sharing(module, function, dict(given), names_of(function), depth)


def names_of(function: ast.AST) -> set[str]:
    """The names that a function binds: its parameters, and all that it assigns."""
    own = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        own |= {a.arg for a in parameters(function)}
    return own


__all__ = ["HOLDS", "IS", "MUTABLE", "NOTHING", "Sharing", "names_of", "shared_by_class", "sharing_of"]
