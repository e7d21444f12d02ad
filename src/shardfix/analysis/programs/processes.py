"""Which code runs on which rank: main-process guards, and conditions that tell one process from several."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import is_none, last_name
from shardfix.analysis.code.objects import imported_loads

_RANKS = frozenset(
    {
        "rank",
        "local_rank",
        "global_rank",
        "world_rank",
        "distributed_rank",
        "dist_rank",
        "ddp_rank",
        "ddp_local_rank",
        "process_rank",
        "proc_rank",
        "my_rank",
        "process_index",
        "local_process_index",
        "gpu",
        "node_rank",
        "proc_id",
    }
)
_RANK_CALLS = frozenset(
    {
        "get_rank",
        "get_local_rank",
        "local_rank",
        "rank",
        "get_global_rank",
        "global_rank",
        "get_world_rank",
        "get_dist_rank",
        "get_process_rank",
    }
)
_MAIN = frozenset(
    {
        "is_main_process",
        "is_local_main_process",
        "is_world_process_zero",
        "is_master",
        "is_main",
        "is_global_zero",
        "is_rank_zero",
        "is_rank0",
        "is_leader",
        "is_first_worker",
        "main_process",
        "is_primary",
        "master_process",
    }
)
_DISTRIBUTED = frozenset(
    {
        "distributed",
        "is_distributed",
        "use_distributed",
        "use_ddp",
        "ddp",
        "is_ddp",
        "multi_gpu",
        "distributed_run",
        "multiprocessing_distributed",
        "is_dist_avail_and_initialized",
        "is_initialized",
        "is_dist",
        "distributed_training",
    }
)
_WORLD = frozenset(
    {
        "world_size",
        "distributed_world_size",
        "dist_world_size",
        "ddp_world_size",
        "num_replicas",
        "get_world_size",
        "num_processes",
        "num_procs",
        "n_procs",
        "nprocs",
        "num_ranks",
        "world",
    }
)


_DEPTH = 4  # callers of callers that are followed


def name_of(node: ast.expr) -> str:
    """The last name of a name, attribute, call or subscript by a constant key; empty for anything else."""
    if isinstance(node, ast.Call):
        if last_name(node.func) in ("int", "get", "getenv", "bool") and node.args:
            return name_of(node.args[0])
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return name_of(node.slice)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.lower()
    return last_name(node)


def is_rank(node: ast.expr) -> bool:
    """Whether an expression is a rank by its name."""
    name = name_of(node)
    if name.isupper():  # RANK, as a constant of the module
        return name.lower() in _RANKS
    return name in _RANKS or (isinstance(node, ast.Call) and name in _RANK_CALLS)


def is_world_size(node: ast.expr) -> bool:
    """Whether an expression is the number of processes by its name."""
    return name_of(node) in _WORLD


def is_main_test(test: ast.expr) -> bool:
    """Whether a condition lets only one process in: ``rank == 0``, ``local_rank in [-1, 0]``, ``is_main_process()``."""
    if isinstance(test, ast.BoolOp):
        main = [is_main_test(v) for v in test.values]
        if isinstance(test.op, ast.And):
            return any(main)
        # Each way in must be of one process: `rank == 0 or args.everyone` lets all in.
        return any(main) and all(m or distributed_test(v) is False for m, v in zip(main, test.values, strict=True))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_rank(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], (ast.LtE, ast.Lt)) and is_rank(left):
            return isinstance(right, ast.Constant) and right.value == (1 if isinstance(test.ops[0], ast.Lt) else 0)
        if isinstance(test.ops[0], ast.In) and isinstance(right, (ast.List, ast.Tuple, ast.Set)) and is_rank(left):
            # [-1, 0]: -1 is the rank of a run that is not distributed
            return {ast.unparse(e) for e in right.elts} in ({"0"}, {"-1", "0"})
        if not isinstance(test.ops[0], ast.Eq):
            return False
        if isinstance(left, ast.Constant):
            left, right = right, left
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
            left = left.left  # rank % processes_per_node: the first of each node
        return is_rank(left) and isinstance(right, ast.Constant) and right.value in (0, "0")
    return name_of(test) in _MAIN


def is_not_main_test(test: ast.expr) -> bool:
    """Whether a condition lets only the other processes in: ``rank != 0``, ``not is_main_process()``, ``rank > 0``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_main_test(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_rank(test.left):
        right = test.comparators[0]
        if isinstance(test.ops[0], (ast.NotEq, ast.Gt)):
            return isinstance(right, ast.Constant) and right.value == 0
        if isinstance(test.ops[0], ast.NotIn):
            return True
    return is_rank(test) and isinstance(test, (ast.Name, ast.Attribute))


def distributed_test(test: ast.expr) -> bool | None:
    """What a condition says of the regime: True if it holds in several processes only, False if in one only."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = distributed_test(test.operand)
        if isinstance(test.operand, ast.BoolOp) and isinstance(test.operand.op, ast.And):
            return None  # not (a and distributed): several processes without a
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        outcomes = {distributed_test(v) for v in test.values}
        if isinstance(test.op, ast.And):
            return True if True in outcomes else None
        return True if outcomes == {True} else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, op, right = test.left, test.ops[0], test.comparators[0]
        if (
            isinstance(right, ast.UnaryOp)
            and isinstance(right.op, ast.USub)
            and isinstance(right.operand, ast.Constant)
        ):
            value: object = -right.operand.value  # type: ignore[operator]
        else:
            value = right.value if isinstance(right, ast.Constant) else ...
        if is_rank(left):
            if value == -1:
                return isinstance(op, (ast.NotEq, ast.Gt)) if isinstance(op, (ast.Eq, ast.NotEq, ast.Gt)) else None
            if value == 0 and isinstance(op, ast.GtE):
                return True
        if is_world_size(left) or name_of(left).lower() in ("n_gpu", "num_gpus", "device_count", "ngpus"):
            if value == 1 and isinstance(op, (ast.Gt, ast.NotEq)):
                return True
            if value == 1 and isinstance(op, (ast.Eq, ast.LtE)):
                return False
            if value == 2 and isinstance(op, ast.GtE):
                return True
        if value is True or value is False:
            inner = distributed_test(left)
            if inner is not None and isinstance(op, (ast.Eq, ast.Is)):
                return inner if value else not inner
        return None
    return True if name_of(test) in _DISTRIBUTED else None


def main_process_guard(module: Module, node: ast.AST, depth: int = 0) -> ast.expr | None:
    """The condition because of which a node never runs on two ranks at once: on the main process only, or in a run of
    one process only. Callers are followed; where several have one, it is the first."""
    here = _guard_around(module, node, depth)
    function = _function_around(module, node)
    if here is None and function is not None and depth < _DEPTH:
        callers = module.callers(function) if not handed_on(module, function) else []
        guards = [main_process_guard(module, call, depth + 1) for call in callers]
        if callers and all(g is not None for g in guards):
            return guards[0]
    return here


def every_guard(module: Module, node: ast.AST, depth: int = 0) -> list[ast.expr | None]:
    """The conditions because of which a node never runs on two ranks at once, one for each way to it through callers;
    None for a way that has none."""
    here = _guard_around(module, node, depth)
    function = _function_around(module, node)
    if here is not None or function is None or depth >= _DEPTH or handed_on(module, function):
        return [here]
    ways = [g for call in module.callers(function) for g in every_guard(module, call, depth + 1)]
    return ways or [None]


def _function_around(module: Module, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    return next((n for n in module.around(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


def _guard_around(module: Module, node: ast.AST, depth: int) -> ast.expr | None:
    """Such a condition in the function of a node, or in a decorator of it."""
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, (ast.If, ast.IfExp)):
            inside = outer.body if isinstance(outer.body, list) else [outer.body]
            test = _meaning(module, outer.test)
            if previous in inside and _is_of_one(test):
                return outer.test
            other = is_not_main_test(test) or _of_every_run_of_several(test)
            if previous is not outer.test and previous not in inside and other:
                return outer.test
        if isinstance(outer, ast.BoolOp) and isinstance(outer.op, ast.And) and previous in outer.values:
            asked = outer.values[: outer.values.index(previous)]
            first = next((v for v in asked if is_main_test(_meaning(module, v))), None)
            if first is not None:
                return first
        if isinstance(previous, ast.stmt):
            for earlier in _before(module, previous):
                if isinstance(earlier, ast.If) and leaves(earlier.body):
                    test = _meaning(module, earlier.test)
                    if is_not_main_test(test) or _of_every_run_of_several(test):
                        return earlier.test
                if isinstance(earlier, ast.Assert):
                    if _is_of_one(earlier.test) or _is_of_one(_meaning(module, earlier.test)):
                        return earlier.test
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(
                name_of(d) in ("on_main_process", "rank_zero_only", "main_process_only") for d in outer.decorator_list
            ):
                return outer.decorator_list[0]
            for decorator in outer.decorator_list:
                wrapped = _guard_of_wrapper(module, decorator, depth)
                if wrapped is not None:
                    return wrapped
            break
        previous = outer
    return None


def _guard_of_wrapper(module: Module, decorator: ast.expr, depth: int) -> ast.expr | None:
    """The condition under which a decorator of this file calls what it decorates."""
    for d in module.bindings.reaching(decorator):
        if not isinstance(d.node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not d.node.args.args or depth > 3:
            continue
        wrapped = d.node.args.args[0].arg
        calls = [
            n
            for n in ast.walk(d.node)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == wrapped
        ]
        guards = [main_process_guard(module, call, depth + 1) for call in calls]
        if guards and all(g is not None for g in guards):
            return guards[0]
    return None


def _meaning(module: Module, test: ast.expr) -> ast.expr:
    """What a condition's name stands for: ``master`` for ``rank == 0`` after ``master = rank == 0``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _meaning(module, test.operand)
        return test if inner is test.operand else ast.UnaryOp(ast.Not(), inner)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_none(test.comparators[0]):
        there = _held(module, test.left)
        if there is not None and isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
            return there
        return (
            ast.UnaryOp(ast.Not(), there) if there is not None and isinstance(test.ops[0], (ast.Is, ast.Eq)) else test
        )
    if isinstance(test, ast.Name):
        there = _held(module, test)
        if there is not None:
            return there
        values = {d.value for d in module.bindings.reaching(test) if d.kind == "assign" and d.index is None}
        if len(values) == 1 and len(module.bindings.reaching(test)) == 1:
            value = values.pop()
            if isinstance(value, (ast.Compare, ast.BoolOp)) or (value is not None and is_main_test(value)):
                return value
    return test


def _held(module: Module, node: ast.expr) -> ast.expr | None:
    """The condition under which alone a name holds anything: ``rank == 0`` after ``writer = Writer() if rank == 0 else
    None``."""
    found = list(module.bindings.reaching(node))
    value = found[0].value if len(found) == 1 and found[0].kind == "assign" and found[0].index is None else None
    if not isinstance(value, ast.IfExp) or not is_main_test(value.test):
        return None
    return value.test if is_none(value.orelse) and not is_none(value.body) else None


def _is_of_one(test: ast.expr) -> bool:
    """Whether a condition holds on one process only."""
    return is_main_test(test) or _is_one_rank(test) or distributed_test(test) is False


def _of_every_run_of_several(test: ast.expr) -> bool:
    """Whether a condition holds in every run of several processes: not where more is asked (``tuned and distributed``),
    so that what is left may be several processes all the same."""
    return distributed_test(test) is True and not (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And))


def _is_one_rank(test: ast.expr) -> bool:
    """``rank == world_size - 1``: one rank, though not the main one."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return False
    right = test.comparators[0]
    last = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Sub) and is_world_size(right.left)
    return is_rank(test.left) and last


def some_ranks(module: Module, node: ast.AST) -> ast.expr | None:
    """The condition on the rank around a node, of the same function, that lets in some ranks (``rank < 4``)."""
    for outer in module.around(node):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(outer, ast.If) and _asks_for_ranks(outer.test):
            return outer.test
    return None


def _asks_for_ranks(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return any(_asks_for_ranks(v) for v in test.values)
    if distributed_test(test) is not None:
        return False
    if is_main_test(test):
        return True
    compared = isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq))
    return compared and isinstance(test, ast.Compare) and is_rank(test.left)


def handed_on(module: Module, function: ast.AST) -> bool:
    """Whether a function is passed or stored (``mp.spawn(main_worker, ...)``): then more runs it than its callers. A
    look at its name (``not evaluate``) is neither."""
    looks = (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.If, ast.While, ast.Expr)
    for d in module.bindings.definitions_at(function, getattr(function, "name", "")):
        for use in [*module.bindings.readers(d), *imported_loads(module, d)]:
            parent = module.parents[use]
            called = isinstance(parent, ast.Call) and parent.func is use
            asked = isinstance(parent, looks) or (isinstance(parent, ast.IfExp) and parent.test is use)
            if not called and not asked:
                return True
    return False


def _before(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    block = module.block(statement)
    return block[: block.index(statement)] if statement in block else []


def leaves(body: list[ast.stmt]) -> bool:
    """Whether a block goes no further: it returns, raises, exits, or turns to the next round."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last_name(last.value.func) in ("exit", "_exit", "quit")
    return isinstance(last, (ast.Return, ast.Continue, ast.Raise))
