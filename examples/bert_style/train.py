"""Fine-tune a (very small) text classifier, in the manner of the early BERT scripts.

Run it with: torchrun --nproc-per-node 2 train.py
"""

import argparse
import json
import logging
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from tqdm import tqdm, trange

logger = logging.getLogger(__name__)

VOCABULARY = 100
SEQUENCE_LENGTH = 12


class TinyClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCABULARY, 16)
        self.classifier = nn.Linear(16, 2)

    def forward(self, input_ids):
        return self.classifier(self.embedding(input_ids))


def set_seed(args):
    random.seed(args.seed)
    torch.manual_seed(args.seed)


def load_examples(args, evaluate=False):
    """Made-up token ids; a real script would read and cache features here."""
    num_examples = 21 if evaluate else 64
    generator = torch.Generator().manual_seed(1 if evaluate else 0)
    input_ids = torch.randint(VOCABULARY, (num_examples, SEQUENCE_LENGTH), generator=generator)
    labels = (input_ids[:, 0] > VOCABULARY // 2).long()
    # The last column is the example's number, so that we can see who reads what.
    return TensorDataset(input_ids, labels, torch.arange(num_examples))


def report(args, epoch, phase, indices):
    line = {"rank": max(args.local_rank, 0), "epoch": epoch, "phase": phase, "indices": indices}
    sys.stdout.write(json.dumps(line) + "\n")  # one write, so that the ranks' lines do not mix
    sys.stdout.flush()


def train(args, train_dataset, model):
    """Train the model"""
    train_sampler = RandomSampler(train_dataset) if args.local_rank == -1 else DistributedSampler(train_dataset)
    train_dataloader = DataLoader(train_dataset, sampler=train_sampler, batch_size=args.train_batch_size)

    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    # Distributed training (should be after apex fp16 initialization)
    if args.local_rank != -1:
        model = nn.parallel.DistributedDataParallel(model)

    logger.info("***** Running training *****")
    logger.info("  Num examples = %d", len(train_dataset))
    logger.info("  Num Epochs = %d", args.num_train_epochs)

    global_step = 0
    tr_loss = 0.0
    epoch_losses = []
    model.zero_grad()
    train_iterator = trange(int(args.num_train_epochs), desc="Epoch", disable=args.local_rank not in [-1, 0])
    set_seed(args)  # Added here for reproducibility
    for _ in train_iterator:
        epoch_iterator = tqdm(train_dataloader, desc="Iteration", disable=args.local_rank not in [-1, 0])
        seen = []
        for step, batch in enumerate(epoch_iterator):
            model.train()
            input_ids, labels, example_ids = batch
            loss = nn.functional.cross_entropy(model(input_ids), labels)
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            loss.backward()
            tr_loss += loss.item()
            if (step + 1) % args.gradient_accumulation_steps == 0:
                optimizer.step()
                model.zero_grad()
                global_step += 1
            seen.extend(example_ids.tolist())
        report(args, len(epoch_losses), "train", seen)
        epoch_losses.append(tr_loss / global_step)

    return global_step, tr_loss / global_step


def evaluate(args, model):
    eval_dataset = load_examples(args, evaluate=True)
    # Note that DistributedSampler samples randomly
    eval_sampler = SequentialSampler(eval_dataset)
    eval_dataloader = DataLoader(eval_dataset, sampler=eval_sampler, batch_size=args.eval_batch_size)

    logger.info("***** Running evaluation *****")
    seen = []
    correct = 0
    model.eval()
    for batch in tqdm(eval_dataloader, desc="Evaluating"):
        input_ids, labels, example_ids = batch
        with torch.no_grad():
            logits = model(input_ids)
        correct += (logits.argmax(dim=-1) == labels).sum().item()
        seen.extend(example_ids.tolist())
    report(args, int(args.num_train_epochs) - 1, "eval", seen)
    return {"acc": correct / len(eval_dataset)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", default=8, type=int, help="Batch size per process for training.")
    parser.add_argument("--eval_batch_size", default=8, type=int, help="Batch size for evaluation.")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--learning_rate", default=1e-2, type=float)
    parser.add_argument("--num_train_epochs", default=3.0, type=float, help="Total number of training epochs.")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--local_rank",
        type=int,
        default=int(os.environ.get("LOCAL_RANK", -1)),
        help="For distributed training: local_rank (-1: one process)",
    )
    args = parser.parse_args()

    logging.basicConfig(level=logging.INFO if args.local_rank in [-1, 0] else logging.WARN)
    if args.local_rank != -1:
        dist.init_process_group(backend="gloo")
    set_seed(args)

    model = TinyClassifier()
    train_dataset = load_examples(args)
    global_step, tr_loss = train(args, train_dataset, model)
    logger.info(" global_step = %s, average loss = %s", global_step, tr_loss)

    if args.local_rank in [-1, 0]:
        result = evaluate(args, model)
        logger.info("***** Eval results: %s *****", result)

    if args.local_rank != -1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
