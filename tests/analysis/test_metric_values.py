"""How a value in an evaluation loop depends on the samples: what is not shown to be apart for each is unknown."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.metrics.quantities import Value
from shardfix.analysis.metrics.values import Values

HEAD = """\
import numpy as np
import scipy.stats
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


def similarity(a, b):
    return a @ b.t()


def normed(d):
    return (d - d.min()) / (d.max() - d.min())


def shown(d):
    return d.sigmoid() > 0.5


def first_is_zero(t):
    t[0] = 0
    return None


def make_loss():
    return nn.CrossEntropyLoss()


criterion = make_loss()
softmax = nn.Softmax(dim=1)
over_samples = nn.Softmax(dim=0)
softmax_of_last = nn.Softmax(dim=-1)
model.eval()
"""


def value(expression: str, *before: str) -> Value:
    """What an expression is, after these lines in the loop."""
    lines = [*before, f"found = {expression}"]
    found = module(HEAD + "for x, y in loader:\n" + "".join(f"    {line}\n" for line in lines))
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For))
    last = next(
        n
        for n in ast.walk(loop)
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id == "found"
    )
    return Values(found, loop, loop).of(last.value)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("(model(x).argmax(1) == y).sum().item()", "sum"),
        ("(shown(model(x)) == y).sum()", "sum"),
        ("(softmax(model(x)).argmax(1) == y).sum()", "sum"),
        ("(F.softmax(model(x), dim=1).argmax(dim=1) == y).sum()", "sum"),
        ("(F.softmax(model(x), -1)[:, 1] - y).abs().sum()", "sum"),
        ("model(x)[:, 0].sum()", "sum"),
        ("(torch.flip(model(x), [3]) - y).sum()", "sum"),
        ("(torch.cat([model(x), model(x)], dim=1) - y).sum()", "sum"),
        ("torch.where(y > 0, y, 0).sum()", "sum"),
        ("np.bincount(4 * y.numpy() + model(x).argmax(1).numpy(), minlength=16).reshape(4, 4)", "sum"),
        ("y.numel()", "sum"),
        ("int((y == 1).sum())", "sum"),
        ("int((y == 1).float().sum().item())", "sum"),
        ("int(((y == 1) & (x > 0)).sum())", "sum"),
        ("int(len(y))", "count"),
        ("float(y.sum())", "sum"),
        ("-(y == 1).sum()", "sum"),
        ("((model(x) @ weights) - y).sum()", "sum"),
        ("y.tolist()", "samples"),
        ("model(x).softmax(-1)", "output"),
        ("model(x).argmax(-1)", "samples"),
        ("F.one_hot(y, 4).argmax(-1)", "samples"),
        ("model(x)[:, :3].softmax(-1)", "samples"),
        ("softmax_of_last(model(x))", "output"),
        ("torch.stack([y, y], dim=-1)", "samples"),
        ("model(x, labels=y)[1]", "output"),
        ("model(x)[:, :args.classes].argmax(1)", "samples"),
        ("[a + b for a, b in zip(y.tolist(), model(x))]", "samples"),
        ("weights[y, :2]", "samples"),
        ("y.unsqueeze(1).tolist()", "samples"),
        ("sum(int(a == b) for a, b in zip(y.tolist(), model(x).argmax(1).tolist()))", "sum"),
    ],
)
def test_what_is_apart_for_each_sample(expression: str, kind: str) -> None:
    assert value(expression).kind == kind


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(similarity(model(x), x).argmax(1) == y).sum()", id="a project function compares the samples"),
        pytest.param("(normed(model(x)[:, 0]) - y).abs().sum()", id="a project function norms by the batch"),
        pytest.param("(model(x) / model(x).std() - y).sum()", id="divided by a deviation"),
        pytest.param("(model(x).flip(0) - y).sum()", id="turned round"),
        pytest.param("(torch.roll(model(x), 1) - y).sum()", id="rolled"),
        pytest.param("(model(x) - torch.quantile(model(x)[:, 0], .5) - y).sum()", id="a quantile"),
        pytest.param("sum(a == b for a, b in zip(sorted(model(x).tolist()), y.tolist()))", id="sorted"),
        pytest.param("(torch.matmul(model(x), model(x).t()) - y).sum()", id="matmul of the rows"),
        pytest.param("(scipy.stats.zscore(model(x)) - y).sum()", id="another library"),
        pytest.param("(unseen(model(x)) - y).sum()", id="a function that is not seen"),
        pytest.param("(model(x).clamp(max=model(x).mean()) - y).sum()", id="clamped by the batch"),
        pytest.param("(F.softmax(model(x), dim=0) * y).sum()", id="softmax over the samples"),
        pytest.param("(F.softmax(model(x)) * y).sum()", id="softmax over an unseen dimension"),
        pytest.param("(F.normalize(model(x), dim=0) * y).sum()", id="normalized over the samples"),
        pytest.param("(over_samples(model(x)) * y).sum()", id="a softmax module over the samples"),
        pytest.param("int(y.sum())", id="a total cut off"),
        pytest.param("abs((model(x)[:, 0] - y).sum())", id="the size of a total"),
        pytest.param("(model(x)[:, 0] - y).sum().long()", id="a total as whole numbers"),
        pytest.param("(y == 1).sum().bool()", id="a total as a truth"),
        pytest.param("(model(x)[:, 0] - y).sum().half()", id="a total as a short float"),
        pytest.param("(model(x)[:, 0] - y).sum().to(torch.int64)", id="a total to whole numbers"),
        pytest.param("int(F.cross_entropy(model(x), y) * 100) * len(y)", id="a mean cut off"),
        pytest.param("not (y == 1).sum().item()", id="not of a total"),
        pytest.param("(unseen_loss(model(x), y) * y).sum()", id="a loss that is not seen"),
        pytest.param("(y.unsqueeze(1) == y.unsqueeze(0)).sum()", id="each with each"),
        pytest.param("y.unsqueeze(0).eq(y.unsqueeze(1)).sum()", id="each with each by a method"),
        pytest.param("sum(int(a == b) for a in y.tolist() for b in y.tolist())", id="each with each one by one"),
        pytest.param("model(x).softmax(1)[:, y].sum()", id="columns that the batch's labels choose"),
        pytest.param("x.float()[:, y].sum()", id="columns of rows that the batch's labels choose"),
        pytest.param("sum(1 for a in x.tolist() if a > y.max())", id="a condition on the batch"),
        pytest.param("sum(1 for a in y.tolist() for b in y.tolist())", id="pairs"),
        pytest.param("len({a for a in y.tolist()})", id="a set of the batch"),
        pytest.param("len({a: 1 for a in y.tolist()})", id="a dict of the batch"),
        pytest.param("y.tolist() * 2", id="a list repeated"),
        pytest.param("((model(x).argmax(1) == y) * weights[:len(y)]).sum()", id="weights by the place in the batch"),
        pytest.param("(model(x).argmax(1) == targets[:x.size(0)]).sum()", id="targets by the place in the batch"),
        pytest.param("(model(x)[:, :x.size(0)] == y).sum()", id="as many columns as samples"),
        pytest.param("(weights[y, :2] + targets[:y.max()]).sum()", id="a table cut off by the batch"),
        pytest.param("sum(a * w for a, w in zip(y.tolist(), weights))", id="weights one by one"),
        pytest.param("[n + str(a) for n, a in zip(names, y.tolist())]", id="names that go on"),
        pytest.param("sum(a * k for a, k in zip(y.tolist(), range(len(y))))", id="places one by one"),
        pytest.param("torch.softmax(model(x)[:, 0], dim=-1)", id="along the last of one dimension"),
        pytest.param("(model(x).argmax(1) == y).float().mean(-1)", id="a mean along the last dimension"),
        pytest.param("model(x)[:, 0].topk(1).values", id="the largest along the last dimension"),
        pytest.param("model(x)[:, 0].argsort(-1)", id="sorted along the last dimension"),
        pytest.param("F.normalize(model(x)[:, 0], dim=-1)", id="a norm along the last dimension"),
        pytest.param("y.cumsum(-1)", id="added up along the last dimension"),
        pytest.param("y[..., 0]", id="the first of the last dimension"),
        pytest.param("softmax_of_last(model(x)[:, 0])", id="a layer along the last dimension"),
        pytest.param("torch.cat([y, y], dim=-1)", id="joined along the last dimension"),
        pytest.param("model(x).softmax(-2)", id="along the last but one"),
        pytest.param("y.unsqueeze(d) == y.unsqueeze(1)", id="widened along a dimension that is not seen"),
        pytest.param("model(x)[0]", id="the first row"),
        pytest.param("model(x)[-1]", id="the last row"),
        pytest.param("y.tolist() + y.tolist()", id="a list behind another"),
    ],
)
def test_what_depends_on_the_other_samples_of_the_batch(expression: str) -> None:
    assert value(expression).kind == "unknown"


def test_a_criterion_from_a_factory_gives_a_mean() -> None:
    assert value("criterion(model(x), y)").kind == "mean"
    assert value("(criterion(model(x), y) * y).sum()").kind == "unknown"


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ("o[0] = 0.0", "unknown"),
        ("o.reverse()", "unknown"),
        ("o.sub_(o.mean())", "unknown"),
        ("np.random.shuffle(o)", "unknown"),
        ("o[y == 1] = 0.0", "sum"),
        ("o[:, 0] = 0.0", "sum"),
        ("o.clamp_(0, 1)", "sum"),
    ],
)
def test_rows_that_are_changed_in_place(before: str, kind: str) -> None:
    assert value("(o == y).sum()", "o = model(x)", before).kind == kind


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        pytest.param(("z = y", "z[0] = 0"), "unknown", id="another name"),
        pytest.param(("z = y.numpy()", "z[-1] = 3"), "unknown", id="an array of the same memory"),
        pytest.param(("z = y.numpy()", "z.sort()"), "unknown", id="sorted"),
        pytest.param(("y.view(-1)[0] = 3",), "unknown", id="a view"),
        pytest.param(("y.data[0] = 3",), "unknown", id="data"),
        pytest.param(("y[0].zero_()",), "unknown", id="one sample's row"),
        pytest.param(("o[0][0] = 99.0",), "unknown", id="an item of an item"),
        pytest.param(("for t in (y,):", "    t[0] = 3"), "unknown", id="a loop over it"),
        pytest.param(("y.copy_(y.flip(0))",), "unknown", id="copied over"),
        pytest.param(("_ = first_is_zero(y)",), "unknown", id="a function of the project"),
        pytest.param(("if y.sum() > 5:", "    o.neg_()"), "unknown", id="for some batches"),
        pytest.param(("np.copyto(y.numpy(), 3)",), "unknown", id="a function of numpy"),
        pytest.param(("z = y", "z -= z.max()"), "unknown", id="augmented"),
        pytest.param(("b = SimpleNamespace(y=y)", "b.y[0] = 3"), "unknown", id="an object that holds it"),
        pytest.param(("z = y", "z[z == 3] = 0"), "sum", id="a mask, by another name"),
        pytest.param(("z = y.clone()", "z[0] = 0"), "sum", id="a copy"),
        pytest.param(("z = y + 0", "z[0] = 0"), "sum", id="something new"),
        pytest.param(("o[:, 0].zero_()",), "sum", id="a column"),
        pytest.param(("z = y", "z *= 2"), "sum", id="augmented by itself"),
        pytest.param(("for t in y:", "    t[0] = 3"), "sum", id="each sample's own"),
    ],
)
def test_rows_that_are_changed_by_another_name(before: tuple[str, ...], kind: str) -> None:
    assert value("(o.argmax(1) == y).sum()", "o = model(x)", *before).kind == kind


def test_what_shares_a_batch_that_is_changed() -> None:
    assert value("(model(batch['x']) == batch['y']).sum()", "batch = {'x': x, 'y': y}").kind == "sum"
    changed = ("batch = {'x': x, 'y': y}", "batch['y'][0] = 3")
    assert value("(model(batch['x']) == batch['y']).sum()", *changed).kind == "unknown"


def test_a_batch_may_be_filled_by_name() -> None:
    assert value("(model(**batch).logits == y).sum()", "batch = {'a': x}", "batch['b'] = y").kind == "sum"


def test_what_samples_of_one_batch_leave_behind_is_not_one_samples() -> None:
    lines = ("seen = set()", "for a in y.tolist():", "    seen.add(a)")
    assert value("[a in seen for a in y.tolist()]", *lines).kind == "unknown"


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        (("if o.max() > 1:", "    o = o / 255"), "unknown"),
        (("if args.scaled:", "    o = o / 255"), "sum"),
        (("if o.dim() > 2:", "    o = o[:, :, 0]"), "sum"),
        (("if isinstance(o, tuple):", "    o = o[0]"), "sum"),
    ],
)
def test_rows_that_only_some_batches_change(before: tuple[str, ...], kind: str) -> None:
    assert value("(o == y).sum()", "o = model(x)", *before).kind == kind


def test_a_function_that_reads_the_batch_from_around_it() -> None:
    assert value("sum(more(a) for a in y.tolist())", "more = lambda a: a > y.max()").kind == "unknown"
    assert value("(more(model(x)) == y).sum()", "def more(a):", "    return a - y").kind == "unknown"


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        pytest.param(("o = model(x)",), "unknown", id="perhaps a tensor"),
        pytest.param(("o = model(x, mask=y)",), "output", id="called by keywords"),
        pytest.param(("o = model(x)", "loss, _ = o"), "output", id="unpacked"),
        pytest.param(("o = model(x)", "loss = o.loss"), "output", id="with a loss"),
        pytest.param(("o = model(x)", "loss = o[0]"), "output", id="several numbers"),
    ],
)
def test_an_output_of_a_model_by_its_number(before: tuple[str, ...], kind: str) -> None:
    assert value("o[1]", *before).kind == kind


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        pytest.param(("    rows.append(int(a) + 1)",), "samples", id="one for each"),
        pytest.param(("    b = a * 2", "    rows.append([b] * len(names))"), "samples", id="of names of its own"),
        pytest.param(("    if a > 1:", "        rows.append(a)"), "unknown", id="for some"),
        pytest.param(("    rows.append(a)", "    rows.append(a)"), "unknown", id="two for each"),
        pytest.param(("    for c in names:", "        rows.append(c)"), "unknown", id="several for each"),
        pytest.param(("    rows.append(a - last)", "    last = a"), "unknown", id="beside the one before"),
        pytest.param(("    last += a", "    rows.append(last)"), "unknown", id="added up"),
        pytest.param(("    if a > 1:", "        break", "    rows.append(a)"), "unknown", id="up to one"),
        pytest.param(("    rows.append(y.max())",), "unknown", id="of the batch"),
    ],
)
def test_a_list_that_a_function_fills_for_each_sample(lines: tuple[str, ...], kind: str) -> None:
    text = "\n".join(f"    {line}" for line in ("rows = []", "last = 0", "for a in y:", *lines, "return rows"))
    found = module(f"{HEAD}def listed(y):\n{text}\nfor x, y in loader:\n    found = listed(y)\n")
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For) and ast.unparse(n.iter) == "loader")
    last = loop.body[-1]
    assert isinstance(last, ast.Assign)
    assert Values(found, loop, loop).of(last.value).kind == kind
