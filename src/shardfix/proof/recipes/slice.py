"""The backward slice of one loader construction: every statement that decides what it reads, in recipe code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from shardfix.analysis.code.arguments import Arguments
from shardfix.analysis.code.bindings import Definition, ScopeNode
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER
from shardfix.proof.recipes.choices import Choices, text_of
from shardfix.proof.recipes.conditions import Conditions
from shardfix.proof.recipes.datasets import Datasets
from shardfix.proof.recipes.drawn import Drawn
from shardfix.proof.recipes.functions import Functions, Translate
from shardfix.proof.recipes.imported import Imported, Imports
from shardfix.proof.recipes.indices import Indices
from shardfix.proof.recipes.quantities import Quantities
from shardfix.proof.recipes.reached import reach
from shardfix.proof.recipes.regime import assign, call, dotted, name, value_of
from shardfix.proof.recipes.sampling import Sampling
from shardfix.proof.recipes.settings import literal
from shardfix.proof.recipes.whitelist import FUNCTIONS, GIVEN
from shardfix.proof.stop import DEPTH, Stop

_KEPT_KEYWORDS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator")
# They decide nothing about who reads what.
_DROPPED_KEYWORDS = frozenset(
    {
        *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
        *("prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"),
    }
)


@dataclass(eq=False)
class _Bound:
    """A definition in the recipe: the name it gets and the translated value; ``shared`` is a split it is an item of."""

    name: str
    value: ast.expr
    shared: tuple[str, ast.expr] | None = None


class Slicer:
    """Translates the construction ``anchor`` and what it depends on.

    Args:
        assumed: conditions, and what they are.
        imports: what is imported of the project; None where nothing may be.
    """

    def __init__(
        self,
        module: Module,
        anchor: ast.Call,
        choices: Choices,
        assumed: dict[str, bool],
        imports: Imports | None = None,
    ) -> None:
        self.module = module
        self.anchor = anchor
        self.choices = choices
        self.assumed = dict(assumed)
        self.bound: dict[Definition, _Bound] = {}
        self.parameters: dict[Definition, tuple[str, ast.expr]] = {}
        self.tests: dict[ast.AST, ast.expr] = {}
        self.names: dict[tuple[ScopeNode, str], str] = {}
        self.scopes: list[ScopeNode] = []
        self.conditions = Conditions(self)
        self.sampling = Sampling(self)
        self.quantities = Quantities(self)
        self.indices = Indices(self)
        self.datasets = Datasets(self)
        self.drawn = Drawn(self)
        self.functions = Functions(self)
        self.imported = Imported(self, imports) if imports is not None else None
        self.pending: set[Definition] = set()
        self.ranked: dict[str, str] = {}  # where a dataset that is stood in for is given the rank
        self.several = False  # the construction is reached in several processes only
        self.unknowns: set[str] = set()  # what was asked of conditions and is tried both ways
        self.calls: list[ast.Call] = [anchor]
        self.uses_accelerator = False
        self.mesh: dict[str, set[int]] = {}  # the dimensions of a device mesh that are asked for sizes and ranks
        self.twins: dict[ast.AST, ast.Call] = {}
        self.alias: Callable[[ast.expr], ast.expr | None] = lambda node: None
        self.closed = False  # once the construction is translated, nothing more is bound
        reach(self)

    def assume(self, test: ast.expr, outcome: bool) -> None:
        """A condition, and what it must be for the construction to run."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.assume(test.operand, not outcome)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if outcome else ast.Or):
            for value in test.values:
                self.assume(value, outcome)
        else:
            self.assumed.setdefault(text_of(test), outcome)

    def stop(self, reason: str, node: ast.AST) -> None:
        """End the slice here."""
        raise self.stopped(reason, node)

    def stopped(self, reason: str, node: ast.AST) -> Stop:
        return Stop(reason, self.module.location(node))

    def needs_project(self, what: str, node: ast.expr) -> Stop:
        """The reason for everything that only the project's own code decides."""
        text = text_of(node)
        if self.imported is not None:
            return self.stopped(f"{what} `{text}` is not seen to its end", node)
        reason = f"{what} `{text}` needs the project's own code, which is not imported"
        return Stop(reason, self.module.location(node), project=True)

    # -- definitions -----------------------------------------------------------------------------------------

    def variable(self, scope: ScopeNode, key: str, base: str = "") -> str:
        """The recipe's name for a name of the source (``base``: for something that has no name there)."""
        known = self.names.get((scope, key))
        if known is not None:
            return known
        base = base or key.replace(".", "_").lstrip("_") or "value"
        if base in GIVEN | FUNCTIONS | {"loader", "accelerator", "Accelerator"}:
            base += "_"
        wanted, n = base, 1
        while wanted in self.names.values():
            n += 1
            wanted = f"{base}_{n}"
        self.names[scope, key] = wanted
        return wanted

    def definitions(self, node: ast.expr) -> frozenset[Definition]:
        """What may give a name or attribute its value: in other files too, and in methods of its object's class."""
        m = self.module
        found = m.bindings.reaching(node)
        if not found and isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id == "self"
            cls = m.class_of(node) if mine else None
            classes = ([cls] if cls is not None else []) if mine else m.instances(node.value)
            found = frozenset(
                d for c in classes for member in m.lineage(c) for d in m.attribute_values(member, node.attr)
            )
        if (not found and isinstance(node, ast.Attribute)) or any(d.kind == "import" for d in found):
            named = frozenset(d for name in m.qualify(node) for d in m.named(name) if d.kind == "assign")
            found = named or found
        return found

    def need(self, node: ast.expr, translate: Translate, depth: int) -> ast.expr | None:
        """Bind a name: every assignment that may give it its value becomes part of the recipe.

        Returns the recipe's name, or None where some value comes from what can't be followed.
        """
        found = self.definitions(node)
        if not found or depth > DEPTH:
            return None
        if self.closed and not all(d in self.bound or d in self.parameters for d in found):
            return None
        if any(d.kind not in ("assign", "parameter") or d in self.pending for d in found):
            return None
        scopes = {d.scope for d in found}
        keys = {d.key for d in found}
        if len(keys) != 1 or (len(scopes) != 1 and not next(iter(keys)).startswith("self.")):
            return None
        for d in sorted(found, key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))):
            if d not in self.bound and d not in self.parameters and not self._bind(d, node, translate, depth):
                return None
        d = next(iter(found))
        return name(self.variable(d.scope, d.key))

    def _bind(self, d: Definition, use: ast.expr, translate: Translate, depth: int) -> bool:
        if not self._followable(d, use):
            return False
        self.pending.add(d)
        self._scope(d.scope)
        try:
            if d.kind == "parameter":
                return self._bind_parameter(d, translate, depth)
            assert d.value is not None
            variable = self.variable(d.scope, d.key)
            if d.index is not None:
                if isinstance(d.value, ast.Call) and d.index >= 0:
                    item = self.functions.returned(d.value, translate, depth, d.index)
                    if item is not None:
                        self._conditions(d)
                        self.bound[d] = _Bound(variable, item)
                        return True
                shared = self.datasets.split(d.value, depth) if d.index >= 0 else None
                if shared is None:
                    return False
                part = self.variable(d.scope, f"the parts in line {d.value.lineno}", "parts")
                self._conditions(d)
                self.bound[d] = _Bound(
                    variable, ast.Subscript(name(part), ast.Constant(d.index), ast.Load()), (part, shared)
                )
            else:
                value = translate(d.value)
                self._conditions(d)
                self.bound[d] = _Bound(variable, value)
            return True
        finally:
            self.pending.discard(d)

    def _scope(self, scope: ScopeNode) -> None:
        if scope not in self.scopes and scope not in self.functions.entered:
            self.scopes.append(scope)

    def _followable(self, d: Definition, use: ast.expr) -> bool:
        """Whether the statements around an assignment are ones that a recipe can repeat."""
        if d.kind == "parameter":
            return True
        m = self.module
        same_scope = d.scope is m.scope(use)
        if same_scope and getattr(d.node, "lineno", 0) > use.lineno:
            return False  # it comes round a loop
        around_anchor = {id(n) for c in self.calls for n in m.around(c)}
        previous: ast.AST = d.statement
        for outer in m.around(d.statement):
            if outer is d.scope:
                return True
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and id(outer) not in around_anchor:
                return False
            if isinstance(outer, ast.Try) and previous not in outer.body:
                return False
            if not isinstance(outer, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)):
                return False
            previous = outer
        return True

    def _conditions(self, d: Definition) -> None:
        """The conditions around an assignment that are not also around the construction."""
        m = self.module
        shared = {id(n) for c in self.calls for n in m.around(c)} - {id(n) for n in self.twins}
        for outer in m.around(d.statement):
            if outer is d.scope:
                break
            if isinstance(outer, ast.If) and id(outer) not in shared and outer not in self.tests:
                self.tests[outer] = self.conditions.boolean(outer.test)

    def _bind_parameter(self, d: Definition, translate: Translate, depth: int) -> bool:
        """A parameter is what its callers of this file give it, if they all give the same."""
        values = self.given(d)
        if not values:
            return False
        for _, scope in values:
            self._scope(scope)
        translated = [translate(v) for v, _ in values]
        if len({ast.dump(t) for t in translated}) != 1:
            return False
        self.parameters[d] = (self.variable(d.scope, d.key), translated[0])
        return True

    def given(self, d: Definition) -> list[tuple[ast.expr, ScopeNode]]:
        """What each call gives a parameter, its default included, and the scope of the call."""
        m = self.module
        function = d.scope
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or d.key in (
            function.args.vararg.arg if function.args.vararg else "",
            function.args.kwarg.arg if function.args.kwarg else "",
        ):
            return []
        found: list[tuple[ast.expr, ScopeNode]] = []
        entered = self.functions.entered.get(function)
        for made in [entered] if entered is not None else m.callers(function):
            here = m.scope(made)
            value = argument_of(m, function, made, d.key)
            if value is None:
                if any(isinstance(a, ast.Starred) for a in made.args) or any(k.arg is None for k in made.keywords):
                    return []
                value = default_of(function, d.key)
                here = function
            if value is None:
                return []
            found.append((value, here))
            if made not in self.calls and entered is None:
                self.calls.append(made)
        return found

    # -- conditions ------------------------------------------------------------------------------------------

    def attempt(self, translate: Callable[[], ast.expr | None]) -> ast.expr | None:
        """What a translation gives, None where it stops."""
        try:
            return translate()
        except Stop:
            return None

    def launched(self, node: ast.expr) -> ast.expr | None:
        """A regime value, noting that it is asked of an accelerator."""
        value = value_of(self.module, node)
        if value is not None and any(isinstance(n, ast.Name) and n.id == "accelerator" for n in ast.walk(value)):
            self.uses_accelerator = True
        return value

    def see_all(self, arguments: Arguments, node: ast.Call) -> None:
        if arguments.opaque:
            self.stop(f"`{arguments.opaque}` hides arguments of `{text_of(node.func)}`", node)

    # -- the loader ------------------------------------------------------------------------------------------

    def loader(self, node: ast.Call) -> list[ast.stmt]:
        """``loader = DataLoader(...)`` with what matters for sharding; a class of the project's own as it is called."""
        if self.imported is not None and DATA_LOADER not in self.module.callee(node):
            return [assign("loader", self.imported.called(node, 0))]
        arguments = self.module.arguments(node, DATA_LOADER)
        written = arguments.value("sampler")
        if written is None or literal(written) is None:  # beside a sampler nothing can be hidden that chooses samples
            self.see_all(arguments, node)
        data = arguments.value("dataset")
        if data is None:
            raise self.stopped("the loader's dataset is not seen", node)
        # the loader's own dataset first: a sampler made in one arm of what gives it is then seen to be for the same one
        read = self.datasets.dataset(data)
        keywords: dict[str, ast.expr] = {}
        for parameter, argument in arguments.bound.items():
            if parameter != "dataset" and parameter not in (*_KEPT_KEYWORDS, *_DROPPED_KEYWORDS):
                raise self.stopped(f"`{parameter}=` is no argument of torch's DataLoader", argument.value)
        for parameter in _KEPT_KEYWORDS:
            value = arguments.value(parameter)
            if value is None or (literal(value) is None and parameter not in ("batch_size",)):
                continue
            if parameter in ("shuffle", "drop_last"):
                keywords[parameter] = self.conditions.boolean(value)
            elif parameter == "batch_size":
                keywords[parameter] = self.quantities.batch(value)
            elif parameter in ("sampler", "batch_sampler"):
                keywords[parameter] = self.sampling.sampler(value)
            else:
                made = self.sampling.generator(value, 0)
                if made is not None:
                    keywords[parameter] = made
        if arguments.opaque:
            hidden = f"batch_size in {arguments.opaque}"
            keywords.setdefault("batch_size", ast.Constant(self.choices.number(hidden, ..., 2)))
            if "drop_last" not in keywords:
                of = ast.Constant(f"drop_last in {arguments.opaque}")
                keywords["drop_last"] = ast.Subscript(name("UNKNOWN"), of, ast.Load())
        built = call(dotted(DATA_LOADER), read, **keywords)
        return [assign("loader", built)]

    # -- putting it together ---------------------------------------------------------------------------------

    def statements(self) -> list[ast.stmt]:
        """The statements that build ``loader``, outer scopes and callers first."""
        own = self.module.scope(self.anchor)
        built = {made: self.loader(made) for made in [self.anchor, *self.twins.values()]}
        for node in self.twins:
            assert isinstance(node, ast.If)
            self.tests[node] = self.conditions.boolean(node.test)
        self.closed = True
        found: list[ast.stmt] = []
        scopes = [s for s in self.scopes if s is not own]
        order = [
            *(s for s in reversed(scopes) if isinstance(s, ast.Module)),
            *(s for s in reversed(scopes) if not isinstance(s, ast.Module)),
        ]
        for scope in order:
            found += self.parameters_of(scope)
            if not isinstance(scope, ast.Lambda):
                found += self._block(scope.body, {})
        found += self.parameters_of(own)
        if isinstance(own, ast.Lambda):
            return found + built[self.anchor]
        return found + self._block(own.body, built)

    def parameters_of(self, scope: ScopeNode) -> list[ast.stmt]:
        """The parameters of a function, as assignments of what it is given."""
        return [assign(variable, value) for d, (variable, value) in self.parameters.items() if d.scope is scope]

    def _block(self, body: list[ast.stmt], built: dict[ast.Call, list[ast.stmt]]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            made = [c for c in built if self._inside(c, statement)]
            found += self.statement(statement, built, made)
            if made:
                break
        return found

    def _inside(self, node: ast.AST, outer: ast.AST) -> bool:
        return any(n is outer for n in self.module.around(node))

    def statement(self, s: ast.stmt, built: dict[ast.Call, list[ast.stmt]], made: list[ast.Call]) -> list[ast.stmt]:
        """What a statement of the source is in the recipe: the assignments in it that are bound, the constructions."""
        if isinstance(s, ast.If):
            if made and s not in self.twins:
                return self._block(s.body if any(self._inside_block(c, s.body) for c in made) else s.orelse, built)
            test = self.tests.get(s)
            body, other = self._block(s.body, built), self._block(s.orelse, built)
            if test is None or not (body or other):
                return [*body, *other]
            return [ast.If(test, body or [ast.Pass()], other)]
        if isinstance(s, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)):
            head = [
                c
                for c in made
                if not any(
                    self._inside(c, inner) for inner in ast.walk(s) if isinstance(inner, ast.stmt) and inner is not s
                )
            ]
            return [line for c in head for line in built[c]] if head else self._block(s.body, built)
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return []
        found = self.functions.before(s)
        for d, b in sorted(self.bound.items(), key=lambda item: getattr(item[0].node, "col_offset", 0)):
            if d.statement is s or (isinstance(d.statement, ast.NamedExpr) and self.module.statement(d.statement) is s):
                if b.shared is not None:
                    split = assign(b.shared[0], b.shared[1])
                    if all(ast.dump(split) != ast.dump(f) for f in found):
                        found.append(split)
                found.append(assign(b.name, b.value))
        for c in made:
            found += built[c]
        return found

    def _inside_block(self, node: ast.AST, block: list[ast.stmt]) -> bool:
        return any(self._inside(node, s) for s in block)


__all__ = ["Slicer", "assign"]
