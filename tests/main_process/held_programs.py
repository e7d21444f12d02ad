"""Programs in which one process alone evaluates and holds more than a name: a loader, an attribute, what it sends."""

from __future__ import annotations

from alone_programs import EVALUATE, LOADER, Program, script

EPOCHS = "    for epoch in range(3):\n        train_step(model, epoch)\n"
ALONE = (
    "        if rank == 0:\n            acc = evaluate(model, val_loader)\n            print(f'{epoch} {acc:.6f}')\n"
)
SENT = "        if dist.is_initialized():\n            dist.broadcast_object_list(sent, src=0)\n"
TOLD = (
    "        if dist.is_initialized() and rank == dist.get_world_size() - 1:\n"
    "            open('last.txt', 'a').write(f'{sent[0]:.6f}')\n"
)
TRAINER = """
class Trainer:
    def __init__(self, model, loader, rank):
        self.model, self.loader, self.rank = model, loader, rank
        self.acc, self.history = 0.0, []

    def run(self):
        for epoch in range(3):
            train_step(self.model, epoch)
{run}
    def validate(self):
        self.model.eval()
        correct = total = 0
        with torch.no_grad():
            for x, y in self.loader:
                correct += (self.model(x).argmax(1) == y).sum().item()
                total += y.size(0)
        {result}

    def show(self, epoch):
        print(f'{{epoch}} {{self.acc:.6f}}')

"""
RUN = LOADER + "    Trainer(model, val_loader, rank).run()\n"


def trainer(run: str, result: str = "return correct / total") -> str:
    return script(TRAINER.format(run=run, result=result), RUN)


HELD = (
    Program(
        "the loader is built over several lines in the condition, its data set in the call",
        script(
            EVALUATE,
            "    if rank == 0:\n"
            "        val_loader = DataLoader(\n"
            "            make_data(\n"
            "                SIZE, 99\n"
            "            ),  # held out\n"
            "            batch_size=4,\n"
            "            shuffle=True,\n"
            "        )\n"
            "    train_step(model, 0)\n"
            "    if rank == 0:\n"
            "        print(f'{evaluate(model, val_loader):.6f}')\n",
        ),
        ("val_dataset = make_data(", "val_dataset,  # held out", "val_loader = unpadded(val_loader)"),
    ),
    Program(
        "a trainer keeps the result for itself",
        trainer(
            "            if self.rank == 0:\n"
            "                self.acc = self.validate()\n"
            "                self.show(epoch)\n"
            "        if self.rank == 0:\n"
            "            print(f'last {self.acc:.6f}')\n"
        ),
        ("self.acc = self.validate()", "self.show(epoch)"),
    ),
    Program(
        "a trainer's evaluation sets what the trainer shows",
        trainer(
            "            if self.rank == 0:\n                self.validate()\n                self.show(epoch)\n",
            "self.acc = correct / total",
        ),
        ("self.validate()", "self.acc = correct / total"),
    ),
    Program(
        "a trainer gathers its results in a list",
        trainer(
            "            if self.rank == 0:\n"
            "                self.history.append(round(self.validate(), 6))\n"
            "        if self.rank == 0:\n"
            "            print(self.history)\n"
        ),
        ("self.history.append(round(self.validate(), 6))",),
    ),
    Program(
        "the others have None, by else behind what is shown",
        script(
            EVALUATE,
            LOADER + EPOCHS + ALONE + "        else:\n            acc = None\n",
        ),
        ("acc = evaluate(model, val_loader)", "else:", "acc = None"),
    ),
    Program(
        "the others have None, by else behind the evaluation alone",
        script(
            EVALUATE,
            LOADER
            + EPOCHS
            + "        if rank == 0:\n"
            + "            acc = evaluate(model, val_loader)\n"
            + "        else:  # or else nothing\n"
            + "            acc = None\n"
            + "        if acc is not None:\n"
            + "            print(f'{acc:.6f}')\n",
        ),
        ("acc = evaluate(model, val_loader)", "if rank != 0:  # or else nothing", "acc = None"),
    ),
    Program(
        "the result is sent in a list",
        script(
            EVALUATE,
            LOADER
            + EPOCHS
            + "        acc = None\n"
            + ALONE
            + "        sent = [acc]\n"
            + SENT
            + TOLD
            + "        if sent[0] > 2:\n            break\n",
        ),
        ("acc = evaluate(model, val_loader)", "sent = [acc]"),
    ),
    Program(
        "the result is sent in a list that the others make by else",
        script(
            EVALUATE,
            LOADER
            + EPOCHS
            + ALONE
            + "            sent = [acc]\n"
            + "        else:\n"
            + "            sent = [None]\n"
            + SENT
            + TOLD
            + "        acc = sent[0]\n"
            + "        if acc > 2:\n"
            + "            break\n",
        ),
        ("acc = evaluate(model, val_loader)", "sent = [None]"),
    ),
    Program(
        "the list that is sent is made of the result at once",
        script(
            EVALUATE,
            LOADER
            + EPOCHS
            + "        sent = [None]\n"
            + "        if rank == 0:\n"
            + "            sent = [evaluate(model, val_loader)]\n"
            + "            print(f'{sent[0]:.6f}')\n"
            + SENT
            + TOLD,
        ),
        ("sent = [evaluate(model, val_loader)]",),
    ),
    Program(
        "the rank is a constant of the file",
        script(
            "\nRANK = int(os.environ.get('RANK', -1))\n" + EVALUATE,
            LOADER + EPOCHS + ALONE.replace("rank == 0", "RANK in (-1, 0)"),
        ),
        ("if RANK in (-1, 0):", "acc = evaluate(model, val_loader)"),
    ),
)
