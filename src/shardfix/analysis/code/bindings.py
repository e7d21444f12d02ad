"""Which definitions reach which use of a name: scopes and reaching definitions of one module."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.tree import children, home

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
DefinitionKind = Literal[
    "assign", "parameter", "import", "star-import", "loop", "function", "class", "augmented", "other"
]
Environment = dict[str, frozenset["Definition"]]


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """One binding of a name (or of ``base.attribute``) in a scope.

    ``value`` is what is assigned: with ``index`` it is the item of that position, ``value`` being the whole. For a
    loop target, ``value`` is the iterable. For an import, ``module`` is the qualified name that is bound.
    """

    key: str
    scope: ScopeNode
    kind: DefinitionKind
    node: ast.AST
    statement: ast.AST
    value: ast.expr | None = None
    index: int | None = None
    module: str = ""


@dataclass
class _Loop:
    breaks: list[Environment]
    continues: list[Environment]


def attribute_key(node: ast.expr) -> str | None:
    """``base.attribute`` for an attribute of a plain name, the form under which attributes are tracked."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def parameters(function: FunctionNode) -> list[ast.arg]:
    """All parameters of a function in the order in which positional arguments bind, then keyword-only ones."""
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])]


class Bindings:
    """Reaching definitions of a module, made once; ``reaching(node)`` answers for a use.

    Loops are walked twice, branches merged, so each use knows every definition that may be its value. A name free in
    a function gets the definitions that stand when the enclosing scope ends.
    """

    def __init__(self, tree: ast.Module, package: str) -> None:
        self._package = package
        self._uses: dict[ast.AST, frozenset[Definition]] = {}
        self._free: dict[ast.AST, tuple[ScopeNode, str]] = {}
        self._definitions: dict[tuple[ast.AST, str], Definition] = {}
        self._exits: dict[ScopeNode, Environment] = {}
        self._outer: dict[ScopeNode, ScopeNode] = {}
        self._globals: dict[ScopeNode, set[str]] = {}
        self._global_writes: Environment = {}
        self._bases: set[str] = set()
        self._readers: dict[Definition, list[ast.expr]] = {}
        self.star_modules: list[str] = []
        self.definitions: list[Definition] = []
        self._watched: ast.AST | None = None
        self._seen: list[Environment] = []
        self._environments: dict[ast.AST, Environment | None] = {}
        self._queue: deque[tuple[ScopeNode, ScopeNode | None]] = deque([(tree, None)])
        self.tree = tree
        while self._queue:
            scope, outer = self._queue.popleft()
            self._run(scope, outer)
        for name, more in self._global_writes.items():
            module_exit = self._exits[tree]
            module_exit[name] = module_exit.get(name, frozenset()) | more
        for node, (scope, name) in self._free.items():
            self._uses[node] = self._uses.get(node, frozenset()) | self._lookup(scope, name)
        for use, defs in self._uses.items():
            for d in defs:
                self._readers.setdefault(d, []).append(use)  # type: ignore[arg-type]

    # -- what others ask -------------------------------------------------------------------------------------

    def reaching(self, node: ast.expr) -> frozenset[Definition]:
        """The definitions that may give a loaded name or ``base.attribute`` its value; empty if none is seen."""
        found = self._uses.get(node)
        return self._of(node)._uses.get(node, frozenset()) if found is None else found

    def readers(self, definition: Definition) -> list[ast.expr]:
        """The loads in its own file that may see a definition."""
        return self._of(definition.scope)._readers.get(definition, [])

    def definitions_at(self, node: ast.AST, key: str) -> frozenset[Definition]:
        """The definition that a binding node (target, parameter) makes of a key."""
        known = self._of(node)._definitions.get((node, key))
        return frozenset((known,)) if known is not None else frozenset()

    def exit_of(self, scope: ScopeNode) -> Environment:
        """What each name may be when a scope has run to its end."""
        return self._of(scope)._exits.get(scope, {})

    def environment(self, node: ast.AST, scope: ScopeNode) -> Environment | None:
        """What each name bound in ``scope`` may be where an expression of its body is evaluated; None if it never is.

        The scope is walked once more, so this is for the few places that an edit puts a name at.
        """
        if node not in self._environments:
            self._watched, self._seen = node, []
            self._run(scope, self._outer.get(scope))
            self._queue.clear()  # the scopes within are known
            self._watched = None
            self._environments[node] = _merge(self._seen) if self._seen else None
        return self._environments[node]

    def _of(self, node: ast.AST) -> Bindings:
        """The bindings of the file that a node belongs to."""
        own = home(node, None)
        return own.bindings if own is not None else self

    # -- the walk --------------------------------------------------------------------------------------------

    def _lookup(self, scope: ScopeNode, name: str) -> frozenset[Definition]:
        outer = self._outer.get(scope)
        while outer is not None:
            if not isinstance(outer, ast.ClassDef) and name in self._exits.get(outer, {}):
                return self._exits[outer][name]
            outer = self._outer.get(outer)
        return frozenset()

    def _run(self, scope: ScopeNode, outer: ScopeNode | None) -> None:
        if outer is not None:
            self._outer[scope] = outer
        env: Environment = {}
        self._globals[scope] = set()
        self._scope = scope
        self._returns: list[Environment] = []
        self._loops: list[_Loop] = []
        end: Environment | None
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for arg in parameters(scope):
                self._define(env, arg.arg, "parameter", arg, scope)
        if isinstance(scope, ast.Lambda):
            self._load(scope.body, env)
            end = env
        else:
            end = self._block(scope.body, env)
        ends = [*self._returns, *([end] if end is not None else [])]
        self._exits[scope] = _merge(ends) if ends else env

    def _define(
        self,
        env: Environment,
        key: str,
        kind: DefinitionKind,
        node: ast.AST,
        statement: ast.AST,
        value: ast.expr | None = None,
        index: int | None = None,
        module: str = "",
    ) -> None:
        known = self._definitions.get((node, key))
        if known is None:
            known = Definition(key, self._scope, kind, node, statement, value, index, module)
            self._definitions[(node, key)] = known
            self.definitions.append(known)
        env[key] = frozenset((known,))
        if key in self._globals[self._scope]:
            self._global_writes[key] = self._global_writes.get(key, frozenset()) | {known}
        if "." in key:
            self._bases.add(key.partition(".")[0])
        elif key in self._bases:
            for other in [k for k in env if k.startswith(key + ".")]:
                del env[other]

    def _block(self, body: Iterable[ast.stmt], env: Environment | None) -> Environment | None:
        returns, loops = self._returns, self._loops
        dead = False
        for statement in body:
            if env is None:
                # Unreachable code still gets answers, from an empty environment; where it leads is no way out.
                dead, env = True, {}
                self._returns, self._loops = [], []
            env = self._statement(statement, env)
        self._returns, self._loops = returns, loops
        return None if dead else env

    def _statement(self, s: ast.stmt, env: Environment) -> Environment | None:
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
            annotations = [*(a.annotation for a in parameters(s)), s.returns]
            for e in [*s.decorator_list, *s.args.defaults, *s.args.kw_defaults, *annotations]:
                if e is not None:
                    self._load(e, env)
            self._define(env, s.name, "function", s, s)
            self._queue.append((s, self._scope))
        elif isinstance(s, ast.ClassDef):
            for e in [*s.decorator_list, *s.bases, *(k.value for k in s.keywords)]:
                self._load(e, env)
            self._define(env, s.name, "class", s, s)
            self._queue.append((s, self._scope))
        elif isinstance(s, (ast.Import, ast.ImportFrom)):
            self._import(s, env)
        elif isinstance(s, ast.Assign):
            self._load(s.value, env)
            for target in s.targets:
                self._bind(target, s.value, None, s, env)
        elif isinstance(s, ast.AnnAssign):
            self._load(s.annotation, env)
            if s.value is not None:
                self._load(s.value, env)
                self._bind(s.target, s.value, None, s, env)
        elif isinstance(s, ast.AugAssign):
            self._load(s.value, env)
            key = s.target.id if isinstance(s.target, ast.Name) else attribute_key(s.target)
            if key is not None:
                self._record(s.target, key, env)
                self._define(env, key, "augmented", s.target, s, s.value)
            else:
                self._load(s.target, env)
        elif isinstance(s, ast.If):
            return self._if(s, env)
        elif isinstance(s, (ast.For, ast.AsyncFor)):
            self._load(s.iter, env)
            return self._loop(s, env)
        elif isinstance(s, ast.While):
            return self._loop(s, env)
        elif isinstance(s, (ast.With, ast.AsyncWith)):
            for item in s.items:
                self._load(item.context_expr, env)
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, item.context_expr, None, s, env, kind="other")
            return self._block(s.body, env)
        elif isinstance(s, ast.Try) or type(s).__name__ == "TryStar":
            return self._try(s, env)
        elif isinstance(s, ast.Match):
            return self._match(s, env)
        elif isinstance(s, (ast.Return, ast.Raise)):
            for child in ast.iter_child_nodes(s):
                self._load(child, env)
            if isinstance(s, ast.Return):
                self._returns.append(dict(env))
            return None
        elif isinstance(s, ast.Break):
            if self._loops:
                self._loops[-1].breaks.append(dict(env))
            return None
        elif isinstance(s, ast.Continue):
            if self._loops:
                self._loops[-1].continues.append(dict(env))
            return None
        elif isinstance(s, (ast.Global, ast.Nonlocal)):
            self._globals[self._scope].update(s.names)
        elif isinstance(s, ast.Assert):
            self._load(s.test, env)
            if s.msg is not None:
                self._load(s.msg, env)
            if isinstance(s.test, ast.Constant) and not s.test.value:
                return None  # `assert False, "unknown"` ends its arm as `raise` does
        elif isinstance(s, ast.Delete):
            for target in s.targets:
                if isinstance(target, ast.Name):
                    env.pop(target.id, None)
                else:
                    self._load(target, env)
        else:
            for child in ast.iter_child_nodes(s):
                self._load(child, env)
        return env

    def _if(self, s: ast.If, env: Environment) -> Environment | None:
        ends: list[Environment] = []
        rest: Environment | None = env
        node = s
        while True:  # an elif chain is nested in the tree: walked as a chain, so its length needs no recursion
            assert rest is not None
            self._load(node.test, rest)
            end = self._block(node.body, dict(rest))
            if end is not None:
                ends.append(end)
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                node = node.orelse[0]
                continue
            last = self._block(node.orelse, dict(rest))
            if last is not None:
                ends.append(last)
            return _merge(ends) if ends else None

    def _loop(self, s: ast.For | ast.AsyncFor | ast.While, env: Environment) -> Environment | None:
        entry = env
        forever = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        exhausted: list[Environment] = []
        left: list[Environment] = []
        for _ in range(2 if len(self._loops) < 4 else 1):
            current = dict(entry)
            if isinstance(s, ast.While):
                self._load(s.test, current)
            else:
                self._bind(s.target, s.iter, None, s, current, kind="loop")
            loop = _Loop([], [])
            self._loops.append(loop)
            end = self._block(s.body, current)
            self._loops.pop()
            back = [*loop.continues, *([end] if end is not None else [])]
            exhausted = [] if forever else [entry, *back]
            left = loop.breaks
            entry = _merge([entry, *back])
        if s.orelse and exhausted:  # run where no break left the loop
            end = self._block(s.orelse, _merge(exhausted))
            exhausted = [end] if end is not None else []
        ends = [*exhausted, *left]
        return _merge(ends) if ends else None

    def _try(self, s: ast.stmt, env: Environment) -> Environment | None:
        # ast.Try, or ast.TryStar, which Python 3.10 does not know
        body: list[ast.stmt] = getattr(s, "body", [])
        handlers: list[ast.ExceptHandler] = getattr(s, "handlers", [])
        orelse: list[ast.stmt] = getattr(s, "orelse", [])
        finalbody: list[ast.stmt] = getattr(s, "finalbody", [])
        before = dict(env)
        end = self._block(body, env)
        somewhere = _merge([before, end]) if end is not None else dict(before)
        if end is not None and orelse:
            end = self._block(orelse, end)
        ends = [end] if end is not None else []
        for handler in handlers:
            current = dict(somewhere)
            if handler.type is not None:
                self._load(handler.type, current)
            if handler.name:
                self._define(current, handler.name, "other", handler, handler)
            done = self._block(handler.body, current)
            if done is not None:
                ends.append(done)
        merged = _merge(ends) if ends else None
        if finalbody:
            final = self._block(finalbody, dict(merged if merged is not None else somewhere))
            return final if merged is not None else None
        return merged

    def _match(self, s: ast.Match, env: Environment) -> Environment | None:
        self._load(s.subject, env)
        ends = [dict(env)]
        for case in s.cases:
            current = dict(env)
            for node in ast.walk(case.pattern):
                name = getattr(node, "name", None) or getattr(node, "rest", None)
                if isinstance(name, str):
                    self._define(current, name, "other", node, s)
            if case.guard is not None:
                self._load(case.guard, current)
            done = self._block(case.body, current)
            if done is not None:
                ends.append(done)
        return _merge(ends)

    def _import(self, s: ast.Import | ast.ImportFrom, env: Environment) -> None:
        if isinstance(s, ast.Import):
            for alias in s.names:
                bound = alias.asname or alias.name.split(".")[0]
                self._define(env, bound, "import", alias, s, module=alias.name if alias.asname else bound)
            return
        base = s.module or ""
        if s.level:
            parts = self._package.split(".") if self._package else []
            kept = parts[: len(parts) - (s.level - 1)] if s.level > 1 else parts
            base = ".".join([*kept, *([base] if base else [])])
        for alias in s.names:
            if alias.name == "*":
                self.star_modules.append(base)
            else:
                self._define(env, alias.asname or alias.name, "import", alias, s, module=f"{base}.{alias.name}")

    def _bind(
        self,
        target: ast.expr,
        value: ast.expr,
        index: int | None,
        statement: ast.stmt,
        env: Environment,
        kind: DefinitionKind = "assign",
    ) -> None:
        if isinstance(target, ast.Name):
            self._define(env, target.id, kind, target, statement, value, index)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(e, ast.Starred) for e in target.elts)
            items = value.elts if kind == "assign" and isinstance(value, (ast.Tuple, ast.List)) else None
            exact = items is not None and len(items) == len(target.elts) and index is None and not starred
            if exact and items is not None and any(isinstance(i, ast.Starred) for i in items):
                exact = False
            for i, element in enumerate(target.elts):
                if isinstance(element, ast.Starred):
                    self._bind(element.value, value, -1, statement, env, kind if kind == "loop" else "other")
                elif exact and items is not None:
                    self._bind(element, items[i], None, statement, env, kind)
                else:
                    self._bind(element, value, i if index is None else -1, statement, env, kind)
        elif isinstance(target, ast.Attribute):
            self._load(target.value, env)
            key = attribute_key(target)
            if key is not None:
                self._define(env, key, kind, target, statement, value, index)
        elif isinstance(target, ast.Subscript):
            self._load(target.value, env)
            self._load(target.slice, env)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, -1, statement, env, "other")

    # -- loads -----------------------------------------------------------------------------------------------

    def _record(self, node: ast.AST, key: str, env: Environment) -> None:
        if key in env:
            self._uses[node] = self._uses.get(node, frozenset()) | env[key]
        elif "." not in key:
            self._free[node] = (self._scope, key)

    def _load(self, root: ast.AST, env: Environment) -> None:
        stack: list[ast.AST] = [root]
        while stack:
            node = stack.pop()
            if node is self._watched:
                self._seen.append(dict(env))
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self._record(node, node.id, env)
            elif isinstance(node, ast.Constant):
                continue
            elif isinstance(node, ast.Lambda):
                for d in [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
                    stack.append(d)
                self._queue.append((node, self._scope))
            elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                inner = dict(env)
                for g in node.generators:
                    self._load(g.iter, inner)
                    self._bind(g.target, g.iter, None, node, inner, kind="loop")  # type: ignore[arg-type]
                    for test in g.ifs:
                        self._load(test, inner)
                for e in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
                    self._load(e, inner)
            elif isinstance(node, ast.NamedExpr):
                self._load(node.value, env)
                self._bind(node.target, node.value, None, node, env)  # type: ignore[arg-type]
            else:
                key = attribute_key(node) if isinstance(node, ast.Attribute) else None
                if key is not None and isinstance(node, ast.Attribute):
                    if isinstance(node.ctx, ast.Load):
                        self._record(node, key, env)
                    stack.append(node.value)
                else:
                    stack.extend(children(node))


def _merge(environments: list[Environment]) -> Environment:
    if len(environments) == 1:
        return environments[0]
    merged: Environment = {}
    for env in environments:
        for key, defs in env.items():
            known = merged.get(key)
            merged[key] = defs if known is None else (known if known is defs else known | defs)
    return merged
