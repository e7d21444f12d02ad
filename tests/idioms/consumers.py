"""Where a loader goes once it is built: prepared, handed on, to another file, to a framework, read by hand."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

CONSUMERS = (
    Idiom(
        "F1",
        "prepared in the same function: the check goes in between",
        edited("accelerate", "SHD201", "SHD601"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler
+ from shardfix import sanitize


  def main(train_set, model, optimizer):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     sanitize(train_loader, owner="accelerate")
      model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
        sanitizer="changed",
    ),
    Idiom(
        "F2",
        "x = accelerator.prepare(x)",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      train_loader = accelerator.prepare(train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F2",
        "prepare_data_loader",
        edited("accelerate", "SHD201"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
-     loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     loader = DataLoader(train_set, batch_size=8, shuffle=True)
      train_loader = accelerator.prepare_data_loader(loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F3",
        "two loaders from a factory in the same file, prepared by its caller",
        {
            "auto accelerate": ("accelerate edit SHD201", "accelerate edit SHD101"),
            "ddp": ("accelerate refused SHD926", "accelerate refused SHD926"),
        },
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler
+ from torch.utils.data import DataLoader


  def get_dataloaders(accelerator, train_set, val_set, batch_size):
-     train_loader = DataLoader(train_set, batch_size=batch_size, sampler=DistributedSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
-     val_loader = DataLoader(val_set, batch_size=batch_size, sampler=SequentialSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=batch_size)
      return train_loader, val_loader


  def main(train_set, val_set, model):
      accelerator = Accelerator()
      train_loader, val_loader = get_dataloaders(accelerator, train_set, val_set, 8)
      model, train_loader, val_loader = accelerator.prepare(model, train_loader, val_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "F3",
        "built in another file, prepared here",
        edited("accelerate", "SHD201"),
        {
            "data.py": """
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler


  def build(train_set):
-     return DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     return DataLoader(train_set, batch_size=8, shuffle=True)
""",
            "train.py": """
  from accelerate import Accelerator
  from data import build


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = build(train_set)
      model, train_loader = accelerator.prepare(model, train_loader)
      for epoch in range(3):
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
        },
    ),
    Idiom(
        "F3",
        "built here, prepared by a function of another file",
        edited("accelerate", "SHD101"),
        {
            "setup.py": """
  from accelerate import Accelerator

  accelerator = Accelerator()


  def ready(model, loader):
      return accelerator.prepare(model, loader)
""",
            "train.py": """
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader

  from setup import accelerator, ready


  def main(train_set, model):
-     train_loader = DataLoader(train_set, batch_size=8, sampler=RandomSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = ready(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
        },
    ),
    Idiom(
        "F4",
        "prepared in both branches: the check goes before the if",
        edited("accelerate", "SHD201", "SHD601"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
- from torch.utils.data.distributed import DistributedSampler
+ from shardfix import sanitize


  def main(args, train_set, unet, encoder):
      accelerator = Accelerator()
-     loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
+     loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     sanitize(loader, owner="accelerate")
      if args.train_text_encoder:
          unet, encoder, loader = accelerator.prepare(unet, encoder, loader)
      else:
          unet, loader = accelerator.prepare(unet, loader)
      for batch in loader:
          accelerator.backward(unet(batch))
""",
        sanitizer="changed",
    ),
    Idiom(
        "F4",
        "prepared in one branch only: nobody is sure who shards it",
        everywhere("unknown refused SHD901"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(args, train_set, model):
      accelerator = Accelerator()
      loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      if args.prepare_data:
          model, loader = accelerator.prepare(model, loader)
      else:
          model = accelerator.prepare(model)
      for batch in loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F5",
        "its length is read before prepare() and told to a scheduler that is prepared too",
        everywhere("accelerate right"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
  from transformers import get_scheduler


  def main(train_set, model, optimizer):
      accelerator = Accelerator()
      loader = DataLoader(train_set, batch_size=8, shuffle=True)
      steps = 3 * len(loader)
      scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=steps)
      model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
      for epoch in range(3):
          for batch in loader:
              accelerator.backward(model(batch))
              scheduler.step()
""",
    ),
    Idiom(
        "F5",
        "the length of the prepared loader told to a scheduler that is prepared too: too short",
        everywhere("accelerate refused SHD713"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
  from transformers import get_scheduler


  def main(train_set, model, optimizer):
      accelerator = Accelerator()
      loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
      scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=3 * len(loader))
      scheduler = accelerator.prepare(scheduler)
      for epoch in range(3):
          for batch in loader:
              accelerator.backward(model(batch))
              scheduler.step()
""",
    ),
    Idiom(
        "F6",
        "training under an Accelerator that never gets the loader",
        edited("ddp", "SHD301"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
+     train_sampler = DistributedSampler(
+         train_set,
+         num_replicas=accelerator.num_processes,
+         rank=accelerator.process_index,
+         shuffle=True,
+     )
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      model = accelerator.prepare(model)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F6",
        "the main process alone reads a loader to compute something first",
        everywhere("ddp right"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(val_set, encoder, path):
      accelerator = Accelerator()
      val_loader = DataLoader(val_set, batch_size=8)
      if accelerator.is_main_process:
          with torch.no_grad():
              latents = [encoder(batch) for batch in val_loader]
          torch.save(latents, path)
""",
    ),
    Idiom(
        "F6",
        "an evaluation that nothing combines, under an Accelerator",
        edited("ddp", "SHD305"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  @torch.no_grad()
  def main(val_set, model):
      accelerator = Accelerator()
      model = accelerator.prepare(model)
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_sampler = DistributedSampler(
+         val_set,
+         num_replicas=accelerator.num_processes,
+         rank=accelerator.process_index,
+         shuffle=False,
+     )
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
+     val_loader = unpadded(val_loader)
      correct = 0
      for images, labels in val_loader:
          correct += (model(images).argmax(1) == labels).sum().item()
+     correct = reduced(correct)
      print(correct / len(val_set))
""",
    ),
    Idiom(
        "F7",
        "iterated where it is built",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      for epoch in range(3):
+         train_loader.sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "F8",
        "handed to train() in the same file",
        edited("ddp", "SHD301"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def train(loader, model):
      for batch in loader:
          model(batch).backward()


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          train(train_loader, model)
""",
    ),
    Idiom(
        "F9",
        "iterated by an engine in another file",
        edited("ddp", "SHD301"),
        {
            "engine.py": """
  def train_one_epoch(model, data_loader, epoch):
      for batch in data_loader:
          model(batch).backward()
""",
            "train.py": """
  import torch.distributed as dist
  from engine import train_one_epoch
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
+     train_sampler = DistributedSampler(train_set, shuffle=True)
-     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
+     train_loader = DataLoader(train_set, batch_size=8, sampler=train_sampler)
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          train_one_epoch(model, train_loader, epoch)
""",
        },
    ),
    Idiom(
        "F9",
        "evaluated by an engine in another file that reduces nothing",
        edited("ddp", "SHD305"),
        {
            "engine.py": """
  import torch
+ from shardfix.evaluation import reduced


  @torch.no_grad()
  def evaluate(model, data_loader):
      correct = 0
      for images, labels in data_loader:
          correct += (model(images).argmax(1) == labels).sum().item()
+     correct = reduced(correct)
      return correct / len(data_loader.dataset)
""",
            "train.py": """
  import torch.distributed as dist
  from engine import evaluate
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import unpadded


  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_sampler = DistributedSampler(val_set, shuffle=False)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
+     val_loader = unpadded(val_loader)
      print(evaluate(model, val_loader))
""",
        },
    ),
    Idiom(
        "F9",
        "iterated by an engine in another file, told in the loop around it",
        everywhere("ddp right"),
        {
            "engine.py": """
  def train_one_epoch(model, data_loader, epoch):
      for batch in data_loader:
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
          sampler.set_epoch(epoch)
          train_one_epoch(model, train_loader, epoch)
""",
        },
    ),
    Idiom(
        "F9",
        "a package with a relative import: prepared here, gathered there",
        edited("accelerate", "SHD101"),
        {
            "pkg/__init__.py": "",
            "pkg/engine.py": """
  def evaluate(accelerator, model, data_loader):
      for batch in data_loader:
          accelerator.gather_for_metrics(model(batch))
""",
            "pkg/main.py": """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader

  from .engine import evaluate


  def main(val_set, model):
      accelerator = Accelerator()
-     val_loader = DataLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      evaluate(accelerator, model, val_loader)
""",
        },
    ),
    Idiom(
        "F10",
        "a Lightning module's hook",
        everywhere("lightning not-ours"),
        """
  import lightning as L
  from torch.utils.data import DataLoader, RandomSampler


  class Model(L.LightningModule):
      def train_dataloader(self):
          return DataLoader(self.train_set, batch_size=8, sampler=RandomSampler(self.train_set))
""",
    ),
    Idiom(
        "F10",
        "handed to a Lightning trainer",
        everywhere("lightning not-ours", "lightning not-ours"),
        """
  import pytorch_lightning as pl
  from torch.utils.data import DataLoader


  def main(train_set, val_set, model):
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      val_loader = DataLoader(val_set, batch_size=8)
      trainer = pl.Trainer(devices=2)
      trainer.fit(model, train_loader, val_loader)
""",
    ),
    Idiom(
        "F11",
        "a transformers Trainer's override that returns a plain loader",
        edited("hf-trainer", "SHD304"),
        """
  from torch.utils.data import DataLoader
  from transformers import Trainer


  class MyTrainer(Trainer):
      def get_train_dataloader(self):
-         return DataLoader(self.train_dataset, batch_size=8, shuffle=True)
+         return self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=8, shuffle=True))
""",
    ),
    Idiom(
        "F11",
        "a transformers Trainer's override that prepares",
        everywhere("accelerate right"),
        """
  from torch.utils.data import DataLoader
  from transformers import Trainer


  class MyTrainer(Trainer):
      def get_eval_dataloader(self, eval_dataset=None):
          return self.accelerator.prepare(DataLoader(self.eval_dataset, batch_size=8))
""",
    ),
    Idiom(
        "F12",
        "handed to Fabric",
        everywhere("fabric not-ours"),
        """
  from lightning.fabric import Fabric
  from torch.utils.data import DataLoader


  def main(train_set, model):
      fabric = Fabric(devices=2)
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      train_loader = fabric.setup_dataloaders(train_loader)
      for batch in train_loader:
          fabric.backward(model(batch))
""",
    ),
    Idiom(
        "F13",
        "consumed by an API that is not the project's: no loop to edit",
        everywhere("ddp refused SHD909"),
        """
  import torch.distributed as dist
  from sentence_transformers import SentenceTransformer, losses
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def main(train_set):
      dist.init_process_group("nccl")
      model = SentenceTransformer("bert")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      model.fit(train_objectives=[(train_loader, losses.CosineSimilarityLoss(model))], epochs=3)
""",
    ),
    Idiom(
        "F13",
        "consumed by an API in one process",
        {"auto": "single right", "ddp": "ddp refused SHD909", "accelerate": "single refused SHD934"},
        """
  from sentence_transformers import SentenceTransformer, losses
  from torch.utils.data import DataLoader


  def main(train_set):
      model = SentenceTransformer("bert")
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model.fit(train_objectives=[(train_loader, losses.CosineSimilarityLoss(model))], epochs=3)
""",
    ),
    Idiom(
        "F13",
        "ignite builds one, and iterates another as it is",
        everywhere("ignite not-ours", "unknown refused SHD901"),
        """
  import ignite.distributed as idist
  from ignite.engine import Engine
  from torch.utils.data import DataLoader


  def main(train_set, step):
      train_loader = idist.auto_dataloader(train_set, batch_size=8, shuffle=True)
      plain = DataLoader(train_set, batch_size=8)
      trainer = Engine(step)
      trainer.run(plain, max_epochs=1)
      trainer.run(train_loader, max_epochs=3)


  with idist.Parallel(backend="nccl") as parallel:
      parallel.run(main)
""",
    ),
    Idiom(
        "F14",
        "a peek at the first batch is no training loop",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      print(next(iter(train_loader)).shape)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "F15",
        "try, next, except StopIteration",
        everywhere("ddp refused SHD911"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      batches = iter(train_loader)
      for step in range(steps):
          try:
              batch = next(batches)
          except StopIteration:
              batches = iter(train_loader)
              batch = next(batches)
          model(batch).backward()
""",
    ),
    Idiom(
        "F15",
        "a cycle() of the project's own",
        everywhere("ddp refused SHD911"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  def cycle(loader):
      while True:
          for batch in loader:
              yield batch


  def main(train_set, model, steps):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      batches = cycle(train_loader)
      for step in range(steps):
          model(next(batches)).backward()
""",
    ),
    Idiom(
        "F16",
        "its length is read: the loader is sharded, and the length is told to be shorter",
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
      print(len(train_loader), "steps in an epoch")
      for epoch in range(3):
+         train_sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "F16",
        "its length is divided by the number of processes already",
        everywhere("ddp refused SHD930"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(train_set, model, schedule):
      dist.init_process_group("nccl")
      train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      schedule(total_steps=3 * (len(train_loader) // dist.get_world_size()))
      for epoch in range(3):
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "F17",
        "a count over loader.dataset, not reduced",
        edited("ddp", "SHD305"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  @torch.no_grad()
  def main(test_set, model):
      dist.init_process_group("nccl")
-     test_loader = DataLoader(test_set, batch_size=8)
+     test_sampler = DistributedSampler(test_set, shuffle=False)
+     test_loader = DataLoader(test_set, batch_size=8, sampler=test_sampler)
+     test_loader = unpadded(test_loader)
      correct = 0
      for images, labels in test_loader:
          correct += (model(images).argmax(1) == labels).sum().item()
+     correct = reduced(correct)
      print(correct / len(test_loader.dataset))
""",
    ),
    Idiom(
        "F18",
        "asked for the length of its RandomSampler, which shuffle=True has too",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, batch_size=8, sampler=RandomSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      print(len(train_loader.sampler))
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F18",
        "asked for the number of replicas of its DistributedSampler, which would be gone",
        everywhere("accelerate refused SHD920"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      accelerator = Accelerator()
      train_loader = DataLoader(train_set, batch_size=8, sampler=DistributedSampler(train_set))
      print(train_loader.sampler.num_replicas)
      model, train_loader = accelerator.prepare(model, train_loader)
      for batch in train_loader:
          accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F19",
        "a sampler that is read once more stays, the loader does without it",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
  from torch.utils.data import DataLoader, SequentialSampler


  def main(val_set, model):
      accelerator = Accelerator()
      sampler = SequentialSampler(val_set)
-     val_loader = DataLoader(val_set, batch_size=8, sampler=sampler)
+     val_loader = DataLoader(val_set, batch_size=8)
      print(len(sampler), "samples")
      model, val_loader = accelerator.prepare(model, val_loader)
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "F19",
        "a sampler that two loaders share goes with the second",
        {
            "auto accelerate": ("accelerate edit SHD201", "accelerate edit SHD201"),
            "ddp": ("accelerate refused SHD926", "accelerate refused SHD926"),
        },
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, DistributedSampler
+ from torch.utils.data import DataLoader


  def main(val_set, model):
      accelerator = Accelerator()
-     sampler = DistributedSampler(val_set, shuffle=False)
-     small = DataLoader(val_set, batch_size=8, sampler=sampler)
+     small = DataLoader(val_set, batch_size=8)
-     large = DataLoader(val_set, batch_size=64, sampler=sampler)
+     large = DataLoader(val_set, batch_size=64)
      small, large = accelerator.prepare(small, large)
      for batch in small:
          accelerator.gather_for_metrics(model(batch))
      for batch in large:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "F20",
        "a factory that nothing in the project calls: no epochs are seen",
        everywhere("ddp refused SHD909"),
        """
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def get_train_loader(train_set, batch_size):
      return DataLoader(train_set, batch_size=batch_size, sampler=DistributedSampler(train_set))
""",
    ),
    Idiom(
        "F20",
        "a plain factory that nothing calls",
        {"auto": "single right", "ddp": "ddp refused SHD909", "accelerate": "single refused SHD934"},
        """
  from torch.utils.data import DataLoader


  def get_train_loader(train_set, batch_size):
      return DataLoader(train_set, batch_size=batch_size, shuffle=True)
""",
    ),
    Idiom(
        "F21",
        "skip_first_batches of a prepared loader",
        edited("accelerate", "SHD101"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader


  def main(train_set, model, resumed):
      accelerator = Accelerator()
-     train_loader = DataLoader(train_set, batch_size=8, sampler=RandomSampler(train_set))
+     train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
      model, train_loader = accelerator.prepare(model, train_loader)
      for epoch in range(3):
          active = accelerator.skip_first_batches(train_loader, resumed) if epoch == 0 else train_loader
          for batch in active:
              accelerator.backward(model(batch))
""",
    ),
    Idiom(
        "F22",
        "a prefetcher wraps the loader: the epoch is told to the sampler",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class DataPrefetcher:
      def __init__(self, loader):
          self.loader = iter(loader)

      def next(self):
          return next(self.loader, None)


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          prefetcher = DataPrefetcher(train_loader)
          batch = prefetcher.next()
          while batch is not None:
              model(batch).backward()
              batch = prefetcher.next()
""",
    ),
    Idiom(
        "F22",
        "a prefetcher that is iterated",
        edited("ddp", "SHD401"),
        """
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Prefetcher:
      def __init__(self, loader):
          self.loader = loader

      def __iter__(self):
          for batch in self.loader:
              yield batch.cuda(non_blocking=True)


  def main(train_set, model):
      dist.init_process_group("nccl")
      sampler = DistributedSampler(train_set)
      train_loader = Prefetcher(DataLoader(train_set, batch_size=8, sampler=sampler))
      for epoch in range(3):
+         sampler.set_epoch(epoch)
          for batch in train_loader:
              model(batch).backward()
""",
    ),
    Idiom(
        "F22",
        "MpDeviceLoader",
        everywhere("xla not-ours"),
        """
  import torch_xla.core.xla_model as xm
  import torch_xla.distributed.parallel_loader as pl
  from torch.utils.data import DataLoader, DistributedSampler


  def main(train_set, model):
      sampler = DistributedSampler(train_set, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal())
      loader = DataLoader(train_set, batch_size=8, sampler=sampler)
      for epoch in range(3):
          for batch in pl.MpDeviceLoader(loader, xm.xla_device()):
              model(batch).backward()
""",
    ),
)
