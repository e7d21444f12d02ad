"""Classes of the project that average: run as they are written where that is possible, else by a stand-in."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.metrics.meters import Meter, averaging
from shardfix.proof.metrics.allowed import is_literal
from shardfix.proof.metrics.functions import bare, refused
from shardfix.proof.metrics.literal import Literal
from shardfix.proof.metrics.loop import Loop
from shardfix.proof.metrics.outputs import Outputs
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign
from shardfix.proof.stop import Stop

_NEEDED = frozenset({"__init__", "update"})


def made_meter(loop: Loop, text: str, made: ast.expr, meter: Meter, functions: dict[str, ast.stmt]) -> ast.expr:
    """The construction of an averaging object.

    Args:
        text: what it is called; ``made``: as the program constructs it.
        functions: the classes and functions of the project that were translated; added to.
    """
    attributes = (meter.sum, meter.count, meter.average)
    classes = loop.module.project_classes(made.func) if isinstance(made, ast.Call) else []
    if len(classes) == 1 and isinstance(made, ast.Call):
        translated = _classes(loop, classes[0], meter, functions)
        methods = _methods(translated.get(classes[0].name))
        if methods and (not meter.method or meter.method in methods):
            functions.update({f"C_{cls}": body for cls, body in translated.items()})
            loop.known.classes[text] = methods
            given = [loop.outside.value(a) for a in made.args]
            keywords = {k.arg: loop.outside.value(k.value) for k in made.keywords if k.arg}
            return call(name(f"C_{classes[0].name}"), *given, **keywords)
    loop.known.stand_ins[text_of(made)] = "a meter that adds up a sum and a count"
    stand_in = call(name("METER"), *(ast.Constant(attribute) for attribute in attributes))
    if meter.held_in:
        stand_in = call(name("LOGGER"), ast.Constant(meter.held_in))
    if classes:
        loop.known.resting[stand_in] = f"`{classes[0].name}` adds up values and their weights"
    return stand_in


def _classes(loop: Loop, cls: ast.ClassDef, meter: Meter, functions: dict[str, ast.stmt]) -> dict[str, ast.ClassDef]:
    """The class of an averaging object, translated, and that of what it holds; empty where they can't be."""
    inner = _held(loop, cls, meter)
    if meter.held_in and inner is None:
        return {}
    found: dict[str, ast.ClassDef] = {}
    if inner is not None:
        held, kept = inner
        translated = _class(loop, held, (kept.sum, kept.count, kept.average), functions)
        if translated is None or kept.method not in _methods(translated):
            return {}
        found[held.name] = translated
    attributes = (meter.held_in,) if meter.held_in else (meter.sum, meter.count, meter.average)
    own = _class(loop, cls, attributes, functions, inner[0] if inner is not None else None, _methods(*found.values()))
    if own is None or (inner is not None and "__getattr__" in _names(cls) and "__getattr__" not in _methods(own)):
        return {}
    return {**found, cls.name: own}


def _held(loop: Loop, cls: ast.ClassDef, meter: Meter) -> tuple[ast.ClassDef, Meter] | None:
    """The class of the averaging objects that an object holds, and what is known of it."""
    for d in loop.module.attribute_values(cls, meter.held_in) if meter.held_in else ():
        given = d.value.args if isinstance(d.value, ast.Call) else []
        classes = loop.module.project_classes(given[0]) if len(given) == 1 else []
        kept = averaging(loop.module, classes[0]) if len(classes) == 1 else None
        return (classes[0], kept) if kept is not None else None
    return None


def _methods(*translated: ast.ClassDef | None) -> frozenset[str]:
    return frozenset(name for cls in translated if cls is not None for name in _names(cls))


def _names(cls: ast.ClassDef) -> list[str]:
    return [f.name for f in cls.body if isinstance(f, ast.FunctionDef)]


def _class(
    loop: Loop,
    cls: ast.ClassDef,
    attributes: tuple[str, ...],
    functions: dict[str, ast.stmt],
    holds: ast.ClassDef | None = None,
    called: frozenset[str] = frozenset(),
) -> ast.ClassDef | None:
    """A class whose methods are translated; None where one that counts can't be.

    Args:
        holds: the class of the objects that it makes; ``called``: the methods of these.
    """
    if any(ast.unparse(b) != "object" for b in cls.bases) or cls.keywords or cls.decorator_list:
        return None
    home = loop.module.home(cls)
    own = [f for f in cls.body if isinstance(f, ast.FunctionDef)]
    written = {
        f"self.{n.attr}" for n in ast.walk(cls) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"
    }
    body: list[ast.stmt] = [assign("ATTRIBUTES", ast.Tuple([ast.Constant(a) for a in attributes], ast.Load()))]
    for function in own:
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names = {n: n for n in stored | {a.arg for a in parameters(function)}}
        if holds is not None:
            names[holds.name] = f"C_{holds.name}"
        known = replace(
            loop.known,
            module=home,
            loaders=(),
            dataset="",
            tracked=names | {text: text for text in written},
            meters={},
            classes={},
            weighted=set(),
            local=[],
        )
        literal = Literal(
            known,
            Outputs(known, lambda _: ""),
            loop.outside.value,
            lambda *_: None,
            lambda n, known=known: refused(known, n),  # type: ignore[misc]
            functions,
            depth=1,
            methods=frozenset(f.name for f in own),
            called=called,
        )
        before, stand_ins = len(loop.known.assumed), dict(loop.known.stand_ins)
        try:
            body.append(_method(literal, function))
        except Stop:
            del loop.known.assumed[before:]
            loop.known.stand_ins.clear()
            loop.known.stand_ins.update(stand_ins)
            if function.name in _NEEDED:
                return None
    made = ast.parse(f"class C_{cls.name}: pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.body = body
    return made


def _method(literal: Literal, function: ast.FunctionDef) -> ast.FunctionDef:
    decorators = [ast.unparse(d) for d in function.decorator_list]
    defaults = [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]
    if decorators not in ([], ["property"]) or function.args.vararg:
        raise literal.known.stop(f"`{function.name}` is not seen whole", function)
    args = bare(function.args)
    args.kwarg = ast.arg(function.args.kwarg.arg) if function.args.kwarg is not None else None
    args.defaults = [d if is_literal(d) else ast.Constant(None) for d in args.defaults]
    args.kw_defaults = [d if d is None or is_literal(d) else ast.Constant(None) for d in args.kw_defaults]
    if any(not is_literal(d) for d in defaults) and function.name in ("update",):
        raise literal.known.stop(f"`{function.name}` is not seen whole", function)
    made = ast.parse(f"def {function.name}(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = args, literal.block(function.body) or [ast.Pass()]
    made.decorator_list = [name(text) for text in decorators]
    return made


__all__ = ["made_meter"]
