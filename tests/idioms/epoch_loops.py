"""Which loop counts the epochs of a loader, and where in it the sampler is told."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

EPOCH_LOOPS = (
    Idiom(
        "E1",
        "range(start, stop)",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(args, train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(args.start_epoch, args.epochs):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E2",
        "range(n), whatever its variable is called",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for i in range(3):
+         sampler.set_epoch(i)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E2",
        "epochs within rounds: two loops count",
        everywhere("ddp refused SHD910"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for i in range(3):
          for j in range(2):
              for batch in train_loader:
                  model(batch).backward()
""",
    ),
    Idiom(
        "E3",
        "a trange variable; the loop named after epochs is the one over batches",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
  from tqdm import tqdm, trange


  def main(args, train_set, model):
      dist.init_process_group("nccl")
      train_sampler = DistributedSampler(train_set)
      train_dataloader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      train_iterator = trange(int(args.num_train_epochs), desc="Epoch")
-     for _ in train_iterator:
+     for epoch in train_iterator:
+         train_sampler.set_epoch(epoch)
          epoch_iterator = tqdm(train_dataloader, desc="Iteration")
          for step, batch in enumerate(epoch_iterator):
              model(batch).backward()
""",
    ),
    Idiom(
        "E4",
        "trange in the loop's head",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
  from tqdm import trange


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in trange(1, 4, disable=dist.get_rank() != 0):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E5",
        "a progress bar over a range, by a name",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
  from tqdm import tqdm


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      bar = tqdm(range(3))
      for e in bar:
+         sampler.set_epoch(e)
          for batch in train_loader:
              model(batch).backward()
          bar.set_description(f"epoch {e}")
""",
    ),
    Idiom(
        "E5",
        "a progress bar of steps is no epoch loop",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
  from tqdm import tqdm


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      bar = tqdm(range(3 * len(train_loader)))
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
              bar.update(1)
""",
    ),
    Idiom(
        "E6",
        "while epoch < n, counted up at the end",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      epoch = 0
      while epoch < 3:
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
          epoch += 1
""",
    ),
    Idiom(
        "E6",
        "while not done counts nothing",
        everywhere("ddp refused SHD909"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      step, done = 0, False
      while not done:
          for batch in train_loader:
              model(batch).backward()
              step += 1
              done = step >= steps
""",
    ),
    Idiom(
        "E6",
        "while True with an epoch that is counted",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, good):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      epoch = 0
      while True:
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
          epoch += 1
          if good(model):
              break
""",
    ),
    Idiom(
        "E7",
        "itertools.count",
        edited("ddp", "SHD401"),
        """
  import itertools

  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, first):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in itertools.count(first):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E8",
        "enumerate(trange(n)): the index is the epoch",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
  from tqdm import trange


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for idx, _ in enumerate(trange(3)):
+         sampler.set_epoch(idx)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E8",
        "enumerate(range(start, n)): the index starts again when resumed, the item does not",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, start):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
-     for idx, _ in enumerate(range(start, 3)):
+     for idx, epoch in enumerate(range(start, 3)):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E9",
        "the loop binds _",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
-     for _ in range(3):
+     for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E9",
        "the loop binds _ and the body binds it again",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
-     for _ in range(3):
+     for epoch in range(3):
+         sampler.set_epoch(epoch)
          for images, _ in train_loader:
              model(images).backward()
""",
    ),
    Idiom(
        "E9",
        "the loop binds _ and epoch means something else: it is not bound anew",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, epoch):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
-     for _ in range(3):
+     for epoch_index in range(3):
+         sampler.set_epoch(epoch_index)
          for batch in train_loader:
              model(batch, epoch).backward()
""",
    ),
    Idiom(
        "E10",
        "the loop in the caller, the loader its own",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def train(loader, model, epoch):
      for step, batch in enumerate(loader):
          model(batch).backward()


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          train(train_loader, model, epoch)
""",
    ),
    Idiom(
        "E10",
        "two loops in the caller: both tell the sampler",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def train(loader, model):
      for batch in loader:
          model(batch).backward()


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(2):
+         sampler.set_epoch(epoch)
          train(train_loader, model)
      model.unfreeze()
      for epoch in range(2, 4):
+         sampler.set_epoch(epoch)
          train(train_loader, model)
""",
    ),
    Idiom(
        "E10",
        "the loop in a function that is given the loader",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def fit(loader, model):
      for epoch in range(3):
+         loader.sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()


  def main(train_set, model):
      dist.init_process_group("nccl")
      fit(DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set)), model)
""",
    ),
    Idiom(
        "E11",
        "the loop in another file",
        edited("ddp", "SHD401"),
        {
            "data.py": """
  from torch.utils.data import DataLoader, DistributedSampler


  def build(train_set):
      sampler = DistributedSampler(train_set)
      return DataLoader(train_set, batch_size=8, sampler=sampler)
""",
            "train.py": """
  import torch.distributed as dist
  from data import build


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = build(train_set)
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
        },
    ),
    Idiom(
        "E11",
        "the loop in an engine that is given the loader",
        edited("ddp", "SHD401"),
        {
            "engine.py": """
  def fit(model, loader, epochs):
      for epoch in range(epochs):
+         loader.sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import fit
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      fit(model, train_loader, 3)
""",
        },
    ),
    Idiom(
        "E11",
        "the loop in another file tells the sampler already",
        everywhere("ddp right"),
        {
            "engine.py": """
  def fit(model, loader, epochs):
      for epoch in range(epochs):
          loader.sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import fit
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      fit(model, train_loader, 3)
""",
        },
    ),
    Idiom(
        "E11",
        "the loop in another file tells the sampler that it is given",
        everywhere("ddp right"),
        {
            "engine.py": """
  def fit(model, loader, sampler, epochs):
      for epoch in range(epochs):
          sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import fit
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      fit(model, train_loader, sampler, 3)
""",
        },
    ),
    Idiom(
        "E11",
        "one epoch in another file tells the number that it is given",
        everywhere("ddp right"),
        {
            "engine.py": """
  def train_one_epoch(model, loader, epoch):
      loader.sampler.set_epoch(epoch)
      for batch in loader:
          model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import train_one_epoch
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
          train_one_epoch(model, train_loader, epoch)
""",
        },
    ),
    Idiom(
        "E11",
        "a trainer of another file tells the sampler by a method of its own",
        everywhere("ddp right"),
        {
            "engine.py": """
  class Trainer:
      def __init__(self, model, loader):
          self.model, self.loader = model, loader

      def before_epoch(self, epoch):
          if hasattr(self.loader.sampler, "set_epoch"):
              self.loader.sampler.set_epoch(epoch)

      def fit(self):
          for epoch in range(3):
              self.before_epoch(epoch)
              for batch in self.loader:
                  self.model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import Trainer
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      Trainer(model, train_loader).fit()
""",
        },
    ),
    Idiom(
        "E11",
        "a trainer of another file that tells nobody",
        edited("ddp", "SHD401"),
        {
            "engine.py": """
  class Trainer:
      def __init__(self, model, loader):
          self.model, self.loader = model, loader

      def run_epoch(self):
          for batch in self.loader:
              self.model(batch).backward()

      def fit(self):
          for epoch in range(3):
+             self.loader.sampler.set_epoch(epoch)
              self.run_epoch()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import Trainer
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      Trainer(model, train_loader).fit()
""",
        },
    ),
    Idiom(
        "E11",
        "the loop in a base class of another file",
        edited("ddp", "SHD401"),
        {
            "base.py": """
  class Base:
      def fit(self):
          for epoch in range(3):
+             self.loader.sampler.set_epoch(epoch)
              self.run_epoch()
""",
            "train.py": """
  import torch.distributed as dist
  from base import Base
  from torch.utils.data import DataLoader, DistributedSampler


  class Trainer(Base):
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model = model
          self.loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))

      def run_epoch(self):
          for batch in self.loader:
              self.model(batch).backward()


  def main(train_set, model):
      Trainer(train_set, model).fit()
""",
        },
    ),
    Idiom(
        "E11",
        "an engine that also gets a loader without a DistributedSampler asks first",
        {
            "auto ddp": ("ddp edit SHD401", "ddp refused SHD915"),
            "accelerate": ("ddp refused SHD926", "ddp refused SHD915"),
        },
        {
            "engine.py": """
+ from torch.utils.data.distributed import DistributedSampler
+
+
  def fit(model, loader):
      for epoch in range(3):
+         if isinstance(loader.sampler, DistributedSampler):
+             loader.sampler.set_epoch(epoch)
          for batch in loader:
              model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import fit
  from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler


  def main(train_set, weights, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      fit(model, train_loader)
      train_loader = DataLoader(train_set, batch_size=8, sampler=WeightedRandomSampler(weights, 100))
      fit(model, train_loader)
""",
        },
    ),
    Idiom(
        "E11",
        "the loop in another project",
        everywhere("ddp refused SHD909"),
        """
  import torch.distributed as dist
  from elsewhere import fit
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      fit(model, train_loader, epochs=3)
""",
    ),
    Idiom(
        "E12",
        "the target is an attribute",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(state, train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for state.epoch in range(state.epoch, 3):
+         sampler.set_epoch(state.epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E13",
        "a generator that never ends has no epoch",
        everywhere("ddp refused SHD909"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def forever(loader):
      while True:
          yield from loader


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      batches = forever(train_loader)
      for step in range(steps):
          model(next(batches)).backward()
""",
    ),
    Idiom(
        "E13",
        "itertools.cycle keeps the first pass",
        everywhere("ddp refused SHD911"),
        """
  from itertools import cycle

  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      batches = cycle(train_loader)
      for step in range(steps):
          model(next(batches)).backward()
""",
    ),
    Idiom(
        "E14",
        "a loader that is rebuilt in each epoch and told the epoch there",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(make_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
          train_set = make_set(epoch)
          sampler = DistributedSampler(train_set)
          sampler.set_epoch(epoch)
          train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "E14",
        "a loader that is rebuilt in each epoch by a function",
        everywhere("ddp refused SHD924"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def build(train_set):
      return DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))


  def main(make_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
          for batch in build(make_set(epoch)):
              model(batch).backward()
""",
    ),
    Idiom(
        "E15",
        "a closure holds the loop's body",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)

      def train_epoch(epoch):
          for batch in train_loader:
              model(batch).backward()

      for epoch in range(3):
+         sampler.set_epoch(epoch)
          train_epoch(epoch)
""",
    ),
    Idiom(
        "E16",
        "fit() calls train_epoch() of the same object",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model = model
          self.loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))

      def train_epoch(self):
          for batch in self.loader:
              self.model(batch).backward()

      def fit(self):
          for epoch in range(3):
+             self.loader.sampler.set_epoch(epoch)
              self.train_epoch()
""",
    ),
    Idiom(
        "E16",
        "a counter on self",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model, self.epoch = model, 0
          self.loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))

      def train_epoch(self):
          for batch in self.loader:
              self.model(batch).backward()

      def fit(self):
          while self.epoch < 3:
+             self.loader.sampler.set_epoch(self.epoch)
              self.train_epoch()
              self.epoch += 1
""",
    ),
    Idiom(
        "E16",
        "a counter on self, the sampler on self too",
        edited("ddp", "SHD401"),
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
          while self.epoch < 3:
+             self.loader.sampler.set_epoch(self.epoch)
              for batch in self.loader:
                  self.model(batch).backward()
              self.epoch += 1
""",
    ),
    Idiom(
        "E16",
        "fit() tells the sampler, train_epoch() of the same object reads the loader",
        everywhere("ddp right"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Trainer:
      def __init__(self, train_set, model):
          dist.init_process_group("nccl")
          self.model = model
          self.loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))

      def train_epoch(self):
          for batch in self.loader:
              self.model(batch).backward()

      def fit(self):
          for self.epoch in range(3):
              self.loader.sampler.set_epoch(self.epoch)
              self.train_epoch()
""",
    ),
    Idiom(
        "E17",
        "Lightning tells the epoch itself",
        everywhere("lightning not-ours"),
        """
  import lightning as L
  from torch.utils.data import DataLoader, DistributedSampler


  class Data(L.LightningDataModule):
      def train_dataloader(self):
          return DataLoader(self.train_set, batch_size=8, sampler=DistributedSampler(self.train_set))
""",
    ),
    Idiom(
        "E17",
        "accelerate tells the epoch itself",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = accelerator.prepare(DataLoader(train_set, batch_size=8, shuffle=True))
      for epoch in range(3):
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "E18",
        "a single pass: no epoch to tell",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @torch.no_grad()
  def main(train_set, encoder, path):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set, shuffle=False))
      features = [encoder(batch) for batch in train_loader]
      torch.save(features, f"{path}/{dist.get_rank()}.pt")


  if __name__ == "__main__":
      from project import encoder, train_set

      main(train_set, encoder, "features")
""",
    ),
    Idiom(
        "E18",
        "one pass of training over a plain loader: sharded, nothing to tell",
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
  for batch in train_loader:
      model(batch).backward()
""",
    ),
)
