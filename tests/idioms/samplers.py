"""Which sampler a loader is given, by owner: none, one, another on each branch, the project's own, from elsewhere."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

SAMPLERS = (
    Idiom(
        "S1",
        "shuffle=True in a prepared loader is all it takes",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S1",
        "shuffle=True where the program also runs in one process: its own guard is used",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True) if args.distributed else None
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=(train_sampler is None), sampler=train_sampler)
      for epoch in range(3):
+         if train_sampler is not None:
+             train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S1",
        "shuffle=True in one process",
        {"auto": "single right", "accelerate": "single refused SHD934"},
        """
  from torch.utils.data import DataLoader


  def main(train_set, model):
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S1",
        "shuffle=True in one process, to be run in several",
        {"ddp": "ddp edit SHD301"},
        """
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ import torch.distributed


  def main(train_set, model):
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_sampler = (
+         DistributedSampler(train_set, shuffle=True)
+         if torch.distributed.is_available() and torch.distributed.is_initialized()
+         else None
+     )
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=(train_sampler is None), sampler=train_sampler)
      for epoch in range(3):
+         if train_sampler is not None:
+             train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S1",
        "shuffle=True in one process, to be run in several, in a file that is run while it is imported",
        {"ddp": ("ddp refused SHD913",)},
        {
            "data.py": """
  from torch.utils.data import DataLoader

  train_loader = DataLoader(list(range(8)), batch_size=8, shuffle=True)
""",
            "train.py": """
  from data import train_loader


  def main(model):
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
        },
    ),
    Idiom(
        "S2",
        "no shuffle in a prepared loader",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(val_set, model):
      accelerator = Accelerator()
      val_loader = DataLoader(val_set, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S2",
        "a training loader in order stays in order",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=False)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=False)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S3",
        "a computed shuffle is kept as it is",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(cfg, train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=cfg.shuffle)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=cfg.shuffle)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S3",
        "a computed shuffle in a prepared loader",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(dataset, is_train, model):
      accelerator = Accelerator()
      loader = DataLoader(dataset, batch_size=8, shuffle=is_train)
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S4",
        "SequentialSampler by name in a prepared loader",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(ev, model):
      accelerator = Accelerator()
-     ev_sampler = SequentialSampler(ev)
-     ev_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
+     ev_loader = DataLoader(ev, batch_size=8)
      model, ev_loader = accelerator.prepare(model, ev_loader)
      for batch in ev_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S4",
        "SequentialSampler in one process says what the default says",
        {"auto accelerate": "single edit SHD103"},
        """
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(ev, model):
-     ev_sampler = SequentialSampler(ev)
-     ev_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
+     ev_loader = DataLoader(ev, batch_size=8)
      for batch in ev_loader:
          print(model(batch))
""",
    ),
    Idiom(
        "S4",
        "SequentialSampler of another dataset",
        everywhere("accelerate refused SHD907"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SequentialSampler


  def main(ev, wrapped, model):
      accelerator = Accelerator()
      ev_loader = DataLoader(wrapped, sampler=SequentialSampler(ev), batch_size=8)
      model, ev_loader = accelerator.prepare(model, ev_loader)
      for batch in ev_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S4",
        "SequentialSampler in raw DDP, not reduced",
        edited("ddp", "SHD305"),
        """
  import torch
  import torch.distributed as dist
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, sampler=SequentialSampler(val_set), batch_size=8)
+     val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False), batch_size=8)
+     val_loader = unpadded(val_loader)
      correct = 0
      for images, labels in val_loader:
          correct += (model(images).argmax(1) == labels).sum()
+     correct = reduced(correct)
      print(correct / len(val_set))
""",
    ),
    Idiom(
        "S5",
        "RandomSampler by name in a prepared loader",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = RandomSampler(train_set)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=False, sampler=sampler)
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S5",
        "RandomSampler in raw DDP hides a missing DistributedSampler",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
-     sampler = RandomSampler(train_set)
+     sampler = DistributedSampler(train_set, shuffle=True)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S5",
        "RandomSampler in one process",
        {"auto accelerate": "single edit SHD103"},
        """
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
-     sampler = RandomSampler(train_set)
-     train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      for batch in train_loader:
          model(batch).backward()
""",
    ),
    Idiom(
        "S5",
        "RandomSampler in one process, to be run in several",
        {"ddp": "ddp edit SHD301"},
        """
  from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data.distributed import DistributedSampler
+ import torch.distributed


  def main(train_set, model):
-     train_loader = DataLoader(train_set, batch_size=8, sampler=RandomSampler(train_set))
+     train_sampler = (
+         DistributedSampler(train_set, shuffle=True)
+         if torch.distributed.is_available() and torch.distributed.is_initialized()
+         else RandomSampler(train_set)
+     )
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         if isinstance(train_sampler, DistributedSampler):
+             train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S5",
        "RandomSampler with a generator",
        everywhere("accelerate refused SHD914"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, RandomSampler


  def main(train_set, model):
      accelerator = Accelerator()
      sampler = RandomSampler(train_set, generator=torch.Generator().manual_seed(1))
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S6",
        "SequentialSampler in the call",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  def main(val_set, model):
      accelerator = Accelerator()
-     val_loader = DataLoader(val_set, sampler=SequentialSampler(val_set), batch_size=8)
+     val_loader = DataLoader(val_set, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S7",
        "RandomSampler in the call",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, sampler=RandomSampler(train_set), batch_size=8)
+     train_loader = DataLoader(train_set, shuffle=True, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S8",
        "Random or Distributed in one expression, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
-     sampler = RandomSampler(train_set) if args.local_rank == -1 else DistributedSampler(train_set)
-     train_loader = DataLoader(train_set, sampler=sampler, batch_size=args.bs)
+     train_loader = DataLoader(train_set, shuffle=True, batch_size=args.bs)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S8",
        "Random or Distributed in one expression, raw DDP",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, RandomSampler
  from torch.utils.data.distributed import DistributedSampler
  from tqdm import trange


  def main(args, tr, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
      tr_sampler = RandomSampler(tr) if args.local_rank == -1 else DistributedSampler(tr)
      tr_loader = DataLoader(tr, sampler=tr_sampler, batch_size=args.bs)
-     for _ in trange(int(args.epochs)):
+     for epoch in trange(int(args.epochs)):
+         if isinstance(tr_sampler, DistributedSampler):
+             tr_sampler.set_epoch(epoch)
          for step, batch in enumerate(tr_loader):
              model(batch).backward()
""",
    ),
    Idiom(
        "S9",
        "an if with two samplers in each branch, both prepared",
        {
            "auto accelerate": ("accelerate edit SHD201", "accelerate edit SHD201"),
            "ddp": ("accelerate refused SHD926", "accelerate refused SHD926"),
        },
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, tr, ev, model):
      accelerator = Accelerator()
-     if args.local_rank == -1:
-         tr_sampler, ev_sampler = RandomSampler(tr), SequentialSampler(ev)
-     else:
-         tr_sampler, ev_sampler = DistributedSampler(tr), DistributedSampler(ev, shuffle=False)
-     train_loader = DataLoader(tr, sampler=tr_sampler, batch_size=8)
+     train_loader = DataLoader(tr, shuffle=True, batch_size=8)
-     val_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
+     val_loader = DataLoader(ev, batch_size=8)
      model, train_loader, val_loader = accelerator.prepare(model, train_loader, val_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S9",
        "an if whose branches do more than choose a sampler",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
      if args.local_rank == -1:
-         sampler = RandomSampler(train_set)
          print("one process")
      else:
-         sampler = DistributedSampler(train_set)
          print("several processes")
-     train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
+     train_loader = DataLoader(train_set, shuffle=True, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S9",
        "an if of which one branch only chose a sampler",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
-     if args.local_rank == -1:
-         sampler = RandomSampler(train_set)
-     else:
-         sampler = DistributedSampler(train_set)
+     if args.local_rank != -1:
          print("several processes")
-     train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
+     train_loader = DataLoader(train_set, shuffle=True, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S9",
        "an if with two samplers, raw DDP",
        {
            "auto ddp": ("ddp edit SHD401", "ddp edit SHD501"),
            "accelerate": ("ddp refused SHD926", "ddp refused SHD926"),
        },
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
  from torch.utils.data.distributed import DistributedSampler


  def main(args, tr, ev, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
      if args.local_rank == -1:
          tr_sampler, ev_sampler = RandomSampler(tr), SequentialSampler(ev)
      else:
-         tr_sampler, ev_sampler = DistributedSampler(tr), DistributedSampler(ev)
+         tr_sampler, ev_sampler = DistributedSampler(tr), DistributedSampler(ev, shuffle=False)
      train_loader = DataLoader(tr, sampler=tr_sampler, batch_size=8)
      val_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
-     for _ in range(args.epochs):
+     for epoch in range(args.epochs):
+         if isinstance(tr_sampler, DistributedSampler):
+             tr_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
          model.eval()
          with torch.no_grad():
              for batch in val_loader:
                  dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "S9",
        "an if of which the other branch only chose a sampler",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
+ from torch.utils.data import DataLoader


  def main(args, train_set, model):
      accelerator = Accelerator()
      if args.local_rank == -1:
          print("one process")
-         sampler = RandomSampler(train_set)
-     else:
-         sampler = DistributedSampler(train_set)
-     train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
+     train_loader = DataLoader(train_set, shuffle=True, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S10",
        "Sequential or Distributed in one expression, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, ev, model):
      accelerator = Accelerator()
-     sampler = SequentialSampler(ev) if args.local_rank == -1 else DistributedSampler(ev, shuffle=False)
-     val_loader = DataLoader(ev, sampler=sampler, batch_size=8)
+     val_loader = DataLoader(ev, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S10",
        "Sequential or shuffled Distributed, prepared: the arms disagree",
        everywhere("accelerate refused SHD922"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SequentialSampler
  from torch.utils.data.distributed import DistributedSampler


  def main(args, dataset, model):
      accelerator = Accelerator()
      sampler = SequentialSampler(dataset) if args.local_rank == -1 else DistributedSampler(dataset)
      loader = DataLoader(dataset, sampler=sampler, batch_size=8)
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S10",
        "Sequential or Distributed in one expression, raw DDP",
        edited("ddp", "SHD501"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, SequentialSampler
  from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def evaluate(args, ev, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
-     ev_sampler = SequentialSampler(ev) if args.local_rank == -1 else DistributedSampler(ev)
+     ev_sampler = SequentialSampler(ev) if args.local_rank == -1 else DistributedSampler(ev, shuffle=False)
      ev_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
      for batch in ev_loader:
          dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "S11",
        "Sequential or Distributed by an if, raw DDP",
        edited("ddp", "SHD501"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, SequentialSampler
  from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def evaluate(args, ev, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
      if args.local_rank == -1:
          ev_sampler = SequentialSampler(ev)
      else:
-         ev_sampler = DistributedSampler(ev)
+         ev_sampler = DistributedSampler(ev, shuffle=False)
      ev_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
      for batch in ev_loader:
          dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "S11",
        "Sequential or Distributed by an if, evaluated on rank 0: it sees its part only",
        everywhere("ddp refused SHD706"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, SequentialSampler
  from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def evaluate(args, ev, model):
      if args.local_rank == -1:
          ev_sampler = SequentialSampler(ev)
      else:
          ev_sampler = DistributedSampler(ev)
      ev_loader = DataLoader(ev, sampler=ev_sampler, batch_size=8)
      correct = 0
      for images, labels in ev_loader:
          correct += (model(images) == labels).sum()
      return correct / len(ev)


  def main(args, ev, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
      if args.local_rank in [-1, 0]:
          print(evaluate(args, ev, model))
""",
    ),
    Idiom(
        "S12",
        "Distributed or None with shuffle=(sampler is None), told the epoch",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
      train_sampler = DistributedSampler(train_set) if args.distributed else None
      train_loader = DataLoader(train_set, shuffle=(train_sampler is None), sampler=train_sampler)
      for epoch in range(3):
          if args.distributed:
              train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S12",
        "None as the default before the if, never told",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      train_sampler = None
      if args.distributed:
          dist.init_process_group("nccl")
          train_sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, shuffle=train_sampler is None, sampler=train_sampler)
      for epoch in range(3):
+         if train_sampler is not None:
+             train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S12",
        "Distributed or None, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
-     if not args.distributed:
-         sampler = None
-     else:
-         sampler = DistributedSampler(train_set)
-     train_loader = DataLoader(train_set, shuffle=(sampler is None), sampler=sampler)
+     train_loader = DataLoader(train_set, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S12",
        "an evaluation loader, Distributed or None, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, val_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(val_set, shuffle=False) if args.distributed else None
-     val_loader = DataLoader(val_set, batch_size=8, shuffle=False, sampler=sampler)
+     val_loader = DataLoader(val_set, batch_size=8, shuffle=False)
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S13",
        "Distributed or None beside shuffle=False: one process is not shuffled, several are",
        everywhere("accelerate refused SHD922"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
      sampler = DistributedSampler(train_set) if args.distributed else None
      train_loader = DataLoader(train_set, shuffle=False, sampler=sampler)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S13",
        "Distributed or None beside shuffle=not distributed",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(train_set) if args.distributed else None
-     train_loader = DataLoader(train_set, shuffle=not args.distributed, sampler=sampler)
+     train_loader = DataLoader(train_set, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S13",
        "a shuffle variable set in the branches, raw DDP: only the epoch is missing",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
          sampler = DistributedSampler(train_set)
          shuffle = False
      else:
          sampler = None
          shuffle = True
      train_loader = DataLoader(train_set, shuffle=shuffle, sampler=sampler)
      for epoch in range(3):
+         if sampler is not None:
+             sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S13",
        "one process unshuffled, raw DDP: kept",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set) if args.distributed else None
      train_loader = DataLoader(train_set, shuffle=False, sampler=sampler)
      for epoch in range(3):
          if args.distributed:
              sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S13",
        "Distributed or None by an if beside shuffle=not distributed",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(args, train_set, model):
      accelerator = Accelerator()
-     if args.distributed:
-         sampler = DistributedSampler(train_set)
-     else:
-         sampler = None
-     train_loader = DataLoader(train_set, shuffle=not args.distributed, sampler=sampler)
+     train_loader = DataLoader(train_set, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S13",
        "shuffle by a condition that is another by then",
        everywhere("accelerate refused SHD922"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
      many = args.many
      sampler = DistributedSampler(train_set) if many else None
      many = accelerator.num_processes > 1
      train_loader = DataLoader(train_set, shuffle=not many, sampler=sampler)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S14",
        "always Distributed, prepared: its set_epoch becomes the loader's",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(train_set)
-     train_loader = DataLoader(train_set, sampler=sampler, drop_last=True)
+     train_loader = DataLoader(train_set, shuffle=True, drop_last=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for epoch in range(3):
-         sampler.set_epoch(epoch)
+         train_loader.set_epoch(epoch)
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S14",
        "always Distributed, raw DDP, told",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S15",
        "num_replicas and rank from the process group, by name",
        edited("accelerate", "SHD201"),
        """
  import torch.distributed as dist
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(train_set, num_replicas=dist.get_world_size(), rank=dist.get_rank())
-     train_loader = DataLoader(train_set, sampler=sampler)
+     train_loader = DataLoader(train_set, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
      dist.destroy_process_group()
""",
    ),
    Idiom(
        "S15",
        "num_replicas and rank by position, raw DDP",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, rank, world_size):
      dist.init_process_group("nccl", rank=rank, world_size=world_size)
      sampler = DistributedSampler(train_set, world_size, rank)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S15",
        "Horovod's size and rank",
        everywhere("ddp right"),
        """
  import horovod.torch as hvd
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      hvd.init()
      sampler = DistributedSampler(train_set, num_replicas=hvd.size(), rank=hvd.rank())
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S15",
        "a condition that is always true",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, world_size, rank):
      dist.init_process_group("nccl")
      if True:  # args.distributed
          sampler = DistributedSampler(train_set, num_replicas=world_size, rank=rank)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a distributed sampler of the project's own, prepared: sharded twice",
        everywhere("accelerate refused SHD702"),
        """
  import torch.distributed as dist
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, Sampler


  class RepeatAugSampler(Sampler):
      def __init__(self, dataset):
          self.dataset = dataset
          self.rank, self.num_replicas = dist.get_rank(), dist.get_world_size()

      def __iter__(self):
          return iter(range(self.rank, len(self.dataset), self.num_replicas))


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, sampler=RepeatAugSampler(train_set))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S16",
        "a distributed sampler of the project's own, raw DDP, told",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, Sampler


  class RepeatAugSampler(Sampler):
      def __init__(self, dataset):
          self.dataset, self.epoch = dataset, 0
          self.rank, self.num_replicas = dist.get_rank(), dist.get_world_size()

      def __iter__(self):
          return iter(range(self.rank, len(self.dataset), self.num_replicas))

      def set_epoch(self, epoch):
          self.epoch = epoch


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = RepeatAugSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler that derives from DistributedSampler, prepared: sharded twice",
        everywhere("accelerate refused SHD702"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, DistributedSampler


  class OrderedSampler(DistributedSampler):
      def __iter__(self):
          return iter(range(self.rank, len(self.dataset), self.num_replicas))


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, sampler=OrderedSampler(train_set))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S16",
        "a sampler that derives from DistributedSampler, raw DDP, told",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class OrderedSampler(DistributedSampler):
      def __iter__(self):
          return iter(range(self.rank, len(self.dataset), self.num_replicas))


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = OrderedSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler from elsewhere that is told rank and size, raw DDP: it shards",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from elsewhere import RASampler
  from torch.utils.data import DataLoader


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = RASampler(train_set, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=True)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler that derives from DistributedSampler and is not told the epoch is told it alike",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class MySampler(DistributedSampler):
      def __len__(self):
          return super().__len__()


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = MySampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a copy of DistributedSampler that nothing tells the epoch",
        everywhere("ddp refused SHD909"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, Sampler


  class RASampler(Sampler):
      def __init__(self, dataset, num_replicas=None, rank=None):
          self.dataset, self.epoch = dataset, 0
          self.rank, self.num_replicas = rank or dist.get_rank(), num_replicas or dist.get_world_size()

      def __iter__(self):
          g = torch.Generator()
          g.manual_seed(self.epoch)
          indices = torch.randperm(len(self.dataset), generator=g).tolist()
          return iter(indices[self.rank :: self.num_replicas])

      def set_epoch(self, epoch):
          self.epoch = epoch


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = RASampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler that cuts an order which each rank draws for itself",
        everywhere("ddp refused SHD701"),
        """
  import random
  import torch.distributed as dist
  from torch.utils.data import DataLoader, Sampler


  class RASampler(Sampler):
      def __init__(self, dataset):
          self.dataset = dataset

      def __iter__(self):
          indices = list(range(len(self.dataset)))
          random.shuffle(indices)
          return iter(indices[dist.get_rank() :: dist.get_world_size()])


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, sampler=RASampler(train_set))
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler that asks for the rank but gives every rank everything",
        everywhere("ddp refused SHD915"),
        """
  import random
  import torch.distributed as dist
  from torch.utils.data import DataLoader, Sampler


  class RASampler(Sampler):
      def __init__(self, dataset):
          self.dataset = dataset
          print("rank", dist.get_rank(), "of", dist.get_world_size())
          self.rng = random.Random(dist.get_rank())

      def __iter__(self):
          indices = list(range(len(self.dataset)))
          self.rng.shuffle(indices)
          return iter(indices)


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, sampler=RASampler(train_set))
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler from elsewhere that is told rank and size but not the epoch",
        everywhere("ddp refused SHD909"),
        """
  import torch.distributed as dist
  from elsewhere import RASampler
  from torch.utils.data import DataLoader


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = RASampler(train_set, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=True)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a sampler that derives from DistributedSampler where distributed, else a RandomSampler",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler, RandomSampler


  class MySampler(DistributedSampler):
      pass


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
      sampler = MySampler(train_set) if args.distributed else RandomSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
+         if isinstance(sampler, DistributedSampler):
+             sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S16",
        "a wrapper by whose name another sampler's draw is dealt out, told",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from elsewhere import DistributedSamplerWrapper
  from torch.utils.data import DataLoader, WeightedRandomSampler


  def main(train_set, weights, model):
      dist.init_process_group("nccl")
      sampler = DistributedSamplerWrapper(WeightedRandomSampler(weights, len(weights)))
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S17",
        "a sampler of the project's own that draws from the global generator, prepared",
        everywhere("accelerate refused SHD701"),
        """
  import random

  from accelerate import Accelerator
  from torch.utils.data import DataLoader, Sampler


  class IdentitySampler(Sampler):
      def __init__(self, dataset):
          self.dataset = dataset

      def __iter__(self):
          order = list(range(len(self.dataset)))
          random.shuffle(order)
          return iter(order)

      def __len__(self):
          return len(self.dataset)


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, sampler=IdentitySampler(train_set))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S17",
        "a sampler of the project's own, raw DDP",
        everywhere("ddp refused SHD915"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, Sampler


  class LengthSampler(Sampler):
      def __init__(self, dataset):
          self.dataset = dataset

      def __iter__(self):
          return iter(sorted(range(len(self.dataset)), key=lambda i: len(self.dataset[i])))


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, sampler=LengthSampler(train_set))
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S18",
        "WeightedRandomSampler, prepared: one synchronised draw",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, WeightedRandomSampler


  def main(train_set, weights, model):
      accelerator = Accelerator()
      sampler = WeightedRandomSampler(weights, len(weights))
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S18",
        "WeightedRandomSampler, raw DDP: a DistributedSampler would lose the weights",
        everywhere("ddp refused SHD915"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, WeightedRandomSampler


  def main(train_set, weights, model):
      dist.init_process_group("nccl")
      sampler = WeightedRandomSampler(weights, len(weights))
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S19",
        "SubsetRandomSampler, prepared",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SubsetRandomSampler


  def main(train_set, indices, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, sampler=SubsetRandomSampler(indices), batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S19",
        "SubsetRandomSampler, raw DDP: the subset becomes the dataset",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
- from torch.utils.data import DataLoader, SubsetRandomSampler
+ from torch.utils.data import DataLoader, Subset
+ from torch.utils.data.distributed import DistributedSampler


  def main(dataset, indices, model):
      dist.init_process_group("nccl")
-     train_sampler = SubsetRandomSampler(indices)
+     train_set = Subset(dataset, indices)
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(dataset, sampler=train_sampler, batch_size=8)
+     train_loader = DataLoader(train_set, sampler=train_sampler, batch_size=8)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S19",
        "a subset sampler over every world-size-th index: sharded by hand",
        everywhere("ddp refused SHD917"),
        """
  import numpy as np
  import torch.distributed as dist
  from torch.utils.data import DataLoader, SubsetRandomSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      mine = np.arange(dist.get_rank(), len(train_set), dist.get_world_size())
      sampler = SubsetRandomSampler(mine)
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S19",
        "a subset sampler over every world-size-th index, prepared: split a second time",
        everywhere("accelerate refused SHD715"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SubsetRandomSampler


  def main(train_set, model):
      accelerator = Accelerator()
      mine = range(accelerator.process_index, len(train_set), accelerator.num_processes)
      sampler = SubsetRandomSampler(mine)
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S20",
        "RandomSampler with num_samples, prepared",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, RandomSampler


  def main(train_set, model):
      accelerator = Accelerator()
      sampler = RandomSampler(train_set, replacement=True, num_samples=1000)
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S20",
        "RandomSampler with num_samples, raw DDP",
        everywhere("ddp refused SHD915"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, RandomSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = RandomSampler(train_set, replacement=True, num_samples=1000)
      train_loader = DataLoader(train_set, sampler=sampler, batch_size=8)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S20",
        "RandomSampler with num_samples in one process",
        {"auto": "single right", "ddp": "ddp refused SHD915", "accelerate": "single refused SHD934"},
        """
  from torch.utils.data import DataLoader, RandomSampler


  def main(train_set, model):
      sampler = RandomSampler(train_set, num_samples=1000)
      for batch in DataLoader(train_set, sampler=sampler, batch_size=8):
          model(batch).backward()
""",
    ),
    Idiom(
        "S21",
        "BatchSampler over RandomSampler, prepared",
        edited("accelerate", "SHD102"),
        """
  from accelerate import Accelerator
- from torch.utils.data import BatchSampler, DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     batches = BatchSampler(RandomSampler(train_set), 8, drop_last=True)
-     train_loader = DataLoader(train_set, batch_sampler=batches, num_workers=4)
+     train_loader = DataLoader(train_set, batch_size=8, num_workers=4, shuffle=True, drop_last=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S21",
        "BatchSampler over DistributedSampler, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(train_set)
-     batches = BatchSampler(sampler, 8, drop_last=True)
-     train_loader = DataLoader(train_set, batch_sampler=batches)
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True, drop_last=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S21",
        "BatchSampler over DistributedSampler, raw DDP: the base is told",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      batches = BatchSampler(sampler, 8, drop_last=True)
      train_loader = DataLoader(train_set, batch_sampler=batches)
      for epoch in range(3):
+         train_loader.batch_sampler.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S22",
        "a batch sampler of the project's own, prepared",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  class BucketBatchSampler:
      def __init__(self, dataset, batch_size):
          self.dataset, self.batch_size = dataset, batch_size

      def __iter__(self):
          for start in range(0, len(self.dataset), self.batch_size):
              yield list(range(start, start + self.batch_size))

      def __len__(self):
          return len(self.dataset) // self.batch_size


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, batch_sampler=BucketBatchSampler(train_set, 8))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S22",
        "a batch sampler of the project's own, raw DDP",
        everywhere("ddp refused SHD915"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  class BucketBatchSampler:
      def __init__(self, dataset, batch_size):
          self.dataset, self.batch_size = dataset, batch_size

      def __iter__(self):
          for start in range(0, len(self.dataset), self.batch_size):
              yield list(range(start, start + self.batch_size))


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_sampler=BucketBatchSampler(train_set, 8))
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S23",
        "sampler=None is no sampler, prepared",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, shuffle=True, sampler=None)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S23",
        "sampler=None is no sampler, raw DDP: it is filled in",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, shuffle=True, sampler=None)
+     train_loader = DataLoader(train_set, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S24",
        "a parameter that each caller fills alike, prepared: told, since the callers are others' too",
        everywhere("accelerate refused SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, DistributedSampler


  def make_loader(ds, sampler=None):
      return DataLoader(ds, sampler=sampler, batch_size=4)


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = make_loader(train_set, DistributedSampler(train_set))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S24",
        "a parameter that the callers fill differently",
        everywhere("accelerate refused SHD902"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, DistributedSampler


  def make_loader(ds, sampler=None, is_train=False):
      return DataLoader(ds, sampler=sampler, shuffle=is_train and sampler is None, batch_size=4)


  def main(train_set, val_set, model):
      accelerator = Accelerator()
      train_loader = make_loader(train_set, DistributedSampler(train_set), is_train=True)
      val_loader = make_loader(val_set)
      model, train_loader, val_loader = accelerator.prepare(model, train_loader, val_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "S24",
        "a parameter that each caller fills with a DistributedSampler, raw DDP",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def make_loader(ds, sampler):
      return DataLoader(ds, sampler=sampler, batch_size=4)


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = make_loader(train_set, DistributedSampler(train_set))
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S24",
        "a factory's result whose code is not in the project",
        everywhere("ddp refused SHD902"),
        """
  import torch.distributed as dist
  from elsewhere import make_sampler
  from torch.utils.data import DataLoader


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, sampler=make_sampler(train_set), batch_size=4)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S24",
        "datasets and samplers zipped",
        everywhere("ddp refused SHD902"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def create_loaders(datasets, samplers, sizes):
      loaders = []
      for dataset, sampler, size in zip(datasets, samplers, sizes):
          loaders.append(DataLoader(dataset, batch_size=size, sampler=sampler, shuffle=sampler is None))
      return loaders


  def main(train_set, train_sampler, model):
      dist.init_process_group("nccl")
      (train_loader,) = create_loaders([train_set], [train_sampler], [8])
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S25",
        "a sampler in a dict of keywords, prepared",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     kwargs = {"batch_size": 8, "sampler": DistributedSampler(train_set)}
+     kwargs = {"batch_size": 8, "shuffle": True}
      train_loader = DataLoader(train_set, **kwargs)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S25",
        "shuffle in a dict, replaced by a sampler where distributed",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(args, train_set, model):
      kwargs = {"shuffle": True}
      if args.distributed:
          dist.init_process_group("nccl")
          sampler = DistributedSampler(train_set)
          kwargs = {"sampler": sampler}
      train_loader = DataLoader(train_set, batch_size=8, **kwargs)
      for epoch in range(3):
          if args.distributed:
              sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S25",
        "one dict or another by a conditional expression",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set) if args.distributed else None
      kwargs = {"sampler": sampler} if args.distributed else {"shuffle": True}
      train_loader = DataLoader(train_set, batch_size=8, **kwargs)
      for epoch in range(3):
          if args.distributed:
              sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S25",
        "a DistributedSampler in a dict, never told",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      kwargs = {"batch_size": 8, "sampler": DistributedSampler(train_set)}
      train_loader = DataLoader(train_set, **kwargs)
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S25",
        "shuffle in a dict that feeds two loaders",
        everywhere("ddp refused SHD903", "ddp refused SHD906"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(train_set, val_set, model):
      dist.init_process_group("nccl")
      kwargs = {"batch_size": 8, "shuffle": True}
      train_loader = DataLoader(train_set, **kwargs)
      val_loader = DataLoader(val_set, **kwargs)
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
          with torch.no_grad():
              for batch in val_loader:
                  dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "S25",
        "in order by a sampler on one way, shuffled on the other: each way stays as it is",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(args, train_set, model):
      accelerator = Accelerator()
      kwargs = {"batch_size": 8}
-     if args.distributed:
-         kwargs["sampler"] = DistributedSampler(train_set, shuffle=False)
-     else:
+     if not args.distributed:
          kwargs["shuffle"] = True
      loader = DataLoader(train_set, **kwargs)
      model, loader = accelerator.prepare(model, loader)
      for batch in loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "S26",
        "three samplers by nested flags, one of them the project's own",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from project import RepeatAugSampler
  from torch.utils.data import DataLoader, DistributedSampler, RandomSampler


  def main(args, train_set, model):
      if args.distributed:
          dist.init_process_group("nccl")
          if args.repeated_aug:
              sampler = RepeatAugSampler(train_set, num_replicas=dist.get_world_size(), rank=dist.get_rank())
          else:
              sampler = DistributedSampler(train_set)
      else:
          sampler = RandomSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      for epoch in range(3):
          if args.distributed:
              sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "S26",
        "three samplers by nested flags, prepared: two of them shard a second time",
        everywhere("accelerate refused SHD201 SHD702"),
        """
  import torch.distributed as dist
  from accelerate import Accelerator
  from project import RepeatAugSampler
  from torch.utils.data import DataLoader, DistributedSampler, RandomSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
      if args.repeated_aug:
          sampler = RepeatAugSampler(train_set, num_replicas=dist.get_world_size(), rank=dist.get_rank())
      elif args.distributed:
          sampler = DistributedSampler(train_set)
      else:
          sampler = RandomSampler(train_set)
      train_loader = DataLoader(train_set, sampler=sampler)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
)
