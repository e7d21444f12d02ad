"""Which methods code may run without writing their names as attributes: by ``getattr``, or through other libraries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name

# What these do inside is not what a program does that uses them: the use itself is what counts.
FRAMEWORKS = (
    "accelerate.",
    "composer.",
    "deepspeed.",
    "horovod.",
    "ignite.",
    "lightning.",
    "lightning_fabric.",
    "pytorch_lightning.",
    "torch.",
    "torch_xla.",
    "transformers.",
)
# The functions that ask an object for what they are given the name of, or may.
ASKING = frozenset(
    {"__getattribute__", "attrgetter", "eval", "exec", "getattr", "getmembers", "getmembers_static", "methodcaller"}
)
_GETTERS = frozenset({"attrgetter", "methodcaller"})
_WHOLE = frozenset({"getmembers", "getmembers_static"})
# Bases and decorators of a class that call none of its methods but those of Python's own protocols (``__len__``).
_QUIET_BASES = ("builtins.", "abc.", "typing.", "typing_extensions.", "collections.", "enum.", "dataclasses.")
_DATASETS = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
_QUIET_DECORATORS = frozenset({"dataclass", "total_ordering", "final", "runtime_checkable", "define", "frozen", "s"})
# Decorators of a method that leave it to who names it.
_PLAIN_DECORATORS = frozenset(
    {
        "abstractmethod",
        "autocast",
        "cache",
        "cached_property",
        "classmethod",
        "contextmanager",
        "enable_grad",
        "final",
        "inference_mode",
        "lru_cache",
        "no_grad",
        "override",
        "property",
        "staticmethod",
        "wraps",
    }
)
# Libraries that ask an object they are given for nothing but Python's own protocols, and methods that keep it.
_QUIET_CALLS = ("builtins.", "copy.", "json.", "logging.", "numpy.", "os.", "pickle.", "sys.", "torch.", "tqdm.")
_KEEPING = frozenset(
    {"add", "append", "debug", "error", "extend", "format", "get", "index", "info", "insert", "join", "pop", "put"}
    | {"remove", "setdefault", "update", "warning", "write"}
)
# Calls that run a function with what is given beside it.
_RUNNING = frozenset(
    {"Process", "Thread", "Timer", "apply", "apply_async", "launch", "map", "notebook_launcher", "partial"}
    | {"run_in_executor", "spawn", "start_processes", "starmap", "submit"}
)
_ARGUMENTS = frozenset({"parse_args", "parse_known_args"})
_DEPTH = 4  # assignments back from an object to what made it
_PARTS = 20  # of which a text is put together


@dataclass(frozen=True, slots=True)
class Asked:
    """Methods that a piece of code asks an object for.

    Args:
        names: those whose names are written.
        parts: how the others begin and end, as far as that is written: ``("", "")`` is any.
        of: the object, None if it is not written.
    """

    names: frozenset[str]
    parts: tuple[tuple[str, str], ...] = ()
    of: ast.expr | None = None


_ANY = Asked(frozenset(), (("", ""),))


def asked_by_call(module: Module, call: ast.Call) -> Asked | None:
    """What a call asks for by name: ``getattr(data, f"{split}_loader")``, ``methodcaller("train")``, ``eval(..)``."""
    name = last_name(call.func)
    if isinstance(call.func, ast.Name) and name in ("eval", "exec") and call.args:
        return _written(call.args[0], name == "eval")
    if name in _WHOLE:
        return _ANY
    if isinstance(call.func, ast.Name) and name == "getattr" and len(call.args) > 1:
        if _hands_on(module, call):
            return None
        return _asked(module, call.args[1:2], call.args[0])
    if name == "__getattribute__" and call.args:
        return None if _hands_on(module, call) else _asked(module, call.args[-1:], None)
    if name in _GETTERS and call.args:
        return _asked(module, call.args if name == "attrgetter" else call.args[:1], None)
    return None


def asks_when_called(name: ast.Name) -> bool:
    """Whether a name that is handed on asks for what is not written here: ``reduce(getattr, path, data)``."""
    up = getattr(name, "_up", None)
    return not (isinstance(up, ast.Call) and up.func is name)


def asked_when_called() -> Asked:
    """What a function that is handed on may ask for."""
    return _ANY


def _asked(module: Module, given: list[ast.expr], of: ast.expr | None) -> Asked:
    names: set[str] = set()
    parts: list[tuple[str, str]] = []
    for node in given:
        for text in _texts(module, node):
            if isinstance(text, str):
                names |= set(text.split("."))
            else:
                parts.append(text)
    return Asked(frozenset(names), tuple(parts), of)


def _texts(module: Module, node: ast.expr, depth: int = 0) -> Iterator[str | tuple[str, str]]:
    """What a string may be: the string, or how it begins and ends."""
    if isinstance(node, ast.Constant):
        yield node.value if isinstance(node.value, str) else ("", "")
    elif isinstance(node, ast.IfExp) and depth < _DEPTH:
        yield from _texts(module, node.body, depth + 1)
        yield from _texts(module, node.orelse, depth + 1)
    elif isinstance(node, ast.Name) and depth < _DEPTH:
        definitions = module.bindings.reaching(node)
        for d in definitions:
            if d.kind == "assign" and d.value is not None and d.index is None:
                yield from _texts(module, d.value, depth + 1)
            elif d.kind == "loop" and isinstance(d.value, (ast.Tuple, ast.List, ast.Set)) and d.index is None:
                for item in d.value.elts:
                    yield from _texts(module, item, depth + 1)
            else:
                yield "", ""
        if not definitions:
            yield "", ""
    else:
        start, gap, rest = _with_gaps(node).partition("\0")
        if gap:
            yield start, rest.rpartition("\0")[2]
        else:
            yield start


def _written(node: ast.expr, is_eval: bool) -> Asked | None:
    """What a text of code asks for, as far as it is written: ``eval(f"data.{split}_loader()")``.

    One that is not written at all is a name or number that the user of the program gives to ``eval``.
    """
    names: set[str] = set()
    parts: list[tuple[str, str]] = []
    for dot, word in re.findall(r"(\.?)\s*([\w\0]+)", _with_gaps(node)):
        start, gap, end = word.partition("\0")
        if not gap:
            names.add(word)
        elif dot or start or end:
            parts.append((start, end.rpartition("\0")[2]))
        elif not is_eval:
            return _ANY
    return Asked(frozenset(names), tuple(parts))


def _with_gaps(node: ast.expr, depth: int = 0) -> str:
    """A text, with ``\\0`` for each part that is not written."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "\0"
    if depth > _PARTS:
        return "\0"
    if isinstance(node, ast.JoinedStr):
        return "".join(_with_gaps(value, depth + 1) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _with_gaps(node.left, depth + 1) + _with_gaps(node.right, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%\(?\w*\)?[srd]", "\0", _with_gaps(node.left, depth + 1))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return re.sub(r"\{[^}]*\}", "\0", _with_gaps(node.func.value, depth + 1))
    return "\0"


def _hands_on(module: Module, call: ast.Call) -> bool:
    """``def __getattr__(self, name): return getattr(self.module, name)``: the name is written where that is used."""
    function = module.function(call)
    if getattr(function, "name", "") not in ("__getattr__", "__getattribute__"):
        return False
    name = call.args[-1] if last_name(call.func) == "__getattribute__" else call.args[1]
    return isinstance(name, ast.Name) and any(d.kind == "parameter" for d in module.bindings.reaching(name))


def is_none_of_ours(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an object is seen to be of a library: arguments of the command line, a module, what a library makes or
    an annotation says. A class that derives from a library's is run by that library as a whole."""
    if isinstance(node, ast.Call):
        if last_name(node.func) in _ARGUMENTS:
            return True
        callee = module.callee(node)
        return bool(callee) and all(_is_a_library(module, name) for name in callee) and "builtins.getattr" not in callee
    if isinstance(node, (ast.Name, ast.Attribute)) and depth < _DEPTH:
        definitions = module.bindings.reaching(node)
        if definitions:
            return all(_is_library(module, d, node, depth) for d in definitions)
        names = module.qualify(node)
        return bool(names) and all(_is_a_library(module, name) for name in names)
    return False


def _is_library(module: Module, d: Definition, node: ast.expr, depth: int) -> bool:
    if d.kind == "import":
        return all(_is_a_library(module, name) for name in module.qualify(node))
    if d.kind == "parameter" and isinstance(d.node, ast.arg) and d.node.annotation is not None:
        names = module.qualify(d.node.annotation)
        return bool(names) and all(_is_a_library(module, n) and not _is_quiet(n) for n in names)
    if d.kind == "assign" and d.value is not None and d.index is None:
        if isinstance(d.value, ast.Call) and last_name(d.value.func) == "getattr" and d.value.args:
            walked = d.value.args[0]  # mod = getattr(mod, part)
            return isinstance(walked, ast.Name) and walked.id == d.key
        return is_none_of_ours(module, d.value, depth + 1)
    return False


def _is_a_library(module: Module, qualified: str) -> bool:
    if qualified.startswith("<local>."):
        return False
    if qualified.startswith(FRAMEWORKS):
        return True
    return module.project is None or module.project.split(qualified, module) is None


# -- classes and their methods ---------------------------------------------------------------------------------------


def is_run_with_class(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method may run wherever its class is used: Python or a decorator calls it, not who writes its name."""
    if method.name.startswith("_") and method.name.endswith("_"):
        return True
    return any(not _is_plain(d) for d in method.decorator_list)


def _is_plain(decorator: ast.expr) -> bool:
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _PLAIN_DECORATORS


def is_run_by_others(module: Module, cls: ast.ClassDef) -> bool:
    """Whether code outside of the project may call any method of a class: that of a base, a metaclass, a decorator."""
    return any(_is_open(module.home(c), c) for c in module.lineage(cls))


def _is_open(module: Module, cls: ast.ClassDef) -> bool:
    for base in cls.bases:
        origin = base.value if isinstance(base, ast.Subscript) else base
        names = [name for name in module.qualify(origin) if not _is_quiet(name)]
        if any(name.startswith(FRAMEWORKS) for name in names):
            return True
        if (names or not module.qualify(origin)) and not module.project_classes(origin):
            return True
    if any(k.arg is None or (k.arg == "metaclass" and last_name(k.value) != "ABCMeta") for k in cls.keywords):
        return True
    return any(_keeps(module, d) for d in cls.decorator_list)


def _is_quiet(base: str) -> bool:
    return base.startswith(_QUIET_BASES) or base in _DATASETS


def _keeps(module: Module, decorator: ast.expr) -> bool:
    """Whether a decorator of a class is another library's, which may run what it is given."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    if last_name(func) in _QUIET_DECORATORS:
        return False
    names = module.qualify(func)
    return not names or any(_is_a_library(module, name) for name in names)


def may_ask(module: Module, call: ast.Call, methods: frozenset[str]) -> bool:
    """Whether a call of what is not the project's may call any method of an object that it is given.

    Args:
        methods: the names of all methods of the project.
    """
    func = call.func
    if last_name(func) in _RUNNING and any(_is_ours(module, given, methods) for given in arguments_of(call)):
        return False  # Process(target=work, args=(self,)): the object is for the project's function
    names = module.callee(call)
    if names:
        return all(_is_a_library(module, n) for n in names) and not all(n.startswith(_QUIET_CALLS) for n in names)
    if isinstance(func, ast.Attribute):
        return func.attr not in _KEEPING and (func.attr not in methods or is_none_of_ours(module, func.value))
    return False  # a parameter or a local function: whoever gives it writes its name


def _is_ours(module: Module, given: ast.expr, methods: frozenset[str]) -> bool:
    """Whether an argument is a function or method of the project."""
    if isinstance(given, ast.Attribute) and given.attr in methods:
        return True
    if not isinstance(given, (ast.Name, ast.Attribute)):
        return False
    definitions = module.bindings.reaching(given)
    if any(d.kind == "function" for d in definitions):
        return True
    return any(d.kind == "function" for name in module.qualify(given) for d in module.named(name))


__all__ = [
    "ASKING",
    "FRAMEWORKS",
    "Asked",
    "asked_by_call",
    "asked_when_called",
    "asks_when_called",
    "is_none_of_ours",
    "is_run_by_others",
    "is_run_with_class",
    "may_ask",
]
