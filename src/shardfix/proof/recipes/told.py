"""Who is told the epoch in a recipe, when, and under which conditions."""

from __future__ import annotations

import ast
from collections.abc import Collection

from shardfix.analysis.code.bindings import Definition, parameters
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.names import BATCH_SAMPLER, DATA_LOADER, DISTRIBUTED_SAMPLER, last_name
from shardfix.analysis.loops.epochs import EpochLoop, SetEpoch, counter_of, untold
from shardfix.analysis.loops.evaluation import evaluates
from shardfix.analysis.programs.processes import distributed_test
from shardfix.analysis.sites import Site
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.settings import default, exact, literal
from shardfix.proof.recipes.slice import Slicer
from shardfix.proof.recipes.whitelist import dotted_name

_EPOCHS = 1000  # a start beyond it is no number of an epoch


class Told:
    """The ``set_epoch`` calls of a site as they come before each epoch's pass."""

    def __init__(self, site: Site, slicer: Slicer) -> None:
        self.site = site
        self.slicer = slicer
        self.guards: set[str] = set()  # what is unknown of when this loader is told, where other ones are not
        self.module = site.module
        self.prepared = site.owner == "accelerate"

    def statements(self) -> list[ast.stmt]:
        told = self.site.told
        training = [loop for loop in self.site.epoch_loops.loops if not evaluates(self.module, loop.use.node)]
        if untold(self.module, training, told):
            told = []  # the recipe runs one loop: the one that is wrong
        for call_ in told:
            self.anew(call_)
        self.slicer.alias = self.receiver
        found: list[ast.stmt] = []
        for call_ in told:
            found += [s for s in self.one(call_) if all(ast.dump(s) != ast.dump(f) for f in found)]
        return found

    @property
    def loops(self) -> tuple[EpochLoop, ...]:
        """The loops over epochs, those included in which the loader is built anew: a pass over a new loader reads what
        one over the old one would, since a sampler keeps nothing but the epoch."""
        return (*self.site.epoch_loops.loops, *self.site.epoch_loops.rebuilding)

    def anew(self, told: SetEpoch) -> None:
        """Stop where a sampler that is built anew in each epoch is told before it is built: the old one is told."""
        around = list(self.module.around(told.call))
        made = [d.statement for d in self.known(told.receiver)]
        arms = (*self.site.arms, *(inner for batch in self.site.batch_arms for inner in batch.inner))
        direct: list[ast.expr | None] = [a.node for a in arms if told.receiver in self.site.sampler_flow(a).aliases]
        for loop in self.site.epoch_loops.rebuilding:
            built = direct or [loop.built]
            here = [n for n in built if n is not None and loop.loop in self.module.around(n)]
            if made and all(loop.loop not in self.module.around(s) for s in made):
                continue  # what is told was built before the loop; what is built in it is another
            if loop.loop in around and any(n.lineno >= told.call.lineno for n in here):
                raise self.slicer.stopped("`set_epoch` is called before the epoch's sampler is built", told.call)

    def elsewhere(self, body: list[ast.stmt]) -> ast.AST | None:
        """Where a shuffling DistributedSampler that nobody tells the epoch here leaves this file, to be told there.

        A prepared loader tells its sampler by itself.
        """
        shuffling = [
            n
            for s in body
            for n in ast.walk(s)
            if isinstance(n, ast.Call)
            and dotted_name(n.func) == DISTRIBUTED_SAMPLER
            and not any(k.arg == "shuffle" and literal(k.value) is False for k in n.keywords)
        ]
        if not shuffling or self.prepared or self.site.told:
            return None
        flows = [self.site.flow] if not self.site.flow.of("iterate", "next") else []
        for arm in (*self.site.arms, *(inner for batch in self.site.batch_arms for inner in batch.inner)):
            if isinstance(arm.node, ast.Call):
                flows.append(self.site.sampler_flow(arm))
        for use in (u for flow in flows for u in flow.of("argument", "escape", "returned")):
            made = use.node
            called = self.module.callee(made) if isinstance(made, ast.Call) else set()
            if not called & {DATA_LOADER, BATCH_SAMPLER} and not any(c.startswith("builtins.") for c in called):
                return made
        return None

    def one(self, told: SetEpoch) -> list[ast.stmt]:
        receiver = self.receiver(told.receiver)
        if receiver is None:
            text = text_of(told.receiver)
            raise self.slicer.stopped(f"`{text}` is told the epoch, but what it is there is not seen", told.receiver)
        if told.argument is None:
            raise self.slicer.stopped("`set_epoch` is called without an epoch", told.call)
        if self.is_of_another(told):
            return []
        when, shifted = self.moment(told)
        mine = self.ways(told)
        epoch: ast.expr = ast.BinOp(name("epoch"), ast.Sub(), ast.Constant(1)) if shifted else name("epoch")
        argument = self.argument(told.argument, told.call, epoch, 0)
        statement: ast.stmt = ast.Expr(call(ast.Attribute(receiver, "set_epoch", ast.Load()), argument))
        for test in [*self.conditions(told, receiver), *mine, *when]:
            statement = ast.If(test, [statement], [])
        return [statement]

    def known(self, receiver: ast.expr) -> list[Definition]:
        """The assignments by which the name that is told is given this loader or its sampler."""
        while (attribute := _sampler_of(receiver)) is not None:
            receiver = attribute[0]
        mine = [self.site.flow, *(self.site.sampler_flow(a) for a in self.site.arms if isinstance(a.node, ast.Call))]
        home = self.module.home(receiver)
        given = [d for d in home.bindings.reaching(receiver) if d.value is not None]
        if len(given) == 1 and any(receiver in flow.aliases for flow in mine):
            return given
        makers = {self.module.function(self.site.call), *(u.node for flow in mine for u in flow.of("returned"))}
        return [
            d
            for d in given
            if any(d.value in flow.aliases for flow in mine)
            or (isinstance(d.value, ast.Call) and d.index is not None and makers & {*home.called_functions(d.value)})
        ]

    def ways(self, told: SetEpoch) -> list[ast.expr]:
        """The conditions under which what is told is this loader, where its name stands for others too: they hold.

        Returns what a function that makes several loaders is asked for this one.
        """
        known = self.known(told.receiver)
        if len(known) != 1:
            return []
        tests = self.asked(known[0].value)
        previous: ast.AST = known[0].statement
        for outer in self.module.around(previous):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                break
            if isinstance(outer, ast.If) and previous is not outer.test and distributed_test(outer.test) is None:
                self.slicer.assume(outer.test, previous in outer.body)
            previous = outer
        return tests

    def asked(self, made: ast.expr | None) -> list[ast.expr]:
        """That the flags of the function around the construction are not those of a loader that nobody tells, where
        the function makes several."""
        function = self.module.function(self.site.call)
        calls = self.module.callers(function) if function is not None else []
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or made not in calls:
            return []
        telling = {d.value for told in self.site.told for d in self.known(told.receiver)}
        both = self.slicer.unknowns
        own = [self.flags(function, call_, both) for call_ in calls if call_ in telling]
        others = [self.flags(function, call_, both) for call_ in calls if call_ not in telling]
        tests: list[ast.expr] = []
        for flags in (f for f in others if f and f not in own):
            self.guards |= {*flags}
            unknown = {key: self.slicer.conditions.unknown(name(key)) for key in flags}
            each = [u if flags[key] else ast.UnaryOp(ast.Not(), u) for key, u in unknown.items()]
            test = ast.UnaryOp(ast.Not(), each[0] if len(each) == 1 else ast.BoolOp(ast.And(), each))
            if all(ast.dump(test) != ast.dump(t) for t in tests):
                tests.append(test)
        return tests

    def is_of_another(self, told: SetEpoch) -> bool:
        """Whether what is told is a loader that the same function makes elsewhere, under a condition that is not so for
        this construction."""
        function = self.module.function(self.site.call)
        made = [
            d.value for d in self.known(told.receiver) if d.value in self.module.callers(function or self.site.call)
        ]
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not made:
            return False
        assumed = self.slicer.assumed
        given = [self.flags(function, value, assumed) for value in made if isinstance(value, ast.Call)]
        return all(any(assumed[key] is not flag for key, flag in flags.items()) for flags in given)

    def flags(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, made: ast.Call, keys: Collection[str]
    ) -> dict[str, bool]:
        """What a call gives to some of the parameters, where that is True or False."""
        found: dict[str, bool] = {}
        for key in (p.arg for p in parameters(function) if p.arg in keys):
            value = argument_of(self.module, function, made, key) or default_of(function, key)
            flag = literal(value) if value is not None else ...
            if isinstance(flag, bool):
                found[key] = flag
        return found

    def receiver(self, node: ast.expr) -> ast.expr | None:
        """What an expression is in the recipe: the loader, its sampler, or the variable of a sampler."""
        flow = self.site.flow
        if node in flow.aliases:
            return self.loader(node)
        chain: list[str] = []
        base = node
        while (attribute := _sampler_of(base)) is not None:
            chain.append(attribute[1])
            base = attribute[0]
            if base in flow.aliases:
                found = self.loader(base)
                for step in reversed(chain):
                    found = ast.Attribute(found, step, ast.Load())
                return found
        variable = self.variable(node, 0) or self.followed(node)
        return name(variable) if variable else None

    def followed(self, node: ast.expr) -> str:
        """The variable of the sampler whose value is seen to flow to an expression: through a returned tuple, say."""
        site = self.site
        for arm in (*site.arms, *(inner for batch in site.batch_arms for inner in batch.inner)):
            if not isinstance(arm.node, ast.Call) or node not in site.sampler_flow(arm).aliases:
                continue
            for d in arm.definitions:
                if d in self.slicer.bound:
                    return self.slicer.bound[d].name
        return ""

    def loader(self, node: ast.expr) -> ast.expr:
        """The prepared loader, or the raw one where the program kept it under a name of its own."""
        if self.prepared and self.site.flow.of("prepare"):
            for use in self.site.flow.uses:
                if use.kind == "attribute" and use.value is node:
                    return name("loader" if use.prepared is not None else "raw_loader")
        return name("loader")

    def variable(self, node: ast.expr, depth: int) -> str:
        slicer = self.slicer
        if depth > 8 or not isinstance(node, (ast.Name, ast.Attribute)):
            return ""
        for d in slicer.definitions(node):
            if d in slicer.bound:
                return slicer.bound[d].name
            if d in slicer.parameters:
                return slicer.parameters[d][0]
            if d.kind == "assign" and d.value is not None and d.index is None:
                found = self.variable(d.value, depth + 1)
                if found:
                    return found
            if d.kind == "parameter":
                for value, _ in slicer.given(d):
                    found = self.variable(value, depth + 1)
                    if found:
                        return found
        return ""

    def moment(self, told: SetEpoch) -> tuple[list[ast.expr], bool]:
        """When in the epoch the call comes: before the pass, after it (then it is for the next), or once."""
        m = self.module
        loops = self.loops
        batch_loops = {id(u.node) for u in self.site.flow.of("iterate")}
        inside: ast.AST | None = None
        for outer in m.around(told.call):
            if id(outer) in batch_loops:
                raise self.slicer.stopped("`set_epoch` is called in the loop over batches", told.call)
            found = next((loop for loop in loops if loop.loop is outer), None)
            if found is not None:
                inside = found.inside
                break
        if inside is not None:
            after = m.statement(inside).lineno < told.call.lineno and m.function(inside) is m.function(told.call)
            return ([ast.Compare(name("epoch"), [ast.Gt()], [ast.Constant(0)])], True) if after else ([], False)
        here = m.function(told.call)
        if any(m.function(loop.loop) is here for loop in loops):
            return [ast.Compare(name("epoch"), [ast.Eq()], [ast.Constant(0)])], False
        return [], False

    def conditions(self, told: SetEpoch, receiver: ast.expr) -> list[ast.expr]:
        """The conditions under which the call runs in an epoch, from the inside out."""
        m = self.module
        loops = {id(loop.loop) for loop in self.loops}
        tests: list[ast.expr] = []
        has = call(name("hasattr"), receiver, ast.Constant("set_epoch"))
        if isinstance(told.call.func, ast.Call):
            tests.append(has)
        shared = {id(n) for n in m.around(self.site.call)}
        previous: ast.AST = told.call
        for outer in m.around(told.call):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or id(outer) in loops:
                break
            if isinstance(outer, (ast.If, ast.IfExp)) and previous is not outer.test and id(outer) not in shared:
                inside = previous in outer.body if isinstance(outer, ast.If) else previous is outer.body
                test = self.slicer.conditions.boolean(outer.test)
                tests.append(test if inside else ast.UnaryOp(ast.Not(), test))
            elif isinstance(outer, ast.BoolOp) and previous in outer.values:
                for value in outer.values[: outer.values.index(previous)]:
                    test = self.slicer.conditions.boolean(value)
                    tests.append(test if isinstance(outer.op, ast.And) else ast.UnaryOp(ast.Not(), test))
            elif isinstance(outer, ast.Try) and previous in outer.body and outer.handlers:
                tests.append(has)
            previous = outer
        return tests

    def argument(self, node: ast.expr, at: ast.AST, epoch: ast.expr, depth: int) -> ast.expr:
        """The epoch that is told, in terms of the recipe's own counter."""
        m = self.module
        value = literal(node)
        if type(value) is int:
            return ast.Constant(value)
        text = m.source.source(node)
        loops = self.loops
        counted = next((loop for loop in loops if loop.counter == text), None)
        if counted is not None:
            return self.counted(counted.loop, epoch)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            left, right = (self.argument(side, at, epoch, depth + 1) for side in (node.left, node.right))
            return ast.BinOp(left, node.op, right)
        if isinstance(node, ast.Call) and last_name(node.func) == "int" and len(node.args) == 1:
            return self.argument(node.args[0], at, epoch, depth + 1)
        if isinstance(node, (ast.Name, ast.Attribute)) and depth < 8:
            found = self.slicer.definitions(node)
            if any(d.kind == "augmented" for d in found):
                return epoch  # the program counts it up by itself
            for d in found:
                loop = d.statement if d.kind == "loop" else None
                if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) and counter_of(m, loop) is not None:
                    return self.counted(loop, epoch)
                if d.kind == "assign" and d.value is not None and d.index is None and type(literal(d.value)) is not int:
                    return self.argument(d.value, at, epoch, depth + 1)
                if d.kind == "parameter":
                    values = [v for v, _ in self.slicer.given(d)]
                    if values:
                        return self.argument(values[0], at, epoch, depth + 1)
            if depth and ("start" in text.lower() or "resume" in text.lower() or "init" in text.lower()):
                return ast.Constant(self.number(node))
            if "epoch" in text.lower().rsplit(".", 1)[-1]:
                self.slicer.choices.stand_ins[text_of(node)] = "the epoch, from 0"
                return epoch
        raise self.slicer.stopped(f"`{text_of(node)}` is not seen to be the epoch", node)

    def counted(self, loop: ast.For | ast.AsyncFor | ast.While, epoch: ast.expr) -> ast.expr:
        """What the head of a loop over epochs counts, by the recipe's own counter: ``range(start, end, step)``."""
        head = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
        while isinstance(head, ast.Call) and last_name(head.func) not in ("range", "trange", "count") and head.args:
            if last_name(head.func) == "enumerate":
                return epoch
            head = head.args[0]  # tqdm(range(..))
        if not isinstance(head, ast.Call) or last_name(head.func) not in ("range", "trange", "count"):
            return epoch
        counts = last_name(head.func) == "count"
        first = head.args[0] if len(head.args) > (0 if counts else 1) else None
        step = head.args[1 if counts else 2] if len(head.args) > (1 if counts else 2) else None
        each = self.number(step) if step is not None else 1
        if each != 1:
            epoch = ast.BinOp(epoch, ast.Mult(), ast.Constant(each))
        start = self.number(first) if first is not None else 0
        return ast.BinOp(epoch, ast.Add(), ast.Constant(start)) if start else epoch

    def number(self, node: ast.expr) -> int:
        """A number in the head of a loop: as the source says it, else 0, where a program that is not resumed starts."""
        known = exact(self.module, node)
        if type(known) is int and abs(known) <= _EPOCHS:
            return known
        usual = default(self.module, node)
        value = usual if type(usual) is int and abs(usual) <= _EPOCHS else 0
        self.slicer.choices.stand_ins[text_of(node)] = str(value)
        return value


def _sampler_of(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The object and attribute of ``x.sampler``, ``x.batch_sampler`` and ``getattr(x, "sampler", None)``."""
    if isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler"):
        return node.value, node.attr
    if isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
        attribute = literal(node.args[1])
        if attribute in ("sampler", "batch_sampler"):
            return node.args[0], str(attribute)
    return None
