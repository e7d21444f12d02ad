"""`shardfix verify` answers the checklist of few loaders by itself, of many when it is asked to."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import RIGHT, project, shardfix

TEN_MORE = (
    "from torch.utils.data import DataLoader\n" + "for batch in DataLoader([1, 2], batch_size=2): print(batch)\n" * 10
)


def test_the_checklist_stands_under_a_loader_and_can_be_left_out(tmp_path: Path) -> None:
    place = project(tmp_path, train=RIGHT)
    shown = shardfix("verify", cwd=place).stdout.decode()
    assert "    split by      accelerate  (shard: each rank reads its own batches)\n" in shown
    assert "    batch         2 on one process, 2 x N on N\n" in shown
    assert "split by" not in shardfix("verify", "--no-checklist", cwd=place).stdout.decode()


def test_of_more_than_ten_loaders_it_is_shown_when_asked_for_and_json_always_has_it(tmp_path: Path) -> None:
    place = project(tmp_path, train=RIGHT, many=TEN_MORE)
    shown = shardfix("verify", cwd=place).stdout.decode()
    assert "split by" not in shown
    assert "`--checklist` answers the checklist for each of them." in shown
    data = json.loads(shardfix("verify", "--format", "json", cwd=place).stdout)
    assert [len(site["checklist"]) for site in data["sites"]] == [7] * 11
