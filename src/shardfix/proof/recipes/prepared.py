"""What a recipe hands to accelerate: the Accelerator with its settings, the seeding it rests on, the prepare step."""

from __future__ import annotations

import ast

from shardfix.analysis.code.names import ACCELERATOR, last_name
from shardfix.analysis.programs.regimes import is_hf_trainer
from shardfix.analysis.sites import Site
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import assign, call, comparison, dotted, name, tells_regime
from shardfix.proof.recipes.settings import literal
from shardfix.proof.recipes.slice import Slicer
from shardfix.proof.stop import Stop

_SHARDING = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "data_seed")
_PREPARES_ONE = "accelerate.data_loader.prepare_data_loader"
_POSITIONS = ("dataloader", "device", "num_processes", "process_index", "split_batches", "put_on_device", "rng_types")
_ACCELERATOR_POSITIONS = ("device_placement", "split_batches", "mixed_precision")


def accelerator(site: Site, slicer: Slicer) -> ast.Call:
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


def seeding(site: Site, slicer: Slicer, made: ast.Call) -> list[ast.stmt]:
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


def splits_batches(site: Site) -> bool:
    """Whether the file tells accelerate to split each batch over the ranks."""
    keywords = [k for made in site.module.calls for k in made.keywords if k.arg == "split_batches"]
    return site.owner == "accelerate" and any(literal(k.value) is not False for k in keywords)


def _given(slicer: Slicer, made: ast.Call) -> dict[str, ast.expr]:
    """What ``prepare_data_loader`` is told itself: it asks no Accelerator for it."""
    given: list[tuple[str | None, ast.expr]] = list(zip(_POSITIONS, made.args, strict=False))
    given += [(k.arg, k.value) for k in made.keywords]
    found: dict[str, ast.expr] = {}
    for key, value in given:
        if key is None or isinstance(value, ast.Starred):
            raise slicer.stopped(f"`{text_of(made)}` hides its arguments", made)
        if literal(value) is None:
            continue
        if key in ("num_processes", "process_index"):
            found[key] = slicer.quantities.process(value, f"`{key}=`", 0)
            if not tells_regime(found[key]):
                raise slicer.stopped(f"`{key}={text_of(value)}` is not what is launched", value)
        elif key in ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler"):
            found[key] = slicer.conditions.boolean(value)
    return found


def _accelerators(site: Site, slicer: Slicer) -> list[ast.Call]:
    """The constructions that may be the accelerator which prepares the loader; all of the file if that is not seen."""
    prepares = [use.node for use in site.flow.of("prepare") if isinstance(use.node, ast.Call)]
    if prepares and all(_PREPARES_ONE in site.module.callee(made) for made in prepares):
        return []
    for made in prepares:
        func = made.func
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


def prepare_steps(site: Site, slicer: Slicer) -> list[ast.stmt]:
    """The step that hands the loader to accelerate, under the program's own regime condition."""
    if site.owner != "accelerate":
        return []
    m = site.module
    shared = {id(n) for n in m.around(site.call)}
    guarded: list[ast.stmt] = []
    for use in site.flow.of("prepare"):
        made = use.node
        assert isinstance(made, ast.Call)
        if _PREPARES_ONE in m.callee(made):
            step = assign("loader", call(dotted(_PREPARES_ONE), name("loader"), **_given(slicer, made)))
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
    if not site.flow.of("prepare"):  # the user says that it gets there, out of sight
        if site.answers.owner is not None:
            slicer.choices.stand_ins["Accelerator.prepare()"] = f"gets the loader, as {site.answers.owner.where} says"
        return [assign("loader", call(dotted("accelerator.prepare"), name("loader")))]
    return guarded
