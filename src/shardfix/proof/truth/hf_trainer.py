"""What the Trainer of transformers does with the loader that an override returns."""

from __future__ import annotations

from shardfix.proof.truth.cell import Cell
from shardfix.proof.truth.preludes import PLAIN, PREPARED, UNSHARDED

_TRAINER = f"""{PLAIN}\
import tempfile
from transformers import Trainer, TrainingArguments

seen = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        seen.append(x[:, 0].long().tolist())
        return {{"loss": self.layer(x).sum(), "logits": x}}


def collate(samples):
    return {{"x": torch.tensor(samples)[:, None].float()}}


def trainer(cls):
    arguments = TrainingArguments(
        tempfile.gettempdir(), per_device_train_batch_size=4, per_device_eval_batch_size=4, num_train_epochs=1,
        use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )
    return cls(Model(), arguments, data_collator=collate, train_dataset=dataset, eval_dataset=dataset)
"""

TRAINER = (
    Cell(
        "hf-trainer/default",
        "the Trainer's own training loader is sharded",
        _TRAINER,
        "trainer(Trainer).train()\nloader = seen\n",
        PREPARED,
        "a Trainer without an override is right",
        ("accelerate", "transformers"),
        epochs=1,
    ),
    Cell(
        "hf-trainer/override",
        "a plain loader from get_train_dataloader is used as it is: every rank reads everything",
        _TRAINER,
        """
        class Mine(Trainer):
            def get_train_dataloader(self):
                return DataLoader(self.train_dataset, batch_size=4, shuffle=True, collate_fn=collate)


        trainer(Mine).train()
        loader = seen
        """,
        UNSHARDED,
        "it is handed to self.accelerator.prepare()",
        ("accelerate", "transformers"),
        ("SHD304",),
        epochs=1,
    ),
    Cell(
        "hf-trainer/prepared-override",
        "a loader that get_train_dataloader prepares is sharded once",
        _TRAINER,
        """
        class Mine(Trainer):
            def get_train_dataloader(self):
                plain = DataLoader(self.train_dataset, batch_size=4, shuffle=True, collate_fn=collate)
                return self.accelerator.prepare(plain)


        trainer(Mine).train()
        loader = seen
        """,
        PREPARED,
        "it is what an override is turned into",
        ("accelerate", "transformers"),
        ("SHD304",),
        epochs=1,
    ),
    Cell(
        "hf-trainer/eval-override",
        "a plain loader from get_eval_dataloader is used as it is: every rank evaluates everything",
        _TRAINER,
        """
        class Mine(Trainer):
            def get_eval_dataloader(self, eval_dataset=None):
                return DataLoader(self.eval_dataset, batch_size=4, collate_fn=collate)


        trainer(Mine).evaluate()
        loader = seen
        """,
        UNSHARDED,
        "it is handed to self.accelerator.prepare()",
        ("accelerate", "transformers"),
        ("SHD304",),
        epochs=1,
    ),
)
