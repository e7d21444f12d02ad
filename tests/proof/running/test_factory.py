"""A user's own factory on real gloo ranks: its loaders are found and read by index, each of its ends is a verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from shardfix.proof.model import Proof
from shardfix.proof.running.factory import Asked, VerifierError, prove_callable

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler  # noqa: E402


class Costly(Dataset[int]):
    """A dataset of which no sample may be fetched."""

    def __init__(self, size: int = 21) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("a sample was fetched")


class Lines(IterableDataset[Any]):
    """A stream; ``split`` says that it gives each rank and each worker its own lines."""

    def __init__(self, split: bool) -> None:
        self.split = split

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        grouped = self.split and dist.is_initialized()
        rank, world = (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)
        for line in range(24):
            if line % (workers * world) == worker * world + rank:
                yield torch.tensor([line, line * line])


class Batches:
    """What a project puts around a loader to change its batches."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch[0].float()


class Pair(NamedTuple):
    train: Any
    steps: int


def proofs(factory: Callable[[], Any], **asked: Any) -> list[Proof]:
    how = {"timeout": 60.0, "patience": 10.0, **asked}
    return prove_callable(factory, "make", Asked(**how))


def only(factory: Callable[[], Any], **asked: Any) -> Proof:
    [proof] = proofs(factory, **asked)
    return proof


def sharded(dataset: Any = None, **arguments: Any) -> Any:
    dataset = Costly() if dataset is None else dataset
    return DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, **arguments))


def accelerated(loader: Any, **settings: Any) -> Any:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    return Accelerator(dataloader_config=DataLoaderConfiguration(**settings)).prepare(loader)


# --- it is read by index, as it iterates ---

RIGHT: dict[str, Callable[[], Any]] = {
    "distributed": sharded,
    "with persistent workers": lambda: DataLoader(
        Costly(), 4, sampler=DistributedSampler(Costly()), num_workers=2, persistent_workers=True, timeout=9
    ),
    "batch sampler": lambda: DataLoader(Costly(), batch_sampler=BatchSampler(DistributedSampler(Costly()), 4, False)),
    "batches as indices": lambda: DataLoader(
        Costly(), batch_size=None, sampler=BatchSampler(DistributedSampler(Costly()), 4, False)
    ),
    "prepared": lambda: accelerated(DataLoader(Costly(), 4, shuffle=True)),
    "prepared batch sampler": lambda: accelerated(
        DataLoader(Costly(), batch_sampler=BatchSampler(SequentialSampler(Costly()), 4, False))
    ),
    "prepared weighted": lambda: accelerated(DataLoader(Costly(), 4, sampler=WeightedRandomSampler([1.0] * 21, 21))),
    "dispatched": lambda: accelerated(DataLoader(Costly(), 4, shuffle=True), dispatch_batches=True),
    "split batches": lambda: accelerated(DataLoader(Costly(), 12, shuffle=True), split_batches=True),
    "concatenated": lambda: sharded(ConcatDataset([Costly(12), Costly(9)])),
    "subset": lambda: sharded(Subset(Costly(), range(2, 19))),
    "a split that is seeded": lambda: sharded(
        random_split(Costly(), [15, 6], generator=torch.Generator().manual_seed(3))[0]
    ),
    "a stream that splits itself": lambda: DataLoader(Lines(split=True), batch_size=3),
    "a stream with workers": lambda: DataLoader(Lines(split=True), batch_size=3, num_workers=2),
    "a prepared stream": lambda: accelerated(DataLoader(Lines(split=False), batch_size=3)),
    "a prepared stream that is not dispatched": lambda: accelerated(
        DataLoader(Lines(split=False), batch_size=3), dispatch_batches=False
    ),
    "something around a loader": lambda: Batches(sharded(TensorDataset(torch.arange(21)))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loader_is_proven_without_fetching_a_sample(name: str) -> None:
    proof = only(RIGHT[name])
    assert proof.verdict == "proven", proof.reasons


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "not sharded": (lambda: DataLoader(Costly(), 4, shuffle=True), "unsharded"),
    "sharded twice": (lambda: accelerated(sharded()), "sharded-twice"),
    "a split with per-rank seeds": (lambda: sharded(random_split(Costly(), [15, 6])[0]), "per-rank-subset"),
    "a seed by rank": (lambda: sharded(seed=int(os.environ.get("RANK", 0))), "per-rank-seed"),
    "a stream that every rank reads": (lambda: DataLoader(Lines(split=False), batch_size=3), "unsharded"),
    "a part that rank 0 dispatches": (lambda: accelerated(DataLoader(Lines(split=True), 3)), "dispatched-part"),
    "around a loader that is not sharded": (lambda: Batches(DataLoader(TensorDataset(torch.arange(21)))), "unsharded"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_loader_is_refuted_with_its_cause(name: str) -> None:
    factory, cause = WRONG[name]
    proof = only(factory)
    assert (proof.verdict, proof.cause) == ("refuted", cause), proof.reasons


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_ranks_can_be_more(world: int) -> None:
    assert only(sharded, nproc=world).verdict == "proven"
    assert only(lambda: DataLoader(Costly()), nproc=world).cause == "unsharded"


def test_a_subset_is_told_by_the_ids_of_its_base() -> None:
    proof = only(lambda: sharded(Subset(Costly(40), [30, 31, 32, 33, 34, 35, 36, 37]), shuffle=False))
    assert proof.verdict == "proven"
    assert proof.map_after is not None
    assert sorted({i for rank in proof.map_after.ranks for batch in rank for i in batch}) == list(range(30, 38))


# --- the epoch ---


def test_the_proof_says_that_it_told_the_epoch() -> None:
    proof = only(sharded)
    [told] = proof.stand_ins
    assert told.value == (
        "told by loader.sampler.set_epoch(epoch) before each pass; the program's own loop is not seen"
    )


def test_a_loop_that_never_tells_the_epoch_freezes_the_order() -> None:
    proof = only(sharded, set_epoch=False)
    assert (proof.verdict, proof.cause) == ("refuted", "frozen-epoch")
    assert proof.stand_ins == ()


def test_a_program_tells_the_epoch_in_its_own_way() -> None:
    def pair() -> Any:
        loader = sharded()
        return loader, loader.sampler

    assert only(pair, set_epoch=lambda made, epoch: made[1].set_epoch(epoch)).verdict == "proven"
    assert only(pair, set_epoch=lambda made, epoch: None).cause == "frozen-epoch"


# --- what it returns ---


def test_loaders_are_found_in_whatever_holds_them_and_named_by_their_place() -> None:
    def sites(factory: Callable[[], Any]) -> list[str]:
        return [proof.site for proof in proofs(factory)]

    assert sites(lambda: (sharded(), Costly(), DistributedSampler(Costly()), None, sharded())) == ["make[0]", "make[4]"]
    assert sites(lambda: {"train": sharded(), "name": "cifar"}) == ["make['train']"]
    assert sites(lambda: SimpleNamespace(train=sharded(), size=3)) == ["make.train"]
    assert sites(lambda: Pair(sharded(), 9)) == ["make.train"]
    assert sites(lambda: {"all": [sharded(), sharded()]}) == ["make['all'][0]", "make['all'][1]"]


def test_each_loader_has_its_own_verdict() -> None:
    found = proofs(lambda: {"train": sharded(), "val": DataLoader(Costly())})
    assert [(proof.site, proof.verdict) for proof in found] == [("make['train']", "proven"), ("make['val']", "refuted")]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "it returns None: no loader to read"),
        (7, "it returns something of type int: no loader to read"),
        ((Costly(), "x"), "it returns a tuple of Costly, str: no loader to read"),
    ],
)
def test_a_factory_that_returns_no_loader_is_unproven(made: Any, said: str) -> None:
    proof = only(lambda: made)
    assert (proof.verdict, proof.reasons) == ("unproven", (said,))


def test_a_factory_may_set_up_the_process_group_as_its_program_does() -> None:
    def setup() -> Any:
        dist.init_process_group("nccl", init_method="env://")
        loader = sharded()
        dist.destroy_process_group()
        return loader

    assert only(setup).verdict == "proven"


def test_loaders_that_the_program_prepares_later_are_prepared() -> None:
    assert only(lambda: DataLoader(Costly(), 4), owner="accelerate").verdict == "proven"
    assert only(sharded, owner="accelerate").cause == "sharded-twice"


def test_padding_can_be_refused() -> None:
    assert only(lambda: sharded(Costly(24)), padding_allowed=False).verdict == "proven"
    proof = only(lambda: sharded(Costly(21)), padding_allowed=False)
    assert (proof.verdict, proof.cause) == ("refuted", "padding")


def test_ranks_of_one_model_read_the_same() -> None:
    def by_data_parallel_rank() -> Any:
        rank = dist.get_rank() // 2 if dist.is_initialized() and dist.get_world_size() > 1 else 0
        return sharded(num_replicas=2 if dist.is_initialized() and dist.get_world_size() > 1 else 1, rank=rank)

    assert only(by_data_parallel_rank, nproc=4, replicas=2).verdict == "proven"
    assert only(by_data_parallel_rank, nproc=4).verdict == "refuted"


# --- how it ends ---


def test_a_rank_that_raises_is_named_with_its_own_traceback() -> None:
    def make() -> Any:
        if dist.is_initialized() and dist.get_rank() == 1:
            raise ValueError("no such folder: images")
        return sharded()

    proof = only(make)
    assert (proof.verdict, proof.cause) == ("refuted", "raises")
    text = "\n".join(proof.reasons)
    assert "rank 1 raises ValueError: no such folder: images" in text
    assert f'File "{__file__}"' in text
    assert "torch" not in text


def test_a_factory_that_raises_alone_as_well_is_unproven() -> None:
    proof = only(lambda: Path("/no/such/file").read_text())
    assert proof.verdict == "unproven"
    assert "FileNotFoundError" in "\n".join(proof.reasons)


def test_a_hang_says_where_each_rank_stood_and_does_not_last() -> None:
    def make() -> Any:
        if dist.is_initialized() and dist.get_rank() == 1:
            dist.barrier()
        return sharded()

    begun = time.monotonic()
    proof = only(make, patience=2.0)
    assert time.monotonic() - begun < 20
    assert (proof.verdict, proof.cause) == ("refuted", "hang")
    text = "\n".join(proof.reasons)
    assert "in make (test_factory.py:" in text
    assert "barrier" in text
    assert "rank 0 came through" in text


def test_what_stops_one_loader_does_not_keep_the_others_from_being_read() -> None:
    class Broken(DataLoader[Any]):
        def __iter__(self) -> Any:
            if dist.is_initialized() and dist.get_rank() == 1:
                raise OSError("the shard is gone")
            return super().__iter__()

    found = proofs(lambda: [Broken(TensorDataset(torch.arange(8))), sharded()], patience=3.0)
    assert [(proof.verdict, proof.cause) for proof in found] == [("refuted", "raises"), ("proven", "")]


def test_a_rank_that_dies_or_leaves_is_a_verdict() -> None:
    def die(signal: int) -> Any:
        if dist.is_initialized() and dist.get_rank() == 0:
            os.kill(os.getpid(), signal)
        return sharded()

    def leave() -> Any:
        if dist.is_initialized() and dist.get_rank() == 1:
            os._exit(3)
        return sharded()

    assert (only(lambda: die(9)).verdict, only(lambda: die(11)).cause) == ("refuted", "died")
    assert (only(leave).verdict, only(leave).cause) == ("refuted", "exits")


def test_nothing_runs_on_when_the_time_is_over_not_even_the_workers_of_a_loader(tmp_path: Path) -> None:
    class Stuck(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            (tmp_path / f"{os.getpid()}").touch()
            (tmp_path / f"{os.getppid()}").touch()
            yield 1
            time.sleep(600)

    proof = only(lambda: DataLoader(Stuck(), num_workers=1), patience=2.0, timeout=8.0)
    assert proof.verdict == "unproven"
    assert proof.reasons[0].endswith(
        "the time was over before the ranks were done: allow more, or see where they stood"
    )
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) >= 4
    deadline = time.monotonic() + 10
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in pids if runs(pid)] == []


def runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_is_in_a_group_is_told_so() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(VerifierError, match="this process is in a process group"):
            only(sharded)
    finally:
        dist.destroy_process_group()
