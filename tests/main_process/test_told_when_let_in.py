"""What is said of a change that lets all ranks into an evaluation, and the waits that it needs."""

from __future__ import annotations

import pytest
from alone_programs import EVALUATE, HEAD
from loading_programs import LOADING

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Change, Options
from shardfix.planning import make_plan
from shardfix.rewrite.edits import InsertStatements


def change(text: str) -> Change:
    """The change that lets all ranks in."""
    plan = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off", unsafe=True))
    found = [c for c in plan.changes if "SHD306" in c.codes]
    assert found, [report.why for report in plan.reports]
    return found[0]


def inserted(found: Change) -> list[str]:
    return [line.strip() for e in found.edits if isinstance(e, InsertStatements) for line in e.lines]


MAIN = """
def main():
    rank = start()
    model = make_model()
    val_loader = DataLoader(make_data(SIZE, 99), batch_size=4)
    train_step(model, 0)
    if rank == 0:
        print(evaluate(model, val_loader))

main()
"""


def test_a_seed_that_every_rank_sets_from_now_on() -> None:
    seeded = EVALUATE.replace("    model.eval()\n", "    torch.manual_seed(3)\n    model.eval()\n")
    text = HEAD + seeded + MAIN
    line = text.splitlines().index("    torch.manual_seed(3)") + 1
    why = f"every rank now sets the seed of line {line}: in training they draw the same numbers afterwards"
    assert why in change(text).consequences
    assert not [c for c in change(HEAD + EVALUATE + MAIN).consequences if "seed" in c]


def test_what_all_ranks_load_and_who_goes_first() -> None:
    told = change(LOADING[0].text).consequences
    assert any(", once all are here: all of them must see the same files" in line for line in told)
    assert any("the main process goes first, and the others read the file it wrote" in line for line in told)


def test_a_result_that_stays_one_ranks_own() -> None:
    assert any("stays one rank's own: the others get None" in line for line in change(LOADING[1].text).consequences)


@pytest.mark.parametrize(("further", "waits"), [(" and not evaluate", 2), ("", 0)], ids=["not here", "here too"])
def test_a_cache_that_has_waits_of_its_own(further: str, waits: int) -> None:
    text = LOADING[0].text.replace(" and not evaluate:", f"{further}:")
    assert inserted(change(text)).count("dist.barrier()") == waits
