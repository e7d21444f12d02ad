"""The backward slice of one loader construction: every statement that decides what it reads, in recipe code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from shardfix.analysis.bindings import Definition, ScopeNode
from shardfix.analysis.flow import last_name
from shardfix.analysis.model import Location
from shardfix.analysis.module import Arguments, Module
from shardfix.analysis.names import DATA_LOADER, SAMPLER_KINDS
from shardfix.analysis.processes import distributed_test
from shardfix.analysis.regimes import is_accelerator
from shardfix.analysis.samplers import arms
from shardfix.proof.choices import Choices, text_of
from shardfix.proof.regime import call, comparison, default_of, dotted, literal, name, value_of
from shardfix.proof.whitelist import FUNCTIONS, GIVEN

_DEPTH = 16
_LARGEST_INDEX = 64
_KEPT_KEYWORDS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator")
# They decide nothing about who reads what.
_DROPPED_KEYWORDS = frozenset(
    {
        *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
        *("prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"),
    }
)
_WRITES = frozenset({"append", "extend", "insert", "sort", "reverse", "pop", "remove", "clear", "shuffle"})
_ISINSTANCE = frozenset({*SAMPLER_KINDS, DATA_LOADER, "torch.utils.data.IterableDataset"})

Translate = Callable[[ast.expr], ast.expr]


@dataclass(frozen=True, slots=True)
class Unproven:
    """Why no recipe can be made of a site, and where that is."""

    reason: str
    where: Location

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Stop(Exception):
    """The slice ends at something that only the project's own code could evaluate."""

    def __init__(self, reason: str, where: Location) -> None:
        super().__init__(reason)
        self.unproven = Unproven(reason, where)


@dataclass(eq=False)
class _Bound:
    """A definition in the recipe: the name it gets and the translated value; ``shared`` is a split it is an item of."""

    name: str
    value: ast.expr
    shared: tuple[str, ast.expr] | None = None


class Slicer:
    """Translates the construction ``anchor`` and what it depends on. ``assumed`` maps conditions to what they are."""

    def __init__(self, module: Module, anchor: ast.Call, choices: Choices, assumed: dict[str, bool]) -> None:
        self.module = module
        self.anchor = anchor
        self.choices = choices
        self.assumed = dict(assumed)
        self.bound: dict[Definition, _Bound] = {}
        self.parameters: dict[Definition, tuple[str, ast.expr]] = {}
        self.tests: dict[ast.AST, ast.expr] = {}
        self.names: dict[tuple[ScopeNode, str], str] = {}
        self.scopes: list[ScopeNode] = []
        self.datasets: dict[tuple[str, frozenset[Definition]], str] = {}
        self.pending: set[Definition] = set()
        self.calls: list[ast.Call] = [anchor]
        self.uses_accelerator = False
        self.twins: dict[ast.AST, ast.Call] = {}
        self.alias: Callable[[ast.expr], ast.expr | None] = lambda node: None
        self.closed = False  # once the construction is translated, nothing more is bound
        self._path(anchor)

    # -- where the construction stands -----------------------------------------------------------------------

    def _path(self, anchor: ast.Call) -> None:
        """The conditions around the construction are taken as they must be for it to run."""
        m = self.module
        previous: ast.AST = anchor
        for outer in m.around(anchor):
            if isinstance(previous, ast.stmt):
                self._after_leaving(previous)
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                break
            if isinstance(outer, ast.If) and previous is not outer.test:
                inside = previous in outer.body
                self._branch(outer, inside)
            elif isinstance(outer, ast.IfExp) and previous is not outer.test:
                self._assume(outer.test, previous is outer.body)
            previous = outer

    def _branch(self, node: ast.If, inside: bool) -> None:
        outcome = distributed_test(node.test)
        if outcome is None:
            self._assume(node.test, inside)
            return
        twin = self._twin(node.orelse if inside else node.body)
        if twin is not None:
            self.twins[node] = twin
            self.calls.append(twin)
        elif isinstance(node.test, ast.BoolOp):
            self._assume(node.test, inside)
        elif outcome is not inside:
            self.stop("the loader is built only where there is one process: there is nothing to shard", node.test)

    def _after_leaving(self, statement: ast.stmt) -> None:
        block = self.module.block(statement)
        for earlier in block[: block.index(statement)] if statement in block else []:
            if not isinstance(earlier, ast.If) or earlier.orelse or isinstance(earlier.test, ast.BoolOp):
                continue
            leaves = isinstance(earlier.body[-1], (ast.Return, ast.Raise))
            if leaves and distributed_test(earlier.test) is True:
                self.stop("the loader is built only where there is one process: there is nothing to shard", earlier)

    def _twin(self, block: list[ast.stmt]) -> ast.Call | None:
        """The construction that the other arm of a regime condition gives the same name."""
        m = self.module
        statement = m.statement(self.anchor)
        found = []
        for other in block:
            if type(other) is not type(statement) or not isinstance(other, (ast.Assign, ast.Return)):
                continue
            made = _construction(m, other.value)
            same = isinstance(other, ast.Return) or (
                isinstance(statement, ast.Assign)
                and [ast.dump(t) for t in other.targets] == [ast.dump(t) for t in statement.targets]
            )
            if made is not None and same:
                found.append(made)
        return found[0] if len(found) == 1 else None

    def _assume(self, test: ast.expr, outcome: bool) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._assume(test.operand, not outcome)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if outcome else ast.Or):
            for value in test.values:
                self._assume(value, outcome)
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
        return self.stopped(f"{what} `{text}` needs the project's own code, which is not imported", node)

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
        """What may give a name or attribute its value, ``self.x`` of other methods included."""
        m = self.module
        found = m.bindings.reaching(node)
        if (
            not found
            and isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            cls = m.class_of(node)
            if cls is not None:
                found = frozenset(m.attribute_definitions.get((cls, node.attr), []))
        return found

    def need(self, node: ast.expr, translate: Translate, depth: int) -> ast.expr | None:
        """Bind a name: every assignment that may give it its value becomes part of the recipe.

        Returns the recipe's name, or None where some value comes from what can't be followed.
        """
        found = self.definitions(node)
        if not found or depth > _DEPTH:
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
                shared = self._split(d.value, depth) if d.index >= 0 else None
                if shared is None:
                    return False
                part = self.variable(d.scope, f"the parts in line {d.value.lineno}", "parts")
                item = ast.Subscript(name(part), ast.Constant(d.index), ast.Load())
                self._conditions(d)
                self.bound[d] = _Bound(variable, item, (part, shared))
            else:
                value = translate(d.value)
                self._conditions(d)
                self.bound[d] = _Bound(variable, value)
            return True
        finally:
            self.pending.discard(d)

    def _scope(self, scope: ScopeNode) -> None:
        if scope not in self.scopes:
            self.scopes.append(scope)

    def _followable(self, d: Definition, use: ast.expr) -> bool:
        """Whether the statements around an assignment are ones that a recipe can repeat."""
        if d.kind == "parameter":
            return True
        m = self.module
        same_scope = d.scope is (m.function(use) or m.tree)
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
                self.tests[outer] = self.boolean(outer.test)

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
        for made in m.callers(function):
            here = m.function(made) or m.tree
            value = next(
                (v for v in [*made.args, *(k.value for k in made.keywords)] if m.parameter_for(made, v) is d.node), None
            )
            if value is None:
                if any(isinstance(a, ast.Starred) for a in made.args) or any(k.arg is None for k in made.keywords):
                    return []
                value = _default(function, d.key)
                here = function
            if value is None:
                return []
            found.append((value, here))
            if made not in self.calls:
                self.calls.append(made)
        return found

    # -- conditions ------------------------------------------------------------------------------------------

    def boolean(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A condition: literals and regime values as they are, anything else an unknown that is tried both ways."""
        if depth > _DEPTH:
            return self.unknown(node)
        if isinstance(node, ast.Constant):
            return ast.Constant(node.value if isinstance(node.value, (bool, int)) else bool(node.value))
        if text_of(node) in self.assumed:
            return ast.Constant(self.assumed[text_of(node)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), self.boolean(node.operand, depth + 1))
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self.boolean(v, depth + 1) for v in node.values])
        if isinstance(node, ast.Compare):
            return self.compare(node, depth)
        if isinstance(node, ast.IfExp):
            parts = (self.boolean(part, depth + 1) for part in (node.test, node.body, node.orelse))
            return ast.IfExp(*parts)
        value = self.launched(node)
        if value is not None:
            return value
        if isinstance(node, ast.Call):
            return self.asked(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            subject = self.subject(node, depth)
            if subject is not None:
                return subject
            bound = self.attempt(lambda: self.need(node, lambda v: self.boolean(v, depth + 1), depth + 1))
            if bound is not None:
                return bound
        return self.unknown(node)

    def attempt(self, translate: Callable[[], ast.expr | None]) -> ast.expr | None:
        """What a translation gives, None where it stops."""
        try:
            return translate()
        except Stop:
            return None

    def unknown(self, node: ast.expr) -> ast.expr:
        return ast.Subscript(name("UNKNOWN"), ast.Constant(text_of(node)), ast.Load())

    def launched(self, node: ast.expr) -> ast.expr | None:
        """A regime value, noting that it is asked of an accelerator."""
        value = value_of(self.module, node)
        if value is not None and any(isinstance(n, ast.Name) and n.id == "accelerator" for n in ast.walk(value)):
            self.uses_accelerator = True
        return value

    def compare(self, node: ast.Compare, depth: int) -> ast.expr:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            right = node.comparators[0]
            if literal(right) is None and isinstance(node.left, (ast.Name, ast.Attribute)):
                subject = self.subject(node.left, depth)
                if subject is not None:
                    return ast.Compare(subject, node.ops, [ast.Constant(None)])
            if isinstance(literal(right), bool) and value_of(self.module, node.left) is None:
                op = ast.Eq() if isinstance(node.ops[0], (ast.Is, ast.Eq)) else ast.NotEq()
                return ast.Compare(self.boolean(node.left, depth + 1), [op], [ast.Constant(literal(right))])  # type: ignore[arg-type]
        found = comparison(self.module, node)
        if found is not None:
            if any(isinstance(n, ast.Name) and n.id == "accelerator" for n in ast.walk(found)):
                self.uses_accelerator = True
            return found
        return self.unknown(node)

    def asked(self, node: ast.Call, depth: int) -> ast.expr:
        """``isinstance(sampler, DistributedSampler)``, ``hasattr(sampler, "set_epoch")``, ``bool(x)``."""
        function = last_name(node.func)
        if function == "bool" and len(node.args) == 1:
            return self.boolean(node.args[0], depth + 1)
        if function == "isinstance" and len(node.args) == 2:
            subject = self.subject(node.args[0], depth)
            classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            known = [sorted(self.module.qualify(c) & _ISINSTANCE) for c in classes]
            if subject is not None and all(known):
                kinds: list[ast.expr] = [dotted(k[0]) for k in known]
                return call(name("isinstance"), subject, kinds[0] if len(kinds) == 1 else ast.Tuple(kinds, ast.Load()))
        if function == "hasattr" and len(node.args) == 2 and literal(node.args[1]) in ("set_epoch", "sampler"):
            subject = self.subject(node.args[0], depth)
            if subject is not None:
                return call(name("hasattr"), subject, ast.Constant(literal(node.args[1])))  # type: ignore[arg-type]
        return self.unknown(node)

    def subject(self, node: ast.expr, depth: int) -> ast.expr | None:
        """What a test asks about: the loader or a sampler of the construction."""
        known = self.alias(node)
        if known is not None:
            return known
        if isinstance(node, (ast.Name, ast.Attribute)) and self.is_sampler(node):
            return self.attempt(lambda: self.sampler(node, depth + 1))
        return None

    def is_sampler(self, node: ast.expr) -> bool:
        """Whether a name is given a sampler of torch's, or None where one is wanted."""
        found = arms(self.module, node)
        kinds = {a.kind for a in found}
        for d in (a.definitions[-1] for a in found if a.kind == "parameter"):
            kinds |= {inner.kind for value, _ in self.given(d) for inner in arms(self.module, value)}
        return bool(kinds - {"custom", "unknown", "parameter"}) and not (
            kinds == {"none"} and "sampler" not in text_of(node).lower()
        )

    # -- samplers --------------------------------------------------------------------------------------------

    def sampler(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A sampler: torch's own ones, a condition between them, a name for one."""
        if depth > _DEPTH:
            raise self.needs_project("the sampler", node)
        if literal(node) is None:
            return ast.Constant(None)
        if isinstance(node, ast.IfExp):
            if text_of(node.test) in self.assumed:
                return self.sampler(node.body if self.assumed[text_of(node.test)] else node.orelse, depth + 1)
            test = self.boolean(node.test, depth + 1)
            return ast.IfExp(test, self.sampler(node.body, depth + 1), self.sampler(node.orelse, depth + 1))
        if isinstance(node, ast.Call):
            for qualified in sorted(self.module.callee(node)):
                if qualified in SAMPLER_KINDS:
                    return self.construction(node, qualified, depth)
            if last_name(node.func) in ("sanitize",) and node.args:
                return self.sampler(node.args[0], depth + 1)
            raise self.needs_project("the sampler", node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            bound = self.need(node, lambda v: self.sampler(v, depth + 1), depth + 1)
            if bound is not None:
                return bound
            for d in self.definitions(node):
                if d.kind == "parameter":
                    n = len(self.module.callers(d.scope))
                    calls = "no call in this file shows it" if not n else f"{n} calls give it different ones"
                    raise self.stopped(f"the sampler `{text_of(node)}` comes from the caller: {calls}", node)
                if d.kind == "loop" or not self._followable(d, node):
                    raise self.stopped(f"the sampler `{text_of(node)}` is made in a loop or a handler", d.node)
        raise self.needs_project("the sampler", node)

    def construction(self, node: ast.Call, qualified: str, depth: int) -> ast.expr:
        """A torch sampler with its arguments by name."""
        arguments = self.module.arguments(node, qualified)
        self.see_all(arguments, node)
        keywords: dict[str, ast.expr] = {}
        weights = arguments.value("weights")
        for parameter, argument in arguments.bound.items():
            value = argument.value
            if parameter in ("dataset", "data_source"):
                keywords[parameter] = self.dataset(value, depth + 1)
            elif parameter in ("num_replicas", "rank"):
                keywords[parameter] = self.process(value, f"`{parameter}=`", depth + 1)
            elif parameter == "seed":
                keywords[parameter] = self.seed(value, depth + 1)
            elif parameter in ("shuffle", "drop_last", "replacement"):
                keywords[parameter] = self.boolean(value, depth + 1)
            elif parameter == "sampler":
                keywords[parameter] = self.sampler(value, depth + 1)
            elif parameter == "batch_size":
                keywords[parameter] = self.batch(value, depth + 1)
            elif parameter == "indices":
                keywords[parameter] = self.index(value, depth + 1)
            elif parameter == "generator":
                made = self.generator(value, depth + 1)
                if made is not None:
                    keywords[parameter] = made
            elif parameter == "weights":
                # any weights show whether the draw is the ranks' common one
                size = call(name("len"), self.own_dataset(depth + 1))
                keywords[parameter] = ast.BinOp(ast.List([ast.Constant(1.0)], ast.Load()), ast.Mult(), size)
                self.choices.stand_ins[text_of(value)] = "equal weights"
            elif parameter == "num_samples":
                keywords[parameter] = self.draws(value, weights, depth + 1)
            else:
                raise self.stopped(f"the argument `{parameter}=` of {qualified} is not known here", value)
        return call(dotted(qualified), **keywords)

    def see_all(self, arguments: Arguments, node: ast.Call) -> None:
        if arguments.opaque:
            self.stop(f"`{arguments.opaque}` hides arguments of `{text_of(node.func)}`", node)

    def draws(self, node: ast.expr, weights: ast.expr | None, depth: int) -> ast.expr:
        """``num_samples``: what the dataset's size gives, else a small number that stands for it."""
        if literal(node) is None:
            return ast.Constant(None)
        counted = node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "len" and node.args else None
        if counted is not None and weights is not None and text_of(counted) == text_of(weights):
            return call(name("len"), self.own_dataset(depth))
        found = self.attempt(lambda: self.index(node, depth))
        if found is not None and any(isinstance(n, ast.Name) and n.id == "len" for n in ast.walk(found)):
            return found
        value = literal(node)
        return ast.Constant(self.choices.number(text_of(node), value, 6))

    def generator(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``torch.Generator().manual_seed(n)``, in one expression or two statements; None for None."""
        if literal(node) is None:
            return None
        if isinstance(node, ast.Call):
            if "torch.Generator" in self.module.callee(node):
                return call(dotted("torch.Generator"))
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "manual_seed" and len(node.args) == 1:
                made = self.generator(func.value, depth + 1)
                if isinstance(made, ast.Call):
                    return call(ast.Attribute(made, "manual_seed", ast.Load()), self.seed(node.args[0], depth + 1))
        if isinstance(node, ast.Name):
            found = self.definitions(node)
            if len(found) == 1:
                (d,) = found
                seeded = self._seeded(d, depth)
                if d.value is not None and d.index is None and d.kind == "assign" and d not in self.pending:

                    def made_once(value: ast.expr) -> ast.expr:
                        made = self.generator(value, depth + 1)
                        if made is None:
                            raise self.needs_project("the generator", value)
                        return call(ast.Attribute(made, "manual_seed", ast.Load()), seeded) if seeded else made

                    bound = self.need(node, made_once, depth + 1)
                    if bound is not None:
                        return bound
        raise self.needs_project("the generator", node)

    def _seeded(self, d: Definition, depth: int) -> ast.expr | None:
        """The seed that ``g.manual_seed(n)`` gives a generator made before."""
        for reader in self.module.bindings.readers(d):
            parent = self.module.parents[reader]
            if isinstance(parent, ast.Attribute) and isinstance(self.module.parents[parent], ast.Call):
                made = self.module.parents[parent]
                assert isinstance(made, ast.Call)
                if parent.attr != "manual_seed" or len(made.args) != 1:
                    raise self.needs_project("the state of the generator", made)
                return self.seed(made.args[0], depth + 1)
        return None

    # -- numbers ---------------------------------------------------------------------------------------------

    def process(self, node: ast.expr, what: str, depth: int) -> ast.expr:
        """A number of the launch, exactly: a rank, the world size, arithmetic on them."""
        if depth <= _DEPTH:
            if literal(node) is None or type(literal(node)) is int:
                return ast.Constant(literal(node))  # type: ignore[arg-type]
            value = self.launched(node)
            if value is not None:
                return value
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
                left, right = self.process(node.left, what, depth + 1), self.process(node.right, what, depth + 1)
                return ast.BinOp(left, node.op, right)
            if isinstance(node, ast.IfExp):
                test = self.boolean(node.test, depth + 1)
                parts = [self.process(part, what, depth + 1) for part in (node.body, node.orelse)]
                return ast.IfExp(test, *parts)
            if isinstance(node, ast.Call) and "builtins.int" in self.module.callee(node) and len(node.args) == 1:
                return call(name("int"), self.process(node.args[0], what, depth + 1))
            if isinstance(node, (ast.Name, ast.Attribute)):
                bound = self.need(node, lambda v: self.process(v, what, depth + 1), depth + 1)
                if bound is not None:
                    return bound
        raise self.stopped(f"{what} `{text_of(node)}` is not seen to be a number of the process group", node)

    def seed(self, node: ast.expr, depth: int) -> ast.expr:
        """A seed: its dependence on the rank is kept, what is not known is a number alike on every rank."""
        if type(literal(node)) is int:
            return ast.Constant(literal(node))  # type: ignore[arg-type]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
            return ast.BinOp(self.seed(node.left, depth + 1), node.op, self.seed(node.right, depth + 1))
        if isinstance(node, ast.Call) and "builtins.int" in self.module.callee(node) and len(node.args) == 1:
            return self.seed(node.args[0], depth + 1)
        value = self.launched(node)
        if value is not None:
            return value
        if isinstance(node, (ast.Name, ast.Attribute)) and depth <= _DEPTH:
            bound = self.attempt(lambda: self.need(node, lambda v: self.seed(v, depth + 1), depth + 1))
            if bound is not None:
                return bound
        if any(value_of(self.module, n) is not None for n in ast.walk(node) if isinstance(n, ast.expr)):
            raise self.needs_project("the seed", node)
        return ast.Constant(self.choices.number(text_of(node), default_of(self.module, node), 0))

    def batch(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A batch size: literals and defaults made small, other sizes staying other sizes."""
        m = self.module
        value = literal(node)
        if value is None:
            return ast.Constant(None)
        if type(value) is int:
            return ast.Constant(self.choices.batch(value, str(value)))
        if depth <= _DEPTH:
            launched = self.launched(node)
            if launched is not None:
                return launched
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Div)):
                left, right = self.batch(node.left, depth + 1), self.factor(node.right, depth + 1)
                if isinstance(node.op, ast.Mult):
                    return ast.BinOp(left, ast.Mult(), right)
                return call(name("max"), ast.Constant(1), ast.BinOp(left, ast.FloorDiv(), right))
            if isinstance(node, ast.Call) and not m.callee(node).isdisjoint(("builtins.int",)) and len(node.args) == 1:
                return call(name("int"), self.batch(node.args[0], depth + 1))
            if isinstance(node, (ast.Name, ast.Attribute)):
                found = self.definitions(node)
                if len(found) == 1:
                    (d,) = found
                    if d.kind == "assign" and d.value is not None and d.index is None and d not in self.pending:
                        return self.batch(d.value, depth + 1)
                    if d.kind == "parameter":
                        values = [v for v, _ in self.given(d)]
                        if values and len({ast.dump(v) for v in values}) == 1:
                            return self.batch(values[0], depth + 1)
        default = default_of(m, node)
        if type(default) is int and default > 0:
            return ast.Constant(self.choices.batch(default, text_of(node)))
        return ast.Constant(self.choices.number(text_of(node), ..., 2))

    def factor(self, node: ast.expr, depth: int) -> ast.expr:
        """What a batch size is multiplied or divided by."""
        launched = self.launched(node)
        if launched is not None:
            return launched
        value = literal(node)
        if type(value) is int and 0 < value <= 4:
            return ast.Constant(value)
        if isinstance(node, ast.Call) and "builtins.max" in self.module.callee(node):
            return call(name("max"), *(self.factor(a, depth + 1) for a in node.args))
        if isinstance(node, (ast.Name, ast.Attribute)) and depth <= _DEPTH:
            found = self.definitions(node)
            if len(found) == 1:
                (d,) = found
                if d.kind == "assign" and d.value is not None and d.index is None:
                    return self.factor(d.value, depth + 1)
        return ast.Constant(self.choices.number(text_of(node), ..., 1))

    # -- datasets and indices --------------------------------------------------------------------------------

    def own_dataset(self, depth: int) -> ast.expr:
        """The dataset of the construction itself."""
        value = self.module.arguments(self.anchor, DATA_LOADER).value("dataset")
        return self.dataset(value, depth) if value is not None else call(name("DATASET"), ast.Constant("dataset"))

    def dataset(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A dataset: an index dataset under the source's own words; subsets and splits in plain sight stay."""
        m = self.module
        if depth > _DEPTH:
            return self.stand_in(node)
        if isinstance(node, ast.Call):
            self.no_stream(node)
            if "torch.utils.data.Subset" in m.callee(node):
                values = [*node.args, *(k.value for k in node.keywords)]
                if len(values) == 2:
                    indices = self.attempt(lambda: self.index(values[1], depth + 1))
                    if indices is not None:
                        return call(dotted("torch.utils.data.Subset"), self.dataset(values[0], depth + 1), indices)
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.definitions(node)
            for d in found:
                if isinstance(d.value, ast.Call) and d.kind == "assign":
                    self.no_stream(d.value)
            if len(found) == 1:
                (d,) = found
                value = d.value
                if d.kind == "assign" and value is not None and d not in self.pending:
                    if d.index is None and isinstance(value, (ast.Name, ast.Attribute)):
                        return self.dataset(value, depth + 1)
                    if d.index is None and m.is_call(value, "torch.utils.data.Subset"):
                        shown = self.attempt(lambda: self.dataset(value, depth + 1))
                        if isinstance(shown, ast.Call) and ast.unparse(shown.func) != "DATASET":
                            bound = self.need(node, lambda v: self.dataset(v, depth + 1), depth + 1)
                            if bound is not None:
                                return bound
                    if d.index is not None and m.is_call(value, "torch.utils.data.random_split"):
                        bound = self.attempt(lambda: self.need(node, self.dataset, depth + 1))
                        if bound is not None:
                            return bound
                if d.kind == "parameter":
                    given = self.given(d)
                    if len(given) == 1 and isinstance(given[0][0], (ast.Name, ast.Attribute)):
                        return self.dataset(given[0][0], depth + 1)
        return self.stand_in(node)

    def no_stream(self, node: ast.Call) -> None:
        """A stream has no sampler and no indices."""
        m = self.module
        cls = m.class_definition(node.func)
        bases = m.bases(cls) if cls is not None else set()
        streams = any(k.arg == "streaming" and literal(k.value) is True for k in node.keywords)
        if streams or any(b.rsplit(".", 1)[-1] == "IterableDataset" for b in [*bases, *m.callee(node)]):
            self.stop(f"`{text_of(node)}` is a stream (IterableDataset): it has no indices to compare", node)

    def stand_in(self, node: ast.expr) -> ast.expr:
        """An index dataset known by the source's words; the same words with other assignments are another one."""
        text = text_of(node)
        held: set[Definition] = set()
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Name, ast.Attribute)):
                held |= self.definitions(inner)
        key = (text, frozenset(held))
        if key not in self.datasets:
            # a use that may see the same assignment is the same dataset: two arms that make one, then the loader
            for (known, others), given in list(self.datasets.items()):
                if known == text and (not held or held & others):
                    self.datasets[key] = given
        if key not in self.datasets:
            same = sum(1 for known, _ in self.datasets if known == text)
            self.datasets[key] = text if not same else f"{text} #{same + 1}"
        return call(name("DATASET"), ast.Constant(self.datasets[key]))

    def _split(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``random_split`` with a seeded generator and lengths that follow from the dataset's length."""
        m = self.module
        if not isinstance(node, ast.Call) or not m.is_call(node, "torch.utils.data.random_split"):
            return None
        values = dict(zip(("dataset", "lengths", "generator"), node.args, strict=False))
        values |= {k.arg: k.value for k in node.keywords if k.arg}
        if "generator" not in values or not {"dataset", "lengths"} <= set(values):
            return None  # drawn from the global state: who reads which part is not a matter of the loader
        lengths = self.index(values["lengths"], depth + 1)
        made = self.generator(values["generator"], depth + 1)
        if made is None or not isinstance(lengths, ast.List):
            return None
        if not all(isinstance(literal(e), float) or not isinstance(literal(e), int) for e in lengths.elts):
            return None
        data = self.dataset(values["dataset"], depth + 1)
        return call(dotted("torch.utils.data.random_split"), data, lengths, generator=made)

    def index(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """Index lists and lengths: what follows from a dataset's length by literals, ranges, slices and arithmetic."""
        m = self.module
        if depth > _DEPTH:
            raise self.needs_project("the indices", node)
        value = literal(node)
        if value is None or (isinstance(value, (int, float)) and abs(value) <= _LARGEST_INDEX):
            return ast.Constant(value)
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
        ):
            return ast.BinOp(self.index(node.left, depth + 1), node.op, self.index(node.right, depth + 1))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return ast.UnaryOp(ast.USub(), self.index(node.operand, depth + 1))
        if isinstance(node, (ast.List, ast.Tuple)):
            if any(type(literal(e)) is int for e in node.elts):
                raise self.fixed(node)
            return ast.List([self.index(e, depth + 1) for e in node.elts], ast.Load())
        if isinstance(node, ast.Subscript):
            base = self.index(node.value, depth + 1)
            cut = node.slice
            if isinstance(cut, ast.Slice):
                parts = [self.index(p, depth + 1) if p is not None else None for p in (cut.lower, cut.upper, cut.step)]
                return ast.Subscript(base, ast.Slice(*parts), ast.Load())
            return ast.Subscript(base, self.index(cut, depth + 1), ast.Load())
        if isinstance(node, ast.Call):
            return self.index_call(node, depth)
        launched = self.launched(node)
        if launched is not None:
            return launched
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.unwritten(node)

            def follows(value: ast.expr) -> ast.expr:
                if type(literal(value)) is int:
                    raise self.fixed(value)
                return self.index(value, depth + 1)

            bound = self.need(node, follows, depth + 1)
            if bound is not None:
                return bound
            default = default_of(m, node)
            if isinstance(default, (int, float)) and abs(default) <= 1:
                self.choices.stand_ins[text_of(node)] = str(default)
                return ast.Constant(default)
        raise self.needs_project("the indices", node)

    def fixed(self, node: ast.expr) -> Stop:
        """Absolute indices and lengths fit the program's own dataset only, not the sizes that a proof is run at."""
        return self.stopped(f"`{text_of(node)}` does not follow from the dataset's length", node)

    def index_call(self, node: ast.Call, depth: int) -> ast.expr:
        callee = self.module.callee(node)
        if node.keywords:
            raise self.needs_project("the indices", node)
        counts = ("builtins.range", "numpy.arange", "torch.arange")
        if not callee.isdisjoint(counts) and type(literal(node.args[min(1, len(node.args) - 1)])) is int:
            raise self.fixed(node)
        if "builtins.len" in callee and len(node.args) == 1:
            data = self.dataset(node.args[0], depth + 1)
            if ast.dump(data) == ast.dump(self.own_dataset(depth + 1)):
                return call(name("len"), data)
            inner = self.attempt(lambda: self.index(node.args[0], depth + 1))
            return call(name("len"), inner if inner is not None else data)
        for function in ("range", "list", "tuple", "int", "float", "min", "max", "round", "sum", "sorted"):
            if f"builtins.{function}" in callee:
                return call(name(function), *(self.index(a, depth + 1) for a in node.args))
        if "numpy.floor" in callee and len(node.args) == 1:
            return ast.BinOp(self.index(node.args[0], depth + 1), ast.FloorDiv(), ast.Constant(1))
        if not callee.isdisjoint(("numpy.arange", "torch.arange")):
            return call(name("list"), call(name("range"), *(self.index(a, depth + 1) for a in node.args)))
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "tolist" and not node.args:
            return self.index(func.value, depth + 1)
        raise self.needs_project("the indices", node)

    def unwritten(self, node: ast.expr) -> None:
        """A list that is shuffled or written to between its making and its use is not what its making says."""
        for d in self.definitions(node):
            for reader in self.module.bindings.readers(d):
                parent = self.module.parents[reader]
                if isinstance(parent, ast.Attribute) and parent.attr in _WRITES:
                    raise self.stopped(f"`{text_of(node)}` is changed by `.{parent.attr}()`", parent)
                if isinstance(parent, ast.Call) and last_name(parent.func) in _WRITES:
                    raise self.stopped(f"`{text_of(node)}` is shuffled by `{text_of(parent)}`", parent)
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    raise self.stopped(f"`{text_of(node)}` is written to", parent)

    # -- the loader ------------------------------------------------------------------------------------------

    def loader(self, node: ast.Call) -> list[ast.stmt]:
        """``loader = DataLoader(...)`` with what matters for sharding."""
        arguments = self.module.arguments(node, DATA_LOADER)
        self.see_all(arguments, node)
        data = arguments.value("dataset")
        if data is None:
            raise self.stopped("the loader's dataset is not seen", node)
        keywords: dict[str, ast.expr] = {}
        for parameter, argument in arguments.bound.items():
            if parameter != "dataset" and parameter not in (*_KEPT_KEYWORDS, *_DROPPED_KEYWORDS):
                raise self.stopped(f"`{parameter}=` is no argument of torch's DataLoader", argument.value)
        for parameter in _KEPT_KEYWORDS:
            value = arguments.value(parameter)
            if value is None or (literal(value) is None and parameter not in ("batch_size",)):
                continue
            if parameter in ("shuffle", "drop_last"):
                keywords[parameter] = self.boolean(value)
            elif parameter == "batch_size":
                keywords[parameter] = self.batch(value)
            elif parameter in ("sampler", "batch_sampler"):
                keywords[parameter] = self.sampler(value)
            else:
                made = self.generator(value, 0)
                if made is not None:
                    keywords[parameter] = made
        built = call(dotted(DATA_LOADER), self.dataset(data), **keywords)
        return [assign("loader", built)]

    # -- putting it together ---------------------------------------------------------------------------------

    def statements(self) -> list[ast.stmt]:
        """The statements that build ``loader``, outer scopes and callers first."""
        own = self.module.function(self.anchor) or self.module.tree
        built = {made: self.loader(made) for made in [self.anchor, *self.twins.values()]}
        for node in self.twins:
            assert isinstance(node, ast.If)
            self.tests[node] = self.boolean(node.test)
        self.closed = True
        found: list[ast.stmt] = []
        scopes = [s for s in self.scopes if s is not own]
        order = [
            *(s for s in scopes if s is self.module.tree),
            *(s for s in reversed(scopes) if s is not self.module.tree),
        ]
        for scope in order:
            found += self._parameters_of(scope)
            if not isinstance(scope, ast.Lambda):
                found += self._block(scope.body, {})
        found += self._parameters_of(own)
        if isinstance(own, ast.Lambda):
            return found + built[self.anchor]
        return found + self._block(own.body, built)

    def _parameters_of(self, scope: ScopeNode) -> list[ast.stmt]:
        return [assign(variable, value) for d, (variable, value) in self.parameters.items() if d.scope is scope]

    def _block(self, body: list[ast.stmt], built: dict[ast.Call, list[ast.stmt]]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            made = [c for c in built if self._inside(c, statement)]
            found += self._statement(statement, built, made)
            if made:
                break
        return found

    def _inside(self, node: ast.AST, outer: ast.AST) -> bool:
        return any(n is outer for n in self.module.around(node))

    def _statement(self, s: ast.stmt, built: dict[ast.Call, list[ast.stmt]], made: list[ast.Call]) -> list[ast.stmt]:
        if isinstance(s, ast.If):
            if made and s not in self.twins:
                return self._block(s.body if any(self._inside_block(c, s.body) for c in made) else s.orelse, built)
            test = self.tests.get(s)
            body, other = self._block(s.body, built), self._block(s.orelse, built)
            if test is None or not (body or other):
                return [*body, *other]
            return [ast.If(test, body or [ast.Pass()], other)]
        if isinstance(s, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)):
            return self._block(s.body, built)
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return []
        found: list[ast.stmt] = []
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


def assign(target: str, value: ast.expr) -> ast.Assign:
    """``target = value``."""
    return ast.Assign([ast.Name(target, ast.Store())], value, lineno=0)


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, key: str) -> ast.expr | None:
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    for arg, default in zip(reversed(positional), reversed(a.defaults), strict=False):
        if arg.arg == key:
            return default
    for arg, kw_default in zip(a.kwonlyargs, a.kw_defaults, strict=False):
        if arg.arg == key:
            return kw_default
    return None


def _construction(module: Module, node: ast.expr | None) -> ast.Call | None:
    """The loader construction that an expression is, a sanitizer around it looked through."""
    while isinstance(node, ast.Call) and last_name(node.func) == "sanitize" and node.args:
        node = node.args[0]
    return node if isinstance(node, ast.Call) and DATA_LOADER in module.callee(node) else None


__all__ = ["Slicer", "Stop", "Unproven", "assign", "is_accelerator"]
