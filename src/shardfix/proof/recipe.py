"""From source to recipe: the runnable slice of a loader, as it was and as it is, or the reason why there is none."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.epochs import SetEpoch, counter_of
from shardfix.analysis.flow import last_name
from shardfix.analysis.names import ACCELERATOR, INIT_PROCESS_GROUP
from shardfix.analysis.processes import distributed_test, main_process_guard
from shardfix.analysis.regimes import is_hf_trainer
from shardfix.analysis.sites import Site
from shardfix.proof.choices import Choices, listed, named, text_of
from shardfix.proof.model import Group, Kind, Program, Recipe, StandIn
from shardfix.proof.regime import call, comparison, dotted, literal, name, tells_regime
from shardfix.proof.slice import Slicer, assign
from shardfix.proof.stop import Stop, Unproven
from shardfix.proof.whitelist import violation

_SHARDING = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "data_seed")
_ACCELERATOR_POSITIONS = ("device_placement", "split_batches", "mixed_precision")
_ATTEMPTS = 6  # slices of one site, each taking one more condition as it must be


@dataclass(frozen=True, slots=True)
class Sliced:
    """A site's program and what it rests on.

    ``guarded``: the construction itself tells one process from several, so the program must run in one too.
    """

    program: Program
    needs_accelerate: bool
    unknown: tuple[str, ...]
    stand_ins: tuple[StandIn, ...]
    guarded: bool


def recipe(
    before: Site | None,
    after: Site,
    *,
    kind: Kind,
    expect: str = "",
    feeds_metric: bool = False,
    padding_removed: bool = False,
    group: Group | None = None,
) -> Recipe | Unproven:
    """The recipe of one site, from where it stands in the original and in the rewritten source.

    Args:
        before: the site in the original; None for what is only verified as it stands.
        after: the site in the rewritten source.
        kind: what is claimed: see Recipe.
        expect: the fault that the original must show: see Recipe.
        feeds_metric, padding_removed: whether padding would reach a metric.
        group: whether the program always has a process group; by default what the file shows.
    """
    choices = Choices()
    sliced_before: Sliced | None = None
    if before is not None:
        made = program(before, choices)
        if isinstance(made, Unproven):
            return made
        sliced_before = made
    sliced_after = program(after, choices)
    if isinstance(sliced_after, Unproven):
        return sliced_after
    parts = [s for s in (sliced_before, sliced_after) if s is not None]
    first = before or after
    return Recipe(
        site=str(first.location),
        owner=first.owner,
        role=first.role,
        kind=kind,
        before=sliced_before.program if sliced_before else None,
        after=sliced_after.program,
        needs_accelerate=any(s.needs_accelerate for s in parts),
        unknown=tuple(dict.fromkeys(text for s in parts for text in s.unknown)),
        stand_ins=tuple(dict.fromkeys(item for s in parts for item in s.stand_ins)),
        expect=expect,
        feeds_metric=feeds_metric,
        padding_removed=padding_removed,
        group=group or group_of(first, parts[0].guarded),
    )


def group_of(site: Site, guarded: bool) -> Group:
    """Whether a site's program always runs in a process group: it makes one and asks nothing first."""
    if guarded or site.owner in ("accelerate", "hf-trainer", "single") or site.ownership.via_accelerate:
        return "optional"
    module = site.module
    for made in module.calls:
        if INIT_PROCESS_GROUP not in module.callee(made):
            continue
        for outer in module.around(made):
            if isinstance(outer, ast.If) and distributed_test(outer.test) is not None:
                return "optional"
    return "always"


def program(site: Site, choices: Choices | None = None) -> Sliced | Unproven:
    """The runnable slice of a site, or what stops it.

    Args:
        site: a loader construction of torch's DataLoader.
        choices: the values chosen so far for what the source does not decide; shared by before and after.
    """
    chosen = choices if choices is not None else Choices()
    if site.kind == "subclass":
        reason = f"`{text_of(site.call.func)}` is a loader class of the project, which is not imported"
        return Unproven(reason, site.location)
    assumed: dict[str, bool] = {}
    try:
        for _ in range(_ATTEMPTS):
            found = _slice(site, chosen, assumed)
            if isinstance(found, Sliced):
                return found
            assumed |= found
    except Stop as stop:
        return stop.unproven
    except RecursionError:
        return Unproven("the expressions around the loader are nested too deeply to follow", site.location)
    return Unproven("what the loader is made of is not set on every path to it", site.location)


def _slice(site: Site, choices: Choices, assumed: dict[str, bool]) -> Sliced | dict[str, bool]:
    """One slice; or the conditions that must hold, since without them a name of it has no value."""
    slicer = Slicer(site.module, site.call, choices, assumed)
    guard = main_process_guard(site.module, site.call) if not slicer.twins else None
    if guard is not None:
        raise slicer.stopped("the loader is built by one process only", guard)
    guards = [main_process_guard(site.module, use.node) for use in site.flow.of("iterate")]
    if guards and guards[0] is not None and None not in guards:
        raise slicer.stopped("the loader is read by one process only", guards[0])
    statements = slicer.statements()
    steps = _prepare(site, slicer)
    told = _Told(site, slicer).statements()
    head: list[ast.stmt] = []
    if steps or slicer.uses_accelerator:
        made = _accelerator(site, slicer)
        head += [*_seeded(site, slicer, made), assign("accelerator", made)]
    raw = [assign("raw_loader", name("loader"))] if steps else []
    body = _folded([*head, *statements, *raw, *steps])
    told = _folded(told)
    body = _needed(body, _reads(told))
    missing = _unset(body)
    if missing is not None:
        conditions = {text: value for text, value in _conditions_of(body, missing).items() if text not in assumed}
        if not conditions:
            raise slicer.stopped(f"`{missing}` is not set on every path to the loader", site.call)
        return conditions
    build, each_epoch = _unparsed(body), _unparsed(told)
    for code in (build, f"{build}\n{each_epoch}"):
        wrong = violation(code)
        if wrong:
            raise slicer.stopped(f"the construction needs more than a recipe may do: {wrong}", site.call)
    trees = [*body, *told]
    unknown = tuple(dict.fromkeys(text for tree in trees for text in named(tree, "UNKNOWN")))
    return Sliced(
        program=Program(build, each_epoch),
        needs_accelerate=bool(head),
        unknown=unknown,
        stand_ins=listed(choices, *trees),
        guarded=any(_tests_regime(tree) for tree in body if isinstance(tree, (ast.If, ast.Assign))),
    )


def _unparsed(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _tests_regime(tree: ast.AST) -> bool:
    return any(tells_regime(n.test) for n in ast.walk(tree) if isinstance(n, (ast.If, ast.IfExp)))


# --- what accelerate is told ---


def _accelerator(site: Site, slicer: Slicer) -> ast.Call:
    """``Accelerator(cpu=True)`` with the program's own arguments that matter for sharding."""
    m = site.module
    made: dict[str, ast.Call] = {}
    for construction in _accelerators(site, slicer):
        if ACCELERATOR in m.callee(construction):
            settings = _settings(slicer, construction)
            keywords: dict[str, ast.expr] = {"cpu": ast.Constant(True)}
            if settings:
                keywords["dataloader_config"] = call(dotted("accelerate.utils.DataLoaderConfiguration"), **settings)
            result = call(name("Accelerator"), **keywords)
            made[ast.dump(result)] = result
    if len(made) > 1:
        raise slicer.stopped("the file makes several Accelerators that shard differently", site.call)
    if made:
        return next(iter(made.values()))
    cls = m.class_of(site.call)
    if cls is not None and is_hf_trainer(m, cls):
        # the Trainer's own default: transformers.trainer_pt_utils.AcceleratorConfig
        config = call(dotted("accelerate.utils.DataLoaderConfiguration"), use_seedable_sampler=ast.Constant(True))
        return call(name("Accelerator"), cpu=ast.Constant(True), dataloader_config=config)
    return call(name("Accelerator"), cpu=ast.Constant(True))


def _seeded(site: Site, slicer: Slicer, made: ast.Call) -> list[ast.stmt]:
    """The program's own seeding, where accelerate's sampler rests on the ranks being seeded alike."""
    if not any(k.arg == "use_seedable_sampler" for n in ast.walk(made) if isinstance(n, ast.Call) for k in n.keywords):
        return []
    m = site.module
    cls = m.class_of(site.call)
    seed: ast.expr | None = None
    if cls is not None and is_hf_trainer(m, cls):
        seed = ast.Constant(42)  # Trainer.__init__ calls set_seed(args.seed) on every rank
    for seeding in m.calls:
        known = {"accelerate.utils.set_seed", "transformers.set_seed", "torch.manual_seed"}
        if m.callee(seeding).isdisjoint(known) or len(seeding.args) != 1 or seeding.keywords:
            continue
        try:
            seed = slicer.quantities.seed(seeding.args[0], 0)
        except Stop:
            continue
        if tells_regime(seed) or any(isinstance(n, ast.Name) for n in ast.walk(seed)):
            seed = None
    return [ast.Expr(call(dotted("torch.manual_seed"), seed))] if seed is not None else []


def _accelerators(site: Site, slicer: Slicer) -> list[ast.Call]:
    """The constructions that may be the accelerator which prepares the loader; all of the file if that is not seen."""
    for use in site.flow.of("prepare"):
        func = use.node.func if isinstance(use.node, ast.Call) else None
        if isinstance(func, ast.Attribute):
            found = [d.value for d in slicer.definitions(func.value) if isinstance(d.value, ast.Call)]
            if found:
                return found
    return site.module.calls


def _settings(slicer: Slicer, made: ast.Call) -> dict[str, ast.expr]:
    m = slicer.module
    found: dict[str, ast.expr] = {}
    if any(isinstance(a, ast.Starred) for a in made.args):
        raise slicer.stopped(f"`{text_of(made)}` hides its arguments", made)
    given: list[tuple[str | None, ast.expr]] = list(zip(_ACCELERATOR_POSITIONS, made.args, strict=False))
    for keyword in made.keywords:
        if keyword.arg is not None:
            given.append((keyword.arg, keyword.value))
            continue
        items = m.dict_items(keyword.value)
        if items is None or any(len(values) > 1 for key, values in items.items() if key in _SHARDING):
            raise slicer.stopped(f"`**{text_of(keyword.value)}` hides arguments of the Accelerator", made)
        given.extend((key, values[-1]) for key, values in items.items())
    for key, value in given:
        if key == "dataloader_config" and literal(value) is not None:
            config = _only_value(slicer, value)
            if not isinstance(config, ast.Call) or last_name(config.func) != "DataLoaderConfiguration":
                raise slicer.stopped(f"`{text_of(value)}` is not seen to be a DataLoaderConfiguration", value)
            found |= _settings(slicer, config)
        elif key in _SHARDING and literal(value) is not None:
            own = literal(_only_value(slicer, value))
            if key == "data_seed":
                found[key] = ast.Constant(own if type(own) is int and 0 <= own <= 4096 else 42)
            else:
                found[key] = ast.Constant(own) if isinstance(own, bool) else slicer.conditions.unknown(value)
    return found


def _only_value(slicer: Slicer, node: ast.expr) -> ast.expr:
    """The value of a name that is assigned once; any other expression is itself."""
    found = slicer.definitions(node)
    if len(found) == 1:
        (d,) = found
        if d.kind == "assign" and d.value is not None and d.index is None:
            return d.value
    return node


def _prepare(site: Site, slicer: Slicer) -> list[ast.stmt]:
    """The step that hands the loader to accelerate, under the program's own regime condition."""
    if site.owner != "accelerate":
        return []
    m = site.module
    shared = {id(n) for n in m.around(site.call)}
    guarded: list[ast.stmt] = []
    for use in site.flow.of("prepare"):
        made = use.node
        assert isinstance(made, ast.Call)
        if "accelerate.data_loader.prepare_data_loader" in m.callee(made):
            step = assign("loader", call(dotted("accelerate.data_loader.prepare_data_loader"), name("loader")))
        else:
            step = assign("loader", call(dotted("accelerator.prepare"), name("loader")))
        test: ast.expr | None = None
        previous: ast.AST = made
        for outer in m.around(made):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)) or id(outer) in shared:
                break
            if isinstance(outer, ast.If) and previous is not outer.test:
                own = comparison(m, outer.test) if isinstance(outer.test, ast.Compare) else slicer.launched(outer.test)
                if own is not None:
                    test = own if previous in outer.body else ast.UnaryOp(ast.Not(), own)
                    break
            previous = outer
        if test is None:
            return [step]
        if any(isinstance(n, ast.Name) and n.id == "accelerator" for n in ast.walk(test)):
            slicer.uses_accelerator = True
        guarded.append(ast.If(test, [step], []))
    return guarded


# --- who is told the epoch ---


class _Told:
    """The ``set_epoch`` calls of a site as they come before each epoch's pass."""

    def __init__(self, site: Site, slicer: Slicer) -> None:
        self.site = site
        self.slicer = slicer
        self.module = site.module
        self.prepared = bool(site.owner == "accelerate" and site.flow.of("prepare"))

    def statements(self) -> list[ast.stmt]:
        told = self.site.told
        if told and self.site.epoch_loops.rebuilt:
            raise self.slicer.stopped("the loader is built anew in each epoch", self.site.call)
        self.slicer.alias = self.receiver
        found: list[ast.stmt] = []
        for call_ in told:
            found += self.one(call_)
        return found

    def one(self, told: SetEpoch) -> list[ast.stmt]:
        receiver = self.receiver(told.receiver)
        if receiver is None:
            text = text_of(told.receiver)
            raise self.slicer.stopped(f"`{text}` is told the epoch, but what it is there is not seen", told.receiver)
        if told.argument is None:
            raise self.slicer.stopped("`set_epoch` is called without an epoch", told.call)
        when, shifted = self.moment(told)
        epoch: ast.expr = ast.BinOp(name("epoch"), ast.Sub(), ast.Constant(1)) if shifted else name("epoch")
        argument = self.argument(told.argument, told.call, epoch, 0)
        statement: ast.stmt = ast.Expr(call(ast.Attribute(receiver, "set_epoch", ast.Load()), argument))
        for test in [*self.guards(told, receiver), *when]:
            statement = ast.If(test, [statement], [])
        return [statement]

    def receiver(self, node: ast.expr) -> ast.expr | None:
        """What an expression is in the recipe: the loader, its sampler, or the variable of a sampler."""
        flow = self.site.flow
        if node in flow.aliases:
            return self.loader(node)
        chain: list[str] = []
        base = node
        while isinstance(base, ast.Attribute) and base.attr in ("sampler", "batch_sampler"):
            chain.append(base.attr)
            base = base.value
            if base in flow.aliases:
                found = self.loader(base)
                for attribute in reversed(chain):
                    found = ast.Attribute(found, attribute, ast.Load())
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
        if self.prepared:
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
        loops = self.site.epoch_loops.loops
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

    def guards(self, told: SetEpoch, receiver: ast.expr) -> list[ast.expr]:
        """The conditions under which the call runs in an epoch, from the inside out."""
        m = self.module
        loops = {id(loop.loop) for loop in self.site.epoch_loops.loops}
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
        loops = self.site.epoch_loops.loops
        if any(loop.counter == text for loop in loops):
            return epoch
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
                    return epoch
                if d.kind == "assign" and d.value is not None and d.index is None and type(literal(d.value)) is not int:
                    return self.argument(d.value, at, epoch, depth + 1)
                if d.kind == "parameter":
                    values = [v for v, _ in self.slicer.given(d)]
                    if values:
                        return self.argument(values[0], at, epoch, depth + 1)
            if depth and ("start" in text.lower() or "resume" in text.lower() or "init" in text.lower()):
                self.slicer.choices.stand_ins[text_of(node)] = "0"
                return ast.Constant(0)
            if "epoch" in text.lower().rsplit(".", 1)[-1]:
                self.slicer.choices.stand_ins[text_of(node)] = "the epoch, from 0"
                return epoch
        raise self.slicer.stopped(f"`{text_of(node)}` is not seen to be the epoch", node)


# --- what is kept of the code ---


def _folded(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements with conditions that are literals decided."""
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.If):
            test = _constant(s.test)
            if test is not None:
                found += _folded(s.body if test else s.orelse)
                continue
            s = ast.If(s.test, _folded(s.body), _folded(s.orelse))
        found.append(s)
    return found


def _constant(node: ast.expr) -> bool | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _constant(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        values = [_constant(v) for v in node.values]
        decisive = isinstance(node.op, ast.Or)
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return bool(node.value) if isinstance(node, ast.Constant) else None


def _reads(body: list[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _needed(body: list[ast.stmt], also: set[str]) -> list[ast.stmt]:
    """The statements without those that nothing reads."""
    while True:
        kept = _without(body, _reads(body) | also | {"loader"})
        if [ast.dump(s) for s in kept] == [ast.dump(s) for s in body]:
            return kept
        body = kept


def _without(body: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.If):
            inside, other = _without(s.body, read), _without(s.orelse, read)
            if inside:
                found.append(ast.If(s.test, inside, other))
            elif other:
                found.append(ast.If(ast.UnaryOp(ast.Not(), s.test), other, []))
        elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            if s.targets[0].id in read:
                found.append(s)
        elif not isinstance(s, ast.Pass):
            found.append(s)
    return found


def _unset(body: list[ast.stmt]) -> str | None:
    """A name of the recipe that is read where some path has not set it."""
    made = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def run(block: list[ast.stmt], known: set[str]) -> str | None:
        for s in block:
            value = s.test if isinstance(s, ast.If) else s
            for n in ast.walk(value):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in made and n.id not in known:
                    return n.id
            if isinstance(s, ast.If):
                left, right = set(known), set(known)
                missing = run(s.body, left) or run(s.orelse, right)
                if missing:
                    return missing
                known |= left & right
            elif isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                known.add(s.targets[0].id)
        return None

    return run(body, set())


def _conditions_of(body: list[ast.stmt], variable: str) -> dict[str, bool]:
    """The unknown conditions under which a variable is set, and what they must be for that."""
    for s in body:
        if not isinstance(s, ast.If):
            continue
        for block, outcome in ((s.body, True), (s.orelse, False)):
            if any(
                isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == variable
                for inner in block
                for n in ast.walk(inner)
            ):
                found = _conditions_of(block, variable)
                test: ast.expr = s.test
                while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    test, outcome = test.operand, not outcome
                unknown = named(test, "UNKNOWN")
                if isinstance(test, ast.Subscript) and unknown:
                    found[unknown[0]] = outcome
                return found
    return {}


__all__ = ["Sliced", "Unproven", "group_of", "program", "recipe"]
