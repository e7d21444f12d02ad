"""What a function of the project can reach, read whole: whether what it is given alone decides what it gives."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.processes import is_rank, is_world_size
from shardfix.proof.metrics.allowed import BUILTINS, METHODS

# Libraries whose functions make values of what they are given, but for the parts named below.
_LIBRARIES = frozenset(
    {"numpy", "scipy", "sklearn", "math", "statistics", "collections", "itertools", "functools", "operator", "json"}
    | {"re", "copy", "string", "textwrap", "xml", "html", "unicodedata", "difflib", "heapq", "bisect", "fractions"}
    | {"decimal", "csv", "io", "os", "sys", "pathlib", "logging", "typing", "warnings", "dataclasses", "enum", "codecs"}
    | {"torch", "pandas", "nltk", "sacrebleu", "rouge", "rouge_score", "seqeval", "editdistance", "Levenshtein"}
    | {"jiwer", "pycocotools", "tabulate", "tqdm", "__future__", "abc", "numbers", "argparse", "six", "regex", "gzip"}
)
# What in them is of other ranks, of one process alone, of the clock or of chance.
_APART = (
    *("torch.distributed", "torch.multiprocessing", "torch.cuda", "torch.rand", "torch.normal", "torch.bernoulli"),
    *("torch.multinomial", "torch.hub", "torch.utils.data", "torch.save", "torch.load", "torch.initial_seed"),
    *("numpy.random", "os.environ", "os.getenv", "os.system", "os.popen", "os.exec", "os.spawn", "os.fork"),
    *("os.getpid", "os.kill", "os.getlogin", "os.urandom", "os.uname", "os.listdir", "os.walk", "os.scandir"),
    *("sys.modules", "sys.argv", "sys.stdin", "sys.setprofile", "sys.settrace", "sys.meta_path", "sys.path"),
    *("functools.partialmethod", "operator.attrgetter", "operator.methodcaller", "gc."),
)
_OF_FILES = frozenset({"__file__", "__name__", "__doc__"})  # which every rank has alike
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BUILTINS = BUILTINS | frozenset(
    {"print", "repr", "isinstance", "issubclass", "type", "format", "iter", "next", "map", "filter", "frozenset"}
    | {"bytes", "bytearray", "chr", "ord", "bin", "hex", "open", "hasattr", "callable", "slice", "complex", "object"}
    | {"super", "staticmethod", "classmethod", "property", "True", "False", "None", "NotImplemented", "Ellipsis"}
)
_METHODS = METHODS | frozenset(
    {"rstrip", "lstrip", "rsplit", "splitlines", "title", "casefold", "isdigit", "isalpha", "isalnum", "isspace"}
    | {"isupper", "islower", "encode", "decode", "zfill", "ljust", "rjust", "center", "find", "rfind", "partition"}
    | {"rpartition", "translate", "most_common", "popitem", "popleft", "appendleft", "add", "union", "intersection"}
    | {"difference", "issubset", "issuperset", "read", "readline", "readlines", "write", "writelines", "close"}
    | {"flush", "seek", "match", "fullmatch", "search", "findall", "finditer", "subn", "group", "groups", "start"}
    | {"end", "span", "groupdict", "info", "debug", "warning", "error", "elements", "subtract", "isnumeric", "union"}
    | {"iterrows", "itertuples", "get_group", "groupby", "head", "dot", "swapcase", "capitalize", "expandtabs"}
)


@dataclass
class _Reading:
    """What is read so far: each function and class once.

    Attributes:
        found: the first thing that is not known to be decided by what is given.
        written, read: whether a file is opened for writing, or for reading.
    """

    seen: set[ast.AST] = field(default_factory=set)
    found: tuple[Module, ast.AST] | None = None
    written: ast.AST | None = None
    read: bool = False

    def code(self, module: Module, node: ast.AST) -> None:
        """Read a function, a class or an expression."""
        if node in self.seen or self.found is not None:
            return
        self.seen.add(node)
        for n in ast.walk(node):
            if self.found is None and not self._may_stand(module, n, node) and self.found is None:
                self.found = module, n

    def _may_stand(self, module: Module, n: ast.AST, within: ast.AST) -> bool:
        if isinstance(n, (ast.Global, ast.Nonlocal, ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return False  # it keeps something from one call for the next, or waits
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            return self._name(module, n, within)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load):
            return self._attribute(module, n, within)
        if isinstance(n, ast.Call):
            return self._call(module, n, within)
        return not isinstance(n, (ast.Import, ast.ImportFrom)) or not any(a.name == "*" for a in n.names)

    def _name(self, module: Module, n: ast.Name, within: ast.AST) -> bool:
        found = module.bindings.reaching(n)
        if not found and isinstance(within, (*_FUNCTIONS, ast.ClassDef)) and _binds(within, n.id):
            return True  # `self` in `self.total = 0`
        if not found and n.id in _OF_FILES:
            return True
        if not found:
            known = module.qualify(n)
            return bool(known) and all(self._named(module, q) for q in known)
        if (is_rank(n) or is_world_size(n)) and any(d.kind == "parameter" for d in found):
            return False
        return all(self._bound(module, d, within) for d in found)

    def _bound(self, module: Module, d: Definition, within: ast.AST) -> bool:
        """Whether what a name is bound to may be read: inside of what is read already, or anywhere in the project."""
        if d.kind == "import":
            return all(self._named(module, q) for q in module.resolve(d.module))
        if d.scope is not module.tree or within is module.tree:
            return True  # a parameter or a variable of the function: what it is bound to stands there
        if d.kind in ("function", "class"):
            self.code(module, d.node)
        elif d.value is not None:
            self.code(module, d.value)
        else:
            return False
        return self.found is None

    def _named(self, module: Module, qualified: str) -> bool:
        """Whether what a qualified name stands for may be read: of a library, or of the project."""
        head, _, last = qualified.partition(".")
        if head == "builtins":
            return last in _BUILTINS
        definitions = module.named(qualified)
        if definitions:
            return all(self._bound(module.home(d.scope), d, d.node) for d in definitions)
        own = module.project is not None and module.project.split(qualified, module) is not None
        if own:
            return module.project is not None and qualified in module.project.by_name  # a module of the project
        return head in _LIBRARIES and not f"{qualified}.".startswith(_APART)

    def _attribute(self, module: Module, n: ast.Attribute, within: ast.AST) -> bool:
        outer = module.parents.get(n)
        if isinstance(outer, ast.Attribute) and module.qualify(outer):
            return True  # the whole of it is asked for
        known = module.qualify(n)
        if known:
            return all(self._named(module, q) for q in known)
        return not (is_rank(n) or is_world_size(n))

    def _call(self, module: Module, n: ast.Call, within: ast.AST) -> bool:
        function = n.func
        if isinstance(function, ast.Name):
            if "builtins.open" in module.callee(n):
                self._opens(n)
            found = module.bindings.reaching(function)
            made = [d.value for d in found if d.kind == "assign"]
            return all(d.kind in ("function", "class", "import") for d in found if d.kind != "assign") and all(
                isinstance(v, (ast.Lambda, ast.Attribute)) or self._compiled(module, v) for v in made
            )
        if not isinstance(function, ast.Attribute):
            return isinstance(function, ast.Call)  # functools.partial(f)(x): what it calls is read beside it
        if module.callee(n):
            return True  # asked for by its name
        methods = module.called_functions(n)
        if methods:
            for method in methods:
                self.code(module.home(method), method)
            return self.found is None
        if function.attr not in _METHODS:
            return False
        others = [f for m in module.fellows for f in m.functions if f.name == function.attr and m.class_of(f)]
        return not others or not self._may_be_own(module, function.value)

    def _may_be_own(self, module: Module, receiver: ast.expr) -> bool:
        """Whether an object may be one of the project's: it is handed in, or what it is made by is not seen."""
        root = receiver
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        return any(d.kind == "parameter" for d in module.bindings.reaching(root))

    def _compiled(self, module: Module, value: ast.expr | None) -> bool:
        return isinstance(value, ast.Call) and any(q.startswith("functools.") for q in module.callee(value))

    def _opens(self, n: ast.Call) -> None:
        given = [*n.args[1:2], *(k.value for k in n.keywords if k.arg == "mode")]
        modes = [g.value for g in given if isinstance(g, ast.Constant) and isinstance(g.value, str)]
        if len(modes) == len(given) and not any(set(mode) & set("wax+") for mode in modes):
            self.read = True
        else:
            self.written = n


def _binds(within: ast.AST, name: str) -> bool:
    """Whether a function, or one in it, has a parameter of a name."""
    return any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(within))


def strange(module: Module, node: ast.Call) -> str:
    """What of the functions of the project that a call runs is not known to be decided by what they are given alone:
    other ranks, the rank, the clock, chance, another program may decide it; with its place. Empty where nothing is.

    All that they can reach in the project is read: functions, methods, what stands at the top of their files.
    """
    reading = _Reading()
    for function in module.called_functions(node):
        reading.code(module.home(function), function)
    for cls in module.project_classes(node.func):
        reading.code(module.home(cls), cls)
    if reading.found is None and reading.written is not None and reading.read:
        reading.found = module.home(reading.written), reading.written  # a file is written and read again
    if reading.found is None:
        return ""
    home, n = reading.found
    if isinstance(n, ast.Call):
        n = n.func
    words = " ".join(ast.unparse(n).split()) if isinstance(n, ast.expr) else type(n).__name__.lower()
    place = home.location(n)
    return f"`{words if len(words) <= 60 else words[:57] + '...'}` ({place.path}:{place.line})"


def is_own(module: Module, node: ast.Call) -> bool:
    """Whether a call runs functions of the project that are seen."""
    return any(isinstance(f, Function) for f in module.called_functions(node)) or bool(
        module.project_classes(node.func)
    )


__all__ = ["is_own", "strange"]
