"""What a statement does that is one process's to do, or that ranks must do together: show, write, wait, load, learn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.programs.processes import distributed_test, every_guard, is_main_test, is_not_main_test

# shows, logs: on a screen or in a log. writes: files. waits: for other ranks. loads: what one process may have written,
# or what only it then has. learns: gradients and steps of an optimizer.
Kind = Literal["shows", "logs", "writes", "waits", "loads", "learns"]
HERE = 4  # the depth from which guards are looked for in a node's own function only

_DEPTH = 5
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_SHOWS = frozenset({"print", "pprint", "input", "beep", "imshow", "display"})
_LOGS = frozenset({"info", "debug", "warning", "warn", "error", "critical", "exception", "log"})
_LOGGER = re.compile(r"log|wandb|writer|console", re.IGNORECASE)
_BOARD = frozenset(
    {"add_scalar", "add_scalars", "add_image", "add_images", "add_text", "add_figure", "add_histogram", "add_graph"}
    | {"add_hparams", "add_pr_curve", "add_embedding", "log_metric", "log_metrics", "log_artifact", "log_param"}
    | {"log_params", "log_dict", "log_scalar", "log_image", "log_images"}
)
_WRITES = frozenset(
    {"save", "savez", "savez_compressed", "savetxt", "dump", "makedirs", "mkdir", "remove", "rename", "unlink", "rmdir"}
    | {"rmtree", "copyfile", "copytree", "move", "touch", "write_text", "write_bytes", "to_csv", "to_json", "to_excel"}
    | {"to_parquet", "to_pickle", "savefig", "imsave", "imwrite", "save_image", "save_pretrained", "save_checkpoint"}
    | {"save_model", "save_weights", "save_state", "save_file", "write", "writelines", "writerow", "writerows"}
    | {"push_to_hub", "upload_file", "writeheader", "SummaryWriter", "FileHandler", "urlretrieve", "snapshot_download"}
    | {"download_and_extract_archive", "download_url", "extractall"}
)
_READS = frozenset(
    {"load", "read_csv", "read_pickle", "read", "readlines", "exists", "isfile", "isdir", "open", "glob"}
)
_LISTS = frozenset({"glob", "iglob", "rglob", "listdir", "scandir", "walk", "exists", "isfile", "isdir", "is_file"})
_READS_ALL = frozenset({"read_csv", "read_text", "read_json", "read_pickle", "loadtxt"})
_RUNS = ("subprocess.", "os.system", "shutil.", "wandb.", "mlflow.", "comet_ml.", "neptune.")
_WAITS = frozenset(
    {"barrier", "monitored_barrier", "wait_for_everyone", "main_process_first", "local_main_process_first"}
    | {"broadcast_object_list", "broadcast_object", "pad_across_processes", "split_between_processes", "rendezvous"}
)
_OF_GROUPS = frozenset(
    {"broadcast", "all_reduce", "reduce", "gather", "scatter", "send", "recv", "isend", "irecv", "new_group"}
    | {"scatter_object_list", "all_to_all", "all_to_all_single", "destroy_process_group", "init_process_group"}
)
_LOADS = frozenset(
    {"load_state_dict", "from_pretrained", "load_checkpoint", "load_model", "load_from_checkpoint", "load_weights"}
    | {"load_file", "load_state", "restore", "resume", "load_ckpt", "load_pretrained", "hf_hub_download"}
)
# Of these, what reads a file that is the same for all ranks, once it is written.
_FROM_DISK = frozenset(
    {"load_state_dict", "from_pretrained", "load_model", "load_from_checkpoint", "load_weights", "load_file", "load"}
)
_CHANGES = frozenset({"append", "extend", "update", "add", "insert", "pop", "clear", "setdefault"})
_HARMLESS = frozenset(
    {"eval", "train", "sort", "reset", "close", "flush", "set_description", "set_postfix", "set_postfix_str", "refresh"}
    | {"to", "cuda", "cpu", "zero_grad", "remove", "reverse", "half", "float", "requires_grad_", "seek", "set_epoch"}
    | {"start", "stop", "tic", "toc", "synchronize", "step"}
)
# What a call whose result nobody takes is for, by its name alone.
_FOR_SHOW = re.compile(r"^(save|write|dump|export|upload|publish|notify|plot|draw|visuali|render|log_|print_|report)")
_OUTPUT = re.compile(r"^(out|output|save|saved|prediction|predictions|result|results)_(\w+_)?(file|path|filename)$")
_STEPPED = re.compile(r"optim|sched|scaler|^opt$|lr_")
_WORDS: dict[Kind, str] = {
    "shows": "shows something",
    "logs": "logs something",
    "writes": "writes files",
    "waits": "waits for other ranks",
    "loads": "loads what one process alone may have",
    "learns": "trains",
}


@dataclass(frozen=True, eq=False, slots=True)
class Effect:
    """One call that does more than give a value.

    Args:
        through: the call, where it was asked for, of the function in which it stands; itself where it stands there.
        raced: whether it reads a file that one process alone writes in the same function, like a cache.
        of_files: whether it loads from files, which all ranks can do as soon as no process writes them any more.
    """

    kind: Kind
    node: ast.Call
    through: ast.Call
    raced: bool = False
    of_files: bool = False

    @property
    def deep(self) -> bool:
        """Whether it stands in a function that is called."""
        return self.through is not self.node

    @property
    def words(self) -> str:
        """What it does, in words that follow a subject."""
        return _WORDS[self.kind]


def effects(module: Module, top: ast.AST, within: frozenset[ast.AST] = frozenset()) -> list[Effect]:
    """What a statement or expression does, the project functions that it calls included.

    What one process alone does already (``if rank == 0: print(x)``) is left out, and so are two waits that the ranks do
    one behind the other (the main process in the second, the others in the first) under a condition of theirs.

    Args:
        within: functions that are not looked into.
    """
    return list(_effects(module, top, within, 0, set()))


def _effects(
    module: Module, top: ast.AST, within: frozenset[ast.AST], depth: int, seen: set[ast.AST]
) -> Iterator[Effect]:
    module = module.home(top)
    for call in _calls(top):
        kind = kind_of(module, call)
        if kind is not None:
            alone = kind in ("shows", "logs", "writes") and _of_one(module, call, top, depth)
            if not alone and not (kind == "waits" and in_turn(module, call)):
                yield Effect(kind, call, call, of_files=kind == "loads" and _from_files(module, call))
            continue
        if depth >= _DEPTH:
            continue
        passed = isinstance(module.parents[call], ast.Expr)  # what is done to an object that callers hand over
        for function in module.called_functions(call, passed=passed):
            if function in within or function in seen:
                continue
            seen.add(function)
            raced = _raced(module.home(function), function)
            if raced is not None:
                yield Effect("loads", raced, call, raced=True, of_files=True)
            for found in _effects(module, function, within, depth + 1, seen):
                shown = found.kind in ("shows", "logs", "writes")
                if not (shown and _of_one(module, call, top, depth)):
                    yield Effect(found.kind, found.node, call, found.raced, found.of_files)


def _from_files(module: Module, call: ast.Call) -> bool:
    """Whether what is loaded comes from a file: not a state that one process may have in memory."""
    name = last_name(call.func)
    if name != "load_state_dict":
        return name in _FROM_DISK
    for n in (n for a in call.args[:1] for n in ast.walk(a)):
        values = [n]
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            values = [d.value for d in module.bindings.reaching(n) if d.kind == "assign" and d.value is not None]
        if any(isinstance(v, ast.Call) and last_name(v.func) in ("load", "load_file") for v in values):
            return True
    return False


def _raced(module: Module, function: ast.AST) -> ast.Call | None:
    """The call by which a function reads files of which one process alone writes some in it: others may come first."""
    calls = list(_calls(function))
    kept = [c for c in calls if kind_of(module, c) == "writes" and _of_one(module, c, function, 1)]
    return next((c for c in calls if last_name(c.func) in _READS and c not in kept), None) if kept else None


def _calls(top: ast.AST) -> Iterator[ast.Call]:
    """The calls in a node, without those of the functions and classes defined in it."""
    stack: list[ast.AST] = list(getattr(top, "body", [])) if isinstance(top, _Functions[:2]) else [top]
    while stack:
        node = stack.pop(0)
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, _Functions):
            stack[:0] = list(ast.iter_child_nodes(node))


def _of_one(module: Module, call: ast.Call, top: ast.AST, depth: int) -> bool:
    """Whether one process alone does it, by a condition inside what is looked at."""
    if depth > 0:
        return every_guard(module, call, HERE)[0] is not None
    previous: ast.AST = call
    for outer in module.around(call):
        if isinstance(outer, (ast.If, ast.IfExp)):
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if (previous in body and is_main_test(outer.test)) or (
                previous not in body and previous is not outer.test and is_not_main_test(outer.test)
            ):
                return True
        if isinstance(outer, ast.BoolOp) and isinstance(outer.op, ast.And):
            place = next((i for i, v in enumerate(outer.values) if v is previous), 0)
            if any(is_main_test(v) for v in outer.values[:place]):
                return True
        if outer is top or previous is top:
            return False
        previous = outer
    return False


def kind_of(module: Module, call: ast.Call) -> Kind | None:
    """What a call does by itself; None for anything else, a call of a project function included."""
    name, qualified = last_name(call.func), module.callee(call)
    receiver = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    if name in _WAITS or is_reduction(module, call):
        return "waits" if not module.called_functions(call, passed=False) else None
    if name in _OF_GROUPS and any(q.startswith(("torch.distributed.", "horovod.")) for q in qualified):
        return "waits"
    if module.called_functions(call, passed=False) and not module.project_classes(call.func):
        return None
    if name in _LOADS or qualified & {"torch.load", "torch.jit.load"}:
        return "loads"
    if name == "backward" or (name == "step" and _STEPPED.search(receiver)):
        return "learns"
    if any(q.startswith("logging.") for q in qualified) or (name in _LOGS and _LOGGER.search(receiver)):
        return "logs"
    if (
        name in _SHOWS
        or name in _BOARD
        or "builtins.print" in qualified
        or (name == "write" and "bar" in receiver)
        or "tqdm.tqdm.write" in qualified
    ):
        return "shows"
    if any(k.arg == "download" and ast.unparse(k.value) != "False" for k in call.keywords):
        return "writes"
    if name == "open" or any(q.startswith(_RUNS) for q in qualified):
        return "writes" if name != "open" or _for_writing(call) else None
    if _writes_to(call) and not any(q.startswith(("os.", "builtins.", "pathlib.")) for q in qualified):
        return "writes"
    if _FOR_SHOW.match(name) and isinstance(module.parents[call], ast.Expr):
        return "writes"
    if name in _WRITES and not (name in ("remove", "move") and not _of_files(qualified)):
        return "writes"
    return None


def _writes_to(call: ast.Call) -> bool:
    """Whether a function of a library is told a file for what comes out, by the name of what it is given."""
    return any(isinstance(a, ast.Name) and _OUTPUT.search(a.id) for a in arguments_of(call))


def sets(module: Module, top: ast.AST, depth: int = 0, seen: set[ast.AST] | None = None) -> set[str]:
    """The attributes that a statement sets by calling functions of the project that do."""
    seen = set() if seen is None else seen
    found: set[str] = set()
    home = module.home(top)
    for call in _calls(top):
        for function in home.called_functions(call, passed=False) if depth < _DEPTH else ():
            if function in seen:
                continue
            seen.add(function)
            for n in ast.walk(function):
                if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store):
                    found |= set() if _of_new(function, n) else {n.attr}
                elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _CHANGES:
                    inner = n.func.value
                    found |= {inner.attr} if isinstance(inner, ast.Attribute) else set()
            found |= sets(module, function, depth + 1, seen)
    return found


def listing(top: ast.AST) -> list[ast.Call]:
    """The calls in a node that list files, or ask whether there is one."""
    return [c for c in _calls(top) if last_name(c.func) in _LISTS]


def _of_new(function: ast.AST, stored: ast.Attribute) -> bool:
    """Whether an attribute is of an object that is only being made: ``self.x = x`` in ``__init__``."""
    own = isinstance(stored.value, ast.Name) and stored.value.id == "self"
    return own and getattr(function, "name", "") == "__init__"


def reads(module: Module, top: ast.AST, depth: int = 0, seen: set[ast.AST] | None = None) -> list[ast.Call]:
    """The calls in a statement, and in functions of the project that it calls, that read a file."""
    seen = set() if seen is None else seen
    found: list[ast.Call] = []
    home = module.home(top)
    for call in _calls(top):
        name = last_name(call.func)
        asked = name == "open" and not _for_writing(call)
        library = {q.split(".")[0] for q in home.callee(call)} & {"json", "numpy", "pickle", "yaml", "torch"}
        if asked or name in _READS_ALL or (name == "load" and library) or (name in _FROM_DISK and name != "load"):
            found.append(call)
        for function in home.called_functions(call, passed=False) if depth < _DEPTH else ():
            if function not in seen:
                seen.add(function)
                found += reads(module, function, depth + 1, seen)
    return found


def unseen(module: Module, call: ast.Call) -> bool:
    """Whether what a call does, whose result nobody takes, is not seen: it is of an object or function that comes from
    elsewhere."""
    if kind_of(module, call) is not None or module.called_functions(call):
        return False
    name = last_name(call.func)
    if name in _HARMLESS or (isinstance(call.func, ast.Attribute) and name in _CHANGES):
        return False
    root: ast.expr = call.func
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    if not isinstance(root, ast.Name):
        return False
    found = module.bindings.reaching(root)
    return bool(found) and all(d.kind in ("parameter", "loop") for d in found) and root.id != "self"


def _of_files(qualified: frozenset[str]) -> bool:
    return any(q.startswith(("os.", "shutil.")) for q in qualified)


def _for_writing(call: ast.Call) -> bool:
    given = arguments_of(call)[1:] if isinstance(call.func, ast.Name) else arguments_of(call)
    modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(set(m) & set("wax+") for m in modes if set(m) <= set("rwaxbt+U"))


def in_turn(module: Module, call: ast.Call) -> bool:
    """Whether a wait is one of two by which the main process goes first, under a further condition that both have
    (``if rank != 0 and not evaluate``): where one process came here alone, that condition can't have held."""
    mine = _half(module, call)
    if mine is None or not mine[1]:
        return False
    function, name = module.function(call), last_name(call.func)
    for other in module.home(call).calls:
        if other is call or last_name(other.func) != name or module.function(other) is not function:
            continue
        theirs = _half(module, other)
        if theirs is not None and theirs[0] is not mine[0] and theirs[1] == mine[1]:
            return True
    return False


def answered(module: Module, call: ast.Call) -> bool:
    """Whether a wait is one of two by which the main process goes first, under no further condition: where all ranks
    come to the function, each comes to one of them."""
    mine = _half(module, call)
    if mine is None or mine[1]:
        return False
    function, name, home = module.function(call), last_name(call.func), module.home(call)
    theirs = [c for c in home.calls if c is not call and last_name(c.func) == name and module.function(c) is function]
    halves = [h for c in theirs if (h := _half(module, c)) is not None]
    return len(theirs) == len(halves) == 1 and not halves[0][1] and halves[0][0] is not mine[0]


def _half(module: Module, call: ast.Call) -> tuple[bool, frozenset[str]] | None:
    """Whether a call is for the main process (True) or for all others, and what else is asked; None where the rank is
    not."""
    sides: list[bool] = []
    more: set[str] = set()
    previous: ast.AST = call
    for outer in module.around(call):
        if isinstance(outer, ast.If) and previous in outer.body:
            conjuncts = outer.test.values if isinstance(outer.test, ast.BoolOp) else [outer.test]
            if isinstance(outer.test, ast.BoolOp) and not isinstance(outer.test.op, ast.And):
                conjuncts = [outer.test]
            for test in conjuncts:
                if is_not_main_test(test):
                    sides.append(False)
                elif is_main_test(test):
                    sides.append(True)
                elif distributed_test(test) is not True:
                    more.add(ast.unparse(test))
        if isinstance(outer, _Functions):
            break
        previous = outer
    return (sides[0], frozenset(more)) if len(sides) == 1 else None


__all__ = ["HERE", "Effect", "Kind", "answered", "effects", "in_turn", "kind_of", "listing", "reads", "sets", "unseen"]
