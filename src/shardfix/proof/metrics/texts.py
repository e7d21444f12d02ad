"""Texts that a library's tokenizer reads out of ids: a call that asks nothing of other ranks and keeps nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module, is_false
from shardfix.proof.recipes.regime import call, name

# The methods, and what stands for what each gives.
_METHODS = {
    "decode": "TEXT",
    "batch_decode": "TEXTS",
    "convert_ids_to_tokens": "TOKENS",
    "convert_tokens_to_string": "TEXT",
}
_MADE_BY = frozenset({"from_pretrained", "from_file", "from_str", "from_buffer"})
_LIBRARIES = ("transformers.", "tokenizers.", "pytorch_transformers.", "pytorch_pretrained_bert.", "sentencepiece.")
_CLASSES = ("Tokenizer", "TokenizerFast", "Processor")
_IDS = ("token_ids", "sequences", "ids", "tokens")
_DEPTH = 10  # assignments, calls and attributes that a tokenizer is followed back through
GIVES = "a text of the ids that it is given, by nothing else"


def text_of_ids(module: Module, node: ast.Call, value: Callable[[ast.expr], ast.expr]) -> ast.expr | None:
    """What stands for a text, or for one of each row, that a tokenizer reads out of ids; None where the object is not
    seen to be a tokenizer of a library.

    Source: ``transformers`` 5.24, ``tokenization_utils_base.py``: ``decode`` and ``batch_decode`` go by the ids, the
    vocabulary and their own arguments.
    """
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _METHODS:
        return None
    given = [*node.args[:1], *(k.value for k in node.keywords if k.arg in _IDS)]
    if len(given) != 1 or isinstance(given[0], ast.Starred) or not _is_tokenizer(module, node.func.value, 0):
        return None
    return call(name(_METHODS[node.func.attr]), value(given[0]))


def is_tokenizer(module: Module, node: ast.expr) -> bool:
    """Whether an expression is seen to be a library's tokenizer, which keeps nothing of what it is told."""
    return _is_tokenizer(module, node, 0)


def reads_text(node: ast.Call) -> bool:
    """Whether a call is of a method by which tokenizers read a text out of ids; bytes are decoded by a constant."""
    named = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
    return named and not all(isinstance(a, ast.Constant) for a in node.args)


def _is_tokenizer(module: Module, node: ast.expr, depth: int, index: int | None = None) -> bool:
    """Whether all that an expression may be, or the item of a place in it, is a library's tokenizer, or a processor
    that holds one."""
    if depth > _DEPTH:
        return False
    module = module.home(node)
    if isinstance(node, (ast.Tuple, ast.List)) and index is not None:
        return 0 <= index < len(node.elts) and _is_tokenizer(module, node.elts[index], depth + 1)
    if isinstance(node, ast.Call):
        return _makes_one(module, node, depth, index)
    if index is not None:
        return False
    if isinstance(node, ast.IfExp):
        return _is_tokenizer(module, node.body, depth + 1) and _is_tokenizer(module, node.orelse, depth + 1)
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    if isinstance(node, ast.Attribute) and node.attr == "tokenizer" and _is_tokenizer(module, node.value, depth + 1):
        return True  # a processor's
    found: Sequence[Definition] = list(module.bindings.reaching(node))
    if not found and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
        cls = module.class_of(node)
        found = module.attribute_values(cls, node.attr) if cls is not None else []
    if not found:
        found = [d for q in module.qualify(node) for d in module.named(q)]
    bound = [d for d in found if not (isinstance(d.value, ast.Constant) and d.value.value is None)]
    return bool(bound) and all(_bound(module.home(d.scope), d, depth) for d in bound)


def _bound(module: Module, d: Definition, depth: int) -> bool:
    if d.kind == "assign" and d.value is not None:
        return _is_tokenizer(module, d.value, depth + 1, d.index)
    if d.kind == "import":
        others = [o for q in module.resolve(d.module) for o in module.named(q) if o is not d]
        return bool(others) and all(_bound(module.home(o.scope), o, depth + 1) for o in others)
    if d.kind == "parameter":
        given = [v for _, v in arguments_given(module, d)]
        return bool(given) and all(v is not None and _is_tokenizer(module.home(v), v, depth + 1) for v in given)
    return False


def _makes_one(module: Module, node: ast.Call, depth: int, index: int | None) -> bool:
    """``AutoTokenizer.from_pretrained(..)``, ``BertTokenizer(..)``, or a function of the project that returns one."""
    function = node.func
    by_class = function.value if isinstance(function, ast.Attribute) and function.attr in _MADE_BY else function
    if index is None and _is_class(module, by_class):
        return not any(k.arg == "trust_remote_code" and not is_false(k.value) for k in node.keywords)
    made = list(module.called_functions(node))
    if not made or module.project_classes(function):
        return False
    returned = [
        n.value
        for f in made
        for n in ast.walk(f)
        if isinstance(n, ast.Return) and module.home(f).function(n) is f and n.value is not None
    ]
    return bool(returned) and all(_is_tokenizer(module.home(r), r, depth + 1, index) for r in returned)


def _is_class(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a class of tokenizers of a library, by its name or by those in a table."""
    names = module.qualify(node)
    if names:
        return all(q.startswith(_LIBRARIES) and last.endswith(_CLASSES) for q in names for last in [_last(q)])
    found = list(module.bindings.reaching(node)) if isinstance(node, ast.Name) else []
    classes = [c for d in found for c in _in_table(module, d)]
    return bool(found) and bool(classes) and all(c is not None and _is_class(module, c) for c in classes)


def _in_table(module: Module, d: Definition) -> Iterator[ast.expr | None]:
    """The items of a table's rows that a name is unpacked from, ``_, _, cls = MODEL_CLASSES[args.model_type]``, or of a
    row that is written out."""
    value = d.value
    if isinstance(value, (ast.Tuple, ast.List)) and d.kind == "assign" and d.index is not None:
        yield value.elts[d.index] if 0 <= d.index < len(value.elts) else None
        return
    if d.kind != "assign" or not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name):
        yield None
        return
    for table in module.bindings.reaching(value.value):
        rows = table.value.values if isinstance(table.value, ast.Dict) else [None]
        for row in rows:
            if d.index is None:
                yield row
            elif isinstance(row, (ast.Tuple, ast.List)) and 0 <= d.index < len(row.elts):
                yield row.elts[d.index]
            else:
                yield None


def _last(qualified: str) -> str:
    return qualified.rpartition(".")[2]


__all__ = ["GIVES", "is_tokenizer", "reads_text", "text_of_ids"]
