"""What a program combines by itself, however far from the loop, is not summed over the ranks once more."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))\n"
)
SYNC = "def sync(d):\n    t = torch.tensor([d['s'], d['n']])\n    dist.all_reduce(t)\n    return t.tolist()\n"
RESULT = (
    "class Result:\n    def __init__(self, s, n):\n        self.v = torch.tensor([s, n])\n"
    "    def finish(self):\n        dist.all_reduce(self.v)\n        return self.v.tolist()\n"
)
RUN = (
    "@torch.no_grad()\ndef run(model, loader{more}):\n    s = n = 0\n    for x, y in loader:\n"
    "        s += (model(x).argmax(1) == y).sum().item()\n        n += y.size(0)\n"
)
DICT = "    return {'s': s, 'n': n}\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(SYNC + RUN + DICT + "out = sync(run(model, val_loader))\n", "sync", id="given at once"),
        pytest.param(
            SYNC + RUN + DICT + "d = run(model, val_loader)\ne = dict(d)\nout = sync(e)\n", "sync", id="by a name"
        ),
        pytest.param(
            SYNC + RUN + DICT + "def outer(model):\n    return run(model, val_loader)\ndef most(model):\n"
            "    return sync(outer(model))\nmost(model)\n",
            "sync",
            id="two callers up",
        ),
        pytest.param(
            RESULT + RUN + "    return Result(s, n)\nout = run(model, val_loader).finish()\n", "Result", id="object"
        ),
        pytest.param(
            SYNC + RUN.replace("{more}", ", out") + "    out['s'] = s\n    out['n'] = n\nout = {}\n"
            "run(model, val_loader, out)\nprint(sync(out))\n",
            "sync",
            id="put in what the caller gives",
        ),
        pytest.param(
            "class Trainer:\n    @torch.no_grad()\n    def run(self, loader):\n        s = 0\n"
            "        for x, y in loader:\n"
            "            s += (self.model(x).argmax(1) == y).sum().item()\n        self.s = torch.tensor(s)\n"
            "    def report(self):\n        dist.all_reduce(self.s)\nt = Trainer()\nt.run(val_loader)\nt.report()\n",
            "report",
            id="an attribute that a method reduces",
        ),
    ],
)
def test_values_that_are_combined_later(text: str, name: str) -> None:
    found = planned(HEAD + text.replace("{more}", ""))

    assert found.changes == ()
    assert f"`{name}" in found.reports[0].why
    assert "combines the ranks' values once more" in found.reports[0].why


def test_a_collective_that_the_metric_does_not_reach() -> None:
    other = "def train(model):\n    loss = model(1)\n    dist.all_reduce(loss)\n    return loss.item()\n"
    text = HEAD + other + RUN.replace("{more}", "") + "    return s / n\n"
    (change,) = planned(
        text + "def main():\n    train(model)\n    acc = run(model, val_loader)\n    print(acc)\nmain()\n"
    ).changes
    assert (change.codes, change.tier) == (("SHD506",), "safe")


def test_a_library_that_saves_the_metric_keeps_nothing_of_it() -> None:
    other = "def train(model):\n    loss = model(1)\n    dist.all_reduce(loss)\n    return loss.item()\n"
    text = HEAD + other + RUN.replace("{more}", "") + "    return s / n\n"
    (change,) = planned(
        text + "def main():\n    acc = run(model, val_loader)\n    torch.save(acc, 'best.pt')\n"
        "    train(torch.nn.Linear(1, 1))\nmain()\n"
    ).changes
    assert (change.codes, change.tier) == (("SHD506",), "safe")


def test_a_quotient_that_is_averaged_over_the_ranks() -> None:
    text = HEAD + RUN.replace("{more}", "") + "    acc = torch.tensor(s / n)\n    dist.all_reduce(acc)\n"
    text += "    acc /= dist.get_world_size()\n    return acc.item()\nrun(model, val_loader)\n"
    found = planned(text)
    assert found.changes == ()
    assert "`s` is read before it is summed over the ranks" in found.reports[0].why


EVALUATED = RUN.replace("{more}", "") + "    rank, world = dist.get_rank(), dist.get_world_size()\n"
UNSEEN = "import functools\nimport pickle\nimport numpy as np\nfrom mmcv.engine import collect_results_cpu, Meter\n"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        pytest.param(
            "    t = torch.tensor([s, n])\n    dist.send(t, 0)\n", "`send(..)` sends the ranks' values", id="sent"
        ),
        pytest.param("    np.save(f'part_{rank}.npy', s)\n", "keeps each rank's results apart", id="a file a rank"),
        pytest.param(
            "    path = 'part_%d.pkl' % rank\n    with open(path, 'wb') as f:\n        pickle.dump(s, f)\n",
            "keeps each rank's results apart",
            id="a path made before",
        ),
        pytest.param("    parts[rank] = (s, n)\n", "`parts[rank]` keeps each rank's results apart", id="by number"),
        pytest.param("    queue.put((s, n))\n", "hands the values to another process", id="a queue"),
        pytest.param(
            "    return collect_results_cpu(s, n)\n", "what `collect_results_cpu` of a library makes", id="a library"
        ),
        pytest.param(
            "    meter = Meter()\n    meter.add_counts(s, n)\n", "what `meter.add_counts` of a library", id="its object"
        ),
        pytest.param(
            "    store = dist.FileStore('x')\n    store.add('s', s)\n", "what `store.add` of a library", id="a store"
        ),
        pytest.param(
            "    total = functools.partial(dist.all_reduce)\n    total(torch.tensor(s))\n",
            "what `total` makes of the ranks' values",
            id="partial",
        ),
        pytest.param("    getattr(dist, 'all_' + 'reduce')(s)\n", "of the ranks' values is not seen", id="by its name"),
        pytest.param("    OPS['sum'](s)\n", "what `OPS['sum']` makes of the ranks' values", id="a table"),
        pytest.param("    list(map(total, [s, n]))\n", "is given a function that combines", id="a function as a value"),
        pytest.param("    log = Log()\n    log['s'] = s\n", "`log` may combine the ranks' values", id="an item"),
        pytest.param("    return s / (len(val_set) / world)\n", "the number of processes already", id="the ranks"),
        pytest.param("    return s / (len(val_set) / NGPU)\n", "the number of processes already", id="by another name"),
        pytest.param(
            "    return s / (len(val_set) / torch.cuda.device_count())\n",
            "the number of processes already",
            id="devices",
        ),
        pytest.param(
            "    with open('acc.txt', 'a') as f:\n        f.write(str(s))\n",
            "adds each rank's results to a file",
            id="a",
        ),
    ],
)
def test_what_a_sharded_program_may_combine_out_of_sight(lines: str, why: str) -> None:
    total = "def total(v):\n    t = torch.tensor(v)\n    dist.all_reduce(t)\n    return t.item()\n"
    log = "class Log(dict):\n    def __setitem__(self, k, v):\n        dict.__setitem__(self, k, total(v))\n"
    found = planned(UNSEEN + HEAD + total + log + EVALUATED + lines + "run(model, val_loader)\n")

    assert found.changes == ()
    assert why in found.reports[0].why


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("    share = len(val_set) / dist.get_world_size()\n{}    return s / share\n", id="before"),
        pytest.param(
            "{}    return s\ndef main():\n    return run(model, val_loader) * world / len(val_set)\n", id="up"
        ),
    ],
)
def test_a_sharded_program_that_reckons_with_the_processes(text: str) -> None:
    head, loop = RUN.replace("{more}", "").split("    for", 1)
    found = planned(HEAD + head + text.format("    for" + loop) + "run(model, val_loader)\nmain()\n")
    assert found.changes == ()
    assert "the number of processes already" in found.reports[0].why


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("    print(f'rank {rank}: {s / n}')\n", id="printed"),
        pytest.param("    t = torch.tensor([s, n], device=f'cuda:{rank}')\n    print(t)\n", id="a device"),
        pytest.param("    logger.info('rank %d: %s' % (rank, s))\n", id="logged"),
        pytest.param("    writer.add_scalar(f'acc/{rank}', s / n)\n", id="drawn"),
        pytest.param("    print(np.mean([s, n]))\n", id="numpy"),
    ],
)
def test_what_shows_or_stores_in_one_process(lines: str) -> None:
    (change,) = planned(UNSEEN + HEAD + EVALUATED + lines + "run(model, val_loader)\n").changes
    assert (change.codes, change.tier) == (("SHD506",), "safe")


@pytest.mark.parametrize(
    ("before", "line"),
    [
        pytest.param("from lost import sync\n", "sync(s)", id="a file that was not read"),
        pytest.param("sync = Comm()\n", "sync(s)", id="an object that is called"),
        pytest.param("sync = Comm().sum\n", "sync(s)", id="a bound method"),
        pytest.param("sync = functools.partial(total)\n", "sync(s)", id="a part of a function"),
        pytest.param("sync = lambda v: total(v)\n", "sync(s)", id="a lambda"),
        pytest.param("sync = getattr(comm, 'total')\n", "sync(s)", id="an attribute by its name"),
        pytest.param("", "n = list(map(total, (s, n)))", id="mapped"),
        pytest.param("from lost import sync\n", "n = list(map(sync, (s, n)))", id="mapped, and not read"),
        pytest.param("from lost import sync\n", "n = [sync(v) for v in (s, n)]", id="one after another"),
        pytest.param("from lost import distributed_sum\n", "distributed_sum(s)", id="a name with str in it"),
    ],
)
def test_a_reduction_that_is_handed_on_is_neither_repeated_nor_denied(before: str, line: str) -> None:
    total = "def total(v):\n    t = torch.tensor(v)\n    dist.all_reduce(t)\n    return t.item()\n"
    kept = "class Comm:\n    def sum(self, v):\n        return total(v)\n    __call__ = sum\n"
    text = "import functools\n" + HEAD + total + kept + before + EVALUATED + f"    {line}\nrun(model, val_loader)\n"
    found = planned(text)

    assert found.changes == ()
    assert [f.code for f in found.reports[0].findings] == ["SHD923"]


@pytest.mark.parametrize(
    ("before", "line"),
    [
        pytest.param("share = lambda v: v / len(val_set)\n", "print(share(s))", id="a lambda"),
        pytest.param("rounded = functools.partial(round, ndigits=2)\n", "print(rounded(s))", id="a part of round"),
        pytest.param("percent = torch.nn.Identity()\n", "print(percent(s))", id="torch's module"),
        pytest.param("def share(v):\n    return v / 9\n", "print(*map(share, (s, n)))", id="mapped"),
        pytest.param("", "print(*map(float, (s, n)))", id="mapped by a builtin"),
    ],
)
def test_a_function_that_is_read_or_asks_no_other_rank(before: str, line: str) -> None:
    text = "import functools\n" + HEAD + before + EVALUATED + f"    {line}\nrun(model, val_loader)\n"
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD506",), "safe")
