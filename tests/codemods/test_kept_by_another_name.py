"""A list that an evaluation fills by another name, or by a method that is called in another way, is seen too."""

from __future__ import annotations

import pytest
from counting import counting
from plans import planned

KEEP = "class Keep:\n    {}\n"


def note(*lines: str, head: str = "", given: str = "y, h", with_: str = "y, h") -> str:
    """A function that is called in the loop with the batch's labels and a list from outside."""
    body = "".join(f"    {line}\n" for line in lines)
    made = f"{head}def note({given}):\n{body}    return 1\n"
    return counting(f"z = note({with_})", before="h = []", returns="n, h", head=made)


def made(keep: str, given: str = "y", returns: str = "n, SEEN") -> str:
    """A class that is made in the loop."""
    return counting(f"z = Keep({given})", before="h = []", returns=returns, head=f"SEEN = []\n{keep}")


BY_DUNDER = {
    name: counting(f"k = {call}", before=f"h = {begun}", returns=f"n, {read}")
    for name, call, begun, read in (
        ("__iadd__", "h.__iadd__(y.tolist())", "[]", "h"),
        ("__setitem__", "h.__setitem__(len(h), y)", "{}", "h"),
        ("__delitem__", "h.__delitem__(0)", "list(range(99))", "h"),
        ("__setattr__", "h.__setattr__('x', y)", "Box()", "h.x"),
        ("setattr", "setattr(h, 'x', y)", "Box()", "h.x"),
        ("operator.iadd", "operator.iadd(h, y.tolist())", "[]", "h"),
        ("operator.setitem", "operator.setitem(h, len(h), y)", "{}", "h"),
        ("list.append", "list.append(h, y)", "[]", "h"),
        ("getattr", "getattr(h, 'append')(y)", "[]", "h"),
        ("reverse", "h.reverse()", "[1, 2]", "h"),
        ("out", "torch.add(y, 1, out=h)", "torch.zeros(4)", "h"),
        ("copyto", "np.copyto(h, y)", "np.zeros(4)", "h"),
        ("load_state_dict", "h.load_state_dict(y)", "Box()", "h"),
        ("clear", "h.clear(); h.append(y)", "[]", "h"),
        ("an unread clear", "h.clear()", "{'a': 1}", "h"),
    )
}
ROWS = "class Rows:\n    kept = []\n    def collect(self, y): self.kept.append(y)\n"
HANDED_ON = {
    "put under a name": counting("k = add(y)", before="h = []\nadd = h.append", returns="n, h"),
    "map": counting("k = list(map(h.append, y.tolist()))", before="h = []", returns="n, h"),
    "partial": counting("k = add()", before="h = []\nadd = functools.partial(h.append, 1)", returns="n, h"),
    "an argument": counting(
        "k = apply(y, h.append)", before="h = []", returns="n, h", head="def apply(y, f):\n    f(y)\n    return y\n"
    ),
    "a function, to sort by": counting(
        "k = sorted(y.tolist(), key=keep)",
        returns="n, SEEN",
        head="SEEN = []\ndef keep(t):\n    SEEN.append(t)\n    return t\n",
    ),
    "a method": counting("z = add(y)", before="h = Rows()\nadd = h.collect", returns="n, h", head=ROWS),
    "a method, by its name": counting("z = getattr(h, 'collect')(y)", before="h = Rows()", returns="n, h", head=ROWS),
    "a method, to map": counting("z = [*map(h.collect, y)]", before="h = Rows()", returns="n, h", head=ROWS),
    "a function, with what it fills": counting(
        "z = functools.reduce(keep, y.tolist(), h)",
        before="h = []",
        returns="n, h",
        head="def keep(h, t):\n    h.append(t)\n    return h\n",
    ),
    "a list of functions": counting(
        "for f in fns:\n    z = f(y)",
        before="fns = [keep]",
        returns="n, SEEN",
        head="SEEN = []\ndef keep(y): SEEN.append(y)\n",
    ),
    "a dict of functions": counting(
        "z = h['add'](y)",
        before="h = meter()",
        returns="n, h['get']()",
        head="def meter():\n    s = []\n    def add(y):\n        s.append(y)\n"
        "    return {'add': add, 'get': lambda: sum(s)}\n",
    ),
    "a function, by the caller": counting(
        "z = f(y)", returns="n, SEEN", head="SEEN = []\ndef keep(y): SEEN.append(y)\n"
    )
    .replace("validate(model, loader)", "validate(model, loader, f)")
    .replace("validate(model, val_loader)", "validate(model, val_loader, keep)"),
    "partial of a function": counting(
        "k = f(y)",
        before="h = []\nf = functools.partial(keep, h)",
        returns="n, h",
        head="def keep(h, y):\n    h.append(y)\n    return y\n",
    ),
}
BY_A_CLASS = {
    "__init__": made(KEEP.format("def __init__(self, y): SEEN.append(y)")),
    "__new__": made(KEEP.format("def __new__(cls, y):\n        SEEN.append(y)\n        return object.__new__(cls)")),
    "given": made(KEEP.format("def __init__(self, y, h): h.append(y)"), "y, h", "n, h"),
    "of the class": made(KEEP.format("all = []\n    def __init__(self, y): self.all.append(y)"), returns="n, Keep.all"),
    "counted in the class": made(
        KEEP.format("all = 0\n    def __init__(self, y): type(self).all += 1"), returns="n / Keep.all"
    ),
    "of the class above": made(
        "class Base:\n    def __init__(self, y): SEEN.append(y)\nclass Keep(Base):\n    pass\n",
    ),
    "by super": made(
        "class Base:\n    def __init__(self, y): SEEN.append(y)\n"
        "class Keep(Base):\n    def __init__(self, y): super().__init__(y)\n"
    ),
    "a class method": counting(
        "z = Keep.add(y)",
        returns="n, Keep.all",
        head=KEEP.format("all = []\n    @classmethod\n    def add(cls, y):\n        cls.all.append(y)"),
    ),
    "in another function": counting(
        "z = make(y)",
        returns="n, SEEN",
        head="SEEN = []\nclass Keep:\n    def __init__(self, y): SEEN.append(y)\ndef make(y):\n    return Keep(y)\n",
    ),
}
BOX = "class Box:\n    def __init__(self, h=None): self.h = h\n"
IN_A_FUNCTION = {
    "an attribute": note("b = Box()", "b.x = h", "b.x.append(y)"),
    "an item": note("b = {}", "b['x'] = h", "b['x'].append(y)"),
    "a list of it": note("b = [h]", "b[0].append(y)"),
    "one of two": note("a, b = y, h", "b.append(a)"),
    "one or the other": note("b = h if h else []", "b.append(y)"),
    "or": note("b = h or []", "b.append(y)"),
    "given back": note("b = same(h)", "b.append(y)", head="def same(h):\n    return h\n"),
    "an object that holds it": note("b = Box(h)", "b.h.append(y)", head=BOX),
    "a context": note("with nullcontext(h) as b:", "    b.append(y)", head="from contextlib import nullcontext\n"),
    "by position": note("a[1].append(a[0])", given="*a"),
    "by name": note("a['h'].append(a['y'])", given="**a", with_="y=y, h=h"),
    "in a list of them": note("h[0].append(y)", with_="y, [h]"),
    "by a function in it": note("def add():", "    h.append(y)", "add()"),
    "its default": counting(
        "z = note(y)", returns="n, note.__defaults__", head="def note(y, h=[]):\n    h.append(y)\n    return 1\n"
    ),
}
SHARED = "class Keep:\n    rows = []\n"
IN_THE_LOOP = {
    name: counting(*body, before="h = [0]", returns="n, h", head=BOX + "def same(h):\n    return h\n")
    for name, body in {
        "a name": ("b = h", "b.append(y.sum())"),
        "a name, by many": ("b = h", "b.extend(y.tolist())"),
        "an attribute": ("b = Box()", "b.x = h", "b.x.append(y)"),
        "an item": ("b = {'x': h}", "b['x'].append(y)"),
        "a list of it": ("b = [h]", "b[0].append(y)"),
        "one of two": ("b, c = h, y", "b.append(c)"),
        "or": ("b = h or []", "b.append(y)"),
        "given back": ("b = same(h)", "b.append(y)"),
        "an object that holds it": ("b = Box(h)", "b.h.append(y)"),
    }.items()
} | {
    "a list of its class": counting("b = Keep.rows", "b.append(y)", returns="n, Keep.rows", head=SHARED),
    "a list of the class of what is made": counting(
        "b = Keep()", "b.rows.append(y)", returns="n, Keep.rows", head=SHARED
    ),
    "the one object of a class": counting(
        "b = Keep()",
        "b.rows.append(y)",
        returns="n, Keep().rows",
        head="class Keep:\n    one = None\n    def __new__(cls):\n        cls.one = cls.one or object.__new__(cls)\n"
        "        return cls.one\n",
    ),
    "what a class takes from its file": counting(
        "b = Keep()",
        "b.rows.append(y)",
        returns="n, ROWS",
        head="ROWS = []\nclass Keep:\n    def __init__(self): self.rows = ROWS\n",
    ),
    "what a property gives": counting(
        "b = Keep()",
        "b.rows.append(y)",
        returns="n, ROWS",
        head="ROWS = []\nclass Keep:\n    @property\n    def rows(self): return ROWS\n",
    ),
    "what a default gives": counting(
        "b = rows()", "b.append(y)", returns="n, rows()", head="def rows(given=[]): return given\n"
    ),
    "an item beside others": counting("b = {'x': h, 'y': y}", "b['x'].append(y)", before="h = []", returns="n, h"),
    "an item of a dict": counting("b = h['a']", "b['n'] += len(y)", before="h = {'a': {'n': 0}}", returns="n, h"),
    "an attribute of another": counting("b = t.rows", "b.extend(y.tolist())", before="t = make()", returns="n, t"),
    "what a cache gives": counting(
        "b = box()", "b.append(y)", returns="n, box()", head="@functools.lru_cache(None)\ndef box():\n    return []\n"
    ),
}


@pytest.mark.parametrize("text", BY_DUNDER.values(), ids=BY_DUNDER)
def test_a_change_by_whatever_spelling(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize("text", HANDED_ON.values(), ids=HANDED_ON)
def test_a_change_that_is_handed_on(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize("text", BY_A_CLASS.values(), ids=BY_A_CLASS)
def test_a_change_by_a_class(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize("text", IN_A_FUNCTION.values(), ids=IN_A_FUNCTION)
def test_a_function_that_calls_it_something_else(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize("text", IN_THE_LOOP.values(), ids=IN_THE_LOOP)
def test_a_loop_that_calls_it_something_else(text: str) -> None:
    assert planned(text).changes == ()


NEAR = {
    "__len__": counting("k = h.__len__()", before="h = {}"),
    "__contains__": counting("k = h.__contains__(3)", before="h = {}"),
    "its own dict": counting("h = {}", "k = h.__setitem__(3, y)"),
    "a number of its class": counting("b = Keep.rows * 2", head="class Keep:\n    rows = 3\n"),
    "a list that it makes anew": counting(
        "b = Keep()", "b.rows.append(y)", head=SHARED + "    def __init__(self): self.rows = []\n"
    ),
    "its own list, by another name": counting("h = []", "b = h", "b.append(y)"),
    "an object of its own": counting("b = Box([])", "b.x = {}", "b.h.append(y)", "b.x[1] = y", head=BOX),
    "what it keeps for itself": counting(
        "z = Keep(y)", head="class Keep:\n    def __init__(self, y):\n        self.y = [y]\n        self.y.append(y)\n"
    ),
    "another item than what is from outside": counting(
        "b = {'y': [1]}", "b['h'] = h", "c = b['y']", "c.append(2)", "b['y'].append(3)", before="h = make()"
    ),
    "a copy": note("b = list(h)", "b.append(y)"),
    "what is read of it": note("b = {}", "b['x'] = len(h)", "b['x'] += 1"),
    "a default that is only read": counting("z = note(y)", head="def note(y, h=[]):\n    return len(h)\n"),
    "a function that only reads, to sort by": counting(
        "k = sorted(y.tolist(), key=keep)", head="def keep(t):\n    return -t\n"
    ),
    "a function that wraps it and keeps nothing": counting(
        "z = note(y)",
        head="def timed(f):\n    def inner(*a):\n        return f(*a)\n    return inner\n"
        "@timed\ndef note(y):\n    return y\n",
    ),
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_what_keeps_nothing(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
