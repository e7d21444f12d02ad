"""Train a small classifier with Accelerate.

Run it with: torchrun --nproc-per-node 2 train.py
"""

import argparse
import json
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=8, help="Batch size per process.")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def make_dataset(num_samples, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(num_samples, 16, generator=generator)
    labels = (features[:, 0] > 0).long()
    # The third column is the sample's number, so that we can see who reads what.
    return TensorDataset(features, labels, torch.arange(num_samples))


def report(accelerator, epoch, phase, indices):
    line = {"rank": accelerator.process_index, "epoch": epoch, "phase": phase, "indices": indices}
    sys.stdout.write(json.dumps(line) + "\n")  # one write, so that the ranks' lines do not mix
    sys.stdout.flush()


def main():
    args = parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(args.seed)

    train_dataset = make_dataset(64, seed=0)
    eval_dataset = make_dataset(21, seed=1)

    # Make sure every process gets its own part of the training data
    sampler = DistributedSampler(
        train_dataset,
        num_replicas=accelerator.num_processes,
        rank=accelerator.process_index,
    )
    train_loader = DataLoader(train_dataset, batch_size=args.batch_size, sampler=sampler)
    eval_loader = DataLoader(eval_dataset, batch_size=args.batch_size, sampler=SequentialSampler(eval_dataset))

    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()

    model, optimizer, train_loader, eval_loader = accelerator.prepare(model, optimizer, train_loader, eval_loader)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # other order in every epoch

        model.train()
        seen = []
        for features, labels, index in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(features), labels)
            accelerator.backward(loss)
            optimizer.step()
            seen.extend(index.tolist())
        report(accelerator, epoch, "train", seen)

        model.eval()
        seen, correct, total = [], 0, 0
        for features, labels, index in eval_loader:
            with torch.no_grad():
                predictions = model(features).argmax(dim=-1)
            predictions, labels = accelerator.gather_for_metrics((predictions, labels))
            correct += (predictions == labels).sum().item()
            total += labels.numel()
            seen.extend(index.tolist())
        report(accelerator, epoch, "eval", seen)
        accelerator.print(f"epoch {epoch}: {correct}/{total} right")

    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
