"""What one rank made of its evaluation and another would read, or evaluate with, keeps the others out."""

from __future__ import annotations

import pytest
from alone_programs import EVALUATE, LOADER, script
from held_programs import ALONE, EPOCHS, HELD, SENT, trainer

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan

READ = "of which only the main process had it"
NONE = "        acc = None\n"
LIST = "        sent = [acc]\n"
OTHERS = "        else:\n            acc = None\n"


def plan(text: str) -> Plan:
    found = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off", unsafe=True))
    assert found.problems == ()
    return found


def main(body: str, evaluate: str = EVALUATE) -> str:
    return script(evaluate, LOADER + EPOCHS + body)


CLOSED = [
    pytest.param(
        trainer(
            "            if self.rank == 0:\n"
            "                self.acc = self.validate()\n"
            "                self.show(epoch)\n"
            "            if self.acc > 0.5:\n"
            "                train_step(self.model, 7)\n"
        ),
        "if self.acc > 0.5:",
        f"`self.acc` is read here by all ranks, {READ}",
        id="all ranks ask what the trainer keeps",
    ),
    pytest.param(
        trainer(
            "            if self.rank == 0:\n                self.validate()\n            self.show(epoch)\n",
            "self.acc = correct / total",
        ),
        "{self.acc:.6f}",
        f"`self.acc` is read here by all ranks, {READ}",
        id="all ranks show what the evaluation sets",
    ),
    pytest.param(
        trainer(
            "            if self.rank == 0:\n"
            "                self.history.append(self.validate())\n"
            "        print(len(self.history))\n"
        ),
        "print(len(self.history))",
        f"`self.history` is read here by all ranks, {READ}",
        id="all ranks show the list",
    ),
    pytest.param(
        main(NONE + ALONE + "        if acc is not None:\n            print('main')\n"),
        "if acc is not None:",
        f"`acc` is read here by all ranks, {READ}",
        id="None before it tells who evaluated",
    ),
    pytest.param(
        main(
            NONE
            + ALONE
            + LIST
            + "        if SIZE > 100:\n            dist.broadcast_object_list(sent, src=0)\n        print(sent[0])\n"
        ),
        "sent = [acc]",
        f"`acc` is read here by all ranks, {READ}",
        id="sent under another condition",
    ),
    pytest.param(
        main(NONE + ALONE + LIST + "        print(sent)\n" + SENT),
        "sent = [acc]",
        f"`acc` is read here by all ranks, {READ}",
        id="read before it is sent",
    ),
    pytest.param(
        main(NONE + ALONE + LIST + "        other = [rank]\n" + SENT.replace("sent, ", "other, ")),
        "sent = [acc]",
        f"`acc` is read here by all ranks, {READ}",
        id="another list is sent",
    ),
    pytest.param(
        main(ALONE + "        else:\n            acc = train_step(model, 7)\n"),
        "acc = train_step(model, 7)",
        "it is what the other ranks do while the main process evaluates",
        id="the others do something",
    ),
    pytest.param(
        main(ALONE.replace("rank == 0", "rank == 0 and epoch > 1") + OTHERS),
        "acc = None",
        "it is what the other ranks do, and the main process at other times",
        id="the other branch is the main process's too",
    ),
    pytest.param(
        script(
            EVALUATE.replace("(model, loader)", "(model, loader, least)").replace("return ", "return least + "),
            LOADER
            + "    least = 0.0\n"
            + EPOCHS
            + ALONE.replace("val_loader)", "val_loader, least)")
            + "            least = acc\n        else:\n            least = 0.0\n",
        ),
        "acc = evaluate(model, val_loader, least)",
        "`least` is another value on the other ranks",
        id="the others would evaluate with another value",
    ),
]


@pytest.mark.parametrize(("text", "where", "words"), CLOSED)
def test_the_line_that_reads_it_is_named(text: str, where: str, words: str) -> None:
    found = plan(text)
    told = " ".join(r.why for r in found.reports)
    line = next(i for i, written in enumerate(text.splitlines(), 1) if where in written)
    assert found.changes == ()
    assert f"line {line}: {words}" in told


OTHER = "class {name}:\n    def show(self, trainer):\n        print({read}.acc)\n\n{name}().show(None)\n"


@pytest.mark.parametrize(
    ("name", "read", "codes"),
    [
        ("Other", "self", [("SHD306",)]),
        ("Other", "trainer", []),
        ("Other(Trainer)", "self", []),
    ],
    ids=["of another class", "of what it is given", "of a class that derives from it"],
)
def test_a_trainers_result_is_read_by_its_own_class(name: str, read: str, codes: list[tuple[str, ...]]) -> None:
    keeps = next(p for p in HELD if p.name == "a trainer keeps the result for itself")
    before, main_, after = keeps.text.partition("\ndef main():")
    other = OTHER.format(name=name, read=read).replace("Other(Trainer)()", "Other(None, None, 1)")
    assert [c.codes for c in plan(before + other + main_ + after).changes] == codes


@pytest.mark.parametrize(("imports", "codes"), [("", [("SHD306",)]), ("import train\n", [])])
def test_another_program_of_the_project_reads_its_own(imports: str, codes: list[tuple[str, ...]]) -> None:
    text = next(p for p in HELD if p.name == "a trainer keeps the result for itself").text
    reads = imports + "def show(trainer):\n    print(trainer.acc)\n\nshow(None)\n"
    files = {"train.py": parse("train.py", text), "other.py": parse("other.py", reads)}
    found = make_plan(link(files), ("train.py",), Options(sanitizer="off", unsafe=True))
    assert [c.codes for c in found.changes] == codes


@pytest.mark.parametrize(
    ("made", "codes"),
    [("args.each * max(1, args.gpus)", [("SHD306",)]), ("correct / total", [])],
    ids=["of settings", "of the result"],
)
def test_a_setting_that_the_evaluation_makes_is_no_result(made: str, codes: list[tuple[str, ...]]) -> None:
    evaluate = EVALUATE.replace("    return", f"    args.batch = {made}\n    return")
    assert [c.codes for c in plan(main(ALONE + "        print(args.batch)\n", evaluate)).changes] == codes


@pytest.mark.parametrize("number", range(len(HELD)), ids=[p.name for p in HELD])
def test_the_others_come_in_where_nobody_else_reads_it(number: int) -> None:
    assert [c.codes for c in plan(HELD[number].text).changes] == [("SHD306",)]
