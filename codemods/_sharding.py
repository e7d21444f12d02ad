"""Give an unsharded loader a DistributedSampler: the edits that the train and the eval codemod share."""

from __future__ import annotations

import ast
import re

from shardfix.codemods._entries import dropped, fed_by, given
from shardfix.codemods._findings import refuse
from shardfix.codemods.insert_set_epoch import Untold, is_read_once, tell_epoch

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.spelling import (
    free_name,
    spell_distributed_package,
    spell_distributed_sampler,
    spell_subset,
)
from shardfix.analysis.loaders.datasets import is_stream, means_rank, rank_in
from shardfix.analysis.loaders.flow import Use
from shardfix.analysis.loaders.items import Dependence, by_reads
from shardfix.analysis.loaders.resized import resized
from shardfix.analysis.loaders.samplers import Arm, same_expression
from shardfix.analysis.model import Evidence, Finding
from shardfix.analysis.programs.groups import Group, alone_at, group_at, made_in_the_program
from shardfix.analysis.programs.processes import is_world_size, main_process_guard, some_ranks
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import (
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    InsertStatements,
    ReplaceExpression,
    SetKeyword,
)

_DEPTH = 6  # callers that are looked at, one behind the other
_WIDTH = 119  # a longer line is broken at its arguments


def is_streaming(site: Site) -> bool:
    """Whether the dataset is an IterableDataset, as far as the project shows."""
    return site.dataset is not None and is_stream(site.module, site.dataset)


def split_by_hand(site: Site) -> Evidence | None:
    """The line that shows that the data is already split by rank: what the dataset or the sampler's indices are made
    of, or the batches."""
    module, dataset = site.module, site.dataset
    if dataset is None:
        return None
    for value in (dataset, *sampler_data(site)):
        found = rank_in(module, value)
        if found is not None:
            where, node = found
            return where.evidence(node)
    loops = [u.node for u in site.flow.of("iterate") if isinstance(u.node, (ast.For, ast.AsyncFor))]
    cuts = (n for loop in loops for n in ast.walk(loop) if _cuts_by_rank(module, n) and _of_batch(n, loop))
    cut = next(cuts, None)
    return module.evidence(cut) if cut is not None else None


def splits_shards(site: Site) -> Evidence | None:
    """The line in which a WebDataset is told to give each node, which is each rank, shards of its own."""
    found = rank_in(site.module, site.dataset) if site.dataset is not None else None
    if found is None:
        return None
    module, made = found
    if not isinstance(made, ast.Call) or not any(q.startswith("webdataset.") for q in module.callee(made)):
        return None
    told = [*made.args, *(k.value for k in made.keywords if k.arg == "nodesplitter")]
    named = [n for n in told if isinstance(n, (ast.Name, ast.Attribute))]
    splitters = (n for n in named if any(q.split(".")[-1] == "split_by_node" for q in module.qualify(n)))
    found_in = next(splitters, None)
    return module.evidence(found_in) if found_in is not None else None


def changes(site: Site) -> Dependence | None:
    """What changes a dataset's length after its loader is built, or its items with what was read of it before."""
    resizing = resized(site.module, site.call, site.dataset, site.flow)
    return resizing or (by_reads(site.module, site.dataset) if site.role == "eval" else None)


def dealt_tasks(site: Site, use: Use) -> ast.For | None:
    """The loop around a loop over a loader whose items are dealt to the ranks, so that each runs the inner one for
    other items; not one of training, of which the inner one is told nothing."""
    for node in (use.node, *use.calls):
        for outer in site.module.home(node).around(node):
            if not isinstance(outer, ast.For):
                continue
            dealt = [s for s in site.siblings if s is not site and any(u.node is outer for u in s.flow.of("iterate"))]
            names = {n.id for n in ast.walk(outer.target) if isinstance(n, ast.Name)}
            told = any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))
            if any(("distributed" in s.kinds or s.own_shares) and (told or s.role != "train") for s in dealt):
                return outer
    return None


def sampler_data(site: Site) -> list[ast.expr]:
    """What a loader's samplers draw from: a dataset or indices."""
    arms = [a for a in (*site.arms, *(i for b in site.batch_arms for i in b.inner)) if a.arguments is not None]
    given = [a.arguments.value(name) for a in arms if a.arguments for name in ("indices", "data_source", "dataset")]
    return [value for value in given if value is not None]


def _cuts_by_rank(module: Module, node: ast.AST) -> bool:
    """``batch[rank::world_size]``, ``parts[rank]`` beside the world size, ``i % world_size == rank``."""
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        by_rank = any(isinstance(n, ast.expr) and means_rank(module, n) for n in ast.walk(node.slice))
        everywhere = any(isinstance(n, ast.expr) and is_world_size(n) for n in ast.walk(node))
        return by_rank and (isinstance(node.slice, ast.Slice) or everywhere)
    if isinstance(node, ast.Compare):
        inner = [n for n in ast.walk(node) if isinstance(n, ast.expr)]
        return any(means_rank(module, n) for n in inner) and any(
            isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in inner
        )
    return False


def _of_batch(node: ast.AST, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether an expression reads what the loop binds, so not some gathered features."""
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def one_process(site: Site) -> ast.expr | None:
    """The condition because of which only one process builds a loader, or reads it wherever it is read."""
    module = site.module
    built = alone_at(module, site.call)
    if built is not None:
        return built
    guards = [
        next((g for node in (u.node, *u.calls) if (g := main_process_guard(module, node)) is not None), None)
        for u in site.flow.of("iterate", "next")
    ]
    return guards[0] if guards and all(g is not None for g in guards) else None


def sampler_name(site: Site) -> str | None:
    """A free variable name for a new sampler, made from the loader's: ``val_loader`` gives ``val_sampler``.

    Loaders of the same file that may get one too have taken theirs before, in source order.
    """
    taken: set[str] = set()
    here = site.module.function(site.call)
    for sibling in site.siblings:
        there = site.module.function(sibling.call)
        if sibling is not site and (sibling.kind != "torch" or not (here is there or here is None or there is None)):
            continue
        name = _sampler_name(sibling, taken)
        if sibling is site:
            return name
        if name is not None and not sibling.batch_arms and sibling.kinds <= {"none"}:
            taken.add(name)
    return _sampler_name(site, taken)


def _sampler_name(site: Site, taken: set[str]) -> str | None:
    target = site.target
    name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    prefix = re.sub(r"_?(data_?)?loader.*$|_?dl$", "", name, flags=re.I).strip("_")
    role = site.role if site.role != "unknown" else "data"
    candidates = [f"{prefix}_sampler"] if prefix else []
    candidates.append(f"{role}_sampler")
    if taken & set(candidates):
        candidates += [f"{candidates[0]}_{number}" for number in range(2, 10)]
    candidates.append(f"{role}_shard_sampler")
    return free_name(site.module, site.call, [c for c in candidates if c not in taken])


def _accelerator(module: Module, node: ast.AST) -> str | None:
    """How the running Accelerator is called where a loader is built."""
    scope = module.function(node)
    for d in module.bindings.definitions:
        inside = d.scope is scope or (d.scope is module.tree and scope is None)
        if inside and d.kind in ("assign", "parameter") and "." not in d.key:
            made = isinstance(d.value, ast.Call) and is_accelerator(module, d.value)
            if made and getattr(d.statement, "lineno", 0) < getattr(node, "lineno", 0):
                return d.key
            if d.kind == "parameter" and d.key == "accelerator":
                return d.key
    return None


def _plain(node: ast.expr) -> bool:
    """Whether evaluating an expression twice gives the same object."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Name)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def shard(site: Site, *, shuffle: str, tell: bool, all_ranks: bool = False) -> list[Edit] | Finding:
    """The edits that shard a loader by rank.

    Args:
        shuffle: source of the sampler's ``shuffle`` value.
        tell: whether ``set_epoch`` must be told (training); else it is where an epoch loop is seen.
        all_ranks: whether every rank will come here, since conditions on the rank are taken away.
    """
    module = site.module
    guard = main_process_guard(module, site.call) if not all_ranks else None
    if guard is not None:
        return refuse(site, "SHD905", evidence=(module.evidence(guard),))
    for node in () if all_ranks else (site.call, *(u.node for u in site.flow.of("iterate"))):
        some = some_ranks(module, node)
        if some is not None:
            return refuse(site, "SHD931", evidence=(module.evidence(some),))
    changing = changes(site)
    if changing is not None:
        return refuse(site, "SHD935", note=changing.why, evidence=(module.home(changing.node).evidence(changing.node),))
    split = split_by_hand(site)
    if split is not None:
        return refuse(site, "SHD917", evidence=(split,))
    if is_streaming(site):
        return refuse(site, "SHD908")
    dataset = site.dataset
    if dataset is None or site.arguments.bound["dataset"].from_dict:
        return refuse(site, "SHD903")
    hidden = _held_elsewhere(site, shuffle)
    if hidden:
        return refuse(site, "SHD903", note=hidden)
    if "generator" in site.arguments.bound and not site.options.unsafe:
        return refuse(site, "SHD914")
    arm = next((a for a in site.arms if a.kind != "none"), None)
    refused = _unfit(site, arm, shuffle)
    if refused is not None:
        return refused
    place = site.call if arm is None else arm.node
    loops = [loop.loop for loop in site.epoch_loops.loops]
    spelled = spell_distributed_sampler(module, site.call, (place, *loops))
    if spelled is None:
        return refuse(site, "SHD910", note="the name DistributedSampler means something else here")
    class_name, edits_for_class = spelled
    edits: list[Edit] = list(edits_for_class)
    numbers: list[str] = []
    condition = ""
    if site.ownership.via_accelerate:
        accelerator = _accelerator(module, site.call)
        if accelerator is None:
            return refuse(site, "SHD913", note="no Accelerator is in sight here")
        numbers = [f"num_replicas={accelerator}.num_processes", f"rank={accelerator}.process_index"]
    else:
        group = group_at(module, place)
        if group.exists == "unknown" and site.ownership.targeted:
            early = _at_import(module, place, 0)
            if early is not None:
                note = "it is built while its file is imported"
                return refuse(site, "SHD913", note=note, evidence=(module.evidence(early),))
            group = Group("optional")
        if group.exists == "unknown":
            note = "" if made_in_the_program(module) else "nothing in the program makes one"
            return refuse(site, "SHD913", note=note)
        if group.exists == "optional":
            condition = group.condition
            if not condition:
                package = spell_distributed_package(module, place)
                if package is None:
                    return refuse(site, "SHD913", note="and the name torch means something else here")
                edits.extend(package[1])
                condition = f"{package[0]}.is_available() and {package[0]}.is_initialized()"
    statement = module.statement(site.call)
    dataset_source = module.source.source(dataset)
    if arm is None:
        name = sampler_name(site)
        if name is None:
            return refuse(site, "SHD910", note="no free name for the sampler")
        lines: list[str] = []
        if not _plain(dataset):
            hoisted = free_name(
                module, site.call, (name.replace("_sampler", "_dataset"), name.replace("_sampler", "_set"))
            )
            written = _hoisted(module, dataset, statement)
            if hoisted is None or written is None:
                return refuse(site, "SHD903", note="the dataset is built inside the call")
            lines += [f"{hoisted} = {written[0]}", *written[1:]]
            edits.append(ReplaceExpression(*module.place(dataset), hoisted))
            dataset_source = hoisted
        arguments = [dataset_source, *numbers, f"shuffle={shuffle}"]
        lines += _assignment(name, class_name, arguments, condition, _WIDTH - statement.col_offset)
        edits.append(InsertStatements(*module.place(statement), "before", tuple(lines)))
        edits.extend(_keywords(site, name, shuffle, optional=bool(condition)))
    else:
        replaced = _replace_sampler(site, class_name, numbers, shuffle, condition)
        if isinstance(replaced, Finding):
            return replaced
        name, replacing = replaced
        edits.extend(replacing)
    ask = ("none" if arm is None else "kind") if condition else ""
    new = arm is None or any(isinstance(e, InsertStatements) and e.lines[0].startswith(f"{name} = ") for e in edits)
    told = tell_epoch(site, name, ask, class_name, sampler_is_new=new)
    if isinstance(told, Untold):
        if tell and not is_read_once(site) and not site.answered("epoch", "told"):
            return refuse(site, told.code, instead=told.why)
    elif tell or site.options.eval_set_epoch:
        edits.extend(told)
    return edits


def _hoisted(module: Module, dataset: ast.expr, statement: ast.stmt) -> list[str] | None:
    """The lines of an expression as they are before its statement, dedented; None where a line can't be moved."""
    lines = module.source.source(dataset).splitlines()
    if len(lines) > 1 and any(
        isinstance(n, (ast.Constant, ast.JoinedStr)) and n.end_lineno != n.lineno for n in ast.walk(dataset)
    ):
        return None
    text, start = module.text, module.source.span(dataset).start
    begin = max(text.rfind(newline, 0, start) for newline in "\r\n") + 1
    left = len(text[begin:start]) - len(text[begin:start].lstrip()) if not text[begin:start].strip() else 0
    left = max(left, statement.col_offset)
    if any(line.strip() and line[:left].strip() for line in lines[1:]):
        return None
    return [lines[0], *(line[left:] for line in lines[1:])]


def _at_import(module: Module, node: ast.AST, depth: int) -> ast.AST | None:
    """What runs a place while its file is imported by another, before anybody can make a process group; else None."""
    own = module.home(node)
    function = module.function(node)
    if function is None:
        main = any(isinstance(n, ast.If) and _asks_main(n.test) for n in module.around(node))
        imported = own.project is not None and bool(own.project.importers.get(own.path))
        return node if imported and not main else None
    if depth < _DEPTH:
        for call in module.callers(function):
            early = _at_import(module, call, depth + 1)
            if early is not None:
                return early
    return None


def _asks_main(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))


def _held_elsewhere(site: Site, shuffle: str) -> str:
    """Why ``sampler`` or ``shuffle`` can't be edited in the dict that holds it; empty if it can, or none does."""
    for name in ("sampler", "shuffle"):
        argument = site.arguments.bound.get(name)
        if argument is None or argument.holder is None:
            continue
        calls = fed_by(site, argument.holder)
        if calls is None:
            return "the dict that holds them also goes elsewhere"
        other = next((c for c in calls if c is not site.call), None)
        if other is not None:
            return f"the dict that holds them also feeds the call in line {other.lineno}"
        if name == "shuffle" and (shuffle not in ("True", "False") or dropped(site, argument) is None):
            return "shuffle stands in a dict"
    return ""


def _assignment(
    name: str, class_name: str, arguments: list[str], condition: str, width: int, other: str = "None"
) -> list[str]:
    """``name = DistributedSampler(...)``, where several processes run or always, broken where it is too long.

    Args:
        other: what it is in one process.
    """
    made = f"{class_name}({', '.join(arguments)})"
    value = f"{made} if {condition} else {other}" if condition else made
    if len(f"{name} = {value}") <= width:
        return [f"{name} = {value}"]
    if not condition:
        return [f"{name} = {class_name}(", *(f"    {a}," for a in arguments), ")"]
    if len(f"    {value}") <= width:
        return [f"{name} = (", f"    {value}", ")"]
    return [f"{name} = (", f"    {made}", f"    if {condition}", f"    else {other}", ")"]


def _unfit(site: Site, arm: Arm | None, shuffle: str) -> Finding | None:
    """Why no sampler can be put before the loader's statement, or in the place of the sampler that it has."""
    module, dataset = site.module, site.dataset
    assert dataset is not None
    if any(isinstance(n, ast.NamedExpr) for n in ast.walk(site.call)):
        return refuse(site, "SHD923", note="the call binds a name that its arguments read")
    if "\n" in shuffle or ("\n" in module.source.source(dataset) and _plain(dataset)):
        return refuse(site, "SHD903", note="an argument spans lines")
    if arm is None:
        why = _not_sure(module, site.call)
        return refuse(site, "SHD923", note=why) if why else None
    if len(site.arms) > 1:
        return refuse(site, "SHD922")
    if arm.given is not None or arm.by or module.home(arm.node) is not module:
        evidence = (module.evidence(arm.given or arm.node),)
        return refuse(site, "SHD902", note="another function builds it", evidence=evidence)
    if arm.kind in ("random", "sequential"):
        source = arm.arguments.value("data_source") if arm.arguments else None
        if not same_expression(module, source, dataset):
            return refuse(site, "SHD907")
    if not _same_there(module, dataset, arm.node):
        return refuse(site, "SHD907", note="the dataset is bound after the sampler")
    if arm.kind == "subset-random":
        why = _not_sure(module, arm.node)
        return refuse(site, "SHD923", note=why) if why else None
    return None


def _not_sure(module: Module, node: ast.expr) -> str:
    """Why what stands before a node's statement would run oftener or earlier than the node; empty if it would not."""
    inner: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, (ast.Lambda, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.SetComp)):
            return "it is built inside a comprehension or lambda"
        if isinstance(outer, ast.IfExp) and inner is not outer.test:
            return "it is built on one side of a conditional expression"
        if isinstance(outer, ast.BoolOp) and inner is not outer.values[0]:
            return "it is built behind `and` or `or`"
        if isinstance(outer, (ast.NamedExpr, ast.match_case)):
            return "it is built inside another expression"
        if isinstance(outer, ast.stmt):
            if isinstance(outer, ast.While):
                return "it is built anew each time that the loop asks"
            if isinstance(outer, ast.If) and module.source.source(outer).startswith("elif"):
                return "it is built in the test of an elif"
            if isinstance(outer, (ast.With, ast.AsyncWith)) and len(outer.items) > 1 and outer.items[0] is not inner:
                return "it is built after another context is entered"
            break
        inner = outer
    return ""


def _same_there(module: Module, node: ast.expr, place: ast.expr) -> bool:
    """Whether an expression's names have the same values at an earlier place."""
    if module.function(place) is not module.function(node):
        return False
    there = module.environment(place)
    scope = module.scope(node)
    for n in ast.walk(node):
        if not isinstance(n, ast.Name):
            continue
        local = frozenset(d for d in module.bindings.reaching(n) if d.scope is scope)
        if there is None or there.get(n.id, frozenset()) != local:
            return False
    return True


def _keywords(site: Site, name: str, shuffle: str, *, optional: bool) -> list[Edit]:
    """``sampler=name`` in the call, and ``shuffle`` taken out, or left for one process."""
    module, path = site.module, site.module.path
    call = module.source.span(site.call)
    existing, old = site.arguments.bound.get("shuffle"), site.arguments.bound.get("sampler")
    position = old.position if old is not None else None  # of a sampler that is None
    shuffled = existing is not None and not (isinstance(existing.value, ast.Constant) and existing.value.value is False)
    if old is not None and old.from_dict:
        edits = given(site, old, name) or []
    else:
        edits = [SetKeyword(path, call, "sampler", name, positional=position)]
    if existing is None:
        return edits
    if existing.from_dict:
        edits += dropped(site, existing) or []
        if optional and shuffle == "True":
            edits.append(SetKeyword(path, call, "shuffle", f"({name} is None)"))
        return edits
    if optional and shuffled:
        old_value = module.source.source(existing.value)
        if not isinstance(existing.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant)):
            old_value = f"({old_value})"
        value = f"{name} is None" if shuffle == "True" else f"{old_value} and {name} is None"
        return [
            SetKeyword(path, call, "shuffle", f"({value})", positional=existing.position),
            SetKeyword(path, call, "sampler", name, positional=position),
        ]
    if existing.position is not None:
        return [
            SetKeyword(path, call, "shuffle", "False", positional=existing.position),
            SetKeyword(path, call, "sampler", name, positional=position),
        ]
    if old is not None:
        return [DropKeyword(path, call, "shuffle"), SetKeyword(path, call, "sampler", name)]
    return [SetKeyword(path, call, "sampler", name, replacing="shuffle")]


def _replace_sampler(
    site: Site, class_name: str, numbers: list[str], shuffle: str, condition: str
) -> tuple[str, list[Edit]] | Finding:
    """Put a DistributedSampler where the loader's own sampler is constructed."""
    module, path = site.module, site.module.path
    arm = site.arms[0]
    assert isinstance(arm.node, ast.Call)
    for other in site.siblings:
        theirs = (*other.arms, *(i for b in other.batch_arms for i in b.inner))
        if other is not site and any(a.node is arm.node for a in theirs):
            return refuse(site, "SHD902", note="two loaders share the sampler")
    written = module.source.source(arm.node)
    value = site.arguments.value("sampler")
    name = module.source.source(value) if isinstance(value, (ast.Name, ast.Attribute)) else ""
    edits: list[Edit] = []
    dataset = site.dataset
    assert dataset is not None
    source = module.source.source(dataset)
    if arm.kind == "subset-random":
        indices = arm.arguments.value("indices") if arm.arguments else None
        if indices is None or not name or not arm.definitions:
            return refuse(site, "SHD915")
        spelled = spell_subset(module, arm.node)
        if spelled is None:
            return refuse(site, "SHD915", note="the name Subset means something else here")
        subset, imports = spelled
        edits.extend(imports)
        base = re.sub(r"_?sampler$", "", name.rsplit(".", 1)[-1]) or site.role
        variable = free_name(module, site.call, (f"{base}_set", f"{base}_subset", f"{base}_dataset"))
        if variable is None or "\n" in module.source.source(indices):
            return refuse(site, "SHD915")
        line = f"{variable} = {subset}({source}, {module.source.source(indices)})"
        statement = module.statement(arm.node)
        edits.append(InsertStatements(*module.place(statement), "before", (line,)))
        edits.append(ReplaceExpression(*module.place(dataset), variable))
        source = variable
    made = f"{class_name}({', '.join([source, *numbers, f'shuffle={shuffle}'])})"
    if condition:
        if arm.kind == "subset-random":
            return refuse(site, "SHD915", note="a subset sampler in a program that also runs in one process")
        made = f"{made} if {condition} else {written}"
        statement = module.statement(arm.node)
        width = _WIDTH - statement.col_offset
        own = "" if name or len(made) < width - len("sampler=()") else sampler_name(site)
        if own and value is arm.node and module.statement(site.call) is statement and not _not_sure(module, arm.node):
            name = own
            lines = _assignment(name, class_name, [source, *numbers, f"shuffle={shuffle}"], condition, width, written)
            edits.append(InsertStatements(*module.place(statement), "before", tuple(lines)))
            made = name
        elif isinstance(statement, ast.Assign) and statement.value is arm.node and len(made) > width - len(name):
            target = module.source.source(statement.targets[0])
            if name == target and len(statement.targets) == 1:
                lines = _assignment(name, class_name, [source, *numbers, f"shuffle={shuffle}"], condition, 0, written)
                place = module.place(statement)
                return name, [*edits, InsertStatements(*place, "before", tuple(lines)), DropStatement(*place)]
        elif not name:
            made = f"({made})"
    elif isinstance(arm.node.func, ast.Name):
        edits.append(DropImport(path, arm.node.func.id))
    if "\n" in written and condition:
        return refuse(site, "SHD902", note="the sampler's construction spans lines")
    edits.append(ReplaceExpression(*module.place(arm.node), made))
    return name, edits
