"""How the call that builds a loader is written: imports, argument forms, subclasses, containers, other libraries."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

CONSTRUCTION = (
    Idiom(
        "C1",
        "DataLoader imported by name",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C1",
        "DataLoader imported by another name",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader as Loader, SequentialSampler
+ from torch.utils.data import DataLoader as Loader


  def main(val_set, model):
      accelerator = Accelerator()
-     val_loader = Loader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     val_loader = Loader(val_set, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C2",
        "dotted torch.utils.data.DataLoader: the new sampler is spelled like it",
        edited("ddp", "SHD301"),
        """
  import torch
  import torch.distributed as dist


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = torch.utils.data.distributed.DistributedSampler(train_set, shuffle=True)
-     train_loader = torch.utils.data.DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = torch.utils.data.DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C2",
        "dotted sampler in a prepared loader",
        edited("accelerate", "SHD201"),
        """
  import torch
  from accelerate import Accelerator


  def main(train_set, model):
      accelerator = Accelerator()
-     train_sampler = torch.utils.data.distributed.DistributedSampler(train_set)
-     train_loader = torch.utils.data.DataLoader(train_set, batch_size=8, sampler=train_sampler)
+     train_loader = torch.utils.data.DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for epoch in range(3):
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C3",
        "from torch.utils import data, which the batch loop binds anew",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
  from torch.utils import data

  from project import model, train_set

  accelerator = Accelerator()
- loader = data.DataLoader(train_set, batch_size=8, sampler=data.RandomSampler(train_set))
+ loader = data.DataLoader(train_set, batch_size=8, shuffle=True)
  model, loader = accelerator.prepare(model, loader)
  for data in loader:
      accelerator.backward(model(data))
""",
    ),
    Idiom(
        "C3",
        "a name data that is no module",
        everywhere(),
        """
  import torch.distributed as dist
  from torch.utils import data as torch_data


  def main(data, model):
      dist.init_process_group("nccl")
      for batch in data.DataLoader(data.train_set, shuffle=True):
          model(batch).backward()
""",
    ),
    Idiom(
        "C4",
        "imports from the submodules, one of several in parentheses goes",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
  from torch.utils.data.dataloader import DataLoader
  from torch.utils.data.sampler import (
      BatchSampler,
-     RandomSampler,
      SequentialSampler,
  )


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = RandomSampler(train_set)
-     train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))


  def in_order(dataset):
      return BatchSampler(SequentialSampler(dataset), 8, False)
""",
    ),
    Idiom(
        "C4",
        "DistributedSampler from its submodule",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data.dataloader import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C5",
        "a subclass that never ends has no epoch",
        everywhere("ddp refused SHD919"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  class InfiniteDataLoader(DataLoader):
      def __init__(self, *args, **kwargs):
          super().__init__(*args, **kwargs)
          self.iterator = super().__iter__()

      def __iter__(self):
          while True:
              yield next(self.iterator)


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = InfiniteDataLoader(train_set, batch_size=8, shuffle=True)
      for batch in train_loader:
          model(batch).backward()
""",
    ),
    Idiom(
        "C5",
        "a subclass of its own arguments",
        everywhere("accelerate refused SHD919"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SequentialSampler


  class FastLoader(DataLoader):
      def __init__(self, dataset, sampler):
          super().__init__(dataset, sampler=sampler, num_workers=8)


  def main(val_set, model):
      accelerator = Accelerator()
      loader = FastLoader(val_set, SequentialSampler(val_set))
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C5",
        "a subclass whose construction only forwards is torch's",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  class NamedLoader(DataLoader):
      def __init__(self, *args, **kwargs):
          super().__init__(*args, **kwargs)
          self.name = "val"


  def main(val_set, model):
      accelerator = Accelerator()
-     loader = NamedLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     loader = NamedLoader(val_set, batch_size=8)
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C6",
        "a class chosen at run time, one of them the project's own",
        everywhere("ddp refused SHD919"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  class MultiEpochsDataLoader(DataLoader):
      def __iter__(self):
          for _ in range(len(self)):
              yield next(self.iterator)


  def main(args, train_set, model):
      dist.init_process_group("nccl")
      loader_class = MultiEpochsDataLoader if args.multi_epochs else DataLoader
      train_loader = loader_class(train_set, batch_size=8, shuffle=True)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C6",
        "a class passed in, torch's by default and for every caller",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def build(dataset, loader_cls=DataLoader):
-     return loader_cls(dataset, batch_size=8, sampler=SequentialSampler(dataset))
+     return loader_cls(dataset, batch_size=8)


  def main(val_set, model):
      accelerator = Accelerator()
      val_loader = accelerator.prepare(build(val_set))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C7",
        "keywords from a dict that holds no sampler",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model, cuda):
      dist.init_process_group("nccl")
      kwargs = {"num_workers": 4, "pin_memory": True} if cuda else {}
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True, **kwargs)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler, **kwargs)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C7",
        "a dict that is built with dict(), update and items",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      kwargs = dict(num_workers=4)
      kwargs["pin_memory"] = True
      kwargs.update({"drop_last": True})
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True, **kwargs)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler, **kwargs)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C7",
        "a dict that the caller fills",
        everywhere("ddp refused SHD903"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(train_set, model, read_options):
      dist.init_process_group("nccl")
      kwargs = {"num_workers": 4}
      kwargs.update(read_options())
      train_loader = DataLoader(train_set, batch_size=8, **kwargs)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C7",
        "a dict that another function may fill",
        everywhere("ddp refused SHD903"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def add_defaults(kwargs):
      kwargs["shuffle"] = True


  def main(train_set, model):
      dist.init_process_group("nccl")
      kwargs = {"num_workers": 4}
      add_defaults(kwargs)
      train_loader = DataLoader(train_set, batch_size=8, **kwargs)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C7",
        "a dict that is filled under another name",
        everywhere("ddp refused SHD903"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(train_set, model):
      dist.init_process_group("nccl")
      kwargs = {"num_workers": 4}
      options = kwargs
      options["shuffle"] = True
      train_loader = DataLoader(train_set, batch_size=8, **kwargs)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C8",
        "keywords from a config",
        everywhere("ddp refused SHD903"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(cfg, train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, **cfg.loader)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C8",
        "a function's own keywords, in a prepared loader",
        everywhere("accelerate refused SHD903"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model, **kwargs):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, **kwargs)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C9",
        "batch size and shuffle by position",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, 32, True)
+     train_loader = DataLoader(train_set, 32, False, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C9",
        "batch size by position, sampler by name",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, 32, sampler=RandomSampler(train_set))
+     train_loader = DataLoader(train_set, 32, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C10",
        "dataset= by name",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(shuffle=True, dataset=train_set, batch_size=8)
+     train_loader = DataLoader(sampler=train_sampler, dataset=train_set, batch_size=8)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C11",
        "built where it is iterated, in each epoch: so is its sampler, and told the epoch before",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
-         for batch in DataLoader(train_set, batch_size=8, shuffle=True):
+         train_sampler = DistributedSampler(train_set, shuffle=True)
+         train_sampler.set_epoch(epoch)
+         for batch in DataLoader(train_set, batch_size=8, sampler=train_sampler):
              model(batch).backward()
""",
    ),
    Idiom(
        "C11",
        "built where it is iterated, in each epoch, with a sampler of its own",
        everywhere("ddp refused SHD924"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
          for batch in DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set)):
              model(batch).backward()
""",
    ),
    Idiom(
        "C11",
        "built where it is prepared: the check goes around it",
        edited("accelerate", "SHD101", "SHD601"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader
+ from shardfix import sanitize


  def main(val_set, model):
      accelerator = Accelerator()
-     for batch in accelerator.prepare(DataLoader(val_set, sampler=SequentialSampler(val_set))):
+     for batch in accelerator.prepare(sanitize(DataLoader(val_set), owner="accelerate")):
          accelerator.gather_for_metrics(model(batch))
""",
        sanitizer="changed",
    ),
    Idiom(
        "C11",
        "inside iter() and cycle()",
        everywhere("ddp refused SHD911", "ddp refused SHD911"),
        """
  from itertools import cycle

  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      first = iter(DataLoader(train_set, batch_size=8, shuffle=True))
      second = cycle(DataLoader(train_set, batch_size=8, shuffle=True))
      for step in range(steps):
          (model(next(first)) + model(next(second))).backward()
""",
    ),
    Idiom(
        "C12",
        "built anew in each epoch: the sampler is told right there",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(make_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
          train_set = make_set(epoch)
          sampler = DistributedSampler(train_set)
          train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C12",
        "built once for each fold, around the epochs",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(folds, model):
      dist.init_process_group("nccl")
      for train_set in folds:
+         train_sampler = DistributedSampler(train_set, shuffle=True)
-         train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+         train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
          for epoch in range(3):
+             train_sampler.set_epoch(epoch)
              for batch in train_loader:
                  model(batch).backward()
""",
    ),
    Idiom(
        "C13",
        "a dict of loaders",
        {
            "auto accelerate": ("accelerate edit SHD101", "accelerate edit SHD101"),
            "ddp": ("accelerate refused SHD926", "accelerate refused SHD926"),
        },
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(train_set, val_set, model):
      accelerator = Accelerator()
      loaders = {
-         "train": DataLoader(train_set, sampler=RandomSampler(train_set)),
+         "train": DataLoader(train_set, shuffle=True),
-         "val": DataLoader(val_set, sampler=SequentialSampler(val_set)),
+         "val": DataLoader(val_set),
      }
      train_loader = accelerator.prepare(loaders["train"])
      val_loader = accelerator.prepare(loaders["val"])
      for batch in train_loader:
          accelerator.backward(model(batch))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C13",
        "stored in a dict by subscript, its sampler told through it",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      loaders = {}
      sampler = DistributedSampler(train_set)
      loaders["train"] = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in loaders["train"]:
              model(batch).backward()
""",
    ),
    Idiom(
        "C13",
        "a comprehension of evaluation loaders, each prepared",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(val_sets, model):
      accelerator = Accelerator()
-     val_loaders = [DataLoader(s, sampler=SequentialSampler(s)) for s in val_sets]
+     val_loaders = [DataLoader(s) for s in val_sets]
      val_loaders = [accelerator.prepare(loader) for loader in val_loaders]
      for val_loader in val_loaders:
          for batch in val_loader:
              accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C13",
        "appended to a list that is iterated",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(val_sets, model):
      accelerator = Accelerator()
      val_loaders = []
      for val_set in val_sets:
-         sampler = DistributedSampler(val_set, shuffle=False)
-         loader = DataLoader(val_set, sampler=sampler, batch_size=8)
+         loader = DataLoader(val_set, batch_size=8)
          val_loaders.append(accelerator.prepare(loader))
      for loader in val_loaders:
          for batch in loader:
              accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "C14",
        "stored on self, iterated by another method",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model = model
          self.sampler = DistributedSampler(train_set)
          self.loader = DataLoader(train_set, batch_size=8, sampler=self.sampler)

      def fit(self):
          for epoch in range(3):
+             self.loader.sampler.set_epoch(epoch)
              for batch in self.loader:
                  self.model(batch).backward()
""",
    ),
    Idiom(
        "C14",
        "stored on self, its sampler a local name",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model = model
          sampler = DistributedSampler(train_set)
          self.loader = DataLoader(train_set, batch_size=8, sampler=sampler)

      def fit(self):
          for epoch in range(3):
+             self.loader.sampler.set_epoch(epoch)
              for batch in self.loader:
                  self.model(batch).backward()
""",
    ),
    Idiom(
        "C15",
        "built under a flag: the check stands beside it",
        edited("accelerate", "SHD201", "SHD601"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler
+ from shardfix import sanitize


  def main(args, train_set, model):
      accelerator = Accelerator()
      if args.do_train:
-         train_sampler = DistributedSampler(train_set)
-         train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
+         train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+         sanitize(train_loader, owner="accelerate")
          model, train_loader = accelerator.prepare(model, train_loader)
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
        sanitizer="changed",
    ),
    Idiom(
        "C16",
        "at module level",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler

  from project import model, train_set

  dist.init_process_group("nccl")
+ train_sampler = DistributedSampler(train_set, shuffle=True)
- train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+ train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
  for epoch in range(3):
+     train_sampler.set_epoch(epoch)
      for batch in train_loader:
          model(batch).backward()
""",
    ),
    Idiom(
        "C17",
        "a notebook's cell: notebooks are not read",
        everywhere(),
        {
            "train.ipynb": """
  {"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null,
    "source": ["from torch.utils.data import DataLoader\\n", "loader = DataLoader(train_set, shuffle=True)"]}],
   "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
""",
        },
    ),
    Idiom(
        "C18",
        "a WebDataset loader splits by node itself",
        everywhere("webdataset not-ours"),
        """
  import torch.distributed as dist
  import webdataset as wds


  def main(shards, model):
      dist.init_process_group("nccl")
      dataset = wds.WebDataset(shards, nodesplitter=wds.split_by_node).decode("pil").to_tuple("jpg", "cls")
      train_loader = wds.WebLoader(dataset, batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C18",
        "a WebDataset pipeline that splits by node, in torch's DataLoader",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  import webdataset as wds
  from torch.utils.data import DataLoader


  def main(shards, model):
      dist.init_process_group("nccl")
      dataset = wds.DataPipeline(wds.SimpleShardList(shards), wds.split_by_node, wds.tarfile_to_samples())
      train_loader = DataLoader(dataset, batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C19",
        "a stream takes no sampler, and nobody splits this one",
        everywhere("ddp refused SHD711"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, IterableDataset


  class Lines(IterableDataset):
      def __init__(self, path):
          self.path = path

      def __iter__(self):
          yield from open(self.path)


  def main(path, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(Lines(path), batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C19",
        "a prepared stream is dealt out from rank 0",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, IterableDataset


  class Lines(IterableDataset):
      def __init__(self, path):
          self.path = path

      def __iter__(self):
          yield from open(self.path)


  def main(path, model):
      accelerator = Accelerator()
      train_loader = DataLoader(Lines(path), batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C20",
        "a dataset that yields whole batches, prepared",
        everywhere("accelerate refused SHD712"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, batch_size=None)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C20",
        "a stream of whole batches, which nobody splits",
        everywhere("ddp refused SHD711"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, IterableDataset


  class Batches(IterableDataset):
      def __iter__(self):
          yield from ([0, 1], [2, 3])


  def main(model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(Batches(), batch_size=None)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C21",
        "returned from a factory, prepared by its caller",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def build(dataset):
-     return DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
+     return DataLoader(dataset, batch_size=8, shuffle=True)


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = accelerator.prepare(build(train_set))
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "C21",
        "returned in a tuple with its sampler",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def build(dataset):
      sampler = DistributedSampler(dataset)
      return DataLoader(dataset, batch_size=8, sampler=sampler), sampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader, train_sampler = build(train_set)
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "C21",
        "a plain loader from a factory that trains and evaluates alike",
        everywhere("ddp refused SHD916"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def build(dataset, shuffle):
      return DataLoader(dataset, batch_size=8, shuffle=shuffle)


  def main(train_set, val_set, model):
      dist.init_process_group("nccl")
      train_loader = build(train_set, True)
      val_loader = build(val_set, False)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
          with torch.no_grad():
              for batch in val_loader:
                  print(model(batch))
""",
    ),
    Idiom(
        "C22",
        "PyG, torchdata and DGL bring loaders of their own",
        everywhere("pyg not-ours", "torchdata not-ours", "dgl not-ours"),
        """
  import torch.distributed as dist
  from dgl.dataloading import GraphDataLoader
  from torch_geometric.loader import NeighborLoader
  from torchdata.stateful_dataloader import StatefulDataLoader


  def main(data, graphs, train_set, rank, world_size, model):
      dist.init_process_group("nccl")
      mine = data.train_idx.split(len(data.train_idx) // world_size)[rank]
      loaders = [
          NeighborLoader(data, num_neighbors=[10], input_nodes=mine, shuffle=True),
          StatefulDataLoader(train_set, shuffle=True),
          GraphDataLoader(graphs, use_ddp=True),
      ]
      for epoch in range(3):
          for loader in loaders:
              for batch in loader:
                  model(batch).backward()
""",
    ),
    Idiom(
        "C22",
        "a DALI iterator is a loader of another library",
        everywhere("dali not-ours"),
        """
  import torch.distributed as dist
  from nvidia.dali.plugin.pytorch import DALIClassificationIterator


  def main(pipe, model):
      dist.init_process_group("nccl")
      train_loader = DALIClassificationIterator(pipe, reader_name="Reader")
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
)
