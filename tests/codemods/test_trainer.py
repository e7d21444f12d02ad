"""A Trainer override's loader is prepared where the override returns it, and only where that is the whole repair."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options, SiteReport
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

HEAD = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, IterableDataset\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "from transformers import Trainer\n"
    "\n"
    "\n"
)
CLASS = "class T(Trainer):\n"


def plan(text: str) -> Plan:
    found = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def report(text: str) -> SiteReport:
    (found,) = plan(text).reports
    return found


def after(text: str) -> str:
    edits = [e for c in plan(text).changes for e in c.edits]
    return apply(text, list(dict.fromkeys(edits)), path="train.py").text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(
            CLASS + "    def get_train_dataloader(self):\n"
            "        return DataLoader(self.train_dataset.shard(self.args.world_size, self.args.process_index))\n",
            "SHD917",
            id="shard",
        ),
        pytest.param(
            CLASS + "    def get_train_dataloader(self):\n"
            "        ds = split_dataset_by_node(self.train_dataset, self.args.process_index, self.args.world_size)\n"
            "        return DataLoader(ds, shuffle=True)\n",
            "SHD917",
            id="split_dataset_by_node",
        ),
        pytest.param(
            "class S(IterableDataset):\n"
            "    def __iter__(self):\n"
            "        for i in range(100):\n"
            "            if i % dist.get_world_size() == dist.get_rank():\n"
            "                yield i\n" + CLASS + "    def get_train_dataloader(self):\n"
            "        return DataLoader(S())\n",
            "SHD908",
            id="a stream that splits itself",
        ),
    ],
)
def test_data_that_is_split_by_rank_is_not_prepared(text: str, code: str) -> None:
    found = report(HEAD + text)
    assert (found.verdict, [f.code for f in found.findings]) == ("refused", [code])


def test_a_helper_s_loader_is_prepared_in_the_override_so_that_others_still_read_it_whole() -> None:
    text = (
        HEAD + CLASS + "    def _make(self, ds):\n"
        "        return DataLoader(ds)\n"
        "    def get_train_dataloader(self):\n"
        "        return self._make(self.train_dataset)\n"
        "    def dump(self):\n"
        "        if self.is_world_process_zero():\n"
        "            for b in self._make(self.eval_dataset):\n"
        "                print(b)\n"
    )
    assert after(text) == text.replace(
        "return self._make(self.train_dataset)", "return self.accelerator.prepare(self._make(self.train_dataset))"
    )


def test_every_override_that_returns_a_helper_s_loader_prepares_it() -> None:
    text = (
        HEAD + CLASS + "    def _make(self, ds):\n"
        "        return DataLoader(ds)\n"
        "    def get_train_dataloader(self):\n"
        "        return self._make(self.train_dataset)\n"
        "    def get_eval_dataloader(self, ds=None):\n"
        "        loader = self._make(ds)\n"
        "        return loader\n"
    )
    assert after(text) == text.replace(
        "return self._make(self.train_dataset)", "return self.accelerator.prepare(self._make(self.train_dataset))"
    ).replace("return loader", "return self.accelerator.prepare(loader)")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "    def _make(self, ds):\n"
            "        return DataLoader(ds)\n"
            "    def get_train_dataloader(self):\n"
            "        return self.accelerator.prepare(self._make(self.train_dataset))\n"
            "    def get_eval_dataloader(self, ds=None):\n"
            "        return self._make(ds)\n",
            "the loader is prepared in line 11, and get_eval_dataloader in line 12 returns it plain",
            id="one override prepares it, another does not",
        ),
        pytest.param(
            "    def get_train_dataloader(self):\n"
            "        return DataLoader(self.train_dataset)\n"
            "    def once(self):\n"
            "        for b in self.accelerator.prepare(self.get_train_dataloader()):\n"
            "            print(b)\n",
            "the loader is prepared in line 11, and get_train_dataloader in line 8 returns it plain",
            id="who calls the override prepares it",
        ),
        pytest.param(
            "    def get_train_dataloader(self):\n"
            "        loader = DataLoader(self.train_dataset)\n"
            "        if self.args.wrap:\n"
            "            return Prefetch(loader)\n"
            "        return loader\n",
            "owner not shown: line 11 makes something else of it, which stays unprepared",
            id="wrapped on one path",
        ),
        pytest.param(
            "    def get_train_dataloader(self):\n"
            "        return DataLoader(self.train_dataset)\n"
            "    def main(self):\n"
            "        if self.is_world_process_zero():\n"
            "            for b in self.get_train_dataloader():\n"
            "                print(b)\n",
            "owner not shown: line 12 reads what the override returns on one process only, which would get a part",
            id="the main process reads what the override returns",
        ),
    ],
)
def test_where_preparing_is_not_the_whole_repair_nothing_is_edited(text: str, why: str) -> None:
    found = report(HEAD + CLASS + text)
    assert (found.verdict, found.why) == ("refused", why)


def test_a_return_that_also_gives_back_a_sharded_loader_is_not_prepared() -> None:
    found = plan(
        HEAD + CLASS + "    def get_train_dataloader(self):\n"
        "        loader = DataLoader(self.train_dataset)\n"
        "        if self.args.world_size > 1:\n"
        "            loader = DataLoader(self.train_dataset, sampler=DistributedSampler(self.train_dataset))\n"
        "        return loader\n"
    )
    assert [r.verdict for r in found.reports] == ["refused", "right"]
    assert found.changes == ()
