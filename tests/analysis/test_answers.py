"""What the user answers about a loader holds where the source does not show it, nearest answer first."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from loaders import module, project, site

from shardfix.analysis.answers import lines_of
from shardfix.analysis.model import Evidence, Location, Options, Setting, Target
from shardfix.analysis.refusals import REFUSALS, REPORTS, settled_by
from shardfix.planning import Plan, make_plan
from shardfix.proof.recipes.recipe import Sliced, program

PREPARED = """\
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator()
loader = accelerator.prepare(DataLoader(d, shuffle=True)){}
for batch in loader:
    pass
"""
FACTORY = """\
from torch.utils.data import DataLoader
class Data:{}
    def make(self, d):{}
        return DataLoader({}
            d,
        )
"""
DDP = """\
import torch.distributed as dist
from torch.utils.data import DataLoader
dist.init_process_group("gloo")
"""


def settings(**words: str) -> tuple[Setting, ...]:
    """Settings by name, with ``__`` for a dot."""
    return tuple(
        Setting(name.replace("__", "."), word, Evidence(Location("pyproject.toml", line, 1), "line"))
        for line, (name, word) in enumerate(words.items(), 1)
    )


def owner(files: str | dict[str, str], path: str = "train.py", **words: str) -> str:
    return site(files, path, Options(owners=settings(**words))).owner


def plan(text: str, target: Target = "auto") -> Plan:
    return make_plan(project({"train.py": text}), ("train.py",), Options(sanitizer="off", target=target))


def outcome(text: str, target: Target = "auto") -> tuple[str, list[str], list[str]]:
    """Verdict, codes and notes of the one loader."""
    made = plan(dedent(text), target)
    (report,) = made.reports
    codes = [c for change in report.changes for c in (*change.codes, change.tier)]
    return report.verdict, [*codes, *(f.code for f in report.findings)], [n.message for n in made.notes]


def test_a_comment_on_any_line_of_the_statement_counts() -> None:
    text = FACTORY.format("", "", "").replace("            d,", "            d,  # shardfix: owner=accelerate")
    found = site(text)
    assert (found.owner, found.owner_evidence) == (
        "accelerate",
        (Evidence(Location("train.py", 5, 17), "# shardfix: owner=accelerate"),),
    )


def test_the_lines_of_a_loop_s_header_are_not_those_of_its_body() -> None:
    found = module("for b in f(\n    1\n):\n    pass\n")
    (call,) = (n for n in ast.walk(found.tree) if isinstance(n, ast.Call))
    assert list(lines_of(found, call)) == [1, 2, 3]


def test_the_nearest_comment_holds() -> None:
    outer, middle, inner = ("  # shardfix: owner=ddp", "  # shardfix: owner=accelerate", "  # shardfix: owner=single")
    assert site(FACTORY.format(outer, middle, inner)).owner == "single"
    assert site(FACTORY.format(outer, middle, "")).owner == "accelerate"
    assert site(FACTORY.format(outer, "", "")).owner == "ddp"


def test_a_comment_comes_before_a_setting() -> None:
    assert owner(FACTORY.format("  # shardfix: owner=ddp", "", ""), train__Data__make="accelerate") == "ddp"


@pytest.mark.parametrize(
    "name",
    ["pkg.data.Data.make", "pkg.data.Data", "pkg.data", "pkg", "data", "Data.make", "make", "pkg/*.py", "*/data.py"],
)
def test_a_setting_names_function_class_module_package_or_files(name: str) -> None:
    files = {"src/pkg/data.py": FACTORY.format("", "", "")}
    asked = Options(owners=(Setting(name, "accelerate", Evidence(Location("pyproject.toml", 2, 1), "")),))
    expected = "single" if name == "pkg/*.py" else "accelerate"  # a pattern is of the whole path
    assert site(files, "src/pkg/data.py", asked).owner == expected


def test_the_most_specific_setting_holds_whatever_the_order() -> None:
    files = {"pkg/data.py": FACTORY.format("", "", "")}
    words = {"pkg__data__Data__make": "accelerate", "pkg__data__Data": "ddp", "pkg": "single", "pkg/data.py": "ray"}
    while words:
        expected = next(iter(words.values()))
        assert owner(files, "pkg/data.py", **words) == expected
        assert owner(files, "pkg/data.py", **dict(reversed(words.items()))) == expected
        del words[next(iter(words))]


def test_a_name_is_taken_whole() -> None:
    files = {"pkg/data.py": FACTORY.format("", "", "")}
    assert owner(files, "pkg/data.py", **{"pkg.dat": "ddp", "g.data": "ddp", "makes": "ddp"}) == "single"


def test_what_the_loader_s_own_way_shows_is_not_answered_away() -> None:
    found = site(PREPARED.format("  # shardfix: owner=ddp"))
    assert (found.owner, found.ownership.missing) == (
        "unknown",
        "the comment in line 4 says ddp, and line 4 shows accelerate: one is wrong",
    )
    assert owner(PREPARED.format(""), train="ddp") == "accelerate"  # a setting is about the others


def test_who_answers_ddp_under_an_accelerator_gets_its_numbers() -> None:
    text = """\
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    accelerator = Accelerator()
    def make(d):
        return DataLoader(d)  # shardfix: owner=ddp
    """
    found = site(text)
    assert (found.owner, found.ownership.via_accelerate) == ("ddp", True)


def test_a_loader_that_shards_itself_is_left_and_counted_as_kept() -> None:
    text = DDP + "loader = Loader(d){}\nfor batch in loader:\n    loss.backward()\n"
    text = text.replace('"gloo")\n', '"gloo")\nclass Loader(DataLoader):\n    def __iter__(self): ...\n')
    assert outcome(text.format(""))[:2] == ("refused", ["SHD919"])
    assert outcome(text.format("  # shardfix: owner=self")) == ("kept", [], [])


def test_a_comment_says_what_the_loader_is_for_and_a_setting_where_nothing_shows_it() -> None:
    text = "from torch.utils.data import DataLoader\ndef make(d):\n    {} = DataLoader(d){}\n"
    assert site(text.format("x", "  # shardfix: role=eval")).role == "eval"
    assert site(text.format("train_loader", "  # shardfix: role=eval")).role == "eval"
    asked = Options(roles=settings(make="eval"))
    assert site(text.format("x", ""), options=asked).role == "eval"
    assert site(text.format("train_loader", ""), options=asked).role == "train"


FROZEN = DDP + (
    "from torch.utils.data.distributed import DistributedSampler\n"
    "from engine import fit\n"
    "train_loader = DataLoader(d, sampler=DistributedSampler(d)){}\n"
    "fit(train_loader)\n"
)


def test_an_epoch_that_is_told_elsewhere() -> None:
    assert outcome(FROZEN.format(""))[:2] == ("refused", ["SHD909"])
    assert outcome(FROZEN.format("  # shardfix: epoch=told")) == ("kept", [], [])
    told = plan(FROZEN.format("  # shardfix: epoch=told")).reports[0]
    assert told.why == "its sampler is told the epoch, as line 6 says"


UNSHARDED = DDP + "from engine import fit\ntrain_loader = DataLoader(train_set, shuffle=True){}\nfit(train_loader)\n"


def test_who_says_that_the_epoch_is_told_gets_the_sampler_without_a_call() -> None:
    assert outcome(UNSHARDED.format(""))[:2] == ("refused", ["SHD909"])
    (change,) = plan(UNSHARDED.format("  # shardfix: epoch=told")).changes
    assert (change.codes, change.tier) == (("SHD301",), "safe")
    assert "set_epoch" not in str(change.edits)


EVALUATED = DDP + (
    "from engine import reduce_all\n"
    "val_loader = DataLoader(val_set){}\n"
    "def evaluate():\n"
    "    hits = 0\n"
    "    for batch in val_loader:\n"
    "        hits += int(model(batch))\n"
    "    return reduce_all(hits)\n"
)


def test_a_metric_that_is_reduced_elsewhere() -> None:
    assert outcome(EVALUATED.format(""))[:2] == ("refused", ["SHD904"])
    assert outcome(EVALUATED.format("  # shardfix: metric=reduced")) == ("refused", ["SHD906"], [])
    assert outcome(EVALUATED.format("  # shardfix: metric=exact")) == ("edit", ["SHD302", "safe"], [])


SHARDED = EVALUATED.replace(
    "DataLoader(val_set)", "DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False))"
).replace("from engine", "from torch.utils.data.distributed import DistributedSampler\nfrom engine")
UNREDUCED = SHARDED.replace("reduce_all(hits)", "hits")


def test_a_metric_of_a_sharded_evaluation() -> None:
    assert outcome(SHARDED.format(""))[1] == ["SHD923"]  # what engine's function does is not seen
    assert outcome(UNREDUCED.format(""))[1] == ["SHD503"]
    assert outcome(SHARDED.format("  # shardfix: metric=reduced"))[1:] == (["SHD502"], [])
    assert outcome(SHARDED.format("  # shardfix: metric=exact"))[1:] == ([], [])


PREPARED_EVALUATION = (
    "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\naccelerator = Accelerator()\n"
    "val_loader = accelerator.prepare(DataLoader(val_set)){}\ntotal = 0\nmodel.eval()\n"
    "for batch in val_loader:\n    total += model(batch).item()\nprint(total)\n"
)
SAMPLER = "from torch.utils.data.distributed import DistributedSampler\n"
LOOP = "for epoch in range(2):\n    for batch in train_loader:\n        loss.backward()\n"
NEXT = "batches = iter(train_loader)\nfor step in range(9):\n    next(batches)\n"
FROZEN_LOADER = "train_loader = DataLoader(d, sampler=DistributedSampler(d)){}\n"
# One program for each refusal that a comment settles, the comment's place left open.
REFUSED = {
    "SHD901": "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\na = Accelerator()\n"
    "def make(d):\n    return DataLoader(d){}\n",
    "SHD902": DDP + "from engine import sampler\ntrain_loader = DataLoader(d, sampler=sampler){}\n" + LOOP,
    "SHD903": DDP + "from engine import options\ntrain_loader = DataLoader(d, **options){}\n" + LOOP,
    "SHD904": EVALUATED,
    "SHD906": EVALUATED.replace("from engine import reduce_all\n", "").replace("reduce_all(", "dist.all_reduce("),
    "SHD908": "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, IterableDataset\n"
    "from transformers import Trainer\nclass D(IterableDataset):\n    def __iter__(self):\n"
    "        yield from range(dist.get_rank(), 9, dist.get_world_size())\nclass T(Trainer):\n"
    "    def get_train_dataloader(self):\n        return DataLoader(D()){}\n",
    "SHD711": DDP + "from torch.utils.data import IterableDataset\nclass D(IterableDataset):\n    pass\n"
    "train_loader = DataLoader(D()){}\n" + LOOP,
    "SHD502": SHARDED.replace("from engine import reduce_all\n", "").replace("reduce_all(", "dist.all_reduce("),
    "SHD503": UNREDUCED,
    "SHD504": PREPARED_EVALUATION,
    "SHD909": FROZEN,
    "SHD910": DDP + SAMPLER + FROZEN_LOADER + "for i in range(3):\n    for j in range(2):\n"
    "        for batch in train_loader:\n            pass\n",
    "SHD911": DDP + SAMPLER + FROZEN_LOADER + NEXT,
    "SHD915": DDP + "from torch.utils.data import WeightedRandomSampler\n"
    "train_loader = DataLoader(d, sampler=WeightedRandomSampler(w, 9)){}\n" + LOOP,
    "SHD916": DDP + "loader = DataLoader(d){}\nfor batch in loader:\n    print(batch)\n",
    "SHD917": DDP + "train_set = load().shard(dist.get_world_size(), dist.get_rank())\n"
    "train_loader = DataLoader(train_set, shuffle=True){}\n" + LOOP,
    "SHD919": DDP + "class Loader(DataLoader):\n    def __iter__(self): ...\ntrain_loader = Loader(d){}\n" + LOOP,
    "SHD920": DDP + SAMPLER + FROZEN_LOADER + "from engine import other\nother.set_epoch(1)\n" + LOOP,
    "SHD923": DDP + "from engine import evaluate\nval_loader = DataLoader(val_set){}\nevaluate(val_loader)\n",
    "SHD924": DDP + SAMPLER + "def run():\n    " + FROZEN_LOADER + "    for batch in train_loader:\n"
    "        loss.backward()\nfor epoch in range(2):\n    run()\n",
    "SHD934": "from torch.utils.data import DataLoader\ntrain_loader = DataLoader(d){}\n" + LOOP,
    "SHD931": DDP + "if dist.get_rank() < 2:\n    train_loader = DataLoader(d, shuffle=True){}\n"
    "    for epoch in range(2):\n        for batch in train_loader:\n            loss.backward()\n",
}

TARGETS: dict[str, Target] = {"SHD934": "accelerate"}


@pytest.mark.parametrize("code", [*(code for code, refusal in REFUSALS.items() if refusal.settled_by), *REPORTS])
def test_every_answer_settles_the_refusals_that_it_is_said_to(code: str) -> None:
    text, target = REFUSED[code], TARGETS.get(code, "auto")
    assert code in outcome(text.format(""), target)[1]
    for answer in settled_by(code):
        _, codes, notes = outcome(text.format(f"  # shardfix: {answer}"), target)
        assert (code in codes, notes) == (False, []), answer


UNSEEN = DDP + "from engine import evaluate\nval_loader = DataLoader(val_set){}\nevaluate(val_loader)\n"


def test_a_metric_of_a_loop_that_is_not_seen() -> None:
    assert outcome(UNSEEN.format(""))[:2] == ("refused", ["SHD923"])
    assert outcome(UNSEEN.format("  # shardfix: metric=reduced")) == ("refused", ["SHD906"], [])
    assert outcome(UNSEEN.format("  # shardfix: metric=exact")) == ("edit", ["SHD302", "safe"], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "x = 1  # shardfix: role=eval\n",
            "`# shardfix: role=eval` settles nothing: no loader is built here, or another answer stands nearer",
            id="no loader",
        ),
        pytest.param(
            PREPARED.format("  # shardfix: owner=accelerate"),
            "`# shardfix: owner=accelerate` settles nothing: the source shows accelerate already",
            id="shown",
        ),
        pytest.param(
            PREPARED.format("  # shardfix: epoch=told"),
            "`# shardfix: epoch=told` settles nothing: nothing that is said of this loader depends on it",
            id="not asked",
        ),
    ],
)
def test_a_comment_that_settles_nothing_is_told(text: str, why: str) -> None:
    (note,) = plan(text).notes
    assert (note.code, note.message) == ("SHD929", why)


def test_a_setting_that_names_nothing_is_told_whatever_files_are_asked_about() -> None:
    files = {"pkg/data.py": FACTORY.format("", "", ""), "pkg/other.py": "x = 1\n"}
    asked = Options(owners=settings(**{"pkg.data.mak": "ddp", "Data.make": "ddp"}), sanitizer="off")
    for paths in (("pkg/data.py",), ("pkg/other.py",)):
        (note,) = make_plan(project(files), paths, asked).notes
        assert (note.code, str(note.location), note.message) == (
            "SHD929",
            "pyproject.toml:1:1",
            "'pkg.data.mak' in the settings names nothing that builds a loader",
        )


@pytest.mark.parametrize("code", ["SHD901", "SHD916", "SHD919"])
def test_a_refusal_that_comes_last_can_be_kept_too(code: str) -> None:
    made = plan(REFUSED[code].format(f"  # shardfix: keep[{code}] seen to"))
    assert [(r.verdict, r.why) for r in made.reports] == [("kept", "seen to")]
    assert [s.used for s in made.suppressions] == [True]


def test_a_proof_takes_the_user_s_word_for_prepare_and_says_so() -> None:
    made = program(site(FACTORY.format("", "  # shardfix: owner=accelerate", "")))
    assert isinstance(made, Sliced)
    assert made.program.build.endswith("loader = accelerator.prepare(loader)")
    assert [(s.expression, s.value) for s in made.stand_ins] == [
        ("d", "a dataset of its own indices"),
        ("Accelerator.prepare()", "gets the loader, as line 3 says"),
    ]


def test_an_answer_is_not_idle_once_its_edit_is_made() -> None:
    text = UNSEEN.replace("(val_set)", "(val_set, sampler=DistributedSampler(val_set, shuffle=False))")
    assert outcome(SAMPLER + text.format("  # shardfix: metric=exact")) == ("right", [], [])
