"""Whether what a value is handed to was read, under whatever name it is kept: a function of the project that combines
nothing, or a library's that asks no other rank."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module

# Libraries that make, show or store values of one process, and ask no other one.
ALONE = frozenset(
    {"builtins", "torch", "numpy", "math", "sklearn", "scipy", "pandas", "statistics", "collections", "itertools"}
    | {"json", "pickle", "csv", "yaml", "os", "sys", "time", "datetime", "logging", "copy", "functools", "operator"}
    | {"re", "random", "pathlib", "string", "io", "typing", "pprint", "dataclasses", "types", "warnings", "shutil"}
    | {"tqdm", "rich", "tabulate", "prettytable", "termcolor", "colorama", "loguru", "absl", "dllogger", "PIL", "cv2"}
    | {"matplotlib", "seaborn", "plotly", "wandb", "tensorboardX", "tensorboard", "mlflow", "neptune", "comet_ml"}
    | {"torchvision", "nltk", "sacrebleu", "rouge", "rouge_score", "seqeval", "bert_score", "jiwer", "editdistance"}
    | {"fuzzywuzzy", "rapidfuzz", "h5py", "imageio", "skimage", "soundfile", "einops", "argparse", "fractions"}
    | {"decimal", "numbers", "contextlib", "inspect", "textwrap", "uuid", "hashlib", "struct", "heapq", "bisect"}
)
_DEPTH = 5  # names of names
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)

Collective = Callable[[ast.AST], bool]


def is_read(module: Module, called: ast.expr, collective: Collective, depth: int = 0) -> bool:
    """Whether all that an expression stands for, where it is called, was read and combines nothing.

    A method of an object is: whatever has its name in the project is looked into by whoever asks for collectives.

    Args:
        called: what is called, or handed to something that calls it.
        collective: whether a function of the project combines values across ranks.
    """
    module = module.home(called)
    if depth > _DEPTH:
        return False
    if isinstance(called, ast.Attribute):
        made = list(module.bindings.reaching(called))
        if made:
            return all(_is_bound_read(module, d, collective, depth) for d in made)
        if not depth:  # what is called at once has its object, which is asked as one that may combine
            return True
        names = module.qualify(called)
        return bool(names) and all(_is_name_read(module, n, collective, depth) for n in names)
    if isinstance(called, ast.Lambda):
        inner = [n for n in ast.walk(called.body) if isinstance(n, ast.Call)]
        return not collective(called) and all(is_read(module, c.func, collective, depth + 1) for c in inner)
    if isinstance(called, ast.IfExp):
        return all(is_read(module, n, collective, depth + 1) for n in (called.body, called.orelse))
    if isinstance(called, ast.Call):
        return _is_made_read(module, called, collective, depth)
    if not isinstance(called, ast.Name):
        return False
    found = list(module.bindings.reaching(called))
    if found:
        return all(_is_bound_read(module, d, collective, depth) for d in found)
    names = module.qualify(called)
    return bool(names) and all(_is_name_read(module, n, collective, depth) for n in names)


def _is_bound_read(module: Module, d: Definition, collective: Collective, depth: int) -> bool:
    if isinstance(d.node, _Functions):
        return d.kind == "function" and (depth == 0 or not collective(d.node))
    if d.kind == "class":
        return True
    if d.kind == "import":
        return all(_is_name_read(module, n, collective, depth) for n in module.home(d.node).resolve(d.module))
    if d.kind == "assign" and d.value is not None and d.index is None:
        return is_read(module, d.value, collective, depth + 1)
    if d.kind == "parameter" and isinstance(d.scope, _Functions):
        given = [argument_of(module, d.scope, call, d.key) for call in module.callers(d.scope)]
        return bool(given) and all(g is not None and is_read(module, g, collective, depth + 1) for g in given)
    return False


def _is_name_read(module: Module, name: str, collective: Collective, depth: int) -> bool:
    if name.partition(".")[0] in ALONE:
        return not name.startswith("torch.distributed.")
    found = module.named(name)
    return bool(found) and all(_is_bound_read(module, d, collective, depth + 1) for d in found if d.kind != "import")


def _is_made_read(module: Module, call: ast.Call, collective: Collective, depth: int) -> bool:
    """Whether the object that a call makes was read, and combines nothing when it is called itself."""
    names = module.callee(call)
    if names & {"functools.partial", "builtins.staticmethod"} and call.args:
        return is_read(module, call.args[0], collective, depth + 1)
    if names and all(n.partition(".")[0] in ALONE and n not in _FINDS for n in names):
        return True
    classes = module.project_classes(call.func)
    own = [m for cls in classes if (m := module.method(cls, "__call__")) is not None]
    return bool(own) and not any(collective(m) for m in own)


_FINDS = frozenset({"builtins.getattr", "builtins.eval", "functools.reduce", "operator.attrgetter"})

__all__ = ["ALONE", "is_read"]
