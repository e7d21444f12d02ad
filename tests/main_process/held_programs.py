"""Programs in which one process alone evaluates and holds more than a name: a loader, an attribute, what it sends."""

from __future__ import annotations

from alone_programs import EVALUATE, Program, script

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
)
