"""A small image classifier, trained with DistributedDataParallel and evaluated after every epoch.

Run it with: torchrun --nproc-per-node 2 train.py
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

CLASSES = 4


class Stripes(Dataset):
    """Grey pictures with stripes in one of four directions, under noise."""

    def __init__(self, num_samples, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(CLASSES, (num_samples,), generator=generator)
        self.seeds = torch.randint(2**31, (num_samples,), generator=generator)
        rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
        waves = [rows, columns, rows + columns, rows - columns]
        self.pictures = torch.stack([torch.sin(wave / 2) for wave in waves])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        label = self.labels[index]
        noise = torch.randn(32, 32, generator=torch.Generator().manual_seed(self.seeds[index].item()))
        return (self.pictures[label] + 3 * noise)[None], label


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, CLASSES)

    def forward(self, pictures):
        return self.classifier(self.features(pictures).flatten(1))


class AverageMeter:
    """The average of what it is told, and the last value."""

    def __init__(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("-b", "--batch-size", default=32, type=int, help="batch size of each process")
    parser.add_argument("--train-samples", default=512, type=int)
    parser.add_argument("--val-samples", default=1001, type=int)
    parser.add_argument("--lr", default=0.05, type=float)
    args = parser.parse_args()
    args.world_size = int(os.environ.get("WORLD_SIZE", "1"))
    args.rank = int(os.environ.get("RANK", "0"))
    args.distributed = args.world_size > 1
    return args


def build_loaders(args, train_set, val_set):
    train_sampler = DistributedSampler(train_set) if args.distributed else None
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=(train_sampler is None), sampler=train_sampler
    )
    val_loader = DataLoader(val_set, batch_size=args.batch_size, shuffle=False)
    return train_loader, val_loader, train_sampler


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    for pictures, labels in loader:
        loss = criterion(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, loader, criterion):
    """Accuracy, loss and, for each class, the share of its samples that are found."""
    model.eval()
    correct = 0
    losses = AverageMeter()
    targets, predictions = [], []
    for pictures, labels in loader:
        output = model(pictures)
        predicted = output.argmax(dim=1)
        correct += (predicted == labels).sum().item()
        losses.update(criterion(output, labels).item(), labels.size(0))
        targets.extend(labels.tolist())
        predictions.extend(predicted.tolist())
    hits = [0] * CLASSES
    for target, prediction in zip(targets, predictions, strict=True):
        hits[target] += target == prediction
    recalls = [hits[c] / max(1, targets.count(c)) for c in range(CLASSES)]
    return correct / len(loader.dataset), losses.avg, recalls


def main():
    args = parse_args()
    if args.distributed:
        dist.init_process_group(backend="gloo")
    torch.manual_seed(0)

    train_set = Stripes(args.train_samples, seed=0)
    val_set = Stripes(args.val_samples, seed=1)
    train_loader, val_loader, train_sampler = build_loaders(args, train_set, val_set)

    model = Net()
    if args.distributed:
        model = DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    print(f"rank {args.rank} evaluates {len(val_loader)} batches", flush=True)
    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train_one_epoch(model, train_loader, criterion, optimizer)
        start = time.perf_counter()
        accuracy, loss, recalls = validate(model, val_loader, criterion)
        seconds = round(time.perf_counter() - start, 2)
        line = {"rank": args.rank, "epoch": epoch, "seconds": seconds}
        line.update(accuracy=accuracy, loss=loss, recalls=recalls)
        sys.stdout.write(json.dumps(line) + "\n")  # one write, so that the ranks' lines do not mix
        sys.stdout.flush()

    if args.distributed:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
