"""What Lightning's Trainer does with a loader that it is handed."""

from __future__ import annotations

from shardfix.proof.truth.cell import Cell, Numbers
from shardfix.proof.truth.preludes import FABRIC, PLAIN

_LIGHTNING = f"""{PLAIN}\
import logging
import warnings
try:
    from lightning import pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning
warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "pytorch_lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)

seen = []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        seen.append(batch.tolist())
        return self.layer(batch[:, None].float()).sum()

    def validation_step(self, batch, number):
        seen.append(batch.tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


trainer = lightning.Trainer(
    accelerator="cpu", devices=dist.get_world_size(), strategy="ddp", max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
)
"""
_IN_ORDER = Numbers((11, 11), 1, 21, read=(tuple(range(0, 21, 2)), (*range(1, 21, 2), 0)))

LIGHTNING = (
    Cell(
        "lightning/fit-plain",
        "Lightning shards a plain ordered training loader, and shuffles it",
        _LIGHTNING,
        "trainer.fit(Model(), DataLoader(dataset, batch_size=4))\nloader = seen\n",
        Numbers((11, 11), 1, 21, ordered=False),
        "a SequentialSampler in a Lightning loader is not taken out",
        ("lightning",),
        ("SHD912",),
        epochs=1,
    ),
    Cell(
        "lightning/fit-sequential",
        "Lightning puts a DistributedSampler that shuffles in the place of a training loader's SequentialSampler",
        _LIGHTNING,
        "trainer.fit(Model(), DataLoader(dataset, batch_size=4, sampler=SequentialSampler(dataset)))\nloader = seen\n",
        Numbers((11, 11), 1, 21),
        "it is left to Lightning",
        ("lightning",),
        ("SHD912",),
        epochs=1,
    ),
    Cell(
        "lightning/fit-distributed",
        "Lightning leaves a DistributedSampler alone",
        _LIGHTNING,
        """
        sampler = DistributedSampler(dataset, shuffle=False)
        trainer.fit(Model(), DataLoader(dataset, batch_size=4, sampler=sampler))
        loader = seen
        """,
        _IN_ORDER,
        "it is left to Lightning",
        ("lightning",),
        ("SHD912",),
        epochs=1,
    ),
    Cell(
        "lightning/validate-plain",
        "Lightning shards a validation loader in order",
        _LIGHTNING,
        "trainer.validate(Model(), DataLoader(dataset, batch_size=4), verbose=False)\nloader = seen\n",
        _IN_ORDER,
        "it is left to Lightning",
        ("lightning",),
        ("SHD912",),
        epochs=1,
    ),
    Cell(
        "lightning/fabric-drops-generator",
        "Fabric drops the generator of a RandomSampler: its order is that of a DistributedSampler",
        FABRIC,
        """
        def order(seed):
            sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(seed))
            loader = fabric.setup_dataloaders(DataLoader(dataset, batch_size=4, sampler=sampler))
            return [int(i) for batch in loader for i in batch]


        assert order(1) == order(2), 'the generator decides the order'
        loader = []
        """,
        Numbers(),
        "it is left to Fabric",
        ("lightning",),
        ("SHD912",),
    ),
)
