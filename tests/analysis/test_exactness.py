"""A sharded evaluation is exact only where nothing that padding or another rank's share changes reaches its metric."""

from __future__ import annotations

import pytest
from loaders import site

from shardfix.analysis.loops.accumulation import accumulated

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
LOADER = "val_loader = DataLoader(val_set)\nhits = torch.zeros(len(val_set))\n"
MAX = "dist.all_reduce(hits, op=dist.ReduceOp.MAX)\n"
TURN = "p = [x for xs in zip(*o) for x in xs]\n"
EXACT_BY_MAX = "for x, idx, y in val_loader:\n    hits[idx] = x == y\n" + MAX


def is_exact(text: str) -> bool:
    return site(HEAD + LOADER + text).evaluation.exact is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(EXACT_BY_MAX, id="placed by the batch's index"),
        pytest.param(
            "for batch in val_loader:\n    index = batch['i'].to(device)\n    hits[index] = batch['x'] == 1\n" + MAX,
            id="an index out of a dict, moved",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    seen.extend(idx.tolist())\n" + MAX,
            id="the indices themselves collected",
        ),
        pytest.param(
            "def run(loader):\n    for x in loader:\n        p.append(x)\n    dist.all_gather(o, p)\n    "
            + TURN
            + "    p = p[: len(loader.dataset)]\nrun(val_loader)\n",
            id="cut at the loader's own dataset",
        ),
        pytest.param(
            "def run(loader, ds):\n    for x in loader:\n        p.append(x)\n    dist.all_gather(o, p)\n    "
            + TURN
            + "    p = p[: len(ds)]\nrun(val_loader, val_set)\n",
            id="cut at a parameter that is the dataset",
        ),
        pytest.param(
            "for x, index in val_loader:\n    index = index.cuda()\n"
            "    work = dist.all_gather(i, index, async_op=True)\n    work.wait()\n    dist.all_gather(o, model(x))\n"
            "    all_i = torch.cat(i)\n"
            "    bank.index_copy_(0, all_i.cpu(), torch.cat(o))\n",
            id="gathered index and gathered results",
        ),
    ],
)
def test_exact(text: str) -> None:
    assert is_exact(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("idx = 0\nfor x, y in val_loader:\n    hits[idx] = x == y\n    idx += 1\n" + MAX, id="a position"),
        pytest.param(
            "n = 0\nfor x, y in val_loader:\n    idx = torch.arange(n, n + len(x))\n    hits[idx] = x == y\n" + MAX,
            id="a range of positions",
        ),
        pytest.param(
            "for idx, (x, y) in zip(itertools.count(), val_loader):\n    hits[idx] = x == y\n" + MAX,
            id="zip counts",
        ),
        pytest.param("for x, video_ids, y in val_loader:\n    hits[video_ids] = x == y\n" + MAX, id="a group's index"),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = hits[idx] + (x == y)\n" + MAX, id="sums at an index"
        ),
        pytest.param(
            "for x, y in val_loader:\n    for idx in range(len(y)):\n        hits[y[idx]] = x == y\n" + MAX,
            id="an index inside the batch",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    loss += x\n" + MAX, id="a sum beside it"
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    break\n" + MAX, id="the loop is left early"
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\ndist.all_reduce(n, op=dist.ReduceOp.MAX)\n",
            id="another value is reduced",
        ),
        pytest.param(
            EXACT_BY_MAX + "def loss():\n    total = 0\n    for x, idx, y in val_loader:\n        total += x\n",
            id="another loop is not reduced",
        ),
        pytest.param(
            "for x in val_loader:\n    p.append(x @ w.t())\ndist.all_gather(o, p)\np = torch.cat(o)[: len(val_set)]\n",
            id="another matrix is transposed",
        ),
        pytest.param(
            "for b in val_loader:\n    x, y = zip(*b)\n    p.extend(x)\ndist.all_gather(o, p)\n"
            "p = torch.cat(o)[: len(val_set)]\n",
            id="the batch is unzipped",
        ),
        pytest.param(
            "for x in val_loader:\n    p.append(x)\ndist.all_gather(o, p)\n" + TURN + "p = p[: len(train_set)]\n",
            id="cut at another dataset's length",
        ),
        pytest.param(
            "for x, y in val_loader:\n    p.append(x)\n    labels.append(y)\ndist.all_gather(o, p)\n"
            + TURN
            + "p = p[: len(val_set)]\nn = sum(a == b for a, b in zip(p, labels))\n",
            id="the labels are not gathered",
        ),
        pytest.param(
            "for x, idx in val_loader:\n    dist.all_gather(o, x.mean())\n    bank.index_copy_(0, idx, x)\n",
            id="placed without being gathered",
        ),
        pytest.param(
            "for index, x in enumerate(val_loader):\n    dist.all_gather(i, index)\n    dist.all_gather(o, model(x))\n"
            "    bank.index_copy_(0, torch.cat(i), torch.cat(o))\n",
            id="a gathered position",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = -loss(x) * (x == y)\n" + MAX, id="a loss times a comparison"
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = (x == y).float().mean()\n" + MAX, id="the batch's mean"
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    best = max(best, x)\n" + MAX + "print(best)\n",
            id="a name that outlives the loop",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    losses[step] = loss(x)\n" + MAX,
            id="another store beside it",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    metric.process(x)\n" + MAX, id="a metric object"
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = x == y\n    self.last = x\n" + MAX, id="an attribute"
        ),
        pytest.param(
            "for i, (x, idx, y) in enumerate(val_loader):\n    if i < 9:\n        hits[idx] = x == y\n" + MAX,
            id="the first batches only",
        ),
        pytest.param(
            "for x, idx, y in islice(val_loader, 9):\n    hits[idx] = x == y\n" + MAX, id="a part of the loader"
        ),
        pytest.param("hits = torch.ones(len(val_set))\n" + EXACT_BY_MAX, id="ones for the others"),
        pytest.param("hits = torch.zeros(10)\n" + EXACT_BY_MAX, id="not one for each sample"),
        pytest.param(
            "for epoch in e:\n    for x, idx, y in val_loader:\n        hits[idx] = x == y\n    " + MAX,
            id="the last epoch's results are still there",
        ),
        pytest.param(MAX + "for x, idx, y in val_loader:\n    hits[idx] = x == y\n", id="combined before"),
        pytest.param(
            "for x in val_loader:\n    p.append(x)\ndist.all_gather(o, p)\n"
            + TURN
            + "q = p[: len(val_set)]\nprint(sum(q) / len(p))\n",
            id="divided by what is not cut",
        ),
        pytest.param(
            "for x in val_loader:\n    p.append(x)\ndist.all_gather(o, p)\nn = torch.stack(o).T.shape\n"
            "p = torch.cat(o)[: len(val_set)]\n",
            id="another value is laid in turn",
        ),
        pytest.param(
            "for x, idx in val_loader:\n    dist.all_gather(i, idx)\n    dist.all_gather(o, model(x))\n"
            "    bank.index_put_((torch.cat(i),), torch.cat(o), accumulate=True)\n",
            id="added at the index",
        ),
        pytest.param(
            "for x, idx in val_loader:\n    dist.all_gather(i, idx)\n    dist.all_gather(o, model(x))\n"
            "    bank.index_copy_(0, torch.cat(i), torch.cat(o))\n    n += len(x)\n",
            id="a count beside what is placed",
        ),
    ],
)
def test_not_exact(text: str) -> None:
    assert not is_exact(text)


@pytest.mark.parametrize(
    ("body", "sums"),
    [
        ("n += 1", 1),
        ("n = n + b", 1),
        ("n = m + b", 0),
        ("out.append(b)", 1),
        ("metric.add_batch(b)", 1),
        ("pbar.update(1)", 0),
        ("print(b)", 0),
    ],
)
def test_what_a_loop_accumulates(body: str, sums: int) -> None:
    found = site(HEAD + LOADER + f"for b in val_loader:\n    {body}\n")
    (use,) = found.flow.of("iterate")
    assert len(accumulated(use.node)) == sums


def test_a_comprehension_accumulates() -> None:
    found = site(HEAD + LOADER + "out = [f(b) for b in val_loader]\n")
    (use,) = found.flow.of("iterate")
    assert len(accumulated(use.node)) == 1


def test_a_function_guarded_for_this_loader_alone() -> None:
    text = (
        "def run(loader):\n    for b in loader:\n        pass\nif rank == 0:\n    run(val_loader)\nrun(train_loader)\n"
    )
    assert site(HEAD + LOADER + text).evaluation.guard is not None
    found = site(HEAD + LOADER + text + "run(val_loader)\n").evaluation
    assert found.guard is None
    assert found.sometimes is not None
