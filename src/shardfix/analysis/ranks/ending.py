"""What ends one rank: a failure, for which what started the ranks ends them all, or an end that nobody hears of."""

from __future__ import annotations

import ast
import re
from typing import Literal
from weakref import WeakKeyDictionary

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import walk

EndKind = Literal["fails", "leaves", "goes on"]
_CALLED = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})
_EXITS = ("exit", "_exit", "quit")
_REPLACES = re.compile(r"exec[lv]p?e?")  # os.execv: the process begins anew
_LEAVES = "destroy_process_group"  # a rank without the group waits for nobody
_TIMERS = frozenset({"signal.alarm", "signal.setitimer", "threading.Timer"})
_FAILURES = re.compile(r"(Error|Exception|Warning|Interrupt|Abort|Failed|Failure|Timeout|Iteration|GroupExit)$")
_MAY_END = re.compile(r"exit\b|quit\(|SystemExit|\bExit\b|os\.exec|destroy_process_group")


_HANDLERS: WeakKeyDictionary[Module, tuple[ast.ExceptHandler, ...]] = WeakKeyDictionary()
_ENDING: WeakKeyDictionary[Module, bool] = WeakKeyDictionary()


def may_end(module: Module) -> bool:
    """Whether a file may hold something that ends a rank without a failure."""
    if module not in _ENDING:
        _ENDING[module] = bool(_MAY_END.search(module.text))
    return _ENDING[module]


def end_of(module: Module, node: ast.AST) -> EndKind:
    """What a statement or a call does to the rank that comes to it."""
    if isinstance(node, ast.Raise):
        return "fails" if _fails(module, node.exc) and not _gets_over(module, node) else "leaves"
    if isinstance(node, ast.Assert):
        return "fails"
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in _EXITS or (may_end(module) and _is_an_exit(module, node)):
            return "fails" if _tells(node) else "leaves"
        if name == _LEAVES or (_REPLACES.fullmatch(name) and ast.unparse(node.func).startswith("os.")):
            return "leaves"
    return "goes on"


def _is_an_exit(module: Module, call: ast.Call) -> bool:
    """Whether a call is of an exit by another name: ``from sys import exit as stop``, ``stop = lambda: sys.exit()``"""
    if module.callee(call) & _CALLED:
        return True
    made = [d.value for d in module.bindings.reaching(call.func)]
    bodies = (v.body for v in made if isinstance(v, ast.Lambda))
    return any(isinstance(n, ast.Call) and last_name(n.func) in _EXITS for body in bodies for n in walk(body))


def is_exit(statement: ast.AST) -> bool:
    """Whether a statement is a call that ends the program."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and last_name(value.func) in _EXITS


def sets_a_timer(module: Module, call: ast.Call) -> bool:
    """Whether a call lets something interrupt the program after a time, which differs from rank to rank."""
    return bool(module.callee(call) & _TIMERS)


def _fails(module: Module, raised: ast.expr | None) -> bool:
    """Whether what is raised tells of a failure where nothing catches it; what is not known to may not."""
    if raised is None:  # what was caught is raised again
        return True
    func = raised.func if isinstance(raised, ast.Call) else raised
    if last_name(func) == "SystemExit":
        return isinstance(raised, ast.Call) and _tells(raised)
    own = module.project_classes(func)
    if own:
        return not any(b.rpartition(".")[2] in ("SystemExit", "Exit") for c in own for b in _bases(module, c))
    if _FAILURES.search(last_name(func)):
        return True
    made = list(module.bindings.reaching(func))
    caught = [d for d in made if isinstance(d.statement, ast.ExceptHandler)]
    built = [d.value for d in made if d.kind == "assign" and isinstance(d.value, ast.Call)]
    return bool(made) and len(caught) + len(built) == len(made) and all(_fails(module, v) for v in built)


def _bases(module: Module, cls: ast.ClassDef) -> set[str]:
    return {base for member in module.lineage(cls) for base in module.bases(member)}


def _tells(call: ast.Call) -> bool:
    """Whether an exit tells of a failure: ``sys.exit(1)``, ``exit("no data")``; a code that is not written may be 0."""
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("status", "code"))]
    return bool(given) and _is_failure(given[0])


def _is_failure(code: ast.expr) -> bool:
    if isinstance(code, ast.Constant):
        return bool(code.value) or code.value == ""
    if isinstance(code, ast.UnaryOp):
        return _is_failure(code.operand)
    return _is_text(code)


def _is_text(code: ast.expr) -> bool:
    """Whether a code is a message: ``f"no {x}"``, ``"no " + x``, ``"no %s" % x``, ``"no {}".format(x)``"""
    if isinstance(code, ast.BinOp):
        return _is_text(code.left) or _is_text(code.right)
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Attribute):
        return code.func.attr in ("format", "join") and _is_text(code.func.value)
    return isinstance(code, ast.JoinedStr) or (isinstance(code, ast.Constant) and isinstance(code.value, str))


def _gets_over(module: Module, raised: ast.Raise) -> bool:
    """Whether the program's outermost statement catches what is raised, so that the rank ends as if all were well."""
    home = module.home(raised)
    names = {last_name(raised.exc.func if isinstance(raised.exc, ast.Call) else raised.exc)} if raised.exc else set()
    return any(
        _caught(handler) & (names | {"Exception", "BaseException"}) and not _fails_again(handler)
        for handler in _outermost(home)
    )


def _outermost(home: Module) -> tuple[ast.ExceptHandler, ...]:
    """The handlers of a file's top level that a call is under: what only imports runs nothing of the program."""
    found = _HANDLERS.get(home)
    if found is None:
        handlers = (n for n in walk(home.tree) if isinstance(n, ast.ExceptHandler)) if "except" in home.text else ()
        found = _HANDLERS[home] = tuple(h for h in handlers if home.function(h) is None and _is_over_a_call(home, h))
    return found


def _is_over_a_call(home: Module, handler: ast.ExceptHandler) -> bool:
    tried: list[ast.stmt] = getattr(home.parents.get(handler), "body", [])
    return any(isinstance(n, ast.Call) for s in tried for n in walk(s))


def _caught(handler: ast.ExceptHandler) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(handler.type))) if handler.type is not None else {"BaseException"}


def _fails_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) or (is_exit(last) and isinstance(last, ast.Expr) and _tells_call(last.value))


def _tells_call(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _tells(value)


def gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the program, or raises again."""
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    if caught and all(n in ("KeyboardInterrupt", "SystemExit") for n in re.findall(r"\w+", caught)):
        return True
    last = handler.body[-1]
    return isinstance(last, ast.Raise) or is_exit(last)


__all__ = ["EndKind", "end_of", "gives_up", "is_exit", "may_end", "sets_a_timer"]
