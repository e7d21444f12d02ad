"""How an evaluation is run and its result combined, which decides whether its loader may be sharded."""

from __future__ import annotations

from idiom import Idiom, edited, everywhere

EVALUATION = (
    Idiom(
        "V1",
        "the whole evaluation on one process: reads everything, as it should",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def evaluate(val_set, model):
      val_loader = DataLoader(val_set, batch_size=8)
      correct = 0
      for images, labels in val_loader:
          correct += (model(images) == labels).sum()
      return correct / len(val_set)


  def main(args, val_set, model):
      if args.local_rank != -1:
          dist.init_process_group("nccl")
      if args.local_rank in [-1, 0]:
          print(evaluate(val_set, model))
""",
    ),
    Idiom(
        "V1",
        "the main process alone, by a function of the project's own",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def is_main_process():
      return not dist.is_initialized() or dist.get_rank() == 0


  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8)
      if is_main_process():
          with torch.no_grad():
              for batch in val_loader:
                  print(model(batch))
""",
    ),
    Idiom(
        "V1",
        "one process and a SequentialSampler, which reads everything in order too",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, SequentialSampler


  def main(val_set, model):
      dist.init_process_group("nccl")
      if dist.get_rank() == 0:
          val_loader = DataLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
          with torch.no_grad():
              for batch in val_loader:
                  print(model(batch))
""",
    ),
    Idiom(
        "V1",
        "a prepared loader that the main process alone reads",
        everywhere("accelerate refused SHD716"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  def main(val_set, model):
      accelerator = Accelerator()
      model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=8))
      if accelerator.is_main_process:
          with torch.no_grad():
              for batch in val_loader:
                  print(model(batch))
""",
    ),
    Idiom(
        "V2",
        "every rank evaluates everything, and nothing is reduced",
        everywhere("ddp refused SHD904"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8)
      model.eval()
      total = 0.0
      with torch.no_grad():
          for images, labels in val_loader:
              total += model(images, labels).item()
      print(total / len(val_loader))
""",
    ),
    Idiom(
        "V2",
        "the same with --unsafe: shared out with its sum, and said to be another value",
        edited("ddp", "SHD305"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_sampler = DistributedSampler(val_set, shuffle=False)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
+     val_loader = unpadded(val_loader)
      model.eval()
      total = 0.0
      with torch.no_grad():
          for images, labels in val_loader:
              total += model(images, labels).item()
+         total = reduced(total)
      print(total)
""",
        unsafe=True,
    ),
    Idiom(
        "V2",
        "a sharded evaluation whose count nobody reduces: each rank tells its own part",
        {"auto ddp": "ddp edit SHD506", "accelerate": "ddp refused SHD503"},
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
+     val_loader = unpadded(val_loader)
      correct = 0
      for images, labels in val_loader:
          correct += (model(images) == labels).sum()
+     correct = reduced(correct)
      print(correct / len(val_set))
""",
    ),
    Idiom(
        "V3",
        "counts are reduced, and padding would be counted: it is left out",
        edited("ddp", "SHD305"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_sampler = DistributedSampler(val_set, shuffle=False)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
+     val_loader = unpadded(val_loader)
      correct = torch.zeros(2)
      for images, labels in val_loader:
          correct[0] += (model(images) == labels).sum()
          correct[1] += len(labels)
      dist.all_reduce(correct)
      print(correct[0] / correct[1])
""",
    ),
    Idiom(
        "V3",
        "a sharded evaluation whose reduced count held the padding",
        {"auto ddp": "ddp edit SHD506", "accelerate": "ddp refused SHD502"},
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler
+ from shardfix.evaluation import unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
+     val_loader = unpadded(val_loader)
      correct = torch.zeros(2)
      for images, labels in val_loader:
          correct[0] += (model(images) == labels).sum()
          correct[1] += len(labels)
      dist.all_reduce(correct)
      print(correct[0] / correct[1])
""",
    ),
    Idiom(
        "V4",
        "gather_for_metrics drops the padding",
        edited("accelerate", "SHD101"),
        """
  import torch
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, model, metric):
      accelerator = Accelerator()
-     val_loader = DataLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=8)
      model, val_loader = accelerator.prepare(model, val_loader)
      for images, labels in val_loader:
          metric.add_batch(*accelerator.gather_for_metrics((model(images), labels)))
""",
    ),
    Idiom(
        "V5",
        "accelerator.gather counts repeated samples",
        {"auto accelerate": "accelerate edit SHD507", "ddp": "accelerate refused SHD707"},
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, model):
      accelerator = Accelerator()
      model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=8))
      predictions = []
      for images, labels in val_loader:
-         predictions.append(accelerator.gather(model(images)))
+         predictions.append(accelerator.gather_for_metrics(model(images)))
      print(torch.cat(predictions).mean())
""",
    ),
    Idiom(
        "V5",
        "accelerator.gather, and the repeated samples cut off by hand",
        everywhere("accelerate right"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, model, metric):
      accelerator = Accelerator()
      model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=8))
      samples_seen = 0
      for step, (images, labels) in enumerate(val_loader):
          predictions, references = accelerator.gather((model(images), labels))
          if accelerator.num_processes > 1:
              if step == len(val_loader) - 1:
                  predictions = predictions[: len(val_loader.dataset) - samples_seen]
                  references = references[: len(val_loader.dataset) - samples_seen]
              else:
                  samples_seen += references.shape[0]
          metric.add_batch(predictions, references)
""",
    ),
    Idiom(
        "V6",
        "arrays are collected and nothing gathers them",
        edited("ddp", "SHD305"),
        """
  import numpy as np
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import in_order, unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_sampler = DistributedSampler(val_set, shuffle=False)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
+     val_loader = unpadded(val_loader)
      preds = None
      for images, labels in val_loader:
          found = model(images).cpu().numpy()
          preds = found if preds is None else np.append(preds, found, axis=0)
+     preds = in_order(preds, val_loader)
      print(preds.mean())
""",
    ),
    Idiom(
        "V6",
        "arrays are gathered, laid in turn and cut at the dataset's length",
        edited("ddp", "SHD302"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
+     val_sampler = DistributedSampler(val_set, shuffle=False)
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
      preds = []
      for images in val_loader:
          preds.append(model(images))
      mine = torch.cat(preds)
      parts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
      dist.all_gather(parts, mine)
      everything = torch.stack(parts, dim=1).flatten(0, 1)[: len(val_set)]
      print(everything.mean())
""",
    ),
    Idiom(
        "V6",
        "arrays are gathered, laid in turn by a transposed stack and cut at the dataset's length",
        edited("ddp", "SHD302"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
+     val_sampler = DistributedSampler(val_set, shuffle=False)
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
      preds = []
      for images in val_loader:
          preds.append(model(images))
      mine = torch.cat(preds)
      parts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
      dist.all_gather(parts, mine)
      everything = torch.stack(parts).transpose(0, 1).flatten(0, 1)[: len(val_set)]
      print(everything.mean())
""",
    ),
    Idiom(
        "V7",
        "predictions are written in the loader's order",
        everywhere("ddp refused SHD921"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(test_set, model, path):
      dist.init_process_group("nccl")
      test_loader = DataLoader(test_set, batch_size=8)
      with open(path, "w") as out:
          for batch in test_loader:
              for prediction in model(batch).argmax(1).tolist():
                  out.write(f"{prediction}\\n")
""",
    ),
    Idiom(
        "V7",
        "examples are looked up by a running index",
        everywhere("ddp refused SHD921"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(test_set, examples, model):
      dist.init_process_group("nccl")
      test_loader = DataLoader(test_set, batch_size=1)
      results = {}
      for i, batch in enumerate(test_loader):
          results[examples[i].qas_id] = model(batch)
      print(results)
""",
    ),
    Idiom(
        "V7",
        "examples are looked up by a running index: --unsafe must not mix them up",
        everywhere("ddp refused SHD921"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(test_set, examples, model):
      dist.init_process_group("nccl")
      test_loader = DataLoader(test_set, batch_size=1)
      results = {}
      for i, batch in enumerate(test_loader):
          results[examples[i].qas_id] = model(batch)
      print(results)
""",
        unsafe=True,
    ),
    Idiom(
        "V7",
        "results are matched with names by a number that the loop counts up",
        everywhere("ddp refused SHD921"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, names, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=1)
      n = 0
      found = {}
      for x in val_loader:
          found[names[n]] = model(x)
          n += 1
      print(found)
""",
    ),
    Idiom(
        "V8",
        "built inside evaluate(): its shuffling sampler is put in order and told no epoch",
        edited("ddp", "SHD501"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @torch.no_grad()
  def evaluate(val_set, model):
-     val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
      for batch in val_loader:
          dist.all_reduce(model(batch))


  def main(val_set, model):
      dist.init_process_group("nccl")
      for epoch in range(3):
          evaluate(val_set, model)
""",
    ),
    Idiom(
        "V8",
        "built inside evaluate() and prepared there: the check stands inside",
        edited("accelerate", "SHD101", "SHD601"),
        """
  from accelerate import Accelerator
- from torch.utils.data import DataLoader, SequentialSampler
+ from torch.utils.data import DataLoader
+ from shardfix import sanitize


  def evaluate(accelerator, val_set, model):
-     loader = DataLoader(val_set, batch_size=8, sampler=SequentialSampler(val_set))
+     loader = DataLoader(val_set, batch_size=8)
+     sanitize(loader, owner="accelerate")
      loader = accelerator.prepare(loader)
      for batch in loader:
          accelerator.gather_for_metrics(model(batch))


  def main(val_set, model):
      accelerator = Accelerator()
      for epoch in range(3):
          evaluate(accelerator, val_set, model)
""",
        sanitizer="changed",
    ),
    Idiom(
        "V8",
        "a sampler of its own name shards an evaluation that nothing reduces",
        everywhere("ddp refused SHD503"),
        """
  import torch
  import torch.distributed as dist
  from elsewhere import OrderedDistributedSampler
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, sampler=OrderedDistributedSampler(val_set))
      hits = 0
      for x, y in val_loader:
          hits += (model(x) == y).sum()
      print(hits)
""",
    ),
    Idiom(
        "V9",
        "an evaluation that shuffles, prepared: left",
        everywhere("accelerate right"),
        """
  import torch
  from accelerate import Accelerator
  from torch.utils.data import DataLoader


  @torch.no_grad()
  def main(val_set, model):
      accelerator = Accelerator()
      model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=8, shuffle=True))
      for batch in val_loader:
          accelerator.gather_for_metrics(model(batch))
""",
    ),
    Idiom(
        "V9",
        "an evaluation with a RandomSampler in raw DDP, not reduced",
        edited("ddp", "SHD305"),
        """
  import torch
  import torch.distributed as dist
- from torch.utils.data import DataLoader, RandomSampler
+ from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler
+ from shardfix.evaluation import reduced, unpadded


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_loader = DataLoader(val_set, batch_size=8, sampler=RandomSampler(val_set))
+     val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
+     val_loader = unpadded(val_loader)
      correct = 0
      for images, labels in val_loader:
          correct += (model(images) == labels).sum()
+     correct = reduced(correct)
      print(correct / len(val_set))
""",
    ),
    Idiom(
        "V10",
        "a DistributedSampler that shuffles an evaluation by default",
        edited("ddp", "SHD501"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
-     val_sampler = DistributedSampler(val_set, num_replicas=dist.get_world_size(), rank=dist.get_rank())
+     val_sampler = DistributedSampler(val_set, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=False)
      val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
      for batch in val_loader:
          dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "V10",
        "a DistributedSampler that is asked to shuffle an evaluation: left as asked",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=True))
      for batch in val_loader:
          dist.all_reduce(model(batch))
""",
    ),
    Idiom(
        "V11",
        "drop_last and a second loader over the rest, which every rank reads: right",
        everywhere("ddp right", "ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler, Subset


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)
      val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
      correct = torch.zeros(1)
      for images, labels in val_loader:
          correct += (model(images) == labels).sum()
      dist.all_reduce(correct)
      if len(val_loader.sampler) * dist.get_world_size() < len(val_set):
          rest = Subset(val_set, range(len(val_loader.sampler) * dist.get_world_size(), len(val_set)))
          rest_loader = DataLoader(rest, batch_size=8)
          for images, labels in rest_loader:
              correct += (model(images) == labels).sum()
      print(correct / len(val_set))
""",
    ),
    Idiom(
        "V12",
        "Distributed or None inside validate(), the mean loss reduced",
        {
            "auto ddp": "ddp edit SHD501 SHD502",
            "accelerate": "ddp refused SHD502",
        },
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
  from torch.utils.data.distributed import DistributedSampler


  def validate(model, criterion, valset, batch_size, n_gpus, distributed_run):
      model.eval()
      with torch.no_grad():
-         val_sampler = DistributedSampler(valset) if distributed_run else None
+         val_sampler = DistributedSampler(valset, shuffle=False) if distributed_run else None
          val_loader = DataLoader(valset, sampler=val_sampler, shuffle=False, batch_size=batch_size)
          val_loss = 0.0
          for i, batch in enumerate(val_loader):
              loss = criterion(model(batch))
              if distributed_run:
                  dist.all_reduce(loss, op=dist.ReduceOp.SUM)
                  loss /= n_gpus
              val_loss += loss.item()
          val_loss = val_loss / (i + 1)
      model.train()
      return val_loss
""",
    ),
    Idiom(
        "V13",
        "Horovod averages a metric",
        {"auto ddp": ("ddp edit SHD501 SHD502",), "accelerate": ("ddp refused SHD502",)},
        """
  import horovod.torch as hvd
  import torch
  from torch.utils.data import DataLoader, DistributedSampler


  def metric_average(value, name):
      return hvd.allreduce(torch.tensor(value), name=name).item()


  @torch.no_grad()
  def main(test_set, model):
      hvd.init()
-     sampler = DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank())
+     sampler = DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
      test_loader = DataLoader(test_set, batch_size=8, sampler=sampler)
      correct = 0.0
      for images, labels in test_loader:
          correct += (model(images) == labels).sum().item()
      print(metric_average(correct / len(sampler), "accuracy"))
""",
    ),
    Idiom(
        "V13",
        "a metric class of the project's own hides the reduction: it is not said to be missing",
        everywhere("ddp refused SHD502"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  class Average:
      def __init__(self):
          self.total = torch.zeros(2)

      def update(self, value, count):
          self.total += torch.tensor([value * count, count])

      def value(self):
          dist.all_reduce(self.total)
          return self.total[0] / self.total[1]


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
      loss = Average()
      for images, labels in val_loader:
          loss.update(model(images, labels), len(labels))
      print(loss.value())
""",
    ),
    Idiom(
        "V14",
        "features placed by sample index and reduced: sharding changes nothing",
        edited("ddp", "SHD302"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader
+ from torch.utils.data.distributed import DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
+     val_sampler = DistributedSampler(val_set, shuffle=False)
-     val_loader = DataLoader(val_set, batch_size=8)
+     val_loader = DataLoader(val_set, batch_size=8, sampler=val_sampler)
      hits = torch.zeros(len(val_set))
      for index, label in val_loader:
          hits[index] = (model(index) == label).float()
      dist.all_reduce(hits, op=dist.ReduceOp.MAX)
      print(hits.mean())
""",
    ),
    Idiom(
        "V14",
        "a sharded feature extraction, gathered and scattered by index",
        everywhere("ddp right"),
        """
  import torch
  import torch.distributed as dist
  from torch.utils.data import DataLoader, DistributedSampler


  @torch.no_grad()
  def main(val_set, model):
      dist.init_process_group("nccl")
      val_loader = DataLoader(val_set, batch_size=8, sampler=DistributedSampler(val_set, shuffle=False))
      features = torch.zeros(len(val_set), 16)
      for samples, index in val_loader:
          feats = model(samples)
          indices = [torch.empty_like(index) for _ in range(dist.get_world_size())]
          dist.all_gather(indices, index)
          parts = [torch.empty_like(feats) for _ in range(dist.get_world_size())]
          dist.all_gather(parts, feats)
          features.index_copy_(0, torch.cat(indices), torch.cat(parts))
      print(features)
""",
    ),
)
