"""Idioms that are rarer, or seen in other code than the rest: accelerate beside a sampler, trainers, tutorials."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

ELSEWHERE = (
    Idiom(
        "W1",
        "a DistributedSampler from the Accelerator's numbers, and prepared: sharded twice",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(
-         train_set,
-         num_replicas=accelerator.num_processes,
-         rank=accelerator.process_index,
-         shuffle=True,
-     )
-     loader = DataLoader(train_set, batch_size=8, sampler=sampler)
+     loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, loader = accelerator.prepare(model, loader)
      for epoch in range(3):
-         sampler.set_epoch(epoch)
+         loader.set_epoch(epoch)
          for batch in loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "W2",
        "the same sampler, the loader not prepared: right",
        everywhere("ddp right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model, optimizer):
      accelerator = Accelerator()
      sampler = DistributedSampler(train_set, accelerator.num_processes, accelerator.process_index)
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      model, optimizer = accelerator.prepare(model, optimizer)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "W3",
        "a task sampler of the project's own, prepared in both branches",
        everywhere("accelerate refused SHD702"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, Sampler


  class TaskSampler(Sampler):
      def __init__(self, dataset, num_replicas, rank):
          self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
          self.epoch = 0

      def set_epoch(self, epoch):
          self.epoch = epoch

      def __iter__(self):
          return iter(range(self.rank, len(self.dataset), self.num_replicas))


  def main(args, train_set, model, scheduler):
      accelerator = Accelerator()
      task_sampler = TaskSampler(train_set, accelerator.num_processes, accelerator.process_index)
      loader = DataLoader(train_set, batch_size=8, sampler=task_sampler)
      if args.schedule:
          model, loader, scheduler = accelerator.prepare(model, loader, scheduler)
      else:
          model, loader = accelerator.prepare(model, loader)
      for epoch in range(3):
          task_sampler.set_epoch(epoch)
          for batch in loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "W4",
        "a Trainer's override: parameters in a dict, a DistributedSampler among them, prepared",
        edited("accelerate", "SHD201"),
        """
  from torch.utils.data import DataLoader, IterableDataset
- from torch.utils.data.distributed import DistributedSampler
  from transformers import Trainer


  class MyTrainer(Trainer):
      def get_train_dataloader(self):
          dataset = self.train_dataset
          params = {"batch_size": self._train_batch_size, "collate_fn": self.data_collator}
          if not isinstance(dataset, IterableDataset):
-             params["sampler"] = DistributedSampler(dataset)
+             params["shuffle"] = True
              params["drop_last"] = self.args.dataloader_drop_last
          return self.accelerator.prepare(DataLoader(dataset, **params))
""",
    ),
    Idiom(
        "W4",
        "a Trainer's override: parameters in a dict, the trainer's own sampler, prepared",
        everywhere("accelerate right"),
        """
  from torch.utils.data import DataLoader, IterableDataset
  from transformers import Trainer


  class MyTrainer(Trainer):
      def get_train_dataloader(self):
          dataset = self.train_dataset
          params = {"batch_size": self._train_batch_size, "collate_fn": self.data_collator}
          if not isinstance(dataset, IterableDataset):
              params["sampler"] = self._get_train_sampler()
              params["drop_last"] = self.args.dataloader_drop_last
          return self.accelerator.prepare(DataLoader(dataset, **params))
""",
    ),
    Idiom(
        "W5",
        "rebuilt and prepared again in each epoch",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(make_set, model):
      accelerator = Accelerator()
      model = accelerator.prepare(model)
      for epoch in range(3):
          train_set = make_set(epoch)
-         train_loader = DataLoader(train_set, batch_size=8, sampler=RandomSampler(train_set))
+         train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
          train_loader = accelerator.prepare(train_loader)
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "W6",
        "a trainer class on tabs: legacy samplers on self, while self.epoch, duplicates cut by hand",
        {
            "auto accelerate": ("accelerate edit SHD201", "accelerate edit SHD101"),
            "ddp": ("accelerate refused SHD926", "accelerate refused SHD926"),
        },
        """
  import torch
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  class Trainer:
  \tdef __init__(self, args, train_set, eval_set, model):
  \t\tself.accelerator = Accelerator()
  \t\tself.args, self.epoch = args, 0
- \t\tself.train_sampler = RandomSampler(train_set) if args.local_rank == -1 else DistributedSampler(train_set)
- \t\ttrain_loader = DataLoader(train_set, sampler=self.train_sampler, batch_size=args.bs)
+ \t\ttrain_loader = DataLoader(train_set, shuffle=True, batch_size=args.bs)
- \t\tself.eval_sampler = SequentialSampler(eval_set)
- \t\teval_loader = DataLoader(eval_set, sampler=self.eval_sampler, batch_size=args.bs)
+ \t\teval_loader = DataLoader(eval_set, batch_size=args.bs)
  \t\tprepared = self.accelerator.prepare(model, train_loader, eval_loader)
  \t\tself.model, self.train_loader, self.eval_loader = prepared

  \tdef train(self):
  \t\twhile self.epoch < self.args.epochs:
  \t\t\tfor batch in self.train_loader:
  \t\t\t\tself.accelerator.backward(self.model(batch))
  \t\t\tself.evaluate()
  \t\t\tself.epoch += 1

  \t@torch.no_grad()
  \tdef evaluate(self):
  \t\tlosses = []
  \t\tfor batch in self.eval_loader:
  \t\t\tlosses.append(self.accelerator.gather(self.model(batch)))
  \t\treturn torch.cat(losses)[: len(self.eval_loader.dataset)].mean()
""",
    ),
    Idiom(
        "W7",
        "evaluate() makes an Accelerator of its own and prepares what it is given",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def evaluate(model, loader):
      accelerator = Accelerator()
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.gather_for_metrics(model(batch))


  def main(val_set, model):
-     val_loader = DataLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=8)
      evaluate(model, val_loader)
""",
    ),
    Idiom(
        "W8",
        "a dict of evaluation loaders, prepared by subscript in a loop",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(val_sets, model):
      accelerator = Accelerator()
-     loaders = {k: DataLoader(s, batch_size=8, sampler=SequentialSampler(s)) for k, s in val_sets.items()}
+     loaders = {k: DataLoader(s, batch_size=8) for k, s in val_sets.items()}
      for name in loaders:
          loaders[name] = accelerator.prepare(loaders[name])
      for name in loaders:
          for batch in loaders[name]:
              accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "W9",
        "the fine-tuning tutorial: TensorDataset and manual samplers on one device",
        {"auto accelerate": ("single edit SHD103", "single edit SHD103")},
        """
  import torch
- from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset
+ from torch.utils.data import DataLoader, TensorDataset


  def main(inputs, masks, labels, model):
      train_data = TensorDataset(inputs, masks, labels)
-     train_sampler = RandomSampler(train_data)
-     train_dataloader = DataLoader(train_data, sampler=train_sampler, batch_size=32)
+     train_dataloader = DataLoader(train_data, shuffle=True, batch_size=32)

      validation_data = TensorDataset(inputs, masks, labels)
-     validation_sampler = SequentialSampler(validation_data)
-     validation_dataloader = DataLoader(validation_data, sampler=validation_sampler, batch_size=32)
+     validation_dataloader = DataLoader(validation_data, batch_size=32)
      for _ in range(4):
          for batch in train_dataloader:
              model(batch).backward()
          with torch.no_grad():
              for batch in validation_dataloader:
                  print(model(batch))
""",
    ),
    Idiom(
        "W9",
        "the fine-tuning tutorial, to be run in several processes: an evaluation that nobody reduces stays whole",
        {"ddp": ("ddp edit SHD301", "ddp refused SHD904")},
        """
  import torch
  from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset
+ from torch.utils.data.distributed import DistributedSampler


  def main(inputs, labels, model):
      train_data = TensorDataset(inputs, labels)
-     train_sampler = RandomSampler(train_data)
+     train_sampler = (
+         DistributedSampler(train_data, shuffle=True)
+         if torch.distributed.is_available() and torch.distributed.is_initialized()
+         else RandomSampler(train_data)
+     )
      train_dataloader = DataLoader(train_data, sampler=train_sampler, batch_size=32)

      val_data = TensorDataset(inputs, labels)
      val_sampler = SequentialSampler(val_data)
      val_dataloader = DataLoader(val_data, sampler=val_sampler, batch_size=32)
-     for _ in range(4):
+     for epoch in range(4):
+         if isinstance(train_sampler, DistributedSampler):
+             train_sampler.set_epoch(epoch)
          for batch in train_dataloader:
              model(batch).backward()
          correct = 0
          with torch.no_grad():
              for batch in val_dataloader:
                  correct += model(batch)
          print(correct)
""",
    ),
    Idiom(
        "W10",
        "split_batches and cycle(), a loop of steps",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def cycle(loader):
      while True:
          for data in loader:
              yield data


  class Trainer:
      def __init__(self, train_set, model):
          self.accelerator = Accelerator(split_batches=True)
          loader = DataLoader(train_set, batch_size=8, shuffle=True)
          self.batches = cycle(self.accelerator.prepare(loader))
          self.model = self.accelerator.prepare(model)

      def train(self, steps):
          for step in range(steps):
              self.accelerator.backward(self.model(next(self.batches)))
""",
    ),
    Idiom(
        "W10",
        "split_batches and cycle() over a DistributedSampler",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def cycle(loader):
      while True:
          for data in loader:
              yield data


  def main(train_set, model, steps):
      accelerator = Accelerator(split_batches=True)
-     loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     loader = DataLoader(train_set, batch_size=8, shuffle=True)
      batches = cycle(accelerator.prepare(loader))
      model = accelerator.prepare(model)
      for step in range(steps):
          accelerator.backward(model(next(batches)))
""",
    ),
)
