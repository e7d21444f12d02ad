"""Names by which a value is taken to be alike on all ranks: of settings, of counters, of what draws nothing."""

from __future__ import annotations

import ast
import re

DEPTH = 24  # values of values that are followed
SETTINGS = re.compile(
    r"(^|_)(args?|arguments|cfgs?|config|configs|conf|opts?|options?|flags|hparams|hps|hp|params|settings)$",
    re.IGNORECASE,
)
COUNTERS = re.compile(r"(^|_)(epochs?|ep|steps?|iters?|iteration|iterations|it|rounds?|batch_?idx|updates)(_|$|\d)")
# What of an alike object, given what is alike, is alike.
PLAIN = frozenset(
    {"len", "int", "float", "bool", "str", "abs", "min", "max", "round", "any", "all", "range", "getattr"}
    | {"list", "pow", "tuple", "sorted", "dict", "get", "lower", "upper", "strip", "split", "startswith"}
    | {"endswith", "items", "keys", "values", "enumerate", "zip", "count", "item", "reversed", "sum"}
    | {"divmod", "join", "replace", "format", "cpu", "numpy", "tolist", "mean", "to", "long", "detach"}
    | {"argmax", "size", "dim", "numel", "index", "copy", "title", "rstrip", "lstrip", "isdigit", "iter"}
    | {"cycle", "chain", "islice", "product", "double", "compute", "repeat", "tqdm", "trange", "track"}
    | {"hasattr", "cuda", "clone", "squeeze", "std", "map", "partial"}
)
LOOKS = frozenset({"isinstance", "issubclass", "callable", "is_available", "device_count", "is_initialized"})
READS = frozenset({"parse_args", "parse_known_args", "parse_args_into_dataclasses", "safe_load", "load", "fromfile"})
OF_FILES = frozenset({"isfile", "exists", "isdir", "is_file", "is_dir"})
SHOWS = frozenset({"print", "info", "debug", "warning", "warn", "error"})
# Libraries of which a function given alike values gives alike ones; but for what is drawn or measured.
PURE = frozenset({"math", "numpy", "torch", "sklearn", "scipy", "statistics", "operator", "copy", "itertools", "json"})
DRAWN = re.compile(
    r"rand|normal|choice|shuffle|sample|perm|seed|memory|rank|empty|time|event|bernoulli|multinomial|cuda|\.distributed"
    r"|utils\.data"
)
LIBRARIES = PURE | {
    "torchvision",
    "transformers",
    "packaging",
    "typing",
    "string",
    "enum",
    "functools",
    "collections",
}
DISPLAY = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MADE = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict"})
CHANGES = frozenset(
    {"append", "add", "extend", "update", "insert", "pop", "remove", "clear", "setdefault", "discard", "appendleft"}
    | {"popleft", "popitem"}
)
AGREED = ("all_reduce", "broadcast", "broadcast_object_list")
ITSELF = frozenset({"eval", "train", "to", "cuda", "cpu", "half", "float", "requires_grad_"})  # give their object
OF_ONE_PROCESS = re.compile(r"RANK|ROLE|PROCID|LOCALID|NODEID|TASK|VISIBLE|HOST|PID|INDEX|USER", re.IGNORECASE)
