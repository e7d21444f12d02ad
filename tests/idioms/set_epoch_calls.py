"""The forms in which programs tell a sampler its epoch already: receivers, arguments, guards, places."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

HEAD = """
  import torch.distributed as dist
  from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


  def main(args, train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(args.start, args.epochs):
"""
BATCHES = """\
          for batch in loader:
              model(batch).backward()
"""


def told(title: str, *lines: str) -> Idiom:
    """Lines at the top of the epoch loop that tell the sampler as they should."""
    return Idiom("N", title, everywhere("ddp right"), program(*lines))


def program(*lines: str) -> str:
    return HEAD + "".join(f"          {line}\n" for line in lines) + BATCHES


SET_EPOCH_CALLS = (
    told("receiver: loader.sampler", "loader.sampler.set_epoch(epoch)"),
    told("receiver: the sampler's variable", "sampler.set_epoch(epoch)"),
    told("receiver: getattr", 'getattr(loader.sampler, "set_epoch", print)(epoch)'),
    Idiom(
        "N",
        "receiver: an attribute",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model, self.epoch = model, 0
          self.sampler = DistributedSampler(train_set)
          self.loader = DataLoader(train_set, batch_size=8, sampler=self.sampler)

      def fit(self):
          for self.epoch in range(3):
              self.sampler.set_epoch(self.epoch)
              for batch in self.loader:
                  self.model(batch).backward()
""",
    ),
    Idiom(
        "N",
        "receiver: batch_sampler.sampler",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      batches = BatchSampler(DistributedSampler(train_set), 8, drop_last=True)
      loader = DataLoader(train_set, batch_sampler=batches)
      for epoch in range(3):
          loader.batch_sampler.sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "N",
        "receiver: a prepared loader",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      loader = accelerator.prepare(DataLoader(train_set, batch_size=8, shuffle=True))
      for epoch in range(3):
          loader.set_epoch(epoch)
          for batch in loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "N",
        "receiver: a prepared loader's sampler, which is a placeholder",
        edited("accelerate", "SHD402"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      loader = accelerator.prepare(DataLoader(train_set, batch_size=8, shuffle=True))
      for epoch in range(3):
-         loader.sampler.set_epoch(epoch)
+         loader.set_epoch(epoch)
          for batch in loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "N",
        "receiver: the dataset, which is no sampler",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          loader.dataset.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "N",
        "receiver: a wrapper of the project's own that hands it on",
        everywhere("ddp right"),
        """
  from dataclasses import dataclass

  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @dataclass
  class DataInfo:
      dataloader: DataLoader
      sampler: DistributedSampler

      def set_epoch(self, epoch):
          self.sampler.set_epoch(epoch)


  def build(train_set):
      sampler = DistributedSampler(train_set)
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      return DataInfo(loader, sampler)


  def main(train_set, model):
      dist.init_process_group("nccl")
      data = build(train_set)
      for epoch in range(3):
          data.set_epoch(epoch)
          for batch in data.dataloader:
              model(batch).backward()
""",
    ),
    told("argument: epoch + 1", "sampler.set_epoch(epoch + 1)"),
    told("argument: by name", "sampler.set_epoch(epoch=epoch)"),
    Idiom(
        "N",
        "argument: the iteration, as good as any that differs",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      iteration = 0
      while iteration < steps:
          sampler.set_epoch(iteration)
          for batch in loader:
              model(batch).backward()
              iteration += 1
""",
    ),
    Idiom("N", "argument: a number", everywhere("ddp refused SHD403"), program("sampler.set_epoch(0)")),
    told("guard: if args.distributed", "if args.distributed:", "    sampler.set_epoch(epoch)"),
    told("guard: hasattr", 'if hasattr(loader.sampler, "set_epoch"):', "    loader.sampler.set_epoch(epoch)"),
    told("guard: isinstance", "if isinstance(sampler, DistributedSampler):", "    sampler.set_epoch(epoch)"),
    told("guard: is not None", "if sampler is not None:", "    sampler.set_epoch(epoch)"),
    told("guard: local_rank != -1", "if args.local_rank != -1:", "    sampler.set_epoch(epoch)"),
    told("an expression: set_epoch if distributed else None", "sampler.set_epoch(epoch) if args.distributed else None"),
    told("an expression: and", "args.distributed and sampler.set_epoch(epoch)"),
    Idiom(
        "N",
        "guard: if local_rank > 0, which never tells rank 0",
        everywhere("ddp refused SHD403"),
        program("if args.local_rank > 0:", "    sampler.set_epoch(epoch)"),
    ),
    Idiom(
        "N",
        "guard: the main process alone is told",
        everywhere("ddp refused SHD403"),
        program("if dist.get_rank() == 0:", "    sampler.set_epoch(epoch)"),
    ),
    told(
        "place: after other statements", "model.train()", "lr = 0.1 ** epoch", "print(lr)", "sampler.set_epoch(epoch)"
    ),
    Idiom(
        "N",
        "place: after the batches of the last epoch, too late by one",
        everywhere("ddp refused SHD403"),
        HEAD + BATCHES + "          sampler.set_epoch(epoch)\n",
    ),
    Idiom(
        "N",
        "the evaluation's sampler is told too",
        everywhere("ddp right", "ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, val_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, sampler=DistributedSampler(train_set))
      val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False))
      for epoch in range(3):
          train_loader.sampler.set_epoch(epoch)
          val_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
          with torch.no_grad():
              for batch in val_loader:
                  dist.all_reduce(model(batch))
""",
    ),
)
