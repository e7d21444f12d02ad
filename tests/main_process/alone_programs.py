"""Programs in which one process alone evaluates, as data: with `--unsafe` every rank is let in.

Each is a whole script that trains a little and evaluates. It prints its metric, and some write files; run by several
ranks it must do so just as often, with just these words, after the change as before it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A script.

    Args:
        has: lines that the result has, dedented; what stands under a condition is written with its condition.
        other: a second file of the program, by name.
        even: whether the metric averages over batches, so that ranks agree with one process where all are full.
        broken: whether the program as it is comes to no end on several ranks.
    """

    name: str
    text: str
    has: tuple[str, ...]
    other: tuple[str, str] | None = None
    even: bool = False
    broken: bool = False


HEAD = """\
import argparse
import json
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler, TensorDataset

SIZE = int(os.environ["SIZE"])


def make_data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(
        torch.randn(size, 3, generator=generator), torch.randint(0, 4, (size,), generator=generator)
    )


def make_model():
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    return DistributedDataParallel(model) if dist.is_initialized() else model


def train_step(model, epoch):
    # every rank has the same samples, so that training is that of one process
    x, y = make_data(16, epoch)[:]
    model.train()
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.5 * p.grad


def start():
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("gloo")
    return int(os.environ.get("RANK", 0))

"""
EVALUATE = """
@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return correct / total

"""
END = """

if __name__ == "__main__":
    main()
"""
LOADER = "    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)\n"
ALONE = "if rank == 0:"


def script(body: str, main: str) -> str:
    return HEAD + body + "\ndef main():\n    rank = start()\n    model = make_model()\n" + main + END


IMAGENET = """\
class AverageMeter(object):
    def __init__(self, name, fmt=':f'):
        self.name, self.fmt = name, fmt
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


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
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


def validate(val_loader, model, criterion, args):
    losses = AverageMeter('Loss')
    top1 = AverageMeter('Acc@1')
    model.eval()
    with torch.no_grad():
        for i, (images, target) in enumerate(val_loader):
            output = model(images)
            loss = criterion(output, target)
            acc1, acc2 = accuracy(output, target, topk=(1, 2))
            losses.update(loss.item(), images.size(0))
            top1.update(acc1[0].item(), images.size(0))
    print(' * Acc@1 {top1.avg:.3f} loss {losses.avg:.4f}'.format(top1=top1, losses=losses))
    return top1.avg


def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
    torch.save(state, filename)
    if is_best:
        torch.save(state, 'model_best.pth.tar')

"""
IMAGENET_MAIN = """\
    args = argparse.Namespace()
    criterion = nn.CrossEntropyLoss()
    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)
    best_acc1 = 0
    for epoch in range(3):
        train_step(model, epoch)
        if rank == 0:
            acc1 = validate(val_loader, model, criterion, args)
            is_best = acc1 > best_acc1
            best_acc1 = max(acc1, best_acc1)
            state = {'epoch': epoch, 'best': round(best_acc1, 3)}
            save_checkpoint(state, is_best)
"""

PROGRAMS = (
    Program(
        "the call in the condition, its result printed and saved",
        script(
            EVALUATE,
            LOADER
            + "    best = 0.0\n"
            + "    for epoch in range(3):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:\n"
            + "            acc = evaluate(model, val_loader)\n"
            + "            print(f'epoch {epoch} accuracy {acc:.6f}')\n"
            + "            if acc > best:\n"
            + "                best = acc\n"
            + "                with open('best.txt', 'a') as f:\n"
            + "                    f.write(f'{epoch} {best:.6f}\\n')\n",
        ),
        ("acc = evaluate(model, val_loader)", ALONE),
    ),
    Program(
        "further conditions beside the rank, evaluation and loader in one function of settings",
        script(
            "\n"
            "def evaluate(args, model, prefix=''):\n"
            "    val_set = make_data(SIZE, 99)\n"
            "    sampler = SequentialSampler(val_set)\n"
            "    val_loader = DataLoader(val_set, sampler=sampler, batch_size=args.batch_size)\n"
            "    os.makedirs('out', exist_ok=True)\n"
            "    preds, labels = None, None\n"
            "    model.eval()\n"
            "    for batch in val_loader:\n"
            "        with torch.no_grad():\n"
            "            logits = model(batch[0])\n"
            "        if preds is None:\n"
            "            preds = logits.detach().cpu().numpy()\n"
            "            labels = batch[1].detach().cpu().numpy()\n"
            "        else:\n"
            "            preds = np.append(preds, logits.detach().cpu().numpy(), axis=0)\n"
            "            labels = np.append(labels, batch[1].detach().cpu().numpy(), axis=0)\n"
            "    preds = np.argmax(preds, axis=1)\n"
            "    results = {'acc': float((preds == labels).mean())}\n"
            "    with open(os.path.join('out', prefix + 'eval.txt'), 'w') as writer:\n"
            "        for key in sorted(results.keys()):\n"
            "            writer.write(f'{key} = {results[key]:.6f}\\n')\n"
            "    return results\n\n",
            "    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--local_rank', type=int, default=-1)\n"
            "    parser.add_argument('--logging_steps', type=int, default=2)\n"
            "    parser.add_argument('--batch_size', type=int, default=4)\n"
            "    args = parser.parse_args([])\n"
            "    args.local_rank = rank if dist.is_initialized() else -1\n"
            "    global_step = 0\n"
            "    for step in range(4):\n"
            "        train_step(model, step)\n"
            "        global_step += 1\n"
            "        if args.local_rank in [-1, 0] and args.logging_steps > 0 and "
            "global_step % args.logging_steps == 0:\n"
            "            results = evaluate(args, model, prefix=str(global_step))\n"
            "            for key, value in results.items():\n"
            "                print(f'{key} {value:.6f} at {global_step}')\n",
        ),
        (
            "if args.logging_steps > 0 and global_step % args.logging_steps == 0:",
            "if args.local_rank in [-1, 0]:",
            "preds = in_order(preds, val_loader)",
        ),
    ),
    Program(
        "the others return early, and the loader is built behind that",
        script(
            "\n"
            "def report(model, rank, epoch):\n"
            "    if rank != 0:\n"
            "        return\n" + LOADER + "    model.eval()\n"
            "    hits = seen = 0\n"
            "    with torch.no_grad():\n"
            "        for x, y in val_loader:\n"
            "            hits += (model(x).argmax(1) == y).sum().item()\n"
            "            seen += y.size(0)\n"
            "    accuracy = hits / seen\n"
            "    print(f'{epoch}: {accuracy:.6f} of {seen}')\n\n",
            "    for epoch in range(2):\n        train_step(model, epoch)\n        report(model, rank, epoch)\n",
        ),
        ("hits, seen = reduced(hits, seen)", "if rank == 0:"),
    ),
    Program(
        "the condition around the loop, in one function with all else",
        script(
            "",
            LOADER
            + "    train_step(model, 0)\n"
            + "    if dist.is_initialized() and dist.get_rank() == 0 or not dist.is_initialized():\n"
            + "        print('evaluating')\n"
            + "        model.eval()\n"
            + "        correct = total = 0\n"
            + "        loss_sum = 0.0\n"
            + "        with torch.no_grad():\n"
            + "            for x, y in val_loader:\n"
            + "                output = model(x)\n"
            + "                loss_sum += nn.functional.cross_entropy(output, y, reduction='sum').item()\n"
            + "                correct += (output.argmax(1) == y).sum().item()\n"
            + "                total += len(y)\n"
            + "        print(f'{correct} of {total}, loss {loss_sum / total:.4f}')\n"
            + "        model.train()\n"
            + "    train_step(model, 1)\n",
        ),
        ("print('evaluating')", "loss_sum, correct, total = reduced(loss_sum, correct, total)"),
    ),
    Program(
        "what the evaluation prints and writes is in its own function",
        script(
            "\n"
            "def validate(model, loader, epoch):\n"
            "    print(f'validating {len(loader.dataset)} samples')\n"
            "    model.eval()\n"
            "    correct = total = 0\n"
            "    with torch.no_grad():\n"
            "        for i, (x, y) in enumerate(loader):\n"
            "            correct += (model(x).argmax(1) == y).sum().item()\n"
            "            total += y.size(0)\n"
            "    accuracy = 100 * correct / total\n"
            "    print(f'accuracy {accuracy:.4f}')\n"
            "    with open('log.txt', 'a') as log:\n"
            "        log.write(f'{epoch} {accuracy:.4f}\\n')\n"
            "    return accuracy\n\n",
            LOADER
            + "    for epoch in range(2):\n"
            + "        train_step(model, epoch)\n"
            + "        if not dist.is_initialized() or dist.get_rank() == 0:\n"
            + "            validate(model, val_loader, epoch)\n",
        ),
        ("validate(model, val_loader, epoch)", "correct, total = reduced(correct, total)"),
    ),
    Program(
        "the result goes straight into what prints it",
        script(
            EVALUATE,
            LOADER
            + "    train_step(model, 0)\n"
            + "    if rank == 0:\n"
            + "        print('accuracy', round(evaluate(model, val_loader), 6))\n",
        ),
        ("metric = evaluate(model, val_loader)", "print('accuracy', round(metric, 6))"),
    ),
    Program(
        "a function that says which process is the main one",
        script(
            EVALUATE
            + "\ndef is_main_process():\n"
            + "    return not dist.is_initialized() or dist.get_rank() == 0\n\n",
            LOADER
            + "    train_step(model, 0)\n"
            + "    if is_main_process():\n"
            + "        acc = evaluate(model, val_loader)\n"
            + "        print(f'{acc:.6f}')\n",
        ),
        ("acc = evaluate(model, val_loader)", "if is_main_process():"),
    ),
    Program(
        "the loader is built under a condition of its own",
        script(
            EVALUATE,
            "    val_loader = None\n"
            "    if rank == 0:\n"
            "        val_set = make_data(SIZE, 99)\n"
            "        val_loader = DataLoader(val_set, batch_size=4)\n"
            "        print('samples', len(val_set))\n"
            "    train_step(model, 0)\n"
            "    if rank == 0:\n"
            "        acc = evaluate(model, val_loader)\n"
            "        print(f'{acc:.6f}')\n",
        ),
        ("val_set = make_data(SIZE, 99)", "acc = evaluate(model, val_loader)", "print('samples', len(val_set))"),
    ),
    Program(
        "a trainer that evaluates in a method and keeps its rank",
        script(
            "\n"
            "class Trainer:\n"
            "    def __init__(self, model, loader, rank):\n"
            "        self.model, self.loader, self.rank = model, loader, rank\n"
            "        self.best = 0.0\n"
            "\n"
            "    def run(self):\n"
            "        for epoch in range(2):\n"
            "            train_step(self.model, epoch)\n"
            "            if self.rank == 0:\n"
            "                self.validate(epoch)\n"
            "\n"
            "    def validate(self, epoch):\n"
            "        self.model.eval()\n"
            "        correct = total = 0\n"
            "        with torch.no_grad():\n"
            "            for x, y in self.loader:\n"
            "                correct += (self.model(x).argmax(1) == y).sum().item()\n"
            "                total += y.size(0)\n"
            "        acc = correct / total\n"
            "        print(f'{epoch} {acc:.6f}')\n"
            "        if acc > self.best:\n"
            "            self.best = acc\n"
            "            torch.save(epoch, 'best.pt')\n\n",
            LOADER + "    Trainer(model, val_loader, rank).run()\n",
        ),
        ("self.validate(epoch)", "if self.rank == 0:", "torch.save(epoch, 'best.pt')"),
    ),
    Program(
        "two evaluations in one condition",
        script(
            EVALUATE,
            "    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)\n"
            "    test_loader = DataLoader(make_data(SIZE + 2, 98), batch_size=4)\n"
            "    train_step(model, 0)\n"
            "    if rank == 0:\n"
            "        val = evaluate(model, val_loader)\n"
            "        print(f'val {val:.6f}')\n"
            "        test = evaluate(model, test_loader)\n"
            "        print(f'test {test:.6f}')\n",
        ),
        ("val = evaluate(model, val_loader)", "test = evaluate(model, test_loader)"),
    ),
    Program(
        "the result is sent to all ranks afterwards",
        script(
            EVALUATE,
            LOADER
            + "    for epoch in range(4):\n"
            + "        train_step(model, epoch)\n"
            + "        result = torch.zeros(1)\n"
            + "        if rank == 0:\n"
            + "            acc = evaluate(model, val_loader)\n"
            + "            print(f'{epoch} {acc:.6f}')\n"
            + "            result[0] = acc\n"
            + "        if dist.is_initialized():\n"
            + "            dist.broadcast(result, 0)\n"
            + "        if dist.is_initialized() and rank == dist.get_world_size() - 1:\n"
            + "            open('last.txt', 'a').write(f'{result.item():.6f}')\n",
        ),
        ("acc = evaluate(model, val_loader)", "result[0] = acc"),
    ),
    Program(
        "evaluation in another file, which knows nothing of ranks",
        script(
            "from engine import evaluate\n\n",
            LOADER
            + "    train_step(model, 0)\n"
            + "    if rank == 0:\n"
            + "        stats = evaluate(model, val_loader)\n"
            + "        json.dump(stats, open('stats.json', 'w'))\n",
        ),
        ("stats = evaluate(model, val_loader)",),
        (
            "engine.py",
            "import torch\n\n\n"
            "@torch.no_grad()\n"
            "def evaluate(model, loader):\n"
            "    model.eval()\n"
            "    correct, total = 0, 0\n"
            "    for x, y in loader:\n"
            "        correct += (model(x).argmax(1) == y).sum().item()\n"
            "        total += y.size(0)\n"
            "    stats = {'acc': round(correct / total, 6), 'n': total}\n"
            "    print('acc', stats['acc'])\n"
            "    return stats\n",
        ),
    ),
    Program(
        "a barrier for all behind the condition",
        script(
            EVALUATE,
            LOADER
            + "    for epoch in range(2):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:\n"
            + "            acc = evaluate(model, val_loader)\n"
            + "            print(f'{acc:.6f}')\n"
            + "        if dist.is_initialized():\n"
            + "            dist.barrier()\n",
        ),
        ("acc = evaluate(model, val_loader)",),
    ),
    Program(
        "a mean over the batches, which is told as not quite that of one process",
        script(
            "\n"
            "def evaluate(model, loader):\n"
            "    model.eval()\n"
            "    losses = 0.0\n"
            "    with torch.no_grad():\n"
            "        for x, y in loader:\n"
            "            losses += nn.functional.cross_entropy(model(x), y).item()\n"
            "    return losses / len(loader)\n\n",
            LOADER
            + "    train_step(model, 0)\n"
            + "    if rank == 0:\n"
            + "        print(f'{evaluate(model, val_loader):.4f}')\n",
        ),
        ("losses = reduced(losses)",),
        even=True,
    ),
    Program(
        "a writer that only the main process has, handed to the evaluation",
        script(
            "\n"
            "class Writer:\n"
            "    def add_scalar(self, name, value, step):\n"
            "        with open('board.txt', 'a') as f:\n"
            "            f.write(f'{name} {value:.6f} {step}\\n')\n"
            "\n\n"
            "def evaluate(model, loader, writer, epoch, rank):\n"
            "    model.eval()\n"
            "    correct = total = 0\n"
            "    with torch.no_grad():\n"
            "        for x, y in loader:\n"
            "            correct += (model(x).argmax(1) == y).sum().item()\n"
            "            total += y.size(0)\n"
            "    writer.add_scalar('acc', correct / total, epoch)\n"
            "    return correct / total\n\n",
            LOADER
            + "    writer = Writer() if rank == 0 else None\n"
            + "    for epoch in range(2):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:\n"
            + "            print(round(evaluate(model, val_loader, writer, epoch, rank), 6))\n",
        ),
        ("writer.add_scalar('acc', correct / total, epoch)", "if rank == 0:"),
    ),
    Program(
        "a progress bar and lines printed in the loop",
        script(
            "from tqdm import tqdm\n\n\n"
            "def evaluate(model, loader, rank):\n"
            "    model.eval()\n"
            "    correct = total = 0\n"
            "    with torch.no_grad():\n"
            "        for i, (x, y) in enumerate(tqdm(loader, desc='val')):\n"
            "            correct += (model(x).argmax(1) == y).sum().item()\n"
            "            total += y.size(0)\n"
            "            if i == 0:\n"
            "                print('first batch')\n"
            "    print(f'{correct} of {total}')\n\n",
            LOADER + "    train_step(model, 0)\n    if rank == 0:\n        evaluate(model, val_loader, rank)\n",
        ),
        ("correct, total = reduced(correct, total)", "if rank == 0:"),
    ),
    Program(
        "a file that is opened around the call",
        script(
            EVALUATE,
            LOADER
            + "    for epoch in range(2):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:\n"
            + "            with open('acc.txt', 'a') as f:\n"
            + "                f.write(f'{evaluate(model, val_loader):.6f}\\n')\n",
        ),
        ("metric = evaluate(model, val_loader)", "with open('acc.txt', 'a') as f:"),
    ),
    Program(
        "results that are kept in a list, and shown at the end",
        script(
            EVALUATE,
            LOADER
            + "    history = []\n"
            + "    for epoch in range(3):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:  # one is enough\n"
            + "            # keep it\n"
            + "            history.append(round(evaluate(model, val_loader), 6))\n"
            + "    if rank == 0:\n"
            + "        print(history)\n",
        ),
        ("# one is enough", "history.append(round(evaluate(model, val_loader), 6))"),
    ),
    Program(
        "the inner model is set to evaluation and back in the condition",
        HEAD
        + EVALUATE.replace("    model.eval()\n", "")
        + "\ndef main():\n"
        + "    rank = start()\n"
        + "    torch.manual_seed(0)\n"
        + "    net = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.5), nn.Linear(16, 4))\n"
        + "    model = DistributedDataParallel(net) if dist.is_initialized() else net\n"
        + LOADER
        + "    for epoch in range(3):\n"
        + "        torch.manual_seed(epoch)\n"  # else what one rank alone draws would make dropout differ
        + "        train_step(model, epoch)\n"
        + "        if rank == 0:\n"
        + "            net.eval()\n"
        + "            acc = evaluate(model, val_loader)\n"
        + "            print(f'{acc:.6f}')\n"
        + "            net.train()\n"
        + END,
        ("net.eval()", "net.train()", "if rank == 0:"),
    ),
    Program(
        "some epochs only, in another condition within",
        script(
            EVALUATE,
            LOADER
            + "    for epoch in range(3):\n"
            + "        train_step(model, epoch)\n"
            + "        if rank == 0:\n"
            + "            if epoch % 2 == 0:\n"
            + "                print('epoch', epoch)\n"
            + "                acc = evaluate(model, val_loader)\n"
            + "                print(f'{acc:.6f}')\n"
            + "            else:\n"
            + "                print('later')\n",
        ),
        ("if epoch % 2 == 0:", "acc = evaluate(model, val_loader)", "print('later')"),
    ),
    Program(
        "the data of several evaluations is built in a function of its own",
        script(
            EVALUATE
            + "\ndef on_data(model, seed):\n"
            + "    loader = DataLoader(make_data(SIZE, seed), batch_size=4)\n"
            + "    acc = evaluate(model, loader)\n"
            + "    print(f'data {seed}: {acc:.6f}')\n"
            + "    return acc\n\n",
            "    train_step(model, 0)\n"
            "    if rank == 0:\n"
            "        best = max(on_data(model, 98), on_data(model, 97))\n"
            "        print(f'best {best:.6f}')\n",
        ),
        ("best = max(on_data(model, 98), on_data(model, 97))", "print(f'data {seed}: {acc:.6f}')"),
    ),
    Program(
        "the meters, printed lines and checkpoints of the ImageNet example",
        script(IMAGENET, IMAGENET_MAIN),
        ("acc1 = validate(val_loader, model, criterion, args)", "if rank == 0:", "save_checkpoint(state, is_best)"),
    ),
    Program(
        "a model with BatchNorm in its DistributedDataParallel, which sends the statistics",
        HEAD
        + EVALUATE
        + "\ndef main():\n"
        + "    rank = start()\n"
        + "    torch.manual_seed(0)\n"
        + "    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))\n"
        + "    net = DistributedDataParallel(net) if dist.is_initialized() else net\n"
        + LOADER
        + "    for epoch in range(3):\n"
        + "        train_step(net, epoch)\n"
        + "        if rank == 0:\n"
        + "            acc = evaluate(net, val_loader)\n"
        + "            print(f'{acc:.6f}')\n"
        + END,
        ("acc = evaluate(net, val_loader)", "if rank == 0:"),
        broken=True,  # the main process alone sends its statistics, and the others take gradients for them
    ),
    Program(
        "an Accelerator that says which process is the main one",
        HEAD.replace("import argparse\n", "import argparse\nfrom accelerate import Accelerator\n")
        + EVALUATE.replace("    return", "    print(f'{correct} of {total}')\n    return")
        + "\ndef main():\n"
        + "    accelerator = Accelerator(cpu=True)\n"
        + "    torch.manual_seed(0)\n"
        + "    model = accelerator.prepare(nn.Linear(3, 4))\n"
        + LOADER
        + "    for epoch in range(2):\n"
        + "        train_step(model, epoch)\n"
        + "        if accelerator.is_main_process:\n"
        + "            acc = evaluate(model, val_loader)\n"
        + "            accelerator.print(f'{acc:.6f}')\n"
        + "        accelerator.wait_for_everyone()\n"
        + END,
        ("acc = evaluate(model, val_loader)", "if accelerator.is_main_process:"),
    ),
)
