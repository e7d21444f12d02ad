"""What a setting is as the source says it: constants, options and their defaults, config objects, dicts, namespaces."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

_DEPTH = 8  # steps from a name to the value it is given
_NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
_DICTS = frozenset({"EasyDict", "edict", "AttrDict", "Munch", "ConfigDict", "DotMap", "Box", "Dict", "CfgNode", "CN"})
_DATACLASSES = ("dataclasses.dataclass", "attr.s", "attrs.define", "attr.define", "pydantic.dataclasses.dataclass")
_MODELS = ("typing.NamedTuple", "pydantic.BaseModel")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that a setting may have. ``option``: it is a default that the user of the program may override."""

    value: ast.expr
    option: bool = False


class _Unseen(Exception):
    """Something that the value depends on is not seen."""


def literal(node: ast.expr | None) -> object:
    """The value of a literal number, string, boolean or None, a sign included; ``Ellipsis`` for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand)
        return -value if isinstance(value, (int, float)) else ...
    return node.value if isinstance(node, ast.Constant) else ...


def settings(module: Module, node: ast.expr) -> list[Setting]:
    """Every value that an expression may have, as literals; empty if not all are seen."""
    try:
        found = list(_values(module.home(node), node, 0))
    except _Unseen:
        return []
    unlike = {(repr(literal(s.value)), s.option): s for s in found}
    return list(unlike.values())


def exact(module: Module, node: ast.expr) -> object:
    """The one value that the source gives a setting; ``Ellipsis`` if it is not one, or the user may override it."""
    found = settings(module, node)
    return literal(found[0].value) if len(found) == 1 and not found[0].option else ...


def default(module: Module, node: ast.expr) -> object:
    """The one value that a setting has unless the user gives another; ``Ellipsis`` if there is none."""
    found = {repr(literal(s.value)): literal(s.value) for s in settings(module, node)}
    return next(iter(found.values())) if len(found) == 1 else option(module, node)


def option(module: Module, node: ast.expr) -> object:
    """The default of the option ``args.name``, whatever else sets it later; ``Ellipsis`` if there is none."""
    if not isinstance(node, ast.Attribute) or _is_self(node.value):
        return ...
    found = [literal(s.value) for s in _options(module.home(node), node)]
    return found[0] if found else _in_a_tree(module, node)


def _in_a_tree(module: Module, node: ast.Attribute) -> object:
    """The one literal that a tree of settings is given for ``cfg.SOLVER.BATCH``: by ``_C.SOLVER.BATCH = 8`` (yacs)."""
    path = ast.unparse(node).partition(".")[2]
    if module.project is None or "." not in path:
        return ...
    stored = [d for d in module.project.stores_named(node.attr) if d.key.partition(".")[2] == path]
    values = {repr(literal(d.value)): literal(d.value) for d in stored}
    return next(iter(values.values())) if len(values) == 1 else ...


def _values(module: Module, node: ast.expr, depth: int) -> Iterator[Setting]:
    module = module.home(node)
    if depth > _DEPTH:
        raise _Unseen
    if literal(node) is not ...:
        yield Setting(node)
    elif isinstance(node, ast.IfExp):
        yield from _values(module, node.body, depth + 1)
        yield from _values(module, node.orelse, depth + 1)
    else:
        for setting in _behind(module, node, depth):
            if literal(setting.value) is not ...:
                yield setting
            else:
                for inner in _values(module, setting.value, depth + 1):
                    yield Setting(inner.value, inner.option or setting.option)


def _behind(module: Module, node: ast.expr, depth: int) -> Iterator[Setting]:
    """What a name, an attribute or an item is given, one step back. Raises _Unseen where something else may give it."""
    if depth > _DEPTH:
        raise _Unseen
    if isinstance(node, (ast.Name, ast.Attribute)):
        found = list(module.bindings.reaching(node))
        if found:
            for d in found:
                yield from _defined(module.home(d.node), d, depth)
            return
    if isinstance(node, ast.Attribute):
        named = [d for name in sorted(module.qualify(node)) for d in module.named(name)]
        if named:
            for d in named:
                yield from _defined(module.home(d.node), d, depth)
        else:
            yield from _attribute(module, node, depth)
        return
    key = _key(node)
    if key is None:
        raise _Unseen
    base, name, otherwise = key
    for held in _objects(module, base, depth + 1):
        yield from _item(module, held, name, otherwise)


def _defined(module: Module, d: Definition, depth: int) -> Iterator[Setting]:
    if d.kind == "import":
        named = [o for name in sorted(module.resolve(d.module)) for o in module.named(name) if o is not d]
        if not named:
            raise _Unseen
        for o in named:
            yield from _defined(module.home(o.node), o, depth + 1)
    elif d.kind == "parameter":
        yield from _given(module, d)
    elif d.kind == "assign" and d.value is not None and d.index is None:
        if isinstance(d.statement, ast.AugAssign):
            raise _Unseen
        yield Setting(d.value)
    else:
        raise _Unseen


def _given(module: Module, d: Definition) -> Iterator[Setting]:
    """What the callers of a function give to a parameter, its default where they give nothing."""
    function = d.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise _Unseen
    a = function.args
    calls = module.callers(function)
    if d.node in (a.vararg, a.kwarg) or not calls:
        raise _Unseen
    for call in calls:
        if any(isinstance(g, ast.Starred) for g in call.args) or any(k.arg is None for k in call.keywords):
            raise _Unseen
        value = argument_of(module, function, call, d.key) or default_of(function, d.key)
        if value is None:
            raise _Unseen
        yield Setting(value)


# --- attributes of objects ---


def _attribute(module: Module, node: ast.Attribute, depth: int) -> Iterator[Setting]:
    """An attribute: of a class, of an object of one, of parsed options, of a namespace or a dict with attributes."""
    classes = module.project_classes(node.value)
    if classes:
        yield from _of_class(module, classes, node.attr)
        return
    if _is_self(node.value):
        cls = module.class_of(node)
        yield from _of_instance(module, [cls] if cls is not None else [], node, None)
        return
    options = list(_options(module, node))
    if options:
        yield from options
        return
    instances = module.instances(node.value)
    for held in _objects(module, node.value, depth + 1):
        if isinstance(held, ast.Call) and module.home(held).project_classes(held.func):
            yield from _of_instance(module, module.home(held).project_classes(held.func), node, held)
        elif isinstance(held, (ast.Call, ast.Dict)):
            yield from _item(module, held, node.attr, None)
        elif instances:
            yield from _of_instance(module, instances, node, None)
        else:
            raise _Unseen


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _of_class(module: Module, classes: list[ast.ClassDef], name: str) -> Iterator[Setting]:
    for cls in classes:
        found = _class_value(module, cls, name)
        if found is None or _written(module, name, set()):
            raise _Unseen
        yield Setting(found)


def _class_value(module: Module, cls: ast.ClassDef, name: str) -> ast.expr | None:
    for member in module.lineage(cls):
        for d in module.home(member).bindings.exit_of(member).get(name, ()):
            if d.kind == "assign" and d.value is not None and d.index is None:
                return _field_default(module.home(member), d.value)
    return None


def _field_default(module: Module, value: ast.expr) -> ast.expr:
    """``field(default=8)``, ``Field(8)``: the default in it."""
    if isinstance(value, ast.Call) and last_name(value.func).lower() in ("field", "ib", "attrib"):
        return next((k.value for k in value.keywords if k.arg == "default"), value.args[0] if value.args else value)
    return value


def _of_instance(
    module: Module, classes: list[ast.ClassDef], node: ast.Attribute, made: ast.Call | None
) -> Iterator[Setting]:
    """An attribute of an object of a class: what made it gave it, what its methods set, or the class's own value.

    An object of which only the class is seen (annotated, parsed by a library) has its defaults as options.
    """
    if not classes:
        raise _Unseen
    for cls in classes:
        there = module.home(cls)
        set_ = [d for member in there.lineage(cls) for d in there.attribute_values(member, node.attr)]
        if _written(module, node.attr, {d.node for d in set_}):
            raise _Unseen
        if set_:
            for d in set_:
                yield from _defined(there.home(d.node), d, 0)
            continue
        fields = _fields(there, cls)
        given: ast.expr | None = None
        if made is not None and fields:
            if any(isinstance(a, ast.Starred) for a in made.args) or any(k.arg is None for k in made.keywords):
                raise _Unseen
            positional = dict(zip(fields, made.args, strict=False))
            given = positional.get(node.attr) or next((k.value for k in made.keywords if k.arg == node.attr), None)
        value = given if given is not None else _class_value(there, cls, node.attr)
        if value is None:
            raise _Unseen
        yield Setting(value, option=made is None and bool(fields) and not _is_self(node.value))


def _fields(module: Module, cls: ast.ClassDef) -> list[str]:
    """The fields of a data class, in the order in which its constructor takes them; none for another class."""
    plain = any(
        module.qualify(d.func if isinstance(d, ast.Call) else d) & {*_DATACLASSES} for d in cls.decorator_list
    ) or bool(module.bases(cls) & {*_MODELS})
    if not plain:
        return []
    return [
        s.target.id
        for member in reversed(module.lineage(cls))
        for s in member.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    ]


def _written(module: Module, name: str, known: set[ast.AST]) -> bool:
    """Whether an attribute of that name is set anywhere but in the assignments that are known."""
    if module.project is None:
        return False
    return any(d.node not in known for d in module.project.stores_named(name))


# --- dicts and namespaces ---


def _key(node: ast.expr) -> tuple[ast.expr, str, ast.expr | None] | None:
    """The dict, the key and the fallback of ``d["key"]`` and ``d.get("key", fallback)``."""
    if isinstance(node, ast.Subscript):
        key = literal(node.slice)
        return (node.value, key, None) if isinstance(key, str) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        key = literal(node.args[0]) if node.args else ...
        fallback = node.args[1] if len(node.args) > 1 else ast.Constant(None)
        return (node.func.value, key, fallback) if isinstance(key, str) and not node.keywords else None
    return None


def _objects(module: Module, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """The expressions that make an object: calls and dict displays."""
    module = module.home(node)
    if depth > _DEPTH:
        raise _Unseen
    if isinstance(node, ast.Dict):
        yield node
    elif isinstance(node, ast.Call) and _key(node) is None:
        functions = module.called_functions(node)
        if functions and not module.project_classes(node.func):
            for function in functions:
                yield from _returned(module.home(function), function, depth)
        else:
            yield node
    else:
        for setting in _behind(module, node, depth):
            yield from _objects(module, setting.value, depth + 1)


def _returned(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> Iterator[ast.expr]:
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and module.function(n) is function]
    if not values or any(v is None for v in values):
        raise _Unseen
    for value in values:
        assert value is not None
        yield from _objects(module, value, depth + 1)


def _item(module: Module, held: ast.expr, name: str, otherwise: ast.expr | None) -> Iterator[Setting]:
    """An item of a dict display, of ``dict(..)``, of a namespace or a dict with attributes."""
    module = module.home(held)
    items = module.dict_items(held) if isinstance(held, ast.Dict) else None
    if isinstance(held, ast.Call):
        namespace = bool(module.callee(held) & _NAMESPACES) or last_name(held.func) in _DICTS
        plain = "builtins.dict" in module.callee(held)
        if not (namespace or plain) or _loose(module, held, name):
            raise _Unseen
        items = {k.arg: [k.value] for k in held.keywords if k.arg}
        for inner in [*held.args, *(k.value for k in held.keywords if k.arg is None)]:
            items = {**(module.dict_items(inner) or {}), **items}
    elif _loose(module, held, name):
        raise _Unseen
    values = (items or {}).get(name, [otherwise] if otherwise is not None else [])
    if not values or items is None:
        raise _Unseen
    for value in values:
        yield Setting(value)


def _loose(module: Module, held: ast.expr, name: str) -> bool:
    """Whether what a dict or namespace holds under a name may be set elsewhere: ``d["x"] = ..``, ``d.x = ..``,
    ``d.update(..)``."""
    statement = module.statement(held)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if _written(module, name, set()):
        return True
    for target in targets:
        for d in module.bindings.definitions_at(target, target.id) if isinstance(target, ast.Name) else ():
            for use in module.bindings.readers(d):
                parent = module.parents[use]
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    return True
                if isinstance(parent, ast.Attribute) and parent.attr in ("update", "setdefault", "pop", "merge"):
                    return True
    return False


# --- options ---


def _options(module: Module, node: ast.Attribute) -> Iterator[Setting]:
    """The defaults of ``args.name``: of ``add_argument``, of ``set_defaults``, of absl's flags; of this file first, of
    the files that it imports otherwise."""
    for where in files_around(module):
        found = list(_options_of(where, node.attr))
        if found:
            yield from found
            return


def files_around(module: Module) -> Iterator[Module]:
    """A file and the files of its project that it imports or that import it, nearest first."""
    yield module
    if module.project is None:
        return
    seen, queue = {module.path}, [module.path]
    for path in queue:
        beside = sorted({*module.project.imports.get(path, ()), *module.project.importers.get(path, ())})
        for other in beside:
            if other not in seen and len(seen) < 32:
                seen.add(other)
                queue.append(other)
                yield module.project.modules[other]


def _options_of(module: Module, name: str) -> Iterator[Setting]:
    value = options_of(module).get(name)
    if value is not None:
        yield Setting(value, option=True)


def options_of(module: Module) -> dict[str, ast.expr]:
    """The options that a file's parsers know, with their defaults."""
    found: dict[str, ast.expr] = {}
    later: dict[str, ast.expr] = {}
    for made in module.calls:
        function = last_name(made.func)
        keywords = {k.arg: k.value for k in made.keywords}
        if function == "set_defaults":
            later |= {key: value for key, value in keywords.items() if key}
        elif function == "add_argument" and (key := _destination(made, keywords)):
            if "default" in keywords:
                found.setdefault(key, _plain(keywords["default"], keywords.get("type")))
            elif literal(keywords.get("action")) in ("store_true", "store_false"):
                found.setdefault(key, ast.Constant(literal(keywords.get("action")) == "store_false"))
        elif function.startswith("DEFINE_") and len(made.args) > 1 and isinstance(literal(made.args[0]), str):
            found.setdefault(str(literal(made.args[0])), made.args[1])
    return {**found, **later}


def _destination(made: ast.Call, keywords: dict[str | None, ast.expr]) -> str:
    given = literal(keywords.get("dest"))
    if isinstance(given, str):
        return given
    flags = [a.value for a in made.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    long = [f for f in flags if f.startswith("--")] or flags
    return long[0].lstrip("-").replace("-", "_") if long else ""


def _plain(value: ast.expr, type_: ast.expr | None) -> ast.expr:
    """A default as it arrives: ``int(os.environ.get("LOCAL_RANK", 0))`` is 0, ``"8"`` of ``type=int`` is 8."""
    while isinstance(value, ast.Call) and value.args and last_name(value.func) in ("int", "get", "getenv"):
        value = value.args[-1]
    text = literal(value)
    if isinstance(text, str) and text.lstrip("-").isdigit() and (type_ is None or last_name(type_) in ("int", "float")):
        return ast.copy_location(ast.Constant(int(text)), value)
    return value
