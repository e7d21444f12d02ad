"""Classes of the project that average: run as they are written where that is possible, else by a stand-in."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.metrics.meters import Meter
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
    if len(classes) == 1 and isinstance(made, ast.Call) and not meter.held_in:
        label = f"C_{classes[0].name}"
        translated = functions.get(label) or _class(loop, classes[0], label, attributes, functions)
        body = translated.body if isinstance(translated, ast.ClassDef) else []
        methods = frozenset(f.name for f in body if isinstance(f, ast.FunctionDef))
        if translated is not None and methods and (not meter.method or meter.method in methods):
            functions[label] = translated
            loop.known.classes[text] = methods
            given = [loop.outside.value(a) for a in made.args]
            return call(name(label), *given, **{k.arg: loop.outside.value(k.value) for k in made.keywords if k.arg})
    loop.known.stand_ins[text_of(made)] = "a meter that adds up a sum and a count"
    stand_in = call(name("METER"), *(ast.Constant(attribute) for attribute in attributes))
    if meter.held_in:
        stand_in = call(name("LOGGER"), ast.Constant(meter.held_in))
    if classes:
        loop.known.resting[stand_in] = f"`{classes[0].name}` adds up values and their weights"
    return stand_in


def _class(
    loop: Loop, cls: ast.ClassDef, label: str, attributes: tuple[str, str, str], functions: dict[str, ast.stmt]
) -> ast.ClassDef | None:
    """A class whose methods are translated; None where one that counts can't be."""
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
        )
        before = len(loop.known.assumed)
        try:
            body.append(_method(literal, function))
        except Stop:
            del loop.known.assumed[before:]
            if function.name in _NEEDED:
                return None
    made = ast.parse(f"class {label}: pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.body = body
    return made


def _method(literal: Literal, function: ast.FunctionDef) -> ast.FunctionDef:
    decorators = [ast.unparse(d) for d in function.decorator_list]
    defaults = [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]
    if decorators not in ([], ["property"]) or function.args.vararg or function.args.kwarg:
        raise literal.known.stop(f"`{function.name}` is not seen whole", function)
    args = bare(function.args)
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
