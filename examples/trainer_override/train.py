"""A transformers.Trainer with its own training loader.

Run it with: torchrun --nproc-per-node 2 train.py
"""

import argparse
import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class PairDataset(Dataset):
    """Made-up pairs of vectors; the label says whether the two point the same way."""

    def __init__(self, num_samples, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.left = torch.randn(num_samples, 8, generator=generator)
        self.right = torch.randn(num_samples, 8, generator=generator)

    def __len__(self):
        return len(self.left)

    def __getitem__(self, index):
        label = int((self.left[index] * self.right[index]).sum() > 0)
        return {"left": self.left[index], "right": self.right[index], "label": label, "index": index}


def collate_pairs(samples):
    return {
        "left": torch.stack([sample["left"] for sample in samples]),
        "right": torch.stack([sample["right"] for sample in samples]),
        "labels": torch.tensor([sample["label"] for sample in samples]),
        "index": torch.tensor([sample["index"] for sample in samples]),
    }


class PairModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.head = nn.Linear(32, 2)

    def forward(self, left, right, labels=None):
        hidden = torch.cat([self.encoder(left).relu(), self.encoder(right).relu()], dim=-1)
        logits = self.head(hidden)
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


class PairTrainer(Trainer):
    """Trainer with a loader of its own, since the default collator does not know our pairs."""

    seen = ()

    def get_train_dataloader(self):
        return DataLoader(
            self.train_dataset,
            batch_size=self.args.per_device_train_batch_size,
            shuffle=True,
            collate_fn=collate_pairs,
        )

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        # Keep the samples' numbers, so that we can see who reads what.
        self.seen = [*self.seen, *inputs.pop("index").tolist()]
        outputs = model(**inputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]


class ReportEpoch(TrainerCallback):
    def __init__(self):
        self.trainer = None
        self.epoch = 0

    def on_epoch_end(self, args, state, control, **kwargs):
        line = {"rank": args.process_index, "epoch": self.epoch, "phase": "train", "indices": list(self.trainer.seen)}
        sys.stdout.write(json.dumps(line) + "\n")  # one write, so that the ranks' lines do not mix
        sys.stdout.flush()
        self.trainer.seen = ()
        self.epoch += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default=os.path.join(tempfile.gettempdir(), "trainer_override"))
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=8)
    cli = parser.parse_args()

    training_args = TrainingArguments(
        output_dir=cli.output_dir,
        num_train_epochs=cli.num_train_epochs,
        per_device_train_batch_size=cli.batch_size,
        learning_rate=1e-2,
        remove_unused_columns=False,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    callback = ReportEpoch()
    trainer = PairTrainer(
        model=PairModel(),
        args=training_args,
        train_dataset=PairDataset(64),
        callbacks=[callback],
    )
    callback.trainer = trainer
    trainer.train()

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
