"""A rank that ends without a failure, before or in an evaluation, leaves the others waiting; a failure ends all."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import os\nimport signal\nimport sys\nimport random\nimport typer\nimport torch\n"
    "import torch.distributed as dist\nfrom torch.utils.data import DataLoader\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\nodd = random.random() > 0.5\n"
    "def evaluate(model, loader):\n    model.eval()\n    n = 0\n    with torch.no_grad():\n"
    "        for x, y in loader:\n            n += (model(x).argmax(1) == y).sum().item()\n{0}    return n\n"
)
RUN = "evaluate(model, val_loader)\n"
MAIN = "def main():\n    if odd:\n        raise ValueError\n    evaluate(model, val_loader)\n"


def before(text: str) -> str:
    """A program with these lines before its evaluation."""
    return HEAD.format("") + text + RUN


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("raise SystemExit", id="SystemExit"),
        pytest.param("raise SystemExit(0)", id="SystemExit of nothing"),
        pytest.param("raise SystemExit(code)", id="SystemExit of a code that is not seen"),
        pytest.param("raise typer.Exit()", id="a library's"),
        pytest.param("sys.exit()", id="exit"),
        pytest.param("sys.exit(save(model))", id="exit with what a function gives"),
        pytest.param("os._exit(0)", id="at once"),
        pytest.param("os.execv(sys.executable, sys.argv)", id="begun anew"),
        pytest.param("dist.destroy_process_group()", id="out of the group"),
    ],
)
def test_an_end_that_nobody_hears_of(end: str) -> None:
    assert codes(before(f"if odd:\n    {end}\n")) == [["SHD904"]]
    assert codes(before(f"if args.dry:\n    {end}\n")) == [["SHD305"]]
    assert codes(before(f"def check():\n    if odd:\n        {end}\ncheck()\n")) == [["SHD904"]]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("raise SystemExit('no data')", id="SystemExit with a message"),
        pytest.param("raise SystemExit(-1)", id="SystemExit with a code"),
        pytest.param("sys.exit(f'no {x}')", id="exit with a message"),
        pytest.param("sys.exit('no %s' % x)", id="exit with a message that is filled in"),
        pytest.param("raise KeyError(x)", id="an error"),
        pytest.param("e = KeyError(x)\n    raise e", id="an error by a name"),
        pytest.param("assert x", id="an assertion"),
    ],
)
def test_a_failure_ends_all(end: str) -> None:
    (change,) = planned(before(f"if odd:\n    {end}\n")).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("odd or sys.exit()\n", id="behind or"),
        pytest.param("x = 1 if odd else sys.exit()\n", id="in a conditional"),
        pytest.param("if odd and sys.exit():\n    pass\n", id="in a condition"),
        pytest.param("with open(sys.exit() if odd else 'log') as f:\n    pass\n", id="in a context"),
        pytest.param("def end(x=odd or sys.exit()):\n    return x\n", id="in a default"),
        pytest.param("class End:\n    if odd:\n        sys.exit()\n", id="in a class"),
        pytest.param("assert odd, sys.exit()\n", id="in the message of an assertion"),
        pytest.param("from sys import exit as leave\nif odd:\n    leave()\n", id="imported by another name"),
        pytest.param("leave = sys.exit\nif odd:\n    leave()\n", id="another name"),
        pytest.param("leave = lambda: sys.exit()\nif odd:\n    leave()\n", id="a lambda"),
        pytest.param("def end():\n    sys.exit()\nif odd:\n    end()\n", id="a function, on a condition"),
        pytest.param(
            "def end():\n    if odd:\n        sys.exit()\ndef check():\n    end()\ncheck()\n",
            id="functions of functions",
        ),
        pytest.param(
            "def end():\n    if odd:\n        sys.exit()\nwith open('log') as f:\n    end()\n", id="within a statement"
        ),
        pytest.param(
            "for i in range(9):\n    if random.random() > 0.9:\n        break\nelse:\n    sys.exit()\n",
            id="behind no break",
        ),
        pytest.param("class Done(SystemExit):\n    pass\nif odd:\n    raise Done\n", id="an exit of the project"),
        pytest.param(
            "def late(*given):\n    sys.exit()\nsignal.signal(signal.SIGALRM, late)\nsignal.alarm(60)\n", id="a timer"
        ),
    ],
)
def test_an_end_by_a_way(text: str) -> None:
    assert codes(before(text)) == [["SHD904"]]


def test_an_end_that_all_ranks_come_to_alike() -> None:
    shows = "def usage():\n    print('usage')\n    sys.exit()\nif args.help:\n    usage()\n"
    assert codes(before(shows)) == [["SHD305"]]
    own = "class Bad(Exception):\n    pass\nif odd:\n    raise Bad\n"
    assert codes(before(own)) == [["SHD305"]]


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param("except ValueError:\n    pass\n", "SHD904", id="caught"),
        pytest.param("except Exception as e:\n    print(e)\n", "SHD904", id="caught with all others"),
        pytest.param("except ValueError:\n    sys.exit()\n", "SHD904", id="an exit without a code"),
        pytest.param("except ValueError:\n    sys.exit(1)\n", "SHD305", id="an exit with a code"),
        pytest.param("except KeyError:\n    pass\n", "SHD305", id="another"),
        pytest.param("except Exception:\n    raise\n", "SHD305", id="raised again"),
    ],
)
def test_a_failure_that_the_program_gets_over_at_its_end(handler: str, expected: str) -> None:
    assert codes(HEAD.format("") + MAIN + f"try:\n    main()\n{handler}") == [[expected]]


def test_an_import_that_may_fail_gets_over_nothing_else() -> None:
    optional = "try:\n    import apex\nexcept Exception:\n    apex = None\n"
    assert codes(optional + HEAD.format("") + MAIN + "main()\n") == [["SHD305"]]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param("sys.exit()", "SHD904", id="exit"),
        pytest.param("raise SystemExit", "SHD904", id="SystemExit"),
        pytest.param("raise ValueError", "SHD305", id="a failure"),
    ],
)
def test_an_end_in_the_middle_of_the_batches(end: str, expected: str) -> None:
    body = f"            if x.isnan().any():\n                {end}\n"
    assert codes(HEAD.format(body) + RUN) == [[expected]]
