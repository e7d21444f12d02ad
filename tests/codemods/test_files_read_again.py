"""Behind an evaluation that all ranks end together, a file that each of them writes is not read before all have."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

HEAD = """\
import json
import os
import torch
import torch.distributed as dist
from pathlib import Path
from torch.utils.data import DataLoader

dist.init_process_group("gloo")
rank = dist.get_rank()
val_loader = DataLoader(val_set, batch_size=4)


def dump(rows, where):
    with open(where, "w") as file:
        file.writelines(rows)


def shown(where):
    print("see", where)


@torch.no_grad()
def validate(model, loader, out_dir):
    model.eval()
    preds = []
    for x, y in loader:
        preds.extend(model(x).argmax(1).tolist())
"""
WRITE = "    with open(os.path.join(out_dir, 'gold.txt'), 'w') as f:\n        f.writelines(map(str, preds))\n"
END = "\n\nvalidate(model, val_loader, 'out')\n"


def behind(rest: str) -> str:
    """What the function holds behind its loop once it is migrated."""
    return edited(HEAD + rest + END, Options(sanitizer="off", unsafe=True)).split("in_order(preds, loader)\n")[1]


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(WRITE, "    return score(preds, os.path.join(out_dir, 'gold.txt'))\n", id="given to a function"),
        pytest.param(WRITE, "    return open(os.path.join(out_dir, 'gold.txt')).read()\n", id="opened"),
        pytest.param(WRITE, "    os.system(f'score {out_dir}/' + 'gold.txt')\n", id="given to another program"),
        pytest.param(
            "    gold = os.path.join(out_dir, 'gold.txt')\n    dump(preds, gold)\n",
            "    return score(preds, os.path.join(out_dir, 'gold.txt'))\n",
            id="written by a function",
        ),
        pytest.param(
            "    Path(out_dir, 'gold.json').write_text(json.dumps(preds))\n",
            "    return json.loads(Path(out_dir, 'gold.json').read_text())\n",
            id="as a Path",
        ),
        pytest.param(
            "    where = f'{out_dir}/gold_{len(preds)}.txt'\n    open(where, mode='w').write(str(preds))\n",
            "    return score(where)\n",
            id="by its name",
        ),
        pytest.param(
            "    if rank == 0:\n    " + WRITE.replace("\n ", "\n     "),
            "    return score(preds, os.path.join(out_dir, 'gold.txt'))\n",
            id="written by one rank",
        ),
    ],
)
def test_all_ranks_wait_between_writing_a_file_and_reading_it(write: str, read: str) -> None:
    assert behind(write + read) == f"{write}    all_here()\n{read}{END}"


def test_the_change_says_why_it_waits() -> None:
    (change,) = planned(HEAD + WRITE + "    return score(os.path.join(out_dir, 'gold.txt'))\n" + END).changes
    assert change.tier == "safe"
    assert any(line.startswith("all_here() makes every rank wait") for line in change.consequences)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(WRITE + "    return len(preds)\n", id="never read"),
        pytest.param(
            WRITE + "    if dist.is_initialized():\n        dist.barrier()\n"
            "    return score(preds, os.path.join(out_dir, 'gold.txt'))\n",
            id="waited for already",
        ),
        pytest.param(WRITE + "    return score(preds, os.path.join(out_dir, 'other.txt'))\n", id="another file"),
        pytest.param(WRITE + "    shown(os.path.join(out_dir, 'gold'))\n", id="part of its name"),
        pytest.param(WRITE + "    print(os.path.join(out_dir, 'gold.txt'))\n", id="told only"),
        pytest.param(
            "    gold = open(os.path.join(out_dir, 'gold.txt')).read()\n" + WRITE + "    return gold\n",
            id="read before",
        ),
        pytest.param(
            "    if rank == 0:\n    "
            + WRITE.replace("\n ", "\n     ")
            + "        print(score(os.path.join(out_dir, 'gold.txt')))\n",
            id="one rank's own",
        ),
    ],
)
def test_nothing_waits_where_nothing_is_read_that_others_write(rest: str) -> None:
    assert behind(rest) == rest + END
    assert [change.tier for change in planned(HEAD + rest + END).changes] == ["safe"]


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(
            "    if out_dir:\n    "
            + WRITE.replace("\n ", "\n     ")
            + "        return score(os.path.join(out_dir, 'gold.txt'))\n",
            id="under one condition",
        ),
        pytest.param(
            "    if not out_dir:\n        return None\n"
            + WRITE
            + "    return score(os.path.join(out_dir, 'gold.txt'))\n",
            id="behind a way out",
        ),
    ],
)
def test_where_not_all_can_wait_the_change_is_unsafe_and_names_the_lines(rest: str) -> None:
    assert codes(HEAD + rest + END) == [["SHD904"]]
    (change,) = planned(HEAD + rest + END, Options(sanitizer="off", unsafe=True)).changes
    assert change.tier == "unsafe"
    assert "each rank writes `os.path.join(out_dir, 'gold.txt')`, which line " in change.reason
    assert "may read while another writes it" in change.reason


SHARDED = """\
import io
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))
model.eval()
{opens}
    for x, y in val_loader:
        for row in model(x):
            parts = []
            parts.append(row.tolist())
            out.write(str(parts))
"""


@pytest.mark.parametrize(
    ("opens", "told"),
    [
        pytest.param("with open(args.out, 'w') as out:", True, id="one file"),
        pytest.param("with open('preds', 'w') as f:\n    out = Rows(f)", False, id="out of sight"),
        pytest.param("out = io.TextIOWrapper(open(args.out, 'wb'))\nif True:", True, id="through a writer"),
        pytest.param("with open(f'{args.out}.{rank}', 'w') as out:", False, id="a file of each rank"),
        pytest.param("with open(args.out) as out:", False, id="a file that is read"),
    ],
)
def test_rows_of_all_ranks_in_one_file_are_told_of_with_what_to_do(opens: str, told: bool) -> None:
    (report,) = planned(SHARDED.format(opens=opens)).reports
    (finding,) = report.findings
    assert finding.code == "SHD503"
    lost = "which every rank opens for itself: sharded, what one writes of its samples is lost under another's"
    assert (finding.message.endswith(f"`out.write` writes to `args.out`, {lost}")) == told
    assert finding.remedy.startswith("give each rank a file of its own" if told else "reduce the sums and counts")
