"""Real gloo ranks: right loaders are proven, each fault is refuted, a hang or a dead rank is a verdict."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shardfix.proof.model import Kind, Program, Recipe
from shardfix.proof.running.launch import Verifier, VerifierError, prove, torch_available

pytest.importorskip("torch")

NAMES = (
    "from_torch = torch.utils.data\n"
    "DataLoader = from_torch.DataLoader\n"
    "DistributedSampler = torch.utils.data.distributed.DistributedSampler\n"
    "data = DATASET('train')\n"
)
ACCELERATOR = "accelerator = Accelerator()\n"
OWN_SHARE = "num_replicas=accelerator.num_processes, rank=accelerator.process_index"
SET_EPOCH = "sampler.set_epoch(epoch)"


def loader(arguments: str, before: str = "") -> str:
    return f"{NAMES}{before}loader = DataLoader(data, batch_size=4, {arguments})"


def sampled(sampler: str, each_epoch: str = "", arguments: str = "") -> Program:
    return Program(
        f"{NAMES}sampler = {sampler}\nloader = DataLoader(data, batch_size=4, sampler=sampler{arguments})", each_epoch
    )


def prepared(arguments: str, before: str = "", accelerator: str = ACCELERATOR) -> Program:
    construction = f"DataLoader(data, batch_size=4, {arguments})"
    return Program(f"{NAMES}{accelerator}{before}loader = accelerator.prepare({construction})")


PLAIN = Program(loader("shuffle=True"))
ORDERED = Program(loader("shuffle=False"))
TRAIN = sampled("DistributedSampler(data)", SET_EPOCH)
FROZEN = sampled("DistributedSampler(data)")
EVAL = sampled("DistributedSampler(data, shuffle=False)")
TWICE = prepared("sampler=sampler", f"sampler = DistributedSampler(data, {OWN_SHARE})\n")
PREPARED = prepared("shuffle=True")


def recipe(
    site: str,
    before: Program | None,
    after: Program,
    expect: str = "",
    owner: str = "ddp",
    kind: Kind = "fault",
    **more: Any,
) -> Recipe:
    needs = "Accelerator" in after.build
    kind = kind if before is not None else "stands"
    return Recipe(site, owner, "train", kind, before, after, needs_accelerate=needs, expect=expect, **more)


GROUP_ONLY = "DistributedSampler(data, shuffle=False) if DISTRIBUTED else None"
EITHER = "from_torch.RandomSampler(data) if LOCAL_RANK == -1 else DistributedSampler(data)"
WEIGHTED = "from_torch.WeightedRandomSampler([1.0] * len(data), len(data))"
HALF = "half, _ = from_torch.random_split(data, [len(data) - 1, 1]{})\n"
SAME_HALF = HALF.format(", torch.Generator().manual_seed(0)")
OF_HALF = "sampler = DistributedSampler(half)\nloader = DataLoader(half, batch_size=4, sampler=sampler)"
CONFIGURED = "accelerator = Accelerator(dataloader_config=accelerate.DataLoaderConfiguration({}))\n"

RIGHT = [
    recipe("ddp train", PLAIN, TRAIN, "unsharded"),
    recipe("ddp eval", ORDERED, EVAL, "unsharded"),
    recipe("ddp, set_epoch inserted", FROZEN, TRAIN, "frozen-epoch"),
    recipe("ddp, eval no longer shuffled", FROZEN, EVAL, "shuffled-eval"),
    recipe("ddp, seed by rank", sampled("DistributedSampler(data, seed=RANK)", SET_EPOCH), TRAIN, "per-rank-seed"),
    recipe("ddp, raised", Program(loader("shuffle=True, sampler=DistributedSampler(data)")), TRAIN, "raises"),
    recipe("ddp, where there is a group", ORDERED, sampled(GROUP_ONLY), "unsharded", group="optional"),
    recipe(
        "ddp, RandomSampler if alone",
        sampled(EITHER),
        sampled(EITHER, f"{SET_EPOCH} if LOCAL_RANK != -1 else None"),
        "frozen-epoch",
        group="optional",
    ),
    recipe(
        "ddp, drop_last",
        Program(loader("shuffle=True, drop_last=True")),
        sampled("DistributedSampler(data)", SET_EPOCH, ", drop_last=True"),
        "unsharded",
    ),
    recipe(
        "ddp, subset",
        Program(loader("sampler=from_torch.SubsetRandomSampler(range(len(data) // 2))")),
        Program(f"{NAMES}half = from_torch.Subset(data, range(len(data) // 2))\n{OF_HALF}", SET_EPOCH),
        "unsharded",
    ),
    recipe("ddp, split alike on all ranks", None, Program(NAMES + SAME_HALF + OF_HALF, SET_EPOCH)),
    recipe(
        "ddp, batch of 32",
        Program(f"{NAMES}loader = DataLoader(data, 32, True)"),
        Program(
            f"{NAMES}sampler = DistributedSampler(data)\nloader = DataLoader(data, 32, sampler=sampler)", SET_EPOCH
        ),
        "unsharded",
    ),
    recipe(
        "ddp, either way",
        ORDERED,
        sampled("DistributedSampler(data, shuffle=False, seed=1 if UNKNOWN['odd'] else 0)"),
        "unsharded",
        unknown=("odd",),
    ),
    recipe("accelerate, sharded twice", TWICE, PREPARED, "sharded-twice", "accelerate"),
    recipe(
        "accelerate, RandomSampler",
        prepared("sampler=from_torch.RandomSampler(data)"),
        PREPARED,
        owner="accelerate",
        kind="redundant",
    ),
    recipe(
        "accelerate, SequentialSampler",
        prepared("sampler=from_torch.SequentialSampler(data)"),
        prepared(""),
        owner="accelerate",
        kind="redundant",
    ),
    recipe("accelerate, weighted", None, prepared(f"sampler={WEIGHTED}"), owner="accelerate"),
    recipe(
        "accelerate, six draws",
        None,
        prepared("sampler=from_torch.RandomSampler(data, replacement=True, num_samples=6)"),
        owner="accelerate",
    ),
    recipe(
        "accelerate, batches split",
        None,
        Program(
            f"{NAMES}{CONFIGURED.format('split_batches=True')}"
            "loader = accelerator.prepare(DataLoader(data, batch_size=6, shuffle=True))"
        ),
        owner="accelerate",
    ),
    recipe(
        "accelerate, batches dispatched",
        None,
        prepared("shuffle=True", accelerator=CONFIGURED.format("dispatch_batches=True")),
        owner="accelerate",
    ),
    recipe(
        "accelerate, drop_last",
        prepared("sampler=sampler, drop_last=True", f"sampler = DistributedSampler(data, {OWN_SHARE})\n"),
        prepared("shuffle=True, drop_last=True"),
        "sharded-twice",
        "accelerate",
    ),
    recipe(
        "single, SequentialSampler",
        sampled("from_torch.SequentialSampler(data)"),
        ORDERED,
        owner="single",
        kind="redundant",
    ),
]

OVERLAP = "2 ranks, 24 samples: ranks overlap, their seeds or epochs differ: sample "
WRONG = [
    (recipe("still unsharded", PLAIN, PLAIN, "unsharded"), "2 ranks, 24 samples: every rank reads all 24 samples"),
    (
        recipe("still sharded twice", TWICE, TWICE, "sharded-twice", "accelerate"),
        "2 ranks, 24 samples: sharded twice: 8 of 24 samples are never read; rank 0 reads [",
    ),
    (recipe("still frozen", FROZEN, FROZEN, "frozen-epoch"), "2 ranks, 24 samples: epoch 1 repeats epoch 0's order: "),
    (recipe("seed by rank", PLAIN, sampled("DistributedSampler(data, seed=RANK)", SET_EPOCH), "unsharded"), OVERLAP),
    (
        recipe("only rank 0 is told", None, sampled("DistributedSampler(data)", f"{SET_EPOCH} if RANK == 0 else 0")),
        OVERLAP,
    ),
    (recipe("split by each rank's own seed", None, Program(NAMES + HALF.format("") + OF_HALF, SET_EPOCH)), OVERLAP),
    (
        recipe(
            "tail dropped", ORDERED, sampled("DistributedSampler(data, shuffle=False, drop_last=True)"), "unsharded"
        ),
        "2 ranks, 25 samples: sample 24 is never read",
    ),
    (
        recipe(
            "drop_last added",
            ORDERED,
            sampled("DistributedSampler(data, shuffle=False)", "", ", drop_last=True"),
            "unsharded",
        ),
        "2 ranks, 25 samples: sample 24 is never read",
    ),
    (
        recipe("uneven steps", ORDERED, sampled("range(RANK, len(data), WORLD_SIZE)"), "unsharded"),
        "2 ranks, 25 samples: rank 1 makes 3 steps, rank 0 makes 4: the job would hang",
    ),
    (
        recipe(
            "batch size",
            ORDERED,
            Program(f"{NAMES}loader = DataLoader(data, 2, sampler=DistributedSampler(data, shuffle=False))"),
            "unsharded",
        ),
        "2 ranks, 24 samples: batch_size is 2, the original's 4",
    ),
    (
        recipe(
            "order lost",
            prepared("sampler=from_torch.SequentialSampler(data)"),
            PREPARED,
            owner="accelerate",
            kind="redundant",
        ),
        "2 ranks, 24 samples: rank 0 reads [",
    ),
    (
        recipe("shuffle lost", PLAIN, EVAL, "unsharded"),
        "2 ranks, 24 samples: rank 0 reads in ascending order; the original shuffles",
    ),
    (
        recipe("needs a group now", ORDERED, EVAL, "unsharded", group="optional"),
        "one process, 24 samples: rank 0 raises ValueError: Default process group has not been initialized",
    ),
    (
        recipe("raises now", ORDERED, Program(loader("shuffle=True, sampler=DistributedSampler(data)")), "unsharded"),
        "2 ranks, 24 samples: rank 0 raises ValueError: sampler option is mutually exclusive with shuffle",
    ),
    (
        recipe(
            "wrong one way",
            ORDERED,
            sampled("DistributedSampler(data, shuffle=False) if UNKNOWN['on'] else range(RANK, len(data), WORLD_SIZE)"),
            "unsharded",
            unknown=("on",),
        ),
        "2 ranks, 25 samples, on=False: rank 1 makes 3 steps, rank 0 makes 4: the job would hang",
    ),
    (recipe("weighted, not shared", None, sampled(WEIGHTED)), "2 ranks, 24 samples: every rank makes all 24 draws"),
]


def test_one_launch_proves_what_is_right_and_refutes_what_is_wrong() -> None:
    many = [
        recipe(f"copy {number}", None, Program(f"{EVAL.build}\nnumber = {number}"), owner="ddp")
        for number in range(100)
    ]
    wrong = [wrong for wrong, _ in WRONG]
    proofs = {proof.site: proof for proof in prove([*RIGHT, *wrong, *many])}
    assert {site: proof.reasons for site, proof in proofs.items() if proof.verdict != "proven"}.keys() == {
        recipe.site for recipe in wrong
    }
    for recipe_, reason in WRONG:
        proof = proofs[recipe_.site]
        assert proof.verdict == "refuted"
        assert proof.reasons[0].startswith(reason)
    assert proofs["ddp eval"].padded == 1
    assert proofs["accelerate, sharded twice"].padded == 7
    assert len(proofs) == len(RIGHT) + len(WRONG) + 100


def test_a_hang_and_a_dead_rank_are_verdicts_and_the_others_are_still_judged() -> None:
    waits = recipe("waits", None, Program(f"{loader('')}\nRANK == 1 and dist.barrier()"))
    endless = recipe("endless", None, Program("loader = iter(int, 1)"))
    dies = recipe("dies", ORDERED, Program(f"{loader('')}\nRANK == 1 and torch.os._exit(7)"), "unsharded")
    killed = recipe("killed", None, Program(f"{loader('')}\nRANK == 0 and torch.os.kill(torch.os.getpid(), 9)"))
    left_waiting = recipe("one raises", None, prepared("shuffle=True", "RANK == 0 and int('x')\n"), owner="accelerate")
    good = recipe("good", None, prepared("shuffle=True"), owner="accelerate")
    proofs = prove([waits, endless, dies, killed, left_waiting, good], timeout=240, patience=2)
    reasons = {proof.site: (proof.verdict, proof.reasons[0].partition("samples: ")[2][:61]) for proof in proofs}
    assert reasons == {
        "waits": ("refuted", "hangs: rank 1 stopped while the loader was built, in barrier "),
        "endless": ("unproven", "rank 0 raises RuntimeError: the loader does not end: 1096 bat"),
        "dies": ("refuted", "rank 1 died: the process left with exit code 7"),
        "killed": ("unproven", "rank 0 died: the process was ended by SIGKILL"),
        "one raises": ("unproven", "rank 0 raises ValueError: invalid literal for int() with base"),
        "good": ("proven", ""),
    }


def test_a_program_that_leaves_the_ranks_out_of_step_does_not_reach_the_next_one() -> None:
    sends = "dist.broadcast(torch.tensor([5]), 0, async_op=True) if RANK == 0 else int('x')"
    stray = recipe("stray", None, Program(f"{loader('')}\n{sends}"))
    receives = "start = torch.tensor([0])\nDISTRIBUTED and dist.broadcast(start, 0)\nhalf = data[int(start):]\n"
    next_one = recipe("next", None, Program(NAMES + receives + OF_HALF, SET_EPOCH))
    verdicts = {proof.site: proof.verdict for proof in prove([stray, next_one])}
    assert verdicts == {"stray": "unproven", "next": "proven"}


def test_a_verifier_is_asked_more_than_once_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Verifier() as verifier:
        assert [proof.verdict for proof in verifier.prove([recipe("a", None, EVAL)])] == ["proven"]
        assert [proof.verdict for proof in verifier.prove([recipe("b", None, FROZEN)])] == ["refuted"]
        assert verifier.prove([]) == []
        assert verifier.torch == torch_available()
    assert list(tmp_path.iterdir()) == []


def test_a_launch_that_takes_too_long_is_unproven() -> None:
    proof, other = prove([recipe("a", None, EVAL), recipe("b", None, EVAL)], timeout=0.05)
    assert (proof.verdict, other.verdict) == ("unproven", "unproven")
    assert proof.reasons == ("the run was stopped after 0.05 s before this loader's turn",)


def test_an_interpreter_without_torch_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    assert torch_available(str(bare)) is None
    with pytest.raises(VerifierError, match=r"can't import torch: ModuleNotFoundError.*--python"):
        prove([recipe("a", None, EVAL)], python=str(bare))
    with pytest.raises(VerifierError, match=r"can't start .*no-such-python: No such file or directory; name an "):
        prove([recipe("a", None, EVAL)], python=str(tmp_path / "no-such-python"))


def test_an_interpreter_that_breaks_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho the machine is on fire >&2\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(VerifierError, match=r"ended with exit code 3 before it was ready:\nthe machine is on fire"):
        prove([recipe("a", None, EVAL)], python=str(broken))


def test_without_accelerate_only_its_own_loaders_are_unproven(tmp_path: Path) -> None:
    (tmp_path / "accelerate.py").write_text("raise ImportError('no accelerate here')\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    own, other = prove([recipe("a", None, PREPARED, owner="accelerate"), recipe("b", None, EVAL)], python=str(python))
    assert (own.verdict, other.verdict) == ("unproven", "proven")
    assert own.reasons == (f"ImportError: no accelerate here ({sys.executable} -m pip install accelerate)",)


def test_a_program_has_no_way_to_open_print_or_import() -> None:
    programs = [Program(f"{loader('')}\n{statement}") for statement in ("open('x')", "print('x')", "import os")]
    proofs = prove([recipe(str(number), None, program) for number, program in enumerate(programs)])
    assert [proof.reasons[0] for proof in proofs] == [
        "2 ranks, 24 samples: rank 0 raises NameError: name 'open' is not defined",
        "2 ranks, 24 samples: rank 0 raises NameError: name 'print' is not defined",
        "2 ranks, 24 samples: rank 0 raises ImportError: a recipe imports nothing, not even os",
    ]


def test_a_program_that_cannot_be_compiled_is_unproven_and_the_next_one_is_judged() -> None:
    bad, good = prove([recipe("bad", None, Program("loader = (")), recipe("good", None, EVAL)])
    assert (bad.verdict, good.verdict) == ("unproven", "proven")
    assert bad.reasons[0].startswith("2 ranks, 24 samples: rank 0 raises SyntaxError: '(' was never closed")


def session_members(session: int) -> list[int]:
    """The live processes of a session, from /proc."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == session and state not in "ZX":
                members.append(int(entry.name))
    return members


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks the processes up in /proc")
@pytest.mark.parametrize(
    ("victim", "how"), [("tool", signal.SIGINT), ("tool", signal.SIGKILL), ("worker", signal.SIGKILL)]
)
def test_no_rank_and_no_file_outlives_the_tool_or_the_worker(victim: str, how: signal.Signals, tmp_path: Path) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(
        "from shardfix.proof.running.launch import Verifier\n"
        "from shardfix.proof.model import Program, Recipe\n"
        "hang = Program('dist.barrier() if RANK else torch.multiprocessing.Event().wait()')\n"
        "with Verifier(timeout=300) as verifier:\n"
        "    print(verifier._worker.pid, flush=True)\n"
        "    print(*verifier.prove([Recipe('a', 'ddp', 'train', 'stands', None, hang)])[0].reasons)\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, str(tool)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout is not None
        session = int(process.stdout.readline())
        deadline = time.monotonic() + 60
        while len(session_members(session)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(session_members(session)) >= 3  # the worker and its two ranks
        os.kill(process.pid if victim == "tool" else session, how)
        said = process.stdout.read()
        process.wait(30)
    while session_members(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session_members(session) == []
    assert list(temporary.iterdir()) == []
    expected = "the worker ended with exit code -9 (it said nothing) while this loader ran\n"
    assert said == (expected if victim == "worker" else "")


OWN_SAMPLER = """
import torch.distributed as dist
from torch.utils.data import Sampler

class Strided(Sampler):
    def __init__(self, data, fail=False):
        if fail:
            raise KeyError("no such shard")
        self.data = data

    def __iter__(self):
        world = dist.get_world_size() if dist.is_initialized() else 1
        rank = dist.get_rank() if dist.is_initialized() else 0
        n = len(self.data) - len(self.data) % world
        return iter(range(rank, n, world))

    def __len__(self):
        return len(range(len(self.data) // (dist.get_world_size() if dist.is_initialized() else 1)))
"""


def own(tmp_path: Path, build: str, prelude: str = "from own_samplers import Strided") -> Recipe:
    (tmp_path / "own_samplers.py").write_text(OWN_SAMPLER)
    (tmp_path / "broken.py").write_text("import sys\nprint(sys.argv)\nsys.exit('train something first')\n")
    return recipe(
        build, None, Program(f"{NAMES}{build}"), imports=(str(tmp_path),), prelude=prelude, expect="", group="optional"
    )


def test_what_is_trusted_may_import_and_nothing_else_may(tmp_path: Path) -> None:
    data = "loader = DataLoader(data, batch_size=4, sampler=Strided(data), drop_last=True)"
    mine = own(tmp_path, data)
    untrusted = recipe("untrusted", None, Program("import json\n" + mine.after.build))
    fails = own(tmp_path, data.replace("(data),", "(data, fail=True),"))
    leaves = own(tmp_path, "loader = 1", prelude="import broken")
    with Verifier(timeout=60) as verifier:
        seen = verifier.observe([mine])[0]
        assert not isinstance(seen, str)
        assert {(o.world, o.size, tuple(run.epochs[0] for run in o.ranks)) for o in seen if o.size == 24} == {
            (2, 24, tuple(tuple(tuple(range(r + b * 8, r + b * 8 + 8, 2)) for b in range(3)) for r in range(2))),
            (1, 24, (tuple(tuple(range(b * 4, b * 4 + 4)) for b in range(6)),)),
        }
        proofs = verifier.prove([untrusted, fails, leaves, recipe("right", PLAIN, TRAIN, "unsharded")])
    assert [(p.verdict, p.reasons[0]) for p in proofs[1:]] == [
        ("unproven", "the project's own code raised KeyError: 'no such shard' (own_samplers.py:8)"),
        ("unproven", "SystemExit: train something first (broken.py:3)"),
        ("proven", proofs[3].reasons[0] if proofs[3].reasons else ""),
    ]
    assert proofs[0].verdict == "unproven"
    assert "a recipe imports nothing" in proofs[0].reasons[0]
