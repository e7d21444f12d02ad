"""The proof of a metric runs what the program says: a reduction of what is no sum over the samples is not proven."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.sites import Site
from shardfix.planning import sites_of
from shardfix.proof.metrics.build import metric_recipes
from shardfix.proof.metrics.model import MetricProof, MetricRecipe
from shardfix.proof.metrics.run import prove_metrics
from shardfix.proof.running.launch import Verifier
from shardfix.proof.stop import Unproven

PROGRAM = """\
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler

if "RANK" in os.environ:
    dist.init_process_group("gloo")
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(7)]
{more}
{loader}

def validate(model, val_loader):
{body}

{use}
"""
PLAIN = "val_loader = DataLoader(val_set, batch_size=4)"
SHARDED = """\
val_sampler = DistributedSampler(val_set, shuffle=False) if dist.is_initialized() else None
val_loader = DataLoader(val_set, batch_size=4, sampler=val_sampler)
val_loader = unpadded(val_loader)"""
USE = "print(validate(torch.nn.Linear(1, 2), val_loader))"

METER = """
class Meter:
    def __init__(self):
        self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self):
        {guard}both = torch.tensor([self.sum, self.count])
        dist.all_reduce(both)
        self.sum, self.count = both.tolist()
        self.avg = self.sum / self.count
"""
METERED = """
m = Meter()
for x, y in val_loader:
    m.update((model(x).argmax(1) == y).float().mean().item(), y.size(0))
m.all_reduce()
return m.avg
"""

# By name: the body behind `reduced` (the line that the change adds), what else the file defines, and how it is used.
RIGHT = {
    "hits": """
s = n = 0
for x, y in val_loader:
    s += int((model(x).argmax(1) == y).sum().item())
    n += y.size(0)
s, n = reduced(s, n)
return s / n
""",
    "a loss of torch": """
s = 0.0
for x, y in val_loader:
    s += F.cross_entropy(model(x), y).item() * len(y)
s = reduced(s)
return s / len(val_loader.dataset)
""",
    "pixels": """
s = n = 0
for images, masks in val_loader:
    out = model(images)
    pred = (torch.sigmoid(out[:, 1]) > 0.5).float()
    s += (pred[:, 0] == masks[:, 0]).sum().item()
    n += F.interpolate(out, size=(2, 2)).size(0)
s, n = reduced(s, n)
return s / n
""",
    "keys": """
s = 0
for batch in val_loader:
    batch = {k: v.to("cpu") for k, v in batch.items()}
    s += (model(**batch).logits.argmax(-1) == batch["labels"]).sum().item()
s = reduced(s)
return s
""",
    "keys that the program reads": """
s = 0
for batch in val_loader:
    batch = {k: v.to("cpu") for k, v in batch.items()}
    s += (model(batch["source"], batch["mask"]).argmax(1) == batch["target"]).sum().item()
s = reduced(s)
return s
""",
    "as many parts as are unpacked": """
s = 0
for batch in val_loader:
    batch = tuple(t.to("cpu") for t in batch)
    x, y, extra = batch
    s += (model(x, extra).argmax(1) == y).sum().item()
s = reduced(s)
return s
""",
    "several things, of which one is rows": """
s = 0
for x, y in val_loader:
    _, logits = model(x)
    s += (logits.argmax(1) == y).sum().item()
s = reduced(s)
return s
""",
}
DIFFERENT = {
    "a constant for each batch": """
s = n = 0
for x, y in val_loader:
    s += (model(x).argmax(1) == y).sum().item()
    n += 4
s, n = reduced(s, n)
return s / n
""",
    "a whole number of a total": """
s = 0
for x, y in val_loader:
    s += int((model(x)[:, 0] - y).sum().item())
s = reduced(s)
return s
""",
    "a total without its sign": """
s = 0.0
for x, y in val_loader:
    s += abs((model(x)[:, 0] - y).sum().item())
s = reduced(s)
return s
""",
    "the opposite of a total": """
s = 0
for x, y in val_loader:
    s += not (model(x).argmax(1) == y).sum().item()
s = reduced(s)
return s
""",
    "rows scaled by the batch's largest": """
s = 0.0
for x, y in val_loader:
    s += (scaled(model(x)[:, 0]) - y).abs().sum().item()
s = reduced(s)
return s
""",
    "a row that is written over": """
s = 0
for x, y in val_loader:
    o = model(x)
    o[0] = 0.0
    s += (o.argmax(1) == y).sum().item()
s = reduced(s)
return s
""",
    "a softmax over the batch": """
s = 0.0
for x, y in val_loader:
    s += F.softmax(model(x), dim=0)[:, 0].pow(2).sum().item()
s = reduced(s)
return s
""",
    "divided by the number of batches in a lambda": """
mean = lambda total: total / len(val_loader)
s = 0
for x, y in val_loader:
    s += (model(x).argmax(1) == y).sum().item()
s = reduced(s)
return mean(s)
""",
}
SCALED = """
def scaled(rows):
    return (rows - rows.min()) / (rows.max() - rows.min() + 1e-6)
"""
COUNTS = """
s = n = 0
for x, y in val_loader:
    s += (model(x).argmax(1) == y).sum().item()
    n += y.size(0)
s, n = reduced(s, n)
return {"s": s, "n": n}
"""
SYNC = """
def sync(d):
    both = torch.tensor([d["s"], d["n"]])
    if dist.is_initialized():
        dist.all_reduce(both)
    return both.tolist()
"""
RESULT = """
class Result:
    def __init__(self, s):
        self.both = torch.tensor([s, 1])

    def finish(self):
        if dist.is_initialized():
            dist.all_reduce(self.both)
        return self.both.tolist()
"""
MEANS = """
s = 0.0
for x, y in val_loader:
    s += F.cross_entropy(model(x), y).item()
s = reduced(s)
return s
"""
LOSS = """
s = n = 0
for x, y in val_loader:
    s += criterion(model(x), y).item() * y.size(0)
    n += y.size(0)
s, n = reduced(s, n)
return s / n
"""
CLASSES = """
hit = [0, 0]
for x, y in val_loader:
    pred = model(x).argmax(1)
    for c in range(2):
        hit[c] += ((pred == c) & (y == c)).sum().item()
hit = reduced(hit)
return hit
"""
TOP = """
top = n = 0
for x, y in val_loader:
    loss = F.nll_loss(model(x), y)
    acc1, acc5 = accuracy(model(x), y, topk=(1, 5))
    top += acc5[0].item() * y.size(0)
    n += y.size(0)
top, n = reduced(top, n)
return top / n
"""
ACCURACY = """
def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].view(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res
"""
SETTING = """
class Net(torch.nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.{made} = wide

    def forward(self, x):
        self.{then} = len(x)
        return x
"""
ONE_COUNT = """
s = 0
for x, y in val_loader:
    s += (model(x).argmax(1) == y).sum().item()
s = reduced(s)
return s
"""


def site(text: str) -> Site:
    project = link({"train.py": parse("train.py", text)})
    (found,) = sites_of(project, {"train.py"}, Options())["train.py"]
    return found


def recipe(
    body: str, more: str = "", use: str = USE, collate: str = "", unsafe: bool = False
) -> MetricRecipe | Unproven:
    """Of a change that reduces; the original is the program without the lines that do."""

    def program(loader: str, lines: list[str]) -> str:
        loader = loader.replace("batch_size=4", f"batch_size=4{collate}")
        return PROGRAM.format(loader=loader, body="\n".join(f"    {line}" for line in lines), more=more, use=use)

    after = body.strip("\n").splitlines()
    before = [line for line in after if "reduced(" not in line and "all_reduce()" not in line]
    found = metric_recipes(site(program(PLAIN, before)), site(program(SHARDED, after)), unsafe=unsafe)
    return found[0] if isinstance(found, list) else found


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    asked = {name: recipe(body, SCALED) for name, body in (RIGHT | DIFFERENT).items()}
    asked["divided by the caller"] = recipe(ONE_COUNT, use="print(validate(None, val_loader) / len(val_loader))")
    asked["divided rightly by the caller"] = recipe(ONE_COUNT, use="print(validate(None, val_loader) / len(val_set))")
    asked["summed again by the caller"] = recipe(COUNTS, SYNC, "print(sync(validate(None, val_loader)))")
    asked["told to an object that is not seen"] = recipe(
        ONE_COUNT.replace("return s", "keeper.put(s)\nreturn s"), "from somewhere import keeper"
    )
    asked["made by a library that is not seen"] = recipe(
        ONE_COUNT.replace("return s", "return collect(s, 7)"), "from somewhere import collect"
    )
    asked["noise"] = recipe(ONE_COUNT.replace("model(x)", "(model(x) + torch.randn(2))"))
    asked["a loss that is changed"] = recipe(
        LOSS, "criterion = torch.nn.CrossEntropyLoss()\ncriterion.reduction = 'sum'"
    )
    asked["a loop over classes in the loop"] = recipe(CLASSES)
    asked["a loss that is made elsewhere"] = recipe(LOSS, "criterion = torch.nn.CrossEntropyLoss().cuda()")
    asked["the accuracy that everybody copies"] = recipe(TOP, ACCURACY)
    norm = "import torch.nn as nn\nnet = nn.BatchNorm1d(1)\n"
    asked["a loop that raises"] = recipe(
        ONE_COUNT.replace("    s +=", "    if len(y) > 9: raise ValueError(y)\n    s +=")
    )
    asked["a model handed on"] = recipe(
        ONE_COUNT.replace("    s +=", "    ema(model)\n    s +="), "from some import ema"
    )
    asked["a model in training"] = recipe(ONE_COUNT, norm)
    asked["a model set to evaluation"] = recipe(ONE_COUNT.replace("s = 0", "model.eval()\ns = 0"), norm)
    asked["a meter that asks for its group"] = recipe(
        METERED, METER.format(guard="if not dist.is_initialized(): return\n        ")
    )
    asked["a meter that needs a group"] = recipe(METERED, METER.format(guard=""))
    asked["an object that keeps"] = recipe(
        ONE_COUNT.replace("    s +=", "    kept.collect(model(x), y)\n    s +=")
        .replace("s = 0", "s, kept = 0, Kept()")
        .replace("return s", "return s, kept.rows"),
        "class Kept:\n    rows = []\n\n    def collect(self, rows, y):\n        self.rows = [*self.rows, len(rows)]\n",
    )
    asked["a model that counts"] = recipe(ONE_COUNT.replace("return s", "return s / model.seen"))
    wide = ONE_COUNT.replace("return s", "return s / model.module.wide, model.state_dict()")
    asked["a setting of the model"] = recipe(wide, SETTING.format(made="wide", then="last"))
    asked["a setting that counts"] = recipe(wide, SETTING.format(made="wide", then="wide"))
    asked["a list that a hook fills"] = recipe(
        ONE_COUNT.replace("for x", "model.register_forward_hook(lambda m, i, o: rows.append(o))\nfor x")
        .replace("s = 0", "rows = []\ns = 0")
        .replace("return s", "return s / len(rows)")
    )
    pad = "def pad(samples):\n    return torch.utils.data.default_collate(filled(samples))\n"
    asked["samples put together by the project"] = recipe(ONE_COUNT, pad, collate=", collate_fn=pad")
    asked["means over batches"] = recipe(MEANS)
    asked["means over batches, told so"] = recipe(MEANS, unsafe=True)
    listed = {name: found for name, found in asked.items() if isinstance(found, MetricRecipe)}
    assert listed.keys() == asked.keys(), {n: str(f) for n, f in asked.items() if n not in listed}
    with Verifier(timeout=200.0) as verifier:
        return dict(zip(listed, prove_metrics(list(listed.values()), verifier), strict=True))


OTHERS = (
    *("divided rightly by the caller", "a meter that asks for its group", "a loop over classes in the loop"),
    *(
        "a setting of the model",
        "a model set to evaluation",
        "a loss that is made elsewhere",
        "the accuracy that everybody copies",
    ),
)


@pytest.mark.parametrize("name", [*RIGHT, *OTHERS])
def test_a_sum_over_the_samples_is_proven_by_the_programs_own_expressions(
    proofs: dict[str, MetricProof], name: str
) -> None:
    proof = proofs[name]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    assert not any("==" in stand_in.expression for stand_in in proof.stand_ins)


@pytest.mark.parametrize(
    "name", [*DIFFERENT, "divided by the caller", "summed again by the caller", "a model in training"]
)
def test_a_value_that_goes_by_the_batches_is_refuted(proofs: dict[str, MetricProof], name: str) -> None:
    proof = proofs[name]
    assert proof.verdict == "refuted"
    assert "in one process" in proof.reasons[0]


def test_means_over_batches_are_excused_only_where_the_change_says_so(proofs: dict[str, MetricProof]) -> None:
    assert proofs["means over batches"].verdict == "refuted"
    told = proofs["means over batches, told so"]
    assert told.verdict == "proven"
    assert told.told[1].endswith(": a mean over batches weighs a ragged one like a full one")


def test_a_reduction_that_needs_a_group_is_refuted(proofs: dict[str, MetricProof]) -> None:
    assert proofs["a meter that needs a group"].verdict == "refuted"


@pytest.mark.parametrize(
    ("name", "assumed"),
    [
        ("an object that keeps", "`kept.collect(model(x), y)` keeps nothing that is read behind the loop"),
        ("a model that counts", "the evaluation does not decide `model.seen`"),
        ("a setting that counts", "the evaluation does not decide `model.module.wide`"),
        ("a list that a hook fills", "the evaluation does not decide `rows`"),
        ("samples put together by the project", "`pad` puts samples together one by one"),
        ("told to an object that is not seen", "`keeper.put(s)` changes nothing of what it is given"),
        ("made by a library that is not seen", "`collect(s, 7)` makes nothing of other ranks' values"),
        ("a loop that raises", "the loop is not run as it is written: "),
        ("a model handed on", "`ema(model)` does not change `model`"),
        ("noise", "`torch.randn(2)` gives the same on all ranks"),
        ("a loss that is changed", "`criterion(model(x), y)` gives a mean over the samples"),
    ],
)
def test_what_is_only_assumed_is_not_proven(proofs: dict[str, MetricProof], name: str, assumed: str) -> None:
    proof = proofs[name]
    assert proof.verdict == "unproven"
    why = assumed if assumed.startswith("the loop ") else f"it holds only if {assumed}"
    assert proof.reasons[0].startswith(why)


def test_what_an_object_sums_over_the_ranks_by_itself_is_not_proven() -> None:
    body = ONE_COUNT.replace("return s", "return Result(s)")
    found = recipe(body, RESULT, "print(validate(None, val_loader).finish())")
    assert isinstance(found, Unproven)
    assert "the program's own `validate(None, val_loader).finish` is not followed" in str(found)


MEET = """
def meet(args):
    if args is None:
        dist.all_reduce({value})
"""


@pytest.mark.parametrize(
    ("value", "follows"),
    [
        pytest.param("torch.zeros(1)", True, id="that only waits"),
        pytest.param("torch.tensor(found)", False, id="that sums what was gathered"),
    ],
)
def test_a_function_behind_the_metric_is_passed_over_where_it_can_reach_nothing_of_it(
    value: str, follows: bool
) -> None:
    use = "found = validate(None, val_loader)\nmeet(None)\nprint(found)"
    found = recipe(ONE_COUNT, MEET.format(value=value), use)
    assert isinstance(found, MetricRecipe) is follows
    assert follows or "the program's own `meet` is not followed" in str(found)


def test_a_meter_of_the_project_is_run_as_it_is_written(proofs: dict[str, MetricProof]) -> None:
    stand_ins = {s.expression: s.value for s in proofs["a meter that asks for its group"].stand_ins}
    assert not any("meter" in value for value in stand_ins.values()), stand_ins
