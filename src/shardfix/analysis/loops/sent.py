"""Values that one process alone had: whether the others get them sent, so that all may read what all have by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.processes import distributed_test, every_guard
from shardfix.analysis.programs.together import together

TAKES = frozenset({"broadcast", "broadcast_object_list", "step"})
_SENDS = frozenset({"broadcast", "broadcast_object_list"})
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def is_sent_before(module: Module, reader: ast.AST) -> bool:
    """Whether a name is sent to all ranks before a place reads it: ``broadcast_object_list(sent); acc = sent[0]``."""
    if not isinstance(reader, ast.Name):
        return False
    made = set(module.bindings.reaching(reader))
    return any(made & set(module.bindings.reaching(given)) for given in _sent(module, reader))


def is_put_into_sent(module: Module, reader: ast.AST) -> bool:
    """Whether a value goes into a list that is sent to all ranks before anything else reads it: ``sent = [acc]``."""
    holder = module.parents.get(reader)
    statement = module.parents.get(holder) if isinstance(holder, (ast.List, ast.Tuple)) else None
    if not isinstance(statement, ast.Assign) or statement.value is not holder:
        return False
    made = [d for d in module.bindings.definitions if d.statement is statement]
    return bool(made) and all(_goes_by_sending(module, d) for d in made)


def _goes_by_sending(module: Module, d: Definition) -> bool:
    readers = module.bindings.readers(d)
    return any(_is_sent(module, r) for r in readers) and all(
        _is_sent(module, r) or is_sent_before(module, r) for r in readers
    )


def _sent(module: Module, reader: ast.Name) -> Iterator[ast.Name]:
    """The places at which a name is sent to all ranks above another place, in the same block or one around that."""
    for outer in (reader, *module.around(reader)):
        if isinstance(outer, _Functions):
            return
        if isinstance(outer, ast.stmt):
            block = module.block(outer)
            for call in _always_called(block[: block.index(outer)] if outer in block else []):
                yield from (a for a in call.args if isinstance(a, ast.Name) and a.id == reader.id)


def _always_called(statements: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """The calls that send a value, to which all of several processes come."""
    for s in statements:
        if isinstance(s, ast.If) and distributed_test(s.test) is True:
            yield from _always_called(s.body)  # one process is the one that had the value all along
        elif isinstance(s, (ast.Expr, ast.Assign)) and isinstance(s.value, ast.Call):
            if last_name(s.value.func) in _SENDS:
                yield s.value


def _is_sent(module: Module, name: ast.AST) -> bool:
    call = module.parents.get(name)
    return isinstance(call, ast.Call) and name in call.args and last_name(call.func) in _SENDS


def read_by_all(module: Module, attribute: ast.Attribute) -> ast.AST | None:
    """Where an attribute of that name is read by all ranks; None where one process alone reads it: where it sets it, or
    under a condition on the rank. Of ``self`` it is one of the same class; of any other object it may be, in what runs
    with the file.
    """
    own = module.home(attribute)
    for home in together(module):
        for load in home.attribute_loads.get(attribute.attr, ()):
            if not _of_another_class(own, attribute, home, load) and None in every_guard(home, load):
                return load
    return None


def _of_another_class(own: Module, attribute: ast.Attribute, home: Module, load: ast.Attribute) -> bool:
    """Whether two attributes are of ``self`` in classes that have nothing to do with each other."""
    if not all(isinstance(a.value, ast.Name) and a.value.id == "self" for a in (attribute, load)):
        return False
    one, other = own.class_of(attribute), home.class_of(load)
    return one is not None and other is not None and one not in home.lineage(other) and other not in own.lineage(one)


__all__ = ["TAKES", "is_put_into_sent", "is_sent_before", "read_by_all"]
