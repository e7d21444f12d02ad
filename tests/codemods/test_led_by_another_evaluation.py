"""What all ranks are given by an evaluation that is put together may lead them to another one."""

from __future__ import annotations

import pytest
from plans import PATH, codes, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "from shardfix_evaluation import reduced\ndist.init_process_group()\n"
)
LOOP = (
    "def {name}(model):\n    loader = DataLoader(data, batch_size=4{more})\n    model.eval()\n    n = 0\n"
    "    with torch.no_grad():\n        for x, y in loader:\n            n += (model(x).argmax(1) == y).sum().item()\n"
    "{behind}    return n\n"
)
LEADS = "best = 0\nfor epoch in range(3):\n    n = accuracy(model)\n    if n > best:\n        best = n\n"
LEADS += "        more(model)\n"


def program(more: str = "", behind: str = "", leads: str = LEADS) -> str:
    """Two evaluations, of which the first one's result decides on the second."""
    first = LOOP.format(name="accuracy", more=more, behind=behind)
    return HEAD + first + LOOP.format(name="more", more="", behind="") + leads


def test_both_are_put_together() -> None:
    assert codes(program()) == [["SHD305"], ["SHD305"]]
    assert [c.tier for c in planned(program()).changes] == ["safe", "safe"]


def test_the_first_is_put_together_already() -> None:
    sampler = ", sampler=torch.utils.data.DistributedSampler(data, shuffle=False)"
    assert codes(program(sampler, "    n = reduced(n)\n"))[1] == ["SHD305"]


@pytest.mark.parametrize(
    ("more", "leads"),
    [
        pytest.param(", drop_last=True", LEADS, id="one that is not put together"),
        pytest.param("", LEADS.replace("n > best", "n > best + dist.get_rank()"), id="by the rank besides"),
        pytest.param("", LEADS.replace("n = accuracy(model)", "n = accuracy(model) + torch.rand(1)"), id="drawn"),
    ],
)
def test_a_result_of_one_rank_leads_to_nothing(more: str, leads: str) -> None:
    assert codes(program(more, leads=leads))[1] == ["SHD904"]


TEST = LOOP.replace("{name}", "test").format(more="", behind="")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("args = parse_args()\nif getattr(args, 'test'):\n    test(model)\n", "SHD305", id="a setting"),
        pytest.param("getattr(torch, 'test')\ntest(model)\n", "SHD305", id="a library"),
        pytest.param(
            "class D:\n    def get(self, k='test'):\n        return getattr(self, k)\nD().get()\ntest(model)\n",
            "SHD305",
            id="an object of another class",
        ),
        pytest.param("getattr(thing, 'test')\ntest(model)\n", "SHD904", id="what is not seen"),
    ],
)
def test_an_attribute_of_a_functions_name(text: str, expected: str) -> None:
    assert codes(HEAD + TEST + text) == [[expected]]


@pytest.mark.parametrize(("imports", "expected"), [("", ["SHD305"]), ("import train\n", ["SHD904"])])
def test_an_attribute_of_a_functions_name_in_another_program(imports: str, expected: list[str]) -> None:
    other = f"{imports}def of(pipe, name='test'):\n    return getattr(pipe, name)(model)\n"
    files = {PATH: parse(PATH, HEAD + TEST + "test(model)\n"), "other.py": parse("other.py", other)}
    user = "run.py"
    files[user] = parse(user, "import train\n")
    (report,) = make_plan(link(files), tuple(files), Options(sanitizer="off")).reports
    assert [*(c for change in report.changes for c in change.codes), *(f.code for f in report.findings)] == expected
    if not imports:
        assert report.findings == ()
    else:
        assert "other.py:3: whether every rank comes here is not seen" in report.why
