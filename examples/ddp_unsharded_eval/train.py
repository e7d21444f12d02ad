"""Plain DistributedDataParallel training with an evaluation after every epoch.

Run it with: torchrun --nproc-per-node 2 train.py
"""

import argparse
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Points(Dataset):
    """Random points in the plane; the label says whether a point lies in the unit circle."""

    def __init__(self, num_samples, seed):
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(num_samples, 2, generator=generator)
        self.labels = (self.points.norm(dim=1) < 1).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index], index


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("-b", "--batch-size", default=4, type=int, help="batch size of each process")
    parser.add_argument("--lr", default=0.05, type=float)
    args = parser.parse_args()
    args.world_size = int(os.environ.get("WORLD_SIZE", "1"))
    args.rank = int(os.environ.get("RANK", "0"))
    args.distributed = args.world_size > 1
    return args


def build_loaders(args, train_set, val_set):
    if args.distributed:
        train_sampler = DistributedSampler(train_set)
    else:
        train_sampler = None

    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=(train_sampler is None), sampler=train_sampler
    )
    val_loader = DataLoader(val_set, batch_size=args.batch_size, shuffle=False)
    return train_loader, val_loader, train_sampler


def report(args, epoch, phase, indices):
    line = {"rank": args.rank, "epoch": epoch, "phase": phase, "indices": indices}
    sys.stdout.write(json.dumps(line) + "\n")  # one write, so that the ranks' lines do not mix
    sys.stdout.flush()


def train_one_epoch(args, model, loader, criterion, optimizer, epoch):
    model.train()
    seen = []
    for points, labels, index in loader:
        loss = criterion(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.extend(index.tolist())
    report(args, epoch, "train", seen)


@torch.no_grad()
def validate(args, model, loader, num_samples, epoch):
    """Share of the samples that are classified rightly, the same number on every rank."""
    model.eval()
    seen = []
    # One cell per sample, filled by the sample's own number: a sample that two ranks read counts once.
    correct = torch.zeros(num_samples)
    for points, labels, index in loader:
        predictions = model(points).argmax(dim=1)
        correct[index] = (predictions == labels).float()
        seen.extend(index.tolist())
    if args.distributed:
        dist.all_reduce(correct, op=dist.ReduceOp.MAX)
    report(args, epoch, "eval", seen)
    return correct.sum().item() / num_samples


def main():
    args = parse_args()
    if args.distributed:
        dist.init_process_group(backend="gloo")
    torch.manual_seed(0)

    train_set = Points(64, seed=0)
    val_set = Points(21, seed=1)
    train_loader, val_loader, train_sampler = build_loaders(args, train_set, val_set)

    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    if args.distributed:
        model = DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train_one_epoch(args, model, train_loader, criterion, optimizer, epoch)
        accuracy = validate(args, model, val_loader, len(val_set), epoch)
        if args.rank == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)

    if args.distributed:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
