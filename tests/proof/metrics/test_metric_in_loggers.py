"""The proof of a metric in an object that holds averaging objects: both classes are run as they are written."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

LOGGER = """
class Average{base}:
    def __init__(self, window_size=20, fmt=None):
        if fmt is None:
            fmt = "{{global_avg:.4f}}"
        self.deque = deque(maxlen=window_size)
        self.fmt = fmt
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    def synchronize(self):
        if not dist.is_initialized():
            return
        both = torch.tensor([self.count, self.total], dtype=torch.float64, device="cpu")
        dist.barrier()
        dist.all_reduce(both)
        both = both.tolist()
        self.count = int(both[0])
        self.total = {total}

    @property
    def global_avg(self):
        return self.total / self.count


class Logger:
    def __init__(self, delimiter=" "):
        self.meters = defaultdict(Average)
        self.delimiter = delimiter

    def update(self, **kwargs):
        for k, v in kwargs.items():
            if isinstance(v, torch.Tensor):
                v = v.item()
            assert isinstance(v, (float, int))
            self.meters[k].update(v)

    def __getattr__(self, attr):
        if attr in self.meters:
            return self.meters[attr]
        raise AttributeError(f"no {{attr}}")

    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()

    def log_every(self, iterable, freq):
        for i, batch in enumerate(iterable):
            yield batch
"""
RIGHT = LOGGER.format(base="", total="both[1]")
AVERAGED = LOGGER.format(base="", total="both[1] / dist.get_world_size()")
INHERITED = LOGGER.format(base="(torch.nn.Module)", total="both[1]")
SUMMED = """
logger = Logger(delimiter="; ")
for x, y in logger.log_every(val_loader, 10):
    hits = (model(x).argmax(1) == y).float()
    logger.meters["acc"].update(hits.mean().item(), n=len(y))
logger.synchronize()
print("* {top.global_avg:.3f}".format(top=logger.acc))
return {k: meter.global_avg for k, meter in logger.meters.items()}
"""
MEANS = SUMMED.replace("    logger.meters", "    logger.update(loss=F.cross_entropy(model(x), y))\n    logger.meters")


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    return proven(
        {
            "sums": recipe(SUMMED, more=RIGHT),
            "means over batches": recipe(MEANS, more=RIGHT, unsafe=True),
            "means over batches, not said": recipe(MEANS, more=RIGHT),
            "averaged over the ranks": recipe(SUMMED, more=AVERAGED),
            "means, averaged over the ranks": recipe(MEANS, more=AVERAGED, unsafe=True),
            "of another class": recipe(SUMMED, more=INHERITED),
            "not put together": recipe(SUMMED, more=RIGHT, undone=("logger.synchronize()",)),
        }
    )


@pytest.mark.parametrize("name", ["sums", "means over batches"])
def test_what_a_logger_holds_is_proven_by_its_own_classes(proofs: dict[str, MetricProof], name: str) -> None:
    proof = proofs[name]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    assert not any("Logger" in stand_in.expression for stand_in in proof.stand_ins)


@pytest.mark.parametrize(
    "name",
    [
        *("means over batches, not said", "averaged over the ranks", "means, averaged over the ranks"),
        "not put together",
    ],
)
def test_a_logger_that_puts_the_ranks_together_wrongly_is_refuted(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[name].verdict == "refuted"


def test_a_logger_of_classes_that_are_not_seen_whole_is_not_proven(proofs: dict[str, MetricProof]) -> None:
    proof = proofs["of another class"]
    assert (proof.verdict, proof.reasons) == (
        "unproven",
        ("it holds only if `Logger` adds up values and their weights",),
    )
