"""A function or method that the settings name hands its loaders to prepare(), however it is called."""

from __future__ import annotations

import pytest
from loaders import site

from shardfix.analysis.model import Options

OWN = "class Engine:\n    def wrap(self, loader):\n        return self.made(loader)\n"
NAMES = ("wrap", "Engine.wrap", "lib.wrap", "lib.Engine.wrap", "train.Engine.wrap", "rap", "Other.wrap")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("from lib import wrap\nloader = wrap(DataLoader(d))", "wrap lib.wrap", id="function"),
        pytest.param("import lib\nloader = lib.wrap(DataLoader(d))", "wrap lib.wrap", id="function of a module"),
        pytest.param("from lib import wrap\nmodel, loader = wrap(m, DataLoader(d))", "wrap lib.wrap", id="tuple"),
        pytest.param(
            f"{OWN}loader = Engine().wrap(DataLoader(d))",
            "wrap Engine.wrap train.Engine.wrap",
            id="method of an object",
        ),
        pytest.param(
            f"{OWN}class Mine(Engine):\n    def make(self):\n        return self.wrap(DataLoader(d))\n"
            "loader = Mine().make()",
            "wrap Engine.wrap train.Engine.wrap",
            id="method of a base class on self",
        ),
        pytest.param(
            "from lib import Engine\nengine = Engine()\nloader = engine.wrap(DataLoader(d))",
            "wrap lib.Engine.wrap",
            id="method of another project's class",
        ),
        pytest.param(
            "from lib import engine\nloader = engine.wrap(DataLoader(d))", "wrap", id="object that is not seen"
        ),
    ],
)
def test_which_names_hold(text: str, named: str) -> None:
    program = f"from torch.utils.data import DataLoader\n{text}\nfor batch in loader:\n    pass\n"
    owners = {name: site(program, options=Options(prepare_functions=(name,))).owner for name in NAMES}
    assert [name for name in NAMES if owners[name] == "accelerate"] == [n for n in NAMES if n in named.split()]
