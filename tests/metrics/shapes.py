"""Evaluation loops as data: small programs whose metric the codemod puts together from all ranks.

Each program defines ``evaluate(size, batch_size)``, which builds a model and a loader over ``size`` samples in order
and returns the metric. It is to be called inside the process group where there is one. The rewritten program gives, on
every rank of 1, 2 and 3 processes, what the program as it is gives in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Shape:
    """A program as it is.

    Args:
        exact: ``all``: the value of one process, float sums to rounding; ``even``: so only where every rank's batches
            are full, since the program averages over batches (``--unsafe``).
        adds: lines that the change puts in behind the loop, in order.
        sharded: whether the program shards its loader already, so that the program as it is covers a part.
        steps: whether a number of batches that divides something is put together as well.
        rests_on: what its proof takes for granted, in its own words, so that nothing is said to be proven.
    """

    name: str
    before: str
    adds: tuple[str, ...]
    exact: Literal["all", "even"] = "all"
    sharded: bool = False
    steps: bool = False
    rests_on: str = ""

    @property
    def unsafe(self) -> bool:
        """Whether the change is offered with ``--unsafe`` only."""
        return self.exact != "all"


HEAD = """\
import os
import time
from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
"""
DATA = '''

class Digits(Dataset):
    """Samples of three features and a label, alike on every rank."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(size, 3, generator=generator)
        self.y = torch.randint(0, 4, (size,), generator=generator)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def make_model():
    torch.manual_seed(0)
    return nn.Linear(3, 4).eval()

'''
EVALUATE = """

def evaluate(size, batch_size):
    model = make_model()
    val_set = Digits(size)
    val_loader = DataLoader(val_set, batch_size=batch_size)
    return validate(model, val_loader)


def main():
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
    print(evaluate(21, 4))


if __name__ == "__main__":
    main()
"""
SHARDED = EVALUATE.replace(
    "    val_loader = DataLoader(val_set, batch_size=batch_size)\n",
    "    val_sampler = DistributedSampler(val_set, shuffle=False) if dist.is_initialized() else None\n"
    "    val_loader = DataLoader(val_set, batch_size=batch_size, sampler=val_sampler)\n",
)
METER = """

class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count
"""
SYNCED = """

class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def value(self):
        return self.total / self.count

    def synchronize(self):
        if dist.is_initialized():
            both = torch.tensor([self.total, self.count], dtype=torch.float64)
            dist.all_reduce(both)
            self.total, self.count = both[0].item(), int(both[1].item())
"""
LOGGER = """

class SmoothedValue:
    def __init__(self, window_size=20):
        self.deque = deque(maxlen=window_size)
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    def synchronize_between_processes(self):
        if not dist.is_initialized():
            return
        t = torch.tensor([self.count, self.total], dtype=torch.float64)
        dist.all_reduce(t)
        t = t.tolist()
        self.count = int(t[0])
        self.total = t[1]

    @property
    def global_avg(self):
        return self.total / self.count


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kwargs):
        for k, v in kwargs.items():
            self.meters[k].update(v)

    def synchronize_between_processes(self):
        for meter in self.meters.values():
            meter.synchronize_between_processes()

    def log_every(self, iterable, freq):
        for i, batch in enumerate(iterable):
            yield batch
            if i % freq == 0:
                print(i)
"""
ACCURACY = """

def accuracy(output, target, topk=(1,)):
    maxk = max(topk)
    batch_size = target.size(0)
    _, pred = output.topk(maxk, 1, True, True)
    pred = pred.t()
    correct = pred.eq(target.view(1, -1).expand_as(pred))
    res = []
    for k in topk:
        correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
        res.append(correct_k.mul_(100.0 / batch_size))
    return res
"""


def program(loop: str, more: str = "", evaluate: str = EVALUATE) -> str:
    """A program around the body of a function ``validate(model, val_loader)``."""
    head = HEAD + ("from torch.utils.data import DistributedSampler\n" if "DistributedSampler" in evaluate else "")
    body = loop.strip("\n")
    return f"{head}{DATA}{more}\n\n@torch.no_grad()\ndef validate(model, val_loader):\n{body}\n{evaluate}"


def _shape(
    name: str,
    loop: str,
    *adds: str,
    more: str = "",
    exact: Literal["all", "even"] = "all",
    sharded: bool = False,
    steps: bool = False,
    rests_on: str = "",
) -> Shape:
    return Shape(name, program(loop, more, SHARDED if sharded else EVALUATE), adds, exact, sharded, steps, rests_on)


SHAPES = (
    _shape(
        "counts",
        """
    correct = 0
    total = 0
    for images, target in val_loader:
        output = model(images)
        pred = output.argmax(dim=1)
        correct += (pred == target).sum().item()
        total += target.size(0)
    return correct / total
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "counts of tensors",
        """
    correct, total = torch.tensor(0), 0
    for images, target in val_loader:
        _, pred = torch.max(model(images), 1)
        correct += pred.eq(target).sum()
        total += len(target)
    return (correct.item(), total, 100.0 * correct.item() / total)
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "counts written out",
        """
    correct = total = 0
    for i, (images, target) in enumerate(val_loader):
        pred = model(images).max(1)[1]
        correct = correct + int((pred == target).sum())
        total = total + images.shape[0]
    return correct / total
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "a summed loss",
        """
    criterion = nn.CrossEntropyLoss(reduction="sum")
    test_loss = 0
    correct = 0
    for data, target in val_loader:
        output = model(data)
        test_loss += criterion(output, target).item()
        pred = output.argmax(dim=1, keepdim=True)
        correct += pred.eq(target.view_as(pred)).sum().item()
    test_loss /= len(val_loader.dataset)
    return test_loss, correct / len(val_loader.dataset)
""",
        "test_loss, correct = reduced(test_loss, correct)",
    ),
    _shape(
        "a functional loss, summed",
        """
    test_loss = 0.0
    for data, target in val_loader:
        test_loss += F.cross_entropy(model(data), target, reduction="sum").item()
    return test_loss / len(val_loader.dataset)
""",
        "test_loss = reduced(test_loss)",
    ),
    _shape(
        "a mean loss times the batch's size",
        """
    criterion = nn.CrossEntropyLoss()
    running_loss = 0.0
    samples = 0
    for images, target in val_loader:
        loss = criterion(model(images), target)
        running_loss += loss.item() * images.size(0)
        samples += images.size(0)
    return running_loss / samples
""",
        "running_loss, samples = reduced(running_loss, samples)",
    ),
    _shape(
        "a loss of each sample",
        """
    losses = torch.zeros(1)
    for images, target in val_loader:
        losses += F.cross_entropy(model(images), target, reduction="none").sum()
    return losses.item() / len(val_loader.dataset)
""",
        "losses = reduced(losses)",
    ),
    _shape(
        "a mean accuracy times the batch's size",
        """
    acc, n = 0.0, 0
    for x, y in val_loader:
        batch = y.shape[0]
        acc += (model(x).argmax(-1) == y).float().mean().item() * batch
        n += batch
    return acc / n
""",
        "acc, n = reduced(acc, n)",
    ),
    _shape(
        "errors of a regression",
        """
    squared, absolute, n = 0.0, 0.0, 0
    for x, y in val_loader:
        error = model(x)[:, 0] - y
        squared += (error ** 2).sum().item()
        absolute += error.abs().sum().item()
        n += len(y)
    return (squared / n) ** 0.5, absolute / n
""",
        "squared, absolute, n = reduced(squared, absolute, n)",
    ),
    _shape(
        "several sums in one tensor",
        """
    sums = torch.zeros(2, dtype=torch.float64)
    for x, y in val_loader:
        pred = model(x).argmax(1)
        sums[0] += (pred == y).sum()
        sums[1] += y.size(0)
    return (sums[0] / sums[1]).item()
""",
        "sums = reduced(sums)",
    ),
    _shape(
        "sums in a dict",
        """
    stats = {"correct": 0, "total": 0}
    for x, y in val_loader:
        stats["correct"] += (model(x).argmax(1) == y).sum().item()
        stats["total"] += y.size(0)
    return stats["correct"] / stats["total"]
""",
        "stats = reduced(stats)",
    ),
    _shape(
        "true and false positives",
        """
    tp = fp = fn = 0
    for x, y in val_loader:
        pred = model(x).argmax(1) == 1
        truth = y == 1
        tp += (pred & truth).sum().item()
        fp += (pred & ~truth).sum().item()
        fn += (~pred & truth).sum().item()
    return tp, fp, fn
""",
        "tp, fp, fn = reduced(tp, fp, fn)",
    ),
    _shape(
        "sample by sample",
        """
    hits, seen = 0, 0
    for x, y in val_loader:
        for p, t in zip(model(x).argmax(1), y):
            seen += 1
            if p == t:
                hits += 1
    return hits / seen
""",
        "seen, hits = reduced(seen, hits)",
    ),
    _shape(
        "averaging objects",
        """
    criterion = nn.CrossEntropyLoss()
    losses = AverageMeter()
    top1 = AverageMeter()
    top2 = AverageMeter()
    for i, (images, target) in enumerate(val_loader):
        output = model(images)
        loss = criterion(output, target)
        acc1, acc2 = accuracy(output, target, topk=(1, 2))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0].item(), images.size(0))
        top2.update(acc2[0].item(), images.size(0))
        if i % 10 == 0:
            print(losses.val, top1.avg)
    return losses.avg, top1.avg, top2.avg
""",
        "losses.sum, losses.count = reduced(losses.sum, losses.count)",
        "losses.avg = losses.sum / losses.count",
        "top1.sum, top1.count = reduced(top1.sum, top1.count)",
        "top1.avg = top1.sum / top1.count",
        "top2.sum, top2.count = reduced(top2.sum, top2.count)",
        "top2.avg = top2.sum / top2.count",
        more=METER + ACCURACY,
    ),
    _shape(
        "averaging objects that reduce themselves",
        """
    criterion = nn.CrossEntropyLoss()
    average = Average()
    for images, target in val_loader:
        loss = criterion(model(images), target)
        average.update(loss.item(), n=target.size(0))
    return average.value
""",
        "average.synchronize()",
        more=SYNCED,
    ),
    _shape(
        "an averaging object without weights",
        """
    criterion = nn.CrossEntropyLoss()
    losses = AverageMeter()
    for images, target in val_loader:
        losses.update(criterion(model(images), target).item())
    return losses.avg
""",
        "losses.sum, losses.count = reduced(losses.sum, losses.count)",
        "losses.avg = losses.sum / losses.count",
        more=METER,
        exact="even",
    ),
    _shape(
        "a mean over batches by their number",
        """
    criterion = nn.CrossEntropyLoss()
    eval_loss, steps = 0.0, 0
    for images, target in val_loader:
        eval_loss += criterion(model(images), target).mean().item()
        steps += 1
    return eval_loss / steps
""",
        "eval_loss, steps = reduced(eval_loss, steps)",
        exact="even",
    ),
    _shape(
        "a mean over batches by the loader's length",
        """
    criterion = nn.CrossEntropyLoss()
    val_loss = 0.0
    for images, target in val_loader:
        val_loss += criterion(model(images), target).item()
    return val_loss / len(val_loader)
""",
        "val_loss = reduced(val_loss)",
        exact="even",
        steps=True,
    ),
    _shape(
        "a mean over batches by a length read before",
        """
    loss_fn = nn.CrossEntropyLoss()
    size = len(val_loader.dataset)
    num_batches = len(val_loader)
    test_loss, correct = 0, 0
    for X, y in val_loader:
        pred = model(X)
        test_loss += loss_fn(pred, y).item()
        correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    test_loss /= num_batches
    correct /= size
    return test_loss, correct
""",
        "test_loss, correct = reduced(test_loss, correct)",
        exact="even",
        steps=True,
    ),
    _shape(
        "a mean over batches by the last batch's number",
        """
    criterion = nn.CrossEntropyLoss()
    val_loss = 0.0
    for i, (images, target) in enumerate(val_loader):
        val_loss += criterion(model(images), target).item()
    return val_loss / (i + 1)
""",
        "val_loss = reduced(val_loss)",
        exact="even",
        steps=True,
    ),
    _shape(
        "predictions one by one",
        """
    preds, labels = [], []
    for x, y in val_loader:
        for p, t in zip(model(x).argmax(1), y):
            preds.append(p.item())
            labels.append(f"label {t.item()}")
    return preds, labels
""",
        "preds = in_order(preds, val_loader)",
        "labels = in_order(labels, val_loader)",
    ),
    _shape(
        "predictions of each batch",
        """
    y_pred = []
    y_true = []
    for x, y in val_loader:
        output = model(x)
        y_pred.extend(output.argmax(dim=1).cpu().numpy())
        y_true.extend(y.tolist())
    return [int(p) for p in y_pred], y_true
""",
        "y_pred = in_order(y_pred, val_loader)",
        "y_true = in_order(y_true, val_loader)",
    ),
    _shape(
        "predictions added to a list",
        """
    y_pred = []
    for x, y in val_loader:
        y_pred += model(x).argmax(1).tolist()
    return y_pred
""",
        "y_pred = in_order(y_pred, val_loader)",
    ),
    _shape(
        "pieces that are joined afterwards",
        """
    preds, targets = [], []
    for x, y in val_loader:
        preds.append(model(x).softmax(dim=1).cpu())
        targets.append(y)
    preds = torch.cat(preds)
    targets = torch.cat(targets)
    return preds.tolist(), targets.tolist(), (preds.argmax(1) == targets).float().mean().item()
""",
        "preds = in_order(preds, val_loader)",
        "targets = in_order(targets, val_loader)",
    ),
    _shape(
        "pieces of arrays",
        """
    outputs = []
    for batch in val_loader:
        x, y = batch
        outputs.append(model(x).numpy())
    return np.concatenate(outputs, axis=0).round(4).tolist()
""",
        "outputs = in_order(outputs, val_loader)",
    ),
    _shape(
        "arrays that are appended to",
        """
    preds = None
    out_label_ids = None
    for batch in val_loader:
        batch = tuple(t.to("cpu") for t in batch)
        inputs = {"x": batch[0], "labels": batch[1]}
        logits = model(inputs["x"])
        if preds is None:
            preds = logits.detach().cpu().numpy()
            out_label_ids = batch[1].detach().cpu().numpy()
        else:
            preds = np.append(preds, logits.detach().cpu().numpy(), axis=0)
            out_label_ids = np.append(out_label_ids, batch[1].detach().cpu().numpy(), axis=0)
    preds = np.argmax(preds, axis=1)
    return preds.tolist(), float((preds == out_label_ids).mean())
""",
        "preds = in_order(preds, val_loader)",
        "out_label_ids = in_order(out_label_ids, val_loader)",
    ),
    _shape(
        "tensors that are joined to",
        """
    all_preds = torch.tensor([], dtype=torch.long)
    for x, y in val_loader:
        all_preds = torch.cat((all_preds, model(x).argmax(1)), dim=0)
    return all_preds.tolist()
""",
        "all_preds = in_order(all_preds, val_loader)",
    ),
    _shape(
        "a tensor that is joined to or begun",
        """
    logits = None
    for x, y in val_loader:
        out = model(x)
        logits = out if logits is None else torch.cat([logits, out])
    return logits.tolist()
""",
        "logits = in_order(logits, val_loader)",
    ),
    _shape(
        "results that are told by their position",
        """
    names = [f"sample {i}" for i in range(len(val_loader.dataset))]
    scores = []
    for x, y in val_loader:
        scores.extend(model(x).max(dim=1).values.tolist())
    return {name: round(score, 4) for name, score in zip(names, scores)}
""",
        "scores = in_order(scores, val_loader)",
    ),
    _shape(
        "counts and results",
        """
    correct, n, preds = 0, 0, []
    for x, y in val_loader:
        pred = model(x).argmax(1)
        preds.extend(pred.tolist())
        correct += (pred == y).sum().item()
        n += y.numpy().shape[0]
    return correct / n, preds
""",
        "correct, n = reduced(correct, n)",
        "preds = in_order(preds, val_loader)",
    ),
    _shape(
        "progress is shown meanwhile",
        """
    correct = total = 0
    for step, (x, y) in enumerate(val_loader):
        correct += (model(x).argmax(1) == y).sum().item()
        total += y.size(0)
        if step % 2 == 0:
            print(f"step {step} of {len(val_loader)}: {correct / total}")
    accuracy = correct / total
    best = max(accuracy, 0.1)
    return accuracy, best
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "the clock runs meanwhile",
        """
    start = time.time()
    batch_time = AverageMeter()
    end = time.time()
    correct = 0
    for x, y in val_loader:
        correct += torch.sum(model(x).argmax(1) == y).item()
        batch_time.update(time.time() - end)
        end = time.time()
    print("took", time.time() - start, batch_time.avg)
    return correct
""",
        "correct = reduced(correct)",
        more=METER,
    ),
    _shape(
        "within a with block",
        """
    model.eval()
    with torch.no_grad():
        correct = 0
        for x, y in val_loader:
            correct += int(sum(model(x).argmax(1) == y))
    model.train()
    return correct
""",
        "correct = reduced(correct)",
    ),
    _shape(
        "several passes",
        """
    found = []
    for epoch in range(2):
        correct, total = 0, 0
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += y.size(0)
        found.append(correct / total)
    return found
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "sharded already, counts",
        """
    correct = total = 0
    for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += y.size(0)
    return correct / total
""",
        "correct, total = reduced(correct, total)",
        sharded=True,
    ),
    _shape(
        "sharded already, results",
        """
    preds = []
    for x, y in val_loader:
        preds.append(model(x))
    return torch.cat(preds).tolist()
""",
        "preds = in_order(preds, val_loader)",
        sharded=True,
    ),
    _shape(
        "a logger that holds averaging objects",
        """
    metric_logger = MetricLogger()
    for images, target in metric_logger.log_every(val_loader, 10):
        output = model(images)
        acc1, acc2 = accuracy(output, target, topk=(1, 2))
        batch_size = images.shape[0]
        metric_logger.meters["acc1"].update(acc1.item(), n=batch_size)
        metric_logger.meters["acc2"].update(acc2.item(), n=batch_size)
    return {k: meter.global_avg for k, meter in metric_logger.meters.items()}
""",
        "metric_logger.synchronize_between_processes()",
        more=LOGGER + ACCURACY,
    ),
    _shape(
        "summed by the program itself",
        """
    counts = torch.zeros(2, dtype=torch.float64)
    for x, y in val_loader:
        counts[0] += (model(x).argmax(1) == y).sum()
        counts[1] += y.size(0)
    if dist.is_initialized():
        dist.all_reduce(counts)
    return counts.tolist()[0] / counts.tolist()[1]
""",
    ),
    _shape(
        "summed by the program itself, and sharded already",
        """
    correct, total = 0, 0
    for x, y in val_loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += y.size(0)
    both = torch.tensor([correct, total])
    if dist.is_initialized():
        dist.all_reduce(both, op=dist.ReduceOp.SUM)
    correct, total = both.tolist()
    return correct / total
""",
        sharded=True,
    ),
    _shape(
        "text of each sample",
        """
    references = [f"text {i % 3}" for i in range(len(val_loader.dataset))]
    texts = []
    for x, y in val_loader:
        found = model(x).argmax(1).cpu().numpy()
        for label in found:
            label = int(label)
            if label > 2:
                label = label - 1
            text = f"text {label}"
            texts.append(text)
    exact = sum(int(text == reference) for text, reference in zip(texts, references))
    return exact, texts
""",
        "texts = in_order(texts, val_loader)",
    ),
    _shape(
        "text of each sample, cut off at its end",
        """
    texts = []
    for x, y in val_loader:
        preds = model(x)
        for pred in preds:
            t = pred.round().long().cpu().numpy()
            t = list(t)
            if 0 in t:
                t = t[: t.index(0)]
            text = " ".join(str(token) for token in t)
            texts.append(text)
    return texts
""",
        "texts = in_order(texts, val_loader)",
    ),
    _shape(
        "a list of the batches' mean losses",
        """
    criterion = nn.CrossEntropyLoss()
    losses = []
    for x, y in val_loader:
        losses.append(criterion(model(x), y).item())
    return round(float(np.mean(losses)), 4)
""",
        "losses = of_all_batches(losses)",
        exact="even",
    ),
    _shape(
        "tensors of the batches' losses",
        """
    losses = []
    for x, y in val_loader:
        loss = F.cross_entropy(model(x), y)
        losses.append(loss)
    return torch.stack(losses).mean().item()
""",
        "losses = of_all_batches(losses)",
        exact="even",
    ),
    _shape(
        "mean losses and sizes of the batches",
        """
    losses = []
    for x, y in val_loader:
        losses.append((F.cross_entropy(model(x), y).item(), y.size(0)))
    return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)
""",
        "losses = of_all_batches(losses)",
    ),
    _shape(
        "sums and sizes of the batches in two lists",
        """
    hits, sizes = [], []
    for x, y in val_loader:
        hits.append((model(x).argmax(1) == y).sum().item())
        sizes.append(len(y))
    return sum(hits) / sum(sizes), np.array(hits).sum()
""",
        "hits = of_all_batches(hits)",
        "sizes = of_all_batches(sizes)",
    ),
    _shape(
        "a mean weighed by the batches' sizes",
        """
    losses, sizes = [], []
    for x, y in val_loader:
        losses.append(F.cross_entropy(model(x), y).item())
        sizes.append(x.shape[0])
    return float(np.average(losses, weights=sizes))
""",
        "losses = of_all_batches(losses)",
        "sizes = of_all_batches(sizes)",
    ),
    _shape(
        "a confusion matrix of all values",
        """
    matrix = torch.zeros(4, 4)
    for x, y in val_loader:
        pred = model(x).argmax(1)
        for t, p in zip(y.view(-1), pred.view(-1)):
            matrix[t.long(), p.long()] += 1
    return matrix.tolist()
""",
        "matrix = reduced(matrix)",
    ),
    _shape(
        "sums side by side in one tensor",
        """
    stats = torch.zeros(3)
    for x, y in val_loader:
        o = model(x)
        stats += torch.tensor([F.cross_entropy(o, y, reduction="sum").item(), (o.argmax(1) == y).sum().item(), len(y)])
    return (stats[:2] / stats[2]).tolist()
""",
        "stats = reduced(stats)",
    ),
    _shape(
        "a lambda that counts",
        """
    top1 = lambda o, t: (o.argmax(1) == t).sum().item()
    correct, total = 0, 0
    for x, y in val_loader:
        correct += top1(model(x), y)
        total += y.size(0)
    return correct / total
""",
        "correct, total = reduced(correct, total)",
    ),
    _shape(
        "counts by the keys of a dict",
        """
    hits = {1: 0, 3: 0}
    n = 0
    for x, y in val_loader:
        _, pred = model(x).topk(3, dim=1)
        for k in hits:
            hits[k] += (pred[:, :k] == y.unsqueeze(1)).any(dim=1).sum().item()
        n += len(y)
    return {k: v / n for k, v in hits.items()}
""",
        "hits, n = reduced(hits, n)",
    ),
    _shape(
        "a helper within a helper",
        """
    correct = 0
    for x, y in val_loader:
        correct += hits(model(x), y)
    return correct
""",
        "correct = reduced(correct)",
        rests_on="`hits(model(x), y)` gives a sum over the samples",
        more="""

def hits(out, target):
    def top(out):
        return out.argmax(1)

    return (top(out) == target).sum().item()
""",
    ),
    _shape(
        "batches of one tensor",
        """
    total, positive = 0, 0
    for x in val_loader:
        positive += (model(x) > 0).sum().item()
        total += x.size(0)
    return positive / total
""",
        "positive, total = reduced(positive, total)",
        more="""

class Digits(Digits):
    def __getitem__(self, index):
        return self.x[index]
""",
    ),
    _shape(
        "counters that a method sets back",
        """
    return Evaluator(model).run(val_loader)
""",
        "self.correct, self.total = reduced(self.correct, self.total)",
        more="""

class Evaluator:
    def __init__(self, model):
        self.model = model
        self.reset()

    def reset(self):
        self.correct = self.total = 0

    def run(self, loader):
        self.reset()
        self.model.eval()
        for x, y in loader:
            self.correct += (self.model(x).argmax(1) == y).sum().item()
            self.total += len(y)
        return self.correct / self.total
""",
    ),
    _shape(
        "counters of a dataclass",
        """
    acc = Counted()
    for x, y in val_loader:
        acc.correct += (model(x).argmax(1) == y).sum().item()
        acc.total += len(y)
    return acc.correct / acc.total
""",
        "acc.correct, acc.total = reduced(acc.correct, acc.total)",
        more="""

@dataclass
class Counted:
    correct: int = 0
    total: int = 0
""",
    ),
)
